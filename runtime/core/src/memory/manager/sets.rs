//! Working sets: requested, gathered, announced, released.

use smallvec::SmallVec;

use super::{Holder, Memory, Staging};
use crate::format::Format;
use crate::memory::link::Link;
use crate::memory::table::ReplicaStage;
use crate::memory::{Access, Action, Datum, HOST, Need, NodeId, Reason, Ticket, distinct};

impl Staging {
    /// Returns true if its memory will be released without an action of the user.
    pub(super) fn is_busy(&self) -> bool {
        self.granted && self.holder == Holder::Task
    }
}

impl Memory {
    /// Requests a task's working set on `node`. [`Action::Staged`] follows once it is there.
    ///
    /// # Panics
    /// If it does not [fit](Memory::fits); the driver checks that first.
    pub(crate) fn stage(&mut self, ticket: Ticket, node: NodeId, needs: &[Need]) {
        assert!(self.fits(node, needs), "what can never fit is refused when it is submitted");
        self.register(ticket, node, needs, Holder::Task);
        self.nodes[node].queue.push_back(ticket);
        self.pump(node);
    }

    /// Requests a working set on the host like [`Memory::stage`], for a caller outside of tasks,
    /// who never waits for memory: other replicas beyond the capacity are evicted as soon as
    /// possible.
    pub(crate) fn stage_for_caller(&mut self, ticket: Ticket, needs: &[Need]) {
        self.register(ticket, HOST, needs, Holder::Caller);
        let bytes = self.hold_present(ticket);
        self.make_room(HOST, bytes);
        self.grant(ticket);
        self.pump(HOST);
    }

    pub(super) fn register(&mut self, ticket: Ticket, node: NodeId, needs: &[Need], holder: Holder) {
        let needs: SmallVec<[Need; 4]> = distinct(needs).copied().collect();
        for need in &needs {
            if std::mem::take(&mut self.entry_mut(need.datum).unused) {
                self.relist_all(need.datum);
            }
        }
        let held = needs.iter().map(|_| false).collect();
        let places = SmallVec::new();
        let staging = Staging { node, holder, granted: false, needs, held, places, missing: 0 };
        self.stagings.insert(ticket, staging);
    }

    /// Marks a task with a working set as waiting for other tasks: they do not wait for its memory
    /// from now on.
    pub(crate) fn pause(&mut self, ticket: Ticket) {
        self.change_holder(ticket, Holder::Waiting);
    }

    /// Marks such a task as running again.
    pub(crate) fn resume(&mut self, ticket: Ticket) {
        self.change_holder(ticket, Holder::Task);
    }

    fn change_holder(&mut self, ticket: Ticket, holder: Holder) {
        // It may have been lost with its node meanwhile.
        let Some(staging) = self.stagings.get_mut(&ticket) else { return };
        let (node, was) = (staging.node, staging.is_busy());
        staging.holder = holder;
        let is = staging.is_busy();
        self.nodes[node].busy = self.nodes[node].busy + u32::from(is) - u32::from(was);
        self.pump(node);
    }

    /// Removes a working set from the books.
    fn unregister(&mut self, ticket: Ticket) -> Staging {
        let staging = self.stagings.remove(&ticket).expect("staged before");
        self.nodes[staging.node].busy -= u32::from(staging.is_busy());
        staging
    }

    /// Ends the task: the data that it wrote become new versions, as its needs stated.
    #[cfg(all(test, loom))]
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        self.finish_as(ticket, &[]);
    }

    /// Ends the task: the data that it wrote become new versions. `actual` lists written data with
    /// their format and size (bytes), which may differ from the need. Larger sizes may exceed the
    /// node's capacity until other replicas have been evicted.
    pub(crate) fn finish_as(&mut self, ticket: Ticket, actual: &[(Datum, Format, u64)]) {
        let staging = self.unregister(ticket);
        let node = staging.node;
        self.clock += 1;
        let mut touched: SmallVec<[NodeId; 4]> = SmallVec::from_slice(&[node]);
        for (nth, need) in staging.needs.iter().enumerate() {
            let clock = self.clock;
            let at = self.held_at(&staging, nth);
            let replica = &mut self.entry_mut(need.datum).replicas[at];
            replica.pins -= 1;
            replica.last_use = clock;
            let mut format = need.format;
            if need.access.writes() {
                let known = actual.iter().find(|(datum, ..)| *datum == need.datum);
                let bytes;
                (format, bytes) =
                    known.map_or((need.format, need.bytes), |&(_, format, bytes)| (format, bytes));
                self.write(need.datum, at, format, bytes);
                touched.extend(self.drop_leftovers(need.datum));
            }
            if let Some(at) = self.entry(need.datum).find(node, format) {
                self.relist(need.datum, at);
            }
        }
        for node in touched {
            self.pump(node);
        }
        self.clean_ahead(node);
    }

    /// Makes the replica that a task wrote the datum's new version.
    fn write(&mut self, datum: Datum, at: usize, format: Format, bytes: u64) {
        let entry = &mut self.data[datum.0 as usize];
        (entry.version, entry.format, entry.bytes) = (entry.version + 1, format, bytes);
        let replica = &mut entry.replicas[at];
        let node = &mut self.nodes[replica.node];
        node.used = node.used - replica.bytes + bytes;
        (replica.version, replica.format, replica.bytes) = (entry.version, format, bytes);
        replica.stage = ReplicaStage::Valid;
        replica.writers -= 1;
        if crate::mutant::mutant(5) {
            entry.replicas.iter_mut().for_each(|replica| replica.version = entry.version);
        }
    }

    /// Abandons a task that will not run: its working set is released, and its writes do not become
    /// new versions. If it was to write a datum anew, the earlier version may be gone
    /// ([`Memory::has_value`]).
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        let node = self.take_apart(ticket);
        self.pump(node);
    }

    /// Releases the working set; returns the node on which others may be waiting for it.
    pub(super) fn take_apart(&mut self, ticket: Ticket) -> NodeId {
        let staging = self.unregister(ticket);
        let node = staging.node;
        let queue = &mut self.nodes[node].queue;
        let queued =
            queue.iter().position(|other| *other == ticket).map(|place| queue.remove(place)).is_some();
        self.actions.retain(|action| *action != Action::Staged(ticket));
        for (nth, (need, &held)) in staging.needs.iter().zip(&staging.held).enumerate() {
            if held || !queued {
                let at = self.held_at(&staging, nth);
                self.give_back(ticket, need, at, queued);
            }
        }
        node
    }

    fn give_back(&mut self, ticket: Ticket, need: &Need, at: usize, queued: bool) {
        let replica = &mut self.entry_mut(need.datum).replicas[at];
        replica.pins -= 1;
        replica.waiters.retain(|other| *other != ticket);
        replica.quiet.retain(|other| *other != ticket);
        if need.access.writes() && !queued {
            replica.writers -= 1;
        }
        if replica.stage == ReplicaStage::Blank && replica.pins == 0 {
            self.discard(need.datum, at);
        } else {
            self.relist(need.datum, at);
        }
    }

    /// Serves the tasks that wait for memory on `node`, in order: the first one keeps its present
    /// operands, and gets the rest once there is room for all of it.
    pub(super) fn pump(&mut self, node: NodeId) {
        self.serve(node);
        for other in 0..self.nodes.len() {
            // Its evictions may have waited for memory here.
            let state = &self.nodes[other];
            if state.spec.spill == Some(node) && (!state.queue.is_empty() || state.is_over()) {
                self.serve(other);
            }
        }
    }

    fn serve(&mut self, node: NodeId) {
        // A written value may have become larger than expected.
        self.make_room(node, 0);
        while let Some(&ticket) = self.nodes[node].queue.front() {
            let bytes = self.hold_present(ticket);
            if !self.has_room(node, bytes) {
                self.make_room(node, bytes);
            }
            if !self.has_room(node, bytes) && !self.may_exceed(node) {
                return;
            }
            self.nodes[node].queue.pop_front();
            self.grant(ticket);
        }
    }

    /// Returns true if a task may have `bytes` more. A host beyond its capacity first gets below
    /// it, as far as write-backs are in flight: a task that writes values of unknown size requests
    /// nothing.
    fn has_room(&self, node: NodeId, bytes: u64) -> bool {
        let state = &self.nodes[node];
        state.free() >= bytes && !(node == HOST && state.is_over() && state.leaving > 0)
    }

    /// Returns true if waiting would not free memory on the host: no transfer is in flight there,
    /// and there is no task that could end.
    fn may_exceed(&self, node: NodeId) -> bool {
        let is_quiet = |link: Option<&Link>| link.is_none_or(|link| link.backlog == 0);
        node == HOST
            && self.nodes[HOST].busy == 0
            && (0..self.nodes.len()).all(|n| is_quiet(self.link(HOST, n)) && is_quiet(self.link(n, HOST)))
    }

    /// Protects the present operands on the node from eviction; returns the bytes of the absent
    /// ones.
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

    /// Allocates the absent operands, for which there is room, and fetches them.
    fn grant(&mut self, ticket: Ticket) {
        let staging = &self.stagings[&ticket];
        let (node, needs, held) = (staging.node, staging.needs.clone(), staging.held.clone());
        // Allocate all places first: a fetch may bring other formats along if there is room.
        for (need, _) in needs.iter().zip(&held).filter(|(_, held)| !**held) {
            let stage =
                if need.access == Access::Write { ReplicaStage::Blank } else { ReplicaStage::Arriving };
            let at = self.make(need.datum, node, need.format, need.bytes, stage);
            self.entry_mut(need.datum).replicas[at].pins += 1;
        }
        // One more, so that nothing is announced before all are counted.
        let mut missing = 1;
        for (need, held) in needs.iter().zip(&held) {
            if !held && need.access != Access::Write {
                self.nodes[node].stats.misses += 1;
                self.fetch(need.datum, node, need.format, Reason::Fetch);
            }
            missing += self.wait_for(ticket, need, node);
        }
        let staging = self.stagings.get_mut(&ticket).expect("granted");
        staging.missing += missing;
        staging.granted = true;
        self.nodes[node].busy += u32::from(staging.is_busy());
        self.has_one_more(ticket);
    }

    /// Returns the number of events that the operand needs before the task may run.
    fn wait_for(&mut self, ticket: Ticket, need: &Need, node: NodeId) -> u32 {
        let mut events = 0;
        let at = self.entry(need.datum).find(node, need.format).expect("held");
        let replica = &mut self.entry_mut(need.datum).replicas[at];
        if replica.stage == ReplicaStage::Arriving {
            replica.waiters.push(ticket);
            events += 1;
            self.hurry(need.datum, node, need.format, Reason::Fetch);
        }
        if need.access.writes() {
            self.entry_mut(need.datum).replicas[at].writers += 1;
            self.cancel_idle(need.datum, at);
            let at = self.entry(need.datum).find(node, need.format).expect("held");
            let replica = &mut self.entry_mut(need.datum).replicas[at];
            if !replica.outgoing.is_empty() && !crate::mutant::mutant(1) {
                replica.quiet.push(ticket);
                events += 1;
            }
        }
        events
    }

    pub(super) fn has_one_more(&mut self, ticket: Ticket) {
        let staging = self.stagings.get_mut(&ticket).expect("it waits");
        staging.missing -= 1;
        if staging.missing == 0 {
            self.actions.push(Action::Staged(ticket));
        }
    }
}
