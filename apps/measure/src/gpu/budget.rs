//! Time budget of all measurements: no large one begins that would not end in it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Available time, the share of it that the current measurements may use, and the times of earlier
/// measurements of each kind.
#[derive(Debug)]
pub(super) struct Budget {
    begun: Instant,
    /// Time for all measurements.
    whole: Duration,
    /// Counted from the beginning.
    until: Duration,
    /// Size of each kind of measurement, and the time of one run.
    known: BTreeMap<String, (f64, Duration)>,
}

impl Budget {
    /// Creates a budget that begins now.
    pub(super) fn new(whole: Duration) -> Self {
        Budget { begun: Instant::now(), whole, until: whole, known: BTreeMap::new() }
    }

    /// Lets the next measurements run until this share of the time is over. Later parts keep their
    /// shares, and get the time that earlier ones leave.
    pub(super) fn part(&mut self, share: f64) {
        self.until = self.whole.mul_f64(share);
    }

    /// Returns the time since the beginning.
    pub(super) fn spent(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Records the total time of `runs` runs of a kind, whose work grows with the cube of the size.
    pub(super) fn took(&mut self, kind: &str, size: f64, runs: usize, time: Duration) {
        self.known.insert(kind.into(), (size, time / u32::try_from(runs.max(1)).unwrap_or(u32::MAX)));
    }

    /// Returns the number of counted runs, at most `most`, for which there is time after the
    /// uncounted ones; `None` if there is no time for one. A kind without a known time starts while
    /// any time is left.
    pub(super) fn repeats(&self, kind: &str, size: f64, most: usize, uncounted: usize) -> Option<usize> {
        let left = self.until.checked_sub(self.spent()).filter(|left| !left.is_zero())?;
        self.within(left, kind, size, most, uncounted)
    }

    fn within(&self, left: Duration, kind: &str, size: f64, most: usize, uncounted: usize) -> Option<usize> {
        let Some((known, time)) = self.known.get(kind) else { return Some(most) };
        let each = time.as_secs_f64() * (size / known).powi(3);
        // Large if a run takes no time.
        let fit = (left.as_secs_f64() / each) as usize;
        Some(fit.saturating_sub(uncounted).min(most)).filter(|&repeats| repeats > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_many_as_find_time() {
        let mut budget = Budget::new(Duration::from_secs(1000));
        let within =
            |budget: &Budget, seconds, size| budget.within(Duration::from_secs(seconds), "fp32", size, 3, 1);
        assert_eq!(within(&budget, 1, 1e5), Some(3), "nothing is known");
        // Four runs of n = 100 took 8 s: 2 s each, 16 s of twice the size.
        budget.took("fp32", 100.0, 4, Duration::from_secs(8));
        let found = [8, 7, 5, 3].map(|seconds| within(&budget, seconds, 100.0));
        assert_eq!(found, [Some(3), Some(2), Some(1), None]);
        let found = [64, 63, 32, 31].map(|seconds| within(&budget, seconds, 200.0));
        assert_eq!(found, [Some(3), Some(2), Some(1), None]);
        budget.took("fp32", 100.0, 4, Duration::ZERO);
        assert_eq!(within(&budget, 1, 1e5), Some(3), "what takes no time");
    }

    #[test]
    fn parts_end_at_their_share() {
        let mut budget = Budget::new(Duration::from_secs(1 << 40));
        assert_eq!(budget.repeats("any", 1.0, 3, 1), Some(3));
        budget.part(0.0);
        assert_eq!(budget.repeats("any", 1.0, 3, 1), None);
        budget.part(0.5);
        assert_eq!(budget.repeats("any", 1.0, 2, 1), Some(2), "there is time again");
    }
}
