//! Memory that replicas have left, for those that come: pages that have been touched cost less than new ones.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

/// Smaller values are not kept: an allocator has them at hand (bytes).
const WORTH: usize = 64;

/// Values that are kept at most, so that a search stays short.
const MOST: usize = 256;

/// Bytes of a value's parts.
pub(super) type Sizes = SmallVec<[usize; 2]>;

/// A value that nobody needs any more, of a type that is forgotten.
pub(crate) struct RecycledBuffer {
    kind: TypeId,
    sizes: Sizes,
    bytes: u64,
    value: Box<dyn Any + Send>,
}

impl RecycledBuffer {
    /// `None` for what is not worth it.
    pub(super) fn new<D: Send + 'static>(value: D, sizes: Sizes) -> Option<RecycledBuffer> {
        let bytes: usize = sizes.iter().sum();
        (bytes >= WORTH).then(|| RecycledBuffer {
            kind: TypeId::of::<D>(),
            sizes,
            bytes: bytes as u64,
            value: Box::new(value),
        })
    }
}

/// What is known of a node's recycled buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferPoolUse {
    /// Bytes that are kept now.
    pub(crate) bytes: u64,
    /// Copies that were made in memory that was kept.
    pub(crate) reused: u64,
    /// Copies for which memory was allocated, those left out that are too small to be kept.
    pub(crate) allocated: u64,
}

/// The recycled buffers of one memory node.
///
/// What is kept and what is in use together are never more than the node's capacity, nor more than ever was
/// in use at once: so no memory is taken that the program has not needed. The replicas that are on their way
/// count as in use, but their memory is still to be taken: from what is kept, or else [in its
/// stead](BufferPool::make_way).
///
/// No value is dropped in here, since dropping one is user code and callers may hold locks: what has to go is
/// handed out.
#[derive(Default)]
pub(crate) struct BufferPool {
    shelf: Mutex<Shelf>,
    /// Bytes in use, and on their way, when [`BufferPool::limit`] was last called.
    seen: [AtomicU64; 2],
}

#[derive(Default)]
struct Shelf {
    /// The oldest first.
    kept: VecDeque<RecycledBuffer>,
    /// The most bytes that were in use at any time.
    peak: u64,
    /// Bytes that may be kept, beside the replicas that are there, and beside those too that are on their
    /// way.
    room: u64,
    free: u64,
    /// Nothing is kept any more.
    closed: bool,
    counts: BufferPoolUse,
}

/// What was thrown out, to be dropped where no lock is held.
pub(crate) type ThrownOut = SmallVec<[RecycledBuffer; 2]>;

impl BufferPool {
    /// Keeps a value; answers with those that have to go for it.
    pub(crate) fn keep(&self, spare: RecycledBuffer) -> ThrownOut {
        let mut shelf = self.shelf.lock();
        shelf.counts.bytes += spare.bytes;
        shelf.kept.push_back(spare);
        let room = shelf.room;
        shelf.throw_out(room)
    }

    /// False if [`limit`](Self::limit) was told the same the last time.
    pub(crate) fn is_news(&self, used: u64, arriving: u64) -> bool {
        let [seen, coming] = &self.seen;
        (seen.load(Ordering::Relaxed), coming.load(Ordering::Relaxed)) != (used, arriving)
    }

    /// So many bytes are in use on the node now, `arriving` of them by replicas on their way, of `capacity`.
    /// One thread at a time says so.
    pub(crate) fn limit(&self, used: u64, arriving: u64, capacity: Option<u64>) -> ThrownOut {
        let [seen, coming] = &self.seen;
        seen.store(used, Ordering::Relaxed);
        coming.store(arriving, Ordering::Relaxed);
        let mut shelf = self.shelf.lock();
        shelf.peak = shelf.peak.max(used);
        let most = shelf.peak.min(capacity.unwrap_or(u64::MAX));
        (shelf.room, shelf.free) = (most.saturating_sub(used - arriving), most.saturating_sub(used));
        let room = shelf.room;
        shelf.throw_out(room)
    }

    /// Memory is about to be allocated for something that counts as in use already: as much as is kept in its
    /// place has to go.
    pub(crate) fn make_way(&self) -> ThrownOut {
        let mut shelf = self.shelf.lock();
        let free = shelf.free;
        shelf.throw_out(free)
    }

    /// The node's memory is gone, or its use is at an end: nothing is kept from now on.
    pub(crate) fn close(&self) -> ThrownOut {
        let mut shelf = self.shelf.lock();
        shelf.closed = true;
        shelf.throw_out(0)
    }

    /// A value of this type with parts of these sizes, the last that came; with whatever bytes it had.
    pub(super) fn take<D: 'static>(&self, sizes: &Sizes) -> Option<D> {
        let mut shelf = self.shelf.lock();
        let kind = TypeId::of::<D>();
        let at = shelf.kept.iter().rposition(|spare| spare.kind == kind && spare.sizes == *sizes)?;
        let spare = shelf.kept.remove(at)?;
        shelf.counts.bytes -= spare.bytes;
        drop(shelf);
        spare.value.downcast().ok().map(|value| *value)
    }

    /// Counts a copy of this many bytes that has found memory here, or not.
    pub(super) fn count(&self, bytes: usize, reused: bool) {
        if bytes < WORTH {
            return;
        }
        let counts = &mut self.shelf.lock().counts;
        *if reused { &mut counts.reused } else { &mut counts.allocated } += 1;
    }

    pub(crate) fn uses(&self) -> BufferPoolUse {
        self.shelf.lock().counts
    }
}

impl Shelf {
    /// Takes out what is more than `room` bytes, the oldest first.
    fn throw_out(&mut self, room: u64) -> ThrownOut {
        let room = if self.closed { 0 } else { room };
        let mut thrown = ThrownOut::new();
        while self.counts.bytes > room || self.kept.len() > MOST {
            let Some(spare) = self.kept.pop_front() else { break };
            self.counts.bytes -= spare.bytes;
            thrown.push(spare);
        }
        thrown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(len: usize, value: u8) -> RecycledBuffer {
        RecycledBuffer::new(vec![value; len], Sizes::from_slice(&[len])).expect("worth it")
    }

    fn take(recycled: &BufferPool, len: usize) -> Option<Vec<u8>> {
        recycled.take(&Sizes::from_slice(&[len]))
    }

    #[test]
    fn what_is_kept_and_used_stays_below_peak_and_capacity() {
        let recycled = BufferPool::default();
        assert_eq!(recycled.keep(spare(100, 1)).len(), 1, "nothing was in use: there is no room");
        assert!(recycled.limit(1000, 0, Some(900)).is_empty());
        recycled.limit(600, 0, Some(900));
        assert!((1..=3).all(|value| recycled.keep(spare(100, value)).is_empty()));
        assert_eq!(recycled.keep(spare(100, 4)).len(), 1, "the capacity counts");
        assert_eq!(recycled.limit(750, 0, Some(900)).len(), 2);
        assert_eq!(
            (recycled.uses().bytes, take(&recycled, 100)),
            (100, Some(vec![4; 100])),
            "the oldest goes"
        );
        assert_eq!((recycled.uses().bytes, take(&recycled, 100)), (0, None));
        recycled.limit(0, 0, None);
        assert!(recycled.keep(spare(1000, 1)).is_empty(), "up to the peak");
        assert_eq!(recycled.keep(spare(64, 1)).len(), 1);
        assert_eq!(recycled.close().len(), 1);
        assert_eq!(recycled.keep(spare(64, 1)).len(), 1, "nothing is kept after the end");
        assert!(RecycledBuffer::new(1u8, Sizes::from_slice(&[1])).is_none(), "too small");
    }

    #[test]
    fn replicas_on_their_way_take_their_memory_from_what_is_kept() {
        let recycled = BufferPool::default();
        recycled.limit(300, 0, Some(300));
        recycled.limit(100, 0, Some(300));
        assert!((1..=2).all(|value| recycled.keep(spare(100, value)).is_empty()));
        assert!(recycled.limit(300, 200, Some(300)).is_empty(), "both are wanted");
        assert!(take(&recycled, 100).is_some());
        assert_eq!(recycled.make_way().len(), 1, "the other one needs memory of another size");
        assert!(recycled.limit(300, 0, Some(300)).is_empty());
    }

    #[test]
    fn only_the_same_type_and_sizes_are_taken() {
        let recycled = BufferPool::default();
        recycled.limit(10_000, 0, None);
        recycled.limit(0, 0, None);
        recycled.keep(spare(100, 1));
        assert!(take(&recycled, 99).is_none());
        assert!(recycled.take::<Vec<u16>>(&Sizes::from_slice(&[100])).is_none());
        assert!(recycled.take::<Vec<u8>>(&Sizes::from_slice(&[50, 50])).is_none());
        assert!(take(&recycled, 100).is_some());
    }

    #[test]
    fn a_search_stays_short() {
        let recycled = BufferPool::default();
        recycled.limit(1 << 30, 0, None);
        recycled.limit(0, 0, None);
        let thrown: usize = (0..MOST + 10).map(|_| recycled.keep(spare(64, 0)).len()).sum();
        assert_eq!(thrown, 10);
    }
}
