//! Waiting: for a task, for everything, for room, for a gate. A worker that waits runs other tasks meanwhile.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::{Shared, current};
use crate::error::Error;
use crate::task::{TaskRef, WorkerLocal};

/// Tasks that a waiting worker runs inside one another, at most, as long as others make progress; deeper, it submits beyond
/// the window rather than recurse, and a wait recurses only when nothing completes any more.
const MAX_NESTING: usize = 64;

/// Tasks that wait inside one another, at most: what a worker's stack has room for (see `worker::STACK`).
pub(super) const DEEPEST: usize = 4096;

/// A helper that finds nothing to run looks again after this time.
const HELPER_NAP: Duration = Duration::from_micros(200);

impl Shared {
    /// Waits until `task` is complete.
    pub(crate) fn wait(self: &Arc<Self>, task: &TaskRef) -> Result<(), Error> {
        if !task.belongs_to(self.id) {
            return Err(Error::Foreign { what: format!("task {}", task.name()) });
        }
        if current::runs(task.cell()) {
            return Err(Error::SelfWait { what: format!("waiting for {}", task.name()) });
        }
        if !task.cell().mark_waited() {
            self.wait_until(|| task.is_done())?;
        }
        match task.cell().failure() {
            Some(failure) => Err(Error::Failed(Arc::clone(failure))),
            None => Ok(()),
        }
    }

    /// Waits until the gate opens.
    pub(crate) fn wait_for_gate(self: &Arc<Self>, gate: &TaskRef) -> Result<(), Error> {
        if gate.cell().is_gate_open() { Ok(()) } else { self.wait_until(|| gate.cell().is_gate_open()) }
    }

    /// After a worker has died: waits until no body runs any more.
    pub(crate) fn wait_for_workers_to_end(&self) {
        if current::worker_of(self).is_some() {
            // It would wait for itself, and borrowed memory must not be given back before.
            tracing::error!("a worker died while another held borrowed slices in a scope");
            std::process::abort();
        }
        let mut signal = self.signal.lock();
        while !self.is_dead() {
            self.changed.wait(&mut signal);
        }
    }

    /// Waits until nothing is in flight.
    pub(crate) fn wait_for_all(self: &Arc<Self>) -> Result<(), Error> {
        if current::runs_any_of(self.id) {
            return Err(Error::SelfWait { what: "waiting for all tasks inside a task".into() });
        }
        self.waiting_for_all.fetch_add(1, Ordering::SeqCst);
        // A worker counts its task, then looks for waiters; this thread is seen, or sees the count.
        fence(Ordering::SeqCst);
        let waited = self.wait_until(|| self.in_flight() == 0);
        self.waiting_for_all.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    /// Waits, before a submission, until the window has room.
    pub(super) fn wait_for_room(self: &Arc<Self>) -> Result<(), Error> {
        let room = self.submitted.load(Ordering::Relaxed) < self.unchecked_until.load(Ordering::Relaxed);
        // A body that cannot wait submits beyond the window.
        if room || current::cannot_wait(self).is_some() {
            return Ok(());
        }
        self.wait_for_room_slowly()
    }

    #[cold]
    fn wait_for_room_slowly(self: &Arc<Self>) -> Result<(), Error> {
        self.check_broken()?;
        let full = || self.in_flight() >= self.window.size() as u64;
        if full() {
            match current::worker_of(self) {
                Some(worker) => {
                    let _paused = self.pause(worker);
                    self.help(worker, || !full());
                }
                None => {
                    self.waiting_for_room.fetch_add(1, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                    let waited = self.wait_until(|| self.in_flight() <= (self.window.size() / 2) as u64);
                    self.waiting_for_room.fetch_sub(1, Ordering::SeqCst);
                    waited?;
                }
            }
        }
        let room = (self.window.size() as u64).saturating_sub(self.in_flight());
        // A quarter at most: several threads may be submitting against the same count.
        let until = self.submitted.load(Ordering::Relaxed) + (room / 4).max(1);
        self.unchecked_until.store(until, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn wait_until(self: &Arc<Self>, done: impl Fn() -> bool) -> Result<(), Error> {
        if let Some(what) = current::cannot_wait(self)
            && !done()
        {
            return Err(Error::SelfWait { what: what.into() });
        }
        if let Some(worker) = current::worker_of(self) {
            let _paused = if done() { None } else { self.pause(worker) };
            let mut completed = self.done();
            while !self.help(worker, &done) {
                self.check_broken()?;
                self.napping.fetch_add(1, Ordering::Relaxed);
                self.changed.wait_for(&mut self.signal.lock(), HELPER_NAP);
                let napping = self.napping.fetch_sub(1, Ordering::Relaxed);
                let now = self.done();
                // As long as somebody runs a body that does not wait, there is hope without going deeper.
                let stuck = napping + self.sleep.asleep() >= self.workers.len();
                if stuck && now == completed && !done() {
                    if current::nesting() >= DEEPEST {
                        return Err(Error::TooDeep { waiting: DEEPEST });
                    }
                    // Perhaps every worker waits at the limit, and what they wait for is in the queue: then somebody has to
                    // go deeper, one task at a time.
                    self.help_once(worker);
                }
                completed = now;
            }
            return Ok(());
        }
        self.sleep.rouse_all();
        let mut signal = self.signal.lock();
        while !done() {
            self.check_broken()?;
            self.changed.wait(&mut signal);
        }
        Ok(())
    }

    /// Runs one task on `worker`, if there is one, however deep it waits already.
    fn help_once(self: &Arc<Self>, worker: usize) {
        if let Some(next) = self.next(worker) {
            self.execute(next, worker, &mut WorkerLocal::default());
            self.sleep.notify_any();
        }
    }

    /// Runs other tasks on `worker` until `done`; false if there is nothing to run, or the nesting is too deep.
    fn help(self: &Arc<Self>, worker: usize, done: impl Fn() -> bool) -> bool {
        let mut local = WorkerLocal::default();
        while !done() {
            if current::nesting() >= MAX_NESTING {
                return false;
            }
            match self.next(worker) {
                Some(next) => self.execute(next, worker, &mut local),
                None => return false,
            }
        }
        // The last task may have released one that `execute` left to this worker, which now has other things to do.
        self.sleep.notify_any();
        true
    }
}
