//! One queue, first come first served.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::{Policy, ReadyTask, SchedView, Wake};

/// One queue for all workers, first come first served; priorities are ignored.
#[derive(Debug, Default)]
pub struct Eager {
    queue: Mutex<VecDeque<ReadyTask>>,
}

impl Policy for Eager {
    fn name(&self) -> &str {
        "eager"
    }

    fn push(&self, _view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        self.queue.lock().push_back(task);
        Wake::Any
    }

    fn pop(&self, _view: &SchedView<'_>, _worker: usize) -> Option<ReadyTask> {
        self.queue.lock().pop_front()
    }
}
