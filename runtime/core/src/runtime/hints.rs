//! User hints to the memory manager.

use std::sync::Arc;

use super::Runtime;
use crate::engine::Engine;
use crate::engine::Gate;
use crate::engine::transfer::TransferDriver;
use crate::error::Error;
use crate::memory::{Access, Datum, HOST, Memory, Need, NodeId, Reason};
use crate::task::{AnyHandle, Handle};
use crate::value::Data;

/// Hints to the memory manager. They have no effect if all data are in host memory.
impl Runtime {
    /// Prefetches the handle's current value to a memory node as soon as no more urgent transfer is
    /// in flight, if there is room and values of its type can leave the host. Nodes are numbered as
    /// in [`Runtime::memory`]: the host is 0, and the devices follow in the order in which they
    /// were given to the builder.
    ///
    /// # Errors
    /// [`Error::Config`] for a node that does not exist, and for the disk.
    pub fn prefetch<D: Data>(&self, handle: &Handle<D>, node: NodeId) -> Result<(), Error> {
        let core: &dyn AnyHandle = &**handle.core();
        self.hint(handle, Some(node), |_, memory, datum| {
            let (format, bytes) = memory.current(datum);
            let need = Need { datum, format, bytes, access: Access::Read };
            if (node == HOST || core.is_portable()) && memory.has_value(datum) {
                memory.prefetch(node, &[need], Reason::Prefetch);
            }
        })
    }

    /// Declares that the handle will not be used for a while: its replicas are the first to be
    /// evicted.
    pub fn wont_use<D: Data>(&self, handle: &Handle<D>) {
        // A call without a node cannot fail.
        let _ = self.hint(handle, None, |_, memory, datum| memory.wont_use(datum));
    }

    /// Waits for the handle's tasks and discards its value: its memory is freed, and the handle is
    /// empty until it is written again. A failure that poisoned it is cleared too.
    ///
    /// # Errors
    /// [`Error::Gone`], [`Error::Borrowed`] for a slice of the caller's, [`Error::SelfWait`] inside
    /// one of its tasks.
    pub fn invalidate<D: Data>(&self, handle: &Handle<D>) -> Result<(), Error> {
        Gate::invalidate(self.engine(), handle)
    }

    /// Keeps the handle's replicas on a memory node until [`unpin`](Runtime::unpin), once they are
    /// there. Pinned replicas cannot be evicted: a task whose operands do not fit in the remaining
    /// memory waits. Nodes are numbered as for [`prefetch`](Runtime::prefetch).
    ///
    /// # Errors
    /// [`Error::Config`] for a node that does not exist, and for the disk.
    pub fn pin<D: Data>(&self, handle: &Handle<D>, node: NodeId) -> Result<(), Error> {
        self.hint(handle, Some(node), |_, memory, datum| memory.pin(datum, node))
    }

    /// Undoes [`pin`](Runtime::pin).
    ///
    /// # Errors
    /// [`Error::Config`] for a node that does not exist, or on which the handle is not pinned.
    pub fn unpin<D: Data>(&self, handle: &Handle<D>, node: NodeId) -> Result<(), Error> {
        let mut was = true;
        self.hint(handle, Some(node), |_, memory, datum| was = memory.unpin(datum, node))?;
        let message = || format!("{} is not pinned on node {node}", handle.name());
        if was { Ok(()) } else { Err(Error::Config(message())) }
    }

    fn hint<D: Data>(
        &self,
        handle: &Handle<D>,
        node: Option<NodeId>,
        tell: impl FnOnce(&TransferDriver, &mut Memory, Datum),
    ) -> Result<(), Error> {
        let engine: &Arc<Engine> = self.engine();
        let transfers = engine.transfers.as_ref();
        let nodes = transfers.map_or(1, |transfers| transfers.values_nodes());
        if let Some(node) = node.filter(|&node| node >= nodes) {
            let devices = nodes - 1;
            let message =
                format!("there is no memory node {node}: there are 0, the host, and {devices} devices");
            return Err(Error::Config(message));
        }
        let Some(transfers) = transfers else { return Ok(()) };
        // A handle that no task has named yet is managed from now on.
        let chain = handle.core().base().chain.lock();
        if !handle.core().base().belongs_to(engine.id) {
            return Err(Error::Foreign { what: handle.name() });
        }
        transfers.adopt(&**handle.core());
        drop(chain);
        let core: &dyn AnyHandle = &**handle.core();
        if let Some(datum) = core.datum() {
            transfers.with_memory(|memory| tell(transfers, memory, datum));
        }
        engine.drain();
        Ok(())
    }
}
