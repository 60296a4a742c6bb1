//! Records of a run of a task graph, and their evaluation.
//!
//! A [`Trace`] holds the records. The native file has all of them ([`Trace::write_native`],
//! [`Trace::read_native`]). A Chrome or Perfetto trace ([`Trace::write_chrome`]), a Paje trace
//! ([`Trace::write_paje`]) and a page of HTML ([`Trace::write_html`]) show them. A [`Report`]
//! summarises them, with lower [bounds](Bounds) of the makespan.
//!
//! The crate does not depend on a runtime: recording is up to the callers.

#![forbid(unsafe_code)]

mod bounds;
mod chrome;
mod classes;
mod html;
mod links;
pub mod native;
mod nodes;
mod paje;
mod path;
mod phases;
mod ranks;
mod report;
#[cfg(test)]
mod samples;
mod simplex;
mod summary;
mod tracks;

pub use bounds::{Bounds, BoundsError};
pub use nodes::{LinkReport, NodeReport};
pub use report::{CodeletReport, KindReport, Report};

use std::time::Duration;

/// One task that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskEvent {
    /// The worker that ran it.
    pub worker: u32,
    /// The task's number.
    pub id: u64,
    /// The codelet's name.
    pub name: &'static str,
    /// A short word, e.g. the precision; may be empty.
    pub label: &'static str,
    /// Name of the codelet's implementation that ran; empty if there is only one.
    pub implementation: &'static str,
    /// Number of tasks of the call that ran this one, itself included; 0: it ran alone. The call's
    /// time is divided evenly: each task has its part, one after the other.
    pub batch: u32,
    /// Position in the algorithm, e.g. tile (i, j, k); unused coordinates are `u32::MAX`.
    pub coords: Option<[u32; 3]>,
    /// Its priority.
    pub priority: i32,
    /// Floating-point operations, as declared by its codelet.
    pub flops: f64,
    /// Bytes of its operands.
    pub bytes: u64,
    /// Start of the body, since the runtime's start (ns).
    pub start_ns: u64,
    /// End of the body (ns).
    pub end_ns: u64,
    /// Predicted duration of the body, as requested by a policy when it began (ns); 0: unknown.
    pub predicted_ns: u64,
    /// Ready tasks in the policy when the body ended.
    pub ready: u32,
    /// True if it failed.
    pub failed: bool,
}

/// A transfer of bytes from one memory node to another, or a conversion within one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferEvent {
    /// The source memory node, a position in [`Trace::nodes`].
    pub from: u32,
    /// The destination memory node; equal to the source for a conversion in place.
    pub to: u32,
    /// Number of the handle of the replica.
    pub data: u64,
    /// The format that moved, e.g. `f16`; may be empty.
    pub label: &'static str,
    /// Number of bytes moved.
    pub bytes: u64,
    /// Start of the transfer (ns).
    pub start_ns: u64,
    /// End of the transfer (ns).
    pub end_ns: u64,
    /// Reason of the transfer.
    pub reason: TransferReason,
    /// True if the format that moved differs from the one that the sender held.
    pub converted: bool,
}

/// Reason of a transfer, the most urgent one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferReason {
    /// A worker waited for the bytes.
    #[default]
    Fetch,
    /// A task that had its worker, but not its turn, was going to read the bytes.
    TaskPrefetch,
    /// The user requested the bytes ahead of any task.
    Prefetch,
    /// The bytes were the only copy of a replica that may be evicted later, and the link was idle.
    Idle,
    /// The bytes were the only copy of an evicted replica, or a device ended.
    WriteBack,
}

impl TransferReason {
    /// All reasons, in order: the position of a reason is its number.
    pub const ALL: [TransferReason; 5] = [
        TransferReason::Fetch,
        TransferReason::TaskPrefetch,
        TransferReason::Prefetch,
        TransferReason::Idle,
        TransferReason::WriteBack,
    ];

    /// Its name in traces and summaries.
    pub fn name(self) -> &'static str {
        match self {
            TransferReason::Fetch => "fetch",
            TransferReason::TaskPrefetch => "task prefetch",
            TransferReason::Prefetch => "prefetch",
            TransferReason::Idle => "write-back ahead",
            TransferReason::WriteBack => "write-back",
        }
    }
}

/// The used bytes of a memory node, recorded at each change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvent {
    /// The memory node.
    pub node: u32,
    /// Time of the change (ns).
    pub at_ns: u64,
    /// Bytes in use from then on.
    pub used: u64,
}

/// An eviction of a replica from a memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionEvent {
    /// The memory node it left.
    pub node: u32,
    /// The number of its handle.
    pub data: u64,
    /// Bytes that became free.
    pub bytes: u64,
    /// Time of the eviction (ns).
    pub at_ns: u64,
    /// True if it was the only copy and was written back first.
    pub written_back: bool,
}

/// State of a worker without a body to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdleState {
    /// The operating system had parked it.
    #[default]
    Sleeping,
    /// It looked for a task.
    Searching,
    /// It had a task whose operands were in transfer.
    WaitingForData,
}

impl IdleState {
    /// All states, in order: the position of a state is its number.
    pub const ALL: [IdleState; 3] = [IdleState::Sleeping, IdleState::Searching, IdleState::WaitingForData];

    /// Its name in traces and summaries.
    pub fn name(self) -> &'static str {
        match self {
            IdleState::Sleeping => "sleeping",
            IdleState::Searching => "searching",
            IdleState::WaitingForData => "waiting for data",
        }
    }
}

/// A period in which a worker ran no body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleEvent {
    /// The worker.
    pub worker: u32,
    /// Start of the period (ns).
    pub start_ns: u64,
    /// End of the period (ns).
    pub end_ns: u64,
    /// State of the worker in that period.
    pub state: IdleState,
}

/// A phase of the program: it lasts until the next such record, or the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseEvent {
    /// Its name, e.g. `fp32: factorisation`.
    pub name: String,
    /// Start of the phase (ns).
    pub start_ns: u64,
}

/// A worker of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWorker {
    /// Its name, e.g. `worker 0 (cpu 3)`.
    pub name: String,
    /// Kind of its device, e.g. `cpu` or `cuda:NVIDIA H200`: workers of one kind are equally fast.
    pub kind: String,
    /// Its memory node, a position in [`Trace::nodes`].
    pub node: u32,
}

/// A memory node of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceNode {
    /// Its name, e.g. `host` or `gpu 0`.
    pub name: String,
    /// Capacity in bytes; `None`: unlimited.
    pub capacity: Option<u64>,
    /// Operands that were present, or in transfer, when their task requested them.
    pub hits: u64,
    /// Operands that were neither present nor in transfer.
    pub misses: u64,
    /// Prefetches to it of replicas that a task then used there.
    pub prefetch_used: u64,
    /// Prefetches to it of replicas that were overwritten, evicted or left over before any task
    /// used them.
    pub prefetch_unused: u64,
}

/// A time from a performance model, for a class of tasks that may never have run on a kind of
/// worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenTime {
    /// The codelet's name.
    pub name: &'static str,
    /// The tasks' label.
    pub label: &'static str,
    /// The kind of worker.
    pub kind: String,
    /// Time of one such task there (ns).
    pub time_ns: u64,
}

/// The records of a run, or of a simulation.
///
/// Records may come in any order. If the run uses only the host's memory, `nodes`, `transfers`,
/// `memory` and `evictions` are empty.
///
/// ```
/// use zellige_trace::{Trace, TraceWorker};
///
/// let worker = TraceWorker { name: "cpu 0".into(), kind: "cpu".into(), node: 0 };
/// let trace = Trace { workers: vec![worker], ..Trace::default() };
/// assert!(trace.tasks.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The workers; a record names one by its position here.
    pub workers: Vec<TraceWorker>,
    /// The memory nodes; a record names one by its position here.
    pub nodes: Vec<TraceNode>,
    /// The scheduling policy.
    pub policy: String,
    /// The tasks that ran; those of a runtime are sorted by start time.
    pub tasks: Vec<TaskEvent>,
    /// Dependencies by number, satisfied ones included. A number that no task has is a group of
    /// concurrent accesses: it takes no time.
    pub edges: Vec<(u64, u64)>,
    /// Idle periods of workers between bodies. Those before the first or after the last body give
    /// no information about the run.
    pub idle: Vec<IdleEvent>,
    /// Phases announced by the program.
    pub phases: Vec<PhaseEvent>,
    /// Transfers between memory nodes.
    pub transfers: Vec<TransferEvent>,
    /// Memory use of the nodes over time.
    pub memory: Vec<MemoryEvent>,
    /// Replicas that were evicted.
    pub evictions: Vec<EvictionEvent>,
    /// Times of classes on kinds of workers, also on those where they never ran; for bounds.
    pub given: Vec<GivenTime>,
    /// Number of records that did not fit.
    pub lost: u64,
}

impl Trace {
    /// Returns the time from the first body's start to the last body's end.
    pub fn makespan(&self) -> Duration {
        let start = self.tasks.iter().map(|task| task.start_ns).min().unwrap_or(0);
        let end = self.tasks.iter().map(|task| task.end_ns).max().unwrap_or(0);
        Duration::from_nanos(end.saturating_sub(start))
    }
}
