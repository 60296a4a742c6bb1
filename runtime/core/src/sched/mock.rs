//! A mock machine given by tables, for the unit tests of policies.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use zellige_model::TaskInfo;

use super::{PerNode, Policy, ReadyTask, SchedView, Wake, World};
use crate::topology::CoreInfo;

/// Workers of given kinds; tests set their knowledge of tasks. Times in ns.
#[derive(Default)]
pub(super) struct Mock {
    kinds: Vec<&'static str>,
    neighbours: Vec<Vec<usize>>,
    core: CoreInfo,
    pub(super) now: Cell<u64>,
    /// By codelet and kind.
    estimates: RefCell<HashMap<(&'static str, &'static str), u64>>,
    /// By codelet and worker.
    cannot: HashSet<(&'static str, usize)>,
    /// Missing bytes and the time to bring them, by task and worker.
    missing: HashMap<(u64, usize), (u64, u64)>,
    pub(super) prefetched: RefCell<Vec<(u64, usize)>>,
    /// Number of queries for missing bytes.
    pub(super) asked: Cell<usize>,
}

impl Mock {
    pub(super) fn new(kinds: &[&'static str]) -> Self {
        let others = |w: usize| (0..kinds.len()).filter(move |&v| v != w).collect();
        let neighbours = (0..kinds.len()).map(others).collect();
        Mock { kinds: kinds.to_vec(), neighbours, ..Mock::default() }
    }

    /// Sets the time of tasks of a codelet on a kind.
    pub(super) fn takes(&self, codelet: &'static str, kind: &'static str, time: u64) {
        self.estimates.borrow_mut().insert((codelet, kind), time);
    }

    /// Forbids a codelet on a worker.
    pub(super) fn forbid(&mut self, codelet: &'static str, worker: usize) {
        self.cannot.insert((codelet, worker));
    }

    /// Sets the missing bytes of a task on a worker, and the time to transfer them.
    pub(super) fn misses(&mut self, id: u64, worker: usize, bytes: u64, time: u64) {
        self.missing.insert((id, worker), (bytes, time));
    }

    pub(super) fn view(&self) -> SchedView<'_> {
        SchedView::new(self)
    }

    /// Pushes a task and returns the worker that gets it.
    pub(super) fn push(&self, policy: &dyn Policy, id: u64, codelet: &'static str, priority: i32) -> Wake {
        policy.push(&self.view(), task(id, codelet, priority), None)
    }

    /// Pops a task and returns its number.
    pub(super) fn pop(&self, policy: &dyn Policy, worker: usize) -> Option<u64> {
        policy.pop(&self.view(), worker).map(done)
    }

    /// Pops a task and runs it for the given time.
    pub(super) fn run(&self, policy: &dyn Policy, worker: usize, time: u64) -> Option<u64> {
        let task = policy.pop(&self.view(), worker)?;
        policy.began(&self.view(), worker, &task);
        self.now.set(self.now.get() + time);
        let id = done(task);
        policy.ended(&self.view(), worker, id);
        Some(id)
    }
}

/// Creates a task that consists only of its name.
pub(super) fn task(id: u64, codelet: &'static str, priority: i32) -> ReadyTask {
    ReadyTask::mock(id, codelet, priority, TaskInfo::default())
}

/// Consumes the task and returns its number; a dropped task would count as lost.
pub(super) fn done(task: ReadyTask) -> u64 {
    let id = task.id();
    drop(task.into_work());
    id
}

impl World for Mock {
    fn workers(&self) -> usize {
        self.kinds.len()
    }

    fn core(&self, _worker: usize) -> &CoreInfo {
        &self.core
    }

    fn neighbours(&self, worker: usize) -> &[usize] {
        &self.neighbours[worker]
    }

    fn kind(&self, worker: usize) -> &str {
        self.kinds[worker]
    }

    fn model_kind(&self, worker: usize) -> &str {
        self.kinds[worker]
    }

    fn node(&self, worker: usize) -> usize {
        worker
    }

    fn in_flight(&self) -> u64 {
        1
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.get())
    }

    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        !self.cannot.contains(&(task.codelet(), worker))
    }

    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        let key = (task.codelet(), self.kinds[worker]);
        self.estimates.borrow().get(&key).map(|&ns| Duration::from_nanos(ns))
    }

    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.asked.set(self.asked.get() + 1);
        self.missing.get(&(task.id(), worker)).map_or(0, |m| m.0)
    }

    fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64> {
        let time = |worker| self.missing.get(&(task.id(), worker)).map_or(0, |m| m.1);
        (0..self.kinds.len()).map(time).collect()
    }

    fn prefetch(&self, task: &ReadyTask, worker: usize) {
        self.prefetched.borrow_mut().push((task.id(), worker));
    }
}
