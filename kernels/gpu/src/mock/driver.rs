//! The mock as a driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Mock;
use super::call::Call;
use super::memory::Block;
use super::state::{EventState, Locked, gpu_of, refused, stream_name};
use crate::call::{Arg, BatchedGemm, Element, Gemm, Potrf, Syrk, Trsm};
use crate::check::check_launch;
use crate::driver::{Address, Driver, Event, Graph, Kernel, Module, Place, Stream};
use crate::error::GpuError;
use crate::info::{Gauges, GpuInfo, Library, LibraryState};

/// Page size of host memory that copies access, in bytes.
const PAGE: usize = 4096;
/// Clock rate of the multiprocessors [MHz].
const CLOCK: f64 = 1500.0;
/// Power draw [W].
const POWER: f64 = 300.0;

impl Mock {
    fn put(&self, stream: Stream, call: Call) -> Result<(), GpuError> {
        self.shared.with(|state| state.submit(stream.0, call))
    }

    /// Puts a routine of a library on a stream.
    fn routine(
        &self,
        stream: Stream,
        library: Library,
        checked: Result<(), String>,
        call: impl FnOnce() -> Call,
    ) -> Result<(), GpuError> {
        self.needs(library)?;
        let call = call();
        checked.map_err(|reason| refused(gpu_of(stream.0), call.cuda(), reason))?;
        self.shared.with(|state| {
            state.make_workspace(stream.0, call.cuda())?;
            state.submit(stream.0, call)
        })
    }

    /// Refuses products that the stream's GPU is too old for, too.
    fn check_product(&self, stream: Stream, checked: Result<(), String>, gemm: &Gemm) -> Result<(), String> {
        let info = self.infos.get(gpu_of(stream.0) as usize);
        checked.and_then(|()| info.map_or(Ok(()), |info| info.check_product(gemm)))
    }

    fn needs(&self, library: Library) -> Result<(), GpuError> {
        match self.library(library) {
            LibraryState::There(_) => Ok(()),
            LibraryState::Missing(reason) => {
                Err(GpuError::Missing { library, reason, needed_for: library.needed_for() })
            }
        }
    }

    /// Removes host memory from the table. It must not be used by copies in flight.
    ///
    /// `given`: the number of bytes that the caller says it requested; `None` for the caller's own
    /// memory.
    fn unlock(&self, at: *mut u8, call: &'static str, given: Option<usize>) {
        self.shared.with(|state| {
            let from = at.expose_provenance() as u64;
            let known = state.locked.get(&from).is_some_and(|(bytes, kind)| match (kind, given) {
                (Locked::Ours { .. }, Some(given)) => *bytes == given as u64,
                (kind, given) => matches!(kind, Locked::Callers) && given.is_none(),
            });
            let Some((bytes, kind)) = known.then(|| state.locked.remove(&from)).flatten() else {
                state.violation(
                    0,
                    call,
                    format!("host memory at {from:#x} is not known, has another size, or was given back"),
                );
                return;
            };
            // Real drivers crash: nodes of graphs keep the address of the memory.
            if let Some(user) = state.recorded_use(from, from + bytes) {
                state.violation(0, call, format!("host memory at {from:#x} belongs to {user}"));
            }
            if let Some(user) = state.host_history.unfinished(from, from + bytes, &state.host) {
                let reason = format!("host memory at {from:#x}: nothing tells that {} has ended", user.who);
                state.violation(0, call, reason);
                // The memory may still be in use: the fault has been reported, the bytes are kept.
                std::mem::forget(kind);
            }
        });
    }
}

impl Driver for Mock {
    fn gpus(&self) -> &[GpuInfo] {
        &self.infos
    }

    fn library(&self, library: Library) -> LibraryState {
        if self.without.contains(&library) {
            return LibraryState::Missing("the mock was told so".into());
        }
        LibraryState::There("mock".into())
    }

    fn memory(&self, gpu: u32) -> Result<(u64, u64), GpuError> {
        self.shared.with(|state| {
            let total = state.usable(gpu)?.info.memory;
            let loaded = self.loaded.load(Ordering::Relaxed) >> (gpu % 64) & 1;
            let used = state.space.used(gpu) + loaded * self.libraries_keep;
            Ok((total.saturating_sub(used), total))
        })
    }

    fn load_libraries(&self, gpu: u32) -> Result<(), GpuError> {
        self.shared.with(|state| state.usable(gpu).map(drop))?;
        self.loaded.fetch_or(1 << (gpu % 64), Ordering::Relaxed);
        Ok(())
    }

    /// Always the same clock rate and power, and the energy that this comes to.
    fn gauges(&self, gpu: u32) -> Result<Gauges, GpuError> {
        self.needs(Library::Nvml)?;
        self.shared.with(|state| state.usable(gpu).map(drop))?;
        let energy = self.began.elapsed().as_secs_f64() * POWER;
        Ok(Gauges { sm_clock_mhz: Some(CLOCK), power_w: Some(POWER), energy_j: Some(energy) })
    }

    fn links(&self) -> Option<(f64, f64)> {
        self.links
    }

    fn stream_workspace(&self, gpu: u32) -> u64 {
        self.infos.get(gpu as usize).map_or(0, |_| self.shared.with(|state| state.workspace))
    }

    fn create_stream(&self, gpu: u32, _urgent: bool) -> Result<Stream, GpuError> {
        self.shared.with(|state| {
            state.usable(gpu)?;
            Ok(Stream(state.add_stream(gpu)))
        })
    }

    fn destroy_stream(&self, stream: Stream) {
        const CALL: &str = "cuStreamDestroy";
        self.shared.with(|state| {
            state.give_workspace(stream.0);
            let captured = match state.streams.get_mut(&stream.0).filter(|stream| !stream.destroyed) {
                None => {
                    // Says what is wrong, unless the GPU is lost.
                    let _ = state.stream(stream.0, CALL);
                    return;
                }
                Some(there) => {
                    there.destroyed = true;
                    there.capture.is_some()
                }
            };
            if captured {
                let reason = format!("{} is destroyed while it is being captured", stream_name(stream.0));
                state.violation(gpu_of(stream.0), CALL, reason);
            }
            state.sweep(stream.0);
        });
    }

    fn synchronize(&self, stream: Stream) -> Result<(), GpuError> {
        self.shared.synchronize(stream.0)
    }

    fn create_event(&self, gpu: u32, timed: bool) -> Result<Event, GpuError> {
        self.shared.with(|state| {
            state.usable(gpu)?;
            let token = state.token(gpu);
            state.events.insert(token, EventState { timed, last: None, waits: Vec::new() });
            Ok(Event(token))
        })
    }

    fn destroy_event(&self, event: Event) {
        self.shared.with(|state| state.destroy_event(event.0));
    }

    fn record(&self, event: Event, stream: Stream) -> Result<(), GpuError> {
        self.shared.with(|state| state.record(event.0, stream.0))
    }

    fn wait_event(&self, stream: Stream, event: Event) -> Result<(), GpuError> {
        self.shared.with(|state| state.wait_event(stream.0, event.0))
    }

    fn is_done(&self, event: Event) -> Result<bool, GpuError> {
        match self.shared.record_of(event.0, "cuEventQuery")? {
            Some(record) => self.shared.is_reached(&record),
            None => Ok(true),
        }
    }

    fn wait(&self, event: Event) -> Result<(), GpuError> {
        match self.shared.record_of(event.0, "cuEventSynchronize")? {
            Some(record) => self.shared.await_record(&record).map(drop),
            None => Ok(()),
        }
    }

    fn elapsed(&self, from: Event, to: Event) -> Result<f64, GpuError> {
        const CALL: &str = "cuEventElapsedTime";
        let at = |event: Event| {
            let gpu = gpu_of(event.0);
            let record = self.shared.record_of(event.0, CALL)?;
            let timed = self.shared.with(|state| state.event(event.0, CALL).map(|event| event.timed))?;
            if !timed {
                return Err(refused(gpu, CALL, "the event was created without a clock"));
            }
            match record.as_ref().and_then(|record| record.ended.get()) {
                Some(end) => end.clone(),
                None => Err(refused(gpu, CALL, "the event is not done, or was never recorded")),
            }
        };
        let (from, to) = (at(from)?, at(to)?);
        let seconds = to.saturating_duration_since(from).as_secs_f64();
        Ok(seconds - from.saturating_duration_since(to).as_secs_f64())
    }

    fn allocate(&self, stream: Stream, bytes: u64) -> Result<Address, GpuError> {
        self.shared.with(|state| state.allocate(stream.0, bytes)).map(Address)
    }

    unsafe fn free(&self, stream: Stream, at: Address) -> Result<(), GpuError> {
        self.shared.with(|state| state.free(stream.0, at.0))
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<*mut u8, GpuError> {
        const CALL: &str = "cuMemHostAlloc";
        self.shared.with(|state| {
            state.any_usable()?;
            let block = Block::new(bytes as u64, PAGE);
            let block =
                block.ok_or_else(|| refused(0, CALL, format!("the host has no room for {bytes} bytes")))?;
            let at = block.pointer();
            state.pinned_allocations += 1;
            state
                .locked
                .insert(at.expose_provenance() as u64, (bytes as u64, Locked::Ours { _block: block }));
            Ok(at)
        })
    }

    unsafe fn free_pinned(&self, at: *mut u8, bytes: usize) {
        self.unlock(at, "cuMemFreeHost", Some(bytes));
    }

    unsafe fn pin(&self, at: *mut u8, bytes: usize) -> Result<(), GpuError> {
        const CALL: &str = "cuMemHostRegister";
        self.shared.with(|state| {
            state.any_usable()?;
            let (from, to) = (at.expose_provenance() as u64, (at.addr() as u64).saturating_add(bytes as u64));
            let before = state.locked.range(..to).next_back();
            if before.is_some_and(|(base, (bytes, _))| base + bytes > from) {
                return Err(refused(0, CALL, format!("host memory at {from:#x} is locked already")));
            }
            state.locked.insert(from, (bytes as u64, Locked::Callers));
            Ok(())
        })
    }

    unsafe fn unpin(&self, at: *mut u8) {
        self.unlock(at, "cuMemHostUnregister", None);
    }

    unsafe fn copy(&self, stream: Stream, to: Place, from: Place, bytes: u64) -> Result<(), GpuError> {
        self.put(stream, Call::Copy { to: to.into(), from: from.into(), bytes })
    }

    unsafe fn zero(&self, stream: Stream, at: Address, bytes: u64) -> Result<(), GpuError> {
        self.put(stream, Call::Zero { at, bytes })
    }

    fn needs_images(&self) -> bool {
        self.reads.is_some()
    }

    fn load(&self, gpu: u32, image: &[u8]) -> Result<Module, GpuError> {
        self.shared.with(|state| {
            state.usable(gpu)?;
            if self.reads.is_some_and(|reads| !reads(image)) {
                return Err(refused(gpu, "cuModuleLoadData", "the image is for none of its kind"));
            }
            state.modules.push(gpu);
            Ok(Module(state.modules.len() as u64 - 1))
        })
    }

    fn kernel(&self, module: Module, name: &str) -> Result<Kernel, GpuError> {
        const CALL: &str = "cuModuleGetFunction";
        self.shared.with(|state| {
            let gpu = state.modules.get(module.0 as usize).copied();
            let gpu = gpu.ok_or_else(|| refused(0, CALL, "the module was never loaded"))?;
            if !self.shared.twins.knows(name) {
                let reason = format!("there is no host version of kernel {name}: give the mock one");
                return Err(refused(gpu, CALL, reason));
            }
            state.kernels.push((gpu, Arc::from(name)));
            Ok(Kernel(state.kernels.len() as u64 - 1))
        })
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        _shared_bytes: u32,
        args: &[Arg],
    ) -> Result<(), GpuError> {
        const CALL: &str = "cuLaunchKernel";
        let gpu = gpu_of(stream.0);
        check_launch(grid, block).map_err(|reason| refused(gpu, CALL, reason))?;
        self.shared.with(|state| {
            let kernel = state.kernels.get(kernel.0 as usize).cloned();
            let (loaded, name) =
                kernel.ok_or_else(|| refused(gpu, CALL, "the kernel was never looked up"))?;
            if loaded != gpu {
                return Err(refused(gpu, CALL, format!("kernel {name} was loaded onto GPU {loaded}")));
            }
            state.submit(stream.0, Call::Launch { name, grid, block, args: args.to_vec() })
        })
    }

    unsafe fn gemm(&self, stream: Stream, gemm: &Gemm) -> Result<(), GpuError> {
        if gemm.is_fp8() && self.without_8_bit_kernels {
            let gpu = gpu_of(stream.0);
            return Err(GpuError::NoKernel { gpu, call: "cublasLtMatmul" });
        }
        let library = if gemm.is_fp8() { Library::CublasLt } else { Library::Cublas };
        let at = vec![[gemm.a.at, gemm.b.at, gemm.c.at]];
        self.routine(stream, library, self.check_product(stream, gemm.check(), gemm), || Call::Gemm {
            shape: *gemm,
            at,
        })
    }

    unsafe fn gemm_batched(&self, stream: Stream, gemm: &BatchedGemm<'_>) -> Result<(), GpuError> {
        let call = || Call::Gemm { shape: gemm.shape, at: gemm.at.to_vec() };
        self.routine(stream, Library::Cublas, self.check_product(stream, gemm.check(), &gemm.shape), call)
    }

    unsafe fn trsm(&self, stream: Stream, trsm: &Trsm) -> Result<(), GpuError> {
        self.routine(stream, Library::Cublas, trsm.check(), || Call::Trsm(*trsm))
    }

    unsafe fn syrk(&self, stream: Stream, syrk: &Syrk) -> Result<(), GpuError> {
        self.routine(stream, Library::Cublas, syrk.check(), || Call::Syrk(*syrk))
    }

    unsafe fn potrf(&self, stream: Stream, potrf: &Potrf) -> Result<(), GpuError> {
        let needed = self.potrf_workspace(stream, potrf.n, potrf.a.element)?;
        self.routine(stream, Library::Cusolver, potrf.check(needed), || Call::Potrf(*potrf))
    }

    fn potrf_workspace(&self, stream: Stream, n: u32, element: Element) -> Result<u64, GpuError> {
        self.needs(Library::Cusolver)?;
        self.shared.with(|state| state.stream(stream.0, "cusolverDnPotrf_bufferSize").map(drop))?;
        // Any size that grows, so that nobody takes one order's for another's.
        Ok(256 + 8 * u64::from(n) * element.bytes())
    }

    fn begin_capture(&self, stream: Stream) -> Result<(), GpuError> {
        self.shared.with(|state| state.begin_capture(stream.0))
    }

    fn end_capture(&self, stream: Stream) -> Result<Graph, GpuError> {
        self.shared.with(|state| state.end_capture(stream.0)).map(Graph)
    }

    unsafe fn launch_graph(&self, stream: Stream, graph: Graph) -> Result<(), GpuError> {
        self.shared.with(|state| state.launch_graph(stream.0, graph.0))
    }

    fn destroy_graph(&self, graph: Graph) {
        self.shared.with(|state| state.destroy_graph(graph.0));
    }

    fn has_ranges(&self) -> bool {
        self.ranges.is_some()
    }

    fn begin_range(&self, name: &str) {
        if let Some(ranges) = &self.ranges {
            ranges.lock().begin(name);
        }
    }

    fn end_range(&self) {
        let ended = self.ranges.as_ref().is_none_or(|ranges| ranges.lock().end());
        if !ended {
            self.shared.with(|state| state.violations.push("a range is ended that was never begun".into()));
        }
    }
}
