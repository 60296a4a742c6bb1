//! A matrix that is ready for right-hand sides.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zellige_runtime::Runtime;

use super::candidates::{candidates, method_of, preconditioner_of};
use super::check::{check_constant, check_matrix};
use super::copies::Copies;
use super::scaled::Scaled;
use super::{Answer, Attempt, Bytes, MethodChoice, Options, PreconditionerChoice};
use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Logger, Preconditioner, Reason, Solution, Solve, Stop, solve as solve_by};
use crate::reorder::Permutation;

/// A matrix with everything that solving takes: copies are made when it is, preconditioners when they are first needed, and both serve any number of
/// right-hand sides.
///
/// ```
/// use zellige_runtime::Runtime;
/// use zellige_sparse::generate::{Flow, flow};
/// use zellige_sparse::system::{Options, System};
///
/// let a = flow(&Flow { cells: [12, 10, 8], ..Flow::default() })?;
/// let rt = Runtime::new()?;
/// let system = System::new(&rt, &a, &Options::default())?;
/// for source in [3, 500] {
///     let (mut b, mut x) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
///     b[source] = 1.0;
///     assert!(system.solve(&b, &mut x, &mut ())?.solution.reason.is_converged());
/// }
/// # Ok::<(), zellige_sparse::Error>(())
/// ```
pub struct System<'a> {
    pub(super) rt: &'a Runtime,
    /// In the order of `order`.
    a: Cow<'a, Csr>,
    order: Option<Permutation>,
    options: Options,
    copies: Copies,
    candidates: Vec<Candidate>,
    setup: Duration,
}

/// A way to solve the system, and its preconditioner once it was needed.
struct Candidate {
    method: MethodChoice,
    preconditioner: PreconditionerChoice,
    made: Mutex<Option<Helper>>,
}

/// A preconditioner, if the way has one, and how long it took to make.
#[derive(Clone)]
struct Helper {
    preconditioner: Option<Arc<dyn Preconditioner>>,
    took: Duration,
}

impl fmt::Debug for System<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let System { a, options, .. } = self;
        f.debug_struct("System").field("rows", &a.rows()).field("options", options).finish_non_exhaustive()
    }
}

impl<'a> System<'a> {
    /// Makes what does not depend on right-hand sides.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not square, that has a row of zeros, elements that are infinite or no numbers, or no constant in
    /// its null space where one is to be taken out.
    pub fn new(rt: &'a Runtime, a: &'a Csr, options: &Options) -> Result<System<'a>, Error> {
        let begun = Instant::now();
        check_matrix(a)?;
        if options.without_constant {
            check_constant(a)?;
        }
        let order = options.reorder.then(|| Permutation::reverse_cuthill_mckee(a)).transpose()?;
        let a = match &order {
            Some(order) => Cow::Owned(order.matrix(a)?),
            None => Cow::Borrowed(a),
        };
        let copies = Copies::new(rt, &a, options)?;
        let candidate =
            |(method, preconditioner)| Candidate { method, preconditioner, made: Mutex::default() };
        let candidates = candidates(&a, options).into_iter().map(candidate).collect();
        let options = options.clone();
        Ok(System { rt, a, order, options, copies, candidates, setup: begun.elapsed() })
    }

    /// Solves `A x = b`, from the guess in `x`.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for elements of them that are infinite or no numbers, and what kept every
    /// attempt from beginning.
    pub fn solve(&self, b: &[f64], x: &mut [f64], log: &mut dyn Logger) -> Result<Answer, Error> {
        self.a.check_vectors(x, b)?;
        let mut rhs = Cow::Borrowed(b);
        if self.options.without_constant {
            take_mean_out(rhs.to_mut());
        }
        let answer = match &self.order {
            Some(order) => {
                let mut permuted = order.vector(x);
                let answer = self.attempts(&order.vector(&rhs), &mut permuted, log)?;
                order.put_back(&permuted, x);
                answer
            }
            None => self.attempts(&rhs, x, log)?,
        };
        if self.options.without_constant {
            take_mean_out(x);
        }
        Ok(answer)
    }

    fn attempts(&self, b: &[f64], x: &mut [f64], log: &mut dyn Logger) -> Result<Answer, Error> {
        let (begun, busy) = (Instant::now(), self.copies.busy());
        // It costs a product, and hardly anybody asks for it.
        let goes_by_first = self.options.stop.iter().any(|stop| matches!(stop, Stop::RelativeToFirst(_)));
        let first = if goes_by_first { self.residual(b, x) } else { 0.0 };
        let mut tried = Tried { first, setup: self.setup, ..Tried::default() };
        let (mut made_now, mut preconditioner_bytes) = (Duration::ZERO, 0);
        for (k, candidate) in self.candidates.iter().enumerate() {
            let is_last = k + 1 == self.candidates.len();
            let began = Instant::now();
            let helper = self.helper(candidate);
            made_now += began.elapsed();
            let result = helper.and_then(|helper| {
                tried.setup += helper.took;
                let helper = helper.preconditioner;
                preconditioner_bytes = helper.as_ref().map_or(0, |helper| helper.bytes());
                let elapsed = tried.setup + begun.elapsed().saturating_sub(made_now);
                let stop = tried.stops(&self.options.stop, elapsed, is_last);
                self.attempt(candidate.method, helper.as_deref(), b, x, &stop, log)
            });
            match result {
                Err(error) if self.candidates.len() == 1 => return Err(error),
                result => tried.add(
                    method_of(candidate.method, self.options.basis).name(),
                    candidate.preconditioner,
                    result,
                ),
            }
            if tried.is_over(&self.options.stop) {
                break;
            }
        }
        let products = (self.copies.busy() - busy) / self.rt.workers() as u32;
        let (backward_error, attainable) = quality(&self.a, b, x);
        let [matrix, inner] = self.copies.bytes();
        Ok(Answer {
            solution: tried.solution()?,
            attempts: tried.attempts,
            backward_error,
            attainable,
            setup: tried.setup,
            solve: begun.elapsed() - made_now,
            products,
            bytes: Bytes { matrix, inner, preconditioner: preconditioner_bytes },
        })
    }

    /// The norm of `b - A x`.
    fn residual(&self, b: &[f64], x: &[f64]) -> f64 {
        let row = |((column, value), b): ((&[u32], &[f64]), &f64)| {
            (b - column.iter().zip(value).map(|(&j, a)| a * x[j as usize]).sum::<f64>()).powi(2)
        };
        self.a.iter().zip(b).map(row).sum::<f64>().sqrt()
    }

    /// The preconditioner of a candidate; whoever else needs it waits until it is made.
    fn helper(&self, candidate: &Candidate) -> Result<Helper, Error> {
        let mut made = candidate.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(helper) = &*made {
            return Ok(helper.clone());
        }
        let (begun, matrix) = (Instant::now(), self.copies.scaled.as_ref().unwrap_or(&self.a));
        let Candidate { method, preconditioner, .. } = *candidate;
        let preconditioner = preconditioner_of(preconditioner, method, self.rt, &self.copies.space, matrix)?;
        let helper = Helper { preconditioner: preconditioner.map(Arc::from), took: begun.elapsed() };
        *made = Some(helper.clone());
        Ok(helper)
    }

    fn attempt(
        &self,
        method: MethodChoice,
        preconditioner: Option<&dyn Preconditioner>,
        b: &[f64],
        x: &mut [f64],
        stop: &[Stop],
        log: &mut dyn Logger,
    ) -> Result<Solution, Error> {
        let Copies { space, scales, reduction, .. } = &self.copies;
        let (exact, inner, reduction) = (self.copies.exact(), self.copies.inner(), *reduction);
        let problem = Solve { rt: self.rt, space, exact, inner, preconditioner, reduction };
        let method = method_of(method, self.options.basis);
        match scales {
            Some(scales) => solve_by(&problem, &Scaled { method: &*method, scales }, b, x, stop, log),
            None => solve_by(&problem, &*method, b, x, stop, log),
        }
    }
}

fn take_mean_out(v: &mut [f64]) {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    v.iter_mut().for_each(|v| *v -= mean);
}

/// The attempts so far.
#[derive(Default)]
struct Tried {
    attempts: Vec<Attempt>,
    solution: Option<Solution>,
    steps: usize,
    runs: usize,
    /// The norm of the residual before any of them, where a criterion goes by it.
    first: f64,
    /// The time for what they used.
    setup: Duration,
}

/// Steps that an attempt before the last may take.
const STEPS_OF_ONE: usize = 2000;

impl Tried {
    fn add(&mut self, method: String, preconditioner: PreconditionerChoice, result: Result<Solution, Error>) {
        if let Ok(solution) = &result {
            self.steps += solution.steps;
            self.runs += solution.runs;
            self.solution = Some(*solution);
        }
        let result = result.map_err(|error| error.to_string());
        self.attempts.push(Attempt { method, preconditioner, result });
    }

    /// True if nothing more is to be tried.
    fn is_over(&self, stop: &[Stop]) -> bool {
        let last = self.attempts.last().and_then(|attempt| attempt.result.as_ref().ok());
        last.is_some_and(|solution| {
            let is_out = stop.iter().any(|stop| matches!(*stop, Stop::Steps(most) if most <= self.steps));
            solution.reason.is_converged() || solution.reason == Reason::Time || is_out
        })
    }

    /// The criteria of the next attempt: what is left of steps and time, and not all of the steps unless it is the last.
    fn stops(&self, stop: &[Stop], elapsed: Duration, is_last: bool) -> Vec<Stop> {
        let of_rest = |stop: &Stop| match *stop {
            Stop::Steps(most) => Stop::Steps(most.saturating_sub(self.steps)),
            Stop::After(most) => Stop::After(most.saturating_sub(elapsed)),
            // The guess is that of the caller, not what the attempt before has left.
            Stop::RelativeToFirst(ratio) => Stop::Absolute(ratio * self.first),
            other => other,
        };
        let own = (!is_last).then_some(Stop::Steps(STEPS_OF_ONE));
        stop.iter().map(of_rest).chain(own).collect()
    }

    /// That of the last attempt, with the steps and runs of all.
    fn solution(&self) -> Result<Solution, Error> {
        match self.solution {
            Some(solution) => Ok(Solution { steps: self.steps, runs: self.runs, ..solution }),
            None => {
                let problem = |attempt: &Attempt| {
                    format!("{}: {}", attempt.method, attempt.result.as_ref().err().map_or("", |e| e))
                };
                let problems: Vec<_> = self.attempts.iter().map(problem).collect();
                Err(Error::unsolvable("system", problems.join("; ")))
            }
        }
    }
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
mod tests {
    use super::*;

    #[test]
    fn later_attempts_have_what_is_left_and_the_goal_of_the_first() {
        let tried = Tried { first: 8.0, steps: 30, ..Tried::default() };
        let (goal, steps) = (Stop::RelativeToFirst(0.25), Stop::Steps(100));
        let stop =
            tried.stops(&[goal, steps, Stop::After(Duration::from_secs(3))], Duration::from_secs(1), true);
        assert_eq!(stop, [Stop::Absolute(2.0), Stop::Steps(70), Stop::After(Duration::from_secs(2))]);
        assert_eq!(
            tried.stops(&[goal], Duration::ZERO, false),
            [Stop::Absolute(2.0), Stop::Steps(STEPS_OF_ONE)]
        );
    }
}
