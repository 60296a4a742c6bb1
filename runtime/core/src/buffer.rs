//! Host storage of the runtime: page-aligned, recycled in runtimes with memory nodes, and
//! page-locked for transfers to GPUs.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

mod pool;

use pool::lend;
pub use pool::{HostAllocator, HostBlock, HostPool, POOLED_FROM, Serving};

/// Alignment of every buffer (bytes): a page, so that O_DIRECT can write it.
const ALIGN: usize = 4096;
/// Size of a huge page on processors that have them (bytes).
const HUGE_PAGE: usize = 2 << 20;
/// Size from which on buffers lie in huge pages, if the system has them (bytes). Streaming through
/// smaller pages would wait for address translation, and processors prefetch within a page only.
const LARGE: usize = 2 * HUGE_PAGE;

/// Returns the alignment of a buffer of `bytes` bytes.
fn alignment(bytes: usize) -> usize {
    if bytes >= LARGE { HUGE_PAGE } else { ALIGN }
}

/// Advises the system to use huge pages for memory that has not been touched yet. A system without
/// huge pages ignores the advice.
fn ask_for_huge_pages(memory: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE {
        let whole = bytes / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies in memory that the caller has just allocated; the advice changes
        // no contents.
        let _ =
            unsafe { rustix::mm::madvise(memory.as_ptr().cast(), whole, rustix::mm::Advice::LinuxHugepage) };
    }
}

/// Plain numbers that a [`Buffer`] can hold: any bit pattern is a value.
pub trait Element: bytemuck::Pod + Send + Sync {}
impl<T: bytemuck::Pod + Send + Sync> Element for T {}

/// A fixed-length array of numbers in page-aligned host memory.
///
/// A buffer comes from a pool if it is not small and a thread of a runtime with several memory
/// nodes makes it, such as a thread that runs tasks or transfers. It returns to the pool when it is
/// dropped, on any thread. In a runtime with GPUs that memory is page-locked, so that copies from
/// and to GPUs run at full speed ([`Runtime::page_locked`](crate::Runtime::page_locked)).
///
/// ```
/// use zellige_runtime::{Buffer, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(Buffer::from_slice(&[1.0f32, 2.0]));
/// rt.task("double").operands((update(&x),)).cpu(|(x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
/// assert_eq!(*rt.take(x)?, [2.0, 4.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct Buffer<T: Element> {
    ptr: NonNull<T>,
    len: usize,
    /// Pool block that holds the elements; `None`: the buffer owns its allocation.
    lent: Option<Box<HostBlock>>,
}

// SAFETY: a Buffer owns its memory exclusively, as a Box<[T]> does, or owns a block that does; T:
// Send + Sync.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: a shared Buffer gives out shared references only, as a shared Box<[T]> does.
unsafe impl<T: Element> Sync for Buffer<T> {}

impl<T: Element> Buffer<T> {
    /// Returns a buffer of `len` zeros.
    ///
    /// # Panics
    /// If `len` elements do not fit the address space.
    pub fn zeroed(len: usize) -> Self {
        match Self::lent(len) {
            Some(mut buffer) => {
                buffer.fill(T::zeroed());
                buffer
            }
            None => Self::allocated(len),
        }
    }

    /// Returns a buffer of `len` elements with unspecified values, for callers that overwrite all
    /// of them: recycled memory is not zeroed first. With debug assertions all bits are ones, which
    /// is NaN in every floating-point type.
    ///
    /// # Panics
    /// If `len` elements do not fit the address space.
    pub fn unfilled(len: usize) -> Self {
        let mut buffer = Self::lent(len).unwrap_or_else(|| Self::allocated(len));
        if cfg!(debug_assertions) {
            buffer.as_bytes_mut().fill(0xff);
        }
        buffer
    }

    /// Returns a copy of `values`.
    pub fn from_slice(values: &[T]) -> Self {
        let mut buffer = Self::unfilled(values.len());
        buffer.copy_from_slice(values);
        buffer
    }

    /// Returns `len` zeros in an allocation of the buffer's own.
    fn allocated(len: usize) -> Self {
        let layout = Self::layout(len);
        if layout.size() == 0 {
            return Buffer { ptr: NonNull::dangling(), len, lent: None };
        }
        // SAFETY: the layout has a size above zero.
        let raw = unsafe { alloc(layout) };
        let ptr = NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout));
        ask_for_huge_pages(ptr, layout.size());
        // SAFETY: so many bytes have just been allocated there.
        unsafe { ptr.write_bytes(0, layout.size()) };
        Buffer { ptr: ptr.cast(), len, lent: None }
    }

    /// Returns `len` elements with unspecified values in a pool's memory, if the calling thread
    /// allocates its buffers from one.
    fn lent(len: usize) -> Option<Self> {
        let layout = Self::layout(len);
        if layout.size() == 0 || align_of::<T>() > ALIGN {
            return None;
        }
        let block = lend(layout.size())?;
        Some(Buffer { ptr: block.at().cast(), len, lent: Some(Box::new(block)) })
    }

    /// Returns the elements as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    /// Returns the elements as mutable bytes.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<T>(len)
            .and_then(|l| l.align_to(alignment(l.size())))
            .unwrap_or_else(|_| panic!("a buffer of {len} elements does not fit the address space"))
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        if layout.size() > 0 && self.lent.is_none() {
            // SAFETY: `ptr` came from alloc with this very layout (`allocated`).
            unsafe { dealloc(self.ptr.as_ptr().cast(), layout) }
        }
    }
}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements live at `ptr` (any bit pattern is a T, and all bytes had values at
        // birth), borrowed through &self.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in deref, and &mut self makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl<T: Element> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::from_slice(self)
    }
}

impl<T: Element + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Element + Eq> Eq for Buffer<T> {}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>[{}]", std::any::type_name::<T>(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_page_aligned_zeroed_and_may_be_empty() {
        let b = Buffer::<f32>::zeroed(1000);
        assert_eq!(b.as_ptr() as usize % ALIGN, 0);
        assert!(b.iter().all(|&x| x == 0.0));
        assert_eq!(Buffer::<u64>::zeroed(0).len(), 0);
        let c = Buffer::from_slice(&[1u16, 2, 3]);
        assert_eq!((&*c.clone(), c.clone() == c, c == Buffer::zeroed(3)), (&[1, 2, 3][..], true, false));
        assert_eq!(Buffer::<f32>::unfilled(7).len(), 7);
    }
}
