//! A matrix that is ready for right-hand sides.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::attempts::Attempts;
use super::candidates::{candidates, method_of, preconditioner_of, wants_matching};
use super::check::{check_constant, check_finite, check_matrix, check_options, has_constant_null_space};
use super::copies::{Copies, Plan};
use super::quality::{accurate_residual, quality};
use super::scaled::{Scaled, Scales};
use super::{Answer, Bytes, MethodChoice, Options, PreconditionerChoice};
use crate::Error;
use crate::csr::Csr;
use crate::matching::Matching;
use crate::reorder::Permutation;
use zellige_krylov::method::{MemoryUse, OffsetLogger, norm};
use zellige_krylov::{
    Executor, Logger, Method, Operator, Progress, Reason, Solution, Solve, Stop, StoppingCriterion,
    solve as solve_by,
};

/// A matrix with everything that solving takes: copies are made when it is, preconditioners when
/// they are first needed, and both serve any number of right-hand sides.
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
    pub(super) rt: &'a dyn Executor,
    /// The matrix with rows permuted by `matched` and then `order`, and columns by `order` only.
    pub(super) a: Cow<'a, Csr>,
    matched: Option<Permutation>,
    pub(super) order: Option<Permutation>,
    pub(super) options: Options,
    pub(super) plan: Plan,
    pub(super) copies: Copies,
    candidates: Vec<Candidate>,
    pub(super) setup: Duration,
}

/// A way to solve the system, and its preconditioner once it was needed.
struct Candidate {
    method: MethodChoice,
    preconditioner: PreconditionerChoice,
    made: Mutex<Option<Helper>>,
}

/// Preconditioner and stopping criteria of an attempt.
type MadeWith = (Option<Arc<dyn Operator>>, Vec<Stop>);

/// A right-hand side that is being solved for, in the matrix' order.
pub(super) struct Side {
    pub(super) b: Vec<f64>,
    /// The best answer so far.
    pub(super) x: Vec<f64>,
    /// Backward error and attainable residual of the answer, once computed.
    quality: Option<(f64, f64)>,
    removed: f64,
    begun: Instant,
    /// Time that products had taken before.
    busy: Duration,
    pub(super) tried: Attempts,
    /// Time for preconditioners that it made, or waited for.
    made_now: Duration,
    preconditioner_bytes: u64,
    /// Bytes of the preconditioners of attempts before the last.
    failed_bytes: u64,
}

/// A preconditioner, if the way has one, and how long it took to make.
#[derive(Clone)]
struct Helper {
    preconditioner: Option<Arc<dyn Operator>>,
    took: Duration,
}

impl fmt::Debug for System<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let System { a, options, .. } = self;
        f.debug_struct("System").field("rows", &a.rows()).field("options", options).finish_non_exhaustive()
    }
}

impl<'a> System<'a> {
    /// Prepares everything that does not depend on right-hand sides, except preconditioners.
    ///
    /// # Errors
    /// [`Error::Parameter`] for incompatible options; [`Error::Unsolvable`] for a matrix that is
    /// not square, has a row of zeros or non-finite values, or has no constant in its null space
    /// although one is to be removed, and for a structurally singular one if rows are matched with
    /// columns.
    pub fn new(rt: &'a dyn Executor, a: &'a Csr, options: &Options) -> Result<System<'a>, Error> {
        System::made(rt, a, options, false)
    }

    /// Prepares a system like [`new`](System::new), for a caller that [solves](System::solve) next:
    /// incomplete factors for the first attempt are made while the matrix is stored, if there are
    /// workers for both.
    ///
    /// # Errors
    /// Those of [`new`](System::new).
    pub fn ready(rt: &'a dyn Executor, a: &'a Csr, options: &Options) -> Result<System<'a>, Error> {
        // Ranks run one operation at a time, in one order.
        System::made(rt, a, options, rt.ranks() == 1 && rt.runtime().workers() > 1)
    }

    fn made(
        rt: &'a dyn Executor,
        a: &'a Csr,
        options: &Options,
        is_ready: bool,
    ) -> Result<System<'a>, Error> {
        let begun = Instant::now();
        check_options(options)?;
        check_matrix(a)?;
        if let Some(x) = options.x_for.as_ref().filter(|x| x.len() != a.columns()) {
            return Err(Error::shape("x-for", format!("{} elements for {} columns", x.len(), a.columns())));
        }
        if options.without_constant {
            check_constant(a)?;
        }
        let matching = wants_matching(a, options).then(|| Matching::new(a)).transpose()?;
        let (matched, mut scales) = match matching {
            Some(Matching { row_of, rows, columns }) => {
                let matched = Permutation::of(row_of);
                let rows = matched.vector(&rows);
                (Some(matched), Some(Scales { rows, columns }))
            }
            None => (None, None),
        };
        let a = match &matched {
            Some(matched) => Cow::Owned(matched.rows(a)?),
            None => Cow::Borrowed(a),
        };
        let order = options.reorder.then(|| Permutation::reverse_cuthill_mckee(&a)).transpose()?;
        let a = match &order {
            Some(order) => {
                scales = scales.map(|Scales { rows, columns }| Scales {
                    rows: order.vector(&rows),
                    columns: order.vector(&columns),
                });
                Cow::Owned(order.matrix(&a)?)
            }
            None => a,
        };
        let plan = Plan::new(&a, options, scales)?;
        let candidates = candidates(&a, options);
        let copies = || Copies::new(rt, &a, &plan, options, order.as_ref());
        let (copies, first) = match candidates[0] {
            (method, preconditioner @ PreconditionerChoice::Ilu0) if is_ready => {
                let factors = || {
                    let known = (plan.matrix(&a), plan.scales.as_ref(), options.without_constant);
                    preconditioner_of(preconditioner, method, rt, &plan.space, known)
                };
                // If they do not exist, the attempt that needs them reports it.
                both(copies, || factors().ok())
            }
            _ => (copies(), None),
        };
        let copies = copies?;
        let candidate =
            |(method, preconditioner)| Candidate { method, preconditioner, made: Mutex::default() };
        let mut candidates: Vec<Candidate> = candidates.into_iter().map(candidate).collect();
        // Its time is among that of the copies.
        let helper = |made: Option<Box<dyn Operator>>| Helper {
            preconditioner: made.map(Arc::from),
            took: Duration::ZERO,
        };
        candidates[0].made = Mutex::new(first.map(helper));
        let options = options.clone();
        Ok(System { rt, a, matched, order, options, plan, copies, candidates, setup: begun.elapsed() })
    }

    /// Solves `A x = b`, from the initial guess in `x`.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for non-finite values
    /// in them, and the error that kept every attempt from beginning.
    pub fn solve(&self, b: &[f64], x: &mut [f64], log: &mut dyn Logger) -> Result<Answer, Error> {
        let mut side = self.side(b, x)?;
        self.attempts(&mut side, 0, log)?;
        self.answer(side, x)
    }

    /// Returns a right-hand side in the form that methods see.
    pub(super) fn side(&self, b: &[f64], x: &[f64]) -> Result<Side, Error> {
        self.a.check_vectors(x, b)?;
        check_finite("right-hand side", b)?;
        check_finite("initial guess", x)?;
        let (begun, busy) = (Instant::now(), self.copies.busy());
        let (mut b, mut x, mut removed) = (b.to_vec(), x.to_vec(), 0.0);
        if self.options.without_constant {
            removed = take_mean_out(&mut b);
        }
        if let Some(matched) = &self.matched {
            b = matched.vector(&b);
        }
        if let Some(order) = &self.order {
            (b, x) = (order.vector(&b), order.vector(&x));
        }
        // It costs a product, and is rarely needed.
        let goes_by_first = self.options.stop.iter().any(|stop| matches!(stop, Stop::RelativeToFirst(_)));
        let first = if goes_by_first { self.residual(&b, &x) } else { 0.0 };
        let tried = Attempts::new(first, self.setup);
        Ok(Side {
            b,
            x,
            quality: None,
            removed,
            begun,
            busy,
            tried,
            made_now: Duration::ZERO,
            preconditioner_bytes: 0,
            failed_bytes: 0,
        })
    }

    /// Makes attempts from this one on, until one is enough or there are no more.
    pub(super) fn attempts(&self, side: &mut Side, from: usize, log: &mut dyn Logger) -> Result<(), Error> {
        let narrower = self.copies.narrower();
        for (k, candidate) in self.candidates.iter().enumerate().skip(from) {
            if candidate.preconditioner == PreconditionerChoice::Lu && self.is_rounding(side) {
                break;
            }
            let method = method_of(candidate.method, &self.options, self.copies.of_residuals(), &narrower);
            let unmet = side.tried.unmet;
            self.attempt_with(side, k, &*method, log)?;
            if side.tried.unmet > unmet {
                self.attempt_again(side, k, &*method, log)?;
            }
            if self.is_over(side, k) {
                break;
            }
        }
        Ok(())
    }

    /// Makes an attempt from the answer so far.
    fn attempt_with(
        &self,
        side: &mut Side,
        k: usize,
        method: &dyn Method,
        log: &mut dyn Logger,
    ) -> Result<(), Error> {
        let result = self.prepared(side, k).and_then(|(helper, stop)| {
            let mut log = OffsetLogger { log: &mut *log, before: side.tried.steps };
            self.attempt(method, helper.as_deref(), &side.b, &mut side.x, &stop, &mut log)
        });
        self.add(side, k, method.name(), result)
    }

    /// Repeats an attempt that met the tolerance by rounding errors only, to a smaller tolerance.
    /// For a small system it starts from zero: the rounding errors are those of a large answer, and
    /// a fresh one may be smaller. The answer with the smaller residual stays.
    fn attempt_again(
        &self,
        side: &mut Side,
        k: usize,
        method: &dyn Method,
        log: &mut dyn Logger,
    ) -> Result<(), Error> {
        let (x, solution) = (side.x.clone(), side.tried.solution);
        if self.a.rows() <= SMALL {
            side.x.fill(0.0);
        }
        self.attempt_with(side, k, method, log)?;
        let residual =
            |solution: Option<Solution>| solution.map_or(f64::INFINITY, |found| found.true_residual);
        let is_better = residual(side.tried.solution) < residual(solution);
        if !is_better {
            (side.x, side.tried.solution, side.quality) = (x, solution, None);
        }
        Ok(())
    }

    /// Returns true if no attempt follows this one.
    pub(super) fn is_over(&self, side: &Side, k: usize) -> bool {
        side.tried.is_over(&self.stops_of(k + 1))
    }

    /// Returns the criteria of an attempt: attempts before one with complete factors leave it a few
    /// steps.
    fn stops_of(&self, k: usize) -> Vec<Stop> {
        let rest = self.candidates.iter().skip(k + 1);
        let is_before_factors =
            rest.map(|next| next.preconditioner).any(|next| next == PreconditionerChoice::Lu);
        let kept = |most: usize| if is_before_factors { (most / 10).min(STEPS_WITH_FACTORS) } else { 0 };
        let of_attempt = |stop: &Stop| match *stop {
            Stop::Steps(most) => Stop::Steps(most - kept(most)),
            other => other,
        };
        self.options.stop.iter().map(of_attempt).collect()
    }

    /// Returns true if rounding the best answer alone leaves a residual above the goal, and about
    /// equal to the actual one. An answer may be large because it is wrong, so small systems are
    /// not judged by it.
    fn is_rounding(&self, side: &mut Side) -> bool {
        if self.a.rows() <= SMALL {
            return false;
        }
        let Some(found) = side.tried.solution else { return false };
        let (_, attainable) = self.quality(side);
        attainable > self.goal(&found, side.tried.first) && found.true_residual <= NEAR_ROUNDING * attainable
    }

    /// Returns the backward error and the attainable residual of the answer so far.
    fn quality(&self, side: &mut Side) -> (f64, f64) {
        let workers = self.rt.runtime().workers();
        *side.quality.get_or_insert_with(|| quality(&self.a, 0.0, &side.b, &side.x, workers))
    }

    /// Returns the residual that is small enough.
    fn goal(&self, found: &Solution, first: f64) -> f64 {
        let progress = Progress { steps: found.steps, elapsed: Duration::ZERO, rhs: found.rhs, first };
        self.options.stop.goal(&progress).unwrap_or(0.0)
    }

    /// Returns the preconditioner and the criteria of the next attempt.
    pub(super) fn prepared(&self, side: &mut Side, k: usize) -> Result<MadeWith, Error> {
        let began = Instant::now();
        let helper = self.helper(&self.candidates[k]);
        side.made_now += began.elapsed();
        let Helper { preconditioner, took } = helper?;
        side.tried.setup += took;
        side.failed_bytes += std::mem::take(&mut side.preconditioner_bytes);
        side.preconditioner_bytes = preconditioner.as_ref().map_or(0, |helper| helper.memory());
        let elapsed = side.tried.setup + side.begun.elapsed().saturating_sub(side.made_now);
        let elapsed = self.rt.agree_on(elapsed)?;
        let mut rest = self.candidates[k + 1..].iter();
        let is_last = rest.all(|next| next.preconditioner == PreconditionerChoice::Lu);
        Ok((preconditioner, side.tried.stops(&self.stops_of(k), elapsed, is_last)))
    }

    /// Adds the result of an attempt; returns its error if there is no other candidate and no
    /// answer.
    pub(super) fn add(
        &self,
        side: &mut Side,
        k: usize,
        method: String,
        result: Result<Solution, Error>,
    ) -> Result<(), Error> {
        side.quality = None;
        match result {
            Err(error) if self.candidates.len() == 1 && side.tried.solution.is_none() => Err(error),
            result => {
                let is_converged = result.as_ref().is_ok_and(|solution| solution.reason.is_converged());
                let result = result.map(|solution| self.verified(side, solution));
                let is_verified = result.as_ref().is_ok_and(|solution| solution.reason.is_converged());
                side.tried.unmet += i32::from(is_converged && !is_verified);
                side.tried.add(method, self.candidates[k].preconditioner, result);
                Ok(())
            }
        }
    }

    /// Takes convergence back from a solution whose residual meets the tolerance by its own
    /// rounding errors only. They matter if `u |A| |x|` is not far below the tolerance.
    fn verified(&self, side: &mut Side, solution: Solution) -> Solution {
        // An attempt to a smaller tolerance may have met the requested one.
        if !solution.reason.is_converged() && side.tried.unmet == 0 {
            return solution;
        }
        let goal = self.goal(&solution, side.tried.first);
        let (_, attainable) = self.quality(side);
        if attainable <= UNSEEN * goal && solution.reason.is_converged() {
            return solution;
        }
        let true_residual = accurate_residual(&self.a, &side.b, &side.x);
        let is_met = true_residual <= (1.0 + UNSEEN) * goal;
        let reason = match (is_met, solution.reason) {
            (true, _) => Reason::Converged,
            (false, reason) if reason.is_converged() => Reason::Stagnated,
            (false, reason) => reason,
        };
        Solution { true_residual, reason, ..solution }
    }

    /// Returns the answer's data and writes the solution to `x`.
    pub(super) fn answer(&self, mut side: Side, x: &mut [f64]) -> Result<Answer, Error> {
        let products = (self.copies.busy() - side.busy) / self.rt.runtime().workers() as u32;
        let is_constant = || !self.options.without_constant && has_constant_null_space(&self.a);
        let mut solution = side.tried.solution(is_constant)?;
        if self.options.without_constant {
            solution = self.without_mean(solution, side.tried.first, &side.b, &mut side.x);
            side.quality = None;
        }
        let (backward_error, attainable) = self.quality(&mut side);
        match &self.order {
            Some(order) => order.put_back(&side.x, x),
            None => x.copy_from_slice(&side.x),
        }
        let bytes = self.bytes(side.tried.memory, [side.preconditioner_bytes, side.failed_bytes]);
        Ok(Answer {
            solution,
            removed: side.removed,
            attempts: side.tried.list,
            inner: self.copies.chosen,
            backward_error,
            attainable,
            setup: side.tried.setup,
            solve: side.begun.elapsed() - side.made_now,
            products,
            bytes,
        })
    }

    /// Returns the bytes that are stored with these vectors; the array has the bytes of the last
    /// preconditioner and of those before it.
    pub(super) fn bytes(
        &self,
        memory: MemoryUse,
        [preconditioner, failed_preconditioners]: [u64; 2],
    ) -> Bytes {
        let [matrix, inner] = self.copies.bytes();
        let ordered = if matches!(self.a, Cow::Owned(_)) { self.a.memory() } else { 0 };
        Bytes {
            given: self.a.memory(),
            rearranged: ordered + self.plan.scaled.as_ref().map_or(0, Csr::memory),
            matrix,
            inner,
            preconditioner,
            failed_preconditioners,
            basis: memory.basis,
            vectors: memory.vectors,
        }
    }

    /// Returns the method of the first attempt.
    pub(super) fn first_method(&self) -> MethodChoice {
        self.candidates[0].method
    }

    /// Returns the solution's data after its mean is subtracted: a matrix need not take constants
    /// to zero to the last bit.
    fn without_mean(&self, found: Solution, first: f64, b: &[f64], x: &mut [f64]) -> Solution {
        take_mean_out(x);
        let solution = Solution { true_residual: self.residual(b, x), ..found };
        let is_missed = solution.true_residual > self.goal(&found, first).max(found.true_residual);
        let reason = if is_missed && found.reason.is_converged() { Reason::Stagnated } else { found.reason };
        Solution { reason, ..solution }
    }

    /// Returns the norm of `b - A x`.
    fn residual(&self, b: &[f64], x: &[f64]) -> f64 {
        let row = |((column, value), b): ((&[u32], &[f64]), &f64)| {
            b - column.iter().zip(value).map(|(&j, a)| a * x[j as usize]).sum::<f64>()
        };
        norm(&self.a.iter().zip(b).map(row).collect::<Vec<_>>())
    }

    /// Returns the preconditioner of a candidate; concurrent callers wait until it is made.
    fn helper(&self, candidate: &Candidate) -> Result<Helper, Error> {
        let mut made = candidate.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(helper) = &*made {
            return Ok(helper.clone());
        }
        let begun = Instant::now();
        let Candidate { method, preconditioner, .. } = *candidate;
        let (matrix, scales) = (self.plan.matrix(&self.a), self.plan.scales.as_ref());
        let known = (matrix, scales, self.options.without_constant);
        let preconditioner = preconditioner_of(preconditioner, method, self.rt, &self.plan.space, known)?;
        let helper = Helper { preconditioner: preconditioner.map(Arc::from), took: begun.elapsed() };
        *made = Some(helper.clone());
        Ok(helper)
    }

    /// Returns the input of methods.
    pub(super) fn problem<'s>(&'s self, preconditioner: Option<&'s dyn Operator>) -> Solve<'s> {
        let (exact, inner, reduction) = (self.copies.exact(), self.copies.inner(), self.copies.reduction);
        Solve { rt: self.rt, exact, inner, preconditioner, reduction }
    }

    fn attempt(
        &self,
        method: &dyn Method,
        preconditioner: Option<&dyn Operator>,
        b: &[f64],
        x: &mut [f64],
        stop: &[Stop],
        log: &mut dyn Logger,
    ) -> Result<Solution, Error> {
        check_vectors(b.len(), 1)?;
        let problem = self.problem(preconditioner);
        match &self.plan.scales {
            Some(scales) => solve_by(&problem, &Scaled { method, scales }, b, x, stop, log),
            None => solve_by(&problem, method, b, x, stop, log),
        }
    }
}

/// Vectors of any method without its basis, of scaling, and of the loop around it.
const VECTORS: u64 = 24;

/// Refuses vectors of `rows` numbers for `systems` concurrent systems that do not fit the memory.
pub(super) fn check_vectors(rows: usize, systems: usize) -> Result<(), Error> {
    let bytes = (8 * VECTORS).saturating_mul(rows as u64).saturating_mul(systems as u64);
    Error::if_too_large(|| format!("vectors of {rows} numbers for {systems} right-hand side(s)"), bytes)
}

/// Runs two functions concurrently and returns both results; one after the other if there is no
/// memory for a thread.
fn both<A, B: Send>(one: impl FnOnce() -> A, other: impl FnOnce() -> B + Send) -> (A, B) {
    let other = Mutex::new(Some(other));
    let work = || {
        let other = other.lock().unwrap_or_else(PoisonError::into_inner).take();
        other.map(|other| other())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work);
        let one = one();
        let made = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => work(),
        };
        (one, made.expect("whoever takes the other work does it"))
    })
}

/// Subtracts the mean of a vector; returns the norm of the subtracted part.
fn take_mean_out(v: &mut [f64]) -> f64 {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    v.iter_mut().for_each(|v| *v -= mean);
    mean.abs() * (v.len() as f64).sqrt()
}

/// Steps reserved for a method with complete factors, or a tenth of all if that is less.
const STEPS_WITH_FACTORS: usize = 20;
/// Share of a tolerance that rounding errors of a residual may have unnoticed.
const UNSEEN: f64 = 1e-4;
/// Number of rows up to which complete factors cost next to nothing.
const SMALL: usize = 1000;
/// A residual within this factor of the attainable one is near rounding.
const NEAR_ROUNDING: f64 = 100.0;
