//! A handle's value in the memory of a device.

use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{AnyHeader, Meta};
use crate::device::DeviceBuffer;

/// What the host knows of a value.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) header: Arc<AnyHeader>,
    /// As its last writer left it.
    pub(crate) meta: Meta,
}

/// A value of some [`Portable`](crate::data::Portable) type: its header is on the host, its parts
/// are in device memory.
pub(crate) struct DeviceValue {
    /// Changed by the end of its writer, maybe while the body of a reader is being launched behind
    /// that: who looks gets what was known at that moment.
    known: Mutex<Known>,
    pub(crate) parts: SmallVec<[DeviceBuffer; 2]>,
}

impl DeviceValue {
    pub(crate) fn new(header: AnyHeader, parts: SmallVec<[DeviceBuffer; 2]>, meta: Meta) -> Self {
        DeviceValue { known: Mutex::new(Known { header: Arc::new(header), meta }), parts }
    }

    /// It is about to be written: what was made of it is that of another value from here on.
    pub(crate) fn changes(&self) {
        self.parts.iter().for_each(DeviceBuffer::changes);
    }

    /// True if its parts have these sizes (bytes).
    pub(crate) fn has_sizes(&self, sizes: &[usize]) -> bool {
        self.parts.iter().map(DeviceBuffer::bytes).eq(sizes.iter().map(|&bytes| bytes as u64))
    }

    pub(crate) fn known(&self) -> Known {
        self.known.lock().clone()
    }

    pub(crate) fn meta(&self) -> Meta {
        self.known.lock().meta
    }

    /// Something was learnt of it.
    pub(crate) fn learn(&self, known: Known) {
        *self.known.lock() = known;
    }

    pub(crate) fn set_norm(&mut self, norm: f64) {
        self.known.get_mut().meta.norm = norm;
    }
}

/// What a body is shown of a value: what was known when it was launched, and where the parts are,
/// with their bytes.
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
