//! Memory manager: memory nodes, replicas, transfers, capacity. A state machine without threads and
//! clocks.
//!
//! A driver (virtual time, or threads that copy bytes) notifies it of the node of each task
//! ([`Memory::stage`]), of the end of a transfer ([`Memory::arrived`]) and of a task
//! ([`Memory::finish_as`]); it returns [`Action`]s. `README.md` has the rules and their reasons.

mod link;
mod manager;
mod node;
mod table;
#[cfg(test)]
mod tests;

pub use link::LinkSpec;
pub(crate) use manager::Memory;
pub(crate) use node::NodeSpec;

use crate::format::Format;

/// Number of a memory node; the host is 0.
pub type NodeId = usize;

/// The host's memory node.
pub const HOST: NodeId = 0;

/// Number of a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Datum(pub u32);

/// Access of a task to the bytes of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it.
    Read,
    /// Writes it without reading: nothing is fetched.
    Write,
    /// Reads and writes it.
    Update,
    /// Reads only the metadata: the bytes may be on any node.
    Look,
}

impl Access {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Update)
    }
}

/// One operand of a task that is to run on some node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Need {
    pub(crate) datum: Datum,
    /// Requested format; for a write the format that will result.
    pub(crate) format: Format,
    /// Size in that format (bytes).
    pub(crate) bytes: u64,
    pub(crate) access: Access,
}

/// Returns the needs of a task without duplicates: a datum that it names twice in one format, which
/// only readers may, is stored once.
pub(crate) fn distinct(needs: &[Need]) -> impl Iterator<Item = &Need> {
    let same = |a: &Need, b: &Need| (a.datum, a.format) == (b.datum, b.format);
    let is_new = move |&(at, need): &(usize, &Need)| {
        need.access != Access::Look
            && !needs[..at].iter().any(|other| other.access != Access::Look && same(other, need))
    };
    needs.iter().enumerate().filter(is_new).map(|(_, need)| need)
}

/// Returns the total size of a task's needs (bytes).
pub(crate) fn bytes_of(needs: &[Need]) -> u64 {
    distinct(needs).map(|need| need.bytes).sum()
}

/// The place of one replica: several versions of a datum may exist on a node until the earlier one
/// is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BufferId(pub u64);

/// The place of an operand of which only the metadata is read.
pub(crate) const NOWHERE: BufferId = BufferId(u64::MAX);

/// A task's working set on a node, between [`Memory::stage`] and [`Memory::finish_as`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub u64);

/// Reason for a transfer, in descending order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A task waits for it.
    Fetch,
    /// Its memory is needed and it is the only copy.
    WriteBack,
    /// A task that will run there has been queued.
    TaskPrefetch,
    /// The user requested it.
    Prefetch,
    /// It allows evicting the replica at once when its memory is needed.
    Idle,
}

/// A transfer, or a conversion within a node, that the driver executes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) id: u64,
    pub(crate) datum: Datum,
    pub(crate) from: NodeId,
    /// Target node; equal to `from` for a conversion.
    pub(crate) to: NodeId,
    /// Places that are read and written.
    pub(crate) source: BufferId,
    pub(crate) target: BufferId,
    /// Format at the source, and format at the target.
    pub(crate) source_format: Format,
    pub(crate) format: Format,
    /// Bytes over the link.
    pub(crate) bytes: u64,
    /// The node that converts, if the formats differ, and the bytes that it reads and writes for
    /// that.
    pub(crate) converts: Option<(NodeId, u64)>,
    pub(crate) reason: Reason,
}

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Execute it and call [`Memory::arrived`]. At most one at a time on each link.
    Begin(Transfer),
    /// All operands are there, and nobody else uses those that the task writes.
    Staged(Ticket),
    /// A replica was evicted to make room.
    Evicted { node: NodeId, datum: Datum, bytes: u64, written_back: bool },
    /// The memory of a replica was freed.
    Freed { datum: Datum, buffer: BufferId },
}

/// Losses with a node's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Data that existed only there and that no task elsewhere is about to write: they have no
    /// value until a task writes them.
    pub(crate) data: Vec<Datum>,
    /// Working sets that were there, or were being gathered: they are abandoned.
    pub(crate) tickets: Vec<Ticket>,
    /// Working sets on other nodes that waited for such data: abandoned too.
    pub(crate) stranded: Vec<Ticket>,
}

/// A replica that may be evicted, as a [`VictimHook`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictionCandidate {
    pub(crate) datum: Datum,
    pub(crate) bytes: u64,
    /// A queued task wants it on this node.
    pub(crate) wanted: bool,
    /// A submitted task will use it.
    pub(crate) has_uses: bool,
    /// Larger for replicas used later; counts ends of tasks.
    pub(crate) last_use: u64,
    /// True if it would have to be written back.
    pub(crate) sole: bool,
}

/// Selects the victim among the first candidates of a node, by its index.
pub(crate) type VictimHook = Box<dyn Fn(NodeId, &[EvictionCandidate]) -> Option<usize> + Send>;

/// Statistics of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeStats {
    /// Operands that were there (or in flight) when their task was staged, and those that were not.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Prefetched replicas that a task then used, and those that were evicted before.
    pub(crate) prefetch_hits: u64,
    pub(crate) prefetch_wasted: u64,
}
