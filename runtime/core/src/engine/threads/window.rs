//! The limit on tasks in flight, so that a graph of a million tasks never exists in memory at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Default number of tasks in flight.
pub(crate) const DEFAULT_WINDOW: usize = 8192;

/// Maximum number of tasks in flight. It grows with the widest step that an algorithm announces,
/// until that step has been submitted.
#[derive(Debug)]
pub(crate) struct Window {
    size: AtomicUsize,
    /// Size without an announcement.
    usual: usize,
    /// Number of submissions at which the announced steps end.
    announced_until: AtomicU64,
}

impl Window {
    pub(crate) fn new(tasks: usize) -> Self {
        let usual = tasks.max(1);
        Window { size: AtomicUsize::new(usual), usual, announced_until: AtomicU64::new(0) }
    }

    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// Announces a step of `tasks` tasks after `submitted` submissions. One and a half steps fit,
    /// so that the next step's first tasks, which are the urgent ones, are known before this step
    /// ends.
    pub(crate) fn widen(&self, tasks: usize, submitted: u64) {
        let tasks = tasks.saturating_add(tasks / 2);
        self.announced_until.fetch_max(submitted.saturating_add(tasks as u64), Ordering::Relaxed);
        self.size.fetch_max(tasks, Ordering::Relaxed);
    }

    /// Restores the usual size once the announced steps have been submitted.
    pub(crate) fn shrink(&self, submitted: u64) {
        let size = self.size();
        if size > self.usual && submitted > self.announced_until.load(Ordering::Relaxed) {
            // Fails if a step is announced meanwhile.
            let _ = self.size.compare_exchange(size, self.usual, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_step_widens_the_window_until_it_has_been_submitted() {
        let window = Window::new(100);
        window.widen(1000, 50);
        window.shrink(1549);
        assert_eq!(window.size(), 1500);
        window.shrink(1551);
        assert_eq!(window.size(), 100);
        window.widen(10, 2000);
        assert_eq!(window.size(), 100);
    }
}
