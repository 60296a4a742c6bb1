//! Operands: the handles of a task, their access modes, and the views of the body.

mod access;
mod held;
mod inner;
mod kind;
mod list;
mod on_device;
mod scratch;
mod tuple;
pub(crate) mod whole;

pub use access::{Commute, Read, Reduce, Slot, Update, Write, commute, read, reduce, update, write};
pub use inner::Inner;
pub use kind::{Cpu, DeviceKind, OnDevice};
pub use list::{List, MetaList, ReadList, metas, reads, updates, writes};
pub use scratch::{Scratch, scratch};
pub use tuple::Operands;

pub use crate::deps::Mode;

use crate::error::TaskError;
use crate::format::Format;
use crate::task::{Accesses, Apart, Choice, Env, Formats, Metas, Refusal};

/// Request of a deferred selection for one operand; empty by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    format: Option<Format>,
    apart: Option<Apart>,
}

impl Wanted {
    /// Returns the request for the operand with this index.
    pub fn of(choice: &Choice, operand: usize) -> Self {
        Wanted { format: choice.formats.get(operand).copied().flatten(), apart: choice.apart }
    }

    /// Returns the selected format, or `asked`, the one with which the operand was submitted.
    fn or(self, asked: Format) -> Format {
        self.format.unwrap_or(asked)
    }

    /// Returns the request for one element of a list.
    fn of_element(self, element: usize) -> Self {
        match self.apart {
            Some(Apart { elements, format })
                if elements.checked_shr(element as u32).unwrap_or(0) & 1 == 1 =>
            {
                Wanted { format: Some(format), apart: None }
            }
            _ => self,
        }
    }
}

/// One operand of a task. It is implemented by the types that [`read`], [`write()`], [`update`],
/// [`commute`], [`reduce`], [`scratch`], [`reads`], [`updates`], [`writes`] and [`metas`] return,
/// and by `Vec`s of them; it is not meant to be implemented elsewhere.
pub trait Operand: Send + Sync + 'static {
    /// View for bodies on devices of kind `K`.
    type View<'v, K: DeviceKind>;

    /// State that is held while the body runs.
    #[doc(hidden)]
    type Held;

    #[doc(hidden)]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>);

    #[doc(hidden)]
    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal>;

    /// Appends the requested format of each access of the operand.
    #[doc(hidden)]
    fn formats(&self, wanted: Wanted, out: &mut Formats);

    /// Acquires the operand completely, or nothing of it.
    #[doc(hidden)]
    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<Self::Held, Refusal>;

    #[doc(hidden)]
    fn view<'v>(held: &'v mut Self::Held) -> Self::View<'v, Cpu>;

    /// Releases the operand; `ok` if the body succeeded. An error here is an error of the task.
    #[doc(hidden)]
    fn release(held: Self::Held, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError>;

    /// State that is held while a body for devices puts its operations on a stream.
    #[doc(hidden)]
    type DeviceHeld;

    /// Works like `acquire` on a device; the operand has been transferred there.
    #[doc(hidden)]
    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Self::DeviceHeld, Refusal>;

    #[doc(hidden)]
    fn view_on_device<'v>(held: &'v mut Self::DeviceHeld) -> Self::View<'v, OnDevice>;

    /// Works like `release`, once the body has returned.
    #[doc(hidden)]
    fn release_on_device(held: Self::DeviceHeld, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        let _ = (held, env, ok);
        Ok(())
    }
}
