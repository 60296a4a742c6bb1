//! What a runtime is made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zellige_model::Models;

use super::Runtime;
use crate::clock::Clock;
use crate::device::{DeviceSpec, Events};
use crate::engine::graph::DeviceGraphs;
use crate::engine::transfer::{Candidate, Chooser, HostMemory, Log, TransferDriver};
use crate::engine::{self, DEFAULT_WINDOW, Parts, Shared, Watchdog, Window, WorkerSlot};
use crate::error::Error;
use crate::memory::LinkSpec;
use crate::sched::{self, Policy};
use crate::subnormals::Subnormals;
use crate::swap::Swap;
use crate::topology::{self, CoreInfo, Topology};
use crate::trace_recorder::{self, TraceRecorder};

/// Bytes that a worker takes before it has run a task: the used part of its stack, its tables and
/// the system's.
///
/// ```
/// use zellige_runtime::WORKER_BYTES;
///
/// let thousand = 1000 * WORKER_BYTES;
/// assert!(thousand < 100 << 20);
/// ```
pub const WORKER_BYTES: u64 = 64 << 10;

/// Decides what a [`Runtime`] is made of.
///
/// ```
/// use zellige_runtime::{Emulated, Runtime};
///
/// let rt = Runtime::builder().workers(2).device(Emulated::new(1 << 30)).policy("dmdas").trace(true).build()?;
/// assert_eq!(rt.workers(), 3); // the device has a worker of its own
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct RuntimeBuilder {
    workers: Option<usize>,
    devices: Vec<Arc<dyn DeviceSpec>>,
    peers: Option<LinkSpec>,
    gpu_only: bool,
    device_graphs: DeviceGraphs,
    host_memory: Option<u64>,
    swap: SwapChoice,
    victims: Option<Chooser>,
    policy: PolicyChoice,
    window: usize,
    trace: Option<usize>,
    bind: bool,
    subnormals: Option<Subnormals>,
    patience: Option<Duration>,
    models: Option<Arc<Models>>,
    on_stall: Box<dyn Fn(String) + Send>,
    seed: Option<u64>,
}

/// Where goes what the host has no room for.
enum SwapChoice {
    None,
    Folder(PathBuf),
    #[cfg(test)]
    Given(Box<Swap>),
}

impl SwapChoice {
    fn open(self) -> Result<Option<Swap>, Error> {
        match self {
            SwapChoice::None => Ok(None),
            SwapChoice::Folder(folder) => Swap::open(&folder).map(Some),
            #[cfg(test)]
            SwapChoice::Given(swap) => Ok(Some(*swap)),
        }
    }
}

enum PolicyChoice {
    Named(String),
    Given(Box<dyn Policy>),
}

impl RuntimeBuilder {
    pub(super) fn new() -> Self {
        RuntimeBuilder {
            workers: None,
            devices: Vec::new(),
            peers: None,
            gpu_only: false,
            device_graphs: DeviceGraphs::default(),
            host_memory: None,
            swap: SwapChoice::None,
            victims: None,
            policy: PolicyChoice::Named("lws".into()),
            window: DEFAULT_WINDOW,
            trace: None,
            bind: true,
            subnormals: None,
            patience: Some(Duration::from_secs(30)),
            models: None,
            on_stall: Box::new(|message| tracing::warn!("{message}")),
            seed: None,
        }
    }

    /// How many workers for CPU cores; by default one per core that this process may use. The
    /// thread that submits tasks is none of them. Where there are
    /// [devices](RuntimeBuilder::device), there may be none at all.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// One more device with memory of its own, and a worker to drive it. The runtime then brings
    /// operands to where tasks run, and what they wrote to where it is asked for.
    #[must_use]
    pub fn device(mut self, device: impl Into<Arc<dyn DeviceSpec>>) -> Self {
        self.devices.push(device.into());
        self
    }

    /// Links every device to every other, at this rate each way (bytes per second); without, what
    /// goes from one to another passes through the host. GPUs are linked where they reach each
    /// other's memory, at the rate that is measured then.
    #[must_use]
    pub fn peers(mut self, bytes_per_second: f64) -> Self {
        self.peers = Some(LinkSpec { bandwidth: bytes_per_second, latency_ns: 0 });
        self
    }

    /// Leaves tasks that have a [function for devices](crate::Codelet::on_devices) to GPUs: another
    /// worker gets one only where no GPU can run it, since its operands have no room on any, or all
    /// have failed. Without, whoever is free may get it, as the policy says; where the two round
    /// differently, results then depend on who was.
    #[must_use]
    pub fn gpu_only(mut self, on: bool) -> Self {
        self.gpu_only = on;
        self
    }

    /// Whether replays of recorded graphs are put on a GPU in one launch, where they can be: if
    /// that is faster, unless said.
    #[must_use]
    pub fn device_graphs(mut self, when: DeviceGraphs) -> Self {
        self.device_graphs = when;
        self
    }

    /// Lets the values of handles take `bytes` of host memory, those included that tasks and
    /// callers have in use; without, they take as many as they need. A handle's value counts from
    /// its first task on, and until the runtime ends: then every handle that is left gets its value
    /// back, whatever that takes.
    ///
    /// Tasks wait for memory, and one whose operands can never be there at once is refused with
    /// [`Error::TooLarge`]. Without [`swap`](RuntimeBuilder::swap) a value leaves the host only for
    /// a device. The limit gives way where nothing else would go on: values that a caller reads or
    /// writes in place are brought in any case, values of types that are not
    /// [`Portable`](crate::data::Portable) and slices of the caller's stay, and if what stays
    /// leaves too little for a task, it runs once no other one does. [`Runtime::memory`] says how
    /// many bytes there were.
    #[must_use]
    pub fn host_memory(mut self, bytes: u64) -> Self {
        self.host_memory = Some(bytes);
        self
    }

    /// Writes what [`host_memory`](RuntimeBuilder::host_memory) has no room for to a file in
    /// `folder`, and reads it back when a task or caller asks for it: where there is no other copy,
    /// and in the form in which it was written last.
    ///
    /// The file has no name: it is gone when the runtime is, also if the process is killed. It
    /// bypasses the page cache where the file system allows that. Once it cannot grow (the disk is
    /// full, say), values stay in host memory beyond the limit, and the log says so; if it cannot
    /// be read, values that are only there are lost, by name. `folder` should be on a local disk:
    /// on a `tmpfs` it is memory again.
    ///
    /// A limit on sizes of files (`ulimit -f`) counts as a full disk where the program ignores or
    /// blocks the signal SIGXFSZ, as the command `zellige` and CPython do; elsewhere the system
    /// ends the process. A library leaves signals to the program.
    #[must_use]
    pub fn swap(mut self, folder: impl Into<PathBuf>) -> Self {
        self.swap = SwapChoice::Folder(folder.into());
        self
    }

    #[cfg(test)]
    pub(crate) fn swap_with(mut self, swap: Swap) -> Self {
        self.swap = SwapChoice::Given(Box::new(swap));
        self
    }

    /// Has `choose` say which replica makes room on a memory node, by its place among those it is
    /// shown: at most 16, those that the runtime would take first in front. `None`, or a place that
    /// there is not, leaves the choice to the runtime. It is called while the memory manager is
    /// locked: it must be quick and must not call the runtime.
    #[must_use]
    pub fn choose_victim(
        mut self,
        choose: impl Fn(usize, &[Candidate]) -> Option<usize> + Send + 'static,
    ) -> Self {
        self.victims = Some(Box::new(choose));
        self
    }

    /// The scheduling policy by name: one of [`POLICIES`](crate::sched::POLICIES).
    #[must_use]
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = PolicyChoice::Named(name.into());
        self
    }

    /// A scheduling policy of your own.
    #[must_use]
    pub fn policy_with(mut self, policy: impl Policy) -> Self {
        self.policy = PolicyChoice::Given(Box::new(policy));
        self
    }

    /// Tasks in flight at most (default 8192); a submission beyond waits until half of them are
    /// complete, or helps if it comes from a task.
    #[must_use]
    pub fn window(mut self, tasks: usize) -> Self {
        self.window = tasks;
        self
    }

    /// Records what happens, see [`Runtime::take_trace`].
    #[must_use]
    pub fn trace(mut self, on: bool) -> Self {
        self.trace = on.then_some(trace_recorder::DEFAULT_CAPACITY);
        self
    }

    /// Records what happens, with room for `tasks` records per worker; what does not fit is
    /// counted.
    #[must_use]
    pub fn trace_capacity(mut self, tasks: usize) -> Self {
        self.trace = Some(tasks);
        self
    }

    /// Performance models to ask, and to teach by timing the tasks. dm and its family get models of
    /// their own if none are given; heteroprio and random ask those that are given; the others need
    /// none, and then nothing is timed. Links that no device declares are taken from them too, and
    /// put there once they have been measured.
    #[must_use]
    pub fn models(mut self, models: Arc<Models>) -> Self {
        self.models = Some(models);
        self
    }

    /// Whether each worker is bound to a core (default: yes, unless there are more workers than
    /// cores).
    #[must_use]
    pub fn bind(mut self, bind: bool) -> Self {
        self.bind = bind;
        self
    }

    /// What bodies, conversions and sums of partial results do with subnormal numbers, on whichever
    /// thread they run: the same everywhere, so that results do not depend on who ran what. By
    /// default they [keep](Subnormals::Keep) them, but for bodies whose codelet [says
    /// otherwise](crate::Codelet::SUBNORMALS); what is said here holds for all bodies. A body that
    /// changes its thread's mode finds it as it was the next time, and threads of the caller's are
    /// left as they are.
    ///
    /// Matrices whose elements decay, such as covariances, are full of subnormal numbers in single
    /// precision, and each operation on one may cost more than a hundred others.
    #[must_use]
    pub fn subnormals(mut self, mode: Subnormals) -> Self {
        self.subnormals = Some(mode);
        self
    }

    /// How long nothing may complete before a stall is reported (default 30 s); `None` for never.
    #[must_use]
    pub fn watchdog(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Who is told of a stall, with a text that names what runs and what waits; by default a
    /// `tracing` warning.
    #[must_use]
    pub fn on_stall(mut self, report: impl Fn(String) + Send + 'static) -> Self {
        self.on_stall = Box::new(report);
        self
    }

    /// Starts no threads: whoever waits for something does all that workers and devices would do,
    /// in an order that follows from `seed`. So a test can try many orders, and repeat one, unless
    /// the policy goes by measured times. Bodies cannot wait ([`Error::SelfWait`]); operations of
    /// emulated devices take times that are drawn; GPUs have clocks of their own, and are refused.
    ///
    /// ```
    /// use zellige_runtime::{Error, Runtime, Submit, commute};
    ///
    /// let order = |seed| -> Result<Vec<u32>, Error> {
    ///     let rt = Runtime::builder().workers(3).single_threaded(seed).policy("eager").build()?;
    ///     let seen = rt.register(vec![0; 8]);
    ///     for n in 1..=8 {
    ///         let note = move |(seen,): (&mut [u32],)| *seen.iter_mut().find(|x| **x == 0).unwrap() = n;
    ///         rt.task("note").operands((commute(&seen),)).cpu(note).submit()?;
    ///     }
    ///     rt.take(seen)
    /// };
    /// assert_eq!(order(7)?, order(7)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn single_threaded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// [`Error::Config`] for no workers, an unknown policy, or swap without a limit of host memory;
    /// [`Error::Memory`] where workers or a trace do not fit the memory; [`Error::Os`] if a thread
    /// cannot be started, or no file can be made for swap.
    pub fn build(self) -> Result<Runtime, Error> {
        let topology = Topology::discover();
        let cores = topology.cores.len();
        let cpus = self.workers.unwrap_or(cores);
        let count = cpus + self.devices.len();
        if count == 0 || count > usize::from(u16::MAX) {
            return Err(Error::Config(format!("{count} workers are not possible: take 1 to {}", u16::MAX)));
        }
        if self.host_memory.is_none() && !matches!(self.swap, SwapChoice::None) {
            let message =
                "swap without a limit would never be used: say what the host may hold (host_memory)";
            return Err(Error::Config(message.into()));
        }
        self.check_memory(count)?;
        let host = HostMemory { capacity: self.host_memory, swap: self.swap.open()? };
        warn_if_crowded(cpus, cores);
        let policy = match self.policy {
            PolicyChoice::Named(name) => sched::by_name(&name, count)?,
            PolicyChoice::Given(policy) => policy,
        };
        let cores_of: Vec<_> = (0..count).map(|w| topology.cores[w % cores].clone()).collect();
        let neighbours = topology::neighbours(&cores_of, cores);
        let models = self.models.or_else(|| policy.follows().then(Arc::<Models>::default));
        let slot = |(w, (core, neighbours)): (usize, (CoreInfo, Arc<[usize]>))| {
            let mut slot = WorkerSlot::new(core, neighbours);
            if let Some(device) = w.checked_sub(cpus).map(|device| &self.devices[device]) {
                (slot.kind, slot.model_name) = (device.kind().into(), device.model_kind());
                slot.capability = device.capability();
            }
            if let Some(models) = &models {
                slot.model_kind = models.kind(&slot.model_name);
            }
            slot
        };
        let workers = cores_of.into_iter().zip(neighbours).enumerate().map(slot).collect();
        let clock = Arc::new(if self.seed.is_some() { Clock::simulated() } else { Clock::real() });
        let events = self.seed.map(|seed| Arc::new(Events::new(Arc::clone(&clock), seed)));
        let mode = self.subnormals.unwrap_or_default();
        mode.warn_if_impossible();
        let transfers = (!self.devices.is_empty() || host.capacity.is_some()).then(|| {
            let log = self.trace.map(|capacity| Log::new(Arc::clone(&clock), capacity));
            TransferDriver::new(
                cpus,
                &self.devices,
                self.peers,
                host,
                models.clone(),
                log,
                mode,
                events.as_ref(),
            )
        });
        let transfers = transfers.transpose().map_err(Error::Config)?;
        let recorder = self.trace.map(|capacity| TraceRecorder::new(count, capacity));
        let window = Window::new(self.window);
        let threaded = self.seed.is_none();
        let patience = self.patience.filter(|_| threaded);
        let watched = patience.is_some();
        if let (Some(transfers), Some(choose)) = (&transfers, self.victims) {
            transfers.choose_victims_by(choose);
        }
        let (gpu_only, device_graphs) = (self.gpu_only, self.device_graphs);
        let shared = Arc::new(Shared::new(Parts {
            policy,
            workers,
            window,
            recorder,
            models,
            transfers,
            gpu_only,
            device_graphs,
            subnormals: self.subnormals,
            watched,
            bound: if self.bind && cpus <= cores { cpus } else { 0 },
            oversubscribed: count > cores,
            clock,
            events,
        }));
        let watchdog = match patience {
            None => None,
            Some(patience) => Some(
                Watchdog::spawn(Arc::clone(&shared), patience, self.on_stall)
                    .map_err(|e| Error::Os { what: "starting the watchdog".into(), cause: e.to_string() })?,
            ),
        };
        let threads = if threaded { engine::spawn_workers(&shared)? } else { Vec::new() };
        Ok(Runtime { shared, threads, _watchdog: watchdog })
    }
}

impl RuntimeBuilder {
    /// Refuses more workers and records than there is memory for.
    fn check_memory(&self, count: usize) -> Result<(), Error> {
        let workers = count as u64 * WORKER_BYTES;
        let trace = self.trace.map_or(0, |capacity| TraceRecorder::bytes(count, capacity));
        let needed = workers.saturating_add(trace);
        match topology::available_memory() {
            Some(available) if needed > available => Err(Error::Memory { needed, workers, trace, available }),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("workers", &self.workers)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

/// Says so when workers must share cores, by the mask or by the control group's quota.
fn warn_if_crowded(workers: usize, cores: usize) {
    if workers > cores {
        tracing::warn!(
            workers,
            cores,
            "more workers than cores that this process may use: they will disturb each other"
        );
    } else if let Some(limit) = topology::cpu_limit().filter(|&limit| workers as f64 > limit.ceil()) {
        tracing::warn!(workers, limit, "the control group grants less CPU time than the workers can use");
    }
}
