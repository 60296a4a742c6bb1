//! Waiting: for a task, a group, all tasks, room in the window, or a gate. See `README.md`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::blocked::{Blocked, Target, WaitKind};
use super::current;
use super::worker::STACK;
use crate::engine::Engine;
use crate::engine::transfer::Next;
use crate::error::{Cause, Error, Failure};
use crate::task::{HandleBase, ReadyTask, Tally, TaskPtr, TaskRef, Work, WorkerLocal};

/// Counts of tasks that have inherited the priority of a body, until this is dropped.
struct Inherited(SmallVec<[Arc<Tally>; 2]>);

impl Drop for Inherited {
    fn drop(&mut self) {
        self.0.iter().for_each(|tally| tally.end_raise());
    }
}

/// Result of one search by a waiting body that acts as a worker.
enum Look {
    /// The awaited event has occurred, or never will.
    Over,
    /// A task to run.
    Found(Next),
    /// Another body wants the worker's slot.
    Wanted,
}

impl Engine {
    /// Waits until `task` is complete.
    pub(crate) fn wait(self: &Arc<Self>, task: &TaskRef) -> Result<(), Error> {
        if !task.belongs_to(self.id) {
            return Err(Error::Foreign { what: format!("task {}", task.name()) });
        }
        if current::runs(task) {
            return Err(Error::SelfWait { what: format!("waiting for {}", task.name()) });
        }
        self.wait_until(&Target::Task(task.clone()), || task.is_done())?;
        task.cause().map_or(Ok(()), |failure| Err(Error::Failed(failure)))
    }

    /// Waits until all tasks that `tally` counts are complete; returns the first failure among
    /// them.
    pub(crate) fn wait_for_tally(self: &Arc<Self>, tally: &Arc<Tally>) -> Result<(), Error> {
        self.wait_until(&Target::Tally(Arc::clone(tally)), || tally.is_complete())?;
        match tally.failure() {
            Some(failure) => Err(Error::Failed(Arc::clone(failure))),
            None => Ok(()),
        }
    }

    /// Waits until all tasks that the calling body has submitted are complete.
    pub(crate) fn wait_for_children(self: &Arc<Self>) -> Result<(), Error> {
        current::tally_so_far(self).map_or(Ok(()), |tally| self.wait_for_tally(&tally))
    }

    /// Waits until the gate opens.
    pub(crate) fn wait_for_gate(self: &Arc<Self>, gate: &TaskPtr, kind: WaitKind) -> Result<(), Error> {
        self.wait_as(&Target::Gate(gate.clone()), kind, || gate.ticket.is_gate_open())
    }

    /// Waits until no body has a view of a slice that has been revoked.
    pub(crate) fn wait_for_lent(self: &Arc<Self>, handle: &HandleBase) -> Result<(), Error> {
        let lent = || handle.lending().is_none_or(|lending| lending.is_over());
        self.wait_as(&Target::Lent(handle.id), WaitKind::Uninterruptible, lent)
    }

    /// Waits until no body runs any more, after a worker has died.
    pub(crate) fn wait_for_workers_to_end(&self) {
        if current::worker_of(self).is_some() {
            // It would wait for itself, and borrowed memory must not be given back before.
            tracing::error!("a worker died while another held borrowed slices in a scope");
            std::process::abort();
        }
        let entry = self.enter_blocked(Target::Other("the end of all workers"), WaitKind::Uninterruptible);
        while !self.workers.are_dead() {
            entry.blocked.park();
        }
    }

    /// Waits until nothing is in flight.
    pub(crate) fn wait_for_all(self: &Arc<Self>) -> Result<(), Error> {
        if current::runs_any_of(self.id) {
            return Err(Error::SelfWait { what: "waiting for all tasks inside a task".into() });
        }
        let _counted = self.waits.wait_for_all();
        self.wait_until(&Target::AllTasks, || self.in_flight() == 0)
    }

    /// Waits, before a submission, until the window has room.
    pub(in crate::engine) fn wait_for_room(self: &Arc<Self>) -> Result<(), Error> {
        let room = self.counters.is_unchecked();
        // A body that cannot wait submits beyond the window.
        if room || current::cannot_wait(self).is_some() {
            return Ok(());
        }
        self.wait_for_room_slowly()
    }

    #[cold]
    fn wait_for_room_slowly(self: &Arc<Self>) -> Result<(), Error> {
        self.workers.check_process()?;
        self.failures.check_broken()?;
        self.waits.window.shrink(self.counters.accepted());
        if self.in_flight() >= self.waits.window.size() as u64 {
            match current::worker_of(self) {
                Some(worker) => self.make_room(worker),
                // The tasks that fill the window may wait for this thread.
                None if current::holds_guards(self) => {}
                None => {
                    let _counted = self.waits.wait_for_room();
                    let half = || self.in_flight() <= (self.waits.window.size() / 2) as u64;
                    self.wait_until(&Target::Window, half)?;
                }
            }
        }
        let room = (self.waits.window.size() as u64).saturating_sub(self.in_flight());
        // A quarter at most: several threads may be submitting against the same count.
        self.counters.skip_checks((room / 4).max(1));
        Ok(())
    }

    /// Makes room for a body that submits while the window is full. It runs tasks that it has
    /// submitted itself, until there is room or none is left. It never waits, since the tasks that
    /// fill the window may come after it.
    fn make_room(self: &Arc<Self>, worker: usize) {
        let _paused = self.pause(worker);
        self.run_own(worker, None, || self.in_flight() < self.waits.window.size() as u64);
    }

    /// Waits until `done`. A thread that makes `target` come true wakes this one to check again.
    pub(crate) fn wait_until(
        self: &Arc<Self>,
        target: &Target,
        done: impl Fn() -> bool,
    ) -> Result<(), Error> {
        self.wait_as(target, WaitKind::Interruptible, done)
    }

    fn wait_as(
        self: &Arc<Self>,
        target: &Target,
        kind: WaitKind,
        done: impl Fn() -> bool,
    ) -> Result<(), Error> {
        if done() {
            return Ok(());
        }
        self.check_can_wait()?;
        self.workers.check_process()?;
        if let Some(events) = &self.time.events {
            return self.act_for(events, target, done);
        }
        match current::worker_of(self) {
            Some(worker) => {
                let _inherited = self.inherit(target);
                self.wait_in_body(worker, target, kind, &done)
            }
            None => self.wait_outside(target, kind, &done),
        }
    }

    /// Returns an error in a body that must not wait.
    pub(crate) fn check_can_wait(&self) -> Result<(), Error> {
        match current::cannot_wait(self) {
            Some(what) => Err(Error::SelfWait { what: what.into() }),
            None => Ok(()),
        }
    }

    /// Gives the calling body's priority at least to the tasks that it has submitted and to those
    /// of the group that it waits for, while it waits. Otherwise it would wait behind tasks of
    /// lower priority than its own.
    fn inherit(&self, target: &Target) -> Inherited {
        let group = if let Target::Tally(tally) = target { Some(Arc::clone(tally)) } else { None };
        let own = current::tally_so_far(self);
        let mut tallies = SmallVec::new();
        tallies.extend(own.into_iter().chain(group));
        let inherited = Inherited(tallies);
        let Some(priority) = current::priority(self) else { return inherited };
        let raised = inherited.0.iter().fold(false, |raised, tally| raised | tally.raise(priority));
        if raised {
            self.sort_again();
        }
        inherited
    }

    /// Waits on a thread that runs no tasks.
    fn wait_outside(&self, target: &Target, kind: WaitKind, done: &impl Fn() -> bool) -> Result<(), Error> {
        self.workers.sleep.rouse_all();
        let entry = self.enter_blocked(target.clone(), kind);
        let blocked = &entry.blocked;
        self.announce(target);
        if done() {
            return Ok(());
        }
        self.refuse_cycle(blocked)?;
        while !done() {
            self.failures.check_broken()?;
            blocked.check()?;
            blocked.park();
        }
        Ok(())
    }

    /// Marks the target: a thread that completes a task looks for waiting threads only if the task
    /// is marked.
    fn announce(&self, target: &Target) {
        if let Some(task) = target.task() {
            task.mark_waited();
        }
    }

    /// Waits in a body on `worker`. It runs tasks that the body has submitted, on its own stack. If
    /// none is ready it looks for others, which a spare thread runs in its place.
    fn wait_in_body(
        self: &Arc<Self>,
        worker: usize,
        target: &Target,
        kind: WaitKind,
        done: &impl Fn() -> bool,
    ) -> Result<(), Error> {
        let _paused = self.pause(worker);
        self.run_own(worker, Some(target), done);
        if done() {
            return Ok(());
        }
        if kind == WaitKind::Interruptible {
            self.check_spares(worker)?;
        }
        let entry = self.enter_blocked(target.clone(), kind);
        let blocked = &entry.blocked;
        self.announce(target);
        if done() {
            return Ok(());
        }
        self.refuse_cycle(blocked)?;
        let cancelled = || if kind == WaitKind::Interruptible { self.cancelled_body() } else { None };
        let over = || done() || blocked.check().is_err() || cancelled().is_some();
        let running = &self.workers[worker].running;
        let mine = running.id();
        let acts = self.act_until(worker, target, blocked, &over);
        if matches!(acts, Ok(false)) {
            while !over() && self.failures.check_broken().is_ok() {
                blocked.park();
            }
            self.reclaim(worker, blocked);
        }
        running.set_id(mine);
        acts?;
        if done() {
            return Ok(());
        }
        blocked.check()?;
        self.failures.check_broken()?;
        Err(Error::Failed(cancelled().expect("one of the reasons not to wait any longer")))
    }

    /// Lets the waiting body act as `worker` until it is `over`; false if it has handed the slot to
    /// another thread.
    ///
    /// # Errors
    /// [`Error::TooDeep`] if no thread is available for that.
    fn act_until(
        self: &Arc<Self>,
        worker: usize,
        target: &Target,
        blocked: &Arc<Blocked>,
        over: &impl Fn() -> bool,
    ) -> Result<bool, Error> {
        loop {
            match self.look_while_waiting(worker, over) {
                Look::Over => {
                    // A push that saw this thread search woke nobody.
                    self.workers.sleep.notify_any();
                    return Ok(true);
                }
                Look::Wanted => {
                    if self.yield_slot(worker, blocked) {
                        return Ok(false);
                    }
                }
                Look::Found(next) if self.is_own(&next, target) => {
                    self.execute_while_waiting(next, worker, &mut WorkerLocal::default());
                }
                Look::Found(next) => match self.hand_over(worker, blocked, next) {
                    Ok(()) => return Ok(false),
                    Err(Next::Ready(task)) if !blocked.is_uninterruptible() => {
                        self.decline(worker, &task);
                        self.push_ready(task, None);
                        return Err(Error::TooDeep { waiting: self.workers.spares.load(Ordering::Relaxed) });
                    }
                    // Running it here is better than not at all.
                    Err(next) => self.execute_while_waiting(next, worker, &mut WorkerLocal::default()),
                },
            }
        }
    }

    /// Looks for work until there is some, and sleeps meanwhile like a worker.
    fn look_while_waiting(self: &Arc<Self>, worker: usize, over: &impl Fn() -> bool) -> Look {
        let slot = &self.workers[worker].slot;
        let look = || {
            if over() || self.failures.check_broken().is_err() {
                return Some(Look::Over);
            }
            if slot.is_wanted() {
                return Some(Look::Wanted);
            }
            self.next(worker).map(Look::Found)
        };
        self.workers.sleep.begin_search();
        loop {
            for round in 0..self.looks() {
                if let Some(seen) = look() {
                    self.workers.sleep.end_search();
                    return seen;
                }
                for _ in 0..round {
                    std::hint::spin_loop();
                }
            }
            self.collect_lost();
            self.wake_if_all_done();
            self.workers.sleep.announce(worker);
            if let Some(seen) = look() {
                self.workers.sleep.stay_awake(worker);
                return seen;
            }
            self.resolve_if_all_sleep();
            self.workers.sleep.sleep(worker);
        }
    }

    /// Resolves a deadlock if this worker, which has announced its sleep, is the last one awake.
    pub(super) fn resolve_if_all_sleep(&self) {
        if self.workers.sleep.asleep() >= self.workers.len() {
            self.resolve_deadlock();
        }
    }

    /// Runs tasks that the calling body has submitted, the newest first, on its own stack, until
    /// `done` or none is ready.
    fn run_own(self: &Arc<Self>, worker: usize, target: Option<&Target>, done: impl Fn() -> bool) {
        let mut local = WorkerLocal::default();
        let mut ran = false;
        while !done() {
            let Some(task) = self.pop_own(worker, target) else { break };
            self.execute_while_waiting(Next::Ready(task), worker, &mut local);
            ran = true;
        }
        if ran {
            // The last task may have released one that `execute` left to this worker, which now has
            // other things to do.
            self.workers.sleep.notify_any();
        }
    }

    /// Returns a ready task that the calling body has submitted, or waits for, if the policy
    /// supports that and the stack has room.
    fn pop_own(&self, worker: usize, target: Option<&Target>) -> Option<ReadyTask> {
        // With a transfer driver, no task can run at once: its operands have to be brought first.
        if self.transfers.is_some() || current::stack_used() > STACK / 2 {
            return None;
        }
        let tally = current::tally_so_far(self);
        let awaited = target.and_then(Target::task).map(TaskRef::id);
        if tally.is_none() && awaited.is_none() {
            return None;
        }
        let mine = |task: &ReadyTask| is_mine(task, tally.as_ref(), awaited) && !task.is_restricted();
        self.pop_newest(worker, &mine)
    }

    /// True for a task that may run on the calling body's stack.
    fn is_own(&self, next: &Next, target: &Target) -> bool {
        let Next::Ready(task) = next else { return false };
        let has_stack = current::stack_used() <= STACK / 2;
        has_stack && is_mine(task, current::tally_so_far(self).as_ref(), target.task().map(TaskRef::id))
    }

    /// Returns the failure of the calling body if everything has been cancelled.
    fn cancelled_body(&self) -> Option<Arc<Failure>> {
        let innermost = current::stack(self).pop()?;
        self.counters.is_cancelled(innermost.header.id).then(|| innermost.describe(Cause::Cancelled))
    }

    /// True if the calling thread runs a task that accesses the handle: a wait for it would never
    /// end.
    pub(crate) fn runs_on(&self, base: &HandleBase) -> bool {
        current::accesses(base.id)
    }
}

fn is_mine(task: &ReadyTask, tally: Option<&Arc<Tally>>, awaited: Option<u64>) -> bool {
    let Work::Task(cell) = task.work() else { return false };
    let own = || tally.zip(cell.header.tally.as_ref()).is_some_and(|(mine, its)| its.counts_in(mine));
    awaited == Some(cell.header.id) || own()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Weak};

    use crate::operand::{Slot, write};
    use crate::submit::Submit;
    use crate::{Error, Runtime};

    fn sum(rt: &Weak<Runtime>, depth: u32) -> Result<u64, Error> {
        if depth == 0 {
            return Ok(1);
        }
        let here = rt.upgrade().expect("the test holds it");
        let half = || {
            let (out, inner) = (here.register_empty::<u64>(), rt.clone());
            let body = move |(mut out,): (Slot<'_, u64>,)| {
                out.put(sum(&inner, depth - 1)?);
                Ok::<(), Error>(())
            };
            here.task("half").operands((write(&out),)).cpu(body).submit().map(|_| out)
        };
        let (a, b) = (half()?, half()?);
        Ok(here.take(a)? + here.take(b)?)
    }

    /// A tree of 16 384 leaves needs a stack, and a thread for each subtree that another worker
    /// took.
    #[test]
    fn a_recursion_takes_few_threads() {
        for (workers, most) in [(1, 0), (2, 64)] {
            let rt = Arc::new(Runtime::builder().workers(workers).build().unwrap());
            let (out, weak) = (rt.register_empty::<u64>(), Arc::downgrade(&rt));
            let body = move |(mut out,): (Slot<'_, u64>,)| {
                out.put(sum(&weak, 14)?);
                Ok::<(), Error>(())
            };
            rt.task("tree").operands((write(&out),)).cpu(body).submit().unwrap();
            assert_eq!(rt.take(out).unwrap(), 1 << 14);
            let spares = rt.engine().workers.spares.load(Ordering::Relaxed);
            assert!(spares <= most, "{spares} spare threads for {workers} workers");
        }
    }
}
