//! Solving `A x = b` by multiplying with `A`, as graphs of tasks that are recorded once and replayed step by step.
//!
//! [`solve`] computes the true residual `r = b - A x` with the exact operator, has a [`Method`] solve `A d = r` as well as its operator and its
//! patience allow, adds `d` to `x`, and goes on until the *true* residual is small enough. That one loop is restarted GMRES, iterative
//! refinement around any method (Molina, thesis 2024, algorithm 8; Carson and Higham 2018), and the check that every answer gets.
//!
//! | to | see |
//! |---|---|
//! | say what is solved | [`Operator`], [`Stored`], [`Preconditioner`] |
//! | say how | [`Method`], [`Cg`], [`ReliableCg`], [`Minres`], [`Gmres`], [`RelaxedGmres`], [`BiCgStab`], [`precondition`] |
//! | solve for several shifts at once | [`solve_shifted`], [`Shifted`] |
//! | say when to stop | [`StoppingCriterion`], [`Stop`] |
//! | watch | [`Logger`], [`History`] |
//! | write a method | [`Steps`], [`Sums`], [`Scalars`], [`Reliable`], [`rounds`] |
//!
//! Vectors are cut into stretches ([`Space`]), one task works on one stretch. Inner products are summed grain by grain
//! in one order: results have the same bits on any number of workers.
//!
//! ```
//! use zellige_runtime::Runtime;
//! use zellige_sparse::generate::{Flow, flow};
//! use zellige_sparse::krylov::precondition::Ilu;
//! use zellige_sparse::krylov::{Cg, History, Solve, Stop, Stored, solve};
//! use zellige_sparse::space::Space;
//!
//! let a = flow(&Flow { cells: [12, 10, 8], ..Flow::default() })?;
//! let rt = Runtime::new()?;
//! let space = Space::new(a.rows(), a.bytes());
//! let exact = Stored::exact(&rt, &space, &a)?;
//! let ilu = Ilu::new(&rt, &space, &a)?;
//! let problem =
//!     Solve { rt: &rt, space: &space, exact: &exact, inner: &exact, preconditioner: Some(&ilu), reduction: 0.0 };
//! let (method, stop) = (Cg::default(), [Stop::RelativeToRhs(1e-10), Stop::Steps(1000)]);
//! let (b, mut x, mut history) = (vec![1.0; a.rows()], vec![0.0; a.rows()], History::default());
//! let solution = solve(&problem, &method, &b, &mut x, &stop[..], &mut history)?;
//! assert!(solution.reason.is_converged() && solution.true_residual <= 1e-10 * (a.rows() as f64).sqrt());
//! # Ok::<(), zellige_sparse::Error>(())
//! ```

mod bicgstab;
mod cg;
mod gmres;
pub mod grains;
mod log;
mod minres;
mod multishift;
mod operator;
pub mod precondition;
mod product;
mod reliable;
pub mod rounds;
mod scalars;
mod shifted;
mod solve;
mod steps;
mod stop;
mod stored;
mod together;

pub use bicgstab::BiCgStab;
pub use cg::Cg;
pub use gmres::{BasisFormat, Gmres, Orthogonalisation, RelaxedGmres};
pub use log::{History, Logger};
pub(crate) use log::{Onwards, Rescaled};
pub use minres::Minres;
pub use multishift::{ShiftedSolutions, solve_shifted};
pub use operator::{Operator, Preconditioner};
pub use reliable::{Reliable, ReliableCg};
pub use scalars::{Scalars, State};
pub use shifted::Shifted;
pub(crate) use solve::{Course, Run};
pub use solve::{Reason, Solution, Solve, solve};
pub use steps::{ScalarsHandle, Steps, Sums};
pub use stop::{Progress, Stop, StoppingCriterion};
pub(crate) use stored::check_copy;
pub use stored::{Stored, best_edge};
pub(crate) use together::Together;

use zellige_runtime::Runtime;

use crate::error::Error;
use crate::space::{Space, Vector};
use rounds::{Ended, Limits};

/// A Krylov method, not yet of any system.
pub trait Method {
    /// As options name it.
    fn name(&self) -> String;

    /// Makes its vectors and records its graphs for a system; some of them when they are first needed.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an operator or preconditioner that it cannot use; those of submission.
    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error>;
}

/// Bytes of the vectors that solving keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The basis of the Krylov space, as it is stored.
    pub basis: u64,
    /// All others.
    pub vectors: u64,
}

impl Kept {
    /// So many vectors of a space, and no basis.
    pub fn vectors(space: &Space, count: usize) -> Kept {
        Kept { basis: 0, vectors: space.bytes(count) }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Kept) -> Kept {
        Kept { basis: self.basis + other.basis, vectors: self.vectors + other.vectors }
    }
}

/// A method that is ready to solve `A d = r`.
pub trait Correction {
    /// `r`: written by the caller before each run, and overwritten by it.
    fn residual(&self) -> &Vector;

    /// `d`: what the last run has found.
    fn correction(&self) -> &Vector;

    /// What its vectors take.
    fn kept(&self) -> Kept;

    /// Solves, from `d = 0`, until a limit is met; a method that restarts comes back then.
    ///
    /// # Errors
    /// What went wrong in a task.
    fn run(&mut self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error>;
}

#[cfg(test)]
mod tests;
