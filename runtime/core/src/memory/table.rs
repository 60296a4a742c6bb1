//! State of one datum: its current version and the replicas of it.

use smallvec::SmallVec;

use super::node::{Demand, EvictionOrder};
use super::{BufferId, HOST, NodeId, Reason, Ticket};
use crate::format::Format;

/// Progress of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaStage {
    /// Memory for a task to write.
    Blank,
    /// In flight.
    Arriving,
    /// Valid.
    Valid,
}

/// One version of a datum on one node in one format.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) buffer: BufferId,
    pub(super) node: NodeId,
    pub(super) format: Format,
    /// Version of the replica. If it differs from the datum's, the replica is a leftover that is
    /// removed once nobody reads it any more.
    pub(super) version: u32,
    pub(super) bytes: u64,
    pub(super) stage: ReplicaStage,
    /// Number of tasks that have it in their working set.
    pub(super) pins: u32,
    /// Transfers and conversions that read it, by number.
    pub(super) outgoing: SmallVec<[u64; 1]>,
    /// The transfer that fills it.
    pub(super) incoming: Option<u64>,
    /// Number of tasks that are about to write it, one after the other in stream order.
    pub(super) writers: u32,
    /// True while it is being written back before its eviction.
    pub(super) leaving: bool,
    pub(super) prefetched: bool,
    pub(super) last_use: u64,
    /// Position under which it is listed among its node's victims.
    pub(super) listed: Option<EvictionOrder>,
    /// Tasks that wait until it has arrived.
    pub(super) waiters: SmallVec<[Ticket; 1]>,
    /// Tasks that wait until nothing reads it.
    pub(super) quiet: SmallVec<[Ticket; 1]>,
    /// Nodes that wait to receive it from here.
    pub(super) forwards: SmallVec<[(NodeId, Format, Reason); 1]>,
}

impl Replica {
    pub(super) fn new(
        buffer: BufferId,
        node: NodeId,
        format: Format,
        version: u32,
        bytes: u64,
        stage: ReplicaStage,
    ) -> Self {
        Replica {
            buffer,
            node,
            format,
            version,
            bytes,
            stage,
            pins: 0,
            outgoing: SmallVec::new(),
            incoming: None,
            writers: 0,
            leaving: false,
            prefetched: false,
            last_use: 0,
            listed: None,
            waiters: SmallVec::new(),
            quiet: SmallVec::new(),
            forwards: SmallVec::new(),
        }
    }

    /// Returns true if its memory could be freed at this moment.
    pub(super) fn is_idle(&self) -> bool {
        self.stage != ReplicaStage::Arriving
            && (self.pins == 0 || crate::mutant::mutant(6))
            && self.outgoing.is_empty()
            && !self.leaving
    }

    pub(super) fn is_source(&self) -> bool {
        self.stage == ReplicaStage::Valid && self.writers == 0
    }
}

/// State of a datum.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) version: u32,
    /// Format of this version: replicas in it can replace each other, replicas in other formats are
    /// converted from it.
    pub(super) format: Format,
    pub(super) bytes: u64,
    pub(super) replicas: SmallVec<[Replica; 2]>,
    /// Number of queued tasks that want it, per node and format.
    pub(super) wanted: SmallVec<[(NodeId, Format, u32); 2]>,
    /// Number of submitted tasks that will read it in the version's own format, per node on which
    /// they are certain to run.
    pub(super) wide_at: SmallVec<[(NodeId, u32); 1]>,
    /// Number of uses by submitted tasks.
    pub(super) uses: u32,
    /// True if it will not be used for now.
    pub(super) unused: bool,
    /// Nodes on which it is pinned, with the number of pins.
    pub(super) pinned: SmallVec<[(NodeId, u32); 1]>,
    /// True if its replica on the host stays there.
    pub(super) kept: bool,
    /// True if its handle is gone: its number is reused once its last replica is removed.
    pub(super) removed: bool,
}

impl Entry {
    pub(super) fn new(format: Format, bytes: u64) -> Self {
        let (replicas, wanted, wide_at, pinned) = Default::default();
        let (unused, kept, removed) = (false, false, false);
        Entry { version: 0, format, bytes, replicas, wanted, wide_at, uses: 0, unused, pinned, kept, removed }
    }

    /// Returns the current version's replica on `node` in `format`.
    pub(super) fn find(&self, node: NodeId, format: Format) -> Option<usize> {
        self.find_version(node, format, self.version)
    }

    pub(super) fn find_version(&self, node: NodeId, format: Format, version: u32) -> Option<usize> {
        self.replicas.iter().position(|r| r.node == node && r.format == format && r.version == version)
    }

    /// Returns true if the current version exists, or will exist, on some node in its own format.
    pub(super) fn has_value(&self) -> bool {
        let mut current = self.replicas.iter().filter(|r| r.version == self.version);
        current.any(|r| r.format == self.format && r.stage != ReplicaStage::Blank)
    }

    /// Returns true if the current version exists on some node in its own format.
    pub(super) fn has_source(&self) -> bool {
        let mut current = self.replicas.iter().filter(|r| r.version == self.version);
        current.any(|r| r.format == self.format && r.stage == ReplicaStage::Valid)
    }

    pub(super) fn is_wanted(&self, node: NodeId) -> bool {
        self.wanted.iter().any(|&(n, ..)| n == node)
    }

    /// Returns true if a task wants it on `node`, or is certain to, in the version's own format,
    /// and it is not there in that format.
    pub(super) fn lacks_wide(&self, node: NodeId) -> bool {
        let queued = || self.wanted.iter().any(|&(n, format, _)| (n, format) == (node, self.format));
        let submitted = || self.wide_at.iter().any(|&(n, _)| n == node);
        (queued() || submitted()) && self.find(node, self.format).is_none()
    }

    pub(super) fn is_pinned(&self, node: NodeId) -> bool {
        (self.kept && node == HOST) || self.pinned.iter().any(|&(n, _)| n == node)
    }

    /// Returns this replica's position in the eviction order.
    pub(super) fn eviction_order(&self, at: usize) -> EvictionOrder {
        let replica = &self.replicas[at];
        let demand = match (self.is_wanted(replica.node), self.unused) {
            (true, _) => Demand::Wanted,
            (false, true) => Demand::Unused,
            (false, false) => Demand::Unknown,
        };
        (demand, self.uses > 0, replica.last_use)
    }

    /// Returns true if the replica is the only source of the datum. Once a task that writes without
    /// reading has its place, nobody needs the earlier version any more.
    pub(super) fn is_sole(&self, at: usize) -> bool {
        let me = &self.replicas[at];
        me.version == self.version
            && me.format == self.format
            && me.stage == ReplicaStage::Valid
            && !self.replicas.iter().enumerate().any(|(i, r)| {
                let has_value = r.format == self.format && r.stage == ReplicaStage::Valid;
                i != at && r.version == self.version && (has_value || r.stage == ReplicaStage::Blank)
            })
    }
}
