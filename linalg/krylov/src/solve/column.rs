//! Stopping and stagnation of the outer iteration, for each right-hand side.

use libm::ldexp;

use super::range::{is_subnormal, times_power};
use super::system::{Reason, Solution};
use crate::inner_solver::{InnerResult, Limit, MemoryUse};
use crate::numbers::State;
use crate::scalar::Scalar;
use crate::stop::{Progress, StoppingCriterion};

/// An inner solve is in vain if the recomputed residual has not decreased by this factor since the
/// last one that was not in vain.
const STAGNATION_RATIO: f64 = 0.99;
/// Stagnation limit: the solver stops after this number of consecutive inner solves in vain.
const STAGNATION_RUNS: usize = 3;
/// Restarted methods may need this number of steps to leave a plateau, before the stagnation limit
/// applies.
const STAGNATION_STEPS: usize = 100;
/// An answer that is worse than the best one by more than this factor is discarded.
const FAR: f64 = 1e6;
/// A method's own residual has to decrease a little further than the recomputed one.
pub(crate) const BEYOND: f64 = 0.9;

/// State of one right-hand side between two inner solves.
pub(super) struct Column {
    /// The result so far, with norms of the scaled system.
    pub(super) solution: Solution,
    /// The system was multiplied by two to this power.
    exponent: i32,
    pub(super) first: f64,
    /// Required norm of the recomputed residual.
    goal: f64,
    /// The residual of the next inner solve.
    residual: f64,
    /// The recomputed residual when an inner solve last gained something, and the least initial
    /// residual of one, as its method measures it.
    mark: f64,
    mark_begun: f64,
    in_vain: InVain,
    /// Inner solves without a step, one after the other.
    idle: usize,
    /// Zero is the answer.
    pub(super) is_zero: bool,
    is_over: bool,
}

/// Inner solves that have gained nothing since the last that did.
#[derive(Clone, Copy, Default)]
struct InVain {
    runs: usize,
    /// Number of their steps.
    steps: usize,
    /// The last one made steps, and ended since it had made all that it may.
    is_restarted: bool,
}

impl InVain {
    fn is_hopeless(self) -> bool {
        self.runs >= STAGNATION_RUNS && (self.steps >= STAGNATION_STEPS || !self.is_restarted)
    }
}

/// Decision on the answer of an inner solve.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    /// True if the next inner solve continues from it, and not from the start of this one.
    pub(super) accepted: bool,
    /// True if it is the best so far.
    pub(super) best: bool,
}

impl Column {
    pub(super) fn new(rhs: f64, first: f64, memory: MemoryUse, exponent: i32) -> Self {
        let solution = Solution {
            reason: Reason::Converged,
            steps: 0,
            updates: 0,
            runs: 0,
            iterated_residual: first,
            true_residual: first,
            rhs,
            memory,
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
    pub(super) fn progress(&self, elapsed: std::time::Duration) -> Progress {
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

    /// Returns the limit of the next inner solve; `None` if there is a reason to stop.
    pub(super) fn next(
        &mut self,
        stop: &dyn StoppingCriterion,
        now: Progress,
        reduction: f64,
    ) -> Option<Limit> {
        if self.is_over {
            return None;
        }
        self.goal = self.goal(stop, &now);
        if self.solution.rhs == 0.0 && self.goal == 0.0 {
            (self.is_zero, self.solution.true_residual) = (true, 0.0);
        }
        let is_hopeless = self.in_vain.is_hopeless() || self.idle >= STAGNATION_RUNS;
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

    /// Judges an inner solve by the recomputed residual of its answer; its own residual was
    /// multiplied by `scale`.
    pub(super) fn judge(&mut self, ended: &InnerResult, scale: f64, corrected: f64) -> Verdict {
        let solution = &mut self.solution;
        let begun = ended.begun.map(|begun| begun / scale);
        solution.runs += 1;
        solution.steps += ended.steps;
        solution.updates += ended.updates;
        solution.iterated_residual = ended.residual / scale;
        // A method with another measure may make progress that the caller's measure does not show.
        // NaN is no gain.
        let is_less = |now: f64, before: f64| now < before && now <= STAGNATION_RATIO * before;
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
        // The next inner solve continues from there nevertheless: from the start of this one it
        // would find the same answer.
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
        // The gain before a breakdown is kept, and a new inner solve may continue from there.
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
    pub(super) fn round<E: Scalar>(&mut self, scaled: &[E], x: &mut [E]) -> Option<Vec<E>> {
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
    pub(super) fn judge_rounded(&mut self, residual: f64) {
        self.solution.true_residual = residual;
        let is_converged = residual <= self.goal;
        if self.solution.reason.is_converged() && !is_converged {
            self.solution.reason = Reason::OutOfRange;
        }
    }

    /// Returns the solution, with norms of the original system.
    pub(super) fn solution(self) -> Solution {
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
