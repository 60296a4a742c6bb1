//! The accesses of submitted tasks to one handle. See `README.md`.

use std::sync::Arc;

use super::order::{Links, Order};
use super::{AccessGroup, AccessRights, Mode};

/// The chain of one handle, protected by the handle's lock. It stores nodes as `P`; edges to their
/// successors name `T`.
pub(crate) struct Chain<P, T: Copy> {
    order: Order<P, Arc<AccessGroup<T>>>,
    /// True if a value was registered, or a submitted task will write one.
    pub(crate) written: bool,
    /// Access rights of the handle.
    pub(crate) rights: AccessRights,
    /// Number of accesses that write: each may leave a value of another size.
    pub(crate) writers: u32,
}

impl<P, T: Copy> Chain<P, T> {
    pub(crate) fn new(written: bool) -> Self {
        Chain { order: Order::default(), written, rights: AccessRights::Open, writers: 0 }
    }

    /// Appends the access of a task to the chain.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        mode: Mode,
        links: &mut impl Links<Task = P, Group = Arc<AccessGroup<T>>>,
    ) {
        self.order.access(mode, links);
        self.written |= mode.writes();
        self.writers = self.writers.saturating_add(u32::from(mode.writes()));
    }
}

impl<P, T: Copy> Drop for Chain<P, T> {
    fn drop(&mut self) {
        // The chain does not keep the group open any longer.
        if let Some((_, group)) = self.order.take_open()
            && group.close()
        {
            // SAFETY: everybody has left. The handle is gone, so that nothing is combined and
            // nobody comes after the group.
            unsafe {
                AccessGroup::complete(Arc::as_ptr(&group), |_| unreachable!("nobody came after the group"))
            };
        }
    }
}
