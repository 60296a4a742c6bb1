//! One memory node: its capacity, and the eviction order of its replicas.

use std::collections::{BTreeSet, VecDeque};

use super::{Datum, NodeId, NodeStats, Ticket};
use crate::format::Format;

/// Capacity of a node, and its additional resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeSpec {
    /// Capacity (bytes); `None`: unlimited.
    pub(crate) capacity: Option<u64>,
    /// Maximum number of concurrent conversions in memory that does not count as capacity.
    pub(crate) staging: u32,
    /// The node to which the only copy of a value is written back when its memory is needed;
    /// `None`: such copies stay.
    pub(crate) spill: Option<NodeId>,
}

/// Demand for a datum on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    /// The program declared that it will not be used for now.
    Unused,
    Unknown,
    /// A queued task wants it.
    Wanted,
}

/// Eviction order of a replica: lowest demand first, then replicas that no submitted task uses
/// (`false`), then the least recently used.
pub(super) type EvictionOrder = (Demand, bool, u64);

/// A replica that may be evicted.
pub(super) type Victim = (EvictionOrder, Datum, Format);

/// State of a node.
pub(super) struct Node {
    pub(super) spec: NodeSpec,
    /// True once its memory is lost.
    pub(super) lost: bool,
    /// True once it accepts no write-backs.
    pub(super) shut: bool,
    pub(super) used: u64,
    /// Bytes that are being written back and will then be freed.
    pub(super) leaving: u64,
    /// Conversions in flight.
    pub(super) converting: u32,
    /// Working sets of tasks that are complete or in flight, except for tasks that wait for others.
    pub(super) busy: u32,
    /// Tasks that wait for memory, first come, first served: the working set of the first one is
    /// being gathered.
    pub(super) queue: VecDeque<Ticket>,
    /// Replicas that may be evicted.
    pub(super) victims: BTreeSet<Victim>,
    pub(super) stats: NodeStats,
}

impl Node {
    pub(super) fn new(spec: NodeSpec) -> Self {
        Node {
            spec,
            lost: false,
            shut: false,
            used: 0,
            leaving: 0,
            converting: 0,
            busy: 0,
            queue: VecDeque::new(),
            victims: BTreeSet::new(),
            stats: NodeStats::default(),
        }
    }

    /// Returns the bytes that are free now.
    pub(super) fn free(&self) -> u64 {
        self.spec.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used))
    }

    /// Returns true if `bytes` are free now and no task waits for memory.
    pub(super) fn has_spare(&self, bytes: u64) -> bool {
        self.queue.is_empty() && self.free() >= bytes
    }

    /// Returns true if more replicas must be evicted for `bytes` to be free once all write-backs
    /// have ended.
    pub(super) fn lacks(&self, bytes: u64) -> bool {
        let lacks = |capacity: u64| self.used.saturating_add(bytes) > capacity.saturating_add(self.leaving);
        self.spec.capacity.is_some_and(lacks)
    }

    /// Returns true if it exceeds its capacity.
    pub(super) fn is_over(&self) -> bool {
        self.spec.capacity.is_some_and(|capacity| self.used > capacity)
    }

    /// Returns true if it is so full that copies should be made ahead of need.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.spec.capacity.is_some_and(|capacity| self.used > capacity / 10 * 9)
    }
}
