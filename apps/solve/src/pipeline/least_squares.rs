//! Least squares with a sparse matrix.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use zellige_sparse::adaptive::Adaptation;
use zellige_sparse::krylov::{
    self, Executor, History, LeastSquares, LeastSquaresSolution, Logger, Operator, Space,
};
use zellige_sparse::{Csr, Error, Stored, best_edge};

use super::ForwardedHistory;

/// Options of a least-squares solve.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Damping of the solution: `min |b - A x|^2 + damping^2 |x|^2`.
    pub damping: f64,
    /// Tolerance; see [`LeastSquares::tolerance`].
    pub tolerance: f64,
    /// Maximum number of steps.
    pub steps: usize,
    /// Maximum time.
    pub time: Option<Duration>,
}

/// Result for one right-hand side.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// Number of the right-hand side, counted from 1.
    pub rhs: usize,
    /// Solution with the statistics of the method.
    pub solution: LeastSquaresSolution,
    /// History of the measure that is compared with the tolerance, by step.
    pub history: History,
    /// Time for storing the matrix and its transpose.
    pub setup: Duration,
    /// Time of the steps, for all right-hand sides.
    pub solve: Duration,
    /// Bytes of the matrix and its transpose.
    pub bytes: u64,
}

/// Solves a least-squares problem for each right-hand side by LSMR. `step` is called with the
/// measure that is compared with the tolerance.
///
/// # Errors
/// The errors of storing the matrix and of [`krylov::least_squares`].
pub fn least_squares(
    rt: &dyn Executor,
    a: &Csr,
    b: &[Vec<f64>],
    options: &Options,
    step: impl FnMut(f64) + Send,
) -> Result<(Vec<Vec<f64>>, Vec<Fitted>), Error> {
    let begun = Instant::now();
    let (rows, columns) = (Space::new(a.rows(), a.bytes()), Space::new(a.columns(), a.bytes()));
    let exact = Adaptation::double();
    let stored = Stored::between(rt, &rows, &columns, a, best_edge(a), &exact)?;
    let operator = stored.with_adjoint(rt, a, &exact)?;
    let (setup, begun) = (begun.elapsed(), Instant::now());
    let &Options { damping, tolerance, steps, time } = options;
    let problem = LeastSquares { rt, a: &operator, damping, tolerance, steps, time };
    let step = Mutex::new(step);
    let mut loggers: Vec<_> = b.iter().map(|_| ForwardedHistory::new(&step)).collect();
    let (mut x, mut found) = (Vec::new(), Vec::new());
    // Right-hand sides are solved in blocks of the size that products support.
    for (b, loggers) in b.chunks(MOST_COLUMNS).zip(loggers.chunks_mut(MOST_COLUMNS)) {
        let b: Vec<&[f64]> = b.iter().map(Vec::as_slice).collect();
        let mut logs: Vec<&mut dyn Logger> = Vec::new();
        for logger in loggers {
            logs.push(logger);
        }
        let (answers, solutions) = krylov::least_squares(&problem, &b, &mut logs)?;
        x.extend(answers);
        found.extend(solutions);
    }
    let (solve, bytes) = (begun.elapsed(), Operator::<f64>::memory(&operator));
    let histories = loggers.into_iter().map(|logger| logger.history);
    let fitted = found.into_iter().zip(histories).enumerate();
    let fitted =
        fitted.map(|(k, (solution, history))| Fitted { rhs: k + 1, solution, history, setup, solve, bytes });
    Ok((x, fitted.collect()))
}

/// Maximum number of right-hand sides in a block.
const MOST_COLUMNS: usize = 8;
