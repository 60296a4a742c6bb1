//! Streams of devices with an architecture of their own, as seen by the code that runs on them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{DeviceBuffer, DeviceMemory, DeviceScratch};
use crate::buffer::HostBlock;
use crate::error::{DeviceError, TaskError};

/// Reason why an operation on a stream failed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The device's memory has no room for the requested bytes. A later request may succeed.
    #[error("there is no room for {bytes} bytes of device memory")]
    OutOfMemory {
        /// The requested bytes.
        bytes: u64,
    },
    /// Any other error.
    #[error(transparent)]
    Failed(TaskError),
}

impl From<TaskError> for StreamError {
    fn from(error: TaskError) -> Self {
        error.downcast().map_or_else(StreamError::Failed, |error| *error)
    }
}

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// An address on the host.
    Host(*mut u8),
    /// An address in the memory of a device.
    Device(&'a Arc<dyn DeviceMemory>, u64),
}

/// One stream of a device: operations enqueued on it run in order, asynchronously or before the
/// call returns.
///
/// A [`Device`](super::Device) makes streams and passes them to the operations that it runs
/// ([`Op::run`](super::Op::run)).
pub trait Stream: Any + Send + Sync {
    /// Returns the memory of the stream's device.
    fn memory(&self) -> &Arc<dyn DeviceMemory>;

    /// Allocates `bytes` bytes, at least one, in the memory of this device or of one that it
    /// [reaches](DeviceMemory::reaches), for operations that are enqueued on this stream from now
    /// on. [`DeviceMemory::free`] frees them.
    ///
    /// # Errors
    /// [`StreamError::OutOfMemory`], or an error of the device.
    fn allocate(&self, memory: &Arc<dyn DeviceMemory>, bytes: u64) -> Result<u64, StreamError>;

    /// Copies bytes, after the operations that are already on the stream.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// Until the operation that is being launched has ended, both ends stay valid for `bytes`
    /// bytes, nobody writes `from`, and nobody else uses `to`.
    unsafe fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: u64) -> Result<(), StreamError>;

    /// Copies device memory to the host like [`copy`](Stream::copy); the bytes must be there when
    /// the operation that is being launched has ended.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// The requirements of [`copy`](Stream::copy).
    unsafe fn fetch(&self, to: &mut [u8], from: Place<'_>) -> Result<(), StreamError> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(Place::Host(to.as_mut_ptr()), from, to.len() as u64) }
    }

    /// Returns host memory that the device's copies access efficiently.
    ///
    /// # Errors
    /// An error of the device.
    fn host_block(&self, bytes: usize) -> Result<HostBlock, StreamError> {
        Ok(HostBlock::zeroed(bytes)?)
    }

    /// Waits until all operations on the stream have ended.
    ///
    /// # Errors
    /// An error of the device.
    fn synchronize(&self) -> Result<(), StreamError>;

    /// Keeps an object alive until the operations on the stream so far have ended, and at least
    /// until the operation that is being launched has.
    fn keep(&self, what: Box<dyn Any + Send>);

    /// Returns true if the device is lost: then the device has failed, and not the task whose body
    /// received `error`.
    fn is_loss(&self, error: &dyn fmt::Display) -> bool {
        let _ = error;
        false
    }

    /// Checks the device; called after a body has run.
    ///
    /// # Errors
    /// If the device reported to the body that it is lost.
    fn check(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Begins a range with this name in the timeline of a profiler. Returns false, without making
    /// the name, if there is no profiler.
    fn begin_range(&self, name: &dyn Fn() -> String) -> bool {
        let _ = name;
        false
    }

    /// Ends the range that was begun last.
    fn end_range(&self) {}

    /// Records the operations that `body` enqueues, without running them. Devices that cannot
    /// record keep the default.
    ///
    /// # Errors
    /// If an operation cannot be recorded.
    fn record(&self, body: &mut dyn FnMut()) -> Result<Arc<dyn Recording>, StreamError> {
        let _ = body;
        Err(StreamError::Failed(format!("{:?} records nothing", self.memory()).into()))
    }

    /// Returns true while operations on the stream are recorded.
    fn is_recording(&self) -> bool {
        false
    }

    /// Enqueues the recorded operations on the stream.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// The operands of the recorded operations have not moved, and the caller may use them until
    /// the enqueued operations have ended.
    unsafe fn play(&self, recording: &Arc<dyn Recording>) -> Result<(), StreamError> {
        Err(StreamError::Failed(format!("{recording:?} is not of {:?}", self.memory()).into()))
    }
}

impl dyn Stream {
    /// Returns the stream as the concrete type of its device.
    pub fn downcast<S: Stream>(&self) -> Option<&S> {
        (self as &dyn Any).downcast_ref()
    }

    /// Allocates device memory for later operations on this stream; it is freed when dropped.
    pub(crate) fn buffer(
        &self,
        memory: &Arc<dyn DeviceMemory>,
        bytes: u64,
    ) -> Result<DeviceBuffer, StreamError> {
        let at = if bytes == 0 { 0 } else { self.allocate(memory, bytes)? };
        Ok(DeviceBuffer::new(Arc::clone(memory), at, bytes))
    }

    /// Allocates workspace for later operations on this stream, until the operation that is being
    /// launched has ended.
    pub(crate) fn scratch(&self, bytes: u64) -> Result<DeviceScratch, StreamError> {
        let buffer = self.buffer(self.memory(), bytes)?;
        let scratch = DeviceScratch { at: buffer.at(), bytes };
        self.keep(Box::new(buffer));
        Ok(scratch)
    }

    /// Converts an error by which the device has failed into the runtime's error type.
    pub(crate) fn failure(&self, error: &StreamError) -> DeviceError {
        DeviceError { device: self.memory().name().into(), reason: error.to_string() }
    }
}

/// Recorded operations of a stream.
pub trait Recording: Any + fmt::Debug + Send + Sync {
    /// Returns true if it was recorded for the device of the stream.
    fn is_for(&self, stream: &dyn Stream) -> bool;
}

/// Marks the end of an operation on a stream, on which operations of other streams can depend
/// ([`Op::after`](super::Op::after)).
pub trait Mark: Any + fmt::Debug + Send + Sync {
    /// Returns the end time of the operation, once the host knows it.
    fn ended(&self) -> Option<Instant>;
}

impl dyn Recording {
    /// Returns the recording as the concrete type of its device.
    pub fn downcast<R: Recording>(&self) -> Option<&R> {
        (self as &dyn Any).downcast_ref()
    }
}

impl dyn Mark {
    /// Returns the mark as the concrete type of its device.
    pub fn downcast<M: Mark>(&self) -> Option<&M> {
        (self as &dyn Any).downcast_ref()
    }
}
