//! The one place where a handle's value is reached: who may is decided by the dependency engine.

use std::cell::UnsafeCell;

use super::borrows::Views;

/// A value that tasks reach in the order of their accesses; `None` until it is first written.
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

    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// The value, to read.
    ///
    /// # Safety
    /// A task (or gate) with a granted access to the handle asks, no exclusive access is granted at
    /// the same time, and the reference is given up before that task completes.
    pub(crate) unsafe fn shared<'a>(&self) -> Option<&'a D> {
        // SAFETY: the caller's contract.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// The place, to write.
    ///
    /// # Safety
    /// A task (or gate) with the one exclusive access to the handle asks, and the reference is
    /// given up before that task completes.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn exclusive<'a>(&self) -> &'a mut Option<D> {
        // SAFETY: the caller's contract.
        unsafe { &mut *self.value.get() }
    }
}
