//! Operands that move a value from process to process: the value itself and not its view, whoever may name its handle.

use std::convert::Infallible;
use std::sync::Arc;

use super::held::{HeldRef, hold};
use super::{Accesses, Declared, Formats, Inner, Metas, Mode, Operand, Wanted, Write, write};
use crate::data::{Data, Handle, HandleCore, Meta};
use crate::error::TaskError;
use crate::format::Format;
use crate::task::{DeviceKind, Env, Refusal};

/// Reads a value on the host as a whole.
pub struct Whole<D: Data> {
    core: Arc<HandleCore<D>>,
    format: Format,
    mode: Mode,
}

/// The body sees `&D`, in this format.
pub fn read_whole<D: Data>(handle: &Handle<D>, format: Format) -> Whole<D> {
    Whole { core: Arc::clone(handle.core()), format, mode: Mode::Read }
}

/// Of a task that only simulations run: it leaves a value in this format.
pub fn arrives_as<D: Data>(handle: &Handle<D>, format: Format) -> Whole<D> {
    Whole { core: Arc::clone(handle.core()), format, mode: Mode::Write }
}

/// As [`write()`](crate::write()), also for views and for handles that are split.
pub fn write_whole<D: Data>(handle: &Handle<D>) -> Inner<Write<D>> {
    Inner::new(write(handle))
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
