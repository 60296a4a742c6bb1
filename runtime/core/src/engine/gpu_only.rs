//! Tasks that GPUs can run and that other workers leave to them.

use super::{Job, Shared};
use crate::engine::ReadyTask;
use crate::engine::transfer::TransferDriver;

impl Shared {
    /// Records whether some GPU can run a task that has been planned. Policies ask this for every
    /// worker, and more than once, so the answer has to be quick.
    pub(super) fn note_for_gpus(&self, transfers: &TransferDriver, task: &ReadyTask) {
        if self.gpu_only && has_function(task) && self.a_gpu_could_run(transfers, task) {
            transfers.note_gpu_only(task.work());
        }
    }

    /// True for a worker that drives no GPU and a task that is left to those that do.
    pub(super) fn is_gpu_only(&self, task: &ReadyTask, worker: usize) -> bool {
        let Some(transfers) = self.transfers.as_ref().filter(|_| self.gpu_only) else { return false };
        has_function(task)
            && !transfers.launches(worker)
            && transfers
                .is_noted_gpu_only(task.work())
                .unwrap_or_else(|| self.a_gpu_could_run(transfers, task))
    }

    fn a_gpu_could_run(&self, transfers: &TransferDriver, task: &ReadyTask) -> bool {
        let mut gpus = (0..self.workers.len()).filter(|&worker| transfers.launches(worker));
        gpus.any(|gpu| self.could_run(task, gpu))
    }

    /// True if there is exactly one GPU, which has not failed, and no other worker takes the tasks
    /// that it can run.
    pub(crate) fn has_one_gpu_for_all(&self) -> bool {
        let Some(transfers) = &self.transfers else { return false };
        let workers = self.workers.len();
        let gpus = (0..workers).filter(|&worker| transfers.launches(worker)).count();
        gpus == 1 && (self.gpu_only || workers == 1) && transfers.failures() == 0
    }

    /// True if a task that is about to be ready can have its operands on a GPU.
    pub(crate) fn has_room_on_device(&self, task: &ReadyTask) -> bool {
        let Some(transfers) = &self.transfers else { return false };
        let has_room = transfers.plan(task).is_ok() && self.a_gpu_could_run(transfers, task);
        transfers.forget(task.work());
        has_room
    }
}

/// True for a task that has a function for some device.
fn has_function(task: &ReadyTask) -> bool {
    !task.work().header().implementations.archs.is_empty()
}
