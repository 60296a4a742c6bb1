//! The kinds of device that the workers drive, and what a task takes on each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::SmallVec;

use super::{ReadyTask, SchedView, TaskQueue, Wake};

/// The kind of workers that all reach the host's memory.
const CPU: &str = "cpu";

/// Longest time that loads count with (ns), a good hour: sums over a million tasks stay far from the end of a word.
const LONGEST: u64 = 1 << 42;

/// Nanoseconds, as many as fit.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a time of so many nanoseconds counts with in a load: at least one, since a task of no length would leave no trace.
pub(super) fn length(nanos: u64) -> u64 {
    nanos.clamp(1, LONGEST)
}

/// What a task takes on a kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// No worker of the kind can run it.
    Never,
    /// Nothing is known.
    Unknown,
    /// So many nanoseconds, at least one.
    Known(u64),
}

/// One value for each kind.
pub(super) type PerKind<T> = SmallVec<[T; 4]>;

/// Workers by the kind of device that they drive, as performance models tell them apart: two makes of GPU are two kinds. Kinds are
/// numbered by their first worker.
#[derive(Debug)]
pub(super) struct Kinds {
    of: Vec<usize>,
    workers: Vec<Vec<usize>>,
    /// All are CPU cores: whoever asks may save himself the question who can run a task.
    alike: bool,
}

impl Kinds {
    pub(super) fn new(view: &SchedView<'_>) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut kinds = Kinds { of: Vec::new(), workers: Vec::new(), alike: false };
        for worker in 0..view.workers() {
            let name = view.model_kind(worker);
            let kind = names.iter().position(|&known| known == name).unwrap_or_else(|| {
                names.push(name);
                kinds.workers.push(Vec::new());
                names.len() - 1
            });
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

    /// True if every worker can run what is not restricted.
    pub(super) fn are_alike(&self) -> bool {
        self.alike
    }

    pub(super) fn can_run(&self, view: &SchedView<'_>, task: &ReadyTask, worker: usize) -> bool {
        (self.alike && !task.is_restricted()) || view.can_run(task, worker)
    }

    /// Takes the first task out of the queue that the worker can run.
    pub(super) fn pop(
        &self,
        view: &SchedView<'_>,
        queue: &mut TaskQueue,
        worker: usize,
    ) -> Option<ReadyTask> {
        let may = |task: &ReadyTask| view.can_run(task, worker);
        if self.alike { queue.pop_restricted_if(may) } else { queue.pop_if(may) }
    }

    /// What the task takes on each kind. Workers of one kind are equally fast, so that one of them is asked.
    pub(super) fn expect(&self, view: &SchedView<'_>, task: &ReadyTask) -> PerKind<Expected> {
        let ask = |workers: &Vec<usize>| match workers.iter().find(|&&w| self.can_run(view, task, w)) {
            None => Expected::Never,
            Some(&worker) => match view.estimate(task, worker) {
                None => Expected::Unknown,
                Some(time) => Expected::Known(length(nanos(time))),
            },
        };
        self.workers.iter().map(ask).collect()
    }
}

/// The kinds, found out at the first look at the machine, and whose turn it is to be woken: for policies whose queues are
/// open to every worker that can run the task.
#[derive(Debug, Default)]
pub(super) struct Open {
    kinds: OnceLock<Kinds>,
    turn: AtomicUsize,
}

impl Open {
    pub(super) fn kinds(&self, view: &SchedView<'_>) -> &Kinds {
        self.kinds.get_or_init(|| Kinds::new(view))
    }

    /// How many further tasks a worker may take together with `first`, at most `most`, out of a queue of so many: its share among the
    /// workers that can run `first`, so that none of them is left without. All that is queued counts, like `first` or not.
    pub(super) fn share(&self, view: &SchedView<'_>, first: &ReadyTask, queued: usize, most: usize) -> usize {
        let kinds = self.kinds(view);
        let able = (0..kinds.of.len()).filter(|&worker| kinds.can_run(view, first, worker)).count();
        most.min((queued + 1).div_ceil(able.max(1)) - 1)
    }

    /// Who may be woken for a task; `None` if nobody can run it. Where only some can, they are woken in turn: a worker that
    /// is woken for a task it cannot run would go back to sleep and leave it.
    pub(super) fn wake(&self, view: &SchedView<'_>, task: &ReadyTask) -> Option<Wake> {
        let kinds = self.kinds(view);
        let workers = kinds.of.len();
        if (kinds.alike && !task.is_restricted()) || (0..workers).all(|w| view.can_run(task, w)) {
            return Some(Wake::Any);
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let able = (0..workers).map(|n| (first + n) % workers).find(|&w| view.can_run(task, w));
        able.map(Wake::Worker)
    }
}
