//! What there is to run, submitted or of a replay, as the memory manager's driver sees it.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Ready, Shared, enter};
use crate::data::AnyHandle;
use crate::deps::UpTo;
use crate::error::{Cause, Failure};
use crate::operand::{Accesses, Mode};
use crate::sched::{ReadyTask, Work};
use crate::task::{
    Body, Bound, Ended, Env, Launched, Member, Placement, Ran, Role, Task, WorkerLocal, resolved,
};

/// How many of those that wait for a task have been told that it was launched.
pub(crate) enum Told {
    /// Those that were submitted by then.
    UpTo(UpTo<Task>),
    /// All there are in a replay.
    All,
}

impl Work {
    /// The tasks that wait for this one, which has been launched and does not complete meanwhile: all of them, or those that were
    /// there when `as_of` was answered.
    pub(crate) fn successors(&self, as_of: Option<Told>) -> (SmallVec<[Work; 8]>, Told) {
        match self {
            Work::Task(task) => {
                let as_of =
                    as_of.and_then(|told| if let Told::UpTo(up_to) = told { Some(up_to) } else { None });
                let (waiting, up_to) = task.waiting(as_of);
                let works = waiting.into_iter().filter(|task| task.role == Role::Work);
                (works.map(Work::Task).collect(), Told::UpTo(up_to))
            }
            Work::Replay(task) => (task.waiting().map(Work::Replay).collect(), Told::All),
        }
    }

    /// How many that it waits for have not completed.
    pub(crate) fn waits_for(&self) -> u32 {
        match self {
            Work::Task(task) => task.pending(),
            Work::Replay(task) => task.pending(),
        }
    }

    pub(crate) fn body(&self) -> &dyn Body {
        match self {
            Work::Task(task) => &task.body,
            Work::Replay(task) => task.body(),
        }
    }

    pub(crate) fn bound(&self) -> Option<Bound<'_>> {
        match self {
            Work::Task(_) => None,
            Work::Replay(task) => Some(task.bound()),
        }
    }

    /// Shows the handle of each access, its own or the one bound in its place, and how it is accessed.
    pub(crate) fn with_handles<R>(&self, show: impl FnOnce(&[(&dyn AnyHandle, Mode)]) -> R) -> R {
        let mut accesses = Accesses::new();
        self.body().declare(&mut accesses);
        let handles: SmallVec<[(&dyn AnyHandle, Mode); 4]> = resolved(&accesses, self.bound()).collect();
        show(&handles)
    }

    /// What the threads that run it note as running: a replay's tasks stand for the whole.
    pub(crate) fn stands_for(&self) -> &Arc<Task> {
        match self {
            Work::Task(task) => task,
            Work::Replay(task) => task.gate(),
        }
    }

    /// As one of several that are run in one call.
    pub(super) fn member<'m>(&'m self, placement: Option<&'m Placement>) -> Member<'m> {
        let strict = match self {
            // Where operands are placed, whoever takes a device's values away does so at any moment.
            Work::Replay(task) => placement.is_some() || task.is_strict(),
            _ => true,
        };
        let (header, body, bound) = (self.header(), self.body(), self.bound());
        Member { header, id: self.id(), body, bound, placement, strict }
    }

    /// The failure that its cancellation is, if it was cancelled.
    pub(crate) fn cancelled(&self, shared: &Shared) -> Option<Arc<Failure>> {
        match self {
            Work::Task(task) => {
                let cancelled = task.is_cancelled() || shared.is_cancelled(task.header.id);
                cancelled.then(|| task.describe(Cause::Cancelled))
            }
            Work::Replay(task) => task.cancelled(),
        }
    }

    /// The failure that `cause` is, with the task's name and operands.
    pub(crate) fn describe(&self, cause: Cause) -> Arc<Failure> {
        let operands = self.with_handles(|handles| handles.iter().map(|(h, _)| h.base().name()).collect());
        Arc::new(Failure { task: self.header().title(), operands, cause })
    }

    /// The failure that left one of the values it reads poisoned.
    pub(crate) fn poisoned(&self) -> Option<Arc<Failure>> {
        self.with_handles(|handles| {
            let read = handles.iter().filter(|(_, mode)| mode.reads());
            read.into_iter().find_map(|(handle, _)| handle.base().failure())
        })
    }

    /// It has written anew what it was to: earlier failures there are forgotten.
    pub(crate) fn clear_poison(&self) {
        self.with_handles(|handles| {
            let anew = handles.iter().filter(|(_, mode)| *mode == Mode::Write);
            anew.for_each(|(handle, _)| handle.base().clear_poison());
        });
    }

    /// Poisons whatever it writes.
    pub(crate) fn poison(&self, failure: &Arc<Failure>) {
        self.body().poison(self.bound(), failure);
    }

    /// Runs the body on operands that have been placed.
    pub(crate) fn attempt(
        &self,
        shared: &Arc<Shared>,
        worker: usize,
        local: &mut WorkerLocal,
        placement: &Placement,
    ) -> Ended {
        if let Some(failure) = self.cancelled(shared) {
            if !placement.behind {
                self.poison(&failure);
            }
            return Ended { failure: Some(failure), ..Ended::default() };
        }
        // Behind others, poison is looked for once those have ended.
        let env = Env::new(shared, self.header(), self.id(), worker, local, self.bound(), !placement.behind);
        let mut env = env.placed(placement);
        let ran = {
            let _entered = enter(self.stands_for());
            self.body().run(&mut env)
        };
        let failure = match ran {
            Ran::Done => None,
            Ran::Failed(failure) => Some(failure),
            Ran::Busy(_) => unreachable!("turns are taken and replicas made before a task is placed"),
        };
        let began = env.notes.began;
        if env.gpu().is_none() {
            shared.record(&env, worker, failure.is_some());
            return Ended { began, failure, ..Ended::default() };
        }
        let launched = Launched { notes: env.notes, pending: std::mem::take(&mut env.pending) };
        Ended { began, failure, launched: Some(Box::new(launched)), ..Ended::default() }
    }

    /// Ends the task; what becomes ready is left in `ready`.
    pub(crate) fn complete(self, shared: &Arc<Shared>, failure: Option<Arc<Failure>>, ready: &mut Ready) {
        match self {
            Work::Task(task) => {
                if let Some(failure) = failure {
                    task.fail(failure);
                }
                shared.complete(&task, |task| match task.role {
                    Role::Work => ready.push(ReadyTask::new(Work::Task(task))),
                    _ => shared.start(task, None),
                });
                shared.count_outside();
            }
            Work::Replay(task) => task.end(failure, ready),
        }
    }
}
