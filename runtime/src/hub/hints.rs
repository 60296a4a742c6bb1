//! What users may tell the memory manager beforehand.

use std::sync::Arc;

use super::Hub;
use crate::data::{AnyHandle, Data, Handle};
use crate::error::Error;
use crate::exec::Shared;
use crate::memory::{Datum, Memory, Need};
use crate::runtime::Runtime;
use crate::task::Task;

/// Every use counts as one under the same number: with the numbers of submission a full device gives up what its tasks need next,
/// since they run by priority (`docs/simulation.md`).
const USE: u64 = 0;

impl Hub {
    /// A task has been submitted: its data will be used.
    pub(crate) fn will_use(&self, task: &Task) {
        self.each_datum(task, |memory, datum| memory.expect(datum, USE));
    }

    /// It has ended.
    pub(crate) fn has_used(&self, task: &Task) {
        self.each_datum(task, |memory, datum| memory.unexpect(datum, USE));
    }

    fn each_datum(&self, task: &Task, tell: impl Fn(&mut Memory, Datum)) {
        let mut accesses = crate::operand::Accesses::new();
        task.body.declare(&mut accesses);
        self.with_memory(|memory| {
            accesses.iter().filter_map(|access| access.handle.datum()).for_each(|datum| tell(memory, datum));
        });
    }
}

/// Hints to the memory manager. Where all data are in host memory they do nothing.
impl Runtime {
    /// Has the handle's current value brought to the memory of a worker's device as soon as nothing more urgent is on the
    /// way, if there is room.
    ///
    /// # Errors
    /// [`Error::Config`] for a worker that does not exist.
    pub fn prefetch<D: Data>(&self, handle: &Handle<D>, worker: usize) -> Result<(), Error> {
        self.hint(handle, Some(worker), |hub, memory, datum| {
            let (format, bytes) = memory.current(datum);
            let need = Need { datum, format, bytes, access: crate::memory::Access::Read };
            if memory.has_value(datum) {
                memory.prefetch(hub.node_of(worker), &[need]);
            }
        })
    }

    /// The handle will not be used for a while: its replicas are the first to make room for others.
    pub fn wont_use<D: Data>(&self, handle: &Handle<D>) {
        // Without a worker nothing can be wrong.
        let _ = self.hint(handle, None, |_, memory, datum| memory.wont_use(datum));
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
    /// [`Error::Config`] for a worker that does not exist.
    pub fn unpin<D: Data>(&self, handle: &Handle<D>, worker: usize) -> Result<(), Error> {
        self.hint(handle, Some(worker), |hub, memory, datum| memory.unpin(datum, hub.node_of(worker)))
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
