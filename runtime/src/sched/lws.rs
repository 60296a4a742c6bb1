//! Locality work stealing.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::{Policy, ReadyTask, SchedView, TaskQueue, Wake};

/// A queue per worker, by priority. A task goes to the worker whose task released it, since its operands are in that
/// worker's cache; a worker without tasks steals from its nearest neighbour that has some.
#[derive(Debug)]
pub struct Lws {
    queues: Vec<CachePadded<Queue>>,
    next: CachePadded<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Queue {
    /// Length, so that thieves need not lock an empty queue. Written under the lock.
    len: AtomicUsize,
    tasks: Mutex<TaskQueue>,
}

impl Queue {
    fn push(&self, task: ReadyTask) {
        let mut tasks = self.tasks.lock();
        tasks.push(task);
        self.len.store(tasks.len(), Ordering::Relaxed);
    }

    fn pop(&self) -> Option<ReadyTask> {
        // A push that this load misses wakes a worker afterwards (see exec/README.md), so no task is overlooked.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = tasks.pop();
        self.len.store(tasks.len(), Ordering::Relaxed);
        task
    }
}

impl Lws {
    /// The policy for `workers` workers.
    pub fn new(workers: usize) -> Self {
        let queues = (0..workers).map(|_| CachePadded::default()).collect();
        Lws { queues, next: CachePadded::default() }
    }
}

impl Policy for Lws {
    fn name(&self) -> &str {
        "lws"
    }

    fn push(&self, _view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
        let worker = from.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len());
        self.queues[worker].push(task);
        Wake::Any
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.queues[worker]
            .pop()
            .or_else(|| view.neighbours(worker).iter().find_map(|&victim| self.queues[victim].pop()))
    }
}
