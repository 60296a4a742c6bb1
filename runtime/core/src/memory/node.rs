//! One memory node: its capacity, and the order in which replicas are given up.

use std::collections::{BTreeSet, VecDeque};

use super::{Datum, NodeId, NodeStats, Ticket};
use crate::format::Format;

/// How large a node is and what it can do aside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeSpec {
    /// Bytes; `None` for as much as is asked.
    pub(crate) capacity: Option<u64>,
    /// Conversions that can be under way at a time in memory that does not count as capacity.
    pub(crate) staging: u32,
    /// The node to which the only copy of a value is written back when its memory is needed;
    /// `None`: such copies stay.
    pub(crate) spill: Option<NodeId>,
}

/// How much a datum is asked for on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    /// The program said that it will not be used for now.
    Unused,
    Unknown,
    /// A queued task wants it.
    Wanted,
}

/// When it is a replica's turn to be given up: what is asked for least first, then what no
/// submitted task uses (`false`), then what was used longest ago.
pub(super) type Turn = (Demand, bool, u64);

/// A replica that may be given up.
pub(super) type Victim = (Turn, Datum, Format);

/// A node's state.
pub(super) struct Node {
    pub(super) spec: NodeSpec,
    /// Its memory is gone.
    pub(super) lost: bool,
    /// Nothing more is written back to it.
    pub(super) shut: bool,
    pub(super) used: u64,
    /// Bytes that are being written back and will then be free.
    pub(super) leaving: u64,
    /// Conversions under way.
    pub(super) converting: u32,
    /// Working sets of tasks that are complete or on their way, without those whose tasks wait for
    /// others.
    pub(super) busy: u32,
    /// Tasks that wait for memory, first come first served: the first one's working set is being
    /// gathered.
    pub(super) queue: VecDeque<Ticket>,
    /// Replicas that may be given up.
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

    /// Bytes that can be had at once.
    pub(super) fn free(&self) -> u64 {
        self.spec.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used))
    }

    /// True if `bytes` can be had at once and nobody else waits for memory.
    pub(super) fn has_spare(&self, bytes: u64) -> bool {
        self.queue.is_empty() && self.free() >= bytes
    }

    /// True if more must be given up for `bytes` to be had once all that is leaving has left.
    pub(super) fn lacks(&self, bytes: u64) -> bool {
        let lacks = |capacity: u64| self.used.saturating_add(bytes) > capacity.saturating_add(self.leaving);
        self.spec.capacity.is_some_and(lacks)
    }

    /// True if it holds more than it should.
    pub(super) fn is_over(&self) -> bool {
        self.spec.capacity.is_some_and(|capacity| self.used > capacity)
    }

    /// True if it is so full that copies should be made ahead of need.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.spec.capacity.is_some_and(|capacity| self.used > capacity / 10 * 9)
    }
}
