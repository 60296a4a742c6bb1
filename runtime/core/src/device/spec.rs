//! Devices as they are described to a runtime that is to be built.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Device;
use crate::buffer::{HostAllocator, HostPool};
use crate::memory::LinkSpec;
use crate::subnormals::Subnormals;

/// Describes a device for [`RuntimeBuilder::device`](crate::RuntimeBuilder::device):
/// [`Emulated`](super::Emulated), a GPU, or somebody else's.
pub trait DeviceSpec: Any + fmt::Debug + Send + Sync {
    /// What kind of device it is: the runtime names it by that and its number.
    fn kind(&self) -> &str;

    /// Bytes of its memory for the values of handles.
    fn capacity(&self) -> u64;

    /// What it is, for people.
    fn title(&self) -> String {
        self.kind().into()
    }

    /// (major, minor) compute capability, where it has one.
    fn capability(&self) -> Option<(u32, u32)> {
        None
    }

    /// The name of its kind in performance models: devices of one name are equally fast.
    fn model_kind(&self) -> String {
        self.kind().into()
    }

    /// The name under which performance models know its links, where it is device `number` of a
    /// runtime.
    fn link_end(&self, number: usize) -> String {
        format!("{} {number}", self.kind())
    }

    /// How fast its link to the host is; `None` if it has to be measured.
    fn link(&self) -> Option<LinkSpec> {
        None
    }

    /// Conversions that can be under way at a time in memory that does not count as capacity.
    fn staging(&self) -> u32 {
        2
    }

    /// Who allocates page-locked host memory, which its copies reach at full speed, and from how
    /// many bytes on buffers are to lie there.
    fn pinned(&self) -> Option<(Arc<dyn HostAllocator>, usize)> {
        None
    }

    /// Checks it against all devices of the runtime, itself among them.
    ///
    /// # Errors
    /// In words, why they cannot be used together.
    fn check(&self, all: &[Arc<dyn DeviceSpec>]) -> Result<(), String> {
        let _ = all;
        Ok(())
    }

    /// Starts the device.
    ///
    /// # Errors
    /// In words, why it cannot be used.
    fn open(&self, opening: Opening) -> Result<Arc<dyn Device>, String>;
}

impl dyn DeviceSpec {
    /// The description as whoever made it knows it.
    pub fn downcast<S: DeviceSpec>(&self) -> Option<&S> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What a device is told when it starts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Opening {
    /// Its name, for errors.
    pub name: String,
    /// How its threads are to treat subnormal numbers.
    pub subnormals: Subnormals,
    /// Host memory for its threads: page-locked, if it [has an allocator](DeviceSpec::pinned).
    pub pool: Arc<HostPool>,
    /// The link between any two devices, where the runtime was told.
    pub(crate) peers: Option<LinkSpec>,
}
