//! Verification of answers: whether a residual that meets the tolerance does so beyond its rounding
//! errors.

use std::time::Duration;

use zellige_krylov::{Error, Logger, Progress, Reason, Solution, StoppingCriterion};

use super::quality::{accurate_residual, quality};
use super::{RightHandSide, System};
use crate::system::prepare::subtract_mean;

impl System<'_> {
    /// Adds the result of an attempt; returns its error if there is no other candidate and no
    /// answer. The logger receives a residual that differs from the method's.
    pub(super) fn record(
        &self,
        rhs: &mut RightHandSide,
        k: usize,
        method: String,
        result: Result<Solution, Error>,
        log: &mut dyn Logger,
    ) -> Result<(), Error> {
        rhs.quality = None;
        let result = match result {
            Err(error) if self.candidates.len() == 1 && rhs.attempts.solution.is_none() => return Err(error),
            Err(error) => Err(error),
            Ok(solution) => {
                let verified = self.verified(rhs, solution);
                if verified.true_residual != solution.true_residual {
                    log.true_residual(rhs.attempts.steps + solution.steps, verified.true_residual);
                }
                let is_unmet = solution.reason.is_converged() && !verified.reason.is_converged();
                rhs.attempts.unmet += i32::from(is_unmet);
                Ok(verified)
            }
        };
        rhs.attempts.add(method, self.candidates[k].choice, result);
        Ok(())
    }

    /// Takes convergence back from a solution whose residual meets the tolerance by its own
    /// rounding errors only. They matter if `u |A| |x|` is not far below the tolerance.
    fn verified(&self, rhs: &mut RightHandSide, solution: Solution) -> Solution {
        // An attempt to a smaller tolerance may have met the requested one.
        if !solution.reason.is_converged() && rhs.attempts.unmet == 0 {
            return solution;
        }
        let goal = self.goal(&solution, rhs.attempts.first);
        let (_, attainable) = self.quality(rhs);
        if attainable <= UNSEEN * goal && solution.reason.is_converged() {
            return solution;
        }
        let true_residual = accurate_residual(self.prepared.matrix(), &rhs.b, &rhs.x);
        let is_met = true_residual <= (1.0 + UNSEEN) * goal;
        let reason = match (is_met, solution.reason) {
            (true, _) => Reason::Converged,
            (false, reason) if reason.is_converged() => Reason::Stagnated,
            (false, reason) => reason,
        };
        Solution { true_residual, reason, ..solution }
    }

    /// Returns true if rounding the best answer alone leaves a residual above the goal, and about
    /// equal to the actual one. An answer may be large because it is wrong, so small systems are
    /// not judged by it.
    pub(super) fn is_rounding(&self, rhs: &mut RightHandSide) -> bool {
        if self.is_small() {
            return false;
        }
        let Some(solution) = rhs.attempts.solution else { return false };
        let (_, attainable) = self.quality(rhs);
        let goal = self.goal(&solution, rhs.attempts.first);
        attainable > goal && solution.true_residual <= NEAR_ROUNDING * attainable
    }

    /// Returns the backward error and the attainable residual of the answer so far.
    pub(super) fn quality(&self, rhs: &mut RightHandSide) -> (f64, f64) {
        let workers = self.rt.runtime().workers();
        *rhs.quality.get_or_insert_with(|| quality(self.prepared.matrix(), 0.0, &rhs.b, &rhs.x, workers))
    }

    /// Returns the residual that is small enough.
    fn goal(&self, solution: &Solution, first: f64) -> f64 {
        let Solution { steps, rhs, .. } = *solution;
        let progress = Progress { steps, elapsed: Duration::ZERO, rhs, first };
        self.options.stop.goal(&progress).unwrap_or(0.0)
    }

    /// Subtracts the mean of the answer: a matrix need not take constants to zero to the last bit.
    /// Returns the solution's data after that.
    pub(super) fn without_mean(&self, solution: Solution, rhs: &mut RightHandSide) -> Solution {
        subtract_mean(&mut rhs.x);
        rhs.quality = None;
        let true_residual = self.prepared.residual(&rhs.b, &rhs.x);
        let goal = self.goal(&solution, rhs.attempts.first).max(solution.true_residual);
        let is_missed = true_residual > goal && solution.reason.is_converged();
        let reason = if is_missed { Reason::Stagnated } else { solution.reason };
        Solution { true_residual, reason, ..solution }
    }
}

/// Share of a tolerance that rounding errors of a residual may have unnoticed.
const UNSEEN: f64 = 1e-4;
/// A residual within this factor of the attainable one is near rounding.
const NEAR_ROUNDING: f64 = 100.0;
