//! Detects stalls, and reports the waits and their causes.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::engine::Engine;
use crate::engine::graph::Graph;
use crate::error::format_coords;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence, pause};
use crate::task::{Header, Role, Task, TaskCell, TaskPtr};
use crate::thread_start::{SMALL_STACK, start_thread};

/// Slots of the table of waiting tasks; a power of two, twice the default window.
const SLOTS: usize = 16384;

/// Maximum number of tasks named in one message.
const NAMED: usize = 8;

/// A task whose body is irrelevant.
type AnyTask = TaskCell<()>;

/// One position of the table: the address of a waiting task, which is even, or one more while the
/// watchdog reads the task. A listed task has a reference to itself besides those that are
/// elsewhere.
struct TableEntry<T>(AtomicPtr<T>);

impl<T> TableEntry<T> {
    fn new() -> Self {
        TableEntry(AtomicPtr::new(ptr::null_mut()))
    }

    fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Lists a task in a free position; of two that arrive at the same time one is listed.
    fn enter(&self, task: *const T) {
        self.0.store(task.cast_mut(), Ordering::Release);
    }

    /// Removes the task, if it is listed; once this has returned nobody reads it.
    fn leave(&self, task: *const T) {
        let task = task.cast_mut();
        // The other of two simultaneous tasks may be listed.
        while unpinned(self.0.load(Ordering::Relaxed)) == task {
            let left =
                self.0.compare_exchange_weak(task, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
            if left.is_ok() {
                return;
            }
            // The watchdog reads the task and will soon be done.
            pause();
        }
    }

    /// Shows the listed task, if there is one: it stays until this returns.
    fn look<R>(&self, show: impl FnOnce(&T) -> R) -> Option<R> {
        let listed = self.0.load(Ordering::Relaxed);
        let task = NonNull::new(listed)?;
        let pinned = listed.map_addr(|address| address | 1);
        self.0.compare_exchange(listed, pinned, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // SAFETY: a listed task has a reference to itself until it is removed from the list, and
        // the removal waits while it is pinned. Its submitter has written it before it was listed
        // (Release).
        let shown = show(unsafe { task.as_ref() });
        self.0.store(listed, Ordering::Release);
        Some(shown)
    }
}

/// The address without the watchdog's mark.
#[inline]
fn unpinned<T>(listed: *mut T) -> *mut T {
    listed.map_addr(|address| address & !1)
}

/// The task that a worker runs, for messages. Only the worker writes it.
#[derive(Default)]
pub(crate) struct Running {
    /// The number of the task, plus one; 0 when it runs none.
    id: AtomicU64,
    /// Name and coordinates of the submitted task that began last. They are valid while the number
    /// is unchanged.
    name: AtomicPtr<u8>,
    name_len: AtomicU64,
    coords: [AtomicU32; 3],
}

impl Running {
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_id(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// Notes that the worker begins a submitted task.
    #[inline]
    pub(in crate::engine) fn begins(&self, header: &Header) {
        self.id.store(0, Ordering::Relaxed);
        // A reader that sees one of these sees that the number has changed.
        self.name.store(header.name.as_ptr().cast_mut(), Ordering::Release);
        self.name_len.store(header.name.len() as u64, Ordering::Release);
        for (place, coord) in self.coords.iter().zip(header.info.coords.unwrap_or([u32::MAX; 3])) {
            place.store(coord, Ordering::Release);
        }
        self.id.store(header.id + 1, Ordering::Release);
    }

    /// Returns the title of the task with this number, which the worker runs, unless it is
    /// changing.
    fn title(&self, id: u64) -> Option<String> {
        if self.id.load(Ordering::Acquire) != id + 1 {
            return None;
        }
        let (name, len) = (self.name.load(Ordering::Relaxed), self.name_len.load(Ordering::Relaxed));
        let coords = [0, 1, 2].map(|at: usize| self.coords[at].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if self.id.load(Ordering::Relaxed) != id + 1 || name.is_null() {
            return None;
        }
        // SAFETY: both are of one name, since the number has not changed between, and names are
        // kept until the process ends.
        let name = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(name, len as usize)) };
        Some(if coords == [u32::MAX; 3] { name.into() } else { format!("{name}[{}]", format_coords(coords)) })
    }
}

/// The waiting tasks, for the watchdog: by number modulo the size, so that entering one is a store.
/// If two tasks map to one slot, the younger one is not listed: this is for messages, not for
/// correctness.
pub(crate) struct LiveTasks {
    slots: Box<[TableEntry<AnyTask>]>,
    /// Gates and whole replays.
    others: Mutex<BTreeMap<u64, TaskPtr>>,
    /// Graphs that are being replayed, by the number of the first task. A worker notes tasks of a
    /// replay by number only, since headers of recorded tasks are cold memory.
    replays: Mutex<Vec<(u64, Graph)>>,
}

impl LiveTasks {
    pub(in crate::engine) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| TableEntry::new()).collect();
        LiveTasks { slots, others: Mutex::default(), replays: Mutex::default() }
    }

    fn place(&self, id: u64) -> &TableEntry<AnyTask> {
        &self.slots[id as usize & (SLOTS - 1)]
    }

    /// Returns the title of the task with this number, if it belongs to a replay in progress.
    fn of_replay(&self, id: u64) -> Option<String> {
        let replays = self.replays.lock();
        replays.iter().find_map(|(first, graph)| graph.title_of(id.checked_sub(*first)?))
    }

    /// Enters a task that has to wait, or a gate or replay, which is being linked. A task that is
    /// ready at once goes to its policy instead.
    #[inline(always)]
    pub(in crate::engine) fn insert(&self, task: &TaskPtr) {
        match task.role {
            Role::Work if task.had_to_wait() => {
                let place = self.place(task.header.id);
                if place.is_free() {
                    place.enter(Task::list(task));
                }
            }
            Role::Work => {}
            Role::Gate | Role::Replay => {
                drop(self.others.lock().insert(task.header.id, TaskPtr::clone(task)))
            }
        }
    }

    /// Takes out a task that is about to complete.
    #[inline]
    pub(in crate::engine) fn remove(&self, task: &TaskPtr) {
        let cell: &Task = task;
        match cell.role {
            Role::Work if cell.is_listed() => {
                self.place(cell.header.id).leave(ptr::from_ref(cell).cast());
                Task::unlist(task);
            }
            Role::Work => {}
            Role::Gate | Role::Replay => {
                let taken = self.others.lock().remove(&cell.header.id);
                // After the lock.
                drop(taken);
            }
        }
    }

    /// Returns open gates with a guard each, or gates and replays that wait, the oldest first.
    fn others(&self, open: bool) -> BTreeMap<u64, TaskPtr> {
        let others = self.others.lock();
        let which = others.iter().filter(|(_, task)| task.ticket.is_gate_open() == open);
        which.map(|(&id, task)| (id, TaskPtr::clone(task))).collect()
    }

    /// Describes the oldest waiting tasks except those with these numbers: title and number, and
    /// the event that each waits for.
    fn oldest(&self, apart_from: &[u64]) -> Vec<String> {
        let others = self.others(false);
        let listed = self.slots.iter().filter_map(|place| place.look(|task| task.header.id));
        let mut ids: Vec<u64> = listed.chain(others.keys().copied()).collect();
        ids.sort_unstable();
        let describe = |title: String, id: &u64, waits: String| format!("{title} #{id} ({waits})");
        let waits = |id: &u64| match others.get(id) {
            Some(other) => Some(describe(other.header.title(), id, other.waits_for())),
            None => self.place(*id).look(|task| {
                (task.header.id == *id).then(|| describe(task.header.title(), id, task.waits_for()))
            })?,
        };
        ids.iter().filter(|id| !apart_from.contains(id)).filter_map(waits).take(NAMED).collect()
    }
}

impl Engine {
    /// Notes that a task has been linked.
    #[inline(always)]
    pub(in crate::engine) fn remember(&self, task: &TaskPtr) {
        if let Some(live) = &self.waits.live {
            live.insert(task);
        }
    }

    /// Notes that a task is about to complete.
    pub(in crate::engine) fn forget(&self, task: &TaskPtr) {
        if let Some(live) = &self.waits.live {
            live.remove(task);
        }
    }

    /// Notes that a graph is being replayed; its tasks are numbered from `first`.
    pub(crate) fn replay_begins(&self, first: u64, graph: &Graph) {
        if let Some(live) = &self.waits.live {
            live.replays.lock().push((first, graph.clone()));
        }
    }

    /// Notes that the replay whose tasks are numbered from `first` has ended.
    pub(crate) fn replay_ends(&self, first: u64) {
        if let Some(live) = &self.waits.live {
            live.replays.lock().retain(|(number, _)| *number != first);
        }
    }
}

/// A thread that reports a stall: tasks in flight, and none completed for a while.
pub(crate) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `shared`; after `patience` without progress `report` is called, once per stall.
    pub(crate) fn spawn(
        engine: Arc<Engine>,
        patience: Duration,
        report: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&stop);
        let thread = start_thread("zellige-watchdog".into(), SMALL_STACK, move || {
            watch(&engine, patience, &seen, report);
        })?;
        Ok(Watchdog { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A watchdog that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

fn watch(engine: &Engine, patience: Duration, stop: &(Mutex<bool>, Condvar), report: impl Fn(String)) {
    let mut last = (u64::MAX, Vec::new());
    let mut since = Instant::now();
    let mut reported = false;
    let mut stopped = stop.0.lock();
    while !*stopped {
        stop.1.wait_for(&mut stopped, patience / 4);
        let running: Vec<u64> = engine.workers.iter().map(|worker| worker.running.id()).collect();
        let now = (engine.done(), running);
        if now != last || engine.in_flight() == 0 {
            (last, since, reported) = (now, Instant::now(), false);
        } else if !reported && since.elapsed() >= patience {
            report(describe(engine, since.elapsed()));
            reported = true;
        }
    }
}

/// Describes the running and the waiting tasks.
fn describe(engine: &Engine, stalled: Duration) -> String {
    let live = engine.waits.live.as_ref();
    let running: Vec<u64> = engine.workers.iter().map(|worker| worker.running.id()).collect();
    let mut busy = Vec::new();
    for (worker, id) in
        running.iter().enumerate().filter_map(|(worker, id)| Some((worker, id.checked_sub(1)?)))
    {
        let title =
            live.and_then(|live| live.of_replay(id)).or_else(|| engine.workers[worker].running.title(id));
        busy.push(format!("worker {worker} runs {} #{id}", title.unwrap_or_default()));
    }
    let held_by = |task: &TaskPtr| {
        let thread = task.body.holder().unwrap_or_default();
        format!("{} (by thread {thread:?})", super::blocked::title(task))
    };
    let held = live.map(|live| live.others(true)).unwrap_or_default();
    let held: Vec<String> = held.values().take(NAMED).map(held_by).collect();
    let blocked = engine.describe_blocked();
    let apart: Vec<u64> = running.iter().filter_map(|id| id.checked_sub(1)).collect();
    let waiting = live.map(|live| live.oldest(&apart)).unwrap_or_default();
    let list = |what: &str, names: &[String]| {
        if names.is_empty() { String::new() } else { format!("; {what}: {}", names.join(", ")) }
    };
    let operands =
        engine.transfers.as_ref().map(crate::engine::transfer::TransferDriver::describe).unwrap_or_default();
    format!(
        "no task completed for {:.1} s with {} in flight under the policy {}{}{}{}{}{}",
        stalled.as_secs_f64(),
        engine.in_flight(),
        engine.policy_name(),
        list("running", &busy),
        list("blocked", &blocked),
        list("held by a guard", &held),
        list("waiting", &waiting),
        list("operands", &operands),
    )
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use zellige_model::{CachedId, TaskInfo};

    use super::*;
    use crate::task::Implementations;

    /// A task that is no longer listed is not read.
    #[test]
    fn a_task_stays_while_it_is_looked_at() {
        loom::model(|| {
            let (place, task) = (Arc::new(TableEntry::new()), Arc::new(AtomicU32::new(1)));
            place.enter(Arc::as_ptr(&task));
            let watch = {
                let place = Arc::clone(&place);
                loom::thread::spawn(move || {
                    place.look(|task: &AtomicU32| assert_eq!(task.load(Ordering::Relaxed), 1));
                })
            };
            place.leave(Arc::as_ptr(&task));
            task.store(0, Ordering::Relaxed);
            watch.join().unwrap();
            assert!(place.is_free());
        });
    }

    /// The title that is read of a task is its own, whatever the worker begins meanwhile.
    #[test]
    fn a_title_is_of_one_task() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let running = Arc::new(Running::default());
            let header = |id, name| Header {
                id,
                runtime: 0,
                name,
                priority: 0,
                info: TaskInfo::default(),
                only: None,
                implementations: Implementations::default(),
                model: CachedId::default(),
                tally: None,
            };
            running.begins(&header(1, "long name"));
            let watch = {
                let running = Arc::clone(&running);
                loom::thread::spawn(move || {
                    for (id, name) in [(1, "long name"), (2, "short")] {
                        let title = running.title(id);
                        assert!(title.as_deref().is_none_or(|title| title == name), "{id}: {title:?}");
                    }
                })
            };
            running.set_id(0);
            running.begins(&header(2, "short"));
            watch.join().unwrap();
        });
    }
}
