//! Counters of the tasks of one runtime.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// Numbers that tasks get, and the tasks that have been accepted, completed and cancelled.
pub(crate) struct Counters {
    next_id: CachePadded<AtomicU64>,
    /// Tasks accepted.
    submitted: CachePadded<AtomicU64>,
    /// Number of submitted tasks at which the window is checked again.
    unchecked_until: CachePadded<AtomicU64>,
    /// Tasks completed by threads that are not workers.
    done_outside: CachePadded<AtomicU64>,
    cancelled_below: AtomicU64,
}

impl Counters {
    pub(super) fn new() -> Self {
        Counters {
            next_id: CachePadded::new(AtomicU64::new(1)),
            submitted: CachePadded::default(),
            unchecked_until: CachePadded::default(),
            done_outside: CachePadded::default(),
            cancelled_below: AtomicU64::new(0),
        }
    }

    /// Reserves `count` fresh numbers and returns the first.
    pub(crate) fn next_ids(&self, count: u64) -> u64 {
        self.next_id.fetch_add(count, Ordering::Relaxed)
    }

    /// Counts a task that has been accepted.
    pub(super) fn accept(&self) {
        self.submitted.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of tasks that have been accepted, for decisions that tolerate an older
    /// value.
    pub(super) fn accepted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// True if the window need not be checked before the next submission.
    pub(super) fn is_unchecked(&self) -> bool {
        self.accepted() < self.unchecked_until.load(Ordering::Relaxed)
    }

    /// Lets the window go unchecked for the next `count` submissions.
    pub(super) fn skip_checks(&self, count: u64) {
        self.unchecked_until.store(self.accepted() + count, Ordering::Relaxed);
    }

    /// Counts a task that was completed by a thread that is not a worker.
    pub(super) fn complete_outside(&self) {
        self.done_outside.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of tasks completed by threads that are not workers.
    pub(super) fn done_outside(&self) -> u64 {
        self.done_outside.load(Ordering::Acquire)
    }

    /// Returns the number of tasks accepted and not among the `done` ones. Read `done` first: the
    /// result is then never too small for the caller's own submissions.
    pub(super) fn in_flight(&self, done: u64) -> u64 {
        self.submitted.load(Ordering::Acquire).saturating_sub(done)
    }

    /// True if the task with this number was cancelled along with everything before some moment.
    pub(crate) fn is_cancelled(&self, id: u64) -> bool {
        id < self.cancelled_below.load(Ordering::Relaxed)
    }

    /// Cancels all tasks that have got a number so far and have not started.
    pub(super) fn cancel_all(&self) {
        self.cancelled_below.fetch_max(self.next_id.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
