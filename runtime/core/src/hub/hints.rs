//! What users may tell the memory manager beforehand.

use std::sync::Arc;

use super::Hub;
use crate::data::{AnyHandle, Data, Handle};
use crate::error::Error;
use crate::exec::Shared;
use crate::memory::{self, Datum, HOST, Memory, Need, NodeId, Reason};
use crate::operand::Accesses;
use crate::plan::reads_as_stored;
use crate::runtime::Runtime;
use crate::task::Task;

/// Every use counts as one under the same number: with the numbers of submission a full device gives up what its tasks need next,
/// since they run by priority (`docs/simulation.md`).
const USE: u64 = 0;

impl Hub {
    /// A task has been submitted, and runs on the worker `home` if that is certain: its data will be used.
    pub(crate) fn will_use(&self, task: &Task, home: Option<usize>) {
        self.each_datum(task, |memory, datum| memory.expect(datum, USE));
        self.each_wide(task, home, Memory::expect_wide);
        // New values may have come to the host with it.
        if self.is_limited() {
            self.with_memory(|memory| memory.tidy());
        }
    }

    /// It has ended.
    pub(crate) fn has_used(&self, task: &Task, home: Option<usize>) {
        self.each_datum(task, |memory, datum| memory.unexpect(datum, USE));
        self.each_wide(task, home, Memory::unexpect_wide);
    }

    fn each_datum(&self, task: &Task, tell: impl Fn(&mut Memory, Datum)) {
        let mut accesses = Accesses::new();
        task.body.declare(&mut accesses);
        self.with_memory(|memory| {
            accesses.iter().filter_map(|access| access.handle.datum()).for_each(|datum| tell(memory, datum));
        });
    }

    fn each_wide(&self, task: &Task, home: Option<usize>, tell: impl Fn(&mut Memory, Datum, NodeId)) {
        let Some(node) = home.map(|worker| self.node_of(worker)) else { return };
        let mut accesses = Accesses::new();
        task.body.declare(&mut accesses);
        self.with_memory(|memory| {
            let read = reads_as_stored(&task.body).into_iter();
            read.filter_map(|at| accesses[at].handle.datum()).for_each(|datum| tell(memory, datum, node));
        });
    }
}

/// A replica that could make room for others, as [`RuntimeBuilder::choose_victim`](crate::RuntimeBuilder::choose_victim) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The number of its handle, as in traces.
    pub data: u64,
    /// What giving it up would free.
    pub bytes: u64,
    /// A task that is queued for this node will use it.
    pub wanted: bool,
    /// Some submitted task will use it, here or elsewhere.
    pub has_uses: bool,
    /// Larger for what was used later.
    pub last_use: u64,
    /// It is the only copy: it would have to be written back first.
    pub only_copy: bool,
}

/// What a user chooses victims with: the memory node (in the order of [`Runtime::memory`]) and the first candidates.
pub(crate) type Chooser = Box<dyn Fn(usize, &[Candidate]) -> Option<usize> + Send>;

impl Hub {
    /// Lets the user choose who makes room.
    pub(crate) fn choose_victims_by(&self, choose: Chooser) {
        let data = Arc::clone(&self.data);
        let hook = move |node: usize, candidates: &[memory::Candidate]| {
            let data = data.lock();
            let shown = |c: &memory::Candidate| Candidate {
                data: data.get(c.datum.0 as usize).map_or(0, |(id, _)| *id),
                bytes: c.bytes,
                wanted: c.wanted,
                has_uses: c.next_use.is_some(),
                last_use: c.last_use,
                only_copy: c.sole,
            };
            let shown: Vec<Candidate> = candidates.iter().map(shown).collect();
            drop(data);
            choose(node, &shown)
        };
        self.with_memory(|memory| memory.set_victim_hook(Box::new(hook)));
    }

    /// Forgets the value of a handle that no task has.
    pub(crate) fn invalidate(&self, handle: &dyn AnyHandle) {
        if let Some(datum) = handle.datum() {
            self.with_memory(|memory| memory.invalidate(datum));
        }
    }
}

/// Hints to the memory manager. Where all data are in host memory they do nothing.
impl Runtime {
    /// Has the handle's current value brought to the memory of a worker's device as soon as nothing more urgent is on the
    /// way, if there is room and values of its type can leave the host.
    ///
    /// # Errors
    /// [`Error::Config`] for a worker that does not exist.
    pub fn prefetch<D: Data>(&self, handle: &Handle<D>, worker: usize) -> Result<(), Error> {
        let core: &dyn AnyHandle = &**handle.core();
        self.hint(handle, Some(worker), |hub, memory, datum| {
            let (format, bytes) = memory.current(datum);
            let need = Need { datum, format, bytes, access: crate::memory::Access::Read };
            let node = hub.node_of(worker);
            if (node == HOST || core.is_portable()) && memory.has_value(datum) {
                memory.prefetch(node, &[need], Reason::Prefetch);
            }
        })
    }

    /// The handle will not be used for a while: its replicas are the first to make room for others.
    pub fn wont_use<D: Data>(&self, handle: &Handle<D>) {
        // Without a worker nothing can be wrong.
        let _ = self.hint(handle, None, |_, memory, datum| memory.wont_use(datum));
    }

    /// Waits for the handle's tasks and forgets its value: its memory is free, and it holds nothing until it is written again. A
    /// failure that poisoned it is forgotten too.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Borrowed`] for a slice of the caller's, [`Error::SelfWait`] inside one of its tasks.
    pub fn invalidate<D: Data>(&self, handle: &Handle<D>) -> Result<(), Error> {
        crate::data::Gate::invalidate(self.shared(), handle)
    }

    /// Keeps the handle's replicas in the memory of a worker's device until [`unpin`](Runtime::unpin), once they are there. What is
    /// pinned cannot make room for others: a task whose operands do not fit beside it waits.
    ///
    /// # Errors
    /// [`Error::Config`] for a worker that does not exist.
    pub fn pin<D: Data>(&self, handle: &Handle<D>, worker: usize) -> Result<(), Error> {
        self.hint(handle, Some(worker), |hub, memory, datum| memory.pin(datum, hub.node_of(worker)))
    }

    /// Ends [`pin`](Runtime::pin).
    ///
    /// # Errors
    /// [`Error::Config`] for a worker that does not exist, or in whose memory the handle is not pinned.
    pub fn unpin<D: Data>(&self, handle: &Handle<D>, worker: usize) -> Result<(), Error> {
        let mut was = true;
        self.hint(handle, Some(worker), |hub, memory, datum| was = memory.unpin(datum, hub.node_of(worker)))?;
        let message = || format!("{} is not pinned for worker {worker}", handle.name());
        if was { Ok(()) } else { Err(Error::Config(message())) }
    }

    fn hint<D: Data>(
        &self,
        handle: &Handle<D>,
        worker: Option<usize>,
        tell: impl FnOnce(&Hub, &mut Memory, Datum),
    ) -> Result<(), Error> {
        let shared: &Arc<Shared> = self.shared();
        if let Some(worker) = worker.filter(|&worker| worker >= shared.workers.len()) {
            let all = shared.workers.len();
            return Err(Error::Config(format!("there is no worker {worker}: there are {all}, from 0")));
        }
        let Some(hub) = &shared.hub else { return Ok(()) };
        // A handle that no task has named yet is the manager's from now on.
        let chain = handle.core().base().chain.lock();
        if !handle.core().base().belongs_to(shared.id) {
            return Err(Error::Foreign { what: handle.name() });
        }
        hub.adopt(&**handle.core());
        drop(chain);
        let core: &dyn AnyHandle = &**handle.core();
        if let Some(datum) = core.datum() {
            hub.with_memory(|memory| tell(hub, memory, datum));
        }
        shared.drain();
        Ok(())
    }
}
