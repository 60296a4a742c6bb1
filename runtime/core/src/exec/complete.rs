//! The end of a task: its successors are counted down, waiting threads told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Shared;
use crate::deps::Group;
use crate::error::{Cause, Failure};
use crate::operand::Accesses;
use crate::sched::{ReadyTask, Work};
use crate::task::{Role, Task};

/// Tasks that became ready and that a policy is to get.
pub(crate) type Ready = SmallVec<[ReadyTask; 8]>;

/// Tasks that became ready, of any role.
pub(super) type Released = SmallVec<[Arc<Task>; 8]>;

/// Counts a successor down; if it became ready, hands over the runtime's reference to it.
pub(super) fn count_down(task: *const Task) -> Option<Arc<Task>> {
    // SAFETY: a task that still has predecessors is kept alive by the reference that `link` forgot, and nobody else sees
    // the count reach zero: that reference is taken over once. Who does not see it has no reference to the
    // task, only its address.
    unsafe { Task::count_down(task).then(|| Arc::from_raw(task)) }
}

/// Work that policies dropped, until its runtime collects it.
static LOST: Mutex<Vec<(Work, Cause)>> = Mutex::new(Vec::new());
static LOST_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes in work that will not run; its runtime completes it as failed as soon as one of its threads looks.
pub(crate) fn discard(work: Work, cause: Cause) {
    LOST.lock().push((work, cause));
    LOST_COUNT.fetch_add(1, Ordering::Release);
}

/// Forgets what a runtime's policy dropped: the runtime is gone.
pub(super) fn forget_lost_of(runtime: u32) {
    let gone: Vec<(Work, Cause)> =
        LOST.lock().extract_if(.., |(work, _)| work.runtime() == runtime).collect();
    LOST_COUNT.fetch_sub(gone.len(), Ordering::AcqRel);
}

/// True if some policy dropped a task that has not been collected.
pub(super) fn is_any_lost() -> bool {
    LOST_COUNT.load(Ordering::Relaxed) != 0
}

impl Shared {
    /// Completes `task`, which has run or was discarded; `each` gets what becomes ready.
    pub(super) fn complete(&self, task: &Arc<Task>, mut each: impl FnMut(Arc<Task>)) {
        self.forget(task);
        if let Some(failure) = task.failure() {
            self.note_failure(failure);
        }
        if let Some(hub) = self.hub.as_ref().filter(|_| task.role == Role::Work) {
            hub.has_used(task, self.home_of(&task.header));
        }
        // Dropping the body drops user values: a panic there must not take the worker along.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task.body.clear())) {
            tracing::error!(task = task.header.title(), "dropping a task's body panicked");
            drop(panic);
        }
        if task.complete(|successor| count_down(successor).into_iter().for_each(&mut each)) {
            self.tell_of(task);
        }
        if let Some(tally) = &task.header.tally {
            tally.remove(task.failure(), self);
        }
    }

    /// Completes a group that was found empty while it was closed.
    pub(super) fn complete_group(self: &Arc<Self>, group: &Group) {
        let mut released = Released::new();
        // Partial results are added here, on whatever thread this is.
        let mode = self.subnormals(None).enter();
        group.complete(|successor| released.extend(count_down(successor)));
        drop(mode);
        for task in released {
            self.start(task, None);
        }
    }

    /// Completes a task outside of any worker: one that was dropped, or a replay.
    pub(crate) fn complete_outside(self: &Arc<Self>, task: &Arc<Task>, failure: Option<Arc<Failure>>) {
        if let Some(failure) = failure {
            task.fail(failure);
        }
        self.complete_uncounted(task);
        self.count_outside();
    }

    /// Ends the turn of whoever was behind a gate. It is no task and is not counted, so that whoever holds a guard can still wait
    /// for all tasks and fill the window.
    pub(crate) fn close_gate(self: &Arc<Self>, gate: &Arc<Task>) {
        self.complete_uncounted(gate);
        // The gate holds its handle: the handle's chain must not hold it.
        let mut accesses = Accesses::new();
        gate.body.declare(&mut accesses);
        accesses.iter().for_each(|access| access.base.chain.lock().forget(gate));
    }

    fn complete_uncounted(self: &Arc<Self>, task: &Arc<Task>) {
        let mut released = Released::new();
        // As above: the gate of a caller's may be the last of a group.
        let mode = self.subnormals(None).enter();
        self.complete(task, |task| released.push(task));
        drop(mode);
        for task in released {
            self.start(task, None);
        }
    }

    /// Completes what a policy dropped instead of handing out, and what nobody can run. False if there was nothing.
    pub(super) fn collect_lost(self: &Arc<Self>) -> bool {
        if !is_any_lost() {
            return false;
        }
        let mine: Vec<(Work, Cause)> = {
            let mut lost = LOST.lock();
            let (mine, others) =
                std::mem::take(&mut *lost).into_iter().partition(|(work, _)| work.runtime() == self.id);
            *lost = others;
            mine
        };
        LOST_COUNT.fetch_sub(mine.len(), Ordering::AcqRel);
        let any = !mine.is_empty();
        for (work, cause) in mine {
            if let Some(hub) = &self.hub {
                if matches!(cause, Cause::Lost) && hub.is_plan_stale(work.id()) {
                    // The device that it was meant for failed while its policy looked.
                    self.push_ready(ReadyTask::new(work), None);
                    continue;
                }
                hub.forget(work.id());
                if let Some(failure) = work.poisoned() {
                    self.end_failed(work, failure);
                    continue;
                }
            }
            match work {
                Work::Task(task) => {
                    let failure = task.describe(cause);
                    task.body.poison(None, &failure);
                    self.complete_outside(&task, Some(failure));
                }
                Work::Replay(task) => task.discard(self, cause),
            }
        }
        any
    }
}
