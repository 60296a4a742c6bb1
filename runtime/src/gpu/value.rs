//! A handle's value in the memory of a GPU.

use smallvec::SmallVec;

use super::memory::DeviceBuffer;
use crate::data::{AnyHeader, Meta};

/// A value of some [`Portable`](crate::Portable) type: its header is on the host, its parts are on the GPU.
pub(crate) struct DeviceValue {
    pub(crate) header: AnyHeader,
    pub(crate) parts: SmallVec<[DeviceBuffer; 2]>,
    /// As its last writer left it.
    pub(crate) meta: Meta,
}

impl DeviceValue {
    pub(crate) fn new(header: AnyHeader, parts: SmallVec<[DeviceBuffer; 2]>, meta: Meta) -> Self {
        DeviceValue { header, parts, meta }
    }
}
