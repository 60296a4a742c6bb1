//! State that all threads of one runtime share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::smallvec;
use zellige_model::{KindId, Models};

use super::job::Job;
use super::stage::Stage;
use super::threads::{BlockedThreads, LiveTasks, Process, Running, Sleep, Slot, Window, current};
use crate::clock::Clock;
use crate::device::Events;
use crate::engine::graph::DeviceGraphs;
use crate::engine::transfer::TransferDriver;
use crate::engine::{PerNode, Policy, ReadyTask, SchedView, Wake, World};
use crate::error::{Cause, Error, Failure, caught};
use crate::subnormals::Subnormals;
use crate::task::{Asked, Body, DeviceInfo, Header};
use crate::topology::CoreInfo;
use crate::trace_recorder::TraceRecorder;

/// The runtimes that have not ended.
static ALIVE: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// True if the runtime with this number has not ended: it may have tasks on a handle.
pub(crate) fn is_alive(runtime: u32) -> bool {
    ALIVE.lock().contains(&runtime)
}

/// Maximum number of failures that are kept for a later query.
const MOST_FAILURES: usize = 1000;

/// One worker, as others see it.
pub(crate) struct WorkerSlot {
    /// The core it drives.
    pub(crate) core: CoreInfo,
    /// The kind of device that it drives; what models call it, and their number for that.
    pub(crate) kind: String,
    pub(crate) model_name: String,
    pub(crate) model_kind: KindId,
    /// Compute capability, if it is a GPU.
    pub(crate) capability: Option<(u32, u32)>,
    /// The other workers, nearest first.
    pub(crate) neighbours: Arc<[usize]>,
    /// Tasks it has completed; only it writes.
    pub(crate) done: CachePadded<AtomicU64>,
    /// The task that it runs.
    pub(crate) running: CachePadded<Running>,
    /// The thread that acts as the worker.
    pub(super) slot: CachePadded<Slot>,
}

impl WorkerSlot {
    /// Creates the slot of a worker on a CPU core.
    pub(crate) fn new(core: CoreInfo, neighbours: Arc<[usize]>) -> Self {
        WorkerSlot {
            core,
            kind: "cpu".into(),
            model_name: "cpu".into(),
            model_kind: KindId::default(),
            capability: None,
            neighbours,
            done: CachePadded::default(),
            running: CachePadded::default(),
            slot: CachePadded::default(),
        }
    }
}

/// The parts of a runtime that its builder determines.
pub(crate) struct Parts {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) workers: Vec<WorkerSlot>,
    pub(crate) window: Window,
    pub(crate) recorder: Option<TraceRecorder>,
    pub(crate) models: Option<Arc<Models>>,
    pub(crate) transfers: Option<TransferDriver>,
    pub(crate) gpu_only: bool,
    pub(crate) device_graphs: DeviceGraphs,
    pub(crate) subnormals: Option<Subnormals>,
    pub(crate) watched: bool,
    /// Number of workers, counted from the first, that stay on their cores.
    pub(crate) bound: usize,
    /// There are more workers than cores.
    pub(crate) oversubscribed: bool,
    pub(crate) clock: Arc<Clock>,
    /// Operations in progress, if one thread does everything in simulated time.
    pub(crate) events: Option<Arc<Events>>,
}

/// The state of one runtime.
pub(crate) struct Shared {
    /// Number of the runtime: it distinguishes the tasks of several runtimes in one process.
    pub(crate) id: u32,
    pub(super) policy: Box<dyn Policy>,
    /// True if the policy is notified when tasks begin and end.
    follows: bool,
    pub(crate) workers: Vec<WorkerSlot>,
    pub(crate) sleep: Sleep,
    /// Called when no worker has anything to run.
    pub(crate) when_idle: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pub(crate) window: Window,
    pub(crate) recorder: Option<TraceRecorder>,
    /// Performance models of the run times of tasks.
    pub(crate) models: Option<Arc<Models>>,
    /// Transfer driver, if there are devices with memory of their own.
    pub(crate) transfers: Option<TransferDriver>,
    /// True if tasks that a GPU can run are left to GPUs.
    pub(super) gpu_only: bool,
    /// Controls launches of whole replays on a GPU.
    pub(crate) device_graphs: DeviceGraphs,
    /// Treatment of subnormal numbers in all bodies; `None`: each codelet decides.
    subnormals: Option<Subnormals>,
    pub(super) live: Option<LiveTasks>,
    clock: Arc<Clock>,
    /// See [`Parts`].
    pub(crate) events: Option<Arc<Events>>,
    next_id: CachePadded<AtomicU64>,
    /// Tasks accepted.
    pub(super) submitted: CachePadded<AtomicU64>,
    /// Number of submitted tasks at which the window is checked again.
    pub(super) unchecked_until: CachePadded<AtomicU64>,
    /// Tasks completed by threads that are not workers.
    done_outside: CachePadded<AtomicU64>,
    cancelled_below: AtomicU64,
    stopping: AtomicBool,
    /// Set when a worker died: the message of its panic.
    broken: OnceLock<String>,
    /// Worker threads that have not ended.
    alive: AtomicUsize,
    /// Threads that wait until nothing is in flight.
    pub(super) waiting_for_all: AtomicU32,
    /// Threads that wait for room in the window.
    pub(super) waiting_for_room: AtomicU32,
    /// Threads that wait.
    pub(super) blocked: BlockedThreads,
    /// Spare threads that have been started, and their join handles.
    pub(super) spares: AtomicUsize,
    pub(super) spare_threads: Mutex<Vec<JoinHandle<()>>>,
    /// Number of workers, counted from the first, that stay on their cores.
    pub(super) bound: usize,
    pub(super) oversubscribed: bool,
    /// The process that started the workers.
    process: Process,
    failures: Mutex<Failures>,
}

/// Failures of tasks, except cancellations.
#[derive(Default)]
struct Failures {
    /// Failures since the last query.
    list: Vec<Arc<Failure>>,
    /// The first failure since the last wait for all tasks.
    first: Option<Arc<Failure>>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        ALIVE.lock().insert(id);
        Shared {
            id,
            follows: parts.policy.follows(),
            policy: parts.policy,
            sleep: Sleep::new(parts.workers.len()),
            workers: parts.workers,
            window: parts.window,
            when_idle: OnceLock::new(),
            recorder: parts.recorder,
            models: parts.models,
            transfers: parts.transfers,
            gpu_only: parts.gpu_only,
            device_graphs: parts.device_graphs,
            subnormals: parts.subnormals,
            live: parts.watched.then(LiveTasks::new),
            clock: parts.clock,
            events: parts.events,
            next_id: CachePadded::new(AtomicU64::new(1)),
            submitted: CachePadded::default(),
            unchecked_until: CachePadded::default(),
            done_outside: CachePadded::default(),
            cancelled_below: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            broken: OnceLock::new(),
            alive: AtomicUsize::new(0),
            waiting_for_all: AtomicU32::new(0),
            waiting_for_room: AtomicU32::new(0),
            blocked: BlockedThreads::new(),
            spares: AtomicUsize::new(0),
            spare_threads: Mutex::default(),
            bound: parts.bound,
            oversubscribed: parts.oversubscribed,
            process: Process::this(),
            failures: Mutex::default(),
        }
    }

    pub(crate) fn policy_name(&self) -> &str {
        self.policy.name()
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Advances simulated time to this moment (ns).
    pub(crate) fn advance_to(&self, nanos: u64) {
        self.clock.advance_to(nanos);
    }

    /// Returns the time at which the runtime started: the zero of its traces.
    pub(crate) fn started(&self) -> Instant {
        self.clock.started()
    }

    /// Returns the treatment of subnormal numbers in a body whose codelet requests `of_codelet`.
    #[inline]
    pub(crate) fn subnormals(&self, of_codelet: Option<Subnormals>) -> Subnormals {
        self.subnormals.or(of_codelet).unwrap_or_default()
    }

    /// Prepares the calling thread to run bodies until it ends. Each thread that does so calls this
    /// first.
    pub(super) fn enter_worker_thread(&self) {
        self.subnormals(None).set();
    }

    pub(crate) fn is_measuring(&self) -> bool {
        self.recorder.is_some()
    }

    /// Reserves `count` fresh numbers and returns the first.
    pub(crate) fn next_ids(&self, count: u64) -> u64 {
        self.next_id.fetch_add(count, Ordering::Relaxed)
    }

    /// Tasks that have completed.
    pub(crate) fn done(&self) -> u64 {
        self.workers.iter().map(|worker| worker.done.load(Ordering::Acquire)).sum::<u64>()
            + self.done_outside.load(Ordering::Acquire)
    }

    /// Returns the number of tasks accepted and not complete. It is never too small while the
    /// caller's own submissions are in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        let done = self.done();
        self.submitted.load(Ordering::Acquire).saturating_sub(done)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes the workers end once they find no work.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.sleep.notify_all();
    }

    /// A worker thread begins.
    pub(super) fn worker_begins(&self) {
        self.alive.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that a worker thread ends; `killed` is the message of a panic outside of any body.
    pub(super) fn worker_ends(&self, killed: Option<String>) {
        if let Some(message) = killed {
            self.breaks(message);
        }
        self.alive.fetch_sub(1, Ordering::AcqRel);
        self.wake_all_blocked();
    }

    /// Notes a panic outside of any body: queued tasks may never run.
    pub(crate) fn breaks(&self, message: String) {
        tracing::error!("the runtime is broken: {message}");
        // The first is the cause.
        let _ = self.broken.set(message);
        self.stop();
        self.wake_all_blocked();
    }

    /// Notes that all tasks are complete and all workers have ended: other runtimes may use this
    /// one's handles.
    pub(crate) fn end(&self) {
        ALIVE.lock().remove(&self.id);
    }

    /// True once no worker runs any more.
    pub(super) fn is_dead(&self) -> bool {
        self.alive.load(Ordering::Acquire) == 0
    }

    /// Returns an error once a worker has died: queued tasks will never run.
    pub(crate) fn check_broken(&self) -> Result<(), Error> {
        match self.broken.get() {
            Some(cause) => Err(Error::Broken { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// True if the task with this number was cancelled along with everything before some moment.
    pub(crate) fn is_cancelled(&self, id: u64) -> bool {
        id < self.cancelled_below.load(Ordering::Relaxed)
    }

    /// Cancels all tasks that have been submitted and have not started.
    pub(crate) fn cancel_all(&self) {
        self.cancelled_below.fetch_max(self.next_id.load(Ordering::Relaxed), Ordering::Relaxed);
        // Waiting bodies are notified.
        self.wake_all_blocked();
    }

    /// Returns an error in a process that was forked from the one that started the workers: it has
    /// none.
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.process.is_this() {
            return Ok(());
        }
        Err(Error::Forked { started: self.process.id(), process: std::process::id() })
    }

    /// Notes the failure of a task, once for all tasks to which it spreads.
    pub(crate) fn note_failure(&self, failure: &Arc<Failure>) {
        if matches!(failure.cause, Cause::Cancelled) {
            return;
        }
        let mut failures = self.failures.lock();
        if failures.list.iter().any(|other| Arc::ptr_eq(other, failure)) {
            return;
        }
        failures.first.get_or_insert_with(|| Arc::clone(failure));
        if failures.list.len() < MOST_FAILURES {
            failures.list.push(Arc::clone(failure));
        }
    }

    /// Returns the failures since the last call.
    pub(crate) fn take_failures(&self) -> Vec<Arc<Failure>> {
        std::mem::take(&mut self.failures.lock().list)
    }

    /// Returns the first failure since the last call.
    pub(crate) fn take_first_failure(&self) -> Option<Arc<Failure>> {
        self.failures.lock().first.take()
    }

    /// Hands a ready task to the policy without waking a worker.
    pub(super) fn enqueue(self: &Arc<Self>, mut task: ReadyTask, from: Option<usize>) -> Wake {
        if self.transfers.is_some() || task.is_restricted() {
            let Some(prepared) = self.prepared(task) else { return Wake::Any };
            task = prepared;
        }
        if let Some(recorder) = &self.recorder {
            recorder.task_ready();
        }
        task.work().enters(Stage::Queued);
        let pushed = caught(|| self.policy.push(&SchedView::new(&**self), task, from));
        if super::end::is_any_lost() {
            // The policy dropped a task: a worker has to look.
            self.sleep.notify_any();
        }
        if self.transfers.is_some() {
            // Executes the prefetches that the policy requested.
            self.drain();
        }
        pushed.unwrap_or_else(|message| {
            self.breaks(message);
            Wake::Any
        })
    }

    /// Prepares a task for its policy. `None` for a task that nobody can run, which is about to
    /// fail, and for one that was launched in stream order after tasks that have ended now.
    fn prepared(self: &Arc<Self>, task: ReadyTask) -> Option<ReadyTask> {
        let task = self.unless_launched(task)?;
        match self.prepare(&task) {
            Ok(()) => Some(task),
            Err(cause) => {
                super::discard(task.into_work(), cause);
                None
            }
        }
    }

    /// Plans a task for devices with memory of their own, and ensures that one of them can run it.
    fn prepare(&self, task: &ReadyTask) -> Result<(), Cause> {
        if let Some(transfers) = &self.transfers {
            match transfers.plan(task) {
                // Without values of its operands there is no plan, but a failure to pass on.
                Err(_) if task.work().poisoned().is_some() => return Ok(()),
                planned => planned.map_err(Cause::words)?,
            }
            self.note_for_gpus(transfers, task);
        }
        if self.somebody_can_run(task) {
            return Ok(());
        }
        let none = || Cause::words("none of the workers may run it".into());
        Err(self.transfers.as_ref().map_or_else(none, |transfers| transfers.nowhere(task)))
    }

    /// True if the worker may run the task, its operands fit there, and the task is not left to a
    /// GPU.
    fn has_place_for(&self, task: &ReadyTask, worker: usize) -> bool {
        !self.is_gpu_only(task, worker) && self.could_run(task, worker)
    }

    /// True if the worker may run the task and its operands fit there, also for tasks left to GPUs.
    pub(super) fn could_run(&self, task: &ReadyTask, worker: usize) -> bool {
        let work = task.work();
        self.admits(work.header(), work.body(), worker)
            && self.transfers.as_ref().is_none_or(|transfers| transfers.fits(work, worker))
    }

    /// True if a task may run on the worker's device, by its placement and by the implementations
    /// of its codelet.
    pub(crate) fn admits(&self, header: &Header, body: &dyn Body, worker: usize) -> bool {
        let only = header.only.as_ref();
        let arch = self.transfers.as_ref().and_then(|transfers| transfers.arch(worker));
        header.implementations.suit(arch) && only.is_none_or(|only| only.allows(body, &self.device(worker)))
    }

    fn somebody_can_run(&self, task: &ReadyTask) -> bool {
        (0..self.workers.len()).any(|worker| self.has_place_for(task, worker))
    }

    /// True for a worker whose device has failed and a task that nobody can run since then. The
    /// task is queued, and such a worker takes it out of the queue to end it.
    fn ends_unrun(&self, task: &ReadyTask, worker: usize) -> bool {
        let failed = self.transfers.as_ref().is_some_and(|transfers| transfers.failure_of(worker).is_some());
        failed && !self.somebody_can_run(task)
    }

    /// A worker's device, as codelets see it.
    pub(crate) fn device(&self, worker: usize) -> DeviceInfo<'_> {
        let memory = self.transfers.as_ref().and_then(|transfers| transfers.own_memory(worker));
        let WorkerSlot { kind, capability, .. } = &self.workers[worker];
        DeviceInfo { worker, kind, memory, capability: *capability }
    }

    /// Hands a ready task to the policy and wakes a worker for it.
    pub(crate) fn push_ready(self: &Arc<Self>, task: ReadyTask, from: Option<usize>) {
        match self.enqueue(task, from) {
            Wake::Any => self.sleep.notify_any(),
            Wake::Worker(worker) => self.sleep.notify(worker),
        }
    }

    /// The worker that will run a task, if that is certain before it is ready.
    pub(crate) fn home_of(&self, header: &Header) -> Option<usize> {
        let only = header.only.as_ref().and_then(|only| only.worker);
        let home = only.or_else(|| self.policy.home(&SchedView::new(self), header.name, &header.info));
        home.filter(|&worker| worker < self.workers.len())
    }

    /// The next task for `worker`.
    pub(crate) fn pop(&self, worker: usize) -> Option<ReadyTask> {
        let task = self.policy.pop(&SchedView::new(self), worker)?;
        if task.runtime() != self.id {
            // A policy that serves two runtimes mixed them up. The dropped task is reported to its
            // own runtime as lost.
            return None;
        }
        self.takes(&task);
        Some(task)
    }

    /// Notes that the policy has handed out a task.
    pub(super) fn takes(&self, task: &ReadyTask) {
        task.work().enters(Stage::Taken);
        if let Some(recorder) = &self.recorder {
            recorder.task_taken();
        }
    }

    /// Notes that `worker` begins a task, and notifies the policy if it follows tasks.
    pub(crate) fn begins(&self, worker: usize, task: &ReadyTask) {
        if self.follows {
            self.policy.began(&SchedView::new(self), worker, task);
        }
    }

    /// Notes that `worker` has ended the task with this number.
    pub(crate) fn ends(&self, worker: usize, id: u64) {
        if self.follows {
            self.policy.ended(&SchedView::new(self), worker, id);
        }
    }

    /// Notes that `worker` does not run the task that it has popped: the policy counts the tasks
    /// that it handed out.
    pub(crate) fn passes(&self, worker: usize, task: &ReadyTask) {
        self.begins(worker, task);
        self.ends(worker, task.id());
    }

    /// Counts a task that was completed by a thread that is no worker.
    pub(crate) fn count_outside(&self) {
        self.done_outside.fetch_add(1, Ordering::AcqRel);
        self.wake_if_window_has_room();
        self.wake_if_all_done();
    }

    /// Wakes the threads that wait for all tasks, if all are done. Called by a worker that finds no
    /// work, and by a thread that completes a task elsewhere.
    pub(super) fn wake_if_all_done(&self) {
        fence(Ordering::SeqCst);
        if self.waiting_for_all.load(Ordering::SeqCst) > 0 && self.in_flight() == 0 {
            self.wake_other_waiters();
        }
        self.wake_if_window_has_room();
    }

    /// Called after each completion: wakes submitters once the window is half empty.
    pub(super) fn wake_if_window_has_room(&self) {
        if self.waiting_for_room.load(Ordering::Relaxed) > 0
            && self.in_flight() <= (self.window.size() / 2) as u64
        {
            self.wake_other_waiters();
        }
    }

    /// True on a worker of this runtime.
    pub(crate) fn is_own_worker(&self) -> bool {
        current::worker_of(self).is_some()
    }
}

impl World for Shared {
    fn workers(&self) -> usize {
        self.workers.len()
    }

    fn core(&self, worker: usize) -> &CoreInfo {
        &self.workers[worker].core
    }

    fn neighbours(&self, worker: usize) -> &[usize] {
        &self.workers[worker].neighbours
    }

    fn kind(&self, worker: usize) -> &str {
        &self.workers[worker].kind
    }

    fn model_kind(&self, worker: usize) -> &str {
        &self.workers[worker].model_name
    }

    fn node(&self, worker: usize) -> usize {
        self.transfers.as_ref().map_or(0, |transfers| transfers.node_of(worker))
    }

    fn in_flight(&self) -> u64 {
        Shared::in_flight(self)
    }

    fn now(&self) -> Duration {
        Shared::now(self)
    }

    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.has_place_for(task, worker) || self.ends_unrun(task, worker)
    }

    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        if let Some(said) =
            self.transfers.as_ref().and_then(|transfers| transfers.said_time(task.work(), worker))
        {
            return said.map(Duration::from_nanos);
        }
        let (work, header) = (task.work(), task.work().header());
        // Without a transfer driver the choice is made in the body.
        let planned = self.transfers.as_ref().and_then(|transfers| transfers.chosen(work));
        let asked = Asked {
            header,
            chosen: planned.map_or("", |(chosen, _)| chosen),
            bytes: planned.map(|(_, bytes)| bytes),
        };
        self.expected(&asked, work.body(), work.bound(), worker)
    }

    // Without a transfer driver all data are in host memory, where all workers are.

    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.transfers.as_ref().map_or(0, |transfers| transfers.missing(task.work(), worker))
    }

    fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64> {
        let times = self.transfers.as_ref().map(|transfers| transfers.transfer_times(task.work()));
        times.unwrap_or_else(|| smallvec![0])
    }

    fn prefetch(&self, task: &ReadyTask, worker: usize) {
        if let Some(transfers) = &self.transfers {
            transfers.prefetch(task.work(), worker);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        super::end::forget_lost_of(self.id);
    }
}
