//! Systems and their solutions.

use crate::executor::Executor;
use crate::inner_solver::MemoryUse;
use crate::operator::Operator;
use crate::scalar::Scalar;

/// A system with the operators of its solution.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solve, Stop, solve};
///
/// // The inverse of the diagonal as a preconditioner.
/// let jacobi = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = x[i] / (i + 1) as f64));
/// let system = Solve { preconditioner: Some(&jacobi), ..Solve::new(&rt, &a) };
/// let mut x = vec![0.0; 50];
/// let found = solve(&system, &Cg::default(), &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
/// assert!(found.steps < 4);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Solve<'s, E: Scalar = f64> {
    /// Runs the tasks.
    pub rt: &'s dyn Executor,
    /// The operator that the system is about: true residuals are its.
    pub exact: &'s dyn Operator<E>,
    /// Operator of the method: the exact one, or a narrower copy.
    pub inner: &'s dyn Operator<E>,
    /// The preconditioner.
    pub preconditioner: Option<&'s dyn Operator<E>>,
    /// Factor by which an inner solve reduces its residual before that is recomputed: the limit of
    /// a narrow copy. With 0 it continues to the goal.
    pub reduction: f64,
}

impl<'s, E: Scalar> Solve<'s, E> {
    /// Creates a system without a preconditioner or a narrower copy.
    pub fn new(rt: &'s dyn Executor, a: &'s dyn Operator<E>) -> Self {
        Solve { rt, exact: a, inner: a, preconditioner: None, reduction: 0.0 }
    }
}

/// Reason for the end of a solver.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Reason, Solve, Stop, solve};
///
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::Steps(2), &mut ())?;
/// assert_eq!((found.reason, found.reason.name()), (Reason::Steps, "steps"));
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The recomputed residual is within the requested tolerance.
    Converged,
    /// The maximum number of steps was reached.
    Steps,
    /// The time was up.
    Time,
    /// The recomputed residual does not decrease any more.
    Stagnated,
    /// The solution is too large for float64, or so small that rounding it to subnormal numbers
    /// leaves more than the requested tolerance.
    OutOfRange,
    /// The method broke down: the matrix, or the preconditioner, does not have a property that the
    /// method needs.
    BrokenDown,
    /// A number became infinite or none.
    NotANumber,
}

impl Reason {
    /// Returns true if the residual is within the requested tolerance.
    pub fn is_converged(self) -> bool {
        self == Reason::Converged
    }

    /// Returns the name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Converged => "converged",
            Reason::Steps => "steps",
            Reason::Time => "time",
            Reason::Stagnated => "stagnated",
            Reason::OutOfRange => "out of range",
            Reason::BrokenDown => "breakdown",
            Reason::NotANumber => "not a number",
        }
    }
}

/// Result of a solver.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solution, Solve, Stop, solve};
///
/// let mut x = vec![0.0; 50];
/// let found: Solution = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-6), &mut ())?;
/// assert!(found.true_residual <= 1e-6 * found.rhs && found.runs == 1);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solution {
    /// Reason for the end.
    pub reason: Reason,
    /// Number of steps of the method, in all inner solves.
    pub steps: usize,
    /// Number of residual replacements of the method; see
    /// [`ReliableUpdates`](crate::ReliableUpdates).
    pub updates: usize,
    /// Number of inner solves: 1 if the first reached the goal.
    pub runs: usize,
    /// The norm of the last residual that the method itself kept.
    pub iterated_residual: f64,
    /// `|b - A x|_2`, computed from the answer with the exact operator.
    pub true_residual: f64,
    /// `|b|_2`.
    pub rhs: f64,
    /// Memory of its vectors, and those of the outer iteration.
    pub memory: MemoryUse,
}
