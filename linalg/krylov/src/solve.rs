//! The loop around every method: true residuals, corrections, and when to stop.

use std::time::Instant;

use zellige_runtime::{Bindings, Graph, Runtime};

use crate::error::Error;
use crate::log::Logger;
use crate::numbers::{NumbersHandle, State};
use crate::operator::Operator;
use crate::rounds::{Ended, Limit, Limits};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::stop::{Progress, StoppingCriterion};
use crate::vector::MultiVector;
use crate::vector_task::times;
use crate::{Kept, Method, Setting};

/// A system, and what its solution is made with.
#[derive(Clone, Copy)]
pub struct Solve<'s, E: Scalar = f64> {
    /// Runs the tasks.
    pub rt: &'s Runtime,
    /// The operator that the system is about: true residuals are its.
    pub exact: &'s dyn Operator<E>,
    /// What the method multiplies with: the same, or a narrower copy.
    pub inner: &'s dyn Operator<E>,
    /// The preconditioner.
    pub preconditioner: Option<&'s dyn Operator<E>>,
    /// A run of the method ends where it has reduced its residual by this factor, and a true one is computed: what a narrow copy can give.
    /// 0: it goes on to the goal.
    pub reduction: f64,
}

impl<'s, E: Scalar> Solve<'s, E> {
    /// Without a preconditioner or a narrower copy.
    pub fn new(rt: &'s Runtime, a: &'s dyn Operator<E>) -> Self {
        Solve { rt, exact: a, inner: a, preconditioner: None, reduction: 0.0 }
    }
}

/// Why a solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The true residual is within the requested tolerance.
    Converged,
    /// As many steps were made as were allowed.
    Steps,
    /// The time was up.
    Time,
    /// The true residual does not become smaller any more.
    Stagnated,
    /// The method cannot go on: the matrix, or the preconditioner, has not the property that it needs.
    BrokenDown,
    /// A number became infinite or none.
    NotANumber,
}

impl Reason {
    /// True if the residual is within the requested tolerance.
    pub fn is_converged(self) -> bool {
        self == Reason::Converged
    }

    /// As results name it.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Converged => "converged",
            Reason::Steps => "steps",
            Reason::Time => "time",
            Reason::Stagnated => "stagnated",
            Reason::BrokenDown => "breakdown",
            Reason::NotANumber => "not a number",
        }
    }
}

/// What a solver found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solution {
    /// Why it stopped.
    pub reason: Reason,
    /// Steps of the method, in all runs.
    pub steps: usize,
    /// Runs of the method: 1 where it went straight to the goal.
    pub runs: usize,
    /// The norm of the last residual that the method itself kept.
    pub iterated_residual: f64,
    /// `|b - A x|_2`, computed from the answer with the exact operator.
    pub true_residual: f64,
    /// `|b|_2`.
    pub rhs: f64,
    /// What its vectors took, and those of the loop around it.
    pub kept: Kept,
}

/// Runs that gain less than this on the true residual are in vain ...
const IN_VAIN: f64 = 0.99;
/// ... and after so many one after the other there is nothing to hope for.
const PATIENCE: usize = 3;
/// An answer that is worse than the best one by more than this is not worth going on from.
const FAR: f64 = 1e6;
/// A method's own residual goes a little further than the true one has to.
pub(super) const BEYOND: f64 = 0.9;

/// Solves `A x = b` from the `x` that is given (the initial guess), and leaves the best answer in it.
///
/// # Errors
/// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for a right-hand side or a guess that has numbers that are not finite; those of
/// [`Method::prepare`] and of tasks.
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

/// Solves `A x_k = b_k` for several right-hand sides at once, each with criteria and a logger of its own: products read the matrix once for all of them.
/// Every answer has the bits that it would have alone. A method that does not [take columns](Method::takes_columns) solves for one after the other.
///
/// # Errors
/// [`Error::Shape`] unless there are as many of all; those of [`solve`].
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
    let mut method = method.prepare(Setting { rt, a: inner, m: preconditioner, columns: b.len() })?;
    let ends = [method.residual(), method.correction()];
    let begun = Instant::now();
    let outer = Outer::new(problem, ends, b, x)?;
    let kept = method.kept().and(outer.kept);
    let first = outer.begin(&vec![true; b.len()])?;
    let column = |norms: &[f64; 2]| Column::new(*norms, kept);
    let mut columns: Vec<Column> = first.iter().map(column).collect();
    columns.iter().zip(&mut *logs).for_each(|(column, log)| log.true_residual(0, column.first));
    loop {
        let elapsed = begun.elapsed();
        let next = |(column, stop): (&mut Column, &&dyn StoppingCriterion)| {
            column.next(*stop, column.progress(elapsed), problem.reduction)
        };
        let runs: Vec<Option<Limit>> = columns.iter_mut().zip(stops).map(next).collect();
        if runs.iter().all(Option::is_none) {
            break;
        }
        let is_late = || {
            let mut each = columns.iter().zip(stops);
            each.any(|(column, stop)| {
                stop.is_late(&Progress { steps: 0, ..column.progress(begun.elapsed()) })
            })
        };
        let ended = method.run(&Limits { columns: &runs, is_late: &is_late }, logs)?;
        outer.absorb(&mut columns, &runs, &ended, logs)?;
    }
    for (c, x) in x.iter_mut().enumerate() {
        x.copy_from_slice(&outer.best.column(rt, c)?);
    }
    Ok(columns.into_iter().map(|column| column.solution).collect())
}

/// One right-hand side, run after run of a method.
struct Column {
    solution: Solution,
    first: f64,
    /// What the true residual has to be.
    goal: f64,
    /// The residual of the next run.
    residual: f64,
    least_begun: f64,
    in_vain: usize,
    is_over: bool,
}

/// What is done with the answer of a run.
#[derive(Clone, Copy)]
struct Verdict {
    /// The next run goes on from it, and not from where this one began.
    accepted: bool,
    /// It is the best so far.
    best: bool,
}

impl Column {
    fn new([rhs, first]: [f64; 2], kept: Kept) -> Self {
        let solution = Solution {
            reason: Reason::Converged,
            steps: 0,
            runs: 0,
            iterated_residual: first,
            true_residual: first,
            rhs,
            kept,
        };
        Column {
            solution,
            first,
            goal: 0.0,
            residual: first,
            least_begun: f64::INFINITY,
            in_vain: 0,
            is_over: false,
        }
    }

    /// What criteria go by.
    fn progress(&self, elapsed: std::time::Duration) -> Progress {
        Progress { steps: self.solution.steps, elapsed, rhs: self.solution.rhs, first: self.first }
    }

    /// The next run; none where there is a reason to stop.
    fn next(&mut self, stop: &dyn StoppingCriterion, now: Progress, reduction: f64) -> Option<Limit> {
        if self.is_over {
            return None;
        }
        self.goal = stop.goal(&now).unwrap_or(0.0);
        if let Some(reason) = outcome(self.solution.true_residual, self.goal, stop, &now, self.in_vain) {
            self.solution.reason = reason;
            self.is_over = true;
            return None;
        }
        Some(Limit {
            goal: (BEYOND * self.goal).max(reduction * self.residual),
            steps: stop.steps_left(&now).unwrap_or(usize::MAX),
        })
    }

    /// Judges a run by the true residual that it came to.
    fn judge(&mut self, ended: &Ended, corrected: f64) -> Verdict {
        let solution = &mut self.solution;
        solution.runs += 1;
        solution.steps += ended.steps;
        solution.iterated_residual = ended.residual;
        // A method that measures otherwise makes progress first where the caller does not see it. NaN is no gain.
        let has_gained = corrected <= IN_VAIN * solution.true_residual
            || ended.begun.is_some_and(|begun| begun <= IN_VAIN * self.least_begun);
        self.least_begun = ended.begun.map_or(self.least_begun, |begun| self.least_begun.min(begun));
        // The next run goes on from there even so: from where this one began it would find the same.
        let accepted = corrected <= FAR * solution.true_residual;
        if accepted {
            self.residual = corrected;
        }
        let best = corrected < solution.true_residual;
        if best {
            solution.true_residual = corrected;
        }
        self.in_vain = if has_gained { 0 } else { self.in_vain + 1 };
        let failed = match ended.state {
            State::BrokenDown => Some(Reason::BrokenDown),
            State::NotANumber => Some(Reason::NotANumber),
            _ => None,
        };
        // What a run gained before it broke down is kept, and a new one may go on from there.
        if let Some(reason) = failed
            && !has_gained
            && solution.true_residual > self.goal
        {
            solution.reason = reason;
            self.is_over = true;
        }
        Verdict { accepted, best }
    }
}

fn outcome(
    residual: f64,
    goal: f64,
    stop: &dyn StoppingCriterion,
    progress: &Progress,
    in_vain: usize,
) -> Option<Reason> {
    if !residual.is_finite() || !progress.rhs.is_finite() {
        // Norms that are too large would be small beside each other.
        Some(Reason::NotANumber)
    } else if residual <= goal || residual == 0.0 {
        Some(Reason::Converged)
    } else if stop.steps_left(progress) == Some(0) {
        Some(Reason::Steps)
    } else if stop.is_late(progress) {
        Some(Reason::Time)
    } else if in_vain >= PATIENCE {
        Some(Reason::Stagnated)
    } else {
        None
    }
}

/// Refuses vectors of other lengths, and numbers that are not finite.
pub(crate) fn check<E: Scalar>(what: &'static str, vector: &[E], rows: usize) -> Result<(), Error> {
    if vector.len() != rows {
        return Err(Error::shape(what, format!("{} elements for {rows} rows", vector.len())));
    }
    match vector.iter().position(|x| !x.abs().is_finite()) {
        Some(at) => Err(Error::unsolvable(what, format!("element {} is {:?}", at + 1, vector[at]))),
        None => Ok(()),
    }
}

/// The vectors and graphs around a method.
struct Outer<'s, E: Scalar> {
    rt: &'s Runtime,
    /// The answer with the least residual so far.
    best: MultiVector<E>,
    numbers: NumbersHandle<E>,
    begin: Graph,
    correct: Graph,
    accept: Graph,
    keep: Graph,
    kept: Kept,
}

/// Its scalars, and sums of products: norms of the right-hand side and of the residual.
const RHS: usize = 0;
const RESIDUAL: usize = 1;

impl<'s, E: Scalar> Outer<'s, E> {
    fn new(
        problem: &Solve<'s, E>,
        [r, d]: [&MultiVector<E>; 2],
        b: &[&[E]],
        x: &[&mut [E]],
    ) -> Result<Self, Error> {
        let (rt, space) = (problem.rt, problem.exact.domain());
        b.iter().try_for_each(|b| check("right-hand side", b, space.len()))?;
        x.iter().try_for_each(|x| check("initial guess", x, space.len()))?;
        let columns = b.len();
        let guess: Vec<&[E]> = x.iter().map(|x| &**x).collect();
        let b = MultiVector::from_columns(rt, space, b);
        let (best, x) =
            (MultiVector::from_columns(rt, space, &guess), MultiVector::from_columns(rt, space, &guess));
        let zeros = || MultiVector::zeros(rt, space, columns);
        let (trial, product) = (zeros(), zeros());
        let numbers = NumbersHandle::new(rt, columns, 2);
        let sums = Sums::new(rt, space, columns, 2);
        let residual_of = |steps: &Steps<'_, E>, x: &MultiVector<E>| {
            problem.exact.apply(steps, x, &product)?;
            let task = steps.task("residual").assign(r, [times(1.0, &b), times(-1.0, &product)]);
            task.dot(&b, &b, RHS).dot(r, r, RESIDUAL).submit()?;
            steps.update_numbers("residual.norm", |sums, s| {
                let norm = |at: usize| sums[at].real().sqrt();
                s.set_reals([(RHS, norm(RHS)), (RESIDUAL, norm(RESIDUAL))]);
            })
        };
        let record = |body: &dyn Fn(&Steps<'_, E>) -> Result<(), Error>| {
            rt.record(|graph| body(&Steps::new(graph, space, &numbers).with_sums(&sums)))
        };
        let begin = record(&|steps| residual_of(steps, &x))?;
        let correct = record(&|steps| {
            steps.task("correct").assign(&trial, [times(1.0, &x), times(1.0, d)]).submit()?;
            residual_of(steps, &trial)
        })?;
        let accept = record(&|steps| steps.task("accept").copy(&x, &trial).submit())?;
        let keep = record(&|steps| steps.task("accept").copy(&best, &trial).submit())?;
        // What an operator keeps besides what it reads are its vectors.
        let of_exact = problem.exact.memory().saturating_sub(problem.exact.bytes());
        let kept = Kept::vectors::<E>(space, 5).and(Kept { basis: 0, vectors: of_exact });
        Ok(Outer { rt, best, numbers, begin, correct, accept, keep, kept })
    }

    /// The residual of `x`; norms of the right-hand side and of it.
    fn begin(&self, columns: &[bool]) -> Result<Vec<[f64; 2]>, Error> {
        self.replay(&self.begin, columns)
    }

    /// Adds what a run has found to the answers, and computes the true residuals.
    fn absorb(
        &self,
        columns: &mut [Column],
        runs: &[Option<Limit>],
        ended: &[Ended],
        logs: &mut [&mut dyn Logger],
    ) -> Result<(), Error> {
        let ran: Vec<bool> = runs.iter().map(Option::is_some).collect();
        let corrected = self.replay(&self.correct, &ran)?;
        let judge = |(c, column): (usize, &mut Column)| {
            if !ran[c] {
                return None;
            }
            let verdict = column.judge(&ended[c], corrected[c][RESIDUAL]);
            logs[c].true_residual(column.solution.steps, corrected[c][RESIDUAL]);
            Some(verdict)
        };
        let verdicts: Vec<Option<Verdict>> = columns.iter_mut().enumerate().map(judge).collect();
        let of = |is: &dyn Fn(&Verdict) -> bool| -> Vec<bool> {
            verdicts.iter().map(|verdict| verdict.as_ref().is_some_and(is)).collect()
        };
        for (graph, columns) in [
            (&self.accept, of(&|verdict| verdict.accepted)),
            (&self.begin, of(&|verdict| !verdict.accepted)),
            (&self.keep, of(&|verdict| verdict.best)),
        ] {
            if columns.contains(&true) {
                self.replay(graph, &columns)?;
            }
        }
        Ok(())
    }

    /// Replays a graph for some columns; the norms of all.
    fn replay(&self, graph: &Graph, columns: &[bool]) -> Result<Vec<[f64; 2]>, Error> {
        self.numbers.set_open(self.rt, |c| columns[c])?;
        self.rt.replay(&Bindings::recorded(graph))?;
        self.numbers.look(self.rt, |_, numbers| [numbers.real(RHS), numbers.real(RESIDUAL)])
    }
}
