//! What `zellige solve` and `zellige matrix info` write as JSON.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_sparse::krylov::History;
use zellige_sparse::system::{self, Answer};
use zellige_sparse::{Csr, Description};

use super::least_squares::Fitted;

/// What one of several ranks took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankUse {
    /// The rank, from 0.
    pub rank: usize,
    /// Most memory its process held (0 where the system does not tell).
    pub peak_memory_bytes: u64,
    /// Bytes of values that it sent to other ranks.
    pub sent_bytes: u64,
}

/// What was found for one right-hand side, and one shift.
#[derive(Debug)]
pub struct Solved {
    /// The right-hand side, counted from 1.
    pub rhs: usize,
    /// The multiple of the identity that was added to the matrix.
    pub shift: Option<f64>,
    /// What the solver says.
    pub answer: Answer,
    /// The residuals on its way.
    pub history: History,
}

impl Solved {
    /// What it is the answer to, in words, unless there is but one.
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
    /// Why the solver stopped.
    pub reason: &'static str,
    /// The multiple of the identity that was added to the matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<f64>,
    /// What methods multiplied with; `--operator` has the same again.
    pub operator: String,
    /// The method of the last attempt.
    pub method: String,
    /// Its preconditioner.
    pub preconditioner: String,
    /// Steps of all attempts.
    pub iterations: usize,
    /// How often the method was started from a true residual.
    pub runs: usize,
    /// Whether the matrix or a vector is complex; the system is solved as the real one of twice the
    /// size.
    pub complex: bool,
    /// Rows of the (real) matrix.
    pub rows: usize,
    /// Nonzeros of the (real) matrix.
    pub nonzeros: usize,
    /// The residual that the method itself kept (2-norm).
    pub iterated_residual: f64,
    /// `b - A x` (2-norm).
    pub true_residual: f64,
    /// The right-hand side (2-norm).
    pub rhs: f64,
    /// Norm of what `--nullspace` took out of the right-hand side; `rhs` is that of the rest.
    pub removed: f64,
    /// `|b - A x| / (|A| |x| + |b|)` in infinity norms (Rigal and Gaches 1967).
    pub backward_error: f64,
    /// The residual that answers in f64 can have.
    pub attainable_residual: f64,
    /// Times (s).
    pub seconds: Seconds,
    /// Every stored copy.
    pub bytes: Bytes,
    /// Methods and preconditioners in the order in which they were tried.
    pub attempts: Vec<Attempt>,
    /// Residuals by step.
    pub history: Residuals,
    /// What each rank took, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankUse>,
}

/// What `zellige solve` writes for a right-hand side.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SolveOutput {
    /// Of a system.
    System(Box<SolveResult>),
    /// Of a least-squares problem: a matrix that is not square, or `--damping`.
    LeastSquares(Box<LeastSquaresResult>),
}

/// A result of `zellige solve` for a least-squares problem.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LeastSquaresResult {
    /// Whether one of the measures is within the requested tolerance.
    pub converged: bool,
    /// Why the solver stopped.
    pub reason: &'static str,
    /// `lsmr`.
    pub method: &'static str,
    /// Whether the matrix or a vector is complex; the system is solved as the real one of twice the
    /// size.
    pub complex: bool,
    /// Rows of the (real) matrix.
    pub rows: usize,
    /// Columns of the (real) matrix.
    pub columns: usize,
    /// Nonzeros of the (real) matrix.
    pub nonzeros: usize,
    /// What `x` costs beside the residual.
    pub damping: f64,
    /// Steps.
    pub iterations: usize,
    /// `|b - A x|` (2-norm).
    pub residual: f64,
    /// `|A^T (b - A x) - damping^2 x|` (2-norm): 0 at the minimum.
    pub gradient: f64,
    /// The right-hand side (2-norm).
    pub rhs: f64,
    /// The answer (2-norm).
    pub answer: f64,
    /// Frobenius norm of the part of the matrix that the method has seen.
    pub norm: f64,
    /// Storing the matrix and its transpose (s).
    pub seconds_setup: f64,
    /// Steps (s), of all right-hand sides together.
    pub seconds_solve: f64,
    /// Bytes of the matrix and its transpose, as they are multiplied with.
    pub bytes: u64,
    /// By step, the measure that the tolerance is compared with: the smaller of `|r| /
    /// (|b| + |A| |x|)` and `|A^T r - damping^2 x| / (|A| |r|)`.
    pub history: Vec<f64>,
    /// What each rank took, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankUse>,
}

impl LeastSquaresResult {
    /// Of a matrix and what was found.
    pub fn new(a: &Csr, complex: bool, damping: f64, fitted: &Fitted) -> Self {
        let solution = &fitted.solution;
        LeastSquaresResult {
            converged: solution.reason.is_converged(),
            reason: solution.reason.name(),
            method: "lsmr",
            complex,
            rows: a.rows(),
            columns: a.columns(),
            nonzeros: a.elements(),
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
    /// Storing the matrix, preconditioners.
    pub setup: f64,
    /// Steps.
    pub solve: f64,
    /// Products with the matrix, of these.
    pub spmv: f64,
}

/// Every stored copy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bytes {
    /// By rows, as it was read.
    pub given: u64,
    /// In another order, and with scaled rows and columns.
    pub rearranged: u64,
    /// For products.
    pub matrix: u64,
    /// For products in lower precision.
    pub operator: u64,
    /// The preconditioner that served.
    pub preconditioner: u64,
    /// Those that did not.
    pub failed_preconditioners: u64,
    /// Krylov vectors.
    pub basis: u64,
    /// Other vectors.
    pub vectors: u64,
    /// All together.
    pub total: u64,
}

/// A method that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Attempt {
    /// Its name.
    pub method: String,
    /// What it was preconditioned with.
    pub preconditioner: String,
    /// Why it stopped.
    pub reason: String,
    /// Steps.
    pub iterations: usize,
    /// `b - A x` at its end (2-norm).
    pub true_residual: Option<f64>,
}

/// Residuals by step (2-norms).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Residuals {
    /// The method's own, after each step.
    pub iterated: Vec<f64>,
    /// `[steps, residual]`: of `b - A x`.
    pub r#true: Vec<(usize, f64)>,
}

impl SolveResult {
    /// Of a matrix and what was found.
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
            nonzeros: a.elements(),
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
    /// Of what the solver says.
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
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Stored nonzeros.
    pub nonzeros: usize,
    /// Those that are zero.
    pub zeros: usize,
    /// Fewest and most nonzeros of a row.
    pub row_nonzeros: [usize; 2],
    /// Largest distance of an element from the diagonal.
    pub bandwidth: usize,
    /// Whether elements are complex.
    pub complex: bool,
    /// Whether the pattern is symmetric.
    pub symmetric_pattern: bool,
    /// Whether the values are, too.
    pub symmetric: bool,
    /// Whether elements are the complex conjugates of those across the diagonal; of a real matrix
    /// the same as symmetric.
    pub hermitian: bool,
    /// Zeros on the diagonal.
    pub zero_diagonals: usize,
    /// Least and largest magnitude.
    pub magnitudes: [f64; 2],
    /// `[k, count]`: nonzeros from 10^k to 10^(k+1).
    pub decades: Vec<(i32, u64)>,
    /// Largest sum of magnitudes of a row.
    pub norm_inf: f64,
    /// Least sum of magnitudes of a row.
    pub least_row_sum: f64,
    /// By rows in fp64; of a complex matrix, as the real one of twice the size.
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
