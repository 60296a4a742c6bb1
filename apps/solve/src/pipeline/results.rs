//! Results of `zellige solve` and `zellige matrix info`, as written to JSON.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_sparse::krylov::History;
use zellige_sparse::system::{self, Answer};
use zellige_sparse::{Csr, Description};

use super::least_squares::Fitted;

/// Resource use of one of several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankUse {
    /// Number of the rank, from 0.
    pub rank: usize,
    /// Peak memory of its process (0 if the system does not report it).
    pub peak_memory_bytes: u64,
    /// Bytes of values that it sent to other ranks.
    pub sent_bytes: u64,
}

/// Result for one right-hand side and one shift.
#[derive(Debug)]
pub struct Solved {
    /// Number of the right-hand side, counted from 1.
    pub rhs: usize,
    /// Multiple of the identity that was added to the matrix.
    pub shift: Option<f64>,
    /// Answer of the solver.
    pub answer: Answer,
    /// Residual history.
    pub history: History,
}

impl Solved {
    /// Returns the name of the system, if there are several.
    pub fn name(&self, several: bool) -> Option<String> {
        let rhs = || format!("right-hand side {}", self.rhs);
        several.then(|| self.shift.map_or_else(rhs, |shift| format!("{}, shift {shift:?}", rhs())))
    }
}

/// A result of `zellige solve`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SolveResult {
    /// Whether the residual is within the requested tolerance.
    pub converged: bool,
    /// Stopping reason of the solver.
    pub reason: &'static str,
    /// Multiple of the identity that was added to the matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// Operator of the inner iteration, in the syntax of `--operator`.
    pub operator: String,
    /// Method of the last attempt.
    pub method: String,
    /// Preconditioner of the last attempt.
    pub preconditioner: String,
    /// Number of steps of all attempts.
    pub iterations: usize,
    /// Number of runs of the method, each from a recomputed residual.
    pub runs: usize,
    /// Whether the matrix or a vector is complex. The system is then solved as the real one of
    /// twice the size.
    pub complex: bool,
    /// Number of rows of the (real) matrix.
    pub rows: usize,
    /// Number of nonzeros of the (real) matrix.
    pub nonzeros: usize,
    /// Residual of the method's recurrence (2-norm).
    pub iterated_residual: f64,
    /// Recomputed residual `b - A x` (2-norm).
    pub true_residual: f64,
    /// Norm of the right-hand side (2-norm).
    pub rhs: f64,
    /// Norm of the part that `--nullspace` removed from the right-hand side; `rhs` is that of the
    /// rest.
    pub removed: f64,
    /// Backward error `|b - A x| / (|A| |x| + |b|)` in infinity norms (Rigal and Gaches 1967).
    pub backward_error: f64,
    /// Smallest residual that is attainable in f64.
    pub attainable_residual: f64,
    /// Times (s).
    pub seconds: Seconds,
    /// Bytes of every stored copy.
    pub bytes: Bytes,
    /// Methods and preconditioners in the order of the attempts.
    pub attempts: Vec<Attempt>,
    /// Residuals by step.
    pub history: Residuals,
    /// Resource use of each rank, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankUse>,
}

/// Result of `zellige solve` for a right-hand side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SolveOutput {
    /// Result of a linear system.
    System(Box<SolveResult>),
    /// Result of a least-squares problem: a matrix that is not square, or `--damping`.
    LeastSquares(Box<LeastSquaresResult>),
}

/// A result of `zellige solve` for a least-squares problem.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LeastSquaresResult {
    /// Whether one of the measures is within the requested tolerance.
    pub converged: bool,
    /// Stopping reason of the solver.
    pub reason: &'static str,
    /// Method: `lsmr`.
    pub method: &'static str,
    /// Whether the matrix or a vector is complex. The system is then solved as the real one of
    /// twice the size.
    pub complex: bool,
    /// Number of rows of the (real) matrix.
    pub rows: usize,
    /// Number of columns of the (real) matrix.
    pub columns: usize,
    /// Number of nonzeros of the (real) matrix.
    pub nonzeros: usize,
    /// Damping of the solution.
    pub damping: f64,
    /// Number of steps.
    pub iterations: usize,
    /// Residual `|b - A x|` (2-norm).
    pub residual: f64,
    /// Gradient `|A^T (b - A x) - damping^2 x|` (2-norm): 0 at the minimum.
    pub gradient: f64,
    /// Norm of the right-hand side (2-norm).
    pub rhs: f64,
    /// Norm of the solution (2-norm).
    pub answer: f64,
    /// Frobenius norm of the part of the matrix that the method has seen.
    pub norm: f64,
    /// Time for storing the matrix and its transpose (s).
    pub seconds_setup: f64,
    /// Time of the steps (s), for all right-hand sides.
    pub seconds_solve: f64,
    /// Bytes of the matrix and its transpose, in the storage for products.
    pub bytes: u64,
    /// History by step of the measure that is compared with the tolerance: the smaller of `|r| /
    /// (|b| + |A| |x|)` and `|A^T r - damping^2 x| / (|A| |r|)`.
    pub history: Vec<f64>,
    /// Resource use of each rank, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankUse>,
}

impl LeastSquaresResult {
    /// Returns the result for a matrix and a solution.
    pub fn new(a: &Csr, complex: bool, damping: f64, fitted: &Fitted) -> Self {
        let solution = &fitted.solution;
        LeastSquaresResult {
            converged: solution.reason.is_converged(),
            reason: solution.reason.name(),
            method: "lsmr",
            complex,
            rows: a.rows(),
            columns: a.columns(),
            nonzeros: a.nonzeros(),
            damping,
            iterations: solution.steps,
            residual: solution.residual,
            gradient: solution.gradient,
            rhs: solution.rhs,
            answer: solution.answer,
            norm: solution.norm,
            seconds_setup: fitted.setup.as_secs_f64(),
            seconds_solve: fitted.solve.as_secs_f64(),
            bytes: fitted.bytes,
            history: fitted.history.steps.clone(),
            ranks: Vec::new(),
        }
    }
}

/// Times of an answer (s).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Seconds {
    /// Time for storing the matrix, and for preconditioners.
    pub setup: f64,
    /// Time of the steps.
    pub solve: f64,
    /// Part of the steps in products with the matrix.
    pub spmv: f64,
}

/// Bytes of every stored copy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bytes {
    /// The matrix in CSR, as read.
    pub given: u64,
    /// The matrix in another order, and with scaled rows and columns.
    pub rearranged: u64,
    /// Copy for products.
    pub matrix: u64,
    /// Copy for products in lower precision.
    pub operator: u64,
    /// Preconditioner of the successful attempt.
    pub preconditioner: u64,
    /// Preconditioners of failed attempts.
    pub failed_preconditioners: u64,
    /// Krylov vectors.
    pub basis: u64,
    /// Other vectors.
    pub vectors: u64,
    /// Total of all copies.
    pub total: u64,
}

/// An attempt with one method.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Attempt {
    /// Name of the method.
    pub method: String,
    /// Name of the preconditioner.
    pub preconditioner: String,
    /// Stopping reason.
    pub reason: String,
    /// Number of steps.
    pub iterations: usize,
    /// Recomputed residual `b - A x` at its end (2-norm).
    pub true_residual: Option<f64>,
}

/// Residuals by step (2-norms).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Residuals {
    /// Residual of the method's recurrence, after each step.
    pub iterated: Vec<f64>,
    /// Recomputed residuals of `b - A x`: `[steps, residual]`.
    pub r#true: Vec<(usize, f64)>,
}

impl SolveResult {
    /// Returns the result for a matrix and a solution.
    pub fn new(a: &Csr, complex: bool, Solved { rhs: _, shift, answer, history }: &Solved) -> SolveResult {
        let solution = &answer.solution;
        let attempts: Vec<Attempt> = answer.attempts.iter().map(Attempt::new).collect();
        let last = attempts.last();
        SolveResult {
            converged: solution.reason.is_converged(),
            reason: solution.reason.name(),
            shift: *shift,
            operator: answer.inner.to_string(),
            method: last.map(|last| last.method.clone()).unwrap_or_default(),
            preconditioner: last.map(|last| last.preconditioner.clone()).unwrap_or_default(),
            iterations: solution.steps,
            runs: solution.runs,
            complex,
            rows: a.rows(),
            nonzeros: a.nonzeros(),
            iterated_residual: solution.iterated_residual,
            true_residual: solution.true_residual,
            rhs: solution.rhs,
            removed: answer.removed,
            backward_error: answer.backward_error,
            attainable_residual: answer.attainable,
            seconds: Seconds {
                setup: answer.setup.as_secs_f64(),
                solve: answer.solve.as_secs_f64(),
                spmv: answer.products.as_secs_f64(),
            },
            bytes: Bytes::of(&answer.bytes),
            attempts,
            history: Residuals { iterated: history.steps.clone(), r#true: history.checks.clone() },
            ranks: Vec::new(),
        }
    }
}

impl Bytes {
    fn of(bytes: &system::Bytes) -> Self {
        let total = bytes.total();
        let system::Bytes {
            given,
            rearranged,
            matrix,
            inner,
            preconditioner,
            failed_preconditioners,
            basis,
            vectors,
        } = *bytes;
        Bytes {
            given,
            rearranged,
            matrix,
            operator: inner,
            preconditioner,
            failed_preconditioners,
            basis,
            vectors,
            total,
        }
    }
}

impl Attempt {
    /// Returns the attempt from the solver's record.
    pub fn new(attempt: &system::Attempt) -> Attempt {
        let solution = attempt.result.as_ref().ok();
        Attempt {
            method: attempt.method.clone(),
            preconditioner: attempt.preconditioner.to_string(),
            reason: match &attempt.result {
                Ok(solution) => solution.reason.name().to_owned(),
                Err(problem) => problem.clone(),
            },
            iterations: solution.map_or(0, |solution| solution.steps),
            true_residual: solution.map(|solution| solution.true_residual),
        }
    }
}

/// The result of `zellige matrix info`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MatrixResult {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Number of stored nonzeros.
    pub nonzeros: usize,
    /// Number of stored entries that are zero.
    pub zeros: usize,
    /// Smallest and largest number of nonzeros in a row.
    pub row_nonzeros: [usize; 2],
    /// Largest distance of an entry from the diagonal.
    pub bandwidth: usize,
    /// Whether entries are complex.
    pub complex: bool,
    /// Whether the pattern is symmetric.
    pub symmetric_pattern: bool,
    /// Whether the values are symmetric, too.
    pub symmetric: bool,
    /// Whether entries are the complex conjugates of those across the diagonal; for a real matrix
    /// the same as symmetric.
    pub hermitian: bool,
    /// Number of zeros on the diagonal.
    pub zero_diagonals: usize,
    /// Smallest and largest magnitude.
    pub magnitudes: [f64; 2],
    /// Histogram of magnitudes: `[k, count]` for nonzeros from 10^k to 10^(k+1).
    pub decades: Vec<(i32, u64)>,
    /// Largest sum of magnitudes of a row.
    pub norm_inf: f64,
    /// Smallest sum of magnitudes of a row.
    pub least_row_sum: f64,
    /// Bytes in CSR in fp64; for a complex matrix, as the real one of twice the size.
    pub bytes: u64,
}

impl From<&Description> for MatrixResult {
    fn from(d: &Description) -> Self {
        MatrixResult {
            rows: d.shape.0,
            columns: d.shape.1,
            nonzeros: d.nonzeros.0,
            zeros: d.nonzeros.1,
            row_nonzeros: d.row_nonzeros.into(),
            bandwidth: d.bandwidth,
            complex: d.complex,
            symmetric_pattern: d.symmetric.0,
            symmetric: d.symmetric.1,
            hermitian: d.hermitian,
            zero_diagonals: d.zero_diagonals,
            magnitudes: d.magnitudes.into(),
            decades: d.decades.clone(),
            norm_inf: d.norm_inf.0,
            least_row_sum: d.norm_inf.1,
            bytes: d.bytes,
        }
    }
}
