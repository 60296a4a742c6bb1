//! A ready task on its way from the dependency engine through a policy to a worker.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::{TaskPtr, discard};
use crate::error::Cause;

/// A task whose predecessors are complete. A policy holds it, examines it, and hands it out.
/// Dropping it instead is a bug of the policy, which the runtime reports as [`Cause::Lost`].
pub struct ReadyTask(ManuallyDrop<Work>);

/// A submitted task or a task of a replay.
pub(crate) enum Work {
    /// A submitted task.
    Task(TaskPtr),
    /// A task of a recorded graph that is being replayed.
    Replay(ReplayTask),
}

/// A task of a replay that has not completed, or all of them as one. Each ready task has one such
/// value, and completing the task consumes it.
///
/// The run stays alive until all of its tasks have completed, so the pointer is valid while this
/// value exists. References into the run are borrowed from this value.
pub(crate) struct ReplayTask {
    pub(crate) run: NonNull<ReplayRun>,
    /// Position in the graph's arrays; the index after the last stands for all tasks.
    pub(crate) index: u32,
    /// The runtime that it belongs to.
    pub(crate) runtime: u32,
}

/// A replay, as tasks and handles point to it: the engine knows its type.
pub(crate) enum ReplayRun {}

// SAFETY: it stands for one task of a run that other threads may run; a run is Sync.
unsafe impl Send for ReplayTask {}
// SAFETY: what a shared one gives is shared references into the run, which is Sync.
unsafe impl Sync for ReplayTask {}

impl ReadyTask {
    pub(crate) fn new(work: Work) -> Self {
        ReadyTask(ManuallyDrop::new(work))
    }

    pub(crate) fn into_work(self) -> Work {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is forgotten, so the work is taken once and ReadyTask::drop does not run.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }

    pub(crate) fn work(&self) -> &Work {
        &self.0
    }

    pub(crate) fn runtime(&self) -> u32 {
        self.0.runtime()
    }
}

impl Drop for ReadyTask {
    fn drop(&mut self) {
        // SAFETY: the drop of ReadyTask is the last use of the work; `into_work` forgets self
        // instead.
        let work = unsafe { ManuallyDrop::take(&mut self.0) };
        discard(work, Cause::Lost);
    }
}

impl Work {
    /// The runtime that it belongs to.
    pub(crate) fn runtime(&self) -> u32 {
        match self {
            Work::Task(task) => task.header.runtime,
            Work::Replay(task) => task.runtime,
        }
    }
}
