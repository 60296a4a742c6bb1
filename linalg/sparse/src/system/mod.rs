//! Solvers of linear systems that return an answer with a recomputed residual.
//!
//! [`solve`] chooses the options that are left open, makes the copies and preconditioners that are
//! needed, and tries the most promising candidate first. An attempt that fails leaves its best
//! answer to the next. A [`System`] keeps the prepared objects for further right-hand sides, and
//! solves several at once.
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

mod attempts;
mod candidates;
mod check;
mod choice;
mod copies;
mod made;
mod quality;
mod scaled;
mod several;
mod shifts;
mod together;

use std::time::Duration;

pub use candidates::candidates;
pub use check::has_constant_null_space;
pub use choice::{CriterionChoice, Inner, MethodChoice, PreconditionerChoice, ScalingChoice};
pub use made::System;
pub use shifts::ShiftedAnswer;

use crate::csr::Csr;
use zellige_krylov::Space;
use zellige_krylov::{Error, Executor, Logger, Orthogonalisation, Packed, Solution, Stop};

/// Options of the solution of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The method.
    pub method: MethodChoice,
    /// The preconditioner.
    pub preconditioner: PreconditionerChoice,
    /// Matrix that the method multiplies with.
    pub inner: Inner,
    /// Vector that formats are chosen for if a copy's criterion needs one (`cw-exact`), such as an
    /// estimate of the answer. It has no zeros.
    pub x_for: Option<Vec<f64>>,
    /// Storage format of the GMRES basis.
    pub basis: Packed,
    /// Orthogonalisation of GMRES.
    pub orthogonalisation: Orthogonalisation,
    /// Copies that GMRES switches to as its residual becomes small
    /// ([`RelaxedGmres`](crate::krylov::RelaxedGmres)), the most accurate first.
    pub relaxed: Vec<Inner>,
    /// Factor, between 0 and 1, of reliable updates: conjugate gradients with a narrow copy replace
    /// their residual by the recomputed one once it has decreased by this factor
    /// ([`ReliableUpdates`](crate::krylov::ReliableUpdates)).
    pub reliable: Option<f64>,
    /// Scaling of rows and columns for the method.
    pub scaling: ScalingChoice,
    /// Stopping criteria; the first that is met stops the iteration.
    pub stop: Vec<Stop>,
    /// True if the unknowns are reordered, so that neighbours are close (reverse Cuthill-McKee).
    pub reorder: bool,
    /// True if constant vectors are in the null space: they are removed from the right-hand side
    /// and from the answer.
    pub without_constant: bool,
}

impl Default for Options {
    /// Chooses everything automatically, with a tolerance of `1e-10` relative to the right-hand
    /// side and at most 10 000 steps.
    fn default() -> Self {
        Options {
            method: MethodChoice::default(),
            preconditioner: PreconditionerChoice::default(),
            inner: Inner::default(),
            x_for: None,
            basis: Packed::default(),
            orthogonalisation: Orthogonalisation::default(),
            relaxed: Vec::new(),
            reliable: None,
            scaling: ScalingChoice::default(),
            stop: vec![Stop::RelativeToRhs(1e-10), Stop::Steps(10_000)],
            reorder: false,
            without_constant: false,
        }
    }
}

/// Returns the number of workers that one right-hand side keeps busy: a task for each part of a
/// vector, and two while copies and factors are made.
pub fn parallelism(a: &Csr) -> usize {
    Space::new(a.rows(), a.bytes()).parts().max(2)
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The method's name.
    pub method: String,
    /// The preconditioner.
    pub preconditioner: PreconditionerChoice,
    /// The solution's data, or the reason why the attempt could not begin.
    pub result: Result<Solution, String>,
}

/// Result of a solve and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Result of the last attempt, with the steps and runs of all attempts.
    pub solution: Solution,
    /// All attempts.
    pub attempts: Vec<Attempt>,
    /// Matrix that methods multiplied with: [`Options::inner`], or the selected copy if it is
    /// automatic.
    pub inner: Inner,
    /// The norm of the part removed from `b` ([`Options::without_constant`]): residuals are those
    /// of the rest.
    pub removed: f64,
    /// `|b - A x|_inf / (|A|_inf |x|_inf + |b|_inf)` (Rigal and Gaches 1967).
    pub backward_error: f64,
    /// `u ||A| |x||_2` with the unit roundoff `u`: the effect of rounding the answer to `f64` on
    /// the residual. No method gets far below it.
    pub attainable: f64,
    /// Setup time of the copies, scalings and preconditioners in use, including shared ones.
    pub setup: Duration,
    /// Everything else.
    pub solve: Duration,
    /// Products with the matrix and its narrow copy, as part of `solve` (the time of workers,
    /// divided by their number); of all right-hand sides that are solved for at once.
    pub products: Duration,
    /// Bytes that were stored.
    pub bytes: Bytes,
}

/// Bytes that were stored, all of them at once at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The matrix in CSR, as it was given.
    pub given: u64,
    /// The reordered and scaled matrix, if preconditioners are made from it; otherwise 0.
    pub rearranged: u64,
    /// The matrix in `f64`.
    pub matrix: u64,
    /// The narrow copy, or copies; 0 if there is none.
    pub inner: u64,
    /// The last attempt's preconditioner.
    pub preconditioner: u64,
    /// Preconditioners of earlier attempts, which are kept for other right-hand sides.
    pub failed_preconditioners: u64,
    /// The stored basis of the Krylov space; the largest of all attempts.
    pub basis: u64,
    /// All other vectors of the solve; the maximum over all attempts.
    pub vectors: u64,
}

impl Bytes {
    /// Returns the sum of all bytes.
    pub fn total(&self) -> u64 {
        let matrices = self.given + self.rearranged + self.matrix + self.inner;
        matrices + self.preconditioner + self.failed_preconditioners + self.basis + self.vectors
    }
}

/// Solves `A x = b`, from the guess in `x`.
///
/// # Errors
/// Those of [`System::ready`] and [`System::solve`].
pub fn solve(
    rt: &dyn Executor,
    a: &Csr,
    b: &[f64],
    x: &mut [f64],
    options: &Options,
    log: &mut dyn Logger,
) -> Result<Answer, Error> {
    System::ready(rt, a, options)?.solve(b, x, log)
}

#[cfg(test)]
mod tests;
