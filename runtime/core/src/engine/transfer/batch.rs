//! Tasks with their operands that run in one call: launched as one operation, each with its own
//! working set and its own end.

use std::sync::Arc;
use std::time::Instant;

use smallvec::{SmallVec, smallvec};

use super::gather::{Placed, PlacedBatch};
use super::{Buffers, TransferDriver};
use crate::device::Span;
use crate::device::Stream;
use crate::engine::{Engine, Job};
use crate::error::{Cause, caught};
use crate::task::{Ended, LaunchedBody, TaskPlacement, Work, WorkerLocal};

/// Result of each task of a batch; `None` if its operands are lost with their device.
pub(super) type Fates = SmallVec<[Option<Ended>; 1]>;

impl Placed {
    /// True if the two can be run in one call.
    pub(super) fn is_like(&self, other: &Placed) -> bool {
        self.choice == other.choice && self.task.is_like(&other.task)
    }

    /// True if its codelet launches several at once.
    fn is_batched_on_devices(&self) -> bool {
        self.task.work().header().implementations.batch_on_devices > 1
    }
}

impl Engine {
    /// Runs the tasks, in one call if there are several.
    pub(super) fn run_placed_batch(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        batch: &PlacedBatch,
        local: &mut WorkerLocal,
        stream: Option<&Arc<dyn Stream>>,
    ) -> Fates {
        let worker = batch[0].worker;
        transfers.bodies_begin(worker, batch);
        let fates = match &batch[..] {
            [alone] => smallvec![self.run_placed(transfers, alone, local, stream)],
            // They are put on the stream one after the other, unless all their codelets launch
            // batches.
            several if stream.is_some() && !several.iter().all(Placed::is_batched_on_devices) => {
                several.iter().map(|placed| self.run_placed(transfers, placed, local, stream)).collect()
            }
            several => self.run_several(transfers, several, local, stream),
        };
        transfers.bodies_end(worker);
        fates
    }

    fn run_several(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        batch: &[Placed],
        local: &mut WorkerLocal,
        stream: Option<&Arc<dyn Stream>>,
    ) -> Fates {
        let worker = batch[0].worker;
        let placement = |(placed, buffers): (&Placed, Option<Buffers>)| {
            buffers.map(|buffers| TaskPlacement {
                choice: placed.choice,
                buffers,
                bytes: crate::memory::bytes_of(&placed.needs),
                stream: stream.cloned(),
                stream_ordered: false,
            })
        };
        let buffers = batch.iter().map(|placed| transfers.buffers(placed));
        let placements: Vec<Option<TaskPlacement>> = batch.iter().zip(buffers).map(placement).collect();
        let there = || batch.iter().zip(&placements).filter_map(|(placed, p)| Some((placed, p.as_ref()?)));
        let outer = self.start_bodies(worker, there().map(|(placed, _)| &placed.task));
        let works: Vec<(&Work, Option<&TaskPlacement>)> =
            there().map(|(placed, placement)| (placed.task.work(), Some(placement))).collect();
        let ended = self.attempt_all_placed(&works, worker, local, stream.is_some());
        self.end_bodies(worker, there().map(|(placed, _)| placed.task.id()), outer);
        let mut ended = ended.into_iter();
        let fate = |(placed, placement): (&Placed, &Option<TaskPlacement>)| {
            let (placement, mut ended) = (placement.as_ref()?, ended.next()?);
            placed.says_what_it_left(&placement.buffers, &mut ended);
            Some(ended)
        };
        batch.iter().zip(&placements).map(fate).collect()
    }

    /// Returns the results of launched tasks whose operations have ended: their times are recorded,
    /// and their deferred work is done.
    pub(super) fn ends_of(self: &Arc<Self>, batch: &PlacedBatch, ran: Fates, span: Span) -> Fates {
        let share = span.end.saturating_duration_since(span.start) / batch.len() as u32;
        let mut start = span.start;
        let end = |(placed, mut ended): (&Placed, Option<Ended>)| {
            if let Some(ended) = &mut ended
                && let Some(launched) = ended.launched.take()
            {
                self.lands(placed, ended, *launched, (start, start + share));
                start += share;
            }
            ended
        };
        batch.iter().zip(ran).map(end).collect()
    }

    fn lands(&self, placed: &Placed, ended: &mut Ended, launched: LaunchedBody, times: (Instant, Instant)) {
        let (work, worker) = (placed.task.work(), placed.worker);
        let LaunchedBody { mut notes, pending } = launched;
        if ended.failure.is_none() {
            let left = caught(|| pending.finish());
            let cause = match left {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(Cause::Error(Arc::from(error))),
                Err(message) => Some(Cause::Panic(message)),
            };
            ended.failure = cause.map(|cause| work.describe(cause)).inspect(|failure| work.poison(failure));
            if let (Some(transfers), Some(wrote)) = (&self.transfers, &mut ended.wrote) {
                placed.learns(transfers, wrote);
            }
        }
        if ended.failure.is_none() {
            work.clear_poison();
        }
        if let (Some(models), true) = (&self.models, ended.failure.is_none()) {
            let (header, kind) = (work.header(), self.workers[worker].model_kind);
            let id = header.model_id(models, notes.chosen, notes.implementation);
            models.record(id, kind, header.info.flops, notes.bytes as u64, times.1 - times.0);
        }
        notes.times = notes.times.map(|_| times);
        self.record_notes((work.header(), work.id()), &notes, worker, ended.failure.is_some());
    }

    /// Makes the outputs of the tasks the new versions of their data, one after the other.
    pub(super) fn settle_all(self: &Arc<Self>, transfers: &TransferDriver, batch: PlacedBatch, ended: Fates) {
        let mut ended = ended.into_iter();
        // A batch whose call broke the runtime has no fates: its tasks are sent back.
        batch.into_iter().for_each(|placed| self.settle(transfers, placed, ended.next().flatten()));
    }
}
