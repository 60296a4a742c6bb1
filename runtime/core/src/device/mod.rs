//! Devices with memory of their own, as their workers drive them: streams of operations that end
//! some time later.
//!
//! A worker puts operations at the ends of streams and goes on; it learns later, by a call from
//! another thread, that one has ended. That is how a GPU works, and all that the runtime knows of
//! one: [`Device`].
//!
//! | to add a device | implement |
//! | --- | --- |
//! | describe it | [`DeviceSpec`], for [`RuntimeBuilder::device`](crate::RuntimeBuilder::device) |
//! | run operations in order, and tell of their ends | [`Device`] |
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

/// One queue of a device. What is in one runs in order; streams run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamId {
    /// Bodies of tasks.
    Compute,
    /// Transfers from one node to another, or conversions within one.
    Link(NodeId, NodeId),
}

/// When an operation ran, as its device measured it.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

/// What an operation does, and who is told of its end.
#[non_exhaustive]
pub struct Op {
    /// What goes over the link; `None` for a body.
    pub bytes: Option<u64>,
    /// How long it takes in simulated time (ns).
    pub(crate) takes: Option<u64>,
    /// The work itself: done when it returns, or put on the stream that it is given. A device
    /// without an architecture gives none.
    pub run: Run,
    /// Of the body's task; 0 for what is no body.
    pub priority: i32,
    /// What comes before it on the device's other streams; empty unless the device [orders
    /// launches](Device::orders_launches).
    pub after: Vec<Arc<dyn Mark>>,
    /// Called by a device that orders launches once the operation is on its stream, and before
    /// `done`.
    pub launched: Option<Launched>,
    /// Called once, from any thread, after the operation has ended, or instead of it if the device
    /// has failed.
    pub done: Done,
}

impl Op {
    /// One that comes after nothing but what is on its stream.
    pub(crate) fn new(bytes: Option<u64>, run: Run, done: Done) -> Self {
        Op { bytes, takes: None, run, priority: 0, after: Vec::new(), launched: None, done }
    }
}

/// See [`Op::launched`]: it is told where the operation ends.
pub type Launched = Box<dyn FnOnce(&Arc<dyn Mark>) + Send>;

/// See [`Op::run`].
pub type Run = Box<dyn FnOnce(Option<&Arc<dyn Stream>>) -> Result<(), DeviceError> + Send>;

/// See [`Op::done`].
pub type Done = Box<dyn FnOnce(Result<Span, DeviceError>) + Send>;

/// How many tasks a device is given before it needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchDepth {
    /// Tasks whose operands are gathered at a time, those included that are gathered.
    pub ahead: usize,
    /// Calls of bodies that the device is given before the first of them has ended.
    pub launched: usize,
    /// Bodies that it is given behind others in [stream order](Device::orders_launches), on top of
    /// those.
    pub ordered: usize,
}

impl Default for LaunchDepth {
    fn default() -> Self {
        LaunchDepth { ahead: 2, launched: 2, ordered: 4 }
    }
}

/// A device at work.
///
/// A failure is sticky: once an operation has failed, it and every later one is answered with an
/// error, and what is in the device's memory is lost.
pub trait Device: Send + Sync {
    /// How fast the link from one node to another is that this device moves bytes over; `None` if
    /// it has to be measured.
    fn link(&self, from: NodeId, to: NodeId) -> Option<LinkSpec> {
        let _ = (from, to);
        None
    }

    /// Puts an operation at the end of a stream, and returns. Operations of one stream run in
    /// order, streams side by side.
    fn enqueue(&self, stream: StreamId, op: Op);

    /// Returns once all operations that were queued have ended, and the streams with them. True if
    /// there were any: what their ends have asked for may be on new ones.
    fn close(&self) -> bool;

    /// Its memory, if it has an architecture of its own.
    fn memory(&self) -> Option<Arc<dyn DeviceMemory>> {
        None
    }

    /// True if an operation can come after others on other streams ([`Op::after`]), so that a task
    /// can be launched before those that it depends on have ended.
    fn orders_launches(&self) -> bool {
        false
    }

    /// How far ahead of its needs it is given tasks; asked once.
    fn depth(&self) -> LaunchDepth {
        LaunchDepth::default()
    }
}
