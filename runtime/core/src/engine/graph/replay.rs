//! Running a recorded graph again, with counters instead of dependency analysis.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use zellige_model::TaskInfo;

use super::Graph;
use super::device_graph::{Way, is_task_by_task};
use crate::data::{AnyHandle, Data, Handle};
use crate::engine::ReadyTask;
use crate::engine::{Job, Ready, Retired, Shared, Stage, StageCell, Work};
use crate::error::{Error, Failure};
use crate::operand::Accesses;
use crate::task::{Body, Bound, Env, Header, Implementations, Ran, Role, Task, TaskCell, TaskRef};

/// Which handles a replay runs on: one for each slot of the graph.
#[derive(Clone)]
pub struct Bindings {
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
    /// Some of them may be others than those that were recorded.
    differ: bool,
}

impl Bindings {
    /// The handles that were recorded.
    pub fn recorded(graph: &Graph) -> Self {
        let handles = graph.0.slots.iter().map(|slot| Arc::clone(&slot.handle)).collect();
        Bindings { graph: graph.clone(), handles, differ: false }
    }

    /// Any handles, one for each slot: of types with which no body is run.
    pub(crate) fn placeholders(graph: &Graph, handles: Vec<Arc<dyn AnyHandle>>) -> Self {
        Bindings { graph: graph.clone(), handles, differ: true }
    }

    /// Binds `handle` in place of the slot called `name`.
    ///
    /// # Errors
    /// [`Error::Binding`] if there is no such slot, or several, or `handle` holds another type of data.
    pub fn and<D: Data>(mut self, name: &str, handle: &Handle<D>) -> Result<Self, Error> {
        let slots = &self.graph.0.slots;
        let mut found = (0..slots.len()).filter(|&i| slots[i].handle.base().name() == name);
        let (Some(slot), None) = (found.next(), found.next()) else {
            let known = self.graph.slots().into_iter().take(16).collect::<Vec<_>>().join(", ");
            return Err(Error::Binding(format!(
                "the graph has no slot, or several, called {name:?}; it has {known}"
            )));
        };
        let new: Arc<dyn AnyHandle> = Arc::clone(handle.core()) as Arc<dyn AnyHandle>;
        if new.as_any().type_id() != slots[slot].handle.as_any().type_id() {
            let kind = std::any::type_name::<D>();
            return Err(Error::Binding(format!(
                "slot {name:?} holds another type of data than {} ({kind})",
                handle.name()
            )));
        }
        self.handles[slot] = new;
        self.differ = true;
        Ok(self)
    }
}

impl std::fmt::Debug for Bindings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bindings of {:?}", self.graph)
    }
}

/// Submits a replay: one access per slot, whatever the graph's size.
pub(crate) fn submit(shared: &Arc<Shared>, bindings: Bindings) -> Result<TaskRef, Error> {
    let header = Header {
        id: shared.next_ids(1),
        runtime: shared.id,
        name: "replay",
        priority: 0,
        info: TaskInfo::default(),
        only: None,
        implementations: Implementations::default(),
        tally: None,
    };
    let task = TaskCell::make(header, Role::Replay, Replay(bindings));
    let ticket = task.ticket.clone();
    shared.link(task, &[], Retired::Refused).map(|()| ticket)
}

/// The body of the task that stands for the whole replay.
struct Replay(Bindings);

impl Body for Replay {
    fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
        unreachable!("a replay is started, not run")
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        let slots = &self.0.graph.0.slots;
        out.extend(self.0.handles.iter().zip(slots).map(|(handle, slot)| (handle, slot.mode).into()));
    }

    fn clear(&self) {}

    fn start(&self, shared: &Arc<Shared>, task: Arc<Task>) {
        Run::start(shared, &self.0, task);
    }
}

/// One replay under way.
pub(super) struct Run {
    shared: Arc<Shared>,
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
    /// See [`Bindings`].
    differ: bool,
    /// Predecessors of each task, then of each group, that have not completed.
    pending: Box<[AtomicU32]>,
    /// The stage of each task, and of all of them as one.
    stages: Box<[StageCell]>,
    /// Number of the first task in traces.
    first_id: u64,
    /// Sinks that have not completed.
    remaining: AtomicUsize,
    /// Something failed, now or before: every access is checked for poison.
    strict: AtomicBool,
    failure: OnceLock<Arc<Failure>>,
    /// The task that stands for the replay.
    gate: Arc<Task>,
    /// When it began and how it goes, where it could be put on a device in one launch.
    began: Mutex<Option<(Instant, Way)>>,
}

/// A task of a replay that has not completed, or all of them as one. There is one of each that is ready:
/// completing the task takes it.
///
/// The run stays alive until all of its tasks have completed, so the pointer is valid for as long as there is
/// this, and what is borrowed of the run is borrowed of this.
pub(crate) struct ReplayTask {
    run: NonNull<Run>,
    /// Its place in the graph's arrays; behind the last for all of them.
    index: u32,
}

// SAFETY: it stands for one task of a run that other threads may run; Run is Sync.
unsafe impl Send for ReplayTask {}
// SAFETY: what a shared one gives is shared references into the run, and Run is Sync.
unsafe impl Sync for ReplayTask {}

impl Run {
    fn start(shared: &Arc<Shared>, bindings: &Bindings, gate: Arc<Task>) {
        let graph = bindings.graph.clone();
        if let Some(transfers) = &shared.transfers {
            transfers.will_replay(&graph, &bindings.handles, |header| shared.home_of(header));
            transfers.has_used(&gate, None);
        }
        if graph.is_empty() {
            shared.end_outside(gate, None);
            return;
        }
        let data = &graph.0;
        let poisoned = bindings.handles.iter().any(|handle| handle.base().is_poisoned());
        let spare = data.spare.lock().pop();
        let mut pending =
            spare.unwrap_or_else(|| data.nodes.predecessors.iter().map(|_| AtomicU32::new(0)).collect());
        for (pending, &count) in pending.iter_mut().zip(&data.nodes.predecessors) {
            *pending.get_mut() = count;
        }
        let way = data
            .device_graph
            .as_ref()
            .filter(|_| !poisoned)
            .and_then(|device_graph| device_graph.way(shared));
        let run = Arc::new(Run {
            shared: Arc::clone(shared),
            graph: graph.clone(),
            handles: bindings.handles.clone(),
            differ: bindings.differ,
            pending,
            stages: (0..=data.bodies.len()).map(|_| StageCell::default()).collect(),
            first_id: shared.next_ids(graph.numbers()),
            remaining: AtomicUsize::new(data.nodes.sinks),
            strict: AtomicBool::new(poisoned),
            failure: OnceLock::new(),
            gate,
            began: Mutex::new(None),
        });
        // The run owns itself until its last task completes, which may be before the loop below ends.
        let run = NonNull::new(Arc::into_raw(run).cast_mut()).expect("an Arc is never null");
        let all = ReplayTask { run, index: data.bodies.len() as u32 };
        shared.replay_begins(all.of_run().first_id, &graph);
        if let Some(task) = way.and_then(|way| all.device_graph(way)) {
            return shared.push_ready(task, None);
        }
        let mut ready = Ready::new();
        all.go_task_by_task(&mut ready);
        ready.into_iter().for_each(|task| shared.push_ready(task, None));
    }

    /// The way it went, and how long that took, if somebody wants to know.
    fn record_time(&self) {
        let Some(device_graph) = &self.graph.0.device_graph else { return };
        if let Some((began, way)) = self.began.lock().take().filter(|_| self.failure.get().is_none()) {
            device_graph.took(self.shared.id, way, began.elapsed());
        }
    }

    fn trace_edges(&self) {
        let Some(recorder) = &self.shared.recorder else { return };
        self.graph.trace_edges(self.first_id).for_each(|(from, to)| recorder.edge(from, to));
    }

    /// The task, or all as one, uses nothing any more.
    fn has_used(&self, index: usize) {
        let Some(transfers) = &self.shared.transfers else { return };
        let tasks = if index == self.graph.len() { 0..index } else { index..index + 1 };
        for task in tasks {
            let home = self.shared.home_of(self.graph.header(task));
            transfers.has_replayed(&self.graph, &self.handles, task, home);
        }
    }

    /// Notes a failure; what the task writes has been poisoned.
    fn fail(&self, failure: Arc<Failure>) {
        self.strict.store(true, Ordering::Release);
        // The first failure is the one to report.
        let _ = self.failure.set(failure);
    }
}

impl ReplayTask {
    fn of_run(&self) -> &Run {
        // SAFETY: see the type: the run is alive while one of its tasks has not completed, and this one has
        // not.
        unsafe { self.run.as_ref() }
    }

    /// Another task of the run, which has not completed.
    fn another(&self, index: u32) -> ReplayTask {
        ReplayTask { run: self.run, index }
    }

    fn at(&self) -> usize {
        self.index as usize
    }

    /// True if it stands for all tasks as one.
    fn is_all(&self) -> bool {
        self.at() == self.of_run().graph.len()
    }

    /// All tasks of the run as one, if this is the way for them and a GPU has room for their operands.
    fn device_graph(&self, way: Way) -> Option<ReadyTask> {
        let run = self.of_run();
        let task = ReadyTask::new(Work::Replay(self.another(self.index)));
        let fits = way == Way::DeviceGraph && run.shared.has_room_on_device(&task);
        let way = if fits { Way::DeviceGraph } else { Way::TaskByTask };
        *run.began.lock() = Some((Instant::now(), way));
        if fits {
            return Some(task);
        }
        // Not to be taken for lost.
        drop(task.into_work());
        None
    }

    /// The tasks that wait for none go first; they are left in `ready`.
    fn go_task_by_task(&self, ready: &mut Ready) {
        let run = self.of_run();
        run.trace_edges();
        // Groups have predecessors.
        let counts = run.graph.0.nodes.predecessors.iter().enumerate();
        for (index, _) in counts.filter(|(_, count)| **count == 0) {
            ready.push(ReadyTask::new(Work::Replay(self.another(index as u32))));
        }
    }

    pub(crate) fn priority(&self) -> i32 {
        self.of_run().graph.0.priorities.get(self.at()).copied().unwrap_or_default()
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

    pub(crate) fn runtime(&self) -> u32 {
        self.of_run().shared.id
    }

    /// Those that wait for it, which has not completed. As with groups of submitted tasks, not those that wait for a group of which it is a
    /// member.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = ReplayTask> {
        let nodes = &self.of_run().graph.0.nodes;
        let successors = if self.is_all() { &[] } else { nodes.successors_of(self.at()) };
        let tasks = successors.iter().filter(|&&next| (next as usize) < nodes.tasks());
        tasks.map(|&index| self.another(index))
    }

    /// Counts down the tasks that wait for a group, of which this task was the last member.
    ///
    /// # Safety
    /// Nobody else does so. The run may end before this returns.
    #[cold]
    unsafe fn complete_group(&self, group: usize, ready: &mut Ready) {
        let run: *const Run = self.run.as_ptr();
        // SAFETY: the run goes on until the tasks behind the group have completed, and none has been counted down for it.
        let successors: *const [u32] = unsafe { (&*run).graph.0.nodes.successors_of(group) };
        for at in 0..successors.len() {
            // SAFETY: as in `complete`.
            let (next, left) = unsafe { count_down(run, successors, at) };
            if left == 1 {
                ready.push(ReadyTask::new(Work::Replay(self.another(next))));
            }
        }
    }

    fn complete(self, ready: &mut Ready) {
        let run: *const Run = self.run.as_ptr();
        self.of_run().has_used(self.at());
        if self.is_all() {
            // SAFETY: it stands for every task, so that nobody else follows a pointer into the run, and this
            // takes over the reference that `start` gave to the run itself.
            return finish(unsafe { Arc::from_raw(run) });
        }
        let nodes = &self.of_run().graph.0.nodes;
        let tasks = nodes.tasks() as u32;
        let successors: *const [u32] = nodes.successors_of(self.index as usize);
        // From here on another thread may end the run and free it as soon as the last count has changed: no
        // reference into it lives that long, but for those to counters while they change.
        for at in 0..successors.len() {
            // SAFETY: the run goes on until all of this task's successors have completed, and this one has
            // not been counted down.
            let (next, left) = unsafe { count_down(run, successors, at) };
            if left != 1 {
                continue;
            }
            if next < tasks {
                ready.push(ReadyTask::new(Work::Replay(self.another(next))));
                continue;
            }
            // SAFETY: the last member of the group has completed: what is behind the group has not been counted down.
            unsafe { self.complete_group(next as usize, ready) };
        }
        // SAFETY: a sink that has not been counted down keeps the run going.
        if successors.is_empty() && unsafe { (*run).remaining.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: every sink, hence every task, has completed: nobody else follows a pointer into the run, and this
            // takes over the reference that `start` gave to the run itself.
            finish(unsafe { Arc::from_raw(run) });
        }
    }
}

impl Job for ReplayTask {
    fn header(&self) -> &Header {
        self.of_run().graph.0.header_of(self.at())
    }

    fn id(&self) -> u64 {
        self.of_run().first_id + self.at() as u64
    }

    fn body(&self) -> &dyn Body {
        self.of_run().graph.0.body_of(self.at())
    }

    fn bound(&self) -> Option<Bound<'_>> {
        let run = self.of_run();
        // A body has the handles that were recorded itself: to look them up is work that each task would
        // have.
        (run.differ || self.is_all()).then(|| run.graph.0.bound(self.at(), &run.handles))
    }

    fn is_strict(&self) -> bool {
        self.of_run().strict.load(Ordering::Acquire)
    }

    fn stands_for(&self) -> &Arc<Task> {
        &self.of_run().gate
    }

    fn pending(&self) -> u32 {
        if self.is_all() { 0 } else { self.of_run().pending[self.at()].load(Ordering::Acquire) }
    }

    fn stage(&self) -> &StageCell {
        &self.of_run().stages[self.at()]
    }

    fn end(
        self,
        _shared: &Arc<Shared>,
        failure: Option<Arc<Failure>>,
        _worker: Option<usize>,
        ready: &mut Ready,
    ) {
        self.enters(Stage::Ended);
        match failure {
            Some(failure) if self.is_all() && is_task_by_task(&failure) => {
                return self.go_task_by_task(ready);
            }
            Some(failure) => self.of_run().fail(failure),
            None => {}
        }
        self.complete(ready);
    }

    fn into_work(self) -> Work {
        Work::Replay(self)
    }

    fn from_work(work: Work) -> Self {
        let Work::Replay(task) = work else { unreachable!("it was a task of a replay") };
        task
    }
}

/// Counts down the node at place `at` of a list of successors: answers the node, and how many it waited for until then.
///
/// # Safety
/// The run goes on until the node has been counted down. It may end before this returns.
#[inline]
unsafe fn count_down(run: *const Run, successors: *const [u32], at: usize) -> (u32, u32) {
    // SAFETY: by the caller's promise; what is borrowed of the run is the counter alone, while it changes.
    unsafe {
        let next = (&*successors)[at];
        (next, (&(*run).pending)[next as usize].fetch_sub(1, Ordering::AcqRel))
    }
}

fn finish(run: Arc<Run>) {
    run.record_time();
    let shared = Arc::clone(&run.shared);
    shared.replay_ends(run.first_id);
    let (gate, failure) = (Arc::clone(&run.gate), run.failure.get().cloned());
    let handles = run.handles.clone();
    if let Some(run) = Arc::into_inner(run) {
        run.graph.0.spare.lock().push(run.pending);
    }
    shared.end_outside(Arc::clone(&gate), failure);
    // The gate holds the bindings, hence the handles: their chains must not hold it.
    for handle in handles {
        handle.base().chain.lock().forget(&gate);
    }
}
