//! A queue by priority, first come, first served among equals.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{self, AtomicI64};

use parking_lot::Mutex;

use super::ReadyTask;

/// Number of last tasks that are searched for the newest one of a kind.
const LOOKED_AT: usize = 32;

/// Ready tasks by priority.
#[derive(Debug, Default)]
pub struct TaskQueue {
    /// Tasks of priority 0, the usual case.
    plain: VecDeque<ReadyTask>,
    /// Tasks of other priorities, and their number. No list is empty.
    others: BTreeMap<i32, VecDeque<ReadyTask>>,
    others_len: usize,
    /// A recycled empty list, for the next priority.
    spare: VecDeque<ReadyTask>,
    /// Number of tasks that are restricted to some workers.
    restricted: usize,
}

/// Verdict of a search on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    /// Leave it in its place; others may be taken.
    Pass,
    /// Stop the search without a task.
    Stop,
}

/// Makes a verdict that takes a task if it is the first that satisfies `may` and is like `first`.
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
        let priority = task.priority();
        if priority == 0 {
            return self.push_unsorted(task);
        }
        self.restricted += usize::from(task.is_restricted());
        let spare = &mut self.spare;
        self.others.entry(priority).or_insert_with(|| std::mem::take(spare)).push_back(task);
        self.others_len += 1;
    }

    /// Adds a task as one of priority 0.
    pub(super) fn push_unsorted(&mut self, task: ReadyTask) {
        self.restricted += usize::from(task.is_restricted());
        self.plain.push_back(task);
    }

    /// Removes the task of highest priority; the oldest among equals.
    pub fn pop(&mut self) -> Option<ReadyTask> {
        let task = match self.others.last_entry() {
            Some(mut list) if *list.key() > 0 || self.plain.is_empty() => {
                let task = list.get_mut().pop_front();
                if list.get().is_empty() {
                    self.spare = list.remove();
                }
                self.others_len -= 1;
                task
            }
            _ => self.plain.pop_front(),
        }?;
        if self.restricted > 0 {
            self.restricted -= usize::from(task.is_restricted());
        }
        Some(task)
    }

    /// Adds a task and removes the first, which may be the same.
    fn exchange(&mut self, task: ReadyTask) -> ReadyTask {
        match self.priority() {
            Some(first) if first >= task.priority() => {
                let first = self.take(first, 0);
                self.push(task);
                first
            }
            _ => task,
        }
    }

    /// Removes a task like [`pop`](TaskQueue::pop), among those that satisfy `may`; the others keep
    /// their positions.
    pub(super) fn pop_if(&mut self, may: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        self.pop_by(|task| if may(task) { Verdict::Take } else { Verdict::Pass })
    }

    /// Works like `pop_if` if every worker may run all unrestricted tasks: no other task is
    /// inspected, since one that another thread has just made is cold memory, and other threads
    /// wait for the queue meanwhile.
    pub(super) fn pop_restricted_if(&mut self, may: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        if self.restricted == 0 { self.pop() } else { self.pop_if(may) }
    }

    /// Removes up to `most` tasks, for as long as the first that satisfies `may` is like `first`.
    pub(super) fn pop_like(
        &mut self,
        first: &ReadyTask,
        most: usize,
        may: impl Fn(&ReadyTask) -> bool,
    ) -> Vec<ReadyTask> {
        std::iter::from_fn(|| self.pop_by(like(first, &may))).take(most).collect()
    }

    /// Removes the first task with the verdict `Take`, unless the search is stopped before.
    pub(super) fn pop_by(&mut self, verdict: impl Fn(&ReadyTask) -> Verdict) -> Option<ReadyTask> {
        let met = self.tasks().map(|(priority, at, task)| (priority, at, verdict(task)));
        let first = { met }.find(|(_, _, met)| *met != Verdict::Pass);
        match first? {
            (priority, at, Verdict::Take) => Some(self.take(priority, at)),
            _ => None,
        }
    }

    /// Returns all tasks in order, each with its priority and its position within that priority.
    fn tasks(&self) -> impl Iterator<Item = (i32, usize, &ReadyTask)> {
        let others = |range| self.others.range::<i32, (Bound<i32>, Bound<i32>)>(range).rev();
        let urgent = others((Bound::Excluded(0), Bound::Unbounded));
        let patient = others((Bound::Unbounded, Bound::Excluded(0)));
        let lists = urgent.chain(std::iter::once((&0, &self.plain))).chain(patient);
        lists
            .flat_map(|(&priority, list)| list.iter().enumerate().map(move |(at, task)| (priority, at, task)))
    }

    /// Removes the task at position `at` of a priority.
    fn take(&mut self, priority: i32, at: usize) -> ReadyTask {
        let task = if priority == 0 {
            take_at(&mut self.plain, at)
        } else {
            let Entry::Occupied(mut list) = self.others.entry(priority) else {
                unreachable!("a task of this priority has been found")
            };
            let task = take_at(list.get_mut(), at);
            if list.get().is_empty() {
                self.spare = list.remove();
            }
            self.others_len -= 1;
            task
        };
        if self.restricted > 0 {
            self.restricted -= usize::from(task.is_restricted());
        }
        task
    }

    /// Removes the newest task that satisfies `mine`, if it is among the last few: of priority 0,
    /// else of the highest ones.
    pub(super) fn pop_newest(&mut self, mine: impl Fn(&ReadyTask) -> bool) -> Option<ReadyTask> {
        let newest = |list: &VecDeque<ReadyTask>, looks: usize| {
            let last = list.len();
            (last.saturating_sub(looks)..last).rev().find(|&at| mine(&list[at]))
        };
        if let Some(at) = newest(&self.plain, LOOKED_AT) {
            return Some(self.take(0, at));
        }
        let mut looks = LOOKED_AT;
        for (&priority, list) in self.others.iter().rev() {
            if let Some(at) = newest(list, looks) {
                return Some(self.take(priority, at));
            }
            looks = looks.saturating_sub(list.len());
            if looks == 0 {
                break;
            }
        }
        None
    }

    /// Moves tasks whose priority has changed to their new lists, after the existing ones.
    pub fn sort_again(&mut self) {
        if self.tasks().all(|(priority, _, task)| task.priority() == priority) {
            return;
        }
        let TaskQueue { plain, others, .. } = std::mem::take(self);
        let lists = others.into_iter().rev().chain(std::iter::once((0, plain)));
        let (stay, change): (Vec<_>, Vec<_>) = lists
            .flat_map(|(priority, list)| list.into_iter().map(move |task| (priority, task)))
            .partition(|(priority, task)| task.priority() == *priority);
        stay.into_iter().chain(change).for_each(|(_, task)| self.push(task));
    }

    /// Returns the priority of the next task.
    pub(super) fn priority(&self) -> Option<i32> {
        let plain = (!self.plain.is_empty()).then_some(0);
        self.others.last_key_value().map(|(&priority, _)| priority).max(plain)
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.plain.len() + self.others_len
    }

    /// Returns true if there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Removes a task that is known to be there.
fn take_at(list: &mut VecDeque<ReadyTask>, at: usize) -> ReadyTask {
    let task = if at == 0 { list.pop_front() } else { list.remove(at) };
    task.expect("a task has been found here")
}

/// A queue that several threads use.
#[derive(Debug)]
pub(super) struct SharedQueue {
    /// Priority of the first task, which lets other threads skip the lock if there is no task for
    /// them. Written under the lock.
    first: AtomicI64,
    tasks: Mutex<TaskQueue>,
}

/// Less than any priority: the queue is empty.
const EMPTY: i64 = i64::MIN;

impl Default for SharedQueue {
    fn default() -> Self {
        SharedQueue { first: AtomicI64::new(EMPTY), tasks: Mutex::default() }
    }
}

impl SharedQueue {
    pub(super) fn push(&self, task: ReadyTask) {
        let mut tasks = self.tasks.lock();
        tasks.push(task);
        self.has_changed(&tasks);
    }

    fn has_changed(&self, tasks: &TaskQueue) {
        self.first.store(tasks.priority().map_or(EMPTY, i64::from), atomic::Ordering::Relaxed);
    }

    pub(super) fn sort_again(&self) {
        let mut tasks = self.tasks.lock();
        tasks.sort_again();
        self.has_changed(&tasks);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.load(atomic::Ordering::Relaxed) == EMPTY
    }

    /// Adds a task and removes the first, which may be the same task without queueing it. Returns
    /// the task as an error if some queued tasks are restricted to some workers.
    #[inline]
    pub(super) fn exchange(&self, task: ReadyTask) -> Result<ReadyTask, ReadyTask> {
        let priority = task.priority();
        if self.first.load(atomic::Ordering::Relaxed) < i64::from(priority) {
            return Ok(task);
        }
        let mut tasks = self.tasks.lock();
        if tasks.restricted > 0 {
            return Err(task);
        }
        if priority == 0 && tasks.others.is_empty() {
            // The first priority stays 0.
            let Some(first) = tasks.plain.pop_front() else { return Ok(task) };
            tasks.plain.push_back(task);
            return Ok(first);
        }
        let first = tasks.exchange(task);
        self.has_changed(&tasks);
        Ok(first)
    }

    /// Removes the task that `take` selects from the queue.
    pub(super) fn pop_by(&self, take: impl FnOnce(&mut TaskQueue) -> Option<ReadyTask>) -> Option<ReadyTask> {
        // A push that this load misses wakes a worker afterwards (see engine/threads/README.md), so
        // no task is overlooked.
        if self.is_empty() {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = take(&mut tasks);
        self.has_changed(&tasks);
        task
    }

    /// Removes tasks for as long as the first that satisfies `may` is like `first`; `most` returns
    /// their maximum number for a given length of the queue.
    pub(super) fn pop_like(
        &self,
        first: &ReadyTask,
        most: impl Fn(usize) -> usize,
        may: impl Fn(&ReadyTask) -> bool,
    ) -> Vec<ReadyTask> {
        let mut tasks = self.tasks.lock();
        let most = most(tasks.len());
        let taken = tasks.pop_like(first, most, may);
        self.has_changed(&tasks);
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
