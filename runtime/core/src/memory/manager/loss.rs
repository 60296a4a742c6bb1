//! Loss of a node's memory.

use super::{InFlight, Memory};
use crate::memory::table::{Entry, ReplicaStage};
use crate::memory::{Access, Action, Datum, HOST, Lost, NodeId, Reason, Ticket};

impl Memory {
    /// Removes `node`, whose memory is lost, from use. The driver has ended its copies to and from
    /// the node.
    ///
    /// # Panics
    /// If `node` is the host.
    pub(crate) fn lose(&mut self, node: NodeId) -> Lost {
        assert!(node != HOST, "without the host nothing goes on");
        self.nodes[node].lost = true;
        self.relist_those_of(node);
        let mut tickets: Vec<Ticket> = self
            .stagings
            .iter()
            .filter(|(_, staging)| staging.node == node)
            .map(|(&ticket, _)| ticket)
            .collect();
        tickets.sort_unstable();
        for &ticket in &tickets {
            self.take_apart(ticket);
        }
        let unfilled = self.drop_in_flight(node);
        let mut data = self.drop_replicas(node);
        let stranded = self.stranded(&data);
        for &ticket in &stranded {
            self.take_apart(ticket);
        }
        for moving in unfilled {
            self.fill_otherwise(&moving);
        }
        data.retain(|&datum| !is_being_written(self.entry(datum)));
        for node in 0..self.nodes.len() {
            self.pump(node);
        }
        Lost { data, tickets, stranded }
    }

    /// Stops write-backs to `node`; its replicas can still be read. The driver has ended its copies
    /// to the node, and no task runs there.
    pub(crate) fn shut(&mut self, node: NodeId) {
        if self.nodes[node].lost || std::mem::replace(&mut self.nodes[node].shut, true) {
            return;
        }
        self.relist_those_of(node);
        let mut in_flight: Vec<InFlight> = self
            .in_flight
            .extract_if(|_, moving| moving.transfer.to == node)
            .map(|(_, moving)| moving)
            .collect();
        in_flight.sort_unstable_by_key(|moving| moving.transfer.id);
        self.actions.retain(|action| !matches!(action, Action::Begin(t) if t.to == node));
        for from in 0..self.nodes.len() {
            if let Some(link) = self.link_mut(from, node) {
                link.clear();
            }
        }
        for InFlight { transfer, version, .. } in &in_flight {
            let (datum, format) = (transfer.datum, transfer.format);
            self.let_go(transfer.id, datum, transfer.from, transfer.source_format, *version, false);
            let target = self.entry(datum).find_version(node, format, *version).expect("it was to be filled");
            self.discard(datum, target);
        }
        for node in 0..self.nodes.len() {
            self.pump(node);
        }
    }

    /// Updates the victim lists: sole copies cannot be written back to `spill` any more, and stay.
    fn relist_those_of(&mut self, spill: NodeId) {
        if self.nodes.iter().any(|node| node.spec.spill == Some(spill)) {
            (0..self.data.len() as u32).for_each(|datum| self.relist_all(Datum(datum)));
        }
    }

    /// Removes the transfers to and from the node; returns those that were to fill replicas on
    /// other nodes.
    fn drop_in_flight(&mut self, node: NodeId) -> Vec<InFlight> {
        let touches = |moving: &InFlight| moving.transfer.from == node || moving.transfer.to == node;
        let mut in_flight: Vec<InFlight> =
            self.in_flight.extract_if(|_, moving| touches(moving)).map(|(_, moving)| moving).collect();
        in_flight.sort_unstable_by_key(|moving| moving.transfer.id);
        self.actions.retain(|action| !matches!(action, Action::Begin(t) if t.from == node || t.to == node));
        for other in 0..self.nodes.len() {
            for (from, to) in [(node, other), (other, node)] {
                if let Some(link) = self.link_mut(from, to) {
                    link.clear();
                }
            }
        }
        for InFlight { transfer, version, .. } in &in_flight {
            if let Some((converter, _)) = transfer.converts.filter(|_| transfer.from != transfer.to) {
                self.nodes[converter].converting -= 1;
            }
            self.let_go(transfer.id, transfer.datum, transfer.from, transfer.source_format, *version, false);
        }
        in_flight.retain(|moving| moving.transfer.to != node);
        for InFlight { transfer, version, .. } in &in_flight {
            let entry = self.entry_mut(transfer.datum);
            let at = entry.find_version(transfer.to, transfer.format, *version).expect("it was to be filled");
            entry.replicas[at].incoming = None;
        }
        in_flight
    }

    /// Removes the replicas on the node; returns the data that exist nowhere else.
    fn drop_replicas(&mut self, node: NodeId) -> Vec<Datum> {
        let mut lost = Vec::new();
        for datum in (0..self.data.len() as u32).map(Datum) {
            let entry = self.entry_mut(datum);
            if entry.replicas.iter().all(|replica| replica.node != node) {
                continue;
            }
            let had_value = !entry.removed && entry.has_source();
            for replica in &mut entry.replicas {
                replica.forwards.retain(|forward| forward.0 != node);
            }
            for at in (0..entry.replicas.len()).rev() {
                if self.entry(datum).replicas[at].node == node {
                    self.discard(datum, at);
                }
            }
            if had_value && !self.entry(datum).has_source() {
                lost.push(datum);
            }
        }
        lost
    }

    /// Returns the working sets that wait for one of these data.
    fn stranded(&self, lost: &[Datum]) -> Vec<Ticket> {
        let mut stranded = Vec::new();
        for (&ticket, staging) in &self.stagings {
            // A stream-ordered task waits for nothing, though the version before the one that it
            // uses may be lost. To run it again would be to update its operands twice.
            if !staging.places.is_empty() {
                continue;
            }
            let queued = self.nodes[staging.node].queue.contains(&ticket);
            let waits = staging.needs.iter().zip(&staging.held).any(|(need, held)| {
                let entry = self.entry(need.datum);
                let is_valid = |at: usize| entry.replicas[at].stage == ReplicaStage::Valid;
                let has = (*held || !queued) && entry.find(staging.node, need.format).is_some_and(is_valid);
                need.access != Access::Write && !has && lost.contains(&need.datum)
            });
            if waits {
                stranded.push(ticket);
            }
        }
        stranded.sort_unstable();
        stranded
    }

    /// Fills a replica from another source, if it is still wanted: the transfer that was to fill it
    /// is gone.
    fn fill_otherwise(&mut self, moving: &InFlight) {
        let (transfer, version) = (&moving.transfer, moving.version);
        let (datum, node, format) = (transfer.datum, transfer.to, transfer.format);
        let entry = self.entry(datum);
        if version != entry.version {
            // Nobody waits for it: it only has to be removed.
            self.fill(datum, node, format, version);
            return;
        }
        let at = entry.find(node, format).expect("it was to be filled");
        let replica = &entry.replicas[at];
        let ahead = matches!(transfer.reason, Reason::WriteBack | Reason::Idle);
        if ahead && replica.pins == 0 && replica.forwards.is_empty() {
            self.discard(datum, at);
        } else {
            self.fetch(datum, node, format, transfer.reason);
        }
    }
}

fn is_being_written(entry: &Entry) -> bool {
    let mut current = entry.replicas.iter().filter(|r| r.version == entry.version);
    current.any(|r| r.stage == ReplicaStage::Blank || (r.stage == ReplicaStage::Valid && r.writers > 0))
}
