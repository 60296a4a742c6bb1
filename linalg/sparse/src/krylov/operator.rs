//! What solvers multiply by.

use super::steps::Steps;
use crate::error::Error;
use crate::space::Vector;

/// A square matrix, or what acts as one: `y = A x`.
pub trait Operator: Send + Sync {
    /// Its rows, and columns.
    fn rows(&self) -> usize;

    /// What a product reads besides vectors (bytes).
    fn bytes(&self) -> u64;

    /// Bytes of the vectors that it keeps besides.
    fn vectors(&self) -> u64 {
        0
    }

    /// The relative accuracy of its products: the unit roundoff of `f64`, or that which its elements were stored for.
    fn accuracy(&self) -> f64 {
        f64::EPSILON / 2.0
    }

    /// Records `y = A x`. The two are different vectors.
    ///
    /// # Errors
    /// Those of submission.
    fn apply(&self, steps: &Steps<'_>, x: &Vector, y: &Vector) -> Result<(), Error>;
}

/// What makes residuals look more like errors: `z = M^-1 r`.
pub trait Preconditioner: Send + Sync {
    /// What an application reads besides vectors (bytes).
    fn bytes(&self) -> u64;

    /// What it keeps in memory (bytes), vectors of its own among it.
    fn memory(&self) -> u64 {
        self.bytes()
    }

    /// True if `M` is the same in every step, as most methods need.
    fn is_fixed(&self) -> bool {
        true
    }

    /// Records `z = M^-1 r`. The two are different vectors.
    ///
    /// # Errors
    /// Those of submission.
    fn apply(&self, steps: &Steps<'_>, r: &Vector, z: &Vector) -> Result<(), Error>;
}

/// Refuses a preconditioner that changes from step to step, for a method that knows no use for it; `instead` names one that does.
pub(super) fn check_fixed(
    m: Option<&dyn Preconditioner>,
    method: &'static str,
    instead: &'static str,
) -> Result<(), Error> {
    match m {
        Some(m) if !m.is_fixed() => {
            let problem = format!("{method} needs a preconditioner that stays the same: take {instead}");
            Err(Error::parameter("method", problem))
        }
        _ => Ok(()),
    }
}
