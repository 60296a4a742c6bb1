//! Sources that move: Doppler's formula.

use super::germanium::{dot, minus, norm};
use crate::Error;
use crate::body::Vec3;

/// How a source moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion {
    /// Its speed in parts of that of light, from 0 to below 1.
    pub beta: f64,
    /// Where to; of any length but 0.
    pub axis: Vec3,
}

impl Default for Motion {
    /// At rest.
    fn default() -> Self {
        Motion { beta: 0.0, axis: [0.0, 0.0, 1.0] }
    }
}

impl Motion {
    /// # Errors
    /// [`Error::Parameter`] that names what has no meaning.
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

    /// The axis with length 1.
    pub(super) fn unit(&self) -> Vec3 {
        let length = norm(self.axis);
        self.axis.map(|x| x / length)
    }

    /// What the source sent out (keV) if `energy` (keV) arrives at `first` (mm): `E (1 - beta cos
    /// theta) / sqrt(1 - beta^2)`.
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
