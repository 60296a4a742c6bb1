//! What a task runs, and what the runtime may know about it.

use zellige_model::TaskInfo;

use crate::buffer::Element;
use crate::data::{Data, Meta};
use crate::device::{Arch, Archs};
use crate::error::TaskError;
use crate::format::Format;
use crate::operand::OnDevice;
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
///
/// ```
/// use zellige_runtime::{Codelet, Cpu, Operands, Read, Runtime, Submit, TaskContext, TaskError, Update, read, update};
///
/// struct Add;
///
/// impl Codelet for Add {
///     type Operands = (Read<f64>, Update<f64>);
///
///     fn name(&self) -> &'static str {
///         "add"
///     }
///
///     // Here the views are a tuple (&f64, &mut f64).
///     fn cpu(&self, (x, y): <Self::Operands as Operands>::Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         *y += x;
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (x, y) = (rt.register(1.5f64), rt.register(2.0f64));
/// rt.submit(Add, (read(&x), update(&y)))?;
/// assert_eq!(rt.take(y)?, 3.5);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
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
///
/// ```
/// use zellige_runtime::{Choice, Codelet, Meta, Runtime, Submit, TaskContext, TaskError, Update, update};
///
/// /// Works with half of the numbers where there are few.
/// struct Halve;
///
/// impl Codelet for Halve {
///     type Operands = (Update<Vec<f64>>,);
///
///     fn name(&self) -> &'static str {
///         "halve"
///     }
///
///     fn selects(&self) -> bool {
///         true
///     }
///
///     fn select(&self, metas: &[Meta]) -> Choice {
///         Choice { variant: u32::from(metas[0].bytes > 1000), ..Choice::default() }
///     }
///
///     fn cpu(&self, (x,): (&mut [f64],), cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         let some = if cx.variant() == 1 { x.len() } else { x.len() / 2 };
///         x[..some].iter_mut().for_each(|x| *x /= 2.0);
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(vec![1.0f64; 4]);
/// rt.submit(Halve, (update(&x),))?;
/// assert_eq!(rt.take(x)?, [0.5, 0.5, 1.0, 1.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// Format wanted for each of the first operands; `None` keeps what the operand asked for at
    /// submission.
    pub formats: [Option<Format>; MAX_OPERAND_FORMATS],
    /// Elements of [lists](crate::reads) that are wanted in another format than the rest of their
    /// list.
    pub apart: Option<Apart>,
    /// Handed to the body as [`TaskContext::variant`].
    pub variant: u32,
    /// Replaces the label, in traces and for performance models, unless it is empty.
    pub label: &'static str,
}

/// A kind of task: a name, what it costs, a function for CPUs, and one for each architecture of
/// devices that it knows.
///
/// Bodies take `&self`: they can be run again (replays, retries), so whatever they change they
/// change through operands.
///
/// # Several implementations
///
/// A function may hold several ways to do its work, e.g. two algorithms of which one is faster for
/// small tiles. Name them in [`IMPLEMENTATIONS`](Codelet::IMPLEMENTATIONS), and do what
/// [`TaskContext::implementation`] says. The runtime decides when the body starts, also at every
/// replay: where there are performance models, each implementation has its own on every kind of
/// device; those with too few samples come first, then the fastest. Without models it is the first
/// that [can run](Codelet::can_execute_with) there.
///
/// Implementations that round differently give up bitwise determinism: which one runs depends on
/// measured times.
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

    /// The names of the implementations, for models and traces, where there are several for one
    /// kind of device. Fewer than two names count as none.
    const IMPLEMENTATIONS: &'static [&'static str] = &[];

    /// What its functions do with subnormal numbers, unless the runtime [was
    /// told](crate::RuntimeBuilder::subnormals): `None` for what runtimes do, which is to keep
    /// them.
    ///
    /// A codelet whose results are no less accurate without them says [`Flush`](Subnormals::Flush):
    /// kernels that meet many of them take up to a hundred times as long otherwise.
    const SUBNORMALS: Option<Subnormals> = None;

    /// The name in traces, models and errors.
    fn name(&self) -> &'static str;

    /// Cost and place, asked once at submission.
    fn info(&self) -> TaskInfo {
        TaskInfo::default()
    }

    /// True if [`select`](Codelet::select) is to be asked when the operands are ready, also at
    /// every replay.
    fn selects(&self) -> bool {
        false
    }

    /// Decides formats and variant from what the finished operands are (one `Meta` per handle, in
    /// operand order).
    fn select(&self, metas: &[Meta]) -> Choice {
        let _ = metas;
        Choice::default()
    }

    /// True if [`can_execute`](Codelet::can_execute) and
    /// [`can_execute_with`](Codelet::can_execute_with) are to be asked before a worker gets the
    /// task.
    fn has_constraints(&self) -> bool {
        false
    }

    /// Whether the task can run on this device, e.g. for its memory or what its kind can do. Asked
    /// often: it should be quick.
    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let _ = device;
        true
    }

    /// Whether one of the [`IMPLEMENTATIONS`](Codelet::IMPLEMENTATIONS), by its place there, can
    /// run on this device. A device on which none can does not get the task. Asked where there are
    /// several, and only if the codelet [is constrained](Codelet::has_constraints).
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

    /// Names the functions for devices with an [`Arch`] of their own, such as GPUs. They are given
    /// no other tasks. Asked at submission, and again where the task runs: the answer must not
    /// change.
    fn on_devices(&self, table: &mut DeviceTable<Self>)
    where
        Self: Sized,
    {
        let _ = table;
    }

    /// Whether a function of [`on_devices`](Codelet::on_devices) counts on what tasks before it do
    /// at their ends: on norms and whatever else they [read
    /// back](crate::codelet::DeviceMut::read_back) into headers, on what they leave [for their
    /// ends](crate::codelet::DeviceContext::at_end). Asked once at submission.
    ///
    /// A task whose predecessors have all been launched on one device is launched behind them, and
    /// the device orders their operations; the host learns of the ends later. Whoever answers no is
    /// launched so behind tasks that have something left for their ends, too: it sees headers as
    /// those were before, and, if one of the tasks turns out to have failed, ends with that failure
    /// whatever it did. A task that [chooses late](Codelet::selects) and names a value into whose
    /// header something is read back, and one that updates or overwrites such a value, waits for
    /// that in any case.
    fn needs_ends(&self) -> bool {
        true
    }

    /// The most tasks that one call of [`cpu_batch`](Codelet::cpu_batch) takes; 0 or 1: each runs
    /// alone. Asked once at submission.
    ///
    /// Only tasks of one codelet type are run in one call, with the same name, label and shape, and
    /// the same deferred selection. A worker that takes one from its policy takes others with it
    /// that are ready already: it waits for none, and leaves other workers their share. On a device
    /// with memory of its own those whose operands are there are launched as one operation. Tasks
    /// that commute or reduce run alone, and so do those that [choose](Codelet::has_constraints)
    /// among several implementations.
    fn batch(&self) -> usize {
        1
    }

    /// Does the work of several tasks; the default runs one after the other.
    ///
    /// The context is the first one's; variant and implementation are the same for all. An error or
    /// a panic fails every task of the batch, whatever had been done. Nothing may be waited for
    /// here: that is [`Error::SelfWait`](crate::Error::SelfWait), since what is waited for may come
    /// after one of the batch. What `cpu` would write must be written here bit by bit, unless
    /// results may depend on which tasks meet.
    fn cpu_batch(batch: Batch<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError>
    where
        Self: Sized,
    {
        batch.into_iter().try_for_each(|(codelet, views)| codelet.cpu(views, cx))
    }
}

/// The tasks that one call runs: each one's codelet, and the views of its operands.
///
/// ```
/// use zellige_runtime::{Batch, Codelet, Cpu, Operands, Runtime, Submit, TaskContext, TaskError, Update, update};
///
/// struct Increment;
///
/// impl Codelet for Increment {
///     type Operands = (Update<u32>,);
///
///     fn name(&self) -> &'static str {
///         "increment"
///     }
///
///     fn cpu(&self, (x,): (&mut u32,), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         *x += 1;
///         Ok(())
///     }
///
///     fn batch(&self) -> usize {
///         16
///     }
///
///     fn cpu_batch(batch: Batch<'_, Self>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         batch.into_iter().for_each(|(_, (x,))| *x += 1);
///         Ok(())
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x: Vec<_> = (0..40).map(|_| rt.register(1u32)).collect();
/// x.iter().try_for_each(|x| rt.submit(Increment, (update(x),)).map(drop))?;
/// assert!(x.into_iter().all(|x| matches!(rt.take(x), Ok(2))));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub type Batch<'v, C> = Vec<(&'v C, <<C as Codelet>::Operands as Operands>::Views<'v, Cpu>)>;

/// What a codelet's function for a device is given: the views of its operands.
pub type DeviceViews<'v, C> = <<C as Codelet>::Operands as Operands>::Views<'v, OnDevice>;

/// A codelet's function for one [`Arch`]: it puts operations on the stream of
/// [`cx.device()`](TaskContext::device) and returns at once. It may read headers and addresses,
/// never a number: what comes before it on the device has not run yet. The task ends when its
/// operations have.
pub type DeviceFunction<C> =
    for<'v, 'c> fn(&C, DeviceViews<'v, C>, &mut TaskContext<'c>) -> Result<(), TaskError>;

/// Puts the operations of several tasks on their device's stream. They end together, but each
/// member has a result of its own, in the order of the batch, and its context's
/// [ends](crate::codelet::DeviceContext::at_end) are its own: who fails fails alone. Members
/// without a result fail; a panic fails all. As for [`Codelet::cpu_batch`], the bits should not
/// depend on which tasks meet.
pub type DeviceBatchFunction<C> = for<'v, 'c> fn(DeviceBatch<'v, 'c, C>) -> Vec<Result<(), TaskError>>;

/// The functions of a codelet for devices, by [`Arch`].
///
/// ```
/// # use zellige_runtime::{codelet::DeviceTable, *};
/// struct Scale(f64);
///
/// impl Codelet for Scale {
///     type Operands = (Update<Vec<f64>>,);
/// #   fn name(&self) -> &'static str {
/// #       "scale"
/// #   }
///
///     fn cpu(&self, (x,): (&mut [f64],), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         x.iter_mut().for_each(|x| *x *= self.0);
///         Ok(())
///     }
///
///     fn on_devices(&self, table: &mut DeviceTable<Self>) {
///         table.add(device::Arch::named("my accelerator"), |scale, (x,), cx| {
///             let (_at, _bytes): (u64, u64) = x.part(0);
///             let _stream = cx.device().stream(); // an operation is put here
///             let _ = scale.0;
///             Ok(())
///         });
///     }
/// }
/// ```
pub struct DeviceTable<C: Codelet> {
    /// `None`: only the names count.
    wanted: Option<Arch>,
    pub(super) archs: Archs,
    /// The largest batch of all.
    pub(super) batch: usize,
    pub(super) found: Option<(DeviceFunction<C>, Option<DeviceBatchFunction<C>>)>,
}

impl<C: Codelet> DeviceTable<C> {
    /// What `codelet` names; the functions of one architecture are looked for.
    pub(super) fn of(codelet: &C, wanted: Option<Arch>) -> Self {
        let mut table = DeviceTable { wanted, archs: Archs::default(), batch: 0, found: None };
        codelet.on_devices(&mut table);
        table
    }

    /// Adds the function for an architecture.
    pub fn add(&mut self, arch: Arch, function: DeviceFunction<C>) {
        self.insert(arch, function, 1, None);
    }

    /// Adds the function for an architecture, and one that launches up to `most` tasks in one call:
    /// where tiles are small, launching costs more than computing. Tasks whose codelet has several
    /// [implementations](Codelet::IMPLEMENTATIONS) run alone. Of several architectures the largest
    /// `most` counts for all.
    pub fn add_batched(
        &mut self,
        arch: Arch,
        function: DeviceFunction<C>,
        most: usize,
        batch: DeviceBatchFunction<C>,
    ) {
        self.insert(arch, function, most, Some(batch));
    }

    fn insert(
        &mut self,
        arch: Arch,
        function: DeviceFunction<C>,
        most: usize,
        batch: Option<DeviceBatchFunction<C>>,
    ) {
        self.archs.insert(arch);
        self.batch = self.batch.max(most);
        if self.wanted == Some(arch) {
            self.found = Some((function, batch));
        }
    }
}

impl<C: Codelet> std::fmt::Debug for DeviceTable<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceTable({:?})", self.archs)
    }
}

/// One of several tasks whose operations are put on a device's stream in one call.
pub struct DeviceMember<'v, 'c, C: Codelet> {
    /// Its codelet.
    pub codelet: &'v C,
    /// Its operands.
    pub views: DeviceViews<'v, C>,
    /// Its surroundings; the stream is the same for all.
    pub cx: &'v mut TaskContext<'c>,
}

impl<C: Codelet> std::fmt::Debug for DeviceMember<'_, '_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceMember({})", self.codelet.name())
    }
}

/// The tasks that one call for a device launches.
pub type DeviceBatch<'v, 'c, C> = Vec<DeviceMember<'v, 'c, C>>;

/// What a closure may return: nothing, a result with any error, or never, as one that ends in
/// `todo!()`.
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
