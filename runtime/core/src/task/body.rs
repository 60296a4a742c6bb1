//! A codelet with its operands.

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Bound, Call, Choice, Codelet, Cpu, DeviceBatchFunction, DeviceFunction, DeviceInfo, DeviceTable, Env,
    Member, Notes, Site, Successor, TaskContext,
};
use crate::device::Stream;
use crate::error::{Cause, Failure, TaskError, caught};
use crate::format::Format;
use crate::operand::Pending;
use crate::operand::{Accesses, Declared, Formats, Metas, Mode, Operands};
use crate::value::{Ahead, AnyHandle, HandleBase, Meta};

/// A resource that only one task can use at a time, or that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resource {
    /// The turn of a commuting task.
    Commute,
    /// A replica in another format.
    Replica(Format),
}

/// Resource on which a task has to be parked.
pub struct Busy {
    pub(crate) handle: Arc<dyn AnyHandle>,
    pub(crate) resource: Resource,
}

impl Busy {
    pub(crate) fn new(handle: &dyn AnyHandle, resource: Resource) -> Self {
        Busy { handle: handle.arc(), resource }
    }
}

/// Reason why a task cannot have its operands.
pub enum Refusal {
    /// A resource is busy; the task is retried later.
    Busy(Busy),
    /// An operand has no value because an earlier task failed.
    Poisoned(Arc<Failure>),
    /// A permanent error.
    Failed(TaskError),
}

impl Refusal {
    pub(crate) fn unwritten(base: &HandleBase) -> Self {
        Refusal::Failed(format!("{} holds no value: its writer did not run", base.name()).into())
    }
}

/// Result of running a task.
pub(crate) enum Ran {
    /// The body succeeded.
    Done,
    /// The body failed, or could not run: every handle that it writes is poisoned with this
    /// failure.
    Failed(Arc<Failure>),
    /// Nothing ran: park it.
    Busy(Busy),
}

/// Result of a task that was placed.
#[derive(Default)]
pub(crate) struct Ended {
    /// True if the body ran, so that the values that it writes have changed.
    pub(crate) began: bool,
    pub(crate) failure: Option<Arc<Failure>>,
    /// For a body that has put its operations on a device's stream: the remaining work for their
    /// end.
    pub(crate) launched: Option<Box<LaunchedBody>>,
    /// For such a body that did not fail: the results that it has left, one for each access that
    /// writes.
    pub(crate) wrote: Option<SmallVec<[Ahead; 2]>>,
}

/// State of a body whose operations are in flight.
pub(crate) struct LaunchedBody {
    pub(crate) notes: Notes,
    pub(crate) pending: Pending,
}

/// Returns the handle of each access, its own or the one bound in its place, and the access mode.
pub(crate) fn resolved<'a>(
    accesses: &'a [Declared<'_>],
    bindings: Option<Bound<'a>>,
) -> impl Iterator<Item = (&'a dyn AnyHandle, Mode)> {
    accesses.iter().enumerate().map(move |(i, access)| match bindings {
        None => (access.handle, access.mode),
        Some(bindings) => (&*bindings.handles[bindings.slots[i] as usize], access.mode),
    })
}

/// A task's body with erased types.
pub trait Body: Send + Sync {
    /// Returns the name of the thread that holds the guard of a gate.
    fn holder(&self) -> Option<String> {
        None
    }
    /// Executes the action of a gate without a thread when its turn comes. Returns true if its turn
    /// is over.
    fn passes(&self) -> bool {
        false
    }
    /// Runs the body, or returns the reason why it cannot run.
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran;
    /// Returns true if it runs only in host memory.
    fn is_for_host(&self) -> bool {
        false
    }
    /// Returns [`Codelet::selects`]; a panic counts as yes.
    fn selects(&self) -> bool {
        false
    }
    /// Returns [`Codelet::can_execute`]; a panic counts as no.
    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let _ = device;
        true
    }
    /// Returns [`Codelet::can_execute_with`]; a panic counts as no.
    fn can_execute_with(&self, implementation: usize, device: &DeviceInfo<'_>) -> bool {
        let _ = (implementation, device);
        true
    }
    /// Returns itself if several bodies of its type can run in one call.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
    /// Runs tasks with bodies of its type, including itself, in one call; returns the result of
    /// each, and whether its body began.
    fn run_batch(&self, members: &[Member<'_>], site: &mut Site<'_>) -> Vec<(Ran, bool)> {
        let _ = (members, site);
        unreachable!("tasks whose type is not told run alone")
    }
    /// Launches these tasks on a device's stream in one call.
    fn launch_batch(&self, members: &[Member<'_>], site: &mut Site<'_>) -> Vec<Ended> {
        let _ = (members, site);
        unreachable!("tasks whose type is not told run alone")
    }
    /// Calls `each` with the successors of the slots of a replay. No slot leaves meanwhile.
    fn each_after(&self, each: &mut dyn FnMut(Successor)) {
        let _ = each;
    }
    /// Appends the accesses, in order. Nothing is appended after `clear`.
    fn declare<'a>(&'a self, out: &mut Accesses<'a>);
    /// Returns the deferred selection for operands with these metas (one per access), or an empty
    /// one, and appends the format that each access then requests. Nothing runs.
    fn plan(&self, metas: &[Meta], out: &mut Formats) -> Choice {
        let _ = metas;
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        out.extend(accesses.iter().map(|_| Format::NATIVE));
        Choice::default()
    }
    /// Drops codelet and operands; the task has completed.
    fn clear(&self);
}

impl dyn Body + '_ {
    /// Poisons the handles that it writes, its own or those bound in their place.
    pub(crate) fn poison(&self, bindings: Option<Bound<'_>>, failure: &Arc<Failure>) {
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        for (handle, _) in resolved(&accesses, bindings).filter(|(_, mode)| mode.writes()) {
            handle.is_lost(failure);
        }
    }

    /// Returns the names of the operands.
    pub(crate) fn operand_names(&self) -> Vec<String> {
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        accesses.iter().map(|access| access.base.name()).collect()
    }

    /// Returns the failure of this task, or the one that its body passes on: the first failure is
    /// reported.
    fn failure(&self, env: &Env<'_>, cause: Cause) -> Arc<Failure> {
        if let Some(first) = cause.passed_on() {
            return first;
        }
        let mut accesses = Accesses::new();
        self.declare(&mut accesses);
        let operands = resolved(&accesses, env.bindings()).map(|(handle, _)| handle.base().name()).collect();
        Arc::new(Failure { task: env.header.title(), operands, cause })
    }

    /// Returns the result of a task that cannot have its operands.
    pub(crate) fn refused(&self, env: &Env<'_>, refusal: Refusal) -> Ran {
        let failure = match refusal {
            Refusal::Busy(busy) => return Ran::Busy(busy),
            Refusal::Poisoned(failure) => failure,
            // Its operands are lost with its device, and no failure is reported: it runs again
            // elsewhere, if they are there.
            Refusal::Failed(_) if env.is_on_failed_device() => return Ran::Done,
            Refusal::Failed(error) => self.failure(env, Cause::Error(Arc::from(error))),
        };
        self.fails(env, failure)
    }

    /// Fails the task: its outputs are poisoned now, or at the ends of earlier tasks in stream
    /// order that have not ended.
    fn fails(&self, env: &Env<'_>, failure: Arc<Failure>) -> Ran {
        if !env.is_stream_ordered() {
            self.poison(env.bindings(), &failure);
        }
        Ran::Failed(failure)
    }

    /// Works like [`refused`](Self::refused) for a task that was to run on a device. If the device
    /// is lost, no failure is reported: the task runs again elsewhere, if its operands are there.
    pub(crate) fn refused_on_device(&self, env: &Env<'_>, refusal: Refusal) -> Ran {
        match refusal {
            Refusal::Failed(error) if env.stream().is_some_and(|stream| stream.is_loss(&error)) => Ran::Done,
            refusal => self.refused(env, refusal),
        }
    }

    /// Releases the operands through `release`, whose argument is the success of the body, after a
    /// call of the body with this result.
    #[inline]
    fn end<'e>(
        &self,
        env: &mut Env<'e>,
        result: Result<(), Cause>,
        release: impl FnOnce(&mut Env<'e>, bool) -> Result<(), TaskError>,
    ) -> Ran {
        env.failure = result.err().map(|cause| self.failure(env, cause));
        let ok = env.failure.is_none();
        match release(env, ok) {
            Ok(()) if ok => Ran::Done,
            released => self.ended_badly(env, released),
        }
    }

    #[cold]
    fn ended_badly(&self, env: &mut Env<'_>, released: Result<(), TaskError>) -> Ran {
        let failure = match (env.failure.take(), released) {
            (Some(failure), _) => failure,
            (None, Err(error)) => self.failure(env, Cause::Error(Arc::from(error))),
            (None, Ok(())) => return Ran::Done,
        };
        self.fails(env, failure)
    }
}

/// Content of a body (codelet and operands), until the task has completed.
pub(crate) struct Payload<P>(UnsafeCell<Option<P>>);

// SAFETY: the content is only read (codelet and operands are Sync) until `clear`, which the thread
// that completes the task calls when nobody runs or links it any more.
unsafe impl<P: Sync> Sync for Payload<P> {}

impl<P> Payload<P> {
    pub(crate) fn new(content: P) -> Self {
        Payload(UnsafeCell::new(Some(content)))
    }

    pub(crate) fn get(&self) -> Option<&P> {
        // SAFETY: see Sync above: no `clear` happens while a reference from here is in use.
        unsafe { (*self.0.get()).as_ref() }
    }

    pub(crate) fn clear(&self) {
        // SAFETY: only the thread that completes the task calls this, after its last use of the
        // payload.
        unsafe { *self.0.get() = None }
    }
}

/// A codelet of type `C` and its operands.
pub struct TypedBody<C: Codelet>(Payload<(C, C::Operands)>);

impl<C: Codelet> TypedBody<C> {
    pub(crate) fn new(codelet: C, operands: C::Operands) -> Self {
        TypedBody(Payload::new((codelet, operands)))
    }

    pub(super) fn payload(&self) -> Option<&(C, C::Operands)> {
        self.0.get()
    }

    fn erased(&self) -> &dyn Body {
        self
    }

    /// Returns the deferred selection, or an empty one.
    pub(super) fn choice<'e>(
        codelet: &C,
        operands: &'e C::Operands,
        env: &mut Env<'e>,
    ) -> Result<Choice, Refusal> {
        let panicked =
            |message: String| Refusal::Failed(format!("the deferred selection panicked: {message}").into());
        if let Some(placement) = env.placement() {
            env.is_called(placement.choice.label, operands);
            return Ok(placement.choice);
        }
        if !caught(|| codelet.selects()).map_err(panicked)? {
            env.is_called("", operands);
            return Ok(Choice::default());
        }
        let mut metas = Metas::new();
        operands.metas(env, &mut metas)?;
        env.rewind();
        let choice = caught(|| codelet.select(&metas)).map_err(panicked)?;
        env.is_called(choice.label, operands);
        Ok(choice)
    }

    /// Returns the index of the implementation that is to run here; evaluated anew for each
    /// execution.
    pub(super) fn implementation(
        codelet: &C,
        operands: &C::Operands,
        env: &mut Env<'_>,
    ) -> Result<usize, TaskError> {
        if C::IMPLEMENTATIONS.len() < 2 {
            return Ok(0);
        }
        let constrained = env.header.only.as_ref().is_some_and(|only| only.constrained);
        let picked = env.pick(operands, |device, i| !constrained || can_execute_with(codelet, i, device));
        picked.ok_or_else(|| {
            let kind = env.runner.services.device(env.worker()).kind.to_string();
            format!("none of its implementations can run on {kind}").into()
        })
    }

    /// Returns the functions for the stream's device.
    pub(super) fn function(
        codelet: &C,
        stream: &dyn Stream,
    ) -> (DeviceFunction<C>, Option<DeviceBatchFunction<C>>) {
        let missing: DeviceFunction<C> = |codelet, _, cx| {
            let arch = cx.device().stream().memory().arch();
            Err(format!("{} names no function for {arch:?} any more", codelet.name()).into())
        };
        DeviceTable::of(codelet, Some(stream.memory().arch())).found.unwrap_or((missing, None))
    }

    /// Launches the body on a device's stream.
    fn launch<'e>(&'e self, env: &mut Env<'e>, stream: &dyn Stream) -> Ran {
        let (codelet, operands) = self.payload().expect("a task runs once");
        let acquired = Self::choice(codelet, operands, env).and_then(|choice| {
            let implementation = Self::implementation(codelet, operands, env).map_err(Refusal::Failed)?;
            let held = operands.acquire_on_device(env)?;
            Ok((held, Call::of::<C>(&choice, implementation, 1)))
        });
        let (mut held, call) = match acquired {
            Ok(acquired) => acquired,
            Err(refusal) => return self.erased().refused_on_device(env, refusal),
        };
        let function = Self::function(codelet, stream);
        let result = env.call(call, |cx| function.0(codelet, C::Operands::views_on_device(&mut held), cx));
        self.launched(env, held, result)
    }

    /// Releases the operands once the body has put its operations on a device's stream, with this
    /// result.
    pub(super) fn launched(
        &self,
        env: &mut Env<'_>,
        held: <C::Operands as Operands>::DeviceHeld,
        result: Result<(), Cause>,
    ) -> Ran {
        if let (Err(cause), Some(stream)) = (&result, env.stream())
            && stream.is_loss(cause)
        {
            return Ran::Done;
        }
        self.erased().end(env, result, |env, ok| C::Operands::release_on_device(held, env, ok))
    }

    /// Releases the operands once the body has been called with this result.
    #[inline]
    pub(super) fn end(
        &self,
        env: &mut Env<'_>,
        held: <C::Operands as Operands>::Held,
        result: Result<(), Cause>,
    ) -> Ran {
        self.erased().end(env, result, |env, ok| C::Operands::release(held, env, ok))
    }
}

/// Acquires all operands, or none. If one has to be received from another process, all are
/// requested at once.
pub(super) fn acquire<'e, O: Operands>(
    operands: &'e O,
    env: &mut Env<'e>,
    choice: &Choice,
) -> Result<O::Held, Refusal> {
    let acquired = operands.acquire(env, choice);
    if let Err(Refusal::Busy(Busy { resource: Resource::Replica(_), .. })) = &acquired {
        request_all(operands, env, choice);
    }
    acquired
}

#[cold]
fn request_all<O: Operands>(operands: &O, env: &mut Env<'_>, choice: &Choice) {
    let (mut accesses, mut formats) = (Accesses::new(), Formats::new());
    operands.declare(&mut accesses);
    operands.formats(choice, &mut formats);
    for (at, (access, &format)) in accesses.iter().zip(&formats).enumerate() {
        if access.mode == Mode::Read && !access.look {
            let handle = env.bound(at).unwrap_or(access.handle);
            env.wake(handle.is_wanted(env.runner.services, format));
        }
    }
}

fn can_execute_with<C: Codelet>(codelet: &C, implementation: usize, device: &DeviceInfo<'_>) -> bool {
    caught(|| codelet.can_execute_with(implementation, device)).unwrap_or(false)
}

impl<C: Codelet> Body for TypedBody<C> {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        if let Some(stream) = env.stream() {
            return self.launch(env, stream);
        }
        let (codelet, operands) = self.payload().expect("a task runs once");
        let acquired = Self::choice(codelet, operands, env).and_then(|choice| {
            let implementation = Self::implementation(codelet, operands, env).map_err(Refusal::Failed)?;
            let held = acquire(operands, env, &choice)?;
            Ok((held, Call::of::<C>(&choice, implementation, 1)))
        });
        let (mut held, call) = match acquired {
            Ok(acquired) => acquired,
            Err(refusal) => return self.erased().refused(env, refusal),
        };
        let result = env.call(call, |cx| codelet.cpu(C::Operands::views(&mut held), cx));
        self.end(env, held, result)
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        if let Some((_, operands)) = self.payload() {
            operands.declare(out);
        }
    }

    fn selects(&self) -> bool {
        self.payload().is_some_and(|(codelet, _)| caught(|| codelet.selects()).unwrap_or(true))
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let Some((codelet, _)) = self.payload() else { return false };
        let can = caught(|| codelet.can_execute(device)).unwrap_or(false);
        let implementations = C::IMPLEMENTATIONS.len();
        can && (implementations < 2 || (0..implementations).any(|i| can_execute_with(codelet, i, device)))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn run_batch(&self, members: &[Member<'_>], site: &mut Site<'_>) -> Vec<(Ran, bool)> {
        super::batch::run::<C>(members, site)
    }

    fn launch_batch(&self, members: &[Member<'_>], site: &mut Site<'_>) -> Vec<Ended> {
        super::launch::run::<C>(members, site)
    }

    fn can_execute_with(&self, implementation: usize, device: &DeviceInfo<'_>) -> bool {
        self.payload().is_some_and(|(codelet, _)| can_execute_with(codelet, implementation, device))
    }

    fn plan(&self, metas: &[Meta], out: &mut Formats) -> Choice {
        let (codelet, operands) = self.payload().expect("a task that has not completed");
        let choice = if codelet.selects() { codelet.select(metas) } else { Choice::default() };
        operands.formats(&choice, out);
        choice
    }

    fn clear(&self) {
        self.0.clear();
    }
}

/// Function of a closure task.
pub(crate) trait ClosureFn<O: Operands>: Send + Sync + 'static {
    /// Calls the closure with the views of its operands.
    fn call(&self, views: O::Views<'_, Cpu>, cx: &mut TaskContext<'_>) -> Result<(), TaskError>;
}

/// A closure and its operands. All code but the call itself is compiled once for operands of type
/// `O`, not for each closure.
pub struct Closure<O, F>(Payload<(F, O)>);

impl<O: Operands, F: ClosureFn<O>> Closure<O, F> {
    pub(crate) fn new(body: F, operands: O) -> Self {
        Closure(Payload::new((body, operands)))
    }
}

impl<O: Operands, F: ClosureFn<O>> Body for Closure<O, F> {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        let (body, operands) = self.0.get().expect("a task runs once");
        run_closure(self, operands, body, env)
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        if let Some((_, operands)) = self.0.get() {
            declare_operands(operands, out);
        }
    }

    fn plan(&self, _metas: &[Meta], out: &mut Formats) -> Choice {
        let (_, operands) = self.0.get().expect("a task that has not completed");
        plan_closure(operands, out)
    }

    fn clear(&self) {
        self.0.clear();
    }
}

#[inline(never)]
fn declare_operands<'a, O: Operands>(operands: &'a O, out: &mut Accesses<'a>) {
    operands.declare(out);
}

#[inline(never)]
fn plan_closure<O: Operands>(operands: &O, out: &mut Formats) -> Choice {
    let choice = Choice::default();
    operands.formats(&choice, out);
    choice
}

/// Runs the closure of a body, which has no deferred selection and one implementation.
#[inline(never)]
fn run_closure<'e, O: Operands>(
    whole: &'e dyn Body,
    operands: &'e O,
    body: &'e dyn ClosureFn<O>,
    env: &mut Env<'e>,
) -> Ran {
    let choice = env.placement().map_or(Choice::default(), |placement| placement.choice);
    env.is_called(choice.label, operands);
    let mut held = match acquire(operands, env, &choice) {
        Ok(held) => held,
        Err(refusal) => return whole.refused(env, refusal),
    };
    let call = Call { variant: choice.variant, implementation: 0, tasks: 1, subnormals: None };
    let result = env.call(call, |cx| body.call(O::views(&mut held), cx));
    whole.end(env, result, |env, ok| O::release(held, env, ok))
}
