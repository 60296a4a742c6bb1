//! NVIDIA's driver and libraries, through `cudarc`, whose calls are all in this folder.
//!
//! CUDA is needed neither to build nor to start. Libraries are loaded when they are first needed. A
//! missing one is an error with its name, and disables only the functions that need it. The
//! bindings are those of CUDA 13.0. Every call exists since CUDA 11.4, so that drivers and
//! libraries from 11.4 on work.
//!
//! The driver determines the GPUs and their order: it reads `CUDA_VISIBLE_DEVICES` (and
//! `CUDA_DEVICE_ORDER`) itself.

mod blas;
mod driver;
mod error;
mod find;
mod fp8;
mod gpu;
mod graph;
mod nvml;
pub(crate) mod nvrtc;
mod nvtx;
mod probe;
mod product;
mod solver;
mod stream;
mod table;

pub use find::{folder, loaded_from, look_in, skipped};
pub use probe::libraries;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use parking_lot::Mutex;

use self::error::{failed, refused};
use self::gpu::Gpu;
use self::graph::Instance;
use self::stream::{Mark, Queue};
use self::table::Table;
use crate::call::Gemm;
use crate::driver::{Event, Stream};
use crate::error::GpuError;
use crate::info::{GpuInfo, Library};

/// The GPUs of this machine; see the [module](self).
///
/// Device memory comes from each GPU's default pool, in the order of streams, and the process
/// retains memory that was used once. Each stream that multiplies has a cuBLAS handle of its own
/// with a workspace (32 MiB from compute capability 9 on, 4 MiB before), which counts as used
/// memory. Later streams reuse the handles of destroyed ones.
pub struct Cuda {
    infos: Vec<GpuInfo>,
    streams: Table<Queue>,
    events: Table<Mark>,
    modules: Table<LoadedModule>,
    kernels: Table<Function>,
    graphs: Table<Instance>,
    /// Libraries for which handles were created.
    used: Mutex<BTreeSet<Library>>,
    // The last field: the fields above live in its contexts.
    gpus: Vec<Gpu>,
}

/// Kernels on a GPU; they go with its context.
#[derive(Debug)]
struct LoadedModule {
    gpu: u32,
    module: sys::CUmodule,
}

/// A kernel of a module.
#[derive(Debug)]
struct Function {
    gpu: u32,
    function: sys::CUfunction,
}

// SAFETY: modules and functions may be used from any thread.
unsafe impl Send for LoadedModule {}
// SAFETY: modules may be used by several threads concurrently.
unsafe impl Sync for LoadedModule {}
// SAFETY: functions may be used from any thread; their module is never unloaded before them.
unsafe impl Send for Function {}
// SAFETY: functions may be used by several threads concurrently.
unsafe impl Sync for Function {}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("gpus", &self.infos).finish_non_exhaustive()
    }
}

impl Cuda {
    /// Opens every GPU that the driver reports, with a context each, and access to its peers'
    /// memory if that is possible. A GPU that does not open keeps its number, and every use returns
    /// its error ([`Driver::working`](crate::Driver::working)).
    ///
    /// # Errors
    /// [`GpuError::Missing`] if there is no driver, if it is too old, or if there is no GPU;
    /// [`GpuError::Failed`] if none works.
    pub fn open() -> Result<Cuda, GpuError> {
        let (gpus, infos) = gpu::open_all()?;
        Ok(Cuda {
            infos,
            streams: Table::new(),
            events: Table::new(),
            modules: Table::new(),
            kernels: Table::new(),
            graphs: Table::new(),
            used: Mutex::default(),
            gpus,
        })
    }

    /// The GPU, with its context current on the calling thread.
    fn enter(&self, gpu: u32) -> Result<&Gpu, GpuError> {
        let there = self.gpus.get(gpu as usize).ok_or(GpuError::NoGpu { gpu, there: self.gpus.len() })?;
        if let Some(error) = there.lost.get() {
            return Err(error.clone());
        }
        // SAFETY: the context lives as long as `self`.
        self.check_status(gpu, "cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(there.context) })?;
        Ok(there)
    }

    /// Any GPU that works, for what belongs to all.
    fn enter_any(&self) -> Result<u32, GpuError> {
        let usable = self.gpus.iter().position(|gpu| gpu.lost.get().is_none()).unwrap_or_default() as u32;
        self.enter(usable).map(|_| usable)
    }

    /// The driver's answer; a sticky error is remembered.
    fn check_status(&self, gpu: u32, call: &'static str, result: CUresult) -> Result<(), GpuError> {
        if result == CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        let error = failed(gpu, call, result);
        if error.is_sticky()
            && let Some(gpu) = self.gpus.get(gpu as usize)
        {
            let _ = gpu.lost.set(error.clone());
        }
        Err(error)
    }

    /// A stream, with its GPU's context current.
    fn queue(&self, stream: Stream, call: &'static str) -> Result<(Arc<Queue>, &Gpu), GpuError> {
        let unknown = || refused(0, call, "the stream was destroyed, or never created");
        let queue = self.streams.get(stream.0).ok_or_else(unknown)?;
        let gpu = self.enter(queue.gpu)?;
        Ok((queue, gpu))
    }

    /// An event, with its GPU's context current.
    fn mark(&self, event: Event, call: &'static str) -> Result<Arc<Mark>, GpuError> {
        let unknown = || refused(0, call, "the event was destroyed, or never created");
        let mark = self.events.get(event.0).ok_or_else(unknown)?;
        self.enter(mark.gpu)?;
        Ok(mark)
    }

    /// Returns true while the stream is captured.
    fn is_capturing(&self, queue: &Queue) -> Result<bool, GpuError> {
        use sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as NONE;
        let mut status = NONE;
        // SAFETY: the stream is alive; writes one word.
        let result = unsafe { sys::cuStreamIsCapturing(queue.stream, &mut status) };
        self.check_status(queue.gpu, "cuStreamIsCapturing", result).map(|()| status != NONE)
    }

    fn refuse_capture(&self, queue: &Queue, call: &'static str) -> Result<(), GpuError> {
        if self.is_capturing(queue)? {
            return Err(refused(queue.gpu, call, "the stream is being captured: end that first"));
        }
        Ok(())
    }

    /// Fails during a capture: the resources of a stream's routines cannot be created while it is
    /// captured.
    fn refuse_first(&self, queue: &Queue, call: &'static str) -> Result<(), GpuError> {
        if self.is_capturing(queue)? {
            let reason =
                "the stream joined a recording before its first library routine: run one on it before";
            return Err(refused(queue.gpu, call, reason));
        }
        Ok(())
    }

    /// Refuses products that the GPU is too old for: libraries say no more than that they are not
    /// supported.
    fn has_product(&self, gpu: u32, call: &'static str, gemm: &Gemm) -> Result<(), GpuError> {
        self.infos[gpu as usize].check_product(gemm).map_err(|reason| refused(gpu, call, reason))
    }

    fn needs(&self, library: Library) -> Result<(), GpuError> {
        probe::needs(library)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        self.graphs.clear();
        self.events.clear();
        self.streams.clear();
        // Modules go with their contexts.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use std::time::{Duration, Instant};

    #[test]
    fn without_a_driver_opening_says_so_at_once() {
        let start = Instant::now();
        match Cuda::open() {
            Ok(cuda) => assert!(!cuda.gpus().is_empty()),
            Err(error) => {
                assert!(matches!(error, GpuError::Missing { library: Library::Driver, .. }), "{error}");
                assert!(start.elapsed() < Duration::from_secs(5));
                println!("skipped what needs a GPU: {error}");
            }
        }
    }
}
