//! Notices when nothing moves, and says what waits for what.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::engine::Shared;
use crate::graph::Graph;
use crate::task::TaskRef;

/// Slots of the table of live tasks; a power of two, twice the default window.
const SLOTS: usize = 16384;

/// Tasks named in one message, at most.
const NAMED: usize = 8;

/// The tasks that wait, for the watchdog: by number modulo the size, so that entering one is a store. Where two tasks fall
/// on one slot the younger one is not listed: this is for messages, not for correctness.
pub(crate) struct LiveTasks {
    slots: Box<[Mutex<Option<TaskRef>>]>,
    /// Graphs that are being replayed, by the number of the first task: what a worker runs of them it notes by its number only,
    /// since headers of recorded tasks are cold memory.
    replays: Mutex<Vec<(u64, Graph)>>,
}

impl LiveTasks {
    pub(in crate::engine) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::new(None)).collect();
        LiveTasks { slots, replays: Mutex::default() }
    }

    fn slot(&self, id: u64) -> &Mutex<Option<TaskRef>> {
        &self.slots[id as usize & (SLOTS - 1)]
    }

    /// What the task with this number is, if it is one of a replay under way.
    fn of_replay(&self, id: u64) -> Option<String> {
        let replays = self.replays.lock();
        replays.iter().find_map(|(first, graph)| graph.title_of(id.checked_sub(*first)?))
    }

    pub(in crate::engine) fn insert(&self, task: &TaskRef) {
        let mut slot = self.slot(task.id()).lock();
        if slot.is_none() {
            *slot = Some(task.clone());
        }
    }

    pub(in crate::engine) fn remove(&self, id: u64) {
        let taken = {
            let mut slot = self.slot(id).lock();
            slot.take_if(|task| task.id() == id)
        };
        drop(taken);
    }

    fn oldest(&self) -> Vec<TaskRef> {
        let mut tasks: Vec<TaskRef> = self.slots.iter().filter_map(|slot| slot.lock().clone()).collect();
        tasks.sort_by_key(TaskRef::id);
        tasks
    }
}

impl Shared {
    /// A graph is being replayed; its tasks are numbered from `first`.
    pub(crate) fn replay_begins(&self, first: u64, graph: &Graph) {
        if let Some(live) = &self.live {
            live.replays.lock().push((first, graph.clone()));
        }
    }

    /// The replay whose tasks are numbered from `first` has ended.
    pub(crate) fn replay_ends(&self, first: u64) {
        if let Some(live) = &self.live {
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
        shared: Arc<Shared>,
        patience: Duration,
        report: impl Fn(String) + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("zellige-watchdog".into())
            .spawn(move || watch(&shared, patience, &seen, report))?;
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

fn watch(shared: &Shared, patience: Duration, stop: &(Mutex<bool>, Condvar), report: impl Fn(String)) {
    let mut last = (u64::MAX, Vec::new());
    let mut since = Instant::now();
    let mut reported = false;
    let mut stopped = stop.0.lock();
    while !*stopped {
        stop.1.wait_for(&mut stopped, patience / 4);
        let running: Vec<u64> = shared.workers.iter().map(|w| w.running.load(Ordering::Relaxed)).collect();
        let now = (shared.done(), running);
        if now != last || shared.in_flight() == 0 {
            (last, since, reported) = (now, Instant::now(), false);
        } else if !reported && since.elapsed() >= patience {
            report(describe(shared, since.elapsed()));
            reported = true;
        }
    }
}

/// Says what runs and what waits.
fn describe(shared: &Shared, stalled: Duration) -> String {
    let tasks = shared.live.as_ref().map(LiveTasks::oldest).unwrap_or_default();
    let running: Vec<u64> = shared.workers.iter().map(|w| w.running.load(Ordering::Relaxed)).collect();
    let title = |task: &TaskRef| format!("{} #{}", task.cell().header.title(), task.id());
    let mut busy = Vec::new();
    for (worker, &id) in running.iter().enumerate().filter(|(_, id)| **id != 0) {
        let submitted = || {
            let last = shared.workers[worker].last.lock();
            last.as_ref().map_or_else(String::new, |task| task.cell().header.title())
        };
        let replayed = shared.live.as_ref().and_then(|live| live.of_replay(id - 1));
        busy.push(format!("worker {worker} runs {} #{}", replayed.unwrap_or_else(submitted), id - 1));
    }
    let held_by = |task: &TaskRef| {
        let thread = task.cell().body.holder().unwrap_or_default();
        format!("{} (by thread {thread:?})", super::blocked::title(task.cell()))
    };
    let held: Vec<String> =
        tasks.iter().filter(|task| task.cell().is_gate_open()).take(NAMED).map(held_by).collect();
    let blocked = shared.describe_blocked();
    let waiting: Vec<String> = tasks
        .iter()
        .filter(|task| !running.contains(&(task.id() + 1)) && !task.cell().is_gate_open())
        .map(|task| format!("{} ({})", title(task), task.cell().waits_for()))
        .take(NAMED)
        .collect();
    let list = |what: &str, names: &[String]| {
        if names.is_empty() { String::new() } else { format!("; {what}: {}", names.join(", ")) }
    };
    let operands =
        shared.transfers.as_ref().map(crate::engine::transfer::TransferDriver::describe).unwrap_or_default();
    format!(
        "no task completed for {:.1} s with {} in flight under the policy {}{}{}{}{}{}",
        stalled.as_secs_f64(),
        shared.in_flight(),
        shared.policy_name(),
        list("running", &busy),
        list("blocked", &blocked),
        list("held by a guard", &held),
        list("waiting", &waiting),
        list("operands", &operands),
    )
}
