//! The limit on tasks in flight, so that a graph of a million tasks never exists in memory at once.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Default number of tasks in flight.
pub(crate) const DEFAULT_WINDOW: usize = 8192;

/// How many tasks may be in flight; grows with the widest step that an algorithm announces.
#[derive(Debug)]
pub(crate) struct Window(AtomicUsize);

impl Window {
    pub(crate) fn new(tasks: usize) -> Self {
        Window(AtomicUsize::new(tasks.max(1)))
    }

    pub(crate) fn size(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A step of `tasks` tasks is coming: one and a half of them fit, so that the next step's first tasks, which are the
    /// urgent ones, are known before this step ends.
    pub(crate) fn widen(&self, tasks: usize) {
        self.0.fetch_max(tasks.saturating_add(tasks / 2), Ordering::Relaxed);
    }
}
