//! Solvers of linear systems that return an answer with a recomputed residual.
//!
//! [`solve`] prepares the matrix (matching, order, scaling, null space), chooses the options that
//! are left open, and runs the most promising candidate first. An attempt that fails leaves its
//! best answer to the next. A [`System`] keeps the stored matrices and preconditioners for further
//! right-hand sides, and solves several at once.
//!
//! ```
//! use zellige_runtime::Runtime;
//! use zellige_sparse::generate::{Flow, flow};
//! use zellige_sparse::system::{Options, solve};
//!
//! let a = flow(&Flow { cells: [12, 10, 8], ..Flow::default() })?;
//! let (b, mut x) = (vec![1.0; a.rows()], vec![0.0; a.rows()]);
//! let answer = solve(&Runtime::new()?, &a, &b, &mut x, &Options::default(), &mut ())?;
//! assert!(answer.solution.reason.is_converged());
//! # Ok::<(), zellige_sparse::Error>(())
//! ```

mod answer;
mod choose;
mod options;
mod prepare;
mod run;

pub use answer::{Answer, Attempt, Bytes};
pub use choose::candidates;
pub use options::{
    CriterionChoice, Inner, KeptSetup, MethodChoice, Options, PreconditionerChoice, ScalingChoice,
};
pub use prepare::has_constant_null_space;
pub use run::{ShiftedAnswer, System};

use crate::csr::Csr;
use zellige_krylov::{Error, Executor, Logger, Space};

/// Returns the number of workers that one right-hand side keeps busy: a task for each part of a
/// vector, and two while the matrix is stored and factored.
pub fn parallelism(a: &Csr) -> usize {
    Space::new(a.rows(), a.bytes()).parts().max(2)
}

/// Solves `A x = b`, from the guess in `x`.
///
/// # Errors
/// Those of [`System::new`] and [`System::solve_each`].
pub fn solve(
    rt: &dyn Executor,
    a: &Csr,
    b: &[f64],
    x: &mut [f64],
    options: &Options,
    log: &mut dyn Logger,
) -> Result<Answer, Error> {
    System::new(rt, a, options)?.solve(b, x, log)
}

#[cfg(test)]
mod tests;
