//! Memory of a GPU, and one of its streams.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use zellige_gpu::{Address, Driver, GpuError, Stream};

use super::Gpu;
use super::landing::Landing;
use super::operand_cache::OperandCache;
use super::views::CudaScratch;
use crate::buffer::Pool;
use crate::error::DeviceError;

/// The memory of one device.
pub(crate) struct GpuMemory {
    /// The device's name, for errors.
    name: String,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) gpu: u32,
    /// Host memory for what goes to and from it.
    pub(super) pinned: Arc<Pool>,
    /// What is given back goes through here. Whoever gives it back has seen the end of what used it.
    frees: Mutex<Stream>,
    /// What bodies have made of values and others may find.
    pub(super) operand_cache: OperandCache,
}

/// What lies beside values takes one byte at most for so many that values may take: it is part of the working space.
const OPERAND_CACHE_SHARE: u64 = 32;

impl fmt::Debug for GpuMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuMemory({})", self.name)
    }
}

impl GpuMemory {
    /// # Errors
    /// The driver's.
    pub(crate) fn new(name: &str, gpu: &Gpu, pinned: Arc<Pool>) -> Result<Arc<Self>, GpuError> {
        let operand_cache = OperandCache::new(gpu.bytes() / OPERAND_CACHE_SHARE);
        let (driver, gpu) = (Arc::clone(&gpu.driver), gpu.number);
        let frees = Mutex::new(driver.create_stream(gpu, false)?);
        Ok(Arc::new(GpuMemory { name: name.into(), driver, gpu, pinned, frees, operand_cache }))
    }

    /// As the rest of the runtime speaks of it.
    pub(crate) fn failure(&self, error: &GpuError) -> DeviceError {
        DeviceError { device: self.name.clone(), reason: error.to_string() }
    }

    /// True if values can go from one to the other.
    pub(crate) fn reaches(&self, other: &GpuMemory) -> bool {
        let peers = |gpu: u32| self.driver.gpus().get(gpu as usize).map_or(&[][..], |gpu| &gpu.peers);
        Arc::ptr_eq(&self.driver, &other.driver)
            && (self.gpu == other.gpu || peers(self.gpu).contains(&other.gpu))
    }

    /// True if the GPU cannot be used any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.driver.memory(self.gpu).is_err_and(|error| error.is_sticky())
    }

    /// Free and total bytes of the GPU, if that can be told.
    pub(crate) fn room(&self) -> Option<(u64, u64)> {
        self.driver.memory(self.gpu).ok()
    }

    /// Memory for any stream, from now on: the calling thread waits for it.
    fn allocate_now(&self, bytes: u64) -> Result<Address, GpuError> {
        let stream = self.frees.lock();
        let at = self.driver.allocate(*stream, bytes)?;
        self.driver.synchronize(*stream)?;
        Ok(at)
    }

    pub(super) fn free(&self, at: Address) {
        let stream = self.frees.lock();
        // SAFETY: only a buffer that is dropped comes here, once. What used it has ended as the host saw, or is on a GPU that is lost.
        if let Err(error) = unsafe { self.driver.free(*stream, at) } {
            tracing::debug!("giving memory back: {error}");
        }
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        for (at, made) in self.operand_cache.close() {
            self.driver.destroy_event(made);
            self.free(at);
        }
        self.driver.destroy_stream(*self.frees.get_mut());
    }
}

/// Bytes in a GPU's memory, given back when dropped. Whoever drops it has seen the end of what uses it.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    at: Address,
    bytes: u64,
    memory: Arc<GpuMemory>,
}

impl DeviceBuffer {
    pub(crate) fn at(&self) -> Address {
        self.at
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the GPU.
    pub(super) fn gpu(&self) -> u32 {
        self.memory.gpu
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.operand_cache.forget(self.at);
            self.memory.free(self.at);
        }
    }
}

impl DeviceBuffer {
    /// It is about to be written.
    pub(super) fn changes(&self) {
        if !crate::mutant::mutant(14) {
            self.memory.operand_cache.forget(self.at);
        }
    }
}

/// A stream, as what runs on it sees it.
pub(crate) struct GpuStream {
    pub(super) memory: Arc<GpuMemory>,
    pub(super) stream: Stream,
    /// What the operations that are queued use, until they have ended.
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
    /// What they bring to the host by way of other memory.
    landing: Mutex<Vec<Landing>>,
    /// What a body was told when the GPU had failed.
    loss: Mutex<Option<String>>,
    /// What is put on it is recorded: memory then has to come from elsewhere.
    pub(super) records: AtomicBool,
}

impl GpuStream {
    /// # Errors
    /// The driver's.
    pub(super) fn new(memory: &Arc<GpuMemory>) -> Result<Self, GpuError> {
        let stream = memory.driver.create_stream(memory.gpu, false)?;
        let (kept, landing, loss, records) = Default::default();
        Ok(GpuStream { memory: Arc::clone(memory), stream, kept, landing, loss, records })
    }

    /// As the rest of the runtime speaks of it.
    pub(crate) fn failure(&self, error: &GpuError) -> DeviceError {
        self.memory.failure(error)
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.memory.driver
    }

    /// Memory for what follows on this stream, and for everybody once that has ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, GpuError> {
        let memory = Arc::clone(&self.memory);
        let at = match bytes {
            0 => Address::default(),
            _ if self.records.load(Ordering::Relaxed) => memory.allocate_now(bytes)?,
            _ => self.allocate_in_order(bytes)?,
        };
        Ok(DeviceBuffer { at, bytes, memory })
    }

    fn allocate_in_order(&self, bytes: u64) -> Result<Address, GpuError> {
        match self.driver().allocate(self.stream, bytes) {
            Err(GpuError::OutOfMemory { .. }) if self.memory.operand_cache.give_up() => {
                self.driver().allocate(self.stream, bytes)
            }
            allocated => allocated,
        }
    }

    /// Memory of another device of the driver's, for what follows on this stream.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn allocate_on(&self, memory: &Arc<GpuMemory>, bytes: u64) -> Result<DeviceBuffer, GpuError> {
        if Arc::ptr_eq(memory, &self.memory) {
            return self.allocate(bytes);
        }
        if bytes == 0 {
            return Ok(DeviceBuffer { at: Address::default(), bytes, memory: Arc::clone(memory) });
        }
        let ready = Ready::new(memory)?;
        let (at, recorded) = {
            // Given back before there is a buffer: dropping one takes it.
            let there = memory.frees.lock();
            let at = memory.driver.allocate(*there, bytes)?;
            (at, memory.driver.record(ready.event, *there))
        };
        let buffer = DeviceBuffer { at, bytes, memory: Arc::clone(memory) };
        recorded?;
        self.driver().wait_event(self.stream, ready.event)?;
        self.keep(ready);
        Ok(buffer)
    }

    /// Working space for what follows on this stream until the operation that is being launched has ended.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn scratch(&self, bytes: u64) -> Result<CudaScratch, GpuError> {
        let buffer = self.allocate(bytes)?;
        let scratch = CudaScratch { at: buffer.at, bytes };
        self.keep(buffer);
        Ok(scratch)
    }

    /// Keeps something until what has been queued so far has ended.
    pub(crate) fn keep(&self, what: impl Any + Send) {
        self.kept.lock().push(Box::new(what));
    }

    /// As before.
    pub(super) fn keep_again(&self, what: Box<dyn Any + Send>) {
        self.kept.lock().push(what);
    }

    /// A body was told of an error. True if it is the GPU's, which is lost: then it is the device that has failed, not the task.
    pub(crate) fn is_loss(&self, error: &dyn fmt::Display) -> bool {
        let lost = self.memory.is_lost();
        if lost {
            self.loss.lock().get_or_insert_with(|| error.to_string());
        }
        lost
    }

    /// # Errors
    /// If a body has been told that the GPU is lost.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        match &*self.loss.lock() {
            None => Ok(()),
            Some(reason) => Err(DeviceError { device: self.memory.name.clone(), reason: reason.clone() }),
        }
    }

    /// Bytes go on to their place once what has been queued so far has ended.
    pub(super) fn land_later(&self, landing: Landing) {
        self.landing.lock().push(landing);
    }

    pub(super) fn take_landing(&self) -> Vec<Landing> {
        std::mem::take(&mut self.landing.lock())
    }

    pub(super) fn take_kept(&self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.kept.lock())
    }
}

impl Drop for GpuStream {
    fn drop(&mut self) {
        self.memory.driver.destroy_stream(self.stream);
    }
}

/// An event that a stream waits for.
struct Ready {
    driver: Arc<dyn Driver>,
    event: zellige_gpu::Event,
}

impl Ready {
    fn new(memory: &GpuMemory) -> Result<Self, GpuError> {
        let driver = Arc::clone(&memory.driver);
        let event = driver.create_event(memory.gpu, false)?;
        Ok(Ready { driver, event })
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.driver.destroy_event(self.event);
    }
}
