//! Units of execution: a submitted task, or a task of a replayed graph.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Engine;
use super::end::Ready;
use super::life;
use crate::deps::UpTo;
use crate::error::{Cause, Failure};
use crate::operand::Mode;
use crate::task::{
    Accesses, AnyHandle, Body, Bound, Header, Member, PlanCell, Role, StageCell, Successor, Task,
    TaskPlacement, TaskPtr, Work, resolved,
};

/// A task as the engine sees it. Submitted and replayed tasks differ in the location of their parts
/// and successors.
pub(crate) trait Job: Sized {
    fn header(&self) -> &Header;
    /// The task's number; a replay's differs from its recording's.
    fn id(&self) -> u64;
    /// Its priority, or its inherited priority if that is higher.
    fn priority(&self) -> i32;
    fn body(&self) -> &dyn Body;
    /// The handles that stand in for those of the body.
    fn bound(&self) -> Option<Bound<'_>>;
    /// True if an operand may be poisoned.
    fn is_strict(&self) -> bool;
    /// The task that represents this one for waiting threads: for a replay, the task of the whole.
    fn stands_for(&self) -> &TaskPtr;
    /// Number of predecessors that have not completed.
    fn pending(&self) -> u32;
    fn stage(&self) -> &StageCell;
    /// Its plan; only used with a transfer driver.
    fn planned(&self) -> &PlanCell;
    /// Completes the task, which has run or never will; if it failed, its outputs are poisoned
    /// already. Tasks that become ready are left in `ready`. `worker`: the worker as which the
    /// calling thread acts.
    fn end(
        self,
        engine: &Arc<Engine>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    );
    fn into_work(self) -> Work;
    /// Undoes [`into_work`](Self::into_work).
    fn from_work(work: Work) -> Self;

    /// Shows the handle of each access, its own or the one bound in its place, and how it is
    /// accessed.
    fn with_handles<R>(&self, show: impl FnOnce(&[(&dyn AnyHandle, Mode)]) -> R) -> R {
        let mut accesses = Accesses::new();
        self.body().declare(&mut accesses);
        let handles: SmallVec<[(&dyn AnyHandle, Mode); 4]> = resolved(&accesses, self.bound()).collect();
        show(&handles)
    }

    /// Returns the failure of a cancelled task.
    #[inline]
    fn cancelled(&self, engine: &Engine) -> Option<Arc<Failure>> {
        let task = self.stands_for();
        let cancelled = task.ticket.is_cancelled() || engine.counters.is_cancelled(task.header.id);
        cancelled.then(|| task.describe(Cause::Cancelled))
    }

    /// Returns the failure for `cause`, with the task's name and operands.
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

    /// Clears earlier failures of the handles that it has written anew.
    fn clear_poison(&self) {
        self.with_handles(|handles| {
            let anew = handles.iter().filter(|(_, mode)| *mode == Mode::Write);
            anew.for_each(|(handle, _)| handle.base().clear_poison());
        });
    }

    /// Poisons all its outputs.
    fn poison(&self, failure: &Arc<Failure>) {
        self.body().poison(self.bound(), failure);
    }

    /// Returns the task as one of several that run in one call.
    fn member<'m>(&'m self, placement: Option<&'m TaskPlacement>) -> Member<'m> {
        let strict = self.is_strict_at(placement);
        let (header, body, bound) = (self.header(), self.body(), self.bound());
        Member { header, id: self.id(), body, bound, placement, strict }
    }

    /// True if its operands have to be checked for poison under this placement. For a
    /// stream-ordered launch that is done at its end. On other devices a failure at any moment may
    /// poison data that only they held.
    #[inline]
    fn is_strict_at(&self, placement: Option<&TaskPlacement>) -> bool {
        placement.map_or_else(|| self.is_strict(), |placement| !placement.stream_ordered)
    }
}

impl Work {
    /// Returns the tasks that wait for this one, which has been launched and does not complete
    /// meanwhile: all of them, or those present when `as_of` was returned.
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

/// The extent of the launch notifications to the successors of a task.
pub(crate) enum Notified {
    /// The successors submitted by then.
    UpTo(UpTo<Successor>),
    /// All successors in a replay.
    All,
}

impl Job for TaskPtr {
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

    fn stands_for(&self) -> &TaskPtr {
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
        engine: &Arc<Engine>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    ) {
        life::end(&self);
        if let Some(failure) = failure {
            self.ticket.fail(failure);
        }
        engine.complete(&self, worker, ready);
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

    fn stands_for(&self) -> &TaskPtr {
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
        engine: &Arc<Engine>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    ) {
        each!(self, job => job.end(engine, failure, worker, ready));
    }

    fn into_work(self) -> Work {
        self
    }

    fn from_work(work: Work) -> Self {
        work
    }
}
