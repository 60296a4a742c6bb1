//! What happened when: a bounded recorder per worker, and what is made of its records.

mod bounds;
mod chrome;
mod html;
mod paje;
mod recorder;
#[cfg(test)]
mod samples;
mod summary;
mod tracks;

pub use bounds::{CodeletReport, Report};
pub(crate) use recorder::{DEFAULT_CAPACITY, Recorder};

use std::time::Duration;

/// One task that ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskEvent {
    /// The worker that ran it.
    pub worker: u32,
    /// The task's number.
    pub id: u64,
    /// The codelet's name.
    pub name: &'static str,
    /// A short word, e.g. the precision; may be empty.
    pub label: &'static str,
    /// Where it stands in the algorithm; unused coordinates are `u32::MAX`.
    pub coords: Option<[u32; 3]>,
    /// Its priority.
    pub priority: i32,
    /// Floating-point operations, as its codelet said.
    pub flops: f64,
    /// Bytes of its operands.
    pub bytes: u64,
    /// When the body started, since the runtime's start (ns).
    pub start_ns: u64,
    /// When the body ended (ns).
    pub end_ns: u64,
    /// Ready tasks in the policy when the body ended.
    pub ready: u32,
    /// True if it failed.
    pub failed: bool,
}

/// What a runtime recorded.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Name of each worker's track, e.g. `cpu 0`.
    pub workers: Vec<String>,
    /// The scheduling policy.
    pub policy: String,
    /// The tasks that ran, by start time.
    pub tasks: Vec<TaskEvent>,
    /// Dependencies by number, satisfied ones included. A number that is no task's is a group of concurrent accesses: it takes
    /// no time.
    pub edges: Vec<(u64, u64)>,
    /// Records that did not fit.
    pub lost: u64,
}

impl Trace {
    /// From the first body's start to the last body's end.
    pub fn makespan(&self) -> Duration {
        let start = self.tasks.iter().map(|task| task.start_ns).min().unwrap_or(0);
        let end = self.tasks.iter().map(|task| task.end_ns).max().unwrap_or(0);
        Duration::from_nanos(end.saturating_sub(start))
    }
}
