//! The codelets that copy parts out of their parent and back.

use std::marker::PhantomData;

use zellige_model::TaskInfo;

use super::{Region, Splittable};
use crate::body::Codelet;
use crate::error::TaskError;
use crate::operand::{Cpu, Inner, Operand, Operands, Read, Slot, Update, Write, read, update, write};
use crate::task::{Handle, TaskContext};
use crate::value::Data;

pub(super) fn inner_read<D: Data>(handle: &Handle<D>) -> Inner<Read<D>> {
    Inner::new(read(handle))
}

pub(super) fn inner_write<D: Data>(handle: &Handle<D>) -> Inner<Write<D>> {
    Inner::new(write(handle))
}

pub(super) fn inner_update<D: Data>(handle: &Handle<D>) -> Inner<Update<D>> {
    Inner::new(update(handle))
}

/// Returns the information on the copy of one part for traces and models.
fn info<R: Region>(region: &R, part: u32) -> TaskInfo {
    let size = u32::try_from(region.size()).unwrap_or(u32::MAX);
    TaskInfo { coords: Some([part, u32::MAX, u32::MAX]), shape: [size, 0, 0], ..TaskInfo::default() }
}

/// Copies a part out of its parent, which is named by an operand `P`.
pub(super) struct Cut<D, R, P> {
    region: R,
    part: u32,
    _types: PhantomData<fn() -> (D, P)>,
}

impl<D, R: Region, P> Cut<D, R, P> {
    pub(super) fn new(region: &R, part: usize) -> Self {
        Cut { region: region.clone(), part: part as u32, _types: PhantomData }
    }
}

impl<D, R, P> Codelet for Cut<D, R, P>
where
    D: Splittable<R>,
    R: Region,
    P: for<'v> Operand<View<'v, Cpu> = D::Ref<'v>>,
{
    type Operands = (P, Inner<Write<D::Part>>);

    fn name(&self) -> &'static str {
        "split"
    }

    fn info(&self) -> TaskInfo {
        info(&self.region, self.part)
    }

    fn cpu(
        &self,
        (parent, part): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let mut part: Slot<'_, D::Part> = part;
        D::part(parent, &self.region, &mut part)
    }
}

/// Copies a part back.
pub(super) struct Join<D, R> {
    region: R,
    part: u32,
    _type: PhantomData<fn() -> D>,
}

impl<D, R: Region> Join<D, R> {
    pub(super) fn new(region: &R, part: usize) -> Self {
        Join { region: region.clone(), part: part as u32, _type: PhantomData }
    }
}

impl<D: Splittable<R>, R: Region> Codelet for Join<D, R> {
    /// Updates in order, although commuting updates could run in any order: a later task of the
    /// user that commutes on the parent must not run between them.
    type Operands = (Inner<Read<D::Part>>, Inner<Update<D>>);

    fn name(&self) -> &'static str {
        "join"
    }

    fn info(&self) -> TaskInfo {
        info(&self.region, self.part)
    }

    fn cpu(
        &self,
        (part, parent): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        D::put(parent, &self.region, part)
    }
}

/// Leaves the parent without a value: its parts cannot come back.
pub(super) struct Abandon<D> {
    why: String,
    _type: PhantomData<fn() -> D>,
}

impl<D> Abandon<D> {
    pub(super) fn new(why: String) -> Self {
        Abandon { why, _type: PhantomData }
    }
}

impl<D: Data> Codelet for Abandon<D> {
    type Operands = (Inner<Update<D>>,);

    fn name(&self) -> &'static str {
        "join"
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Err(self.why.clone().into())
    }
}
