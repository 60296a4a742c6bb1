//! One worker's queue, and its expected load.
//!
//! The load has two parts. Tasks that have not begun count with their length, which is stored when
//! they are pushed and subtracted when they begin: estimates may change in between, but the sum
//! stays consistent. Running tasks (one on a core, several if tasks wait inside one another or a
//! device overlaps them) count from the time of the last event, so that a task that takes longer
//! than expected is corrected when it ends.
//!
//! There are two locks: pushing threads share the first with the worker, the second is the worker's
//! own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::sched::{ReadyTask, SchedView};

/// Number of queued tasks that a pop searches for the one with the fewest missing bytes.
pub(super) const WINDOW: usize = 64;

/// Contribution of a task to the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Expected time (ns), at least 1.
    pub(super) length: u64,
    /// True if no model knows it.
    pub(super) guess: bool,
    /// True if it was sent to a kind of device so that a model learns from it.
    pub(super) explores: bool,
}

/// A task that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedTask {
    pub(super) load: Load,
    /// Time from its begin to its end (ns), if it began; its share of that if it ran concurrently
    /// with others.
    pub(super) time: Option<u64>,
}

/// The queued and running tasks of one worker, and the load that follows from them.
#[derive(Debug, Default)]
pub(super) struct WorkerQueue {
    /// Sum of the lengths of the tasks that have not begun (ns).
    waiting: AtomicU64,
    /// Expected end of the running tasks (ns); written under the lock of `hand`.
    free_at: AtomicU64,
    /// Number of queued tasks; written under the lock of `queue`.
    len: AtomicUsize,
    queue: Mutex<PriorityQueue>,
    hand: Mutex<Hand>,
}

/// Tasks by priority (if the queue uses it; otherwise all have the same), then by age. No list is
/// empty.
#[derive(Debug, Default)]
struct PriorityQueue {
    lists: BTreeMap<Reverse<i32>, VecDeque<(ReadyTask, Load)>>,
    /// A recycled empty list.
    spare: VecDeque<(ReadyTask, Load)>,
}

impl PriorityQueue {
    fn push(&mut self, task: ReadyTask, load: Load, priority: i32) {
        let PriorityQueue { lists, spare } = self;
        lists.entry(Reverse(priority)).or_insert_with(|| std::mem::take(spare)).push_back((task, load));
    }
}

/// Tasks that the worker has popped and that have not ended.
#[derive(Debug, Default)]
struct Hand {
    tasks: SmallVec<[InHand; 2]>,
    /// Sum of the lengths of those that have begun (ns).
    running: u64,
    /// Number of tasks that have begun.
    begun: u64,
    /// Worker time received, up to the last event, by a task that began long ago; the tasks that
    /// have begun share it evenly (ns).
    served: u64,
    /// Time of the last event (ns).
    at: u64,
}

impl Hand {
    /// Advances the time for the tasks that have begun: tasks that run in one call, or inside one
    /// another, share it.
    fn pass(&mut self, now: u64) {
        if let Some(share) = now.saturating_sub(self.at).checked_div(self.begun) {
            self.served += share;
        }
        self.at = self.at.max(now);
    }
}

#[derive(Debug)]
struct InHand {
    id: u64,
    load: Load,
    /// Value of `served` when it began (ns), if it has.
    since: Option<u64>,
}

impl WorkerQueue {
    /// Returns the time at which a task pushed now could start (ns): after all tasks pushed before.
    pub(super) fn start(&self, now: u64) -> u64 {
        self.free_at.load(Ordering::Relaxed).max(now).saturating_add(self.waiting.load(Ordering::Relaxed))
    }

    /// Queues a task, by its priority or in one common list.
    pub(super) fn push(&self, task: ReadyTask, load: Load, by_priority: bool) {
        let mut queue = self.queue.lock();
        let priority = if by_priority { task.priority() } else { 0 };
        queue.push(task, load, priority);
        self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Before anybody can pop it and subtract its length again.
        self.waiting.fetch_add(load.length, Ordering::Relaxed);
    }

    /// Moves tasks whose priority has changed to their new lists.
    pub(super) fn sort_again(&self) {
        let mut queue = self.queue.lock();
        let is_sorted = |(key, list): (&Reverse<i32>, &VecDeque<(ReadyTask, Load)>)| {
            list.iter().all(|(task, _)| task.priority() == key.0)
        };
        if queue.lists.iter().all(is_sorted) {
            return;
        }
        let lists = std::mem::take(&mut queue.lists);
        let (stay, change): (Vec<_>, Vec<_>) = lists
            .into_iter()
            .flat_map(|(key, list)| list.into_iter().map(move |queued| (key, queued)))
            .partition(|(key, (task, _))| task.priority() == key.0);
        for (_, (task, load)) in stay.into_iter().chain(change) {
            let priority = task.priority();
            queue.push(task, load, priority);
        }
    }

    /// Removes the first task; `by_data` selects the one with the fewest bytes missing on `worker`
    /// among those of the first one's priority.
    pub(super) fn pop(&self, view: &SchedView<'_>, worker: usize, by_data: bool) -> Option<ReadyTask> {
        self.pop_if(view, worker, by_data, |_| true)
    }

    /// Removes a task like [`pop`](WorkerQueue::pop), if the next task is like `first`.
    pub(super) fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        by_data: bool,
        first: &ReadyTask,
    ) -> Option<ReadyTask> {
        self.pop_if(view, worker, by_data, |task| task.is_like(first))
    }

    fn pop_if(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        by_data: bool,
        may: impl FnOnce(&ReadyTask) -> bool,
    ) -> Option<ReadyTask> {
        // A push that this load misses wakes the worker afterwards (see engine/threads/README.md),
        // so no task is overlooked.
        if self.len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let choose = |list: &VecDeque<(ReadyTask, Load)>| {
            let at = if by_data { nearest(view, worker, list) } else { 0 };
            may(&list[at].0).then_some(at)
        };
        let (task, load) = self.take(choose)?;
        self.hand.lock().tasks.push(InHand { id: task.id(), load, since: None });
        Some(task)
    }

    /// Removes the task that `choose` selects from the first list.
    fn take(
        &self,
        choose: impl FnOnce(&VecDeque<(ReadyTask, Load)>) -> Option<usize>,
    ) -> Option<(ReadyTask, Load)> {
        let mut queue = self.queue.lock();
        let mut list = queue.lists.first_entry()?;
        let at = choose(list.get())?;
        let taken = list.get_mut().remove(at)?;
        if list.get().is_empty() {
            queue.spare = list.remove();
        }
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        Some(taken)
    }

    /// Marks a popped task as begun; it may have waited for its operands.
    pub(super) fn began(&self, now: u64, id: u64) {
        let mut hand = self.hand.lock();
        hand.pass(now);
        let Hand { tasks, running, begun, served, .. } = &mut *hand;
        if let Some(task) = tasks.iter_mut().rfind(|task| task.id == id) {
            if task.since.replace(*served).is_none() {
                self.waiting.fetch_sub(task.load.length, Ordering::Relaxed);
                *running += task.load.length;
                *begun += 1;
            }
            self.count_from(now, *running);
        }
    }

    /// Removes a popped task that has ended.
    pub(super) fn ended(&self, now: u64, id: u64) -> Option<EndedTask> {
        let mut hand = self.hand.lock();
        // From the end: of tasks that wait inside one another, the innermost ends first.
        let at = hand.tasks.iter().rposition(|task| task.id == id)?;
        hand.pass(now);
        let InHand { load, since, .. } = hand.tasks.remove(at);
        match since {
            Some(_) => {
                hand.running -= load.length;
                hand.begun -= 1;
            }
            None => drop(self.waiting.fetch_sub(load.length, Ordering::Relaxed)),
        }
        self.count_from(now, hand.running);
        Some(EndedTask { load, time: since.map(|since| hand.served - since) })
    }

    fn count_from(&self, now: u64, running: u64) {
        self.free_at.store(now.saturating_add(running), Ordering::Relaxed);
    }
}

/// Returns the index of the task with the fewest missing bytes; the oldest among equals.
fn nearest(view: &SchedView<'_>, worker: usize, list: &VecDeque<(ReadyTask, Load)>) -> usize {
    let mut best = (0, u64::MAX);
    for (at, (task, _)) in list.iter().take(WINDOW).enumerate() {
        let missing = view.missing_bytes(task, worker);
        if missing < best.1 {
            best = (at, missing);
        }
        if missing == 0 {
            break;
        }
    }
    best.0
}

/// Quantities of the invariants, for tests.
#[cfg(test)]
impl WorkerQueue {
    /// Returns `waiting` and `free_at`.
    pub(super) fn load(&self) -> (u64, u64) {
        (self.waiting.load(Ordering::Relaxed), self.free_at.load(Ordering::Relaxed))
    }

    /// Returns the numbers of queued and of popped tasks.
    pub(super) fn counts(&self) -> (usize, usize) {
        let queued = self.queue.lock().lists.values().map(VecDeque::len).sum();
        assert_eq!(queued, self.len.load(Ordering::Relaxed));
        (queued, self.hand.lock().tasks.len())
    }
}
