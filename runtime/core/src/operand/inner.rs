//! Operands of internal tasks that split, join, send and receive: they may name handles that other
//! tasks may not.

use super::{Operand, Wanted};

use crate::error::TaskError;
use crate::operand::DeviceKind;
use crate::task::{Accesses, Formats, Metas};
use crate::task::{Env, Refusal};

/// An operand whose access is allowed even if its handle is split, joined or read-only.
pub struct Inner<O>(O);

impl<O> Inner<O> {
    pub(crate) fn new(operand: O) -> Self {
        Inner(operand)
    }
}

impl<O: Operand> Operand for Inner<O> {
    type View<'v, K: DeviceKind> = O::View<'v, K>;
    type Held = O::Held;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        let first = out.len();
        self.0.declare(out);
        for access in &mut out[first..] {
            access.inner = true;
        }
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        self.0.metas(env, out)
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        self.0.formats(wanted, out);
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<O::Held, Refusal> {
        self.0.acquire(env, wanted)
    }

    fn view<'v>(held: &'v mut O::Held) -> O::View<'v, super::Cpu> {
        O::view(held)
    }

    fn release(held: O::Held, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        O::release(held, env, ok)
    }

    type DeviceHeld = O::DeviceHeld;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<O::DeviceHeld, Refusal> {
        self.0.acquire_on_device(env)
    }

    fn view_on_device(held: &mut O::DeviceHeld) -> O::View<'_, crate::operand::OnDevice> {
        O::view_on_device(held)
    }

    fn release_on_device(held: O::DeviceHeld, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        O::release_on_device(held, env, ok)
    }
}
