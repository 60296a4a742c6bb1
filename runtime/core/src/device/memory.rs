//! Memory of a device with an architecture of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Arch;

/// Memory of one device: bytes at addresses that only the device can access.
pub trait DeviceMemory: Any + fmt::Debug + Send + Sync {
    /// The device's name, for errors.
    fn name(&self) -> &str;

    /// Returns the architecture of the functions that run on the device.
    fn arch(&self) -> Arch;

    /// Frees memory that a stream has [allocated](super::Stream::allocate). The caller has seen the
    /// end of all operations that used it.
    fn free(&self, at: u64);

    /// Announces that the memory at `at` is about to be written: data that the device derived from
    /// it are out of date.
    fn changes(&self, at: u64) {
        let _ = at;
    }

    /// Returns true if copies from this memory to `other` need not pass through the host.
    fn reaches(&self, other: &dyn DeviceMemory) -> bool {
        let _ = other;
        false
    }

    /// Returns true if the device cannot be used any more.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns the name of the setting that leaves more memory besides values, for error messages.
    fn more_room(&self) -> &str {
        "the capacity of the device"
    }

    /// Returns the free and total bytes of the device, if they are known.
    fn room(&self) -> Option<(u64, u64)> {
        None
    }
}

impl dyn DeviceMemory {
    /// Returns the memory as the concrete type of its device.
    pub fn downcast<M: DeviceMemory>(&self) -> Option<&M> {
        (self as &dyn Any).downcast_ref()
    }
}

/// A buffer in a device's memory, freed when dropped. The owner that drops it has seen the end of
/// all operations that use it.
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

    /// Announces that the buffer is about to be written.
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

/// Workspace on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceScratch {
    /// Address in device memory.
    pub at: u64,
    /// Size (bytes).
    pub bytes: u64,
}
