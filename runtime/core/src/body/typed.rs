//! Bodies of codelets and of closures, with their operands.

use std::any::Any;

use super::{Codelet, DeviceBatchFunction, DeviceFunction, DeviceTable};
use crate::device::Stream;
use crate::error::{Cause, TaskError, caught};
use crate::operand::{Cpu, Mode, Operands};
use crate::task::{
    Accesses, Body, Busy, Call, Choice, DeviceInfo, Ended, Env, Formats, Member, Metas, Payload, Ran,
    Refusal, Resource, Site, TaskContext,
};
use crate::value::Meta;

/// A codelet of type `C` and its operands.
pub struct TypedBody<C: Codelet>(Payload<(C, C::Operands)>);

impl<C: Codelet> TypedBody<C> {
    pub(crate) fn new(codelet: C, operands: C::Operands) -> Self {
        TypedBody(Payload::new((codelet, operands)))
    }

    pub(super) fn payload(&self) -> Option<&(C, C::Operands)> {
        self.0.get()
    }

    fn erased(&self) -> &dyn Body {
        self
    }

    /// Returns the deferred selection, or an empty one.
    pub(super) fn choice<'e>(
        codelet: &C,
        operands: &'e C::Operands,
        env: &mut Env<'e>,
    ) -> Result<Choice, Refusal> {
        let panicked =
            |message: String| Refusal::Failed(format!("the deferred selection panicked: {message}").into());
        if let Some(placement) = env.placement() {
            env.is_called(placement.choice.label, |accesses| operands.declare(accesses));
            return Ok(placement.choice);
        }
        if !caught(|| codelet.selects()).map_err(panicked)? {
            env.is_called("", |accesses| operands.declare(accesses));
            return Ok(Choice::default());
        }
        let mut metas = Metas::new();
        operands.metas(env, &mut metas)?;
        env.rewind();
        let choice = caught(|| codelet.select(&metas)).map_err(panicked)?;
        env.is_called(choice.label, |accesses| operands.declare(accesses));
        Ok(choice)
    }

    /// Returns the index of the implementation that is to run here; evaluated anew for each
    /// execution.
    pub(super) fn implementation(
        codelet: &C,
        operands: &C::Operands,
        env: &mut Env<'_>,
    ) -> Result<usize, TaskError> {
        if C::IMPLEMENTATIONS.len() < 2 {
            return Ok(0);
        }
        let constrained = env.header.only.as_ref().is_some_and(|only| only.constrained);
        let picked = env.pick(
            |accesses| operands.declare(accesses),
            |device, i| !constrained || can_execute_with(codelet, i, device),
        );
        picked.ok_or_else(|| {
            let kind = env.runner.services.device(env.worker()).kind.to_string();
            format!("none of its implementations can run on {kind}").into()
        })
    }

    /// Returns the functions for the stream's device.
    pub(super) fn function(
        codelet: &C,
        stream: &dyn Stream,
    ) -> (DeviceFunction<C>, Option<DeviceBatchFunction<C>>) {
        let missing: DeviceFunction<C> = |codelet, _, cx| {
            let arch = cx.device().stream().memory().arch();
            Err(format!("{} names no function for {arch:?} any more", codelet.name()).into())
        };
        DeviceTable::of(codelet, Some(stream.memory().arch())).found.unwrap_or((missing, None))
    }

    /// Launches the body on a device's stream.
    fn launch<'e>(&'e self, env: &mut Env<'e>, stream: &dyn Stream) -> Ran {
        let (codelet, operands) = self.payload().expect("a task runs once");
        let acquired = Self::choice(codelet, operands, env).and_then(|choice| {
            let implementation = Self::implementation(codelet, operands, env).map_err(Refusal::Failed)?;
            let held = operands.acquire_on_device(env)?;
            Ok((held, call_of::<C>(&choice, implementation, 1)))
        });
        let (mut held, call) = match acquired {
            Ok(acquired) => acquired,
            Err(refusal) => return self.erased().refused_on_device(env, refusal),
        };
        let function = Self::function(codelet, stream);
        let result = env.call(call, |cx| function.0(codelet, C::Operands::views_on_device(&mut held), cx));
        self.launched(env, held, result)
    }

    /// Releases the operands once the body has put its operations on a device's stream, with this
    /// result.
    pub(super) fn launched(
        &self,
        env: &mut Env<'_>,
        held: <C::Operands as Operands>::DeviceHeld,
        result: Result<(), Cause>,
    ) -> Ran {
        if let (Err(cause), Some(stream)) = (&result, env.stream())
            && stream.is_loss(cause)
        {
            return Ran::Done;
        }
        self.erased().end(env, result, |env, ok| C::Operands::release_on_device(held, env, ok))
    }

    /// Releases the operands once the body has been called with this result.
    #[inline]
    pub(super) fn end(
        &self,
        env: &mut Env<'_>,
        held: <C::Operands as Operands>::Held,
        result: Result<(), Cause>,
    ) -> Ran {
        self.erased().end(env, result, |env, ok| C::Operands::release(held, env, ok))
    }
}

/// Returns the parameters for `tasks` tasks with a codelet of type `C`.
pub(super) fn call_of<C: Codelet>(choice: &Choice, implementation: usize, tasks: usize) -> Call {
    Call { variant: choice.variant, implementation, tasks: tasks as u32, subnormals: C::SUBNORMALS }
}

/// Acquires all operands, or none. If one has to be received from another process, all are
/// requested at once.
pub(super) fn acquire<'e, O: Operands>(
    operands: &'e O,
    env: &mut Env<'e>,
    choice: &Choice,
) -> Result<O::Held, Refusal> {
    let acquired = operands.acquire(env, choice);
    if let Err(Refusal::Busy(Busy { resource: Resource::Replica(_), .. })) = &acquired {
        request_all(operands, env, choice);
    }
    acquired
}

#[cold]
fn request_all<O: Operands>(operands: &O, env: &mut Env<'_>, choice: &Choice) {
    let (mut accesses, mut formats) = (Accesses::new(), Formats::new());
    operands.declare(&mut accesses);
    operands.formats(choice, &mut formats);
    for (at, (access, &format)) in accesses.iter().zip(&formats).enumerate() {
        if access.mode == Mode::Read && !access.look {
            let handle = env.bound(at).unwrap_or(access.handle);
            env.wake(handle.is_wanted(env.runner.services, format));
        }
    }
}

fn can_execute_with<C: Codelet>(codelet: &C, implementation: usize, device: &DeviceInfo<'_>) -> bool {
    caught(|| codelet.can_execute_with(implementation, device)).unwrap_or(false)
}

impl<C: Codelet> Body for TypedBody<C> {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        if let Some(stream) = env.stream() {
            return self.launch(env, stream);
        }
        let (codelet, operands) = self.payload().expect("a task runs once");
        let acquired = Self::choice(codelet, operands, env).and_then(|choice| {
            let implementation = Self::implementation(codelet, operands, env).map_err(Refusal::Failed)?;
            let held = acquire(operands, env, &choice)?;
            Ok((held, call_of::<C>(&choice, implementation, 1)))
        });
        let (mut held, call) = match acquired {
            Ok(acquired) => acquired,
            Err(refusal) => return self.erased().refused(env, refusal),
        };
        let result = env.call(call, |cx| codelet.cpu(C::Operands::views(&mut held), cx));
        self.end(env, held, result)
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        if let Some((_, operands)) = self.payload() {
            operands.declare(out);
        }
    }

    fn selects(&self) -> bool {
        self.payload().is_some_and(|(codelet, _)| caught(|| codelet.selects()).unwrap_or(true))
    }

    fn can_execute(&self, device: &DeviceInfo<'_>) -> bool {
        let Some((codelet, _)) = self.payload() else { return false };
        let can = caught(|| codelet.can_execute(device)).unwrap_or(false);
        let implementations = C::IMPLEMENTATIONS.len();
        can && (implementations < 2 || (0..implementations).any(|i| can_execute_with(codelet, i, device)))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn run_batch(&self, members: &[Member<'_>], site: &mut Site<'_>) -> Vec<(Ran, bool)> {
        super::batch::run::<C>(members, site)
    }

    fn launch_batch(&self, members: &[Member<'_>], site: &mut Site<'_>) -> Vec<Ended> {
        super::launch::run::<C>(members, site)
    }

    fn can_execute_with(&self, implementation: usize, device: &DeviceInfo<'_>) -> bool {
        self.payload().is_some_and(|(codelet, _)| can_execute_with(codelet, implementation, device))
    }

    fn plan(&self, metas: &[Meta], out: &mut Formats) -> Choice {
        let (codelet, operands) = self.payload().expect("a task that has not completed");
        let choice = if codelet.selects() { codelet.select(metas) } else { Choice::default() };
        operands.formats(&choice, out);
        choice
    }

    fn clear(&self) {
        self.0.clear();
    }
}

/// Function of a closure task.
pub(crate) trait ClosureFn<O: Operands>: Send + Sync + 'static {
    /// Calls the closure with the views of its operands.
    fn call(&self, views: O::Views<'_, Cpu>, cx: &mut TaskContext<'_>) -> Result<(), TaskError>;
}

/// A closure and its operands. All code but the call itself is compiled once for operands of type
/// `O`, not for each closure.
pub struct Closure<O, F>(Payload<(F, O)>);

impl<O: Operands, F: ClosureFn<O>> Closure<O, F> {
    pub(crate) fn new(body: F, operands: O) -> Self {
        Closure(Payload::new((body, operands)))
    }
}

impl<O: Operands, F: ClosureFn<O>> Body for Closure<O, F> {
    fn run<'e>(&'e self, env: &mut Env<'e>) -> Ran {
        let (body, operands) = self.0.get().expect("a task runs once");
        run_closure(self, operands, body, env)
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        if let Some((_, operands)) = self.0.get() {
            declare_operands(operands, out);
        }
    }

    fn plan(&self, _metas: &[Meta], out: &mut Formats) -> Choice {
        let (_, operands) = self.0.get().expect("a task that has not completed");
        plan_closure(operands, out)
    }

    fn clear(&self) {
        self.0.clear();
    }
}

#[inline(never)]
fn declare_operands<'a, O: Operands>(operands: &'a O, out: &mut Accesses<'a>) {
    operands.declare(out);
}

#[inline(never)]
fn plan_closure<O: Operands>(operands: &O, out: &mut Formats) -> Choice {
    let choice = Choice::default();
    operands.formats(&choice, out);
    choice
}

/// Runs the closure of a body, which has no deferred selection and one implementation.
#[inline(never)]
fn run_closure<'e, O: Operands>(
    whole: &'e dyn Body,
    operands: &'e O,
    body: &'e dyn ClosureFn<O>,
    env: &mut Env<'e>,
) -> Ran {
    let choice = env.placement().map_or(&Choice::NONE, |placement| &placement.choice);
    env.is_called(choice.label, |accesses| operands.declare(accesses));
    let mut held = match acquire(operands, env, choice) {
        Ok(held) => held,
        Err(refusal) => return whole.refused(env, refusal),
    };
    let call = Call { variant: choice.variant, implementation: 0, tasks: 1, subnormals: None };
    let result = env.call(call, |cx| body.call(O::views(&mut held), cx));
    whole.end(env, result, |env, ok| O::release(held, env, ok))
}
