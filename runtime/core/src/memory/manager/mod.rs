//! The state machine of the memory manager: working sets in, transfers out.

mod eviction;
mod loss;
mod sets;
mod stream_order;
mod transfers;

use std::cell::Cell;

use smallvec::{SmallVec, smallvec};

use crate::format::Format;
use crate::memory::link::Link;
use crate::memory::node::Node;
use crate::memory::table::{Entry, Replica, ReplicaStage};
use crate::memory::{
    Access, Action, BufferId, Datum, HOST, LinkSpec, Need, NodeId, NodeSpec, NodeStats, Reason, Ticket,
    Transfer, VictimHook, bytes_of, distinct,
};
use crate::numbered::Numbered;

/// Owner of a working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// A task whose end does not depend on other tasks.
    Task,
    /// A task whose body waits for others, which may need memory before it ends.
    Waiting,
    /// A caller outside of tasks, who may keep it for any time.
    Caller,
}

/// Working set of a task or caller.
struct Staging {
    node: NodeId,
    holder: Holder,
    /// True once its memory is allocated.
    granted: bool,
    needs: SmallVec<[Need; 4]>,
    /// Needs that are held already; the rest is allocated all at once.
    held: SmallVec<[bool; 4]>,
    /// Places of the operands, for a task that was launched in [stream
    /// order](Memory::stage_in_stream_order) after others, which may change their format before
    /// they end.
    places: SmallVec<[BufferId; 4]>,
    /// Number of arrivals and ends of reading that it waits for.
    missing: u32,
}

/// A transfer that has not ended.
struct InFlight {
    transfer: Transfer,
    version: u32,
    started: bool,
}

/// All memory nodes and their replicas.
pub(crate) struct Memory {
    nodes: Vec<Node>,
    /// Link from `a` to `b` at `a * nodes + b`; on the diagonal the node's conversion rate.
    links: Vec<Option<Link>>,
    data: Vec<Entry>,
    /// Numbers of removed data.
    unused: Vec<Datum>,
    stagings: Numbered<Ticket, Staging>,
    in_flight: Numbered<u64, InFlight>,
    next_transfer: u64,
    next_buffer: u64,
    /// Counter of uses, for the least-recently-used order.
    clock: u64,
    actions: Vec<Action>,
    victim_hook: Option<VictimHook>,
}

impl Memory {
    /// Creates the manager for the given nodes, the host first, with the link `links[a][b]` from
    /// `a` to `b`; `links[a][a]` is the conversion rate of `a`.
    ///
    /// # Panics
    /// If the links are not a square matrix of the number of nodes with a full diagonal, or a node
    /// cannot be reached from the host and back.
    pub(crate) fn new(nodes: &[NodeSpec], links: &[Vec<Option<LinkSpec>>]) -> Self {
        let all = 0..nodes.len();
        assert!(
            links.len() == nodes.len() && links.iter().all(|row| row.len() == nodes.len()),
            "a square of links"
        );
        assert!(
            all.clone()
                .all(|n| links[n][n].is_some() && links[HOST][n].is_some() && links[n][HOST].is_some()),
            "every node converts, and is linked to the host"
        );
        Memory {
            nodes: nodes.iter().map(|&spec| Node::new(spec)).collect(),
            links: links.iter().flatten().map(|spec| spec.map(Link::new)).collect(),
            data: Vec::new(),
            unused: Vec::new(),
            stagings: Numbered::default(),
            in_flight: Numbered::default(),
            next_transfer: 0,
            next_buffer: 0,
            clock: 0,
            actions: Vec::new(),
            victim_hook: None,
        }
    }

    /// Adds a datum of `bytes` in `format`; `at` is the node of its value, if it has one. It may
    /// exceed the capacity of the node: others are evicted for it at the next event there, or by
    /// [`Memory::tidy`].
    pub(crate) fn add(&mut self, format: Format, bytes: u64, at: Option<NodeId>) -> Datum {
        let datum = self.unused.pop().unwrap_or(Datum(self.data.len() as u32));
        if datum.0 as usize == self.data.len() {
            self.data.push(Entry::new(format, bytes));
        } else {
            *self.entry_mut(datum) = Entry::new(format, bytes);
        }
        if let Some(node) = at {
            let at = self.make(datum, node, format, bytes, ReplicaStage::Valid);
            self.relist(datum, at);
        }
        datum
    }

    /// Removes `datum`, whose handle is gone, and which no task has staged. Replicas that transfers
    /// still read or fill are removed when those end.
    pub(crate) fn remove(&mut self, datum: Datum) {
        let entry = self.entry_mut(datum);
        (entry.removed, entry.version) = (true, entry.version + 1);
        if entry.replicas.is_empty() {
            self.unused.push(datum);
        }
        for node in self.drop_leftovers(datum) {
            self.pump(node);
        }
    }

    /// Creates a new version of `datum`, made on the host outside of any task; no task has the
    /// datum staged. Transfers may still read the earlier version. Returns the place of the new
    /// one.
    pub(crate) fn replace(&mut self, datum: Datum, format: Format, bytes: u64) -> BufferId {
        let entry = self.entry_mut(datum);
        (entry.version, entry.format, entry.bytes) = (entry.version + 1, format, bytes);
        let touched = self.drop_leftovers(datum);
        let at = self.make(datum, HOST, format, bytes, ReplicaStage::Valid);
        let buffer = self.entry(datum).replicas[at].buffer;
        self.relist(datum, at);
        for node in touched {
            self.pump(node);
        }
        self.pump(HOST);
        buffer
    }

    /// Discards the datum's value until a task writes it anew; no task has it staged.
    pub(crate) fn invalidate(&mut self, datum: Datum) {
        self.entry_mut(datum).version += 1;
        for node in self.drop_leftovers(datum) {
            self.pump(node);
        }
    }

    /// Returns false if no task can read the datum: it was added without a value, or lost with a
    /// device, or a task that was to write it anew was abandoned after its earlier version had been
    /// evicted.
    pub(crate) fn has_value(&self, datum: Datum) -> bool {
        self.entry(datum).has_value()
    }

    /// Returns the place of the current version on `node` in `format`, which a driver that holds
    /// bytes passes to a task.
    pub(crate) fn buffer(&self, datum: Datum, node: NodeId, format: Format) -> Option<BufferId> {
        let entry = self.entry(datum);
        entry.find(node, format).map(|at| entry.replicas[at].buffer)
    }

    /// Returns the current version's format and size.
    pub(crate) fn current(&self, datum: Datum) -> (Format, u64) {
        let entry = &self.data[datum.0 as usize];
        (entry.format, entry.bytes)
    }

    /// Returns true from `stage` until the working set is released or lost.
    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        self.stagings.contains_key(&ticket)
    }

    /// Describes the events that a working set waits for, to diagnose a stall.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> String {
        let Some(staging) = self.stagings.get(&ticket) else { return "nothing: it is unknown".into() };
        let node = &self.nodes[staging.node];
        if let Some(place) = node.queue.iter().position(|&queued| queued == ticket) {
            return format!("memory: it is number {place} there, {} bytes are free", node.free());
        }
        let operand = |need: &Need| {
            let at = self.entry(need.datum).find(staging.node, need.format);
            at.map(|at| {
                let replica = &self.entry(need.datum).replicas[at];
                format!(
                    "datum {} {:?}, read by {} transfers",
                    need.datum.0,
                    replica.stage,
                    replica.outgoing.len()
                )
            })
        };
        let operands: Vec<String> = staging.needs.iter().filter_map(operand).collect();
        format!("{} events of: {}", staging.missing, operands.join("; "))
    }

    /// Returns the number of transfers in flight or queued.
    pub(crate) fn transfers(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns true if no transfer or conversion reads the datum.
    pub(crate) fn is_unread(&self, datum: Datum) -> bool {
        self.entry(datum).replicas.iter().all(|replica| replica.outgoing.is_empty())
    }

    /// Returns true if no transfer is in flight or queued.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Returns true if the working set of a task fits on `node` at all.
    pub(crate) fn fits(&self, node: NodeId, needs: &[Need]) -> bool {
        if self.nodes[node].lost {
            return false;
        }
        self.nodes[node].spec.capacity.is_none_or(|capacity| bytes_of(needs) <= capacity)
    }

    /// Returns the bytes that would have to be transferred to `node`.
    pub(crate) fn missing(&self, node: NodeId, needs: &[Need]) -> u64 {
        distinct(needs).filter(|need| self.is_absent(node, need)).map(|need| need.bytes).sum()
    }

    /// Returns the time to fetch the absent operands one after the other over idle links, for each
    /// node (ns).
    pub(crate) fn transfer_times(&self, needs: &[Need]) -> SmallVec<[u64; 4]> {
        let mut times = smallvec![0; self.nodes.len()];
        // Many links are alike.
        let last: Cell<Option<(LinkSpec, u64, u64)>> = Cell::new(None);
        let nanos = |spec: LinkSpec, bytes: u64| match last.get() {
            Some((known, of, nanos)) if known == spec && of == bytes => nanos,
            _ => {
                let nanos = spec.nanos(bytes);
                last.set(Some((spec, bytes, nanos)));
                nanos
            }
        };
        for need in distinct(needs).filter(|need| need.access != Access::Write) {
            let entry = self.entry(need.datum);
            for (node, time) in times.iter_mut().enumerate() {
                if entry.find(node, need.format).is_none() {
                    *time += self.shortest_way(entry, node, need, &nanos);
                }
            }
        }
        times
    }

    fn is_absent(&self, node: NodeId, need: &Need) -> bool {
        need.access != Access::Write && self.entry(need.datum).find(node, need.format).is_none()
    }

    /// Returns the shortest time over idle links from any source; a source in another format
    /// converts first.
    fn shortest_way(
        &self,
        entry: &Entry,
        node: NodeId,
        need: &Need,
        nanos: &impl Fn(LinkSpec, u64) -> u64,
    ) -> u64 {
        let serves = |format: Format| format == need.format || format == entry.format;
        let sources =
            entry.replicas.iter().filter(|r| r.version == entry.version && r.is_source() && serves(r.format));
        let nanos = |from: NodeId, to: NodeId, bytes: u64| self.link(from, to).map(|l| nanos(l.spec, bytes));
        let by_host = |from: NodeId| Some(nanos(from, HOST, need.bytes)? + nanos(HOST, node, need.bytes)?);
        let way = |r: &Replica| {
            let converts = r.format != need.format;
            let conversion = if converts { nanos(r.node, r.node, r.bytes + need.bytes)? } else { 0 };
            match r.node == node {
                true => Some(conversion),
                false => Some(conversion + nanos(r.node, node, need.bytes).or_else(|| by_host(r.node))?),
            }
        };
        sources.filter_map(way).min().unwrap_or(0)
    }

    /// Sets the speed of the link from one node to another; does nothing if there is none.
    pub(crate) fn set_link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) {
        if let Some(link) = self.link_mut(from, to) {
            link.spec = spec;
        }
    }

    /// Returns the statistics of `node`.
    pub(crate) fn stats(&self, node: NodeId) -> NodeStats {
        self.nodes[node].stats
    }

    /// Returns the bytes in use on `node`.
    pub(crate) fn used(&self, node: NodeId) -> u64 {
        self.nodes[node].used
    }

    /// Removes and returns the pending actions for the driver, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Registers the needs of a task that was queued for `node`: they are evicted later than
    /// others.
    pub(crate) fn want(&mut self, node: NodeId, needs: &[Need]) {
        self.count_wanted(node, needs, 1);
    }

    /// Removes the needs of a task that is not queued any more.
    pub(crate) fn unwant(&mut self, node: NodeId, needs: &[Need]) {
        self.count_wanted(node, needs, -1);
    }

    fn count_wanted(&mut self, node: NodeId, needs: &[Need], by: i32) {
        for need in needs {
            let entry = &mut self.data[need.datum.0 as usize];
            match entry.wanted.iter_mut().find(|(n, format, _)| (*n, *format) == (node, need.format)) {
                Some((.., count)) => *count = count.checked_add_signed(by).expect("wanted before"),
                None => entry.wanted.push((node, need.format, u32::try_from(by).expect("wanted before"))),
            }
            entry.wanted.retain(|(.., count)| *count > 0);
            for at in 0..self.entry(need.datum).replicas.len() {
                if self.entry(need.datum).replicas[at].node == node {
                    self.relist(need.datum, at);
                }
            }
        }
    }

    /// Prefetches to `node` the data that a queued task will need, or that the user requests, as
    /// far as memory is free.
    pub(crate) fn prefetch(&mut self, node: NodeId, needs: &[Need], reason: Reason) {
        // An access to the metadata needs no transfer.
        for need in needs.iter().filter(|need| need.access != Access::Look) {
            let absent = self.is_absent(node, need);
            if !absent && need.access != Access::Write && reason == Reason::TaskPrefetch {
                // The user requested it, and a task turns out to need it.
                self.hurry(need.datum, node, need.format, reason);
            }
            if !absent || self.nodes[node].lost || !self.nodes[node].has_spare(need.bytes) {
                continue;
            }
            if !self.has_direct_source(node, need) && !self.nodes[HOST].has_spare(need.bytes) {
                continue;
            }
            let at = self.make(need.datum, node, need.format, need.bytes, ReplicaStage::Arriving);
            self.entry_mut(need.datum).replicas[at].prefetched = true;
            self.fetch(need.datum, node, need.format, reason);
        }
    }

    /// Returns false if it could come to `node` only by way of the host.
    fn has_direct_source(&self, node: NodeId, need: &Need) -> bool {
        let entry = self.entry(need.datum);
        let mut current = entry.replicas.iter().filter(|r| r.version == entry.version && r.is_source());
        current.any(|r| self.link(r.node, node).is_some())
    }

    /// Checks the accounting of used memory against the replicas, for tests.
    #[cfg(test)]
    pub(in crate::memory) fn check(&self) {
        for (n, node) in self.nodes.iter().enumerate() {
            let replicas = self.data.iter().flat_map(|entry| &entry.replicas).filter(|r| r.node == n);
            let (bytes, pins) = replicas.fold((0, 0), |sum, r| (sum.0 + r.bytes, sum.1 + r.pins));
            let counts = (node.used, node.leaving, node.converting, node.busy, pins);
            assert_eq!(counts, (bytes, 0, 0, 0, 0), "node {n}");
        }
        assert!(self.links.iter().flatten().all(|link| link.backlog == 0));
        assert!(self.stagings.is_empty() && self.in_flight.is_empty());
    }

    #[cfg(test)]
    pub(in crate::memory) fn stats_len(&self) -> usize {
        self.nodes.len()
    }

    fn entry(&self, datum: Datum) -> &Entry {
        &self.data[datum.0 as usize]
    }

    fn entry_mut(&mut self, datum: Datum) -> &mut Entry {
        &mut self.data[datum.0 as usize]
    }

    fn link(&self, from: NodeId, to: NodeId) -> Option<&Link> {
        self.links[from * self.nodes.len() + to].as_ref()
    }

    fn link_mut(&mut self, from: NodeId, to: NodeId) -> Option<&mut Link> {
        let place = from * self.nodes.len() + to;
        self.links[place].as_mut()
    }
}
