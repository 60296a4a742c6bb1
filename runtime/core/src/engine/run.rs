//! Execution of a task, alone or with others in one call of their codelet: the same for every
//! driver.

use std::sync::Arc;

use zellige_trace::TaskEvent;

use super::job::Job;

use super::life;
use super::threads::current::{enter, in_batch};
use super::{Engine, Ready};
use crate::error::Failure;
use crate::task::{
    Busy, Ended, Env, Header, LaunchedBody, Member, Notes, Ran, Site, TaskPlacement, WorkerLocal,
};
use crate::task::{ReadyTask, Work};

impl Engine {
    /// Runs a task with its operands in their handles, to its end or until it is parked; tasks that
    /// become ready are left in `ready`.
    pub(super) fn run_job<J: Job>(
        self: &Arc<Self>,
        mut job: J,
        worker: usize,
        local: &mut WorkerLocal,
        ready: &mut Ready,
    ) {
        loop {
            let ran = self.attempt(&job, worker, local, None, |engine, env, ran| {
                engine.record(env, matches!(ran, Ran::Failed(_)));
                ran
            });
            let failure = match ran {
                Ran::Done => None,
                Ran::Failed(failure) => Some(failure),
                Ran::Busy(busy) => match park(busy, job) {
                    Ok(()) => return,
                    Err(back) => {
                        job = back;
                        life::unpark(&job);
                        continue;
                    }
                },
            };
            return job.end(self, failure, Some(worker), ready);
        }
    }

    /// Runs the body of a task once, unless the task was cancelled; `then` examines the result. If
    /// the task failed, its outputs are poisoned, unless its predecessors have not ended.
    #[inline]
    fn attempt<J: Job, R>(
        self: &Arc<Self>,
        job: &J,
        worker: usize,
        local: &mut WorkerLocal,
        placement: Option<&TaskPlacement>,
        then: impl FnOnce(&Engine, &mut Env<'_>, Ran) -> R,
    ) -> R {
        let strict = job.is_strict_at(placement);
        let mut env = Env::new(self.runner(), job.header(), job.id(), worker, local, job.bound(), strict);
        if let Some(placement) = placement {
            env = env.placed(placement);
        } else {
            life::run(job);
        }
        let ran = match job.cancelled(self) {
            Some(failure) => {
                if !env.is_stream_ordered() {
                    job.poison(&failure);
                }
                Ran::Failed(failure)
            }
            None => {
                let _entered = enter(job.stands_for(), job.priority());
                job.body().run(&mut env)
            }
        };
        then(self, &mut env, ran)
    }

    /// Runs the body on operands that have been placed.
    pub(crate) fn attempt_placed(
        self: &Arc<Self>,
        work: &Work,
        worker: usize,
        local: &mut WorkerLocal,
        placement: &TaskPlacement,
    ) -> Ended {
        self.attempt(work, worker, local, Some(placement), |engine, env, ran| {
            let (began, failure) = (env.notes.began, has_failed(ran));
            if env.stream().is_none() {
                engine.record(env, failure.is_some());
                return Ended { began, failure, ..Ended::default() };
            }
            let launched = LaunchedBody { notes: env.notes, pending: env.pending.take().unwrap_or_default() };
            Ended { began, failure, launched: Some(Box::new(launched)), ..Ended::default() }
        })
    }

    /// Runs similar tasks in one call, and ends them; tasks that become ready are left in `ready`.
    pub(super) fn run_batch(
        self: &Arc<Self>,
        tasks: Vec<ReadyTask>,
        worker: usize,
        local: &mut WorkerLocal,
        ready: &mut Ready,
    ) {
        let works: Vec<Work> = tasks.into_iter().map(ReadyTask::into_work).collect();
        let ran = {
            let members: Vec<_> = works.iter().map(|work| (work, None)).collect();
            works.iter().for_each(life::run);
            self.attempt_all(&members, worker, local)
        };
        for (work, (ran, _)) in works.into_iter().zip(ran) {
            match ran {
                Ran::Done => work.end(self, None, Some(worker), ready),
                Ran::Failed(failure) => work.end(self, Some(failure), Some(worker), ready),
                // The resource is free again by now: the task still returns through the policy.
                Ran::Busy(busy) => ready.extend(park(busy, work).err().map(ReadyTask::new)),
            }
        }
    }

    /// Runs the tasks that were not cancelled in one call, on operands in their handles or at their
    /// placement. Returns the result of each, and whether its body began.
    fn attempt_all(
        self: &Arc<Self>,
        tasks: &[(&Work, Option<&TaskPlacement>)],
        worker: usize,
        local: &mut WorkerLocal,
    ) -> Vec<(Ran, bool)> {
        let run = |members: &[Member<'_>], site: &mut Site<'_>| members[0].body.run_batch(members, site);
        self.all_but_cancelled(tasks, worker, local, run, |failure| (Ran::Failed(failure), false))
    }

    /// Runs the tasks that were not cancelled in one call on placed operands, or makes them put
    /// their operations on a device's stream. Returns the result of each so far.
    pub(crate) fn attempt_all_placed(
        self: &Arc<Self>,
        tasks: &[(&Work, Option<&TaskPlacement>)],
        worker: usize,
        local: &mut WorkerLocal,
        on_device: bool,
    ) -> Vec<Ended> {
        if !on_device {
            let ran = self.attempt_all(tasks, worker, local).into_iter();
            let ended = |(ran, began)| Ended { began, failure: has_failed(ran), ..Ended::default() };
            return ran.map(ended).collect();
        }
        let run = |members: &[Member<'_>], site: &mut Site<'_>| members[0].body.launch_batch(members, site);
        let not_run = |failure| Ended { failure: Some(failure), ..Ended::default() };
        self.all_but_cancelled(tasks, worker, local, run, not_run)
    }

    /// Calls `run` for the tasks that were not cancelled, if there are any; returns the result of
    /// each.
    fn all_but_cancelled<R>(
        self: &Arc<Self>,
        tasks: &[(&Work, Option<&TaskPlacement>)],
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
            let _entered: Vec<_> =
                running().map(|((work, _), _)| enter(work.stands_for(), work.priority())).collect();
            run(&members, &mut Site { runner: self.runner(), worker, local })
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

    /// Writes a task that ran into the trace.
    #[inline]
    pub(crate) fn record(&self, env: &Env<'_>, failed: bool) {
        if self.recorder.is_some() {
            self.record_notes((env.header, env.id), &env.notes, env.worker(), failed);
        }
    }

    /// Writes a task into the trace from these notes alone.
    pub(crate) fn record_notes(
        &self,
        (header, id): (&Header, u64),
        notes: &Notes,
        worker: usize,
        failed: bool,
    ) {
        let (Some(recorder), Some((start, end))) = (&self.recorder, notes.times) else {
            return;
        };
        let since = |t: std::time::Instant| t.duration_since(self.started()).as_nanos() as u64;
        recorder.task(TaskEvent {
            worker: worker as u32,
            id,
            name: header.name,
            label: header.known_as(notes.chosen).label,
            implementation: notes.implementation,
            batch: notes.batch,
            coords: header.info.coords,
            priority: header.priority,
            flops: header.info.flops,
            bytes: notes.bytes as u64,
            start_ns: since(start),
            end_ns: since(end),
            predicted_ns: notes.predicted.map_or(0, |time| time.as_nanos() as u64),
            ready: recorder.ready_now(),
            failed,
        });
    }
}

/// Parks a task that has run nothing with the resource that it needs; returns it if that is free
/// again by now.
fn park<J: Job>(busy: Busy, job: J) -> Result<(), J> {
    life::park(&job);
    let parked = busy.handle.park(busy.resource, ReadyTask::new(job.into_work()));
    parked.map_err(|back| J::from_work(back.into_work()))
}

/// Returns the failure of a body that ran on placed operands.
fn has_failed(ran: Ran) -> Option<Arc<Failure>> {
    match ran {
        Ran::Done => None,
        Ran::Failed(failure) => Some(failure),
        Ran::Busy(_) => unreachable!("turns are taken and replicas made before a task is placed"),
    }
}
