//! Worker slots: at any moment one thread acts as a worker. A body that waits hands its worker's
//! slot to a spare thread, so that no unrelated task runs on its stack. It gets the slot back after
//! the awaited event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::blocked::Blocked;
use super::worker::{STACK, work};
use crate::engine::transfer::Next;
use crate::engine::{Engine, WorkerSlot};
use crate::error::Error;
use crate::sync::Parker;
use crate::thread_start::start_thread;

/// Maximum number of spare threads of a runtime. It limits the bodies that wait at the same time,
/// each with a stack of its own.
pub(super) const MOST_SPARES: usize = 1024;

/// The slot of one worker.
#[derive(Default)]
pub(crate) struct ThreadSlot {
    /// Bodies that want it back, for the thread that has it.
    wanted: AtomicUsize,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    /// True if no thread acts as the worker any more, because the runtime ends.
    free: bool,
    /// Bodies whose awaited event has occurred. The latest, which are the innermost, go first.
    wanting: Vec<Arc<Blocked>>,
    /// Idle spare threads.
    spares: Vec<Arc<Spare>>,
}

/// A command to a spare thread.
enum SpareCommand {
    /// Acts as the worker and runs this task first.
    Act(Option<Next>),
    End,
}

/// A thread that has no slot.
struct Spare {
    command: Mutex<Option<SpareCommand>>,
    parker: Parker,
}

impl Spare {
    fn command(&self, command: SpareCommand) {
        *self.command.lock() = Some(command);
        self.parker.unpark();
    }
}

impl ThreadSlot {
    /// True if a body wants it back.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
    }
}

impl SlotState {
    /// Gives the slot to a body that wants it back.
    fn give_back(&mut self, wanted: &AtomicUsize) -> bool {
        let Some(blocked) = self.wanting.pop() else { return false };
        wanted.fetch_sub(1, Ordering::SeqCst);
        blocked.grant();
        true
    }
}

impl Engine {
    /// Returns an error if no further spare thread may be started for a body that is about to wait.
    pub(super) fn check_spares(&self, worker: usize) -> Result<(), Error> {
        let waiting = self.workers.spares.load(Ordering::Relaxed);
        if waiting < MOST_SPARES || !self.workers[worker].slot.state.lock().spares.is_empty() {
            return Ok(());
        }
        Err(Error::TooDeep { waiting })
    }

    /// Hands the role of `worker` from the calling thread, whose body waits, to another thread,
    /// which runs `next` first. Returns `next` if no thread is available.
    pub(super) fn hand_over(
        self: &Arc<Self>,
        worker: usize,
        blocked: &Blocked,
        next: Next,
    ) -> Result<(), Next> {
        let WorkerSlot { slot, running, .. } = &self.workers[worker];
        running.set_id(0);
        blocked.hands_over(true);
        let spare = slot.state.lock().spares.pop();
        match spare {
            Some(spare) => {
                spare.command(SpareCommand::Act(Some(next)));
                Ok(())
            }
            None => self.spawn_spare(worker, next).inspect_err(|_| blocked.hands_over(false)),
        }
    }

    /// Hands the role of `worker` to a body that has waited and wants the slot back; false if none
    /// does.
    pub(super) fn yield_slot(&self, worker: usize, blocked: &Blocked) -> bool {
        let slot = &self.workers[worker].slot;
        let mut state = slot.state.lock();
        if state.wanting.is_empty() {
            return false;
        }
        self.workers[worker].running.set_id(0);
        blocked.hands_over(true);
        state.give_back(&slot.wanted)
    }

    fn spawn_spare(self: &Arc<Self>, worker: usize, next: Next) -> Result<(), Next> {
        self.workers.spares.fetch_add(1, Ordering::Relaxed);
        self.workers.begin_thread();
        let engine = Arc::clone(self);
        // The closure is lost with a thread that cannot be started: its first task is handed over
        // separately.
        let first = Arc::new(Mutex::new(Some(next)));
        let given = Arc::clone(&first);
        let spawned = start_thread(format!("zellige-{worker}+"), STACK, move || {
            let first = given.lock().take();
            work(&engine, worker, first);
        });
        match spawned {
            Ok(thread) => {
                self.workers.spare_threads.lock().push(thread);
                Ok(())
            }
            Err(error) => {
                tracing::warn!("no spare thread can be started: {error}");
                self.workers.spares.fetch_sub(1, Ordering::Relaxed);
                self.end_thread(None);
                Err(first.lock().take().expect("no thread took it"))
            }
        }
    }

    /// Waits until the calling thread acts as `worker` again, after the event that its body waited
    /// for.
    pub(super) fn reclaim(&self, worker: usize, blocked: &Arc<Blocked>) {
        let slot = &self.workers[worker].slot;
        {
            let mut state = slot.state.lock();
            if std::mem::take(&mut state.free) {
                return;
            }
            state.wanting.push(Arc::clone(blocked));
            slot.wanted.fetch_add(1, Ordering::SeqCst);
        }
        // The thread that acts as the worker may sleep.
        self.workers.sleep.notify(worker);
        self.workers.sleep.rouse_all();
        while !blocked.is_granted() {
            blocked.park();
        }
    }

    /// Hands the role of `worker` from the calling thread, which runs nothing, to a body that wants
    /// it, and waits until the thread is to act again; `None`: it is to end.
    pub(super) fn step_aside(&self, worker: usize) -> Option<Option<Next>> {
        let slot = &self.workers[worker].slot;
        let spare = {
            let mut state = slot.state.lock();
            if !state.give_back(&slot.wanted) {
                return Some(None);
            }
            if self.workers.is_stopping() {
                return None;
            }
            let spare = Arc::new(Spare { command: Mutex::new(None), parker: Parker::new() });
            state.spares.push(Arc::clone(&spare));
            spare
        };
        loop {
            match spare.command.lock().take() {
                Some(SpareCommand::Act(next)) => return Some(next),
                Some(SpareCommand::End) => return None,
                None => {}
            }
            spare.parker.park();
        }
    }

    /// Ends the calling thread's role as `worker`, since the runtime stops.
    pub(super) fn leave_slot(&self, worker: usize) {
        let slot = &self.workers[worker].slot;
        let mut state = slot.state.lock();
        if !state.give_back(&slot.wanted) {
            state.free = true;
        }
        state.spares.drain(..).for_each(|spare| spare.command(SpareCommand::End));
    }

    /// The threads that were started as spares.
    pub(crate) fn take_spare_threads(&self) -> Vec<thread::JoinHandle<()>> {
        std::mem::take(&mut *self.workers.spare_threads.lock())
    }
}
