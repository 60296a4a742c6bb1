//! Memory of a GPU, and one of its streams.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use zellige_gpu::{Address, Driver, Event, GpuError};
use zellige_runtime::device::DeviceError;
use zellige_runtime::device::{
    Arch, DeviceMemory, HostBlock, HostPool, Place, Recording, Stream, StreamError,
};

use super::error::stream_error;
use super::landing::Landing;
use super::operand_cache::OperandCache;
use super::recording::GpuRecording;
use super::{CUDA, Gpu};

/// The memory of one device.
pub(super) struct GpuMemory {
    /// The device's name, for errors.
    name: String,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) gpu: u32,
    /// Page-locked host memory for transfers to and from it.
    pub(super) pinned: Arc<HostPool>,
    /// The stream on which memory is freed. The caller has seen the end of all operations that used
    /// it.
    frees: Mutex<zellige_gpu::Stream>,
    /// Operand layouts made by bodies, which others may reuse.
    pub(super) operand_cache: OperandCache,
    /// Unused events, kept for reuse: each operation needs one.
    events: Mutex<Vec<Event>>,
}

/// Bytes of values per byte of the operand cache, which is part of the working space.
const OPERAND_CACHE_SHARE: u64 = 32;

impl fmt::Debug for GpuMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuMemory({})", self.name)
    }
}

impl GpuMemory {
    /// Allocates the stream that frees memory, and the cache.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(super) fn new(name: &str, gpu: &Gpu, pinned: Arc<HostPool>) -> Result<Arc<Self>, GpuError> {
        let operand_cache = OperandCache::new(gpu.bytes() / OPERAND_CACHE_SHARE);
        let (driver, gpu) = (Arc::clone(gpu.driver()), gpu.number());
        let frees = Mutex::new(driver.create_stream(gpu, false)?);
        let events = Mutex::default();
        Ok(Arc::new(GpuMemory { name: name.into(), driver, gpu, pinned, frees, operand_cache, events }))
    }

    /// Returns an event, to be recorded before any use.
    pub(super) fn event(&self) -> Result<Event, GpuError> {
        let spare = self.events.lock().pop();
        spare.map_or_else(|| self.driver.create_event(self.gpu, false), Ok)
    }

    /// Takes back an event that no stream waits for.
    pub(super) fn give_event(&self, event: Event) {
        self.events.lock().push(event);
    }

    /// Converts an error to the runtime's type.
    pub(super) fn failure(&self, error: &GpuError) -> DeviceError {
        DeviceError { device: self.name.clone(), reason: error.to_string() }
    }

    /// Allocates memory for any stream from now on: the calling thread waits for it.
    fn allocate_now(&self, bytes: u64) -> Result<Address, GpuError> {
        let stream = self.frees.lock();
        let at = self.driver.allocate(*stream, bytes)?;
        self.driver.synchronize(*stream)?;
        Ok(at)
    }

    pub(super) fn free(&self, at: Address) {
        let stream = self.frees.lock();
        // SAFETY: only a buffer that is dropped is freed here, once. The host has seen the end of
        // the operations that used it, or they are on a GPU that is lost.
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
        self.events.get_mut().drain(..).for_each(|event| self.driver.destroy_event(event));
        self.driver.destroy_stream(*self.frees.get_mut());
    }
}

impl DeviceMemory for GpuMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn arch(&self) -> Arch {
        *CUDA
    }

    fn free(&self, at: u64) {
        self.operand_cache.forget(Address(at));
        self.free(Address(at));
    }

    fn changes(&self, at: u64) {
        self.operand_cache.forget(Address(at));
    }

    fn reaches(&self, other: &dyn DeviceMemory) -> bool {
        let Some(other) = other.downcast::<GpuMemory>() else { return false };
        let peers = |gpu: u32| self.driver.gpus().get(gpu as usize).map_or(&[][..], |gpu| &gpu.peers);
        Arc::ptr_eq(&self.driver, &other.driver)
            && (self.gpu == other.gpu || peers(self.gpu).contains(&other.gpu))
    }

    fn is_lost(&self) -> bool {
        self.driver.memory(self.gpu).is_err_and(|error| error.is_sticky())
    }

    fn more_room(&self) -> &str {
        "Gpu::memory"
    }

    fn room(&self) -> Option<(u64, u64)> {
        self.driver.memory(self.gpu).ok()
    }
}

/// A stream, as seen by the operations that run on it.
pub(super) struct GpuStream {
    pub(super) memory: Arc<GpuMemory>,
    /// The memory again, with its type erased.
    erased: Arc<dyn DeviceMemory>,
    pub(super) stream: zellige_gpu::Stream,
    /// Objects that the queued operations use, until they have ended.
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
    /// Copies to the host through a staging buffer that have not been finished.
    landing: Mutex<Vec<Landing>>,
    /// The message that a body got when the GPU had failed.
    loss: Mutex<Option<String>>,
    /// True while operations on it are recorded: memory then has to come from elsewhere.
    pub(super) records: AtomicBool,
}

impl fmt::Debug for GpuStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuStream({:?} of {})", self.stream, self.memory.name)
    }
}

impl GpuStream {
    /// Creates a stream; `urgent`: with the highest priority.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(super) fn new(memory: &Arc<GpuMemory>, urgent: bool) -> Result<Self, GpuError> {
        let stream = memory.driver.create_stream(memory.gpu, urgent)?;
        let (kept, landing, loss, records) = Default::default();
        let erased: Arc<dyn DeviceMemory> = Arc::<GpuMemory>::clone(memory);
        Ok(GpuStream { memory: Arc::clone(memory), erased, stream, kept, landing, loss, records })
    }

    pub(super) fn driver(&self) -> &dyn Driver {
        &*self.memory.driver
    }

    /// Allocates memory for the following operations on this stream, and for all others once these
    /// have ended.
    fn allocate_here(&self, bytes: u64) -> Result<Address, GpuError> {
        if self.records.load(Ordering::Relaxed) {
            return self.memory.allocate_now(bytes);
        }
        match self.driver().allocate(self.stream, bytes) {
            Err(GpuError::OutOfMemory { .. }) if self.memory.operand_cache.give_up() => {
                self.driver().allocate(self.stream, bytes)
            }
            allocated => allocated,
        }
    }

    /// Allocates memory of another device of the driver, for the following operations on this
    /// stream.
    fn allocate_there(&self, memory: &GpuMemory, bytes: u64) -> Result<Address, GpuError> {
        let ready = Ready::new(memory)?;
        let (at, recorded) = {
            let there = memory.frees.lock();
            let at = memory.driver.allocate(*there, bytes)?;
            (at, memory.driver.record(ready.event, *there))
        };
        if let Err(error) = recorded.and_then(|()| self.driver().wait_event(self.stream, ready.event)) {
            memory.free(at);
            return Err(error);
        }
        self.keep(Box::new(ready));
        Ok(at)
    }

    /// Copies bytes on to their destination once the operations queued so far have ended.
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

impl Stream for GpuStream {
    fn memory(&self) -> &Arc<dyn DeviceMemory> {
        &self.erased
    }

    fn allocate(&self, memory: &Arc<dyn DeviceMemory>, bytes: u64) -> Result<u64, StreamError> {
        let allocated = match memory.downcast::<GpuMemory>() {
            Some(there) if !std::ptr::eq(there, &*self.memory) => self.allocate_there(there, bytes),
            _ => self.allocate_here(bytes),
        };
        allocated.map(|at| at.0).map_err(stream_error)
    }

    unsafe fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: u64) -> Result<(), StreamError> {
        // SAFETY: the caller's promise.
        unsafe { self.driver().copy(self.stream, place(to), place(from), bytes) }.map_err(stream_error)
    }

    unsafe fn fetch(&self, to: &mut [u8], from: Place<'_>) -> Result<(), StreamError> {
        // If no memory can be locked, a slow copy is used.
        let Some(block) = self.memory.pinned.stage(to.len()) else {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(Place::Host(to.as_mut_ptr()), from, to.len() as u64) };
        };
        let there = Place::Host(block.at().as_ptr());
        // SAFETY: the source is the caller's promise, and nobody else has the block; it stays with
        // the stream until the copy has ended.
        unsafe { self.copy(there, from, to.len() as u64)? };
        // SAFETY: nobody reads `to` before the operation has ended, and the stream releases it
        // before that (`Flying::landing`, `synchronize`).
        self.land_later(unsafe { Landing::new(block, to) });
        Ok(())
    }

    fn host_block(&self, bytes: usize) -> Result<HostBlock, StreamError> {
        Ok(self.memory.pinned.take(bytes)?)
    }

    fn synchronize(&self) -> Result<(), StreamError> {
        let landing = self.take_landing();
        self.driver().synchronize(self.stream).map_err(stream_error)?;
        landing.into_iter().for_each(Landing::land);
        Ok(())
    }

    fn keep(&self, what: Box<dyn Any + Send>) {
        self.kept.lock().push(what);
    }

    fn is_loss(&self, error: &dyn fmt::Display) -> bool {
        let lost = self.memory.is_lost();
        if lost {
            self.loss.lock().get_or_insert_with(|| error.to_string());
        }
        lost
    }

    fn check(&self) -> Result<(), DeviceError> {
        match &*self.loss.lock() {
            None => Ok(()),
            Some(reason) => Err(DeviceError { device: self.memory.name.clone(), reason: reason.clone() }),
        }
    }

    fn begin_range(&self, name: &dyn Fn() -> String) -> bool {
        let is_seen = self.driver().has_ranges();
        if is_seen {
            self.driver().begin_range(&name());
        }
        is_seen
    }

    fn end_range(&self) {
        self.driver().end_range();
    }

    fn record(&self, body: &mut dyn FnMut()) -> Result<Arc<dyn Recording>, StreamError> {
        Ok(Arc::new(GpuStream::record(self, body).map_err(stream_error)?))
    }

    fn is_recording(&self) -> bool {
        self.records.load(Ordering::Relaxed)
    }

    unsafe fn play(&self, recording: &Arc<dyn Recording>) -> Result<(), StreamError> {
        let of_gpu = recording.downcast::<GpuRecording>().expect("a recording is played where it was made");
        self.keep(Box::new(Arc::clone(recording)));
        // SAFETY: the caller's promise.
        unsafe { self.launch(of_gpu) }.map_err(stream_error)
    }
}

fn place(place: Place<'_>) -> zellige_gpu::Place {
    match place {
        Place::Host(at) => zellige_gpu::Place::Host(at),
        Place::Device(memory, at) => {
            let memory = memory.downcast::<GpuMemory>().expect("a GPU copies to and from GPUs of its driver");
            zellige_gpu::Place::Gpu(memory.gpu, Address(at))
        }
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
