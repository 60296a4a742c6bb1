//! Operands that move a value between processes: the value itself and not its view, regardless of
//! the access rights of its handle.

use std::convert::Infallible;
use std::sync::Arc;

use super::held::{HeldMut, HeldRef, hold};
use super::{Inner, Mode, Operand, Wanted, Write, write};
use crate::error::TaskError;
use crate::format::Format;
use crate::operand::DeviceKind;
use crate::task::{Accesses, Declared, Elsewhere, Env, Formats, Handle, HandleCore, Metas, Refusal};
use crate::value::{Data, Meta};

/// Operand that accesses a value on the host as a whole.
pub struct Whole<D: Data> {
    core: Arc<HandleCore<D>>,
    format: Format,
    mode: Mode,
}

/// Creates an operand that is read as `&D` in this format.
pub fn read_whole<D: Data>(handle: &Handle<D>, format: Format) -> Whole<D> {
    Whole { core: Arc::clone(handle.core()), format, mode: Mode::Read }
}

/// Creates an operand of a task that only simulations run: it leaves a value in this format.
pub fn arrives_as<D: Data>(handle: &Handle<D>, format: Format) -> Whole<D> {
    Whole { core: Arc::clone(handle.core()), format, mode: Mode::Write }
}

/// Creates an operand like [`write()`](crate::write()), also for views and for handles that are
/// split.
pub fn write_whole<D: Data>(handle: &Handle<D>) -> Inner<Write<D>> {
    Inner::new(write(handle))
}

/// Counter of bytes that a task moves in addition to its operands.
pub struct Moved;

/// Creates an operand with which the body counts the bytes that it moves, for traces.
pub fn moved() -> Moved {
    Moved
}

impl Operand for Moved {
    type View<'v, K: DeviceKind> = &'v mut usize;
    type Held = usize;

    fn declare<'a>(&'a self, _out: &mut Accesses<'a>) {}

    fn metas<'e>(&'e self, _env: &mut Env<'e>, _out: &mut Metas) -> Result<(), Refusal> {
        Ok(())
    }

    fn formats(&self, _wanted: Wanted, _out: &mut Formats) {}

    fn acquire<'e>(&'e self, _env: &mut Env<'e>, _wanted: Wanted) -> Result<usize, Refusal> {
        Ok(0)
    }

    fn view(bytes: &mut usize) -> &mut usize {
        bytes
    }

    fn release(bytes: usize, env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        env.count_bytes(bytes);
        Ok(())
    }

    type DeviceHeld = Infallible;

    fn acquire_on_device<'e>(&'e self, _env: &mut Env<'e>) -> Result<Infallible, Refusal> {
        Err(Refusal::Failed("values are sent and received on the host".into()))
    }

    fn view_on_device(held: &mut Infallible) -> &mut usize {
        match *held {}
    }
}

/// Operand that records that a value is in another process.
pub struct WriteElsewhere<D: Data> {
    core: Arc<HandleCore<D>>,
}

/// Creates an operand into which the body puts the location of the value, on the host of a runtime
/// without other memory nodes.
pub fn write_elsewhere<D: Data>(handle: &Handle<D>) -> WriteElsewhere<D> {
    WriteElsewhere { core: Arc::clone(handle.core()) }
}

impl<D: Data> Operand for WriteElsewhere<D> {
    type View<'v, K: DeviceKind> = &'v mut Option<Elsewhere<D>>;
    type Held = (HeldMut<D>, Option<Elsewhere<D>>);

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push(Declared { inner: true, ..(&self.core, Mode::Write).into() });
    }

    fn metas<'e>(&'e self, _env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        out.push(Meta::default());
        Ok(())
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.push(Format::NATIVE);
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<Self::Held, Refusal> {
        let core = env.resolve(&self.core);
        core.drop_replicas();
        let mut held = HeldMut::new(core, env)?;
        *held.value() = None;
        Ok((held, None))
    }

    fn view((_, elsewhere): &mut Self::Held) -> &mut Option<Elsewhere<D>> {
        elsewhere
    }

    fn release((held, elsewhere): Self::Held, _env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        if !ok {
            return Ok(());
        }
        let core = held.core();
        let elsewhere = elsewhere.ok_or_else(|| format!("nobody says where {} is", core.base.name()))?;
        core.is_elsewhere(elsewhere);
        core.base.clear_poison();
        Ok(())
    }

    type DeviceHeld = Infallible;

    fn acquire_on_device<'e>(&'e self, _env: &mut Env<'e>) -> Result<Infallible, Refusal> {
        Err(Refusal::Failed("values are received on the host".into()))
    }

    fn view_on_device(held: &mut Infallible) -> &mut Option<Elsewhere<D>> {
        match *held {}
    }
}

impl<D: Data> Operand for Whole<D> {
    type View<'v, K: DeviceKind> = &'v D;
    type Held = HeldRef<D>;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push(Declared { inner: true, ..(&self.core, self.mode).into() });
    }

    fn metas<'e>(&'e self, _env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        out.push(Meta::default());
        Ok(())
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.push(self.format);
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<HeldRef<D>, Refusal> {
        if self.mode != Mode::Read {
            return Err(Refusal::Failed("only a simulation runs this task".into()));
        }
        let core = env.resolve(&self.core);
        hold(core, self.format, env)
    }

    fn view(held: &mut HeldRef<D>) -> &D {
        held.value()
    }

    fn release(_held: HeldRef<D>, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type DeviceHeld = Infallible;

    fn acquire_on_device<'e>(&'e self, _env: &mut Env<'e>) -> Result<Infallible, Refusal> {
        Err(Refusal::Failed("values are sent from the host".into()))
    }

    fn view_on_device(held: &mut Infallible) -> &D {
        match *held {}
    }
}
