//! Small parts of values on their way to the host.

use zellige_runtime::device::HostBlock;

/// Bytes that a copy brings to page-locked memory, and where they belong: to other memory CUDA
/// copies only while its caller waits.
pub(super) struct Landing {
    block: HostBlock,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: as long as this lives, the place is its alone (`new`).
unsafe impl Send for Landing {}

impl Landing {
    /// # Safety
    /// The place stays, and nobody else uses it, until this has landed or is dropped.
    pub(super) unsafe fn new(block: HostBlock, to: &mut [u8]) -> Self {
        Landing { block, to: to.as_mut_ptr(), bytes: to.len() }
    }

    /// Brings the bytes to their place; called once the copy has ended.
    pub(super) fn land(self) {
        // SAFETY: whoever made it has promised so many bytes there.
        let to = unsafe { std::slice::from_raw_parts_mut(self.to, self.bytes) };
        to.copy_from_slice(self.block.first(self.bytes));
    }
}
