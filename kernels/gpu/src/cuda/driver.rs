//! CUDA as a driver.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::sys::{self, CUresult};
use parking_lot::Mutex;

use super::error::refused;
use super::gpu::Gpu;
use super::stream::{Handles, Mark, Queue};
use super::{Cuda, Function, LoadedModule};
use super::{nvml, nvtx, probe};
use crate::call::{Arg, BatchedGemm, Element, Gemm, Potrf, Syrk, Trsm};
use crate::check::check_launch;
use crate::driver::{Address, Driver, Event, Graph, Kernel, Module, Place, Stream};
use crate::error::GpuError;
use crate::info::{Gauges, GpuInfo, Library, LibraryState};

/// Dynamic shared memory that a kernel may use without a change of its attribute.
const PLAIN_SHARED: u32 = 48 << 10;

/// `cuEventElapsedTime` as every driver has it; the bindings know its successor alone, which
/// drivers before 12.8 lack.
type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult;

impl Cuda {
    /// Allocates device memory in the order of the stream. If there is none, the memory that the
    /// pool retains is returned first, since its free blocks may be too small or belong to other
    /// streams.
    pub(super) fn take(&self, queue: &Queue, gpu: &Gpu, bytes: u64) -> Result<u64, GpuError> {
        // The driver's behaviour for sizes beyond its address space is not documented.
        if bytes > self.infos[queue.gpu as usize].memory {
            return Err(GpuError::OutOfMemory { gpu: queue.gpu, bytes });
        }
        let mut taken = self.try_take(queue, gpu, bytes);
        if matches!(taken, Err(GpuError::OutOfMemory { .. }))
            && let Some(pool) = gpu.pool
        {
            self.trim(queue, gpu, pool)?;
            taken = self.try_take(queue, gpu, bytes);
        }
        taken
    }

    fn try_take(&self, queue: &Queue, gpu: &Gpu, bytes: u64) -> Result<u64, GpuError> {
        let mut at = 0;
        let size = bytes.max(1) as usize;
        // SAFETY: the stream is alive and its context current; writes one address.
        let (call, result) = unsafe {
            match gpu.pool {
                Some(_) => ("cuMemAllocAsync", sys::cuMemAllocAsync(&mut at, size, queue.stream)),
                None => ("cuMemAlloc", sys::cuMemAlloc_v2(&mut at, size)),
            }
        };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(GpuError::OutOfMemory { gpu: queue.gpu, bytes });
        }
        self.check_status(queue.gpu, call, result).map(|()| at)
    }

    /// Waits for the queued operations, including stream-ordered frees, and returns the pool's
    /// unused memory to the system.
    fn trim(&self, queue: &Queue, gpu: &Gpu, pool: sys::CUmemoryPool) -> Result<(), GpuError> {
        // Waiting for a whole context invalidates captures in it: none can begin meanwhile.
        let captures = gpu.captures.lock();
        // SAFETY: the context is current, the stream alive; the pool is the GPU's, and never
        // destroyed.
        let (call, result) = unsafe {
            match *captures {
                0 => ("cuCtxSynchronize", sys::cuCtxSynchronize()),
                _ => ("cuStreamSynchronize", sys::cuStreamSynchronize(queue.stream)),
            }
        };
        self.check_status(queue.gpu, call, result)?;
        // SAFETY: as above; what is in use stays.
        self.check_status(queue.gpu, "cuMemPoolTrimTo", unsafe { sys::cuMemPoolTrimTo(pool, 0) })
    }

    /// Frees device memory in the order of the stream.
    ///
    /// # Safety
    /// The memory came from [`take`](Cuda::take) of this GPU, and is freed once.
    pub(super) unsafe fn give(&self, queue: &Queue, gpu: &Gpu, at: u64) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        let (call, result) = unsafe {
            match gpu.pool {
                Some(_) => ("cuMemFreeAsync", sys::cuMemFreeAsync(at, queue.stream)),
                None => ("cuMemFree", sys::cuMemFree_v2(at)),
            }
        };
        self.check_status(queue.gpu, call, result)
    }

    /// A number that a pool keeps of itself.
    fn pool_bytes(
        &self,
        gpu: u32,
        pool: sys::CUmemoryPool,
        which: sys::CUmemPool_attribute,
    ) -> Result<u64, GpuError> {
        let mut bytes = 0u64;
        // SAFETY: these attributes are 64-bit numbers; writes one.
        let result = unsafe { sys::cuMemPoolGetAttribute(pool, which, (&raw mut bytes).cast()) };
        self.check_status(gpu, "cuMemPoolGetAttribute", result).map(|()| bytes)
    }

    /// The peer's context, for a copy on a stream of `gpu`.
    fn peer(&self, gpu: u32, peer: u32) -> Result<sys::CUcontext, GpuError> {
        let there =
            self.gpus.get(peer as usize).ok_or(GpuError::NoGpu { gpu: peer, there: self.gpus.len() })?;
        if let Some(error) = there.lost.get() {
            return Err(error.clone());
        }
        if !self.infos[gpu as usize].peers.contains(&peer) {
            let reason = format!("GPU {peer} is no peer of GPU {gpu}: copy through the host");
            return Err(refused(gpu, "cuMemcpyPeerAsync", reason));
        }
        Ok(there.context)
    }
}

/// An argument's bits, as its kernel reads them from the beginning of the word (little-endian).
fn word(arg: &Arg) -> u64 {
    match *arg {
        Arg::Read(at, _) | Arg::Write(at, _) | Arg::Update(at, _) => at.0,
        Arg::I32(x) => u64::from(x as u32),
        Arg::U32(x) => u64::from(x),
        Arg::U64(x) => x,
        Arg::F32(x) => u64::from(x.to_bits()),
        Arg::F64(x) => x.to_bits(),
    }
}

impl Driver for Cuda {
    fn gpus(&self) -> &[GpuInfo] {
        &self.infos
    }

    fn library(&self, library: Library) -> LibraryState {
        probe::state(library).clone()
    }

    fn memory(&self, gpu: u32) -> Result<(u64, u64), GpuError> {
        let pool = self.enter(gpu)?.pool;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current; writes two numbers.
        self.check_status(gpu, "cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        // Memory that the pool retains counts as free.
        let kept = match pool {
            None => 0,
            Some(pool) => {
                use sys::CUmemPool_attribute::{
                    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT as RESERVED,
                    CU_MEMPOOL_ATTR_USED_MEM_CURRENT as USED,
                };
                self.pool_bytes(gpu, pool, RESERVED)?.saturating_sub(self.pool_bytes(gpu, pool, USED)?)
            }
        };
        Ok((free as u64 + kept, total as u64))
    }

    fn gauges(&self, gpu: u32) -> Result<Gauges, GpuError> {
        let there = self.infos.get(gpu as usize).ok_or(GpuError::NoGpu { gpu, there: self.infos.len() })?;
        probe::needs(Library::Nvml)?;
        nvml::gauges(gpu, &there.bus)
    }

    fn stream_workspace(&self, gpu: u32) -> u64 {
        self.workspace_bytes(gpu) as u64
    }

    fn create_stream(&self, gpu: u32, urgent: bool) -> Result<Stream, GpuError> {
        let there = self.enter(gpu)?;
        let priority = if urgent { there.priorities.1 } else { there.priorities.0 };
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
        let mut stream = ptr::null_mut();
        // SAFETY: the context is current; writes one handle.
        let result = unsafe { sys::cuStreamCreateWithPriority(&mut stream, flags, priority) };
        self.check_status(gpu, "cuStreamCreateWithPriority", result)?;
        let (handles, spare) = (Mutex::new(Handles::default()), Arc::clone(&there.spare));
        Ok(Stream(self.streams.add(Queue { gpu, context: there.context, stream, handles, spare })))
    }

    fn load_libraries(&self, gpu: u32) -> Result<(), GpuError> {
        let there = self.enter(gpu)?;
        if there.is_loaded.load(Ordering::Relaxed) {
            return Ok(());
        }
        let stream = self.create_stream(gpu, false)?;
        let made =
            self.queue(stream, "cuStreamCreate").and_then(|(queue, _)| self.make_handles(&queue, |_| true));
        // Its handles go to the next stream.
        self.destroy_stream(stream);
        made?;
        there.is_loaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn destroy_stream(&self, stream: Stream) {
        drop(self.streams.remove(stream.0));
    }

    fn synchronize(&self, stream: Stream) -> Result<(), GpuError> {
        const CALL: &str = "cuStreamSynchronize";
        let (queue, _) = self.queue(stream, CALL)?;
        // SAFETY: the stream is alive.
        self.check_status(queue.gpu, CALL, unsafe { sys::cuStreamSynchronize(queue.stream) })
    }

    fn native(&self, stream: Stream) -> Result<*mut c_void, GpuError> {
        Ok(self.queue(stream, "cuCtxSetCurrent")?.0.stream.cast())
    }

    fn create_event(&self, gpu: u32, timed: bool) -> Result<Event, GpuError> {
        let context = self.enter(gpu)?.context;
        // Who waits for an event leaves its core to others.
        let mut flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as c_uint;
        if !timed {
            flags |= sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
        }
        let mut event = ptr::null_mut();
        // SAFETY: the context is current; writes one handle.
        self.check_status(gpu, "cuEventCreate", unsafe { sys::cuEventCreate(&mut event, flags) })?;
        Ok(Event(self.events.add(Mark { gpu, context, event, timed })))
    }

    fn destroy_event(&self, event: Event) {
        drop(self.events.remove(event.0));
    }

    fn record(&self, event: Event, stream: Stream) -> Result<(), GpuError> {
        const CALL: &str = "cuEventRecord";
        let mark = self.mark(event, CALL)?;
        let (queue, _) = self.queue(stream, CALL)?;
        if mark.gpu != queue.gpu {
            return Err(refused(queue.gpu, CALL, format!("the event is one of GPU {}", mark.gpu)));
        }
        // SAFETY: both are alive.
        self.check_status(queue.gpu, CALL, unsafe { sys::cuEventRecord(mark.event, queue.stream) })
    }

    fn wait_event(&self, stream: Stream, event: Event) -> Result<(), GpuError> {
        const CALL: &str = "cuStreamWaitEvent";
        let (queue, _) = self.queue(stream, CALL)?;
        let unknown = || refused(queue.gpu, CALL, "the event was destroyed, or never created");
        let mark = self.events.get(event.0).ok_or_else(unknown)?;
        if mark.gpu != queue.gpu && self.gpus[mark.gpu as usize].lost.get().is_some() {
            // A loss on another GPU does not block this one; operations that read its memory fail.
            return Ok(());
        }
        // SAFETY: both are alive; no flags are meant.
        self.check_status(queue.gpu, CALL, unsafe { sys::cuStreamWaitEvent(queue.stream, mark.event, 0) })
    }

    fn is_done(&self, event: Event) -> Result<bool, GpuError> {
        const CALL: &str = "cuEventQuery";
        let mark = self.mark(event, CALL)?;
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(mark.event) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => self.check_status(mark.gpu, CALL, result).map(|()| true),
        }
    }

    fn wait(&self, event: Event) -> Result<(), GpuError> {
        const CALL: &str = "cuEventSynchronize";
        let mark = self.mark(event, CALL)?;
        // SAFETY: the event is alive.
        self.check_status(mark.gpu, CALL, unsafe { sys::cuEventSynchronize(mark.event) })
    }

    fn elapsed(&self, from: Event, to: Event) -> Result<f64, GpuError> {
        const CALL: &str = "cuEventElapsedTime";
        let (from, to) = (self.mark(from, CALL)?, self.mark(to, CALL)?);
        if !from.timed || !to.timed {
            return Err(refused(from.gpu, CALL, "the event was created without a clock"));
        }
        // SAFETY: the driver is there, or there would be no event; the type is that of the function
        // of this name.
        let elapsed = unsafe { sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0") };
        let elapsed = elapsed.map_err(|e| refused(from.gpu, CALL, e.to_string()))?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive; writes one number.
        let result = unsafe { elapsed(&mut milliseconds, from.event, to.event) };
        self.check_status(from.gpu, CALL, result).map(|()| f64::from(milliseconds) / 1e3)
    }

    fn allocate(&self, stream: Stream, bytes: u64) -> Result<Address, GpuError> {
        const CALL: &str = "cuMemAllocAsync";
        let (queue, gpu) = self.queue(stream, CALL)?;
        self.refuse_capture(&queue, CALL)?;
        self.take(&queue, gpu, bytes).map(Address)
    }

    unsafe fn free(&self, stream: Stream, at: Address) -> Result<(), GpuError> {
        const CALL: &str = "cuMemFreeAsync";
        let (queue, gpu) = self.queue(stream, CALL)?;
        self.refuse_capture(&queue, CALL)?;
        // SAFETY: as the caller promises.
        unsafe { self.give(&queue, gpu, at.0) }
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<*mut u8, GpuError> {
        let gpu = self.enter_any()?;
        let mut at: *mut c_void = ptr::null_mut();
        // Never write-combined: the host reads what comes back, and would read that uncached.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: a context is current; writes one pointer.
        let result = unsafe { sys::cuMemHostAlloc(&mut at, bytes.max(1), flags) };
        self.check_status(gpu, "cuMemHostAlloc", result).map(|()| at.cast())
    }

    unsafe fn free_pinned(&self, at: *mut u8, _bytes: usize) {
        if self.enter_any().is_ok() {
            // SAFETY: the caller's promise. The call fails if the GPU is lost, and then the memory
            // is released with the process.
            let _ = unsafe { sys::cuMemFreeHost(at.cast()) };
        }
    }

    unsafe fn pin(&self, at: *mut u8, bytes: usize) -> Result<(), GpuError> {
        let gpu = self.enter_any()?;
        // SAFETY: the caller's memory, which stays until it is unpinned.
        let result = unsafe { sys::cuMemHostRegister_v2(at.cast(), bytes, sys::CU_MEMHOSTREGISTER_PORTABLE) };
        self.check_status(gpu, "cuMemHostRegister", result)
    }

    unsafe fn unpin(&self, at: *mut u8) {
        if self.enter_any().is_ok() {
            // SAFETY: as the caller promises.
            let _ = unsafe { sys::cuMemHostUnregister(at.cast()) };
        }
    }

    unsafe fn copy(&self, stream: Stream, to: Place, from: Place, bytes: u64) -> Result<(), GpuError> {
        let (queue, gpu) = self.queue(stream, "cuMemcpyAsync")?;
        let (here, size, on) = (queue.gpu, bytes as usize, queue.stream);
        if size == 0 {
            return Ok(());
        }
        // SAFETY: for each call: the stream is alive, contexts live as long as the driver, and the
        // memory is the caller's promise.
        let (call, result) = unsafe {
            match (to, from) {
                (Place::Gpu(t, to), Place::Host(from)) if t == here => {
                    ("cuMemcpyHtoDAsync", sys::cuMemcpyHtoDAsync_v2(to.0, from.cast(), size, on))
                }
                (Place::Host(to), Place::Gpu(f, from)) if f == here => {
                    ("cuMemcpyDtoHAsync", sys::cuMemcpyDtoHAsync_v2(to.cast(), from.0, size, on))
                }
                (Place::Gpu(t, to), Place::Gpu(f, from)) if (t, f) == (here, here) => {
                    ("cuMemcpyDtoDAsync", sys::cuMemcpyDtoDAsync_v2(to.0, from.0, size, on))
                }
                (Place::Gpu(t, to), Place::Gpu(f, from)) if t == here => {
                    let peer = self.peer(here, f)?;
                    let result = sys::cuMemcpyPeerAsync(to.0, gpu.context, from.0, peer, size, on);
                    ("cuMemcpyPeerAsync", result)
                }
                (Place::Gpu(t, to), Place::Gpu(f, from)) if f == here => {
                    let peer = self.peer(here, t)?;
                    let result = sys::cuMemcpyPeerAsync(to.0, peer, from.0, gpu.context, size, on);
                    ("cuMemcpyPeerAsync", result)
                }
                _ => {
                    let reason = "neither end of the copy is on the stream's GPU";
                    return Err(refused(here, "cuMemcpyAsync", reason));
                }
            }
        };
        self.check_status(here, call, result)
    }

    unsafe fn zero(&self, stream: Stream, at: Address, bytes: u64) -> Result<(), GpuError> {
        const CALL: &str = "cuMemsetD8Async";
        let (queue, _) = self.queue(stream, CALL)?;
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the stream is alive; the memory is the caller's promise.
        let result = unsafe { sys::cuMemsetD8Async(at.0, 0, bytes as usize, queue.stream) };
        self.check_status(queue.gpu, CALL, result)
    }

    fn load(&self, gpu: u32, image: &[u8]) -> Result<Module, GpuError> {
        self.enter(gpu)?;
        // PTX is text, and ends with a 0; CUBIN knows its own length.
        let image: Vec<u8> = image.iter().copied().chain([0]).collect();
        let mut module = ptr::null_mut();
        // SAFETY: the image is whole and ends with a 0, and is not needed after the call; writes
        // one handle.
        let result = unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) };
        self.check_status(gpu, "cuModuleLoadData", result)?;
        Ok(Module(self.modules.add(LoadedModule { gpu, module })))
    }

    fn kernel(&self, module: Module, name: &str) -> Result<Kernel, GpuError> {
        const CALL: &str = "cuModuleGetFunction";
        let loaded =
            self.modules.get(module.0).ok_or_else(|| refused(0, CALL, "the module was never loaded"))?;
        let gpu = loaded.gpu;
        self.enter(gpu)?;
        let text =
            CString::new(name).map_err(|_| refused(gpu, CALL, format!("{name:?} is no name of a kernel")))?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is alive, the name ends with a 0; writes one handle.
        match unsafe { sys::cuModuleGetFunction(&mut function, loaded.module, text.as_ptr()) } {
            CUresult::CUDA_ERROR_NOT_FOUND => {
                Err(refused(gpu, CALL, format!("the module has no kernel {name}")))
            }
            result => {
                self.check_status(gpu, CALL, result)?;
                Ok(Kernel(self.kernels.add(Function { gpu, function })))
            }
        }
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        args: &[Arg],
    ) -> Result<(), GpuError> {
        const CALL: &str = "cuLaunchKernel";
        let (queue, _) = self.queue(stream, CALL)?;
        let gpu = queue.gpu;
        let kernel =
            self.kernels.get(kernel.0).ok_or_else(|| refused(gpu, CALL, "the kernel was never looked up"))?;
        if kernel.gpu != gpu {
            return Err(refused(gpu, CALL, format!("the kernel was loaded onto GPU {}", kernel.gpu)));
        }
        check_launch(grid, block).map_err(|reason| refused(gpu, CALL, reason))?;
        if shared_bytes > PLAIN_SHARED {
            let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is alive.
            let result = unsafe { sys::cuFuncSetAttribute(kernel.function, which, shared_bytes as c_int) };
            self.check_status(gpu, "cuFuncSetAttribute", result)?;
        }
        let words: Vec<u64> = args.iter().map(word).collect();
        let mut pointers: Vec<*mut c_void> =
            words.iter().map(|word| ptr::from_ref(word).cast_mut().cast()).collect();
        // SAFETY: function and stream are alive; the arguments are read during the call, each from
        // a word that is as long as it is or longer; that they are the kernel's is the caller's
        // promise.
        let result = unsafe {
            sys::cuLaunchKernel(
                kernel.function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes,
                queue.stream,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.check_status(gpu, CALL, result)
    }

    unsafe fn gemm(&self, stream: Stream, gemm: &Gemm) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { if gemm.is_fp8() { self.multiply_fp8(stream, gemm) } else { self.multiply(stream, gemm) } }
    }

    unsafe fn gemm_batched(&self, stream: Stream, gemm: &BatchedGemm<'_>) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { self.multiply_batch(stream, gemm) }
    }

    unsafe fn trsm(&self, stream: Stream, trsm: &Trsm) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { self.solve(stream, trsm) }
    }

    unsafe fn syrk(&self, stream: Stream, syrk: &Syrk) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { self.update(stream, syrk) }
    }

    unsafe fn potrf(&self, stream: Stream, potrf: &Potrf) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { self.factor(stream, potrf) }
    }

    fn potrf_workspace(&self, stream: Stream, n: u32, element: Element) -> Result<u64, GpuError> {
        self.factor_space(stream, n, element)
    }

    fn begin_capture(&self, stream: Stream) -> Result<(), GpuError> {
        self.begin(stream)
    }

    fn end_capture(&self, stream: Stream) -> Result<Graph, GpuError> {
        self.end(stream)
    }

    unsafe fn launch_graph(&self, stream: Stream, graph: Graph) -> Result<(), GpuError> {
        // SAFETY: as the caller promises.
        unsafe { self.play(stream, graph) }
    }

    fn destroy_graph(&self, graph: Graph) {
        drop(self.graphs.remove(graph.0));
    }

    fn has_ranges(&self) -> bool {
        nvtx::is_heard()
    }

    fn begin_range(&self, name: &str) {
        // A name with a 0 in it ends there.
        let name = name.split('\0').next().unwrap_or_default();
        if let Ok(name) = CString::new(name) {
            nvtx::push(&name);
        }
    }

    fn end_range(&self) {
        nvtx::pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_from_the_beginning_of_their_word() {
        let bytes = |arg| word(&arg).to_le_bytes();
        assert_eq!(bytes(Arg::I32(-2))[..4], (-2i32).to_le_bytes());
        assert_eq!(bytes(Arg::U32(7))[..4], 7u32.to_le_bytes());
        assert_eq!(bytes(Arg::F32(1.5))[..4], 1.5f32.to_le_bytes());
        assert_eq!(bytes(Arg::F64(-1.5)), (-1.5f64).to_le_bytes());
        assert_eq!(bytes(Arg::Update(Address(1 << 40), 8)), (1u64 << 40).to_le_bytes());
    }
}
