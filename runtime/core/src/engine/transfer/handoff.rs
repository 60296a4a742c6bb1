//! Work that many threads queue and one at a time executes, in order, without waiting.

use std::collections::VecDeque;

use crate::sync::{AtomicU32, Mutex, Ordering};

/// A queue, and a mark that a thread is executing it.
///
/// Nothing is left behind. A thread that finds another one at the queue leaves after its items are
/// in the queue, and that other thread reads the queue once more after it has cleared its mark. The
/// queue's lock orders the two reads.
pub(crate) struct Handoff<T> {
    queue: Mutex<VecDeque<T>>,
    busy: AtomicU32,
}

/// Clears the mark of the executing thread, also after a panic.
struct AtIt<'a>(&'a AtomicU32);

impl Drop for AtIt<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

impl<T> Handoff<T> {
    pub(crate) fn new() -> Self {
        Handoff { queue: Mutex::new(VecDeque::new()), busy: AtomicU32::new(0) }
    }

    /// Queues items, in order.
    pub(crate) fn extend(&self, items: impl IntoIterator<Item = T>) {
        self.queue.lock().extend(items);
    }

    /// Executes all queued items, unless another thread is doing so.
    pub(crate) fn drain(&self, mut each: impl FnMut(T)) {
        while !self.is_empty() {
            if self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                return;
            }
            let _at_it = AtIt(&self.busy);
            while let Some(item) = self.next() {
                each(item);
            }
        }
    }

    /// True if nothing is queued and no thread is executing.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.queue.lock();
        queue.is_empty() && self.busy.load(Ordering::Acquire) == 0
    }

    fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    fn next(&self) -> Option<T> {
        self.queue.lock().pop_front()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_queued_meanwhile_is_carried_out_too_and_a_panic_leaves_nobody_at_it() {
        let handoff = Handoff::new();
        handoff.extend([3, 1]);
        let mut seen = Vec::new();
        handoff.drain(|n| {
            seen.push(n);
            if n > 0 {
                handoff.extend([n - 1]);
            }
            // A thread is executing already.
            handoff.drain(|_| panic!("one at a time"));
        });
        assert_eq!(seen, [3, 1, 2, 0, 1, 0]);
        handoff.extend([7, 8]);
        let died =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handoff.drain(|_| panic!("once"))));
        assert!(died.is_err());
        handoff.drain(|n| seen.push(n));
        assert_eq!(seen.last(), Some(&8));
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::fence;

    use super::*;

    /// Each of two threads queues under a lock of its own order and drains: everything is executed,
    /// once, in order.
    #[test]
    fn nothing_is_left_behind() {
        loom::model(|| {
            let handoff = Arc::new(Handoff::new());
            let seen = Arc::new(Mutex::new(Vec::new()));
            let work = |handoff: &Handoff<u32>, seen: &Mutex<Vec<u32>>, first: u32| {
                handoff.extend([first, first + 1]);
                handoff.drain(|n| seen.lock().push(n));
            };
            let (there, told) = (Arc::clone(&handoff), Arc::clone(&seen));
            let other = loom::thread::spawn(move || work(&there, &told, 10));
            work(&handoff, &seen, 20);
            other.join().unwrap();
            let seen = seen.lock();
            assert_eq!(seen.len(), 4);
            for first in [10, 20] {
                let at = |n: u32| seen.iter().position(|&s| s == n).expect("carried out");
                assert!(at(first) < at(first + 1));
            }
        });
    }

    /// A thread that checks while an item is executed is notified once it is done: by the same
    /// order of reads as in `wait_for_transfers`.
    #[test]
    fn who_waits_for_idleness_sees_it_or_is_told() {
        loom::model(|| {
            let handoff = Arc::new(Handoff::new());
            let (waiting, told) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            handoff.extend([1]);
            let other = {
                let (handoff, waiting, told) =
                    (Arc::clone(&handoff), Arc::clone(&waiting), Arc::clone(&told));
                loom::thread::spawn(move || {
                    handoff.drain(drop);
                    fence(Ordering::SeqCst);
                    if waiting.load(Ordering::SeqCst) > 0 && handoff.is_idle() {
                        told.store(1, Ordering::SeqCst);
                    }
                })
            };
            waiting.fetch_add(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let idle = handoff.is_idle();
            other.join().unwrap();
            assert!(idle || told.load(Ordering::SeqCst) == 1);
        });
    }
}
