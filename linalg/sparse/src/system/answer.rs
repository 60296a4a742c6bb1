//! Answers of a system and their costs.

use std::time::Duration;

use zellige_krylov::Solution;

use super::options::{Inner, PreconditionerChoice};

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
    /// Matrix that methods multiplied with: [`Options::inner`](super::Options), or the selected
    /// copy if it is automatic.
    pub inner: Inner,
    /// Norm of the part removed from `b` ([`Options::without_constant`](super::Options)): residuals
    /// are those of the rest.
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
