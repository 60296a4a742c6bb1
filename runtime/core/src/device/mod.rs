//! Devices with memory of their own, as their workers drive them: streams of operations that end some time later.
//!
//! A worker puts operations at the ends of streams and goes on; it learns later, by a call from another thread, that one has
//! ended. That is how a GPU works, and all that the runtime knows of one: [`Device`].

mod emulated;
mod host;
mod simulated;
mod stream;

pub use emulated::Emulated;
pub(crate) use emulated::EmulatedDevice;
pub(crate) use host::HostDevice;
pub(crate) use simulated::{Events, SimulatedDevice};
pub(crate) use stream::Streams;

use std::sync::Arc;
use std::time::Instant;

use crate::error::DeviceError;
use crate::gpu::{Gpu, GpuStream, Mark};
use crate::memory::{LinkSpec, NodeId};

/// A device with memory of its own, to be driven by a worker: an [`Emulated`] one or a [`Gpu`].
#[derive(Clone, Debug)]
pub enum DeviceSpec {
    /// Made of host threads.
    Emulated(Emulated),
    /// A GPU of some driver.
    Gpu(Gpu),
}

impl From<Emulated> for DeviceSpec {
    fn from(emulated: Emulated) -> Self {
        DeviceSpec::Emulated(emulated)
    }
}

impl From<Gpu> for DeviceSpec {
    fn from(gpu: Gpu) -> Self {
        DeviceSpec::Gpu(gpu)
    }
}

impl DeviceSpec {
    /// What kind of device it is.
    pub(crate) fn kind(&self) -> &str {
        match self {
            DeviceSpec::Emulated(emulated) => &emulated.kind,
            DeviceSpec::Gpu(_) => "cuda",
        }
    }

    /// (major, minor) of what it can do, if it is a GPU.
    pub(crate) fn capability(&self) -> Option<(u32, u32)> {
        let gpu = self.as_gpu()?;
        Some(gpu.driver.gpus().get(gpu.number as usize)?.compute_capability)
    }

    /// The name of its kind in performance models, whose times those of one kind share.
    pub(crate) fn model_kind(&self) -> String {
        match self {
            DeviceSpec::Emulated(emulated) => emulated.kind.clone(),
            DeviceSpec::Gpu(gpu) => gpu.model_kind(),
        }
    }

    /// The name under which performance models know its links, where it is device `number` of a runtime.
    pub(crate) fn link_end(&self, number: usize) -> String {
        match self {
            DeviceSpec::Emulated(emulated) => format!("{} {number}", emulated.kind),
            DeviceSpec::Gpu(gpu) => gpu.link_end(),
        }
    }

    /// How fast it says that its link to the host is; `None` if it has to be measured.
    pub(crate) fn declared(&self) -> Option<LinkSpec> {
        match self {
            DeviceSpec::Emulated(emulated) => emulated.declared(),
            DeviceSpec::Gpu(_) => None,
        }
    }

    /// The GPU that it describes, if it is one.
    pub(crate) fn as_gpu(&self) -> Option<&Gpu> {
        match self {
            DeviceSpec::Emulated(_) => None,
            DeviceSpec::Gpu(gpu) => Some(gpu),
        }
    }

    /// What it is, for people.
    pub(crate) fn title(&self) -> String {
        match self {
            DeviceSpec::Emulated(_) => "made of host threads".into(),
            DeviceSpec::Gpu(gpu) => gpu.title(),
        }
    }

    /// Bytes for the values of handles.
    pub(crate) fn capacity(&self) -> u64 {
        match self {
            DeviceSpec::Emulated(emulated) => emulated.capacity,
            DeviceSpec::Gpu(gpu) => gpu.bytes(),
        }
    }

    /// Conversions that can be under way beside them.
    pub(crate) fn staging(&self) -> u32 {
        match self {
            DeviceSpec::Emulated(emulated) => emulated.staging,
            DeviceSpec::Gpu(_) => 2,
        }
    }
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
    /// How long it takes in simulated time (ns).
    pub(crate) takes: Option<u64>,
    /// The work itself: done when it returns, or, on a GPU, put on the stream that it is given.
    pub(crate) run: Run,
    /// What comes before it on the device's other streams. Only for GPUs.
    pub(crate) after: Vec<Arc<Mark>>,
    /// Called by a GPU once the operation is on its stream, and before `done`; nothing else waits for it.
    pub(crate) launched: Option<Launched>,
    /// Called once, from any thread, after `run` has ended, or instead of it if the device has failed.
    pub(crate) done: Box<dyn FnOnce(Result<Span, DeviceError>) + Send>,
}

impl Op {
    /// One that comes after nothing but what is on its stream.
    pub(crate) fn new(
        bytes: Option<u64>,
        run: Run,
        done: Box<dyn FnOnce(Result<Span, DeviceError>) + Send>,
    ) -> Self {
        Op { bytes, takes: None, run, after: Vec::new(), launched: None, done }
    }
}

/// See [`Op::launched`]: it is told where the operation ends.
pub(crate) type Launched = Box<dyn FnOnce(&Arc<Mark>) + Send>;

/// See [`Op::run`].
pub(crate) type Run = Box<dyn FnOnce(Option<&Arc<GpuStream>>) -> Result<(), DeviceError> + Send>;

/// A device: an emulated one, a GPU ([`GpuDevice`](crate::gpu::GpuDevice)), the host's own streams, or a simulated one.
///
/// A failure is sticky: once an operation has failed, it and every later one is answered with an error, and what is in the
/// device's memory is lost.
pub(crate) trait Device: Send + Sync {
    /// How fast the link from one node to another is that this device moves bytes over; `None` if it has to be measured.
    fn link(&self, from: NodeId, to: NodeId) -> Option<LinkSpec>;
    /// Puts an operation at the end of a stream.
    fn enqueue(&self, stream: StreamId, op: Op);
    /// Returns once all operations that were queued have ended, and the streams with them. True if there were any: what their ends have asked
    /// for may be on new ones.
    fn close(&self) -> bool;
}
