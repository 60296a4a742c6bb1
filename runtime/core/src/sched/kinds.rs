//! Kinds of device that the workers drive, and the expected times of a task on each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::SmallVec;

use super::{ReadyTask, SchedView, TaskQueue, Wake};

/// Kind of the workers that access host memory directly.
const CPU: &str = "cpu";

/// Longest time that is added to a load (ns), more than an hour: sums over a million tasks do not
/// overflow.
const LONGEST: u64 = 1 << 42;

/// Returns the time in nanoseconds, saturated.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the contribution of a time to a load (ns): at least one, since a task of zero length
/// would not count.
pub(super) fn length(nanos: u64) -> u64 {
    nanos.clamp(1, LONGEST)
}

/// Expected time of a task on a kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// No worker of the kind can run it.
    Never,
    /// No model knows it.
    Unknown,
    /// Expected time in nanoseconds, at least one.
    Known(u64),
}

/// One value for each kind.
pub(super) type PerKind<T> = SmallVec<[T; 4]>;

/// Workers by the kind of device that they drive, as performance models distinguish them: two
/// models of GPU are two kinds. Kinds are numbered by their first worker.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    of: Vec<usize>,
    workers: Vec<Vec<usize>>,
    groups: Vec<WorkerGroup>,
    group_of: Vec<usize>,
    /// True if all are CPU cores: no check is then needed if a worker can run a task.
    alike: bool,
}

/// Workers of one kind at one memory node: an unrestricted task can run on all of them or on none.
#[derive(Debug)]
pub(super) struct WorkerGroup {
    pub(super) kind: usize,
    pub(super) node: usize,
    /// The workers, in ascending order.
    pub(super) workers: Vec<usize>,
}

impl Kinds {
    pub(super) fn new(view: &SchedView<'_>) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut kinds = Kinds::default();
        for worker in 0..view.workers() {
            let name = view.model_kind(worker);
            let kind = names.iter().position(|&known| known == name).unwrap_or_else(|| {
                names.push(name);
                kinds.workers.push(Vec::new());
                names.len() - 1
            });
            let node = view.node(worker);
            let is_its = |group: &WorkerGroup| (group.kind, group.node) == (kind, node);
            let group = kinds.groups.iter().position(is_its).unwrap_or_else(|| {
                kinds.groups.push(WorkerGroup { kind, node, workers: Vec::new() });
                kinds.groups.len() - 1
            });
            kinds.groups[group].workers.push(worker);
            kinds.group_of.push(group);
            kinds.of.push(kind);
            kinds.workers[kind].push(worker);
        }
        kinds.alike = names == [CPU];
        kinds
    }

    pub(super) fn len(&self) -> usize {
        self.workers.len()
    }

    pub(super) fn of(&self, worker: usize) -> usize {
        self.of[worker]
    }

    pub(super) fn groups(&self) -> &[WorkerGroup] {
        &self.groups
    }

    /// Returns true if every worker can run all unrestricted tasks.
    pub(super) fn are_alike(&self) -> bool {
        self.alike
    }

    pub(super) fn can_run(&self, view: &SchedView<'_>, task: &ReadyTask, worker: usize) -> bool {
        (self.alike && !task.is_restricted()) || view.can_run(task, worker)
    }

    /// Returns an object that checks if workers can run the task, and caches the answers.
    pub(super) fn able<'a>(&'a self, view: &'a SchedView<'a>, task: &'a ReadyTask) -> Able<'a> {
        Able {
            kinds: self,
            view,
            task,
            restricted: task.is_restricted(),
            known: SmallVec::from_elem(None, self.groups.len()),
        }
    }

    /// Removes the first task from the queue that the worker can run.
    pub(super) fn pop(
        &self,
        view: &SchedView<'_>,
        queue: &mut TaskQueue,
        worker: usize,
    ) -> Option<ReadyTask> {
        let may = |task: &ReadyTask| view.can_run(task, worker);
        if self.alike { queue.pop_restricted_if(may) } else { queue.pop_if(may) }
    }

    /// Returns the expected time of the task on each kind. Workers of one kind are equally fast, so
    /// that only one of them is checked.
    pub(super) fn expect(&self, view: &SchedView<'_>, task: &ReadyTask) -> PerKind<Expected> {
        let mut able = self.able(view, task);
        let ask = |kind: usize| match able.of_kind(kind) {
            None => Expected::Never,
            Some(worker) => match view.estimate(task, worker) {
                None => Expected::Unknown,
                Some(time) => Expected::Known(length(nanos(time))),
            },
        };
        (0..self.len()).map(ask).collect()
    }
}

/// Cached check of the workers that can run a task; see [`Kinds::able`].
pub(super) struct Able<'a> {
    kinds: &'a Kinds,
    view: &'a SchedView<'a>,
    task: &'a ReadyTask,
    restricted: bool,
    /// Cached answer for each group, for an unrestricted task.
    known: SmallVec<[Option<bool>; 16]>,
}

impl Able<'_> {
    pub(super) fn includes(&mut self, worker: usize) -> bool {
        match self.restricted {
            true => self.view.can_run(self.task, worker),
            false => self.includes_group(self.kinds.group_of[worker]),
        }
    }

    /// Checks all workers of a group at once, for an unrestricted task.
    fn includes_group(&mut self, group: usize) -> bool {
        let first = self.kinds.groups[group].workers[0];
        let ask = || self.kinds.can_run(self.view, self.task, first);
        *self.known[group].get_or_insert_with(ask)
    }

    /// Returns the first worker of a kind that can run it.
    fn of_kind(&mut self, kind: usize) -> Option<usize> {
        let kinds = self.kinds;
        if self.restricted {
            return kinds.workers[kind].iter().copied().find(|&worker| self.includes(worker));
        }
        let of_kind = (0..kinds.groups.len()).filter(|&group| kinds.groups[group].kind == kind);
        let able = of_kind.into_iter().find(|&group| self.includes_group(group));
        able.map(|group| kinds.groups[group].workers[0])
    }

    fn includes_all(&mut self) -> bool {
        match self.restricted {
            true => (0..self.kinds.of.len()).all(|worker| self.includes(worker)),
            false => (0..self.kinds.groups.len()).all(|group| self.includes_group(group)),
        }
    }
}

/// Kinds, determined at the first view of the machine, and the round-robin position for wake-ups:
/// for policies with queues that are open to every worker that can run the task.
#[derive(Debug, Default)]
pub(super) struct SharedQueueKinds {
    kinds: OnceLock<Kinds>,
    turn: AtomicUsize,
}

impl SharedQueueKinds {
    pub(super) fn kinds(&self, view: &SchedView<'_>) -> &Kinds {
        self.kinds.get_or_init(|| Kinds::new(view))
    }

    /// Returns the number of further tasks, at most `most`, that a worker may take together with
    /// `first` from a queue of `queued` tasks: its share among the workers that can run `first`, so
    /// that none of them starves. All queued tasks count, like `first` or not.
    pub(super) fn share(&self, view: &SchedView<'_>, first: &ReadyTask, queued: usize, most: usize) -> usize {
        let kinds = self.kinds(view);
        let mut able = kinds.able(view, first);
        let able = (0..kinds.of.len()).filter(|&worker| able.includes(worker)).count();
        most.min((queued + 1).div_ceil(able.max(1)) - 1)
    }

    /// Returns the workers that may be woken for a task; `None` if nobody can run it. If only some
    /// can, they are woken in turn: a worker that cannot run the task would go back to sleep and
    /// leave it.
    pub(super) fn wake(&self, view: &SchedView<'_>, task: &ReadyTask) -> Option<Wake> {
        let kinds = self.kinds(view);
        let workers = kinds.of.len();
        let mut able = kinds.able(view, task);
        if able.includes_all() {
            return Some(Wake::Any);
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let worker = (0..workers).map(|n| (first + n) % workers).find(|&worker| able.includes(worker));
        worker.map(Wake::Worker)
    }
}
