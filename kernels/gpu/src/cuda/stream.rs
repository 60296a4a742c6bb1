//! Streams and events, and what belongs to them.

use std::sync::Arc;

use cudarc::driver::sys;
use parking_lot::Mutex;

use super::blas::Blas;
use super::fp8::Light;
use super::solver::Solver;

/// A stream.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) gpu: u32,
    pub(super) context: sys::CUcontext,
    pub(super) stream: sys::CUstream,
    /// Handles of libraries, created when they are first needed.
    pub(super) handles: Mutex<Handles>,
    /// Pool that receives the handles when the stream is destroyed.
    pub(super) spare: Spare,
}

/// Handles of destroyed streams; see [`Gpu::spare`](super::gpu::Gpu::spare).
pub(super) type Spare = Arc<Mutex<Vec<Handles>>>;

/// Handles of libraries, those of one stream or of none.
#[derive(Debug, Default)]
pub(super) struct Handles {
    pub(super) blas: Option<Blas>,
    pub(super) light: Option<Light>,
    pub(super) solver: Option<Solver>,
    pub(super) workspace: Option<Workspace>,
}

// SAFETY: handles of libraries may be used from any thread, one at a time.
unsafe impl Send for Handles {}

/// Device memory for a stream's library routines.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) at: sys::CUdeviceptr,
    pub(super) bytes: usize,
    /// True if it came from the GPU's pool.
    pub(super) pooled: bool,
}

// SAFETY: CUDA's handles may be used from any thread; those of libraries only one at a time, which
// the lock sees to.
unsafe impl Send for Queue {}
// SAFETY: a shared queue's stream may be used by several threads concurrently; the rest is
// protected by its lock.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the context lives as long as the driver, which drops its streams first. If a call
        // fails, the GPU is lost with everything that the stream held there.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let handles = std::mem::take(self.handles.get_mut());
            let Handles { blas, light, solver, workspace } = handles;
            if blas.is_some() || light.is_some() || solver.is_some() {
                // Queued operations may use internal memory of a handle, and the next stream does
                // not wait for them.
                let _ = sys::cuStreamSynchronize(self.stream);
                self.spare.lock().push(Handles { blas, light, solver, workspace: None });
            }
            if let Some(Workspace { at, pooled, .. }) = workspace {
                // Behind its last use: in the order of the stream, or because the call waits for
                // the GPU.
                let _ = if pooled { sys::cuMemFreeAsync(at, self.stream) } else { sys::cuMemFree_v2(at) };
            }
            // The stream ends once its queued operations have ended; the call returns immediately.
            let _ = sys::cuStreamDestroy_v2(self.stream);
        }
    }
}

/// An event.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) gpu: u32,
    pub(super) context: sys::CUcontext,
    pub(super) event: sys::CUevent,
    pub(super) timed: bool,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Mark {}
// SAFETY: events may be used by several threads concurrently.
unsafe impl Sync for Mark {}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, in a context that outlives it.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let _ = sys::cuEventDestroy_v2(self.event);
        }
    }
}
