//! The path of a task through the memory manager: its operands are gathered, it runs, and its
//! outputs are settled.

use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::batch::Fates;
use super::stream_order::StreamOrdered;
use super::{Buffers, TransferDriver, Waiting};
use crate::device::{Mark, Stream};
use crate::device::{Op, Run, Span, StreamId};
use crate::engine::{Engine, Job, Ready, life, on_device};
use crate::error::DeviceError;
use crate::error::{Cause, Failure, caught};
use crate::format::Format;
use crate::memory::{Access, Datum, Memory, NOWHERE, Need, Ticket, bytes_of};
use crate::operand::Mode;
use crate::task::plan::{Needs, Plan, Planned};
use crate::task::{Ahead, AnyHandle, Choice, Ended, ReadyTask, Resource, TaskPlacement, Work, WorkerLocal};
use crate::value::Meta;

/// The next work of a worker.
pub(crate) enum Next {
    /// A task whose operands need no transfer.
    Ready(ReadyTask),
    /// A task whose operands have been brought to the worker's node, or several that run in one
    /// call.
    Placed(Box<PlacedBatch>),
}

/// A task that has its operands, or for which they are being gathered.
pub(crate) struct Placed {
    pub(super) task: ReadyTask,
    pub(super) worker: usize,
    pub(super) ticket: Ticket,
    pub(super) choice: Choice,
    pub(super) needs: Needs,
    /// Its simulated time here (ns) and its implementation.
    pub(super) takes: Option<(u64, &'static str)>,
    /// Set if it is launched in stream order, before its predecessors have ended.
    pub(super) stream_ordered: Option<Box<StreamOrdered>>,
}

/// Tasks that are run in one call, mostly one.
pub(crate) type PlacedBatch = SmallVec<[Placed; 1]>;

/// Launched tasks and the results of their bodies; empty once their operation has ended.
pub(super) type LaunchedBatch = Arc<Mutex<Option<(PlacedBatch, Fates)>>>;

/// The reason why a working set was not requested.
enum Not {
    /// An operand has no value.
    Ever(Arc<Failure>),
    /// The task cannot run on this worker and goes back to its policy.
    Here,
}

impl Engine {
    /// Returns the next work for `worker`, if there is any at this moment. With a transfer driver,
    /// it requests operands and looks for other tasks meanwhile.
    pub(crate) fn next(self: &Arc<Self>, worker: usize) -> Option<Next> {
        let Some(transfers) = &self.transfers else { return self.pop(worker).map(Next::Ready) };
        if transfers.failure_of(worker).is_some() {
            self.pass_back(transfers, worker);
            return None;
        }
        loop {
            if let Some(batch) = self.take_placed(transfers, worker) {
                return Some(Next::Placed(Box::new(batch)));
            }
            if !self.gather_more(transfers, worker) {
                return None;
            }
        }
    }

    /// Returns tasks with their operands on the worker's node, to run in one call, if there are any
    /// and its device accepts more.
    pub(crate) fn take_placed(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        worker: usize,
    ) -> Option<PlacedBatch> {
        transfers.lanes[worker].take(transfers.launches(worker)).or_else(|| self.follow(transfers, worker))
    }

    /// Takes one more task from the policy, with those that run in the same call, and requests its
    /// operands. False if the worker has enough tasks, or there is none.
    pub(crate) fn gather_more(self: &Arc<Self>, transfers: &TransferDriver, worker: usize) -> bool {
        if !transfers.lanes[worker].has_room() {
            return false;
        }
        let Some(task) = self.pop(worker) else { return false };
        let like = self.pop_like(worker, &task);
        self.gather(transfers, task, worker);
        like.into_iter().for_each(|task| self.gather(transfers, task, worker));
        true
    }

    /// Requests the operands of a task that `worker` has popped.
    fn gather(self: &Arc<Self>, transfers: &TransferDriver, task: ReadyTask, worker: usize) {
        let Some((task, turns)) = self.acquire_commuting(task, worker) else { return };
        let plan = match transfers.plan_to_run(&task, turns) {
            Ok(plan) => plan,
            Err(message) => {
                let why = || task.work().describe(Cause::words(message));
                let failure = task.work().poisoned().unwrap_or_else(why);
                return self.refuse(transfers, task, worker, failure);
            }
        };
        transfers.unwant(task.work());
        if let Err(refused) = transfers.ask_for(self, transfers.placed(task, &plan, worker)) {
            let (placed, why) = *refused;
            match why {
                Not::Ever(failure) => self.refuse(transfers, placed.task, worker, failure),
                Not::Here => self.send_back(transfers, placed.task, worker),
            }
        }
        self.drain();
    }

    /// Acquires the task's turns among commuting tasks and returns their number. A task that has to
    /// wait for a turn is parked at that handle.
    fn acquire_commuting(self: &Arc<Self>, mut task: ReadyTask, worker: usize) -> Option<(ReadyTask, usize)> {
        loop {
            let handles = commuting(task.work());
            let Some(busy) = handles.iter().position(|handle| !handle.base().try_commute()) else {
                life::acquire(task.work());
                return Some((task, handles.len()));
            };
            handles[..busy].iter().for_each(|handle| self.release_commuting_on(&**handle));
            self.decline(worker, &task);
            life::park(task.work());
            match handles[busy].park(Resource::Commute, task) {
                Ok(()) => return None,
                // The handle is free again by now.
                Err(back) => {
                    life::unpark(back.work());
                    task = back;
                }
            }
        }
    }

    fn release_commuting_on(self: &Arc<Self>, handle: &dyn AnyHandle) {
        for woken in handle.base().end_commute() {
            self.push_ready(woken, None);
        }
    }

    fn release_commuting(self: &Arc<Self>, work: &Work) {
        commuting(work).iter().for_each(|handle| self.release_commuting_on(&**handle));
    }

    /// Returns a task to its policy: it cannot run here, but perhaps elsewhere.
    pub(super) fn send_back(self: &Arc<Self>, transfers: &TransferDriver, task: ReadyTask, worker: usize) {
        transfers.forget(task.work());
        self.release_commuting(task.work());
        self.decline(worker, &task);
        self.push_ready(task, None);
    }

    /// Ends a task that will not run.
    pub(super) fn refuse(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        task: ReadyTask,
        worker: usize,
        failure: Arc<Failure>,
    ) {
        self.release_commuting(task.work());
        self.end_unrun(transfers, task, worker, failure);
    }

    /// Ends a task that will not run and has no turns to release; see [`refuse`](Engine::refuse).
    pub(super) fn end_unrun(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        task: ReadyTask,
        worker: usize,
        failure: Arc<Failure>,
    ) {
        transfers.forget(task.work());
        self.decline(worker, &task);
        self.end_failed(task.into_work(), failure);
    }

    /// Runs tasks that have their operands, or launches them on the worker's device.
    pub(crate) fn execute_placed(
        self: &Arc<Self>,
        batch: PlacedBatch,
        worker: usize,
        local: &mut WorkerLocal,
    ) {
        let transfers = self.transfers.as_ref().expect("only a transfers places tasks");
        match &transfers.lanes[worker].device {
            None => {
                batch.iter().for_each(|placed| life::run(placed.task.work()));
                let ended = self.run_placed_batch(transfers, &batch, local, None);
                self.settle_all(transfers, batch, ended);
            }
            Some(device) => {
                transfers.lanes[worker].launches(&batch);
                batch.iter().for_each(|placed| life::launch(placed.task.work()));
                let op = match &transfers.operations.timing {
                    None => self.launch(batch),
                    Some(timing) => self.launch_simulated(&**timing, batch),
                };
                device.enqueue(StreamId::Compute, op);
            }
        }
    }

    /// Returns the tasks as one operation of a device.
    fn launch(self: &Arc<Self>, batch: PlacedBatch) -> Op {
        let engine = Arc::clone(self);
        let launched: LaunchedBatch = Arc::new(Mutex::new(Some((batch, Fates::new()))));
        let batch = Arc::clone(&launched);
        let run = move |stream: Option<&Arc<dyn Stream>>| {
            let transfers = engine.transfers.as_ref().expect("only a transfers places tasks");
            let mut batch = batch.lock();
            let Some((placed, ran)) = &mut *batch else { return Ok(()) };
            let worker = placed[0].worker;
            let kind = engine.workers[worker].model_kind;
            let mut local =
                transfers.lanes[worker].take_local(|| WorkerLocal::new(engine.models.as_ref(), kind));
            if let Some(stream) = stream {
                stream.keep(Box::new(transfers.lanes[worker].begins_launch()));
            }
            let _device = on_device(&engine);
            let ended = engine.unbroken(|| engine.run_placed_batch(transfers, placed, &mut local, stream));
            local.flush();
            transfers.lanes[worker].give_local(local);
            *ran = ended.unwrap_or_default();
            stream.map_or(Ok(()), |stream| stream.check())
        };
        self.operation(&launched, Box::new(run))
    }

    /// Returns the operation that `run` puts on a device's stream.
    pub(super) fn operation(self: &Arc<Self>, batch: &LaunchedBatch, run: Run) -> Op {
        let (at_launch, at_end) = (Arc::clone(self), Arc::clone(self));
        let (launching, landing) = (Arc::clone(batch), Arc::clone(batch));
        let (priority, after) = {
            let batch = batch.lock();
            let first = &batch.as_ref().expect("nothing has ended yet").0[0];
            let after = first.stream_ordered.as_ref().map(|ordered| ordered.after.clone());
            (first.task.priority(), after.unwrap_or_default())
        };
        let launched = move |mark: &Arc<dyn Mark>| {
            let transfers = at_launch.transfers.as_ref().expect("only a transfers places tasks");
            if let Some((placed, ran)) = &*launching.lock() {
                at_launch.unbroken(|| at_launch.notify_successors(transfers, placed, ran, mark));
            }
        };
        let done = move |ended: Result<Span, DeviceError>| {
            let Some((placed, ran)) = landing.lock().take() else { return };
            at_end.unbroken(|| at_end.landed(placed, ran, ended));
        };
        Op { priority, after, launched: Some(Box::new(launched)), ..Op::new(None, run, Box::new(done)) }
    }

    /// Runs code outside of any body; a panic there breaks the runtime.
    pub(super) fn unbroken<R>(&self, code: impl FnOnce() -> R) -> Option<R> {
        caught(code).map_err(|message| self.set_broken(message)).ok()
    }

    pub(super) fn landed(self: &Arc<Self>, batch: PlacedBatch, ran: Fates, ended: Result<Span, DeviceError>) {
        let transfers = self.transfers.as_ref().expect("only a transfers places tasks");
        let worker = batch[0].worker;
        transfers.lanes[worker].landed(&batch);
        transfers.progress.notify();
        match ended {
            Ok(span) if batch[0].stream_ordered.is_some() => {
                self.landed_stream_ordered(transfers, batch, ran, span)
            }
            Ok(span) => {
                let ended = self.ends_of(&batch, ran, span);
                self.settle_all(transfers, batch, ended);
            }
            Err(error) => {
                self.retire(transfers, transfers.node_of(worker), error);
                batch.into_iter().for_each(|placed| self.run_again(transfers, placed));
            }
        }
        self.workers.sleep.notify(worker);
    }

    /// Runs the body on its operands; `None` if they are lost with their device.
    pub(super) fn run_placed(
        self: &Arc<Self>,
        transfers: &TransferDriver,
        placed: &Placed,
        local: &mut WorkerLocal,
        stream: Option<&Arc<dyn Stream>>,
    ) -> Option<Ended> {
        let buffers = transfers.buffers(placed)?;
        if crate::mutant::mutant(7) {
            self.release_commuting(placed.task.work());
        }
        let (work, stream_ordered) = (placed.task.work(), placed.stream_ordered.is_some());
        let (choice, bytes) = (placed.choice, bytes_of(&placed.needs));
        let placement = TaskPlacement { choice, buffers, bytes, stream: stream.cloned(), stream_ordered };
        // The policy has not handed out stream-ordered tasks, and does not know of them.
        let outer = (!stream_ordered).then(|| self.start_body(placed.worker, &placed.task));
        let mut ended = self.attempt_placed(work, placed.worker, local, &placement);
        if let Some(outer) = outer {
            self.end_body(placed.worker, placed.task.id(), outer);
        }
        placed.says_what_it_left(&placement.buffers, &mut ended);
        Some(ended)
    }

    /// Sends back a task whose device failed before its end.
    pub(super) fn run_again(self: &Arc<Self>, transfers: &TransferDriver, placed: Placed) {
        if let Some(followers) = &transfers.followers {
            followers.revoke(placed.task.work(), true);
            placed.unlaunched();
        }
        match placed.stream_ordered {
            Some(_) => {
                life::wait_again(placed.task.work());
                self.wait_after_all(transfers, placed.task);
            }
            None => self.send_back(transfers, placed.task, placed.worker),
        }
    }

    /// Makes the outputs of the task the new versions of its data, and releases its successors.
    pub(super) fn settle(self: &Arc<Self>, transfers: &TransferDriver, placed: Placed, ended: Option<Ended>) {
        let worker = placed.worker;
        let Some(ended) = ended.filter(|ended| transfers.end(&placed, ended)) else {
            return self.run_again(transfers, placed);
        };
        if let Some(followers) = &transfers.followers {
            let workers = followers.revoke(placed.task.work(), false);
            workers.into_iter().for_each(|worker| self.workers.sleep.notify(worker));
        }
        self.drain();
        transfers.forget(placed.task.work());
        self.release_commuting(placed.task.work());
        let mut ready = Ready::new();
        placed.task.into_work().end(self, ended.failure, None, &mut ready);
        ready.into_iter().for_each(|task| self.push_ready(task, Some(worker)));
    }
}

impl TransferDriver {
    /// Plans a task that has become ready.
    ///
    /// # Errors
    /// The reason why it cannot be planned, in words.
    pub(crate) fn plan(&self, task: &ReadyTask) -> Result<(), String> {
        let failures = self.failures();
        let plan = self.plan_of(task.work())?;
        self.forget(task.work());
        task.work().planned().set(Planned { plan, wanted: None, failures, gpu_only: false });
        Ok(())
    }

    /// Returns the plan of a task that is about to run: the one made when it became ready, unless
    /// others have had their turns on its operands since then.
    fn plan_to_run(&self, task: &ReadyTask, turns: usize) -> Result<Plan, String> {
        let made = if turns == 0 { task.work().planned().ask(|planned| planned.plan.clone()) } else { None };
        made.map_or_else(|| self.plan_of(task.work()), Ok)
    }

    /// Plans the task for the present state of its operands.
    fn plan_of(&self, work: &Work) -> Result<Plan, String> {
        work.with_handles(|handles| {
            for (handle, mode) in handles {
                if *mode != Mode::Reduce && handle.has_partials() {
                    self.combine(*handle);
                }
            }
            let metas: SmallVec<[Meta; 4]> = handles.iter().map(|(handle, _)| handle.current()).collect();
            let datum = |at: usize| handles[at].0.datum().expect("adopted when it was linked");
            let mut plan = Plan::of(work.header(), work.body(), datum, &metas)?;
            plan.on_host |= handles.iter().zip(&plan.needs).any(|((handle, mode), need)| {
                *mode == Mode::Reduce || (need.access != Access::Look && !handle.is_portable())
            });
            plan.times = self.times(work, &plan);
            Ok(plan)
        })
    }

    pub(super) fn placed(&self, task: ReadyTask, plan: &Plan, worker: usize) -> Placed {
        let (ticket, choice, needs) = (self.ticket(), plan.choice, plan.needs.clone());
        let takes = self.operations.timing.as_ref().and_then(|timing| plan.times[timing.kind_of(worker)]);
        Placed { task, worker, ticket, choice, needs, takes, stream_ordered: None }
    }

    /// Withdraws the hint that the task will use its operands on the node it was queued for.
    fn unwant(&self, work: &Work) {
        work.planned().ask(|planned| {
            if let Some(node) = planned.wanted.take() {
                self.with_memory(|memory| memory.unwant(node, &planned.plan.needs));
            }
        });
    }

    /// Discards the plan of a task that has ended, or will be planned again.
    pub(crate) fn forget(&self, work: &Work) {
        if let Some(Planned { plan, wanted: Some(node), .. }) = work.planned().take() {
            self.with_memory(|memory| memory.unwant(node, &plan.needs));
        }
    }

    /// Requests a working set, unless that is impossible.
    fn ask_for(&self, engine: &Engine, placed: Placed) -> Result<(), Box<(Placed, Not)>> {
        if let Some(failure) = placed.task.work().cancelled(engine) {
            return Err(Box::new((placed, Not::Ever(failure))));
        }
        let node = self.node_of(placed.worker);
        // Under the manager's lock: a thread that takes a device's data away poisons their handles
        // under the same lock.
        self.with_memory(|memory| {
            if let Some(failure) = placed.without_value(memory) {
                return Err(Box::new((placed, Not::Ever(failure))));
            }
            if self.nodes[node].failure.get().is_some() || !memory.fits(node, &placed.needs) {
                return Err(Box::new((placed, Not::Here)));
            }
            if self.is_limited() {
                placed.keep_partial(memory);
            }
            let (ticket, needs) = (placed.ticket, placed.needs.clone());
            life::request(placed.task.work());
            self.lanes[placed.worker].gathers();
            self.tickets.waiting.lock().insert(ticket, Waiting::Task(placed));
            memory.stage(ticket, node, &needs);
            Ok(())
        })
    }

    /// Returns the buffers of the operands; `None` if they are lost with their device.
    pub(super) fn buffers(&self, placed: &Placed) -> Option<Buffers> {
        let node = self.node_of(placed.worker);
        self.look(|memory| {
            let held = memory.holds(placed.ticket);
            if let Some(stream_ordered) = &placed.stream_ordered {
                return held.then(|| stream_ordered.buffers.clone());
            }
            let place = |need: &Need| match need.access {
                Access::Look => NOWHERE,
                _ => memory.buffer(need.datum, node, need.format).expect("held"),
            };
            held.then(|| placed.needs.iter().map(place).collect())
        })
    }

    /// Releases the working set, with new versions of the outputs if the body began; false if it is
    /// lost.
    fn end(&self, placed: &Placed, ended: &Ended) -> bool {
        let node = self.node_of(placed.worker);
        self.with_memory(|memory| {
            if !memory.holds(placed.ticket) {
                return false;
            }
            if !ended.began {
                memory.abandon(placed.ticket);
                // A task that neither ran nor failed has lost its operands: the manager is about to
                // process its device's failure.
                return ended.failure.is_some() || self.nodes[node].failure.get().is_none();
            }
            let written: SmallVec<[(Datum, Format, u64); 2]> = placed.task.work().with_handles(|handles| {
                let at_launch = ended.wrote.iter().flatten().map(Some).chain(std::iter::repeat(None));
                let settled =
                    |((at, handle, need), wrote): ((usize, &dyn AnyHandle, &Need), Option<&Ahead>)| {
                        let meta = match (wrote, &placed.stream_ordered) {
                            (Some(wrote), _) => {
                                handle.settle_as(placed.ticket, wrote.meta);
                                wrote.meta
                            }
                            (None, Some(stream_ordered)) => handle.settle(stream_ordered.buffers[at]),
                            (None, None) => {
                                handle.settle(memory.buffer(need.datum, node, need.format).expect("held"))
                            }
                        };
                        (need.datum, meta.format, meta.bytes as u64)
                    };
                placed.writes(handles).zip(at_launch).map(settled).collect()
            });
            memory.finish_as(placed.ticket, &written);
            true
        })
    }
}

impl Placed {
    /// Keeps the data that the task reduces into on the host until its partial results are added.
    fn keep_partial(&self, memory: &mut Memory) {
        self.task.work().with_handles(|handles| {
            let reduced = handles.iter().zip(&self.needs).filter(|((_, mode), _)| *mode == Mode::Reduce);
            reduced.for_each(|(_, need)| memory.keep(need.datum));
        });
    }

    /// Returns the failure that left an operand without a value, or one that reports the missing
    /// value.
    fn without_value(&self, memory: &Memory) -> Option<Arc<Failure>> {
        self.task.work().with_handles(|handles| {
            handles.iter().zip(&self.needs).filter(|(_, need)| need.access != Access::Write).find_map(
                |((handle, _), need)| {
                    handle.base().failure().or_else(|| {
                        let missing = !memory.has_value(need.datum);
                        let what =
                            || format!("{} holds no value: its writer did not run", handle.base().name());
                        missing.then(|| self.task.work().describe(Cause::words(what())))
                    })
                },
            )
        })
    }
}

/// Returns the handles on which the task needs its turn.
fn commuting(work: &Work) -> SmallVec<[Arc<dyn AnyHandle>; 2]> {
    work.with_handles(|handles| {
        let commuting = handles.iter().filter(|(_, mode)| *mode == Mode::Commute);
        commuting.map(|(handle, _)| handle.arc()).collect()
    })
}
