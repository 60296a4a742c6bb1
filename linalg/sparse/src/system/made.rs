//! A matrix that is ready for right-hand sides.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zellige_files::memory::NotEnoughMemory;

use super::candidates::{candidates, method_of, preconditioner_of, wants_matching};
use super::check::{check_constant, check_finite, check_matrix, check_options, has_constant_null_space};
use super::copies::{Copies, Plan};
use super::quality::{accurate_residual, quality};
use super::scaled::{Scaled, Scales};
use super::{Answer, Attempt, Bytes, MethodChoice, Options, PreconditionerChoice};
use crate::Error;
use crate::csr::Csr;
use crate::matching::Matching;
use crate::reorder::Permutation;
use zellige_krylov::method::grains::norm;
use zellige_krylov::method::{Kept, Onwards};
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
    removed: f64,
    begun: Instant,
    /// Time that products had taken before.
    busy: Duration,
    pub(super) tried: Tried,
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
        let tried = Tried { first, setup: self.setup, ..Tried::default() };
        Ok(Side {
            b,
            x,
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
            // Once more if the tolerance was met by rounding errors only: to a smaller one.
            for _ in 0..2 {
                let unmet = side.tried.unmet;
                let result = self.prepared(side, k).and_then(|(helper, stop)| {
                    let mut log = Onwards { log: &mut *log, before: side.tried.steps };
                    self.attempt(&*method, helper.as_deref(), &side.b, &mut side.x, &stop, &mut log)
                });
                self.add(side, k, method.name(), result)?;
                if side.tried.unmet == unmet {
                    break;
                }
                if self.a.rows() <= SMALL {
                    // The rounding errors are those of a large answer: a fresh one may be smaller.
                    side.x.fill(0.0);
                }
            }
            if self.is_over(side, k) {
                break;
            }
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
    fn is_rounding(&self, side: &Side) -> bool {
        if self.a.rows() <= SMALL {
            return false;
        }
        let Some(found) = side.tried.solution else { return false };
        let (_, attainable) = quality(&self.a, 0.0, &side.b, &side.x, self.rt.runtime().workers());
        attainable > self.goal(&found, side.tried.first) && found.true_residual <= NEAR_ROUNDING * attainable
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

    /// Adds the result of an attempt; returns its error if it is the only attempt.
    pub(super) fn add(
        &self,
        side: &mut Side,
        k: usize,
        method: String,
        result: Result<Solution, Error>,
    ) -> Result<(), Error> {
        match result {
            Err(error) if self.candidates.len() == 1 => Err(error),
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
    fn verified(&self, side: &Side, solution: Solution) -> Solution {
        // An attempt to a smaller tolerance may have met the requested one.
        if !solution.reason.is_converged() && side.tried.unmet == 0 {
            return solution;
        }
        let goal = self.goal(&solution, side.tried.first);
        let (_, attainable) = quality(&self.a, 0.0, &side.b, &side.x, self.rt.runtime().workers());
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
        }
        let (backward_error, attainable) =
            quality(&self.a, 0.0, &side.b, &side.x, self.rt.runtime().workers());
        match &self.order {
            Some(order) => order.put_back(&side.x, x),
            None => x.copy_from_slice(&side.x),
        }
        let bytes = self.bytes(side.tried.kept, [side.preconditioner_bytes, side.failed_bytes]);
        Ok(Answer {
            solution,
            removed: side.removed,
            attempts: side.tried.attempts,
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
    pub(super) fn bytes(&self, kept: Kept, [preconditioner, failed_preconditioners]: [u64; 2]) -> Bytes {
        let [matrix, inner] = self.copies.bytes();
        let ordered = if matches!(self.a, Cow::Owned(_)) { self.a.memory() } else { 0 };
        Bytes {
            given: self.a.memory(),
            rearranged: ordered + self.plan.scaled.as_ref().map_or(0, Csr::memory),
            matrix,
            inner,
            preconditioner,
            failed_preconditioners,
            basis: kept.basis,
            vectors: kept.vectors,
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

/// The attempts so far.
#[derive(Default)]
pub(super) struct Tried {
    attempts: Vec<Attempt>,
    solution: Option<Solution>,
    pub(super) steps: usize,
    runs: usize,
    /// Number of attempts that met the tolerance by rounding errors of their residual only.
    unmet: i32,
    /// The most that one of them kept.
    kept: Kept,
    /// The norm of the residual before all attempts, if a criterion uses it.
    first: f64,
    /// Setup time of the objects that they used.
    setup: Duration,
    /// The first that did not fit the memory.
    refused: Option<NotEnoughMemory>,
}

/// Maximum number of steps of an attempt before the last.
const STEPS_OF_ONE: usize = 2000;
/// Steps reserved for a method with complete factors, or a tenth of all if that is less.
const STEPS_WITH_FACTORS: usize = 20;
/// Share of a tolerance that rounding errors of a residual may have unnoticed.
const UNSEEN: f64 = 1e-4;
/// Number of rows up to which complete factors cost next to nothing.
const SMALL: usize = 1000;
/// A residual within this factor of the attainable one is near rounding.
const NEAR_ROUNDING: f64 = 100.0;

impl Tried {
    fn add(&mut self, method: String, preconditioner: PreconditionerChoice, result: Result<Solution, Error>) {
        if let Ok(solution) = &result {
            self.steps += solution.steps;
            self.runs += solution.runs;
            let Kept { basis, vectors } = solution.kept;
            self.kept = Kept { basis: self.kept.basis.max(basis), vectors: self.kept.vectors.max(vectors) };
            self.solution = Some(*solution);
        }
        let result = result.map_err(|error| {
            let text = error.to_string();
            if let Error::Memory(refused) = error {
                self.refused.get_or_insert(refused);
            }
            text
        });
        self.attempts.push(Attempt { method, preconditioner, result });
    }

    /// Returns true if no attempt follows.
    pub(super) fn is_over(&self, stop: &[Stop]) -> bool {
        let last = self.attempts.last().and_then(|attempt| attempt.result.as_ref().ok());
        last.is_some_and(|solution| {
            let is_out = stop.iter().any(|stop| matches!(*stop, Stop::Steps(most) if most <= self.steps));
            solution.reason.is_converged() || solution.reason == Reason::Time || is_out
        })
    }

    /// Returns the criteria of the next attempt: the remaining steps and time, and only a part of
    /// the steps unless it is the last attempt.
    fn stops(&self, stop: &[Stop], elapsed: Duration, is_last: bool) -> Vec<Stop> {
        // Otherwise the next attempt would take the guess for an answer.
        let tighter = 0.1f64.powi(self.unmet);
        let of_rest = |stop: &Stop| match *stop {
            Stop::Steps(most) => Stop::Steps(most.saturating_sub(self.steps)),
            Stop::After(most) => Stop::After(most.saturating_sub(elapsed)),
            // The guess is that of the caller, not the result of the previous attempt.
            Stop::RelativeToFirst(ratio) => Stop::Absolute(tighter * ratio * self.first),
            Stop::RelativeToRhs(ratio) => Stop::RelativeToRhs(tighter * ratio),
            Stop::Absolute(residual) => Stop::Absolute(tighter * residual),
        };
        let own = (!is_last).then_some(Stop::Steps(STEPS_OF_ONE));
        stop.iter().map(of_rest).chain(own).collect()
    }

    /// Returns the solution of the last attempt, with the steps and runs of all. Without an attempt
    /// it returns an error that depends on whether the matrix takes constants to zero.
    fn solution(&self, is_constant: impl FnOnce() -> bool) -> Result<Solution, Error> {
        // With more memory there may have been an answer.
        if let (None, Some(refused)) = (&self.solution, &self.refused) {
            return Err(refused.clone().into());
        }
        match self.solution {
            Some(solution) => {
                Ok(Solution { steps: self.steps, runs: self.runs, kept: self.kept, ..solution })
            }
            None => {
                // A text that several attempts share, up to the numbers of handles in it, appears
                // once.
                let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
                for attempt in &self.attempts {
                    let text = attempt.result.as_ref().err().map_or("", |error| error);
                    match said.iter_mut().find(|(_, other)| without_digits(other).eq(without_digits(text))) {
                        Some((methods, _)) if methods.contains(&&*attempt.method) => {}
                        Some((methods, _)) => methods.push(&attempt.method),
                        None => said.push((vec![&attempt.method], text)),
                    }
                }
                let mut problems: Vec<String> =
                    said.iter().map(|(methods, text)| format!("{}: {text}", methods.join(", "))).collect();
                if is_constant() {
                    problems.push("every row adds up to zero: use --nullspace constant".into());
                }
                Err(Error::unsolvable("system", problems.join("; ")))
            }
        }
    }
}

/// Returns the characters of a text that are no digits.
fn without_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_ascii_digit())
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

    #[test]
    fn attempts_that_fail_for_one_reason_say_it_once() {
        let failed = |method: &str, text: &str| Attempt {
            method: method.into(),
            preconditioner: PreconditionerChoice::None,
            result: Err(text.into()),
        };
        let attempts = vec![
            failed("cg", "handle #17 has no value"),
            failed("minres", "handle #33 has no value"),
            failed("gmres(10)", "row 3 has no pivot"),
        ];
        let text = Tried { attempts, ..Tried::default() }.solution(|| false).unwrap_err().to_string();
        assert!(
            text.ends_with("cg, minres: handle #17 has no value; gmres(10): row 3 has no pivot"),
            "{text}"
        );
    }
}
