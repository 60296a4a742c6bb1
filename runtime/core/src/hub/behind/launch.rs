//! From an offer to a launch, and from the end of operations to the end of the task.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::{Landed, Marks, Offer};
use crate::data::{Ahead, AnyHandle, Meta};
use crate::device::Span;
use crate::engine::{Job, Shared, Stage, Work};
use crate::format::Format;
use crate::gpu::Mark;
use crate::hub::batch::Fates;
use crate::hub::{Buffers, Flight, Hub, Placed};
use crate::memory::Need;
use crate::operand::Mode;
use crate::plan::Plan;
use crate::sched::ReadyTask;
use crate::task::Ended;

/// What a task has that is launched behind others.
pub(in crate::hub) struct Behind {
    pub(in crate::hub) after: Marks,
    pub(in crate::hub) buffers: Buffers,
}

impl Shared {
    /// A task to be launched behind those that the worker's device has, if there is one.
    pub(in crate::hub) fn follow(self: &Arc<Self>, hub: &Hub, worker: usize) -> Option<Flight> {
        let followers = hub.followers.as_ref()?;
        while hub.lanes[worker].may_follow() {
            let Offer { task, after, after_ends } = followers.take(worker)?;
            let plan = self.may_follow(hub, &task, worker, after_ends).then(|| hub.plan_behind(task.work()));
            if let Some(plan) = plan.flatten() {
                let mut placed = hub.placed(task, &plan, worker);
                let (ticket, node) = (placed.ticket, hub.node_of(worker));
                let buffers = hub.with_memory(|memory| memory.stage_behind(ticket, node, &plan.needs));
                self.drain();
                let Some(buffers) = buffers else {
                    self.wait_after_all(hub, placed.task);
                    continue;
                };
                placed.task.work().enters(Stage::Staged);
                placed.behind = Some(Box::new(Behind { after, buffers }));
                hub.tally.add(node, |counts| counts.launched_behind += 1);
                return Some(smallvec![placed]);
            }
            self.wait_after_all(hub, task);
        }
        None
    }

    /// True for a task that may run on the worker's device and does not count on ends that are to come.
    fn may_follow(&self, hub: &Hub, task: &ReadyTask, worker: usize, after_ends: bool) -> bool {
        let (header, body) = (task.work().header(), task.work().body());
        let counts_on_them = after_ends && header.ways.needs_ends;
        header.ways.cuda
            && !counts_on_them
            && hub.failure_of(worker).is_none()
            && self.admits(header, body, worker)
            && task.work().cancelled(self).is_none()
    }

    /// The task is not launched behind others: it waits for their ends, as any other, unless those have come.
    pub(in crate::hub) fn wait_after_all(self: &Arc<Self>, hub: &Hub, task: ReadyTask) {
        let followers = hub.followers.as_ref().expect("it was offered");
        if followers.gives_up(task.id()) {
            self.push_ready(task, None);
        } else {
            drop(task.into_work());
        }
    }

    /// The tasks have been put on a stream, up to `mark`: others may be launched behind them.
    pub(in crate::hub) fn tell_followers(&self, hub: &Hub, flight: &Flight, ran: &Fates, mark: &Arc<Mark>) {
        let Some(followers) = &hub.followers else { return };
        let mut any = false;
        for (placed, ended) in flight.iter().zip(ran) {
            let launched = ended.as_ref().filter(|ended| ended.failure.is_none());
            if let Some(launched) = launched.and_then(|ended| ended.launched.as_ref()) {
                let leaves = !launched.pending.is_empty();
                any |= followers.tell(placed.task.work(), placed.worker, mark, leaves);
            }
        }
        if any {
            self.sleep.notify(flight[0].worker);
        }
    }

    /// All that a task waited for has ended: it is given back, unless it has been launched already.
    pub(crate) fn unless_launched(self: &Arc<Self>, task: ReadyTask) -> Option<ReadyTask> {
        let Some((hub, followers)) = self.hub.as_ref().and_then(|hub| Some((hub, hub.followers.as_ref()?)))
        else {
            return Some(task);
        };
        match followers.is_ready(task) {
            Err(task) => return Some(task),
            Ok(None) => {}
            Ok(Some(landed)) => self.end_behind(hub, landed),
        }
        None
    }

    /// The operations of a task that was launched behind others have ended.
    pub(in crate::hub) fn landed_behind(self: &Arc<Self>, hub: &Hub, flight: Flight, ran: Fates, span: Span) {
        let followers = hub.followers.as_ref().expect("it was offered");
        if let Some(landed) = followers.lands(Landed { flight, ran, span }) {
            self.end_behind(hub, landed);
        }
    }

    /// Ends a task that was launched behind others, which have ended, too. If one of them has failed, what it made of that is discarded.
    fn end_behind(self: &Arc<Self>, hub: &Hub, Landed { flight, mut ran, span }: Landed) {
        if flight.iter().any(|placed| hub.buffers(placed).is_none()) {
            // Its device has failed since: nothing of it counts.
            return flight.into_iter().for_each(|placed| self.run_again(hub, placed));
        }
        for (placed, ended) in flight.iter().zip(&mut ran) {
            let poisoned = placed.task.work().poisoned().filter(|_| !crate::mutant::mutant(12));
            if let (Some(failure), Some(ended)) = (poisoned, ended) {
                ended.failure = Some(failure);
            }
        }
        let ended = self.ends_of(&flight, ran, span);
        for (placed, ended) in flight.iter().zip(&ended) {
            if let Some(failure) = ended.as_ref().and_then(|ended| ended.failure.as_ref()) {
                placed.task.work().poison(failure);
            }
        }
        self.settle_all(hub, flight, ended);
    }
}

impl Hub {
    /// What a task needs as those before it leave its operands when they end; `None` if it has to wait for that.
    fn plan_behind(&self, work: &Work) -> Option<Plan> {
        let late = work.body().is_late() && !crate::mutant::mutant(15);
        work.with_handles(|handles| {
            let mut metas: SmallVec<[Meta; 4]> = SmallVec::new();
            let mut left: SmallVec<[bool; 4]> = SmallVec::new();
            for (handle, mode) in handles {
                if matches!(mode, Mode::Commute | Mode::Reduce)
                    || handle.has_partials()
                    || !handle.is_portable()
                {
                    return None;
                }
                let ahead = handle.ahead();
                // What its writer will learn of it decides a late choice, and would be learnt of what this one makes of it.
                if ahead.is_some_and(|ahead| ahead.learns && (mode.writes() || late)) {
                    return None;
                }
                left.push(ahead.is_some());
                metas.push(ahead.map_or_else(|| handle.current(), |ahead| ahead.meta));
            }
            let datum = |at: usize| handles[at].0.datum().expect("adopted when it was linked");
            let plan = Plan::of(work.header(), work.body(), datum, &metas).ok()?;
            let is_as_left =
                |at: usize| !left[at] || (plan.needs[at].format, plan.needs[at].bytes) == size_of(&metas[at]);
            (!plan.on_host && (0..metas.len()).all(is_as_left)).then_some(plan)
        })
    }
}

impl Placed {
    /// What the task writes: the place of the access, its handle and its need.
    pub(in crate::hub) fn writes<'p>(
        &'p self,
        handles: &'p [(&dyn AnyHandle, Mode)],
    ) -> impl Iterator<Item = (usize, &'p dyn AnyHandle, &'p Need)> {
        let all = handles.iter().zip(&self.needs).enumerate();
        all.filter(|(_, (_, need))| need.access.writes()).map(|(at, ((handle, _), need))| (at, *handle, need))
    }

    /// If its body has put its operations on a stream: what it has left there.
    pub(in crate::hub) fn says_what_it_left(&self, buffers: &Buffers, ended: &mut Ended) {
        let Some(launched) = ended.launched.as_ref().filter(|_| ended.failure.is_none()) else { return };
        let left = |(at, handle, _): (usize, &dyn AnyHandle, &Need)| {
            handle.launched(buffers[at], self.ticket, &launched.pending)
        };
        ended.wrote = Some(self.task.work().with_handles(|handles| self.writes(handles).map(left).collect()));
    }

    /// What its end has changed is known.
    pub(in crate::hub) fn learns(&self, hub: &Hub, wrote: &mut [Ahead]) {
        if !wrote.iter().any(|wrote| wrote.learns) {
            return;
        }
        // They are gone with their device, or still those of its launch.
        let Some(buffers) = hub.buffers(self) else { return };
        self.task.work().with_handles(|handles| {
            for ((at, handle, _), wrote) in self.writes(handles).zip(wrote).filter(|(_, wrote)| wrote.learns)
            {
                *wrote = handle.learnt(buffers[at], self.ticket);
            }
        });
    }

    /// Its device has failed: what it left there is nobody's.
    pub(in crate::hub) fn unlaunched(&self) {
        self.task.work().with_handles(|handles| {
            self.writes(handles).for_each(|(_, handle, _)| handle.unlaunched(self.ticket));
        });
    }
}

fn size_of(meta: &Meta) -> (Format, u64) {
    (meta.format, meta.bytes as u64)
}
