//! The bounded, lock-free recorder.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;

use super::{TaskEvent, Trace};

/// Records per worker when the user does not say.
pub(crate) const DEFAULT_CAPACITY: usize = 1 << 17;

/// One bounded queue per worker for tasks, one for dependencies; what does not fit is counted.
pub(crate) struct Recorder {
    tasks: Vec<CachePadded<ArrayQueue<TaskEvent>>>,
    edges: ArrayQueue<(u64, u64)>,
    lost: AtomicU64,
    ready: CachePadded<AtomicI64>,
}

impl Recorder {
    /// Room for `capacity` tasks per worker, and four dependencies for each.
    pub(crate) fn new(workers: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Recorder {
            tasks: (0..workers).map(|_| CachePadded::new(ArrayQueue::new(capacity))).collect(),
            edges: ArrayQueue::new(capacity.saturating_mul(4 * workers.max(1))),
            lost: AtomicU64::new(0),
            ready: CachePadded::default(),
        }
    }

    pub(crate) fn task(&self, event: TaskEvent) {
        if self.tasks[event.worker as usize].push(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn edge(&self, from: u64, to: u64) {
        if self.edges.push((from, to)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn task_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn task_taken(&self) {
        self.ready.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn ready_now(&self) -> u32 {
        self.ready.load(Ordering::Relaxed).clamp(0, i64::from(u32::MAX)) as u32
    }

    /// Takes out what has been recorded so far.
    pub(crate) fn drain(&self, workers: Vec<String>, policy: String) -> Trace {
        let mut tasks: Vec<TaskEvent> =
            self.tasks.iter().flat_map(|queue| std::iter::from_fn(|| queue.pop())).collect();
        tasks.sort_by_key(|task| (task.start_ns, task.id));
        let edges = std::iter::from_fn(|| self.edges.pop()).collect();
        Trace { workers, policy, tasks, edges, lost: self.lost.swap(0, Ordering::Relaxed) }
    }
}
