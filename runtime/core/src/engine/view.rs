//! The engine as scheduling policies see it.

use std::time::Duration;

use smallvec::smallvec;

use super::{Engine, Job, PerNode, World};
use crate::task::{Asked, ReadyTask, Work, registered_bytes};
use crate::topology::CoreInfo;

impl World for Engine {
    fn workers(&self) -> usize {
        self.workers.len()
    }

    fn core(&self, worker: usize) -> &CoreInfo {
        &self.workers[worker].core
    }

    fn neighbours(&self, worker: usize) -> &[usize] {
        &self.workers[worker].neighbours
    }

    fn kind(&self, worker: usize) -> &str {
        &self.workers[worker].kind
    }

    fn model_kind(&self, worker: usize) -> &str {
        &self.workers[worker].model_name
    }

    fn node(&self, worker: usize) -> usize {
        self.transfers.as_ref().map_or(0, |transfers| transfers.node_of(worker))
    }

    fn in_flight(&self) -> u64 {
        Engine::in_flight(self)
    }

    fn now(&self) -> Duration {
        Engine::now(self)
    }

    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.has_place_for(task, worker) || self.ends_unrun(task, worker)
    }

    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        if let Some(said) =
            self.transfers.as_ref().and_then(|transfers| transfers.said_time(task.work(), worker))
        {
            return said.map(Duration::from_nanos);
        }
        let (work, header) = (task.work(), task.work().header());
        // Without a transfer driver the choice is made in the body.
        let planned = self.transfers.as_ref().and_then(|transfers| transfers.chosen(work));
        let asked = Asked {
            header,
            chosen: planned.map_or("", |(chosen, _)| chosen),
            bytes: planned.map(|(_, bytes)| bytes),
        };
        self.expected(&asked, work, worker)
    }

    // Without a transfer driver all data are in host memory, where all workers are.

    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.transfers.as_ref().map_or(0, |transfers| transfers.missing(task.work(), worker))
    }

    fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64> {
        let times = self.transfers.as_ref().map(|transfers| transfers.transfer_times(task.work()));
        times.unwrap_or_else(|| smallvec![0])
    }

    fn prefetch(&self, task: &ReadyTask, worker: usize) {
        if let Some(transfers) = &self.transfers {
            transfers.prefetch(task.work(), worker);
        }
    }
}

impl Engine {
    /// Returns the expected time of a task on a worker with the fastest implementation that can run
    /// there; `None` while one of them is unknown, so that policies that explore send it there.
    fn expected(&self, asked: &Asked<'_>, work: &Work, worker: usize) -> Option<Duration> {
        let (header, body, models) = (asked.header, work.body(), self.models.as_ref());
        let names = header.implementations.names;
        let kind = || self.workers[worker].model_kind;
        let registered = || registered_bytes(|accesses| body.declare(accesses), work.bound());
        if names.is_empty() || models.is_none() {
            return asked.time(models, kind, "", registered);
        }
        let device = self.device(worker);
        let constrained = header.only.as_ref().is_some_and(|only| only.constrained);
        let able = (0..names.len()).filter(|&i| !constrained || body.can_execute_with(i, &device));
        let mut fastest = None;
        for implementation in able {
            let time = asked.time(models, kind, names[implementation], registered)?;
            fastest = Some(fastest.map_or(time, |least: Duration| least.min(time)));
        }
        fastest
    }
}
