//! Scheduling policies: which worker runs a ready task, and when.
//!
//! A [`Policy`] is a passive structure: the runtime pushes ready tasks into it and asks it for the next task of a worker. It
//! never blocks, starts no thread and reads no clock, so the same policy serves real threads and virtual time.

mod eager;
mod lws;
mod prio;
mod queue;
mod ready;
mod world;

pub use eager::Eager;
pub use lws::Lws;
pub use prio::Prio;
pub use queue::TaskQueue;
pub use ready::ReadyTask;
pub(crate) use ready::Work;
pub use world::SchedView;
pub(crate) use world::World;

use crate::error::Error;

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

    /// True if [`began`](Policy::began) and [`ended`](Policy::ended) are to be told; asked once.
    fn follows(&self) -> bool {
        false
    }

    /// `worker` begins `task`, which it popped.
    fn began(&self, view: &SchedView<'_>, worker: usize, task: &ReadyTask) {
        let _ = (view, worker, task);
    }

    /// `worker` has ended the task with this number, whatever became of it; a task that found an operand busy is pushed again.
    fn ended(&self, view: &SchedView<'_>, worker: usize, id: u64) {
        let _ = (view, worker, id);
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
