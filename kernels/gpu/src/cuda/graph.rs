//! Recorded launches.

use std::ptr;

use cudarc::driver::sys;
use parking_lot::Mutex;

use super::Cuda;
use super::error::refused;
use crate::driver::{Graph, Stream};
use crate::error::GpuError;

/// A graph that can be launched.
#[derive(Debug)]
pub(super) struct Instance {
    gpu: u32,
    context: sys::CUcontext,
    graph: sys::CUgraphExec,
    /// Held by the thread that launches it: the driver does not do that for graphs.
    launching: Mutex<()>,
}

// SAFETY: graphs may be used from any thread, one at a time.
unsafe impl Send for Instance {}
// SAFETY: a shared one is launched by the thread alone that holds `launching`.
unsafe impl Sync for Instance {}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, in a context that outlives it; a launch that is not
        // over ends first.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let _ = sys::cuGraphExecDestroy(self.graph);
        }
    }
}

impl Cuda {
    /// Begins a capture. Handles of libraries are created first, since their allocations cannot be
    /// captured. These are the handles of the libraries that this process has used before, or of
    /// all libraries if there are none.
    pub(super) fn begin(&self, stream: Stream) -> Result<(), GpuError> {
        const CALL: &str = "cuStreamBeginCapture";
        let (queue, gpu) = self.queue(stream, CALL)?;
        self.refuse_capture(&queue, CALL)?;
        let used = self.used.lock().clone();
        self.make_handles(&queue, |library| used.is_empty() || used.contains(&library))?;
        // Relaxed: other threads go on allocating, and a stream may change its thread.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // No call waits for the whole GPU during a capture.
        let mut captures = gpu.captures.lock();
        // SAFETY: the stream is alive.
        self.check_status(queue.gpu, CALL, unsafe { sys::cuStreamBeginCapture_v2(queue.stream, mode) })?;
        *captures += 1;
        Ok(())
    }

    pub(super) fn end(&self, stream: Stream) -> Result<Graph, GpuError> {
        let (queue, gpu) = self.queue(stream, "cuStreamEndCapture")?;
        let began = self.is_capturing(&queue)?;
        let (mut recorded, mut graph) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the stream is alive; writes one handle.
        let result = unsafe { sys::cuStreamEndCapture(queue.stream, &mut recorded) };
        if began {
            *gpu.captures.lock() -= 1;
        }
        self.check_status(queue.gpu, "cuStreamEndCapture", result)?;
        // SAFETY: the recording was ended just now; writes one handle.
        let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut graph, recorded, 0) };
        // SAFETY: it is not needed any more, and destroyed once.
        let _ = unsafe { sys::cuGraphDestroy(recorded) };
        self.check_status(queue.gpu, "cuGraphInstantiate", result)?;
        let launching = Mutex::default();
        let instance = Instance { gpu: queue.gpu, context: gpu.context, graph, launching };
        Ok(Graph(self.graphs.add(instance)))
    }

    /// # Safety
    /// As the trait says, for every operation in the graph.
    pub(super) unsafe fn play(&self, stream: Stream, graph: Graph) -> Result<(), GpuError> {
        const CALL: &str = "cuGraphLaunch";
        let (queue, _) = self.queue(stream, CALL)?;
        let unknown = || refused(queue.gpu, CALL, "the graph was destroyed, or never captured");
        let graph = self.graphs.get(graph.0).ok_or_else(unknown)?;
        if graph.gpu != queue.gpu {
            return Err(refused(queue.gpu, CALL, format!("the graph was captured on GPU {}", graph.gpu)));
        }
        let _alone = graph.launching.lock();
        // SAFETY: both are alive; the operations are the caller's promise.
        self.check_status(queue.gpu, CALL, unsafe { sys::cuGraphLaunch(graph.graph, queue.stream) })
    }
}
