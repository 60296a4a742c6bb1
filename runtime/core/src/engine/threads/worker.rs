//! The worker's loop.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use zellige_trace::IdleState;

use super::current;
use crate::engine::transfer::{Next, TransferDriver};
use crate::engine::{Job, Ready, Shared, Stage, Work};
use crate::engine::{ReadyTask, SchedView, Wake};
use crate::error::{Error, caught};
use crate::task::WorkerLocal;

/// Number of searches for work before a worker announces that it will sleep. The second value holds
/// if there are more workers than cores: a searching worker then keeps a core from those that have
/// work.
const LOOKS: u32 = 64;
const LOOKS_OVERSUBSCRIBED: u32 = 4;

/// Tasks shorter than this, on average and with all overhead, are short tasks: they arrive faster
/// than a search for each of them pays off.
const SHORT_TASK: Duration = Duration::from_micros(2);

/// Address space of the stack of a thread that runs bodies [bytes]; only touched pages become
/// memory. A body that waits runs its submitted tasks on the same stack while half of it is left,
/// so each body has at least that half.
pub(super) const STACK: usize = 16 << 20;

/// Returns the builder of a thread that acts as worker `index`.
pub(super) fn thread_of(index: usize, suffix: &str) -> thread::Builder {
    thread::Builder::new().name(format!("zellige-{index}{suffix}")).stack_size(STACK)
}

/// Starts one thread per worker.
pub(crate) fn spawn_workers(shared: &Arc<Shared>) -> Result<Vec<thread::JoinHandle<()>>, Error> {
    (0..shared.workers.len())
        .map(|index| {
            shared.worker_begins();
            let shared = Arc::clone(shared);
            thread_of(index, "")
                .spawn(move || work(&shared, index, None))
                .map_err(|e| Error::Os { what: format!("starting worker {index}"), cause: e.to_string() })
        })
        .collect()
}

/// Main function of a thread that acts as worker `index`; it runs `first` before it looks for other
/// work.
pub(in crate::engine) fn work(shared: &Arc<Shared>, index: usize, first: Option<Next>) {
    shared.enter_worker_thread();
    if index < shared.bound {
        crate::topology::pin_to(shared.workers[index].core.cpu);
    }
    // Buffers that tasks make may be transferred.
    let serving = shared.transfers.as_ref().and_then(TransferDriver::serve);
    current::set(shared, index);
    let ended = caught(|| run_all(shared, index, first));
    // A panic outside of any body ends the thread while it acts.
    if *ended.as_ref().unwrap_or(&true) {
        shared.leave_slot(index);
    }
    shared.worker_ends(ended.err());
    drop(serving);
}

/// The next action of a thread that acts as a worker.
enum Turn {
    Run(Next),
    /// A body that has waited wants to go on.
    StepAside,
    End,
}

/// Runs tasks until the runtime stops; true if the thread still acts as the worker then.
fn run_all(shared: &Arc<Shared>, index: usize, first: Option<Next>) -> bool {
    let mut local = WorkerLocal::new(shared, shared.workers[index].model_kind);
    let mut pace = Pace::default();
    let mut taken = None;
    let mut turn = first.map_or_else(|| turn(shared, index, &mut local, &mut pace, None), Turn::Run);
    loop {
        let next = match turn {
            Turn::Run(next) => Some(next),
            Turn::StepAside => match shared.step_aside(index) {
                Some(next) => next,
                None => return false,
            },
            Turn::End => return true,
        };
        if let Some(next) = next {
            pace.tasks += 1;
            shared.execute(next, index, &mut local, Some(&mut taken));
        }
        turn = self::turn(shared, index, &mut local, &mut pace, taken.take());
    }
}

fn turn(
    shared: &Arc<Shared>,
    index: usize,
    local: &mut WorkerLocal,
    pace: &mut Pace,
    taken: Option<ReadyTask>,
) -> Turn {
    if shared.workers[index].slot.is_wanted() {
        taken.into_iter().for_each(|task| shared.push_ready(task, Some(index)));
        return Turn::StepAside;
    }
    match taken.map(Next::Ready).or_else(|| shared.next(index)) {
        Some(next) => Turn::Run(next),
        None => {
            local.flush();
            search(shared, index, pace)
        }
    }
}

/// The work of a worker since its last search.
#[derive(Default)]
struct Pace {
    since: Option<Instant>,
    tasks: u32,
}

impl Pace {
    /// True if it consisted only of short tasks.
    fn are_short(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < SHORT_TASK * self.tasks)
    }

    fn restart(&mut self) {
        *self = Pace { since: Some(Instant::now()), tasks: 0 };
    }
}

/// Looks for work, then sleeps until there is some.
#[cold]
fn search(shared: &Arc<Shared>, index: usize, pace: &mut Pace) -> Turn {
    shared.collect_lost();
    shared.wake_if_all_done();
    let may_nap = pace.are_short();
    shared.sleep.begin_search();
    shared.tell_idle();
    shared.record_idle(index, Some(IdleState::Searching));
    let found = look_and_sleep(shared, index, may_nap);
    shared.record_idle(index, None);
    pace.restart();
    found
}

impl Shared {
    /// Calls the idle callback, if there is one and all workers search or sleep.
    fn tell_idle(&self) {
        if let Some(tell) = self.when_idle.get().filter(|_| self.is_idle()) {
            tell();
        }
    }

    /// True if no worker has a task to run; an estimate.
    pub(crate) fn is_idle(&self) -> bool {
        self.sleep.idle() >= self.workers.len()
    }

    /// Returns the number of searches for work before a worker announces that it will sleep.
    pub(in crate::engine) fn looks(&self) -> u32 {
        if self.oversubscribed { LOOKS_OVERSUBSCRIBED } else { LOOKS }
    }
}

fn look_and_sleep(shared: &Arc<Shared>, index: usize, mut may_nap: bool) -> Turn {
    let slot = &shared.workers[index].slot;
    let look = || {
        if slot.is_wanted() { Some(Turn::StepAside) } else { shared.next(index).map(Turn::Run) }
    };
    loop {
        if may_nap {
            shared.record_idle(index, Some(IdleState::Sleeping));
            shared.sleep.nap(index);
            shared.record_idle(index, Some(IdleState::Searching));
            may_nap = false;
        }
        for round in 0..shared.looks() {
            if let Some(found) = look() {
                shared.sleep.end_search();
                return found;
            }
            // The pauses grow: a burst is noticed at once, and a long lull costs little.
            for _ in 0..round {
                hint::spin_loop();
            }
        }
        shared.sleep.announce(index);
        if let Some(found) = look() {
            shared.sleep.stay_awake(index);
            return found;
        }
        shared.collect_lost();
        if shared.is_stopping() {
            shared.sleep.stay_awake(index);
            return Turn::End;
        }
        shared.resolve_if_all_sleep();
        shared.record_idle(index, Some(IdleState::Sleeping));
        shared.sleep.sleep(index);
        shared.record_idle(index, Some(IdleState::Searching));
    }
}

/// Detects a panic outside of any body. The task in progress will never complete, even if the body
/// of an outer task on the same thread catches the panic.
struct Died<'s>(&'s Shared, bool);

impl Drop for Died<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.1 {
            self.0.breaks("user code of a data type or policy panicked outside of a body".into());
        }
    }
}

impl Shared {
    /// Runs `next` on `worker`; a following task may be left in `taken`.
    pub(in crate::engine) fn execute(
        self: &Arc<Self>,
        next: Next,
        worker: usize,
        local: &mut WorkerLocal,
        taken: Option<&mut Option<ReadyTask>>,
    ) {
        match next {
            Next::Ready(task) => self.execute_ready(task, worker, local, taken),
            Next::Placed(placed) => {
                let _died = Died(self, thread::panicking());
                self.execute_placed(*placed, worker, local);
                let mut woken: Ready = local.woken.drain(..).collect();
                self.pass_on(&mut woken, worker, None);
            }
        }
    }

    /// Runs `next` in a body that waits, which may have its own treatment of subnormal numbers.
    pub(super) fn execute_while_waiting(
        self: &Arc<Self>,
        next: Next,
        worker: usize,
        local: &mut WorkerLocal,
    ) {
        let _mode = self.subnormals(None).enter();
        self.execute(next, worker, local, None);
    }

    /// Runs a task, with others like it if its codelet accepts several, and passes on the released
    /// tasks.
    fn execute_ready(
        self: &Arc<Self>,
        task: ReadyTask,
        worker: usize,
        local: &mut WorkerLocal,
        taken: Option<&mut Option<ReadyTask>>,
    ) {
        let _died = Died(self, thread::panicking());
        let mut ready = Ready::new();
        let like = if task.batch(false) > 1 { self.pop_like(worker, &task) } else { Vec::new() };
        if like.is_empty() {
            let id = task.id();
            let outer = self.runs(worker, &task);
            match task.into_work() {
                Work::Task(task) => self.run_job(task, worker, local, &mut ready),
                Work::Replay(task) => self.run_job(task, worker, local, &mut ready),
            }
            self.rests(worker, id, outer);
        } else {
            let tasks: Vec<ReadyTask> = std::iter::once(task).chain(like).collect();
            let ids: Vec<u64> = tasks.iter().map(ReadyTask::id).collect();
            let outer = self.run_all(worker, tasks.iter());
            self.run_batch(tasks, worker, local, &mut ready);
            self.rest_all(worker, ids, outer);
        }
        if !local.woken.is_empty() {
            ready.extend(local.woken.drain(..));
        }
        self.pass_on(&mut ready, worker, taken);
        // The check reads every worker's count; a worker that finds no work makes it too.
        let done = self.workers[worker].done.load(Ordering::Relaxed);
        if done.is_multiple_of(16) || self.window.size() < 256 {
            self.wake_if_window_has_room();
        }
    }

    /// Queues the tasks that became ready. This worker takes one of the queued tasks into `taken`,
    /// if it is given, so that one task alone wakes nobody. A worker woken for several tasks wakes
    /// others in turn.
    pub(super) fn pass_on(
        self: &Arc<Self>,
        ready: &mut Ready,
        worker: usize,
        taken: Option<&mut Option<ReadyTask>>,
    ) {
        let mut for_anybody = 0;
        let last = if taken.is_some() { ready.pop() } else { None };
        let mut queue = |task| match self.enqueue(task, Some(worker)) {
            Wake::Worker(other) if other != worker => self.sleep.notify(other),
            _ => for_anybody += 1,
        };
        if !ready.is_empty() {
            ready.drain(..).for_each(&mut queue);
        }
        if let (Some(taken), Some(task)) = (taken, last) {
            match self.exchange(task, worker) {
                Ok(next) => {
                    *taken = next;
                    for_anybody += 1;
                }
                Err(task) => queue(task),
            }
        }
        if for_anybody > 1 {
            self.sleep.notify_any();
        }
    }

    /// Hands a task to the policy and takes the next one for this worker in one step, if the policy
    /// supports that.
    fn exchange(self: &Arc<Self>, task: ReadyTask, worker: usize) -> Result<Option<ReadyTask>, ReadyTask> {
        if self.transfers.is_some() || task.is_restricted() {
            return Err(task);
        }
        task.work().enters(Stage::Queued);
        if let Some(recorder) = &self.recorder {
            recorder.task_ready();
        }
        let next = self.policy.exchange(&SchedView::new(&**self), worker, task).inspect_err(|_| {
            if let Some(recorder) = &self.recorder {
                recorder.task_taken();
            }
        })?;
        // As in `pop`.
        if next.runtime() != self.id {
            return Ok(None);
        }
        self.takes(&next);
        Ok(Some(next))
    }

    /// Records in the trace the state of a worker without work; `None`: it has work again.
    fn record_idle(&self, worker: usize, state: Option<IdleState>) {
        if let Some(recorder) = &self.recorder {
            let waits = || self.transfers.as_ref().is_some_and(|transfers| transfers.waits_for_data(worker));
            let state = state.map(|state| if waits() { IdleState::WaitingForData } else { state });
            recorder.idle(worker, state, self.now().as_nanos() as u64);
        }
    }
}
