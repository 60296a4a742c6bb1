//! The life of a task: the only place in which a task enters a stage and in which the scheduling
//! policy is called. The stages and their transitions are those of the table in `README.md`.

use std::sync::Arc;

use super::{Engine, Job, SchedView, Wake};
use crate::error::{Cause, caught};
use crate::task::stage::Stage;
use crate::task::{Header, ReadyTask, Work};

/// Enters a stage. Only debug builds know the stage: in others even a look at it would cost.
#[inline]
fn enter<J: Job>(job: &J, stage: Stage) {
    if cfg!(debug_assertions) {
        job.stage().enter(stage);
    }
}

/// Notes that a task is kept with a resource that another task uses.
#[inline]
pub(super) fn park<J: Job>(job: &J) {
    enter(job, Stage::Parked);
}

/// Returns a task that could not be parked, since the resource is free again, to its worker.
#[inline]
pub(super) fn unpark<J: Job>(job: &J) {
    enter(job, Stage::Taken);
}

/// Notes that a task has exclusive access to the handles on which it commutes.
pub(super) fn acquire(work: &Work) {
    enter(work, Stage::Exclusive);
}

/// Notes that the working set of a task is requested from the memory manager.
pub(super) fn request(work: &Work) {
    enter(work, Stage::Staging);
}

/// Notes that the operands of a task are on the node of its worker.
pub(super) fn arrive(work: &Work) {
    enter(work, Stage::Staged);
}

/// Notes that the body of a task runs on the thread of its worker.
#[inline]
pub(super) fn run<J: Job>(job: &J) {
    enter(job, Stage::Running);
}

/// Notes that a task is handed to the device of its worker.
pub(super) fn launch(work: &Work) {
    enter(work, Stage::Launched);
}

/// Notes that a launched task whose device has failed waits for its predecessors again.
pub(super) fn wait_again(work: &Work) {
    enter(work, Stage::Waiting);
}

/// Notes that a task has completed, has failed or is discarded.
#[inline]
pub(super) fn end<J: Job>(job: &J) {
    enter(job, Stage::Ended);
}

impl Engine {
    /// Hands a ready task to the policy without waking a worker.
    pub(super) fn enqueue(self: &Arc<Self>, mut task: ReadyTask, from: Option<usize>) -> Wake {
        if self.transfers.is_some() || task.is_restricted() {
            let Some(prepared) = self.prepared(task) else { return Wake::Any };
            task = prepared;
        }
        if let Some(recorder) = &self.recorder {
            recorder.task_ready();
        }
        enter(task.work(), Stage::Queued);
        let pushed = caught(|| self.scheduler.policy.push(&SchedView::new(&**self), task, from));
        if self.scheduler.lost.is_any() {
            // The policy dropped a task: a worker has to look.
            self.workers.sleep.notify_any();
        }
        if self.transfers.is_some() {
            // Executes the prefetches that the policy requested.
            self.drain();
        }
        pushed.unwrap_or_else(|message| {
            self.set_broken(message);
            Wake::Any
        })
    }

    /// Prepares a task for its policy. `None` for a task that nobody can run, which is about to
    /// fail, and for one that was launched in stream order after tasks that have ended now.
    fn prepared(self: &Arc<Self>, task: ReadyTask) -> Option<ReadyTask> {
        let task = self.unless_launched(task)?;
        match self.prepare(&task) {
            Ok(()) => Some(task),
            Err(cause) => {
                self.scheduler.lost.add(task.into_work(), cause);
                None
            }
        }
    }

    /// Plans a task for devices with memory of their own, and ensures that one of them can run it.
    fn prepare(&self, task: &ReadyTask) -> Result<(), Cause> {
        if let Some(transfers) = &self.transfers {
            match transfers.plan(task) {
                // Without values of its operands there is no plan, but a failure to pass on.
                Err(_) if task.work().poisoned().is_some() => return Ok(()),
                planned => planned.map_err(Cause::words)?,
            }
            self.note_for_gpus(transfers, task);
        }
        if self.somebody_can_run(task) {
            return Ok(());
        }
        let none = || Cause::words("none of the workers may run it".into());
        Err(self.transfers.as_ref().map_or_else(none, |transfers| transfers.nowhere(task)))
    }

    /// Hands a ready task to the policy and wakes a worker for it.
    pub(crate) fn push_ready(self: &Arc<Self>, task: ReadyTask, from: Option<usize>) {
        match self.enqueue(task, from) {
            Wake::Any => self.workers.sleep.notify_any(),
            Wake::Worker(worker) => self.workers.sleep.notify(worker),
        }
    }

    /// The next task for `worker`.
    pub(crate) fn pop(&self, worker: usize) -> Option<ReadyTask> {
        let task = self.scheduler.policy.pop(&SchedView::new(self), worker)?;
        if task.runtime() != self.id {
            // A policy that serves two runtimes mixed them up. The dropped task is reported to its
            // own runtime as lost.
            return None;
        }
        self.mark_taken(&task);
        Some(task)
    }

    /// Notes that the policy has handed out a task.
    pub(super) fn mark_taken(&self, task: &ReadyTask) {
        enter(task.work(), Stage::Taken);
        if let Some(recorder) = &self.recorder {
            recorder.task_taken();
        }
    }

    /// Notes that `worker` begins a task, and notifies the policy if it follows tasks.
    pub(crate) fn notify_began(&self, worker: usize, task: &ReadyTask) {
        if self.scheduler.follows {
            self.scheduler.policy.began(&SchedView::new(self), worker, task);
        }
    }

    /// Notes that `worker` has ended the task with this number.
    pub(crate) fn notify_ended(&self, worker: usize, id: u64) {
        if self.scheduler.follows {
            self.scheduler.policy.ended(&SchedView::new(self), worker, id);
        }
    }

    /// Notes that `worker` does not run the task that it has popped: the policy counts the tasks
    /// that it handed out.
    pub(crate) fn decline(&self, worker: usize, task: &ReadyTask) {
        self.notify_began(worker, task);
        self.notify_ended(worker, task.id());
    }

    /// Hands a task to the policy and takes the next one for this worker in one step, if the policy
    /// supports that.
    pub(super) fn exchange(
        self: &Arc<Self>,
        task: ReadyTask,
        worker: usize,
    ) -> Result<Option<ReadyTask>, ReadyTask> {
        if self.transfers.is_some() || task.is_restricted() {
            return Err(task);
        }
        enter(task.work(), Stage::Queued);
        if let Some(recorder) = &self.recorder {
            recorder.task_ready();
        }
        let next =
            self.scheduler.policy.exchange(&SchedView::new(&**self), worker, task).inspect_err(|_| {
                if let Some(recorder) = &self.recorder {
                    recorder.task_taken();
                }
            })?;
        // As in `pop`.
        if next.runtime() != self.id {
            return Ok(None);
        }
        self.mark_taken(&next);
        Ok(Some(next))
    }

    /// Takes tasks from the policy that can run in one call with `first`, which `worker` has
    /// popped. Only tasks that are ready now are taken.
    pub(crate) fn pop_like(self: &Arc<Self>, worker: usize, first: &ReadyTask) -> Vec<ReadyTask> {
        let on_device = self.transfers.as_ref().is_some_and(|transfers| transfers.launches(worker));
        let most = match first.batch(on_device) {
            0 | 1 => return Vec::new(),
            batch => batch - 1,
        };
        let mut taken = self.scheduler.policy.pop_like(&SchedView::new(&**self), worker, first, most);
        // Mixed up by a policy that serves several runtimes: the dropped tasks are reported to
        // their own as lost.
        taken.retain(|task| task.runtime() == self.id);
        taken.iter().for_each(|task| self.mark_taken(task));
        let mut like = Vec::with_capacity(taken.len());
        for task in taken {
            if like.len() < most && task.is_like(first) && task.batch(on_device) > 1 {
                like.push(task);
            } else {
                // Not a task that can join the call: the policy gets it back.
                self.decline(worker, &task);
                self.push_ready(task, None);
            }
        }
        like
    }

    /// Notes that `worker` begins to run the task; returns the task that it ran before, whose body
    /// waits.
    pub(crate) fn start_body(&self, worker: usize, task: &ReadyTask) -> u64 {
        let slot = &self.workers[worker];
        // Only this worker writes it: no exchange, which would wait for all stores before it.
        let outer = slot.running.id();
        match task.work() {
            Work::Task(cell) if self.waits.live.is_some() => slot.running.begins(&cell.header),
            _ => slot.running.set_id(task.id() + 1),
        }
        self.notify_began(worker, task);
        outer
    }

    /// Notes that `worker` has ended the task with this number, and goes on with `outer`.
    pub(crate) fn end_body(&self, worker: usize, id: u64, outer: u64) {
        self.workers[worker].running.set_id(outer);
        self.notify_ended(worker, id);
    }

    /// Notes that `worker` begins to run these tasks, at least one; returns the task that it ran
    /// before.
    pub(crate) fn start_bodies<'t>(&self, worker: usize, tasks: impl Iterator<Item = &'t ReadyTask>) -> u64 {
        let mut outer = None;
        for task in tasks {
            match outer {
                None => outer = Some(self.start_body(worker, task)),
                Some(_) => self.notify_began(worker, task),
            }
        }
        outer.unwrap_or_default()
    }

    /// Notes that `worker` has ended the tasks with these numbers, and goes on with `outer`.
    pub(crate) fn end_bodies(&self, worker: usize, ids: impl IntoIterator<Item = u64>, outer: u64) {
        ids.into_iter().for_each(|id| self.end_body(worker, id, outer));
    }

    /// Takes the newest task that is `mine` from the policy, if the policy supports that.
    pub(super) fn pop_newest(&self, worker: usize, mine: &dyn Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        let task = self.scheduler.policy.pop_newest(&SchedView::new(self), worker, mine)?;
        self.mark_taken(&task);
        Some(task)
    }

    /// Makes the policy sort its queued tasks again, whose priorities may have changed.
    pub(super) fn sort_again(&self) {
        self.scheduler.policy.sort_again();
    }

    /// The worker that will run a task, if the policy is certain of it before the task is ready.
    pub(crate) fn home_of(&self, header: &Header) -> Option<usize> {
        let only = header.only.as_ref().and_then(|only| only.worker);
        let home =
            only.or_else(|| self.scheduler.policy.home(&SchedView::new(self), header.name, &header.info));
        home.filter(|&worker| worker < self.workers.len())
    }

    pub(crate) fn policy_name(&self) -> &str {
        self.scheduler.policy.name()
    }
}
