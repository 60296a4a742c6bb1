//! Device memory in host memory, with a separate block for each allocation.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use super::history::History;

/// Alignment of allocations.
const ALIGNMENT: u64 = 256;
/// The first address of device memory. None is given twice, so that use after free is always seen.
const FIRST: u64 = 1 << 40;
/// Unused bytes between two allocations.
const GAP: u64 = 4096;
/// Number of freed allocations that are remembered, to distinguish them from memory that was never
/// allocated.
const REMEMBERED: usize = 1 << 16;
/// Byte value of uninitialized memory: not a number, in every floating-point type.
pub(super) const GARBAGE: u8 = 0xff;
/// Bytes of it at the beginning of an allocation; what follows is 0, and takes no memory before it
/// is written.
const MOST_GARBAGE: usize = 1 << 20;
/// Up to which alignment the allocator hands out pages as the system gives them, zero and not there
/// yet; beyond it writes the zeros itself.
const NATURAL: usize = 16;

/// Bytes on the host, garbage at first.
#[derive(Debug)]
pub(super) struct Block {
    /// Aligned address inside the allocation.
    data: NonNull<u8>,
    allocated: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are reached through `pointer` alone, by operations that the order of streams
// keeps apart.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out no reference, but an address.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block; `None` if the host is out of memory.
    pub(super) fn new(bytes: u64, alignment: usize) -> Option<Block> {
        let bytes = usize::try_from(bytes.max(1)).ok()?;
        let layout = Layout::from_size_align(bytes.checked_add(alignment)?, NATURAL).ok()?;
        // SAFETY: the size is not 0.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let gap = allocated.align_offset(alignment);
        // SAFETY: the gap is less than `alignment`, and as many bytes more than `bytes` were
        // allocated just now.
        let data = unsafe { allocated.add(gap) };
        // SAFETY: `bytes` bytes from there were allocated.
        unsafe { data.write_bytes(GARBAGE, bytes.min(MOST_GARBAGE)) };
        Some(Block { data, allocated, layout })
    }

    /// Returns the address of the first byte.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.data.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed here alone.
        unsafe { dealloc(self.allocated.as_ptr(), self.layout) };
    }
}

/// An allocation of a GPU's memory.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) gpu: u32,
    pub(super) bytes: u64,
    pub(super) block: Arc<Block>,
    pub(super) history: History,
    /// Operation that allocated it, for messages.
    pub(super) by: Arc<str>,
}

/// Why an address range is not usable.
pub(super) enum Unusable {
    /// The memory was freed.
    Freed { by: Arc<str>, bytes: u64, base: u64 },
    /// The range extends beyond the allocation in which it begins.
    Outside { bytes: u64, base: u64 },
    /// The memory was never allocated.
    Unknown,
}

/// The memory of all GPUs.
#[derive(Debug, Default)]
pub(super) struct Space {
    live: BTreeMap<u64, Allocation>,
    /// Bytes of freed allocations, and the operations that freed them.
    freed: BTreeMap<u64, (u64, Arc<str>)>,
    /// Bytes of addresses that were given so far.
    given: u64,
    used: BTreeMap<u32, u64>,
}

/// Returns the bytes that an allocation uses of a GPU's memory.
pub(super) fn rounded(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

impl Space {
    /// Bytes in use on a GPU.
    pub(super) fn used(&self, gpu: u32) -> u64 {
        self.used.get(&gpu).copied().unwrap_or(0)
    }

    /// Allocates memory and returns its address; `None` if the host is out of memory.
    pub(super) fn allocate(&mut self, gpu: u32, bytes: u64, by: Arc<str>) -> Option<u64> {
        let block = Arc::new(Block::new(bytes, ALIGNMENT as usize)?);
        let base = FIRST + self.given;
        self.given += rounded(bytes) + GAP;
        *self.used.entry(gpu).or_default() += rounded(bytes);
        self.live.insert(base, Allocation { gpu, bytes, block, history: History::default(), by });
        Some(base)
    }

    /// Takes an allocation out.
    pub(super) fn free(&mut self, base: u64, by: Arc<str>) -> Option<Allocation> {
        let allocation = self.live.remove(&base)?;
        *self.used.entry(allocation.gpu).or_default() -= rounded(allocation.bytes);
        self.freed.insert(base, (allocation.bytes, by));
        if self.freed.len() > REMEMBERED {
            self.freed.pop_first();
        }
        Some(allocation)
    }

    /// Bytes of a GPU's memory that have no address.
    pub(super) fn reserve(&mut self, gpu: u32, bytes: u64) {
        *self.used.entry(gpu).or_default() += bytes;
    }

    /// Returns bytes to the free memory, unless the GPU is lost.
    pub(super) fn release(&mut self, gpu: u32, bytes: u64) {
        if let Some(used) = self.used.get_mut(&gpu) {
            *used = used.saturating_sub(bytes);
        }
    }

    /// Returns the allocation that contains `bytes` bytes from `at`, and its address.
    pub(super) fn find(&mut self, at: u64, bytes: u64) -> Result<(u64, &mut Allocation), Unusable> {
        let last = |(&base, allocation): (&u64, &Allocation)| (base, allocation.bytes);
        let place =
            self.live.range(..=at).next_back().map(last).filter(|(base, size)| at - base < (*size).max(1));
        let Some((base, size)) = place else {
            return Err(self.why_not(at));
        };
        if bytes > size - (at - base) {
            return Err(Unusable::Outside { bytes: size, base });
        }
        let allocation = self.live.get_mut(&base).ok_or(Unusable::Unknown)?;
        Ok((base, allocation))
    }

    fn why_not(&self, at: u64) -> Unusable {
        match self.freed.range(..=at).next_back() {
            Some((&base, (bytes, by))) if at - base < (*bytes).max(1) => {
                Unusable::Freed { by: Arc::clone(by), bytes: *bytes, base }
            }
            _ => Unusable::Unknown,
        }
    }

    /// Returns all live allocations by address.
    pub(super) fn live(&self) -> impl Iterator<Item = (u64, &Allocation)> {
        self.live.iter().map(|(&base, allocation)| (base, allocation))
    }

    /// A GPU's memory is gone.
    pub(super) fn lose(&mut self, gpu: u32) {
        self.live.retain(|_, allocation| allocation.gpu != gpu);
        self.used.remove(&gpu);
    }
}
