//! Working space for launched bodies, which the memory manager does not count.

use std::sync::Arc;

use super::TransferDriver;
use crate::device::StreamError;
use crate::engine::Engine;
use crate::memory::NodeId;

impl Engine {
    /// Requests working space for a body on a device's worker. If there is none, it waits for the
    /// ends of other bodies and evicts unused values. The body is suspended meanwhile: no part of
    /// it runs twice.
    pub(crate) fn find_room<T>(
        self: &Arc<Self>,
        worker: usize,
        mut ask: impl FnMut() -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        let Some(transfers) = &self.transfers else { return ask() };
        let make_room = |bytes| {
            let comes =
                transfers.give_up_values(transfers.node_of(worker), bytes) || transfers.is_at_work(worker);
            self.drain();
            comes
        };
        transfers.ask_for_room(ask, make_room).map_err(|error| transfers.without_room(worker, error))
    }
}

impl TransferDriver {
    /// Evicts values for this many more bytes; true if some are evicted.
    fn give_up_values(&self, node: NodeId, bytes: u64) -> bool {
        self.with_memory(|memory| memory.give_up(node, bytes))
    }

    /// True if something moves, or other bodies than that on `worker` run on devices.
    fn is_at_work(&self, worker: usize) -> bool {
        let others = |(of, lane): (usize, &super::Lane)| lane.in_progress() > usize::from(of == worker);
        self.lanes.iter().enumerate().any(others) || self.look(|memory| memory.transfers() > 0)
    }

    /// Returns the error of a body that found no room to the end, with the users of the memory.
    fn without_room(&self, worker: usize, error: StreamError) -> StreamError {
        let StreamError::OutOfMemory { bytes } = error else { return error };
        let at = self.node_of(worker);
        let node = &self.nodes[at];
        let (name, used) = (&node.name, self.look(|memory| memory.used(at)));
        let capacity = node.capacity.unwrap_or(u64::MAX);
        let Some(memory) = &node.memory else { return StreamError::OutOfMemory { bytes } };
        let room = memory
            .room()
            .map_or(String::new(), |(free, all)| format!("{free} of its {all} bytes are free, "));
        let message = format!(
            "no room for {bytes} bytes of a body's working space: {room}values of {name} take {used} of at most {capacity}, and \
             other bodies' working space, other users of the device and its driver take the rest; leave more beside values ({})",
            memory.more_room()
        );
        StreamError::Failed(message.into())
    }
}
