//! Devices with memory of their own, as their workers drive them: streams of asynchronous
//! operations.
//!
//! A worker enqueues operations on streams and goes on; a later call from another thread notifies
//! it of the end of each. This is the model of a GPU, and [`Device`] is the runtime's only
//! interface to one.
//!
//! | to add a device | implement |
//! | --- | --- |
//! | describe it | [`DeviceSpec`], for [`RuntimeBuilder::device`](crate::RuntimeBuilder::device) |
//! | run operations in order, and notify of their ends | [`Device`] |
//! | allocate and copy | [`Stream`] |
//! | give memory back | [`DeviceMemory`] |
//! | run a codelet there | a function for its [`Arch`], by [`Codelet::on_devices`](crate::Codelet::on_devices) |
//!
//! A device that works on host memory needs no architecture, memory and streams of its own: it runs
//! CPU functions, as [`Emulated`] does.

mod arch;
mod emulated;
mod host;
mod memory;
mod simulated;
mod spec;
mod stream;
mod threads;

pub use arch::Arch;
pub(crate) use arch::Archs;
pub use emulated::Emulated;
pub(crate) use host::HostDevice;
pub(crate) use memory::DeviceBuffer;
pub use memory::{DeviceMemory, DeviceScratch};
pub(crate) use simulated::{Events, SimulatedDevice};
pub use spec::{DeviceSpec, Opening};
pub use stream::{Mark, Place, Recording, Stream, StreamError};
pub(crate) use threads::Streams;

use std::sync::Arc;
use std::time::Instant;

pub use crate::buffer::{HostAllocator, HostBlock, HostPool, POOLED_FROM};
pub use crate::error::DeviceError;
pub use crate::memory::{HOST, LinkSpec, NodeId};

/// One queue of a device. The operations of one stream run in order; streams run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamId {
    /// Bodies of tasks.
    Compute,
    /// Transfers from one node to another, or conversions within one.
    Link(NodeId, NodeId),
}

/// Time interval of an operation, as measured by its device.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Start of the operation.
    pub start: Instant,
    /// End of the operation.
    pub end: Instant,
}

/// An operation on a device, with the callback for its end.
#[non_exhaustive]
pub struct Op {
    /// Bytes transferred over the link; `None` for a body.
    pub bytes: Option<u64>,
    /// Duration in simulated time (ns).
    pub(crate) takes: Option<u64>,
    /// The work itself: complete when it returns, or enqueued on the given stream. A device without
    /// an architecture passes no stream.
    pub run: Run,
    /// Priority of the body's task; 0 for other operations.
    pub priority: i32,
    /// Operations on the device's other streams that must come before it; empty unless the device
    /// [orders launches](Device::orders_launches).
    pub after: Vec<Arc<dyn Mark>>,
    /// Callback of a device that orders launches, called once the operation is on its stream, and
    /// before `done`.
    pub launched: Option<Launched>,
    /// Callback for the end, called once, from any thread, after the operation has ended, or
    /// instead of it if the device has failed.
    pub done: Done,
}

impl Op {
    /// Creates an operation that depends only on the earlier operations of its stream.
    pub(crate) fn new(bytes: Option<u64>, run: Run, done: Done) -> Self {
        Op { bytes, takes: None, run, priority: 0, after: Vec::new(), launched: None, done }
    }
}

/// Callback type of [`Op::launched`]; its argument marks the end of the operation.
pub type Launched = Box<dyn FnOnce(&Arc<dyn Mark>) + Send>;

/// Type of the work, see [`Op::run`].
pub type Run = Box<dyn FnOnce(Option<&Arc<dyn Stream>>) -> Result<(), DeviceError> + Send>;

/// Callback type of [`Op::done`].
pub type Done = Box<dyn FnOnce(Result<Span, DeviceError>) + Send>;

/// Number of tasks that a device is given ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchDepth {
    /// Maximum number of tasks whose operands are gathered or being gathered at a time.
    pub ahead: usize,
    /// Maximum number of calls of bodies in flight on the device.
    pub launched: usize,
    /// Maximum number of additional bodies that are launched in [stream
    /// order](Device::orders_launches) after others.
    pub ordered: usize,
}

impl Default for LaunchDepth {
    fn default() -> Self {
        LaunchDepth { ahead: 2, launched: 2, ordered: 4 }
    }
}

/// A running device.
///
/// A failure is sticky: once an operation has failed, it and every later one end with an error, and
/// the contents of the device's memory are lost.
pub trait Device: Send + Sync {
    /// Returns the speed of the link between two nodes over which this device moves bytes; `None`
    /// if it has to be measured.
    fn link(&self, from: NodeId, to: NodeId) -> Option<LinkSpec> {
        let _ = (from, to);
        None
    }

    /// Enqueues an operation on a stream, and returns. Operations of one stream run in order;
    /// streams run concurrently.
    fn enqueue(&self, stream: StreamId, op: Op);

    /// Waits until all queued operations and the streams have ended. Returns true if there were
    /// any: their ends may have enqueued work on new streams.
    fn close(&self) -> bool;

    /// Returns its memory, if it has an architecture of its own.
    fn memory(&self) -> Option<Arc<dyn DeviceMemory>> {
        None
    }

    /// Returns true if an operation can depend on operations of other streams ([`Op::after`]), so
    /// that a task can be launched before its predecessors have ended.
    fn orders_launches(&self) -> bool {
        false
    }

    /// Returns the number of tasks that it is given ahead of need; called once.
    fn depth(&self) -> LaunchDepth {
        LaunchDepth::default()
    }
}
