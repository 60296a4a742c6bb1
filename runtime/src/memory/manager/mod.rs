//! The state machine: working sets in, transfers out.

mod transfers;

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::data::Format;
use crate::memory::link::Link;
use crate::memory::node::Node;
use crate::memory::table::{Entry, Replica, Stage};
use crate::memory::{
    Access, Action, BufferId, Datum, HOST, LinkSpec, Need, NodeId, NodeSpec, NodeStats, Reason, Ticket,
    Transfer,
};

/// How many of a nearly full node's next victims are copied to the host ahead of need.
const CLEANED: usize = 4;

/// A task's working set.
struct Staging {
    node: NodeId,
    needs: SmallVec<[Need; 4]>,
    /// Which of them are held already; the rest is allocated all at once.
    held: SmallVec<[bool; 4]>,
    /// Arrivals and ends of reading that it waits for.
    missing: u32,
}

/// A transfer that has not ended.
struct Flight {
    transfer: Transfer,
    version: u32,
    started: bool,
}

/// All memory nodes and what is on them.
pub(crate) struct Memory {
    nodes: Vec<Node>,
    /// From `a` to `b` at `a * nodes + b`; on the diagonal the node's own rate of converting.
    links: Vec<Option<Link>>,
    data: Vec<Entry>,
    stagings: HashMap<Ticket, Staging>,
    flights: HashMap<u64, Flight>,
    next_flight: u64,
    next_buffer: u64,
    /// Counts uses, so that the oldest is known.
    clock: u64,
    actions: Vec<Action>,
}

impl Memory {
    /// Nodes, the host first, and `links[a][b]` from `a` to `b`; `links[a][a]` is how fast `a` converts.
    ///
    /// # Panics
    /// If the links are not a square of the nodes' number with a diagonal, or a node cannot be reached from the host and back.
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
            stagings: HashMap::new(),
            flights: HashMap::new(),
            next_flight: 0,
            next_buffer: 0,
            clock: 0,
            actions: Vec::new(),
        }
    }

    /// A datum of `bytes` in `format`; `at` is where its value is, if it has one.
    pub(crate) fn add(&mut self, format: Format, bytes: u64, at: Option<NodeId>) -> Datum {
        let datum = Datum(self.data.len() as u32);
        let (replicas, wanted) = Default::default();
        self.data.push(Entry { version: 0, format, bytes, replicas, wanted });
        if let Some(node) = at {
            let at = self.make(datum, node, format, bytes, Stage::Valid);
            self.relist(datum, at);
        }
        datum
    }

    /// Where the current version is on `node` in `format`: what a driver that holds bytes hands to a task.
    #[cfg(test)]
    pub(crate) fn buffer(&self, datum: Datum, node: NodeId, format: Format) -> Option<BufferId> {
        let entry = self.entry(datum);
        entry.find(node, format).map(|at| entry.replicas[at].buffer)
    }

    /// The current version's format and size.
    pub(crate) fn current(&self, datum: Datum) -> (Format, u64) {
        let entry = &self.data[datum.0 as usize];
        (entry.format, entry.bytes)
    }

    /// True if the working set can be on `node` at all.
    pub(crate) fn fits(&self, node: NodeId, needs: &[Need]) -> bool {
        let bytes: u64 = needs.iter().map(|need| need.bytes).sum();
        self.nodes[node].spec.capacity.is_none_or(|capacity| bytes <= capacity)
    }

    /// Bytes that would have to be brought to `node`.
    pub(crate) fn missing(&self, node: NodeId, needs: &[Need]) -> u64 {
        self.absent(node, needs).map(|need| need.bytes).sum()
    }

    /// How long that would take over idle links, one operand after the other (ns).
    pub(crate) fn transfer_ns(&self, node: NodeId, needs: &[Need]) -> u64 {
        self.absent(node, needs).map(|need| self.shortest_way(node, need)).sum()
    }

    fn absent<'a>(&'a self, node: NodeId, needs: &'a [Need]) -> impl Iterator<Item = &'a Need> {
        needs.iter().filter(move |need| {
            need.access != Access::Write && self.entry(need.datum).find(node, need.format).is_none()
        })
    }

    fn shortest_way(&self, node: NodeId, need: &Need) -> u64 {
        let entry = self.entry(need.datum);
        let sources = entry.replicas.iter().filter(|r| r.version == entry.version && r.is_source());
        let direct = |from: NodeId, to: NodeId| self.link(from, to).map(|link| link.spec.nanos(need.bytes));
        let by_host = |from: NodeId| Some(direct(from, HOST)? + direct(HOST, node)?);
        sources.filter_map(|r| direct(r.node, node).or_else(|| by_host(r.node))).min().unwrap_or(0)
    }

    /// What happened on `node`.
    pub(crate) fn stats(&self, node: NodeId) -> NodeStats {
        self.nodes[node].stats
    }

    /// Bytes in use on `node`.
    pub(crate) fn used(&self, node: NodeId) -> u64 {
        self.nodes[node].used
    }

    /// Takes what the driver has to do, in order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// A task that needs these was queued for `node`: they are given up later than others.
    pub(crate) fn want(&mut self, node: NodeId, needs: &[Need]) {
        self.count_wanted(node, needs, 1);
    }

    /// It is not queued any more.
    pub(crate) fn unwant(&mut self, node: NodeId, needs: &[Need]) {
        self.count_wanted(node, needs, -1);
    }

    fn count_wanted(&mut self, node: NodeId, needs: &[Need], by: i32) {
        for need in needs {
            let entry = &mut self.data[need.datum.0 as usize];
            match entry.wanted.iter_mut().find(|(n, _)| *n == node) {
                Some((_, count)) => *count = count.checked_add_signed(by).expect("wanted before"),
                None => entry.wanted.push((node, u32::try_from(by).expect("wanted before"))),
            }
            entry.wanted.retain(|(_, count)| *count > 0);
            for at in 0..self.entry(need.datum).replicas.len() {
                if self.entry(need.datum).replicas[at].node == node {
                    self.relist(need.datum, at);
                }
            }
        }
    }

    /// Brings to `node` what a queued task will need, as far as memory is free.
    pub(crate) fn prefetch(&mut self, node: NodeId, needs: &[Need]) {
        for need in needs {
            let absent = self.absent(node, std::slice::from_ref(need)).next().is_some();
            let state = &self.nodes[node];
            if !absent || !state.queue.is_empty() || state.free() < need.bytes {
                continue;
            }
            let at = self.make(need.datum, node, need.format, need.bytes, Stage::Arriving);
            self.entry_mut(need.datum).replicas[at].prefetched = true;
            self.fetch(need.datum, node, need.format, Reason::TaskPrefetch);
        }
    }

    /// Asks for a task's working set on `node`. [`Action::Staged`] follows once it is there.
    ///
    /// # Panics
    /// If it does not [fit](Memory::fits), which the driver checks first.
    pub(crate) fn stage(&mut self, ticket: Ticket, node: NodeId, needs: &[Need]) {
        assert!(self.fits(node, needs), "what can never fit is refused when it is submitted");
        let mut distinct: SmallVec<[Need; 4]> = SmallVec::new();
        for need in needs {
            // Only readers may name a datum twice.
            if !distinct.iter().any(|other| (other.datum, other.format) == (need.datum, need.format)) {
                distinct.push(*need);
            }
        }
        let held = distinct.iter().map(|_| false).collect();
        self.stagings.insert(ticket, Staging { node, needs: distinct, held, missing: 0 });
        self.nodes[node].queue.push_back(ticket);
        self.pump(node);
    }

    /// The task has ended: what it wrote is the datum's new version.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        let staging = self.stagings.remove(&ticket).expect("staged before");
        let node = staging.node;
        self.clock += 1;
        let mut touched: SmallVec<[NodeId; 4]> = SmallVec::from_slice(&[node]);
        for need in &staging.needs {
            let clock = self.clock;
            let entry = self.entry_mut(need.datum);
            let at = entry.find(node, need.format).expect("held until now");
            let replica = &mut entry.replicas[at];
            replica.pins -= 1;
            replica.last_use = clock;
            if need.access.writes() {
                replica.writing = false;
                replica.stage = Stage::Valid;
                replica.version += 1;
                (entry.version, entry.format, entry.bytes) = (entry.version + 1, need.format, need.bytes);
                touched.extend(self.drop_leftovers(need.datum));
            }
            if let Some(at) = self.entry(need.datum).find(node, need.format) {
                self.relist(need.datum, at);
            }
        }
        for node in touched {
            self.pump(node);
        }
        self.clean_ahead(node);
    }

    /// Serves the tasks that wait for memory on `node`, in order: the first one keeps what is there, and gets the rest once
    /// all of it can be had.
    fn pump(&mut self, node: NodeId) {
        while let Some(&ticket) = self.nodes[node].queue.front() {
            let bytes = self.hold_present(ticket);
            if self.nodes[node].free() < bytes {
                self.make_room(node, bytes);
            }
            if self.nodes[node].free() < bytes {
                return;
            }
            self.nodes[node].queue.pop_front();
            self.grant(ticket);
        }
    }

    /// Keeps what is on the node from being given up; returns the bytes of what is not there.
    fn hold_present(&mut self, ticket: Ticket) -> u64 {
        let staging = &self.stagings[&ticket];
        let (node, needs, mut held) = (staging.node, staging.needs.clone(), staging.held.clone());
        let mut absent = 0;
        for (need, held) in needs.iter().zip(&mut held) {
            if *held {
                continue;
            }
            match self.entry(need.datum).find(node, need.format) {
                None => absent += need.bytes,
                Some(at) => {
                    *held = true;
                    let replica = &mut self.entry_mut(need.datum).replicas[at];
                    replica.pins += 1;
                    let prefetched = std::mem::take(&mut replica.prefetched);
                    let stats = &mut self.nodes[node].stats;
                    stats.hits += 1;
                    stats.prefetch_hits += u64::from(prefetched);
                    self.relist(need.datum, at);
                }
            }
        }
        self.stagings.get_mut(&ticket).expect("just seen").held = held;
        absent
    }

    /// There is room: allocates what is missing and fetches it.
    fn grant(&mut self, ticket: Ticket) {
        let staging = &self.stagings[&ticket];
        let (node, needs, held) = (staging.node, staging.needs.clone(), staging.held.clone());
        // One more, so that nothing is announced before all is counted.
        let mut missing = 1;
        for (need, held) in needs.iter().zip(&held) {
            if !held {
                let fetched = need.access != Access::Write;
                let stage = if fetched { Stage::Arriving } else { Stage::Blank };
                let at = self.make(need.datum, node, need.format, need.bytes, stage);
                self.entry_mut(need.datum).replicas[at].pins += 1;
                if fetched {
                    self.nodes[node].stats.misses += 1;
                    self.fetch(need.datum, node, need.format, Reason::Fetch);
                }
            }
            missing += self.wait_for(ticket, need, node);
        }
        self.stagings.get_mut(&ticket).expect("granted").missing += missing;
        self.has_one_more(ticket);
    }

    /// How many events the operand still has to see before the task may run.
    fn wait_for(&mut self, ticket: Ticket, need: &Need, node: NodeId) -> u32 {
        let mut events = 0;
        let at = self.entry(need.datum).find(node, need.format).expect("held");
        let replica = &mut self.entry_mut(need.datum).replicas[at];
        if replica.stage == Stage::Arriving {
            replica.waiters.push(ticket);
            events += 1;
            self.hurry(need.datum, node, need.format);
        }
        if need.access.writes() {
            self.entry_mut(need.datum).replicas[at].writing = true;
            self.cancel_idle(need.datum, at);
            let at = self.entry(need.datum).find(node, need.format).expect("held");
            let replica = &mut self.entry_mut(need.datum).replicas[at];
            if !replica.outgoing.is_empty() {
                replica.quiet.push(ticket);
                events += 1;
            }
        }
        events
    }

    fn has_one_more(&mut self, ticket: Ticket) {
        let staging = self.stagings.get_mut(&ticket).expect("it waits");
        staging.missing -= 1;
        if staging.missing == 0 {
            self.actions.push(Action::Staged(ticket));
        }
    }

    /// Gives up replicas until `bytes` are free, or will be once write-backs have ended.
    fn make_room(&mut self, node: NodeId, bytes: u64) {
        while self.nodes[node].free().saturating_add(self.nodes[node].leaving) < bytes {
            let Some(&(_, _, datum, format)) = self.nodes[node].victims.first() else {
                return;
            };
            let at = self.entry(datum).find(node, format).expect("listed");
            if self.entry(datum).is_sole(at) {
                let replica = &mut self.entry_mut(datum).replicas[at];
                replica.leaving = true;
                let bytes = replica.bytes;
                self.nodes[node].leaving += bytes;
                self.copy_to_host(datum, at, Reason::WriteBack);
            } else {
                self.evict(datum, at, false);
            }
        }
    }

    /// Copies the next victims of a nearly full node to the host, if its link has nothing else to do.
    fn clean_ahead(&mut self, node: NodeId) {
        if node == HOST || !self.nodes[node].is_nearly_full() {
            return;
        }
        if self.link(node, HOST).is_some_and(|link| link.backlog > 0) {
            return;
        }
        let next: SmallVec<[_; CLEANED]> = self.nodes[node].victims.iter().take(CLEANED).copied().collect();
        for (_, _, datum, format) in next {
            if let Some(at) = self.entry(datum).find(node, format)
                && self.entry(datum).is_sole(at)
            {
                self.copy_to_host(datum, at, Reason::Idle);
            }
        }
    }

    /// Gives up a replica that is not the only one.
    fn evict(&mut self, datum: Datum, at: usize, written_back: bool) {
        let replica = &self.entry(datum).replicas[at];
        let (node, bytes, prefetched) = (replica.node, replica.bytes, replica.prefetched);
        let stats = &mut self.nodes[node].stats;
        stats.prefetch_wasted += u64::from(prefetched);
        self.actions.push(Action::Evicted { node, datum, bytes, written_back });
        self.remove(datum, at);
    }

    /// Drops what is left of earlier versions; returns where memory became free.
    fn drop_leftovers(&mut self, datum: Datum) -> SmallVec<[NodeId; 4]> {
        let mut nodes = SmallVec::new();
        for at in (0..self.entry(datum).replicas.len()).rev() {
            let entry = self.entry(datum);
            if entry.replicas[at].version != entry.version {
                nodes.push(entry.replicas[at].node);
                self.drop_if_left_over(datum, at);
            }
        }
        nodes
    }

    /// Drops a replica of an earlier version once nothing reads or fills it.
    fn drop_if_left_over(&mut self, datum: Datum, at: usize) {
        let replica = &self.entry(datum).replicas[at];
        debug_assert!(replica.pins == 0, "a task reads a version that another one has overwritten");
        if replica.is_idle() {
            self.remove(datum, at);
        } else {
            self.relist(datum, at);
        }
    }

    fn make(&mut self, datum: Datum, node: NodeId, format: Format, bytes: u64, stage: Stage) -> usize {
        self.nodes[node].allocate(bytes);
        let (clock, buffer) = (self.clock, BufferId(self.next_buffer));
        self.next_buffer += 1;
        let entry = self.entry_mut(datum);
        let mut replica = Replica::new(buffer, node, format, entry.version, bytes, stage);
        replica.last_use = clock;
        entry.replicas.push(replica);
        entry.replicas.len() - 1
    }

    fn remove(&mut self, datum: Datum, at: usize) {
        let replica = self.entry_mut(datum).replicas.remove(at);
        let node = &mut self.nodes[replica.node];
        if let Some((wanted, last_use)) = replica.listed {
            node.victims.remove(&(wanted, last_use, datum, replica.format));
        }
        node.used -= replica.bytes;
        self.actions.push(Action::Freed(replica.buffer));
    }

    /// Lists a replica among its node's victims, or takes it off, as it now is.
    fn relist(&mut self, datum: Datum, at: usize) {
        let entry = &mut self.data[datum.0 as usize];
        let wanted = entry.is_wanted(entry.replicas[at].node);
        let current = entry.replicas[at].version == entry.version;
        let replica = &mut entry.replicas[at];
        let node = &mut self.nodes[replica.node];
        let listed = (node.spec.capacity.is_some() && current && replica.is_idle())
            .then_some((wanted, replica.last_use));
        if replica.listed == listed {
            return;
        }
        if let Some((wanted, last_use)) = replica.listed {
            node.victims.remove(&(wanted, last_use, datum, replica.format));
        }
        if let Some((wanted, last_use)) = listed {
            node.victims.insert((wanted, last_use, datum, replica.format));
        }
        replica.listed = listed;
    }

    /// Checks that what is in use is what there is; for tests.
    #[cfg(test)]
    pub(in crate::memory) fn check(&self) {
        for (n, node) in self.nodes.iter().enumerate() {
            let replicas = self.data.iter().flat_map(|entry| &entry.replicas).filter(|r| r.node == n);
            let (bytes, pins) = replicas.fold((0, 0), |sum, r| (sum.0 + r.bytes, sum.1 + r.pins));
            assert_eq!((node.used, node.leaving, node.converting, pins), (bytes, 0, 0, 0), "node {n}");
        }
        assert!(self.links.iter().flatten().all(|link| link.backlog == 0));
        assert!(self.stagings.is_empty() && self.flights.is_empty());
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
