//! What bodies put on a stream, recorded instead of run, and then launched any number of times.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use zellige_gpu::{GpuError, Graph};

use super::memory::{GpuMemory, GpuStream};

/// A graph of a GPU's, and what its operations use besides operands.
pub(crate) struct Recording {
    memory: Arc<GpuMemory>,
    graph: Graph,
    /// Working space, and values that were replaced.
    _kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({:?} on {:?})", self.graph, self.memory)
    }
}

impl Recording {
    /// True if it was recorded for the device of the stream.
    pub(crate) fn is_for(&self, stream: &GpuStream) -> bool {
        Arc::ptr_eq(&self.memory, &stream.memory)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Whoever launches it keeps it until the launch has ended.
        self.memory.driver.destroy_graph(self.graph);
    }
}

impl GpuStream {
    /// Records what `body` puts on the stream; nothing of it runs.
    ///
    /// # Errors
    /// The driver's: what cannot be recorded.
    pub(crate) fn record<R>(&self, body: impl FnOnce() -> R) -> Result<(R, Arc<Recording>), GpuError> {
        let others = self.take_kept();
        let recorded = self.capture(body);
        let kept = self.take_kept();
        others.into_iter().for_each(|other| self.keep_again(other));
        let (result, graph) = recorded?;
        let recording = Recording { memory: Arc::clone(&self.memory), graph, _kept: Mutex::new(kept) };
        Ok((result, Arc::new(recording)))
    }

    fn capture<R>(&self, body: impl FnOnce() -> R) -> Result<(R, Graph), GpuError> {
        self.driver().begin_capture(self.stream)?;
        self.records.store(true, Ordering::Relaxed);
        let result = body();
        self.records.store(false, Ordering::Relaxed);
        Ok((result, self.driver().end_capture(self.stream)?))
    }

    /// Launches it.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The operands of what was recorded are where they were, and the caller may use them until what is queued now has ended.
    pub(crate) unsafe fn play(&self, recording: &Arc<Recording>) -> Result<(), GpuError> {
        self.keep(Arc::clone(recording));
        // SAFETY: operands are the caller's promise; everything else is kept by the recording, and that by the stream.
        unsafe { self.driver().launch_graph(self.stream, recording.graph) }
    }
}
