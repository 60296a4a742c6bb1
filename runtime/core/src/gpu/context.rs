//! What a body for a GPU may ask of it.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use zellige_gpu::{Address, Driver, GpuError, Place, Stream};

use super::memory::{DeviceBuffer, GpuStream};
use super::value::DeviceValue;
use super::views::{CudaScratch, CudaValue};
use crate::data::{Portable, ValueCell};
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
pub struct GpuContext<'a> {
    stream: &'a GpuStream,
    /// The runtime and the worker of a body; `None` for a conversion, for which its transfer waits.
    home: Option<(&'a Arc<Shared>, usize)>,
    pending: RefCell<Pending>,
    /// What a conversion has made, until it is handed over.
    made: RefCell<Vec<Option<DeviceValue>>>,
}

impl Drop for GpuContext<'_> {
    fn drop(&mut self) {
        // What nobody has taken may be in use by what has been queued, as may what was to be done at the end.
        let made: Vec<DeviceValue> = self.made.take().into_iter().flatten().collect();
        if !made.is_empty() {
            self.stream.keep(made);
        }
        let Pending { left, .. } = self.pending.take();
        if !left.is_empty() {
            self.stream.keep(left);
        }
    }
}

impl fmt::Debug for GpuContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuContext({:?})", self.stream.stream)
    }
}

impl<'a> GpuContext<'a> {
    /// For a conversion.
    pub(crate) fn new(stream: &'a GpuStream) -> Self {
        GpuContext { stream, home: None, pending: RefCell::default(), made: RefCell::default() }
    }

    /// For a body on `worker`.
    pub(crate) fn of_body(stream: &'a GpuStream, shared: &'a Arc<Shared>, worker: usize) -> Self {
        let mut cx = GpuContext::new(stream);
        cx.home = Some((shared, worker));
        cx
    }

    /// Asks for memory; a body waits for it where there is none.
    fn find<T>(&self, mut ask: impl FnMut() -> Result<T, GpuError>) -> Result<T, GpuError> {
        match self.home {
            Some((shared, worker)) => shared.find_room(worker, ask),
            None => ask(),
        }
    }

    pub(crate) fn into_pending(self) -> Pending {
        self.pending.take()
    }

    /// The driver.
    pub fn driver(&self) -> &'a Arc<dyn Driver> {
        &self.stream.memory.driver
    }

    /// The stream. What a body puts there runs in order; the body's operands may be used by it, and by nothing else.
    pub fn stream(&self) -> Stream {
        self.stream.stream
    }

    /// The GPU's number.
    pub fn gpu(&self) -> u32 {
        self.stream.memory.gpu
    }

    /// Working space for the body's operations; it holds garbage, and is given back once they have ended. Where there is no room the
    /// body waits: for the ends of others, and until values that nobody uses have been given up.
    ///
    /// # Errors
    /// The driver's; where no room can come, or none has come in ten seconds, what takes the GPU's memory.
    pub fn scratch(&self, bytes: u64) -> Result<CudaScratch, GpuError> {
        self.find(|| self.stream.scratch(bytes))
    }

    /// Another form of an operand that the body reads, `of` which a part lies there; e.g. its numbers laid out as a product wants them. What a body
    /// `make`s there, by operations on its stream, lies beside the value from then on, and other bodies that ask for the same form (`what`, a
    /// number of the caller's choice, and always as many bytes) are given it, until the value is written or gone, or others need the
    /// room: one byte for 32 that values may take. `None`: there is no room, or a replay is recorded; then the body makes it in [working
    /// space](GpuContext::scratch).
    ///
    /// # Errors
    /// The driver's, and what `make` returns.
    pub fn cached_operand(
        &self,
        of: Address,
        what: u32,
        bytes: u64,
        make: impl FnOnce(Address) -> Result<(), GpuError>,
    ) -> Result<Option<Address>, GpuError> {
        self.stream.cached_operand((of, what), bytes, make)
    }

    /// Does something once the body's operations have ended. An error fails the task. (A conversion has no such end: nothing is done then.)
    /// A task that depends on this one may have been launched by then: see [`Codelet::needs_ends`](crate::Codelet::needs_ends).
    pub fn at_end(&self, what: impl FnOnce() -> Result<(), TaskError> + Send + 'static) {
        self.pending.borrow_mut().left.push(Box::new(what));
    }

    /// Copies bytes of the GPU's memory to the host, behind what has been queued; `then` gets them once the body's operations have
    /// ended.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The bytes are an operand's, or working space of this body.
    pub unsafe fn read_back(
        &self,
        at: Address,
        bytes: usize,
        then: impl FnOnce(&[u8]) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), GpuError> {
        let block = self.stream.memory.pinned.take(bytes)?;
        // SAFETY: the block is kept by what is done at the end, and `at` is the caller's promise.
        unsafe {
            let (to, from) = (Place::Host(block.at().as_ptr()), Place::Gpu(self.gpu(), at));
            self.driver().copy(self.stream(), to, from, bytes as u64)?;
        }
        self.at_end(move || then(block.first(bytes)));
        Ok(())
    }

    /// What is done at the end changes what is known of the value in this place.
    pub(super) fn is_learnt_later(&self, cell: &Arc<ValueCell<DeviceValue>>) {
        self.pending.borrow_mut().learns.push(Arc::as_ptr(cell) as usize);
    }

    /// # Errors
    /// While what is put on the stream is recorded.
    pub(super) fn refuse_recording(&self, what: &str) -> Result<(), GpuError> {
        if !self.stream.records.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (gpu, call) = (self.gpu(), "recording a replay");
        Err(GpuError::Failed { gpu, call, reason: what.into(), sticky: false })
    }

    pub(crate) fn keep(&self, parts: SmallVec<[DeviceBuffer; 2]>) {
        self.stream.keep(parts);
    }

    /// A value of this header with new parts, which what follows on the stream fills: for [`Portable::convert_on_gpu`] to give back. One
    /// that is not given back goes when the stream's operations have ended.
    ///
    /// # Errors
    /// The driver's, e.g. [`GpuError::OutOfMemory`].
    pub fn value<D: Portable>(&self, header: D::Header) -> Result<CudaValue<D>, GpuError> {
        let value = self.blank::<D>(header.clone())?;
        let mut made = self.made.borrow_mut();
        let view = CudaValue::new(header, &value, made.len());
        made.push(Some(value));
        Ok(view)
    }

    /// Hands over what [`value`](GpuContext::value) has made.
    pub(crate) fn take<D: Portable>(&self, made: &CudaValue<D>) -> Option<DeviceValue> {
        self.made.borrow_mut().get_mut(made.at())?.take()
    }

    /// The same, as the runtime keeps it.
    pub(super) fn blank<D: Portable>(&self, header: D::Header) -> Result<DeviceValue, GpuError> {
        let meta = D::header_meta(&header);
        let parts = self.parts(&D::part_sizes(&header))?;
        Ok(DeviceValue::new(Box::new(header), parts, meta))
    }

    /// Memory of these sizes (bytes).
    pub(super) fn parts(&self, sizes: &[usize]) -> Result<SmallVec<[DeviceBuffer; 2]>, GpuError> {
        let mut parts = SmallVec::new();
        for &bytes in sizes {
            match self.find(|| self.stream.allocate(bytes as u64)) {
                Ok(buffer) => parts.push(buffer),
                Err(error) => {
                    self.stream.keep(parts);
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }
}
