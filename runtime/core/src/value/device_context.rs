//! Context of bodies for devices with an architecture of their own.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{DeviceValue, NewValue, Portable, ValueCell};
use crate::device::{DeviceBuffer, DeviceScratch, Place, Stream, StreamError};
use crate::error::TaskError;

/// Callback at the end of a body's operations, before the end of the task: an error fails the task.
pub(crate) type Completion = Box<dyn FnOnce() -> Result<(), TaskError> + Send>;

/// Callbacks that a body has registered for the end of its operations.
#[derive(Default)]
pub(crate) struct Pending {
    left: Vec<Completion>,
    /// Places of the values whose metadata will be updated then.
    learns: SmallVec<[usize; 2]>,
}

impl Pending {
    /// Runs all callbacks; returns the first error.
    pub(crate) fn finish(self) -> Result<(), TaskError> {
        let mut result = Ok(());
        for at_end in self.left {
            let ended = at_end();
            if result.is_ok() {
                result = ended;
            }
        }
        result
    }

    /// Returns true if there are no callbacks.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns true if the metadata of the value in this place will be updated.
    pub(crate) fn learns_of(&self, cell: &Arc<ValueCell<DeviceValue>>) -> bool {
        self.learns.contains(&(Arc::as_ptr(cell) as usize))
    }
}

/// Owner of the memory of devices, which makes room for bodies.
pub(crate) trait MemorySource {
    /// Requests memory with `ask` for a body on a device's worker; the body waits for it if there
    /// is none.
    fn find_room(
        &self,
        worker: usize,
        ask: &mut dyn FnMut() -> Result<(), StreamError>,
    ) -> Result<(), StreamError>;
}

impl dyn MemorySource + '_ {
    /// Works like [`find_room`](MemorySource::find_room) for any result.
    pub(crate) fn find<T>(
        &self,
        worker: usize,
        mut ask: impl FnMut() -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        let mut found = None;
        self.find_room(worker, &mut || {
            found = Some(ask()?);
            Ok(())
        })?;
        Ok(found.expect("the request that succeeded has left it"))
    }
}

/// The stream on which a body puts its operations, with its context.
pub struct DeviceContext<'a> {
    stream: &'a dyn Stream,
    /// The source of memory and the worker of a body; `None` for a conversion, for which its
    /// transfer waits.
    home: Option<(&'a dyn MemorySource, usize)>,
    pending: RefCell<Pending>,
    /// Values that a conversion has made, until they are handed over.
    made: RefCell<Vec<Option<DeviceValue>>>,
}

impl Drop for DeviceContext<'_> {
    fn drop(&mut self) {
        // Operations in the queue may use values that nobody has taken, and so may the callbacks.
        let made: Vec<DeviceValue> = self.made.take().into_iter().flatten().collect();
        if !made.is_empty() {
            self.stream.keep(Box::new(made));
        }
        let Pending { left, .. } = self.pending.take();
        if !left.is_empty() {
            self.stream.keep(Box::new(left));
        }
    }
}

impl fmt::Debug for DeviceContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceContext({:?})", self.stream.memory())
    }
}

impl<'a> DeviceContext<'a> {
    /// Creates a context for a conversion.
    pub(crate) fn new(stream: &'a dyn Stream) -> Self {
        DeviceContext { stream, home: None, pending: RefCell::default(), made: RefCell::default() }
    }

    /// Creates a context for a body on `worker`.
    pub(crate) fn of_body(stream: &'a dyn Stream, source: &'a dyn MemorySource, worker: usize) -> Self {
        let mut cx = DeviceContext::new(stream);
        cx.home = Some((source, worker));
        cx
    }

    /// Requests memory; a body waits for it if there is none.
    fn find<T>(&self, mut ask: impl FnMut() -> Result<T, StreamError>) -> Result<T, StreamError> {
        match self.home {
            Some((source, worker)) => source.find(worker, ask),
            None => ask(),
        }
    }

    pub(crate) fn into_pending(self) -> Pending {
        self.pending.take()
    }

    /// Returns the stream. Operations that the body puts there run in order; only they may use the
    /// body's operands.
    pub fn stream(&self) -> &'a dyn Stream {
        self.stream
    }

    /// Allocates workspace for the body's operations, with unspecified content; it is freed once
    /// they have ended. If there is no room, the body waits for the ends of other tasks, and until
    /// unused values have been evicted.
    ///
    /// # Errors
    /// An error of the device. If no room can become free, or none has in ten seconds, the error
    /// lists the users of the device's memory.
    pub fn scratch(&self, bytes: u64) -> Result<DeviceScratch, StreamError> {
        self.find(|| self.stream.scratch(bytes))
    }

    /// Registers a callback for the end of the body's operations. An error fails the task. (A
    /// conversion has no such end, and the callback is not called.) A task that depends on this one
    /// may have been launched by then: see [`Codelet::needs_ends`](crate::Codelet::needs_ends).
    pub fn at_end(&self, what: impl FnOnce() -> Result<(), TaskError> + Send + 'static) {
        self.pending.borrow_mut().left.push(Box::new(what));
    }

    /// Copies bytes of the device's memory to the host, after the queued operations; `then` gets
    /// them once the body's operations have ended.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// The bytes belong to an operand, or to workspace of this body.
    pub unsafe fn read_back(
        &self,
        at: impl Into<u64>,
        bytes: usize,
        then: impl FnOnce(&[u8]) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), StreamError> {
        if self.stream.is_recording() {
            // For bodies that ignore the error: the recording is then refused because of this
            // callback.
            self.at_end(|| Ok(()));
            self.refuse_recording("something is read back")?;
        }
        let block = self.stream.host_block(bytes)?;
        let (to, from) = (Place::Host(block.at().as_ptr()), Place::Device(self.stream.memory(), at.into()));
        // SAFETY: the callback keeps the block, and `at` is the caller's promise.
        unsafe { self.stream.copy(to, from, bytes as u64)? };
        self.at_end(move || then(block.first(bytes)));
        Ok(())
    }

    /// Declares that a callback updates the metadata of the value in this place.
    pub(super) fn is_learnt_later(&self, cell: &Arc<ValueCell<DeviceValue>>) {
        self.pending.borrow_mut().learns.push(Arc::as_ptr(cell) as usize);
    }

    /// Returns an error while operations on the stream are recorded.
    ///
    /// # Errors
    /// A failure with `what` in its text.
    pub(super) fn refuse_recording(&self, what: &str) -> Result<(), StreamError> {
        if self.stream.is_recording() {
            return Err(StreamError::Failed(format!("while a replay is recorded {what}").into()));
        }
        Ok(())
    }

    pub(crate) fn keep(&self, parts: SmallVec<[DeviceBuffer; 2]>) {
        self.stream.keep(Box::new(parts));
    }

    /// Creates a value with this header and new parts, which later operations on the stream fill:
    /// the result of a [conversion](Portable::conversions). A value that is not returned is dropped
    /// when the stream's operations have ended.
    ///
    /// # Errors
    /// An error of the device, e.g. [`StreamError::OutOfMemory`].
    pub fn value<D: Portable>(&self, header: D::Header) -> Result<NewValue<D>, StreamError> {
        let value = self.blank::<D>(header.clone())?;
        let mut made = self.made.borrow_mut();
        let view = NewValue::new(header, &value, made.len());
        made.push(Some(value));
        Ok(view)
    }

    /// Removes and returns a value that [`value`](DeviceContext::value) has made.
    pub(crate) fn take<D: Portable>(&self, made: &NewValue<D>) -> Option<DeviceValue> {
        self.made.borrow_mut().get_mut(made.at())?.take()
    }

    /// Creates a value with this header and new parts in the runtime's representation.
    pub(super) fn blank<D: Portable>(&self, header: D::Header) -> Result<DeviceValue, StreamError> {
        let meta = D::header_meta(&header);
        let parts = self.parts(&D::part_sizes(&header))?;
        Ok(DeviceValue::new(Box::new(header), parts, meta))
    }

    /// Allocates memory of these sizes (bytes).
    pub(super) fn parts(&self, sizes: &[usize]) -> Result<SmallVec<[DeviceBuffer; 2]>, StreamError> {
        let mut parts = SmallVec::new();
        for &bytes in sizes {
            match self.find(|| self.stream.buffer(self.stream.memory(), bytes as u64)) {
                Ok(buffer) => parts.push(buffer),
                Err(error) => {
                    self.stream.keep(Box::new(parts));
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }
}
