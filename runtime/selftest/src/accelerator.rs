//! Devices of other kinds under the self-test.

use std::sync::Arc;

use zellige_gpu::source::Launch;
use zellige_runtime::TaskError;
use zellige_runtime::codelet::DeviceContext;
use zellige_runtime::device::{Arch, DeviceSpec};

/// A kind of device with an architecture of its own, to be tested in the place of GPUs
/// ([`Fuzz::accelerator`](crate::Fuzz::accelerator)).
#[derive(Clone, Copy, Debug)]
pub struct Accelerator {
    /// Its architecture.
    pub arch: Arch,
    /// Describes a device with so many bytes of memory, which fails for good when it is asked for
    /// this operation (from 0), if for any.
    pub device: fn(bytes: u64, fails_at: Option<u64>) -> Arc<dyn DeviceSpec>,
    /// Puts one of the kernels of [`SOURCE`](crate::SOURCE) on the stream. What it does is said by
    /// [`run_on_host`](crate::run_on_host).
    pub launch: fn(&DeviceContext<'_>, &Launch) -> Result<(), TaskError>,
}
