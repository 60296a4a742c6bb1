//! The loop around every method: true residuals, corrections, and when to stop.

mod outer;
mod range;

use std::borrow::Cow;
use std::time::Instant;

use libm::ldexp;

use crate::error::Error;
use crate::executor::Executor;
use crate::log::{Logger, Rescaled};
use crate::method::grains::norm;
use crate::method::rounds::{Ended, Limit, Limits};
use crate::numbers::State;
use crate::operator::Operator;
use crate::scalar::Scalar;
use crate::stop::{Progress, Stop, StoppingCriterion};
use crate::{Cg, Kept, Method, Setting};
use outer::{Of, Outer};
use range::{TimesPower, exponent, is_subnormal, times_power};

/// A system with the operators of its solution.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solve, Stop, solve};
///
/// // The inverse of the diagonal as a preconditioner.
/// let jacobi = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = x[i] / (i + 1) as f64));
/// let system = Solve { preconditioner: Some(&jacobi), ..Solve::new(&rt, &a) };
/// let mut x = vec![0.0; 50];
/// let found = solve(&system, &Cg::default(), &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
/// assert!(found.steps < 4);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Solve<'s, E: Scalar = f64> {
    /// Runs the tasks.
    pub rt: &'s dyn Executor,
    /// The operator that the system is about: true residuals are its.
    pub exact: &'s dyn Operator<E>,
    /// Operator of the method: the exact one, or a narrower copy.
    pub inner: &'s dyn Operator<E>,
    /// The preconditioner.
    pub preconditioner: Option<&'s dyn Operator<E>>,
    /// Factor by which a run of the method reduces its residual before that is recomputed: the
    /// limit of a narrow copy. With 0 a run continues to the goal.
    pub reduction: f64,
}

impl<'s, E: Scalar> Solve<'s, E> {
    /// Creates a system without a preconditioner or a narrower copy.
    pub fn new(rt: &'s dyn Executor, a: &'s dyn Operator<E>) -> Self {
        Solve { rt, exact: a, inner: a, preconditioner: None, reduction: 0.0 }
    }
}

/// Reason for the end of a solver.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Reason, Solve, Stop, solve};
///
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::Steps(2), &mut ())?;
/// assert_eq!((found.reason, found.reason.name()), (Reason::Steps, "steps"));
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The recomputed residual is within the requested tolerance.
    Converged,
    /// The maximum number of steps was reached.
    Steps,
    /// The time was up.
    Time,
    /// The recomputed residual does not decrease any more.
    Stagnated,
    /// The solution is too large for float64, or so small that rounding it to subnormal numbers
    /// leaves more than the requested tolerance.
    OutOfRange,
    /// The method broke down: the matrix, or the preconditioner, does not have a property that the
    /// method needs.
    BrokenDown,
    /// A number became infinite or none.
    NotANumber,
}

impl Reason {
    /// Returns true if the residual is within the requested tolerance.
    pub fn is_converged(self) -> bool {
        self == Reason::Converged
    }

    /// Returns the name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Converged => "converged",
            Reason::Steps => "steps",
            Reason::Time => "time",
            Reason::Stagnated => "stagnated",
            Reason::OutOfRange => "out of range",
            Reason::BrokenDown => "breakdown",
            Reason::NotANumber => "not a number",
        }
    }
}

/// Result of a solver.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solution, Solve, Stop, solve};
///
/// let mut x = vec![0.0; 50];
/// let found: Solution = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-6), &mut ())?;
/// assert!(found.true_residual <= 1e-6 * found.rhs && found.runs == 1);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solution {
    /// Reason for the end.
    pub reason: Reason,
    /// Number of steps of the method, in all runs.
    pub steps: usize,
    /// Number of residual replacements of the method; see
    /// [`ReliableUpdates`](crate::ReliableUpdates).
    pub updates: usize,
    /// Number of runs of the method: 1 if the first reached the goal.
    pub runs: usize,
    /// The norm of the last residual that the method itself kept.
    pub iterated_residual: f64,
    /// `|b - A x|_2`, computed from the answer with the exact operator.
    pub true_residual: f64,
    /// `|b|_2`.
    pub rhs: f64,
    /// Memory of its vectors, and those of the outer loop.
    pub kept: Kept,
}

/// A run is in vain if the recomputed residual has not decreased by this factor since the last run
/// that was not in vain.
const IN_VAIN: f64 = 0.99;
/// Stagnation limit: the solver stops after this number of consecutive runs in vain.
const PATIENCE: usize = 3;
/// Restarted methods may need this number of steps to leave a plateau, before the stagnation limit
/// applies.
const PLATEAU: usize = 100;
/// An answer that is worse than the best one by more than this factor is discarded.
const FAR: f64 = 1e6;
/// A method's own residual has to decrease a little further than the recomputed one.
pub(super) const BEYOND: f64 = 0.9;

/// Solves `A x = b` from the given `x` (the initial guess), and leaves the best answer in it.
///
/// If `b` is far from 1, the system is solved for `b` and `x` times a power of two, so that
/// right-hand sides of any size are supported. If a solution has been rounded to subnormal numbers,
/// its residual is computed again and decides ([`Reason::OutOfRange`]). Residuals that methods see
/// are multiplied by a further power of two if their norms need it. Criteria, logs and the
/// [`Solution`] are independent of these scales. If `b` is zero and no criterion allows a residual,
/// the solution is zero.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solve, Stop, solve};
///
/// let mut x = vec![0.0; 50]; // the initial guess, and then the answer
/// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
/// assert!(found.reason.is_converged() && (x[9] - 0.1).abs() < 1e-10);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for non-finite numbers in
/// the right-hand side or the guess; those of [`Method::prepare`] and of tasks.
pub fn solve<E: Scalar>(
    problem: &Solve<'_, E>,
    method: &dyn Method<E>,
    b: &[E],
    x: &mut [E],
    stop: &(impl StoppingCriterion + ?Sized),
    log: &mut dyn Logger,
) -> Result<Solution, Error> {
    let solutions = solve_columns(problem, method, &[b], &mut [x], &[&stop], &mut [log])?;
    Ok(solutions[0])
}

/// Solves `A x = b` for a Hermitian positive definite operator by conjugate gradients, until the
/// recomputed residual is at most `tolerance` relative to `b`.
///
/// ```
/// use zellige_krylov::{Space, cg, from_fn};
/// use zellige_runtime::Runtime;
///
/// let rt = Runtime::new()?;
/// let a = from_fn(&Space::new(100, 0), |x: &[f64], y: &mut [f64]| (0..100).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let x = cg(&rt, &a, &[1.0; 100], 1e-10)?;
/// assert!((x[3] - 0.25).abs() < 1e-8);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// Those of [`solve`]; [`Error::Unsolvable`] with the reason and the residual if the tolerance is
/// not reached.
pub fn cg<E: Scalar>(
    rt: &dyn Executor,
    a: &dyn Operator<E>,
    b: &[E],
    tolerance: f64,
) -> Result<Vec<E>, Error> {
    let mut x = vec![E::default(); b.len()];
    let stop = [Stop::RelativeToRhs(tolerance), Stop::Steps(10 * b.len().max(100))];
    let found = solve(&Solve::new(rt, a), &Cg::default(), b, &mut x, &stop[..], &mut ())?;
    match found.reason {
        Reason::Converged => Ok(x),
        reason => {
            let (steps, residual) = (found.steps, found.true_residual / found.rhs);
            let problem = format!(
                "conjugate gradients ended after {steps} steps at a relative residual of {residual:.1e}: {}",
                reason.name()
            );
            Err(Error::unsolvable("system", problem))
        }
    }
}

/// Solves `A x_k = b_k` for several right-hand sides at once, each with its own criteria and
/// logger: products read the matrix once for all of them. Every answer is bitwise identical to that
/// of a single solve. A method that does not [take columns](Method::takes_columns) solves for one
/// after the other.
///
/// ```
/// use zellige_krylov::{Cg, History, Logger, Solve, Space, Stop, StoppingCriterion, from_fn, solve_columns};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(50, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let b = [vec![1.0; 50], vec![2.0; 50]];
/// let (mut x, mut logs) = ([vec![0.0; 50], vec![0.0; 50]], [History::default(), History::default()]);
/// let stops: [&dyn StoppingCriterion; 2] = [&Stop::RelativeToRhs(1e-10), &Stop::RelativeToRhs(1e-6)];
/// let [first, second] = &mut x;
/// let [log, other] = &mut logs;
/// let mut told: [&mut dyn Logger; 2] = [log, other];
/// let found = solve_columns(&Solve::new(&rt, &a), &Cg::default(), &[&b[0], &b[1]], &mut [first, second], &stops, &mut told)?;
/// assert!(found[0].steps > found[1].steps && logs[1].steps.len() == found[1].steps);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] unless all lists have the same length; those of [`solve`].
pub fn solve_columns<E: Scalar>(
    problem: &Solve<'_, E>,
    method: &dyn Method<E>,
    b: &[&[E]],
    x: &mut [&mut [E]],
    stops: &[&dyn StoppingCriterion],
    logs: &mut [&mut dyn Logger],
) -> Result<Vec<Solution>, Error> {
    let counts = [x.len(), stops.len(), logs.len()];
    if b.is_empty() || counts.iter().any(|count| *count != b.len()) {
        let problem = format!("{} with {counts:?} guesses, criteria and loggers", b.len());
        return Err(Error::shape("right-hand sides", problem));
    }
    if b.len() > 1 && !method.takes_columns() {
        let each = b.chunks(1).zip(x.chunks_mut(1)).zip(stops.chunks(1).zip(logs.chunks_mut(1)));
        let one = |((b, x), (stops, logs))| solve_columns(problem, method, b, x, stops, logs);
        return each.map(one).map(|solutions| solutions.map(|one: Vec<Solution>| one[0])).collect();
    }
    let Solve { rt, inner, preconditioner, .. } = *problem;
    let rows = problem.exact.domain().len();
    b.iter().try_for_each(|b| check("right-hand side", b, rows))?;
    x.iter().try_for_each(|x| check("initial guess", x, rows))?;
    let mut method = method.prepare(Setting { rt, a: inner, m: preconditioner, columns: b.len() })?;
    let begun = Instant::now();
    let each = b.iter().zip(&*x);
    let exponents: Vec<i32> = each.map(|(b, x)| exponent(problem, b, x)).collect::<Result<_, _>>()?;
    let rhs: Vec<Cow<'_, [E]>> = b.iter().zip(&exponents).map(|(b, e)| times_power(b, *e)).collect();
    let guesses: Vec<Cow<'_, [E]>> = x.iter().zip(&exponents).map(|(x, e)| times_power(x, *e)).collect();
    let mut outer = Outer::new(problem, [method.residual(), method.correction()], &rhs, &guesses)?;
    drop(guesses);
    let kept = method.kept().and(outer.kept);
    let first = outer.measure(Of::Guess, &vec![true; b.len()])?;
    let column =
        |((b, first), exponent): ((&Cow<'_, [E]>, f64), &i32)| Column::new(norm(b), first, kept, *exponent);
    let mut columns: Vec<Column> = rhs.iter().zip(first).zip(&exponents).map(column).collect();
    let mut logs = TimesPower::each(logs, &exponents);
    let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
    columns.iter().zip(&mut logs).for_each(|(column, log)| log.true_residual(0, column.first));
    loop {
        let elapsed = rt.agree_on(begun.elapsed())?;
        let scales = outer.scales.clone();
        let next = |((column, stop), scale): ((&mut Column, &&dyn StoppingCriterion), &f64)| {
            let limit = column.next(*stop, column.progress(elapsed), problem.reduction);
            limit.map(|limit| Limit { goal: scale * limit.goal, ..limit })
        };
        let runs: Vec<Option<Limit>> = columns.iter_mut().zip(stops).zip(&scales).map(next).collect();
        if runs.iter().all(Option::is_none) {
            break;
        }
        let is_late = || {
            let mut each = columns.iter().zip(stops);
            each.any(|(column, stop)| {
                stop.is_late(&Progress { steps: 0, ..column.progress(begun.elapsed()) })
            })
        };
        let mut rescaled = Rescaled::each(&mut logs, &scales);
        let mut told: Vec<&mut dyn Logger> = rescaled.iter_mut().map(|log| log as &mut dyn Logger).collect();
        let ended = method.run(&Limits { columns: &runs, is_late: &is_late }, &mut told)?;
        outer.absorb(&mut columns, &runs, &ended, &mut logs)?;
    }
    let mut rounded = Vec::with_capacity(x.len());
    for (c, (x, column)) in x.iter_mut().zip(&mut columns).enumerate() {
        let best = if column.is_zero { vec![E::default(); rows] } else { outer.best.column(rt, c)? };
        rounded.push(column.round(&best, x));
    }
    if rounded.iter().any(Option::is_some) {
        // The written solution decides, after rounding.
        let is_rounded: Vec<bool> = rounded.iter().map(Option::is_some).collect();
        let written =
            rounded.into_iter().zip(&rhs).map(|(x, b)| x.unwrap_or_else(|| vec![E::default(); b.len()]));
        let written: Vec<Cow<'_, [E]>> = written.map(Cow::Owned).collect();
        let mut outer = Outer::new(problem, [method.residual(), method.correction()], &rhs, &written)?;
        let residuals = outer.measure(Of::Guess, &is_rounded)?;
        let each = columns.iter_mut().zip(residuals).zip(is_rounded).filter(|(_, is_rounded)| *is_rounded);
        each.for_each(|((column, residual), _)| column.judge_rounded(residual));
    }
    Ok(columns.into_iter().map(Column::solution).collect())
}

/// State of one right-hand side between the runs of a method.
struct Column {
    /// The result so far, with norms of the scaled system.
    solution: Solution,
    /// The system was multiplied by two to this power.
    exponent: i32,
    first: f64,
    /// Required norm of the recomputed residual.
    goal: f64,
    /// The residual of the next run.
    residual: f64,
    /// The recomputed residual when a run last gained something, and the least initial residual of
    /// a run, as its method measures it.
    mark: f64,
    mark_begun: f64,
    in_vain: InVain,
    /// Runs without a step, one after the other.
    idle: usize,
    /// Zero is the answer.
    is_zero: bool,
    is_over: bool,
}

/// Runs that have gained nothing since the last that did.
#[derive(Clone, Copy, Default)]
struct InVain {
    runs: usize,
    /// Number of steps of these runs.
    steps: usize,
    /// The last one made steps, and ended since it had made all that it may.
    is_restarted: bool,
}

impl InVain {
    fn is_hopeless(self) -> bool {
        self.runs >= PATIENCE && (self.steps >= PLATEAU || !self.is_restarted)
    }
}

/// Decision on the answer of a run.
#[derive(Clone, Copy)]
struct Verdict {
    /// True if the next run continues from it, and not from the start of this run.
    accepted: bool,
    /// True if it is the best so far.
    best: bool,
}

impl Column {
    fn new(rhs: f64, first: f64, kept: Kept, exponent: i32) -> Self {
        let solution = Solution {
            reason: Reason::Converged,
            steps: 0,
            updates: 0,
            runs: 0,
            iterated_residual: first,
            true_residual: first,
            rhs,
            kept,
        };
        Column {
            solution,
            exponent,
            idle: 0,
            first,
            goal: 0.0,
            residual: first,
            mark: first,
            mark_begun: f64::INFINITY,
            in_vain: InVain::default(),
            is_zero: false,
            is_over: false,
        }
    }

    /// Returns the input of criteria.
    fn progress(&self, elapsed: std::time::Duration) -> Progress {
        let original = |norm: f64| ldexp(norm, -self.exponent);
        let (rhs, first) = (original(self.solution.rhs), original(self.first));
        Progress { steps: self.solution.steps, elapsed, rhs, first }
    }

    /// Returns the residual of the scaled system that is small enough.
    fn goal(&self, stop: &dyn StoppingCriterion, now: &Progress) -> f64 {
        if self.exponent <= 0 {
            return ldexp(stop.goal(now).unwrap_or(0.0), self.exponent);
        }
        // A fraction of a small right-hand side may underflow; a fraction of the scaled one does
        // not.
        let of = |rhs, first| stop.goal(&Progress { rhs, first, ..*now }).unwrap_or(0.0);
        let (absolute, relative) = (of(0.0, 0.0), of(self.solution.rhs, self.first));
        let absolute_scaled = ldexp(absolute, self.exponent);
        if relative > absolute { relative.max(absolute_scaled) } else { absolute_scaled }
    }

    /// Returns the limit of the next run; `None` if there is a reason to stop.
    fn next(&mut self, stop: &dyn StoppingCriterion, now: Progress, reduction: f64) -> Option<Limit> {
        if self.is_over {
            return None;
        }
        self.goal = self.goal(stop, &now);
        if self.solution.rhs == 0.0 && self.goal == 0.0 {
            (self.is_zero, self.solution.true_residual) = (true, 0.0);
        }
        let is_hopeless = self.in_vain.is_hopeless() || self.idle >= PATIENCE;
        let scaled = Progress { rhs: self.solution.rhs, ..now };
        if let Some(reason) = outcome(self.solution.true_residual, self.goal, stop, &scaled, is_hopeless) {
            self.solution.reason = reason;
            self.is_over = true;
            return None;
        }
        Some(Limit {
            goal: (BEYOND * self.goal).max(reduction * self.residual),
            steps: stop.steps_left(&now).unwrap_or(usize::MAX),
        })
    }

    /// Judges a run, whose residual was multiplied by `scale`, by the recomputed residual of its
    /// answer.
    fn judge(&mut self, ended: &Ended, scale: f64, corrected: f64) -> Verdict {
        let solution = &mut self.solution;
        let begun = ended.begun.map(|begun| begun / scale);
        solution.runs += 1;
        solution.steps += ended.steps;
        solution.updates += ended.updates;
        solution.iterated_residual = ended.residual / scale;
        // A method with another measure may make progress that the caller's measure does not show.
        // NaN is no gain.
        let is_less = |now: f64, before: f64| now < before && now <= IN_VAIN * before;
        let has_gained =
            is_less(corrected, self.mark) || begun.is_some_and(|begun| is_less(begun, self.mark_begun));
        self.idle = if ended.steps == 0 { self.idle + 1 } else { 0 };
        if has_gained {
            self.mark = self.mark.min(corrected);
            self.mark_begun = begun.map_or(self.mark_begun, |begun| self.mark_begun.min(begun));
            self.in_vain = InVain::default();
        } else {
            let InVain { runs, steps, .. } = self.in_vain;
            let is_restarted = ended.state == State::Limited && ended.steps > 0;
            self.in_vain = InVain { runs: runs + 1, steps: steps + ended.steps, is_restarted };
        }
        // The next run continues from there nevertheless: from the start of this run it would find
        // the same answer.
        let accepted = corrected <= FAR * solution.true_residual;
        if accepted {
            self.residual = corrected;
        }
        let best = corrected < solution.true_residual;
        if best {
            solution.true_residual = corrected;
        }
        let failed = match ended.state {
            State::BrokenDown => Some(Reason::BrokenDown),
            State::NotANumber => Some(Reason::NotANumber),
            _ => None,
        };
        // The gain of a run before its breakdown is kept, and a new run may continue from there.
        if let Some(reason) = failed
            && !has_gained
            && solution.true_residual > self.goal
        {
            solution.reason = reason;
            self.is_over = true;
        }
        Verdict { accepted, best }
    }

    /// Writes the solution of the scaled system as one of the original into `x`. Returns the scaled
    /// solution after rounding, if it was rounded.
    fn round<E: Scalar>(&mut self, scaled: &[E], x: &mut [E]) -> Option<Vec<E>> {
        let written = times_power(scaled, -self.exponent);
        if !E::words(&written).iter().all(|x| x.is_finite()) {
            // The guess stays.
            (self.solution.true_residual, self.solution.reason) = (self.first, Reason::OutOfRange);
            return None;
        }
        x.copy_from_slice(&written);
        if self.solution.reason == Reason::Stagnated && is_subnormal(x) {
            self.solution.reason = Reason::OutOfRange;
        }
        let back = times_power(&written, self.exponent);
        (*back != *scaled).then(|| back.into_owned())
    }

    /// Takes the residual of a rounded solution for that of the solution.
    fn judge_rounded(&mut self, residual: f64) {
        self.solution.true_residual = residual;
        let is_converged = residual <= self.goal;
        if self.solution.reason.is_converged() && !is_converged {
            self.solution.reason = Reason::OutOfRange;
        }
    }

    /// Returns the solution, with norms of the original system.
    fn solution(self) -> Solution {
        // A nonzero residual is not reported as zero.
        let original = |norm: f64| match ldexp(norm, -self.exponent) {
            0.0 if norm > 0.0 => f64::from_bits(1),
            norm => norm,
        };
        let Solution { iterated_residual, true_residual, rhs, .. } = self.solution;
        Solution {
            iterated_residual: original(iterated_residual),
            true_residual: original(true_residual),
            rhs: original(rhs),
            ..self.solution
        }
    }
}

fn outcome(
    residual: f64,
    goal: f64,
    stop: &dyn StoppingCriterion,
    progress: &Progress,
    is_hopeless: bool,
) -> Option<Reason> {
    if !residual.is_finite() || !progress.rhs.is_finite() {
        // Ratios of norms that are too large would seem small.
        Some(Reason::NotANumber)
    } else if residual <= goal || residual == 0.0 {
        Some(Reason::Converged)
    } else if stop.steps_left(progress) == Some(0) {
        Some(Reason::Steps)
    } else if stop.is_late(progress) {
        Some(Reason::Time)
    } else if is_hopeless {
        Some(Reason::Stagnated)
    } else {
        None
    }
}

/// Refuses vectors of other lengths, and non-finite numbers.
pub(crate) fn check<E: Scalar>(what: &'static str, vector: &[E], rows: usize) -> Result<(), Error> {
    if vector.len() != rows {
        return Err(Error::shape(what, format!("{} elements for {rows} rows", vector.len())));
    }
    match vector.iter().position(|x| !x.abs().is_finite()) {
        Some(at) => Err(Error::unsolvable(what, format!("element {} is {:?}", at + 1, vector[at]))),
        None => Ok(()),
    }
}
