//! A matrix and a right-hand side, and an answer whose residual can be trusted.
//!
//! [`solve`] chooses what is not chosen, makes the copies and preconditioners that are needed, and
//! tries what promises most first; an attempt that fails leaves its best answer to the next. A
//! [`System`] keeps what was made for further right-hand sides, and solves several at once.
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
mod quality;
mod scaled;
mod several;
mod shifts;
mod together;

use std::time::Duration;

pub use check::has_constant_null_space;
pub use choice::{CriterionChoice, Inner, MethodChoice, PreconditionerChoice, ScalingChoice};
pub use made::System;
pub use shifts::ShiftedAnswer;

use crate::Error;
use crate::csr::Csr;
use zellige_krylov::Space;
use zellige_krylov::{Executor, Logger, Orthogonalisation, Packed, Solution, Stop};

/// How a system is solved.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The method.
    pub method: MethodChoice,
    /// What helps it.
    pub preconditioner: PreconditionerChoice,
    /// What it multiplies with.
    pub inner: Inner,
    /// What elements are chosen for where a copy's criterion is one for a vector (`cw-exact`): an
    /// estimate of the answer, say. In it nothing is zero.
    pub x_for: Option<Vec<f64>>,
    /// How GMRES stores its vectors.
    pub basis: Packed,
    /// How GMRES makes them orthogonal.
    pub orthogonalisation: Orthogonalisation,
    /// Copies that GMRES goes over to as its residual becomes small
    /// ([`RelaxedGmres`](crate::krylov::RelaxedGmres)), the most accurate first.
    pub relaxed: Vec<Inner>,
    /// Conjugate gradients with a narrow copy replace the residual that they keep by the true one
    /// where it has become smaller by this factor, between 0 and 1
    /// ([`ReliableUpdates`](crate::krylov::ReliableUpdates)).
    pub reliable: Option<f64>,
    /// What rows and columns are multiplied by for it.
    pub scaling: ScalingChoice,
    /// When to stop: whichever comes first.
    pub stop: Vec<Stop>,
    /// The unknowns are ordered anew, so that neighbours are close (reverse Cuthill-McKee).
    pub reorder: bool,
    /// Constant vectors are in the null space: they are taken out of the right-hand side and of the
    /// answer.
    pub without_constant: bool,
}

impl Default for Options {
    /// Everything automatic, to `1e-10` of the right-hand side, in at most 10 000 steps.
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

/// Workers that have something to do for one right-hand side: a task for each part of a vector, and
/// two while copies and factors are made.
pub fn parallelism(a: &Csr) -> usize {
    Space::new(a.rows(), a.bytes()).parts().max(2)
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
    /// What methods multiplied with: [`Options::inner`], or what was chosen where it is automatic.
    pub inner: Inner,
    /// The norm of what was taken out of `b` ([`Options::without_constant`]): residuals are those
    /// of the rest.
    pub removed: f64,
    /// `|b - A x|_inf / (|A|_inf |x|_inf + |b|_inf)` (Rigal and Gaches 1967).
    pub backward_error: f64,
    /// `u ||A| |x||_2` with the unit roundoff `u`: what rounding the answer to `f64` does to the
    /// residual. No method gets far below it.
    pub attainable: f64,
    /// Making the copies, scalings and preconditioners that were used, whoever used them first.
    pub setup: Duration,
    /// Everything else.
    pub solve: Duration,
    /// Products with the matrix and its narrow copy, as part of `solve` (the time of workers,
    /// divided by their number); of all right-hand sides that are solved for at once.
    pub products: Duration,
    /// What was stored.
    pub bytes: Bytes,
}

/// Bytes that were stored, all of them at once at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The matrix by rows, as it was given.
    pub given: u64,
    /// The same in another order and with scaled rows and columns, where preconditioners are made
    /// of that; 0 if they are not.
    pub rearranged: u64,
    /// The matrix in `f64`.
    pub matrix: u64,
    /// The narrow copy, or copies; 0 if there is none.
    pub inner: u64,
    /// The last attempt's preconditioner.
    pub preconditioner: u64,
    /// Those of attempts before it, which are kept for other right-hand sides.
    pub failed_preconditioners: u64,
    /// The basis of the Krylov space, as it is stored; the largest of all attempts.
    pub basis: u64,
    /// All other vectors that solving took; the most of all attempts.
    pub vectors: u64,
}

impl Bytes {
    /// All of them.
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
