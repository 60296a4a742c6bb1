//! Blocked threads: wake-up, and detection of a cycle of waits.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::current;
use crate::engine::{Engine, Job};
use crate::error::Error;
use crate::operand::Mode;
use crate::sync::{AtomicU32, Ordering, Parker, fence};
use crate::task::{Accesses, ReplaySlot, Role, Successor, Tally, Task, TaskPtr, TaskRef};

/// The event that a thread waits for.
#[derive(Clone)]
pub(crate) enum Target {
    /// The end of a task.
    Task(TaskRef),
    /// The opening of a gate.
    Gate(TaskPtr),
    /// The end of all tasks of a group, or of all that a body has submitted.
    Tally(Arc<Tally>),
    /// The end of all tasks.
    AllTasks,
    /// Room in the window.
    Window,
    /// The end of all views that bodies have of the borrowed slice with this handle.
    Lent(u64),
    /// An event that no task stands for, in words.
    Other(&'static str),
}

impl Target {
    /// True if it cannot be reached before `task` has completed.
    fn is_behind(&self, task: &Task) -> bool {
        match self {
            Target::Task(_) | Target::Gate(_) => self.is_task(&task.ticket),
            Target::Tally(tally) => task.header.tally.as_ref().is_some_and(|own| own.counts_in(tally)),
            Target::AllTasks => task.role != Role::Gate,
            Target::Lent(handle) => accesses(task, *handle),
            Target::Window | Target::Other(_) => false,
        }
    }

    /// The task whose end it is, or the gate.
    pub(super) fn task(&self) -> Option<&TaskRef> {
        match self {
            Target::Task(task) => Some(task),
            Target::Gate(gate) => Some(&gate.ticket),
            _ => None,
        }
    }

    /// True if it is the end of this task, or this gate.
    fn is_task(&self, task: &TaskRef) -> bool {
        self.task().is_some_and(|target| target.is(task))
    }

    /// Describes the event in words.
    pub(in crate::engine) fn describe(&self) -> String {
        match self {
            Target::Task(task) => task.title(),
            Target::Gate(gate) => title(gate),
            Target::Tally(_) => "a group of tasks".into(),
            Target::AllTasks => "all tasks".into(),
            Target::Window => "room in the window of tasks in flight".into(),
            Target::Lent(handle) => format!("the views of handle #{handle}"),
            Target::Other(what) => (*what).into(),
        }
    }
}

/// True if both are the same task. Only addresses are compared, since two vtables may stand for one
/// type.
fn is_same(a: *const Task, b: *const Task) -> bool {
    std::ptr::addr_eq(a, b)
}

/// Whether a wait can end early, by a cancellation or to resolve a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    Interruptible,
    /// For borrowed memory that is given back afterwards: the wait is not cancelled, and a cycle
    /// ends another thread's wait if possible.
    Uninterruptible,
}

/// True if the task names the handle with this number.
fn accesses(task: &Task, handle: u64) -> bool {
    let mut accesses = Accesses::new();
    task.body.declare(&mut accesses);
    accesses.iter().any(|access| access.base.id == handle)
}

/// Returns a task's name; for a gate, the action of the thread behind it and the handle.
pub(in crate::engine) fn title(task: &Task) -> String {
    match task.role {
        Role::Gate => format!("{} of {}", task.header.name, task.body.operand_names().join(", ")),
        _ => format!("{} #{}", task.header.title(), task.header.id),
    }
}

/// One blocked thread.
pub(crate) struct Blocked {
    target: Target,
    kind: WaitKind,
    /// The tasks whose bodies are on the thread's stack, outermost first.
    stack: SmallVec<[TaskPtr; 2]>,
    /// The gates of the guards that the thread holds.
    guards: SmallVec<[TaskPtr; 2]>,
    /// The worker as which it runs a body, and whether it still acts as that worker.
    worker: Option<usize>,
    acts: AtomicBool,
    /// True once it may act as its worker again.
    granted: AtomicBool,
    parker: Parker,
    /// The steps of the cycle of waits that contains it.
    deadlock: OnceLock<Vec<String>>,
    thread: String,
}

impl Blocked {
    /// Creates an entry for the calling thread.
    fn new(engine: &Engine, target: Target, kind: WaitKind) -> Self {
        Blocked {
            target,
            kind,
            stack: current::stack(engine),
            guards: current::guards(engine),
            worker: current::worker_of(engine),
            acts: AtomicBool::new(true),
            granted: AtomicBool::new(false),
            parker: Parker::new(),
            deadlock: OnceLock::new(),
            thread: std::thread::current().name().unwrap_or("unnamed thread").into(),
        }
    }

    /// True if others may wait for the thread: it runs bodies or holds guards.
    fn is_waited_for(&self) -> bool {
        !self.stack.is_empty() || !self.guards.is_empty()
    }

    /// Returns the tasks and gates that cannot complete before the thread goes on.
    fn holds(&self) -> impl Iterator<Item = &TaskPtr> {
        self.stack.iter().chain(&self.guards)
    }

    /// True if its wait is about to end before the awaited event.
    fn gives_up(&self, engine: &Engine) -> bool {
        let cancelled = || self.stack.last().is_some_and(|task| engine.counters.is_cancelled(task.header.id));
        self.deadlock.get().is_some() || (self.kind == WaitKind::Interruptible && cancelled())
    }

    /// Returns its name for error messages.
    fn name(&self) -> String {
        match (self.stack.last(), self.guards.last()) {
            (Some(task), _) => format!("the body of {}", title(task)),
            (None, Some(guard)) => {
                format!("thread {:?}, which holds the guard of {},", self.thread, title(guard))
            }
            (None, None) => format!("thread {:?}", self.thread),
        }
    }

    /// Describes the thread for the watchdog.
    fn describe(&self) -> String {
        let titles = |tasks: &mut dyn Iterator<Item = &TaskPtr>| {
            tasks.map(|task| title(task)).collect::<Vec<_>>().join(" > ")
        };
        let mut text = format!("thread {:?}", self.thread);
        if !self.stack.is_empty() {
            text += &format!(" in {}", titles(&mut self.stack.iter()));
        }
        if !self.guards.is_empty() {
            text += &format!(" holding the guard of {}", titles(&mut self.guards.iter()));
        }
        text + " waits for " + &self.target.describe()
    }

    fn wake(&self, engine: &Engine) {
        self.parker.unpark();
        if let Some(worker) = self.worker.filter(|_| self.acts.load(Ordering::SeqCst)) {
            engine.workers.sleep.notify(worker);
        }
    }

    /// Waits until it is woken.
    pub(in crate::engine) fn park(&self) {
        self.parker.park();
    }

    /// Notes whether another thread acts as its worker from now on.
    pub(super) fn hands_over(&self, away: bool) {
        self.acts.store(!away, Ordering::SeqCst);
    }

    /// True if its wait is never given up.
    pub(super) fn is_uninterruptible(&self) -> bool {
        self.kind == WaitKind::Uninterruptible
    }

    /// True if it acts as its worker again.
    pub(super) fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Acquire)
    }

    pub(super) fn grant(&self) {
        self.granted.store(true, Ordering::Release);
        self.parker.unpark();
    }

    /// Returns the error of a wait that would never end.
    pub(in crate::engine) fn check(&self) -> Result<(), Error> {
        match self.deadlock.get() {
            None => Ok(()),
            Some(cycle) => Err(Error::Deadlock { what: self.name(), cycle: cycle.clone() }),
        }
    }
}

/// Number of blocked threads. A thread that is about to block is counted before it checks its
/// condition once more, and a thread that makes the condition true reads the count afterwards. So
/// one of the two sees the other.
struct Count(AtomicU32);

impl Count {
    fn set(&self, count: usize) {
        self.0.store(count as u32, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    fn is_zero(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// All blocked threads of a runtime.
pub(crate) struct BlockedThreads {
    count: Count,
    list: Mutex<Vec<Arc<Blocked>>>,
}

impl BlockedThreads {
    pub(in crate::engine) fn new() -> Self {
        BlockedThreads { count: Count(AtomicU32::new(0)), list: Mutex::default() }
    }
}

/// The calling thread's entry among them, until this is dropped.
pub(crate) struct BlockedEntry<'s> {
    engine: &'s Engine,
    pub(in crate::engine) blocked: Arc<Blocked>,
}

impl Drop for BlockedEntry<'_> {
    fn drop(&mut self) {
        let mut list = self.engine.waits.blocked.list.lock();
        list.retain(|other| !Arc::ptr_eq(other, &self.blocked));
        self.engine.waits.blocked.count.set(list.len());
    }
}

/// Result of a search for a cycle.
struct Cycle {
    /// One sentence for each step.
    steps: Vec<String>,
    /// Another blocked thread of the cycle.
    other: Option<Arc<Blocked>>,
}

impl Engine {
    /// Enters the calling thread among those that are blocked. A thread that makes its condition
    /// true afterwards wakes it, so it checks once more before it parks.
    pub(super) fn enter_blocked(&self, target: Target, kind: WaitKind) -> BlockedEntry<'_> {
        let blocked = Arc::new(Blocked::new(self, target, kind));
        let mut list = self.waits.blocked.list.lock();
        list.push(Arc::clone(&blocked));
        self.waits.blocked.count.set(list.len());
        drop(list);
        BlockedEntry { engine: self, blocked }
    }

    /// Calls `change` while no thread searches for a cycle of waits.
    pub(in crate::engine) fn while_nobody_searches(&self, change: impl FnOnce()) {
        let _list = self.waits.blocked.list.lock();
        change();
    }

    fn wake_blocked(&self, which: impl Fn(&Blocked) -> bool) {
        if self.waits.blocked.count.is_zero() {
            return;
        }
        // Woken after the lock: they take it next.
        let woken: SmallVec<[Arc<Blocked>; 4]> =
            self.waits.blocked.list.lock().iter().filter(|blocked| which(blocked)).cloned().collect();
        woken.iter().for_each(|blocked| blocked.wake(self));
    }

    /// Wakes the threads that wait for `task`, which has completed or is a gate that has opened.
    pub(in crate::engine) fn wake_waiters_of(&self, task: &TaskRef) {
        self.wake_blocked(|blocked| blocked.target.is_task(task));
    }

    /// Wakes the threads that wait for all tasks of `tally`, which have completed.
    pub(crate) fn wake_waiters_of_group(&self, tally: &Arc<Tally>) {
        self.wake_blocked(
            |blocked| matches!(&blocked.target, Target::Tally(target) if Arc::ptr_eq(target, tally)),
        );
    }

    /// Wakes the threads that wait for anything else than the end of a task or of a group.
    pub(crate) fn wake_other_waiters(&self) {
        self.wake_blocked(|blocked| {
            blocked.target.task().is_none() && !matches!(blocked.target, Target::Tally(_))
        });
    }

    /// Wakes all blocked threads, whose events may never occur.
    pub(in crate::engine) fn wake_all_blocked(&self) {
        self.wake_blocked(|_| true);
    }

    /// Returns an error if the calling thread, which is `blocked`, closes a cycle of waits, unless
    /// the wait of another thread is ended instead.
    pub(super) fn refuse_cycle(&self, blocked: &Arc<Blocked>) -> Result<(), Error> {
        if !blocked.is_waited_for() {
            return Ok(());
        }
        let ended = self.end_cycle(&self.waits.blocked.list.lock(), blocked);
        if let Some(other) = ended.filter(|ended| !Arc::ptr_eq(ended, blocked)) {
            other.wake(self);
        }
        blocked.check()
    }

    /// Looks for a cycle among all blocked threads, and ends the wait of one thread in it. Called
    /// when all workers have gone to sleep: a commuting task that found its handle taken closes a
    /// cycle without a wait.
    pub(super) fn resolve_deadlock(&self) {
        if self.waits.blocked.count.is_zero() {
            return;
        }
        let list = self.waits.blocked.list.lock();
        let ended = list.iter().find_map(|blocked| self.end_cycle(&list, blocked));
        drop(list);
        if let Some(ended) = ended {
            ended.wake(self);
        }
    }

    /// Ends the wait of one thread in the cycle of waits that contains `blocked`, and returns that
    /// thread. `list` is locked by the caller until the thread is marked: otherwise a second search
    /// would end the wait of another thread in the same cycle.
    fn end_cycle(&self, list: &[Arc<Blocked>], blocked: &Arc<Blocked>) -> Option<Arc<Blocked>> {
        if !blocked.is_waited_for() || blocked.gives_up(self) {
            return None;
        }
        let cycle = Walk::new(self, list).find(blocked)?;
        let victim = cycle.victim(blocked);
        let marked = victim.deadlock.set(cycle.steps);
        debug_assert!(marked.is_ok(), "a search goes past threads whose wait has ended");
        Some(victim)
    }

    /// Describes the wait of each blocked thread.
    pub(super) fn describe_blocked(&self) -> Vec<String> {
        self.waits.blocked.list.lock().iter().map(|blocked| blocked.describe()).collect()
    }
}

impl Cycle {
    /// Returns the thread whose wait is to end, if `blocked` closed the cycle.
    fn victim(&self, blocked: &Arc<Blocked>) -> Arc<Blocked> {
        let other = self.other.as_ref().filter(|other| {
            blocked.kind == WaitKind::Uninterruptible && other.kind == WaitKind::Interruptible
        });
        Arc::clone(other.unwrap_or(blocked))
    }
}

/// The step by which a search reached a task.
#[derive(Clone, Copy)]
enum Via<'l> {
    /// The thread whose wait is examined holds it.
    Start,
    /// It runs after this one.
    After(*const Task),
    /// It commutes with this one, whose turn it is.
    Turn(*const Task),
    /// This thread holds it and waits for that task.
    Wait(&'l Arc<Blocked>, *const Task),
}

/// A search through all tasks that cannot complete before a blocked thread goes on.
///
/// Every task that it meets is incomplete and stays so while the list of blocked threads is locked.
/// The task is either held by one of those threads, which leave the list before they go on, or
/// comes after such a task.
struct Walk<'l> {
    engine: &'l Engine,
    list: &'l [Arc<Blocked>],
    /// The tasks met, by address.
    met: HashMap<*const (), Via<'l>>,
    queue: Vec<*const Task>,
}

impl<'l> Walk<'l> {
    fn new(engine: &'l Engine, list: &'l [Arc<Blocked>]) -> Self {
        Walk { engine, list, met: HashMap::new(), queue: Vec::new() }
    }

    fn meet(&mut self, task: *const Task, via: Via<'l>) {
        self.met.entry(task.cast()).or_insert_with(|| {
            self.queue.push(task);
            via
        });
    }

    fn find(mut self, blocked: &Blocked) -> Option<Cycle> {
        blocked.holds().for_each(|task| self.meet(TaskPtr::as_ptr(task), Via::Start));
        while let Some(at) = self.queue.pop() {
            // SAFETY: see the type.
            let task = unsafe { &*at };
            if blocked.target.is_behind(task) && !task.ticket.is_gate_open() {
                return Some(self.path(blocked, at));
            }
            self.go_on_from(blocked, at, task);
        }
        None
    }

    fn go_on_from(&mut self, asking: &Blocked, at: *const Task, task: &Task) {
        for blocked in self.list {
            let waits = !std::ptr::eq(&**blocked, asking) && blocked.target.is_behind(task);
            if waits && !blocked.gives_up(self.engine) {
                blocked.holds().for_each(|held| self.meet(TaskPtr::as_ptr(held), Via::Wait(blocked, at)));
            }
        }
        // A replay stands for its slots.
        let mut meet = |after| match after {
            Successor::Task(task) => self.meet(task, Via::After(at)),
            Successor::Slot(slot) => {
                // SAFETY: see the type: what comes after such a task is not complete.
                let replay = unsafe { ReplaySlot::whole(slot) };
                self.meet(TaskPtr::as_ptr(replay), Via::After(at));
            }
        };
        // SAFETY: see the type.
        unsafe { task.each_after(&mut meet) };
        task.body.each_after(&mut meet);
        if self.list.iter().any(|blocked| blocked.stack.iter().any(|held| is_same(TaskPtr::as_ptr(held), at)))
        {
            self.meet_parked(at, task);
        }
    }

    /// Visits the tasks that are parked while the body of `task`, which is blocked, has its turn.
    fn meet_parked(&mut self, at: *const Task, task: &Task) {
        let mut accesses = Accesses::new();
        task.body.declare(&mut accesses);
        for access in accesses.iter().filter(|access| access.mode == Mode::Commute) {
            access
                .base
                .each_parked(|parked| self.meet(TaskPtr::as_ptr(parked.work().stands_for()), Via::Turn(at)));
        }
    }

    /// Returns the steps from the blocked thread to the task that it waits for, which is `last`.
    fn path(&self, blocked: &Blocked, last: *const Task) -> Cycle {
        // SAFETY: see the type.
        let name = |task: *const Task| title(unsafe { &*task });
        let (mut steps, mut other, mut at) = (Vec::new(), None, last);
        loop {
            match self.met[&at.cast()] {
                Via::Start => break,
                Via::After(before) => {
                    steps.push(format!("{} comes after {}", name(at), name(before)));
                    at = before;
                }
                Via::Turn(before) => {
                    steps.push(format!("{} commutes with {}", name(at), name(before)));
                    at = before;
                }
                Via::Wait(waiting, before) => {
                    steps.push(format!("{} waits for {}", waiting.name(), waiting.target.describe()));
                    other = Some(Arc::clone(waiting));
                    at = before;
                }
            }
        }
        steps.push(format!("{} waits for {}", blocked.name(), blocked.target.describe()));
        steps.reverse();
        Cycle { steps, other }
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;

    use super::*;
    use crate::engine::threads::sleep::Sleep;
    use crate::sync::Mutex;

    /// A thread that is about to block sees that its event has occurred, or is woken.
    #[test]
    fn a_blocked_thread_sees_it_or_is_woken() {
        loom::model(|| {
            let count = Arc::new(Count(AtomicU32::new(0)));
            let (done, parker) = (Arc::new(AtomicU32::new(0)), Arc::new(Parker::new()));
            let finisher = {
                let (count, done, parker) = (Arc::clone(&count), Arc::clone(&done), Arc::clone(&parker));
                loom::thread::spawn(move || {
                    done.store(1, Ordering::Release);
                    if !count.is_zero() {
                        parker.unpark();
                    }
                })
            };
            count.set(1);
            while done.load(Ordering::Acquire) == 0 {
                parker.park();
            }
            count.set(0);
            finisher.join().unwrap();
        });
    }

    /// A body that wants its worker's slot back is seen by the thread that acts as the worker, even
    /// if that thread falls asleep.
    #[test]
    fn a_slot_that_is_wanted_is_given_back() {
        loom::model(|| {
            let (sleep, wanted) = (Arc::new(Sleep::new(1)), Arc::new(AtomicU32::new(0)));
            let granted = Arc::new(Parker::new());
            let acting = {
                let (sleep, wanted, granted) =
                    (Arc::clone(&sleep), Arc::clone(&wanted), Arc::clone(&granted));
                let is_wanted = move || wanted.load(Ordering::SeqCst) > 0;
                loom::thread::spawn(move || {
                    sleep.begin_search();
                    loop {
                        if is_wanted() {
                            sleep.end_search();
                            break;
                        }
                        sleep.announce(0);
                        if is_wanted() {
                            sleep.stay_awake(0);
                            break;
                        }
                        sleep.sleep(0);
                    }
                    granted.unpark();
                })
            };
            wanted.fetch_add(1, Ordering::SeqCst);
            sleep.notify(0);
            granted.park();
            acting.join().unwrap();
        });
    }

    /// Two threads close a cycle by waiting for each other. Each enters the list before it looks,
    /// and is marked before the next one looks, so the wait of exactly one of them ends.
    #[test]
    fn one_of_two_crossed_waits_sees_the_cycle() {
        loom::model(|| {
            let list = Arc::new(Mutex::new(Vec::new()));
            let wait = |list: &Mutex<Vec<(u32, bool)>>, me: u32| {
                list.lock().push((me, false));
                let mut list = list.lock();
                let ends = list.iter().any(|&(thread, ended)| thread != me && !ended);
                list.iter_mut().filter(|(thread, _)| *thread == me).for_each(|own| own.1 = ends);
                ends
            };
            let there = Arc::clone(&list);
            let other = loom::thread::spawn(move || wait(&there, 1));
            let mine = wait(&list, 2);
            assert!(mine ^ other.join().unwrap());
        });
    }
}
