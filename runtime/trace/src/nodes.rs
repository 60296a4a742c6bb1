//! Reports of memory nodes and links.

use std::collections::BTreeSet;
use std::time::Duration;

use super::links::Link;
use super::{Trace, TransferReason};

/// Statistics of one memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Capacity in bytes, if there is a limit.
    pub capacity: Option<u64>,
    /// Operands that were present, or in transfer, when their task requested them.
    pub hits: u64,
    /// Operands that were neither present nor in transfer.
    pub misses: u64,
    /// Maximum number of bytes in use at any time.
    pub peak: u64,
    /// Number of replicas evicted from it.
    pub evictions: usize,
    /// Bytes of these replicas.
    pub evicted_bytes: u64,
    /// Evicted replicas that were the only copy and were written back.
    pub written_back: usize,
    /// Prefetches to it that a task made use of.
    pub prefetch_used: u64,
    /// Prefetches to it without a later use.
    pub prefetch_unused: u64,
}

/// Statistics of one link, or of the conversions within one memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// The source memory node.
    pub from: String,
    /// The destination memory node.
    pub to: String,
    /// True for conversions within one memory node: nothing moved.
    pub within: bool,
    /// Number of transfers.
    pub transfers: usize,
    /// Bytes of these transfers.
    pub bytes: u64,
    /// These bytes by reason, in the order of [`TransferReason::ALL`].
    pub by_reason: [u64; TransferReason::ALL.len()],
    /// Transfers with a conversion of the format.
    pub converted: usize,
    /// Time with at least one transfer in progress.
    pub busy: Duration,
}

/// A memory node that the trace names or that a record mentions.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Capacity in bytes.
    pub capacity: Option<u64>,
}

impl Trace {
    /// Returns the memory nodes by number; none if the run uses only the host's memory.
    pub(super) fn memory_nodes(&self) -> Vec<Node> {
        let mut numbers: BTreeSet<u32> = (0u32..).zip(&self.nodes).map(|(number, _)| number).collect();
        numbers.extend(self.transfers.iter().flat_map(|transfer| [transfer.from, transfer.to]));
        numbers.extend(self.memory.iter().map(|event| event.node));
        numbers.extend(self.evictions.iter().map(|eviction| eviction.node));
        if !numbers.is_empty() {
            numbers.extend(self.workers.iter().map(|worker| worker.node));
        }
        let node = |number: u32| match self.nodes.get(number as usize) {
            Some(node) => Node { number, name: node.name.clone(), capacity: node.capacity },
            None => Node { number, name: format!("node {number}"), capacity: None },
        };
        numbers.into_iter().map(node).collect()
    }
}

/// Returns one report per memory node, in their order.
pub(super) fn node_reports(trace: &Trace, nodes: &[Node]) -> Vec<NodeReport> {
    let mut reports: Vec<NodeReport> = nodes
        .iter()
        .map(|node| {
            let counts = trace.nodes.get(node.number as usize);
            NodeReport {
                name: node.name.clone(),
                capacity: node.capacity,
                hits: counts.map_or(0, |node| node.hits),
                misses: counts.map_or(0, |node| node.misses),
                prefetch_used: counts.map_or(0, |node| node.prefetch_used),
                prefetch_unused: counts.map_or(0, |node| node.prefetch_unused),
                ..NodeReport::default()
            }
        })
        .collect();
    for event in &trace.memory {
        let report = &mut reports[place(nodes, event.node)];
        report.peak = report.peak.max(event.used);
    }
    for eviction in &trace.evictions {
        let report = &mut reports[place(nodes, eviction.node)];
        report.evictions += 1;
        report.evicted_bytes = report.evicted_bytes.saturating_add(eviction.bytes);
        report.written_back += usize::from(eviction.written_back);
    }
    reports
}

/// Returns one report per link, in their order.
pub(super) fn link_reports(trace: &Trace, nodes: &[Node], links: &[Link]) -> Vec<LinkReport> {
    let report = |link: &Link| {
        let name = |number: u32| nodes[place(nodes, number)].name.clone();
        let mut report = LinkReport {
            from: name(link.from),
            to: name(link.to),
            within: link.is_within(),
            transfers: link.slices.len(),
            busy: Duration::from_nanos(link.busy()),
            ..LinkReport::default()
        };
        for transfer in link.slices.iter().map(|slice| &trace.transfers[slice.transfer]) {
            let sum = &mut report.by_reason[transfer.reason as usize];
            *sum = sum.saturating_add(transfer.bytes);
            report.bytes = report.bytes.saturating_add(transfer.bytes);
            report.converted += usize::from(transfer.converted);
        }
        report
    };
    links.iter().map(report).collect()
}

/// Returns the name of a link.
pub(super) fn link_name(nodes: &[Node], link: &Link, arrow: &str) -> String {
    let [from, to] = [link.from, link.to].map(|number| &nodes[place(nodes, number)].name);
    if link.is_within() { format!("{from}, conversions") } else { format!("{from} {arrow} {to}") }
}

/// Returns the position of the node with this number among all that the trace mentions.
pub(super) fn place(nodes: &[Node], number: u32) -> usize {
    nodes.partition_point(|node| node.number < number)
}
