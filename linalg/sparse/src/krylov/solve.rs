//! The loop around every method: true residuals, corrections, and when to stop.

use std::time::Instant;

use zellige_runtime::{Bindings, Graph, Runtime, Submit};

use super::grains::{dots, norm, unit_scale};
use super::log::{Logger, Rescaled};
use super::rounds::{Ended, Limits};
use super::scalars::{Scalars, State};
use super::steps::{ScalarsHandle, Steps, Sums};
use super::stop::{Progress, StoppingCriterion};
use super::{Kept, Method, Operator, Preconditioner};
use crate::error::Error;
use crate::space::{Space, Vector};

/// A system, and what its solution is made with.
#[derive(Clone, Copy)]
pub struct Solve<'s> {
    /// Runs the tasks.
    pub rt: &'s Runtime,
    /// Where vectors are cut.
    pub space: &'s Space,
    /// The matrix that the system is about: true residuals are its.
    pub exact: &'s dyn Operator,
    /// What the method multiplies with: the same, or a narrower copy.
    pub inner: &'s dyn Operator,
    /// What the method is helped by.
    pub preconditioner: Option<&'s dyn Preconditioner>,
    /// A run of the method ends where it has reduced its residual by this factor, and a true one is computed: what a narrow copy can give.
    /// 0: it goes on to the goal.
    pub reduction: f64,
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

/// A run is in vain if the true residual has not become smaller by this since the last run that was not ...
const IN_VAIN: f64 = 0.99;
/// ... and after so many one after the other there is nothing to hope for, ...
const PATIENCE: usize = 3;
/// ... but for methods that were restarted, which may need so many steps to leave a plateau.
const PLATEAU: usize = 100;
/// An answer that is worse than the best one by more than this is not worth going on from.
const FAR: f64 = 1e6;
/// A method's own residual goes a little further than the true one has to.
pub(super) const BEYOND: f64 = 0.9;

/// Solves `A x = b` from the `x` that is given (the initial guess), and leaves the best answer in it.
///
/// Residuals that methods see are multiplied by a power of two where that keeps their norms in range: right-hand sides of any size are solved for,
/// and nothing is rounded by it. Criteria, logs and the [`Solution`] know nothing of that. Where `b` is zero and no criterion allows a
/// residual, the answer is zero.
///
/// # Errors
/// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for a right-hand side or a guess that has infinite elements or ones that
/// are no numbers; those of [`Method::prepare`] and of tasks.
pub fn solve(
    problem: &Solve<'_>,
    method: &dyn Method,
    b: &[f64],
    x: &mut [f64],
    stop: &(impl StoppingCriterion + ?Sized),
    log: &mut dyn Logger,
) -> Result<Solution, Error> {
    let mut method = method.prepare(problem.rt, problem.space, problem.inner, problem.preconditioner)?;
    let of_method = [method.residual(), method.correction()];
    let mut course = Course::new(problem, of_method, method.kept(), b, x, log)?;
    while let Some(run) = course.next(stop) {
        let limits =
            Limits { goal: run.goal, steps: run.steps, is_late: &|| stop.is_late(&course.progress(0)) };
        let ended = method.run(&limits, &mut Rescaled { log, ratio: course.scale() })?;
        course.absorb(&ended, log)?;
    }
    course.finish(x)
}

/// What a run may do.
pub(crate) struct Run {
    /// The residual norm that is small enough, of the residual as it was given to the method.
    pub(crate) goal: f64,
    /// Steps that it may make.
    pub(crate) steps: usize,
}

/// The way of one right-hand side, run after run of a method: whoever runs it writes what it [found](Course::absorb).
pub(crate) struct Course<'s> {
    outer: Outer<'s>,
    /// Zero is the answer.
    is_zero: bool,
    /// Of [`Solve::reduction`].
    reduction: f64,
    begun: Instant,
    solution: Solution,
    first: f64,
    /// What the true residual has to be.
    goal: f64,
    /// The residual of the next run.
    residual: f64,
    /// The true residual when a run last gained something, and the least that one began with as its method measures it.
    mark: f64,
    mark_begun: f64,
    in_vain: InVain,
    is_over: bool,
}

/// Runs that have gained nothing since the last that did.
#[derive(Clone, Copy, Default)]
struct InVain {
    runs: usize,
    /// Their steps.
    steps: usize,
    /// The last one ended since it had made all the steps that it may.
    is_restarted: bool,
}

impl InVain {
    fn is_hopeless(self) -> bool {
        self.runs >= PATIENCE && (self.steps >= PLATEAU || !self.is_restarted)
    }
}

impl<'s> Course<'s> {
    /// Begins with the guess `x`: its residual is in `r`, where runs find it; `d` is where they leave what they have found. `kept` is what the method keeps.
    ///
    /// # Errors
    /// Those of [`solve`] for `b` and `x`; what went wrong in a task.
    pub(crate) fn new(
        problem: &Solve<'s>,
        [r, d]: [&Vector; 2],
        kept: Kept,
        b: &[f64],
        x: &[f64],
        log: &mut dyn Logger,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        check("right-hand side", b, problem)?;
        check("initial guess", x, problem)?;
        let mut outer = Outer::new(problem, [r, d], b, x)?;
        let first = outer.begin()?;
        log.true_residual(0, first);
        let solution = Solution {
            reason: Reason::Converged,
            steps: 0,
            runs: 0,
            iterated_residual: first,
            true_residual: first,
            rhs: norm(b),
            kept: kept.and(Kept { basis: 0, vectors: problem.space.bytes(5) + problem.exact.vectors() }),
        };
        Ok(Course {
            outer,
            is_zero: false,
            reduction: problem.reduction,
            begun,
            solution,
            first,
            goal: 0.0,
            residual: first,
            mark: first,
            mark_begun: f64::INFINITY,
            in_vain: InVain::default(),
            is_over: false,
        })
    }

    /// What the residual is multiplied by for the method.
    pub(crate) fn scale(&self) -> f64 {
        self.outer.scale
    }

    /// What criteria go by, after so many steps.
    pub(crate) fn progress(&self, steps: usize) -> Progress {
        Progress { steps, elapsed: self.begun.elapsed(), rhs: self.solution.rhs, first: self.first }
    }

    /// The next run; none where there is a reason to stop.
    pub(crate) fn next(&mut self, stop: &(impl StoppingCriterion + ?Sized)) -> Option<Run> {
        if self.is_over {
            return None;
        }
        let now = self.progress(self.solution.steps);
        self.goal = stop.goal(&now).unwrap_or(0.0);
        if self.solution.rhs == 0.0 && self.goal == 0.0 {
            (self.is_zero, self.solution.true_residual) = (true, 0.0);
        }
        if let Some(reason) = outcome(self.solution.true_residual, self.goal, stop, &now, self.in_vain) {
            self.solution.reason = reason;
            return None;
        }
        Some(Run {
            goal: self.scale() * (BEYOND * self.goal).max(self.reduction * self.residual),
            steps: stop.steps_left(&now).unwrap_or(usize::MAX),
        })
    }

    /// Adds what a run has found to the answer, and computes the true residual.
    pub(crate) fn absorb(&mut self, ended: &Ended, log: &mut dyn Logger) -> Result<(), Error> {
        let (outer, solution) = (&mut self.outer, &mut self.solution);
        let (begun, iterated) = (ended.begun.map(|begun| begun / outer.scale), ended.residual / outer.scale);
        solution.runs += 1;
        solution.steps += ended.steps;
        solution.iterated_residual = iterated;
        let corrected = outer.correct()?;
        log.true_residual(solution.steps, corrected);
        // A method that measures otherwise makes progress first where the caller does not see it. NaN is no gain.
        let has_gained =
            corrected <= IN_VAIN * self.mark || begun.is_some_and(|begun| begun <= IN_VAIN * self.mark_begun);
        if has_gained {
            self.mark = self.mark.min(corrected);
            self.mark_begun = begun.map_or(self.mark_begun, |begun| self.mark_begun.min(begun));
            self.in_vain = InVain::default();
        } else {
            let InVain { runs, steps, .. } = self.in_vain;
            let is_restarted = ended.state == State::Limited;
            self.in_vain = InVain { runs: runs + 1, steps: steps + ended.steps, is_restarted };
        }
        // The next run goes on from there even so: from where this one began it would find the same.
        if corrected <= FAR * solution.true_residual {
            outer.accept()?;
            self.residual = corrected;
        } else {
            outer.begin()?;
        }
        if corrected < solution.true_residual {
            solution.true_residual = corrected;
            outer.keep()?;
        }
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
        Ok(())
    }

    /// Leaves the best answer in `x`.
    pub(crate) fn finish(self, x: &mut [f64]) -> Result<Solution, Error> {
        match self.is_zero {
            true => x.fill(0.0),
            false => self.outer.best.copy_to(self.outer.rt, x)?,
        }
        Ok(self.solution)
    }
}

fn outcome(
    residual: f64,
    goal: f64,
    stop: &(impl StoppingCriterion + ?Sized),
    progress: &Progress,
    in_vain: InVain,
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
    } else if in_vain.is_hopeless() {
        Some(Reason::Stagnated)
    } else {
        None
    }
}

pub(super) fn check(what: &'static str, vector: &[f64], problem: &Solve<'_>) -> Result<(), Error> {
    if vector.len() != problem.space.len() {
        let problem = format!("{} elements for {} rows", vector.len(), problem.space.len());
        return Err(Error::shape(what, problem));
    }
    match vector.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Error::unsolvable(what, format!("element {} is {}", at + 1, vector[at]))),
        None => Ok(()),
    }
}

/// The vectors and graphs around a method.
struct Outer<'s> {
    rt: &'s Runtime,
    /// The answer with the least residual so far.
    best: Vector,
    scalars: ScalarsHandle,
    /// What the method's residual is multiplied by, and its correction divided.
    scale: f64,
    begin: Graph,
    correct: Graph,
    measure: Graph,
    accept: Graph,
    keep: Graph,
}

/// Its own numbers: the norm of the residual, and the scale.
const RESIDUAL: usize = 0;
const SCALE: usize = 1;

/// Norms with an exponent (of two) within these have squares in range, and so have those that are some 100 digits smaller.
const IN_RANGE: i32 = 400;

impl<'s> Outer<'s> {
    fn new(problem: &Solve<'s>, [r, d]: [&Vector; 2], b: &[f64], x: &[f64]) -> Result<Self, Error> {
        let (rt, space, scale) = (problem.rt, problem.space, unit_scale(b));
        let (b, best) = (space.vector(rt, b.to_vec()), space.vector(rt, x.to_vec()));
        let x = space.vector(rt, x.to_vec());
        let (trial, product) = (space.zeros(rt), space.zeros(rt));
        let scalars = rt.register(Scalars::zeros(2));
        let sums = Sums::new(rt, space, 1);
        let residual_of = |x: &Vector| {
            rt.record(|graph| {
                let steps = Steps::new(graph, space, &scalars);
                problem.exact.apply(&steps, x, &product)?;
                steps.each(
                    "residual",
                    |i| (steps.scalars(), r.update(i), b.read(i), product.read(i), sums.of(i)),
                    |(s, r, b, product, sums)| {
                        let scale = Scalars::new(s)[SCALE];
                        r.iter_mut()
                            .zip(b.iter().zip(&*product))
                            .for_each(|(r, (b, product))| *r = scale * (b - product));
                        dots(r, r, sums, 1, 0);
                    },
                )?;
                steps.combine("residual.norm", &sums, |sums, s| s[RESIDUAL] = sums[0].sqrt())
            })
        };
        let (begin, measure) = (residual_of(&x)?, residual_of(&trial)?);
        let correct = rt.record(|graph| {
            let steps = Steps::new(graph, space, &scalars);
            steps.each(
                "correct",
                |i| (steps.scalars(), trial.update(i), x.read(i), d.read(i)),
                |(s, trial, x, d)| {
                    let scale = Scalars::new(s)[SCALE];
                    trial
                        .iter_mut()
                        .zip(x.iter().zip(&*d))
                        .for_each(|(trial, (x, d))| *trial = x + d / scale);
                },
            )
        })?;
        let copy = |to: &Vector, from: &Vector| {
            rt.record(|graph| {
                let steps = Steps::new(graph, space, &scalars);
                steps.each("accept", |i| (to.update(i), from.read(i)), |(to, from)| to.copy_from_slice(&from))
            })
        };
        let (accept, keep) = (copy(&x, &trial)?, copy(&best, &trial)?);
        Ok(Outer { rt, best, scalars, scale, begin, correct, measure, accept, keep })
    }

    /// The residual of `x`; its norm.
    fn begin(&mut self) -> Result<f64, Error> {
        let begin = Bindings::recorded(&self.begin);
        self.norm(&begin)
    }

    /// The residual of `x` with the correction added; its norm.
    fn correct(&mut self) -> Result<f64, Error> {
        self.rt.replay(&Bindings::recorded(&self.correct))?;
        let measure = Bindings::recorded(&self.measure);
        self.norm(&measure)
    }

    /// Goes on from the `x` that [`correct`](Outer::correct) has made.
    fn accept(&self) -> Result<(), Error> {
        self.rt.replay(&Bindings::recorded(&self.accept))?;
        Ok(())
    }

    /// Keeps it as the best one.
    fn keep(&self) -> Result<(), Error> {
        self.rt.replay(&Bindings::recorded(&self.keep))?;
        Ok(())
    }

    /// The norm of a residual that is computed so, with a scale that keeps it in range.
    fn norm(&mut self, residual: &Bindings) -> Result<f64, Error> {
        loop {
            Scalars::new(self.rt.write(&self.scalars)?.as_mut_slice())[SCALE] = self.scale;
            self.rt.replay(residual)?;
            let norm = Scalars::new(self.rt.read(&self.scalars)?.as_slice())[RESIDUAL];
            let power = |exponent| libm::ldexp(1.0, exponent);
            let factor = match norm {
                _ if norm < power(-IN_RANGE) => power(IN_RANGE),
                _ if norm > power(IN_RANGE) => power(-IN_RANGE),
                _ => 1.0,
            };
            let scale = (factor * self.scale).clamp(power(-1000), power(1000));
            if scale == self.scale {
                return Ok(norm / scale);
            }
            self.scale = scale;
        }
    }
}
