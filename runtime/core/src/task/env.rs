//! The surroundings in which a task runs, and what a worker measures of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use zellige_model::{KindId, ModelId, Sampler};

use super::{Asked, Choice, Codelet, DeviceInfo, Header, Range, Refusal, TaskContext, registered_bytes};
use crate::buffer::Buffer;
use crate::data::{AnyHandle, Data, HandleBase, HandleCore, Kind, ValueCell, View, Viewer};
use crate::device::Stream;
use crate::engine::ReadyTask;
use crate::engine::Shared;
use crate::error::{Cause, Failure, TaskError, caught};
use crate::format::Format;
use crate::memory::BufferId;
use crate::operand::Operands;
use crate::operand::Pending;
use crate::subnormals::Subnormals;

/// The handles that a replay puts in place of those that were recorded.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'e> {
    /// One handle per slot of the graph.
    pub(crate) handles: &'e [Arc<dyn AnyHandle>],
    /// The slot of each access of the task, in the order of declaration.
    pub(crate) slots: &'e [u32],
}

/// Where a task runs that has been placed: its deferred selection has been asked for, and its
/// operands lie at these numbers.
pub(crate) struct Placement {
    pub(crate) choice: Choice,
    /// One for each access.
    pub(crate) buffers: SmallVec<[BufferId; 4]>,
    /// All of them together.
    pub(crate) bytes: u64,
    /// Of the device on which the body puts its operations.
    pub(crate) stream: Option<Arc<dyn Stream>>,
    /// Others before it on the same device have not ended.
    pub(crate) stream_ordered: bool,
}

/// What a worker keeps for itself between tasks.
#[derive(Default)]
pub(crate) struct WorkerLocal {
    /// Where its tasks' times go, if somebody wants them.
    sampler: Option<Sampler>,
    /// Tasks that were candidates for being timed.
    timed: u32,
    /// Tasks that the current one released from being parked.
    pub(crate) woken: Vec<ReadyTask>,
    scratch: Vec<Buffer<u64>>,
}

/// Of short tasks that the models know well, every so many are timed: asking for the thread's CPU
/// time is a system call.
const EVERY: u32 = 16;

/// Tasks that take as long as this are timed always: two system calls are less than a hundredth of
/// it.
const LONG: Duration = Duration::from_micros(100);

impl WorkerLocal {
    /// For bodies on a device of this kind.
    pub(crate) fn new(shared: &Shared, kind: KindId) -> Self {
        let sampler = shared.models.as_ref().map(|models| Sampler::new(Arc::clone(models), kind));
        WorkerLocal { sampler, ..WorkerLocal::default() }
    }

    /// Passes on the times that have been gathered: the worker has nothing else to do.
    pub(crate) fn flush(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.flush();
        }
    }
}

/// CPU time of this thread so far: what a body takes on a core of its own, whoever else is on the
/// machine.
fn thread_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// How a body is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// What its deferred selection decided.
    pub(crate) variant: u32,
    /// Which of the codelet's implementations runs.
    pub(crate) implementation: usize,
    /// How many tasks the call runs.
    pub(crate) tasks: u32,
    /// What its codelet says of subnormal numbers.
    pub(crate) subnormals: Option<Subnormals>,
}

impl Call {
    /// Of so many tasks with a codelet of type `C`.
    pub(crate) fn of<C: Codelet>(choice: &Choice, implementation: usize, tasks: usize) -> Self {
        Call { variant: choice.variant, implementation, tasks: tasks as u32, subnormals: C::SUBNORMALS }
    }
}

/// What is noted of a task on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes {
    /// The body has begun.
    pub(crate) began: bool,
    /// Bytes of the operands, where somebody wants them: the trace, or the models.
    pub(crate) bytes: usize,
    /// How long the body was expected to take when it was begun, where measuring.
    pub(crate) predicted: Option<Duration>,
    /// Start and end of the body, where measuring.
    pub(crate) times: Option<(Instant, Instant)>,
    /// What the deferred selection called the task; empty: nothing, its label stands.
    pub(crate) chosen: &'static str,
    /// The implementation that runs; empty where there is one.
    pub(crate) implementation: &'static str,
    /// How many tasks the call ran that ran this one, if several.
    pub(crate) batch: u32,
}

/// Where a task runs: its worker, its bindings, and what is measured.
pub struct Env<'e> {
    pub(crate) shared: &'e Arc<Shared>,
    pub(crate) header: &'e Header,
    /// The task's number; a replay's differs from its recording's.
    pub(crate) id: u64,
    worker: usize,
    local: &'e mut WorkerLocal,
    bindings: Option<Bound<'e>>,
    placement: Option<&'e Placement>,
    /// Accesses resolved so far.
    cursor: usize,
    /// Poison may be about: check every operand.
    strict: bool,
    pub(super) failure: Option<Arc<Failure>>,
    measure: bool,
    pub(crate) notes: Notes,
    /// What a body that was launched has left for the end of its operations.
    pub(crate) pending: Pending,
}

impl<'e> Env<'e> {
    #[inline]
    pub(crate) fn new(
        shared: &'e Arc<Shared>,
        header: &'e Header,
        id: u64,
        worker: usize,
        local: &'e mut WorkerLocal,
        bindings: Option<Bound<'e>>,
        strict: bool,
    ) -> Self {
        let measure = shared.is_measuring();
        Env {
            shared,
            header,
            id,
            worker,
            local,
            bindings,
            placement: None,
            cursor: 0,
            strict,
            failure: None,
            measure,
            notes: Notes::default(),
            pending: Pending::default(),
        }
    }

    /// The stream of the device on which the body is to put its operations; `None`: it runs here.
    #[inline]
    pub(crate) fn stream(&self) -> Option<&'e dyn Stream> {
        self.placement?.stream.as_deref()
    }

    /// What the deferred selection calls the task, or else its own label.
    fn label(&self) -> &'static str {
        self.header.known_as(self.notes.chosen).label
    }

    /// The deferred selection has called the task so, if anything; what is expected of it is noted.
    pub(super) fn is_called(&mut self, chosen: &'static str, operands: &impl Operands) {
        self.notes.chosen = chosen;
        // Where nothing is measured the header, which is cold memory, is not touched. Of several
        // implementations the one that runs is asked for once it is known.
        if self.measure && self.header.implementations.names.is_empty() {
            self.predicts(operands);
        }
    }

    /// Notes how long the body is expected to take.
    fn predicts(&mut self, operands: &impl Operands) {
        let bytes = self.placement.map(|placement| placement.bytes);
        let asked = Asked { header: self.header, chosen: self.notes.chosen, bytes };
        let registered = || registered_bytes(|accesses| operands.declare(accesses), self.bindings);
        let implementation = self.notes.implementation;
        self.notes.predicted = self.shared.expected_with(&asked, implementation, self.worker, registered);
    }

    /// The operands are not in their handles' cells but in these places.
    pub(crate) fn placed(mut self, placement: &'e Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// True if others before it on the same device have not ended.
    #[inline]
    pub(crate) fn is_stream_ordered(&self) -> bool {
        self.placement.is_some_and(|placement| placement.stream_ordered)
    }

    /// The handles of a replay's slots, and where they are placed.
    ///
    /// # Panics
    /// For what is not a replay that has been placed.
    pub(crate) fn bound_and_placed(&self) -> (&'e [Arc<dyn AnyHandle>], &'e Placement) {
        self.bindings.map(|bound| bound.handles).zip(self.placement).expect("a replay as one task is placed")
    }

    /// The surroundings of one of its tasks.
    pub(crate) fn within<'s>(
        &'s mut self,
        header: &'s Header,
        bound: Bound<'s>,
        placement: &'s Placement,
    ) -> Env<'s> {
        let mut inner = Env::new(self.shared, header, self.id, self.worker, self.local, Some(bound), false);
        inner.measure = false;
        inner.placed(placement)
    }

    pub(crate) fn is_placed(&self) -> bool {
        self.placement.is_some()
    }

    /// The place of the operand that was resolved last; `None`: its handle's cell.
    #[inline]
    pub(crate) fn place(&self) -> Option<BufferId> {
        self.place_of(self.cursor.wrapping_sub(1))
    }

    /// The place of access `access`; `None`: its handle's cell.
    #[inline]
    pub(crate) fn place_of(&self, access: usize) -> Option<BufferId> {
        self.placement.map(|placement| placement.buffers[access])
    }

    #[inline]
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// The handle that an operand stands for: its own, or the one bound to its slot.
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

    /// The handle bound to access `access`, in a replay.
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

    /// Counts the task's view of a value of `base`'s, until what is returned is dropped.
    #[inline]
    pub(crate) fn view<T>(&self, base: &HandleBase, cell: &ValueCell<T>, kind: Kind) -> View {
        let by = Viewer { name: self.header.name, coords: self.header.info.coords, task: Some(self.id) };
        self.shared.granted(cell.view(kind, base, by))
    }

    #[inline]
    pub(crate) fn add_bytes<D: Data>(&mut self, value: &D) {
        if self.measure || self.local.sampler.is_some() {
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

    /// A form of a version that is elsewhere; `None` if it is not.
    pub(crate) fn received<D: Data>(
        &mut self,
        core: &HandleCore<D>,
        format: Format,
    ) -> Option<Result<Arc<D>, Refusal>> {
        let received = core.received(self.shared, format, &mut self.local.woken)?;
        Some(received.map_err(|refusal| refusal.of(core)))
    }

    /// The model that is to learn how long this task takes, if it is this task's turn.
    #[inline]
    fn sampled(&mut self) -> Option<ModelId> {
        if self.local.sampler.is_some() { self.sampled_at_all() } else { None }
    }

    fn sampled_at_all(&mut self) -> Option<ModelId> {
        if self.stream().is_some() {
            // The body only puts operations on a stream: how long those take is known when they
            // end.
            return None;
        }
        let models = self.shared.models.as_ref()?;
        let kind = self.shared.workers[self.worker].model_kind;
        let id = self.header.model_id(models, self.notes.chosen, self.notes.implementation);
        self.local.timed = self.local.timed.wrapping_add(1);
        let short = models.known(id, kind).is_some_and(|known| known.time < LONG);
        (!short || self.local.timed.is_multiple_of(EVERY)).then_some(id)
    }

    /// Which of several implementations runs, among those that are `able` to; `None` if none is.
    pub(super) fn pick(
        &mut self,
        operands: &impl Operands,
        able: impl Fn(&DeviceInfo<'_>, usize) -> bool,
    ) -> Option<usize> {
        let device = self.shared.device(self.worker);
        let chosen = self.notes.chosen;
        let picked = self.shared.pick(self.header, chosen, self.worker, |i| able(&device, i))?;
        self.notes.implementation = self.header.implementations.names[picked];
        if self.measure {
            self.predicts(operands);
        }
        Some(picked)
    }

    /// Calls a body, and notes when it ran and how long it took.
    #[inline]
    pub(super) fn call(
        &mut self,
        call: Call,
        body: impl FnOnce(&mut TaskContext<'_>) -> Result<(), TaskError>,
    ) -> Result<(), Cause> {
        let stream = self.stream();
        let sampled = self.sampled().map(|id| (id, thread_time()));
        let start = self.measure.then(Instant::now);
        self.notes.began = true;
        let mut cx = TaskContext::new(self.shared, self.header, self.id, self.worker, call, stream);
        let range = stream.and_then(|stream| Range::begin(stream, self.header, self.label()));
        let mode = self.shared.subnormals(call.subnormals).enter();
        let result = caught(|| body(&mut cx));
        drop((mode, range));
        if stream.is_some() {
            self.pending = cx.into_pending();
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

    /// Forgets which operands have been resolved: they are looked at once more.
    pub(super) fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// Whether the device that the worker drives has failed.
    pub(super) fn is_on_failed_device(&self) -> bool {
        self.shared.transfers.as_ref().is_some_and(|transfers| transfers.failure_of(self.worker).is_some())
    }

    #[inline]
    pub(super) fn placement(&self) -> Option<&'e Placement> {
        self.placement
    }

    #[inline]
    pub(super) fn bindings(&self) -> Option<Bound<'e>> {
        self.bindings
    }

    pub(crate) fn wake(&mut self, tasks: Vec<ReadyTask>) {
        self.local.woken.extend(tasks);
    }

    /// True once the body has run and failed.
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
        /// More buffers than any body borrows at once; the smallest are given up.
        const KEPT: usize = 8;
        let pool = &mut self.local.scratch;
        pool.push(words);
        if pool.len() > KEPT {
            let smallest = (0..pool.len()).min_by_key(|&i| pool[i].len()).expect("not empty");
            pool.swap_remove(smallest);
        }
    }
}
