//! One queue, first come first served.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::kinds::Open;
use super::queue::LOOKED_AT;
use super::{Policy, ReadyTask, SchedView, Wake};

/// One queue for all workers, first come first served; priorities are ignored.
#[derive(Debug, Default)]
pub struct Eager {
    queue: Mutex<VecDeque<ReadyTask>>,
    open: Open,
}

impl Policy for Eager {
    fn name(&self) -> &str {
        "eager"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let Some(wake) = self.open.wake(view, &task) else {
            return Wake::Any;
        };
        self.queue.lock().push_back(task);
        wake
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        let kinds = self.open.kinds(view);
        let mut queue = self.queue.lock();
        let at = queue.iter().position(|task| kinds.can_run(view, task, worker))?;
        queue.remove(at)
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
        let next = || {
            let at = queue.iter().position(|task| kinds.can_run(view, task, worker))?;
            if queue[at].is_like(first) { queue.remove(at) } else { None }
        };
        std::iter::from_fn(next).take(share).collect()
    }

    fn pop_newest(
        &self,
        _view: &SchedView<'_>,
        _worker: usize,
        mine: &dyn Fn(&ReadyTask) -> bool,
    ) -> Option<ReadyTask> {
        let mut queue = self.queue.lock();
        let last = queue.len();
        let at = (last.saturating_sub(LOOKED_AT)..last).rev().find(|&at| mine(&queue[at]))?;
        queue.remove(at)
    }
}
