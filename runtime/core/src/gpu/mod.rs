//! GPUs: values in their memory, streams of operations on them, and what a body for one sees.
//!
//! All goes through [`Driver`](zellige_gpu::Driver), so that everything here runs without a GPU on
//! [`zellige_gpu::mock::Mock`]. `README.md` says what is ordered by what.

mod context;
mod copy;
mod device;
mod landing;
mod mark;
mod memory;
mod operand_cache;
mod range;
mod recording;
mod value;
mod views;

pub use context::GpuContext;
pub(crate) use context::Pending;
pub(crate) use copy::Carrier;
pub(crate) use device::GpuDevice;
pub(crate) use mark::Mark;
pub(crate) use memory::{GpuMemory, GpuStream};
pub(crate) use range::Range;
pub(crate) use recording::Recording;
pub(crate) use value::{DeviceValue, Known, Seen};
pub use views::{Cuda, CudaList, CudaMut, CudaRef, CudaScratch, CudaSlot, CudaValue};

use std::sync::Arc;

use zellige_gpu::Driver;

use crate::buffer::PAGE_LOCK_FROM;

/// Describes a GPU for [`RuntimeBuilder::device`](crate::RuntimeBuilder::device): which, and how much of its memory the runtime may use.
///
/// One GPU may be described several times, each time with a part of its memory: they are devices of their own, with transfers between them.
/// Values and the [workspaces of streams](Driver::stream_workspace) of all of them have to fit the GPU's memory together, or the
/// runtime is not built.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) number: u32,
    pub(crate) memory: Option<u64>,
    pub(crate) streams: usize,
    pub(crate) page_lock_from: usize,
}

impl Gpu {
    /// GPU `number` of the driver, and all of its memory but what its streams' workspaces take and a twentieth, which is left for working
    /// space of bodies and for what CUDA and its libraries keep.
    pub fn new(driver: Arc<dyn Driver>, number: u32) -> Self {
        Gpu { driver, number, memory: None, streams: 2, page_lock_from: PAGE_LOCK_FROM }
    }

    /// Bytes of its memory for the values of handles. On top come the [workspaces](Driver::stream_workspace) of its streams, at most 32 MiB each,
    /// working space of bodies, and what CUDA and its libraries keep.
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

    /// [`Buffer`](crate::Buffer)s of at least so many bytes lie in page-locked memory (default 64 KiB); `usize::MAX` for none. Of GPUs
    /// of one driver the first one's counts. At most half of the machine's memory is locked, and at most 1 GiB lies unused.
    #[must_use]
    pub fn page_lock_from(mut self, bytes: usize) -> Self {
        self.page_lock_from = bytes;
        self
    }

    /// Its driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Its number there.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The name under which performance models know it and its like, e.g. `cuda:NVIDIA H200`: times of one kind of GPU say nothing of another's.
    pub fn model_kind(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        info.map_or_else(|| "cuda".into(), |gpu| format!("cuda:{}", gpu.name))
    }

    /// The name under which performance models know its links: it alone, since others of its kind are elsewhere on the bus.
    pub fn link_end(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        let uuid = info.map_or("not there", |gpu| &gpu.uuid);
        format!("{} {uuid}", self.model_kind())
    }

    /// Its number and name.
    pub(crate) fn title(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        format!("GPU {}: {}", self.number, info.map_or("not there", |gpu| &gpu.name))
    }

    /// Bytes of its memory for the values of handles: as was said, else nearly all of it.
    pub fn bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| {
            let all = self.all_memory().unwrap_or_default();
            (all - all / 20).saturating_sub(self.workspaces())
        })
    }

    /// Bytes of the GPU's memory; `None` if there is no such GPU.
    fn all_memory(&self) -> Option<u64> {
        self.driver.gpus().get(self.number as usize).map(|gpu| gpu.memory)
    }

    /// Bytes that the workspaces of its streams take.
    fn workspaces(&self) -> u64 {
        self.driver.stream_workspace(self.number).saturating_mul(self.streams as u64)
    }

    /// What it asks for.
    fn in_words(&self) -> String {
        let each = self.driver.stream_workspace(self.number);
        format!("({} for values + {} streams of {each})", self.bytes(), self.streams)
    }

    /// True for descriptions of one GPU.
    fn shares_with(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.driver, &other.driver) && self.number == other.number
    }
}

/// Refuses descriptions that do not fit the memory of their GPUs.
///
/// # Errors
/// In words.
pub(crate) fn check_memory(gpus: &[&Gpu]) -> Result<(), String> {
    for gpu in gpus {
        // One that is not there is told of by who opens it.
        let Some(all) = gpu.all_memory() else { continue };
        let sharers: Vec<&Gpu> = gpus.iter().copied().filter(|other| gpu.shares_with(other)).collect();
        let each = sharers.iter().map(|gpu| gpu.bytes().saturating_add(gpu.workspaces()));
        let asked = each.fold(0, u64::saturating_add);
        if asked > all {
            let terms: Vec<String> = sharers.iter().map(|gpu| gpu.in_words()).collect();
            return Err(format!(
                "GPU {} has {all} bytes of memory, and {asked} are asked for: {}; give each device less (Gpu::memory), or \
                 fewer streams (Gpu::streams)",
                gpu.number,
                terms.join(" + ")
            ));
        }
    }
    Ok(())
}
