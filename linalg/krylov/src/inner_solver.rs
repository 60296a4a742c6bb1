//! Methods, and their inner solves of the outer iteration.

use std::sync::Arc;

use crate::error::Error;
use crate::executor::Executor;
use crate::log::Logger;
use crate::numbers::State;
use crate::operator::Operator;
use crate::scalar::Scalar;
use crate::space::Space;
use crate::storage::Storage;
use crate::vector::MultiVector;

/// Input that a method is prepared for.
#[derive(Clone, Copy)]
pub struct Setting<'r, E: Scalar> {
    /// Runs the tasks.
    pub rt: &'r dyn Executor,
    /// The operator of the products.
    pub a: &'r dyn Operator<E>,
    /// The preconditioner, `z = M^-1 r`.
    pub m: Option<&'r dyn Operator<E>>,
    /// Number of columns that it solves for at once.
    pub columns: usize,
}

impl<E: Scalar> Setting<'_, E> {
    /// Returns the partition of the vectors.
    pub fn space(&self) -> &Space {
        self.a.domain()
    }

    /// Returns a vector of zeros in this storage.
    pub fn stored(&self, storage: &Arc<dyn Storage<E>>) -> MultiVector<E> {
        MultiVector::stored(self.rt, self.space(), self.columns, Arc::clone(storage))
    }

    /// Returns a vector of zeros in float64.
    pub fn zeros(&self) -> MultiVector<E> {
        MultiVector::zeros(self.rt, self.space(), self.columns)
    }
}

/// A Krylov method.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{BiCgStab, Cg, Method, Minres, Solve, Stop, solve};
///
/// let methods: [&dyn Method; 3] = [&Cg::default(), &Minres, &BiCgStab::default()];
/// for method in methods {
///     let mut x = vec![0.0; 50];
///     let found = solve(&Solve::new(&rt, &a), method, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-8), &mut ())?;
///     assert!(found.reason.is_converged(), "{}", method.name());
/// }
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub trait Method<E: Scalar = f64> {
    /// Returns the name in options.
    fn name(&self) -> String;

    /// Returns true if it solves for several columns at once.
    fn takes_columns(&self) -> bool {
        true
    }

    /// Makes its vectors and records its graphs for a system; some of them when they are first
    /// needed.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an operator, a preconditioner or a number of columns that it cannot
    /// use; those of submission.
    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error>;
}

/// Limits of an inner solve for a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The residual norm that is small enough.
    pub goal: f64,
    /// Maximum number of steps.
    pub steps: usize,
}

/// Limits of an inner solve.
#[derive(Clone, Copy)]
pub struct Limits<'l> {
    /// Limit for each column; `None` if it has nothing to do.
    pub columns: &'l [Option<Limit>],
    /// True once the time is up.
    pub is_late: &'l dyn Fn() -> bool,
}

/// Result of an inner solve for a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InnerResult {
    /// The reason; [`State::Running`] if the time was up.
    pub state: State,
    /// Number of steps made.
    pub steps: usize,
    /// The norm of the residual that it keeps.
    pub residual: f64,
    /// Number of residuals that were replaced by recomputed ones.
    pub updates: usize,
    /// The initial residual norm in the measure of the method, if it differs from that of the
    /// caller.
    pub begun: Option<f64>,
}

/// Bytes of the vectors that solving keeps for each column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The basis of the Krylov space, as it is stored.
    pub basis: u64,
    /// Bytes of all other vectors.
    pub vectors: u64,
}

impl MemoryUse {
    /// Returns the bytes of `count` vectors of a space in float64, without a basis.
    pub fn vectors<E: Scalar>(space: &Space, count: usize) -> MemoryUse {
        MemoryUse { basis: 0, vectors: space.bytes(count * E::WORDS) }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: MemoryUse) -> MemoryUse {
        MemoryUse { basis: self.basis + other.basis, vectors: self.vectors + other.vectors }
    }
}

/// A method that is ready to solve `A d = r`, in each outer iteration.
pub trait InnerSolver<E: Scalar = f64> {
    /// Returns `r`, which the caller writes before each solve, and the solve overwrites.
    fn residual(&self) -> &MultiVector<E>;

    /// Returns `d`, the result of the last solve.
    fn correction(&self) -> &MultiVector<E>;

    /// Returns the memory of its vectors.
    fn memory(&self) -> MemoryUse;

    /// Solves, from `d = 0`, until each column that has a limit has met one; a method that restarts
    /// returns then. The correction of other columns is undefined.
    ///
    /// # Errors
    /// Errors of tasks.
    fn solve(&mut self, limits: &Limits<'_>, logs: &mut [&mut dyn Logger])
    -> Result<Vec<InnerResult>, Error>;
}
