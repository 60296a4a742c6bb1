//! Models of the deformable mirror.

use super::CellMap;
use std::sync::Arc;

/// Default fraction of the peak at a neighbouring actuator.
pub const COUPLING: f64 = 0.2;

/// The deformable mirror.
#[derive(Debug, Clone, PartialEq)]
pub enum MirrorModel {
    /// Gaussian influence functions on a square grid with the pitch of the sub-apertures.
    Gaussian {
        /// Fraction of the peak at a neighbouring actuator.
        coupling: f64,
        /// Map of the actuators; by default those around the pupil ([`crate::dm`]).
        actuators: Option<CellMap>,
    },
    /// Influence functions that were measured or computed elsewhere.
    Sampled(Arc<InfluenceFunctions>),
}

impl Default for MirrorModel {
    fn default() -> Self {
        MirrorModel::Gaussian { coupling: COUPLING, actuators: None }
    }
}

/// Influence functions on a square grid of pixels that covers the pupil: the wavefront for one volt
/// on each actuator.
#[derive(Debug, Clone, PartialEq)]
pub struct InfluenceFunctions {
    actuators: usize,
    across: usize,
    values: Vec<f64>,
}

impl InfluenceFunctions {
    /// Makes influence functions from `values` in m per volt, by actuator, row (y ascending) and
    /// column (x ascending). The outer edges of the `across` x `across` pixels are those of the
    /// pupil's square.
    ///
    /// # Errors
    /// A message: no actuator, fewer than 4 pixels across, a wrong number of values, a value that
    /// is not finite or above 1 m.
    pub fn new(actuators: usize, across: usize, values: Vec<f64>) -> Result<Self, String> {
        if actuators == 0 || !(4..=1 << 14).contains(&across) {
            return Err(format!(
                "{actuators} functions of {across} x {across} pixels: use 1 or more, of 4 to 16384 pixels across"
            ));
        }
        if values.len() != actuators * across * across {
            return Err(format!(
                "{} values for {actuators} functions of {across} x {across} pixels",
                values.len()
            ));
        }
        if let Some(at) = values.iter().position(|v| !(v.is_finite() && v.abs() <= 1.0)) {
            return Err(format!(
                "{} of actuator {}: it has to be finite and at most 1 m per volt",
                values[at],
                at / (across * across)
            ));
        }
        Ok(InfluenceFunctions { actuators, across, values })
    }

    /// Returns the number of actuators.
    pub fn actuators(&self) -> usize {
        self.actuators
    }

    /// Returns the size of the values in bytes.
    pub fn bytes(&self) -> u64 {
        8 * self.values.len() as u64
    }

    /// Returns the wavefront in m per volt at a point in pupil radii. Between pixels it is
    /// interpolated bilinearly; beyond the outer pixels it has their values.
    ///
    /// # Panics
    /// There is no such actuator.
    pub fn at(&self, actuator: usize, [x, y]: [f64; 2]) -> f64 {
        let n = self.across;
        let pixels = &self.values[actuator * n * n..(actuator + 1) * n * n];
        let place = |c: f64| {
            let at = ((c + 1.0) / 2.0 * n as f64 - 0.5).clamp(0.0, (n - 1) as f64);
            let first = (at as usize).min(n - 2);
            (first, at - first as f64)
        };
        let ((column, right), (row, above)) = (place(x), place(y));
        let at = |dx: usize, dy: usize| pixels[column + dx + n * (row + dy)];
        (1.0 - above) * ((1.0 - right) * at(0, 0) + right * at(1, 0))
            + above * ((1.0 - right) * at(0, 1) + right * at(1, 1))
    }
}
