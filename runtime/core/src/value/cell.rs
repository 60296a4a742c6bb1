//! Cell of a handle's value, the only access to it: the dependency engine grants the accesses.

use std::cell::UnsafeCell;

use super::borrows::Views;

/// A value that tasks access in the order of the dependencies; `None` until it is first written.
pub(crate) struct ValueCell<D> {
    value: UnsafeCell<Option<D>>,
    views: Views,
}

// SAFETY: the dependency engine hands out either one exclusive access or shared ones (see the
// contracts below), and D: Send + Sync.
unsafe impl<D: Send + Sync> Sync for ValueCell<D> {}

impl<D> ValueCell<D> {
    pub(crate) fn new(value: Option<D>) -> Self {
        ValueCell { value: UnsafeCell::new(value), views: Views::default() }
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// Returns the value for reading.
    ///
    /// # Safety
    /// The caller is a task (or gate) with a granted access to the handle, no exclusive access is
    /// granted at the same time, and the reference is dropped before that task completes.
    pub(crate) unsafe fn engine<'a>(&self) -> Option<&'a D> {
        // SAFETY: the caller's contract.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// Returns the place for writing.
    ///
    /// # Safety
    /// The caller is a task (or gate) with the one exclusive access to the handle, and the
    /// reference is dropped before that task completes.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn exclusive<'a>(&self) -> &'a mut Option<D> {
        // SAFETY: the caller's contract.
        unsafe { &mut *self.value.get() }
    }
}
