//! In-place access to a value from outside of tasks: a gate in the handle's chain that the caller
//! holds open.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard, Weak};
use std::thread::{self, Thread};

use zellige_model::{CachedId, TaskInfo};

use super::threads::current::{drops_guard, holds_guard};
use super::{Engine, Retired, WaitKind, gate, transfer};
use crate::error::Error;
use crate::operand::Mode;
use crate::task::{
    Accesses, AnyHandle, Body, Declared, Env, Handle, HandleCore, Header, Implementations, Ran, Role,
    TaskCell, TaskPtr,
};
use crate::value::{Data, Kind, ValueCell, View, Viewer};

/// The caller's turn in a handle's chain. Dropping it ends the turn.
pub(crate) struct Gate<D: Data> {
    engine: Arc<Engine>,
    handle: Handle<D>,
    task: TaskPtr,
    /// Place to which the value was brought; `None`: it is in the handle's own cell.
    brought: Option<(transfer::HostAccess, Arc<ValueCell<D>>)>,
    /// It stays on its thread, like a mutex guard, so that the waiting thread is known.
    _stays: PhantomData<MutexGuard<'static, ()>>,
    /// View of the value, once it is accessible.
    view: Option<View>,
}

/// Body of a gate: one access and nothing to run, and the thread that waits for it or holds its
/// guard.
struct GateBody(Arc<dyn AnyHandle>, Mode, Thread);

impl Body for GateBody {
    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn holder(&self) -> Option<String> {
        Some(self.2.name().unwrap_or("unnamed thread").into())
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.0, self.1).into());
    }

    fn clear(&self) {}
}

/// Body of a gate that discards the handle's value when its turn comes.
struct Forget<D: Data>(Arc<HandleCore<D>>, Weak<Engine>);

impl<D: Data> Body for Forget<D> {
    fn passes(&self) -> bool {
        let core = &self.0;
        core.drop_replicas();
        // SAFETY: the gate, whose turn has come, is the one exclusive access.
        let value = unsafe { core.cell.exclusive() }.take();
        if let Some(engine) = self.1.upgrade()
            && let Some(transfers) = &engine.transfers
        {
            transfers.invalidate(&**core);
            engine.drain();
        }
        core.base().clear_poison();
        drop(value);
        true
    }

    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a gate is opened, not run")
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        // Independent of the access rights: only the value of the handle is discarded.
        out.push(Declared { inner: true, ..(&self.0, Mode::Write).into() });
    }

    fn clear(&self) {}
}

/// Discards the value like [`Gate::invalidate`], without waiting: after the tasks on the handle
/// that were submitted before.
pub(crate) fn forget<D: Data>(engine: &Arc<Engine>, handle: &Handle<D>) -> Result<(), Error> {
    let body = Forget(Arc::clone(handle.core()), Arc::downgrade(engine));
    engine.link(gate(engine, "forget", body), &[], Retired::Refused)
}

impl<D: Data> Gate<D> {
    /// Waits for the handle's turn.
    pub(crate) fn enter(
        engine: &Arc<Engine>,
        handle: &Handle<D>,
        mode: Mode,
        name: &'static str,
    ) -> Result<Self, Error> {
        if D::BORROWED {
            return Err(Error::Borrowed { handle: handle.name() });
        }
        if engine.runs_on(handle.core().base()) {
            return Err(Error::SelfWait { what: format!("{name} of {}", handle.name()) });
        }
        let mut gate =
            Self::wait_for_turn(engine, handle, mode, name, Retired::Refused, WaitKind::Interruptible)?;
        gate.bring(mode)?;
        if let Some(failure) = handle.core().base().failure() {
            return Err(Error::Poisoned { handle: handle.name(), failure });
        }
        gate.view = Some(gate.views(mode));
        // SAFETY: the gate is a granted access.
        if unsafe { gate.cell().engine() }.is_none() {
            return Err(Error::Gone { handle: handle.name(), what: name.into() });
        }
        Ok(gate)
    }

    /// Brings the value to the host, if the memory manager has it.
    fn bring(&mut self, mode: Mode) -> Result<(), Error> {
        let core = self.handle.core();
        if self.engine.transfers.is_none() || core.base().is_poisoned() {
            return Ok(());
        }
        let turn = self.engine.bring(&**core, mode.writes())?;
        self.brought = turn.map(|turn| {
            let place = core.place(turn.buffer);
            (turn, place)
        });
        Ok(())
    }

    /// Creates a view of the value in the place where it will be accessed.
    fn views(&self, mode: Mode) -> View {
        let kind = if mode.writes() { Kind::Exclusive } else { Kind::Shared };
        let by = Viewer { name: self.task.header.name, coords: None, task: Some(self.task.header.id) };
        self.engine.granted(self.cell().view(kind, self.handle.core().base(), by))
    }

    /// Returns the cell that holds the value.
    fn cell(&self) -> &ValueCell<D> {
        self.brought.as_ref().map_or(&self.handle.core().cell, |(_, place)| place)
    }

    fn wait_for_turn(
        engine: &Arc<Engine>,
        handle: &Handle<D>,
        mode: Mode,
        name: &'static str,
        retired: Retired,
        kind: WaitKind,
    ) -> Result<Self, Error> {
        let header = Header {
            id: engine.counters.next_ids(1),
            runtime: engine.id,
            name,
            priority: 0,
            info: TaskInfo::default(),
            only: None,
            implementations: Implementations::default(),
            model: CachedId::default(),
            tally: None,
        };
        let erased: Arc<dyn AnyHandle> = handle.core().clone();
        let task = TaskCell::make(header, Role::Gate, GateBody(erased, mode, thread::current()));
        engine.link(TaskPtr::clone(&task), &[], retired)?;
        if let Err(error) = engine.wait_for_gate(&task, kind) {
            // Tasks after the gate must not wait for a caller that has given up.
            if task.ticket.leave_gate() {
                engine.close_gate(&task);
            }
            return Err(error);
        }
        holds_guard(&task);
        Ok(Gate {
            engine: Arc::clone(engine),
            handle: handle.clone(),
            task,
            brought: None,
            _stays: PhantomData,
            view: None,
        })
    }

    /// Waits until no task uses `handle`, a borrowed slice that has been retired: no task can be
    /// linked after this gate.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if some of those tasks cannot run before the caller goes on: they will
    /// fail.
    pub(crate) fn wait_out(engine: &Arc<Engine>, handle: &Handle<D>) -> Result<(), Error> {
        let retired = Retired::Allowed;
        let Err(error) = Self::wait_for_turn(
            engine,
            handle,
            Mode::Write,
            "end of scope",
            retired,
            WaitKind::Uninterruptible,
        ) else {
            return Ok(());
        };
        let base = handle.core().base();
        let Some(lending) = base.lending().filter(|_| matches!(error, Error::Deadlock { .. })) else {
            // A worker died: tasks that have not started never will; wait for the running ones to
            // end.
            engine.wait_for_workers_to_end();
            return Err(error);
        };
        lending.revoke();
        while !lending.is_over() {
            if engine.wait_for_lent(base).is_err_and(|error| !matches!(error, Error::Deadlock { .. })) {
                engine.wait_for_workers_to_end();
            }
        }
        Err(error)
    }

    /// Waits for the handle's tasks, then discards its value, and its failure if it has one.
    pub(crate) fn invalidate(engine: &Arc<Engine>, handle: &Handle<D>) -> Result<(), Error> {
        if D::BORROWED {
            return Err(Error::Borrowed { handle: handle.name() });
        }
        let core = handle.core();
        if engine.runs_on(core.base()) {
            return Err(Error::SelfWait { what: format!("invalidating {}", handle.name()) });
        }
        let gate = Self::wait_for_turn(
            engine,
            handle,
            Mode::Write,
            "invalidate",
            Retired::Refused,
            WaitKind::Interruptible,
        )?;
        core.drop_replicas();
        let view = gate.views(Mode::Write);
        // SAFETY: the gate is the one exclusive access.
        let value = unsafe { core.cell.exclusive() }.take();
        view.end();
        if let Some(transfers) = &engine.transfers {
            transfers.invalidate(&**core);
            engine.drain();
        }
        core.base().clear_poison();
        core.base().chain.lock().written = false;
        drop(gate);
        drop(value);
        Ok(())
    }

    /// Moves the value out.
    pub(crate) fn take(self) -> Result<D, Error> {
        // SAFETY: the gate is the one exclusive access.
        let value = unsafe { self.cell().exclusive() }.take();
        value.ok_or_else(|| Error::Gone { handle: self.handle.name(), what: "take".into() })
    }
}

impl<D: Data> Drop for Gate<D> {
    fn drop(&mut self) {
        // The next task may begin at once.
        self.view = None;
        if let Some((turn, _)) = &self.brought {
            self.engine.let_go(&**self.handle.core(), turn);
        }
        drops_guard(&self.task);
        self.engine.close_gate(&self.task);
    }
}

/// Guard of a value that is read in place; tasks that write it wait until the guard is dropped.
pub struct ReadGuard<'rt, D: Data>(Gate<D>, PhantomData<&'rt ()>);

impl<D: Data> ReadGuard<'_, D> {
    pub(crate) fn new(gate: Gate<D>) -> Self {
        ReadGuard(gate, PhantomData)
    }
}

impl<D: Data> Deref for ReadGuard<'_, D> {
    type Target = D;

    fn deref(&self) -> &D {
        // SAFETY: the gate is a granted reading access; readers are refused while the value is
        // missing.
        unsafe { self.0.cell().engine() }.expect("a value that was written and not poisoned")
    }
}

impl<D: Data> fmt::Debug for ReadGuard<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadGuard({})", self.0.handle.name())
    }
}

/// Guard of a value that is written in place; tasks on it wait until the guard is dropped.
pub struct WriteGuard<'rt, D: Data>(Gate<D>, PhantomData<&'rt ()>);

impl<D: Data> WriteGuard<'_, D> {
    pub(crate) fn new(gate: Gate<D>) -> Self {
        gate.handle.core().drop_replicas();
        WriteGuard(gate, PhantomData)
    }
}

impl<D: Data> Deref for WriteGuard<'_, D> {
    type Target = D;

    fn deref(&self) -> &D {
        // SAFETY: the gate is the one exclusive access.
        unsafe { self.0.cell().engine() }.expect("a value that was written and not poisoned")
    }
}

impl<D: Data> DerefMut for WriteGuard<'_, D> {
    fn deref_mut(&mut self) -> &mut D {
        // SAFETY: the gate is the one exclusive access.
        unsafe { self.0.cell().exclusive() }.as_mut().expect("a value that was written and not poisoned")
    }
}

impl<D: Data> fmt::Debug for WriteGuard<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteGuard({})", self.0.handle.name())
    }
}
