//! Where a task may run.

use super::Body;

/// A worker's device, as [`Codelet::can_execute`](super::Codelet::can_execute) sees it.
///
/// ```
/// use zellige_runtime::{Codelet, DeviceInfo, Emulated, Runtime, Submit, TaskContext, TaskError, Update, update};
///
/// /// Runs where there is no memory of its own.
/// struct OnHost;
///
/// impl Codelet for OnHost {
///     type Operands = (Update<usize>,);
///
///     fn name(&self) -> &'static str {
///         "on host"
///     }
///
///     fn has_constraints(&self) -> bool {
///         true
///     }
///
///     fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
///         device.memory.is_none()
///     }
///
///     fn cpu(&self, (worker,): (&mut usize,), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         *worker = cx.worker();
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).device(Emulated::new(1 << 20)).build()?;
/// let x = rt.register(7usize);
/// rt.submit(OnHost, (update(&x),))?;
/// assert_eq!(rt.take(x)?, 0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo<'a> {
    /// The worker.
    pub worker: usize,
    /// The kind of device that it drives, e.g. `cpu`.
    pub kind: &'a str,
    /// Bytes of the device's own memory; `None`: it works in host memory.
    pub memory: Option<u64>,
    /// (major, minor) compute capability of a GPU; `None` for what is none.
    pub capability: Option<(u32, u32)>,
}

/// What was said about where a task may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Only {
    pub(crate) worker: Option<usize>,
    pub(crate) kinds: Option<&'static [&'static str]>,
    /// The codelet is to be asked.
    pub(crate) constrained: bool,
}

impl Only {
    /// True if the task may run on the device.
    pub(crate) fn allows(&self, body: &dyn Body, device: &DeviceInfo<'_>) -> bool {
        self.worker.is_none_or(|worker| worker == device.worker)
            && self.kinds.is_none_or(|kinds| kinds.contains(&device.kind))
            && (!self.constrained || body.can_execute(device))
    }
}
