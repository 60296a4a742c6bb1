//! A matrix and a right-hand side, and an answer whose residual can be trusted.
//!
//! [`solve`] chooses what is not chosen, makes the copies and preconditioners that are needed, and tries what promises most first; an attempt
//! that fails leaves its best answer to the next.
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

mod choice;
mod scaled;

use std::time::{Duration, Instant};

use zellige_runtime::Runtime;

pub use choice::{Inner, MethodChoice, PreconditionerChoice, ScalingChoice};
use scaled::{Scaled, Scales};

use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::precondition::{Amg, Chebyshev, Ilu, Jacobi};
use crate::krylov::{
    BiCgStab, Cg, Gmres, Logger, Method, Minres, Operator, Preconditioner, Reason, Solution, Solve, Stop,
    Stored, best_edge, solve as solve_by,
};
use crate::reorder::Permutation;
use crate::space::Space;

/// How a system is solved.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The method.
    pub method: MethodChoice,
    /// What helps it.
    pub preconditioner: PreconditionerChoice,
    /// What it multiplies with.
    pub inner: Inner,
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
    /// Making copies, scalings and preconditioners.
    pub setup: Duration,
    /// Everything after that.
    pub solve: Duration,
    /// Products with the matrix and its narrow copy, as part of `solve` (the time of workers, divided by their number).
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
/// [`Error::Unsolvable`] for a matrix that is not square, that has a row of zeros, elements that are infinite or no numbers, or no constant in its null
/// space where one is to be taken out; [`Error::Shape`] for vectors of other lengths; what kept the only attempt from beginning.
pub fn solve(
    rt: &Runtime,
    a: &Csr,
    b: &[f64],
    x: &mut [f64],
    options: &Options,
    log: &mut dyn Logger,
) -> Result<Answer, Error> {
    check(a, b, x)?;
    if options.reorder {
        let order = Permutation::reverse_cuthill_mckee(a)?;
        let mut permuted = order.vector(x);
        let rest = Options { reorder: false, ..options.clone() };
        let answer = solve(rt, &order.matrix(a)?, &order.vector(b), &mut permuted, &rest, log)?;
        order.put_back(&permuted, x);
        return Ok(answer);
    }
    if options.without_constant {
        check_constant(a)?;
        let mut rhs = b.to_vec();
        take_mean_out(&mut rhs);
        let rest = Options { without_constant: false, ..options.clone() };
        let answer = solve(rt, a, &rhs, x, &rest, log)?;
        take_mean_out(x);
        return Ok(answer);
    }
    attempts(rt, a, b, x, options, log)
}

fn take_mean_out(v: &mut [f64]) {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    v.iter_mut().for_each(|v| *v -= mean);
}

fn check(a: &Csr, b: &[f64], x: &[f64]) -> Result<(), Error> {
    if a.rows() != a.columns() || a.rows() == 0 {
        let problem = format!("{} rows, {} columns: only square systems are solved", a.rows(), a.columns());
        return Err(Error::unsolvable("matrix", problem));
    }
    a.check_vectors(x, b)?;
    for (i, (_, value)) in a.iter().enumerate() {
        if let Some(value) = value.iter().find(|value| !value.is_finite()) {
            return Err(Error::unsolvable("matrix", format!("row {} has an element {value}", i + 1)));
        }
        if value.iter().all(|&value| value == 0.0) {
            let problem = format!("row {} is all zeros: the matrix is singular", i + 1);
            return Err(Error::unsolvable("matrix", problem));
        }
    }
    Ok(())
}

/// A constant is in the null space if every row adds up to zero, but for rounding.
fn check_constant(a: &Csr) -> Result<(), Error> {
    for (i, (_, value)) in a.iter().enumerate() {
        let (sum, size) = (value.iter().sum::<f64>(), crate::csr::abs_sum(value));
        if sum.abs() > 1e-10 * size {
            let problem = format!("row {} adds up to {sum:e}: a constant is not in the null space", i + 1);
            return Err(Error::unsolvable("matrix", problem));
        }
    }
    Ok(())
}

/// What is tried, in this order: an attempt before the last may take this many steps.
const STEPS_OF_ONE: usize = 2000;

fn candidates(a: &Csr, options: &Options) -> Vec<(MethodChoice, PreconditionerChoice)> {
    use MethodChoice::{BiCgStab, Cg, Gmres, Minres};
    use PreconditionerChoice::{Amg, Auto, Ilu0, Jacobi};
    let gmres = |restart| Gmres { restart, flexible: false };
    let keeps_symmetry = options.scaling != ScalingChoice::Rows;
    let is_symmetric = keeps_symmetry && a.is_symmetric();
    let is_positive = is_symmetric && (0..a.rows()).all(|i| a.get(i, i) > 0.0);
    let all: &[_] = if is_positive {
        &[(Cg, Ilu0), (Cg, Amg), (Cg, Jacobi), (Minres, Jacobi), (gmres(100), Ilu0)]
    } else if is_symmetric {
        &[(gmres(100), Ilu0), (Minres, Jacobi), (BiCgStab { l: 4 }, Ilu0), (gmres(200), Jacobi)]
    } else {
        &[(gmres(40), Ilu0), (BiCgStab { l: 2 }, Ilu0), (gmres(100), Ilu0), (gmres(100), Jacobi)]
    };
    let mut chosen = Vec::new();
    for &(method, preconditioner) in all {
        let method = if options.method == MethodChoice::Auto { method } else { options.method };
        let preconditioner =
            if options.preconditioner == Auto { preconditioner } else { options.preconditioner };
        if !chosen.contains(&(method, preconditioner)) {
            chosen.push((method, preconditioner));
        }
    }
    chosen
}

fn method_of(choice: MethodChoice) -> Box<dyn Method> {
    match choice {
        MethodChoice::Auto => unreachable!("candidates are none"),
        MethodChoice::Cg => Box::new(Cg { flexible: false }),
        MethodChoice::Fcg => Box::new(Cg { flexible: true }),
        MethodChoice::Minres => Box::new(Minres),
        MethodChoice::BiCgStab { l } => Box::new(BiCgStab { l }),
        MethodChoice::Gmres { restart, flexible } => {
            Box::new(Gmres { restart, flexible, ..Gmres::default() })
        }
    }
}

fn preconditioner_of(
    choice: PreconditionerChoice,
    method: MethodChoice,
    rt: &Runtime,
    space: &Space,
    a: &Csr,
) -> Result<Option<Box<dyn Preconditioner>>, Error> {
    Ok(Some(match choice {
        PreconditionerChoice::Auto => unreachable!("candidates are none"),
        PreconditionerChoice::None => return Ok(None),
        PreconditionerChoice::Jacobi if method == MethodChoice::Minres => {
            Box::new(Jacobi::absolute(rt, space, a)?)
        }
        PreconditionerChoice::Jacobi => Box::new(Jacobi::new(rt, space, a)?),
        PreconditionerChoice::Ilu0 => Box::new(Ilu::new(rt, space, a)?),
        PreconditionerChoice::Chebyshev { degree } => Box::new(Chebyshev::new(rt, space, a, degree)?),
        PreconditionerChoice::Amg => Box::new(Amg::new(rt, space, a, best_edge(a))?),
    }))
}

/// The system as methods see it.
struct Prepared {
    space: Space,
    exact: Stored,
    /// A narrow copy, and what rows and columns of it were multiplied by.
    inner: Option<Stored>,
    scales: Option<Scales>,
    /// The matrix that preconditioners are of, if it is not the one that was given.
    scaled: Option<Csr>,
    reduction: f64,
}

impl Prepared {
    fn new(rt: &Runtime, a: &Csr, options: &Options) -> Result<Prepared, Error> {
        let space = Space::new(a.rows(), a.bytes());
        let exact = Stored::exact(rt, &space, a)?;
        let scales = match (options.scaling, options.inner) {
            (ScalingChoice::None, _) => None,
            (ScalingChoice::Auto, Inner::Exact) if !has_large_rows(a) => None,
            (ScalingChoice::Rows, _) => Some(Scales::of_rows(a)),
            (ScalingChoice::Both, _) | (ScalingChoice::Auto, _) => Some(Scales::of_both(a)),
        };
        let scaled = scales.as_ref().map(|scales| scales.matrix(a)).transpose()?;
        let matrix = scaled.as_ref().unwrap_or(a);
        let adaptation = options.inner.adaptation();
        let inner = match (options.inner, &scales) {
            (Inner::Exact, None) => None,
            _ => {
                let edge = if adaptation.set.has_scales() { 1 } else { best_edge(matrix) };
                Some(Stored::new(rt, &space, matrix, edge, &adaptation)?)
            }
        };
        let reduction = reduction(inner.as_ref().map_or(0.0, Operator::accuracy));
        Ok(Prepared { space, exact, inner, scales, scaled, reduction })
    }

    fn inner(&self) -> &Stored {
        self.inner.as_ref().unwrap_or(&self.exact)
    }
}

/// Rows that are larger than others by more than this (`2^20`) are of other units.
const LARGE: f64 = 1_048_576.0;

fn has_large_rows(a: &Csr) -> bool {
    let sums = || a.iter().map(|(_, value)| crate::csr::abs_sum(value));
    sums().fold(0.0, f64::max) > LARGE * sums().fold(f64::INFINITY, f64::min)
}

/// By how much a method may reduce its residual before the true one is looked at: products that are accurate to `eps` support little more.
fn reduction(accuracy: f64) -> f64 {
    if accuracy <= f64::EPSILON { 0.0 } else { (64.0 * accuracy).min(0.1) }
}

fn attempts(
    rt: &Runtime,
    a: &Csr,
    b: &[f64],
    x: &mut [f64],
    options: &Options,
    log: &mut dyn Logger,
) -> Result<Answer, Error> {
    let begun = Instant::now();
    let prepared = Prepared::new(rt, a, options)?;
    let matrix = prepared.scaled.as_ref().unwrap_or(a);
    let candidates = candidates(a, options);
    let (mut attempts, mut setup, mut preconditioner_bytes) = (Vec::new(), begun.elapsed(), 0);
    let (mut solved, mut steps, mut runs): (Option<Solution>, _, _) = (None, 0, 0);
    for (k, &(choice, helper)) in candidates.iter().enumerate() {
        let start = Instant::now();
        let method = method_of(choice);
        let name = method.name();
        let helped = preconditioner_of(helper, choice, rt, &prepared.space, matrix);
        setup += start.elapsed();
        let result = helped.and_then(|helped| {
            preconditioner_bytes = helped.as_deref().map_or(0, Preconditioner::bytes);
            let problem = Solve {
                rt,
                space: &prepared.space,
                exact: &prepared.exact,
                inner: prepared.inner(),
                preconditioner: helped.as_deref(),
                reduction: prepared.reduction,
            };
            let stop = stops(&options.stop, steps, begun.elapsed(), k + 1 == candidates.len());
            match &prepared.scales {
                Some(scales) => {
                    solve_by(&problem, &Scaled { method: &*method, scales }, b, x, &stop[..], log)
                }
                None => solve_by(&problem, &*method, b, x, &stop[..], log),
            }
        });
        match result {
            Ok(solution) => {
                (steps, runs) = (steps + solution.steps, runs + solution.runs);
                solved = Some(solution);
                attempts.push(Attempt { method: name, preconditioner: helper, result: Ok(solution) });
                let is_over = solution.reason == Reason::Time || left(&options.stop, steps) == Some(0);
                if solution.reason.is_converged() || is_over {
                    break;
                }
            }
            Err(error) if candidates.len() == 1 => return Err(error),
            Err(error) => {
                attempts.push(Attempt {
                    method: name,
                    preconditioner: helper,
                    result: Err(error.to_string()),
                });
            }
        }
    }
    let Some(solution) = solved else {
        let problem = attempts
            .iter()
            .map(|attempt| format!("{}: {}", attempt.method, attempt.result.as_ref().unwrap_err()));
        return Err(Error::unsolvable("system", problem.collect::<Vec<_>>().join("; ")));
    };
    let (backward_error, attainable) = quality(a, b, x);
    let busy = prepared.exact.busy() + prepared.inner.as_ref().map_or(Duration::ZERO, Stored::busy);
    Ok(Answer {
        solution: Solution { steps, runs, ..solution },
        attempts,
        backward_error,
        attainable,
        setup,
        solve: begun.elapsed() - setup,
        products: busy / rt.workers() as u32,
        bytes: Bytes {
            matrix: prepared.exact.bytes(),
            inner: prepared.inner.as_ref().map_or(0, Operator::bytes),
            preconditioner: preconditioner_bytes,
        },
    })
}

/// Steps that are left of those that all attempts may take.
fn left(stop: &[Stop], taken: usize) -> Option<usize> {
    let of_one = |stop: &Stop| match *stop {
        Stop::Steps(most) => Some(most.saturating_sub(taken)),
        _ => None,
    };
    stop.iter().filter_map(of_one).min()
}

/// The criteria of one attempt: what is left of steps and time, and not all of the steps unless it is the last.
fn stops(stop: &[Stop], taken: usize, elapsed: Duration, is_last: bool) -> Vec<Stop> {
    let of_rest = |stop: &Stop| match *stop {
        Stop::Steps(most) => Stop::Steps(most.saturating_sub(taken)),
        Stop::After(most) => Stop::After(most.saturating_sub(elapsed)),
        other => other,
    };
    let own = (!is_last).then_some(Stop::Steps(STEPS_OF_ONE));
    stop.iter().map(of_rest).chain(own).collect()
}

/// The normwise backward error, and the attainable residual.
fn quality(a: &Csr, b: &[f64], x: &[f64]) -> (f64, f64) {
    let (mut residual, mut most_b, mut most_row, mut floor) = (0.0f64, 0.0f64, 0.0f64, 0.0);
    for ((column, value), b) in a.iter().zip(b) {
        let elements = || column.iter().zip(value).map(|(&j, a)| a * x[j as usize]);
        residual = residual.max((b - elements().sum::<f64>()).abs());
        most_b = most_b.max(b.abs());
        most_row = most_row.max(crate::csr::abs_sum(value));
        floor += elements().map(f64::abs).sum::<f64>().powi(2);
    }
    let most_x = x.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let error = if residual == 0.0 { 0.0 } else { residual / (most_row * most_x + most_b) };
    (error, f64::EPSILON / 2.0 * floor.sqrt())
}

#[cfg(test)]
mod tests;
