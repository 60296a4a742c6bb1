//! Running a recorded graph again, with counters instead of dependency analysis.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use zellige_model::TaskInfo;

use super::Graph;
use super::as_one::{Way, is_one_by_one};
use crate::data::{AnyHandle, Data, Handle};
use crate::error::{Cause, Error, Failure};
use crate::exec::{Ready, Retired, Shared, enter};
use crate::operand::Accesses;
use crate::sched::{ReadyTask, Work};
use crate::task::{Body, Bound, Env, Header, Ran, Role, Task, TaskCell, TaskRef, Ways, WorkerLocal};

/// Which handles a replay runs on: one for each slot of the graph.
#[derive(Clone)]
pub struct Bindings {
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
}

impl Bindings {
    /// The handles that were recorded.
    pub fn recorded(graph: &Graph) -> Self {
        let handles = graph.0.slots.iter().map(|slot| Arc::clone(&slot.handle)).collect();
        Bindings { graph: graph.clone(), handles }
    }

    /// Any handles, one for each slot: of types with which no body is run.
    pub(crate) fn placeholders(graph: &Graph, handles: Vec<Arc<dyn AnyHandle>>) -> Self {
        Bindings { graph: graph.clone(), handles }
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
        ways: Ways::default(),
        tally: None,
    };
    let task = TaskCell::make(header, Role::Replay, Replay(bindings));
    shared.link(&task, &[], Retired::Refused)?;
    Ok(task)
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
    /// Predecessors of each task that have not completed.
    pending: Box<[AtomicU32]>,
    /// Number of the first task in traces.
    first_id: u64,
    /// Sinks that have not completed.
    remaining: AtomicUsize,
    /// Something failed, now or before: every access is checked for poison.
    strict: AtomicBool,
    failure: OnceLock<Arc<Failure>>,
    /// The task that stands for the replay.
    gate: Arc<Task>,
    /// When it began and how it goes, where it could be put on a GPU in one launch.
    began: Mutex<Option<(Instant, Way)>>,
}

/// In the place of a task's index: all of them, as one.
const ALL: u32 = u32::MAX;

/// A task of a replay that has not completed, or all of them as one. There is one of each that is ready:
/// completing the task takes it.
///
/// The run stays alive until all of its tasks have completed, so the pointer is valid for as long as there is
/// this, and what is borrowed of the run is borrowed of this.
pub(crate) struct ReplayTask {
    run: NonNull<Run>,
    index: u32,
}

// SAFETY: it stands for one task of a run that other threads may run; Run is Sync.
unsafe impl Send for ReplayTask {}
// SAFETY: what a shared one gives is shared references into the run, and Run is Sync.
unsafe impl Sync for ReplayTask {}

impl Run {
    fn start(shared: &Arc<Shared>, bindings: &Bindings, gate: Arc<Task>) {
        let graph = bindings.graph.clone();
        if let Some(hub) = &shared.hub {
            hub.will_replay(&graph, &bindings.handles, |header| shared.home_of(header));
            hub.has_used(&gate, None);
        }
        if graph.is_empty() {
            shared.complete_outside(&gate, None);
            return;
        }
        let data = &graph.0;
        let poisoned = bindings.handles.iter().any(|handle| handle.base().is_poisoned());
        let spare = data.spare.lock().pop();
        let mut pending =
            spare.unwrap_or_else(|| data.predecessors.iter().map(|_| AtomicU32::new(0)).collect());
        for (pending, &count) in pending.iter_mut().zip(&data.predecessors) {
            *pending.get_mut() = count;
        }
        let way = data.as_one.as_ref().filter(|_| !poisoned).and_then(|as_one| as_one.way(shared));
        let run = Arc::new(Run {
            shared: Arc::clone(shared),
            graph: graph.clone(),
            handles: bindings.handles.clone(),
            pending,
            // One more for all of them.
            first_id: shared.next_ids(data.bodies.len() as u64 + 1),
            remaining: AtomicUsize::new(data.sinks),
            strict: AtomicBool::new(poisoned),
            failure: OnceLock::new(),
            gate,
            began: Mutex::new(None),
        });
        // The run owns itself until its last task completes, which may be before the loop below ends.
        let run = NonNull::new(Arc::into_raw(run).cast_mut()).expect("an Arc is never null");
        let all = ReplayTask { run, index: ALL };
        shared.replay_begins(all.of_run().first_id, &graph);
        if let Some(task) = way.and_then(|way| all.as_one(way)) {
            return shared.push_ready(task, None);
        }
        let mut ready = Ready::new();
        all.go_one_by_one(&mut ready);
        ready.into_iter().for_each(|task| shared.push_ready(task, None));
    }

    /// The way it went, and how long that took, if somebody wants to know.
    fn tell_time(&self) {
        let Some(as_one) = &self.graph.0.as_one else { return };
        if let Some((began, way)) = self.began.lock().take().filter(|_| self.failure.get().is_none()) {
            as_one.took(self.shared.id, way, began.elapsed());
        }
    }

    fn trace_edges(&self) {
        let Some(recorder) = &self.shared.recorder else { return };
        for task in 0..self.pending.len() {
            for &next in self.graph.0.successors_of(task) {
                recorder.edge(self.first_id + task as u64, self.first_id + u64::from(next));
            }
        }
    }

    /// True if the replay was cancelled, alone or with everything.
    fn is_cancelled(&self) -> bool {
        self.gate.is_cancelled() || self.shared.is_cancelled(self.gate.header.id)
    }

    /// The task, or all as one, uses nothing any more.
    fn has_used(&self, index: u32) {
        let Some(hub) = &self.shared.hub else { return };
        let tasks = if index == ALL { 0..self.graph.len() } else { index as usize..index as usize + 1 };
        for task in tasks {
            let home = self.shared.home_of(self.graph.header(task));
            hub.has_replayed(&self.graph, &self.handles, task, home);
        }
    }

    /// Notes a failure and poisons what the task writes.
    fn fail(&self, task: usize, failure: Arc<Failure>) {
        self.strict.store(true, Ordering::Release);
        self.graph.0.body_of(task).poison(Some(self.graph.0.bound(task, &self.handles)), &failure);
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

    /// Its place in the graph's arrays; behind the last for all of them.
    fn at(&self) -> usize {
        if self.index == ALL { self.of_run().graph.len() } else { self.index as usize }
    }

    /// All tasks of the run as one, if this is the way for them and a GPU has room for their operands.
    fn as_one(&self, way: Way) -> Option<ReadyTask> {
        let run = self.of_run();
        let task = ReadyTask::new(Work::Replay(self.another(ALL)));
        let fits = way == Way::AsOne && run.shared.has_room_on_gpu(&task);
        let way = if fits { Way::AsOne } else { Way::OneByOne };
        *run.began.lock() = Some((Instant::now(), way));
        if fits {
            return Some(task);
        }
        // Not to be taken for lost.
        drop(task.into_work());
        None
    }

    /// The tasks that wait for none go first; they are left in `ready`.
    fn go_one_by_one(&self, ready: &mut Ready) {
        let run = self.of_run();
        run.trace_edges();
        for (index, _) in run.graph.0.predecessors.iter().enumerate().filter(|(_, count)| **count == 0) {
            ready.push(ReadyTask::new(Work::Replay(self.another(index as u32))));
        }
    }

    pub(crate) fn header(&self) -> &Header {
        self.of_run().graph.0.header_of(self.at())
    }

    pub(crate) fn priority(&self) -> i32 {
        self.of_run().graph.0.priorities.get(self.at()).copied().unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u64 {
        self.of_run().first_id + self.at() as u64
    }

    /// True if it may not run everywhere.
    pub(crate) fn is_restricted(&self) -> bool {
        self.of_run().graph.0.restricted && self.header().only.is_some()
    }

    /// The most tasks that one call of its codelet takes.
    pub(crate) fn batch(&self, on_gpu: bool) -> u32 {
        let any = self.of_run().graph.0.batched[usize::from(on_gpu)] && self.index != ALL;
        if any { self.header().ways.together(on_gpu) } else { 0 }
    }

    pub(crate) fn body(&self) -> &dyn Body {
        self.of_run().graph.0.body_of(self.at())
    }

    pub(crate) fn bound(&self) -> Bound<'_> {
        let run = self.of_run();
        run.graph.0.bound(self.at(), &run.handles)
    }

    /// True if poison may be about.
    pub(crate) fn is_strict(&self) -> bool {
        self.of_run().strict.load(Ordering::Acquire)
    }

    /// The task that stands for the replay.
    pub(crate) fn gate(&self) -> &Arc<Task> {
        &self.of_run().gate
    }

    /// The failure that the replay's cancellation is, if it was cancelled.
    pub(crate) fn cancelled(&self) -> Option<Arc<Failure>> {
        let run = self.of_run();
        run.is_cancelled().then(|| run.gate.describe(Cause::Cancelled))
    }

    /// Completes the task, which has run or never will; what becomes ready is left in `ready`.
    pub(crate) fn end(self, failure: Option<Arc<Failure>>, ready: &mut Ready) {
        match failure {
            Some(failure) if self.index == ALL && is_one_by_one(&failure) => {
                return self.go_one_by_one(ready);
            }
            Some(failure) => self.of_run().fail(self.at(), failure),
            None => {}
        }
        self.complete(ready);
    }

    pub(crate) fn runtime(&self) -> u32 {
        self.of_run().shared.id
    }

    /// Those that wait for it, which has not completed.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = ReplayTask> {
        let data = &self.of_run().graph.0;
        let successors = if self.index == ALL { &[] } else { data.successors_of(self.at()) };
        successors.iter().map(|&index| self.another(index))
    }

    /// How many that it waits for have not completed.
    pub(crate) fn pending(&self) -> u32 {
        self.of_run().pending.get(self.at()).map_or(0, |pending| pending.load(Ordering::Acquire))
    }

    /// Runs the task and completes it; what becomes ready is left in `ready`.
    pub(crate) fn run(
        mut self,
        shared: &Arc<Shared>,
        worker: usize,
        local: &mut WorkerLocal,
        ready: &mut Ready,
    ) {
        loop {
            let run = self.of_run();
            let (data, task) = (&*run.graph.0, self.index as usize);
            if run.is_cancelled() {
                run.fail(task, run.gate.describe(Cause::Cancelled));
                break;
            }
            let bound = data.bound(task, &run.handles);
            let strict = run.strict.load(Ordering::Acquire);
            let mut env =
                Env::new(shared, &data.headers[task], self.id(), worker, local, Some(bound), strict);
            let ran = {
                let _entered = enter(&run.gate);
                data.bodies[task].run(&mut env)
            };
            match ran {
                Ran::Done => {
                    shared.record(&env, worker, false);
                    break;
                }
                Ran::Failed(failure) => {
                    shared.record(&env, worker, true);
                    run.fail(task, failure);
                    break;
                }
                Ran::Busy(busy) => {
                    match busy.handle.park(busy.resource, ReadyTask::new(Work::Replay(self))) {
                        Ok(()) => return,
                        // Free again by now: try once more.
                        Err(back) => match back.into_work() {
                            Work::Replay(again) => self = again,
                            Work::Task(_) => unreachable!("it was a task of a replay"),
                        },
                    }
                }
            }
        }
        self.complete(ready);
    }

    /// Completes the task without running it.
    pub(crate) fn discard(self, shared: &Arc<Shared>, cause: Cause) {
        let failure = Failure { task: self.header().title(), operands: Vec::new(), cause };
        self.of_run().fail(self.at(), Arc::new(failure));
        let mut ready = Ready::new();
        self.complete(&mut ready);
        for task in ready {
            shared.push_ready(task, None);
        }
    }

    fn complete(self, ready: &mut Ready) {
        let run: *const Run = self.run.as_ptr();
        self.of_run().has_used(self.index);
        if self.index == ALL {
            // SAFETY: it stands for every task, so that nobody else follows a pointer into the run, and this
            // takes over the reference that `start` gave to the run itself.
            return finish(unsafe { Arc::from_raw(run) });
        }
        let successors: *const [u32] = self.of_run().graph.0.successors_of(self.index as usize);
        // From here on another thread may end the run and free it as soon as the last count has changed: no
        // reference into it lives that long, but for those to counters while they change.
        for at in 0..successors.len() {
            // SAFETY: the run goes on until all of this task's successors have completed, and this one has
            // not been counted down.
            let (next, left) = unsafe {
                let next = (&*successors)[at];
                (next, (&(*run).pending)[next as usize].fetch_sub(1, Ordering::AcqRel))
            };
            if left == 1 {
                ready.push(ReadyTask::new(Work::Replay(self.another(next))));
            }
        }
        // SAFETY: a sink that has not been counted down keeps the run going.
        if successors.is_empty() && unsafe { (*run).remaining.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: every sink, hence every task, has completed: nobody else follows a pointer into the run, and this
            // takes over the reference that `start` gave to the run itself.
            finish(unsafe { Arc::from_raw(run) });
        }
    }
}

fn finish(run: Arc<Run>) {
    run.tell_time();
    let shared = Arc::clone(&run.shared);
    shared.replay_ends(run.first_id);
    let (gate, failure) = (Arc::clone(&run.gate), run.failure.get().cloned());
    let handles = run.handles.clone();
    if let Some(run) = Arc::into_inner(run) {
        run.graph.0.spare.lock().push(run.pending);
    }
    shared.complete_outside(&gate, failure);
    // The gate holds the bindings, hence the handles: their chains must not hold it.
    for handle in handles {
        handle.base().chain.lock().forget(&gate);
    }
}
