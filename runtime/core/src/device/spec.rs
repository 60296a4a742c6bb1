//! Descriptions of devices for a runtime that is to be built.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Device;
use crate::buffer::{HostAllocator, HostPool};
use crate::memory::LinkSpec;
use crate::subnormals::Subnormals;

/// Describes a device for [`RuntimeBuilder::device`](crate::RuntimeBuilder::device):
/// [`Emulated`](super::Emulated), a GPU, or a user-defined one.
pub trait DeviceSpec: Any + fmt::Debug + Send + Sync {
    /// Returns the kind of device; the runtime names the device by its kind and number.
    fn kind(&self) -> &str;

    /// Returns the capacity of its memory for the values of handles (bytes).
    fn capacity(&self) -> u64;

    /// Returns a human-readable description.
    fn title(&self) -> String {
        self.kind().into()
    }

    /// Returns its compute capability (major, minor), if it has one.
    fn capability(&self) -> Option<(u32, u32)> {
        None
    }

    /// Returns the name of its kind in performance models: devices of one name are equally fast.
    fn model_kind(&self) -> String {
        self.kind().into()
    }

    /// Returns the name of its link end in performance models, as device `number` of a runtime.
    fn link_end(&self, number: usize) -> String {
        format!("{} {number}", self.kind())
    }

    /// Returns the speed of its link to the host; `None` if it has to be measured.
    fn link(&self) -> Option<LinkSpec> {
        None
    }

    /// Returns the maximum number of concurrent conversions in memory that does not count as
    /// capacity.
    fn staging(&self) -> u32 {
        2
    }

    /// Returns the allocator of page-locked host memory, which its copies access at full speed, and
    /// the minimum size of buffers that are allocated there (bytes).
    fn pinned(&self) -> Option<(Arc<dyn HostAllocator>, usize)> {
        None
    }

    /// Checks it against all devices of the runtime, including itself.
    ///
    /// # Errors
    /// A message with the reason why they cannot be used together.
    fn check(&self, all: &[Arc<dyn DeviceSpec>]) -> Result<(), String> {
        let _ = all;
        Ok(())
    }

    /// Starts the device.
    ///
    /// # Errors
    /// A message with the reason why it cannot be used.
    fn open(&self, opening: Opening) -> Result<Arc<dyn Device>, String>;
}

impl dyn DeviceSpec {
    /// Returns the description as its concrete type.
    pub fn downcast<S: DeviceSpec>(&self) -> Option<&S> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Parameters with which a device is started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Opening {
    /// Its name, for error messages.
    pub name: String,
    /// Treatment of subnormal numbers on its threads.
    pub subnormals: Subnormals,
    /// Host memory for its threads: page-locked, if it [has an allocator](DeviceSpec::pinned).
    pub pool: Arc<HostPool>,
    /// Link between any two devices, if the runtime was given one.
    pub(crate) peers: Option<LinkSpec>,
}
