//! Stopping criteria of the shared steps of several shifts, and of those after them.

use std::time::Duration;

use crate::stop::{Progress, StoppingCriterion};

/// Returns the residual relative to the right-hand side at which a shift is
/// [removed](crate::Stabilisation::removal) if it would have to reach `tolerance`. It is between
/// that and the roundoff of the storage, like in QUDA (`lib/inv_multi_cg_quda.cpp`).
pub fn floor(tolerance: f64, roundoff: f64) -> f64 {
    roundoff.min((tolerance * roundoff).sqrt().max(1e-15))
}

/// A criterion after the shared steps, which count as well.
pub struct Rest<'s, C: ?Sized> {
    pub stop: &'s C,
    pub steps: usize,
    pub before: Duration,
}

impl<C: StoppingCriterion + ?Sized> Rest<'_, C> {
    /// Returns the progress of all steps; the first residual is that of `x = 0`.
    fn whole(&self, progress: &Progress) -> Progress {
        Progress {
            steps: self.steps + progress.steps,
            elapsed: self.before + progress.elapsed,
            rhs: progress.rhs,
            first: progress.rhs,
        }
    }
}

impl<C: StoppingCriterion + ?Sized> StoppingCriterion for Rest<'_, C> {
    fn goal(&self, progress: &Progress) -> Option<f64> {
        self.stop.goal(&self.whole(progress))
    }

    fn steps_left(&self, progress: &Progress) -> Option<usize> {
        self.stop.steps_left(&self.whole(progress))
    }

    fn is_late(&self, progress: &Progress) -> bool {
        self.stop.is_late(&self.whole(progress))
    }
}
