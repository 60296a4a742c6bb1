//! Chunks of arrays: values of their own that still lie consecutively in memory.

use std::fmt;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use super::portable::{decode_length, encode_length};
use super::{Data, Meta, Portability, Portable};
use crate::buffer::Element;

/// A chunk of an array that has been cut: tasks write chunks concurrently, and a task that reads
/// several consecutive ones sees them as one slice ([`ChunkRef::joined`]). No element is copied for
/// it on the host.
///
/// A copy of a chunk, such as in the memory of a device, is an array of its own.
///
/// ```
/// use zellige_runtime::data::{Chunk, ChunkRef};
/// use zellige_runtime::{Runtime, Submit, reads, update};
///
/// let rt = Runtime::new()?;
/// let parts: Vec<_> = Chunk::cut(vec![1.0; 100], &[60]).into_iter().map(|part| rt.register(part)).collect();
/// for part in &parts {
///     rt.task("double").operands((update(part),)).cpu(|(x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
/// }
/// let sum = rt.register(0.0_f64);
/// rt.task("sum")
///     .operands((reads(&parts), update(&sum)))
///     .cpu(|(x, sum)| *sum = ChunkRef::joined(x.iter()).expect("neighbours").iter().sum())
///     .submit()?;
/// assert_eq!(rt.take(sum)?, 200.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct Chunk<T: Element> {
    whole: Arc<ChunkedArray<T>>,
    /// Range of elements; no other chunk of the same array contains any of them.
    range: Range<usize>,
}

/// An array that is only accessed through its chunks.
struct ChunkedArray<T> {
    /// Start of a boxed slice.
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its elements as a Box<[T]> does; its chunks determine the access to each element.
// T: Send + Sync.
unsafe impl<T: Element> Send for ChunkedArray<T> {}
// SAFETY: a shared one gives out addresses only; chunks determine how these are used. T: Send +
// Sync.
unsafe impl<T: Element> Sync for ChunkedArray<T> {}

impl<T> ChunkedArray<T> {
    fn new(elements: Vec<T>) -> Arc<Self> {
        let slice = Box::into_raw(elements.into_boxed_slice());
        let start = NonNull::new(slice.cast::<T>()).expect("a box is never null");
        Arc::new(ChunkedArray { start, len: slice.len() })
    }
}

impl<T> Drop for ChunkedArray<T> {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: it came from Box::into_raw (`new`), and the last chunk is gone.
        drop(unsafe { Box::from_raw(slice) });
    }
}

impl<T: Element> Chunk<T> {
    /// Cuts an array before each of the elements `at`, in ascending order.
    ///
    /// # Panics
    /// If `at` does not ascend or exceeds the array.
    pub fn cut(elements: Vec<T>, at: &[usize]) -> Vec<Chunk<T>> {
        let whole = ChunkedArray::new(elements);
        let ends = at.iter().copied().chain([whole.len]);
        let mut start = 0;
        ends.map(|end| {
            assert!(
                start <= end && end <= whole.len,
                "cuts ascend within the array: {at:?} of {}",
                whole.len
            );
            let range = start..end;
            start = end;
            Chunk { whole: Arc::clone(&whole), range }
        })
        .collect()
    }

    /// Returns a chunk of `len` zeros in an array of its own.
    fn alone(len: usize) -> Chunk<T> {
        Chunk { whole: ChunkedArray::new(vec![T::zeroed(); len]), range: 0..len }
    }

    fn elements(&self) -> &[T] {
        // SAFETY: the range is within the array, and no `&mut` reaches any of it: that takes `&mut
        // self` (`elements_mut`), or another chunk, which has other elements.
        unsafe {
            std::slice::from_raw_parts(self.whole.start.as_ptr().add(self.range.start), self.range.len())
        }
    }

    fn elements_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `elements`; `&mut self` is the only way to these elements now, since
        // `joined` needs a reference as well.
        unsafe {
            std::slice::from_raw_parts_mut(self.whole.start.as_ptr().add(self.range.start), self.range.len())
        }
    }
}

impl<T: Element> fmt::Debug for Chunk<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({:?} of {})", self.range, self.whole.len)
    }
}

/// Reading view of a chunk.
#[derive(Debug)]
pub struct ChunkRef<'v, T: Element>(&'v Chunk<T>);

impl<T: Element> Clone for ChunkRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Element> Copy for ChunkRef<'_, T> {}

impl<T: Element> Deref for ChunkRef<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.elements()
    }
}

impl<'v, T: Element> ChunkRef<'v, T> {
    /// Returns the elements, for the lifetime of the view.
    pub fn slice(self) -> &'v [T] {
        self.0.elements()
    }

    /// Joins chunks into one slice; `None` unless each begins at the end of the previous one, in
    /// the same array.
    pub fn joined(stretches: impl IntoIterator<Item = ChunkRef<'v, T>>) -> Option<&'v [T]> {
        let mut stretches = stretches.into_iter().map(|stretch| stretch.0);
        let first = stretches.next()?;
        let mut end = first.range.end;
        for next in stretches {
            if !Arc::ptr_eq(&next.whole, &first.whole) || next.range.start != end {
                return None;
            }
            end = next.range.end;
        }
        let start = first.range.start;
        // SAFETY: the range is within the array, whose pointer covers all of it, and consists of
        // chunks that are all borrowed for 'v: none of them gives out a `&mut` meanwhile.
        Some(unsafe { std::slice::from_raw_parts(first.whole.start.as_ptr().add(start), end - start) })
    }
}

impl<T: Element> Data for Chunk<T> {
    type Ref<'v> = ChunkRef<'v, T>;
    type Mut<'v> = &'v mut [T];

    fn view(&self) -> ChunkRef<'_, T> {
        ChunkRef(self)
    }

    fn view_mut(&mut self) -> &mut [T] {
        self.elements_mut()
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.range.len() * size_of::<T>(), ..Meta::default() }
    }

    fn portability() -> Option<Portability<Self>> {
        Some(Portability::of())
    }
}

impl<T: Element> Portable for Chunk<T> {
    type Header = usize;

    fn header(&self) -> usize {
        self.range.len()
    }

    fn blank(&len: &usize) -> Self {
        Chunk::alone(len)
    }

    fn part_sizes(&len: &usize) -> Vec<usize> {
        vec![len * size_of::<T>()]
    }

    fn header_meta(&len: &usize) -> Meta {
        Meta { bytes: len * size_of::<T>(), ..Meta::default() }
    }

    fn encode_header(&len: &usize) -> Option<Vec<u8>> {
        encode_length(len)
    }

    fn decode_header(bytes: &[u8]) -> Option<usize> {
        decode_length(bytes, size_of::<T>())
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![bytemuck::cast_slice(self.elements())]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![bytemuck::cast_slice_mut(self.elements_mut())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(at: &[usize]) -> Vec<Chunk<u32>> {
        Chunk::cut((0..10).collect(), at)
    }

    #[test]
    fn neighbours_are_one_slice() {
        let mut parts = cut(&[3, 3, 7]);
        parts[2].view_mut()[0] = 33;
        let joined = |range: Range<usize>| ChunkRef::joined(parts[range].iter().map(Data::view));
        assert_eq!(joined(0..4), Some(&[0, 1, 2, 33, 4, 5, 6, 7, 8, 9][..]));
        assert_eq!(joined(1..3), Some(&[33, 4, 5, 6][..]));
        assert_eq!(joined(0..0), None);
        let lengths: Vec<_> = parts.iter().map(|part| part.view().len()).collect();
        assert_eq!(lengths, [3, 0, 4, 3]);
    }

    #[test]
    fn others_are_not() {
        let (parts, others) = (cut(&[3, 7]), cut(&[3, 7]));
        assert_eq!(ChunkRef::joined([parts[0].view(), parts[2].view()]), None);
        assert_eq!(ChunkRef::joined([parts[1].view(), parts[0].view()]), None);
        assert_eq!(ChunkRef::joined([parts[0].view(), others[1].view()]), None);
        let copy = Chunk::<u32>::blank(&parts[1].header());
        assert_eq!(ChunkRef::joined([parts[0].view(), copy.view()]), None);
    }

    #[test]
    fn stretches_outlive_one_another() {
        let mut parts = cut(&[5]);
        let last = parts.pop().expect("two");
        drop(parts);
        assert_eq!(last.view().slice(), [5, 6, 7, 8, 9]);
    }

    #[test]
    #[should_panic = "cuts ascend"]
    fn cuts_ascend() {
        cut(&[7, 3]);
    }
}
