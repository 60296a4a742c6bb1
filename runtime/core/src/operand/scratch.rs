//! Private workspace of a task while it runs.

use std::marker::PhantomData;

use super::{Operand, Wanted};

use crate::buffer::{Buffer, Element};
use crate::device::DeviceScratch;
use crate::error::TaskError;
use crate::operand::DeviceKind;
use crate::task::{Accesses, Formats, Metas};
use crate::task::{Env, Refusal};
use crate::value::MemorySource;

/// Workspace operand; see [`scratch`].
#[derive(Debug)]
pub struct Scratch<T> {
    len: usize,
    on_host: bool,
    _type: PhantomData<fn() -> T>,
}

/// Creates an operand of `len` elements of workspace, kept per worker between tasks: the body sees
/// `&mut [T]` with unspecified content.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, scratch, update};
///
/// let rt = Runtime::new()?;
/// let x = rt.register(vec![3.0f64, 1.0, 2.0]);
/// rt.task("reverse")
///     .operands((update(&x), scratch::<f64>(3)))
///     .cpu(|(x, space)| {
///         space.copy_from_slice(x);
///         x.iter_mut().zip(space.iter().rev()).for_each(|(to, from)| *to = *from);
///     })
///     .submit()?;
/// assert_eq!(rt.take(x)?, [2.0, 1.0, 3.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub fn scratch<T: Element>(len: usize) -> Scratch<T> {
    Scratch { len, on_host: false, _type: PhantomData }
}

impl<T> Scratch<T> {
    /// Restricts the workspace to CPU bodies: a body for devices has other needs, and uses its
    /// context ([`DeviceContext::scratch`](crate::codelet::DeviceContext::scratch)).
    #[must_use]
    pub fn on_host(mut self) -> Self {
        self.on_host = true;
        self
    }
}

/// Workspace borrowed from the worker.
pub struct HeldScratch<T> {
    words: Buffer<u64>,
    len: usize,
    _type: PhantomData<fn() -> T>,
}

impl<T: Element> Operand for Scratch<T> {
    type View<'v, K: DeviceKind> = K::Scratch<'v, T>;
    type Held = HeldScratch<T>;

    fn declare<'a>(&'a self, _out: &mut Accesses<'a>) {}

    fn formats(&self, _wanted: Wanted, _out: &mut Formats) {}

    fn metas<'e>(&'e self, _env: &mut Env<'e>, _out: &mut Metas) -> Result<(), Refusal> {
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<HeldScratch<T>, Refusal> {
        let bytes = self.len.checked_mul(size_of::<T>()).ok_or_else(|| {
            Refusal::Failed(
                format!("{} elements of working space do not fit the address space", self.len).into(),
            )
        })?;
        let words = env.borrow_scratch(bytes.div_ceil(size_of::<u64>()));
        Ok(HeldScratch { words, len: self.len, _type: PhantomData })
    }

    fn view(held: &mut HeldScratch<T>) -> &mut [T] {
        let used = held.len * size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytemuck::cast_slice_mut::<u64, u8>(&mut held.words)[..used])
    }

    fn release(held: HeldScratch<T>, env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        env.return_scratch(held.words);
        Ok(())
    }

    type DeviceHeld = DeviceScratch;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<DeviceScratch, Refusal> {
        let len = if self.on_host { 0 } else { self.len as u64 };
        let bytes = len.saturating_mul(size_of::<T>() as u64);
        let stream = env.stream().expect("a body that is launched has a stream");
        let source: &dyn MemorySource = env.runner.services;
        let found = source.find(env.worker(), || stream.scratch(bytes));
        found.map_err(|error| Refusal::Failed(error.into()))
    }

    fn view_on_device(held: &mut DeviceScratch) -> DeviceScratch {
        *held
    }
}
