//! Breakdown of the time of a run, by its trace.

use schemars::JsonSchema;
use serde::Serialize;
use zellige_runtime::Trace;

/// Shares of the time from the first submission to the last task; they add up to one. A body counts
/// from when it was launched, or from the end of the one before on its stream, until the host has
/// seen its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimeSplit {
    /// Share with bodies in flight.
    pub kernels_share: f64,
    /// Share with transfers or conversions in flight, and no body.
    pub transfers_share: f64,
    /// Share with neither, between the first of them and the last.
    pub gaps_share: f64,
    /// Share before the first and after the last: the host alone.
    pub host_share: f64,
}

impl TimeSplit {
    /// Computes the shares from the trace of a run of `seconds`. If nothing was recorded, all is
    /// the host's.
    pub fn of(trace: &Trace, seconds: f64) -> Self {
        let tasks: Vec<(u64, u64)> = trace.tasks.iter().map(|task| (task.start_ns, task.end_ns)).collect();
        let transfers = trace.transfers.iter().map(|transfer| (transfer.start_ns, transfer.end_ns));
        let all: Vec<(u64, u64)> = tasks.iter().copied().chain(transfers).collect();
        let (first, last) = (
            all.iter().map(|span| span.0).min().unwrap_or(0),
            all.iter().map(|span| span.1).max().unwrap_or(0),
        );
        let (kernels, all) = (covered(tasks), covered(all));
        // Recorded times may begin before the clock does, by the time of a call.
        let whole = (seconds * 1e9).max((last - first) as f64);
        let share = |nanos: u64| if whole > 0.0 { nanos as f64 / whole } else { 0.0 };
        let (kernels_share, transfers_share) = (share(kernels), share(all - kernels));
        let gaps_share = share(last - first - all);
        let host_share = (1.0 - kernels_share - transfers_share - gaps_share).max(0.0);
        TimeSplit { kernels_share, transfers_share, gaps_share, host_share }
    }
}

/// Returns the time that at least one of these spans covers (ns).
fn covered(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut total, mut until) = (0, 0);
    for (start, end) in spans {
        let start = start.max(until);
        if end > start {
            total += end - start;
            until = end;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_count_once() {
        assert_eq!(covered(vec![]), 0);
        assert_eq!(covered(vec![(30, 40), (0, 10), (5, 20), (6, 7)]), 30);
    }

    #[test]
    fn without_records_all_is_the_hosts() {
        let split = TimeSplit::of(&Trace::default(), 2.0);
        assert_eq!(split, TimeSplit { host_share: 1.0, ..TimeSplit::default() });
    }
}
