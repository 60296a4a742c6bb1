//! Atomics, locks and cells: the only module of the crate that imports them.
//!
//! Under `--cfg loom` these are loom's, so that the models in `deps` and `engine::threads::sleep`
//! explore every interleaving of the very code that ships; otherwise they are std's atomics and
//! `parking_lot`'s locks.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use self::mocked::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

/// Yields for a moment while another thread is about to act.
pub(crate) fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

#[cfg(loom)]
mod mocked {
    /// loom's mutex with parking_lot's signature.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a model never panics under a lock")
        }
    }
}

/// Parks one thread until it is unparked; an early `unpark` is kept.
pub(crate) struct Parker {
    #[cfg(loom)]
    state: (loom::sync::Mutex<bool>, loom::sync::Condvar),
    #[cfg(not(loom))]
    state: (parking_lot::Mutex<bool>, parking_lot::Condvar),
}

impl Parker {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Parker { state: (loom::sync::Mutex::new(false), loom::sync::Condvar::new()) }
    }

    #[cfg(not(loom))]
    pub(crate) fn new() -> Self {
        Parker { state: Default::default() }
    }

    /// Waits for an `unpark`, and uses it up.
    pub(crate) fn park(&self) {
        let (token, condition) = &self.state;
        #[cfg(loom)]
        {
            let mut token = token.lock().unwrap();
            while !*token {
                token = condition.wait(token).unwrap();
            }
            *token = false;
        }
        #[cfg(not(loom))]
        {
            let mut token = token.lock();
            while !*token {
                condition.wait(&mut token);
            }
            *token = false;
        }
    }

    /// Parks like `park`, for at most `limit`; returns true if it was unparked. A loom model has no
    /// time: there the call returns at once.
    pub(crate) fn park_for(&self, limit: std::time::Duration) -> bool {
        let (token, condition) = &self.state;
        #[cfg(loom)]
        let mut token = {
            let _ = (condition, limit);
            token.lock().unwrap()
        };
        #[cfg(not(loom))]
        let mut token = {
            let mut token = token.lock();
            condition.wait_while_for(&mut token, |token| !*token, limit);
            token
        };
        std::mem::take(&mut *token)
    }

    /// Makes `park` return.
    pub(crate) fn unpark(&self) {
        let (token, condition) = &self.state;
        #[cfg(loom)]
        let mut token = token.lock().unwrap();
        #[cfg(not(loom))]
        let mut token = token.lock();
        *token = true;
        condition.notify_one();
    }
}
