//! What there is to run: a submitted task, or one of a graph that is replayed.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Shared;
use super::end::Ready;
use super::stage::{Stage, StageCell};
use crate::data::AnyHandle;
use crate::deps::UpTo;
use crate::engine::graph::ReplayTask;
use crate::engine::transfer::plan::PlanCell;
use crate::error::{Cause, Failure};
use crate::operand::{Accesses, Mode};
use crate::task::{Body, Bound, Header, Member, Placement, Role, Successor, Task, resolved};

/// A task as the engine sees it. What differs between submitted and replayed tasks is where their
/// parts and their successors are.
pub(crate) trait Job: Sized {
    fn header(&self) -> &Header;
    /// The task's number; a replay's differs from its recording's.
    fn id(&self) -> u64;
    /// Its priority, or the one that it has inherited where this is higher.
    fn priority(&self) -> i32;
    fn body(&self) -> &dyn Body;
    /// The handles that stand in for those of the body.
    fn bound(&self) -> Option<Bound<'_>>;
    /// True if an operand may be poisoned.
    fn is_strict(&self) -> bool;
    /// The task that whoever waits for this one waits for: of a replay, the one that stands for the
    /// whole.
    fn stands_for(&self) -> &Arc<Task>;
    /// How many predecessors have not completed.
    fn pending(&self) -> u32;
    fn stage(&self) -> &StageCell;
    /// What is planned of it; only where there is a transfer driver.
    fn planned(&self) -> &PlanCell;
    /// Completes the task, which has run or never will: whatever it writes has been poisoned if it
    /// failed. What becomes ready is left in `ready`. `worker`: the calling thread acts as this
    /// one.
    fn end(
        self,
        shared: &Arc<Shared>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    );
    fn into_work(self) -> Work;
    /// Undoes [`into_work`](Self::into_work).
    fn from_work(work: Work) -> Self;

    /// The task enters a stage of its life.
    #[inline]
    fn enters(&self, stage: Stage) {
        // Only debug builds know the stage: in others even looking for it would cost.
        if cfg!(debug_assertions) {
            self.stage().enter(stage);
        }
    }

    /// Shows the handle of each access, its own or the one bound in its place, and how it is
    /// accessed.
    fn with_handles<R>(&self, show: impl FnOnce(&[(&dyn AnyHandle, Mode)]) -> R) -> R {
        let mut accesses = Accesses::new();
        self.body().declare(&mut accesses);
        let handles: SmallVec<[(&dyn AnyHandle, Mode); 4]> = resolved(&accesses, self.bound()).collect();
        show(&handles)
    }

    /// The failure that its cancellation is, if it was cancelled.
    #[inline]
    fn cancelled(&self, shared: &Shared) -> Option<Arc<Failure>> {
        let task = self.stands_for();
        let cancelled = task.ticket.is_cancelled() || shared.is_cancelled(task.header.id);
        cancelled.then(|| task.describe(Cause::Cancelled))
    }

    /// The failure that `cause` is, with the task's name and operands.
    fn describe(&self, cause: Cause) -> Arc<Failure> {
        let operands = self.with_handles(|handles| handles.iter().map(|(h, _)| h.base().name()).collect());
        Arc::new(Failure { task: self.header().title(), operands, cause })
    }

    /// The failure that left one of the values it reads poisoned.
    fn poisoned(&self) -> Option<Arc<Failure>> {
        self.with_handles(|handles| {
            let read = handles.iter().filter(|(_, mode)| mode.reads());
            read.into_iter().find_map(|(handle, _)| handle.base().failure())
        })
    }

    /// It has written anew what it was to: earlier failures there are forgotten.
    fn clear_poison(&self) {
        self.with_handles(|handles| {
            let anew = handles.iter().filter(|(_, mode)| *mode == Mode::Write);
            anew.for_each(|(handle, _)| handle.base().clear_poison());
        });
    }

    /// Poisons whatever it writes.
    fn poison(&self, failure: &Arc<Failure>) {
        self.body().poison(self.bound(), failure);
    }

    /// As one of several that are run in one call.
    fn member<'m>(&'m self, placement: Option<&'m Placement>) -> Member<'m> {
        let strict = self.is_strict_at(placement);
        let (header, body, bound) = (self.header(), self.body(), self.bound());
        Member { header, id: self.id(), body, bound, placement, strict }
    }

    /// True if its operands have to be checked for poison where they are placed so. Behind others
    /// that have not ended, that is done at its end; elsewhere a device may fail at any moment,
    /// which poisons what only it had.
    #[inline]
    fn is_strict_at(&self, placement: Option<&Placement>) -> bool {
        placement.map_or_else(|| self.is_strict(), |placement| !placement.stream_ordered)
    }
}

/// A submitted task or one of a replay, where it does not matter which.
pub(crate) enum Work {
    /// A submitted task.
    Task(Arc<Task>),
    /// A task of a recorded graph that is being replayed.
    Replay(ReplayTask),
}

impl Work {
    /// The runtime that it belongs to.
    pub(crate) fn runtime(&self) -> u32 {
        match self {
            Work::Task(task) => task.header.runtime,
            Work::Replay(task) => task.runtime(),
        }
    }

    /// The tasks that wait for this one, which has been launched and does not complete meanwhile:
    /// all of them, or those that were there when `as_of` was answered.
    pub(crate) fn successors(&self, as_of: Option<Notified>) -> (SmallVec<[Work; 8]>, Notified) {
        match self {
            Work::Task(task) => {
                let as_of =
                    as_of.and_then(|told| if let Notified::UpTo(up_to) = told { Some(up_to) } else { None });
                let (waiting, up_to) = task.waiting(as_of);
                let works = waiting.into_iter().filter(|task| task.role == Role::Work);
                (works.map(Work::Task).collect(), Notified::UpTo(up_to))
            }
            Work::Replay(task) => (task.waiting().map(Work::Replay).collect(), Notified::All),
        }
    }
}

/// How many of those that wait for a task have been told that it was launched.
pub(crate) enum Notified {
    /// Those that were submitted by then.
    UpTo(UpTo<Successor>),
    /// All there are in a replay.
    All,
}

impl Job for Arc<Task> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn id(&self) -> u64 {
        self.header.id
    }

    fn priority(&self) -> i32 {
        self.header.priority()
    }

    fn body(&self) -> &dyn Body {
        &self.body
    }

    fn bound(&self) -> Option<Bound<'_>> {
        None
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn stands_for(&self) -> &Arc<Task> {
        self
    }

    fn pending(&self) -> u32 {
        Task::pending(self)
    }

    fn stage(&self) -> &StageCell {
        &self.stage
    }

    fn planned(&self) -> &PlanCell {
        &self.planned
    }

    fn end(
        self,
        shared: &Arc<Shared>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    ) {
        self.enters(Stage::Ended);
        if let Some(failure) = failure {
            self.ticket.fail(failure);
        }
        shared.complete(&self, worker, ready);
    }

    fn into_work(self) -> Work {
        Work::Task(self)
    }

    fn from_work(work: Work) -> Self {
        let Work::Task(task) = work else { unreachable!("it was a submitted task") };
        task
    }
}

/// Calls a method of whichever it is.
macro_rules! each {
    ($work:ident, $job:ident => $call:expr) => {
        match $work {
            Work::Task($job) => $call,
            Work::Replay($job) => $call,
        }
    };
}

impl Job for Work {
    fn header(&self) -> &Header {
        each!(self, job => job.header())
    }

    fn id(&self) -> u64 {
        each!(self, job => job.id())
    }

    fn priority(&self) -> i32 {
        each!(self, job => Job::priority(job))
    }

    fn body(&self) -> &dyn Body {
        each!(self, job => job.body())
    }

    fn bound(&self) -> Option<Bound<'_>> {
        each!(self, job => job.bound())
    }

    fn is_strict(&self) -> bool {
        each!(self, job => job.is_strict())
    }

    fn stands_for(&self) -> &Arc<Task> {
        each!(self, job => job.stands_for())
    }

    fn pending(&self) -> u32 {
        each!(self, job => Job::pending(job))
    }

    fn stage(&self) -> &StageCell {
        each!(self, job => job.stage())
    }

    fn planned(&self) -> &PlanCell {
        each!(self, job => job.planned())
    }

    fn end(
        self,
        shared: &Arc<Shared>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    ) {
        each!(self, job => job.end(shared, failure, worker, ready));
    }

    fn into_work(self) -> Work {
        self
    }

    fn from_work(work: Work) -> Self {
        work
    }
}
