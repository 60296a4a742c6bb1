//! Operands: what a task names, how it accesses it, and what its body sees.

mod access;
mod device_context;
mod device_views;
mod held;
mod inner;
mod list;
mod on_device;
mod scratch;
mod tuple;
pub(crate) mod whole;

pub use access::{Commute, Read, Reduce, Slot, Update, Write, commute, read, reduce, update, write};
pub use device_context::DeviceContext;
pub(crate) use device_context::Pending;
pub use device_views::{DeviceList, DeviceMut, DeviceRef, DeviceSlot, NewValue, OnDevice};
pub use inner::Inner;
pub use list::{List, MetaList, ReadList, metas, reads, updates, writes};
pub use scratch::{Scratch, scratch};
pub use tuple::Operands;

pub use crate::deps::Mode;

use smallvec::SmallVec;

use std::sync::Arc;

use crate::data::{AnyHandle, Data, HandleBase, HandleCore, Meta};
use crate::error::TaskError;
use crate::format::Format;
use crate::task::{Apart, Choice, Cpu, DeviceKind, Env, Refusal};

/// One access, as dependency analysis sees it.
pub struct Declared<'a> {
    pub(crate) base: &'a HandleBase,
    pub(crate) handle: &'a dyn AnyHandle,
    pub(crate) mode: Mode,
    /// An access of the tasks that split a handle or join its parts: others are refused meanwhile.
    pub(crate) inner: bool,
    /// Only what is known of the value is read: its bytes stay where they are.
    pub(crate) look: bool,
}

impl<'a, D: Data> From<(&'a Arc<HandleCore<D>>, Mode)> for Declared<'a> {
    fn from((core, mode): (&'a Arc<HandleCore<D>>, Mode)) -> Self {
        Declared { base: &core.base, handle: &**core, mode, inner: false, look: false }
    }
}

impl<'a> From<(&'a Arc<dyn AnyHandle>, Mode)> for Declared<'a> {
    fn from((handle, mode): (&'a Arc<dyn AnyHandle>, Mode)) -> Self {
        Declared { base: handle.base(), handle: &**handle, mode, inner: false, look: false }
    }
}

/// The accesses of one task.
pub type Accesses<'a> = SmallVec<[Declared<'a>; 4]>;
/// The format that each access of one task asks for.
pub type Formats = SmallVec<[Format; 4]>;
/// What a deferred selection wants of one operand; nothing unless it says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    format: Option<Format>,
    apart: Option<Apart>,
}

impl Wanted {
    /// Of the operand at this place.
    pub fn of(choice: &Choice, operand: usize) -> Self {
        Wanted { format: choice.formats.get(operand).copied().flatten(), apart: choice.apart }
    }

    /// The format, of an operand that was submitted with `asked`.
    fn or(self, asked: Format) -> Format {
        self.format.unwrap_or(asked)
    }

    /// The same of one element of a list.
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

/// The metas of one task's operands.
pub type Metas = SmallVec<[Meta; 4]>;

/// One operand of a task. Implemented by the types that [`read`], [`write()`], [`update`],
/// [`commute`], [`reduce`], [`scratch`], [`reads`], [`updates`], [`writes`] and [`metas`] return,
/// and by `Vec`s of them; not meant to be implemented elsewhere.
pub trait Operand: Send + Sync + 'static {
    /// What a body for devices of kind `K` sees.
    type View<'v, K: DeviceKind>;

    /// What is held while the body runs.
    #[doc(hidden)]
    type Held;

    #[doc(hidden)]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>);

    #[doc(hidden)]
    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal>;

    /// The format in which each access of the operand wants its value.
    #[doc(hidden)]
    fn formats(&self, wanted: Wanted, out: &mut Formats);

    /// Gets hold of the operand, or of nothing.
    #[doc(hidden)]
    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<Self::Held, Refusal>;

    #[doc(hidden)]
    fn view<'v>(held: &'v mut Self::Held) -> Self::View<'v, Cpu>;

    /// Gives the operand back; `ok` if the body succeeded. An error here is an error of the task.
    #[doc(hidden)]
    fn release(held: Self::Held, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError>;

    /// What is held while a body for devices puts its operations on a stream.
    #[doc(hidden)]
    type DeviceHeld;

    /// As `acquire`, on a device; the operand has been brought there.
    #[doc(hidden)]
    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Self::DeviceHeld, Refusal>;

    #[doc(hidden)]
    fn view_on_device<'v>(held: &'v mut Self::DeviceHeld) -> Self::View<'v, OnDevice>;

    /// As `release`, once the body has returned.
    #[doc(hidden)]
    fn release_on_device(held: Self::DeviceHeld, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        let _ = (held, env, ok);
        Ok(())
    }
}
