//! Where the bytes are: memory nodes, replicas, transfers, capacity. A state machine without
//! threads and clocks.
//!
//! A driver (virtual time, or threads that copy bytes) tells it which task is to run where
//! ([`Memory::stage`]), when a transfer has ended ([`Memory::arrived`]) and when a task has
//! ([`Memory::finish_as`]); it answers with [`Action`]s. `README.md` has the rules and why they
//! hold.

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

/// A memory node's number; the host is 0.
pub type NodeId = usize;

/// The host's memory.
pub const HOST: NodeId = 0;

/// A piece of data, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Datum(pub u32);

/// What a task does with an operand, as far as its bytes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it.
    Read,
    /// Writes it without reading: nothing is fetched.
    Write,
    /// Reads and writes it.
    Update,
    /// Reads what is known of it: its bytes may be anywhere.
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
    /// The form it has to be in there; for a write the form it will be in.
    pub(crate) format: Format,
    /// Its size in that form.
    pub(crate) bytes: u64,
    pub(crate) access: Access,
}

/// What has to be in a node's memory for a task: a datum that it names twice in one form, which
/// only readers may, is there once.
pub(crate) fn distinct(needs: &[Need]) -> impl Iterator<Item = &Need> {
    let same = |a: &Need, b: &Need| (a.datum, a.format) == (b.datum, b.format);
    let is_new = move |&(at, need): &(usize, &Need)| {
        need.access != Access::Look
            && !needs[..at].iter().any(|other| other.access != Access::Look && same(other, need))
    };
    needs.iter().enumerate().filter(is_new).map(|(_, need)| need)
}

/// Bytes that a task's needs take together.
pub(crate) fn bytes_of(needs: &[Need]) -> u64 {
    distinct(needs).map(|need| need.bytes).sum()
}

/// The place of one replica: versions of a datum may follow each other on a node before the earlier
/// one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BufferId(pub u64);

/// The place of what a task only looks at.
pub(crate) const NOWHERE: BufferId = BufferId(u64::MAX);

/// A task's working set on a node, between [`Memory::stage`] and [`Memory::finish_as`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub u64);

/// Why something is transferred; earlier ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A task waits for it.
    Fetch,
    /// Its memory is needed and it is the only copy.
    WriteBack,
    /// A task that will run there was queued.
    TaskPrefetch,
    /// The user asked for it, whoever needs it.
    Prefetch,
    /// So that its memory can be given up at once when it is needed.
    Idle,
}

/// A transfer, or a conversion within a node, that the driver is to carry out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) id: u64,
    pub(crate) datum: Datum,
    pub(crate) from: NodeId,
    /// The same as `from` for a conversion.
    pub(crate) to: NodeId,
    /// Where it is read and where it is written.
    pub(crate) source: BufferId,
    pub(crate) target: BufferId,
    /// The form it has at the source, and the one it is to have.
    pub(crate) source_format: Format,
    pub(crate) format: Format,
    /// What goes over the link.
    pub(crate) bytes: u64,
    /// The node that converts, if the forms differ, and the bytes that it reads and writes for
    /// that.
    pub(crate) converts: Option<(NodeId, u64)>,
    pub(crate) reason: Reason,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    /// Carry it out and call [`Memory::arrived`]. One at a time on each link.
    Begin(Transfer),
    /// All operands are there, and nobody else touches those that the task writes.
    Staged(Ticket),
    /// A replica was given up for others.
    Evicted { node: NodeId, datum: Datum, bytes: u64, written_back: bool },
    /// A replica's memory is free.
    Freed { datum: Datum, buffer: BufferId },
}

/// What went with a node's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Data that were only there, and that no task elsewhere is about to write: they have no value
    /// until one does.
    pub(crate) data: Vec<Datum>,
    /// Working sets that were there, or were being gathered: they are abandoned.
    pub(crate) tickets: Vec<Ticket>,
    /// Working sets elsewhere that waited for such data: abandoned too.
    pub(crate) stranded: Vec<Ticket>,
}

/// A replica that may be given up, as a [`VictimHook`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) datum: Datum,
    pub(crate) bytes: u64,
    /// A queued task wants it on this node.
    pub(crate) wanted: bool,
    /// A submitted task will use it.
    pub(crate) has_uses: bool,
    /// Larger for those used later; counts ends of tasks.
    pub(crate) last_use: u64,
    /// It would have to be written back.
    pub(crate) sole: bool,
}

/// Chooses which of a node's first victims is given up, by its place.
pub(crate) type VictimHook = Box<dyn Fn(NodeId, &[Candidate]) -> Option<usize> + Send>;

/// What happened on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeStats {
    /// Operands that were there (or on their way) when their task asked for them, and those that
    /// were not.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Prefetched replicas that a task then used, and those that were given up before.
    pub(crate) prefetch_hits: u64,
    pub(crate) prefetch_wasted: u64,
}
