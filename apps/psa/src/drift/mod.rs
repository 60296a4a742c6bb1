//! Drift of charges: their velocities in germanium, and their paths to the contacts.

mod electrons;
mod holes;
mod law;
mod path;
mod table;
mod trapping;

use crate::body::Vec3;
pub use law::Law;
pub use path::{Drift, Pulse};
pub use table::{Table, Temperature};
pub use trapping::Trapping;

/// Drift velocities in germanium.
///
/// Along `<100>` and `<111>` axes, each speed follows a law ([`Law`]; Bruyneel, Reiter, Pascovici,
/// NIM A 569 (2006) 764) or a [`Table`]. In other directions, electrons follow the model of four
/// valleys (Mihailescu et al., NIM A 447 (2000) 350), holes the interpolation of Bruyneel et al.
#[derive(Clone, Debug, PartialEq)]
pub struct Mobility {
    electrons: electrons::Electrons,
    holes: holes::Holes,
    /// Cosine and sine of the angle from x to the lattice axis.
    turn: [f64; 2],
}

/// A charge carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Electron, of negative charge.
    Electron,
    /// Hole, of positive charge.
    Hole,
}

/// Speed of carriers along an axis of the lattice, at one temperature.
#[derive(Clone, Debug, PartialEq)]
enum Speed {
    Law(Law),
    /// Pairs of field (V/cm) and speed (mm/ns).
    Points(Vec<[f64; 2]>),
}

impl Speed {
    /// Returns the speed (mm/ns) in a field (V/cm).
    fn at(&self, field: f64) -> f64 {
        match self {
            Speed::Law(law) => law.speed(field),
            Speed::Points(points) => table::interpolated(points, field),
        }
    }
}

/// One V/mm in V/cm.
const PER_CM: f64 = 10.0;

impl Mobility {
    /// Creates the mobility at a temperature (K), with a `<100>` axis at this angle (degrees) from
    /// x and another one along z.
    pub fn new(temperature: f64, axis_angle: f64) -> Self {
        let (sin, cos) = axis_angle.to_radians().sin_cos();
        Mobility {
            electrons: electrons::Electrons::at(temperature),
            holes: holes::Holes::at(temperature),
            turn: [cos, sin],
        }
    }

    /// Creates the mobility at a temperature (K) with the speeds of a table, which must pass
    /// [`Table::check`]. The lattice is oriented as in [`new`](Mobility::new).
    pub fn of_table(table: &Table, temperature: f64, axis_angle: f64) -> Self {
        let speed = |speeds: &[f64], law| Speed::Points(table.points(speeds, law, temperature));
        let Table { electrons_100, electrons_111, holes_100, holes_111, .. } = table;
        let [electrons, holes] = [table.electrons_temperature, table.holes_temperature];
        Mobility {
            electrons: electrons::Electrons::with([
                speed(electrons_100, electrons),
                speed(electrons_111, electrons),
            ]),
            holes: holes::Holes::with([speed(holes_100, holes), speed(holes_111, holes)]),
            ..Mobility::new(temperature, axis_angle)
        }
    }

    /// Returns the drift velocity of a carrier (mm/ns) in a field (V/mm).
    pub fn velocity(&self, carrier: Carrier, field: Vec3) -> Vec3 {
        let strength = field.iter().map(|part| part * part).sum::<f64>().sqrt();
        if strength == 0.0 {
            return [0.0; 3];
        }
        let [cos, sin] = self.turn;
        let [x, y, z] = field.map(|part| part / strength);
        let along = [cos * x + sin * y, cos * y - sin * x, z];
        let [x, y, z] = match carrier {
            Carrier::Electron => self.electrons.velocity(along, PER_CM * strength),
            Carrier::Hole => self.holes.velocity(along, PER_CM * strength),
        };
        [cos * x - sin * y, sin * x + cos * y, z]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norm(v: Vec3) -> f64 {
        v.iter().map(|part| part * part).sum::<f64>().sqrt()
    }

    /// Holes drift along the field, electrons against it. A lattice turned by a right angle is
    /// equivalent.
    #[test]
    fn the_lattice_turns() {
        let (plain, turned, half) =
            (Mobility::new(78.0, 0.0), Mobility::new(78.0, 90.0), Mobility::new(78.0, 45.0));
        for carrier in [Carrier::Electron, Carrier::Hole] {
            let field = [30.0, 80.0, -50.0];
            let (a, b) = (plain.velocity(carrier, field), turned.velocity(carrier, field));
            assert!((0..3).all(|axis| (a[axis] - b[axis]).abs() < 1e-12), "{a:?} {b:?}");
            let along: f64 = (0..3).map(|axis| a[axis] * field[axis]).sum();
            assert_eq!(along > 0.0, carrier == Carrier::Hole);
            // The x axis of the turned lattice is a <110> axis of the other.
            let diagonal = 100.0 / 2f64.sqrt();
            let one = norm(plain.velocity(carrier, [diagonal, diagonal, 0.0]));
            let other = norm(half.velocity(carrier, [100.0, 0.0, 0.0]));
            assert!((one - other).abs() < 1e-12);
            assert_eq!(plain.velocity(carrier, [0.0; 3]), [0.0; 3]);
        }
    }

    /// Speeds along the axes are those of the table, also at its own fields.
    #[test]
    fn a_table_is_met_on_the_axes() {
        let speeds = |end: f64| vec![0.4 * end, end];
        let table = Table {
            field: vec![100.0, 1000.0],
            electrons_100: speeds(0.1),
            electrons_111: speeds(0.08),
            holes_100: speeds(0.09),
            holes_111: speeds(0.07),
            electrons_temperature: None,
            holes_temperature: None,
        };
        let mobility = Mobility::of_table(&table, 90.0, 0.0);
        let (axis, diagonal) = ([100.0, 0.0, 0.0], [100.0 / 3f64.sqrt(); 3]);
        for (carrier, field, speed) in [
            (Carrier::Electron, axis, 0.1),
            (Carrier::Electron, diagonal, 0.08),
            (Carrier::Hole, axis, 0.09),
            (Carrier::Hole, diagonal, 0.07),
        ] {
            let found = norm(mobility.velocity(carrier, field));
            assert!((found / speed - 1.0).abs() < 1e-9, "{carrier:?} {field:?}: {found}");
            let weak = norm(mobility.velocity(carrier, field.map(|part| 0.1 * part)));
            assert!((weak / speed - 0.4).abs() < 1e-9, "{carrier:?} {field:?}: {weak}");
        }
    }

    /// Speeds (mm/ns) e100, e110, e111, h100, h110, h111 at 1000 V/cm in the table of the GRETA
    /// signal generator. Fits of different measurements agree to a seventh.
    #[test]
    fn speeds_are_those_of_measurements() {
        let mobility = Mobility::new(78.0, 0.0);
        let axes = [[1.0, 0.0, 0.0], [0.5f64.sqrt(), 0.5f64.sqrt(), 0.0], [3f64.sqrt().recip(); 3]];
        let table = [(Carrier::Electron, [0.101, 0.095, 0.078]), (Carrier::Hole, [0.086, 0.077, 0.073])];
        for (carrier, speeds) in table {
            for (axis, speed) in axes.into_iter().zip(speeds) {
                let found = norm(mobility.velocity(carrier, axis.map(|part: f64| 100.0 * part)));
                assert!((found / speed - 1.0).abs() < 1.0 / 7.0, "{carrier:?} {axis:?}: {found}");
            }
        }
    }
}
