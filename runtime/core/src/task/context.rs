//! What a body may ask of its surroundings.

use std::fmt;
use std::sync::Arc;

use super::{Call, Header};
use crate::device::Stream;
use crate::engine::Shared;
use crate::error::Error;
use crate::operand::{DeviceContext, Pending};

/// Handed to a codelet's body: where it runs, what was chosen, and a way to submit more tasks.
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
    pub(crate) shared: &'a Arc<Shared>,
    header: &'a Header,
    id: u64,
    worker: usize,
    call: Call,
    device: Option<DeviceContext<'a>>,
}

impl<'a> TaskContext<'a> {
    #[inline]
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        header: &'a Header,
        id: u64,
        worker: usize,
        call: Call,
        stream: Option<&'a dyn Stream>,
    ) -> Self {
        let device = stream.map(|stream| DeviceContext::of_body(stream, shared, worker));
        TaskContext { shared, header, id, worker, call, device }
    }

    /// What the body has left for the end of its operations.
    pub(crate) fn into_pending(self) -> Pending {
        self.device.map(DeviceContext::into_pending).unwrap_or_default()
    }

    /// The stream of the device on which the body puts its operations, and what comes with it.
    ///
    /// # Panics
    /// In a body that is not launched, i.e. anywhere but in a function of
    /// [`Codelet::on_devices`](super::Codelet::on_devices).
    pub fn device(&self) -> &DeviceContext<'a> {
        self.device.as_ref().expect("the body runs on a device with an architecture of its own")
    }

    /// The worker that runs the body, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The variant that [`Codelet::select`](super::Codelet::select) decided; 0 where nothing was
    /// chosen late.
    pub fn variant(&self) -> u32 {
        self.call.variant
    }

    /// Which of the codelet's [`IMPLEMENTATIONS`](super::Codelet::IMPLEMENTATIONS) is to run, by
    /// its place there; 0 where there is one.
    pub fn implementation(&self) -> usize {
        self.call.implementation
    }

    /// Waits until all tasks that this body has submitted are complete, as OpenMP's `taskwait`
    /// does: its children, not theirs.
    ///
    /// # Errors
    /// [`Error::Failed`] with the first failure among them, and those of
    /// [`Runtime::wait`](crate::Runtime::wait).
    pub fn wait_children(&self) -> Result<(), Error> {
        self.shared.wait_for_children()
    }

    /// True once somebody asked that the whole runtime stop: a long body may return early with an
    /// error.
    pub fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled(self.id)
    }
}

impl fmt::Debug for TaskContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskContext({} on worker {})", self.header.title(), self.worker)
    }
}
