//! One queue by priority.

use parking_lot::Mutex;

use super::kinds::Open;
use super::{Policy, ReadyTask, SchedView, TaskQueue, Wake};

/// One queue for all workers, highest priority first.
#[derive(Debug, Default)]
pub struct Prio {
    queue: Mutex<TaskQueue>,
    open: Open,
}

impl Policy for Prio {
    fn name(&self) -> &str {
        "prio"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let Some(wake) = self.open.wake(view, &task) else {
            return Wake::Any;
        };
        self.queue.lock().push(task);
        wake
    }

    fn sort_again(&self) {
        self.queue.lock().sort_again();
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.open.kinds(view).pop(view, &mut self.queue.lock(), worker)
    }

    fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        let kinds = self.open.kinds(view);
        let mut queue = self.queue.lock();
        let share = self.open.share(view, first, queue.len(), most);
        queue.pop_like(first, share, |task| kinds.can_run(view, task, worker))
    }

    fn pop_newest(
        &self,
        _view: &SchedView<'_>,
        _worker: usize,
        mine: &dyn Fn(&ReadyTask) -> bool,
    ) -> Option<ReadyTask> {
        self.queue.lock().pop_newest(mine)
    }
}
