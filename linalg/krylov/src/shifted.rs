//! An operator plus a multiple of the identity.

use crate::error::Error;
use crate::operator::Operator;
use crate::scalar::Scalar;
use crate::space::Space;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::times;

/// `A + sigma I`.
///
/// ```
/// use zellige_krylov::{Shifted, Space, from_fn, multiply};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(2, 0));
/// let swap = from_fn(&space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(&[x[1], x[0]]));
/// assert_eq!(multiply(&rt, &Shifted { a: &swap, sigma: 3.0 }, &[1.0, 2.0])?, [5.0, 7.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Shifted<'a, E: Scalar = f64> {
    /// `A`.
    pub a: &'a dyn Operator<E>,
    /// `sigma`.
    pub sigma: f64,
}

impl<E: Scalar> Operator<E> for Shifted<'_, E> {
    fn domain(&self) -> &Space {
        self.a.domain()
    }

    fn bytes(&self) -> u64 {
        self.a.bytes()
    }

    fn memory(&self) -> u64 {
        self.a.memory()
    }

    fn accuracy(&self) -> f64 {
        self.a.accuracy()
    }

    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error> {
        self.a.apply(steps, x, y)?;
        steps.task("shift").add(y, times(self.sigma, x)).submit()
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        self.a.apply_adjoint(steps, x, y)?;
        steps.task("shift").add(y, times(self.sigma, x)).submit()
    }

    fn apply_dot(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
        at: usize,
    ) -> Result<(), Error> {
        self.a.apply(steps, x, y)?;
        steps.task("shift").add(y, times(self.sigma, x)).dot(x, y, at).submit()
    }
}
