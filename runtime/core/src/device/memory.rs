//! The memory of a device with an architecture of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Arch;

/// The memory of one device: bytes at addresses, which only the device knows how to reach.
pub trait DeviceMemory: Any + fmt::Debug + Send + Sync {
    /// The device's name, for errors.
    fn name(&self) -> &str;

    /// What functions run on the device.
    fn arch(&self) -> Arch;

    /// Gives memory back that a stream has [allocated](super::Stream::allocate). Whoever gives it
    /// back has seen the end of what used it.
    fn free(&self, at: u64);

    /// What lies there is about to be written: whatever the device has made of it is out of date.
    fn changes(&self, at: u64) {
        let _ = at;
    }

    /// True if copies can go from one to the other without the host.
    fn reaches(&self, other: &dyn DeviceMemory) -> bool {
        let _ = other;
        false
    }

    /// True if the device cannot be used any more.
    fn is_lost(&self) -> bool {
        false
    }

    /// What a user changes who wants more room beside values, for errors.
    fn more_room(&self) -> &str {
        "the capacity of the device"
    }

    /// Free and total bytes of the device, if that can be told.
    fn room(&self) -> Option<(u64, u64)> {
        None
    }
}

impl dyn DeviceMemory {
    /// The memory as its device knows it.
    pub fn downcast<M: DeviceMemory>(&self) -> Option<&M> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Bytes in a device's memory, given back when dropped. Whoever drops it has seen the end of what
/// uses it.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    memory: Arc<dyn DeviceMemory>,
    at: u64,
    bytes: u64,
}

impl DeviceBuffer {
    pub(super) fn new(memory: Arc<dyn DeviceMemory>, at: u64, bytes: u64) -> Self {
        DeviceBuffer { memory, at, bytes }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn memory(&self) -> &Arc<dyn DeviceMemory> {
        &self.memory
    }

    /// It is about to be written.
    pub(crate) fn changes(&self) {
        if self.bytes > 0 && !crate::mutant::mutant(14) {
            self.memory.changes(self.at);
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.free(self.at);
        }
    }
}

/// Working space on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceScratch {
    /// Where it is.
    pub at: u64,
    /// Its bytes.
    pub bytes: u64,
}
