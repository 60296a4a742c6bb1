//! The path from an offer to a launch, and from the end of operations to the end of the task.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::{Landed, LaunchOffer, Marks};
use crate::device::Mark;
use crate::device::Span;
use crate::engine::transfer::batch::Fates;
use crate::engine::transfer::{Buffers, Placed, PlacedBatch, TransferDriver};
use crate::engine::{Engine, Job, life};
use crate::format::Format;
use crate::memory::Need;
use crate::operand::Mode;
use crate::task::plan::Plan;
use crate::task::{Ahead, AnyHandle, Ended, ReadyTask, Work};
use crate::value::Meta;

/// Data of a stream-ordered task: its marks and its buffers.
pub(in crate::engine::transfer) struct StreamOrdered {
    pub(in crate::engine::transfer) after: Marks,
    pub(in crate::engine::transfer) buffers: Buffers,
}

impl Engine {
    /// Takes a task to be launched after those that the worker's device has, if there is one.
    pub(in crate::engine::transfer) fn follow(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        worker: usize,
    ) -> Option<PlacedBatch> {
        let followers = transfers.followers.as_ref()?;
        while transfers.lanes[worker].may_follow() {
            let LaunchOffer { task, after, after_ends } = followers.take(worker)?;
            let plan = self
                .may_follow(transfers, &task, worker, after_ends)
                .then(|| transfers.plan_in_stream_order(task.work()));
            if let Some(plan) = plan.flatten().filter(|plan| transfers.has_time(plan, worker)) {
                let mut placed = transfers.placed(task, &plan, worker);
                let (ticket, node) = (placed.ticket, transfers.node_of(worker));
                let buffers =
                    transfers.with_memory(|memory| memory.stage_in_stream_order(ticket, node, &plan.needs));
                self.drain();
                let Some(buffers) = buffers else {
                    self.wait_after_all(transfers, placed.task);
                    continue;
                };
                life::arrive(placed.task.work());
                placed.stream_ordered = Some(Box::new(StreamOrdered { after, buffers }));
                transfers.tally.add(node, |counts| counts.launched_in_stream_order += 1);
                return Some(smallvec![placed]);
            }
            self.wait_after_all(transfers, task);
        }
        None
    }

    /// True for a task that may run on the worker's device and does not depend on the ends of its
    /// predecessors.
    fn may_follow(
        &self,
        transfers: &TransferDriver,
        task: &ReadyTask,
        worker: usize,
        after_ends: bool,
    ) -> bool {
        let (header, body) = (task.work().header(), task.work().body());
        let counts_on_them = after_ends && header.implementations.needs_ends;
        header.implementations.suit(transfers.arch(worker))
            && !counts_on_them
            && transfers.failure_of(worker).is_none()
            && self.admits(header, body, worker)
            && task.work().cancelled(self).is_none()
    }

    /// Withdraws a stream-ordered launch: the task waits for the ends of its predecessors, like any
    /// other, unless they have ended.
    pub(in crate::engine::transfer) fn wait_after_all(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        task: ReadyTask,
    ) {
        let followers = transfers.followers.as_ref().expect("it was offered");
        if followers.gives_up(task.id()) {
            self.push_ready(task, None);
        } else {
            drop(task.into_work());
        }
    }

    /// Notes that the tasks have been put on a stream, up to `mark`: others may be launched after
    /// them.
    pub(in crate::engine::transfer) fn notify_successors(
        &self,
        transfers: &TransferDriver,
        batch: &PlacedBatch,
        ran: &Fates,
        mark: &Arc<dyn Mark>,
    ) {
        let Some(followers) = &transfers.followers else { return };
        let mut any = false;
        for (placed, ended) in batch.iter().zip(ran) {
            let launched = ended.as_ref().filter(|ended| ended.failure.is_none());
            if let Some(launched) = launched.and_then(|ended| ended.launched.as_ref()) {
                let learns = ended.as_ref().and_then(|ended| ended.wrote.as_ref());
                let learns = learns.is_some_and(|wrote| wrote.iter().any(|wrote| wrote.learns));
                let leaves = learns || !launched.pending.is_empty();
                any |= followers.notify(placed.task.work(), placed.worker, mark, leaves);
            }
        }
        if any {
            self.workers.sleep.notify(batch[0].worker);
        }
    }

    /// Returns a task whose predecessors have all ended, unless it has been launched already.
    pub(crate) fn unless_launched(self: &Arc<Self>, task: ReadyTask) -> Option<ReadyTask> {
        let Some((transfers, followers)) =
            self.transfers.as_ref().and_then(|transfers| Some((transfers, transfers.followers.as_ref()?)))
        else {
            return Some(task);
        };
        match followers.is_ready(task) {
            Err(task) => return Some(task),
            Ok(None) => {}
            Ok(Some(landed)) => self.end_stream_ordered(transfers, landed),
        }
        None
    }

    /// Processes the end of the operations of a stream-ordered task.
    pub(in crate::engine::transfer) fn landed_stream_ordered(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        batch: PlacedBatch,
        ran: Fates,
        span: Span,
    ) {
        let followers = transfers.followers.as_ref().expect("it was offered");
        if let Some(landed) = followers.lands(Landed { batch, ran, span }) {
            self.end_stream_ordered(transfers, landed);
        }
    }

    /// Ends a stream-ordered task whose predecessors have ended, too. If one of them has failed,
    /// the result of the task is discarded.
    fn end_stream_ordered(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        Landed { batch, mut ran, span }: Landed,
    ) {
        if batch.iter().any(|placed| transfers.buffers(placed).is_none()) {
            // Its device has failed since: its results do not count.
            return batch.into_iter().for_each(|placed| self.run_again(transfers, placed));
        }
        for (placed, ended) in batch.iter().zip(&mut ran) {
            let poisoned = placed.task.work().poisoned().filter(|_| !crate::mutant::mutant(12));
            if let (Some(failure), Some(ended)) = (poisoned, ended) {
                ended.failure = Some(failure);
            }
        }
        let ended = self.ends_of(&batch, ran, span);
        for (placed, ended) in batch.iter().zip(&ended) {
            if let Some(failure) = ended.as_ref().and_then(|ended| ended.failure.as_ref()) {
                placed.task.work().poison(failure);
            }
        }
        self.settle_all(transfers, batch, ended);
    }
}

impl TransferDriver {
    /// Plans a task for the state in which its predecessors leave its operands; `None` if it has to
    /// wait for their ends.
    fn plan_in_stream_order(&self, work: &Work) -> Option<Plan> {
        let late = work.body().selects() && !crate::mutant::mutant(15);
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
                // The metadata that the writer will learn decides a deferred selection, and it
                // would be learnt from the output of this task instead.
                if ahead.is_some_and(|ahead| ahead.learns && (mode.writes() || late)) {
                    return None;
                }
                left.push(ahead.is_some());
                metas.push(ahead.map_or_else(|| handle.current(), |ahead| ahead.meta));
            }
            let datum = |at: usize| handles[at].0.datum().expect("adopted when it was linked");
            let mut plan = Plan::of(work.header(), work.body(), datum, &metas).ok()?;
            plan.times = self.times(work, &plan);
            let is_as_left =
                |at: usize| !left[at] || (plan.needs[at].format, plan.needs[at].bytes) == size_of(&metas[at]);
            (!plan.on_host && (0..metas.len()).all(is_as_left)).then_some(plan)
        })
    }
}

impl Placed {
    /// Returns the outputs of the task: the position of the access, its handle and its need.
    pub(in crate::engine::transfer) fn writes<'p>(
        &'p self,
        handles: &'p [(&dyn AnyHandle, Mode)],
    ) -> impl Iterator<Item = (usize, &'p dyn AnyHandle, &'p Need)> {
        let all = handles.iter().zip(&self.needs).enumerate();
        all.filter(|(_, (_, need))| need.access.writes()).map(|(at, ((handle, _), need))| (at, *handle, need))
    }

    /// Records the state of its outputs, if its body has put its operations on a stream.
    pub(in crate::engine::transfer) fn says_what_it_left(&self, buffers: &Buffers, ended: &mut Ended) {
        let Some(launched) = ended.launched.as_ref().filter(|_| ended.failure.is_none()) else { return };
        let left = |(at, handle, _): (usize, &dyn AnyHandle, &Need)| {
            handle.launched(buffers[at], self.ticket, &launched.pending)
        };
        ended.wrote = Some(self.task.work().with_handles(|handles| self.writes(handles).map(left).collect()));
    }

    /// Records the metadata that its end has changed.
    pub(in crate::engine::transfer) fn learns(&self, transfers: &TransferDriver, wrote: &mut [Ahead]) {
        if !wrote.iter().any(|wrote| wrote.learns) {
            return;
        }
        // The buffers are lost with their device, or still those of its launch.
        let Some(buffers) = transfers.buffers(self) else { return };
        self.task.work().with_handles(|handles| {
            for ((at, handle, _), wrote) in self.writes(handles).zip(wrote).filter(|(_, wrote)| wrote.learns)
            {
                *wrote = handle.learnt(buffers[at], self.ticket);
            }
        });
    }

    /// Clears the recorded outputs of a task whose device has failed.
    pub(in crate::engine::transfer) fn unlaunched(&self) {
        self.task.work().with_handles(|handles| {
            self.writes(handles).for_each(|(_, handle, _)| handle.unlaunched(self.ticket));
        });
    }
}

fn size_of(meta: &Meta) -> (Format, u64) {
    (meta.format, meta.bytes as u64)
}
