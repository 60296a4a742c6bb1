//! Panics on threads that nobody joins for their result: those of workers and of devices' streams.
//!
//! Jobs that panic on purpose do so without a message, and are not heard.

use std::panic::{set_hook, take_hook};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens from now on; whoever listened before goes on hearing everything.
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

/// How many there have been.
pub(super) fn count() -> usize {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).len()
}

/// Those since there were so many. Of cases that run side by side, each is told of all.
pub(super) fn since(before: usize) -> Vec<String> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)[before..].to_vec()
}
