//! Environment in which a task runs, and the measurements of a worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use zellige_model::{KindId, ModelId, Models, Sampler};

use super::{
    Accesses, AnyHandle, Asked, Choice, DeviceInfo, HandleBase, HandleCore, Header, Range, ReadyTask,
    Refusal, Runner, TaskContext, registered_bytes,
};
use crate::buffer::Buffer;
use crate::device::Stream;
use crate::error::{Cause, Failure, TaskError, caught};
use crate::format::Format;
use crate::memory::BufferId;
use crate::subnormals::Subnormals;
use crate::value::{Data, Kind, Pending, ValueCell, View, Viewer};

/// Handles that a replay binds in place of the recorded ones.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'e> {
    /// One handle per slot of the graph.
    pub(crate) handles: &'e [Arc<dyn AnyHandle>],
    /// The slot of each access of the task, in the order of declaration.
    pub(crate) slots: &'e [u32],
}

/// Placement of a task: the result of its deferred selection, and the places of its operands.
pub(crate) struct TaskPlacement {
    pub(crate) choice: Choice,
    /// Place of each access.
    pub(crate) buffers: SmallVec<[BufferId; 4]>,
    /// Total size of the operands (bytes).
    pub(crate) bytes: u64,
    /// Stream of the device on which the body puts its operations.
    pub(crate) stream: Option<Arc<dyn Stream>>,
    /// True if earlier tasks on the same device have not ended.
    pub(crate) stream_ordered: bool,
}

/// State that a worker keeps between tasks.
#[derive(Default)]
pub(crate) struct WorkerLocal {
    /// Sampler of task times, if models are used.
    sampler: Option<Sampler>,
    /// Number of tasks that were candidates for timing.
    timed: u32,
    /// Tasks that the current one released from being parked.
    pub(crate) woken: Vec<ReadyTask>,
    scratch: Vec<Buffer<u64>>,
}

/// Sampling interval of short tasks that the models know well: reading the thread's CPU time is a
/// system call.
const EVERY: u32 = 16;

/// Time from which on tasks are always timed: two system calls are less than a hundredth of it.
const LONG: Duration = Duration::from_micros(100);

impl WorkerLocal {
    /// Creates the state for bodies on a device of this kind.
    pub(crate) fn new(models: Option<&Arc<Models>>, kind: KindId) -> Self {
        let sampler = models.map(|models| Sampler::new(Arc::clone(models), kind));
        WorkerLocal { sampler, ..WorkerLocal::default() }
    }

    /// Passes on the collected times: the worker is idle.
    pub(crate) fn flush(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.flush();
        }
    }
}

/// Returns the CPU time of this thread so far: the time of a body on a core of its own, independent
/// of other load on the machine.
fn thread_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Parameters of the call of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Variant from its deferred selection.
    pub(crate) variant: u32,
    /// Index of the codelet's implementation.
    pub(crate) implementation: usize,
    /// Number of tasks in the call.
    pub(crate) tasks: u32,
    /// Treatment of subnormal numbers that its codelet requests.
    pub(crate) subnormals: Option<Subnormals>,
}

/// Notes on a task during its execution.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes {
    /// True once the body has begun.
    pub(crate) began: bool,
    /// Bytes of the operands, if the trace or the models need them.
    pub(crate) bytes: usize,
    /// Expected time of the body at its start, if times are measured.
    pub(crate) predicted: Option<Duration>,
    /// Start and end of the body, if times are measured.
    pub(crate) times: Option<(Instant, Instant)>,
    /// Label from the deferred selection; empty: the submitted label applies.
    pub(crate) chosen: &'static str,
    /// The implementation that runs; empty if there is only one.
    pub(crate) implementation: &'static str,
    /// Number of tasks in the call that ran this one, if there are several.
    pub(crate) batch: u32,
}

/// Environment of a running task: its worker, its bindings, and the measurements.
pub struct Env<'e> {
    pub(crate) runner: Runner<'e>,
    pub(crate) header: &'e Header,
    /// The task's number; a replay's differs from its recording's.
    pub(crate) id: u64,
    worker: usize,
    local: &'e mut WorkerLocal,
    bindings: Option<Bound<'e>>,
    placement: Option<&'e TaskPlacement>,
    /// Number of accesses resolved so far.
    cursor: usize,
    /// True if operands may be poisoned, so that every one is checked.
    strict: bool,
    pub(crate) failure: Option<Arc<Failure>>,
    pub(crate) notes: Notes,
    /// Callbacks that a launched body has registered for the end of its operations.
    pub(crate) pending: Option<Pending>,
}

impl<'e> Env<'e> {
    #[inline]
    pub(crate) fn new(
        runner: Runner<'e>,
        header: &'e Header,
        id: u64,
        worker: usize,
        local: &'e mut WorkerLocal,
        bindings: Option<Bound<'e>>,
        strict: bool,
    ) -> Self {
        Env {
            runner,
            header,
            id,
            worker,
            local,
            bindings,
            placement: None,
            cursor: 0,
            strict,
            failure: None,
            notes: Notes::default(),
            pending: None,
        }
    }

    /// Returns the stream of the device on which the body puts its operations; `None`: it runs
    /// here.
    #[inline]
    pub(crate) fn stream(&self) -> Option<&'e dyn Stream> {
        self.placement?.stream.as_deref()
    }

    /// Returns the label from the deferred selection, or else its own label.
    fn label(&self) -> &'static str {
        self.header.known_as(self.notes.chosen).label
    }

    /// Notes the label from the deferred selection, if there is one, and the expected time.
    pub(crate) fn is_called<'o>(&mut self, chosen: &'static str, declare: impl FnOnce(&mut Accesses<'o>)) {
        self.notes.chosen = chosen;
        // Without measurements, avoid touching the header, which is cold memory. For several
        // implementations, the expected time is queried once the choice is known.
        if self.runner.measures && self.header.implementations.names.is_empty() {
            self.predicts(declare);
        }
    }

    /// Notes the expected time of the body.
    fn predicts<'o>(&mut self, declare: impl FnOnce(&mut Accesses<'o>)) {
        let bytes = self.placement.map(|placement| placement.bytes);
        let asked = Asked { header: self.header, chosen: self.notes.chosen, bytes };
        let registered = || registered_bytes(declare, self.bindings);
        let implementation = self.notes.implementation;
        let kind = || self.runner.services.model_kind(self.worker);
        self.notes.predicted = asked.time(self.runner.models, kind, implementation, registered);
    }

    /// Sets the places of the operands, which are not in their handles' cells.
    pub(crate) fn placed(mut self, placement: &'e TaskPlacement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Returns true if earlier tasks on the same device have not ended.
    #[inline]
    pub(crate) fn is_stream_ordered(&self) -> bool {
        self.placement.is_some_and(|placement| placement.stream_ordered)
    }

    /// Returns the handles of a replay's slots, and their placement.
    ///
    /// # Panics
    /// If the task is not a replay that has been placed.
    pub(crate) fn bound_and_placed(&self) -> (&'e [Arc<dyn AnyHandle>], &'e TaskPlacement) {
        self.bindings.map(|bound| bound.handles).zip(self.placement).expect("a replay as one task is placed")
    }

    /// Returns the environment of one of its tasks.
    pub(crate) fn within<'s>(
        &'s mut self,
        header: &'s Header,
        bound: Bound<'s>,
        placement: &'s TaskPlacement,
    ) -> Env<'s> {
        let runner = Runner { measures: false, ..self.runner };
        Env::new(runner, header, self.id, self.worker, self.local, Some(bound), false).placed(placement)
    }

    pub(crate) fn is_placed(&self) -> bool {
        self.placement.is_some()
    }

    /// Returns the place of the operand that was resolved last; `None`: its handle's cell.
    #[inline]
    pub(crate) fn place(&self) -> Option<BufferId> {
        self.place_of(self.cursor.wrapping_sub(1))
    }

    /// Returns the place of access `access`; `None`: its handle's cell.
    #[inline]
    pub(crate) fn place_of(&self, access: usize) -> Option<BufferId> {
        self.placement.map(|placement| placement.buffers[access])
    }

    #[inline]
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Returns the handle of an operand: its own, or the one bound to its slot.
    #[inline]
    pub(crate) fn resolve<D: Data>(&mut self, own: &'e Arc<HandleCore<D>>) -> &'e HandleCore<D> {
        let access = self.cursor;
        self.cursor += 1;
        match self.bindings {
            None => own,
            Some(bindings) => {
                let slot = bindings.slots[access];
                bindings.handles[slot as usize]
                    .as_any()
                    .downcast_ref()
                    .expect("types are checked when slots are bound")
            }
        }
    }

    /// Returns the handle bound to access `access`, in a replay.
    pub(crate) fn bound(&self, access: usize) -> Option<&'e dyn AnyHandle> {
        self.bindings.map(|bindings| &*bindings.handles[bindings.slots[access] as usize])
    }

    #[inline]
    pub(crate) fn check(&self, base: &HandleBase) -> Result<(), Refusal> {
        if self.strict
            && let Some(failure) = base.failure()
        {
            return Err(Refusal::Poisoned(failure));
        }
        Ok(())
    }

    /// Counts the task's view of a value of `base`, until the returned object is dropped.
    #[inline]
    pub(crate) fn view<T>(&self, base: &HandleBase, cell: &ValueCell<T>, kind: Kind) -> View {
        let by = Viewer { name: self.header.name, coords: self.header.info.coords, task: Some(self.id) };
        cell.view(kind, base, by).unwrap_or_else(|wrong| {
            self.runner.services.break_down(wrong.to_string());
            panic!("{wrong}")
        })
    }

    #[inline]
    pub(crate) fn add_bytes<D: Data>(&mut self, value: &D) {
        if self.runner.measures || self.local.sampler.is_some() {
            self.notes.bytes += value.meta().bytes;
        }
    }

    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.notes.bytes += bytes;
    }

    pub(crate) fn replica<D: Data>(
        &mut self,
        core: &HandleCore<D>,
        master: &D,
        to: Format,
    ) -> Result<Arc<D>, Refusal> {
        core.replica(master, to, &mut self.local.woken).map_err(|refusal| refusal.of(core))
    }

    /// Returns a form of a version in another process; `None` if the version is local.
    pub(crate) fn received<D: Data>(
        &mut self,
        core: &HandleCore<D>,
        format: Format,
    ) -> Option<Result<Arc<D>, Refusal>> {
        let received = core.received(self.runner.services, format, &mut self.local.woken)?;
        Some(received.map_err(|refusal| refusal.of(core)))
    }

    /// Returns the model that is to learn from this task, if the task is selected for timing.
    #[inline]
    fn sampled(&mut self) -> Option<ModelId> {
        if self.local.sampler.is_some() { self.sampled_at_all() } else { None }
    }

    fn sampled_at_all(&mut self) -> Option<ModelId> {
        if self.stream().is_some() {
            // The body only puts operations on a stream: their time is known when they end.
            return None;
        }
        let models = self.runner.models?;
        let kind = self.runner.services.model_kind(self.worker);
        let id = self.header.model_id(models, self.notes.chosen, self.notes.implementation);
        self.local.timed = self.local.timed.wrapping_add(1);
        let short = models.known(id, kind).is_some_and(|known| known.time < LONG);
        (!short || self.local.timed.is_multiple_of(EVERY)).then_some(id)
    }

    /// Selects one of several implementations among those that satisfy `able`; `None` if none does.
    pub(crate) fn pick<'o>(
        &mut self,
        declare: impl FnOnce(&mut Accesses<'o>),
        able: impl Fn(&DeviceInfo<'_>, usize) -> bool,
    ) -> Option<usize> {
        let Runner { services, models, .. } = self.runner;
        let device = services.device(self.worker);
        let kind = || services.model_kind(self.worker);
        let picked = self.header.pick(self.notes.chosen, models, kind, |i| able(&device, i))?;
        self.notes.implementation = self.header.implementations.names[picked];
        if self.runner.measures {
            self.predicts(declare);
        }
        Some(picked)
    }

    /// Calls a body, and notes its start, end and duration.
    #[inline]
    pub(crate) fn call(
        &mut self,
        call: Call,
        body: impl FnOnce(&mut TaskContext<'_>) -> Result<(), TaskError>,
    ) -> Result<(), Cause> {
        let stream = self.stream();
        let sampled = self.sampled().map(|id| (id, thread_time()));
        let start = self.runner.measures.then(Instant::now);
        self.notes.began = true;
        let mut cx = TaskContext::new(self.runner.services, self.header, self.id, self.worker, call, stream);
        let range = stream.and_then(|stream| Range::begin(stream, self.header, self.label()));
        let mode = self.runner.subnormals(call.subnormals).enter();
        let result = caught(|| body(&mut cx));
        drop((mode, range));
        if stream.is_some() {
            self.pending = Some(cx.into_pending());
        }
        self.notes.times = start.map(|start| (start, Instant::now()));
        if let (Some((id, start)), Ok(Ok(())), Some(sampler)) = (sampled, &result, &mut self.local.sampler) {
            let time = thread_time().saturating_sub(start) / call.tasks;
            sampler.record(id, self.header.info.flops, self.notes.bytes as u64, time);
        }
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Cause::Error(Arc::from(error))),
            Err(message) => Err(Cause::Panic(message)),
        }
    }

    /// Resets the resolved operands: they are resolved once more.
    pub(crate) fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// Returns true if the device that the worker drives has failed.
    pub(crate) fn is_on_failed_device(&self) -> bool {
        self.runner.services.has_lost_device(self.worker)
    }

    #[inline]
    pub(crate) fn placement(&self) -> Option<&'e TaskPlacement> {
        self.placement
    }

    #[inline]
    pub(crate) fn bindings(&self) -> Option<Bound<'e>> {
        self.bindings
    }

    pub(crate) fn wake(&mut self, tasks: Vec<ReadyTask>) {
        self.local.woken.extend(tasks);
    }

    /// Returns the failure of the body, once it has run and failed.
    pub(crate) fn failed_body(&self) -> Option<&Arc<Failure>> {
        self.failure.as_ref()
    }

    pub(crate) fn borrow_scratch(&mut self, words: usize) -> Buffer<u64> {
        let pool = &mut self.local.scratch;
        match pool.iter().position(|buffer| buffer.len() >= words) {
            Some(at) => pool.swap_remove(at),
            None => Buffer::zeroed(words),
        }
    }

    pub(crate) fn return_scratch(&mut self, words: Buffer<u64>) {
        /// More buffers than any body borrows at once; the smallest are freed.
        const KEPT: usize = 8;
        let pool = &mut self.local.scratch;
        pool.push(words);
        if pool.len() > KEPT {
            let smallest = (0..pool.len()).min_by_key(|&i| pool[i].len()).expect("not empty");
            pool.swap_remove(smallest);
        }
    }
}
