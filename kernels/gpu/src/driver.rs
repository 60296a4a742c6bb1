//! The trait.

use std::ffi::c_void;
use std::fmt;
use std::ptr;

use crate::call::{Arg, BatchedGemm, Element, Gemm, Potrf, Syrk, Trsm};
use crate::error::GpuError;
use crate::info::{Gauges, GpuInfo, Library, LibraryState};

/// An address in the memory of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Address {
    /// Returns the address `bytes` bytes further.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Address {
        Address(self.0 + bytes)
    }
}

impl From<u64> for Address {
    fn from(at: u64) -> Self {
        Address(at)
    }
}

impl From<Address> for u64 {
    fn from(at: Address) -> Self {
        at.0
    }
}

macro_rules! token {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u64);
    )*};
}
token! {
    /// A queue of a GPU: its operations run in order.
    Stream;
    /// A mark in a stream, at which other streams and the host can look.
    Event;
    /// Kernels loaded onto one GPU.
    Module;
    /// A kernel of a module.
    Kernel;
    /// Launches that are launched together.
    Graph;
}

/// Source or destination of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Host memory.
    Host(*mut u8),
    /// The memory of a GPU.
    Gpu(u32, Address),
}

/// The GPUs of a machine.
///
/// Operations on a stream are asynchronous: a call returns once they are queued. Later errors are
/// reported by a later call ([`is_done`](Driver::is_done), [`wait`](Driver::wait)). All calls may
/// come from any thread. Calls that name the same stream must come from one thread at a time.
///
/// # Safety of the unsafe calls
/// Memory that an operation names must exist, and must not be used in a conflicting way, from the
/// call until the operation has ended, as seen through events or the order of streams.
pub trait Driver: Send + Sync + fmt::Debug {
    /// The GPUs, by number; some may not work.
    fn gpus(&self) -> &[GpuInfo];

    /// Numbers of the GPUs that work at this moment.
    fn working(&self) -> Vec<u32> {
        (0..self.gpus().len() as u32).filter(|gpu| self.memory(*gpu).is_ok()).collect()
    }

    /// Returns the state of a library.
    fn library(&self, library: Library) -> LibraryState;

    /// Free and total bytes of a GPU's memory.
    ///
    /// # Errors
    /// [`GpuError::NoGpu`], [`GpuError::Failed`]; so for all calls below.
    fn memory(&self, gpu: u32) -> Result<(u64, u64), GpuError>;

    /// Clock rate, power and energy of a GPU at this moment.
    ///
    /// # Errors
    /// [`GpuError::Missing`] without NVML, too.
    fn gauges(&self, gpu: u32) -> Result<Gauges, GpuError>;

    /// Returns the bandwidth (B/s) and latency (s) of each link between two memories, if the driver
    /// declares them; `None` if they have to be measured.
    fn links(&self) -> Option<(f64, f64)> {
        None
    }

    /// Returns the bytes of a GPU's memory that each of its streams takes implicitly, from the
    /// first library routine on it until it is destroyed; 0 for a GPU that does not exist.
    fn stream_workspace(&self, gpu: u32) -> u64;

    /// Makes the available libraries allocate their memory on a GPU that all streams share, so that
    /// [`memory`](Driver::memory) returns the rest. Once for each GPU; later calls do nothing.
    fn load_libraries(&self, gpu: u32) -> Result<(), GpuError> {
        let _ = gpu;
        Ok(())
    }

    /// Creates a stream on a GPU. If `urgent`, its operations have priority.
    fn create_stream(&self, gpu: u32, urgent: bool) -> Result<Stream, GpuError>;

    /// Destroys a stream once its queued operations have ended.
    fn destroy_stream(&self, stream: Stream);

    /// Waits until all queued operations have ended.
    fn synchronize(&self, stream: Stream) -> Result<(), GpuError>;

    /// Returns CUDA's own handle of a stream, for kernels that others launch on it, and makes its
    /// GPU the calling thread's; null for a driver without GPUs.
    fn native(&self, stream: Stream) -> Result<*mut c_void, GpuError> {
        let _ = stream;
        Ok(ptr::null_mut())
    }

    /// Creates an event of a GPU, which is done from the start. If `timed`,
    /// [`elapsed`](Driver::elapsed) accepts it.
    fn create_event(&self, gpu: u32, timed: bool) -> Result<Event, GpuError>;

    /// Destroys an event.
    fn destroy_event(&self, event: Event);

    /// Records an event. It is done once the operations that are queued on the stream now have
    /// ended.
    fn record(&self, event: Event, stream: Stream) -> Result<(), GpuError>;

    /// Makes operations that are queued on the stream from now on wait for the last record of the
    /// event, which may belong to another GPU.
    fn wait_event(&self, stream: Stream, event: Event) -> Result<(), GpuError>;

    /// Returns true if the event is done, and the error of the operations before it if one failed.
    fn is_done(&self, event: Event) -> Result<bool, GpuError>;

    /// Blocks the calling thread until the event is done.
    fn wait(&self, event: Event) -> Result<(), GpuError>;

    /// Seconds between two events that are done.
    fn elapsed(&self, from: Event, to: Event) -> Result<f64, GpuError>;

    /// Device memory, to be used by what follows on the stream, or after it; 256-byte aligned.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] too.
    fn allocate(&self, stream: Stream, bytes: u64) -> Result<Address, GpuError>;

    /// Frees memory after the operations that are queued on the stream now.
    ///
    /// # Safety
    /// It came from [`allocate`](Driver::allocate) for the same GPU, and is freed once.
    unsafe fn free(&self, stream: Stream, at: Address) -> Result<(), GpuError>;

    /// Host memory that copies reach at full speed: page-locked, cached, readable by every GPU,
    /// aligned to 4096 bytes.
    fn allocate_pinned(&self, bytes: usize) -> Result<*mut u8, GpuError>;

    /// Frees page-locked memory.
    ///
    /// # Safety
    /// It came from [`allocate_pinned`](Driver::allocate_pinned) with the same number of bytes, and
    /// no operation uses it.
    unsafe fn free_pinned(&self, at: *mut u8, bytes: usize);

    /// Locks pages of the caller's own, so that copies reach them at full speed.
    ///
    /// # Safety
    /// The memory is unpinned before it is freed.
    unsafe fn pin(&self, at: *mut u8, bytes: usize) -> Result<(), GpuError>;

    /// Undoes [`pin`](Driver::pin).
    ///
    /// # Safety
    /// `at` was pinned, and no operation uses it.
    unsafe fn unpin(&self, at: *mut u8);

    /// Copies bytes. At least one end is the stream's GPU; the other may be the host or a peer.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn copy(&self, stream: Stream, to: Place, from: Place, bytes: u64) -> Result<(), GpuError>;

    /// Sets bytes to zero.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn zero(&self, stream: Stream, at: Address, bytes: u64) -> Result<(), GpuError>;

    /// False where kernels are found by their names alone, as a driver without GPUs may do: then
    /// they need not be compiled.
    fn needs_images(&self) -> bool {
        true
    }

    /// Loads kernels (PTX or CUBIN) onto a GPU. They stay until the driver goes.
    fn load(&self, gpu: u32, image: &[u8]) -> Result<Module, GpuError>;

    /// A kernel of a module by its name in the source (`extern "C"`).
    fn kernel(&self, module: Module, name: &str) -> Result<Kernel, GpuError>;

    /// Launches a kernel.
    ///
    /// # Safety
    /// See the trait; the arguments are those of the kernel, in order.
    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[Arg],
    ) -> Result<(), GpuError>;

    /// Queues a matrix product.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn gemm(&self, stream: Stream, gemm: &Gemm) -> Result<(), GpuError>;

    /// Queues several products of one shape.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn gemm_batched(&self, stream: Stream, gemm: &BatchedGemm<'_>) -> Result<(), GpuError>;

    /// Queues a triangular solve, f32 or f64.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn trsm(&self, stream: Stream, trsm: &Trsm) -> Result<(), GpuError>;

    /// Queues a symmetric update, f32 or f64.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn syrk(&self, stream: Stream, syrk: &Syrk) -> Result<(), GpuError>;

    /// Queues a Cholesky factorisation, f32 or f64.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn potrf(&self, stream: Stream, potrf: &Potrf) -> Result<(), GpuError>;

    /// Returns the bytes of working space that [`potrf`](Driver::potrf) of this order needs.
    fn potrf_workspace(&self, stream: Stream, n: u32, element: Element) -> Result<u64, GpuError>;

    /// Begins a capture: operations that are put on the stream are recorded instead of run.
    fn begin_capture(&self, stream: Stream) -> Result<(), GpuError>;

    /// Ends a capture and returns its graph.
    fn end_capture(&self, stream: Stream) -> Result<Graph, GpuError>;

    /// Launches a recorded graph.
    ///
    /// # Safety
    /// See the trait, for every operation in the graph.
    unsafe fn launch_graph(&self, stream: Stream, graph: Graph) -> Result<(), GpuError>;

    /// Destroys a graph once its launches have ended.
    fn destroy_graph(&self, graph: Graph);

    /// Returns true if ranges reach a profiler. If not, their names need not be built.
    fn has_ranges(&self) -> bool;

    /// Begins a range in profilers' timelines, on the calling thread.
    fn begin_range(&self, name: &str);

    /// Ends the calling thread's innermost range.
    fn end_range(&self);
}
