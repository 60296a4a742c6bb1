//! Streams of devices with an architecture of their own, as what runs on them sees them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{DeviceBuffer, DeviceMemory, DeviceScratch};
use crate::buffer::HostBlock;
use crate::error::{DeviceError, TaskError};

/// Why a stream could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The device's memory has no room for so many bytes. Asked again later it may have.
    #[error("there is no room for {bytes} bytes of device memory")]
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: u64,
    },
    /// Anything else.
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

/// One stream of a device: operations that are put on it run in order, after the call has returned
/// or before.
///
/// A [`Device`](super::Device) makes streams and hands them to the operations that it runs
/// ([`Op::run`](super::Op::run)).
pub trait Stream: Any + Send + Sync {
    /// The memory of the device whose stream it is.
    fn memory(&self) -> &Arc<dyn DeviceMemory>;

    /// Allocates so many bytes, more than none, in a device's memory, this one's or one that it
    /// [reaches](DeviceMemory::reaches), for what is put on this stream from now on. They are given
    /// back by [`DeviceMemory::free`].
    ///
    /// # Errors
    /// [`StreamError::OutOfMemory`], or what the device says.
    fn allocate(&self, memory: &Arc<dyn DeviceMemory>, bytes: u64) -> Result<u64, StreamError>;

    /// Copies bytes, behind what has been put on the stream.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Safety
    /// Until the operation that is being launched has ended, both ends are there with so many
    /// bytes, nobody writes `from`, and nobody else uses `to`.
    unsafe fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: u64) -> Result<(), StreamError>;

    /// As [`copy`](Stream::copy) from device memory to the host; the bytes have to be there when
    /// the operation that is being launched has ended.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Safety
    /// As of [`copy`](Stream::copy).
    unsafe fn fetch(&self, to: &mut [u8], from: Place<'_>) -> Result<(), StreamError> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(Place::Host(to.as_mut_ptr()), from, to.len() as u64) }
    }

    /// Host memory that the device's copies reach well.
    ///
    /// # Errors
    /// What the device says.
    fn host_block(&self, bytes: usize) -> Result<HostBlock, StreamError> {
        Ok(HostBlock::zeroed(bytes)?)
    }

    /// Returns once all that has been put on the stream has ended.
    ///
    /// # Errors
    /// What the device says.
    fn synchronize(&self) -> Result<(), StreamError>;

    /// Keeps something until what has been put on the stream so far has ended, and at least until
    /// the operation that is being launched has.
    fn keep(&self, what: Box<dyn Any + Send>);

    /// True if the device is lost: then it is the device that has failed, and not the task whose
    /// body was told of `error`.
    fn is_loss(&self, error: &dyn fmt::Display) -> bool {
        let _ = error;
        false
    }

    /// Called after a body has run.
    ///
    /// # Errors
    /// If the body was told that the device is lost.
    fn check(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Begins a range with this name in the timeline of a profiler; false, and the name is not
    /// made, where there is none.
    fn begin_range(&self, name: &dyn Fn() -> String) -> bool {
        let _ = name;
        false
    }

    /// Ends the range that was begun last.
    fn end_range(&self) {}

    /// Records what `body` puts on the stream; nothing of it runs. Devices that cannot record leave
    /// the default.
    ///
    /// # Errors
    /// What cannot be recorded.
    fn record(&self, body: &mut dyn FnMut()) -> Result<Arc<dyn Recording>, StreamError> {
        let _ = body;
        Err(StreamError::Failed(format!("{:?} records nothing", self.memory()).into()))
    }

    /// True while what is put on the stream is recorded.
    fn is_recording(&self) -> bool {
        false
    }

    /// Puts what was recorded on the stream.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Safety
    /// The operands of what was recorded are where they were, and the caller may use them until
    /// what is queued now has ended.
    unsafe fn play(&self, recording: &Arc<dyn Recording>) -> Result<(), StreamError> {
        Err(StreamError::Failed(format!("{recording:?} is not of {:?}", self.memory()).into()))
    }
}

impl dyn Stream {
    /// The stream as its device knows it.
    pub fn downcast<S: Stream>(&self) -> Option<&S> {
        (self as &dyn Any).downcast_ref()
    }

    /// New memory of a device for what follows on this stream, given back when it is dropped.
    pub(crate) fn buffer(
        &self,
        memory: &Arc<dyn DeviceMemory>,
        bytes: u64,
    ) -> Result<DeviceBuffer, StreamError> {
        let at = if bytes == 0 { 0 } else { self.allocate(memory, bytes)? };
        Ok(DeviceBuffer::new(Arc::clone(memory), at, bytes))
    }

    /// Working space for what follows on this stream until the operation that is being launched has
    /// ended.
    pub(crate) fn scratch(&self, bytes: u64) -> Result<DeviceScratch, StreamError> {
        let buffer = self.buffer(self.memory(), bytes)?;
        let scratch = DeviceScratch { at: buffer.at(), bytes };
        self.keep(Box::new(buffer));
        Ok(scratch)
    }

    /// What the rest of the runtime is told of an error by which the device has failed.
    pub(crate) fn failure(&self, error: &StreamError) -> DeviceError {
        DeviceError { device: self.memory().name().into(), reason: error.to_string() }
    }
}

/// What was put on a stream while that was recorded.
pub trait Recording: Any + fmt::Debug + Send + Sync {
    /// True if it was recorded for the device of the stream.
    fn is_for(&self, stream: &dyn Stream) -> bool;
}

/// The end of an operation on a stream, which operations on other streams can come after
/// ([`Op::after`](super::Op::after)).
pub trait Mark: Any + fmt::Debug + Send + Sync {
    /// When the operation ended, once the host knows.
    fn ended(&self) -> Option<Instant>;
}

impl dyn Recording {
    /// The recording as its device knows it.
    pub fn downcast<R: Recording>(&self) -> Option<&R> {
        (self as &dyn Any).downcast_ref()
    }
}

impl dyn Mark {
    /// The mark as its device knows it.
    pub fn downcast<M: Mark>(&self) -> Option<&M> {
        (self as &dyn Any).downcast_ref()
    }
}
