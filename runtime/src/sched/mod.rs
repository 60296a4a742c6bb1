//! Scheduling policies: which worker runs a ready task, and when.
//!
//! A [`Policy`] is a passive structure: the runtime pushes ready tasks into it and asks it for the next task of a worker. It
//! never blocks, starts no thread and reads no clock, so the same policy serves real threads and virtual time.

mod eager;
mod lws;
mod prio;
mod queue;
mod ready;

pub use eager::Eager;
pub use lws::Lws;
pub use prio::Prio;
pub use queue::TaskQueue;
pub use ready::ReadyTask;
pub(crate) use ready::Work;

use std::time::Duration;

use crate::error::Error;
use crate::exec::Shared;
use crate::topology::CoreInfo;

/// Who may be woken for a task that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Any worker could pop it.
    Any,
    /// Only this worker will.
    Worker(usize),
}

/// A scheduling policy.
///
/// Every task pushed must come out of a `pop` once; a task that is dropped instead is reported as lost and poisons its
/// outputs. Both methods are called from many threads at once.
///
/// ```
/// use zellige_runtime::{Policy, ReadyTask, Runtime, SchedView, Submit, TaskQueue, Wake, read, update};
///
/// /// Last in, first out, for everybody.
/// struct Stack(std::sync::Mutex<Vec<ReadyTask>>);
///
/// impl Policy for Stack {
///     fn name(&self) -> &str {
///         "stack"
///     }
///     fn push(&self, _view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
///         self.0.lock().unwrap().push(task);
///         Wake::Any
///     }
///     fn pop(&self, _view: &SchedView<'_>, _worker: usize) -> Option<ReadyTask> {
///         self.0.lock().unwrap().pop()
///     }
/// }
///
/// let rt = Runtime::builder().workers(2).policy_with(Stack(Default::default())).build()?;
/// let x = rt.register(1.0f64);
/// rt.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2.0).submit()?;
/// assert_eq!(rt.take(x)?, 2.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub trait Policy: Send + Sync + 'static {
    /// Its name, for traces and messages.
    fn name(&self) -> &str;

    /// A task became ready; `from` is the worker whose task released it, if one did.
    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake;

    /// The next task for `worker`, if there is one.
    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask>;
}

/// What a policy sees of the machine and of the run.
pub struct SchedView<'a> {
    shared: &'a Shared,
}

impl<'a> SchedView<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        SchedView { shared }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// The core that a worker drives.
    pub fn core(&self, worker: usize) -> &'a CoreInfo {
        &self.shared.workers[worker].core
    }

    /// The other workers, nearest first: shared caches before NUMA nodes before the rest.
    pub fn neighbours(&self, worker: usize) -> &'a [usize] {
        &self.shared.workers[worker].neighbours
    }

    /// Tasks submitted and not yet complete; an estimate while others submit.
    pub fn in_flight(&self) -> u64 {
        self.shared.in_flight()
    }

    /// The task's expected time on a worker: the user's own estimate, where there is one.
    pub fn estimate(&self, task: &ReadyTask, _worker: usize) -> Option<Duration> {
        task.info().cost
    }

    /// Bytes of the task's operands that are not in the worker's memory: none, since all data are in host memory.
    pub fn missing_bytes(&self, _task: &ReadyTask, _worker: usize) -> usize {
        0
    }

    /// Time since the runtime started, as its driver measures it.
    pub fn now(&self) -> Duration {
        self.shared.now()
    }
}

/// The policies that a name can ask for.
pub const POLICIES: [(&str, &str); 3] = [
    (
        "lws",
        "locality work stealing: a queue per worker, by priority; idle workers steal from their nearest neighbour (default)",
    ),
    ("prio", "one queue for all workers, highest priority first"),
    ("eager", "one queue for all workers, first come first served"),
];

/// The policy called `name`, for `workers` workers.
pub(crate) fn by_name(name: &str, workers: usize) -> Result<Box<dyn Policy>, Error> {
    match name {
        "lws" => Ok(Box::new(Lws::new(workers))),
        "prio" => Ok(Box::new(Prio::default())),
        "eager" => Ok(Box::new(Eager::default())),
        other => {
            let known: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            Err(Error::Config(format!(
                "there is no scheduling policy {other:?}: take one of {}",
                known.join(", ")
            )))
        }
    }
}
