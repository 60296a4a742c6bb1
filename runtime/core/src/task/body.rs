//! Bodies of tasks with erased types.

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Accesses, Ahead, AnyHandle, Bound, Choice, Declared, DeviceInfo, Env, Formats, HandleBase, Member, Notes,
    Site, Successor,
};
use crate::deps::Mode;
use crate::error::{Cause, Failure, TaskError};
use crate::format::Format;
use crate::value::{Meta, Pending};

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
    /// Returns [`Codelet::selects`](crate::Codelet::selects); a panic counts as yes.
    fn selects(&self) -> bool {
        false
    }
    /// Returns [`Codelet::can_execute`](crate::Codelet::can_execute); a panic counts as no.
    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let _ = device;
        true
    }
    /// Returns [`Codelet::can_execute_with`](crate::Codelet::can_execute_with); a panic counts as
    /// no.
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
    pub(crate) fn end<'e>(
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
