//! The end of a task: its successors are counted down, and waiting threads are woken.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Engine;
use super::job::Job;
use crate::error::{Cause, Failure, caught};
use crate::task::{ReadyTask, ReplaySlot, Role, Successor, Task, TaskGroup, TaskPtr, Work};

/// Ready tasks that a policy is to get.
pub(crate) type Ready = SmallVec<[ReadyTask; 8]>;

/// Counts a successor down; if it became ready, hands over the runtime's reference to it.
pub(super) fn count_down(task: *const Task) -> Option<TaskPtr> {
    // SAFETY: a task that still has predecessors is kept alive by the reference that `link` gave
    // up, and only one thread sees the count reach zero: it takes over that reference. Other
    // threads have no reference to the task, only its address.
    unsafe { Task::count_down(task).then(|| TaskPtr::from_raw(task)) }
}

impl Engine {
    /// Completes `task`, which has run or was discarded. Tasks that become ready are left in
    /// `ready`, or begin if no policy is to get them. `worker`: the worker as which the calling
    /// thread acts.
    pub(super) fn complete(self: &Arc<Self>, task: &TaskPtr, worker: Option<usize>, ready: &mut Ready) {
        self.forget(task);
        let failure = task.ticket.cause();
        if let Some(failure) = &failure {
            self.failures.note(failure);
        }
        if let Some(transfers) = self.transfers.as_ref().filter(|_| task.role == Role::Work) {
            transfers.has_used(task, self.home_of(&task.header));
        }
        // Dropping the body drops user values: a panic there must not end the worker.
        if let Err(message) = caught(|| task.body.clear()) {
            tracing::error!(task = task.header.title(), message, "dropping a task's body panicked");
        }
        if task.complete(|successor| self.release(successor, worker, |task| ready.push(task))) {
            self.wake_waiters_of(&task.ticket);
        }
        if let Some(tally) = &task.header.tally {
            tally.remove(failure.as_ref(), &|tally| self.wake_waiters_of_group(tally));
        }
        match worker {
            // A gate stands for no task and is not counted, so that a thread with a guard can still
            // wait for all tasks and fill the window.
            _ if task.role == Role::Gate => {}
            Some(worker) => self.workers[worker].count_done(),
            None => self.count_outside(),
        }
    }

    /// Notes that one of the predecessors of `successor` has completed. `ready` gets tasks for a
    /// policy; other nodes that become ready begin.
    #[inline]
    pub(super) fn release(
        self: &Arc<Self>,
        successor: Successor,
        worker: Option<usize>,
        mut ready: impl FnMut(ReadyTask),
    ) {
        match successor {
            Successor::Task(task) => {
                let Some(next) = count_down(task) else { return };
                match next.role {
                    Role::Work => ready(ReadyTask::new(Work::Task(next))),
                    _ => self.start(next, worker),
                }
            }
            // SAFETY: a slot waits for one node, which calls this once.
            Successor::Slot(slot) => unsafe { ReplaySlot::acquire(slot, ready) },
        }
    }

    /// Completes a group that was found empty while it was closed.
    pub(super) fn complete_group(self: &Arc<Self>, group: &TaskGroup) {
        let mut ready = Ready::new();
        // Partial results are added here, on any thread.
        let mode = self.subnormals(None).enter();
        // SAFETY: all members have left; `finish_later` is called once.
        unsafe {
            TaskGroup::complete(group, |successor| self.release(successor, None, |task| ready.push(task)));
        }
        drop(mode);
        ready.into_iter().for_each(|task| self.push_ready(task, None));
    }

    /// Completes a task on a thread that does not act as a worker: a gate, a replay, or a task that
    /// will not run.
    pub(crate) fn end_outside<J: Job>(self: &Arc<Self>, job: J, failure: Option<Arc<Failure>>) {
        let mut ready = Ready::new();
        // As above: it may be the last of a group.
        let mode = self.subnormals(None).enter();
        job.end(self, failure, None, &mut ready);
        drop(mode);
        ready.into_iter().for_each(|task| self.push_ready(task, None));
    }

    /// Ends a task that did not run with the failure to pass on.
    pub(crate) fn end_failed<J: Job>(self: &Arc<Self>, job: J, failure: Arc<Failure>) {
        job.poison(&failure);
        self.end_outside(job, Some(failure));
    }

    /// Ends the turn of the thread behind a gate.
    pub(crate) fn close_gate(self: &Arc<Self>, gate: &TaskPtr) {
        self.end_outside(gate.clone(), None);
    }

    /// Completes the tasks that a policy dropped instead of handing them out, and those that no
    /// worker can run. False if there were none.
    pub(super) fn collect_lost(self: &Arc<Self>) -> bool {
        if !self.scheduler.lost.is_any() {
            return false;
        }
        let mine = self.scheduler.lost.take();
        let any = !mine.is_empty();
        for (work, cause) in mine {
            let mut passed_on = None;
            if let Some(transfers) = &self.transfers {
                if matches!(cause, Cause::Lost) && transfers.is_plan_stale(&work) {
                    // The device that it was meant for failed while its policy examined it.
                    self.push_ready(ReadyTask::new(work), None);
                    continue;
                }
                transfers.forget(&work);
                passed_on = work.poisoned();
            }
            let failure = passed_on.unwrap_or_else(|| work.describe(cause));
            self.end_failed(work, failure);
        }
        any
    }
}
