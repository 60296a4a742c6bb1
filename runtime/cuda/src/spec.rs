//! Descriptions of GPUs.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use zellige_gpu::Driver;
use zellige_runtime::TaskError;
use zellige_runtime::device::{Device, DeviceSpec, HostAllocator, LaunchDepth, Opening, POOLED_FROM};

use super::device::GpuDevice;
use super::memory::GpuMemory;

/// CPUs from which on threads of streams ask before they sleep: a stream has one such thread, and
/// workers have theirs.
const SPINNING_CPUS: usize = 8;
/// How long they ask then: about what it takes to be woken.
const SPINS: Duration = Duration::from_micros(50);
/// Bytes for values from which on [`Gpu::DEPTH`] is the default.
const DEEP_FROM: u64 = 4 << 30;

/// Describes a GPU for [`RuntimeBuilder::device`](zellige_runtime::RuntimeBuilder::device): which,
/// and how much of its memory the runtime may use.
///
/// One GPU may be described several times, each time with a part of its memory: they are devices of
/// their own, with transfers between them. Values and the [workspaces of
/// streams](Driver::stream_workspace) of all of them have to fit the GPU's memory together, or the
/// runtime is not built.
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
    /// What [`bytes`](Gpu::bytes) has found where nothing was said.
    found: OnceLock<u64>,
}

impl Gpu {
    /// Streams for bodies where nothing is said. With these and [`DEPTH`](Gpu::DEPTH) factorisation
    /// and solve of a reconstructor took a sixth less time on an H200 than with 2 streams and half
    /// the depth, and as long as with more.
    pub const STREAMS: usize = 3;
    /// How many tasks it is given before it needs them, where nothing is said and values have 4 GiB
    /// or more. With less it is half of that, [`LaunchDepth::default`]: what is given ahead holds
    /// its operands, and working space has to be found beside them.
    pub const DEPTH: LaunchDepth = LaunchDepth { ahead: 4, launched: 4, ordered: 8 };

    /// GPU `number` of the driver, and all of its memory that is free once the libraries that are
    /// there have what they keep, but for what its streams' workspaces take and a twentieth of all,
    /// which is left for working space of bodies and for what libraries load later.
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

    /// Bytes of its memory for the values of handles. On top come the
    /// [workspaces](Driver::stream_workspace) of its streams, at most 32 MiB each, working space of
    /// bodies, and what CUDA and its libraries keep.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Streams on which bodies run side by side (default [`STREAMS`](Gpu::STREAMS), at least 1).
    #[must_use]
    pub fn streams(mut self, streams: usize) -> Self {
        self.streams = streams.max(1);
        self.found = OnceLock::new(); // their workspaces count
        self
    }

    /// One more stream, of the highest priority that the GPU has, for bodies of tasks whose
    /// [priority](zellige_runtime::CodeletBuilder::priority) is above that of all that is under
    /// way.
    #[must_use]
    pub fn urgent_stream(mut self, urgent: bool) -> Self {
        self.urgent = urgent;
        self.found = OnceLock::new();
        self
    }

    /// How many tasks it is given before it needs them (default: see [`DEPTH`](Gpu::DEPTH)).
    #[must_use]
    pub fn depth(mut self, depth: LaunchDepth) -> Self {
        self.depth = Some(depth);
        self
    }

    /// How long a thread of a stream asks whether an operation has ended before it sleeps until
    /// then (default: 50 us where this process has 8 CPUs or more, else not at all). Who sleeps
    /// learns of the end some microseconds later.
    #[must_use]
    pub fn spins(mut self, time: Duration) -> Self {
        self.spins = Some(time);
        self
    }

    /// How many tasks it will be given.
    pub fn launch_depth(&self) -> LaunchDepth {
        self.depth
            .unwrap_or_else(|| if self.bytes() >= DEEP_FROM { Gpu::DEPTH } else { LaunchDepth::default() })
    }

    fn spin_time(&self) -> Duration {
        let cpus = || thread::available_parallelism().map_or(1, usize::from);
        self.spins.unwrap_or_else(|| if cpus() >= SPINNING_CPUS { SPINS } else { Duration::ZERO })
    }

    /// [`Buffer`](zellige_runtime::Buffer)s of at least so many bytes lie in page-locked memory
    /// (default 64 KiB); `usize::MAX` for none. Of GPUs of one driver the first one's counts. At
    /// most half of the machine's memory is locked, and at most 1 GiB lies unused.
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

    /// The name under which performance models know it and its like, e.g. `cuda:NVIDIA H200`: times
    /// of one kind of GPU say nothing of another's.
    pub fn model_kind(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        info.map_or_else(|| "cuda".into(), |gpu| format!("cuda:{}", gpu.name))
    }

    /// The name under which performance models know its links: it alone, since others of its kind
    /// are elsewhere on the bus.
    pub fn link_end(&self) -> String {
        let info = self.driver.gpus().get(self.number as usize);
        let uuid = info.map_or("not there", |gpu| &gpu.uuid);
        format!("{} {uuid}", self.model_kind())
    }

    /// Bytes of its memory for the values of handles: as was said, else nearly all of it.
    pub fn bytes(&self) -> u64 {
        self.memory.unwrap_or_else(|| *self.found.get_or_init(|| self.find()))
    }

    fn find(&self) -> u64 {
        // A GPU that does not work says so when it is opened.
        if let Err(error) = self.driver.load_libraries(self.number) {
            tracing::debug!("libraries of GPU {}: {error}", self.number);
        }
        let all = self.all_memory().unwrap_or_default();
        let free = self.driver.memory(self.number).map_or(all, |(free, _)| free);
        free.saturating_sub(all / 20).saturating_sub(self.workspaces())
    }

    /// Bytes of the GPU's memory; `None` if there is no such GPU.
    fn all_memory(&self) -> Option<u64> {
        self.driver.gpus().get(self.number as usize).map(|gpu| gpu.memory)
    }

    /// Streams for bodies, the urgent one among them.
    fn computes(&self) -> usize {
        self.streams + usize::from(self.urgent)
    }

    /// Bytes that the workspaces of its streams take.
    fn workspaces(&self) -> u64 {
        self.driver.stream_workspace(self.number).saturating_mul(self.computes() as u64)
    }

    /// What it asks for.
    fn in_words(&self) -> String {
        let each = self.driver.stream_workspace(self.number);
        format!("({} for values + {} streams of {each})", self.bytes(), self.computes())
    }

    /// True for descriptions of one GPU.
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

    /// It alone, since others of its kind are elsewhere on the bus: the same in every run.
    fn link_end(&self, _number: usize) -> String {
        Gpu::link_end(self)
    }

    fn pinned(&self) -> Option<(Arc<dyn HostAllocator>, usize)> {
        Some((Arc::new(PinnedBy(Arc::clone(&self.driver))), self.page_lock_from))
    }

    /// Refuses descriptions that together do not fit the memory of their GPU.
    fn check(&self, all: &[Arc<dyn DeviceSpec>]) -> Result<(), String> {
        // One that is not there is told of by who opens it.
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
