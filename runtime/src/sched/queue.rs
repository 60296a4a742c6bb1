//! A queue by priority, first come first served among equals.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

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
        match self.heap.peek() {
            Some(top) if top.priority > 0 || self.plain.is_empty() => self.heap.pop().map(|entry| entry.task),
            _ => self.plain.pop_front(),
        }
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
