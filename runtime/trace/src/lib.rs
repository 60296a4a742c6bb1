//! Records of what happened in a run of a task graph, and what is made of them.
//!
//! A [`Trace`] holds the records. The native file has all of them ([`Trace::write_native`],
//! [`Trace::read_native`]); a Chrome or Perfetto trace ([`Trace::write_chrome`]), one for Paje's
//! viewers ([`Trace::write_paje`]) and a page of HTML ([`Trace::write_html`]) show them. A
//! [`Report`] sums it up, with lower [bounds](Bounds) of its makespan.
//!
//! The crate knows no runtime: who records, and how, is left to the callers.

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
    /// Which of the codelet's implementations ran; empty where there is one.
    pub implementation: &'static str,
    /// How many tasks the call ran that ran this one, itself included; 0: it ran alone. The call's
    /// time is shared out evenly: each task has its part, one after the other.
    pub batch: u32,
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
    /// How long the body was expected to take, as a policy that asked when it began was told (ns);
    /// 0: nothing was known.
    pub predicted_ns: u64,
    /// Ready tasks in the policy when the body ended.
    pub ready: u32,
    /// True if it failed.
    pub failed: bool,
}

/// Bytes that moved from one memory node to another, or were converted within one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferEvent {
    /// The memory node they came from, a place in [`Trace::nodes`].
    pub from: u32,
    /// The memory node they went to; the same if they were converted in place.
    pub to: u32,
    /// The number of the handle whose replica they are.
    pub data: u64,
    /// The format that moved, e.g. `f16`; may be empty.
    pub label: &'static str,
    /// How many bytes moved.
    pub bytes: u64,
    /// When they started to move (ns).
    pub start_ns: u64,
    /// When the last one had arrived (ns).
    pub end_ns: u64,
    /// Why they moved.
    pub reason: TransferReason,
    /// True if the format that moved is not the one that the sender held.
    pub converted: bool,
}

/// Why bytes moved, the most urgent reason first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransferReason {
    /// A worker waited for them.
    #[default]
    Fetch,
    /// A task that had its worker, but not its turn, was going to read them.
    TaskPrefetch,
    /// The user asked for them ahead of any task.
    Prefetch,
    /// They were the only copy of what may have to leave a node later, and the link had nothing
    /// else to do.
    Idle,
    /// They were the only copy of what had to leave a node, or a device ended.
    WriteBack,
}

impl TransferReason {
    /// All of them, in order: a reason's place is its number.
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

/// How full a memory node was, recorded as it changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvent {
    /// The memory node.
    pub node: u32,
    /// When (ns).
    pub at_ns: u64,
    /// Bytes in use from then on.
    pub used: u64,
}

/// A replica that had to leave a memory node for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionEvent {
    /// The memory node it left.
    pub node: u32,
    /// The number of its handle.
    pub data: u64,
    /// Bytes that became free.
    pub bytes: u64,
    /// When (ns).
    pub at_ns: u64,
    /// True if it was the only copy and was written back first.
    pub written_back: bool,
}

/// What a worker without a body to run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdleState {
    /// The operating system had parked it.
    #[default]
    Sleeping,
    /// It looked for a task.
    Searching,
    /// It had a task, whose operands were on their way.
    WaitingForData,
}

impl IdleState {
    /// All of them, in order: a state's place is its number.
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
    /// When it began (ns).
    pub start_ns: u64,
    /// When it ended (ns).
    pub end_ns: u64,
    /// What the worker did meanwhile.
    pub state: IdleState,
}

/// What the program does from a moment on: until the next such record, or the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseEvent {
    /// Its name, e.g. `fp32: factorisation`.
    pub name: String,
    /// When it began (ns).
    pub start_ns: u64,
}

/// A worker of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWorker {
    /// Its name, e.g. `worker 0 (cpu 3)`.
    pub name: String,
    /// What kind of device it drives, e.g. `cpu` or `cuda:NVIDIA H200`: workers of one kind are
    /// equally fast.
    pub kind: String,
    /// The memory node it works on, a place in [`Trace::nodes`].
    pub node: u32,
}

/// A memory node of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceNode {
    /// Its name, e.g. `host` or `gpu 0`.
    pub name: String,
    /// Bytes that it holds at most; `None`: as many as there are.
    pub capacity: Option<u64>,
    /// Operands that were there, or on their way, when their task asked for them.
    pub hits: u64,
    /// Operands that were not.
    pub misses: u64,
    /// Transfers to it, ahead of need, of replicas that a task then used there.
    pub prefetch_used: u64,
    /// Transfers to it, ahead of need, of replicas that were overwritten, evicted or left over
    /// before any task used them.
    pub prefetch_unused: u64,
}

/// A time that a performance model knows, for a class of tasks that may never have run on a kind of
/// worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenTime {
    /// The codelet's name.
    pub name: &'static str,
    /// The tasks' label.
    pub label: &'static str,
    /// The kind of worker.
    pub kind: String,
    /// How long one such task takes there (ns).
    pub time_ns: u64,
}

/// What a runtime recorded, or a simulation computed.
///
/// Records may come in any order. Where everything happens in the host's memory, `nodes`,
/// `transfers`, `memory` and `evictions` are empty.
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
    /// The workers; a record names one by its place here.
    pub workers: Vec<TraceWorker>,
    /// The memory nodes; a record names one by its place here.
    pub nodes: Vec<TraceNode>,
    /// The scheduling policy.
    pub policy: String,
    /// The tasks that ran; a runtime's by start time.
    pub tasks: Vec<TaskEvent>,
    /// Dependencies by number, satisfied ones included. A number that is no task's is a group of
    /// concurrent accesses: it takes no time.
    pub edges: Vec<(u64, u64)>,
    /// What workers did between bodies. What lies before the first or after the last body says
    /// nothing about the run.
    pub idle: Vec<IdleEvent>,
    /// What the program did, as it said.
    pub phases: Vec<PhaseEvent>,
    /// What moved between memory nodes.
    pub transfers: Vec<TransferEvent>,
    /// How full the memory nodes were.
    pub memory: Vec<MemoryEvent>,
    /// Replicas that were evicted.
    pub evictions: Vec<EvictionEvent>,
    /// Times of classes on kinds of workers where they need not have run; for bounds.
    pub given: Vec<GivenTime>,
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
