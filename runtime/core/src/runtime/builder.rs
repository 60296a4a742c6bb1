//! Configuration of a runtime.

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
use crate::engine::{self, DEFAULT_WINDOW, Engine, Parts, Settings, Time, Watchdog, Window, WorkerSlot};
use crate::error::Error;
use crate::memory::LinkSpec;
use crate::sched::{self, Policy};
use crate::subnormals::Subnormals;
use crate::swap::Swap;
use crate::topology::{self, CoreInfo, Topology};
use crate::trace_recorder::{self, TraceRecorder};

/// Memory of a worker before it has run a task (bytes): the used part of its stack, its tables and
/// those of the system.
///
/// ```
/// use zellige_runtime::WORKER_BYTES;
///
/// let thousand = 1000 * WORKER_BYTES;
/// assert!(thousand < 100 << 20);
/// ```
pub const WORKER_BYTES: u64 = 64 << 10;

/// Configures a [`Runtime`].
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

/// Storage of the values that do not fit in host memory.
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

    /// Sets the number of CPU workers; by default one per core that this process may use. The
    /// thread that submits tasks is not one of them. With [devices](RuntimeBuilder::device), it may
    /// be zero.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Adds a device with memory of its own, and a worker to drive it. The runtime then transfers
    /// operands to the node of each task, and results to the nodes that request them.
    #[must_use]
    pub fn device(mut self, device: impl Into<Arc<dyn DeviceSpec>>) -> Self {
        self.devices.push(device.into());
        self
    }

    /// Links every device to every other at this rate in each direction (bytes per second); by
    /// default, transfers between devices pass through the host. GPUs are linked if they can access
    /// each other's memory, at the measured rate.
    #[must_use]
    pub fn peers(mut self, bytes_per_second: f64) -> Self {
        self.peers = Some(LinkSpec { bandwidth: bytes_per_second, latency_ns: 0 });
        self
    }

    /// Reserves tasks that have a [function for devices](crate::Codelet::on_devices) for GPUs:
    /// another worker gets one only if no GPU can run it, because its operands fit on none, or all
    /// have failed. By default any free worker may get it, as the policy decides; if the two round
    /// differently, results then depend on that choice.
    #[must_use]
    pub fn gpu_only(mut self, on: bool) -> Self {
        self.gpu_only = on;
        self
    }

    /// Selects whether replays of recorded graphs run on a GPU in one launch, if possible. By
    /// default this is done if it is faster.
    #[must_use]
    pub fn device_graphs(mut self, when: DeviceGraphs) -> Self {
        self.device_graphs = when;
        self
    }

    /// Limits the host memory of handle values to `bytes`, including values that tasks and callers
    /// have in use; by default it is unlimited. A handle's value counts from its first task until
    /// the runtime ends: then every remaining handle gets its value back, without regard to the
    /// limit.
    ///
    /// Tasks wait for memory, and a task whose operands can never fit together is refused with
    /// [`Error::TooLarge`]. Without [`swap`](RuntimeBuilder::swap) a value leaves the host only for
    /// a device. The limit is exceeded if there is no other way to make progress. Values that a
    /// caller reads or writes in place are always brought in. Values of types that are not
    /// [`Portable`](crate::data::Portable) and slices of the caller stay in host memory. If those
    /// leave too little for a task, it runs once no other task runs. [`Runtime::memory`] reports
    /// the bytes in use.
    #[must_use]
    pub fn host_memory(mut self, bytes: u64) -> Self {
        self.host_memory = Some(bytes);
        self
    }

    /// Writes values that do not fit in [`host_memory`](RuntimeBuilder::host_memory) to a file in
    /// `folder`, and reads them back when a task or caller requests them. Only values without
    /// another copy are swapped, in the format that was written last.
    ///
    /// The file has no name: it disappears with the runtime, also if the process is killed. It
    /// bypasses the page cache if the file system supports that. If it cannot grow (e.g. the disk
    /// is full), values stay in host memory beyond the limit, and a warning is logged. If it cannot
    /// be read, values that are only there are lost, and reported by name. `folder` should be on a
    /// local disk: a `tmpfs` is memory again.
    ///
    /// A limit on file sizes (`ulimit -f`) counts as a full disk if the program ignores or blocks
    /// the signal SIGXFSZ, as the command `zellige` and CPython do; otherwise the system ends the
    /// process. A library leaves signals to the program.
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

    /// Sets a hook that selects the replica to evict from a memory node, by its index in the list
    /// of candidates: at most 16, in the order in which the runtime would evict them. `None`, or an
    /// index out of range, leaves the choice to the runtime. The hook is called while the memory
    /// manager is locked: it must be quick and must not call the runtime.
    #[must_use]
    pub fn choose_victim(
        mut self,
        choose: impl Fn(usize, &[Candidate]) -> Option<usize> + Send + 'static,
    ) -> Self {
        self.victims = Some(Box::new(choose));
        self
    }

    /// Selects the scheduling policy by name: one of [`POLICIES`](crate::sched::POLICIES).
    #[must_use]
    pub fn policy(mut self, name: &str) -> Self {
        self.policy = PolicyChoice::Named(name.into());
        self
    }

    /// Sets a user-defined scheduling policy.
    #[must_use]
    pub fn policy_with(mut self, policy: impl Policy) -> Self {
        self.policy = PolicyChoice::Given(Box::new(policy));
        self
    }

    /// Sets the maximum number of tasks in flight (default 8192); a submission beyond it waits
    /// until half of them are complete, or executes tasks if it comes from a task.
    #[must_use]
    pub fn window(mut self, tasks: usize) -> Self {
        self.window = tasks;
        self
    }

    /// Enables the trace, see [`Runtime::take_trace`].
    #[must_use]
    pub fn trace(mut self, on: bool) -> Self {
        self.trace = on.then_some(trace_recorder::DEFAULT_CAPACITY);
        self
    }

    /// Enables the trace with room for `tasks` records per worker; records that do not fit are
    /// counted.
    #[must_use]
    pub fn trace_capacity(mut self, tasks: usize) -> Self {
        self.trace = Some(tasks);
        self
    }

    /// Sets the performance models, which policies query and task times update. dm and its family
    /// create their own models if none are given; heteroprio and random use the given ones; other
    /// policies need none, and then nothing is timed. Links that no device declares are taken from
    /// the models too, and stored there once they have been measured.
    #[must_use]
    pub fn models(mut self, models: Arc<Models>) -> Self {
        self.models = Some(models);
        self
    }

    /// Selects whether each worker is bound to a core (default: yes, unless there are more workers
    /// than cores).
    #[must_use]
    pub fn bind(mut self, bind: bool) -> Self {
        self.bind = bind;
        self
    }

    /// Sets the treatment of subnormal numbers in bodies, conversions and sums of partial results,
    /// on all threads, so that results do not depend on the worker. By default they are
    /// [kept](Subnormals::Keep), except in bodies whose codelet [requests
    /// otherwise](crate::Codelet::SUBNORMALS); this setting overrides all codelets. A body that
    /// changes its thread's mode finds it restored the next time, and the caller's threads are not
    /// changed.
    ///
    /// Matrices with decaying entries, such as covariances, are full of subnormal numbers in single
    /// precision, and each operation on one may cost more than a hundred others.
    #[must_use]
    pub fn subnormals(mut self, mode: Subnormals) -> Self {
        self.subnormals = Some(mode);
        self
    }

    /// Sets the time without progress after which a stall is reported (default 30 s); `None` for
    /// never.
    #[must_use]
    pub fn watchdog(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the handler of a stall, which gets a text with the running and the waiting tasks; by
    /// default a `tracing` warning is logged.
    #[must_use]
    pub fn on_stall(mut self, report: impl Fn(String) + Send + 'static) -> Self {
        self.on_stall = Box::new(report);
        self
    }

    /// Starts no threads: a caller that waits executes all actions of workers and devices, in an
    /// order that is derived from `seed`. A test can so try many orders, and repeat one, unless the
    /// policy uses measured times. Bodies cannot wait ([`Error::SelfWait`]); operations of emulated
    /// devices take random times; GPUs have clocks of their own and are refused.
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

    /// Builds the runtime and starts its workers.
    ///
    /// # Errors
    /// [`Error::Config`] for no workers, an unknown policy, or swap without a limit of host memory;
    /// [`Error::Memory`] if workers or a trace do not fit in memory; [`Error::Os`] if a thread
    /// cannot be started, or no swap file can be made.
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
        let engine = Arc::new(Engine::new(Parts {
            policy,
            workers,
            window,
            recorder,
            models,
            transfers,
            settings: Settings { gpu_only, device_graphs, subnormals: self.subnormals },
            watched,
            bound: if self.bind && cpus <= cores { cpus } else { 0 },
            oversubscribed: count > cores,
            time: Time { clock, events },
        }));
        let watchdog = match patience {
            None => None,
            Some(patience) => Some(
                Watchdog::spawn(Arc::clone(&engine), patience, self.on_stall)
                    .map_err(|e| Error::Os { what: "starting the watchdog".into(), cause: e.to_string() })?,
            ),
        };
        let threads = if threaded { engine::spawn_workers(&engine)? } else { Vec::new() };
        Ok(Runtime { engine, threads, _watchdog: watchdog })
    }
}

impl RuntimeBuilder {
    /// Returns an error if the workers and trace records need more memory than is available.
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

/// Logs a warning if workers must share cores, because of the CPU mask or the control group's
/// quota.
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
