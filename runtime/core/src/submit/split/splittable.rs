//! Data types that can be split.

use super::Region;
use super::region::check_inside;
use crate::buffer::{Buffer, Element};
use crate::error::TaskError;
use crate::operand::Slot;
use crate::value::{BorrowedSlice, Data, Meta, SliceMut, SliceRef};

/// A data type whose values can be split by regions of type `R`.
pub trait Splittable<R: Region>: Data {
    /// Data type of the parts.
    type Part: Data;

    /// Returns the number of elements of a value with this meta; `None` if the meta does not
    /// determine it.
    fn length(meta: &Meta) -> Option<usize>;

    /// Returns format and size of the part of this region, known before the part exists.
    fn part_meta(region: &R) -> Meta;

    /// Copies a part out. The slot may hold an older part, whose memory can be reused.
    ///
    /// # Errors
    /// If the region is not inside the value.
    fn part(from: Self::Ref<'_>, region: &R, part: &mut Slot<'_, Self::Part>) -> Result<(), TaskError>;

    /// Copies a part back.
    ///
    /// # Errors
    /// If the region is not inside the value, or the part has another size by now.
    fn put(into: Self::Mut<'_>, region: &R, part: <Self::Part as Data>::Ref<'_>) -> Result<(), TaskError>;
}

/// Returns the number of elements of type `T` in this many bytes.
fn length<T>(meta: &Meta) -> Option<usize> {
    meta.bytes.checked_div(size_of::<T>())
}

fn part_meta<T, R: Region>(region: &R) -> Meta {
    Meta { bytes: region.size().saturating_mul(size_of::<T>()), ..Meta::default() }
}

/// Copies the region's elements consecutively into `to`, which has the same number of elements.
fn gather<T: Copy, R: Region>(from: &[T], region: &R, mut to: &mut [T]) {
    for run in region.runs() {
        let (now, later) = to.split_at_mut(run.len());
        now.copy_from_slice(&from[run]);
        to = later;
    }
}

/// Inverse of [`gather`], after checking both sides: any task may have replaced the values.
fn scatter<T: Copy, R: Region>(mut from: &[T], region: &R, into: &mut [T]) -> Result<(), TaskError> {
    check_inside(region, into.len())?;
    if from.len() != region.size() {
        return Err(
            format!("the part {region:?} has {} elements by now, not {}", from.len(), region.size()).into()
        );
    }
    for run in region.runs() {
        let (now, later) = from.split_at(run.len());
        into[run].copy_from_slice(now);
        from = later;
    }
    Ok(())
}

/// Gathers into the slot's old memory if it has the right size; returns false if not.
fn gather_in_place<P, T, R>(from: &[T], region: &R, part: &mut Slot<'_, P>) -> bool
where
    P: for<'v> Data<Mut<'v> = &'v mut [T]>,
    T: Copy,
    R: Region,
{
    let Some(old) = part.old().filter(|old| old.len() == region.size()) else { return false };
    gather(from, region, old);
    true
}

fn part_of_buffer<T: Element, R: Region>(
    from: &[T],
    region: &R,
    part: &mut Slot<'_, Buffer<T>>,
) -> Result<(), TaskError> {
    check_inside(region, from.len())?;
    if !gather_in_place(from, region, part) {
        let mut new = Buffer::zeroed(region.size());
        gather(from, region, &mut new);
        part.put(new);
    }
    Ok(())
}

impl<T: Copy + Send + Sync + 'static, R: Region> Splittable<R> for Vec<T> {
    type Part = Vec<T>;

    fn length(meta: &Meta) -> Option<usize> {
        length::<T>(meta)
    }

    fn part_meta(region: &R) -> Meta {
        part_meta::<T, R>(region)
    }

    fn part(from: &[T], region: &R, part: &mut Slot<'_, Vec<T>>) -> Result<(), TaskError> {
        check_inside(region, from.len())?;
        if !gather_in_place(from, region, part) {
            let mut new = Vec::with_capacity(region.size());
            region.runs().for_each(|run| new.extend_from_slice(&from[run]));
            part.put(new);
        }
        Ok(())
    }

    fn put(into: &mut [T], region: &R, part: &[T]) -> Result<(), TaskError> {
        scatter(part, region, into)
    }
}

impl<T: Element, R: Region> Splittable<R> for Buffer<T> {
    type Part = Buffer<T>;

    fn length(meta: &Meta) -> Option<usize> {
        length::<T>(meta)
    }

    fn part_meta(region: &R) -> Meta {
        part_meta::<T, R>(region)
    }

    fn part(from: &[T], region: &R, part: &mut Slot<'_, Buffer<T>>) -> Result<(), TaskError> {
        part_of_buffer(from, region, part)
    }

    fn put(into: &mut [T], region: &R, part: &[T]) -> Result<(), TaskError> {
        scatter(part, region, into)
    }
}

/// Regions refer to the whole slice, padding included. The parts are copies that the runtime owns,
/// which can be transferred to devices.
impl<T: Element, R: Region> Splittable<R> for BorrowedSlice<T> {
    type Part = Buffer<T>;

    fn length(meta: &Meta) -> Option<usize> {
        length::<T>(meta)
    }

    fn part_meta(region: &R) -> Meta {
        part_meta::<T, R>(region)
    }

    fn part(from: SliceRef<'_, T>, region: &R, part: &mut Slot<'_, Buffer<T>>) -> Result<(), TaskError> {
        part_of_buffer(from.data, region, part)
    }

    fn put(into: SliceMut<'_, T>, region: &R, part: &[T]) -> Result<(), TaskError> {
        scatter(part, region, into.data)
    }
}
