//! Everything that can go wrong, by name.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zellige_trace::BoundsError;

/// Error that a task's body returns when it fails: any error type.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, TaskError, update};
///
/// fn parse(text: &str) -> Result<f64, TaskError> {
///     Ok(text.trim().parse()?)
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(0.0f64);
/// rt.task("parse").operands((update(&x),)).cpu(|(x,)| parse(" 2.5 ").map(|value| *x = value)).submit()?;
/// assert_eq!(rt.take(x)?, 2.5);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub type TaskError = Box<dyn StdError + Send + Sync + 'static>;

/// Reason why a task did not produce its outputs.
///
/// ```
/// use zellige_runtime::{Cause, Error, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1i32);
/// let task = rt.task("factor").operands((update(&x),)).cpu(|_| Err("the pivot is zero")).submit()?;
/// let Err(Error::Failed(failure)) = rt.wait(&task) else { unreachable!() };
/// assert!(matches!(&failure.cause, Cause::Error(error) if error.to_string() == "the pivot is zero"));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The body returned an error.
    Error(Arc<dyn StdError + Send + Sync>),
    /// The body panicked with this message.
    Panic(String),
    /// The task was cancelled before it ran.
    Cancelled,
    /// A scheduling policy dropped the task instead of handing it out.
    Lost,
}

impl Cause {
    /// Builds a cause from a text alone.
    pub(crate) fn words(text: String) -> Self {
        Cause::Error(Arc::from(TaskError::from(text)))
    }

    /// Returns the failure of another task, if the body waited for that task and returned its
    /// error.
    pub(crate) fn passed_on(&self) -> Option<Arc<Failure>> {
        let Cause::Error(error) = self else { return None };
        match error.downcast_ref::<Error>()? {
            Error::Poisoned { failure, .. } | Error::Failed(failure) => Some(Arc::clone(failure)),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Error(e) => write!(f, "{e}"),
            Cause::Panic(message) => write!(f, "panicked: {message}"),
            Cause::Cancelled => f.write_str("cancelled"),
            Cause::Lost => f.write_str("dropped by its scheduling policy"),
        }
    }
}

/// The first failure in the history of a value: the task, its operands, and the cause.
///
/// ```
/// use zellige_runtime::{Error, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1i32).named("x");
/// rt.task("divide").operands((update(&x),)).cpu(|_| Err("by zero")).coords([2, 3]).submit()?;
/// let Err(Error::Failed(failure)) = rt.wait_all() else { unreachable!() };
/// assert_eq!((failure.task.as_str(), &failure.operands[..]), ("divide[2, 3]", &["x".to_string()][..]));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Failure {
    /// Name and coordinates of the task, e.g. `potrf[3, 3]`.
    pub task: String,
    /// Names of the handles it used.
    pub operands: Vec<String>,
    /// Cause of the failure.
    pub cause: Cause,
}

impl Failure {
    /// Returns the body's own error, if it returned one of type `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        match &self.cause {
            Cause::Error(e) => e.downcast_ref::<E>(),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} on ({}): {}", self.task, self.operands.join(", "), self.cause)
    }
}

struct Megabytes(u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / 1e6)
    }
}

/// An error of the runtime.
///
/// ```
/// use zellige_runtime::{Error, Runtime, Submit, read, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1i32);
/// let twice = rt.task("twice").operands((read(&x), update(&x))).cpu(|_| ()).submit();
/// assert!(matches!(twice, Err(Error::Aliased { .. })));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The task that produces the value failed, or a task that it depends on.
    #[error("{handle} has no value: {failure}")]
    Poisoned {
        /// The requested handle.
        handle: String,
        /// The task that failed first.
        failure: Arc<Failure>,
    },
    /// A task that was waited for failed.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// One handle is named twice in a task, at least once for writing.
    #[error(
        "task {task} names {handle} twice, at least once for writing: give the task one operand for it \
         (update covers reading)"
    )]
    Aliased {
        /// The task.
        task: String,
        /// The handle.
        handle: String,
    },
    /// A handle is read that no task has written.
    #[error(
        "task {task} reads {handle}, which holds no value and which no earlier task writes: submit its writer first"
    )]
    Unwritten {
        /// The task.
        task: String,
        /// The handle.
        handle: String,
    },
    /// A handle was taken or released before, or it is a part that has been joined.
    #[error("{handle} was taken, released or joined: {what} came too late")]
    Gone {
        /// The handle.
        handle: String,
        /// The requested operation.
        what: String,
    },
    /// A handle is named while it is split into parts.
    #[error("task {task} names {handle}, which is split: name its parts, or join them first")]
    Split {
        /// The task.
        task: String,
        /// The handle.
        handle: String,
    },
    /// A read-only view is named for writing.
    #[error(
        "task {task} writes {handle}, which is a read-only view: split the handle that it shows, and write a part"
    )]
    ReadOnly {
        /// The task.
        task: String,
        /// The view.
        handle: String,
    },
    /// A handle or task of another runtime was named.
    #[error(
        "{what} belongs to another runtime: the two know nothing of each other's tasks; take the data out of the first"
    )]
    Foreign {
        /// The handle or task.
        what: String,
    },
    /// The value of a slice that was registered in a scope cannot be accessed outside of tasks.
    #[error(
        "{handle} is a slice of the caller's: it comes back when its scope ends, and only tasks reach it before"
    )]
    Borrowed {
        /// The handle.
        handle: String,
    },
    /// A reduction was requested on a handle that was registered without one.
    #[error("task {task} reduces into {handle}, which was registered without `with_reduction`")]
    NoReduction {
        /// The task.
        task: String,
        /// The handle.
        handle: String,
    },
    /// A wait inside a task on an event that requires the end of that same task.
    #[error("{what} would wait for the very task that asks: move it out of the task's body")]
    SelfWait {
        /// The requested operation.
        what: String,
    },
    /// A cycle of waits: the awaited event requires that the waiter goes on. Detection inspects the
    /// cycle itself and uses no timeout.
    #[error("deadlock: {what} would wait for ever: {}", cycle.join("; "))]
    Deadlock {
        /// The task whose body waits, or the thread with its guard.
        what: String,
        /// The steps of the cycle, one sentence each.
        cycle: Vec<String>,
    },
    /// Too many bodies wait at once, each on a thread of its own.
    #[error(
        "{waiting} bodies wait at once, each on a thread of its own: let what they wait for be their predecessors \
         instead (operands, or after)"
    )]
    TooDeep {
        /// Number of waiting bodies.
        waiting: usize,
    },
    /// The runtime was built before this process was forked: its workers run in the parent process.
    #[error(
        "the runtime's workers are in process {started}, and this is process {process}, which was forked from it: \
         build another runtime here"
    )]
    Forked {
        /// The process that made the runtime.
        started: u32,
        /// The current process.
        process: u32,
    },
    /// The operands of a task do not fit together in the memory of any device.
    #[error(
        "task {task} needs {bytes} bytes for its operands ({operands}) at once, and the largest memory where it may run, that of {node}, has {capacity}: take smaller tiles, a larger memory, or a CPU worker"
    )]
    TooLarge {
        /// The task.
        task: String,
        /// Number of operands.
        operands: usize,
        /// Total size of the operands in their requested formats (bytes).
        bytes: u64,
        /// The memory node that comes closest.
        node: String,
        /// Capacity of that node (bytes).
        capacity: u64,
    },
    /// The configuration in the builder is invalid.
    #[error("{0}")]
    Config(String),
    /// Code outside of a task's body panicked: a scheduling policy, or a method of a data type.
    #[error(
        "the runtime is broken, code outside of a body panicked (a scheduling policy's or a data type's): {cause}"
    )]
    Broken {
        /// The panic's message.
        cause: String,
    },
    /// A replay's bindings do not fit the graph.
    #[error("cannot replay: {0}")]
    Binding(String),
    /// Workers and trace records would need more memory than is available.
    #[error(
        "not enough memory: {} needed (workers {} + records of a trace {}), {} available; take fewer workers{}",
        Megabytes(*needed), Megabytes(*workers), Megabytes(*trace), Megabytes(*available),
        if *trace > 0 { ", or no trace" } else { "" }
    )]
    Memory {
        /// Total bytes needed.
        needed: u64,
        /// Bytes for the workers: threads and their tables.
        workers: u64,
        /// Bytes for the trace records.
        trace: u64,
        /// Bytes that this process can still use.
        available: u64,
    },
    /// Several processes that run one program could not continue together; see the crate
    /// `zellige-mpi`.
    #[error("{0}")]
    Cluster(Arc<dyn StdError + Send + Sync>),
    /// The operating system refused an operation.
    #[error("{what}: {cause}")]
    Os {
        /// The attempted operation.
        what: String,
        /// Error message of the operating system.
        cause: String,
    },
}

impl Error {
    /// Returns the failure behind this error, if a task failed.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Error::Poisoned { failure, .. } | Error::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

impl From<BoundsError> for Error {
    fn from(error: BoundsError) -> Error {
        Error::Config(error.to_string())
    }
}

/// Failure of a device: the contents of its memory are lost, and it is not used any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("device {device} failed: {reason}")]
pub struct DeviceError {
    /// The device's name.
    pub device: String,
    /// Error message of the device.
    pub reason: String,
}

/// Runs code that may panic, and returns its result.
///
/// # Errors
/// The message of the panic. The payload is dropped here, so that a destructor that panics has no
/// further effect.
#[inline]
pub fn caught<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(message_of)
}

#[cold]
fn message_of(payload: Box<dyn Any + Send>) -> String {
    let message = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into());
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Its destructor may panic again, and so on.
        std::mem::forget(second);
    }
    message
}

/// Formats the used coordinates (unused ones are `u32::MAX`).
pub(crate) fn format_coords(coords: [u32; 3]) -> String {
    let used: Vec<String> = coords.iter().filter(|&&c| c != u32::MAX).map(u32::to_string).collect();
    used.join(", ")
}
