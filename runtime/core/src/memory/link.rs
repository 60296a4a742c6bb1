//! One direction of a link between two nodes: one transfer at a time, urgent ones first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Reason;

/// Speed of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// Bytes per second.
    pub bandwidth: f64,
    /// Time before the first byte arrives (ns).
    pub latency_ns: u64,
}

impl LinkSpec {
    /// Returns the time that `bytes` take on the idle link (ns).
    pub(crate) fn nanos(&self, bytes: u64) -> u64 {
        self.latency_ns + (bytes as f64 / self.bandwidth * 1e9).round() as u64
    }
}

/// A link, its queue, and the transfer on it.
pub(super) struct Link {
    pub(super) spec: LinkSpec,
    queue: BinaryHeap<Reverse<(Reason, u64)>>,
    busy: bool,
    /// Bytes queued and in flight.
    pub(super) backlog: u64,
}

impl Link {
    pub(super) fn new(spec: LinkSpec) -> Self {
        Link { spec, queue: BinaryHeap::new(), busy: false, backlog: 0 }
    }

    /// Queues transfer `id`; it is queued once more with a better reason if it has become urgent.
    pub(super) fn push(&mut self, reason: Reason, id: u64) {
        self.queue.push(Reverse((reason, id)));
    }

    /// Returns the next transfer, if the link is free. `waits` distinguishes pending transfers from
    /// those that have ended or were cancelled.
    pub(super) fn next(&mut self, waits: impl Fn(u64) -> bool) -> Option<u64> {
        if self.busy {
            return None;
        }
        let next = std::iter::from_fn(|| self.queue.pop()).map(|Reverse((_, id))| id).find(|&id| waits(id));
        self.busy = next.is_some();
        next
    }

    /// Removes all transfers of the link: one of its ends is lost.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        (self.busy, self.backlog) = (false, 0);
    }

    /// Frees the link: its transfer has arrived.
    pub(super) fn end(&mut self) {
        self.busy = false;
    }
}
