//! Sleep and wake-up of workers; `README.md` argues for the protocol.

use std::time::Duration;

use crate::sync::{AtomicU32, Mutex, Ordering, Parker, fence};

/// Duration of a nap of a worker that has met only short tasks.
const NAP: Duration = Duration::from_micros(50);

const SEARCHING: u32 = 1 << 16;
const SLEEPING: u32 = 1;

fn searching(counts: u32) -> u32 {
    counts >> 16
}

fn sleeping(counts: u32) -> u32 {
    counts & 0xffff
}

/// Counts of the workers that search for work and that sleep.
pub(crate) struct Sleep {
    /// Workers that search (upper half) and that sleep (lower half).
    counts: AtomicU32,
    /// The workers that sleep.
    sleepers: Mutex<Vec<usize>>,
    /// Number of workers that nap, followed by their list; they count as searching.
    napping: AtomicU32,
    nappers: Mutex<Vec<usize>>,
    parkers: Vec<Parker>,
}

impl Sleep {
    pub(crate) fn new(workers: usize) -> Self {
        Sleep {
            counts: AtomicU32::new(0),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            napping: AtomicU32::new(0),
            nappers: Mutex::new(Vec::with_capacity(workers)),
            parkers: (0..workers).map(|_| Parker::new()).collect(),
        }
    }

    /// Wakes a worker after work that any worker may take has become visible.
    pub(crate) fn notify_any(&self) {
        fence(Ordering::SeqCst);
        let counts = self.counts.load(Ordering::SeqCst);
        if searching(counts) == 0 && sleeping(counts) > 0 {
            self.wake(|sleepers| sleepers.pop());
        }
    }

    /// Wakes `worker` after work that only it can take has become visible.
    pub(crate) fn notify(&self, worker: usize) {
        fence(Ordering::SeqCst);
        if sleeping(self.counts.load(Ordering::SeqCst)) > 0 {
            self.wake(|sleepers| {
                sleepers.iter().position(|&w| w == worker).map(|at| sleepers.swap_remove(at))
            });
        }
    }

    /// Returns an estimate of the number of workers without a task.
    pub(crate) fn idle(&self) -> usize {
        let counts = self.counts.load(Ordering::Relaxed);
        (searching(counts) + sleeping(counts)) as usize
    }

    /// Returns an estimate of the number of sleeping workers.
    pub(crate) fn asleep(&self) -> usize {
        sleeping(self.counts.load(Ordering::Relaxed)) as usize
    }

    /// Wakes every sleeper and napper.
    pub(crate) fn notify_all(&self) {
        fence(Ordering::SeqCst);
        self.rouse_all();
        while sleeping(self.counts.load(Ordering::SeqCst)) > 0 {
            self.wake(|sleepers| sleepers.pop());
        }
    }

    fn wake(&self, choose: impl FnOnce(&mut Vec<usize>) -> Option<usize>) {
        let chosen = {
            let mut sleepers = self.sleepers.lock();
            let chosen = choose(&mut sleepers);
            if chosen.is_some() {
                // On behalf of the woken worker, so that the next push need not wake another one.
                self.counts.fetch_add(SEARCHING.wrapping_sub(SLEEPING), Ordering::SeqCst);
            }
            chosen
        };
        if let Some(worker) = chosen {
            self.parkers[worker].unpark();
        }
    }

    /// Ends every nap: a thread is about to wait for the workers' results.
    pub(crate) fn rouse_all(&self) {
        while self.rouse() {}
    }

    /// Ends a nap; false if nobody naps.
    fn rouse(&self) -> bool {
        if self.napping.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let roused = self.nappers.lock().pop();
        if let Some(worker) = roused {
            self.parkers[worker].unpark();
        }
        roused.is_some()
    }

    /// Makes `worker` pause for a moment so that work accumulates; it searches before and
    /// afterwards.
    pub(crate) fn nap(&self, worker: usize) {
        self.nappers.lock().push(worker);
        self.napping.fetch_add(1, Ordering::SeqCst);
        let roused = self.parkers[worker].park_for(NAP);
        let listed = {
            let mut nappers = self.nappers.lock();
            nappers.iter().position(|&napper| napper == worker).map(|at| nappers.swap_remove(at)).is_some()
        };
        self.napping.fetch_sub(1, Ordering::SeqCst);
        if !listed && !roused {
            // The thread that took this worker off the list unparks it: the token must not end a
            // later sleep.
            self.parkers[worker].park();
        }
    }

    /// Begins a search for work.
    pub(crate) fn begin_search(&self) {
        self.counts.fetch_add(SEARCHING, Ordering::SeqCst);
    }

    /// Ends a search that found work. Pushes that saw a searcher woke nobody, so the last searcher
    /// wakes another worker.
    pub(crate) fn end_search(&self) {
        let before = self.counts.fetch_sub(SEARCHING, Ordering::SeqCst);
        if searching(before) == 1 && sleeping(before) > 0 {
            self.wake(|sleepers| sleepers.pop());
        }
    }

    /// Announces that `worker`, whose search found nothing, will sleep. It must look for work once
    /// more and then call either `stay_awake` or `sleep`.
    pub(crate) fn announce(&self, worker: usize) {
        let mut sleepers = self.sleepers.lock();
        sleepers.push(worker);
        self.counts.fetch_add(SLEEPING.wrapping_sub(SEARCHING), Ordering::SeqCst);
        drop(sleepers);
        fence(Ordering::SeqCst);
    }

    /// Ends the announced sleep, since the last look found work.
    pub(crate) fn stay_awake(&self, worker: usize) {
        let mut sleepers = self.sleepers.lock();
        if let Some(at) = sleepers.iter().position(|&w| w == worker) {
            sleepers.swap_remove(at);
            self.counts.fetch_sub(SLEEPING, Ordering::SeqCst);
            drop(sleepers);
            // Pushes that saw this worker search woke nobody, and it found only one task: wake
            // another one.
            self.notify_any();
        } else {
            // Another thread woke this worker meanwhile and counted it as searching.
            drop(sleepers);
            self.parkers[worker].park();
            self.end_search();
        }
    }

    /// Sleeps until woken; the worker is searching afterwards.
    pub(crate) fn sleep(&self, worker: usize) {
        self.parkers[worker].park();
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;

    use super::*;

    fn take(queue: &AtomicU32) -> bool {
        queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
    }

    fn worker(sleep: &Sleep, queue: &AtomicU32, me: usize) {
        sleep.begin_search();
        loop {
            if take(queue) {
                sleep.end_search();
                return;
            }
            sleep.announce(me);
            if take(queue) {
                sleep.stay_awake(me);
                return;
            }
            sleep.sleep(me);
        }
    }

    /// One push, one worker: the push is never overlooked.
    #[test]
    fn a_push_is_not_lost() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new(1));
            let queue = Arc::new(AtomicU32::new(0));
            let thread = {
                let (sleep, queue) = (Arc::clone(&sleep), Arc::clone(&queue));
                loom::thread::spawn(move || worker(&sleep, &queue, 0))
            };
            queue.fetch_add(1, Ordering::Release);
            sleep.notify_any();
            thread.join().unwrap();
        });
    }

    /// A nap and its end leave no token behind: the sleep that follows is ended by the push alone.
    #[test]
    fn a_nap_leaves_no_token() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new(1));
            let queue = Arc::new(AtomicU32::new(0));
            let thread = {
                let (sleep, queue) = (Arc::clone(&sleep), Arc::clone(&queue));
                loom::thread::spawn(move || {
                    sleep.begin_search();
                    sleep.nap(0);
                    sleep.end_search();
                    worker(&sleep, &queue, 0);
                })
            };
            sleep.rouse_all();
            queue.fetch_add(1, Ordering::Release);
            sleep.notify_any();
            thread.join().unwrap();
            assert_eq!(sleep.counts.load(Ordering::SeqCst), 0);
            assert!(!sleep.parkers[0].park_for(NAP));
        });
    }

    /// Two pushes, two workers: both find work, although a push wakes nobody while somebody
    /// searches.
    #[test]
    fn two_pushes_reach_two_workers() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let sleep = Arc::new(Sleep::new(2));
            let queue = Arc::new(AtomicU32::new(0));
            let threads: Vec<_> = (0..2)
                .map(|me| {
                    let (sleep, queue) = (Arc::clone(&sleep), Arc::clone(&queue));
                    loom::thread::spawn(move || worker(&sleep, &queue, me))
                })
                .collect();
            for _ in 0..2 {
                queue.fetch_add(1, Ordering::Release);
                sleep.notify_any();
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
