//! The life of a task, from its submission to its end, and the driver that runs tasks on threads.
//! See `README.md`.

mod counters;
mod end;
mod event;
mod failures;
pub(crate) mod graph;
mod guard;
mod hold;
mod job;
mod life;
mod offer;
mod placement;
mod policy;
mod ready;
mod run;
mod services;
mod simulated;
mod submit;
mod threads;
pub(crate) mod transfer;
mod view;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use zellige_model::Models;

use counters::Counters;
pub(crate) use end::Ready;
pub use event::Event;
pub(crate) use event::{gate, when_done};
use failures::Failures;
use graph::DeviceGraphs;
pub(crate) use guard::{Gate, forget};
pub use guard::{ReadGuard, WriteGuard};
pub use hold::Hold;
pub(crate) use job::{Job, Notified};
pub use offer::Offer;
pub use policy::World;
pub use policy::{PerNode, Policy, SchedView, Wake};
pub(crate) use submit::{Retired, check_access, check_aliases, sort_by_handle};
pub(crate) use threads::current::on_device;
pub(crate) use threads::{DEFAULT_WINDOW, Target, WaitKind, Watchdog, Window, spawn_workers};
use threads::{Waits, current};
use transfer::TransferDriver;
pub(crate) use workers::WorkerSlot;
use workers::Workers;

use crate::clock::Clock;
use crate::device::Events;
use crate::subnormals::Subnormals;
use crate::task::LostTasks;
use crate::trace_recorder::TraceRecorder;

/// The parts of a runtime that its builder determines.
pub(crate) struct Parts {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) workers: Vec<WorkerSlot>,
    pub(crate) window: Window,
    pub(crate) recorder: Option<TraceRecorder>,
    pub(crate) models: Option<Arc<Models>>,
    pub(crate) transfers: Option<TransferDriver>,
    pub(crate) settings: Settings,
    pub(crate) watched: bool,
    /// Number of workers, counted from the first, that stay on their cores.
    pub(crate) bound: usize,
    /// There are more workers than cores.
    pub(crate) oversubscribed: bool,
    pub(crate) time: Time,
}

/// Settings of a runtime that do not change.
pub(crate) struct Settings {
    /// True if tasks that a GPU can run are left to GPUs.
    pub(crate) gpu_only: bool,
    /// Controls launches of whole replays on a GPU.
    pub(crate) device_graphs: DeviceGraphs,
    /// Treatment of subnormal numbers in all bodies; `None`: each codelet decides.
    pub(crate) subnormals: Option<Subnormals>,
}

/// The clock of a runtime.
pub(crate) struct Time {
    pub(crate) clock: Arc<Clock>,
    /// Operations in progress, if one thread does everything in simulated time.
    pub(crate) events: Option<Arc<Events>>,
}

/// The scheduling policy; `life.rs` calls it.
struct Scheduler {
    policy: Box<dyn Policy>,
    /// True if the policy is notified when tasks begin and end.
    follows: bool,
    /// Tasks that the policy dropped, and tasks that no worker can run.
    lost: Arc<LostTasks>,
}

/// One runtime: its parts, each of which has a file of its own.
pub(crate) struct Engine {
    /// Number of the runtime: it distinguishes the tasks of several runtimes in one process.
    pub(crate) id: u32,
    scheduler: Scheduler,
    pub(crate) counters: Counters,
    pub(crate) failures: Failures,
    pub(crate) waits: Waits,
    pub(crate) workers: Workers,
    /// Transfer driver, if there are devices with memory of their own.
    pub(crate) transfers: Option<TransferDriver>,
    pub(crate) settings: Settings,
    /// The trace and the performance models.
    pub(crate) recorder: Option<TraceRecorder>,
    pub(crate) models: Option<Arc<Models>>,
    pub(crate) time: Time,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Engine {
            id,
            scheduler: Scheduler {
                follows: parts.policy.follows(),
                policy: parts.policy,
                lost: LostTasks::of_runtime(id),
            },
            counters: Counters::new(),
            failures: Failures::default(),
            waits: Waits::new(parts.window, parts.watched),
            workers: Workers::new(parts.workers, parts.bound, parts.oversubscribed),
            transfers: parts.transfers,
            settings: parts.settings,
            recorder: parts.recorder,
            models: parts.models,
            time: parts.time,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.time.clock.elapsed()
    }

    /// Returns the time at which the runtime started: the zero of its traces.
    pub(crate) fn started(&self) -> Instant {
        self.time.clock.started()
    }

    /// Returns the treatment of subnormal numbers in a body whose codelet requests `of_codelet`.
    #[inline]
    pub(crate) fn subnormals(&self, of_codelet: Option<Subnormals>) -> Subnormals {
        self.settings.subnormals.or(of_codelet).unwrap_or_default()
    }

    /// Returns the number of tasks that have completed.
    pub(crate) fn done(&self) -> u64 {
        self.workers.done() + self.counters.done_outside()
    }

    /// Returns the number of tasks accepted and not complete. It is never too small while the
    /// caller's own submissions are in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.counters.in_flight(self.done())
    }

    /// Notes that a worker thread ends; `killed` is the message of a panic outside of any body.
    fn end_thread(&self, killed: Option<String>) {
        if let Some(message) = killed {
            self.set_broken(message);
        }
        self.workers.end_thread();
        self.wake_all_blocked();
    }

    /// Notes a panic outside of any body: queued tasks may never run.
    pub(crate) fn set_broken(&self, message: String) {
        self.failures.set_broken(message);
        self.workers.stop();
        self.wake_all_blocked();
    }

    /// Notes that all tasks are complete and all workers have ended: other runtimes may use this
    /// one's handles.
    pub(crate) fn end(&self) {
        LostTasks::end(self.id);
    }

    /// Cancels all tasks that have been submitted and have not started.
    pub(crate) fn cancel_all(&self) {
        self.counters.cancel_all();
        // Waiting bodies are notified.
        self.wake_all_blocked();
    }

    /// Counts a task that was completed by a thread that is no worker.
    fn count_outside(&self) {
        self.counters.complete_outside();
        self.wake_if_window_has_room();
        self.wake_if_all_done();
    }

    /// Wakes the threads that wait for all tasks, if all are done. Called by a worker that finds no
    /// work, and by a thread that completes a task elsewhere.
    fn wake_if_all_done(&self) {
        if self.waits.is_any_for_all() && self.in_flight() == 0 {
            self.wake_other_waiters();
        }
        self.wake_if_window_has_room();
    }

    /// Called after each completion: wakes submitters once the window is half empty.
    fn wake_if_window_has_room(&self) {
        if self.waits.is_any_for_room() && self.in_flight() <= (self.waits.window.size() / 2) as u64 {
            self.wake_other_waiters();
        }
    }

    /// True on a worker of this runtime.
    pub(crate) fn is_own_worker(&self) -> bool {
        current::worker_of(self).is_some()
    }
}
