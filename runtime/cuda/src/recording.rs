//! Recording of the operations that bodies put on a stream, which are then launched any number of
//! times.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use zellige_gpu::{GpuError, Graph};
use zellige_runtime::device::{Recording, Stream};

use super::memory::{GpuMemory, GpuStream};

/// A graph of the GPU driver, and the memory that its operations use besides operands.
pub(super) struct GpuRecording {
    memory: Arc<GpuMemory>,
    graph: Graph,
    /// Working space, and values that were replaced.
    _kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl fmt::Debug for GpuRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({:?} on {:?})", self.graph, self.memory)
    }
}

impl Recording for GpuRecording {
    fn is_for(&self, stream: &dyn Stream) -> bool {
        stream.downcast::<GpuStream>().is_some_and(|stream| Arc::ptr_eq(&self.memory, &stream.memory))
    }
}

impl Drop for GpuRecording {
    fn drop(&mut self) {
        // A launch keeps the recording until it has ended.
        self.memory.driver.destroy_graph(self.graph);
    }
}

impl GpuStream {
    /// Records the operations that `body` puts on the stream; none of them runs.
    ///
    /// # Errors
    /// Errors of the driver: the operations cannot be recorded.
    pub(super) fn record(&self, body: &mut dyn FnMut()) -> Result<GpuRecording, GpuError> {
        let others = self.take_kept();
        let recorded = self.capture(body);
        let kept = self.take_kept();
        others.into_iter().for_each(|other| self.keep(other));
        let memory = Arc::clone(&self.memory);
        Ok(GpuRecording { memory, graph: recorded?, _kept: Mutex::new(kept) })
    }

    fn capture(&self, body: &mut dyn FnMut()) -> Result<Graph, GpuError> {
        self.driver().begin_capture(self.stream)?;
        self.records.store(true, Ordering::Relaxed);
        body();
        self.records.store(false, Ordering::Relaxed);
        self.driver().end_capture(self.stream)
    }

    /// Launches the recording. The stream keeps it.
    ///
    /// # Errors
    /// Errors of the driver.
    ///
    /// # Safety
    /// The conditions of [`Stream::play`].
    pub(super) unsafe fn launch(&self, recording: &GpuRecording) -> Result<(), GpuError> {
        // SAFETY: operands are the caller's promise; everything else is kept by the recording, and
        // that by the stream.
        unsafe { self.driver().launch_graph(self.stream, recording.graph) }
    }
}
