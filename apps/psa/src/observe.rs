//! Who watches work that takes a while.

/// Learns how far work is. All methods may be called from any thread.
pub trait Observer: Sync {
    /// A stage begins; it is complete after `total` steps.
    fn stage(&self, name: &str, total: u64);

    /// So many steps of the stage are done.
    fn advance(&self, done: u64);
}

/// An observer that says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn stage(&self, _name: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
}
