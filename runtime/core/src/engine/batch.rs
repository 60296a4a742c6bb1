//! Tasks that are run in one call of their codelet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::threads::current::in_batch;
use super::{Ready, Shared, enter};
use crate::error::Failure;
use crate::sched::{ReadyTask, SchedView, Work};
use crate::task::{Ended, Member, Placement, Ran, Role, Site, WorkerLocal};

impl Shared {
    /// Takes tasks from the policy that can be run in one call with `first`, which `worker` has popped: what is ready now.
    pub(crate) fn pop_like(self: &Arc<Self>, worker: usize, first: &ReadyTask) -> Vec<ReadyTask> {
        let on_gpu = self.hub.as_ref().is_some_and(|hub| hub.is_gpu(worker));
        let most = match first.batch(on_gpu) {
            0 | 1 => return Vec::new(),
            batch => batch - 1,
        };
        let mut taken = self.policy.pop_like(&SchedView::new(&**self), worker, first, most);
        // Mixed up by a policy that serves several runtimes: dropped, they are reported to their own as lost.
        taken.retain(|task| task.runtime() == self.id);
        if let Some(recorder) = &self.recorder {
            taken.iter().for_each(|_| recorder.task_taken());
        }
        let mut like = Vec::with_capacity(taken.len());
        for task in taken {
            if like.len() < most && task.is_like(first) && task.batch(on_gpu) > 1 {
                like.push(task);
            } else {
                self.hand_back(task, worker);
            }
        }
        like
    }

    /// A policy gave what was not asked for: it gets it back.
    fn hand_back(self: &Arc<Self>, task: ReadyTask, worker: usize) {
        self.passes(worker, &task);
        self.push_ready(task, None);
    }

    /// Runs tasks that are alike, completes them, and passes on what they released.
    pub(super) fn execute_batch(
        self: &Arc<Self>,
        tasks: Vec<ReadyTask>,
        worker: usize,
        local: &mut WorkerLocal,
    ) {
        let ids: Vec<u64> = tasks.iter().map(ReadyTask::id).collect();
        let outer = self.run_all(worker, tasks.iter());
        let works: Vec<Work> = tasks.into_iter().map(ReadyTask::into_work).collect();
        let ran = {
            let members: Vec<_> = works.iter().map(|work| (work, None)).collect();
            self.attempt_all(&members, worker, local)
        };
        let mut ready = Ready::new();
        for (work, (ran, _)) in works.into_iter().zip(ran) {
            match ran {
                Ran::Done => self.end_member(work, None, worker, &mut ready),
                Ran::Failed(failure) => self.end_member(work, Some(failure), worker, &mut ready),
                // Free again by now: it comes back through the policy all the same.
                Ran::Busy(busy) => ready.extend(busy.handle.park(busy.resource, ReadyTask::new(work)).err()),
            }
        }
        self.rest_all(worker, ids, outer);
        ready.extend(local.woken.drain(..));
        self.pass_on(&mut ready, worker);
        self.tell_room();
    }

    /// `worker` begins to run these, of which there is one at least; returns what it ran before.
    pub(crate) fn run_all<'t>(&self, worker: usize, tasks: impl Iterator<Item = &'t ReadyTask>) -> u64 {
        let mut outer = None;
        for task in tasks {
            match outer {
                None => outer = Some(self.runs(worker, task)),
                Some(_) => self.begins(worker, task),
            }
        }
        outer.unwrap_or_default()
    }

    /// `worker` has ended the tasks with these numbers, and goes on with `outer`.
    pub(crate) fn rest_all(&self, worker: usize, ids: impl IntoIterator<Item = u64>, outer: u64) {
        ids.into_iter().for_each(|id| self.rests(worker, id, outer));
    }

    /// Runs those that were not cancelled in one call, on operands in their handles or where they have been placed; the result of
    /// each, and whether its body began.
    pub(crate) fn attempt_all(
        self: &Arc<Self>,
        tasks: &[(&Work, Option<&Placement>)],
        worker: usize,
        local: &mut WorkerLocal,
    ) -> Vec<(Ran, bool)> {
        let run = |members: &[Member<'_>], site: &mut Site<'_>| members[0].body.run_batch(members, site);
        self.all_but_cancelled(tasks, worker, local, run, |failure| (Ran::Failed(failure), false))
    }

    /// The same on a GPU's stream: what became of each so far.
    pub(crate) fn launch_all(
        self: &Arc<Self>,
        tasks: &[(&Work, Option<&Placement>)],
        worker: usize,
        local: &mut WorkerLocal,
    ) -> Vec<Ended> {
        let run = |members: &[Member<'_>], site: &mut Site<'_>| members[0].body.launch_batch(members, site);
        let not_run = |failure| Ended { failure: Some(failure), ..Ended::default() };
        self.all_but_cancelled(tasks, worker, local, run, not_run)
    }

    /// Calls `run` for those that were not cancelled, if there are any; the result of each.
    fn all_but_cancelled<R>(
        self: &Arc<Self>,
        tasks: &[(&Work, Option<&Placement>)],
        worker: usize,
        local: &mut WorkerLocal,
        run: impl FnOnce(&[Member<'_>], &mut Site<'_>) -> Vec<R>,
        not_run: impl Fn(Arc<Failure>) -> R,
    ) -> Vec<R> {
        let cancelled: Vec<Option<Arc<Failure>>> =
            tasks.iter().map(|(work, _)| work.cancelled(self)).collect();
        let running = || tasks.iter().zip(&cancelled).filter(|(_, cancelled)| cancelled.is_none());
        let members: Vec<Member<'_>> =
            running().map(|((work, placement), _)| work.member(*placement)).collect();
        let mut ran = if members.is_empty() {
            Vec::new()
        } else {
            let _in_batch = in_batch(self);
            let _entered: Vec<_> = running().map(|((work, _), _)| enter(work.stands_for())).collect();
            run(&members, &mut Site { shared: self, worker, local })
        }
        .into_iter();
        let result = |((work, _), cancelled): (&(&Work, _), Option<Arc<Failure>>)| match cancelled {
            None => ran.next().expect("one result for each"),
            Some(failure) => {
                work.poison(&failure);
                not_run(failure)
            }
        };
        tasks.iter().zip(cancelled).map(result).collect()
    }

    fn end_member(
        self: &Arc<Self>,
        work: Work,
        failure: Option<Arc<Failure>>,
        worker: usize,
        ready: &mut Ready,
    ) {
        match work {
            Work::Task(task) => {
                if let Some(failure) = failure {
                    task.fail(failure);
                }
                self.complete(&task, |task| match task.role {
                    Role::Work => ready.push(ReadyTask::new(Work::Task(task))),
                    _ => self.start(task, Some(worker)),
                });
                let done = &self.workers[worker].done;
                done.store(done.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            work => work.complete(self, failure, ready),
        }
    }
}
