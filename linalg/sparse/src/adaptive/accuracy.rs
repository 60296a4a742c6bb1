//! Accuracy of products.

use std::fmt;
use std::str::FromStr;

use zellige_kernels::packed::PackedFormat;
use zellige_krylov::Error;

/// A relative accuracy in `[2^-53, 1)`; the lower limit is the accuracy of `f64`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Accuracy(f64);

impl Accuracy {
    /// Accuracy of `f64`: `2^-53`.
    pub const DOUBLE: Accuracy = Accuracy(f64::EPSILON / 2.0);

    /// Accuracy of `f32`: `2^-24`.
    pub const SINGLE: Accuracy = Accuracy(f32::EPSILON as f64 / 2.0);

    /// Creates an accuracy.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a value outside of `[2^-53, 1)`.
    pub fn new(eps: f64) -> Result<Accuracy, Error> {
        if (Self::DOUBLE.0..1.0).contains(&eps) {
            return Ok(Accuracy(eps));
        }
        Err(Error::parameter(
            "eps",
            format!("{eps:e} is not an accuracy of f64 products: at least 2^-53, below 1"),
        ))
    }

    /// Returns the unit roundoff of a format.
    pub(super) fn of_format(format: PackedFormat) -> Accuracy {
        Accuracy(format.unit_roundoff())
    }

    /// Returns the accuracy as a number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Returns the base-2 logarithm.
    pub fn log2(self) -> f64 {
        self.0.log2()
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log2 = self.log2();
        if log2 == log2.round() { f.pad(&format!("2^{log2}")) } else { f.pad(&format!("{:e}", self.0)) }
    }
}

impl FromStr for Accuracy {
    type Err = Error;

    /// Parses forms like `2^-24` and `6e-8`.
    fn from_str(s: &str) -> Result<Self, Error> {
        let eps = match s.trim().strip_prefix("2^") {
            Some(exponent) => exponent.parse().ok().map(|e: i32| libm::ldexp(1.0, e.clamp(-2000, 2000))),
            None => s.trim().parse().ok(),
        };
        let eps = eps.ok_or_else(|| {
            Error::parameter("eps", format!("{s:?} is not an accuracy: use a number like 2^-24 or 6e-8"))
        })?;
        Accuracy::new(eps)
    }
}
