//! The worker's loop.

use std::hint;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zellige_trace::IdleState;

use super::current;
use crate::engine::Wake;
use crate::engine::transfer::{Next, TransferDriver};
use crate::engine::{Engine, Ready};
use crate::error::{Error, caught};
use crate::task::{ReadyTask, Work, WorkerLocal};
use crate::thread_start::start_thread;

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

/// Starts one thread per worker.
pub(crate) fn spawn_workers(engine: &Arc<Engine>) -> Result<Vec<thread::JoinHandle<()>>, Error> {
    (0..engine.workers.len())
        .map(|index| {
            engine.workers.begin_thread();
            let engine = Arc::clone(engine);
            start_thread(format!("zellige-{index}"), STACK, move || work(&engine, index, None))
                .map_err(|e| Error::Os { what: format!("starting worker {index}"), cause: e.to_string() })
        })
        .collect()
}

/// Main function of a thread that acts as worker `index`; it runs `first` before it looks for other
/// work.
pub(in crate::engine) fn work(engine: &Arc<Engine>, index: usize, first: Option<Next>) {
    engine.subnormals(None).set();
    if index < engine.workers.bound {
        crate::topology::pin_to(engine.workers[index].core.cpu);
    }
    // Buffers that tasks make may be transferred.
    let serving = engine.transfers.as_ref().and_then(TransferDriver::serve);
    current::set(engine, index);
    let ended = caught(|| run_all(engine, index, first));
    // A panic outside of any body ends the thread while it acts.
    if *ended.as_ref().unwrap_or(&true) {
        engine.leave_slot(index);
    }
    engine.end_thread(ended.err());
    drop(serving);
}

/// The next action of a thread that acts as a worker.
enum WorkerAction {
    Run(Next),
    /// A body that has waited wants to go on.
    StepAside,
    End,
}

/// Runs tasks until the runtime stops; true if the thread still acts as the worker then.
fn run_all(engine: &Arc<Engine>, index: usize, first: Option<Next>) -> bool {
    let mut local = WorkerLocal::new(engine.models.as_ref(), engine.workers[index].model_kind);
    let mut pace = Pace::default();
    let mut taken = None;
    let mut action =
        first.map_or_else(|| next_action(engine, index, &mut local, &mut pace, None), WorkerAction::Run);
    loop {
        let next = match action {
            WorkerAction::Run(next) => Some(next),
            WorkerAction::StepAside => match engine.step_aside(index) {
                Some(next) => next,
                None => return false,
            },
            WorkerAction::End => return true,
        };
        if let Some(next) = next {
            pace.tasks += 1;
            engine.execute(next, index, &mut local, Some(&mut taken));
        }
        action = next_action(engine, index, &mut local, &mut pace, taken.take());
    }
}

fn next_action(
    engine: &Arc<Engine>,
    index: usize,
    local: &mut WorkerLocal,
    pace: &mut Pace,
    taken: Option<ReadyTask>,
) -> WorkerAction {
    if engine.workers[index].slot.is_wanted() {
        taken.into_iter().for_each(|task| engine.push_ready(task, Some(index)));
        return WorkerAction::StepAside;
    }
    match taken.map(Next::Ready).or_else(|| engine.next(index)) {
        Some(next) => WorkerAction::Run(next),
        None => {
            local.flush();
            search(engine, index, pace)
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
fn search(engine: &Arc<Engine>, index: usize, pace: &mut Pace) -> WorkerAction {
    engine.collect_lost();
    engine.wake_if_all_done();
    let may_nap = pace.are_short();
    engine.workers.sleep.begin_search();
    engine.tell_idle();
    engine.record_idle(index, Some(IdleState::Searching));
    let found = look_and_sleep(engine, index, may_nap);
    engine.record_idle(index, None);
    pace.restart();
    found
}

impl Engine {
    /// Calls the idle callback, if there is one and all workers search or sleep.
    fn tell_idle(&self) {
        if let Some(tell) = self.workers.when_idle.get().filter(|_| self.workers.are_idle()) {
            tell();
        }
    }

    /// Returns the number of searches for work before a worker announces that it will sleep.
    pub(in crate::engine) fn looks(&self) -> u32 {
        if self.workers.oversubscribed { LOOKS_OVERSUBSCRIBED } else { LOOKS }
    }
}

fn look_and_sleep(engine: &Arc<Engine>, index: usize, mut may_nap: bool) -> WorkerAction {
    let slot = &engine.workers[index].slot;
    let look = || {
        if slot.is_wanted() {
            Some(WorkerAction::StepAside)
        } else {
            engine.next(index).map(WorkerAction::Run)
        }
    };
    loop {
        if may_nap {
            engine.record_idle(index, Some(IdleState::Sleeping));
            engine.workers.sleep.nap(index);
            engine.record_idle(index, Some(IdleState::Searching));
            may_nap = false;
        }
        for round in 0..engine.looks() {
            if let Some(found) = look() {
                engine.workers.sleep.end_search();
                return found;
            }
            // The pauses grow: a burst is noticed at once, and a long lull costs little.
            for _ in 0..round {
                hint::spin_loop();
            }
        }
        engine.workers.sleep.announce(index);
        if let Some(found) = look() {
            engine.workers.sleep.stay_awake(index);
            return found;
        }
        engine.collect_lost();
        if engine.workers.is_stopping() {
            engine.workers.sleep.stay_awake(index);
            return WorkerAction::End;
        }
        engine.resolve_if_all_sleep();
        engine.record_idle(index, Some(IdleState::Sleeping));
        engine.workers.sleep.sleep(index);
        engine.record_idle(index, Some(IdleState::Searching));
    }
}

/// Detects a panic outside of any body. The task in progress will never complete, even if the body
/// of an outer task on the same thread catches the panic.
struct Died<'s>(&'s Engine, bool);

impl Drop for Died<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.1 {
            self.0.set_broken("user code of a data type or policy panicked outside of a body".into());
        }
    }
}

impl Engine {
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
            let outer = self.start_body(worker, &task);
            match task.into_work() {
                Work::Task(task) => self.run_job(task, worker, local, &mut ready),
                Work::Replay(task) => self.run_job(task, worker, local, &mut ready),
            }
            self.end_body(worker, id, outer);
        } else {
            let tasks: Vec<ReadyTask> = std::iter::once(task).chain(like).collect();
            let ids: Vec<u64> = tasks.iter().map(ReadyTask::id).collect();
            let outer = self.start_bodies(worker, tasks.iter());
            self.run_batch(tasks, worker, local, &mut ready);
            self.end_bodies(worker, ids, outer);
        }
        if !local.woken.is_empty() {
            ready.extend(local.woken.drain(..));
        }
        self.pass_on(&mut ready, worker, taken);
        // The check reads every worker's count; a worker that finds no work makes it too.
        let done = self.workers[worker].own_done();
        if done.is_multiple_of(16) || self.waits.window.size() < 256 {
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
            Wake::Worker(other) if other != worker => self.workers.sleep.notify(other),
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
            self.workers.sleep.notify_any();
        }
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
