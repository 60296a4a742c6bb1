//! Submission of tasks: closures and codelets, with their options, for any target that accepts
//! tasks.

pub mod split;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use split::{Region, Split, Splittable};

use crate::body::{Closure, ClosureFn, Codelet, Outcome, TypedBody};
use crate::deps::AccessRights;
use crate::engine::Engine;
use crate::engine::graph::Recorder;
use crate::error::{Error, Failure, TaskError};
use crate::operand::{Cpu, Operands};
use crate::task::{AnyHandle, Body, Handle, Options, Spec, TaskContext, TaskRef};
use crate::value::{Data, Meta};

/// Target that accepts tasks: the runtime, a recorder, a scope, or the context of a running task.
/// Algorithms are written once, over `S: Submit`.
///
/// ```
/// use zellige_runtime::{Error, Handle, Runtime, Submit, read, update};
///
/// /// Adds each number to the one after it.
/// fn prefix_sums(on: &impl Submit, x: &[Handle<u64>]) -> Result<(), Error> {
///     x.windows(2).try_for_each(|pair| {
///         on.task("add").operands((read(&pair[0]), update(&pair[1]))).cpu(|(a, b)| *b += a).submit().map(drop)
///     })
/// }
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let x: Vec<_> = (1..=5).map(|i| rt.register(i)).collect();
/// prefix_sums(&rt, &x)?;
/// assert_eq!(*rt.read(&x[4])?, 15);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub trait Submit: Sized {
    /// Accepts one task.
    #[doc(hidden)]
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error>;

    /// Announces that the algorithm is about to submit a step of about `tasks` independent tasks:
    /// the window on submitted tasks grows so that the next step's critical tasks can enter too.
    fn announce_step(&self, tasks: usize);

    /// Returns the runtime whose tasks may use the handles that are registered here; `None`: the
    /// first runtime that uses a handle.
    #[doc(hidden)]
    fn owner(&self) -> Option<u32> {
        None
    }

    /// Registers a value and returns its handle. `Vec`s, [`Buffer`](crate::Buffer)s and numbers are
    /// moved in without a copy.
    fn register<D: Data>(&self, value: D) -> Handle<D> {
        Handle::new(Some(value)).owned_by(self.owner())
    }

    /// Returns a handle whose value a task will [`write()`](crate::write()).
    fn register_empty<D: Data>(&self) -> Handle<D> {
        Handle::new(None).owned_by(self.owner())
    }

    /// Works like [`register_empty`](Submit::register_empty) for a value whose format and size are
    /// known in advance: in devices with memory of their own, space is allocated before the writer
    /// runs.
    fn register_sized<D: Data>(&self, meta: Meta) -> Handle<D> {
        Handle::sized(meta).owned_by(self.owner())
    }

    /// Returns a handle for a value with this meta that does not exist: graphs on it can be
    /// recorded, inspected and simulated without its memory. A task that is executed on it fails.
    fn register_planned<D: Data>(&self, meta: Meta) -> Handle<D> {
        Handle::planned(meta).owned_by(self.owner())
    }

    /// Splits a handle's value into parts: each of `regions` becomes a handle of its own, which
    /// tasks read and write concurrently on any devices. Until the parts are [joined](Split::join),
    /// no task may name the handle itself.
    ///
    /// The call does not wait. For each part, a task `split` copies it out of the handle, after the
    /// tasks on the handle that were submitted before. Elements outside all regions keep their
    /// values. A part may be split again.
    ///
    /// ```
    /// use zellige_runtime::split::split_evenly;
    /// use zellige_runtime::{Runtime, Submit, update};
    ///
    /// let rt = Runtime::new()?;
    /// let v = rt.register(vec![1.0f64; 1000]);
    /// let parts = rt.split(&v, split_evenly(1000, 4))?;
    /// for (i, part) in parts.handles().iter().enumerate() {
    ///     rt.task("fill").operands((update(part),)).cpu(move |(part,)| part.fill(i as f64)).submit()?;
    /// }
    /// parts.join()?;
    /// assert_eq!(rt.take(v)?[750], 3.0);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] if a region exceeds the value or two regions overlap (by the length with
    /// which the handle was registered), or if that length is not known
    /// ([`register_empty`](Submit::register_empty)); [`Error::Split`], [`Error::ReadOnly`], and
    /// those of [`submit`](Submit::submit). After an error the handle can be named as before.
    fn split<D: Splittable<R>, R: Region>(
        &self,
        handle: &Handle<D>,
        regions: impl IntoIterator<Item = R>,
    ) -> Result<Split<'_, Self, D, R>, Error> {
        Split::new(self, handle, regions.into_iter().collect())
    }

    /// Returns read-only handles for regions of a handle's value at this point of the submission
    /// order: tasks on the handle that are submitted later, writers included, do not change the
    /// views. Views may overlap, and several sets of them may exist; a task that names one for
    /// writing is refused. Views end when they are dropped.
    ///
    /// The call does not wait: a task `split` per view copies it. If another thread submits a
    /// writer of the handle during this call, some views may show its version.
    ///
    /// # Errors
    /// Those of [`split`](Submit::split), except that regions may overlap.
    fn views<D: Splittable<R>, R: Region>(
        &self,
        handle: &Handle<D>,
        regions: impl IntoIterator<Item = R>,
    ) -> Result<Vec<Handle<D::Part>>, Error> {
        split::views(self, handle, &regions.into_iter().collect::<Vec<_>>())
    }

    /// Changes the access rights of a handle from `from` to `to`; returns the current ones if they
    /// are not `from`.
    #[doc(hidden)]
    fn change_rights<D: Data>(
        &self,
        handle: &Handle<D>,
        from: AccessRights,
        to: AccessRights,
    ) -> Result<(), AccessRights> {
        handle.core().base().change_rights(|rights| rights.change(from, to))
    }

    /// Poisons a handle outside of any task.
    #[doc(hidden)]
    fn abandon<D: Data>(&self, handle: &Handle<D>, failure: Failure) {
        handle.core().base().poison(&Arc::new(failure));
    }

    /// Starts the description of a task made of closures: `task("axpy").operands((read(&x),
    /// update(&y))).cpu(|(x, y)| ...).submit()`.
    ///
    /// Names may be made at run time: each distinct name is kept until the process ends. To
    /// distinguish tasks of one kind, use [`coords`](CodeletBuilder::coords) and not the name:
    /// traces and performance models are keyed by names.
    fn task(&self, name: impl Into<Cow<'static, str>>) -> NamedTask<'_, Self> {
        NamedTask { target: self, name: kept(name.into()) }
    }

    /// Starts the description of a task that runs `codelet`; options can be set before it is
    /// submitted.
    fn codelet<C: Codelet>(
        &self,
        codelet: C,
        operands: C::Operands,
    ) -> CodeletBuilder<'_, Self, TypedBody<C>> {
        CodeletBuilder { target: self, spec: Spec::of_codelet(codelet, operands) }
    }

    /// Submits a task that runs `codelet`.
    ///
    /// Operands have the types that the codelet names; one that reads `f32` cannot be handed `f64`:
    ///
    /// ```compile_fail,E0308
    /// # use zellige_runtime::{Codelet, Cpu, Operands, Read, Runtime, Submit, TaskContext, TaskError, read};
    /// # struct Sum;
    /// impl Codelet for Sum {
    ///     type Operands = (Read<Vec<f32>>,);
    ///     // ...
    /// #   fn name(&self) -> &'static str {
    /// #       "sum"
    /// #   }
    /// #   fn cpu(
    /// #       &self,
    /// #       _: <Self::Operands as Operands>::Views<'_, Cpu>,
    /// #       _: &mut TaskContext<'_>,
    /// #   ) -> Result<(), TaskError> {
    /// #       Ok(())
    /// #   }
    /// }
    /// # let rt = Runtime::new().unwrap();
    /// let x = rt.register(vec![1.0f64]);
    /// rt.submit(Sum, (read(&x),)).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::Unwritten`], [`Error::Gone`], [`Error::Split`],
    /// [`Error::ReadOnly`], [`Error::NoReduction`]; nothing has been submitted then.
    fn submit<C: Codelet>(&self, codelet: C, operands: C::Operands) -> Result<TaskRef, Error> {
        self.codelet(codelet, operands).submit()
    }
}

impl Submit for TaskContext<'_> {
    fn owner(&self) -> Option<u32> {
        Some(Engine::behind(self.services).id)
    }

    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        Engine::behind(self.services).submit(spec)
    }

    fn announce_step(&self, tasks: usize) {
        Engine::behind(self.services).announce_step(tasks);
    }
}

impl Submit for Recorder {
    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.record(spec)
    }

    fn announce_step(&self, _tasks: usize) {}

    fn change_rights<D: Data>(
        &self,
        handle: &Handle<D>,
        from: AccessRights,
        to: AccessRights,
    ) -> Result<(), AccessRights> {
        Recorder::change_rights(self, handle, from, to)
    }

    fn abandon<D: Data>(&self, _handle: &Handle<D>, _failure: Failure) {
        // Nothing has run, and the recording is abandoned with the panic or error that leads here.
    }
}

/// Returns the name with the lifetime of the process.
#[inline]
fn kept(name: Cow<'static, str>) -> &'static str {
    match name {
        Cow::Borrowed(name) => name,
        Cow::Owned(name) => kept_once(name),
    }
}

fn kept_once(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    names.get(&*name).copied().unwrap_or_else(|| {
        let name: &'static str = name.leak();
        names.insert(name);
        name
    })
}

/// A task with a name; its operands come next.
///
/// ```
/// use zellige_runtime::{NamedTask, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1i32);
/// let named: NamedTask<'_, Runtime> = rt.task("double");
/// named.operands((update(&x),)).cpu(|(x,)| *x *= 2).submit()?;
/// assert_eq!(rt.take(x)?, 2);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct NamedTask<'s, S> {
    target: &'s S,
    name: &'static str,
}

impl<'s, S: Submit> NamedTask<'s, S> {
    /// Names the operands, as a tuple.
    pub fn operands<O: Operands>(self, operands: O) -> TaskBuilder<'s, S, O> {
        TaskBuilder { target: self.target, name: self.name, operands }
    }
}

/// A task with a name and operands; its body comes next.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, TaskBuilder, Update, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1i32);
/// let task: TaskBuilder<'_, Runtime, (Update<i32>,)> = rt.task("double").operands((update(&x),));
/// task.cpu(|(x,)| *x *= 2).submit()?;
/// assert_eq!(rt.take(x)?, 2);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct TaskBuilder<'s, S, O> {
    target: &'s S,
    name: &'static str,
    operands: O,
}

impl<S, O> fmt::Debug for TaskBuilder<'_, S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskBuilder({})", self.name)
    }
}

impl<'s, S: Submit, O: Operands> TaskBuilder<'s, S, O> {
    /// Sets the body for CPU cores: a closure over the tuple of views that returns nothing or a
    /// `Result`.
    ///
    /// Write the closure in the call itself: the compiler cannot infer the argument types of a
    /// closure that was stored in a variable first ("type annotations needed").
    ///
    /// It cannot borrow a value that may be gone when it runs:
    ///
    /// ```compile_fail,E0597
    /// # use zellige_runtime::{Runtime, Submit, update};
    /// # let rt = Runtime::new().unwrap();
    /// # let x = rt.register(1.0f32);
    /// let factor = 2.0f32;
    /// let by_reference = &factor;
    /// rt.task("scale").operands((update(&x),)).cpu(|(x,)| *x *= *by_reference).submit().unwrap();
    /// ```
    ///
    /// and a view cannot outlive the call:
    ///
    /// ```compile_fail,E0521
    /// # use std::sync::Mutex;
    /// # use zellige_runtime::{Runtime, Submit, read};
    /// # let rt = Runtime::new().unwrap();
    /// # let x = rt.register(vec![1.0f32]);
    /// let kept: Mutex<Option<&'static [f32]>> = Mutex::new(None);
    /// rt.task("leak").operands((read(&x),)).cpu(move |(x,)| *kept.lock().unwrap() = Some(x)).submit().unwrap();
    /// ```
    pub fn cpu<R, F>(self, body: F) -> CodeletBuilder<'s, S, Closure<O, Plain<F>>>
    where
        R: Outcome,
        F: for<'v> Fn(O::Views<'v, Cpu>) -> R + Send + Sync + 'static,
    {
        self.with(Plain(body))
    }

    /// Sets the body like [`cpu`](Self::cpu), with a closure that also takes the [`TaskContext`]:
    /// it can submit and wait for tasks, and query its worker and whether it is cancelled.
    ///
    /// ```
    /// use zellige_runtime::{Runtime, Submit, TaskContext, update};
    ///
    /// let rt = Runtime::new()?;
    /// let (x, halves) = (rt.register(0.0f64), [rt.register(1.0f64), rt.register(2.0f64)]);
    /// rt.task("both")
    ///     .operands((update(&x),))
    ///     .cpu_with(move |(x,), cx| {
    ///         for half in &halves {
    ///             cx.task("half").operands((update(half),)).cpu(|(half,)| *half *= 0.5).submit()?;
    ///         }
    ///         *x = cx.worker() as f64;
    ///         cx.wait_children()
    ///     })
    ///     .submit()?;
    /// assert!(rt.take(x)? >= 0.0);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    pub fn cpu_with<R, F>(self, body: F) -> CodeletBuilder<'s, S, Closure<O, WithContext<F>>>
    where
        R: Outcome,
        F: for<'v, 'c, 'x> Fn(O::Views<'v, Cpu>, &'c mut TaskContext<'x>) -> R + Send + Sync + 'static,
    {
        self.with(WithContext(body))
    }

    fn with<F: ClosureFn<O>>(self, body: F) -> CodeletBuilder<'s, S, Closure<O, F>> {
        let spec = Spec { body: Closure::new(body, self.operands), options: Options::named(self.name) };
        CodeletBuilder { target: self.target, spec }
    }
}

/// A closure over views.
pub struct Plain<F>(F);

impl<O, F, R> ClosureFn<O> for Plain<F>
where
    O: Operands,
    R: Outcome,
    F: for<'v> Fn(O::Views<'v, Cpu>) -> R + Send + Sync + 'static,
{
    fn call(&self, views: O::Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        (self.0)(views).into_result()
    }
}

/// A closure over views and the context of the task.
pub struct WithContext<F>(F);

impl<O, F, R> ClosureFn<O> for WithContext<F>
where
    O: Operands,
    R: Outcome,
    F: for<'v, 'c, 'x> Fn(O::Views<'v, Cpu>, &'c mut TaskContext<'x>) -> R + Send + Sync + 'static,
{
    fn call(&self, views: O::Views<'_, Cpu>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        (self.0)(views, cx).into_result()
    }
}

/// A complete task; set its options, then call `submit`.
///
/// ```
/// use std::time::Duration;
/// use zellige_runtime::{Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(2).policy("prio").build()?;
/// let (x, y) = (rt.register(1.0f64), rt.register(1.0f64));
/// let first = rt.task("first").operands((update(&x),)).cpu(|(x,)| *x += 1.0).submit()?;
/// rt.task("second")
///     .operands((update(&y),))
///     .cpu(|(y,)| *y *= 2.0)
///     .priority(5)
///     .after(&first)
///     .on_worker(1)
///     .flops(1.0)
///     .cost(Duration::from_nanos(1))
///     .coords([0, 1])
///     .label("fp64")
///     .submit()?;
/// assert_eq!(rt.take(y)?, 2.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[must_use = "a task does nothing until it is submitted"]
pub struct CodeletBuilder<'s, S, B> {
    target: &'s S,
    spec: Spec<B>,
}

impl<S, B> fmt::Debug for CodeletBuilder<'_, S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodeletBuilder({})", self.spec.options.name)
    }
}

impl<S: Submit, B: Body + 'static> CodeletBuilder<'_, S, B> {
    /// Sets the priority: among ready tasks, a higher one runs first (if the policy uses
    /// priorities). Default 0. While a body waits, the tasks that it has submitted have at least
    /// its priority.
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.options.priority = priority;
        self
    }

    /// Makes the task run after `task`, in addition to the dependencies of its operands.
    pub fn after(mut self, task: &TaskRef) -> Self {
        self.spec.options.after.push(task.clone());
        self
    }

    /// Restricts the task to this worker.
    pub fn on_worker(mut self, worker: usize) -> Self {
        self.spec.options.only.get_or_insert_default().worker = Some(worker);
        self
    }

    /// Restricts the task to workers that drive one of these kinds of device, e.g. `&["cpu"]`.
    pub fn on_kinds(mut self, kinds: &'static [&'static str]) -> Self {
        self.spec.options.only.get_or_insert_default().kinds = Some(kinds);
        self
    }

    /// Sets the number of floating-point operations, for models and traces.
    pub fn flops(mut self, flops: f64) -> Self {
        self.spec.options.info.flops = flops;
        self
    }

    /// Sets the body's expected time on one core.
    pub fn cost(mut self, cost: Duration) -> Self {
        self.spec.options.info.cost = Some(cost);
        self
    }

    /// Sets the position of the task in the algorithm, up to three numbers.
    ///
    /// # Panics
    /// If there are more than three.
    pub fn coords<const N: usize>(mut self, coords: [u32; N]) -> Self {
        let mut all = [u32::MAX; 3];
        all[..N].copy_from_slice(&coords);
        self.spec.options.info.coords = Some(all);
        self
    }

    /// Sets a short label for traces.
    pub fn label(mut self, label: &'static str) -> Self {
        self.spec.options.info.label = label;
        self
    }

    /// Submits the task.
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::Unwritten`], [`Error::Gone`], [`Error::Split`],
    /// [`Error::ReadOnly`], [`Error::NoReduction`]; nothing has been submitted then.
    pub fn submit(self) -> Result<TaskRef, Error> {
        self.target.submit_spec(self.spec)
    }
}
