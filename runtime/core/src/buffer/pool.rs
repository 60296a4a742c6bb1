//! Pools of recycled blocks of host memory, and the assignment of threads to pools.
//!
//! Pages that have been touched are cheaper than new ones. Page-locking memory, which copies from
//! and to GPUs need for full speed, costs as much as one or two copies.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{ALIGN, alignment, ask_for_huge_pages};
use crate::error::TaskError;

/// Minimum size of pooled buffers (bytes). Allocators serve smaller ones quickly, and page-locking
/// does not speed up their copies, since drivers and devices stage small transfers.
pub const POOLED_FROM: usize = 64 << 10;

/// Maximum of unused bytes: about the volume in transit between devices and host at a time, not a
/// whole matrix.
const UNUSED: usize = 1 << 30;

/// Reciprocal of the fraction of a limited host memory that may lie unused in addition to it.
const UNUSED_OF_LIMIT: u64 = 16;

/// Allocator of host memory: page-locked for devices of one kind, whose copies access it at full
/// speed.
pub trait HostAllocator: fmt::Debug + Send + Sync {
    /// Allocates memory, aligned to 4096 bytes.
    ///
    /// # Errors
    /// If no more memory can be allocated or locked.
    fn allocate(&self, bytes: usize) -> Result<*mut u8, TaskError>;

    /// Frees memory.
    ///
    /// # Safety
    /// The memory was allocated here with this size, and nobody uses it any more.
    unsafe fn free(&self, at: *mut u8, bytes: usize);

    /// Returns a number that is equal for allocators whose memory serves the same devices.
    fn id(&self) -> usize;
}

/// Allocator of memory that is not page-locked.
#[derive(Debug)]
struct System;

impl System {
    fn layout(bytes: usize) -> Result<Layout, TaskError> {
        Layout::from_size_align(bytes, alignment(bytes)).map_err(|error| Box::new(error).into())
    }
}

impl HostAllocator for System {
    fn allocate(&self, bytes: usize) -> Result<*mut u8, TaskError> {
        let layout = Self::layout(bytes)?;
        assert!(bytes > 0, "blocks are never empty");
        // SAFETY: the layout has a size above zero.
        let at = NonNull::new(unsafe { alloc(layout) }).ok_or_else(no_memory)?;
        ask_for_huge_pages(at, bytes);
        Ok(at.as_ptr())
    }

    unsafe fn free(&self, at: *mut u8, bytes: usize) {
        let layout = Self::layout(bytes).expect("it was allocated with this layout");
        // SAFETY: the caller's promise.
        unsafe { dealloc(at, layout) }
    }

    fn id(&self) -> usize {
        0
    }
}

/// Pool of recycled memory blocks of one allocator for one runtime.
#[derive(Debug)]
pub struct HostPool {
    allocator: Arc<dyn HostAllocator>,
    /// Minimum size of pooled buffers (bytes).
    least: usize,
    /// Maximum of unused bytes.
    unused: usize,
    shelf: Mutex<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    /// Unused blocks by size, each list in last-in, first-out order.
    blocks: BTreeMap<usize, Vec<Raw>>,
    /// Total bytes of the unused blocks.
    unused: usize,
    /// Total bytes of all blocks, and the maximum up to which buffers may raise it.
    total: usize,
    most: usize,
    /// True once the pool keeps no more blocks.
    closed: bool,
}

/// Address of a block.
#[derive(Debug)]
struct Raw(NonNull<u8>);

// SAFETY: the address of memory that the owner of this value owns, on any thread.
unsafe impl Send for Raw {}

impl HostPool {
    /// Creates a pool of ordinary memory for a runtime whose host memory is limited to `limit`
    /// bytes, if a limit is given.
    pub(crate) fn ordinary(limit: Option<u64>) -> Arc<Self> {
        let system: Arc<dyn HostAllocator> = Arc::new(System);
        Self::with_bounds(&system, POOLED_FROM, unused(limit), usize::MAX)
    }

    /// Creates a pool of page-locked memory for a runtime whose host memory is limited to `limit`
    /// bytes, if a limit is given. Buffers of at least `least` bytes are allocated in it.
    pub(crate) fn page_locked(
        allocator: &Arc<dyn HostAllocator>,
        least: usize,
        limit: Option<u64>,
    ) -> Arc<Self> {
        Self::with_bounds(allocator, least, unused(limit), half_of_memory())
    }

    fn with_bounds(
        allocator: &Arc<dyn HostAllocator>,
        least: usize,
        unused: usize,
        most: usize,
    ) -> Arc<Self> {
        let shelf = Mutex::new(Shelf { most, ..Shelf::default() });
        Arc::new(HostPool { allocator: Arc::clone(allocator), least, unused, shelf })
    }

    /// Returns true if the pool uses this allocator.
    pub(crate) fn is_of(&self, allocator: &dyn HostAllocator) -> bool {
        self.allocator.id() == allocator.id()
    }

    /// Returns a block of at least `bytes` bytes with unspecified values.
    ///
    /// # Errors
    /// The allocator's.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<HostBlock, TaskError> {
        // A size that has no class cannot be allocated either: the allocator reports the error.
        let size = class(bytes).unwrap_or(bytes);
        let kept = self.shelf.lock().take(size);
        let at = kept.map_or_else(|| self.allocate(size), |kept| Ok(kept.0))?;
        Ok(HostBlock { at, bytes: size, allocator: Arc::clone(&self.allocator), pool: Arc::downgrade(self) })
    }

    /// Returns a staging block for a transfer of `bytes` bytes to ordinary memory, if that is
    /// small. Larger transfers outside of the pool use the slow path.
    pub fn stage(self: &Arc<Self>, bytes: usize) -> Option<HostBlock> {
        let is_small = bytes < POOLED_FROM;
        is_small.then(|| self.take(bytes).ok()).flatten()
    }

    /// Returns a block for a buffer, if the buffer is large enough and the pool has room.
    fn lend(self: &Arc<Self>, bytes: usize) -> Option<HostBlock> {
        let size = class(bytes).filter(|_| bytes >= self.least)?;
        if !self.shelf.lock().has_room(size) {
            return None;
        }
        match self.take(size) {
            Ok(block) => Some(block),
            Err(error) => {
                tracing::debug!(
                    "buffers lie in ordinary memory from now on, where no block is free: {error}"
                );
                let mut shelf = self.shelf.lock();
                shelf.most = shelf.total;
                None
            }
        }
    }

    /// Allocates a new block.
    fn allocate(&self, size: usize) -> Result<NonNull<u8>, TaskError> {
        self.shelf.lock().total += size;
        zeroed(&*self.allocator, size).inspect_err(|_| self.shelf.lock().total -= size)
    }

    /// Returns a block that is no longer in use to the pool.
    fn put(&self, at: NonNull<u8>, size: usize) {
        let gone = self.shelf.lock().put(Raw(at), size, self.unused);
        self.free(gone);
    }

    /// Closes the pool at the end of the runtime: it keeps no more blocks, and blocks in use return
    /// to the allocator when they are dropped.
    pub(crate) fn close(&self) {
        let gone = {
            let mut shelf = self.shelf.lock();
            shelf.closed = true;
            shelf.shrink(0)
        };
        self.free(gone);
    }

    fn free(&self, blocks: Vec<(usize, Raw)>) {
        for (size, Raw(at)) in blocks {
            // SAFETY: allocated in `allocate` with this size, and nobody has it any more.
            unsafe { self.allocator.free(at.as_ptr(), size) };
        }
    }

    /// Makes the calling thread allocate its buffers in this pool, until the guard is dropped.
    pub fn serve(self: &Arc<Self>) -> Serving {
        Serving(HOME.replace(Arc::downgrade(self)), PhantomData)
    }
}

impl Drop for HostPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shelf {
    fn take(&mut self, size: usize) -> Option<Raw> {
        let block = self.blocks.get_mut(&size)?.pop()?;
        self.unused -= size;
        Some(block)
    }

    /// Returns true if a buffer can have a block of this size.
    fn has_room(&self, size: usize) -> bool {
        let is_free = self.blocks.get(&size).is_some_and(|blocks| !blocks.is_empty());
        !self.closed && (is_free || self.total.saturating_add(size) <= self.most)
    }

    /// Keeps a block; returns the blocks that must be freed to make room for it.
    fn put(&mut self, block: Raw, size: usize, most: usize) -> Vec<(usize, Raw)> {
        self.blocks.entry(size).or_default().push(block);
        self.unused += size;
        self.shrink(if self.closed { 0 } else { most })
    }

    /// Removes blocks until at most `most` bytes are left, taking each from the size with the most
    /// bytes.
    fn shrink(&mut self, most: usize) -> Vec<(usize, Raw)> {
        let mut gone = Vec::new();
        while self.unused > most {
            let fullest = self.blocks.iter_mut().max_by_key(|(size, blocks)| *size * blocks.len());
            let Some((&size, block)) = fullest.and_then(|(size, blocks)| Some((size, blocks.pop()?))) else {
                break;
            };
            self.unused -= size;
            self.total -= size;
            gone.push((size, block));
        }
        gone
    }
}

/// Returns the size of the blocks that serve `bytes` bytes: whole pages, at most a sixteenth more
/// than requested. `None` if that does not fit the address space.
fn class(bytes: usize) -> Option<usize> {
    let step = (bytes.checked_next_power_of_two()? / 32).max(ALIGN);
    bytes.max(1).checked_next_multiple_of(step)
}

/// Returns the maximum of unused bytes in a runtime whose host memory is limited to `limit` bytes,
/// if a limit is given.
fn unused(limit: Option<u64>) -> usize {
    let part = limit.map_or(UNUSED, |limit| usize::try_from(limit / UNUSED_OF_LIMIT).unwrap_or(UNUSED));
    part.min(UNUSED)
}

/// Allocates memory and fills it with zeros.
fn zeroed(allocator: &dyn HostAllocator, bytes: usize) -> Result<NonNull<u8>, TaskError> {
    let at = NonNull::new(allocator.allocate(bytes)?).ok_or_else(no_memory)?;
    // SAFETY: `bytes` bytes were allocated just now. Their values are unspecified, and the new
    // owner may read them.
    unsafe { at.write_bytes(0, bytes) };
    Ok(at)
}

/// Returns the error for an allocator that returns a null pointer without an error.
fn no_memory() -> TaskError {
    "no host memory was given".into()
}

/// Returns half of the machine's memory (bytes): page-locked memory cannot be swapped out, and
/// other processes need memory too.
fn half_of_memory() -> usize {
    let machine = rustix::system::sysinfo();
    let bytes = (machine.totalram as usize).saturating_mul(machine.mem_unit.max(1) as usize);
    bytes / 2
}

/// An owned block of host memory. Dropping it returns it to its pool, or to the allocator if the
/// pool is gone.
#[derive(Debug)]
pub struct HostBlock {
    at: NonNull<u8>,
    bytes: usize,
    allocator: Arc<dyn HostAllocator>,
    pool: Weak<HostPool>,
}

// SAFETY: a block owns its memory alone, as a Box<[u8]> does.
unsafe impl Send for HostBlock {}
// SAFETY: a shared block gives out shared references and its address only.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// Returns zeroed memory that is not page-locked and belongs to no pool.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn zeroed(bytes: usize) -> Result<Self, TaskError> {
        let (bytes, allocator) = (bytes.max(1), Arc::new(System));
        Ok(HostBlock { at: zeroed(&*allocator, bytes)?, bytes, allocator, pool: Weak::new() })
    }

    /// Returns its address, which is page-aligned. All of its bytes are initialized. Only copies
    /// may write there, and only on behalf of the owner.
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns its first `bytes` bytes; call it once copies into the block have ended.
    pub fn first(&self, bytes: usize) -> &[u8] {
        let bytes = bytes.min(self.bytes);
        // SAFETY: so many bytes are there, and had values when the block was new.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), bytes) }
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        match self.pool.upgrade() {
            Some(pool) => pool.put(self.at, self.bytes),
            // SAFETY: allocated by this allocator with this size (`HostPool::take`); the caller
            // that drops it has seen the end of all operations that used it.
            None => unsafe { self.allocator.free(self.at.as_ptr(), self.bytes) },
        }
    }
}

thread_local! {
    /// Pool of the calling thread's buffers. The runtime owns the pool: a thread does not keep it
    /// alive.
    static HOME: RefCell<Weak<HostPool>> = const { RefCell::new(Weak::new()) };
}

/// Returns pool memory for a buffer that the calling thread makes, if the thread uses a pool.
pub(crate) fn lend(bytes: usize) -> Option<HostBlock> {
    let home = HOME.try_with(|home| home.borrow().upgrade());
    // A thread that is exiting has no pool.
    home.ok().flatten()?.lend(bytes)
}

/// Guard of [`HostPool::serve`]. It holds the pool that served the thread before, and stays on its
/// thread.
pub struct Serving(Weak<HostPool>, PhantomData<*const ()>);

impl Drop for Serving {
    fn drop(&mut self) {
        let before = std::mem::take(&mut self.0);
        let _ = HOME.try_with(|home| home.replace(before));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::buffer::Buffer;
    use crate::device::{StreamId, Streams};
    use crate::subnormals::Subnormals;

    /// Allocator that counts its live blocks.
    #[derive(Debug, Default)]
    struct Counting {
        live: Mutex<HashMap<usize, usize>>,
        allocated: Mutex<usize>,
        refuses: AtomicBool,
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGN).unwrap()
    }

    impl HostAllocator for Counting {
        fn allocate(&self, bytes: usize) -> Result<*mut u8, TaskError> {
            if self.refuses.load(Ordering::Relaxed) {
                return Err("the GPU is lost".into());
            }
            // SAFETY: a class is never empty.
            let at = unsafe { alloc(layout(bytes)) };
            *self.allocated.lock() += 1;
            self.live.lock().insert(at as usize, bytes);
            Ok(at)
        }

        unsafe fn free(&self, at: *mut u8, bytes: usize) {
            assert_eq!(self.live.lock().remove(&(at as usize)), Some(bytes));
            // SAFETY: allocated above, and just taken out of those that live.
            unsafe { dealloc(at, layout(bytes)) };
        }

        fn id(&self) -> usize {
            0
        }
    }

    impl Counting {
        fn pinned_allocations(&self) -> usize {
            *self.allocated.lock()
        }

        fn leaks(&self) -> usize {
            self.live.lock().len()
        }
    }

    /// Returns a counting allocator and a pool that uses it.
    fn pool(least: usize, unused: usize, most: usize) -> (Arc<Counting>, Arc<HostPool>) {
        let counting = Arc::new(Counting::default());
        let allocator: Arc<dyn HostAllocator> = Arc::<Counting>::clone(&counting);
        let pool = HostPool::with_bounds(&allocator, least, unused, most);
        (counting, pool)
    }

    fn check(counting: &Counting) {
        assert_eq!(counting.leaks(), 0);
    }

    #[test]
    fn classes_are_pages_and_little_more_than_what_is_asked_for() {
        for bytes in (0..200_000).step_by(37).chain([1 << 20, (1 << 20) + 1, 5_308_416, 1 << 40]) {
            let size = class(bytes).unwrap();
            assert!(size >= bytes.max(1) && size.is_multiple_of(ALIGN), "{bytes}: {size}");
            assert!(size <= bytes + (bytes / 16).max(ALIGN), "{bytes}: {size}");
            assert_eq!(class(size), Some(size), "{bytes}");
        }
        assert_eq!(class(usize::MAX), None);
    }

    #[test]
    fn blocks_are_used_again_and_what_lies_unused_is_bounded() {
        let (counting, pool) = pool(0, 4 * ALIGN, usize::MAX);
        for _ in 0..10 {
            drop([pool.take(ALIGN).unwrap(), pool.take(8).unwrap()]);
        }
        assert_eq!(counting.pinned_allocations(), 2);
        drop((0..8).map(|_| pool.take(1).unwrap()).collect::<Vec<_>>());
        assert_eq!((counting.pinned_allocations(), counting.leaks()), (8, 4));
        drop(pool.take(2 * ALIGN).unwrap());
        assert_eq!(counting.leaks(), 3, "two small ones have gone for a large one");
        drop(pool.take(100 * ALIGN).unwrap());
        assert_eq!(counting.leaks(), 3, "what is too large goes itself");
        drop(pool);
        check(&counting);
    }

    #[test]
    fn buffers_of_a_served_thread_are_page_locked_zeroed_and_outlive_the_pool() {
        let (counting, pool) = pool(ALIGN, 1 << 20, usize::MAX);
        let before: Buffer<u8> = Buffer::zeroed(ALIGN);
        let serving = pool.serve();
        let mut dirty: Buffer<f32> = Buffer::zeroed(5000);
        dirty.fill(7.0);
        drop(dirty);
        let clean: Buffer<f32> = Buffer::zeroed(5000);
        assert!(clean.iter().all(|&x| x == 0.0) && (clean.as_ptr() as usize).is_multiple_of(ALIGN));
        assert_eq!(&*Buffer::from_slice(&[3u16; 5000]), &[3; 5000]);
        assert_eq!(counting.pinned_allocations(), 2, "the same memory, and some for what is smaller");
        let small: Buffer<u8> = Buffer::zeroed(ALIGN - 1);
        assert_eq!(counting.pinned_allocations(), 2, "a few bytes are not worth it");
        drop(serving);
        let after: Buffer<u8> = Buffer::zeroed(ALIGN);
        assert_eq!(counting.pinned_allocations(), 2);
        drop(pool);
        assert_eq!(counting.leaks(), 1, "the buffer that is left");
        assert_eq!(clean.clone().len(), 5000);
        std::thread::spawn(move || drop(clean)).join().unwrap();
        drop((before, small, after));
        check(&counting);
    }

    #[test]
    fn a_pool_that_is_closed_keeps_and_lends_nothing() {
        let (counting, pool) = pool(0, 1 << 20, usize::MAX);
        let _serving = pool.serve();
        let (kept, used) = (Buffer::<u8>::zeroed(ALIGN), Buffer::<u8>::zeroed(ALIGN));
        drop(kept);
        pool.close();
        assert_eq!(counting.leaks(), 1);
        drop(used);
        check(&counting);
        drop(Buffer::<u8>::zeroed(ALIGN));
        assert_eq!(counting.pinned_allocations(), 2);
    }

    #[test]
    fn streams_of_devices_make_their_buffers_in_a_pool() {
        let (counting, pool) = pool(ALIGN, 1 << 20, usize::MAX);
        let streams = Streams::new("test", Arc::clone(&pool), Subnormals::Keep);
        for fill in 0..10u8 {
            let piece = move || drop(Buffer::from_slice(&[fill; ALIGN]));
            streams.push(StreamId::Compute, Box::new(piece));
        }
        assert!(streams.close());
        assert_eq!(counting.pinned_allocations(), 1, "one block, ten times");
        drop((streams, pool));
        check(&counting);
    }

    #[test]
    fn ordinary_memory_is_aligned_and_zeroed() {
        for bytes in [1, ALIGN, (4 << 20) + 1] {
            let block = HostBlock::zeroed(bytes).unwrap();
            assert!((block.at().as_ptr() as usize).is_multiple_of(alignment(bytes)));
            assert!(block.first(bytes).iter().all(|&byte| byte == 0));
            let pool = HostPool::ordinary(Some(1 << 30));
            let again = pool.take(bytes).unwrap();
            assert!(again.first(usize::MAX).len() >= bytes);
        }
        assert!(HostBlock::zeroed(usize::MAX).is_err());
    }

    #[test]
    fn where_no_more_can_be_locked_buffers_lie_in_ordinary_memory() {
        let (counting, pool) = pool(0, 1 << 20, 2 * ALIGN);
        let serving = pool.serve();
        let three: Vec<Buffer<u8>> = (0..3).map(|_| Buffer::zeroed(ALIGN)).collect();
        assert_eq!(counting.pinned_allocations(), 2);
        assert!(pool.take(ALIGN).is_ok(), "what bodies read back is not held up");
        drop((three, serving));
        drop(pool);
        check(&counting);
    }

    #[test]
    fn where_every_gpu_is_lost_buffers_lie_in_ordinary_memory() {
        let (counting, pool) = pool(0, 1 << 20, usize::MAX);
        let _serving = pool.serve();
        let before = Buffer::from_slice(&[1u8; ALIGN]);
        counting.refuses.store(true, Ordering::Relaxed);
        assert!(pool.take(3 * ALIGN).is_err());
        let after = Buffer::from_slice(&[2u8; 3 * ALIGN]);
        assert_eq!((before[0], after[0], counting.pinned_allocations()), (1, 2, 1));
        drop(before);
        let again = Buffer::from_slice(&[3u8; ALIGN]);
        assert_eq!(
            (counting.pinned_allocations(), pool.shelf.lock().total),
            (1, ALIGN),
            "what there is, is used"
        );
        drop((again, after, pool));
        check(&counting);
    }
}
