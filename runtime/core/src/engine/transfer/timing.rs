//! Simulated time: times of tasks and transfers are predicted and not measured, and nothing runs or
//! moves.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{Placed, PlacedBatch, TransferDriver};
use crate::device::{Op, Stream};
use crate::engine::{Engine, Job};
use crate::memory::Transfer;
use crate::task::plan::{Plan, Planned, Times};
use crate::value::{Meta, Pending};

use crate::task::{Ahead, Ended, Header, LaunchedBody, Notes, Work};

/// Times of operations in simulated time.
pub(crate) trait Timing: Send + Sync {
    /// Returns the number of the kind of device that a worker drives.
    fn kind_of(&self, worker: usize) -> usize;
    /// Returns the time of a task on each kind, for the precision `label` and operands of this many
    /// bytes. `for_host`: it is one of the runtime's own, which adds partial results.
    fn of_task(&self, header: &Header, label: &'static str, bytes: u64, for_host: bool) -> Times;
    /// Returns the time that a call of several tasks on the worker's device spends once and not for
    /// each (ns).
    fn once(&self, worker: usize) -> u64;
    /// Returns the time of a transfer with its conversion (ns).
    fn of_transfer(&self, transfer: &Transfer) -> u64;
}

impl TransferDriver {
    /// Returns the times of a task with this plan.
    pub(super) fn times(&self, work: &Work, plan: &Plan) -> Times {
        let (header, for_host) = (work.header(), work.body().is_for_host());
        let timing = self.operations.timing.as_ref();
        timing.map_or(Times::new(), |t| t.of_task(header, plan.label(header), plan.bytes(), for_host))
    }

    /// False for a worker whose device would never end the task, according to its times.
    pub(super) fn has_time(&self, plan: &Plan, worker: usize) -> bool {
        let timing = self.operations.timing.as_ref();
        timing.is_none_or(|timing| plan.times[timing.kind_of(worker)].is_some())
    }

    /// Returns the time of a planned task on a worker's device (ns), if times are simulated.
    pub(crate) fn said_time(&self, work: &Work, worker: usize) -> Option<Option<u64>> {
        let kind = self.operations.timing.as_ref()?.kind_of(worker);
        let said = |planned: &mut Planned| planned.plan.times[kind].map(|(nanos, _)| nanos);
        Some(work.planned().ask(said).flatten())
    }
}

impl Engine {
    /// Returns the tasks as one operation of a device in simulated time: their outputs are the
    /// planned ones.
    pub(super) fn launch_simulated(self: &Arc<Self>, timing: &dyn Timing, batch: PlacedBatch) -> Op {
        let worker = batch[0].worker;
        // The policy has not handed out stream-ordered tasks, and does not know of them.
        let known = if batch[0].stream_ordered.is_none() { &batch[..] } else { &[] };
        let ids: SmallVec<[u64; 1]> = known.iter().map(|placed| placed.task.id()).collect();
        self.start_bodies(worker, known.iter().map(|placed| &placed.task));
        let each: u64 = batch.iter().map(|placed| placed.takes.map_or(0, |(nanos, _)| nanos)).sum();
        let takes = each.saturating_sub(timing.once(worker) * (batch.len() as u64 - 1));
        let of = batch.len() as u32;
        let ran = batch.iter().map(|placed| Some(placed.as_planned(of))).collect();
        let engine = Arc::clone(self);
        let run = move |_: Option<&Arc<dyn Stream>>| {
            engine.end_bodies(worker, ids, 0);
            Ok(())
        };
        let launched = Arc::new(Mutex::new(Some((batch, ran))));
        Op { takes: Some(takes), ..self.operation(&launched, Box::new(run)) }
    }
}

impl Placed {
    /// Returns the result of the task, one of `of` in a call, if all goes as planned.
    fn as_planned(&self, of: u32) -> Ended {
        let now = Instant::now();
        let (nanos, implementation) = self.takes.unwrap_or_default();
        let notes = Notes {
            began: true,
            bytes: crate::memory::bytes_of(&self.needs) as usize,
            predicted: Some(std::time::Duration::from_nanos(nanos)),
            // Replaced by those of its operation.
            times: Some((now, now)),
            chosen: self.choice.label,
            implementation,
            batch: if of > 1 { of } else { 0 },
        };
        let wrote: SmallVec<[Ahead; 2]> = self.task.work().with_handles(|handles| {
            let left = self.writes(handles).map(|(_, handle, need)| {
                let meta = Meta { format: need.format, bytes: need.bytes as usize, ..handle.current() };
                handle.planned(self.ticket, meta)
            });
            left.collect()
        });
        let launched = LaunchedBody { notes, pending: Pending::default() };
        Ended { began: true, failure: None, launched: Some(Box::new(launched)), wrote: Some(wrote) }
    }
}
