//! Devices with memory of their own, as their workers drive them: streams of operations that end some time later.
//!
//! A worker puts operations at the ends of streams and goes on; it learns later, by a call from another thread, that one has
//! ended. That is how a GPU works, and all that the runtime knows of one: [`Device`].

mod emulated;
mod stream;

pub use emulated::Emulated;
pub(crate) use emulated::EmulatedDevice;
pub(crate) use stream::Streams;

use std::time::Instant;

use crate::memory::{LinkSpec, NodeId};

/// A device has failed, with all that was in its memory; it is not used any more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("device {device} failed: {reason}")]
pub struct DeviceError {
    /// The device's name.
    pub device: String,
    /// What it said.
    pub reason: String,
}

/// One queue of a device. What is in one runs in order; streams run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StreamId {
    /// Bodies of tasks.
    Compute,
    /// Transfers from one node to another, or conversions within one.
    Link(NodeId, NodeId),
}

/// When an operation ran, as its device measured it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

/// What an operation does, and who is told of its end.
pub(crate) struct Op {
    /// What goes over the link; `None` for a body.
    pub(crate) bytes: Option<u64>,
    /// The work itself.
    pub(crate) run: Box<dyn FnOnce() + Send>,
    /// Called once, from any thread, after `run` has ended, or instead of it if the device has failed.
    pub(crate) done: Box<dyn FnOnce(Result<Span, DeviceError>) + Send>,
}

/// A device with memory of its own. What CUDA will implement.
///
/// A failure is sticky: once an operation has failed, it and every later one is answered with an error, and what is in the
/// device's memory is lost.
pub(crate) trait Device: Send + Sync {
    /// How fast the link from one node to another is that this device moves bytes over; `None` if it has to be measured.
    fn link(&self, from: NodeId, to: NodeId) -> Option<LinkSpec>;
    /// Puts an operation at the end of a stream.
    fn enqueue(&self, stream: StreamId, op: Op);
    /// No more operations will come; returns once all that were queued have ended.
    fn close(&self);
}
