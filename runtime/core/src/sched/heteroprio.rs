//! Scheduling by acceleration: every kind of device prefers the tasks that it accelerates most.

use std::cell::Cell;
use std::cmp::Reverse;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::kinds::{Expected, PerKind, SharedQueueKinds};
use super::queue::{Verdict, like};
use super::{Policy, ReadyTask, SchedView, TaskQueue, Wake};

/// For each kind of device a list of the same buckets, ordered by the speedup of the kind on a
/// bucket's tasks over the best of the others (Agullo, Bramas, Coulaud, Darve, Messner, Takahashi
/// 2016). On a machine of two kinds the lists are each other's reverse: the fast kind takes from
/// the most accelerated end, the slow one from the other. A bucket is ordered by priority, then by
/// age. Any worker that can run a task may take it, so that none is idle while there is work.
///
/// A kind to which a task is unknown takes it first, so that its model learns. Such tasks are
/// evaluated again when it is their turn, and go to their bucket once their times are known.
#[derive(Debug, Default)]
pub(super) struct Heteroprio {
    buckets: Mutex<Vec<Bucket>>,
    open: SharedQueueKinds,
}

/// Tasks with the same speedups.
#[derive(Debug)]
struct Bucket {
    gains: Gains,
    tasks: TaskQueue,
}

/// Speedup of a task on a kind over the best other kind, in quarters of an octave: positive if the
/// kind is faster, [`ONLY`] if no other can run it, [`UNKNOWN`] if nothing is known. `None` if the
/// kind could not run it when it was pushed: other devices may fail, so the kind searches such
/// buckets last.
type Gains = PerKind<Option<i32>>;

/// Greater than all gains.
const UNKNOWN: i32 = i32::MAX;
const ONLY: i32 = i32::MAX - 1;
/// Less than all gains.
const NOT_THEN: i32 = i32::MIN;

/// Maximum number of tasks that one pop moves to their buckets after their times have become known.
const MOVES: usize = 64;

/// Number of buckets up to which empty ones are kept for the next task with their gains.
const BUCKETS: usize = 64;

/// Returns the position of `x >= 1` on a logarithmic scale, in quarters of an octave. It uses
/// integers, to be the same on every machine, and is linear within an octave, which preserves the
/// order.
fn quarters(x: u128) -> i32 {
    let octave = x.ilog2();
    let within = if octave < 2 { x << (2 - octave) } else { x >> (octave - 2) } & 3;
    4 * octave as i32 + within as i32
}

fn gains(expected: &[Expected]) -> Gains {
    const ONE: u32 = 64;
    let gain = |kind: usize| {
        let others = || (0..expected.len()).filter(|&k| k != kind).map(|k| expected[k]);
        match expected[kind] {
            Expected::Never => None,
            _ if others().all(|e| e == Expected::Never) => Some(ONLY),
            Expected::Unknown => Some(UNKNOWN),
            Expected::Known(own) => {
                let known = others().filter_map(|e| if let Expected::Known(t) = e { Some(t) } else { None });
                // If nothing is known of the others it belongs in the middle.
                let ratio = (u128::from(known.min().unwrap_or(own)) << ONE) / u128::from(own);
                Some(quarters(ratio.max(1)) - 4 * ONE as i32)
            }
        }
    };
    (0..expected.len()).map(gain).collect()
}

/// Puts a task into the bucket of its gains.
fn sort_in(buckets: &mut Vec<Bucket>, gains: Gains, task: ReadyTask) {
    let known = buckets.iter_mut().find(|bucket| bucket.gains == gains);
    if let Some(bucket) = known {
        bucket.tasks.push(task);
        return;
    }
    if buckets.len() >= BUCKETS {
        buckets.retain(|bucket| !bucket.tasks.is_empty());
    }
    let mut tasks = TaskQueue::default();
    tasks.push(task);
    buckets.push(Bucket { gains, tasks });
}

/// Returns the next task of a kind among the eligible ones, and the gains of its bucket.
fn next(
    buckets: &mut [Bucket],
    kind: usize,
    verdict: impl Fn(&ReadyTask) -> Verdict,
) -> Option<(ReadyTask, Gains)> {
    let place = |(at, bucket): (usize, &Bucket)| {
        let (gain, priority) = (bucket.gains[kind].unwrap_or(NOT_THEN), bucket.tasks.priority()?);
        Some((Reverse(gain), Reverse(priority), at))
    };
    let mut places: SmallVec<[_; 16]> = buckets.iter().enumerate().filter_map(place).collect();
    places.sort_unstable();
    let stopped = Cell::new(false);
    let noted = |task: &ReadyTask| {
        let verdict = verdict(task);
        stopped.set(verdict == Verdict::Stop);
        verdict
    };
    let mut found = None;
    for (_, _, at) in places {
        let bucket = &mut buckets[at];
        found = bucket.tasks.pop_by(noted).map(|task| (task, bucket.gains.clone()));
        if found.is_some() || stopped.get() {
            break;
        }
    }
    found
}

impl Heteroprio {
    /// Returns the next task for `worker` among the eligible ones; tasks whose times have become
    /// known go to their bucket.
    fn take(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        buckets: &mut Vec<Bucket>,
        verdict: impl Fn(&ReadyTask) -> Verdict,
    ) -> Option<ReadyTask> {
        let kinds = self.open.kinds(view);
        let kind = kinds.of(worker);
        let mut moves = 0;
        loop {
            let (task, old) = next(buckets, kind, &verdict)?;
            if moves == MOVES || !old.contains(&Some(UNKNOWN)) {
                return Some(task);
            }
            let new = gains(&kinds.expect(view, &task));
            if new == old || new[kind].is_none() {
                return Some(task);
            }
            sort_in(buckets, new, task);
            moves += 1;
        }
    }
}

impl Policy for Heteroprio {
    fn name(&self) -> &str {
        "heteroprio"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let Some(wake) = self.open.wake(view, &task) else {
            return Wake::Any;
        };
        let gains = gains(&self.open.kinds(view).expect(view, &task));
        sort_in(&mut self.buckets.lock(), gains, task);
        wake
    }

    fn sort_again(&self) {
        self.buckets.lock().iter_mut().for_each(|bucket| bucket.tasks.sort_again());
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        let may = |task: &ReadyTask| match self.open.kinds(view).can_run(view, task, worker) {
            true => Verdict::Take,
            false => Verdict::Pass,
        };
        self.take(view, worker, &mut self.buckets.lock(), may)
    }

    fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        let mut buckets = self.buckets.lock();
        let queued = buckets.iter().map(|bucket| bucket.tasks.len()).sum();
        let share = self.open.share(view, first, queued, most);
        let may = |task: &ReadyTask| self.open.kinds(view).can_run(view, task, worker);
        let next = || self.take(view, worker, &mut buckets, like(first, may));
        std::iter::from_fn(next).take(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::mock::Mock;

    /// Creates two CPU cores and a GPU that runs gemm 40 times as fast as a core, syrk 10 times,
    /// and potrf half as fast.
    fn machine() -> Mock {
        let mock = Mock::new(&["cpu", "cpu", "gpu"]);
        for (codelet, cpu, gpu) in [("gemm", 4000, 100), ("syrk", 2000, 200), ("potrf", 1000, 2000)] {
            mock.takes(codelet, "cpu", cpu);
            mock.takes(codelet, "gpu", gpu);
        }
        mock
    }

    #[test]
    fn each_kind_takes_from_its_end() {
        let mock = machine();
        let policy = Heteroprio::default();
        for (id, codelet) in [(0, "syrk"), (1, "gemm"), (2, "potrf"), (3, "gemm"), (4, "syrk"), (5, "potrf")]
        {
            assert_eq!(mock.push(&policy, id, codelet, 0), Wake::Any);
        }
        let order = [2, 1, 0, 0, 2, 2].map(|worker| mock.pop(&policy, worker).unwrap());
        assert_eq!(order, [1, 2, 5, 0, 3, 4]);
        assert_eq!(mock.pop(&policy, 0), None);
    }

    #[test]
    fn priority_counts_within_a_bucket_only() {
        let mock = machine();
        let policy = Heteroprio::default();
        for (id, codelet, priority) in [(0, "gemm", 1), (1, "gemm", 7), (2, "syrk", 100), (3, "gemm", 7)] {
            mock.push(&policy, id, codelet, priority);
        }
        let order: Vec<u64> = std::iter::from_fn(|| mock.pop(&policy, 2)).collect();
        assert_eq!(order, [1, 3, 0, 2]);
    }

    #[test]
    fn what_a_kind_does_not_know_it_takes_first_and_sorts_in_once_it_does() {
        let mock = machine();
        let policy = Heteroprio::default();
        mock.takes("trsm", "cpu", 3000);
        for id in 0..4 {
            mock.push(&policy, id, "trsm", 0);
        }
        mock.push(&policy, 4, "gemm", 0);
        mock.push(&policy, 5, "potrf", 0);
        assert_eq!(mock.pop(&policy, 2), Some(0), "the GPU is to learn");
        // Twice as fast: less than gemm, more than potrf.
        mock.takes("trsm", "gpu", 1500);
        assert_eq!(mock.pop(&policy, 2), Some(4));
        assert_eq!(mock.pop(&policy, 0), Some(5));
        assert_eq!([0, 2, 2].map(|worker| mock.pop(&policy, worker).unwrap()), [1, 2, 3]);
    }

    #[test]
    fn a_kind_takes_what_only_it_can_run() {
        let mut mock = machine();
        mock.forbid("codec", 0);
        mock.forbid("codec", 1);
        mock.forbid("nowhere", 0);
        mock.forbid("nowhere", 1);
        mock.forbid("nowhere", 2);
        let policy = Heteroprio::default();
        mock.push(&policy, 0, "gemm", 0);
        assert_eq!(mock.push(&policy, 1, "codec", 0), Wake::Worker(2));
        assert_eq!(mock.pop(&policy, 0), Some(0));
        assert_eq!(mock.pop(&policy, 1), None);
        mock.push(&policy, 2, "gemm", 0);
        assert_eq!([mock.pop(&policy, 2), mock.pop(&policy, 2)], [Some(1), Some(2)]);
    }

    #[test]
    fn one_kind_goes_by_priority() {
        let mock = Mock::new(&["cpu", "cpu"]);
        mock.takes("known", "cpu", 5);
        let policy = Heteroprio::default();
        for (id, codelet, priority) in
            [(0, "known", 3), (1, "unknown", 1), (2, "known", 0), (3, "unknown", 9)]
        {
            mock.push(&policy, id, codelet, priority);
        }
        let order: Vec<u64> = std::iter::from_fn(|| mock.pop(&policy, 1)).collect();
        assert_eq!(order, [3, 0, 1, 2]);
    }

    #[test]
    fn gains_are_quarters_of_octaves() {
        use Expected::{Known, Never, Unknown};
        assert_eq!(gains(&[Known(4000), Known(1000)])[..], [Some(-8), Some(8)]);
        assert_eq!(gains(&[Known(7), Known(7), Never])[..], [Some(0), Some(0), None]);
        assert_eq!(gains(&[Known(1200), Known(800), Known(600)])[..], [Some(-4), Some(-2), Some(1)]);
        assert_eq!(gains(&[Unknown, Known(5)])[..], [Some(UNKNOWN), Some(0)]);
        assert_eq!(gains(&[Never, Unknown])[..], [None, Some(ONLY)]);
        assert!((1..4000).is_sorted_by_key(quarters));
        assert!(gains(&[Known(1), Known(u64::MAX)])[0] < Some(ONLY));
    }
}
