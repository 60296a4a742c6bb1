//! Views that bodies have of a slice that the caller has lent for a scope.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the views of one borrowed slice, so that a scope whose tasks can never run need not wait
/// for them.
pub(crate) struct Lending {
    views: AtomicUsize,
    revoked: AtomicBool,
    /// Wakes the threads that wait until nobody has a view.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Lending {
    /// Counts views; `wake` wakes the threads that wait until nobody has one.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let (views, revoked) = Default::default();
        Arc::new(Lending { views, revoked, wake: Box::new(wake) })
    }

    /// Returns a view for a body; `None` once the slice has been revoked.
    pub(crate) fn lend(self: &Arc<Self>) -> Option<Lent> {
        self.views.fetch_add(1, Ordering::SeqCst);
        // The count comes before the load, as `revoke` stores before `is_over` counts: at least one
        // of the two sees the other.
        let lent = Lent(Arc::clone(self));
        (!self.revoked.load(Ordering::SeqCst)).then_some(lent)
    }

    /// Refuses views to further bodies.
    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::SeqCst);
    }

    /// Returns true if no body has a view and none will get one.
    pub(crate) fn is_over(&self) -> bool {
        self.revoked.load(Ordering::SeqCst) && self.views.load(Ordering::SeqCst) == 0
    }
}

/// One view, until this is dropped.
pub(crate) struct Lent(Arc<Lending>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.views.fetch_sub(1, Ordering::SeqCst);
        if self.0.is_over() {
            (self.0.wake)();
        }
    }
}
