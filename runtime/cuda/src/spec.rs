//! Descriptions of GPUs.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use zellige_gpu::Driver;
use zellige_runtime::TaskError;
use zellige_runtime::device::{Device, DeviceSpec, HostAllocator, LaunchDepth, Opening, POOLED_FROM};

use super::device::GpuDevice;
use super::memory::GpuMemory;

/// Number of CPUs from which on threads of streams poll before they sleep: a stream has one such
/// thread, and workers have theirs.
const SPINNING_CPUS: usize = 8;
/// Their polling time: about the time of a wake-up.
const SPINS: Duration = Duration::from_micros(50);
/// Bytes for values from which on [`Gpu::DEPTH`] is the default.
const DEEP_FROM: u64 = 4 << 30;

/// Describes a GPU for [`RuntimeBuilder::device`](zellige_runtime::RuntimeBuilder::device): its
/// number, and the part of its memory that the runtime may use.
///
/// One GPU may be described several times, each time with a part of its memory: these are separate
/// devices, with transfers between them. Values and the [workspaces of
/// streams](Driver::stream_workspace) of all of them have to fit into the GPU's memory together, or
/// the runtime is not built.
#[derive(Clone, Debug)]
pub struct Gpu {
    driver: Arc<dyn Driver>,
    number: u32,
    memory: Option<u64>,
    streams: usize,
    urgent: bool,
    depth: Option<LaunchDepth>,
    spins: Option<Duration>,
    page_lock_from: usize,
    /// Default of [`bytes`](Gpu::bytes), computed once.
    found: OnceLock<u64>,
}

impl Gpu {
    /// Default number of streams for bodies. With these and [`DEPTH`](Gpu::DEPTH), factorisation
    /// and solve of a reconstructor took a sixth less time on an H200 than with 2 streams and half
    /// the depth, and as long as with more.
    pub const STREAMS: usize = 3;
    /// Default number of tasks given to the GPU ahead of their execution, if values have 4 GiB or
    /// more. With less memory it is half of that, [`LaunchDepth::default`]: tasks given ahead hold
    /// their operands, and working space has to fit as well.
    pub const DEPTH: LaunchDepth = LaunchDepth { ahead: 4, launched: 4, ordered: 8 };

    /// Describes GPU `number` of the driver, with all of its memory that is free after the
    /// installed libraries have been loaded. The workspaces of its streams are subtracted, and a
    /// twentieth of all memory, which is left for working space of bodies and for libraries loaded
    /// later.
    pub fn new(driver: Arc<dyn Driver>, number: u32) -> Self {
        Gpu {
            driver,
            number,
            memory: None,
            streams: Gpu::STREAMS,
            urgent: false,
            depth: None,
            spins: None,
            page_lock_from: POOLED_FROM,
            found: OnceLock::new(),
        }
    }

    /// Sets the bytes of its memory for the values of handles. Not included are the
    /// [workspaces](Driver::stream_workspace) of its streams, at most 32 MiB each, working space of
    /// bodies, and the memory that CUDA and its libraries keep.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the number of streams on which bodies run concurrently (default
    /// [`STREAMS`](Gpu::STREAMS), at least 1).
    #[must_use]
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = streams.max(1);
        self.found = OnceLock::new(); // their workspaces count
        self
    }

    /// Adds a stream of the highest priority that the GPU supports, for bodies of tasks whose
    /// [priority](zellige_runtime::CodeletBuilder::priority) is above that of all tasks in
    /// progress.
    #[must_use]
    pub fn urgent_stream(mut self, urgent: bool) -> Self {
        self.urgent = urgent;
        self.found = OnceLock::new();
        self
    }

    /// Sets the number of tasks given to it ahead of their execution (default: see
    /// [`DEPTH`](Gpu::DEPTH)).
    #[must_use]
    pub fn depth(mut self, depth: LaunchDepth) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Sets the time for which a thread of a stream polls for the end of an operation before it
    /// sleeps (default: 50 us if this process has 8 CPUs or more, otherwise 0). A sleeping thread
    /// learns of the end some microseconds later.
    #[must_use]
    pub fn spins(mut self, time: Duration) -> Self {
        self.spins = Some(time);
        self
    }

    /// Returns the number of tasks given to it ahead of their execution.
    pub fn launch_depth(&self) -> LaunchDepth {
        self.depth
            .unwrap_or_else(|| if self.bytes() >= DEEP_FROM { Gpu::DEPTH } else { LaunchDepth::default() })
    }

    fn spin_time(&self) -> Duration {
        let cpus = || thread::available_parallelism().map_or(1, usize::from);
        self.spins.unwrap_or_else(|| if cpus() >= SPINNING_CPUS { SPINS } else { Duration::ZERO })
    }

    /// Sets the size from which on [`Buffer`](zellige_runtime::Buffer)s lie in page-locked memory
    /// (default 64 KiB); `usize::MAX` for none. For several GPUs of one driver the setting of the
    /// first one counts. At most half of the machine's memory is locked, and at most 1 GiB of
    /// unused memory is kept.
    #[must_use]
    pub fn page_lock_from(mut self, bytes: usize) -> Self {
        self.page_lock_from = bytes;
        self
    }

    /// Returns its driver.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Returns its number in the driver.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns its kind in performance models, e.g. `cuda:NVIDIA H200`: times of one kind of GPU
    /// are not valid for another.
    pub fn model_kind(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        info.map_or_else(|| "cuda".into(), |gpu| format!("cuda:{}", gpu.name))
    }

    /// Returns its name in performance models of links: it is unique to this GPU, since others of
    /// its kind have another position on the bus.
    pub fn link_end(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        let uuid = info.map_or("not there", |gpu| &gpu.uuid);
        format!("{} {uuid}", self.model_kind())
    }

    /// Returns the bytes of its memory for the values of handles: as set, or nearly all of it.
    pub fn bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| *self.found.get_or_init(|| self.find()))
    }

    fn find(&self) -> u64 {
        // A GPU that does not work reports that when it is opened.
        if let Err(error) = self.driver.load_libraries(self.number) {
            tracing::debug!("libraries of GPU {}: {error}", self.number);
        }
        let all = self.all_memory().unwrap_or_default();
        let free = self.driver.memory(self.number).map_or(all, |(free, _)| free);
        free.saturating_sub(all / 20).saturating_sub(self.workspaces())
    }

    /// Returns the bytes of the GPU's memory; `None` if there is no such GPU.
    fn all_memory(&self) -> Option<u64> {
        self.driver.gpus().get(self.number as usize).map(|gpu| gpu.memory)
    }

    /// Returns the number of streams for bodies, including the urgent one.
    fn computes(&self) -> usize {
        self.streams + usize::from(self.urgent)
    }

    /// Returns the bytes of the workspaces of its streams.
    fn workspaces(&self) -> u64 {
        self.driver.stream_workspace(self.number).saturating_mul(self.computes() as u64)
    }

    /// Describes its memory request.
    fn in_words(&self) -> String {
        let each = self.driver.stream_workspace(self.number);
        format!("({} for values + {} streams of {each})", self.bytes(), self.computes())
    }

    /// True for descriptions of the same GPU.
    fn shares_with(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.driver, &other.driver) && self.number == other.number
    }
}

impl From<Gpu> for Arc<dyn DeviceSpec> {
    fn from(gpu: Gpu) -> Self {
        Arc::new(gpu)
    }
}

impl DeviceSpec for Gpu {
    fn kind(&self) -> &str {
        "cuda"
    }

    fn capacity(&self) -> u64 {
        self.bytes()
    }

    fn title(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        format!("GPU {}: {}", self.number, info.map_or("not there", |gpu| &gpu.name))
    }

    fn capability(&self) -> Option<(u32, u32)> {
        Some(self.driver.gpus().get(self.number as usize)?.compute_capability)
    }

    fn model_kind(&self) -> String {
        Gpu::model_kind(self)
    }

    /// Unique to this GPU, since others of its kind have another position on the bus: constant over
    /// runs.
    fn link_end(&self, _number: usize) -> String {
        Gpu::link_end(self)
    }

    fn pinned(&self) -> Option<(Arc<dyn HostAllocator>, usize)> {
        Some((Arc::new(PinnedBy(Arc::clone(&self.driver))), self.page_lock_from))
    }

    /// Refuses descriptions that together do not fit the memory of their GPU.
    fn check(&self, all: &[Arc<dyn DeviceSpec>]) -> Result<(), String> {
        // A missing GPU is reported when it is opened.
        let Some(memory) = self.all_memory() else { return Ok(()) };
        let gpus = all.iter().filter_map(|spec| spec.downcast::<Gpu>());
        let sharers: Vec<&Gpu> = gpus.filter(|other| self.shares_with(other)).collect();
        let each = sharers.iter().map(|gpu| gpu.bytes().saturating_add(gpu.workspaces()));
        let needed = each.fold(0, u64::saturating_add);
        if needed <= memory {
            return Ok(());
        }
        let terms: Vec<String> = sharers.iter().map(|gpu| gpu.in_words()).collect();
        Err(format!(
            "GPU {} has {memory} bytes of memory, and {needed} are asked for: {}; give each device less (Gpu::memory), or \
             fewer streams (Gpu::streams)",
            self.number,
            terms.join(" + ")
        ))
    }

    fn open(&self, opening: Opening) -> Result<Arc<dyn Device>, String> {
        let memory = GpuMemory::new(&opening.name, self, opening.pool).map_err(|error| error.to_string())?;
        Ok(Arc::new(GpuDevice::new(
            memory,
            self.computes(),
            self.urgent,
            self.launch_depth(),
            self.spin_time(),
            opening.subnormals,
        )))
    }
}

/// Page-locked memory of a driver.
#[derive(Debug)]
struct PinnedBy(Arc<dyn Driver>);

impl HostAllocator for PinnedBy {
    fn allocate(&self, bytes: usize) -> Result<*mut u8, TaskError> {
        Ok(self.0.allocate_pinned(bytes)?)
    }

    unsafe fn free(&self, at: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free_pinned(at, bytes) }
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}
