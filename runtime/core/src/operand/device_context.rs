//! What a body for a device with an architecture of its own may ask of it.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::NewValue;
use crate::data::{DeviceValue, Portable, ValueCell};
use crate::device::{DeviceBuffer, DeviceScratch, Place, Stream, StreamError};
use crate::engine::Shared;
use crate::error::TaskError;

/// What is done once a body's operations have ended, before the task has: an error fails the task.
pub(crate) type AtEnd = Box<dyn FnOnce() -> Result<(), TaskError> + Send>;

/// What a body has left for the end of its operations.
#[derive(Default)]
pub(crate) struct Pending {
    left: Vec<AtEnd>,
    /// The places of the values of which something will be learnt then.
    learns: SmallVec<[usize; 2]>,
}

impl Pending {
    /// Does all of it; the first error counts.
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

    /// True if there is nothing to be done at the end.
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// True if something will be learnt of the value in this place.
    pub(crate) fn learns_of(&self, cell: &Arc<ValueCell<DeviceValue>>) -> bool {
        self.learns.contains(&(Arc::as_ptr(cell) as usize))
    }
}

/// The stream on which a body puts its operations, and what comes with it.
pub struct DeviceContext<'a> {
    stream: &'a dyn Stream,
    /// The runtime and the worker of a body; `None` for a conversion, for which its transfer waits.
    home: Option<(&'a Arc<Shared>, usize)>,
    pending: RefCell<Pending>,
    /// What a conversion has made, until it is handed over.
    made: RefCell<Vec<Option<DeviceValue>>>,
}

impl Drop for DeviceContext<'_> {
    fn drop(&mut self) {
        // What nobody has taken may be in use by what has been queued, as may what was to be done
        // at the end.
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
    /// For a conversion.
    pub(crate) fn new(stream: &'a dyn Stream) -> Self {
        DeviceContext { stream, home: None, pending: RefCell::default(), made: RefCell::default() }
    }

    /// For a body on `worker`.
    pub(crate) fn of_body(stream: &'a dyn Stream, shared: &'a Arc<Shared>, worker: usize) -> Self {
        let mut cx = DeviceContext::new(stream);
        cx.home = Some((shared, worker));
        cx
    }

    /// Asks for memory; a body waits for it where there is none.
    fn find<T>(&self, mut ask: impl FnMut() -> Result<T, StreamError>) -> Result<T, StreamError> {
        match self.home {
            Some((shared, worker)) => shared.find_room(worker, ask),
            None => ask(),
        }
    }

    pub(crate) fn into_pending(self) -> Pending {
        self.pending.take()
    }

    /// The stream. What a body puts there runs in order; the body's operands may be used by it, and
    /// by nothing else.
    pub fn stream(&self) -> &'a dyn Stream {
        self.stream
    }

    /// Working space for the body's operations; it holds garbage, and is given back once they have
    /// ended. Where there is no room the body waits: for the ends of others, and until values that
    /// nobody uses have been given up.
    ///
    /// # Errors
    /// The device's; where no room can come, or none has come in ten seconds, what takes the
    /// device's memory.
    pub fn scratch(&self, bytes: u64) -> Result<DeviceScratch, StreamError> {
        self.find(|| self.stream.scratch(bytes))
    }

    /// Does something once the body's operations have ended. An error fails the task. (A conversion
    /// has no such end: nothing is done then.) A task that depends on this one may have been
    /// launched by then: see [`Codelet::needs_ends`](crate::Codelet::needs_ends).
    pub fn at_end(&self, what: impl FnOnce() -> Result<(), TaskError> + Send + 'static) {
        self.pending.borrow_mut().left.push(Box::new(what));
    }

    /// Copies bytes of the device's memory to the host, behind what has been queued; `then` gets
    /// them once the body's operations have ended.
    ///
    /// # Errors
    /// The device's.
    ///
    /// # Safety
    /// The bytes are an operand's, or working space of this body.
    pub unsafe fn read_back(
        &self,
        at: impl Into<u64>,
        bytes: usize,
        then: impl FnOnce(&[u8]) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), StreamError> {
        if self.stream.is_recording() {
            // For bodies that go on all the same: what would be done at the end is what the
            // recording is refused for.
            self.at_end(|| Ok(()));
            self.refuse_recording("something is read back")?;
        }
        let block = self.stream.host_block(bytes)?;
        let (to, from) = (Place::Host(block.at().as_ptr()), Place::Device(self.stream.memory(), at.into()));
        // SAFETY: the block is kept by what is done at the end, and `at` is the caller's promise.
        unsafe { self.stream.copy(to, from, bytes as u64)? };
        self.at_end(move || then(block.first(bytes)));
        Ok(())
    }

    /// What is done at the end changes what is known of the value in this place.
    pub(super) fn is_learnt_later(&self, cell: &Arc<ValueCell<DeviceValue>>) {
        self.pending.borrow_mut().learns.push(Arc::as_ptr(cell) as usize);
    }

    /// # Errors
    /// While what is put on the stream is recorded.
    pub(super) fn refuse_recording(&self, what: &str) -> Result<(), StreamError> {
        if self.stream.is_recording() {
            return Err(StreamError::Failed(format!("while a replay is recorded {what}").into()));
        }
        Ok(())
    }

    pub(crate) fn keep(&self, parts: SmallVec<[DeviceBuffer; 2]>) {
        self.stream.keep(Box::new(parts));
    }

    /// A value of this header with new parts, which what follows on the stream fills: for a
    /// [conversion](Portable::conversions) to give back. One that is not given back goes when the
    /// stream's operations have ended.
    ///
    /// # Errors
    /// The device's, e.g. [`StreamError::OutOfMemory`].
    pub fn value<D: Portable>(&self, header: D::Header) -> Result<NewValue<D>, StreamError> {
        let value = self.blank::<D>(header.clone())?;
        let mut made = self.made.borrow_mut();
        let view = NewValue::new(header, &value, made.len());
        made.push(Some(value));
        Ok(view)
    }

    /// Hands over what [`value`](DeviceContext::value) has made.
    pub(crate) fn take<D: Portable>(&self, made: &NewValue<D>) -> Option<DeviceValue> {
        self.made.borrow_mut().get_mut(made.at())?.take()
    }

    /// The same, as the runtime keeps it.
    pub(super) fn blank<D: Portable>(&self, header: D::Header) -> Result<DeviceValue, StreamError> {
        let meta = D::header_meta(&header);
        let parts = self.parts(&D::part_sizes(&header))?;
        Ok(DeviceValue::new(Box::new(header), parts, meta))
    }

    /// Memory of these sizes (bytes).
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
