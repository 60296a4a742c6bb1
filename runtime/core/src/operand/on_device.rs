//! State of a task for an operand that has been transferred to a device.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Failure, TaskError};
use crate::task::{Env, HandleBase, HandleCore, Refusal};
use crate::value::{Data, DeviceMut, DeviceRef, DeviceSlot, Kind, ValueCell, View};
use crate::value::{DeviceValue, Seen};

/// A place on the device, held while a body is called. The memory manager keeps it until the task
/// has ended.
pub struct DeviceHeld {
    cell: Arc<ValueCell<DeviceValue>>,
    base: NonNull<HandleBase>,
    /// View of the value; `None` if no value is required.
    seen: Option<Seen>,
    _view: View,
}

impl DeviceHeld {
    /// Returns the most recently resolved place for writing, with or without a value.
    pub(super) fn any<D: Data>(core: &HandleCore<D>, env: &Env<'_>) -> Self {
        DeviceHeld::of(core, env, Kind::Exclusive)
    }

    fn of<D: Data>(core: &HandleCore<D>, env: &Env<'_>, kind: Kind) -> Self {
        let buffer = env.place().expect("what runs on a device has been placed");
        let cell = core.device_place(buffer);
        let view = env.view(&core.base, &cell, kind);
        DeviceHeld { cell, base: NonNull::from(&core.base), seen: None, _view: view }
    }

    /// Returns the most recently resolved place; its value must exist.
    pub(super) fn existing<D: Data>(
        core: &HandleCore<D>,
        env: &mut Env<'_>,
        kind: Kind,
    ) -> Result<Self, Refusal> {
        env.check(&core.base)?;
        let mut held = DeviceHeld::of(core, env, kind);
        // SAFETY: the task has been granted an access to the place.
        let Some(value) = (unsafe { held.cell.engine() }) else {
            return Err(Refusal::unwritten(&core.base));
        };
        let seen = Seen::of(value);
        env.count_bytes(seen.known.meta.bytes);
        held.seen = Some(seen);
        Ok(held)
    }

    pub(super) fn view<D>(&self) -> DeviceRef<'_, D> {
        DeviceRef::new(self.seen.as_ref().expect("it was there when it was acquired"))
    }

    pub(super) fn view_mut<D>(&mut self) -> DeviceMut<'_, D> {
        // SAFETY: the task has been granted the one exclusive access to the place, which lasts
        // until it ends.
        let value = unsafe { self.cell.exclusive() }.as_mut();
        DeviceMut::new(value.expect("seen when it was acquired"), &self.cell)
    }

    pub(super) fn slot<D>(&mut self) -> DeviceSlot<'_, D> {
        // SAFETY: the task has been granted the one exclusive access to the place, which lasts
        // until it ends.
        DeviceSlot::new(unsafe { self.cell.exclusive() }, &self.cell)
    }

    fn base(&self) -> &HandleBase {
        // SAFETY: the operand (or the replay's bindings) keeps the handle alive while the task
        // runs.
        unsafe { self.base.as_ref() }
    }

    /// Handles the return of a body that claims to have written a value. The handle stays poisoned
    /// until the task has ended: an earlier task may still fail.
    pub(super) fn written(self, env: &mut Env<'_>) -> Result<(), TaskError> {
        // SAFETY: the task still has its access to the place.
        let Some(value) = (unsafe { self.cell.engine() }) else {
            return Err(format!("the body left {} without a value", self.base().name()).into());
        };
        env.count_bytes(value.meta().bytes);
        Ok(())
    }

    pub(super) fn poison(&self, failure: &Arc<Failure>) {
        self.base().poison(failure);
    }
}
