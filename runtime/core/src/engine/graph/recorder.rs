//! Recording of a graph.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use zellige_model::{CachedId, TaskInfo};

use super::Bindings;
use super::device_graph::DeviceGraph;
use super::edges::{Edges, Nodes, range};
use super::ends::{Ends, SlotEnds};
use crate::deps::{AccessRights, Links, Order, OrderNode};
use crate::engine::{check_access, check_aliases, sort_by_handle};
use crate::error::Error;
use crate::numbered::Numbered;
use crate::operand::Mode;
use crate::task::{
    Accesses, AnyHandle, Body, Bound, Env, Handle, Header, Implementations, Options, Ran, Spec, TaskRef,
};
use crate::value::Data;

/// Accepts tasks like a runtime, and records them instead of running them.
///
/// Handles used while recording become the graph's *slots*: a replay runs on them, or on other
/// handles bound in their place.
///
/// ```
/// use zellige_runtime::{Error, Handle, Recorder, Runtime, Submit, update};
///
/// fn steps(on: &impl Submit, x: &Handle<u32>) -> Result<(), Error> {
///     (0..4).try_for_each(|_| on.task("step").operands((update(x),)).cpu(|(x,)| *x += 1).submit().map(drop))
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(0u32);
/// let graph = rt.record(|recorder: &Recorder| steps(recorder, &x))?; // nothing runs
/// steps(&rt, &x)?;
/// assert_eq!((graph.len(), rt.take(x)?), (4, 4));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct Recorder {
    state: RefCell<RecorderState>,
    placement: Option<Box<dyn Placement>>,
}

/// Decides which tasks of a graph that several processes record are recorded by this one.
pub trait Placement: Send {
    /// Decides about a task that is being recorded. `None`: it is recorded here; otherwise the
    /// result stands for a task that runs elsewhere. The tasks recorded before can be cut off
    /// ([`cut`](crate::internal::ranks::cut)).
    ///
    /// # Errors
    /// Any error that keeps the task from being recorded.
    fn place(&self, recorder: &Recorder, task: &Described<'_>) -> Result<Option<TaskRef>, Error>;
}

/// A task that has been described and not submitted.
pub struct Described<'t> {
    /// Name of its codelet.
    pub name: &'static str,
    /// Coordinates of the task; `u32::MAX` if there are none.
    pub coords: [u32; 3],
    /// Its accesses.
    pub body: &'t dyn Body,
}

#[derive(Default)]
struct RecorderState {
    headers: Vec<Header>,
    bodies: Vec<Box<dyn Body>>,
    index_of: Numbered<u64, u32>,
    edges: Edges,
    slots: Vec<GraphSlot>,
    slot_of: Numbered<u64, u32>,
    chains: Vec<SlotChain>,
    /// Rights of handles that were split, joined or viewed while recording: the same in every
    /// replay, and independent of the runtime's state.
    rights: Numbered<u64, AccessRights>,
    /// Slots of each task's accesses, one list after the other.
    operand_slots: Vec<u32>,
    operand_ends: Vec<u32>,
}

/// A handle of the graph.
pub(super) struct GraphSlot {
    pub(super) handle: Arc<dyn AnyHandle>,
    /// The access mode of the graph as a whole.
    pub(super) mode: Mode,
    /// Number of task operands that refer to it.
    pub(super) uses: u32,
}

/// The accesses to one slot so far; tasks and groups are positions in the recording.
#[derive(Default)]
struct SlotChain {
    order: Order<u32, u32>,
    written: bool,
    ends: SlotEnds,
}

/// An access of a task that is being recorded.
struct RecordedAccess<'a> {
    state: &'a mut RecorderState,
    task: u32,
    slot: u32,
}

impl Links for RecordedAccess<'_> {
    type Task = u32;
    type Group = u32;

    fn task(&self) -> u32 {
        self.task
    }

    fn follow(&mut self, node: &OrderNode<u32, u32>) {
        match *node {
            OrderNode::Task(before) => self.state.edges.add(before, self.task),
            OrderNode::Group(group) => self.state.edges.follow(group, self.task),
        }
    }

    fn open(&mut self, mode: Mode) -> u32 {
        self.state.edges.open(mode == Mode::Reduce)
    }

    fn join(&mut self, group: &u32) {
        self.state.edges.join(*group, self.task);
    }

    fn close(&mut self, group: &u32) {
        self.state.close(*group, self.slot);
    }
}

/// Adds the partial results of a reduction at its position in the graph.
struct CombineBody(Arc<dyn AnyHandle>);

impl Body for CombineBody {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        let handle = env.bound(0).unwrap_or(&*self.0);
        env.notes.began = true;
        handle.combine_partials(env.place_of(0));
        handle.base().failure().map_or(Ran::Done, Ran::Failed)
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.0, Mode::Update).into());
    }

    fn is_for_host(&self) -> bool {
        true
    }

    fn clear(&self) {}
}

/// Numbers of recorded tasks count down from the top, so that no submitted task has one.
fn recorded_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
    NEXT.fetch_sub(1, Ordering::Relaxed)
}

impl RecorderState {
    fn slot(&mut self, handle: &dyn AnyHandle, mode: Mode, written: bool) -> u32 {
        let base = handle.base();
        if let Some(&slot) = self.slot_of.get(&base.id) {
            // Written first, then anything: the graph writes it. Read first, then written: the
            // graph updates it.
            let known = &mut self.slots[slot as usize].mode;
            if *known == Mode::Read && mode.writes() {
                *known = Mode::Update;
            }
            return slot;
        }
        let slot = self.slots.len() as u32;
        let whole = match mode {
            Mode::Read | Mode::Write => mode,
            _ => Mode::Update,
        };
        self.slots.push(GraphSlot { handle: handle.arc(), mode: whole, uses: 0 });
        self.slot_of.insert(base.id, slot);
        self.chains.push(SlotChain { written, ..SlotChain::default() });
        slot
    }

    /// Returns the access rights to a handle at this point of the recording. The runtime's present
    /// splits say nothing about the replays.
    fn rights(&self, handle: u64, now: AccessRights) -> AccessRights {
        let recorded = self.rights.get(&handle).copied();
        let lasting = if now == AccessRights::Split { AccessRights::Open } else { now };
        if lasting == AccessRights::Gone { lasting } else { recorded.unwrap_or(lasting) }
    }

    /// Adds a task whose accesses have been checked, with the slots of its accesses; returns its
    /// index.
    fn add(&mut self, header: Header, body: Box<dyn Body>, slots: impl IntoIterator<Item = u32>) -> u32 {
        let index = self.bodies.len() as u32;
        self.index_of.insert(header.id, index);
        self.headers.push(header);
        self.bodies.push(body);
        for slot in slots {
            self.slots[slot as usize].uses += 1;
            self.operand_slots.push(slot);
        }
        self.operand_ends.push(self.operand_slots.len() as u32);
        index
    }

    fn access(&mut self, task: u32, slot: u32, mode: Mode) {
        let chain = &mut self.chains[slot as usize];
        chain.written |= mode.writes();
        let mut order = std::mem::take(&mut chain.order);
        order.access(mode, &mut RecordedAccess { state: self, task, slot });
        let chain = &mut self.chains[slot as usize];
        chain.order = order;
        chain.ends.access(task, mode);
    }

    /// Closes `group`, so that no further access to the slot joins it. A task adds the partial
    /// results of its members.
    fn close(&mut self, group: u32, slot: u32) {
        if !self.edges.reduces(group) {
            return;
        }
        let handle = Arc::clone(&self.slots[slot as usize].handle);
        let header = Header {
            id: recorded_id(),
            runtime: u32::MAX,
            name: "combine",
            priority: i32::MAX,
            info: TaskInfo::default(),
            only: None,
            implementations: Implementations::default(),
            model: CachedId::default(),
            tally: None,
        };
        let task = self.add(header, Box::new(CombineBody(handle)), [slot]);
        self.edges.combine(group, task);
        self.chains[slot as usize].ends.access(task, Mode::Update);
    }

    fn finish(mut self) -> Graph {
        for slot in 0..self.slots.len() as u32 {
            if let Some((_, group)) = self.chains[slot as usize].order.take_open() {
                self.close(group, slot);
            }
        }
        let nodes = self.edges.into_nodes(self.bodies.len());
        let ends = Ends::new(&nodes, self.chains.into_iter().map(|chain| chain.ends).collect());
        Graph(Arc::new(GraphData {
            device_graph: DeviceGraph::of(&self.headers, &self.bodies, self.slots.len()),
            priorities: self.headers.iter().map(|header| header.priority).collect(),
            batched: [false, true]
                .map(|gpu| self.headers.iter().any(|header| header.implementations.together(gpu) > 1)),
            restricted: self.headers.iter().any(|header| header.only.is_some()),
            nodes,
            ends,
            headers: self.headers,
            bodies: self.bodies,
            slots: self.slots,
            operand_slots: self.operand_slots,
            operand_ends: self.operand_ends,
            spare: Mutex::new(Vec::new()),
        }))
    }
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Recorder { state: RefCell::default(), placement: None }
    }

    /// Creates a recorder that records the tasks that `placement` selects.
    pub(crate) fn placed(placement: Box<dyn Placement>) -> Self {
        Recorder { state: RefCell::default(), placement: Some(placement) }
    }

    pub(crate) fn finish(self) -> Graph {
        self.state.into_inner().finish()
    }

    /// Returns how the tasks since the last [cut](Self::cut) access a handle, if they do.
    pub(crate) fn mode_of(&self, handle: u64) -> Option<Mode> {
        let state = self.state.borrow();
        state.slot_of.get(&handle).map(|&slot| state.slots[slot as usize].mode)
    }

    /// Returns the tasks since the last cut as a graph of their own, if there are any. Later tasks
    /// are recorded into another graph.
    pub(crate) fn cut(&self) -> Option<Graph> {
        let mut state = self.state.borrow_mut();
        if state.bodies.is_empty() {
            return None;
        }
        let rights = state.rights.clone();
        Some(std::mem::replace(&mut *state, RecorderState { rights, ..RecorderState::default() }).finish())
    }
}

impl Recorder {
    /// Records a task.
    pub(crate) fn record<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        if let Some(placement) = &self.placement {
            let (name, coords, body) = spec.parts();
            if let Some(elsewhere) = placement.place(self, &Described { name, coords, body })? {
                return Ok(elsewhere);
            }
        }
        self.record_body(Box::new(spec.body), spec.options)
    }

    /// Records a task whose type has been erased.
    fn record_body(&self, body: Box<dyn Body>, options: Options) -> Result<TaskRef, Error> {
        let name = options.name;
        let (header, after) = options.into_header(recorded_id(), u32::MAX, None);
        let mut accesses = Accesses::new();
        body.declare(&mut accesses);
        sort_by_handle(&mut accesses);
        check_aliases(name, &accesses)?;
        accesses.clear();
        body.declare(&mut accesses);
        let mut state = self.state.borrow_mut();
        for access in &accesses {
            let (written, now) = {
                let chain = access.base.chain.lock();
                (chain.written, chain.rights)
            };
            let recorded = state.slot_of.get(&access.base.id).map(|&s| state.chains[s as usize].written);
            // A placement knows what other processes have written.
            let written = recorded.unwrap_or(written) || self.placement.is_some();
            check_access(name, access, written, state.rights(access.base.id, now))?;
        }
        // A task that runs elsewhere counts as done.
        let after: Vec<TaskRef> =
            after.into_iter().filter(|earlier| self.placement.is_none() || !earlier.is_done()).collect();
        for earlier in &after {
            if !state.index_of.contains_key(&earlier.id()) {
                return Err(Error::Config(format!(
                    "task {name} is recorded to run after {}, which is not part of the same graph",
                    earlier.name()
                )));
            }
        }
        let slots: Vec<(u32, Mode)> = accesses
            .iter()
            .map(|access| {
                let written = access.base.chain.lock().written;
                (state.slot(access.handle, access.mode, written), access.mode)
            })
            .collect();
        // Later tasks name this ticket in `after`: it stands for the recorded task and never runs.
        let ticket = TaskRef::new(&header);
        drop(accesses);
        let index = state.add(header, body, slots.iter().map(|(slot, _)| *slot));
        for (slot, mode) in slots {
            state.access(index, slot, mode);
        }
        for earlier in &after {
            let before = state.index_of[&earlier.id()];
            state.edges.add(before, index);
        }
        Ok(ticket)
    }

    /// See [`Submit::change_rights`](crate::Submit::change_rights): the change is noted in the
    /// recording alone.
    pub(crate) fn change_rights<D: Data>(
        &self,
        handle: &Handle<D>,
        from: AccessRights,
        to: AccessRights,
    ) -> Result<(), AccessRights> {
        let base = handle.core().base();
        let now = base.chain.lock().rights;
        let mut state = self.state.borrow_mut();
        let mut rights = state.rights(base.id, now);
        rights.change(from, to)?;
        state.rights.insert(base.id, rights);
        Ok(())
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} tasks)", self.state.borrow().bodies.len())
    }
}

/// A recorded graph; clones share it.
///
/// ```
/// use std::time::Duration;
///
/// use zellige_runtime::{Error, Graph, GraphNode, Recorder, Runtime, Submit, read, update};
///
/// let rt = Runtime::new()?;
/// let (x, y) = (rt.register(1.0f64), rt.register(0.0f64));
/// let graph: Graph = Graph::record(|g: &Recorder| {
///     g.task("first").operands((update(&x),)).cpu(|(x,)| *x += 1.0).submit()?;
///     g.task("second").operands((read(&x), update(&y))).cpu(|(x, y)| *y += x).submit()?;
///     Ok::<(), Error>(())
/// })?;
/// assert_eq!((graph.len(), graph.depth(), graph.width()), (2, 2, 1));
/// let each = |_: &GraphNode| Duration::from_millis(3);
/// assert_eq!(graph.critical_path(each), Duration::from_millis(6));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Graph(pub(super) Arc<GraphData>);

/// The flat arrays that a replay traverses. The data that every task needs are small and separate
/// from those that only traces need.
pub(super) struct GraphData {
    pub(super) headers: Vec<Header>,
    /// True if some task may not run on every worker.
    pub(super) restricted: bool,
    /// True if some task may run together with others.
    pub(super) batched: [bool; 2],
    pub(super) priorities: Vec<i32>,
    pub(super) bodies: Vec<Box<dyn Body>>,
    pub(super) nodes: Nodes,
    pub(super) ends: Ends,
    pub(super) slots: Vec<GraphSlot>,
    pub(super) operand_slots: Vec<u32>,
    pub(super) operand_ends: Vec<u32>,
    /// Counters of finished replays, kept for reuse.
    pub(super) spare: Mutex<Vec<Box<[AtomicU32]>>>,
    /// The state for replays in one device launch; `None` if they are impossible.
    pub(super) device_graph: Option<DeviceGraph>,
}

impl GraphData {
    /// Returns the counters of a replay. `as_one`: all slots are acquired before the first task and
    /// released after the last.
    pub(super) fn counters(&self, as_one: bool) -> Box<[AtomicU32]> {
        let spare = self.spare.lock().pop();
        let mut counters =
            spare.unwrap_or_else(|| self.ends.pending.iter().map(|_| AtomicU32::new(0)).collect());
        let counts = if as_one { &self.nodes.predecessors } else { &self.ends.pending };
        for (counter, &count) in counters.iter_mut().zip(counts) {
            *counter.get_mut() = count;
        }
        if as_one {
            // The same counts as without slots.
            self.ends.sources.iter().for_each(|&source| *counters[source as usize].get_mut() = 1);
        }
        counters
    }

    /// Returns the handles that a replay binds to the accesses of a task. The index after the last
    /// task stands for all tasks as one.
    pub(super) fn bound<'a>(&'a self, task: usize, handles: &'a [Arc<dyn AnyHandle>]) -> Bound<'a> {
        let slots = if task < self.operand_ends.len() {
            &self.operand_slots[range(&self.operand_ends, task)]
        } else {
            self.whole().slots()
        };
        Bound { handles, slots }
    }

    /// Returns the header of a task; the index after the last one stands for all tasks as one.
    pub(super) fn header_of(&self, task: usize) -> &Header {
        self.headers.get(task).unwrap_or_else(|| self.whole().header())
    }

    /// Returns the body of a task; the index after the last one stands for all tasks as one.
    pub(super) fn body_of(&self, task: usize) -> &dyn Body {
        self.bodies.get(task).map_or(self, |body| &**body)
    }

    #[cold]
    fn whole(&self) -> &DeviceGraph {
        self.device_graph.as_ref().expect("only such a graph is launched as one")
    }
}

/// Accessors for a simulation.
impl Graph {
    pub(crate) fn header(&self, task: usize) -> &Header {
        &self.0.headers[task]
    }

    pub(crate) fn body(&self, task: usize) -> &dyn Body {
        &*self.0.bodies[task]
    }

    /// Returns the title of the task at this position for messages, if there is one. The index
    /// after the last task stands for all tasks as one.
    pub(crate) fn title_of(&self, task: u64) -> Option<String> {
        let task = usize::try_from(task).ok().filter(|&task| task <= self.len())?;
        let is_there = task < self.len() || self.0.device_graph.is_some();
        is_there.then(|| self.0.header_of(task).title())
    }

    /// The slot of each access of a task.
    pub(crate) fn slot_uses(&self) -> impl Iterator<Item = u32> {
        self.0.slots.iter().map(|slot| slot.uses)
    }

    pub(crate) fn operand_slots(&self, task: usize) -> &[u32] {
        &self.0.operand_slots[range(&self.0.operand_ends, task)]
    }

    /// The dependencies as a trace stores them: tasks are numbered from `first`. Groups have
    /// numbers that no task has, above those of [`Graph::numbers`] tasks.
    pub(crate) fn trace_edges(&self, first: u64) -> impl Iterator<Item = (u64, u64)> {
        // One number is left for all tasks as one.
        let number = move |node: u32| first + u64::from(node) + u64::from(node as usize >= self.len());
        let inside = self.0.nodes.edges().map(move |(from, to)| (number(from), number(to)));
        let slots = (0..self.slot_count()).flat_map(move |slot| {
            let (entry, exit) = self.slot_numbers(first, slot);
            let enters = self.0.ends.heads(slot).iter().map(move |&task| (entry, number(task)));
            enters.chain(self.0.ends.finals(slot).iter().map(move |&task| (number(task), exit)))
        });
        inside.chain(slots)
    }

    /// Returns how many numbers a replay needs in traces: one per task, one for all tasks as one,
    /// one per group, and two per slot.
    pub(crate) fn numbers(&self) -> u64 {
        self.slot_numbers(0, self.slot_count()).0
    }

    /// Returns the numbers that edges of a trace use for the acquisition and the release of a slot
    /// by a replay.
    pub(crate) fn slot_numbers(&self, first: u64, slot: usize) -> (u64, u64) {
        let entry = first + (self.0.nodes.len() + 1 + 2 * slot) as u64;
        (entry, entry + 1)
    }

    pub(crate) fn slot_count(&self) -> usize {
        self.0.slots.len()
    }

    /// Returns the recorded handle, and whether it has a value before the graph runs.
    pub(crate) fn slot(&self, slot: usize) -> (&Arc<dyn AnyHandle>, bool) {
        let GraphSlot { handle, mode, .. } = &self.0.slots[slot];
        (handle, handle.began_written() || *mode != Mode::Write)
    }
}

impl Graph {
    /// Records the tasks that `build` submits to the recorder. No runtime is needed for that.
    ///
    /// # Errors
    /// Any error that `build` returns.
    pub fn record<E>(build: impl FnOnce(&Recorder) -> Result<(), E>) -> Result<Graph, E> {
        let recorder = Recorder::new();
        build(&recorder)?;
        Ok(recorder.finish())
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.0.bodies.len()
    }

    /// True if the graph has no tasks.
    pub fn is_empty(&self) -> bool {
        self.0.bodies.is_empty()
    }

    /// Returns the names of its slots: the handles that were used while recording.
    pub fn slots(&self) -> Vec<String> {
        self.0.slots.iter().map(|slot| slot.handle.base().name()).collect()
    }

    /// Binds `handle` in place of the slot called `name`, and the recorded handles everywhere else.
    /// More can be bound with [`Bindings::and`].
    ///
    /// # Errors
    /// [`Error::Binding`] if there is no such slot, or several, or `handle` holds another type of
    /// data.
    pub fn bind<D: Data>(&self, name: &str, handle: &Handle<D>) -> Result<Bindings, Error> {
        Bindings::recorded(self).and(name, handle)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} tasks, {} slots)", self.len(), self.0.slots.len())
    }
}
