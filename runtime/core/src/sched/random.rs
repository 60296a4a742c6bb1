//! Random scheduling.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use super::kinds::{Expected, Kinds, PerKind};
use super::queue::SharedQueue;
use super::{Policy, ReadyTask, SchedView, TaskQueue, Wake};
use crate::splitmix::number;

/// A queue per worker, by priority. A task goes to a worker drawn at random, with a probability
/// proportional to the inverse of its expected time there. A kind without a known time counts as
/// the mean of the known ones. There is no stealing.
///
/// The `n`-th pushed task gets the `n`-th number of a fixed sequence, so that runs in virtual time
/// are repeatable; with threads the order of pushes is not.
#[derive(Debug)]
pub(super) struct Random {
    queues: Vec<CachePadded<SharedQueue>>,
    pushed: CachePadded<AtomicU64>,
    kinds: OnceLock<Kinds>,
}

/// Weight of a task of one nanosecond.
const UNIT: u64 = 1 << 42;

/// Returns the weight of a worker of each kind; 0 if the task cannot run.
fn weights(expected: &[Expected]) -> PerKind<u64> {
    let speed = |e: &Expected| if let Expected::Known(time) = e { Some((UNIT / time).max(1)) } else { None };
    let known: PerKind<u64> = expected.iter().filter_map(speed).collect();
    let mean = known.iter().sum::<u64>().checked_div(known.len() as u64).unwrap_or(1);
    let weight = |e| match e {
        &Expected::Never => 0,
        e => speed(e).unwrap_or(mean),
    };
    expected.iter().map(weight).collect()
}

impl Random {
    /// Creates the policy for `workers` workers.
    pub(super) fn new(workers: usize) -> Self {
        let queues = (0..workers).map(|_| CachePadded::default()).collect();
        Random { queues, pushed: CachePadded::default(), kinds: OnceLock::new() }
    }

    fn draw(&self, view: &SchedView<'_>, task: &ReadyTask) -> Option<usize> {
        let kinds = self.kinds.get_or_init(|| Kinds::new(view));
        let weights = weights(&kinds.expect(view, task));
        let weight = |w: usize| match weights[kinds.of(w)] {
            0 => 0,
            weight if kinds.can_run(view, task, w) => weight,
            _ => 0,
        };
        // Evaluated once: a device may fail meanwhile.
        let each: SmallVec<[u64; 16]> = (0..self.queues.len()).map(weight).collect();
        let total: u64 = each.iter().sum();
        let n = self.pushed.fetch_add(1, Ordering::Relaxed);
        let mut at = ((u128::from(number(n)) * u128::from(total)) >> 64) as u64;
        (0..each.len()).find(|&w| match at.checked_sub(each[w]) {
            Some(rest) => {
                at = rest;
                false
            }
            None => true,
        })
    }
}

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let Some(worker) = self.draw(view, &task) else {
            // No remaining device can run it: it is dropped and fails with its name.
            return Wake::Any;
        };
        self.queues[worker].push(task);
        Wake::Worker(worker)
    }

    fn sort_again(&self) {
        self.queues.iter().for_each(|queue| queue.sort_again());
    }

    fn pop(&self, _view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.queues[worker].pop_by(TaskQueue::pop)
    }

    fn pop_like(
        &self,
        _view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        // Nobody else would take them.
        self.queues[worker].pop_like(first, |_| most, |_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::mock::Mock;

    fn shares(mock: &Mock, codelet: &'static str) -> Vec<usize> {
        let policy = Random::new(3);
        let mut counts = vec![0; 3];
        for id in 0..6000 {
            match mock.push(&policy, id, codelet, 0) {
                Wake::Worker(worker) => counts[worker] += 1,
                Wake::Any => panic!("a task belongs to one worker"),
            }
        }
        for (worker, &count) in counts.iter().enumerate() {
            let popped: Vec<u64> = std::iter::from_fn(|| mock.pop(&policy, worker)).collect();
            assert_eq!(popped.len(), count);
            assert!(popped.is_sorted(), "first come first served");
        }
        counts
    }

    #[test]
    fn the_faster_the_likelier() {
        let mut mock = Mock::new(&["cpu", "cpu", "gpu"]);
        mock.takes("gemm", "cpu", 4000);
        mock.takes("gemm", "gpu", 1000);
        let counts = shares(&mock, "gemm");
        // 1000, 1000, 4000 of 6000 on average; six standard deviations are 173 and 219.
        assert!(counts[0].abs_diff(1000) < 173 && counts[1].abs_diff(1000) < 173, "{counts:?}");
        assert!(counts[2].abs_diff(4000) < 219, "{counts:?}");
        assert_eq!(shares(&mock, "gemm"), counts, "the same numbers each time");

        let equal = shares(&mock, "unknown");
        assert!(equal.iter().all(|count| count.abs_diff(2000) < 219), "{equal:?}");

        mock.forbid("gemm", 0);
        let counts = shares(&mock, "gemm");
        assert_eq!(counts[0], 0);
        assert!(counts[1].abs_diff(1200) < 186, "{counts:?}");
    }

    #[test]
    fn what_is_unknown_counts_as_the_mean() {
        use Expected::{Known, Never, Unknown};
        assert_eq!(weights(&[Known(2), Unknown, Known(4), Never])[..], [UNIT / 2, UNIT * 3 / 8, UNIT / 4, 0]);
        assert_eq!(weights(&[Unknown, Unknown])[..], [1, 1]);
        assert_eq!(weights(&[Never, Known(u64::MAX)])[..], [0, 1]);
    }
}
