//! Counting tasks that are waited for together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::engine::Shared;
use crate::error::Failure;

/// Counts tasks that have not completed: those of a group, or those that a body has submitted.
#[derive(Default)]
pub(crate) struct Tally {
    open: AtomicUsize,
    failure: OnceLock<Arc<Failure>>,
    /// Of the body in which a group was made: its tasks are that body's, too.
    outer: Option<Arc<Tally>>,
}

impl Tally {
    /// Of a group that is made in a body with this tally, or in none.
    pub(crate) fn within(outer: Option<Arc<Tally>>) -> Arc<Self> {
        Arc::new(Tally { outer, ..Tally::default() })
    }

    /// True if what it counts `other` counts, too.
    pub(crate) fn counts_in(&self, other: &Arc<Tally>) -> bool {
        std::ptr::eq(self, &raw const **other)
            || self.outer.as_ref().is_some_and(|outer| outer.counts_in(other))
    }

    /// A task is submitted.
    pub(crate) fn add(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        if let Some(outer) = &self.outer {
            outer.add();
        }
    }

    /// One has completed, or was refused after all.
    pub(crate) fn remove(self: &Arc<Self>, failure: Option<&Arc<Failure>>, shared: &Shared) {
        if let Some(failure) = failure {
            // The first is reported.
            let _ = self.failure.set(Arc::clone(failure));
        }
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.wake_waiters_of_group(self);
        }
        if let Some(outer) = &self.outer {
            outer.remove(failure, shared);
        }
    }

    /// True if all have completed.
    pub(crate) fn is_complete(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// The first failure among them.
    pub(crate) fn failure(&self) -> Option<&Arc<Failure>> {
        self.failure.get()
    }
}
