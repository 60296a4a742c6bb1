//! What a task runs, and what the runtime may know about it.

use zellige_model::TaskInfo;

use crate::buffer::Element;
use crate::data::{Data, Meta};
use crate::error::TaskError;
use crate::format::Format;
use crate::gpu::Cuda;
use crate::operand::{List, Operands, Slot};
use crate::subnormals::Subnormals;
use crate::task::{DeviceInfo, TaskContext};

/// A kind of device: it decides what a body sees of its operands.
pub trait DeviceKind: 'static {
    /// Reading view.
    type Ref<'v, D: Data>;
    /// Updating view.
    type Mut<'v, D: Data>;
    /// Where a value is to be written.
    type Slot<'v, D: Data>;
    /// A list of reading views.
    type List<'v, D: Data>;
    /// Working space.
    type Scratch<'v, T: Element>;
}

/// CPU cores: bodies see host memory through the data type's own views.
#[derive(Debug)]
pub struct Cpu;

impl DeviceKind for Cpu {
    type Ref<'v, D: Data> = D::Ref<'v>;
    type Mut<'v, D: Data> = D::Mut<'v>;
    type Slot<'v, D: Data> = Slot<'v, D>;
    type List<'v, D: Data> = List<'v, D>;
    type Scratch<'v, T: Element> = &'v mut [T];
}

/// How many operands of one task can be asked for in a format chosen late.
pub const MAX_OPERAND_FORMATS: usize = 4;

/// Elements of lists that are wanted in another format than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    /// Bit `i`: element `i` of each list. Those from 32 on cannot be told apart.
    pub elements: u32,
    /// Their format.
    pub format: Format,
}

/// What a late-choosing codelet decides once its operands are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Format wanted for each of the first operands; `None` keeps what the operand asked for at submission.
    pub formats: [Option<Format>; MAX_OPERAND_FORMATS],
    /// Elements of [lists](crate::reads) that are wanted in another format than the rest of their list.
    pub apart: Option<Apart>,
    /// Handed to the body as [`TaskContext::variant`].
    pub variant: u32,
    /// Replaces the label, in traces and for performance models, unless it is empty.
    pub label: &'static str,
}

/// A kind of task: a name, what it costs, and one function per kind of device.
///
/// Bodies take `&self`: they can be run again (replays, retries), so whatever they change they change through operands.
///
/// # Several implementations
///
/// A function may hold several ways to do its work, e.g. two algorithms of which one is faster for small tiles. Name them in
/// [`IMPLEMENTATIONS`](Codelet::IMPLEMENTATIONS), and do what [`TaskContext::implementation`] says. The runtime decides when the
/// body starts, also at every replay: where there are performance models, each implementation has its own on every kind of device;
/// those with too few samples come first, then the fastest. Without models it is the first that
/// [can run](Codelet::can_execute_with) there.
///
/// Implementations that round differently give up bitwise determinism: which one runs depends on measured times.
///
/// ```
/// use zellige_runtime::*;
///
/// struct Sum;
///
/// impl Codelet for Sum {
///     type Operands = (Read<Vec<u64>>, Update<u64>);
///     const IMPLEMENTATIONS: &'static [&'static str] = &["plain", "unrolled"];
///
///     fn name(&self) -> &'static str {
///         "sum"
///     }
///
///     fn cpu(&self, (x, sum): (&[u64], &mut u64), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         *sum = match cx.implementation() {
///             0 => x.iter().sum(),
///             _ => x.chunks(4).map(|four| four.iter().sum::<u64>()).sum(),
///         };
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::new()?;
/// let (x, sum) = (rt.register(vec![1, 2, 3]), rt.register(0));
/// rt.submit(Sum, (read(&x), update(&sum)))?;
/// assert_eq!(rt.take(sum)?, 6);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub trait Codelet: Send + Sync + 'static {
    /// The operands, as a tuple.
    type Operands: Operands;

    /// The names of the implementations, for models and traces, where there are several for one kind of device. Fewer than two
    /// names count as none.
    const IMPLEMENTATIONS: &'static [&'static str] = &[];

    /// What its functions do with subnormal numbers, unless the runtime [was
    /// told](crate::RuntimeBuilder::subnormals): `None` for what runtimes do, which is to keep them.
    ///
    /// A codelet whose results are no less accurate without them says [`Flush`](Subnormals::Flush): kernels
    /// that meet many of them take up to a hundred times as long otherwise.
    const SUBNORMALS: Option<Subnormals> = None;

    /// The name in traces, models and errors.
    fn name(&self) -> &'static str;

    /// Cost and place, asked once at submission.
    fn info(&self) -> TaskInfo {
        TaskInfo::default()
    }

    /// True if [`select`](Codelet::select) is to be asked when the operands are ready, also at every replay.
    fn selects(&self) -> bool {
        false
    }

    /// Decides formats and variant from what the finished operands are (one `Meta` per handle, in operand order).
    fn select(&self, metas: &[Meta]) -> Choice {
        let _ = metas;
        Choice::default()
    }

    /// True if [`can_execute`](Codelet::can_execute) and [`can_execute_with`](Codelet::can_execute_with) are to be asked before a
    /// worker gets the task.
    fn has_constraints(&self) -> bool {
        false
    }

    /// Whether the task can run on this device, e.g. for its memory or what its kind can do. Asked often: it should be quick.
    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let _ = device;
        true
    }

    /// Whether one of the [`IMPLEMENTATIONS`](Codelet::IMPLEMENTATIONS), by its place there, can run on this device. A device on which
    /// none can does not get the task. Asked where there are several, and only if the codelet [is constrained](Codelet::has_constraints).
    fn can_execute_with(&self, implementation: usize, device: &DeviceInfo<'_>) -> bool {
        let _ = (implementation, device);
        true
    }

    /// The implementation for a CPU core, and for devices that emulate another on one.
    fn cpu(
        &self,
        views: <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError>;

    /// Whether there is an implementation for GPUs, [`cuda`](Codelet::cuda). Asked once at submission; GPUs are given no other tasks.
    fn has_cuda(&self) -> bool {
        false
    }

    /// The implementation for GPUs: it puts operations on the stream of [`cx.gpu()`](TaskContext::gpu) and returns at once. It may read
    /// headers and addresses, never a number: what comes before it on the GPU has not run yet. The task ends when its operations have.
    ///
    /// # Errors
    /// Whatever it returns fails the task.
    fn cuda(
        &self,
        views: <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let _ = (views, cx);
        Err(format!("{} has no implementation for GPUs", self.name()).into())
    }

    /// Whether [`cuda`](Codelet::cuda) counts on what tasks before it do at their ends: on norms and whatever else they
    /// [read back](crate::CudaMut::read_back) into headers, on what they leave [for their ends](crate::GpuContext::at_end). Asked once at submission.
    ///
    /// A task whose predecessors have all been launched on one GPU is launched behind them, and a GPU orders their operations; the host learns of
    /// the ends later. Whoever answers no is launched so behind tasks that have something left for their ends, too: it sees headers as
    /// those were before, and, if one of the tasks turns out to have failed, ends with that failure whatever it did. A task that
    /// [chooses late](Codelet::selects) and names a value into whose header something is read back, and one that updates or overwrites such a value,
    /// waits for that in any case.
    fn needs_ends(&self) -> bool {
        true
    }

    /// The most tasks that one call of [`cpu_batch`](Codelet::cpu_batch) takes; 0 or 1: each runs alone. Asked once at submission.
    ///
    /// Only tasks of one codelet type are run in one call, with the same name, label and shape, and the same deferred selection. A worker that
    /// takes one from its policy takes others with it that are ready already: it waits for none, and leaves other workers their share.
    /// On a device with memory of its own those whose operands are there are launched as one operation. Tasks that commute or reduce run
    /// alone, and so do those that [choose](Codelet::has_constraints) among several implementations.
    fn batch(&self) -> usize {
        1
    }

    /// The same for [`cuda_batch`](Codelet::cuda_batch), on GPUs: where tiles are small, launching costs more than computing. Tasks whose codelet
    /// has several [implementations](Codelet::IMPLEMENTATIONS) run alone.
    fn batch_on_gpus(&self) -> usize {
        1
    }

    /// Puts the operations of several tasks on their GPU's stream; the default puts one task's there after the other's. They end together, but
    /// each member has a result of its own, in the order of the batch, and its context's [ends](crate::GpuContext::at_end) are its own: who fails
    /// fails alone. Members without a result fail; a panic fails all. As for [`cpu_batch`](Codelet::cpu_batch), the bits should not depend on which
    /// tasks meet.
    fn cuda_batch(batch: CudaBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>>
    where
        Self: Sized,
    {
        batch.into_iter().map(|CudaMember { codelet, views, cx }| codelet.cuda(views, cx)).collect()
    }

    /// Does the work of several tasks; the default runs one after the other.
    ///
    /// The context is the first one's; variant and implementation are the same for all. An error or a panic fails every task of the
    /// batch, whatever had been done. Nothing may be waited for here: that is [`Error::SelfWait`](crate::Error::SelfWait), since what is
    /// waited for may come after one of the batch. What `cpu` would write must be written here bit by bit, unless results may depend on
    /// which tasks meet.
    fn cpu_batch(batch: Batch<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError>
    where
        Self: Sized,
    {
        batch.into_iter().try_for_each(|(codelet, views)| codelet.cpu(views, cx))
    }
}

/// The tasks that one call runs: each one's codelet, and the views of its operands.
pub type Batch<'v, C> = Vec<(&'v C, <<C as Codelet>::Operands as Operands>::Views<'v, Cpu>)>;

/// One of several tasks whose operations are put on a GPU's stream in one call.
pub struct CudaMember<'v, 'c, C: Codelet> {
    /// Its codelet.
    pub codelet: &'v C,
    /// Its operands.
    pub views: <C::Operands as Operands>::Views<'v, Cuda>,
    /// Its surroundings; the stream is the same for all.
    pub cx: &'v mut TaskContext<'c>,
}

impl<C: Codelet> std::fmt::Debug for CudaMember<'_, '_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaMember({})", self.codelet.name())
    }
}

/// The tasks that one call for a GPU launches.
pub type CudaBatch<'v, 'c, C> = Vec<CudaMember<'v, 'c, C>>;

/// What a closure may return: nothing, a result with any error, or never, as one that ends in `todo!()`.
#[diagnostic::on_unimplemented(
    message = "a task's body returns `()` or a `Result<(), E>`, not `{Self}`",
    note = "values leave a body through its operands: `update(&handle)`, `write(&handle)`"
)]
pub trait Outcome {
    /// The body's result.
    fn into_result(self) -> Result<(), TaskError>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Names the type `!`, for which there is no stable name.
pub trait Returns {
    /// What it returns.
    type Value;
}

impl<T> Returns for fn() -> T {
    type Value = T;
}

impl Outcome for <fn() -> ! as Returns>::Value {
    fn into_result(self) -> Result<(), TaskError> {
        self
    }
}

impl<E: Into<TaskError>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), TaskError> {
        self.map_err(Into::into)
    }
}
