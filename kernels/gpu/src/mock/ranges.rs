//! Ranges, as a profiler would see them.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

/// Ranges of all threads.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Open ranges of each thread, the outermost first.
    open: HashMap<ThreadId, Vec<String>>,
    ended: Vec<String>,
}

impl Ranges {
    pub(super) fn begin(&mut self, name: &str) {
        self.open.entry(thread::current().id()).or_default().push(name.into());
    }

    /// Ends the calling thread's innermost range; false if there is none.
    pub(super) fn end(&mut self) -> bool {
        let Some(open) = self.open.get_mut(&thread::current().id()).filter(|open| !open.is_empty()) else {
            return false;
        };
        self.ended.push(open.join(" / "));
        open.pop();
        true
    }

    pub(super) fn ended(&self) -> Vec<String> {
        self.ended.clone()
    }

    pub(super) fn open(&self) -> Vec<String> {
        self.open.values().flatten().map(|name| format!("range {name}")).collect()
    }
}
