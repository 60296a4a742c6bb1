//! Devices of other kinds under the self-test.

use std::sync::Arc;

use zellige_gpu::source::Launch;
use zellige_runtime::TaskError;
use zellige_runtime::codelet::DeviceContext;
use zellige_runtime::device::{Arch, DeviceSpec};

/// A kind of device with an architecture of its own, to be tested instead of GPUs
/// ([`Fuzz::accelerator`](crate::Fuzz::accelerator)).
#[derive(Clone, Copy, Debug)]
pub struct Accelerator {
    /// Its architecture.
    pub arch: Arch,
    /// Describes a device with `bytes` of memory. It fails permanently at operation `fails_at`
    /// (from 0), if given.
    pub device: fn(bytes: u64, fails_at: Option<u64>) -> Arc<dyn DeviceSpec>,
    /// Puts one of the kernels of [`SOURCE`](crate::SOURCE) on the stream.
    /// [`run_on_host`](crate::run_on_host) defines its result.
    pub launch: fn(&DeviceContext<'_>, &Launch) -> Result<(), TaskError>,
}
