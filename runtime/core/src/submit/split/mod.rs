//! Splitting of a handle's value into parts that tasks write concurrently, and joining them again.
//!
//! A part is a handle of its own, with its own replicas on devices. A task `split`, which reads the
//! parent, fills it, and a task `join`, which updates the parent, copies it back. Both are ordinary
//! tasks: they are ordered by their accesses, recorded, replayed, scheduled by the policy, and
//! poison their outputs when they fail. No two handles share memory, so that parent and parts are
//! always consistent, on any mix of devices. The cost is bandwidth: every element is copied once
//! out and once back, also if all tasks run on one node and pointers into the parent would suffice.
//! Out and back, 128 MiB in 16 tiles took as long as 2 to 3 copies by one core if a replay found
//! the parts' memory in place, and 5 to 7 if it was fresh (example `split`, two workers on two
//! shared cores, Buffer of f64).

mod region;
mod splittable;
mod tasks;

pub use region::{Block, Region, split_evenly};
pub use splittable::Splittable;

use std::fmt;

use crate::deps::AccessRights;
use crate::error::{Cause, Error, Failure};
use crate::submit::Submit;
use crate::task::Handle;
use tasks::{Abandon, Cut, Join, inner_read, inner_update, inner_write};

/// The parts of a handle; made by [`Submit::split`].
///
/// Parts are copies, so that each can be on the node where its tasks run: that costs bandwidth, out
/// and back. Data that tasks only access by parts are better registered part by part.
///
/// Dropping it joins the parts as [`join`](Split::join) does. If the thread is panicking, nothing
/// is submitted: the parent is left poisoned.
#[must_use = "the parts are joined again where this is dropped"]
pub struct Split<'s, S: Submit, D: Splittable<R>, R: Region> {
    target: &'s S,
    parent: Handle<D>,
    regions: Vec<R>,
    parts: Vec<Handle<D::Part>>,
    /// True until the parts are joined.
    out: bool,
}

/// Returns an error for regions that are not inside a handle's value.
fn check_inside<D: Splittable<R>, R: Region>(handle: &Handle<D>, regions: &[R]) -> Result<(), Error> {
    let meta = crate::task::AnyHandle::registered(&**handle.core());
    let Some(length) = meta.and_then(|meta| D::length(&meta)) else {
        return Err(Error::Config(format!(
            "{} cannot be split: its length is not known; register it with a value or with `register_sized`",
            handle.name()
        )));
    };
    for region in regions {
        region::check_inside(region, length)
            .map_err(|wrong| Error::Config(format!("{} cannot be split: {wrong}", handle.name())))?;
    }
    Ok(())
}

/// Creates a handle for each region, not filled yet.
fn handles<S: Submit, D: Splittable<R>, R: Region>(
    target: &S,
    parent: &Handle<D>,
    regions: &[R],
) -> Vec<Handle<D::Part>> {
    let name = parent.name();
    let handle =
        |region: &R| target.register_sized(D::part_meta(region)).named(format!("{name}[{region:?}]"));
    regions.iter().map(handle).collect()
}

/// Submits the tasks that fill `parts`.
fn fill<S: Submit, D: Splittable<R>, R: Region>(
    target: &S,
    parent: &Handle<D>,
    regions: &[R],
    parts: &[Handle<D::Part>],
) -> Result<(), Error> {
    for (i, (region, part)) in regions.iter().zip(parts).enumerate() {
        target.submit(Cut::new(region, i), (inner_read(parent), inner_write(part)))?;
    }
    Ok(())
}

/// Creates read-only handles, see [`Submit::views`].
pub(crate) fn views<S: Submit, D: Splittable<R>, R: Region>(
    target: &S,
    parent: &Handle<D>,
    regions: &[R],
) -> Result<Vec<Handle<D::Part>>, Error> {
    check_inside(parent, regions)?;
    let parts = handles(target, parent, regions);
    for ((i, region), part) in regions.iter().enumerate().zip(&parts) {
        target.submit(Cut::new(region, i), (crate::operand::read(parent), inner_write(part)))?;
        // The handle has just been created, and is open.
        let _ = target.change_rights(part, AccessRights::Open, AccessRights::ReadOnly);
    }
    Ok(parts)
}

impl<'s, S: Submit, D: Splittable<R>, R: Region> Split<'s, S, D, R> {
    /// Splits a handle, see [`Submit::split`].
    pub(crate) fn new(target: &'s S, parent: &Handle<D>, regions: Vec<R>) -> Result<Self, Error> {
        check_inside(parent, &regions)?;
        region::check_disjoint(&regions)
            .map_err(|wrong| Error::Config(format!("{} cannot be split: {wrong}", parent.name())))?;
        let parts = handles(target, parent, &regions);
        target
            .change_rights(parent, AccessRights::Open, AccessRights::Split)
            .map_err(|now| now.refusal("split", parent.name()))?;
        if let Err(error) = fill(target, parent, &regions, &parts) {
            // It may have been released meanwhile: it stays so.
            let _ = target.change_rights(parent, AccessRights::Split, AccessRights::Open);
            return Err(error);
        }
        Ok(Split { target, parent: parent.clone(), regions, parts, out: true })
    }

    /// Returns the parts, in the order of the regions.
    pub fn handles(&self) -> &[Handle<D::Part>] {
        &self.parts
    }

    /// Returns the regions, as they were given.
    pub fn regions(&self) -> &[R] {
        &self.regions
    }

    /// Joins the parts: a task `join` per part copies it into the parent, after the part's tasks.
    /// From here on the parent can be named, and its parts cannot. The call does not wait. If a
    /// part has no value because a task failed, the parent has none either, until a task writes it
    /// completely.
    ///
    /// # Errors
    /// [`Error::Split`] if a part is itself split: join that first. [`Error::Gone`] if the parent
    /// or a part was taken or released. The parent then has no value, until a task writes it
    /// completely.
    pub fn join(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.out = false;
        let joined = self.close_parts().and_then(|()| self.submit_joins());
        if let Err(error) = &joined {
            self.abandon(error);
        }
        self.reopen();
        joined
    }

    /// Ends the use of every part; returns the first error.
    fn close_parts(&self) -> Result<(), Error> {
        let mut result = Ok(());
        for part in &self.parts {
            let closed = self.target.change_rights(part, AccessRights::Open, AccessRights::Joined);
            result = result.and(closed.map_err(|now| now.refusal("join", part.name())));
        }
        result
    }

    fn submit_joins(&self) -> Result<(), Error> {
        for (i, (region, part)) in self.regions.iter().zip(&self.parts).enumerate() {
            self.target.submit(Join::new(region, i), (inner_read(part), inner_update(&self.parent)))?;
        }
        Ok(())
    }

    /// Leaves the parent without a value, because some parts will not come back.
    fn abandon(&self, why: &Error) {
        let task = Abandon::new(why.to_string());
        if self.target.submit(task, (inner_update(&self.parent),)).is_err() {
            self.poison(why.to_string());
        }
    }

    fn poison(&self, why: String) {
        let operands = vec![self.parent.name()];
        let failure = Failure { task: "join".into(), operands, cause: Cause::words(why) };
        self.target.abandon(&self.parent, failure);
    }

    fn reopen(&self) {
        // A parent that was released meanwhile stays so.
        let _ = self.target.change_rights(&self.parent, AccessRights::Split, AccessRights::Open);
    }
}

impl<S: Submit, D: Splittable<R>, R: Region> Drop for Split<'_, S, D, R> {
    fn drop(&mut self) {
        if !self.out {
            return;
        }
        if std::thread::panicking() {
            self.poison("its parts were dropped in a panic".into());
            self.reopen();
        } else if let Err(error) = self.end() {
            tracing::warn!("{} is left without a value: {error}", self.parent.name());
        }
    }
}

impl<S: Submit, D: Splittable<R>, R: Region> fmt::Debug for Split<'_, S, D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Split({} into {} parts)", self.parent.name(), self.parts.len())
    }
}
