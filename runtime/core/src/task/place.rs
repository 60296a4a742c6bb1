//! Restrictions of tasks to some devices.

use super::Body;

/// A worker's device, as passed to [`Codelet::can_execute`](crate::Codelet::can_execute).
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
    /// Index of the worker.
    pub worker: usize,
    /// The kind of device that it drives, e.g. `cpu`.
    pub kind: &'a str,
    /// Size of the device's own memory (bytes); `None`: it works in host memory.
    pub memory: Option<u64>,
    /// Compute capability (major, minor) of a GPU; `None` for other devices.
    pub capability: Option<(u32, u32)>,
}

/// Restrictions on the workers of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Only {
    pub(crate) worker: Option<usize>,
    pub(crate) kinds: Option<&'static [&'static str]>,
    /// True if the codelet has constraints, which must be checked.
    pub(crate) constrained: bool,
}

impl Only {
    /// Returns true if the task may run on the device.
    pub(crate) fn allows(&self, body: &dyn Body, device: &DeviceInfo<'_>) -> bool {
        self.worker.is_none_or(|worker| worker == device.worker)
            && self.kinds.is_none_or(|kinds| kinds.contains(&device.kind))
            && (!self.constrained || body.can_execute(device))
    }
}
