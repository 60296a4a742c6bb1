//! What drives a policy, and what a policy sees of it.

use std::time::Duration;

use super::ReadyTask;
use crate::topology::CoreInfo;

/// A driver of policies: threads, or virtual time.
pub(crate) trait World {
    fn workers(&self) -> usize;
    fn core(&self, worker: usize) -> &CoreInfo;
    /// All workers but this one, nearest first; this one may be among them.
    fn neighbours(&self, worker: usize) -> &[usize];
    fn kind(&self, worker: usize) -> &str;
    fn model_kind(&self, worker: usize) -> &str;
    fn in_flight(&self) -> u64;
    fn now(&self) -> Duration;
    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool;
    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration>;
    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64;
    fn transfer_time(&self, task: &ReadyTask, worker: usize) -> Duration;
    fn prefetch(&self, task: &ReadyTask, worker: usize);
}

/// What a policy sees of the machine and of the run.
pub struct SchedView<'a> {
    world: &'a dyn World,
}

impl<'a> SchedView<'a> {
    pub(crate) fn new(world: &'a dyn World) -> Self {
        SchedView { world }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.world.workers()
    }

    /// The core that a worker runs on.
    pub fn core(&self, worker: usize) -> &'a CoreInfo {
        self.world.core(worker)
    }

    /// The other workers, nearest first: shared caches before NUMA nodes before the rest.
    pub fn neighbours(&self, worker: usize) -> impl Iterator<Item = usize> + use<'a> {
        self.world.neighbours(worker).iter().copied().filter(move |&other| other != worker)
    }

    /// What kind of device a worker drives, e.g. `cpu` or `gpu`.
    pub fn kind(&self, worker: usize) -> &'a str {
        self.world.kind(worker)
    }

    /// What performance models call it, e.g. `cpu` or `gpu:NAME`: workers of one such kind are equally fast.
    pub fn model_kind(&self, worker: usize) -> &'a str {
        self.world.model_kind(worker)
    }

    /// Tasks submitted and not yet complete; an estimate while others submit.
    pub fn in_flight(&self) -> u64 {
        self.world.in_flight()
    }

    /// True if the task has an implementation for the worker's device, and its operands fit there. Once devices have failed without
    /// which nobody can run the task, true for their workers: they end it with an error.
    pub fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.world.can_run(task, worker)
    }

    /// The task's expected time on a worker, its operands being there; `None` if nothing is known.
    pub fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        self.world.estimate(task, worker)
    }

    /// Bytes of the task's operands that are not in the worker's memory node.
    pub fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.world.missing_bytes(task, worker)
    }

    /// How long it would take to bring the task's operands to the worker's memory node over idle links.
    pub fn transfer_time(&self, task: &ReadyTask, worker: usize) -> Duration {
        self.world.transfer_time(task, worker)
    }

    /// Says that `worker` will run the task: its operands may be brought in ahead of it.
    pub fn prefetch(&self, task: &ReadyTask, worker: usize) {
        self.world.prefetch(task, worker);
    }

    /// Time since the run started, as its driver measures it.
    pub fn now(&self) -> Duration {
        self.world.now()
    }
}
