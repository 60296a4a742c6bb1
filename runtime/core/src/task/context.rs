//! Context of a running body.

use std::fmt;

use super::{Call, Header, Services};
use crate::device::Stream;
use crate::error::Error;
use crate::value::{DeviceContext, Pending};

/// Context of a codelet's body: its place of execution, the selections, and the submission of
/// further tasks.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, TaskContext, update};
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let (whole, half) = (rt.register(0i32), rt.register(21i32));
/// rt.task("whole")
///     .operands((update(&whole),))
///     .cpu_with(move |(whole,), cx: &mut TaskContext<'_>| {
///         let task = cx.task("half").operands((update(&half),)).cpu(|(half,)| *half *= 2).submit()?;
///         cx.wait_children()?;
///         *whole = i32::from(task.is_done());
///         Ok::<_, zellige_runtime::Error>(())
///     })
///     .submit()?;
/// assert_eq!(rt.take(whole)?, 1);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct TaskContext<'a> {
    pub(crate) services: &'a dyn Services,
    header: &'a Header,
    id: u64,
    worker: usize,
    call: Call,
    device: Option<DeviceContext<'a>>,
}

impl<'a> TaskContext<'a> {
    #[inline]
    pub(crate) fn new(
        services: &'a dyn Services,
        header: &'a Header,
        id: u64,
        worker: usize,
        call: Call,
        stream: Option<&'a dyn Stream>,
    ) -> Self {
        let device = stream.map(|stream| DeviceContext::of_body(stream, services, worker));
        TaskContext { services, header, id, worker, call, device }
    }

    /// Returns the callbacks that the body has registered for the end of its operations.
    pub(crate) fn into_pending(self) -> Pending {
        self.device.map(DeviceContext::into_pending).unwrap_or_default()
    }

    /// Returns the context of the device stream on which the body puts its operations.
    ///
    /// # Panics
    /// In a body that is not launched, i.e. outside of the functions of
    /// [`Codelet::on_devices`](crate::Codelet::on_devices).
    pub fn device(&self) -> &DeviceContext<'a> {
        self.device.as_ref().expect("the body runs on a device with an architecture of its own")
    }

    /// Returns the worker that runs the body, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns the variant that [`Codelet::select`](crate::Codelet::select) decided; 0 without a
    /// deferred selection.
    pub fn variant(&self) -> u32 {
        self.call.variant
    }

    /// Returns the index of the codelet's [implementation](crate::Codelet::IMPLEMENTATIONS) that is
    /// to run; 0 if there is only one.
    pub fn implementation(&self) -> usize {
        self.call.implementation
    }

    /// Waits until all tasks that this body has submitted are complete, like OpenMP's `taskwait`:
    /// its children, not their descendants.
    ///
    /// # Errors
    /// [`Error::Failed`] with the first failure among them, and those of
    /// [`Runtime::wait`](crate::Runtime::wait).
    pub fn wait_children(&self) -> Result<(), Error> {
        self.services.wait_for_children()
    }

    /// Returns true once a stop of the whole runtime is requested: a long body may return early
    /// with an error.
    pub fn is_cancelled(&self) -> bool {
        self.services.is_cancelled(self.id)
    }
}

impl fmt::Debug for TaskContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskContext({} on worker {})", self.header.title(), self.worker)
    }
}
