//! A codelet with its operands, and the surroundings in which it runs.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::{Choice, Codelet, DeviceInfo, Header, Task, TaskContext};
use crate::data::{AnyHandle, Buffer, Data, Format, HandleBase, HandleCore, Meta, NoReplica};
use crate::error::{Cause, Failure, TaskError, panic_message};
use crate::exec::Shared;
use crate::memory::BufferId;
use crate::model::{KindId, ModelId, Sampler};
use crate::operand::{Accesses, Declared, Formats, Metas, Mode, Operands};
use crate::sched::ReadyTask;

/// Something that only one task can use at a time, or that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    /// The turn of a commuting task.
    Commute,
    /// A replica in another format.
    Replica(Format),
}

/// What a task has to be parked on.
pub struct Busy {
    pub(crate) handle: Arc<dyn AnyHandle>,
    pub(crate) resource: Resource,
}

impl Busy {
    pub(crate) fn new(handle: &dyn AnyHandle, resource: Resource) -> Self {
        Busy { handle: handle.arc(), resource }
    }
}

/// Why a task cannot have its operands.
pub enum Refusal {
    /// Not now.
    Busy(Busy),
    /// An operand has no value because an earlier task failed.
    Poisoned(Arc<Failure>),
    /// Never.
    Failed(TaskError),
}

impl Refusal {
    pub(crate) fn unwritten(base: &HandleBase) -> Self {
        Refusal::Failed(format!("{} holds no value: its writer did not run", base.name()).into())
    }
}

/// What came of running a task.
pub(crate) enum Ran {
    /// The body succeeded.
    Done,
    /// The body failed, or could not run: every handle it writes is poisoned with this.
    Failed(Arc<Failure>),
    /// Nothing ran: park it.
    Busy(Busy),
}

/// The handles that a replay puts in place of those that were recorded.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'e> {
    /// One handle per slot of the graph.
    pub(crate) handles: &'e [Arc<dyn AnyHandle>],
    /// The slot of each access of the task, in the order of declaration.
    pub(crate) slots: &'e [u32],
}

/// Where a task runs that has been placed: its late choice has been asked for, and its operands lie at these numbers.
pub(crate) struct Placement {
    pub(crate) choice: Choice,
    /// One for each access.
    pub(crate) buffers: SmallVec<[BufferId; 4]>,
}

/// What became of a task that was placed.
pub(crate) struct Ended {
    /// The body ran, so that what it writes is not what it was.
    pub(crate) began: bool,
    pub(crate) failure: Option<Arc<Failure>>,
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

/// Of short tasks that the models know well, every so many are timed: asking for the thread's CPU time is a system call.
const EVERY: u32 = 16;

/// Tasks that take as long as this are timed always: two system calls are less than a hundredth of it.
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

/// CPU time of this thread so far: what a body takes on a core of its own, whoever else is on the machine.
fn thread_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
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
    /// The body has begun.
    pub(crate) began: bool,
    /// Poison may be about: check every operand.
    strict: bool,
    failure: Option<Arc<Failure>>,
    measure: bool,
    /// Bytes of the operands, where somebody wants them: the trace, or the models.
    pub(crate) bytes: usize,
    /// How long the body was expected to take when it was begun, where measuring.
    pub(crate) predicted: Option<Duration>,
    /// Start and end of the body, where measuring.
    pub(crate) times: Option<(Instant, Instant)>,
    /// What a late choice called the task.
    pub(crate) label: &'static str,
}

impl<'e> Env<'e> {
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
        // Where nothing is measured the header, which is cold memory, is not touched.
        let label = if measure { header.info.label } else { "" };
        let predicted = if measure { shared.expected(header.name, &header.info, worker) } else { None };
        let (failure, times) = (None, None);
        Env {
            shared,
            header,
            id,
            worker,
            local,
            bindings,
            placement: None,
            cursor: 0,
            began: false,
            strict,
            failure,
            measure,
            bytes: 0,
            predicted,
            times,
            label,
        }
    }

    /// The operands are not in their handles' cells but in these places.
    pub(crate) fn placed(mut self, placement: &'e Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    pub(crate) fn is_placed(&self) -> bool {
        self.placement.is_some()
    }

    /// The place of the operand that was resolved last; `None`: its handle's cell.
    pub(crate) fn place(&self) -> Option<BufferId> {
        self.place_of(self.cursor.wrapping_sub(1))
    }

    /// The place of access `access`; `None`: its handle's cell.
    pub(crate) fn place_of(&self, access: usize) -> Option<BufferId> {
        self.placement.map(|placement| placement.buffers[access])
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// The handle that an operand stands for: its own, or the one bound to its slot.
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

    pub(crate) fn check(&self, base: &HandleBase) -> Result<(), Refusal> {
        if self.strict
            && let Some(failure) = base.failure()
        {
            return Err(Refusal::Poisoned(failure));
        }
        Ok(())
    }

    pub(crate) fn add_bytes<D: Data>(&mut self, value: &D) {
        if self.measure || self.local.sampler.is_some() {
            self.bytes += value.meta().bytes;
        }
    }

    pub(crate) fn replica<D: Data>(
        &mut self,
        core: &HandleCore<D>,
        master: &D,
        to: Format,
    ) -> Result<Arc<D>, Refusal> {
        core.replica(master, to, &mut self.local.woken).map_err(|refusal| match refusal {
            NoReplica::InFlight => Refusal::Busy(Busy::new(core, Resource::Replica(to))),
            NoReplica::Impossible(error) => Refusal::Failed(error),
        })
    }

    /// The model that is to learn how long this task takes, if it is this task's turn.
    fn sampled(&mut self) -> Option<ModelId> {
        self.local.sampler.as_ref()?;
        let models = self.shared.models.as_ref()?;
        let kind = self.shared.workers[self.worker].model_kind;
        let id = models.id(self.header.name, &self.header.info);
        self.local.timed = self.local.timed.wrapping_add(1);
        let short = models.known(id, kind).is_some_and(|known| known.time < LONG);
        (!short || self.local.timed.is_multiple_of(EVERY)).then_some(id)
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

/// Each access's handle, its own or the one bound in its place, and how it is accessed.
pub(crate) fn resolved<'a>(
    accesses: &'a [Declared<'_>],
    bindings: Option<Bound<'a>>,
) -> impl Iterator<Item = (&'a dyn AnyHandle, Mode)> {
    accesses.iter().enumerate().map(move |(i, access)| match bindings {
        None => (access.handle, access.mode),
        Some(bindings) => (&*bindings.handles[bindings.slots[i] as usize], access.mode),
    })
}

/// A task's body whose types are forgotten.
pub(crate) trait Body: Send + Sync {
    /// Runs it, or says why not.
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran;
    /// Poisons whatever it writes, of its own handles or of those bound in their place.
    fn poison(&self, bindings: Option<Bound<'_>>, failure: &Arc<Failure>) {
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        for (handle, _) in resolved(&accesses, bindings).filter(|(_, mode)| mode.writes()) {
            handle.base().poison(failure);
        }
    }
    /// True if it runs where the host's memory is.
    fn is_for_host(&self) -> bool {
        false
    }
    /// See [`Codelet::late`]; a panic counts as yes.
    fn is_late(&self) -> bool {
        false
    }
    /// See [`Codelet::can_execute`]; a panic counts as no.
    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let _ = device;
        true
    }
    /// Starts a replay (see [`Role::Replay`](super::Role)).
    fn start(&self, _shared: &Arc<Shared>, _task: Arc<Task>) {
        unreachable!("only a replay is started")
    }
    /// The accesses, in order. Empty once cleared.
    fn declare<'a>(&'a self, out: &mut Accesses<'a>);
    /// The late choice for operands with these metas (one per access), or an empty one, and the format that each access
    /// then asks for. Nothing runs.
    fn plan(&self, metas: &[Meta], out: &mut Formats) -> Choice {
        let _ = metas;
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        out.extend(accesses.iter().map(|_| Format::NATIVE));
        Choice::default()
    }
    /// Drops codelet and operands; the task has completed.
    fn clear(&self);
    /// The names of the operands.
    fn operand_names(&self) -> Vec<String> {
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        accesses.iter().map(|access| access.base.name()).collect()
    }
}

/// A codelet of type `C` and its operands, until the task has completed.
pub(crate) struct TypedBody<C: Codelet>(UnsafeCell<Option<(C, C::Operands)>>);

// SAFETY: the content is only read (codelet and operands are Sync) until `clear`, which whoever completes the task calls
// when nobody runs or links it any more.
unsafe impl<C: Codelet> Sync for TypedBody<C> {}

impl<C: Codelet> TypedBody<C> {
    pub(crate) fn new(codelet: C, operands: C::Operands) -> Self {
        TypedBody(UnsafeCell::new(Some((codelet, operands))))
    }

    fn payload(&self) -> Option<&(C, C::Operands)> {
        // SAFETY: see Sync above: no `clear` happens while a reference from here is in use.
        unsafe { (*self.0.get()).as_ref() }
    }

    fn failure(&self, env: &Env<'_>, cause: Cause) -> Arc<Failure> {
        let mut accesses = Accesses::new();
        Body::declare(self, &mut accesses);
        let operands = resolved(&accesses, env.bindings).map(|(handle, _)| handle.base().name()).collect();
        Arc::new(Failure { task: env.header.title(), operands, cause })
    }

    /// The late choice, or an empty one.
    fn choice<'e>(codelet: &C, operands: &'e C::Operands, env: &mut Env<'e>) -> Result<Choice, Refusal> {
        let guarded = |panic: Box<dyn std::any::Any + Send>| {
            Refusal::Failed(format!("the late choice panicked: {}", panic_message(&*panic)).into())
        };
        if let Some(placement) = env.placement {
            if !placement.choice.label.is_empty() {
                env.label = placement.choice.label;
            }
            return Ok(placement.choice);
        }
        if !catch_unwind(AssertUnwindSafe(|| codelet.late())).map_err(guarded)? {
            return Ok(Choice::default());
        }
        let mut metas = Metas::new();
        operands.metas(env, &mut metas)?;
        env.cursor = 0;
        let choice = catch_unwind(AssertUnwindSafe(|| codelet.choose(&metas))).map_err(guarded)?;
        if !choice.label.is_empty() {
            env.label = choice.label;
        }
        Ok(choice)
    }

    fn call(
        codelet: &C,
        held: &mut <C::Operands as Operands>::Held,
        env: &mut Env<'_>,
        variant: u32,
    ) -> Result<(), Cause> {
        let sampled = env.sampled().map(|id| (id, thread_time()));
        let start = env.measure.then(Instant::now);
        env.began = true;
        let mut cx = TaskContext::new(env.shared, env.header, env.id, env.worker, variant);
        let result = catch_unwind(AssertUnwindSafe(|| codelet.cpu(C::Operands::views(held), &mut cx)));
        env.times = start.map(|start| (start, Instant::now()));
        if let (Some((id, start)), Ok(Ok(())), Some(sampler)) = (sampled, &result, &mut env.local.sampler) {
            let time = thread_time().saturating_sub(start);
            sampler.record(id, env.header.info.flops, env.bytes as u64, time);
        }
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Cause::Error(Arc::from(error))),
            Err(panic) => Err(Cause::Panic(panic_message(&*panic))),
        }
    }
}

impl<C: Codelet> Body for TypedBody<C> {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        let (codelet, operands) = self.payload().expect("a task runs once");
        let acquired = Self::choice(codelet, operands, env)
            .and_then(|choice| Ok((operands.acquire(env, &choice)?, choice.variant)));
        let (mut held, variant) = match acquired {
            Ok(acquired) => acquired,
            Err(Refusal::Busy(busy)) => return Ran::Busy(busy),
            Err(Refusal::Poisoned(failure)) => {
                self.poison(env.bindings, &failure);
                return Ran::Failed(failure);
            }
            Err(Refusal::Failed(error)) => {
                let failure = self.failure(env, Cause::Error(Arc::from(error)));
                self.poison(env.bindings, &failure);
                return Ran::Failed(failure);
            }
        };
        let result = Self::call(codelet, &mut held, env, variant);
        env.failure = result.err().map(|cause| self.failure(env, cause));
        let released = C::Operands::release(held, env, env.failure.is_none());
        if let (None, Err(error)) = (&env.failure, released) {
            env.failure = Some(self.failure(env, Cause::Error(Arc::from(error))));
        }
        match env.failure.take() {
            None => Ran::Done,
            Some(failure) => {
                self.poison(env.bindings, &failure);
                Ran::Failed(failure)
            }
        }
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        if let Some((_, operands)) = self.payload() {
            operands.declare(out);
        }
    }

    fn is_late(&self) -> bool {
        self.payload()
            .is_some_and(|(codelet, _)| catch_unwind(AssertUnwindSafe(|| codelet.late())).unwrap_or(true))
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let Some((codelet, _)) = self.payload() else { return false };
        catch_unwind(AssertUnwindSafe(|| codelet.can_execute(device))).unwrap_or(false)
    }

    fn plan(&self, metas: &[Meta], out: &mut Formats) -> Choice {
        let (codelet, operands) = self.payload().expect("a task that has not completed");
        let choice = if codelet.late() { codelet.choose(metas) } else { Choice::default() };
        operands.formats(&choice, out);
        choice
    }

    fn clear(&self) {
        // SAFETY: only whoever completes the task calls this, after its last use of the payload.
        unsafe { *self.0.get() = None }
    }
}
