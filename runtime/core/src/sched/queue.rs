//! A queue by priority, first come first served among equals.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{self, AtomicUsize};

use parking_lot::Mutex;

use super::ReadyTask;

/// So many of the last tasks are looked at for the newest one of a kind.
pub(super) const LOOKED_AT: usize = 32;

/// Ready tasks by priority. Tasks of priority 0, the usual case, never touch the heap.
#[derive(Debug, Default)]
pub struct TaskQueue {
    plain: VecDeque<ReadyTask>,
    heap: BinaryHeap<Entry>,
    pushed: u64,
    /// How many of them not every worker may run.
    restricted: usize,
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    age: u64,
    task: ReadyTask,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.cmp(&other.priority).then(other.age.cmp(&self.age))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// What a search does with a task that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    /// It stays where it is; others may be taken.
    Pass,
    /// Nothing is taken.
    Stop,
}

/// Takes a task if it is the first that `may` and is like `first`.
pub(super) fn like<'a>(
    first: &'a ReadyTask,
    may: impl Fn(&ReadyTask) -> bool + 'a,
) -> impl Fn(&ReadyTask) -> Verdict + 'a {
    move |task| match may(task) {
        false => Verdict::Pass,
        true if task.is_like(first) => Verdict::Take,
        true => Verdict::Stop,
    }
}

impl TaskQueue {
    /// Adds a task.
    pub fn push(&mut self, task: ReadyTask) {
        self.restricted += usize::from(task.is_restricted());
        match task.priority() {
            0 => self.plain.push_back(task),
            priority => {
                self.pushed += 1;
                self.heap.push(Entry { priority, age: self.pushed, task });
            }
        }
    }

    /// Takes the task of highest priority; the oldest among equals.
    pub fn pop(&mut self) -> Option<ReadyTask> {
        self.pop_if(|_| true)
    }

    /// As [`pop`](TaskQueue::pop), among the tasks that `may`; the others keep their places.
    pub(super) fn pop_if(&mut self, may: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        self.pop_by(|task| if may(task) { Verdict::Take } else { Verdict::Pass })
    }

    /// The same where every worker may run whatever is not restricted: no other task is looked at, since one that another thread has just
    /// made is cold memory, and others wait for the queue meanwhile.
    pub(super) fn pop_restricted_if(&mut self, may: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        if self.restricted == 0 { self.pop() } else { self.pop_if(may) }
    }

    /// Takes tasks, at most `most`, as long as the first that `may` is like `first`.
    pub(super) fn pop_like(
        &mut self,
        first: &ReadyTask,
        most: usize,
        may: impl Fn(&ReadyTask) -> bool,
    ) -> Vec<ReadyTask> {
        std::iter::from_fn(|| self.pop_by(like(first, &may))).take(most).collect()
    }

    /// Takes the first task that is to be taken, unless the search is stopped before.
    pub(super) fn pop_by(&mut self, verdict: impl Fn(&ReadyTask) -> Verdict) -> Option<ReadyTask> {
        let found = match self.search(&verdict) {
            ControlFlow::Break(found) => found?,
            ControlFlow::Continue(()) => return None,
        };
        if self.restricted > 0 {
            self.restricted -= usize::from(found.is_restricted());
        }
        Some(found)
    }

    /// Breaks off with what is to be taken, or with nothing where the search was stopped.
    fn search(&mut self, verdict: &impl Fn(&ReadyTask) -> Verdict) -> ControlFlow<Option<ReadyTask>> {
        if !self.heap.is_empty() {
            self.search_heap(1, verdict)?;
        }
        let met = self.plain.iter().map(verdict).enumerate().find(|(_, met)| *met != Verdict::Pass);
        match met {
            Some((0, Verdict::Take)) => ControlFlow::Break(self.plain.pop_front()),
            Some((at, Verdict::Take)) => ControlFlow::Break(self.plain.remove(at)),
            Some(_) => ControlFlow::Break(None),
            None if self.heap.is_empty() => ControlFlow::Continue(()),
            None => self.search_heap(i32::MIN, verdict),
        }
    }

    /// The same for the part of the heap from this priority on.
    fn search_heap(
        &mut self,
        from: i32,
        verdict: &impl Fn(&ReadyTask) -> Verdict,
    ) -> ControlFlow<Option<ReadyTask>> {
        let mut passed = Vec::new();
        let mut ended = ControlFlow::Continue(());
        while ended.is_continue() && self.heap.peek().is_some_and(|top| top.priority >= from) {
            let Some(entry) = self.heap.pop() else { break };
            match verdict(&entry.task) {
                Verdict::Take => ended = ControlFlow::Break(Some(entry.task)),
                Verdict::Pass => passed.push(entry),
                Verdict::Stop => {
                    passed.push(entry);
                    ended = ControlFlow::Break(None);
                }
            }
        }
        if !passed.is_empty() {
            self.heap.extend(passed);
        }
        ended
    }

    /// Takes the newest task that is `mine`, where that is one of the last few.
    pub(super) fn pop_newest(&mut self, mine: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        let last = self.plain.len();
        let at = (last.saturating_sub(LOOKED_AT)..last).rev().find(|&at| mine(&self.plain[at]));
        if let Some(at) = at {
            return self.plain.remove(at);
        }
        if self.heap.is_empty() || self.heap.len() > LOOKED_AT {
            return None;
        }
        let newest = self.heap.iter().filter(|entry| mine(&entry.task)).map(|entry| entry.age).max()?;
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        let at = entries.iter().position(|entry| entry.age == newest)?;
        let found = entries.swap_remove(at);
        self.heap = entries.into();
        Some(found.task)
    }

    /// The priority of the task that comes next.
    pub(super) fn priority(&self) -> Option<i32> {
        let plain = (!self.plain.is_empty()).then_some(0);
        self.heap.peek().map(|top| top.priority).max(plain)
    }

    /// How many tasks wait.
    pub fn len(&self) -> usize {
        self.plain.len() + self.heap.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A queue that several threads use.
#[derive(Debug, Default)]
pub(super) struct SharedQueue {
    /// Length, so that nobody need lock an empty queue. Written under the lock.
    len: AtomicUsize,
    tasks: Mutex<TaskQueue>,
}

impl SharedQueue {
    pub(super) fn push(&self, task: ReadyTask) {
        let mut tasks = self.tasks.lock();
        tasks.push(task);
        self.len.store(tasks.len(), atomic::Ordering::Relaxed);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len.load(atomic::Ordering::Relaxed) == 0
    }

    /// Takes the first task that `take` takes out of the queue.
    pub(super) fn pop_by(&self, take: impl FnOnce(&mut TaskQueue) -> Option<ReadyTask>) -> Option<ReadyTask> {
        // A push that this load misses wakes a worker afterwards (see engine/threads/README.md), so no task is overlooked.
        if self.is_empty() {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = take(&mut tasks);
        self.len.store(tasks.len(), atomic::Ordering::Relaxed);
        task
    }

    /// Takes tasks as long as the first that `may` is like `first`; `most` says how many at most of so many.
    pub(super) fn pop_like(
        &self,
        first: &ReadyTask,
        most: impl Fn(usize) -> usize,
        may: impl Fn(&ReadyTask) -> bool,
    ) -> Vec<ReadyTask> {
        let mut tasks = self.tasks.lock();
        let most = most(tasks.len());
        let taken = tasks.pop_like(first, most, may);
        self.len.store(tasks.len(), atomic::Ordering::Relaxed);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::mock::{done, task};

    fn queue(priorities: &[i32]) -> TaskQueue {
        let mut queue = TaskQueue::default();
        for (id, &priority) in priorities.iter().enumerate() {
            queue.push(task(id as u64, "t", priority));
        }
        queue
    }

    fn drain(queue: &mut TaskQueue, may: impl Fn(&ReadyTask) -> bool + Copy) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop_if(may).map(done)).collect()
    }

    #[test]
    fn by_priority_then_by_age() {
        let mut queue = queue(&[0, -1, 2, 0, 2, 1, -1]);
        assert_eq!(queue.priority(), Some(2));
        assert_eq!(drain(&mut queue, |_| true), [2, 4, 5, 0, 3, 1, 6]);
        assert_eq!(queue.priority(), None);
    }

    #[test]
    fn those_that_may_not_keep_their_places() {
        let mut queue = queue(&[0, -1, 2, 0, 2, 1, -1]);
        assert_eq!(drain(&mut queue, |task| task.id() % 2 == 1), [5, 3, 1]);
        assert_eq!(queue.len(), 4);
        assert_eq!(drain(&mut queue, |_| true), [2, 4, 0, 6]);
    }

    #[test]
    fn what_is_alike_is_taken_as_long_as_it_comes_first() {
        let mut queue = TaskQueue::default();
        let pushed = [("a", 0), ("b", 2), ("a", 2), ("a", -1), ("a", 0), ("b", 0), ("a", 0)];
        for (id, (codelet, priority)) in pushed.into_iter().enumerate() {
            queue.push(task(id as u64, codelet, priority));
        }
        let (a, b) = (task(10, "a", 0), task(11, "b", 0));
        let mut take = |first: &ReadyTask, most, may: fn(&ReadyTask) -> bool| -> Vec<u64> {
            queue.pop_like(first, most, may).into_iter().map(done).collect()
        };
        assert_eq!(take(&a, 9, |_| true), [0u64; 0], "b comes first");
        assert_eq!(take(&a, 0, |task| task.codelet() == "a"), [0u64; 0]);
        assert_eq!(take(&a, 2, |task| task.codelet() == "a"), [2, 0]);
        assert_eq!(take(&b, 9, |_| true), [1]);
        assert_eq!(take(&a, 9, |_| true), [4]);
        assert_eq!(take(&a, 9, |task| task.id() != 5), [6, 3]);
        assert_eq!(drain(&mut queue, |_| true), [5]);
        assert_eq!([a, b].map(done), [10, 11]);
    }
}
