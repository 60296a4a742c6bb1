//! The trace of transfers, evictions and memory use of the nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zellige_trace::{EvictionEvent, MemoryEvent, Trace, TraceNode, TransferEvent, TransferReason};

use crate::clock::Clock;
use crate::device::Span;
use crate::memory::{NodeId, Reason, Transfer};
use crate::trace_recorder::Bounded;

/// Bounded queues; records that do not fit are counted.
pub(crate) struct Log {
    clock: Arc<Clock>,
    transfers: Bounded<TransferEvent>,
    memory: Bounded<MemoryEvent>,
    evictions: Bounded<EvictionEvent>,
    lost: AtomicU64,
}

impl Log {
    /// Creates queues for `capacity` transfers and evictions, and four times as many changes of
    /// memory use.
    pub(crate) fn new(clock: Arc<Clock>, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Log {
            clock,
            transfers: Bounded::new(capacity),
            memory: Bounded::new(capacity.saturating_mul(4)),
            evictions: Bounded::new(capacity),
            lost: AtomicU64::new(0),
        }
    }

    fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.clock.started()).as_nanos() as u64
    }

    fn count(&self, fits: bool) {
        if !fits {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records a transfer of the handle numbered `data`; `label` is its format's name.
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
        self.count(self.transfers.push(event));
    }

    pub(super) fn evicted(&self, node: NodeId, data: u64, bytes: u64, written_back: bool) {
        let at_ns = self.at(self.clock.now());
        let event = EvictionEvent { node: node as u32, data, bytes, at_ns, written_back };
        self.count(self.evictions.push(event));
    }

    pub(super) fn uses(&self, node: NodeId, used: u64) {
        let event = MemoryEvent { node: node as u32, at_ns: self.at(self.clock.now()), used };
        self.count(self.memory.push(event));
    }

    /// Moves the records into a trace.
    pub(super) fn drain_into(&self, trace: &mut Trace) {
        trace.transfers.extend(self.transfers.drain());
        trace.memory.extend(self.memory.drain());
        trace.evictions.extend(self.evictions.drain());
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

impl super::TransferDriver {
    /// Adds the nodes and their statistics to a trace.
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
