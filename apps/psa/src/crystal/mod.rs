//! A segmented crystal: its shape, its contacts, its doping.

mod outline;

use crate::body::{Body, Vec3};
use crate::channels::{CHANNELS, Channel, RINGS, Segment};
use crate::drift::Table;
pub(crate) use outline::Outline;

/// Boundary condition of the face at `z = 0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Front {
    /// The segments of the first ring.
    Contact,
    /// A bare face: no field leaves the germanium there.
    Reflecting,
}

/// A crystal: a cylinder, cut by six planes that taper towards the front face at `z = 0`, with a
/// bore from the back face.
///
/// The core contact covers the bore, 36 segments cover the outside. The back face is bare and
/// reflects. Sector `k` lies around corner `k` and ends in the middles of the two sides that meet
/// there. In a plain cylinder it lies around the angle of `60 k` degrees.
#[derive(Clone, Debug, PartialEq)]
pub struct Crystal {
    /// Name of the crystal.
    pub name: String,
    /// Length from the front to the back face (mm).
    pub length: f64,
    /// Radius of the cylinder (mm).
    pub radius: f64,
    /// Radius of the bore (mm).
    pub bore_radius: f64,
    /// Thickness of the germanium between the front face and the bore (mm); 0 if the bore goes
    /// through.
    pub bore_start: f64,
    /// Thickness of the rings from the front to the back (mm).
    pub rings: [f64; RINGS],
    /// Boundary condition of the front face.
    pub front: Front,
    /// Corners of the hexagon at the front and at the back face (mm), anticlockwise as seen from
    /// the back; `None` for a plain cylinder.
    pub corners: Option<[[[f64; 2]; 6]; 2]>,
    /// Voltage of the core (V); the segments are at 0.
    pub bias: f64,
    /// Net density of charged donors at the front and at the back face (1e10 per cm3), linear
    /// between them; negative for acceptors.
    pub impurity: [f64; 2],
    /// Temperature (K).
    pub temperature: f64,
    /// Angle from the x axis to a `<100>` axis of the lattice (degrees); another one points along
    /// z.
    pub axis_angle: f64,
    /// Drift speeds of charges; `None` for the laws of [`Mobility`](crate::drift::Mobility).
    pub drift: Option<Table>,
}

impl Crystal {
    /// Returns the crystal with all lengths multiplied by `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        let corner = |[x, y]: [f64; 2]| [factor * x, factor * y];
        Crystal {
            length: factor * self.length,
            radius: factor * self.radius,
            bore_radius: factor * self.bore_radius,
            bore_start: factor * self.bore_start,
            rings: self.rings.map(|ring| factor * ring),
            corners: self.corners.map(|faces| faces.map(|face| face.map(corner))),
            ..self.clone()
        }
    }

    fn outline(&self, z: f64) -> Option<Outline> {
        self.corners.as_ref().map(|[front, back]| Outline::between(front, back, z / self.length))
    }

    /// Returns the segment of a point (mm): the segment in front of whose contact a point of the
    /// crystal lies, or whose contact covers a point of the surface.
    pub fn segment(&self, point: Vec3) -> Segment {
        let [x, y, z] = point;
        let sector = match self.outline(z) {
            Some(outline) => outline.sector([x, y]),
            None => (y.atan2(x).to_degrees() / 60.0).round().rem_euclid(6.0) as usize % 6,
        };
        let mut end = 0.0;
        let ring = self.rings[..RINGS - 1].iter().take_while(|&&ring| {
            end += ring;
            z >= end
        });
        Segment::new(sector, ring.count()).expect("sectors and rings below six")
    }

    /// Returns the distance of a point from the wall of the bore (mm), inside or outside of it.
    fn to_bore(&self, [x, y, z]: Vec3) -> f64 {
        let (beside, before) = (x.hypot(y) - self.bore_radius, self.bore_start - z);
        if before > 0.0 { beside.max(0.0).hypot(before) } else { beside.abs() }
    }

    /// Returns the distance of a point of the crystal from its outer surface (mm).
    fn to_outside(&self, [x, y, z]: Vec3) -> f64 {
        let side = self.outline(z).map_or(f64::INFINITY, |outline| outline.depth([x, y]));
        let front = if self.front == Front::Contact { z } else { f64::INFINITY };
        side.min(self.radius - x.hypot(y)).min(front)
    }

    /// Returns the charge density over the permittivity (V/mm2) at a depth (mm): `e N / eps` with
    /// `eps = 16 eps0`.
    pub fn space_charge(&self, z: f64) -> f64 {
        // 1.602177e-19 C * 1e10 cm-3 / (16 * 8.854188e-12 F/m), in V/mm2.
        const PER_1E10: f64 = 1.602_176_634e-19 * 1e16 / (16.0 * 8.854_187_812_8e-12) * 1e-6;
        let [front, back] = self.impurity;
        PER_1E10 * (front + (back - front) * z / self.length)
    }
}

impl Body for Crystal {
    fn bounds(&self) -> [[f64; 2]; 3] {
        let mut bounds = [[-self.radius, self.radius], [-self.radius, self.radius], [0.0, self.length]];
        if let Some(corners) = &self.corners {
            for axis in 0..2 {
                let along = || corners.iter().flatten().map(|corner| corner[axis]);
                bounds[axis] = [
                    along().fold(f64::INFINITY, f64::min).max(-self.radius),
                    along().fold(f64::NEG_INFINITY, f64::max).min(self.radius),
                ];
            }
        }
        bounds
    }

    fn reflects(&self) -> [[bool; 2]; 3] {
        [[false; 2], [false; 2], [self.front == Front::Reflecting, true]]
    }

    fn contains(&self, point: Vec3) -> bool {
        let [x, y, z] = point;
        let (below, squared) = (if self.front == Front::Contact { z > 0.0 } else { z >= 0.0 }, x * x + y * y);
        below
            && z <= self.length
            && squared < self.radius * self.radius
            && (z < self.bore_start || squared > self.bore_radius * self.bore_radius)
            && self.outline(z).is_none_or(|outline| outline.depth([x, y]) > 0.0)
    }

    fn contacts(&self) -> usize {
        CHANNELS
    }

    fn contact(&self, place: Vec3) -> usize {
        if self.to_bore(place) < self.to_outside(place) {
            Channel::CORE.index()
        } else {
            self.segment(place).index()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{EXAMPLE, parse_crystal};
    use std::path::Path;

    #[test]
    fn sectors_lie_around_corners_and_rings_are_counted_from_the_front() {
        let crystal = parse_crystal(Path::new("example"), EXAMPLE).expect("the example");
        let [front, back] = crystal.corners.expect("a hexagon");
        for k in 0..6 {
            let near = |[x, y]: [f64; 2], z| crystal.segment([0.9 * x, 0.9 * y, z]);
            assert_eq!((near(front[k], 1.0).sector(), near(front[k], 1.0).ring()), (k, 0));
            assert_eq!((near(back[k], 89.0).sector(), near(back[k], 89.0).ring()), (k, 5));
        }
        assert_eq!(crystal.segment([20.0, 0.0, 7.99]).ring(), 0);
        assert_eq!(crystal.segment([20.0, 0.0, 8.0]).ring(), 1);
    }

    #[test]
    fn contacts_are_where_the_crystal_ends() {
        let crystal = parse_crystal(Path::new("example"), EXAMPLE).expect("the example");
        let core = Channel::CORE.index();
        assert_eq!(crystal.contact([5.0, 0.0, 50.0]), core);
        assert_eq!(crystal.contact([1.0, 0.0, 13.0]), core);
        assert_eq!(crystal.contact([1.0, 0.0, 0.0]), 0);
        assert_eq!(crystal.contact([39.9, 0.1, 89.0]), 5);
        assert!(!crystal.contains([4.9, 0.0, 50.0]) && crystal.contains([5.1, 0.0, 50.0]));
        assert!(crystal.contains([0.0, 0.0, 12.9]) && !crystal.contains([0.0, 0.0, 0.0]));
        assert!(crystal.contains([20.0, 0.0, 90.0]) && !crystal.contains([20.0, 0.0, 90.1]));
    }

    /// 1e10 charges per cm3 in germanium: 11.31 V/mm2 (`e N / eps` by hand).
    #[test]
    fn space_charge_is_linear() {
        let crystal =
            Crystal { impurity: [1.0, 0.5], ..parse_crystal(Path::new("x"), EXAMPLE).expect("one") };
        assert!((crystal.space_charge(0.0) - 11.31).abs() < 0.01);
        assert!((crystal.space_charge(crystal.length) - 11.31 / 2.0).abs() < 0.01);
    }
}
