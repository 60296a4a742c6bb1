//! Scheduling policies: the interface that their driver uses, and their view of the driver.

use std::time::Duration;

use smallvec::SmallVec;

use crate::task::ReadyTask;
use crate::topology::CoreInfo;
use zellige_model::TaskInfo;

/// The workers that may be woken for a task that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Any worker could pop it: the runtime chooses one and notifies no other.
    Any,
    /// Only this worker will pop it.
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

    /// Returns the worker that will run a task of this codelet, if that is certain at submission.
    /// The operands that the task reads can then be brought to that worker in the format that
    /// serves all tasks there. Called twice for each task that is submitted or replayed; the
    /// answers have to agree.
    fn home(&self, view: &SchedView<'_>, codelet: &str, info: &TaskInfo) -> Option<usize> {
        let _ = (view, codelet, info);
        None
    }

    /// Pops further tasks for `worker`, at most `most`, to run in one call together with `first`,
    /// which it has just popped. They are the tasks that [`pop`](Policy::pop) would return next,
    /// while these are [like](ReadyTask::is_like) `first`. Called only if the codelet accepts
    /// [several tasks at once](crate::Codelet::batch). Each returned task counts as popped. By
    /// default tasks run one by one.
    ///
    /// If other workers compete for the same tasks, leave them their share.
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

    /// Combines [`push`](Policy::push) of `task`, which a task of `worker` has just released, with
    /// [`pop`](Policy::pop) for that worker, if this is quicker than both; otherwise it returns the
    /// task. Called only for tasks that every worker can run. By default tasks are pushed and
    /// popped.
    fn exchange(&self, view: &SchedView<'_>, worker: usize, task: ReadyTask) -> Result<ReadyTask, ReadyTask> {
        let _ = (view, worker);
        Err(task)
    }

    /// Pops the newest task for `worker` that satisfies `mine`, if it can be found quickly: a
    /// waiting body runs the tasks that it submitted on its own stack. It counts as popped. By
    /// default a spare thread runs such tasks.
    fn pop_newest(
        &self,
        view: &SchedView<'_>,
        worker: usize,
        mine: &dyn Fn(&ReadyTask) -> bool,
    ) -> Option<ReadyTask> {
        let _ = (view, worker, mine);
        None
    }

    /// Sorts the queues by [priority](ReadyTask::priority) again: a body began to wait for tasks of
    /// lower priority than its own, and they have inherited its priority. A policy that ignores
    /// priorities ignores this.
    fn sort_again(&self) {}

    /// True if [`began`](Policy::began) and [`ended`](Policy::ended) are to be called; queried
    /// once.
    fn follows(&self) -> bool {
        false
    }

    /// `worker` begins `task`, which it popped. Tasks that run in one call begin together and end
    /// together.
    fn began(&self, view: &SchedView<'_>, worker: usize, task: &ReadyTask) {
        let _ = (view, worker, task);
    }

    /// `worker` has ended the task with this number, with whatever result. A task that found an
    /// operand busy is pushed again.
    fn ended(&self, view: &SchedView<'_>, worker: usize, id: u64) {
        let _ = (view, worker, id);
    }
}

/// One value for each memory node.
pub type PerNode<T> = SmallVec<[T; 4]>;

/// The machine behind a [`SchedView`], whose methods have the same names: threads, virtual time, or
/// an interface for other languages.
pub trait World {
    /// Number of workers.
    fn workers(&self) -> usize;
    /// Core of a worker.
    fn core(&self, worker: usize) -> &CoreInfo;
    /// All workers but this one, nearest first; this one may be among them.
    fn neighbours(&self, worker: usize) -> &[usize];
    /// Kind of device of a worker.
    fn kind(&self, worker: usize) -> &str;
    /// Kind of device of a worker in performance models.
    fn model_kind(&self, worker: usize) -> &str;
    /// Memory node of a worker.
    fn node(&self, worker: usize) -> usize;
    /// Tasks submitted and not yet complete.
    fn in_flight(&self) -> u64;
    /// Time since the start.
    fn now(&self) -> Duration;
    /// True if the worker can run the task.
    fn can_run(&self, task: &ReadyTask, worker: usize) -> bool;
    /// Expected time of the task on the worker.
    fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration>;
    /// Bytes of the task's operands that the worker's node lacks.
    fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64;
    /// Time to bring the task's operands to each node (ns).
    fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64>;
    /// Begins to bring the task's operands to the worker's node.
    fn prefetch(&self, task: &ReadyTask, worker: usize);
}

/// The view that a policy has of the machine and of the run.
pub struct SchedView<'a> {
    world: &'a dyn World,
}

impl<'a> SchedView<'a> {
    pub(crate) fn new(world: &'a dyn World) -> Self {
        SchedView { world }
    }

    pub(crate) fn world(&self) -> &'a dyn World {
        self.world
    }

    /// Returns the number of workers.
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

    /// Returns the kind of device that a worker drives, e.g. `cpu` or `gpu`.
    pub fn kind(&self, worker: usize) -> &'a str {
        self.world.kind(worker)
    }

    /// Returns the device kind in performance models, e.g. `cpu` or `gpu:NAME`. Workers of one such
    /// kind are equally fast.
    pub fn model_kind(&self, worker: usize) -> &'a str {
        self.world.model_kind(worker)
    }

    /// Returns the memory node that must hold a worker's operands, as an index into
    /// [`Runtime::memory`](crate::Runtime::memory): 0 is the host's. A task that is not
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
    /// If failed devices leave the task without any usable worker, it is true for their workers,
    /// which end the task with an error.
    pub fn can_run(&self, task: &ReadyTask, worker: usize) -> bool {
        self.world.can_run(task, worker)
    }

    /// Returns the task's expected time on a worker with its operands in place; `None` if nothing
    /// is known.
    pub fn estimate(&self, task: &ReadyTask, worker: usize) -> Option<Duration> {
        self.world.estimate(task, worker)
    }

    /// Bytes of the task's operands that are not in the worker's memory node.
    pub fn missing_bytes(&self, task: &ReadyTask, worker: usize) -> u64 {
        self.world.missing_bytes(task, worker)
    }

    /// Returns the time to bring the task's operands to each memory node over idle links (ns), by
    /// the [nodes'](Self::node) numbers.
    pub fn transfer_times(&self, task: &ReadyTask) -> PerNode<u64> {
        self.world.transfer_times(task)
    }

    /// Announces that `worker` will run the task: its operands may be prefetched.
    pub fn prefetch(&self, task: &ReadyTask, worker: usize) {
        self.world.prefetch(task, worker);
    }

    /// Returns the time since the run started, as its driver measures it.
    pub fn now(&self) -> Duration {
        self.world.now()
    }
}
