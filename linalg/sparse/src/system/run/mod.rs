//! Runs of the candidates for one or several right-hand sides.

mod attempts;
mod multiple_rhs;
mod quality;
mod shifted;
mod verify;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zellige_krylov::method::{MemoryUse, OffsetLogger};
use zellige_krylov::{Error, Executor, Logger, Method, Operator, Solution, Solve, Stop, solve as solve_by};

pub use self::shifted::ShiftedAnswer;

use self::attempts::Attempts;
use super::answer::{Answer, Bytes};
use super::choose::{candidates, method_of, preconditioner_of};
use super::options::{MethodChoice, Options, PreconditionerChoice};
use super::prepare::{
    PreparedSystem, PreparedVectors, ScaledMethod, StoredMatrices, has_constant_null_space,
};
use crate::concurrent::join;
use crate::csr::Csr;

/// A matrix with everything that its solution needs. Preconditioners are made when they are first
/// used; they and the stored matrices serve any number of right-hand sides.
///
/// ```
/// use zellige_runtime::Runtime;
/// use zellige_sparse::generate::{Flow, flow};
/// use zellige_sparse::system::{Options, System};
///
/// let a = flow(&Flow { cells: [12, 10, 8], ..Flow::default() })?;
/// let rt = Runtime::new()?;
/// let system = System::new(&rt, &a, &Options::default())?;
/// let (mut b, mut x) = (vec![vec![0.0; a.rows()]; 2], vec![vec![0.0; a.rows()]; 2]);
/// (b[0][3], b[1][500]) = (1.0, 1.0);
/// let answers = system.solve_each(&b, &mut x, &mut [(); 2])?;
/// assert!(answers.iter().all(|answer| answer.solution.reason.is_converged()));
/// # Ok::<(), zellige_sparse::Error>(())
/// ```
pub struct System<'a> {
    rt: &'a dyn Executor,
    prepared: PreparedSystem<'a>,
    stored: StoredMatrices,
    options: Options,
    candidates: Vec<Candidate>,
    setup: Duration,
}

/// A method, and its preconditioner once it was needed.
struct Candidate {
    method: MethodChoice,
    choice: PreconditionerChoice,
    preconditioner: Mutex<Option<Preconditioner>>,
}

/// A preconditioner, if the candidate has one, and the time that it took to make.
#[derive(Clone)]
struct Preconditioner {
    operator: Option<Arc<dyn Operator>>,
    time: Duration,
}

/// A right-hand side that is being solved for, in the order of the matrix.
struct RightHandSide {
    b: Vec<f64>,
    /// The best answer so far.
    x: Vec<f64>,
    /// Backward error and attainable residual of the answer, once computed.
    quality: Option<(f64, f64)>,
    /// Norm of the part that was removed from `b`.
    removed: f64,
    begun: Instant,
    /// Time that products had taken before.
    products_before: Duration,
    attempts: Attempts,
    /// Time for preconditioners that it made, or waited for.
    preconditioner_time: Duration,
    preconditioner_bytes: u64,
    /// Bytes of the preconditioners of attempts before the last.
    failed_bytes: u64,
}

impl fmt::Debug for System<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.prepared.matrix().rows();
        let mut debug = f.debug_struct("System");
        debug.field("rows", &rows).field("options", &self.options).finish_non_exhaustive()
    }
}

impl<'a> System<'a> {
    /// Prepares and stores a matrix. Incomplete factors for the first attempt are made at the same
    /// time if there are workers for both; shifts, which need none, are solved with
    /// [`PreconditionerChoice::None`].
    ///
    /// # Errors
    /// [`Error::Parameter`] for incompatible options; [`Error::Unsolvable`] for a matrix that is
    /// not square, has a row of zeros or non-finite values, or has no constant in its null space
    /// although one is to be removed, and for a structurally singular one if rows are matched with
    /// columns.
    pub fn new(rt: &'a dyn Executor, a: &'a Csr, options: &Options) -> Result<System<'a>, Error> {
        let begun = Instant::now();
        let prepared = PreparedSystem::new(a, options)?;
        let chosen = candidates(prepared.matrix(), options);
        let store = || StoredMatrices::new(rt, &prepared, options);
        // Ranks run one operation at a time, in one order.
        let is_concurrent = rt.ranks() == 1 && rt.runtime().workers() > 1;
        let (stored, first) = match chosen[0] {
            (method, choice @ PreconditionerChoice::Ilu0) if is_concurrent => {
                // If they do not exist, the attempt that needs them reports it.
                join(store, || preconditioner_of(choice, method, rt, &prepared, options).ok())
            }
            _ => (store(), None),
        };
        let stored = stored?;
        // Its time is part of that of the stored matrices.
        let made = |operator: Option<Box<dyn Operator>>| Preconditioner {
            operator: operator.map(Arc::from),
            time: Duration::ZERO,
        };
        let mut first = first.map(made);
        let candidate =
            |(method, choice)| Candidate { method, choice, preconditioner: Mutex::new(first.take()) };
        let candidates = chosen.into_iter().map(candidate).collect();
        Ok(System { rt, prepared, stored, options: options.clone(), candidates, setup: begun.elapsed() })
    }

    /// Solves `A x = b`, from the initial guess in `x`.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for non-finite values
    /// in them, and the error that kept every attempt from beginning.
    pub(crate) fn solve(&self, b: &[f64], x: &mut [f64], log: &mut dyn Logger) -> Result<Answer, Error> {
        let mut rhs = self.right_hand_side(b, x)?;
        self.attempt_from(&mut rhs, 0, log)?;
        self.answer(rhs, x)
    }

    /// Returns a right-hand side in the form that methods see.
    fn right_hand_side(&self, b: &[f64], x: &[f64]) -> Result<RightHandSide, Error> {
        let (begun, products_before) = (Instant::now(), self.stored.busy());
        let PreparedVectors { b, x, removed } = self.prepared.vectors(b, x)?;
        // It costs a product, and is rarely needed.
        let uses_first = self.options.stop.iter().any(|stop| matches!(stop, Stop::RelativeToFirst(_)));
        let first = if uses_first { self.prepared.residual(&b, &x) } else { 0.0 };
        Ok(RightHandSide {
            b,
            x,
            quality: None,
            removed,
            begun,
            products_before,
            attempts: Attempts::new(first, self.setup),
            preconditioner_time: Duration::ZERO,
            preconditioner_bytes: 0,
            failed_bytes: 0,
        })
    }

    /// Makes attempts from this candidate on, until one is enough or there are no more.
    fn attempt_from(&self, rhs: &mut RightHandSide, from: usize, log: &mut dyn Logger) -> Result<(), Error> {
        let relaxed = self.stored.relaxed();
        for (k, candidate) in self.candidates.iter().enumerate().skip(from) {
            if candidate.choice == PreconditionerChoice::Lu && self.is_rounding(rhs) {
                break;
            }
            let method = method_of(candidate.method, &self.options, &self.stored, &relaxed);
            let unmet = rhs.attempts.unmet;
            self.attempt(rhs, k, &*method, log)?;
            if rhs.attempts.unmet > unmet {
                self.attempt_again(rhs, k, &*method, log)?;
            }
            if self.is_over(rhs, k) {
                break;
            }
        }
        Ok(())
    }

    /// Makes an attempt from the answer so far.
    fn attempt(
        &self,
        rhs: &mut RightHandSide,
        k: usize,
        method: &dyn Method,
        log: &mut dyn Logger,
    ) -> Result<(), Error> {
        let result = self.start(rhs, k).and_then(|(preconditioner, stop)| {
            let mut log = OffsetLogger { log: &mut *log, before: rhs.attempts.steps };
            check_memory(rhs.b.len(), 1)?;
            let (problem, stop) = (self.problem(preconditioner.operator.as_deref()), &stop[..]);
            match self.prepared.scales() {
                Some(scales) => {
                    let method = ScaledMethod { method, scales };
                    solve_by(&problem, &method, &rhs.b, &mut rhs.x, stop, &mut log)
                }
                None => solve_by(&problem, method, &rhs.b, &mut rhs.x, stop, &mut log),
            }
        });
        self.record(rhs, k, method.name(), result, log)
    }

    /// Repeats an attempt that met the tolerance by rounding errors only, to a smaller tolerance.
    /// For a small system it starts from zero: the rounding errors are those of a large answer, and
    /// a fresh one may be smaller. The answer with the smaller residual stays.
    fn attempt_again(
        &self,
        rhs: &mut RightHandSide,
        k: usize,
        method: &dyn Method,
        log: &mut dyn Logger,
    ) -> Result<(), Error> {
        let (x, solution) = (rhs.x.clone(), rhs.attempts.solution);
        if self.is_small() {
            rhs.x.fill(0.0);
        }
        self.attempt(rhs, k, method, &mut *log)?;
        let residual =
            |solution: Option<Solution>| solution.map_or(f64::INFINITY, |solution| solution.true_residual);
        let is_better = residual(rhs.attempts.solution) < residual(solution);
        if !is_better {
            (rhs.x, rhs.attempts.solution, rhs.quality) = (x, solution, None);
            log.true_residual(rhs.attempts.steps, residual(solution));
        }
        Ok(())
    }

    /// Returns true if no attempt follows this one.
    fn is_over(&self, rhs: &RightHandSide, k: usize) -> bool {
        rhs.attempts.is_over(&self.stops_of(k + 1))
    }

    /// Returns the criteria of an attempt: attempts before one with complete factors leave it a few
    /// steps.
    fn stops_of(&self, k: usize) -> Vec<Stop> {
        let mut rest = self.candidates.iter().skip(k + 1);
        let is_before_factors = rest.any(|next| next.choice == PreconditionerChoice::Lu);
        let kept = |most: usize| if is_before_factors { (most / 10).min(STEPS_WITH_FACTORS) } else { 0 };
        let of_attempt = |stop: &Stop| match *stop {
            Stop::Steps(most) => Stop::Steps(most - kept(most)),
            other => other,
        };
        self.options.stop.iter().map(of_attempt).collect()
    }

    /// Returns the preconditioner and the criteria of the next attempt.
    fn start(&self, rhs: &mut RightHandSide, k: usize) -> Result<(Preconditioner, Vec<Stop>), Error> {
        let began = Instant::now();
        let preconditioner = self.preconditioner(&self.candidates[k]);
        rhs.preconditioner_time += began.elapsed();
        let preconditioner = preconditioner?;
        rhs.attempts.setup += preconditioner.time;
        rhs.failed_bytes += std::mem::take(&mut rhs.preconditioner_bytes);
        rhs.preconditioner_bytes = preconditioner.operator.as_ref().map_or(0, |operator| operator.memory());
        let solving = rhs.begun.elapsed().saturating_sub(rhs.preconditioner_time);
        let elapsed = self.rt.agree_on(rhs.attempts.setup + solving)?;
        let mut rest = self.candidates[k + 1..].iter();
        let is_last = rest.all(|next| next.choice == PreconditionerChoice::Lu);
        Ok((preconditioner, rhs.attempts.stops(&self.stops_of(k), elapsed, is_last)))
    }

    /// Returns the preconditioner of a candidate; concurrent callers wait until it is made.
    fn preconditioner(&self, candidate: &Candidate) -> Result<Preconditioner, Error> {
        let mut made = candidate.preconditioner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(preconditioner) = &*made {
            return Ok(preconditioner.clone());
        }
        let begun = Instant::now();
        let operator =
            preconditioner_of(candidate.choice, candidate.method, self.rt, &self.prepared, &self.options)?;
        let operator = operator.map(Arc::from);
        Ok(made.insert(Preconditioner { operator, time: begun.elapsed() }).clone())
    }

    /// Returns the input of methods.
    fn problem<'s>(&'s self, preconditioner: Option<&'s dyn Operator>) -> Solve<'s> {
        let (exact, inner, reduction) = (self.stored.exact(), self.stored.inner(), self.stored.reduction);
        Solve { rt: self.rt, exact, inner, preconditioner, reduction }
    }

    /// Returns the answer's data and writes the solution to `x`.
    fn answer(&self, mut rhs: RightHandSide, x: &mut [f64]) -> Result<Answer, Error> {
        let products = (self.stored.busy() - rhs.products_before) / self.rt.runtime().workers() as u32;
        let matrix = self.prepared.matrix();
        let is_constant = || !self.options.without_constant && has_constant_null_space(matrix);
        let mut solution = rhs.attempts.solution(is_constant)?;
        if self.options.without_constant {
            solution = self.without_mean(solution, &mut rhs);
        }
        let (backward_error, attainable) = self.quality(&mut rhs);
        self.prepared.restore(&rhs.x, x);
        let bytes = self.bytes(rhs.attempts.memory, [rhs.preconditioner_bytes, rhs.failed_bytes]);
        Ok(Answer {
            solution,
            removed: rhs.removed,
            attempts: rhs.attempts.list,
            inner: self.stored.chosen,
            backward_error,
            attainable,
            setup: rhs.attempts.setup,
            solve: rhs.begun.elapsed() - rhs.preconditioner_time,
            products,
            bytes,
        })
    }

    /// Returns the bytes that are stored with these vectors; the array has the bytes of the last
    /// preconditioner and of those before it.
    fn bytes(&self, memory: MemoryUse, [preconditioner, failed_preconditioners]: [u64; 2]) -> Bytes {
        let [matrix, inner] = self.stored.bytes();
        Bytes {
            given: self.prepared.matrix().memory(),
            rearranged: self.prepared.rearranged_bytes(),
            matrix,
            inner,
            preconditioner,
            failed_preconditioners,
            basis: memory.basis,
            vectors: memory.vectors,
        }
    }

    /// Returns true if complete factors cost next to nothing.
    fn is_small(&self) -> bool {
        self.prepared.matrix().rows() <= SMALL
    }
}

/// Vectors of any method without its basis, of scaling, and of the loop around it.
const VECTORS: u64 = 24;

/// Refuses vectors of `rows` numbers for `systems` concurrent systems that do not fit the memory.
fn check_memory(rows: usize, systems: usize) -> Result<(), Error> {
    let bytes = (8 * VECTORS).saturating_mul(rows as u64).saturating_mul(systems as u64);
    Error::if_too_large(|| format!("vectors of {rows} numbers for {systems} right-hand side(s)"), bytes)
}

/// Steps reserved for a method with complete factors, or a tenth of all if that is less.
const STEPS_WITH_FACTORS: usize = 20;
/// Number of rows up to which complete factors cost next to nothing.
const SMALL: usize = 1000;
