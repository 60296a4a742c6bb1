//! What a body for a GPU may ask of it.

use std::ops::Deref;
use std::sync::Arc;

use zellige_gpu::{Address, Driver, GpuError, Stream};
use zellige_runtime::codelet::DeviceContext;
use zellige_runtime::codelet::NewValue;
use zellige_runtime::data::Portable;
use zellige_runtime::device::StreamError;
use zellige_runtime::{TaskContext, TaskError};

use super::error::gpu_error;
use super::memory::GpuStream;

/// The stream of a GPU on which a body or a conversion puts its operations, and what comes with it:
/// a [`DeviceContext`] that knows its driver.
#[derive(Clone, Copy, Debug)]
pub struct GpuContext<'a> {
    cx: &'a DeviceContext<'a>,
    stream: &'a GpuStream,
}

/// Working space in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuScratch {
    /// Where it is.
    pub at: Address,
    /// Its bytes.
    pub bytes: u64,
}

/// Gives a body its GPU.
pub trait GpuTask {
    /// The stream of the GPU on which the body runs.
    ///
    /// # Panics
    /// Anywhere but in a function for [`CUDA`](super::CUDA).
    fn gpu(&self) -> GpuContext<'_>;
}

impl GpuTask for TaskContext<'_> {
    fn gpu(&self) -> GpuContext<'_> {
        GpuContext::of(self.device())
    }
}

impl<'a> Deref for GpuContext<'a> {
    type Target = DeviceContext<'a>;

    fn deref(&self) -> &DeviceContext<'a> {
        self.cx
    }
}

impl<'a> GpuContext<'a> {
    /// The GPU of a context.
    ///
    /// # Panics
    /// If the context is that of another device.
    pub fn of(cx: &'a DeviceContext<'_>) -> Self {
        let stream = cx.stream().downcast().expect("functions for CUDA run on GPUs");
        GpuContext { cx, stream }
    }

    /// The driver.
    pub fn driver(&self) -> &'a Arc<dyn Driver> {
        &self.stream.memory.driver
    }

    /// The stream. What a body puts there runs in order; the body's operands may be used by it, and
    /// by nothing else.
    pub fn stream(&self) -> Stream {
        self.stream.stream
    }

    /// The GPU's number.
    pub fn gpu(&self) -> u32 {
        self.stream.memory.gpu
    }

    /// As [`DeviceContext::scratch`].
    ///
    /// # Errors
    /// As there.
    pub fn scratch(&self, bytes: u64) -> Result<GpuScratch, GpuError> {
        let scratch = self.cx.scratch(bytes).map_err(|error| self.error(error))?;
        Ok(GpuScratch { at: Address(scratch.at), bytes })
    }

    /// As [`DeviceContext::value`].
    ///
    /// # Errors
    /// As there.
    pub fn value<D: Portable>(&self, header: D::Header) -> Result<NewValue<D>, GpuError> {
        self.cx.value(header).map_err(|error| self.error(error))
    }

    /// An error of a call of the context's or of a view's, as one of the driver's.
    pub fn error(&self, error: StreamError) -> GpuError {
        gpu_error(self.gpu(), error)
    }

    /// As [`DeviceContext::read_back`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn read_back(
        &self,
        at: Address,
        bytes: usize,
        then: impl FnOnce(&[u8]) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.cx.read_back(at.0, bytes, then) }.map_err(|error| self.error(error))
    }

    /// Another form of an operand that the body reads, `of` which a part lies there; e.g. its
    /// numbers laid out as a product wants them. What a body `make`s there, by operations on its
    /// stream, lies beside the value from then on, and other bodies that ask for the same form
    /// (`what`, a number of the caller's choice, and always as many bytes) are given it, until the
    /// value is written or gone, or others need the room: one byte for 32 that values may take.
    /// `None`: there is no room, or a replay is recorded; then the body makes it in [working
    /// space](GpuContext::scratch).
    ///
    /// # Errors
    /// The driver's, and what `make` returns.
    pub fn cached_operand(
        &self,
        of: Address,
        what: u32,
        bytes: u64,
        make: impl FnOnce(Address) -> Result<(), GpuError>,
    ) -> Result<Option<Address>, GpuError> {
        self.stream.cached_operand((of, what), bytes, make)
    }
}
