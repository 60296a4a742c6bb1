//! Marks at the ends of operations on streams, for which other streams and the host wait.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use zellige_gpu::{Event, GpuError, Stream};
use zellige_runtime::device::Mark;

use super::memory::{GpuMemory, GpuStream};

/// An event at the end of an operation. An operation on another stream that waits for it keeps it
/// until that operation has ended.
pub(super) struct GpuMark {
    memory: Arc<GpuMemory>,
    event: Event,
    stream: Stream,
    /// Number among the device's streams for bodies, if its stream is one of these.
    pub(super) lane: usize,
    ended: OnceLock<Instant>,
}

impl fmt::Debug for GpuMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark({:?} on {:?})", self.event, self.stream)
    }
}

impl GpuMark {
    /// Creates a mark at the present end of the stream.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(super) fn at_end_of(stream: &GpuStream, lane: usize) -> Result<Arc<Self>, GpuError> {
        let memory = Arc::clone(&stream.memory);
        let event = memory.event()?;
        let mark = GpuMark { memory, event, stream: stream.stream, lane, ended: OnceLock::new() };
        mark.memory.driver.record(event, stream.stream)?;
        Ok(Arc::new(mark))
    }

    /// Makes later operations on `stream` wait for this one. On its own stream they do anyway.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(super) fn precede(&self, stream: &GpuStream) -> Result<(), GpuError> {
        if self.stream == stream.stream || zellige_runtime::internal::mutant(11) {
            return Ok(());
        }
        stream.driver().wait_event(stream.stream, self.event)
    }

    /// Makes the calling thread wait for the end: it polls for a while, and sleeps then.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(super) fn wait(&self, spins: Duration) -> Result<(), GpuError> {
        let driver = &self.memory.driver;
        if !spins.is_zero() {
            let began = Instant::now();
            while began.elapsed() < spins {
                if driver.is_done(self.event)? {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        driver.wait(self.event)
    }

    /// Notes that the operation has ended.
    pub(super) fn ends(&self, at: Instant) {
        // Only the one thread that waits calls this.
        let _ = self.ended.set(at);
    }
}

impl Mark for GpuMark {
    fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }
}

impl Drop for GpuMark {
    fn drop(&mut self) {
        self.memory.give_event(self.event);
    }
}
