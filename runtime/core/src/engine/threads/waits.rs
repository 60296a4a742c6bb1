//! The threads of one runtime that wait, and the window on tasks in flight.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::{BlockedThreads, LiveTasks, Window};

/// Waiting threads, and the conditions that wake them.
pub(crate) struct Waits {
    pub(crate) window: Window,
    /// Threads that wait until nothing is in flight.
    for_all: AtomicU32,
    /// Threads that wait for room in the window.
    for_room: AtomicU32,
    /// Threads that wait.
    pub(in crate::engine) blocked: BlockedThreads,
    /// The tasks that have not completed, if a watchdog reports them.
    pub(in crate::engine) live: Option<LiveTasks>,
}

/// Counts a waiting thread until it is dropped.
pub(in crate::engine) struct Counted<'w>(&'w AtomicU32);

impl<'w> Counted<'w> {
    pub(in crate::engine) fn new(count: &'w AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        // Another thread changes the state, then looks for waiters: this thread is seen, or sees
        // the change.
        fence(Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Waits {
    pub(in crate::engine) fn new(window: Window, is_watched: bool) -> Self {
        Waits {
            window,
            for_all: AtomicU32::new(0),
            for_room: AtomicU32::new(0),
            blocked: BlockedThreads::new(),
            live: is_watched.then(LiveTasks::new),
        }
    }

    /// Counts the calling thread among those that wait until nothing is in flight.
    pub(super) fn wait_for_all(&self) -> Counted<'_> {
        Counted::new(&self.for_all)
    }

    /// Counts the calling thread among those that wait for room in the window.
    pub(super) fn wait_for_room(&self) -> Counted<'_> {
        Counted::new(&self.for_room)
    }

    /// True if a thread waits until nothing is in flight. Call it after counting a completion.
    pub(in crate::engine) fn is_any_for_all(&self) -> bool {
        fence(Ordering::SeqCst);
        self.for_all.load(Ordering::SeqCst) > 0
    }

    /// True if a thread waits for room in the window; the answer may be late.
    pub(in crate::engine) fn is_any_for_room(&self) -> bool {
        self.for_room.load(Ordering::Relaxed) > 0
    }
}
