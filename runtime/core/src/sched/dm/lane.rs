//! One worker's queue, and how long it will be busy.
//!
//! The load has two parts. What has not begun counts with its length, which is noted when it is
//! pushed and taken off when it begins: estimates may change meanwhile, the sum is that of the
//! tasks. What runs (one task on a core, several where tasks wait inside one another or a device
//! overlaps them) counts from the moment of the last event, so that a task that takes longer than
//! expected is corrected when it ends.
//!
//! Two locks: pushing threads share the first with the worker, the second is the worker's own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::sched::{ReadyTask, SchedView};

/// How many queued tasks a pop looks at for the one with the fewest missing bytes.
pub(super) const WINDOW: usize = 64;

/// What a task counts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Expected time (ns), at least 1.
    pub(super) length: u64,
    /// No model knows it.
    pub(super) guess: bool,
    /// It was sent to a kind of device so that a model learns of it.
    pub(super) explores: bool,
}

/// A task that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) load: Load,
    /// From its begin to its end (ns), if it began; its share of that where it ran beside others.
    pub(super) time: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Sum of the lengths of what has not begun (ns).
    waiting: AtomicU64,
    /// When what runs will have ended (ns); written under the lock of `hand`.
    free_at: AtomicU64,
    /// Tasks queued; written under the lock of `queue`.
    len: AtomicUsize,
    queue: Mutex<Queue>,
    hand: Mutex<Hand>,
}

/// Tasks by priority (where the queue goes by it; else all have the same), then by age. No list is
/// empty.
#[derive(Debug, Default)]
struct Queue {
    lists: BTreeMap<Reverse<i32>, VecDeque<(ReadyTask, Load)>>,
    /// Room of a list that became empty.
    spare: VecDeque<(ReadyTask, Load)>,
}

impl Queue {
    fn push(&mut self, task: ReadyTask, load: Load, priority: i32) {
        let Queue { lists, spare } = self;
        lists.entry(Reverse(priority)).or_insert_with(|| std::mem::take(spare)).push_back((task, load));
    }
}

/// What the worker has popped and not ended.
#[derive(Debug, Default)]
struct Hand {
    tasks: SmallVec<[InHand; 2]>,
    /// Sum of the lengths of those that have begun (ns).
    running: u64,
    /// How many have begun.
    begun: u64,
    /// What one that began long ago has had of the worker's time by the moment of the last event,
    /// those that have begun sharing it evenly (ns).
    served: u64,
    /// The last event (ns).
    at: u64,
}

impl Hand {
    /// Time passes for those that have begun: several that run in one call, or inside one another,
    /// have their shares of it.
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
    /// What had been served when it began (ns), if it has.
    since: Option<u64>,
}

impl Lane {
    /// When a task pushed now could start (ns): after all that was pushed before.
    pub(super) fn start(&self, now: u64) -> u64 {
        self.free_at.load(Ordering::Relaxed).max(now).saturating_add(self.waiting.load(Ordering::Relaxed))
    }

    /// Queues a task, by its priority or with all others.
    pub(super) fn push(&self, task: ReadyTask, load: Load, by_priority: bool) {
        let mut queue = self.queue.lock();
        let priority = if by_priority { task.priority() } else { 0 };
        queue.push(task, load, priority);
        self.len.store(self.len.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Before anybody can pop it and take its length off again.
        self.waiting.fetch_add(load.length, Ordering::Relaxed);
    }

    /// Puts tasks whose priority has changed where they belong.
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

    /// Takes the first task; `by_data` asks for the one with the fewest bytes missing on `worker`
    /// among those of the first one's priority.
    pub(super) fn pop(&self, view: &SchedView<'_>, worker: usize, by_data: bool) -> Option<ReadyTask> {
        self.pop_if(view, worker, by_data, |_| true)
    }

    /// As [`pop`](Lane::pop), if the task that comes next is like `first`.
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

    /// Takes a task off the first list, the one that `choose` says.
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

    /// A task that was popped begins; it may have waited for its operands.
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

    /// A task that was popped has ended.
    pub(super) fn ended(&self, now: u64, id: u64) -> Option<Ended> {
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
        Some(Ended { load, time: since.map(|since| hand.served - since) })
    }

    fn count_from(&self, now: u64, running: u64) {
        self.free_at.store(now.saturating_add(running), Ordering::Relaxed);
    }
}

/// Which task has the fewest missing bytes; the oldest among equals.
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

/// What the invariants are about, for tests.
#[cfg(test)]
impl Lane {
    /// Waiting, free at.
    pub(super) fn load(&self) -> (u64, u64) {
        (self.waiting.load(Ordering::Relaxed), self.free_at.load(Ordering::Relaxed))
    }

    /// Tasks queued, tasks in hand.
    pub(super) fn counts(&self) -> (usize, usize) {
        let queued = self.queue.lock().lists.values().map(VecDeque::len).sum();
        assert_eq!(queued, self.len.load(Ordering::Relaxed));
        (queued, self.hand.lock().tasks.len())
    }
}
