//! The trace of what moved, what left and how full the nodes were.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use zellige_trace::{EvictionEvent, MemoryEvent, Trace, TraceNode, TransferEvent, TransferReason};

use crate::device::Span;
use crate::memory::{NodeId, Reason, Transfer};

/// Bounded queues; what does not fit is counted.
pub(crate) struct Log {
    started: Instant,
    transfers: ArrayQueue<TransferEvent>,
    memory: ArrayQueue<MemoryEvent>,
    evictions: ArrayQueue<EvictionEvent>,
    lost: AtomicU64,
}

impl Log {
    /// Room for `capacity` transfers and evictions, and four times as many changes of how full a node is.
    pub(crate) fn new(started: Instant, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Log {
            started,
            transfers: ArrayQueue::new(capacity),
            memory: ArrayQueue::new(capacity.saturating_mul(4)),
            evictions: ArrayQueue::new(capacity),
            lost: AtomicU64::new(0),
        }
    }

    fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.started).as_nanos() as u64
    }

    fn count(&self, fits: bool) {
        if !fits {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A transfer of the handle numbered `data` has ended; `label` is its format's name.
    pub(super) fn moved(&self, transfer: &Transfer, (data, label): (u64, &'static str), span: Span) {
        let event = TransferEvent {
            from: transfer.from as u32,
            to: transfer.to as u32,
            data,
            label,
            bytes: transfer.bytes,
            start_ns: self.at(span.start),
            end_ns: self.at(span.end),
            reason: transfer.reason.into(),
            converted: transfer.converts.is_some(),
        };
        self.count(self.transfers.push(event).is_ok());
    }

    pub(super) fn evicted(&self, node: NodeId, data: u64, bytes: u64, written_back: bool) {
        let at_ns = self.at(Instant::now());
        let event = EvictionEvent { node: node as u32, data, bytes, at_ns, written_back };
        self.count(self.evictions.push(event).is_ok());
    }

    pub(super) fn uses(&self, node: NodeId, used: u64) {
        let event = MemoryEvent { node: node as u32, at_ns: self.at(Instant::now()), used };
        self.count(self.memory.push(event).is_ok());
    }

    /// Moves what has been recorded into a trace.
    pub(super) fn drain_into(&self, trace: &mut Trace) {
        trace.transfers.extend(std::iter::from_fn(|| self.transfers.pop()));
        trace.memory.extend(std::iter::from_fn(|| self.memory.pop()));
        trace.evictions.extend(std::iter::from_fn(|| self.evictions.pop()));
        trace.lost += self.lost.swap(0, Ordering::Relaxed);
    }
}

impl From<Reason> for TransferReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Fetch => TransferReason::Fetch,
            Reason::WriteBack => TransferReason::WriteBack,
            Reason::TaskPrefetch => TransferReason::TaskPrefetch,
            Reason::Prefetch => TransferReason::Prefetch,
            Reason::Idle => TransferReason::Idle,
        }
    }
}

impl super::Hub {
    /// Adds the nodes and what happened on them to a trace.
    pub(crate) fn add_to(&self, trace: &mut Trace) {
        let node = |node: super::NodeUse| TraceNode {
            name: node.name,
            capacity: node.capacity,
            hits: node.hits,
            misses: node.misses,
            prefetch_used: node.prefetch_used,
            prefetch_unused: node.prefetch_unused,
        };
        trace.nodes = self.uses().into_iter().map(node).collect();
        if let Some(log) = &self.log {
            log.drain_into(trace);
        }
    }
}
