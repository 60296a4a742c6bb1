//! The public interface of the runtime: waiting, taking data back, recording and replaying.

mod builder;
mod group;
mod hints;
mod scope;
mod session;

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use zellige_model::Models;
use zellige_trace::{Trace, TraceWorker};

use crate::engine::graph::{self, Bindings, Graph, Recorder};
use crate::engine::transfer::{NodeUse, TransferDriver};
use crate::engine::{Engine, ReadGuard, Watchdog, WorkerSlot, WriteGuard};
use crate::error::{Error, Failure};
use crate::operand::Mode;
use crate::submit::Submit;
use crate::task::{AnyHandle, Body, DeviceInfo, Handle, Spec, TaskRef};
use crate::value::Data;

pub use builder::{RuntimeBuilder, WORKER_BYTES};
pub use group::Group;
pub use scope::Scope;
pub use session::Session;

/// A task runtime with its workers, scheduling policy and trace. Any thread may use it through a
/// shared reference.
///
/// Dropping it waits for the tasks that were submitted.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(2).policy("prio").build()?;
/// let x = rt.register(20i32);
/// let task = rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 22).submit()?;
/// rt.wait(&task)?;
/// assert_eq!((*rt.read(&x)?, rt.policy()), (42, "prio"));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct Runtime {
    engine: Arc<Engine>,
    threads: Vec<JoinHandle<()>>,
    _watchdog: Option<Watchdog>,
}

impl Runtime {
    /// Creates a runtime with one worker per core and the policy `lws`.
    ///
    /// # Errors
    /// Those of [`RuntimeBuilder::build`].
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }

    /// Returns a builder, which configures a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.engine.workers.len()
    }

    /// Returns the device of each worker, in the order of workers.
    pub fn devices(&self) -> impl Iterator<Item = DeviceInfo<'_>> {
        (0..self.workers()).map(|worker| self.engine.device(worker))
    }

    /// Returns the name of the scheduling policy.
    pub fn policy(&self) -> &str {
        self.engine.policy_name()
    }

    /// Returns the performance models that the policy uses and that task times update: those that
    /// were [given](RuntimeBuilder::models) or the runtime's own; `None` if nothing is timed. A
    /// worker adds its measurements once it is idle.
    pub fn models(&self) -> Option<&Arc<Models>> {
        self.engine.models.as_ref()
    }

    /// Waits until `task` is complete. If a body calls it, the tasks that this body has submitted
    /// run on its stack in the meantime, and a spare thread runs other tasks in its place.
    ///
    /// # Errors
    /// [`Error::Failed`] with its failure; [`Error::SelfWait`] inside that same task;
    /// [`Error::Deadlock`] if it cannot complete before the caller goes on; [`Error::TooDeep`] in a
    /// body if too many other bodies wait.
    pub fn wait(&self, task: &TaskRef) -> Result<(), Error> {
        self.engine.wait(task)
    }

    /// Waits until every submitted task is complete, failed ones included.
    ///
    /// # Errors
    /// [`Error::Failed`] with the first failure since the last call, [`failures`](Self::failures)
    /// returns all of them; cancelled tasks do not count. [`Error::SelfWait`] inside a task;
    /// [`Error::Deadlock`] if a task waits for a guard that the caller holds.
    pub fn wait_all(&self) -> Result<(), Error> {
        self.engine.wait_for_all()?;
        // A task that a broken runtime has failed may have ended before anybody waited: report the
        // cause first.
        self.engine.failures.check_broken()?;
        self.engine.failures.take_first().map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }

    /// Returns the tasks that have failed since the last call, the first one first, at most 1000.
    /// Tasks that were cancelled, or did not run because another had failed, are not included.
    pub fn failures(&self) -> Vec<Arc<Failure>> {
        self.engine.failures.take()
    }

    /// Starts a group of tasks that are waited for together; see [`Group`].
    pub fn group(&self) -> Group<'_> {
        Group::new(self)
    }

    /// Cancels every task that has been submitted and has not started; the values that they would
    /// have written are poisoned.
    pub fn cancel_all(&self) {
        self.engine.cancel_all();
    }

    /// Returns an object that can cancel all tasks from another thread, e.g. from a signal
    /// handler's thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.engine))
    }

    /// Waits for the tasks that produce the value of `handle`, and no others, and takes the value
    /// out. The handle cannot be used afterwards.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the failure that left it without a value, [`Error::Unwritten`], and
    /// [`Error::Gone`] on a second call.
    pub fn take<D: Data>(&self, handle: Handle<D>) -> Result<D, Error> {
        let guard = self.gate(&handle, Mode::Update, "take")?;
        handle.core().retire();
        guard.take()
    }

    /// Ends the use of the handle: later submissions with it are refused. Its data are freed once
    /// the tasks on it have run.
    pub fn release<D: Data>(&self, handle: Handle<D>) {
        handle.core().retire();
    }

    /// Waits for the handle's writers and reads its value in place; tasks that write it wait for
    /// the guard.
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
    ) -> Result<crate::engine::Gate<D>, Error> {
        crate::engine::Gate::enter(&self.engine, handle, mode, name)
    }

    /// Records the tasks that `build` submits to the recorder, without running them.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn record<E>(&self, build: impl FnOnce(&Recorder) -> Result<(), E>) -> Result<Graph, E> {
        Graph::record(build)
    }

    /// Runs a recorded graph on the handles in `bind` ([`Bindings::recorded`] for those of the
    /// recording). Its tasks come after all tasks on the same handles that were submitted before,
    /// and before all later ones, as if they were submitted here. The returned task is complete
    /// once all of them are.
    ///
    /// # Errors
    /// Those of the submission of one task that accesses all of these handles.
    pub fn replay(&self, bind: &Bindings) -> Result<TaskRef, Error> {
        let span = tracing::debug_span!("replay");
        let _entered = span.enter();
        graph::submit_replay(&self.engine, bind.clone())
    }

    /// Allows tasks to use the caller's own slices without a copy; returns when the tasks have
    /// ended.
    ///
    /// ```
    /// use zellige_runtime::{Error, Runtime, Submit, update};
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
    ///     Ok::<(), Error>(())
    /// })?;
    /// assert_eq!(values, [2.0, 2.0, 1.0, 2.0, 2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `body`; [`Error::Poisoned`] if a task that writes a slice failed;
    /// [`Error::Deadlock`] in a body, if tasks on the slices can run only after that body has
    /// ended: those tasks fail.
    pub fn scope<'env, R, E: From<Error>>(
        &self,
        body: impl FnOnce(&Scope<'_, 'env>) -> Result<R, E>,
    ) -> Result<R, E> {
        let scope = Scope::new(self);
        let result = body(&scope);
        let ended = scope.end();
        let value = result?;
        ended?;
        Ok(value)
    }

    /// Returns the statistics of each memory node so far: the host, each
    /// [device](RuntimeBuilder::device), and the disk if there is [one](RuntimeBuilder::swap).
    /// Empty without devices and without a [limit](RuntimeBuilder::host_memory) of host memory: all
    /// data are in host memory then.
    ///
    /// ```
    /// use zellige_runtime::{Candidate, Emulated, NodeUse, Runtime, Submit, update};
    ///
    /// // What was used last makes room.
    /// let latest = |_node: usize, replicas: &[Candidate]| (0..replicas.len()).max_by_key(|&at| replicas[at].last_use);
    /// let rt = Runtime::builder().workers(1).device(Emulated::new(1 << 20)).choose_victim(latest).build()?;
    /// let x = rt.register(vec![1.0f64; 100]);
    /// rt.task("double").operands((update(&x),)).cpu(|(x,)| x.iter_mut().for_each(|x| *x *= 2.0)).on_worker(1).submit()?;
    /// rt.wait_all()?;
    /// let nodes: Vec<NodeUse> = rt.memory();
    /// assert_eq!((nodes[0].name.as_str(), nodes[1].capacity), ("host", Some(1 << 20)));
    /// assert_eq!(rt.devices().map(|device| device.memory).collect::<Vec<_>>(), [None, Some(1 << 20)]);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    pub fn memory(&self) -> Vec<NodeUse> {
        self.engine.transfers.as_ref().map(TransferDriver::uses).unwrap_or_default()
    }

    /// Waits until no transfer between memory nodes is in flight. [`wait_all`](Runtime::wait_all)
    /// waits for tasks alone: prefetches and write-backs may still be in flight afterwards. If no
    /// task runs after this call, [`memory`](Runtime::memory) and
    /// [`take_trace`](Runtime::take_trace) report the same transfers.
    ///
    /// # Errors
    /// [`Error::SelfWait`] inside a task that cannot wait.
    pub fn wait_transfers(&self) -> Result<(), Error> {
        self.engine.wait_for_transfers()
    }

    /// Measures the links of [devices](RuntimeBuilder::device) that are not known yet, and waits
    /// for the results; without this call, each is measured when it is first used. The results are
    /// stored in the [models](RuntimeBuilder::models). Call it on an idle runtime: concurrent
    /// transfers disturb each other.
    pub fn measure_links(&self) {
        self.engine.measure_links();
    }

    /// Runs `make` and returns its result; its [`Buffer`](crate::Buffer)s lie in page-locked memory
    /// if the runtime has GPUs, as the buffers of tasks do. It is meant for values that the caller
    /// makes and GPUs read.
    ///
    /// ```
    /// use zellige_runtime::{Buffer, Runtime, Submit};
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let x = rt.register(rt.page_locked(|| Buffer::from_slice(&[1.0f32; 1000])));
    /// assert_eq!(rt.read(&x)?.len(), 1000);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    pub fn page_locked<R>(&self, make: impl FnOnce() -> R) -> R {
        let _serving = self.engine.transfers.as_ref().and_then(TransferDriver::serve);
        make()
    }

    /// Returns true once a device has failed.
    pub(crate) fn has_lost_a_device(&self) -> bool {
        let transfers = self.engine.transfers.as_ref();
        transfers
            .is_some_and(|transfers| (0..self.workers()).any(|worker| transfers.failure_of(worker).is_some()))
    }

    /// Marks the start of a phase of the program in the trace, e.g. `factorisation`: reports and
    /// viewers show such phases in addition to the tasks. A phase lasts until the next one begins
    /// or the trace is taken. Does nothing unless the runtime was built with `trace`.
    ///
    /// ```
    /// use zellige_runtime::{Runtime, Submit, update};
    ///
    /// let rt = Runtime::builder().workers(1).trace(true).build()?;
    /// let x = rt.register(1i32);
    /// rt.phase("doubling");
    /// rt.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2).submit()?;
    /// rt.wait_all()?;
    /// let trace = rt.take_trace().expect("it is recorded");
    /// assert_eq!(trace.phases[0].name, "doubling");
    /// assert!(trace.phases[0].start_ns <= trace.tasks[0].start_ns);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    pub fn phase(&self, name: &str) {
        if let Some(recorder) = &self.engine.recorder {
            recorder.phase(name.into(), self.engine.now().as_nanos() as u64);
        }
    }

    /// Returns the records since the last call; `None` unless the runtime was built with `trace`.
    /// Call it on an idle runtime, e.g. after [`wait_all`](Runtime::wait_all) and, with devices,
    /// [`wait_transfers`](Runtime::wait_transfers).
    pub fn take_trace(&self) -> Option<Trace> {
        let recorder = self.engine.recorder.as_ref()?;
        let worker = |(w, slot): (usize, &WorkerSlot)| TraceWorker {
            name: match &self.engine.transfers {
                Some(transfers) if transfers.node_of(w) != 0 => {
                    transfers.node_names().nth(transfers.node_of(w)).unwrap_or("").into()
                }
                _ => format!("worker {w} (cpu {})", slot.core.cpu),
            },
            kind: slot.model_name.clone(),
            node: self.engine.transfers.as_ref().map_or(0, |transfers| transfers.node_of(w) as u32),
        };
        let workers = self.engine.workers.iter().enumerate().map(worker).collect();
        let now = self.engine.now().as_nanos() as u64;
        let mut trace = recorder.drain(workers, self.policy().to_string(), now);
        if let Some(transfers) = &self.engine.transfers {
            transfers.add_to(&mut trace);
        }
        Some(trace)
    }
}

impl Submit for Runtime {
    fn owner(&self) -> Option<u32> {
        Some(self.engine.id)
    }

    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.engine.submit(spec)
    }

    fn announce_step(&self, tasks: usize) {
        self.engine.announce_step(tasks);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.engine.workers.check_process().is_err() {
            // The workers are in the process from which this one was forked.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        if std::thread::panicking() {
            self.cancel_all();
        }
        // If one of its own workers drops it (inside a task, or with the body of a task that held
        // the runtime), it can wait neither for that task nor for that thread: the workers then end
        // by themselves once no work is left.
        if self.engine.is_own_worker() {
            self.engine.workers.stop();
            return;
        }
        // If a worker has died, the others end.
        let complete = self.engine.wait_for_all().is_ok();
        if complete {
            self.engine.write_back_all();
        }
        self.engine.workers.stop();
        for thread in self.threads.drain(..).chain(self.engine.take_spare_threads()) {
            // A worker that panicked has reported it.
            let _ = thread.join();
        }
        if complete {
            self.engine.end();
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} workers, {})", self.workers(), self.policy())
    }
}

/// Cancels all tasks that a runtime has not started.
///
/// ```
/// use zellige_runtime::{Canceller, Cause, Error, Runtime, Submit, TaskRef, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(0u32);
/// let held = rt.write(&x)?; // so that the task has not started
/// let task: TaskRef = rt.task("never").operands((update(&x),)).cpu(|(x,)| *x += 1).submit()?;
/// let canceller: Canceller = rt.canceller();
/// std::thread::spawn(move || canceller.cancel_all()).join().unwrap();
/// drop(held);
/// let Err(Error::Failed(failure)) = rt.wait(&task) else { panic!("it was cancelled") };
/// assert!(matches!(failure.cause, Cause::Cancelled) && failure.task == "never");
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Canceller(Arc<Engine>);

impl Canceller {
    /// Cancels all tasks that have not started; see [`Runtime::cancel_all`].
    pub fn cancel_all(&self) {
        self.0.cancel_all();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}
