//! Running a recorded graph again, with counters instead of dependency analysis.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::Graph;
use super::recorder::GraphData;
use crate::data::{AnyHandle, Data, Handle};
use crate::error::{Cause, Error, Failure};
use crate::exec::Shared;
use crate::operand::Accesses;
use crate::sched::{ReadyTask, Work};
use crate::task::{Body, Env, Header, Ran, Role, Task, TaskCell, TaskInfo, TaskRef, WorkerLocal};

/// Which handles a replay runs on: one for each slot of the graph.
#[derive(Clone)]
pub struct Bindings {
    graph: Graph,
    handles: Vec<Arc<dyn AnyHandle>>,
}

impl Bindings {
    /// The handles that were recorded.
    pub fn recorded(graph: &Graph) -> Self {
        let handles = graph
            .0
            .slots
            .iter()
            .map(|slot| Arc::clone(&slot.handle))
            .collect();
        Bindings {
            graph: graph.clone(),
            handles,
        }
    }

    /// Binds `handle` in place of the slot called `name`.
    ///
    /// # Errors
    /// [`Error::Binding`] if there is no such slot, or several, or `handle` holds another type of data.
    pub fn and<D: Data>(mut self, name: &str, handle: &Handle<D>) -> Result<Self, Error> {
        let slots = &self.graph.0.slots;
        let mut found = (0..slots.len()).filter(|&i| slots[i].handle.base().name() == name);
        let (Some(slot), None) = (found.next(), found.next()) else {
            let known = self
                .graph
                .slots()
                .into_iter()
                .take(16)
                .collect::<Vec<_>>()
                .join(", ");
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
    };
    let task = TaskCell::new(header, Role::Replay, Replay(bindings));
    shared.link(&task, &[])?;
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
        out.extend(
            self.0
                .handles
                .iter()
                .zip(slots)
                .map(|(handle, slot)| (handle, slot.mode).into()),
        );
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
    nodes: Box<[ReplayNode]>,
    /// Sinks that have not completed.
    remaining: AtomicUsize,
    /// Something failed, now or before: every access is checked for poison.
    strict: AtomicBool,
    failure: OnceLock<Arc<Failure>>,
    /// The task that stands for the replay.
    gate: Arc<Task>,
}

/// One task of one replay.
pub(super) struct ReplayNode {
    header: Header,
    index: u32,
    pending: AtomicU32,
    run: AtomicPtr<Run>,
}

/// A ready task of a replay. The run stays alive until all of its tasks have completed, so the pointer is valid for as long
/// as the task has not.
pub(crate) struct ReplayTask(NonNull<ReplayNode>);

// SAFETY: it stands for one task of a run that other threads may run; ReplayNode is Sync.
unsafe impl Send for ReplayTask {}
// SAFETY: as above.
unsafe impl Sync for ReplayTask {}

impl Run {
    fn start(shared: &Arc<Shared>, bindings: &Bindings, gate: Arc<Task>) {
        let graph = &bindings.graph;
        if graph.is_empty() {
            shared.complete_outside(&gate, None);
            return;
        }
        let data = &graph.0;
        let poisoned = bindings
            .handles
            .iter()
            .any(|handle| handle.base().is_poisoned());
        let cancelled = shared.is_cancelled(gate.header.id) || gate.is_cancelled();
        let spare = data.spare.lock().pop();
        let mut nodes = spare.unwrap_or_else(|| new_nodes(data));
        let first_id = shared.next_ids(data.tasks.len() as u64);
        for (node, &pending) in nodes.iter_mut().zip(&data.predecessors) {
            *node.pending.get_mut() = pending;
            node.header.id = first_id + u64::from(node.index);
            node.header.runtime = shared.id;
        }
        let run = Arc::new(Run {
            shared: Arc::clone(shared),
            graph: graph.clone(),
            handles: bindings.handles.clone(),
            nodes,
            remaining: AtomicUsize::new(data.sinks),
            strict: AtomicBool::new(poisoned || cancelled),
            failure: OnceLock::new(),
            gate,
        });
        run.trace_edges(first_id);
        // The run owns itself until its last task completes.
        let run = Arc::into_raw(run);
        // SAFETY: it has just been made, and lives at least until its roots have completed.
        let this = unsafe { &*run };
        for node in &this.nodes {
            node.run.store(run.cast_mut(), Ordering::Relaxed);
        }
        for (node, &pending) in this.nodes.iter().zip(&data.predecessors) {
            // A task with predecessors may be running by now: only the roots are touched.
            if pending == 0 {
                shared.push_ready(
                    ReadyTask::new(Work::Replay(ReplayTask(NonNull::from(node)))),
                    None,
                );
            }
        }
    }

    fn trace_edges(&self, first_id: u64) {
        let Some(recorder) = &self.shared.recorder else {
            return;
        };
        for task in 0..self.nodes.len() {
            for &next in self.graph.0.successors_of(task) {
                recorder.edge(first_id + task as u64, first_id + u64::from(next));
            }
        }
    }
}

fn new_nodes(data: &GraphData) -> Box<[ReplayNode]> {
    let node = |(index, task): (usize, &Arc<Task>)| ReplayNode {
        header: Header { ..task.header },
        index: index as u32,
        pending: AtomicU32::new(0),
        run: AtomicPtr::new(std::ptr::null_mut()),
    };
    data.tasks.iter().enumerate().map(node).collect()
}

impl ReplayTask {
    fn node(&self) -> &ReplayNode {
        // SAFETY: see the type: the run is alive while one of its tasks has not completed.
        unsafe { self.0.as_ref() }
    }

    fn of_run(&self) -> &Run {
        // SAFETY: as in `node`.
        unsafe { &*self.node().run.load(Ordering::Relaxed) }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.node().header
    }

    /// Runs the task and completes it; what becomes ready is left in `ready`.
    pub(crate) fn run(
        mut self,
        shared: &Arc<Shared>,
        worker: usize,
        local: &mut WorkerLocal,
        ready: &mut Vec<ReadyTask>,
    ) {
        loop {
            // SAFETY: as in `of_run`; the borrow must not hang on `self`, which may be parked below.
            let (node, run) =
                unsafe { (&*self.0.as_ptr(), &*self.node().run.load(Ordering::Relaxed)) };
            let task = node.index as usize;
            let bound = run.graph.0.bound(task, &run.handles);
            let strict = run.strict.load(Ordering::Acquire);
            let mut env = Env::new(shared, &node.header, worker, local, Some(bound), strict);
            if strict && (run.gate.is_cancelled() || shared.is_cancelled(run.gate.header.id)) {
                self.fail(run.gate.describe(Cause::Cancelled));
                break;
            }
            match run.graph.0.tasks[task].body.run(&mut env) {
                Ran::Done => {
                    shared.record(&env, &node.header, worker, false);
                    break;
                }
                Ran::Failed(failure) => {
                    shared.record(&env, &node.header, worker, true);
                    self.fail(failure);
                    break;
                }
                Ran::Busy(busy) => match busy
                    .handle
                    .park(busy.resource, ReadyTask::new(Work::Replay(self)))
                {
                    Ok(()) => return,
                    Err(back) => match back.into_work() {
                        Work::Replay(again) => self = again,
                        Work::Task(_) => unreachable!("it was a task of a replay"),
                    },
                },
            }
        }
        self.complete(ready);
    }

    /// Notes a failure and poisons what the task writes.
    fn fail(&self, failure: Arc<Failure>) {
        let run = self.of_run();
        run.strict.store(true, Ordering::Release);
        let task = self.node().index as usize;
        run.graph.0.tasks[task]
            .body
            .poison(Some(run.graph.0.bound(task, &run.handles)), &failure);
        // The first failure is the one to report.
        let _ = run.failure.set(failure);
    }

    /// Completes the task without running it.
    pub(crate) fn discard(self, shared: &Arc<Shared>, cause: Cause) {
        let failure = Failure {
            task: self.header().title(),
            operands: Vec::new(),
            cause,
        };
        self.fail(Arc::new(failure));
        let mut ready = Vec::new();
        self.complete(&mut ready);
        for task in ready {
            shared.push_ready(task, None);
        }
    }

    fn complete(self, ready: &mut Vec<ReadyTask>) {
        let run = self.of_run();
        let successors = run.graph.0.successors_of(self.node().index as usize);
        for &next in successors {
            let next = &run.nodes[next as usize];
            if next.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready.push(ReadyTask::new(Work::Replay(ReplayTask(NonNull::from(
                    next,
                )))));
            }
        }
        if successors.is_empty() && run.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: every sink, hence every task, has completed: nobody else follows a pointer into the run, and this
            // takes over the reference that `start` gave to the run itself.
            let run = unsafe { Arc::from_raw(std::ptr::from_ref(run)) };
            finish(run);
        }
    }
}

fn finish(run: Arc<Run>) {
    let shared = Arc::clone(&run.shared);
    let (gate, failure) = (Arc::clone(&run.gate), run.failure.get().cloned());
    if let Some(run) = Arc::into_inner(run) {
        run.graph.0.spare.lock().push(run.nodes);
    }
    shared.complete_outside(&gate, failure);
}
