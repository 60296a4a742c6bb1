//! Moving sources: Doppler's formula.

use super::germanium::{dot, minus, norm};
use crate::Error;
use crate::body::Vec3;

/// Motion of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion {
    /// Speed as a fraction of the speed of light, from 0 to below 1.
    pub beta: f64,
    /// Direction of motion, of any length but 0.
    pub axis: Vec3,
}

impl Default for Motion {
    /// A source at rest.
    fn default() -> Self {
        Motion { beta: 0.0, axis: [0.0, 0.0, 1.0] }
    }
}

impl Motion {
    /// Refuses an invalid motion.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid parameter.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |name, problem| Err(Error::Parameter { name, problem });
        if !(self.beta >= 0.0 && self.beta < 1.0) {
            return wrong("beta", format!("{}: give a speed from 0 to below 1, that of light", self.beta));
        }
        let length = norm(self.axis);
        if !(length > 0.0 && length.is_finite()) {
            return wrong("beam axis", format!("{:?}: give a direction", self.axis));
        }
        Ok(())
    }

    /// Returns the axis with length 1.
    pub(super) fn unit(&self) -> Vec3 {
        let length = norm(self.axis);
        self.axis.map(|x| x / length)
    }

    /// Returns the emitted energy (keV) in the frame of the source if `energy` (keV) arrives at
    /// `first` (mm): `E (1 - beta cos theta) / sqrt(1 - beta^2)`.
    pub fn corrected(&self, energy: f64, source: Vec3, first: Vec3) -> f64 {
        let way = minus(first, source);
        let length = norm(way);
        if self.beta == 0.0 || length <= 0.0 {
            return energy;
        }
        let cosine = dot(way, self.unit()) / length;
        energy * (1.0 - self.beta * cosine) / (1.0 - self.beta * self.beta).sqrt()
    }
}
