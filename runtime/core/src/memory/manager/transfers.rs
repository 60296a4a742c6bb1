//! Transfers: their sources, routes and formats, and the actions at their ends.

use super::{InFlight, Memory};
use crate::format::Format;
use crate::memory::table::ReplicaStage;
use crate::memory::{Access, Action, Datum, HOST, NodeId, Reason, Transfer};

impl Memory {
    /// Ends transfer `id`. Does nothing if it was dropped when a node was [lost](Memory::lose).
    pub(crate) fn arrived(&mut self, id: u64) {
        let Some(InFlight { transfer, version, .. }) = self.in_flight.remove(&id) else { return };
        let Transfer { datum, from, to, source_format, format, .. } = transfer;
        let link = self.link_mut(from, to).expect("it was used");
        link.end();
        link.backlog -= transfer.bytes;
        if let Some((converter, _)) = transfer.converts.filter(|_| from != to) {
            self.nodes[converter].converting -= 1;
        }
        self.fill(datum, to, format, version);
        self.let_go(id, datum, from, source_format, version, true);
        self.start(from, to);
        self.pump(to);
        self.pump(from);
        self.clean_ahead(from);
    }

    /// Marks a replica as arrived, and notifies the tasks that wait for it.
    pub(super) fn fill(&mut self, datum: Datum, node: NodeId, format: Format, version: u32) {
        let entry = self.entry_mut(datum);
        let at = entry.find_version(node, format, version).expect("it was to be filled");
        let replica = &mut entry.replicas[at];
        replica.stage = ReplicaStage::Valid;
        replica.incoming = None;
        let waiters = std::mem::take(&mut replica.waiters);
        let forwards = std::mem::take(&mut replica.forwards);
        let is_current = version == entry.version;
        if !is_current {
            self.drop_if_left_over(datum, at);
            for (node, format, _) in forwards {
                self.fill(datum, node, format, version);
                self.pump(node);
            }
            return;
        }
        self.relist(datum, at);
        self.relist_irreplaceable(datum, self.entry(datum).replicas.len());
        waiters.into_iter().for_each(|ticket| self.has_one_more(ticket));
        for (node, format, reason) in forwards {
            self.fetch(datum, node, format, reason);
        }
    }

    /// Releases the source of transfer `id`, which has ended or was dropped.
    pub(super) fn let_go(
        &mut self,
        id: u64,
        datum: Datum,
        node: NodeId,
        format: Format,
        version: u32,
        done: bool,
    ) {
        let entry = self.entry_mut(datum);
        let at = entry.find_version(node, format, version).expect("kept while it is read");
        let replica = &mut entry.replicas[at];
        replica.outgoing.retain(|moving| *moving != id);
        if !replica.outgoing.is_empty() {
            return;
        }
        let quiet = std::mem::take(&mut replica.quiet);
        let was_leaving = std::mem::take(&mut replica.leaving);
        let (bytes, pins) = (replica.bytes, replica.pins);
        quiet.into_iter().for_each(|ticket| self.has_one_more(ticket));
        if was_leaving {
            self.nodes[node].leaving -= bytes;
            // The target of the write-back may be lost, while another transfer still read the
            // source.
            let entry = self.entry(datum);
            if done && pins == 0 && !entry.is_pinned(node) && !entry.is_sole(at) {
                self.evict(datum, at, true);
                return;
            }
        }
        if self.entry(datum).version == version {
            self.relist(datum, at);
        } else {
            self.drop_if_left_over(datum, at);
        }
    }

    /// Fills the arriving replica on `node` from the source with the earliest arrival; by way of
    /// the host if there is no direct link.
    pub(super) fn fetch(&mut self, datum: Datum, node: NodeId, format: Format, reason: Reason) {
        if self.comes_with_wide(datum, node, format, reason) {
            return;
        }
        let entry = self.entry(datum);
        let bytes = entry.find(node, format).map_or(0, |at| entry.replicas[at].bytes);
        let sources = entry.replicas.iter().filter(|r| {
            let serves = r.format == format || r.format == entry.format || crate::mutant::mutant(3);
            r.version == entry.version && r.is_source() && serves
        });
        let costs = sources.filter_map(|r| {
            let link = self.link(r.node, node)?;
            // A replica in another format on the node need not travel, however fast the links are.
            let (travels, converts) = (r.node != node, r.format != format);
            let conversion = if converts { r.bytes } else { 0 };
            let nanos = link.spec.nanos(link.backlog + bytes + conversion / 8);
            Some(((travels, nanos, converts), r.node, r.format))
        });
        match costs.min() {
            // The host keeps the other format in addition to the wide one: the next request needs
            // no conversion.
            Some((_, HOST, source_format))
                if node != HOST && source_format != format && self.nodes[HOST].has_spare(bytes) =>
            {
                self.fetch_by_host(datum, node, format, bytes, reason);
            }
            Some((_, from, source_format)) => {
                self.launch(datum, (from, source_format), (node, format), reason);
            }
            None => self.fetch_by_host(datum, node, format, bytes, reason),
        }
    }

    /// Returns true if the version's own format is in flight to the node: the other format is
    /// converted from it there, and nothing else is transferred.
    fn comes_with_wide(&mut self, datum: Datum, node: NodeId, format: Format, reason: Reason) -> bool {
        let wide = self.entry(datum).format;
        if format == wide {
            return false;
        }
        self.bring_wide_first(datum, node);
        let Some(at) = self.entry(datum).find(node, wide) else { return false };
        let replica = &mut self.entry_mut(datum).replicas[at];
        if replica.stage != ReplicaStage::Arriving {
            return false;
        }
        replica.forwards.push((node, format, reason));
        if reason != Reason::Prefetch {
            self.hurry(datum, node, wide, reason);
        }
        true
    }

    /// Fetches the version's own format, which a task also wants there, if there is room for it;
    /// only that one is transferred.
    fn bring_wide_first(&mut self, datum: Datum, node: NodeId) {
        let entry = self.entry(datum);
        let (format, bytes) = (entry.format, entry.bytes);
        if entry.has_value() && entry.lacks_wide(node) && self.nodes[node].has_spare(bytes) {
            let at = self.make(datum, node, format, bytes, ReplicaStage::Arriving);
            self.entry_mut(datum).replicas[at].prefetched = true;
            self.fetch(datum, node, format, Reason::TaskPrefetch);
        }
    }

    fn fetch_by_host(&mut self, datum: Datum, node: NodeId, format: Format, bytes: u64, reason: Reason) {
        let known = self.entry(datum).find(HOST, format);
        let comes = |at: usize| self.entry(datum).replicas[at].stage == ReplicaStage::Arriving;
        if node == HOST || !known.is_none_or(comes) {
            self.leave_unfilled(datum, node, format);
            return;
        }
        let at = known.unwrap_or_else(|| self.make(datum, HOST, format, bytes, ReplicaStage::Arriving));
        self.entry_mut(datum).replicas[at].forwards.push((node, format, reason));
        if known.is_none() {
            self.fetch(datum, HOST, format, reason);
        } else if reason != Reason::Prefetch {
            // Several transfers wait for it.
            self.hurry(datum, HOST, format, Reason::Fetch);
        }
    }

    /// Handles a replica without a source: a writer has taken it, or it was lost. A task that needs
    /// only the place may have it.
    fn leave_unfilled(&mut self, datum: Datum, node: NodeId, format: Format) {
        let entry = self.entry_mut(datum);
        let at = entry.find(node, format).expect("to be filled");
        let replica = &mut entry.replicas[at];
        let forwards = std::mem::take(&mut replica.forwards);
        let waiters = std::mem::take(&mut replica.waiters);
        if replica.pins == 0 {
            self.discard(datum, at);
        } else {
            replica.stage = ReplicaStage::Blank;
        }
        for ticket in waiters {
            let mut needs = self.stagings[&ticket].needs.iter().filter(|need| need.datum == datum);
            assert!(
                needs.all(|need| need.access == Access::Write),
                "a task reads datum {}, which has no value",
                datum.0
            );
            self.has_one_more(ticket);
        }
        for (node, format, _) in forwards {
            self.leave_unfilled(datum, node, format);
        }
        self.pump(node);
    }

    /// Queues a transfer from one replica to another.
    fn launch(&mut self, datum: Datum, source: (NodeId, Format), target: (NodeId, Format), reason: Reason) {
        let id = self.next_transfer;
        self.next_transfer += 1;
        let (from, source_format) = source;
        let (to, format) = target;
        let entry = self.entry_mut(datum);
        let version = entry.version;
        let at = entry.find(to, format).expect("made before");
        entry.replicas[at].incoming = Some(id);
        let (bytes, target) = (entry.replicas[at].bytes, entry.replicas[at].buffer);
        let at = entry.find(from, source_format).expect("a source");
        entry.replicas[at].outgoing.push(id);
        let (converts, source) = (None, entry.replicas[at].buffer);
        let transfer =
            Transfer { id, datum, from, to, source, target, source_format, format, bytes, converts, reason };
        self.relist(datum, at);
        self.in_flight.insert(id, InFlight { transfer, version, started: false });
        let link = self.link_mut(from, to).expect("chosen for its link");
        link.backlog += bytes;
        link.push(reason, id);
        self.start(from, to);
    }

    /// Starts the next transfer on a link that is free.
    fn start(&mut self, from: NodeId, to: NodeId) {
        let in_flight = &self.in_flight;
        let waits = |id: u64| in_flight.get(&id).is_some_and(|moving| !moving.started);
        let place = from * self.nodes.len() + to;
        let Some(id) = self.links[place].as_mut().and_then(|link| link.next(waits)) else {
            return;
        };
        let mut transfer = self.in_flight[&id].transfer;
        if transfer.source_format != transfer.format {
            let entry = self.entry(transfer.datum);
            let version = self.in_flight[&id].version;
            let wide = entry.find_version(from, transfer.source_format, version);
            let wide = entry.replicas[wide.expect("kept while it is read")].bytes;
            let work = wide + transfer.bytes;
            let here = &mut self.nodes[from];
            if from != to && here.converting >= here.spec.staging {
                // No room to convert here: the wide format is transferred.
                self.nodes[to].converting += 1;
                transfer.converts = Some((to, work));
                transfer.bytes = wide;
            } else {
                here.converting += u32::from(from != to);
                transfer.converts = Some((from, work));
            }
        }
        let moving = self.in_flight.get_mut(&id).expect("just seen");
        moving.started = true;
        let planned = std::mem::replace(&mut moving.transfer, transfer).bytes;
        let link = self.links[place].as_mut().expect("just used");
        link.backlog = link.backlog - planned + transfer.bytes;
        self.actions.push(Action::Begin(transfer));
    }

    /// Raises the priority of the transfer that fills this replica, e.g. because a task waits for
    /// it.
    pub(super) fn hurry(&mut self, datum: Datum, node: NodeId, format: Format, reason: Reason) {
        let entry = self.entry(datum);
        let Some(at) = entry.find(node, format) else { return };
        if let Some(id) = entry.replicas[at].incoming {
            return self.make_urgent(id, reason);
        }
        // It comes by way of the host, or is converted from the version's own format once that is
        // here.
        for way in [(HOST, format), (node, entry.format)] {
            if way == (node, format) {
                continue;
            }
            let entry = self.entry_mut(datum);
            let Some(at) = entry.find(way.0, way.1) else { continue };
            let mut forwards =
                entry.replicas[at].forwards.iter_mut().filter(|f| (f.0, f.1) == (node, format));
            if let Some(forward) = forwards.next() {
                forward.2 = reason.min(forward.2);
                return self.hurry(datum, way.0, way.1, reason);
            }
        }
    }

    fn make_urgent(&mut self, id: u64, reason: Reason) {
        let moving = self.in_flight.get_mut(&id).expect("incoming");
        if moving.started || moving.transfer.reason <= reason {
            return;
        }
        moving.transfer.reason = reason;
        let (from, to) = (moving.transfer.from, moving.transfer.to);
        self.link_mut(from, to).expect("it is queued there").push(reason, id);
    }

    /// Cancels copies that were made ahead of need and have not started: a writer must not wait for
    /// them.
    pub(super) fn cancel_idle(&mut self, datum: Datum, at: usize) {
        let outgoing = self.entry(datum).replicas[at].outgoing.clone();
        for id in outgoing {
            let moving = &self.in_flight[&id];
            let Transfer { from, to, format, source_format, bytes, reason, .. } = moving.transfer;
            if moving.started || reason != Reason::Idle {
                continue;
            }
            let entry = self.entry_mut(datum);
            let target = entry.find(to, format).expect("to be filled");
            let copy = &entry.replicas[target];
            if copy.pins > 0 || !copy.waiters.is_empty() || !copy.forwards.is_empty() {
                continue;
            }
            self.in_flight.remove(&id);
            self.link_mut(from, to).expect("it was queued there").backlog -= bytes;
            self.discard(datum, target);
            let entry = self.entry_mut(datum);
            let at = entry.find(from, source_format).expect("the source");
            entry.replicas[at].outgoing.retain(|moving| *moving != id);
        }
    }

    /// Copies a sole replica to the node for write-backs.
    pub(super) fn write_back(&mut self, datum: Datum, at: usize, reason: Reason) {
        let (format, bytes) = (self.entry(datum).format, self.entry(datum).bytes);
        let node = self.entry(datum).replicas[at].node;
        let spill = self.spill_of(node).expect("asked before");
        self.make(datum, spill, format, bytes, ReplicaStage::Arriving);
        self.launch(datum, (node, format), (spill, format), reason);
    }
}
