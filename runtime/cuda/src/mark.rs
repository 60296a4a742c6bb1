//! The ends of operations on streams, as other streams and the host wait for them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use zellige_gpu::{Event, GpuError, Stream};
use zellige_runtime::device::Mark;

use super::memory::{GpuMemory, GpuStream};

/// An event at the end of an operation. Whoever lets another stream wait for it keeps it until that
/// has gone on.
pub(super) struct GpuMark {
    memory: Arc<GpuMemory>,
    event: Event,
    stream: Stream,
    /// Which of the device's streams for bodies, if it is one.
    pub(super) lane: usize,
    ended: OnceLock<Instant>,
}

impl fmt::Debug for GpuMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark({:?} on {:?})", self.event, self.stream)
    }
}

impl GpuMark {
    /// One at the end of what is on the stream now.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn at_end_of(stream: &GpuStream, lane: usize) -> Result<Arc<Self>, GpuError> {
        let memory = Arc::clone(&stream.memory);
        let event = memory.event()?;
        let mark = GpuMark { memory, event, stream: stream.stream, lane, ended: OnceLock::new() };
        mark.memory.driver.record(event, stream.stream)?;
        Ok(Arc::new(mark))
    }

    /// What is put on the stream from now on comes after the operation. On its own stream it does
    /// anyway.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn precede(&self, stream: &GpuStream) -> Result<(), GpuError> {
        if self.stream == stream.stream || zellige_runtime::internal::mutant(11) {
            return Ok(());
        }
        stream.driver().wait_event(stream.stream, self.event)
    }

    /// Lets the calling thread wait for the end: it asks for a while, and sleeps then.
    ///
    /// # Errors
    /// The driver's.
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

    /// The operation has ended.
    pub(super) fn ends(&self, at: Instant) {
        // The one thread that waits says so.
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
