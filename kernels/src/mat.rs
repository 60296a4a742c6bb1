//! Column-major matrix views. The module that may split one borrowed slice into views whose
//! elements interleave.
//!
//! Element `(i, j)` lies at `i + j * ld`. Invariant of both view types: for `rows > 0` and `cols >
//! 0` the `(cols - 1) * ld + rows` elements from `ptr` lie in one slice borrowed for `'a`, and
//! `ld >= rows`; a [`MatMut`] is the only view through which its own elements (not the gaps between
//! its columns) can be reached.

use core::{fmt, marker::PhantomData};

use crate::KernelError;

/// A read-only column-major matrix view.
pub struct MatRef<'a, T> {
    ptr: *const T,
    rows: usize,
    cols: usize,
    ld: usize,
    life: PhantomData<&'a [T]>,
}

/// A mutable column-major matrix view.
pub struct MatMut<'a, T> {
    ptr: *mut T,
    rows: usize,
    cols: usize,
    ld: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: a MatRef gives out nothing but `&T`, so it moves and is shared between threads like
// `&[T]`.
unsafe impl<T: Sync> Send for MatRef<'_, T> {}
// SAFETY: a shared MatRef gives out nothing but `&T`, as a shared `&[T]` does.
unsafe impl<T: Sync> Sync for MatRef<'_, T> {}
// SAFETY: a MatMut owns the access to its elements like `&mut [T]`.
unsafe impl<T: Send> Send for MatMut<'_, T> {}
// SAFETY: a shared MatMut gives out nothing but `&T`.
unsafe impl<T: Sync> Sync for MatMut<'_, T> {}

impl<T> Clone for MatRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for MatRef<'_, T> {}

/// Elements that a `rows x cols` matrix with leading dimension `ld` spans, `None` when that
/// overflows or `ld < rows`.
fn span(rows: usize, cols: usize, ld: usize) -> Option<usize> {
    if ld < rows {
        return None;
    }
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    (cols - 1).checked_mul(ld)?.checked_add(rows)
}

fn check(len: usize, rows: usize, cols: usize, ld: usize) -> Result<(), KernelError> {
    match span(rows, cols, ld) {
        Some(need) if need <= len => Ok(()),
        need => Err(KernelError::Layout {
            rows,
            cols,
            ld,
            len,
            need: need.or_else(|| span(rows, cols, rows)).unwrap_or(usize::MAX),
        }),
    }
}

#[track_caller]
fn assert_block(outer: (usize, usize), at: (usize, usize), size: (usize, usize)) {
    let inside = |o: usize, a: usize, s: usize| a <= o && s <= o - a;
    assert!(
        inside(outer.0, at.0, size.0) && inside(outer.1, at.1, size.1),
        "block of {size:?} at {at:?} outside a matrix of {outer:?}"
    );
}

impl<'a, T> MatRef<'a, T> {
    /// A view of `rows x cols` elements of `data`, columns `ld` elements apart.
    ///
    /// # Errors
    /// [`KernelError::Layout`] when `ld < rows` or `data` is shorter than `(cols - 1) * ld + rows`.
    pub fn new(data: &'a [T], rows: usize, cols: usize, ld: usize) -> Result<Self, KernelError> {
        check(data.len(), rows, cols, ld)?;
        Ok(Self { ptr: data.as_ptr(), rows, cols, ld, life: PhantomData })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// Elements between the starts of two columns.
    pub fn ld(&self) -> usize {
        self.ld
    }
    /// `(rows, cols)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }
    /// Returns true if there is no element.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }
    pub(crate) fn as_ptr(&self) -> *const T {
        self.ptr
    }

    /// Column `j`.
    ///
    /// # Panics
    /// Panics when `j` is outside, as indexing a slice does.
    pub fn col(&self, j: usize) -> &'a [T] {
        assert!(j < self.cols, "column {j} of a matrix of {} columns", self.cols);
        if self.rows == 0 {
            return &[];
        }
        // SAFETY: j < cols and rows > 0, so the invariant places these `rows` elements in the
        // borrowed slice.
        unsafe { core::slice::from_raw_parts(self.ptr.add(j * self.ld), self.rows) }
    }

    /// The block of `rows x cols` elements whose first one is `(i, j)`.
    ///
    /// # Panics
    /// Panics when the block reaches outside, as slicing a slice does.
    pub fn sub(&self, i: usize, j: usize, rows: usize, cols: usize) -> MatRef<'a, T> {
        assert_block(self.shape(), (i, j), (rows, cols));
        // An empty block may start one past the end of the slice: its pointer is never read, so it
        // need not move.
        let offset = if rows == 0 || cols == 0 { 0 } else { i + j * self.ld };
        MatRef {
            // SAFETY: element (i, j) is inside the view by the assertion, hence inside the slice;
            // or the offset is 0.
            ptr: unsafe { self.ptr.add(offset) },
            rows,
            cols,
            ld: self.ld,
            life: PhantomData,
        }
    }
}

impl<T: Copy> MatRef<'_, T> {
    /// Element `(i, j)`.
    ///
    /// # Panics
    /// Panics outside, as indexing a slice does.
    pub fn get(&self, i: usize, j: usize) -> T {
        self.col(j)[i]
    }
}

impl<'a, T> MatMut<'a, T> {
    /// A mutable view of `rows x cols` elements of `data`, columns `ld` elements apart.
    ///
    /// # Errors
    /// [`KernelError::Layout`] when `ld < rows` or `data` is shorter than `(cols - 1) * ld + rows`.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize, ld: usize) -> Result<Self, KernelError> {
        check(data.len(), rows, cols, ld)?;
        Ok(Self { ptr: data.as_mut_ptr(), rows, cols, ld, life: PhantomData })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }
    /// Elements between the starts of two columns.
    pub fn ld(&self) -> usize {
        self.ld
    }
    /// `(rows, cols)`.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }
    /// Returns true if there is no element.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }

    /// Returns a read-only view of the matrix.
    pub fn as_ref(&self) -> MatRef<'_, T> {
        MatRef { ptr: self.ptr, rows: self.rows, cols: self.cols, ld: self.ld, life: PhantomData }
    }

    /// Returns a mutable view with a shorter lifetime, so that this view can be used again after
    /// the copy was passed by value.
    pub fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { ptr: self.ptr, rows: self.rows, cols: self.cols, ld: self.ld, life: PhantomData }
    }

    /// Column `j`.
    ///
    /// # Panics
    /// Panics when `j` is outside, as indexing a slice does.
    pub fn col_mut(&mut self, j: usize) -> &mut [T] {
        assert!(j < self.cols, "column {j} of a matrix of {} columns", self.cols);
        if self.rows == 0 {
            return &mut [];
        }
        // SAFETY: j < cols and rows > 0, so the invariant places these `rows` elements in the
        // slice, and they belong to this view alone, which stays mutably borrowed for as long as
        // the column lives.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.add(j * self.ld), self.rows) }
    }

    /// The block of `rows x cols` elements whose first one is `(i, j)`.
    ///
    /// # Panics
    /// Panics when the block reaches outside, as slicing a slice does.
    pub fn sub(self, i: usize, j: usize, rows: usize, cols: usize) -> MatMut<'a, T> {
        assert_block(self.shape(), (i, j), (rows, cols));
        self.block(i, j, rows, cols)
    }

    /// The first `j` columns and the rest.
    ///
    /// # Panics
    /// Panics when `j` exceeds the number of columns.
    pub fn split_cols(self, j: usize) -> (MatMut<'a, T>, MatMut<'a, T>) {
        assert_block(self.shape(), (0, j), (self.rows, 0));
        (self.block(0, 0, self.rows, j), self.block(0, j, self.rows, self.cols - j))
    }

    /// The first `i` rows and the rest.
    ///
    /// # Panics
    /// Panics when `i` exceeds the number of rows.
    pub fn split_rows(self, i: usize) -> (MatMut<'a, T>, MatMut<'a, T>) {
        assert_block(self.shape(), (i, 0), (0, self.cols));
        (self.block(0, 0, i, self.cols), self.block(i, 0, self.rows - i, self.cols))
    }

    /// A block inside this view. Private: two calls may overlap, the callers above give out
    /// disjoint blocks only and consume the view they cut.
    fn block(&self, i: usize, j: usize, rows: usize, cols: usize) -> MatMut<'a, T> {
        let offset = if rows == 0 || cols == 0 { 0 } else { i + j * self.ld };
        MatMut {
            // SAFETY: the callers assert that a non-empty block is inside the view, hence inside
            // the slice.
            ptr: unsafe { self.ptr.add(offset) },
            rows,
            cols,
            ld: self.ld,
            life: PhantomData,
        }
    }
}

impl<T: Copy> MatMut<'_, T> {
    /// Element `(i, j)`.
    ///
    /// # Panics
    /// Panics outside, as indexing a slice does.
    pub fn get(&self, i: usize, j: usize) -> T {
        self.as_ref().get(i, j)
    }

    /// Sets element `(i, j)`.
    ///
    /// # Panics
    /// Panics outside, as indexing a slice does.
    pub fn set(&mut self, i: usize, j: usize, value: T) {
        self.col_mut(j)[i] = value;
    }
}

impl<T: fmt::Debug + Copy> fmt::Debug for MatRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.cols).map(|j| self.col(j))).finish()
    }
}

impl<T: fmt::Debug + Copy> fmt::Debug for MatMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_checked() {
        let d = [0.0f32; 10];
        assert!(MatRef::new(&d, 3, 3, 3).is_ok());
        assert!(MatRef::new(&d, 2, 3, 4).is_ok());
        assert!(MatRef::new(&d, 3, 3, 4).is_err());
        assert!(MatRef::new(&d, 3, 2, 2).is_err());
        assert!(MatRef::new(&d, 0, 5, 0).is_ok());
        assert!(MatRef::new(&d, usize::MAX, 3, usize::MAX).is_err());
        assert!(MatRef::new(&d, 2, usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn splits_are_disjoint_and_complete() {
        let mut d: Vec<u16> = (0..35).collect();
        let m = MatMut::new(&mut d, 5, 5, 7).unwrap();
        let (top, bottom) = m.split_rows(2);
        let (mut tl, mut tr) = top.split_cols(3);
        let (mut bl, mut br) = bottom.split_cols(3);
        for (m, mark) in [(&mut tl, 100), (&mut tr, 200), (&mut bl, 300), (&mut br, 400)] {
            for j in 0..m.cols() {
                m.col_mut(j).fill(mark);
            }
        }
        let m = MatRef::new(&d, 5, 5, 7).unwrap();
        for j in 0..5 {
            for i in 0..5 {
                assert_eq!(m.get(i, j), 100 + 100 * u16::from(j >= 3) + 200 * u16::from(i >= 2));
            }
        }
        assert_eq!((d[5], d[6], d[12]), (5, 6, 12)); // gaps untouched
    }

    #[test]
    fn empty_blocks_at_the_edge() {
        let mut d = [1.0f64; 4];
        let m = MatMut::new(&mut d, 2, 2, 2).unwrap();
        let (a, b) = m.split_cols(2);
        assert_eq!((a.shape(), b.shape()), ((2, 2), (2, 0)));
        assert_eq!(a.as_ref().sub(2, 2, 0, 0).shape(), (0, 0));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn blocks_outside_panic() {
        let d = [1.0f64; 4];
        let _ = MatRef::new(&d, 2, 2, 2).unwrap().sub(1, 0, 2, 1);
    }
}
