//! Small parts of values in transfer to the host.

use zellige_runtime::device::HostBlock;

/// Bytes that a copy brings to page-locked memory, and their destination. CUDA copies to other
/// memory only while its caller waits.
pub(super) struct Landing {
    block: HostBlock,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: while this exists, the destination is exclusively its own (`new`).
unsafe impl Send for Landing {}

impl Landing {
    /// # Safety
    /// The destination stays valid, and nothing else uses it, until this has landed or is dropped.
    pub(super) unsafe fn new(block: HostBlock, to: &mut [u8]) -> Self {
        Landing { block, to: to.as_mut_ptr(), bytes: to.len() }
    }

    /// Copies the bytes to their destination; called once the copy to the page-locked memory has
    /// ended.
    pub(super) fn land(self) {
        // SAFETY: the creator has promised this many bytes there.
        let to = unsafe { std::slice::from_raw_parts_mut(self.to, self.bytes) };
        to.copy_from_slice(self.block.first(self.bytes));
    }
}
