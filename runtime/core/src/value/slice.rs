//! A slice of the user, registered in a scope without a copy.

use std::marker::PhantomData;

use super::{Data, Meta};
use crate::buffer::Element;

/// A borrowed slice with a leading dimension, registered by [`Scope::slice`](crate::Scope::slice).
///
/// The lifetime of the borrow is erased; the scope that made it waits for every task on it, and
/// retires its handle, before the borrow ends.
#[derive(Debug)]
pub struct BorrowedSlice<T> {
    ptr: *mut T,
    len: usize,
    rows: usize,
    ld: usize,
    _owner: PhantomData<T>,
}

// SAFETY: it represents one `&mut [T]`, which is Send and Sync when T is; the runtime orders the
// accesses.
unsafe impl<T: Element> Send for BorrowedSlice<T> {}
// SAFETY: a shared one gives out shared references only, and T is Sync.
unsafe impl<T: Element> Sync for BorrowedSlice<T> {}

impl<T: Element> BorrowedSlice<T> {
    /// Erases the lifetime of `slice`.
    ///
    /// # Safety
    /// The value must not be viewed after the borrow of `slice` ends.
    pub(crate) unsafe fn new(slice: &mut [T], rows: usize, ld: usize) -> Self {
        BorrowedSlice { ptr: slice.as_mut_ptr(), len: slice.len(), rows, ld, _owner: PhantomData }
    }
}

/// Reading view of a registered slice: columns of `rows` elements with leading dimension `ld`.
#[derive(Clone, Copy, Debug)]
pub struct SliceRef<'v, T> {
    /// The whole slice.
    pub data: &'v [T],
    /// Number of rows.
    pub rows: usize,
    /// Leading dimension: elements from one column to the next.
    pub ld: usize,
}

/// Writing view of a registered slice: columns of `rows` elements with leading dimension `ld`.
#[derive(Debug)]
pub struct SliceMut<'v, T> {
    /// The whole slice.
    pub data: &'v mut [T],
    /// Number of rows.
    pub rows: usize,
    /// Leading dimension: elements from one column to the next.
    pub ld: usize,
}

impl<T: Element> Data for BorrowedSlice<T> {
    const BORROWED: bool = true;
    type Ref<'v> = SliceRef<'v, T>;
    type Mut<'v> = SliceMut<'v, T>;

    fn view(&self) -> SliceRef<'_, T> {
        // SAFETY: ptr and len are those of a live `&mut [T]` (contract of `new`), and &self only
        // reads.
        let data = unsafe { std::slice::from_raw_parts(self.ptr, self.len) };
        SliceRef { data, rows: self.rows, ld: self.ld }
    }

    fn view_mut(&mut self) -> SliceMut<'_, T> {
        // SAFETY: as in view; &mut self makes it exclusive.
        let data = unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) };
        SliceMut { data, rows: self.rows, ld: self.ld }
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.len * size_of::<T>(), ..Meta::default() }
    }
}
