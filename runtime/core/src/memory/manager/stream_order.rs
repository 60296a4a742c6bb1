//! Working sets of tasks that are launched in stream order after others on the same device, before
//! those have ended.

use smallvec::SmallVec;

use super::{Holder, Memory, Staging};
use crate::memory::table::{Replica, ReplicaStage};
use crate::memory::{Access, BufferId, Need, NodeId, Ticket};

impl Memory {
    /// Grants a task its working set at once, on a node where earlier tasks may still write its
    /// operands: the device orders them. Returns the places of the operands, one for each need.
    /// Returns `None`, without any change, if an operand is not there in the requested format, a
    /// transfer reads one that is to be written, or there is no room.
    ///
    /// The output of an earlier task counts as present in the format that this task was promised,
    /// so a need is not checked further: the driver requests the format that the earlier task
    /// leaves. There is no new version before that task has ended, and a lost node drops both.
    pub(crate) fn stage_in_stream_order(
        &mut self,
        ticket: Ticket,
        node: NodeId,
        needs: &[Need],
    ) -> Option<SmallVec<[BufferId; 4]>> {
        if !self.fits(node, needs) || needs.iter().any(|need| need.access == Access::Look) {
            return None;
        }
        let absent: u64 = crate::memory::distinct(needs)
            .filter(|need| need.access == Access::Write && self.there(node, need).is_none())
            .map(|need| need.bytes)
            .sum();
        let ready = |need: &Need| match self.there(node, need) {
            Some(at) => is_usable(&self.entry(need.datum).replicas[at], need.access),
            None => need.access == Access::Write,
        };
        if !needs.iter().all(ready) || (absent > 0 && !self.nodes[node].has_spare(absent)) {
            return None;
        }
        self.register(ticket, node, needs, Holder::Task);
        let held = self.stagings[&ticket].needs.clone();
        let places = held.iter().map(|need| self.take_place(node, need)).collect();
        let staging = self.stagings.get_mut(&ticket).expect("registered above");
        (staging.granted, staging.places) = (true, places);
        staging.held.iter_mut().for_each(|held| *held = true);
        self.nodes[node].busy += u32::from(staging.is_busy());
        let place = |need: &Need| {
            let at = self.there(node, need).expect("taken above");
            self.entry(need.datum).replicas[at].buffer
        };
        Some(needs.iter().map(place).collect())
    }

    /// Returns the index of a held operand's replica.
    pub(super) fn held_at(&self, staging: &Staging, nth: usize) -> usize {
        let need = &staging.needs[nth];
        let entry = self.entry(need.datum);
        let at = match staging.places.get(nth) {
            Some(&buffer) => entry.replicas.iter().position(|replica| replica.buffer == buffer),
            None => entry.find(staging.node, need.format),
        };
        at.expect("held until now")
    }

    /// Returns the replica for a task that is launched after others: the one that they write, else
    /// the one in the requested format.
    fn there(&self, node: NodeId, need: &Need) -> Option<usize> {
        let entry = self.entry(need.datum);
        let is_written = |r: &Replica| r.node == node && r.version == entry.version && r.writers > 0;
        entry.replicas.iter().position(is_written).or_else(|| entry.find(node, need.format))
    }

    fn take_place(&mut self, node: NodeId, need: &Need) -> BufferId {
        let at = match self.there(node, need) {
            Some(at) => at,
            None => self.make(need.datum, node, need.format, need.bytes, ReplicaStage::Blank),
        };
        let replica = &mut self.entry_mut(need.datum).replicas[at];
        replica.pins += 1;
        replica.writers += u32::from(need.access.writes());
        let (buffer, prefetched) = (replica.buffer, std::mem::take(&mut replica.prefetched));
        let stats = &mut self.nodes[node].stats;
        stats.hits += u64::from(need.access != Access::Write);
        stats.prefetch_hits += u64::from(prefetched);
        self.relist(need.datum, at);
        buffer
    }
}

/// Returns true if a task that is launched now can use it, in the order of the device.
fn is_usable(replica: &Replica, access: Access) -> bool {
    let is_there = replica.stage == ReplicaStage::Valid || replica.writers > 0 || access == Access::Write;
    is_there && replica.stage != ReplicaStage::Arriving && (!access.writes() || replica.outgoing.is_empty())
}
