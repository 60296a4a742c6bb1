//! Hints for the memory manager: future uses of data.

use std::sync::Arc;

use super::TransferDriver;
use crate::engine::graph::Graph;
use crate::memory::{self, Datum, Memory, NodeId};
use crate::task::plan::reads_as_stored;
use crate::task::{Accesses, AnyHandle, Header, Role, Task};

impl TransferDriver {
    /// Announces a submitted task, whose data will be used. It runs on the worker `home` if that is
    /// certain.
    pub(crate) fn will_use(&self, task: &Task, home: Option<usize>) {
        self.each_datum(task, |memory, datum| memory.expect(datum, 1));
        self.each_wide(task, home, Memory::expect_wide);
        // The task may have brought new values to the host.
        if self.is_limited() {
            self.with_memory(|memory| memory.tidy());
        }
    }

    /// Withdraws the announcement of a task that has ended, or of a replay that has begun.
    pub(crate) fn has_used(&self, task: &Task, home: Option<usize>) {
        self.each_datum(task, |memory, datum| memory.unexpect(datum, 1));
        self.each_wide(task, home, Memory::unexpect_wide);
    }

    /// Announces a replay on these handles. `home` returns the worker of each of its tasks, if that
    /// is certain.
    pub(crate) fn will_replay(
        &self,
        graph: &Graph,
        handles: &[Arc<dyn AnyHandle>],
        home: impl Fn(&Header) -> Option<usize>,
    ) {
        self.each_slot(graph, handles, Memory::expect);
        for task in 0..graph.len() {
            self.each_wide_of(graph, handles, task, home(graph.header(task)), Memory::expect_wide);
        }
    }

    /// Withdraws the announcement of one task of a replay, which has ended.
    pub(crate) fn has_replayed(
        &self,
        graph: &Graph,
        handles: &[Arc<dyn AnyHandle>],
        task: usize,
        home: Option<usize>,
    ) {
        self.with_memory(|memory| {
            let data = graph.operand_slots(task).iter().filter_map(|&slot| handles[slot as usize].datum());
            data.for_each(|datum| memory.unexpect(datum, 1));
        });
        self.each_wide_of(graph, handles, task, home, Memory::unexpect_wide);
    }

    /// Withdraws the announcement of all tasks of a replay, which ran as one.
    pub(crate) fn has_replayed_all(
        &self,
        graph: &Graph,
        handles: &[Arc<dyn AnyHandle>],
        home: impl Fn(&Header) -> Option<usize>,
    ) {
        self.each_slot(graph, handles, Memory::unexpect);
        for task in 0..graph.len() {
            self.each_wide_of(graph, handles, task, home(graph.header(task)), Memory::unexpect_wide);
        }
    }

    /// Calls back with the number of uses of each handle by the tasks of a graph.
    fn each_slot(
        &self,
        graph: &Graph,
        handles: &[Arc<dyn AnyHandle>],
        tell: impl Fn(&mut Memory, Datum, u32),
    ) {
        self.with_memory(|memory| {
            for (handle, uses) in handles.iter().zip(graph.slot_uses()) {
                if let Some(datum) = handle.datum() {
                    tell(memory, datum, uses);
                }
            }
        });
    }

    fn each_wide_of(
        &self,
        graph: &Graph,
        handles: &[Arc<dyn AnyHandle>],
        task: usize,
        home: Option<usize>,
        tell: impl Fn(&mut Memory, Datum, NodeId),
    ) {
        let Some(node) = home.map(|worker| self.node_of(worker)) else { return };
        let slots = graph.operand_slots(task);
        self.with_memory(|memory| {
            let read = reads_as_stored(graph.body(task)).into_iter();
            read.filter_map(|at| handles[slots[at] as usize].datum())
                .for_each(|datum| tell(memory, datum, node));
        });
    }

    fn each_datum(&self, task: &Task, tell: impl Fn(&mut Memory, Datum)) {
        let mut accesses = Accesses::new();
        task.body.declare(&mut accesses);
        self.with_memory(|memory| {
            accesses.iter().filter_map(|access| access.handle.datum()).for_each(|datum| tell(memory, datum));
        });
    }

    fn each_wide(&self, task: &Task, home: Option<usize>, tell: impl Fn(&mut Memory, Datum, NodeId)) {
        // A replay announces its tasks itself.
        let home = home.filter(|_| task.role == Role::Work);
        let Some(node) = home.map(|worker| self.node_of(worker)) else { return };
        let mut accesses = Accesses::new();
        task.body.declare(&mut accesses);
        self.with_memory(|memory| {
            let read = reads_as_stored(&task.body).into_iter();
            read.filter_map(|at| accesses[at].handle.datum()).for_each(|datum| tell(memory, datum, node));
        });
    }
}

/// A replica that could make room for others, as
/// [`RuntimeBuilder::choose_victim`](crate::RuntimeBuilder::choose_victim) shows it.
///
/// ```
/// use zellige_runtime::{Candidate, Emulated, Runtime};
///
/// // What nobody has announced a use of, and of these the oldest.
/// let oldest = |_node: usize, replicas: &[Candidate]| {
///     (0..replicas.len()).min_by_key(|&at| (replicas[at].has_uses, replicas[at].last_use))
/// };
/// let rt = Runtime::builder().workers(1).device(Emulated::new(1 << 20)).choose_victim(oldest).build()?;
/// assert_eq!(rt.workers(), 2);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The number of its handle, as in traces.
    pub data: u64,
    /// Bytes that its eviction would free.
    pub bytes: u64,
    /// True if a task that is queued for this node will use it.
    pub wanted: bool,
    /// True if some submitted task will use it, here or elsewhere.
    pub has_uses: bool,
    /// Time stamp of the last use: larger for later uses.
    pub last_use: u64,
    /// True if it is the only copy, which would have to be written back first.
    pub only_copy: bool,
}

/// A user's function that chooses victims. Its arguments are the memory node (in the order of
/// [`Runtime::memory`]) and the first candidates.
pub(crate) type Chooser = Box<dyn Fn(usize, &[Candidate]) -> Option<usize> + Send>;

impl TransferDriver {
    /// Installs the user's choice of the replicas to evict.
    pub(crate) fn choose_victims_by(&self, choose: Chooser) {
        let data = Arc::clone(&self.manager.data);
        let hook = move |node: usize, candidates: &[memory::EvictionCandidate]| {
            let data = data.lock();
            let shown = |c: &memory::EvictionCandidate| Candidate {
                data: data.get(c.datum.0 as usize).map_or(0, |(id, _)| *id),
                bytes: c.bytes,
                wanted: c.wanted,
                has_uses: c.has_uses,
                last_use: c.last_use,
                only_copy: c.sole,
            };
            let shown: Vec<Candidate> = candidates.iter().map(shown).collect();
            drop(data);
            choose(node, &shown)
        };
        self.with_memory(|memory| memory.set_victim_hook(Box::new(hook)));
    }

    /// Discards the value of a handle that no task uses.
    pub(crate) fn invalidate(&self, handle: &dyn AnyHandle) {
        if let Some(datum) = handle.datum() {
            self.with_memory(|memory| memory.invalidate(datum));
        }
    }
}
