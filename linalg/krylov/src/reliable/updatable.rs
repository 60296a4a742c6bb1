//! Methods with reliable updates.

use super::replacement::Reliable;
use super::settings::Updates;
use crate::error::Error;
use crate::inner_solver::{InnerSolver, Method, Setting};
use crate::operator::Operator;
use crate::scalar::Scalar;
use crate::storage::Plain;

/// A method that can have its residual replaced.
pub trait Updatable<E: Scalar>: Method<E> {
    /// Prepares the method like [`Method::prepare`], with updates.
    ///
    /// # Errors
    /// Those of [`Method::prepare`].
    fn prepare_with<'r>(
        &self,
        setting: Setting<'r, E>,
        reliable: Reliable<'_, E>,
    ) -> Result<Box<dyn InnerSolver<E> + 'r>, Error>;
}

/// A method, [`Cg`](crate::Cg) or [`BiCgStab`](crate::BiCgStab), with reliable updates:
/// products with the problem's inner operator, which may be narrow, residuals of an exact one.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stop, Updates, solve};
///
/// // Residuals and directions with 24 bits a number.
/// let updates = Updates::new(0.1, "rp24".parse::<Packed>()?);
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone)]
pub struct ReliableUpdates<'o, M, E: Scalar = f64> {
    /// The method of the steps. Flexible conjugate gradients, by the formula of Polak and Ribière,
    /// are more stable.
    pub method: M,
    /// The exact operator, for recomputed residuals.
    pub exact: &'o dyn Operator<E>,
    /// Settings of the residual replacements and of the storage.
    pub updates: Updates<E>,
}

impl<'o, M, E: Scalar> ReliableUpdates<'o, M, E> {
    /// Creates a method with vectors in float64 and all stabilisation techniques. The residual is
    /// replaced when it has decreased by the factor `delta`; 0.1 is a good value.
    pub fn new(method: M, exact: &'o dyn Operator<E>, delta: f64) -> Self {
        ReliableUpdates { method, exact, updates: Updates::new(delta, Plain) }
    }
}

impl<M: Updatable<E>, E: Scalar> Method<E> for ReliableUpdates<'_, M, E> {
    fn name(&self) -> String {
        format!("reliable {}", self.method.name())
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        self.method.prepare_with(setting, Reliable::new(setting, self.exact, &self.updates)?)
    }
}
