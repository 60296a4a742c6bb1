//! Counters of tasks that are waited for together.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::Failure;

/// Counts tasks that have not completed: those of a group, or those that a body has submitted.
pub(crate) struct Tally {
    open: AtomicUsize,
    failure: OnceLock<Arc<Failure>>,
    /// Lowest priority of the tasks that have been added since the last [`raise`](Tally::raise).
    lowest: AtomicI32,
    /// Priority of the body that waits for the tasks; `i32::MIN` while none does.
    waiter: AtomicI32,
    /// Counter of the body in which a group was made: its tasks are that body's, too.
    outer: Option<Arc<Tally>>,
}

impl Tally {
    /// Creates the counter of a group that is made in a body with this counter, or outside of
    /// bodies.
    pub(crate) fn within(outer: Option<Arc<Tally>>) -> Arc<Self> {
        Arc::new(Tally {
            open: AtomicUsize::new(0),
            failure: OnceLock::new(),
            lowest: AtomicI32::new(i32::MAX),
            waiter: AtomicI32::new(i32::MIN),
            outer,
        })
    }

    /// Returns true if `other` counts the same tasks, too.
    pub(crate) fn counts_in(&self, other: &Arc<Tally>) -> bool {
        std::ptr::eq(self, &raw const **other)
            || self.outer.as_ref().is_some_and(|outer| outer.counts_in(other))
    }

    /// Adds a submitted task of this priority.
    pub(crate) fn add(&self, priority: i32) {
        self.open.fetch_add(1, Ordering::Relaxed);
        if priority < self.lowest.load(Ordering::Relaxed) {
            self.lowest.fetch_min(priority, Ordering::Relaxed);
        }
        if let Some(outer) = &self.outer {
            outer.add(priority);
        }
    }

    /// Raises the priority of the tasks to that of a waiting body. Returns true if one of them has
    /// a lower priority.
    pub(crate) fn raise(&self, priority: i32) -> bool {
        self.waiter.store(priority, Ordering::Relaxed);
        self.lowest.swap(i32::MAX, Ordering::Relaxed) < priority
    }

    /// Ends the inherited priority: the body waits no longer.
    pub(crate) fn end_raise(&self) {
        self.waiter.store(i32::MIN, Ordering::Relaxed);
    }

    /// Returns the minimum priority of the tasks; `i32::MIN` while no body waits for them.
    pub(crate) fn inherited(&self) -> i32 {
        let outer = self.outer.as_ref().map_or(i32::MIN, |outer| outer.inherited());
        self.waiter.load(Ordering::Relaxed).max(outer)
    }

    /// Removes a task that has completed, or was refused after all. `wake` wakes the threads that
    /// wait for the tasks of a counter.
    pub(crate) fn remove(self: &Arc<Self>, failure: Option<&Arc<Failure>>, wake: &impl Fn(&Arc<Tally>)) {
        if let Some(failure) = failure {
            // Only the first failure is reported.
            let _ = self.failure.set(Arc::clone(failure));
        }
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            wake(self);
        }
        if let Some(outer) = &self.outer {
            outer.remove(failure, wake);
        }
    }

    /// Returns true if all have completed.
    pub(crate) fn is_complete(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Returns the first failure among them.
    pub(crate) fn failure(&self) -> Option<&Arc<Failure>> {
        self.failure.get()
    }
}
