//! Measured drift speeds: a table over the field.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Drift speeds along axes of the lattice, over the field.
///
/// Speeds are interpolated linearly between the fields of the table, and from 0 at no field. They
/// are constant beyond the last field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Fields (V/cm), ascending.
    pub field: Vec<f64>,
    /// Speeds of electrons along `<100>` (mm/ns), one for each field.
    pub electrons_100: Vec<f64>,
    /// Speeds of electrons along `<111>` (mm/ns).
    pub electrons_111: Vec<f64>,
    /// Speeds of holes along `<100>` (mm/ns).
    pub holes_100: Vec<f64>,
    /// Speeds of holes along `<111>` (mm/ns).
    pub holes_111: Vec<f64>,
    /// Temperature dependence of the speeds of electrons, relative to 77 K, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub electrons_temperature: Option<Temperature>,
    /// Temperature dependence of the speeds of holes, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holes_temperature: Option<Temperature>,
}

/// Temperature dependence of drift speeds (Omar, Reggiani, Solid-State Electronics 30 (1987) 1351).
///
/// `v = mu E / (1 + E / E0)` with `mu = mobility T^power` and `mu E0 = speed sqrt(tanh(theta /
/// 2T))`. The speeds of the table are multiplied by the ratio of this law at two temperatures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Temperature {
    /// Mobility at 1 K (cm2/Vs).
    pub mobility: f64,
    /// Power of the temperature with which mobilities scale.
    pub power: f64,
    /// Saturated speed at 0 K (cm/s).
    pub speed: f64,
    /// Temperature of the phonons (K).
    pub theta: f64,
}

/// Reference temperature (K) of tables.
const REFERENCE: f64 = 77.0;
/// Limit of the number of fields of a table.
const MOST_FIELDS: usize = 10_000;

impl Temperature {
    /// Returns the speed at a temperature (K) in a field (V/cm), relative to the speed at the
    /// table's temperature.
    fn factor(self, temperature: f64, field: f64) -> f64 {
        let speed = |t: f64| {
            let mobility = self.mobility * t.powf(self.power);
            let saturated = self.speed * (self.theta / (2.0 * t)).tanh().sqrt();
            mobility / (1.0 + field * mobility / saturated)
        };
        speed(temperature) / speed(REFERENCE)
    }

    fn is_sound(self) -> bool {
        let positive = [self.mobility, self.speed, self.theta];
        positive.iter().all(|value| value.is_finite() && *value > 0.0) && (-10.0..=10.0).contains(&self.power)
    }
}

impl Table {
    /// Refuses invalid tables.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid entry.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |name, problem: &str| Err(Error::Parameter { name, problem: problem.into() });
        let ascends = self.field.windows(2).all(|pair| pair[0] < pair[1]);
        let fields = self.field.first().is_some_and(|&first| first >= 0.0)
            && self.field.last().is_some_and(|&last| last > 0.0 && last < 1e6);
        if !ascends || !fields || self.field.len() > MOST_FIELDS {
            return wrong("drift.field", "give fields from 0 to 1e6 V/cm in ascending order, 10000 at most");
        }
        let columns = [
            ("drift.electrons_100", &self.electrons_100),
            ("drift.electrons_111", &self.electrons_111),
            ("drift.holes_100", &self.holes_100),
            ("drift.holes_111", &self.holes_111),
        ];
        for (name, speeds) in columns {
            let is_speed = |(&field, &speed): (&f64, &f64)| {
                if field == 0.0 { speed == 0.0 } else { speed > 0.0 && speed <= 1.0 }
            };
            if speeds.len() != self.field.len() || !self.field.iter().zip(speeds).all(is_speed) {
                return wrong(
                    name,
                    "give a speed above 0, and up to 1 mm/ns, for each field; 0 for a field of 0",
                );
            }
        }
        let temperatures = [
            ("drift.electrons_temperature", self.electrons_temperature),
            ("drift.holes_temperature", self.holes_temperature),
        ];
        for (name, temperature) in temperatures {
            if temperature.is_some_and(|temperature| !temperature.is_sound()) {
                return wrong(name, "mobility, speed and theta are above 0, the power is from -10 to 10");
            }
        }
        Ok(())
    }

    /// Returns pairs of field and speed along an axis at a temperature (K).
    pub(super) fn points(&self, speeds: &[f64], law: Option<Temperature>, temperature: f64) -> Vec<[f64; 2]> {
        let point = |(&field, &speed): (&f64, &f64)| {
            [field, speed * law.map_or(1.0, |law| law.factor(temperature, field))]
        };
        self.field.iter().zip(speeds).map(point).collect()
    }
}

/// Interpolates the speed (mm/ns) in a field (V/cm) between points in ascending order of the field.
pub(super) fn interpolated(points: &[[f64; 2]], field: f64) -> f64 {
    let next = points.partition_point(|point| point[0] <= field);
    let before = if next == 0 { [0.0, 0.0] } else { points[next - 1] };
    match points.get(next) {
        Some(after) => before[1] + (after[1] - before[1]) * (field - before[0]) / (after[0] - before[0]),
        None => before[1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            field: vec![0.0, 100.0, 1000.0],
            electrons_100: vec![0.0, 0.02, 0.1],
            electrons_111: vec![0.0, 0.02, 0.08],
            holes_100: vec![0.0, 0.04, 0.09],
            holes_111: vec![0.0, 0.03, 0.07],
            electrons_temperature: Some(Temperature {
                mobility: 5.66e7,
                power: -1.68,
                speed: 1.3e7,
                theta: 200.0,
            }),
            holes_temperature: None,
        }
    }

    #[test]
    fn speeds_are_linear_between_the_fields_of_a_table() {
        let points = table().points(&table().electrons_100, None, 90.0);
        for (field, speed) in
            [(0.0, 0.0), (50.0, 0.01), (100.0, 0.02), (550.0, 0.06), (1000.0, 0.1), (1e5, 0.1)]
        {
            assert!((interpolated(&points, field) - speed).abs() < 1e-15, "{field}");
        }
        // A table that begins above 0 is interpolated from 0, too.
        assert!((interpolated(&points[1..], 50.0) - 0.01).abs() < 1e-15);
    }

    #[test]
    fn temperatures_scale_mobilities_in_weak_fields_and_saturated_speeds_in_strong_ones() {
        let law = table().electrons_temperature.expect("a law");
        assert_eq!(law.factor(77.0, 500.0), 1.0);
        assert!((law.factor(90.0, 1e-9) - (90.0f64 / 77.0).powf(-1.68)).abs() < 1e-9);
        let saturated = ((200.0f64 / 180.0).tanh() / (200.0f64 / 154.0).tanh()).sqrt();
        assert!((law.factor(90.0, 1e9) - saturated).abs() < 1e-4);
        let warm = table().points(&table().electrons_100, Some(law), 90.0);
        assert!((warm[2][1] - 0.1 * law.factor(90.0, 1000.0)).abs() < 1e-15 && warm[2][1] < 0.1);
    }

    #[test]
    fn tables_without_meaning_are_named() {
        assert!(table().check().is_ok());
        let refused = |change: fn(&mut Table)| {
            let mut table = table();
            change(&mut table);
            table.check().expect_err("refused").to_string()
        };
        assert!(refused(|t| t.field[1] = 2000.0).contains("ascending"));
        assert!(refused(|t| t.field.clear()).contains("drift.field"));
        assert!(refused(|t| t.holes_111[2] = f64::NAN).contains("drift.holes_111"));
        assert!(refused(|t| t.holes_100.truncate(2)).contains("drift.holes_100"));
        assert!(refused(|t| t.electrons_100[0] = 0.1).contains("drift.electrons_100"));
        assert!(refused(|t| t.electrons_temperature.as_mut().unwrap().theta = 0.0).contains("theta"));
    }
}
