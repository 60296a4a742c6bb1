//! Memory on a node: allocation, victim lists and eviction of replicas.

use smallvec::SmallVec;

use super::Memory;
use crate::format::Format;
use crate::memory::table::{Replica, ReplicaStage};
use crate::memory::{Action, BufferId, Datum, EvictionCandidate, HOST, NodeId, Reason, VictimHook};

/// Number of next victims of a nearly full device that are copied to the host ahead of need.
const CLEANED: usize = 4;

/// Number of victims that are passed to a hook.
const SHOWN: usize = 16;

impl Memory {
    /// Evicts replicas until `bytes` are free, or will be once write-backs have ended.
    pub(super) fn make_room(&mut self, node: NodeId, bytes: u64) {
        while self.nodes[node].lacks(bytes) {
            let Some((datum, format)) = self.victim(node) else { return };
            let at = self.entry(datum).find(node, format).expect("listed");
            let spill = self.spill_of(node).filter(|_| self.entry(datum).is_sole(at));
            if let Some(spill) = spill.filter(|_| !crate::mutant::mutant(2)) {
                if !self.takes_write_back(spill, datum) {
                    return;
                }
                // Other evictions may have made room there.
                let at = self.entry(datum).find(node, format).expect("listed");
                let replica = &mut self.entry_mut(datum).replicas[at];
                replica.leaving = true;
                let bytes = replica.bytes;
                self.nodes[node].leaving += bytes;
                self.write_back(datum, at, Reason::WriteBack);
            } else {
                self.evict(datum, at, false);
            }
        }
    }

    /// Returns false while `node` exceeds its capacity and one of its replicas is being written
    /// back: a write-back to it waits for that. Otherwise the write-back is accepted even beyond
    /// the capacity, so that no cyclic wait can occur.
    fn takes_write_back(&mut self, node: NodeId, datum: Datum) -> bool {
        let bytes = self.entry(datum).bytes;
        self.make_room(node, bytes);
        !self.nodes[node].is_over() || self.nodes[node].leaving == 0
    }

    /// Returns the node to which sole copies on `node` are written back, if there is one.
    pub(super) fn spill_of(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node].spec.spill.filter(|&spill| !self.nodes[spill].lost && !self.nodes[spill].shut)
    }

    /// Evicts `bytes` bytes in addition on a device, as far as possible; returns true if they are
    /// free, or will be once write-backs have ended.
    pub(crate) fn give_up(&mut self, node: NodeId, bytes: u64) -> bool {
        let used = self.nodes[node].used;
        let wanted = self.nodes[node].free().saturating_add(bytes);
        self.make_room(node, wanted);
        self.nodes[node].used < used || self.nodes[node].leaving > 0
    }

    /// Evicts replicas from a host that exceeds its capacity, also if no task waits for memory
    /// there.
    pub(crate) fn tidy(&mut self) {
        if self.nodes[HOST].is_over() {
            self.pump(HOST);
        }
    }

    /// Lifts the capacity limit of the host: its replicas stay there, including those that were
    /// about to leave.
    pub(crate) fn lift_capacity(&mut self) {
        self.nodes[HOST].spec.capacity = None;
        self.nodes[HOST].leaving = 0;
        for entry in &mut self.data {
            let on_host = entry.replicas.iter_mut().filter(|replica| replica.node == HOST);
            on_host.for_each(|replica| replica.leaving = false);
        }
        for datum in 0..self.data.len() as u32 {
            self.relist_all(Datum(datum));
        }
        self.pump(HOST);
    }

    /// Returns the replica that is to be evicted next.
    fn victim(&self, node: NodeId) -> Option<(Datum, Format)> {
        let victims = &self.nodes[node].victims;
        let first = victims.first()?;
        let Some(hook) = &self.victim_hook else { return Some((first.1, first.2)) };
        let places: SmallVec<[_; SHOWN]> = victims.iter().take(SHOWN).collect();
        let shown: SmallVec<[EvictionCandidate; SHOWN]> =
            places.iter().map(|(_, datum, format)| self.candidate(*datum, node, *format)).collect();
        let chosen = hook(node, &shown).and_then(|at| places.get(at).copied()).unwrap_or(first);
        Some((chosen.1, chosen.2))
    }

    fn candidate(&self, datum: Datum, node: NodeId, format: Format) -> EvictionCandidate {
        let entry = self.entry(datum);
        let at = entry.find(node, format).expect("listed");
        EvictionCandidate {
            datum,
            bytes: entry.replicas[at].bytes,
            wanted: entry.is_wanted(node),
            has_uses: entry.uses > 0,
            last_use: entry.replicas[at].last_use,
            sole: entry.is_sole(at),
        }
    }

    /// Makes `hook` choose among the first victims; an index out of range is ignored.
    pub(crate) fn set_victim_hook(&mut self, hook: VictimHook) {
        self.victim_hook = Some(hook);
    }

    /// Declares that the datum will not be used for now: until a task needs it, its replicas are
    /// evicted first. A sole copy that no transfer or task uses is written back in the meantime, if
    /// there is room.
    pub(crate) fn wont_use(&mut self, datum: Datum) {
        self.entry_mut(datum).unused = true;
        self.relist_all(datum);
        let entry = self.entry(datum);
        let is_to_copy = |&at: &usize| {
            let replica = &entry.replicas[at];
            let spill = self.spill_of(replica.node).filter(|&spill| self.nodes[spill].has_spare(entry.bytes));
            let is_new = spill.is_some_and(|spill| entry.find(spill, entry.format).is_none());
            let stays = entry.kept && replica.node == HOST;
            is_new && !stays && replica.is_idle() && entry.is_sole(at)
        };
        let sole = (0..entry.replicas.len()).find(is_to_copy);
        if let Some(at) = sole {
            self.write_back(datum, at, Reason::Idle);
        }
    }

    /// Keeps the datum's current and future replicas on the host, without regard to its capacity;
    /// they are never written back from there.
    pub(crate) fn keep(&mut self, datum: Datum) {
        self.entry_mut(datum).kept = true;
        self.relist_all(datum);
    }

    /// Undoes [`Memory::keep`].
    pub(crate) fn unkeep(&mut self, datum: Datum) {
        self.entry_mut(datum).kept = false;
        self.relist_all(datum);
        self.tidy();
    }

    /// Keeps the datum's current and future replicas on `node` until it is
    /// [unpinned](Memory::unpin) as many times. Pinned replicas leave less memory for working sets:
    /// one that fits may wait until then.
    pub(crate) fn pin(&mut self, datum: Datum, node: NodeId) {
        let pinned = &mut self.entry_mut(datum).pinned;
        match pinned.iter_mut().find(|(n, _)| *n == node) {
            Some((_, count)) => *count += 1,
            None => pinned.push((node, 1)),
        }
        self.relist_all(datum);
    }

    /// Undoes one [`Memory::pin`]; returns false if there is none.
    pub(crate) fn unpin(&mut self, datum: Datum, node: NodeId) -> bool {
        let pinned = &mut self.entry_mut(datum).pinned;
        let Some(pin) = pinned.iter_mut().find(|(n, _)| *n == node) else { return false };
        pin.1 -= 1;
        pinned.retain(|(_, count)| *count > 0);
        self.relist_all(datum);
        self.pump(node);
        true
    }

    /// Copies the next victims of a nearly full device to the host, if its link is idle and the
    /// host has room. Victims of the host are not copied to a disk: data that are written again in
    /// the meantime would go there twice, and reads would wait for it.
    pub(super) fn clean_ahead(&mut self, node: NodeId) {
        if self.spill_of(node) != Some(HOST) || !self.nodes[node].is_nearly_full() {
            return;
        }
        if self.link(node, HOST).is_some_and(|link| link.backlog > 0) {
            return;
        }
        let next: SmallVec<[_; CLEANED]> = self.nodes[node].victims.iter().take(CLEANED).copied().collect();
        for (_, datum, format) in next {
            if let Some(at) = self.entry(datum).find(node, format)
                && self.entry(datum).is_sole(at)
                && self.nodes[HOST].has_spare(self.entry(datum).bytes)
            {
                self.write_back(datum, at, Reason::Idle);
            }
        }
    }

    /// Evicts a replica that is not the only one.
    pub(super) fn evict(&mut self, datum: Datum, at: usize, written_back: bool) {
        let replica = &self.entry(datum).replicas[at];
        let (node, bytes, prefetched) = (replica.node, replica.bytes, replica.prefetched);
        let stats = &mut self.nodes[node].stats;
        stats.prefetch_wasted += u64::from(prefetched);
        self.actions.push(Action::Evicted { node, datum, bytes, written_back });
        self.discard(datum, at);
    }

    /// Drops the leftovers of earlier versions; returns the nodes on which memory was freed.
    pub(super) fn drop_leftovers(&mut self, datum: Datum) -> SmallVec<[NodeId; 4]> {
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
    pub(super) fn drop_if_left_over(&mut self, datum: Datum, at: usize) {
        let replica = &self.entry(datum).replicas[at];
        debug_assert!(replica.pins == 0, "a task reads a version that another one has overwritten");
        if replica.is_idle() {
            self.discard(datum, at);
        } else {
            self.relist(datum, at);
        }
    }

    pub(super) fn make(
        &mut self,
        datum: Datum,
        node: NodeId,
        format: Format,
        bytes: u64,
        stage: ReplicaStage,
    ) -> usize {
        self.nodes[node].used += bytes;
        let (clock, buffer) = (self.clock, BufferId(self.next_buffer));
        self.next_buffer += 1;
        let entry = self.entry_mut(datum);
        let mut replica = Replica::new(buffer, node, format, entry.version, bytes, stage);
        replica.last_use = clock;
        entry.replicas.push(replica);
        let at = entry.replicas.len() - 1;
        // The new one is listed once its users are known.
        self.relist_irreplaceable(datum, at);
        at
    }

    pub(super) fn discard(&mut self, datum: Datum, at: usize) {
        let entry = self.entry_mut(datum);
        let replica = entry.replicas.remove(at);
        if entry.removed && entry.replicas.is_empty() {
            self.unused.push(datum);
        }
        let node = &mut self.nodes[replica.node];
        if let Some(order) = replica.listed {
            node.victims.remove(&(order, datum, replica.format));
        }
        node.used -= replica.bytes;
        self.actions.push(Action::Freed { datum, buffer: replica.buffer });
        let left = self.entry(datum).replicas.len();
        self.relist_irreplaceable(datum, left);
    }

    /// Updates a replica's entry in its node's list of victims.
    pub(super) fn relist(&mut self, datum: Datum, at: usize) {
        let can_write_back = self.spill_of(self.entry(datum).replicas[at].node).is_some();
        let entry = &mut self.data[datum.0 as usize];
        let replica = &entry.replicas[at];
        let node = &mut self.nodes[replica.node];
        let may_go = node.spec.capacity.is_some()
            && replica.version == entry.version
            && replica.is_idle()
            && !entry.is_pinned(replica.node)
            && (can_write_back || !entry.is_sole(at));
        let order = may_go.then(|| entry.eviction_order(at));
        let replica = &mut entry.replicas[at];
        if replica.listed == order {
            return;
        }
        if let Some(order) = std::mem::replace(&mut replica.listed, order) {
            node.victims.remove(&(order, datum, replica.format));
        }
        if let Some(order) = order {
            node.victims.insert((order, datum, replica.format));
        }
    }

    /// Updates the lists after replicas of the datum have come or gone: if sole copies cannot be
    /// written back, that determines if one of the first `count` may be evicted.
    pub(super) fn relist_irreplaceable(&mut self, datum: Datum, count: usize) {
        for at in 0..count {
            let node = self.entry(datum).replicas[at].node;
            if self.nodes[node].spec.capacity.is_some() && self.spill_of(node).is_none() {
                self.relist(datum, at);
            }
        }
    }

    /// Updates the lists after the datum's position in the eviction order has changed.
    pub(super) fn relist_all(&mut self, datum: Datum) {
        for at in 0..self.entry(datum).replicas.len() {
            self.relist(datum, at);
        }
    }

    /// Registers `uses` further uses of the datum by submitted tasks, one per operand.
    ///
    /// Only the existence of uses matters, not the order of the tasks: with the order of submission
    /// a full device would evict the data that its tasks need next, since they run by priority
    /// (`docs/explanation/simulation.md`).
    pub(crate) fn expect(&mut self, datum: Datum, uses: u32) {
        let known = &mut self.entry_mut(datum).uses;
        let is_first = *known == 0 && uses > 0;
        *known += uses;
        if is_first {
            self.relist_all(datum);
        }
    }

    /// Removes uses that have happened, or never will.
    ///
    /// # Panics
    /// If they were not [expected](Memory::expect).
    pub(crate) fn unexpect(&mut self, datum: Datum, uses: u32) {
        let known = &mut self.entry_mut(datum).uses;
        *known = known.checked_sub(uses).expect("expected before");
        if *known == 0 && uses > 0 {
            self.relist_all(datum);
        }
    }

    /// Registers a submitted task that is certain to run on `node` and will read the datum in its
    /// stored format: other formats are then converted from that one there.
    pub(crate) fn expect_wide(&mut self, datum: Datum, node: NodeId) {
        let wide_at = &mut self.entry_mut(datum).wide_at;
        match wide_at.iter_mut().find(|(n, _)| *n == node) {
            Some((_, count)) => *count += 1,
            None => wide_at.push((node, 1)),
        }
    }

    /// Removes such a task once it has run, or never will.
    pub(crate) fn unexpect_wide(&mut self, datum: Datum, node: NodeId) {
        let wide_at = &mut self.entry_mut(datum).wide_at;
        if let Some((_, count)) = wide_at.iter_mut().find(|(n, _)| *n == node) {
            *count -= 1;
        }
        wide_at.retain(|(_, count)| *count > 0);
    }
}
