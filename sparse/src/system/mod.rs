//! A matrix and a right-hand side, and an answer whose residual can be trusted.
//!
//! [`solve`] chooses what is not chosen, makes the copies and preconditioners that are needed, and tries what promises most first; an attempt
//! that fails leaves its best answer to the next. A [`System`] keeps what was made for further right-hand sides, and solves several at once.
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

mod candidates;
mod check;
mod choice;
mod copies;
mod made;
mod scaled;
mod several;

use std::time::Duration;

use zellige_runtime::Runtime;

pub use choice::{Inner, MethodChoice, PreconditionerChoice, ScalingChoice};
pub use made::System;

use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{BasisFormat, Logger, Solution, Stop};

/// How a system is solved.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The method.
    pub method: MethodChoice,
    /// What helps it.
    pub preconditioner: PreconditionerChoice,
    /// What it multiplies with.
    pub inner: Inner,
    /// How GMRES stores its vectors.
    pub basis: BasisFormat,
    /// What rows and columns are multiplied by for it.
    pub scaling: ScalingChoice,
    /// When to stop: whichever comes first.
    pub stop: Vec<Stop>,
    /// The unknowns are ordered anew, so that neighbours are close (reverse Cuthill-McKee).
    pub reorder: bool,
    /// Constant vectors are in the null space: they are taken out of the right-hand side and of the answer.
    pub without_constant: bool,
}

impl Default for Options {
    /// Everything automatic, to `1e-10` of the right-hand side, in at most 10 000 steps.
    fn default() -> Self {
        Options {
            method: MethodChoice::default(),
            preconditioner: PreconditionerChoice::default(),
            inner: Inner::default(),
            basis: BasisFormat::default(),
            scaling: ScalingChoice::default(),
            stop: vec![Stop::RelativeToRhs(1e-10), Stop::Steps(10_000)],
            reorder: false,
            without_constant: false,
        }
    }
}

/// What an attempt came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The method's name.
    pub method: String,
    /// What helped it.
    pub preconditioner: PreconditionerChoice,
    /// How it ended; what stood in its way if it could not begin.
    pub result: Result<Solution, String>,
}

/// What was found, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Of the last attempt; steps and runs of all.
    pub solution: Solution,
    /// All of them.
    pub attempts: Vec<Attempt>,
    /// `|b - A x|_inf / (|A|_inf |x|_inf + |b|_inf)` (Rigal and Gaches 1967).
    pub backward_error: f64,
    /// `u ||A| |x||_2` with the unit roundoff `u`: what rounding the answer to `f64` does to the residual. No method gets far below it.
    pub attainable: f64,
    /// Making the copies, scalings and preconditioners that were used, whoever used them first.
    pub setup: Duration,
    /// Everything else.
    pub solve: Duration,
    /// Products with the matrix and its narrow copy, as part of `solve` (the time of workers, divided by their number); of all right-hand sides
    /// that are solved for at once.
    pub products: Duration,
    /// What was stored.
    pub bytes: Bytes,
}

/// Bytes that were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The matrix in `f64`.
    pub matrix: u64,
    /// The narrow copy; 0 if there is none.
    pub inner: u64,
    /// What the last attempt's preconditioner reads at each application.
    pub preconditioner: u64,
}

/// Solves `A x = b`, from the guess in `x`.
///
/// # Errors
/// Those of [`System::new`] and [`System::solve`].
pub fn solve(
    rt: &Runtime,
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
