//! A handle's value in the memory of a device.

use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{AnyHeader, Meta};
use crate::device::DeviceBuffer;

/// The host's knowledge of a value.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) header: Arc<AnyHeader>,
    /// Meta as the last writer left it.
    pub(crate) meta: Meta,
}

/// A value of some [`Portable`](crate::data::Portable) type: its header is on the host, its parts
/// are in device memory.
pub(crate) struct DeviceValue {
    /// The end of its writer changes it, possibly while the body of a reader is being launched in
    /// stream order after that writer: a reader gets the state at that moment.
    known: Mutex<Known>,
    pub(crate) parts: SmallVec<[DeviceBuffer; 2]>,
}

impl DeviceValue {
    pub(crate) fn new(header: AnyHeader, parts: SmallVec<[DeviceBuffer; 2]>, meta: Meta) -> Self {
        DeviceValue { known: Mutex::new(Known { header: Arc::new(header), meta }), parts }
    }

    /// Announces a write: data derived from the parts belong to an older value from here on.
    pub(crate) fn changes(&self) {
        self.parts.iter().for_each(DeviceBuffer::changes);
    }

    /// Returns true if its parts have these sizes (bytes).
    pub(crate) fn has_sizes(&self, sizes: &[usize]) -> bool {
        self.parts.iter().map(DeviceBuffer::bytes).eq(sizes.iter().map(|&bytes| bytes as u64))
    }

    pub(crate) fn known(&self) -> Known {
        self.known.lock().clone()
    }

    pub(crate) fn meta(&self) -> Meta {
        self.known.lock().meta
    }

    /// Updates the host's knowledge of the value.
    pub(crate) fn learn(&self, known: Known) {
        *self.known.lock() = known;
    }

    pub(crate) fn set_norm(&mut self, norm: f64) {
        self.known.get_mut().meta.norm = norm;
    }
}

/// View of a value for a body: the host's knowledge at the time of the launch, and the addresses
/// and sizes of the parts.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) known: Known,
    pub(crate) parts: SmallVec<[(u64, u64); 2]>,
}

impl Seen {
    pub(crate) fn of(value: &DeviceValue) -> Self {
        let parts = value.parts.iter().map(|part| (part.at(), part.bytes())).collect();
        Seen { known: value.known(), parts }
    }
}
