//! Panics on threads that nobody joins for their result: those of workers and of devices' streams.
//!
//! Jobs that panic on purpose do so without a message, and are not recorded.

use std::panic::{set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records panics from now on; the previous hook still gets all of them.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let thread = thread::current();
            let name = thread.name().filter(|name| name.starts_with("zellige"));
            if let Some(name) = name {
                let text = format!("thread {name} panicked: {info}").replace('\n', " ");
                HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            }
            before(info);
        }));
    });
}

/// Returns the number of panics so far.
pub(super) fn count() -> usize {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Returns the panics after the first `before`. Each of several concurrent cases gets all of them.
pub(super) fn since(before: usize) -> Vec<String> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)[before..].to_vec()
}
