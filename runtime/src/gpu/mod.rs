//! GPUs: values in their memory, streams of operations on them, and what a body for one sees.
//!
//! All goes through [`Driver`](zellige_gpu::Driver), so that everything here runs without a GPU on
//! [`zellige_gpu::fake::Fake`]. `README.md` says what is ordered by what.

mod context;
mod copy;
mod device;
mod memory;
mod value;
mod views;

pub use context::GpuContext;
pub(crate) use context::Pending;
pub(crate) use copy::Carrier;
pub(crate) use device::GpuDevice;
pub(crate) use memory::{GpuMemory, GpuStream};
pub(crate) use value::DeviceValue;
pub use views::{Cuda, CudaList, CudaMut, CudaRef, CudaScratch, CudaSlot, CudaValue};

use std::sync::Arc;

use zellige_gpu::Driver;

/// Describes a GPU for [`RuntimeBuilder::device`](crate::RuntimeBuilder::device): which, and how much of its memory the runtime may use.
///
/// One GPU may be described several times, each time with a part of its memory: they are devices of their own, with transfers between them.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) number: u32,
    pub(crate) memory: Option<u64>,
    pub(crate) streams: usize,
}

impl Gpu {
    /// GPU `number` of the driver, and all of its memory but a twentieth, which is left for working space.
    pub fn new(driver: Arc<dyn Driver>, number: u32) -> Self {
        Gpu { driver, number, memory: None, streams: 2 }
    }

    /// Bytes of its memory for the values of handles. Working space of bodies comes on top.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Streams on which bodies run side by side (default 2, at least 1).
    #[must_use]
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = streams.max(1);
        self
    }

    /// Bytes that the runtime may use.
    pub(crate) fn capacity(&self) -> u64 {
        let all = self.driver.gpus().get(self.number as usize).map_or(0, |gpu| gpu.memory);
        self.memory.unwrap_or(all - all / 20)
    }
}
