//! One queue for all workers.

use parking_lot::Mutex;

use super::kinds::SharedQueueKinds;
use super::{Policy, ReadyTask, SchedView, TaskQueue, Wake};

/// One queue for all workers: the policies `prio` and `eager`.
#[derive(Debug)]
pub struct CentralQueue {
    queue: Mutex<TaskQueue>,
    open: SharedQueueKinds,
    by_priority: bool,
}

impl CentralQueue {
    /// Creates the policy `prio`: highest priority first.
    pub fn by_priority() -> Self {
        CentralQueue { queue: Mutex::default(), open: SharedQueueKinds::default(), by_priority: true }
    }

    /// Creates the policy `eager`: first come, first served; priorities are ignored.
    pub fn first_come() -> Self {
        CentralQueue { by_priority: false, ..CentralQueue::by_priority() }
    }
}

impl Policy for CentralQueue {
    fn name(&self) -> &str {
        if self.by_priority { "prio" } else { "eager" }
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let Some(wake) = self.open.wake(view, &task) else {
            return Wake::Any;
        };
        let mut queue = self.queue.lock();
        if self.by_priority {
            queue.push(task)
        } else {
            queue.push_unsorted(task)
        }
        wake
    }

    fn sort_again(&self) {
        if self.by_priority {
            self.queue.lock().sort_again();
        }
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
