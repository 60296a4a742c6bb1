//! Codelets: the functions of tasks, with their properties for the runtime.

use zellige_model::TaskInfo;

use crate::device::{Arch, Archs};
use crate::error::TaskError;
use crate::operand::{Cpu, OnDevice, Operands};
use crate::subnormals::Subnormals;
use crate::task::{Choice, DeviceInfo, TaskContext};
use crate::value::Meta;

/// A kind of task: a name, its cost, a function for CPUs, and one for each supported architecture
/// of devices.
///
/// Bodies take `&self`: they can be run again (replays, retries), so all their effects go through
/// operands.
///
/// # Several implementations
///
/// A function may contain several implementations of its work, e.g. two algorithms of which one is
/// faster for small tiles. List their names in [`IMPLEMENTATIONS`](Codelet::IMPLEMENTATIONS), and
/// execute the one that [`TaskContext::implementation`] returns. The runtime selects it when the
/// body starts, also at every replay. With performance models, each implementation has its own
/// model on every kind of device; those with too few samples come first, then the fastest. Without
/// models it is the first that [can run](Codelet::can_execute_with) there.
///
/// Implementations that round differently give up bitwise determinism: the selection depends on
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
    /// Types of the operands, as a tuple.
    type Operands: Operands;

    /// Names of the implementations, for models and traces, if there are several for one kind of
    /// device. Fewer than two names count as none.
    const IMPLEMENTATIONS: &'static [&'static str] = &[];

    /// Treatment of subnormal numbers in its functions, unless the runtime [sets
    /// it](crate::RuntimeBuilder::subnormals): `None` for the default of runtimes, which is to keep
    /// them.
    ///
    /// A codelet whose results are as accurate without them uses [`Flush`](Subnormals::Flush):
    /// otherwise kernels that process many of them take up to a hundred times as long.
    const SUBNORMALS: Option<Subnormals> = None;

    /// Returns the name in traces, models and errors.
    fn name(&self) -> &'static str;

    /// Returns cost and coordinates; called once at submission.
    fn info(&self) -> TaskInfo {
        TaskInfo::default()
    }

    /// Returns true if [`select`](Codelet::select) is to be called when the operands are ready,
    /// also at every replay.
    fn selects(&self) -> bool {
        false
    }

    /// Selects formats and variant from the metas of the finished operands (one `Meta` per handle,
    /// in operand order).
    fn select(&self, metas: &[Meta]) -> Choice {
        let _ = metas;
        Choice::default()
    }

    /// Returns true if [`can_execute`](Codelet::can_execute) and
    /// [`can_execute_with`](Codelet::can_execute_with) are to be called before a worker gets the
    /// task.
    fn has_constraints(&self) -> bool {
        false
    }

    /// Returns true if the task can run on this device, e.g. given its memory or the capabilities
    /// of its kind. It is called often and should be quick.
    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let _ = device;
        true
    }

    /// Returns true if one of the [`IMPLEMENTATIONS`](Codelet::IMPLEMENTATIONS), given by its
    /// index, can run on this device. A device that supports none does not get the task. It is
    /// called if there are several, and only if the codelet [is
    /// constrained](Codelet::has_constraints).
    fn can_execute_with(&self, implementation: usize, device: &DeviceInfo<'_>) -> bool {
        let _ = (implementation, device);
        true
    }

    /// Runs the task on a CPU core, or on a device that emulates another on one.
    fn cpu(
        &self,
        views: <Self::Operands as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError>;

    /// Adds the functions for devices with an [`Arch`] of their own, such as GPUs. These devices
    /// get no other tasks. It is called at submission, and again at execution: the result must not
    /// change.
    fn on_devices(&self, table: &mut DeviceTable<Self>)
    where
        Self: Sized,
    {
        let _ = table;
    }

    /// Returns true if a function of [`on_devices`](Codelet::on_devices) relies on the actions of
    /// earlier tasks at their ends: on norms and other data that they [read
    /// back](crate::codelet::DeviceMut::read_back) into headers, or on the callbacks that they
    /// register [for their ends](crate::codelet::DeviceContext::at_end). It is called once at
    /// submission.
    ///
    /// A task whose predecessors have all been launched on one device is launched in stream order
    /// after them: the device orders their operations, and the host is notified of the ends later.
    /// A codelet that returns false is launched in this way also after tasks with callbacks for
    /// their ends. It then sees headers from before the callbacks, and, if one of those tasks turns
    /// out to have failed, it ends with that failure, whatever it did. Two kinds of task wait for
    /// the callbacks in any case: a task with a [deferred selection](Codelet::selects) that names a
    /// value whose header is read back, and a task that updates or overwrites such a value.
    fn needs_ends(&self) -> bool {
        true
    }

    /// Returns the maximum number of tasks that one call of [`cpu_batch`](Codelet::cpu_batch)
    /// takes; 0 or 1: each runs alone. It is called once at submission.
    ///
    /// A batch consists of tasks of one codelet type, with the same name, label and shape, and the
    /// same deferred selection. A worker that takes one from its policy takes others that are ready
    /// already: it waits for none, and leaves other workers their share. On a device with memory of
    /// its own, the tasks whose operands are there are launched as one operation. Tasks that
    /// commute or reduce run alone, and so do those that [choose](Codelet::has_constraints) among
    /// several implementations.
    fn batch(&self) -> usize {
        1
    }

    /// Runs several tasks; the default runs one after the other.
    ///
    /// The context is that of the first task; variant and implementation are the same for all. An
    /// error or a panic fails every task of the batch, whatever was done before. Waiting is not
    /// allowed here and returns [`Error::SelfWait`](crate::Error::SelfWait), since the awaited task
    /// may come after one of the batch. The results must be bitwise equal to those of `cpu`, unless
    /// results may depend on the composition of batches.
    fn cpu_batch(batch: Batch<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError>
    where
        Self: Sized,
    {
        batch.into_iter().try_for_each(|(codelet, views)| codelet.cpu(views, cx))
    }
}

/// Tasks of one call: each one's codelet, and the views of its operands.
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

/// Views of the operands for a codelet's device function.
pub type DeviceViews<'v, C> = <<C as Codelet>::Operands as Operands>::Views<'v, OnDevice>;

/// Device function of a codelet for one [`Arch`]: it puts operations on the stream of
/// [`cx.device()`](TaskContext::device) and returns at once. It may read headers and addresses,
/// never a number: earlier operations on the device have not run yet. The task ends when its
/// operations have.
pub type DeviceFunction<C> =
    for<'v, 'c> fn(&C, DeviceViews<'v, C>, &mut TaskContext<'c>) -> Result<(), TaskError>;

/// Function that puts the operations of several tasks on their device's stream. They end together,
/// but each member has its own result, in the order of the batch, and its own context with
/// [callbacks](crate::codelet::DeviceContext::at_end): a failure of one does not fail the others.
/// Members without a result fail; a panic fails all. Like in [`Codelet::cpu_batch`], the bits
/// should not depend on the composition of batches.
pub type DeviceBatchFunction<C> = for<'v, 'c> fn(DeviceBatch<'v, 'c, C>) -> Vec<Result<(), TaskError>>;

/// Device functions of a codelet, by [`Arch`].
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
    /// Architecture whose functions are looked up; `None`: only the names are collected.
    wanted: Option<Arch>,
    pub(super) archs: Archs,
    /// Largest batch over all architectures.
    pub(super) batch: usize,
    pub(super) found: Option<(DeviceFunction<C>, Option<DeviceBatchFunction<C>>)>,
}

impl<C: Codelet> DeviceTable<C> {
    /// Collects the names that `codelet` adds, and looks up the functions of one architecture.
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
    /// for small tiles, a launch costs more than the computation. Tasks whose codelet has several
    /// [implementations](Codelet::IMPLEMENTATIONS) run alone. The largest `most` of all
    /// architectures applies to all of them.
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

/// One of several tasks that are launched on a device's stream in one call.
pub struct DeviceMember<'v, 'c, C: Codelet> {
    /// Its codelet.
    pub codelet: &'v C,
    /// Views of its operands.
    pub views: DeviceViews<'v, C>,
    /// Its context; the stream is the same for all.
    pub cx: &'v mut TaskContext<'c>,
}

impl<C: Codelet> std::fmt::Debug for DeviceMember<'_, '_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceMember({})", self.codelet.name())
    }
}

/// Tasks that one call for a device launches.
pub type DeviceBatch<'v, 'c, C> = Vec<DeviceMember<'v, 'c, C>>;

/// Return types of a closure: nothing, a result with any error, or never, as in one that ends in
/// `todo!()`.
#[diagnostic::on_unimplemented(
    message = "a task's body returns `()` or a `Result<(), E>`, not `{Self}`",
    note = "values leave a body through its operands: `update(&handle)`, `write(&handle)`"
)]
pub trait Outcome {
    /// Converts it to the body's result.
    fn into_result(self) -> Result<(), TaskError>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

/// Names the type `!`, which has no stable name.
pub trait Returns {
    /// Return type.
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
