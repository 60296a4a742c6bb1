//! One queue by priority.

use parking_lot::Mutex;

use super::{Policy, ReadyTask, SchedView, TaskQueue, Wake};

/// One queue for all workers, highest priority first.
#[derive(Debug, Default)]
pub struct Prio {
    queue: Mutex<TaskQueue>,
}

impl Policy for Prio {
    fn name(&self) -> &str {
        "prio"
    }

    fn push(&self, _view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        self.queue.lock().push(task);
        Wake::Any
    }

    fn pop(&self, _view: &SchedView<'_>, _worker: usize) -> Option<ReadyTask> {
        self.queue.lock().pop()
    }
}
