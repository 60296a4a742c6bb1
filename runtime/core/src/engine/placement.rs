//! The workers that may run a task.

use super::{Engine, Job, WorkerSlot};

use crate::engine::transfer::TransferDriver;
use crate::error::Error;
use crate::task::ReadyTask;
use crate::task::{Body, DeviceInfo, Header, Task};

impl Engine {
    /// True if the worker may run the task, its operands fit there, and the task is not left to a
    /// GPU.
    pub(super) fn has_place_for(&self, task: &ReadyTask, worker: usize) -> bool {
        !self.is_gpu_only(task, worker) && self.could_run(task, worker)
    }

    /// True if the worker may run the task and its operands fit there, also for tasks left to GPUs.
    pub(super) fn could_run(&self, task: &ReadyTask, worker: usize) -> bool {
        let work = task.work();
        self.admits(work.header(), work.body(), worker)
            && self.transfers.as_ref().is_none_or(|transfers| transfers.fits(work, worker))
    }

    /// True if a task may run on the worker's device, by its placement and by the implementations
    /// of its codelet.
    pub(crate) fn admits(&self, header: &Header, body: &dyn Body, worker: usize) -> bool {
        let only = header.only.as_ref();
        let arch = self.transfers.as_ref().and_then(|transfers| transfers.arch(worker));
        header.implementations.suit(arch) && only.is_none_or(|only| only.allows(body, &self.device(worker)))
    }

    pub(super) fn somebody_can_run(&self, task: &ReadyTask) -> bool {
        (0..self.workers.len()).any(|worker| self.has_place_for(task, worker))
    }

    /// True for a worker whose device has failed and a task that nobody can run since then. The
    /// task is queued, and such a worker takes it out of the queue to end it.
    pub(super) fn ends_unrun(&self, task: &ReadyTask, worker: usize) -> bool {
        let failed = self.transfers.as_ref().is_some_and(|transfers| transfers.failure_of(worker).is_some());
        failed && !self.somebody_can_run(task)
    }

    /// A worker's device, as codelets see it.
    pub(crate) fn device(&self, worker: usize) -> DeviceInfo<'_> {
        let memory = self.transfers.as_ref().and_then(|transfers| transfers.own_memory(worker));
        let WorkerSlot { kind, capability, .. } = &self.workers[worker];
        DeviceInfo { worker, kind, memory, capability: *capability }
    }

    /// Refuses a task that no worker may run.
    pub(super) fn check_place(&self, task: &Task) -> Result<(), Error> {
        let header = &task.header;
        let anywhere = header.only.is_none() && self.transfers.is_none();
        if anywhere || (0..self.workers.len()).any(|worker| self.admits(header, &task.body, worker)) {
            return Ok(());
        }
        let (task, only) = (header.title(), header.only.as_deref());
        let kinds: Vec<&str> = self.workers.iter().map(|worker| &*worker.kind).collect();
        Err(Error::Config(match only.map_or((None, None), |only| (only.worker, only.kinds)) {
            (Some(worker), _) if worker >= kinds.len() => {
                format!("task {task} is to run on worker {worker}: there are {}, from 0", kinds.len())
            }
            (_, Some(wanted)) => {
                format!("task {task} is to run on {wanted:?}, and the workers drive {kinds:?}")
            }
            _ => {
                format!("task {task}: its codelet can execute on none of the workers, which drive {kinds:?}")
            }
        }))
    }

    /// Records whether some GPU can run a task that has been planned. Policies ask this for every
    /// worker, and more than once, so the answer has to be quick.
    pub(super) fn note_for_gpus(&self, transfers: &TransferDriver, task: &ReadyTask) {
        if self.settings.gpu_only && has_function(task) && self.a_gpu_could_run(transfers, task) {
            transfers.note_gpu_only(task.work());
        }
    }

    /// True for a worker that drives no GPU and a task that is left to those that do.
    pub(super) fn is_gpu_only(&self, task: &ReadyTask, worker: usize) -> bool {
        let Some(transfers) = self.transfers.as_ref().filter(|_| self.settings.gpu_only) else {
            return false;
        };
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
        gpus == 1 && (self.settings.gpu_only || workers == 1) && transfers.failures() == 0
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
