//! What GPUs can run, and other workers leave to them.

use super::{Job, Shared};
use crate::hub::Hub;
use crate::sched::ReadyTask;

impl Shared {
    /// Notes of a task that has been planned whether some GPU can run it. Policies ask about every worker, and more than once: the answer
    /// has to be quick.
    pub(super) fn note_for_gpus(&self, hub: &Hub, task: &ReadyTask) {
        if self.leave_to_gpus && task.work().header().ways.cuda && self.a_gpu_could_run(hub, task) {
            hub.leave_to_gpus(task.id());
        }
    }

    /// True for a worker that drives no GPU and a task that is left to those that do.
    pub(super) fn leaves_to_gpus(&self, task: &ReadyTask, worker: usize) -> bool {
        let Some(hub) = self.hub.as_ref().filter(|_| self.leave_to_gpus) else { return false };
        task.work().header().ways.cuda
            && !hub.is_gpu(worker)
            && hub.is_left_to_gpus(task.id()).unwrap_or_else(|| self.a_gpu_could_run(hub, task))
    }

    fn a_gpu_could_run(&self, hub: &Hub, task: &ReadyTask) -> bool {
        let mut gpus = (0..self.workers.len()).filter(|&worker| hub.is_gpu(worker));
        gpus.any(|gpu| self.could_run(task, gpu))
    }

    /// True if there is one GPU, which has not failed, and no other worker takes from it what it can run.
    pub(crate) fn has_one_gpu_for_all(&self) -> bool {
        let Some(hub) = &self.hub else { return false };
        let workers = self.workers.len();
        let gpus = (0..workers).filter(|&worker| hub.is_gpu(worker)).count();
        gpus == 1 && (self.leave_to_gpus || workers == 1) && hub.failures() == 0
    }

    /// True if a task that is about to be ready can have its operands on a GPU.
    pub(crate) fn has_room_on_gpu(&self, task: &ReadyTask) -> bool {
        let Some(hub) = &self.hub else { return false };
        let has_room = hub.plan(task).is_ok() && self.a_gpu_could_run(hub, task);
        hub.forget(task.id());
        has_room
    }
}
