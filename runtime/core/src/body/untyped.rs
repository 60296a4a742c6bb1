//! Bodies whose operands are known only at run time, on values that the runtime does not hold.

use std::any::Any;

use crate::deps::Mode;
use crate::error::TaskError;
use crate::task::{Accesses, Body, Busy, Call, DeviceInfo, Env, Handle, Payload, Ran, Refusal, Resource};
use crate::value::{Data, Meta};

/// Value of a handle that only orders tasks: the data belong to somebody else.
pub struct Token;

impl Data for Token {
    type Ref<'v> = ();
    type Mut<'v> = ();

    fn view(&self) {}

    fn view_mut(&mut self) {}

    fn meta(&self) -> Meta {
        Meta { bytes: 0, ..Meta::default() }
    }
}

/// Access of an untyped task to one handle.
pub struct TokenAccess {
    /// Handle that is accessed.
    pub handle: Handle<Token>,
    /// Mode of the access.
    pub mode: Mode,
    /// False: the task does not depend on others through this handle, it only takes its turn.
    pub ordered: bool,
}

/// Task whose accesses are a list that is made at run time.
pub trait Untyped: Send + Sync + 'static {
    /// Returns the accesses, each handle once.
    fn accesses(&self) -> &[TokenAccess];

    /// Returns true if the task must have the turn of this access's handle while it runs, in
    /// addition to the commuting and the unordered accesses, which always take it.
    fn takes_turn(&self, access: usize) -> bool {
        let _ = access;
        false
    }

    /// Returns true if the turns stay taken after the body, until [`end_turn`] is called for each.
    ///
    /// [`end_turn`]: crate::internal::untyped::end_turn
    fn keeps_turns(&self) -> bool {
        false
    }

    /// Returns true if the worker may run it; asked if the task was submitted as restricted.
    fn can_execute(&self, worker: usize) -> bool {
        let _ = worker;
        true
    }

    /// Runs the task on the calling thread, as this worker.
    fn run(&self, worker: usize) -> Result<(), TaskError>;
}

/// Body of an untyped task.
pub(crate) struct UntypedBody<T>(Payload<T>);

impl<T: Untyped> UntypedBody<T> {
    pub(crate) fn new(task: T) -> Self {
        UntypedBody(Payload::new(task))
    }

    /// Returns the task, until it has completed.
    pub(crate) fn task(&self) -> Option<&T> {
        self.0.get()
    }
}

impl<T: Untyped> UntypedBody<T> {
    /// Returns the handles whose turns the task needs.
    fn turns(task: &T) -> impl Iterator<Item = &Handle<Token>> {
        let needed = |(at, access): &(usize, &TokenAccess)| {
            access.mode == Mode::Commute || !access.ordered || task.takes_turn(*at)
        };
        task.accesses().iter().enumerate().filter(needed).map(|(_, access)| &access.handle)
    }

    /// Takes all turns, or none.
    fn take_turns(task: &T, env: &mut Env<'_>) -> Result<(), Refusal> {
        for (taken, handle) in Self::turns(task).enumerate() {
            if !handle.core().base.try_commute() {
                Self::end_turns(task, taken, env);
                return Err(Refusal::Busy(Busy::new(&**handle.core(), Resource::Commute)));
            }
        }
        Ok(())
    }

    fn end_turns(task: &T, count: usize, env: &mut Env<'_>) {
        Self::turns(task).take(count).for_each(|handle| env.wake(handle.core().base.end_commute()));
    }
}

impl<T: Untyped> Body for UntypedBody<T> {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        let task = self.task().expect("a task runs once");
        env.is_called("", |accesses| self.declare(accesses));
        if let Err(refusal) = Self::take_turns(task, env) {
            return (self as &dyn Body).refused(env, refusal);
        }
        let call = Call { variant: 0, implementation: 0, tasks: 1, subnormals: None };
        let worker = env.worker();
        let result = env.call(call, |_| task.run(worker));
        (self as &dyn Body).end(env, result, |env, _| {
            if !task.keeps_turns() {
                Self::end_turns(task, usize::MAX, env);
            }
            Ok(())
        })
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        self.0.get().is_some_and(|task| task.can_execute(device.worker))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        let Some(task) = self.0.get() else { return };
        declare(task.accesses(), out);
    }

    fn clear(&self) {
        self.0.clear();
    }
}

/// Appends the accesses that order tasks.
pub(crate) fn declare<'a>(accesses: &'a [TokenAccess], out: &mut Accesses<'a>) {
    out.extend(accesses.iter().filter(|a| a.ordered).map(|a| (a.handle.core(), a.mode).into()));
}
