//! Waiting for resources released by a transfer or a body: memory of a device, a value that is
//! read, a copy that moves.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::TransferDriver;
use crate::device::StreamError;
use crate::engine::threads::Counted;

/// Intervals between retries of an allocation in a full device memory although nothing has ended
/// here: other processes may have freed memory. After all of them, ten seconds in total, the
/// allocation fails.
const POLLS: [Duration; 10] = {
    let ms = Duration::from_millis;
    [ms(1), ms(3), ms(10), ms(30), ms(100), ms(300), ms(1000), ms(2000), ms(3000), ms(4000)]
};

/// Number of polls for other users of the device. After them, some work of this runtime whose end
/// may make room must be in progress.
const FOR_OTHERS: usize = 4;

/// Notified whenever a transfer or a body has ended, and when an action of the memory manager was
/// executed.
#[derive(Default)]
pub(super) struct Progress {
    waiting: AtomicUsize,
    count: Mutex<u64>,
    changed: Condvar,
    /// Threads that wait until nothing moves.
    for_rest: AtomicU32,
}

/// A waiter: it sees all progress after its creation.
pub(super) struct Waiter<'p> {
    progress: &'p Progress,
    seen: u64,
}

impl Progress {
    /// Notifies that something has ended. Costs one load if nobody waits.
    pub(super) fn notify(&self) {
        // The waiter announces itself before it reads the state that was changed before this.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            *self.count.lock() += 1;
            self.changed.notify_all();
        }
    }

    /// Counts the calling thread among those that wait until nothing moves.
    pub(super) fn wait_for_rest(&self) -> Counted<'_> {
        Counted::new(&self.for_rest)
    }

    /// True if a thread waits until nothing moves. Call it after executing an action.
    pub(super) fn is_any_for_rest(&self) -> bool {
        fence(Ordering::SeqCst);
        self.for_rest.load(Ordering::SeqCst) > 0
    }

    pub(super) fn waiter(&self) -> Waiter<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Waiter { progress: self, seen: *self.count.lock() }
    }
}

impl Waiter<'_> {
    /// Waits for progress since the last time, or until the timeout; true if there was some.
    pub(super) fn wait(&mut self, at_most: Option<Duration>) -> bool {
        let until = at_most.map(|time| Instant::now() + time);
        let mut count = self.progress.count.lock();
        while *count == self.seen {
            match until {
                None => self.progress.changed.wait(&mut count),
                Some(until) if self.progress.changed.wait_until(&mut count, until).timed_out() => break,
                Some(_) => {}
            }
        }
        std::mem::replace(&mut self.seen, *count) != *count
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.progress.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TransferDriver {
    /// Waits until a condition holds that ends of transfers and bodies bring about.
    pub(super) fn wait_for(&self, mut is_so: impl FnMut() -> bool) {
        let mut waiter = self.progress.waiter();
        while !is_so() {
            // In simulated time nothing ends by itself.
            if !self.operations.events.as_ref().is_some_and(|events| events.pass()) {
                waiter.wait(None);
            }
        }
    }

    /// Retries an allocation of device memory while there is no room: whenever something has ended,
    /// and periodically for memory of other processes. `make_room` gets the number of missing
    /// bytes, and returns whether this runtime may free any.
    pub(super) fn ask_for_room<T>(
        &self,
        mut ask: impl FnMut() -> Result<T, StreamError>,
        mut make_room: impl FnMut(u64) -> bool,
    ) -> Result<T, StreamError> {
        let mut answer = ask();
        if !matches!(answer, Err(StreamError::OutOfMemory { .. })) {
            return answer;
        }
        let (mut waiter, mut polls) = (self.progress.waiter(), 0);
        loop {
            answer = ask();
            let Err(StreamError::OutOfMemory { bytes }) = answer else { return answer };
            let comes = make_room(bytes);
            let Some(poll) = POLLS.get(polls).filter(|_| comes || polls < FOR_OTHERS) else { return answer };
            if !waiter.wait(Some(*poll)) {
                polls += 1;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn who_waits_is_woken_by_what_ends_and_never_waits_for_what_has_ended() {
        for _ in 0..200 {
            let (progress, ended) = (Arc::new(Progress::default()), Arc::new(AtomicBool::new(false)));
            let other = {
                let (progress, ended) = (Arc::clone(&progress), Arc::clone(&ended));
                thread::spawn(move || {
                    ended.store(true, Ordering::Release);
                    progress.notify();
                })
            };
            let mut waiter = progress.waiter();
            while !ended.load(Ordering::Acquire) {
                waiter.wait(None);
            }
            other.join().unwrap();
        }
    }

    #[test]
    fn without_progress_a_wait_ends_in_time() {
        let progress = Progress::default();
        let mut waiter = progress.waiter();
        assert!(!waiter.wait(Some(Duration::from_millis(1))));
        progress.notify();
        assert!(waiter.wait(None) && !waiter.wait(Some(Duration::ZERO)));
        drop(waiter);
        progress.notify();
        assert_eq!(*progress.count.lock(), 1, "nobody waits");
    }
}
