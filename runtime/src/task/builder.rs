//! How tasks are written down: closures and codelets, with their options, for whatever accepts tasks.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use smallvec::SmallVec;

use super::{Codelet, Cpu, Only, Outcome, TaskContext, TaskInfo, TaskRef};
use crate::data::{Data, Handle, Meta};
use crate::error::{Error, TaskError};
use crate::operand::Operands;

/// A task that has been described and not yet submitted.
pub struct Spec<C: Codelet> {
    pub(crate) codelet: C,
    pub(crate) operands: C::Operands,
    pub(crate) info: TaskInfo,
    pub(crate) priority: i32,
    pub(crate) after: SmallVec<[TaskRef; 2]>,
    /// Where it may run, if not anywhere.
    pub(crate) only: Option<Box<Only>>,
}

/// Whatever accepts tasks: the runtime, a recorder, a scope, the context of a running task. Algorithms are written once,
/// over `S: Submit`.
pub trait Submit: Sized {
    /// Accepts one task.
    #[doc(hidden)]
    fn submit_spec<C: Codelet>(&self, spec: Spec<C>) -> Result<TaskRef, Error>;

    /// Says that the algorithm is about to submit a step of about `tasks` tasks that can run side by side: the window on
    /// submitted tasks grows to let the next step's critical tasks in too.
    fn announce_step(&self, tasks: usize);

    /// Gives a value a handle. `Vec`s, [`Buffer`](crate::Buffer)s and numbers are adopted as they are, without a copy.
    fn register<D: Data>(&self, value: D) -> Handle<D> {
        Handle::new(Some(value))
    }

    /// A handle whose value a task will [`write()`](crate::write()).
    fn register_empty<D: Data>(&self) -> Handle<D> {
        Handle::new(None)
    }

    /// As [`register_empty`](Submit::register_empty), for a value whose format and size are known ahead: where devices have
    /// memory of their own, room for it is made before its writer runs.
    fn register_sized<D: Data>(&self, meta: Meta) -> Handle<D> {
        Handle::sized(meta)
    }

    /// A handle for a value of this meta that does not exist: graphs on it can be recorded, inspected and simulated without
    /// its memory. A task that really runs on it fails.
    fn register_planned<D: Data>(&self, meta: Meta) -> Handle<D> {
        Handle::planned(meta)
    }

    /// Begins a task made of closures: `task("axpy").operands((read(&x), update(&y))).cpu(|(x, y)| ...).submit()`.
    fn task(&self, name: &'static str) -> NamedTask<'_, Self> {
        NamedTask { target: self, name }
    }

    /// Begins a task that runs `codelet`, to be given options before it is submitted.
    fn codelet<C: Codelet>(&self, codelet: C, operands: C::Operands) -> CodeletBuilder<'_, Self, C> {
        let info = codelet.info();
        let only = codelet.is_choosy().then(|| Box::new(Only { choosy: true, ..Only::default() }));
        let spec = Spec { codelet, operands, info, priority: 0, after: SmallVec::new(), only };
        CodeletBuilder { target: self, spec }
    }

    /// Submits a task that runs `codelet`.
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::Unwritten`], [`Error::Gone`], [`Error::NoReduction`]; nothing has been submitted then.
    fn submit<C: Codelet>(&self, codelet: C, operands: C::Operands) -> Result<TaskRef, Error> {
        self.codelet(codelet, operands).submit()
    }
}

/// A task with a name; next come its operands.
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

/// A task with a name and operands; next comes its body.
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
    /// The body for CPU cores: a closure over the tuple of views, returning nothing or a `Result`.
    pub fn cpu<R, F>(self, body: F) -> CodeletBuilder<'s, S, Closure<O, F>>
    where
        R: Outcome,
        F: for<'v> Fn(O::Views<'v, Cpu>) -> R + Send + Sync + 'static,
    {
        let codelet = Closure { name: self.name, body, _operands: PhantomData };
        self.target.codelet(codelet, self.operands)
    }
}

/// A codelet made of a closure.
pub struct Closure<O, F> {
    name: &'static str,
    body: F,
    _operands: PhantomData<fn() -> O>,
}

impl<O, F, R> Codelet for Closure<O, F>
where
    O: Operands,
    R: Outcome,
    F: for<'v> Fn(O::Views<'v, Cpu>) -> R + Send + Sync + 'static,
{
    type Operands = O;

    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu(&self, views: O::Views<'_, Cpu>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        (self.body)(views).into_result()
    }
}

/// A complete task; options first, then `submit`.
#[must_use = "a task does nothing until it is submitted"]
pub struct CodeletBuilder<'s, S, C: Codelet> {
    target: &'s S,
    spec: Spec<C>,
}

impl<S, C: Codelet> fmt::Debug for CodeletBuilder<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodeletBuilder({})", self.spec.codelet.name())
    }
}

impl<S: Submit, C: Codelet> CodeletBuilder<'_, S, C> {
    /// Among ready tasks, higher comes first (where the policy looks at priorities). Default 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Runs after `task`, besides what its operands ask for.
    pub fn after(mut self, task: &TaskRef) -> Self {
        self.spec.after.push(task.clone());
        self
    }

    /// Runs on this worker only.
    pub fn on_worker(mut self, worker: usize) -> Self {
        self.spec.only.get_or_insert_default().worker = Some(worker);
        self
    }

    /// Runs only on workers that drive one of these kinds of device, e.g. `&["cpu"]`.
    pub fn on_kinds(mut self, kinds: &'static [&'static str]) -> Self {
        self.spec.only.get_or_insert_default().kinds = Some(kinds);
        self
    }

    /// Floating-point operations, for models and traces.
    pub fn flops(mut self, flops: f64) -> Self {
        self.spec.info.flops = flops;
        self
    }

    /// The body's expected time on one core.
    pub fn cost(mut self, cost: Duration) -> Self {
        self.spec.info.cost = Some(cost);
        self
    }

    /// Where it stands in the algorithm, up to three numbers.
    ///
    /// # Panics
    /// If there are more than three.
    pub fn coords<const N: usize>(mut self, coords: [u32; N]) -> Self {
        let mut all = [u32::MAX; 3];
        all[..N].copy_from_slice(&coords);
        self.spec.info.coords = Some(all);
        self
    }

    /// A short word for traces.
    pub fn label(mut self, label: &'static str) -> Self {
        self.spec.info.label = label;
        self
    }

    /// Submits the task.
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::Unwritten`], [`Error::Gone`], [`Error::NoReduction`]; nothing has been submitted then.
    pub fn submit(self) -> Result<TaskRef, Error> {
        self.target.submit_spec(self.spec)
    }
}
