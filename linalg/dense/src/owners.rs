//! A static owner for every tile.

use std::sync::{Mutex, PoisonError};

use zellige_runtime::TaskInfo;
use zellige_runtime::sched::{Policy, ReadyTask, SchedView, TaskQueue, Wake};

/// Scheduling policy that runs each task on the worker that owns the tile it writes.
///
/// Tile `(i, j)` belongs to worker `(I mod p) q + (J mod q)`, with `I = i / b` and `J = j / b`:
/// two-dimensional block cyclic on a grid of `p x q` workers, in blocks of `b x b` tiles (1 unless
/// [`Owners::blocks`] sets another size). `p` is the largest divisor of the number of workers up to
/// its root.
///
/// Data movement is then decided by the algorithm and the machine, not by the schedule; the policy
/// exists to compare it. If the owner cannot run a task, the next worker that can gets it; tasks
/// without coordinates go to worker 0.
///
/// Larger blocks keep neighbours together: a rule that keeps float32 near the diagonal then needs
/// it on the devices that own blocks on the diagonal and on no others.
#[derive(Debug)]
pub struct Owners {
    rows: usize,
    cols: usize,
    block: usize,
    queues: Vec<Mutex<TaskQueue>>,
}

impl Owners {
    /// Creates the policy for `workers` workers, at least one.
    pub fn new(workers: usize) -> Self {
        let workers = workers.max(1);
        let rows =
            (1..=workers).filter(|p| p * p <= workers && workers.is_multiple_of(*p)).max().unwrap_or(1);
        let queues = (0..workers).map(|_| Mutex::default()).collect();
        Owners { rows, cols: workers / rows, block: 1, queues }
    }

    /// Sets the size of blocks to `tiles x tiles`, at least one.
    pub fn blocks(mut self, tiles: usize) -> Self {
        self.block = tiles.max(1);
        self
    }

    /// Returns the worker that owns a tile.
    pub fn owner(&self, i: usize, j: usize) -> usize {
        (i / self.block % self.rows) * self.cols + j / self.block % self.cols
    }
}

impl Policy for Owners {
    fn name(&self) -> &str {
        "owners"
    }

    fn home(&self, _view: &SchedView<'_>, _codelet: &str, info: &TaskInfo) -> Option<usize> {
        Some(info.coords.map_or(0, |[i, j, _]| self.owner(i as usize, j as usize)))
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let owner = self.home(view, task.codelet(), task.info()).unwrap_or(0);
        let count = self.queues.len();
        let able = (0..count).map(|step| (owner + step) % count).find(|&w| view.can_run(&task, w));
        // A task that no worker can run is dropped, as the trait requires.
        let Some(worker) = able else { return Wake::Any };
        view.prefetch(&task, worker);
        self.queues[worker].lock().unwrap_or_else(PoisonError::into_inner).push(task);
        Wake::Worker(worker)
    }

    fn sort_again(&self) {
        for queue in &self.queues {
            queue.lock().unwrap_or_else(PoisonError::into_inner).sort_again();
        }
    }

    fn pop(&self, _view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.queues[worker].lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_stand_in_a_grid() {
        for (workers, rows) in
            [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (7, 1), (8, 2), (9, 3), (12, 3)]
        {
            let owners = Owners::new(workers);
            assert_eq!(owners.rows, rows, "{workers}");
            assert_eq!(owners.rows * owners.cols, workers.max(1));
            let mut tiles = vec![0; workers.max(1)];
            (0..36)
                .flat_map(|i| (0..84).map(move |j| (i, j)))
                .for_each(|(i, j)| tiles[owners.owner(i, j)] += 1);
            assert!(tiles.iter().all(|&count| count == 36 * 84 / tiles.len()), "{workers}: {tiles:?}");
        }
        let four = Owners::new(4);
        assert_eq!(
            [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (5, 3)].map(|(i, j)| four.owner(i, j)),
            [0, 1, 2, 3, 0, 3]
        );
        let blocks = Owners::new(4).blocks(4);
        assert_eq!(
            [(0, 0), (3, 3), (3, 4), (4, 3), (7, 7), (8, 8), (11, 4)].map(|(i, j)| blocks.owner(i, j)),
            [0, 0, 1, 2, 3, 0, 1]
        );
    }
}
