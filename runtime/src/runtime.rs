//! The face of the runtime: building it, waiting, taking data back, recording and replaying.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::data::{AnyHandle, BorrowedSlice, Data, Element, Handle, ReadGuard, WriteGuard};
use crate::device::Emulated;
use crate::error::Error;
use crate::exec::{self, DEFAULT_WINDOW, Parts, Shared, Watchdog, Window, WorkerSlot};
use crate::graph::{self, Bindings, Graph, Recorder};
use crate::hub::{Candidate, Chooser, Hub, Log, NodeUse};
use crate::memory::LinkSpec;
use crate::model::Models;
use crate::operand::Mode;
use crate::sched::{self, Policy};
use crate::task::{Codelet, Spec, Submit, TaskRef};
use crate::topology::{self, CoreInfo, Topology};
use crate::trace::{self, Trace, TraceWorker};

/// Decides what a [`Runtime`] is made of.
pub struct RuntimeBuilder {
    workers: Option<usize>,
    devices: Vec<Emulated>,
    peers: Option<LinkSpec>,
    victims: Option<Chooser>,
    policy: PolicyChoice,
    window: usize,
    trace: Option<usize>,
    pin: bool,
    patience: Option<Duration>,
    models: Option<Arc<Models>>,
    on_stall: Box<dyn Fn(String) + Send>,
}

enum PolicyChoice {
    Named(String),
    Given(Box<dyn Policy>),
}

impl RuntimeBuilder {
    fn new() -> Self {
        RuntimeBuilder {
            workers: None,
            devices: Vec::new(),
            peers: None,
            victims: None,
            policy: PolicyChoice::Named("lws".into()),
            window: DEFAULT_WINDOW,
            trace: None,
            pin: true,
            patience: Some(Duration::from_secs(30)),
            models: None,
            on_stall: Box::new(|message| tracing::warn!("{message}")),
        }
    }

    /// How many workers for CPU cores; by default one per core that this process may use. The thread that submits tasks is none
    /// of them. Where there are [devices](RuntimeBuilder::device), there may be none at all.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// One more device with memory of its own, and a worker to drive it. The runtime then brings operands to where tasks run,
    /// and what they wrote to where it is asked for.
    #[must_use]
    pub fn device(mut self, device: Emulated) -> Self {
        self.devices.push(device);
        self
    }

    /// Links every device to every other, at this rate each way (bytes per second); without, what goes from one to another
    /// passes through the host.
    #[must_use]
    pub fn peers(mut self, bytes_per_second: f64) -> Self {
        self.peers = Some(LinkSpec { bandwidth: bytes_per_second, latency_ns: 0 });
        self
    }

    /// Has `choose` say which replica makes room on a memory node, by its place among those it is shown: at most 16, those that the
    /// runtime would take first in front. `None`, or a place that there is not, leaves the choice to the runtime. It is called
    /// while the memory manager is locked: it must be quick and must not call the runtime.
    #[must_use]
    pub fn choose_victim(
        mut self,
        choose: impl Fn(usize, &[Candidate]) -> Option<usize> + Send + 'static,
    ) -> Self {
        self.victims = Some(Box::new(choose));
        self
    }

    /// The scheduling policy by name: one of [`POLICIES`](crate::POLICIES).
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

    /// Tasks in flight at most (default 8192); a submission beyond waits until half of them are complete, or helps if it comes
    /// from a task.
    #[must_use]
    pub fn window(mut self, tasks: usize) -> Self {
        self.window = tasks;
        self
    }

    /// Records what happens, see [`Runtime::take_trace`].
    #[must_use]
    pub fn trace(mut self, on: bool) -> Self {
        self.trace = on.then_some(trace::DEFAULT_CAPACITY);
        self
    }

    /// Records what happens, with room for `tasks` records per worker; what does not fit is counted.
    #[must_use]
    pub fn trace_capacity(mut self, tasks: usize) -> Self {
        self.trace = Some(tasks);
        self
    }

    /// Performance models to ask, and to teach by timing the tasks. dm and its family get models of their
    /// own if none are given; heteroprio and random ask those that are given; the others need none, and then nothing is timed.
    #[must_use]
    pub fn models(mut self, models: Arc<Models>) -> Self {
        self.models = Some(models);
        self
    }

    /// Whether each worker stays on one core (default: yes, unless there are more workers than cores).
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// How long nothing may complete before a stall is reported (default 30 s); `None` for never.
    #[must_use]
    pub fn watchdog(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Who is told of a stall, with a text that names what runs and what waits; by default a `tracing` warning.
    #[must_use]
    pub fn on_stall(mut self, report: impl Fn(String) + Send + 'static) -> Self {
        self.on_stall = Box::new(report);
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// [`Error::Config`] for no workers or an unknown policy, [`Error::Os`] if a thread cannot be started.
    pub fn build(self) -> Result<Runtime, Error> {
        let topology = Topology::discover();
        let cores = topology.cores.len();
        let cpus = self.workers.unwrap_or(cores);
        let count = cpus + self.devices.len();
        if count == 0 || count > usize::from(u16::MAX) {
            return Err(Error::Config(format!("{count} workers are not possible: take 1 to {}", u16::MAX)));
        }
        warn_if_crowded(cpus, cores);
        let policy = match self.policy {
            PolicyChoice::Named(name) => sched::by_name(&name, count)?,
            PolicyChoice::Given(policy) => policy,
        };
        let cores_of: Vec<_> = (0..count).map(|w| topology.cores[w % cores].clone()).collect();
        let neighbours = topology::neighbours(&cores_of);
        let models = self.models.or_else(|| policy.follows().then(Arc::<Models>::default));
        let slot = |(w, (core, neighbours)): (usize, (CoreInfo, Vec<usize>))| {
            let kind = if w < cpus { "cpu" } else { &self.devices[w - cpus].kind };
            let model_kind = models.as_ref().map(|models| models.kind(kind)).unwrap_or_default();
            WorkerSlot::new(core, kind, model_kind, neighbours)
        };
        let workers = cores_of.into_iter().zip(neighbours).enumerate().map(slot).collect();
        let started = Instant::now();
        let hub = (!self.devices.is_empty()).then(|| {
            let log = self.trace.map(|capacity| Log::new(started, capacity));
            Hub::new(cpus, &self.devices, self.peers, log)
        });
        let recorder = self.trace.map(|capacity| trace::Recorder::new(count, capacity));
        let window = Window::new(self.window);
        let watched = self.patience.is_some();
        if let (Some(hub), Some(choose)) = (&hub, self.victims) {
            hub.choose_victims_by(choose);
        }
        let shared =
            Arc::new(Shared::new(Parts { policy, workers, window, recorder, models, hub, watched, started }));
        let watchdog = match self.patience {
            None => None,
            Some(patience) => Some(
                Watchdog::spawn(Arc::clone(&shared), patience, self.on_stall)
                    .map_err(|e| Error::Os { what: "starting the watchdog".into(), cause: e.to_string() })?,
            ),
        };
        let threads = exec::spawn_workers(&shared, if self.pin && cpus <= cores { cpus } else { 0 })?;
        Ok(Runtime { shared, threads, _watchdog: watchdog })
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

/// Owns workers, scheduling policy and trace. Any thread may use it through a shared reference.
///
/// Dropping it waits for the tasks that were submitted.
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _watchdog: Option<Watchdog>,
}

impl Runtime {
    /// A runtime with one worker per core and the policy `lws`.
    ///
    /// # Errors
    /// As [`RuntimeBuilder::build`].
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }

    /// Begins to decide what a runtime is made of.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.shared.workers.len()
    }

    /// Its scheduling policy's name.
    pub fn policy(&self) -> &str {
        self.shared.policy_name()
    }

    /// Waits until `task` is complete. A worker that waits runs other tasks meanwhile.
    ///
    /// # Errors
    /// [`Error::Failed`] with its failure; [`Error::SelfWait`] inside that very task.
    pub fn wait(&self, task: &TaskRef) -> Result<(), Error> {
        self.shared.wait(task)
    }

    /// Waits until every submitted task is complete, failed ones included: ask for data, or tasks, to learn of failures.
    ///
    /// # Errors
    /// [`Error::SelfWait`] inside a task.
    pub fn wait_all(&self) -> Result<(), Error> {
        self.shared.wait_for_all()
    }

    /// Cancels every task that has been submitted and has not started; what they would have written is poisoned.
    pub fn cancel_all(&self) {
        self.shared.cancel_all();
    }

    /// Something that can cancel everything from another thread, e.g. from a signal handler's thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.shared))
    }

    /// Waits for what `handle` needs, and nothing more, and takes its value out. The handle is of no more use.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the failure that left it without a value, [`Error::Unwritten`], [`Error::Gone`] the second
    /// time.
    pub fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error> {
        let guard = self.gate(&handle, Mode::Update, "take")?;
        handle.core().retire();
        guard.take()
    }

    /// Ends the handle's use: later submissions with it are refused. Its data are freed once the tasks on it have run.
    pub fn release<D: Data>(&self, handle: Handle<D>) {
        handle.core().retire();
    }

    /// Waits for the handle's writers and reads its value in place; tasks that write it wait for the guard.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Unwritten`], [`Error::Gone`].
    pub fn read<'rt, D: Data>(&'rt self, handle: &Handle<D>) -> Result<ReadGuard<'rt, D>, Error> {
        Ok(ReadGuard::new(self.gate(handle, Mode::Read, "read")?))
    }

    /// Waits for the handle's tasks and writes its value in place; tasks on it wait for the guard.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Unwritten`], [`Error::Gone`].
    pub fn write<'rt, D: Data>(&'rt self, handle: &Handle<D>) -> Result<WriteGuard<'rt, D>, Error> {
        Ok(WriteGuard::new(self.gate(handle, Mode::Update, "write")?))
    }

    fn gate<D: Data>(
        &self,
        handle: &Handle<D>,
        mode: Mode,
        name: &'static str,
    ) -> Result<crate::data::Gate<D>, Error> {
        crate::data::Gate::enter(&self.shared, handle, mode, name)
    }

    /// Writes down the tasks that `build` submits to the recorder, without running them.
    ///
    /// # Errors
    /// Whatever `build` returns.
    pub fn record<E>(&self, build: impl FnOnce(&Recorder) -> Result<(), E>) -> Result<Graph, E> {
        Graph::record(build)
    }

    /// Runs a recorded graph, as one task that accesses the graph's slots; `bind` says on which handles
    /// ([`Bindings::recorded`] for those of the recording).
    ///
    /// # Errors
    /// As a submission of that one task.
    pub fn replay(&self, bind: &Bindings) -> Result<TaskRef, Error> {
        let span = tracing::debug_span!("replay");
        let _entered = span.enter();
        graph::submit_replay(&self.shared, bind.clone())
    }

    /// Lets tasks use the caller's own slices without a copy; returns when they are done with them.
    ///
    /// ```
    /// use zellige_runtime::{Runtime, Submit, update};
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let mut values = vec![1.0f64; 6];
    /// rt.scope(|s| {
    ///     let x = s.slice(&mut values, 2, 3)?; // columns of 2, 3 apart: one row of padding
    ///     rt.task("double").operands((update(&x),)).cpu(|(x,)| {
    ///         for column in x.data.chunks_mut(x.ld) {
    ///             column[..x.rows].iter_mut().for_each(|v| *v *= 2.0);
    ///         }
    ///     }).submit()?;
    ///     Ok::<(), zellige_runtime::Error>(())
    /// })?;
    /// assert_eq!(values, [2.0, 2.0, 1.0, 2.0, 2.0, 1.0]);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    pub fn scope<'env, R>(&self, body: impl FnOnce(&Scope<'_, 'env>) -> R) -> R {
        let scope = Scope { runtime: self, slices: Default::default(), _env: std::marker::PhantomData };
        body(&scope)
    }

    /// What happened on each memory node so far; empty where there are no [devices](RuntimeBuilder::device): all data are in
    /// host memory then.
    pub fn memory(&self) -> Vec<NodeUse> {
        self.shared.hub.as_ref().map(Hub::uses).unwrap_or_default()
    }

    /// True once a device has failed.
    pub(crate) fn has_lost_a_device(&self) -> bool {
        let hub = self.shared.hub.as_ref();
        hub.is_some_and(|hub| (0..self.workers()).any(|worker| hub.failure_of(worker).is_some()))
    }

    /// What has been recorded since the last call; `None` unless the runtime was built with `trace`. Call it when nothing
    /// runs, e.g. after [`wait_all`](Runtime::wait_all).
    pub fn take_trace(&self) -> Option<Trace> {
        let recorder = self.shared.recorder.as_ref()?;
        let worker = |(w, slot): (usize, &WorkerSlot)| TraceWorker {
            name: match &self.shared.hub {
                Some(hub) if hub.node_of(w) != 0 => hub.node_names().nth(hub.node_of(w)).unwrap_or("").into(),
                _ => format!("worker {w} (cpu {})", slot.core.cpu),
            },
            kind: slot.kind.clone(),
            node: self.shared.hub.as_ref().map_or(0, |hub| hub.node_of(w) as u32),
        };
        let workers = self.shared.workers.iter().enumerate().map(worker).collect();
        let now = self.shared.now().as_nanos() as u64;
        let mut trace = recorder.drain(workers, self.policy().to_string(), now);
        if let Some(hub) = &self.shared.hub {
            hub.add_to(&mut trace);
        }
        Some(trace)
    }
}

impl Submit for Runtime {
    fn submit_spec<C: Codelet>(&self, spec: Spec<C>) -> Result<TaskRef, Error> {
        self.shared.submit(spec)
    }

    fn announce_step(&self, tasks: usize) {
        self.shared.window.widen(tasks);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.cancel_all();
        }
        // Dropped by one of its own workers (inside a task, or with the body of a task that held the runtime), it can wait
        // neither for that task nor for that thread: the workers then end by themselves once nothing is left to do.
        if self.shared.is_own_worker() {
            self.shared.stop();
            return;
        }
        // Where a worker has died, the others end.
        let complete = self.wait_all().is_ok();
        if complete {
            self.shared.go_home();
        }
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A worker that panicked has reported it.
            let _ = thread.join();
        }
        if complete {
            self.shared.end();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} workers, {})", self.workers(), self.policy())
    }
}

/// Cancels everything that a runtime has not started.
#[derive(Clone)]
pub struct Canceller(Arc<Shared>);

impl Canceller {
    /// See [`Runtime::cancel_all`].
    pub fn cancel_all(&self) {
        self.0.cancel_all();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

/// A stretch of code during which tasks may use borrowed slices; see [`Runtime::scope`].
pub struct Scope<'rt, 'env> {
    runtime: &'rt Runtime,
    slices: std::cell::RefCell<Vec<Box<dyn Retire>>>,
    // Invariant in 'env: a slice must outlive the scope, not just its registration.
    _env: std::marker::PhantomData<&'env mut &'env ()>,
}

/// A registered slice that the scope has to get back.
trait Retire {
    fn retire(&self, runtime: &Runtime);
}

impl<T: Element> Retire for Handle<BorrowedSlice<T>> {
    fn retire(&self, runtime: &Runtime) {
        // First no more tasks, then wait for those that there are; a poisoned slice is waited for just the same.
        self.core().retire();
        crate::data::Gate::wait_out(&runtime.shared, self);
    }
}

impl<'env> Scope<'_, 'env> {
    /// Gives a slice a handle: columns of `rows` elements, `ld` apart.
    ///
    /// # Errors
    /// [`Error::Config`] if `rows > ld`, or `ld` is 0 with elements there.
    pub fn slice<T: Element>(
        &self,
        slice: &'env mut [T],
        rows: usize,
        ld: usize,
    ) -> Result<Handle<BorrowedSlice<T>>, Error> {
        if rows > ld || (ld == 0 && !slice.is_empty()) {
            return Err(Error::Config(format!(
                "a leading dimension of {ld} cannot hold columns of {rows} rows"
            )));
        }
        // SAFETY: the scope retires the handle and waits for its tasks in its Drop, before 'env ends.
        let borrowed = unsafe { BorrowedSlice::new(slice, rows, ld) };
        let handle = Handle::new(Some(borrowed));
        // No other runtime may run tasks on it: the scope waits in its own runtime only.
        handle.core().base().belongs_to(self.runtime.shared.id);
        self.slices.borrow_mut().push(Box::new(handle.clone()));
        Ok(handle)
    }
}

impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        for slice in self.slices.borrow().iter() {
            slice.retire(self.runtime);
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} slices)", self.slices.borrow().len())
    }
}
