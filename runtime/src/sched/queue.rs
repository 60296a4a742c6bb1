//! A queue by priority, first come first served among equals.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{self, AtomicUsize};

use parking_lot::Mutex;

use super::ReadyTask;

/// Ready tasks by priority. Tasks of priority 0, the usual case, never touch the heap.
#[derive(Debug, Default)]
pub struct TaskQueue {
    plain: VecDeque<ReadyTask>,
    heap: BinaryHeap<Entry>,
    pushed: u64,
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

impl TaskQueue {
    /// Adds a task.
    pub fn push(&mut self, task: ReadyTask) {
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
        self.pop_heap_if(1, &may)
            .or_else(|| self.plain.iter().position(&may).and_then(|at| self.plain.remove(at)))
            .or_else(|| self.pop_heap_if(i32::MIN, &may))
    }

    /// The same for the part of the heap from this priority on.
    fn pop_heap_if(&mut self, from: i32, may: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        let mut passed = Vec::new();
        let mut found = None;
        while found.is_none() && self.heap.peek().is_some_and(|top| top.priority >= from) {
            match self.heap.pop() {
                Some(entry) if may(&entry.task) => found = Some(entry.task),
                entry => passed.extend(entry),
            }
        }
        self.heap.extend(passed);
        found
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

    /// Takes the first task that `may`.
    pub(super) fn pop_if(&self, may: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        // A push that this load misses wakes a worker afterwards (see exec/README.md), so no task is overlooked.
        if self.len.load(atomic::Ordering::Relaxed) == 0 {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = tasks.pop_if(may);
        self.len.store(tasks.len(), atomic::Ordering::Relaxed);
        task
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
}
