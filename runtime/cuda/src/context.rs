//! The interface of a GPU to the bodies that run on it.

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

/// The stream of a GPU for the operations of a body or a conversion, with its context: a
/// [`DeviceContext`] that knows its driver.
#[derive(Clone, Copy, Debug)]
pub struct GpuContext<'a> {
    cx: &'a DeviceContext<'a>,
    stream: &'a GpuStream,
}

/// Working space in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuScratch {
    /// Its address.
    pub at: Address,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Gives a body access to its GPU.
pub trait GpuTask {
    /// Returns the stream of the GPU on which the body runs.
    ///
    /// # Panics
    /// Outside of a function for [`CUDA`](super::CUDA).
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
    /// Returns the GPU of a context.
    ///
    /// # Panics
    /// If the context is that of another device.
    pub fn of(cx: &'a DeviceContext<'_>) -> Self {
        let stream = cx.stream().downcast().expect("functions for CUDA run on GPUs");
        GpuContext { cx, stream }
    }

    /// Returns the driver.
    pub fn driver(&self) -> &'a Arc<dyn Driver> {
        &self.stream.memory.driver
    }

    /// Returns the stream. The operations of a body on it run in order. They may use the body's
    /// operands, and no other values.
    pub fn stream(&self) -> Stream {
        self.stream.stream
    }

    /// Returns the GPU's number.
    pub fn gpu(&self) -> u32 {
        self.stream.memory.gpu
    }

    /// Allocates working space; see [`DeviceContext::scratch`].
    ///
    /// # Errors
    /// Those of [`DeviceContext::scratch`].
    pub fn scratch(&self, bytes: u64) -> Result<GpuScratch, GpuError> {
        let scratch = self.cx.scratch(bytes).map_err(|error| self.error(error))?;
        Ok(GpuScratch { at: Address(scratch.at), bytes })
    }

    /// Allocates a new value; see [`DeviceContext::value`].
    ///
    /// # Errors
    /// Those of [`DeviceContext::value`].
    pub fn value<D: Portable>(&self, header: D::Header) -> Result<NewValue<D>, GpuError> {
        self.cx.value(header).map_err(|error| self.error(error))
    }

    /// Converts an error of a call of the context or of a view to one of the driver.
    pub fn error(&self, error: StreamError) -> GpuError {
        gpu_error(self.gpu(), error)
    }

    /// Reads bytes back to the host; see [`DeviceContext::read_back`].
    ///
    /// # Errors
    /// Those of [`DeviceContext::read_back`].
    ///
    /// # Safety
    /// The conditions of [`DeviceContext::read_back`].
    pub unsafe fn read_back(
        &self,
        at: Address,
        bytes: usize,
        then: impl FnOnce(&[u8]) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's promise.
        unsafe { self.cx.read_back(at.0, bytes, then) }.map_err(|error| self.error(error))
    }

    /// Returns a cached operand layout: another form of an operand that the body reads, e.g. its
    /// numbers in the layout that a product needs. `of` is the address of a part of the operand.
    /// `make` fills the new memory by operations on the body's stream, and the form is cached with
    /// the value. Other bodies that request the same form (`what`, a number of the caller's choice,
    /// and always the same size) get it, until the value is written or freed, or the memory is
    /// needed. The cache has one byte for 32 bytes of values.
    ///
    /// The result is `None` if there is no room, or a replay is being recorded. Then the body makes
    /// the form in [working space](GpuContext::scratch).
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
