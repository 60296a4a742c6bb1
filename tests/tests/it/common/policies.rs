//! Scheduling policies as a user writes them, outside of the runtime's crate.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use zellige_runtime::Runtime;
use zellige_runtime::sched::{Policy, ReadyTask, SchedView, Wake};

/// Last in, first out.
#[derive(Debug, Default)]
pub struct Stack(Mutex<Vec<ReadyTask>>);

impl Policy for Stack {
    fn name(&self) -> &str {
        "stack"
    }

    fn push(&self, _view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        self.0.lock().unwrap().push(task);
        Wake::Any
    }

    fn pop(&self, _view: &SchedView<'_>, _worker: usize) -> Option<ReadyTask> {
        self.0.lock().unwrap().pop()
    }
}

/// Gives every task to one worker, in turn, and to no other.
#[derive(Debug)]
pub struct Assigned {
    queues: Vec<Mutex<Vec<ReadyTask>>>,
    next: AtomicUsize,
}

impl Assigned {
    /// Creates the policy for a number of workers.
    pub fn new(workers: usize) -> Self {
        Assigned { queues: (0..workers).map(|_| Mutex::default()).collect(), next: AtomicUsize::new(0) }
    }
}

impl Policy for Assigned {
    fn name(&self) -> &str {
        "assigned"
    }

    fn push(&self, _view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let worker = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        self.queues[worker].lock().unwrap().push(task);
        Wake::Worker(worker)
    }

    fn pop(&self, _view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.queues[worker].lock().unwrap().pop()
    }
}

/// Every policy that the tests know: the runtime's by name, then the user's.
pub const ALL: [&str; 11] =
    ["lws", "prio", "eager", "dm", "dmda", "dmdar", "dmdas", "heteroprio", "random", "stack", "assigned"];

/// A runtime with one of [`ALL`].
///
/// # Panics
/// It cannot be built.
pub fn runtime(policy: &str, workers: usize, window: usize, trace: bool) -> Runtime {
    let builder = Runtime::builder().workers(workers).window(window).trace(trace);
    let builder = match policy {
        "stack" => builder.policy_with(Stack::default()),
        "assigned" => builder.policy_with(Assigned::new(workers)),
        name => builder.policy(name),
    };
    builder.build().expect("a runtime of these parts")
}
