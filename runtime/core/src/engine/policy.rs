//! A scheduling policy, as its driver uses it, and what it sees of its driver.

use std::time::Duration;

use smallvec::SmallVec;
use zellige_model::TaskInfo;

use super::ReadyTask;
use crate::topology::CoreInfo;

/// Who may be woken for a task that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Any worker could pop it: the runtime chooses one, and none other is told.
    Any,
    /// Only this worker will.
    Worker(usize),
}

/// A scheduling policy.
///
/// Every task pushed must come out of a `pop` once, for a worker that [can run](SchedView::can_run)
/// it; a task that is dropped instead is reported as lost and poisons its outputs. That is the
/// right end for one that no worker can run: the runtime refuses such tasks, but a device may die
/// between submission and push. Both methods are called from many threads at once. They may ask the
/// view under locks of their own: it never calls the policy back.
///
/// ```
/// use zellige_runtime::sched::{Policy, ReadyTask, SchedView, TaskQueue, Wake};
/// use zellige_runtime::{Runtime, Submit, read, update};
///
/// /// Last in, first out, for everybody.
/// struct Stack(std::sync::Mutex<Vec<ReadyTask>>);
///
/// impl Policy for Stack {
///     fn name(&self) -> &str {
///         "stack"
///     }
///     fn push(&self, _view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
///         self.0.lock().unwrap().push(task);
///         Wake::Any
///     }
///     fn pop(&self, _view: &SchedView<'_>, _worker: usize) -> Option<ReadyTask> {
///         self.0.lock().unwrap().pop()
///     }
/// }
///
/// let rt = Runtime::builder().workers(2).policy_with(Stack(Default::default())).build()?;
/// let x = rt.register(1.0f64);
/// rt.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2.0).submit()?;
/// assert_eq!(rt.take(x)?, 2.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub trait Policy: Send + Sync + 'static {
    /// Its name, for traces and messages.
    fn name(&self) -> &str;

    /// A task became ready; `from` is the worker whose task released it, if one did.
    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake;

    /// The next task for `worker`, if there is one.
    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask>;

    /// The worker that will run a task of this codelet, if that is certain when it is submitted.
    /// What it reads can then come to that worker in the form that serves all tasks there. Asked
    /// twice for each task that is submitted or replayed; the answers have to agree.
    fn home(&self, view: &SchedView<'_>, codelet: &str, info: &TaskInfo) -> Option<usize> {
        let _ = (view, codelet, info);
        None
    }

    /// Further tasks for `worker`, at most `most`, to be run in one call together with `first`,
    /// which it has just popped: what [`pop`](Policy::pop) would give it next, as long as that is
    /// [like](ReadyTask::is_like) `first`. Asked only where the codelet takes [several tasks at
    /// once](crate::Codelet::batch). Each counts as popped. Without this, tasks run one by one.
    ///
    /// Where other workers look for the same tasks, leave them their share.
    fn pop_like(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        first: &ReadyTask,
        most: usize,
    ) -> Vec<ReadyTask> {
        let _ = (view, worker, first, most);
        Vec::new()
    }

    /// As [`push`](Policy::push) of `task`, which a task of `worker` has just released, and then
    /// [`pop`](Policy::pop) for that worker, where this is quicker than both; the task is given
    /// back where it is not. Asked only for tasks that every worker can run. Without this, tasks
    /// are pushed and popped.
    fn exchange(&self, view: &SchedView<'_>, worker: usize, task: ReadyTask) -> Result<ReadyTask, ReadyTask> {
        let _ = (view, worker);
        Err(task)
    }

    /// The newest task for `worker` that is `mine`, if it can be found quickly: a body that waits
    /// runs what it has submitted itself, on its own stack. It counts as popped. Without this, a
    /// spare thread runs such tasks.
    fn pop_newest(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        mine: &dyn Fn(&ReadyTask) -> bool,
    ) -> Option<ReadyTask> {
        let _ = (view, worker, mine);
        None
    }

    /// Sorts what is queued by [priority](ReadyTask::priority) again: a body began to wait for
    /// tasks of lower priority than its own, which they have inherited. A policy that does not look
    /// at priorities ignores this.
    fn sort_again(&self) {}

    /// True if [`began`](Policy::began) and [`ended`](Policy::ended) are to be told; asked once.
    fn follows(&self) -> bool {
        false
    }

    /// `worker` begins `task`, which it popped. Tasks that run in one call begin together and end
    /// together.
    fn began(&self, view: &SchedView<'_>, worker: usize, task: &ReadyTask) {
        let _ = (view, worker, task);
    }

    /// `worker` has ended the task with this number, whatever became of it; a task that found an
    /// operand busy is pushed again.
    fn ended(&self, view: &SchedView<'_>, worker: usize, id: u64) {
        let _ = (view, worker, id);
    }
}

/// One value for each memory node.
pub type PerNode<T> = SmallVec<[T; 4]>;

/// A driver of policies: threads, or virtual time.
pub(crate) trait World {
    fn workers(&self) -> usize;
    fn core(&self, worker: usize) -> &CoreInfo;
    /// All workers but this one, nearest first; this one may be among them.
    fn neighbours(&self, worker: usize) -> &[usize];
    fn kind(&self, worker: usize) -> &str;
    fn model_kind(&self, worker: usize) -> &str;
    fn node(&self, worker: usize) -> usize;
    fn in_flight(&self) -> u64;
    fn now(&self) -> Duration;
    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool;
    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration>;
    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64;
    fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64>;
    fn prefetch(&self, task: &ReadyTask, worker: usize);
}

/// What a policy sees of the machine and of the run.
pub struct SchedView<'a> {
    world: &'a dyn World,
}

impl<'a> SchedView<'a> {
    pub(crate) fn new(world: &'a dyn World) -> Self {
        SchedView { world }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.world.workers()
    }

    /// The core that a worker runs on.
    pub fn core(&self, worker: usize) -> &'a CoreInfo {
        self.world.core(worker)
    }

    /// The other workers, nearest first: shared caches before NUMA nodes before the rest.
    pub fn neighbours(&self, worker: usize) -> impl Iterator<Item = usize> + use<'a> {
        self.world.neighbours(worker).iter().copied().filter(move |&other| other != worker)
    }

    /// What kind of device a worker drives, e.g. `cpu` or `gpu`.
    pub fn kind(&self, worker: usize) -> &'a str {
        self.world.kind(worker)
    }

    /// What performance models call it, e.g. `cpu` or `gpu:NAME`: workers of one such kind are
    /// equally fast.
    pub fn model_kind(&self, worker: usize) -> &'a str {
        self.world.model_kind(worker)
    }

    /// The memory node where a worker's operands have to be, as
    /// [`Runtime::memory`](crate::Runtime::memory) lists them: 0 is the host's. A task that is not
    /// [restricted](ReadyTask::is_restricted) can run on all workers of one node and one
    /// [kind](Self::model_kind), or on none.
    pub fn node(&self, worker: usize) -> usize {
        self.world.node(worker)
    }

    /// Tasks submitted and not yet complete; an estimate while others submit.
    pub fn in_flight(&self) -> u64 {
        self.world.in_flight()
    }

    /// True if the task has an implementation for the worker's device, and its operands fit there.
    /// Once devices have failed without which nobody can run the task, true for their workers: they
    /// end it with an error.
    pub fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.world.can_run(task, worker)
    }

    /// The task's expected time on a worker, its operands being there; `None` if nothing is known.
    pub fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        self.world.estimate(task, worker)
    }

    /// Bytes of the task's operands that are not in the worker's memory node.
    pub fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.world.missing_bytes(task, worker)
    }

    /// How long it would take to bring the task's operands to each memory node over idle links
    /// (ns), by the [nodes'](Self::node) numbers.
    pub fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64> {
        self.world.transfer_times(task)
    }

    /// Says that `worker` will run the task: its operands may be brought in ahead of it.
    pub fn prefetch(&self, task: &ReadyTask, worker: usize) {
        self.world.prefetch(task, worker);
    }

    /// Time since the run started, as its driver measures it.
    pub fn now(&self) -> Duration {
        self.world.now()
    }
}
