//! Phases as periods of time.

use super::tracks::extent;
use super::{PhaseEvent, Trace};

/// A phase of the run, never of length zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase<'t> {
    /// Its name.
    pub name: &'t str,
    /// Start of the phase, but not before the first record (ns).
    pub start: u64,
    /// Start of the next phase, or end of the last record (ns).
    pub end: u64,
}

impl Trace {
    /// Returns the phases by start time, limited to the period with records of tasks or data.
    pub(super) fn phase_spans(&self) -> Vec<Phase<'_>> {
        let (first, last) = extent(self);
        let mut phases: Vec<&PhaseEvent> = self.phases.iter().collect();
        phases.sort_by_key(|phase| phase.start_ns);
        let ends = phases.iter().skip(1).map(|next| next.start_ns).chain([last]);
        let spans = phases.iter().zip(ends).map(|(&phase, end)| Phase {
            name: &phase.name,
            start: phase.start_ns.max(first),
            end: end.min(last),
        });
        spans.filter(|span| span.start < span.end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{diamond, phase, traces};
    use proptest::prelude::*;

    #[test]
    fn a_phase_ends_where_the_next_one_begins_and_at_the_last_record() {
        let mut trace = diamond();
        trace.phases = vec![phase("solve", 40), phase("never", 2), phase("factor", 3), phase("late", 55)];
        let span = |name, start: u64, end: u64| Phase { name, start: 1000 * start, end: 1000 * end };
        assert_eq!(trace.phase_spans(), [span("factor", 5, 40), span("solve", 40, 55)]);
    }

    proptest! {
        #[test]
        fn phases_follow_one_another_within_the_run(trace in traces()) {
            let (first, last) = extent(&trace);
            let spans = trace.phase_spans();
            prop_assert!(spans.iter().all(|span| first <= span.start && span.start < span.end && span.end <= last));
            prop_assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
