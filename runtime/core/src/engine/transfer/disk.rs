//! A host with limited memory, and the disk as its backing store.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use super::lane::Tickets;
use super::{Placed, TransferDriver};
use crate::engine::Engine;
use crate::error::DeviceError;
use crate::memory::{HOST, LinkSpec, NodeId, NodeSpec};
use crate::swap::Swap;

/// Assumed speed of a disk: used only to choose among sources, and reported to policies.
pub(super) const LINK: LinkSpec = LinkSpec { bandwidth: 1e9, latency_ns: 100_000 };

/// The disk as a memory node: it converts nothing.
pub(super) const NODE: NodeSpec = NodeSpec { capacity: None, staging: 0, spill: None };

/// Limits of host memory.
#[derive(Default)]
pub(crate) struct HostMemory {
    /// Capacity in bytes; `None`: unlimited.
    pub(crate) capacity: Option<u64>,
    /// The swap file for values beyond the capacity.
    pub(crate) swap: Option<Swap>,
}

/// The disk, which is the last memory node.
pub(super) struct Disk {
    pub(super) node: NodeId,
    /// `None` in simulated time.
    swap: Option<Arc<Swap>>,
    /// The error after which it accepts no more data.
    refusal: OnceLock<DeviceError>,
}

impl Disk {
    pub(super) fn new(node: NodeId, swap: Option<Swap>) -> Self {
        Disk { node, swap: swap.map(Arc::new), refusal: OnceLock::new() }
    }

    /// Returns the reason why it accepts no more data, if that is so.
    pub(super) fn refusal(&self) -> Option<String> {
        self.refusal.get().map(|error| error.reason.clone())
    }
}

impl TransferDriver {
    /// True if the host's capacity is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.nodes[HOST].capacity.is_some()
    }

    /// Returns the swap file, if it stores the node's values.
    pub(super) fn swap_of(&self, node: NodeId) -> Option<&Arc<Swap>> {
        self.disk.as_ref().filter(|disk| disk.node == node)?.swap.as_ref()
    }

    /// Notes that the disk accepts no more data. Nothing is lost: the value that was being written
    /// is still on the host, and stays there.
    pub(super) fn shut_disk(&self, node: NodeId, error: &DeviceError) {
        if let Some(disk) = &self.disk {
            // The first error is the cause.
            let _ = disk.refusal.set(error.clone());
        }
        tracing::error!("{error}. Nothing more goes there: host memory may exceed its limit");
        self.with_memory(|memory| memory.shut(node));
    }
}

/// Marks a body as waiting for other tasks, until this is dropped.
pub(crate) struct Paused<'s> {
    engine: &'s Arc<Engine>,
    tickets: Tickets,
}

impl Engine {
    /// Notes that the body on `worker` begins to wait for other tasks, which must not wait for the
    /// memory that it holds.
    pub(crate) fn pause(self: &Arc<Self>, worker: usize) -> Option<Paused<'_>> {
        let transfers = self.transfers.as_ref().filter(|transfers| transfers.is_limited())?;
        let tickets = transfers.lanes[worker].innermost()?;
        transfers.with_memory(|memory| tickets.iter().for_each(|&ticket| memory.pause(ticket)));
        self.drain();
        Some(Paused { engine: self, tickets })
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        if let Some(transfers) = &self.engine.transfers {
            transfers.with_memory(|memory| self.tickets.iter().for_each(|&ticket| memory.resume(ticket)));
            self.engine.drain();
        }
    }
}

impl TransferDriver {
    /// Notes that a call of bodies on the host begins, with these working sets.
    pub(super) fn bodies_begin(&self, worker: usize, batch: &[Placed]) {
        if self.is_limited() && self.node_of(worker) == HOST {
            self.lanes[worker].enters(batch.iter().map(|placed| placed.ticket).collect());
        }
    }

    /// Notes that the innermost call has ended.
    pub(super) fn bodies_end(&self, worker: usize) {
        if self.is_limited() && self.node_of(worker) == HOST {
            self.lanes[worker].leaves();
        }
    }
}
