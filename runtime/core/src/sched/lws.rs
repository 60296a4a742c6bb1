//! Locality work stealing.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::kinds::SharedQueueKinds;
use super::queue::SharedQueue;
use super::{Policy, ReadyTask, SchedView, Wake};

/// A queue per worker, by priority. A task goes to the worker whose task released it, since its
/// operands are in that worker's cache; a worker without tasks steals from its nearest neighbour
/// that has some.
#[derive(Debug)]
pub struct Lws {
    queues: Vec<CachePadded<SharedQueue>>,
    next: CachePadded<AtomicUsize>,
    open: SharedQueueKinds,
}

impl Lws {
    /// Creates the policy for `workers` workers.
    pub fn new(workers: usize) -> Self {
        let queues = (0..workers).map(|_| CachePadded::default()).collect();
        Lws { queues, next: CachePadded::default(), open: SharedQueueKinds::default() }
    }

    /// Returns the queue for a task that no worker has released.
    fn next_queue(&self) -> usize {
        match self.queues.len() {
            1 => 0,
            queues => self.next.fetch_add(1, Ordering::Relaxed) % queues,
        }
    }
}

impl Policy for Lws {
    fn name(&self) -> &str {
        "lws"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
        let kinds = self.open.kinds(view);
        let (worker, wake) = if kinds.are_alike() && !task.is_restricted() {
            (from, Wake::Any)
        } else {
            let Some(wake) = self.open.wake(view, &task) else { return Wake::Any };
            let able = if let Wake::Worker(able) = wake { Some(able) } else { None };
            (from.filter(|&from| kinds.can_run(view, &task, from)).or(able), wake)
        };
        self.queues[worker.unwrap_or_else(|| self.next_queue())].push(task);
        wake
    }

    fn sort_again(&self) {
        self.queues.iter().for_each(|queue| queue.sort_again());
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        let kinds = self.open.kinds(view);
        let pop = |queue: usize| self.queues[queue].pop_by(|tasks| kinds.pop(view, tasks, worker));
        pop(worker).or_else(|| view.neighbours(worker).find_map(pop))
    }

    fn exchange(&self, view: &SchedView<'_>, worker: usize, task: ReadyTask) -> Result<ReadyTask, ReadyTask> {
        if self.open.kinds(view).are_alike() { self.queues[worker].exchange(task) } else { Err(task) }
    }

    fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        let kinds = self.open.kinds(view);
        let may = |task: &ReadyTask| kinds.can_run(view, task, worker);
        let share = |queued| self.open.share(view, first, queued, most);
        // From one queue only, so that a thief does not collect the tasks of several workers.
        let queue = std::iter::once(worker)
            .chain(view.neighbours(worker))
            .map(|queue| &self.queues[queue])
            .find(|queue| !queue.is_empty());
        queue.map_or_else(Vec::new, |queue| queue.pop_like(first, share, may))
    }

    fn pop_newest(
        &self,
        _view: &SchedView<'_>,
        worker: usize,
        mine: &dyn Fn(&ReadyTask) -> bool,
    ) -> Option<ReadyTask> {
        self.queues[worker].pop_by(|tasks| tasks.pop_newest(mine))
    }
}
