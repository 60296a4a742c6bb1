//! Replays of a recorded graph, with counters instead of dependency analysis.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::device_graph::{DeviceGraph, LaunchMode, is_task_by_task};
use super::{Bindings, Graph};
use crate::engine::{Engine, Job, Ready, life};
use crate::error::{Error, Failure};
use crate::task::{
    Accesses, AnyHandle, Body, Bound, Declared, Env, Header, Options, Payload, PlanCell, Ran, ReadyTask,
    ReplaySlot, ReplayTask, Role, StageCell, Successor, TaskCell, TaskPtr, TaskRef, Work,
};

/// Submits a replay. Its tasks start when their own operands are ready. Each slot is a node of the
/// dependency engine with one access: it notifies the tasks of the graph when they may use the
/// handle, and the later tasks when the replay has released it.
pub(crate) fn submit(engine: &Arc<Engine>, bindings: Bindings) -> Result<TaskRef, Error> {
    let Bindings { graph, handles, order, differ } = bindings;
    let data = &graph.0;
    let header = Options::named("replay").into_header(engine.counters.next_ids(1), engine.id, None).0;
    let first_id = engine.counters.next_ids(graph.numbers());
    let as_one = data.device_graph.is_some() && DeviceGraph::matters_to(engine);
    let planned = if engine.transfers.is_some() { data.bodies.len() + 1 } else { 0 };
    let run = Arc::new_cyclic(|run: &Weak<Replay>| {
        let address = NonNull::new(run.as_ptr().cast_mut()).expect("it has been allocated");
        let slot = |at| ReplaySlot::new(address.cast(), at, graph.slot_numbers(first_id, at).0);
        Replay {
            engine: Arc::clone(engine),
            tasks: TaskStates {
                pending: data.counters(as_one),
                stages: (0..=data.bodies.len()).map(|_| StageCell::default()).collect(),
                plans: (0..planned).map(|_| PlanCell::default()).collect(),
                first_id,
            },
            awaited: Awaited {
                before: AtomicUsize::new(1 + if as_one { handles.len() } else { data.ends.waited_for }),
                until_end: AtomicUsize::new(if as_one { data.nodes.sinks } else { data.ends.sinks }),
            },
            outcome: ReplayOutcome::default(),
            gate: OnceLock::new(),
            slots: (0..handles.len()).map(slot).collect(),
            is_linked: AtomicBool::new(false),
            as_one,
            began: Mutex::new(None),
            graph: graph.clone(),
            handles,
            differ,
        }
    });
    let gate = TaskCell::make(header, Role::Replay, ReplayBody(Payload::new(Arc::clone(&run))));
    assert!(run.gate.set(gate.clone()).is_ok(), "set once");
    let accesses: Accesses<'_> = order.iter().map(|&at| run.access(at as usize)).collect();
    // No task begins before the sources do, and these wait for the slots below: nothing becomes
    // ready here.
    let free =
        |slot| Replay::acquire_slot(Replay::address(&run), slot, |_| unreachable!("the run has not begun"));
    let finished = match engine.link_slots(&run.slots, &order, &accesses, free) {
        Ok(finished) => finished,
        Err(error) => {
            // It holds the run, which holds it.
            gate.body.clear();
            return Err(error);
        }
    };
    run.is_linked.store(true, Ordering::Release);
    if let Some(transfers) = &engine.transfers {
        transfers.will_replay(&graph, &run.handles, |header| engine.home_of(header));
    }
    engine.replay_begins(first_id, &graph);
    run.trace_edges();
    // The run owns itself until its last task completes.
    std::mem::forget(Arc::clone(&run));
    engine.accept_replay(&gate, &finished);
    Replay::count_acquired(Replay::address(&run), |task| engine.push_ready(task, None));
    Ok(gate.ticket.clone())
}

/// The body of the task that stands for the whole replay.
struct ReplayBody(Payload<Arc<Replay>>);

impl Body for ReplayBody {
    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a replay is no task that runs")
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        if let Some(run) = self.0.get() {
            out.extend((0..run.slots.len()).map(|slot| run.access(slot)));
        }
    }

    /// A search for cycles treats a replay as a whole: a completed slot gives no further
    /// information.
    fn each_after(&self, each: &mut dyn FnMut(Successor)) {
        let Some(run) = self.0.get() else { return };
        let is_linked = run.is_linked.load(Ordering::Acquire);
        // SAFETY: no slot starts to leave.
        run.slots.iter().for_each(|slot| unsafe { slot.each_after(is_linked, &mut *each) });
    }

    fn clear(&self) {
        self.0.clear();
    }
}

/// One replay that has been submitted.
pub(super) struct Replay {
    engine: Arc<Engine>,
    graph: Graph,
    handles: Arc<[Arc<dyn AnyHandle>]>,
    /// See [`Bindings`].
    differ: bool,
    tasks: TaskStates,
    awaited: Awaited,
    outcome: ReplayOutcome,
    /// The task that stands for the replay.
    gate: OnceLock<TaskPtr>,
    slots: Arc<[ReplaySlot]>,
    /// True once its slots are in the chains of their handles.
    is_linked: AtomicBool,
    /// True if it may be launched on a device as one operation: all slots are acquired before its
    /// first task and released after its last.
    as_one: bool,
    /// Start time and execution method, if a device launch is possible.
    began: Mutex<Option<(Instant, LaunchMode)>>,
}

/// The state of each task of a replay.
struct TaskStates {
    /// See [`Ends::pending`](super::ends::Ends::pending).
    pending: Box<[AtomicU32]>,
    /// The stage of each task, and of all of them as one.
    stages: Box<[StageCell]>,
    /// The plan of each task, and of all of them as one, if there is a transfer driver.
    plans: Box<[PlanCell]>,
    /// Number of the first task in traces.
    first_id: u64,
}

/// Counts of what a replay waits for.
struct Awaited {
    /// Slots that are acquired as a whole and not acquired yet, plus one for the submitter.
    before: AtomicUsize,
    /// Number of tasks and slots that must complete before the replay ends.
    until_end: AtomicUsize,
}

/// The result of a replay so far.
#[derive(Default)]
struct ReplayOutcome {
    /// True if something failed, now or earlier: every access is checked for poison.
    strict: AtomicBool,
    failure: OnceLock<Arc<Failure>>,
}

impl Replay {
    fn address(run: &Arc<Replay>) -> NonNull<Replay> {
        NonNull::new(Arc::as_ptr(run).cast_mut()).expect("an Arc is never null")
    }

    /// Returns a task of a run, which waits for it.
    fn task(this: NonNull<Replay>, index: u32) -> ReplayTask {
        // SAFETY: the run waits for the task.
        let runtime = unsafe { this.as_ref() }.engine.id;
        ReplayTask { run: this.cast(), index, runtime }
    }

    pub(super) fn gate(&self) -> &TaskPtr {
        self.gate.get().expect("set when it was submitted")
    }

    /// Returns how the graph as a whole accesses the handle of a slot.
    fn access(&self, slot: usize) -> Declared<'_> {
        (&self.handles[slot], self.graph.0.slots[slot].mode).into()
    }

    /// Acquires a slot, when all earlier tasks have used it. The run, which waits for this, may
    /// have ended when this returns. `ready` gets tasks that become ready.
    pub(super) fn acquire_slot(this: NonNull<Replay>, slot: usize, ready: impl FnMut(ReadyTask)) {
        // SAFETY: it waits for this.
        let (run, heads) = unsafe { (this.as_ref(), this.as_ref().graph.0.ends.heads(slot)) };
        if run.handles[slot].base().is_poisoned() {
            run.outcome.strict.store(true, Ordering::Release);
        }
        if run.as_one || heads.is_empty() {
            return Replay::count_acquired(this, ready);
        }
        Replay::start_tasks(this, heads, ready);
    }

    /// Decrements the number of events that the whole replay waits for; the replay begins at zero.
    /// The run may have ended when this returns.
    fn count_acquired(this: NonNull<Replay>, mut ready: impl FnMut(ReadyTask)) {
        // SAFETY: it waits for this; what is borrowed of the run is the counter alone, while it
        // changes.
        if unsafe { (*this.as_ptr()).awaited.before.fetch_sub(1, Ordering::AcqRel) } != 1 {
            return;
        }
        // SAFETY: it waits for its first tasks.
        let run = unsafe { this.as_ref() };
        let data = &run.graph.0;
        if run.graph.is_empty() {
            // SAFETY: there is no task that has a pointer into the run; the reference that the run
            // has to itself is taken over.
            return finish(unsafe { Arc::from_raw(this.as_ptr()) });
        }
        let all = Replay::task(this, data.bodies.len() as u32);
        let device_graph = data.device_graph.as_ref().filter(|_| run.as_one && !all.is_strict());
        if let Some(task) =
            device_graph.and_then(|it| it.way(&run.engine)).and_then(|way| all.device_graph(way))
        {
            return ready(task);
        }
        Replay::start_tasks(this, data.ends.sources.as_slice(), ready);
    }

    /// Decrements, for each of these tasks, the number of events that it waits for; this event is
    /// none of its predecessors. The run may have ended when this returns.
    fn start_tasks(this: NonNull<Replay>, tasks: *const [u32], mut ready: impl FnMut(ReadyTask)) {
        for at in 0..tasks.len() {
            // SAFETY: the run goes on until the task has completed, which has not been counted
            // down.
            let (task, left) = unsafe { count_down(this.as_ptr(), tasks, at) };
            if left == 1 {
                ready(ReadyTask::new(Work::Replay(Replay::task(this, task))));
            }
        }
    }

    /// Releases a slot to the tasks after the replay.
    fn release_slot(&self, slot: usize, worker: Option<usize>, ready: &mut Ready) {
        let slot = &self.slots[slot];
        self.engine.while_nobody_searches(|| slot.leaves());
        let release = |successor| self.engine.release(successor, worker, |task| ready.push(task));
        // SAFETY: a slot is given back once, after the run has begun.
        unsafe { slot.complete(release) };
    }

    /// Records the execution method and its time, if they are requested.
    fn record_time(&self) {
        let Some(device_graph) = &self.graph.0.device_graph else { return };
        if let Some((began, way)) = self.began.lock().take().filter(|_| self.outcome.failure.get().is_none())
        {
            device_graph.took(self.engine.id, way, began.elapsed());
        }
    }

    fn trace_edges(&self) {
        let Some(recorder) = &self.engine.recorder else { return };
        self.graph.trace_edges(self.tasks.first_id).for_each(|(from, to)| recorder.edge(from, to));
    }

    /// Notes that the task, or all tasks as one, no longer uses its operands.
    fn has_used(&self, index: usize) {
        let Some(transfers) = &self.engine.transfers else { return };
        let home = |header: &Header| self.engine.home_of(header);
        if index == self.graph.len() {
            return transfers.has_replayed_all(&self.graph, &self.handles, home);
        }
        transfers.has_replayed(&self.graph, &self.handles, index, home(self.graph.header(index)));
    }

    /// Notes a failure; the outputs of the task are poisoned already.
    fn fail(&self, failure: Arc<Failure>) {
        self.outcome.strict.store(true, Ordering::Release);
        // The first failure is the one to report.
        let _ = self.outcome.failure.set(failure);
    }
}

impl ReplayTask {
    fn of_run(&self) -> &Replay {
        // SAFETY: see the type: the run is alive while one of its tasks has not completed, and this
        // one has not.
        unsafe { self.run.cast().as_ref() }
    }

    /// Another task of the run, which has not completed.
    fn another(&self, index: u32) -> ReplayTask {
        ReplayTask { index, ..*self }
    }

    fn at(&self) -> usize {
        self.index as usize
    }

    /// True if it stands for all tasks as one.
    fn is_all(&self) -> bool {
        self.at() == self.of_run().graph.len()
    }

    /// Returns all tasks of the run as one, if `way` selects that and a GPU has room for their
    /// operands.
    fn device_graph(&self, way: LaunchMode) -> Option<ReadyTask> {
        let run = self.of_run();
        let task = ReadyTask::new(Work::Replay(self.another(self.index)));
        let fits = way == LaunchMode::DeviceGraph && run.engine.has_room_on_device(&task);
        let way = if fits { LaunchMode::DeviceGraph } else { LaunchMode::TaskByTask };
        *run.began.lock() = Some((Instant::now(), way));
        if fits {
            return Some(task);
        }
        // Consumed here, so that the task is not reported as lost.
        drop(task.into_work());
        None
    }

    /// Starts the tasks without predecessors; they are left in `ready`.
    fn go_task_by_task(&self, ready: &mut Ready) {
        for &index in &self.of_run().graph.0.ends.sources {
            ready.push(ReadyTask::new(Work::Replay(self.another(index))));
        }
    }

    /// True if it may not run everywhere.
    pub(crate) fn is_restricted(&self) -> bool {
        self.of_run().graph.0.restricted && self.header().only.is_some()
    }

    /// The most tasks that one call of its codelet takes.
    pub(crate) fn batch(&self, on_device: bool) -> u32 {
        let any = self.of_run().graph.0.batched[usize::from(on_device)] && !self.is_all();
        if any { self.header().implementations.together(on_device) } else { 0 }
    }

    /// Returns the tasks that wait for this one, which has not completed. Like groups of submitted
    /// tasks, this excludes those that wait for a group that contains it.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = ReplayTask> {
        let nodes = &self.of_run().graph.0.nodes;
        let successors = if self.is_all() { &[] } else { nodes.successors_of(self.at()) };
        let tasks = successors.iter().filter(|&&next| (next as usize) < nodes.tasks());
        tasks.map(|&index| self.another(index))
    }

    /// Counts down the tasks that wait for a group, after its last member has completed.
    ///
    /// # Safety
    /// Only one caller may do so. The run may end before this returns.
    #[cold]
    unsafe fn complete_group(&self, group: usize, ready: &mut Ready) {
        let run: *const Replay = self.run.cast().as_ptr();
        // SAFETY: the run goes on until the tasks behind the group have completed, and none has
        // been counted down for it.
        let successors: *const [u32] = unsafe { (&*run).graph.0.nodes.successors_of(group) };
        for at in 0..successors.len() {
            // SAFETY: as in `complete`.
            let (next, left) = unsafe { count_down(run, successors, at) };
            if left == 1 {
                ready.push(ReadyTask::new(Work::Replay(self.another(next))));
            }
        }
    }

    fn complete(self, worker: Option<usize>, ready: &mut Ready) {
        let run: *const Replay = self.run.cast().as_ptr();
        self.of_run().has_used(self.at());
        if self.is_all() {
            // SAFETY: it stands for every task, so that nobody else follows a pointer into the run,
            // and this takes over the reference that `submit` gave to the run itself.
            return finish(unsafe { Arc::from_raw(run) });
        }
        let data = &self.of_run().graph.0;
        let (tasks, nodes) = (data.nodes.tasks() as u32, data.nodes.len());
        let as_one = self.of_run().as_one;
        let after: *const [u32] =
            if as_one { data.nodes.successors_of(self.at()) } else { data.ends.after(self.at()) };
        // From here on another thread may end the run and free it as soon as the last count has
        // changed. No reference into it lives that long, except those to counters while they
        // change.
        for at in 0..after.len() {
            // SAFETY: the run goes on until all that waits for this task has completed or has been
            // given back, and this one has not been counted down.
            let (next, left) = unsafe { count_down(run, after, at) };
            if left != 1 {
                continue;
            }
            if next < tasks {
                ready.push(ReadyTask::new(Work::Replay(self.another(next))));
            } else if (next as usize) < nodes {
                // SAFETY: the last member of the group has completed: what is behind the group has
                // not been counted down.
                unsafe { self.complete_group(next as usize, ready) };
            } else {
                // SAFETY: this was the last task on the slot, which keeps the run going until it is
                // given back here.
                unsafe {
                    (*run).release_slot(next as usize - nodes, worker, ready);
                    end_one(run);
                }
            }
        }
        if after.is_empty() {
            // SAFETY: a sink that has not been counted down keeps the run going.
            unsafe { end_one(run) };
        }
    }
}

/// Decrements the number of parts that must complete before the replay ends.
///
/// # Safety
/// The caller counts down once and does not use the run afterwards.
unsafe fn end_one(run: *const Replay) {
    // SAFETY: by the caller's promise; if it was the last, nobody else follows a pointer into the
    // run, and this takes over the reference that `submit` gave to the run itself.
    unsafe {
        if (*run).awaited.until_end.fetch_sub(1, Ordering::AcqRel) == 1 {
            finish(Arc::from_raw(run));
        }
    }
}

impl Job for ReplayTask {
    fn header(&self) -> &Header {
        self.of_run().graph.0.header_of(self.at())
    }

    fn id(&self) -> u64 {
        self.of_run().tasks.first_id + self.at() as u64
    }

    fn priority(&self) -> i32 {
        self.of_run().graph.0.priorities.get(self.at()).copied().unwrap_or_default()
    }

    fn body(&self) -> &dyn Body {
        self.of_run().graph.0.body_of(self.at())
    }

    fn bound(&self) -> Option<Bound<'_>> {
        let run = self.of_run();
        // A body has its recorded handles itself: looking them up would cost time in each task.
        (run.differ || self.is_all()).then(|| run.graph.0.bound(self.at(), &run.handles))
    }

    fn is_strict(&self) -> bool {
        self.of_run().outcome.strict.load(Ordering::Acquire)
    }

    fn stands_for(&self) -> &TaskPtr {
        self.of_run().gate()
    }

    fn pending(&self) -> u32 {
        if self.is_all() { 0 } else { self.of_run().tasks.pending[self.at()].load(Ordering::Acquire) }
    }

    fn stage(&self) -> &StageCell {
        &self.of_run().tasks.stages[self.at()]
    }

    fn planned(&self) -> &PlanCell {
        &self.of_run().tasks.plans[self.at()]
    }

    fn end(
        self,
        _shared: &Arc<Engine>,
        failure: Option<Arc<Failure>>,
        worker: Option<usize>,
        ready: &mut Ready,
    ) {
        life::end(&self);
        match failure {
            Some(failure) if self.is_all() && is_task_by_task(&failure) => {
                return self.go_task_by_task(ready);
            }
            Some(failure) => self.of_run().fail(failure),
            None => {}
        }
        self.complete(worker, ready);
    }

    fn into_work(self) -> Work {
        Work::Replay(self)
    }

    fn from_work(work: Work) -> Self {
        let Work::Replay(task) = work else { unreachable!("it was a task of a replay") };
        task
    }
}

/// Counts down the node or slot at position `at` of a list. Returns its counter, and the number of
/// events that it waited for before.
///
/// # Safety
/// The run goes on until the node has been counted down. It may end before this returns.
#[inline]
unsafe fn count_down(run: *const Replay, list: *const [u32], at: usize) -> (u32, u32) {
    // SAFETY: by the caller's promise; what is borrowed of the run is the counter alone, while it
    // changes.
    unsafe {
        let next = (&*list)[at];
        (next, (&(*run).tasks.pending)[next as usize].fetch_sub(1, Ordering::AcqRel))
    }
}

fn finish(run: Arc<Replay>) {
    run.record_time();
    let engine = Arc::clone(&run.engine);
    engine.replay_ends(run.tasks.first_id);
    let mut ready = Ready::new();
    // Later tasks may add partial results here.
    let mode = engine.subnormals(None).enter();
    for slot in (0..run.slots.len()).filter(|&slot| run.as_one || run.graph.0.ends.finals(slot).is_empty()) {
        run.release_slot(slot, None, &mut ready);
    }
    drop(mode);
    ready.into_iter().for_each(|task| engine.push_ready(task, None));
    engine.end_outside(run.gate().clone(), run.outcome.failure.get().cloned());
    if let Some(run) = Arc::into_inner(run) {
        run.graph.0.spare.lock().push(run.tasks.pending);
    }
}
