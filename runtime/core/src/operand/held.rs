//! Values that a body has been granted: they are kept alive, and their views counted, until the
//! body ends.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::caught;
use crate::format::Format;
use crate::task::{Env, HandleCore, Lent, Refusal};
use crate::value::{Data, Kind, Meta, ValueCell, View};

/// A value that is being read: the master, or a replica that is kept alive for that.
pub struct HeldRef<D> {
    value: NonNull<D>,
    _kept: Kept<D>,
    _view: View,
    _lent: Option<Lent>,
}

/// Registers a body's view if the value is a borrowed slice.
fn lend<D: Data>(core: &HandleCore<D>) -> Result<Option<Lent>, Refusal> {
    if !D::BORROWED {
        return Ok(None);
    }
    let Some(lending) = core.base.lending() else { return Ok(None) };
    let ended = || format!("the scope that borrowed {} has ended", core.base.name());
    lending.lend().map(Some).ok_or_else(|| Refusal::Failed(ended().into()))
}

/// Owner that keeps a value alive while it is read.
enum Kept<D> {
    /// The handle of the value.
    ByHandle,
    /// A replica in another format.
    Replica { _value: Arc<D> },
    /// A place that the memory manager provided.
    Place { _cell: Arc<ValueCell<D>> },
}

/// Acquires one version of `core` in `format` for reading.
#[inline]
pub(super) fn hold<D: Data>(
    core: &HandleCore<D>,
    format: Format,
    env: &mut Env<'_>,
) -> Result<HeldRef<D>, Refusal> {
    env.check(&core.base)?;
    let lent = lend(core)?;
    if let Some(buffer) = env.place() {
        let cell = core.place(buffer);
        let view = env.view(&core.base, &cell, Kind::Shared);
        // SAFETY: the memory manager keeps the place for the task, and prevents writes to it.
        let Some(value) = (unsafe { cell.engine() }) else {
            return Err(Refusal::unwritten(&core.base));
        };
        env.add_bytes(value);
        let value = NonNull::from(value);
        return Ok(HeldRef { value, _kept: Kept::Place { _cell: cell }, _view: view, _lent: lent });
    }
    let view = env.view(&core.base, &core.cell, Kind::Shared);
    // SAFETY: the task that `env` runs has been granted a reading access to this handle.
    let Some(master) = (unsafe { core.cell.engine() }) else {
        let Some(received) = env.received(core, format) else { return Err(Refusal::unwritten(&core.base)) };
        let form = received?;
        env.add_bytes(&*form);
        return Ok(HeldRef {
            value: NonNull::from(&*form),
            _kept: Kept::Replica { _value: form },
            _view: view,
            _lent: lent,
        });
    };
    env.add_bytes(master);
    if format == Format::NATIVE || format == master.meta().format {
        return Ok(HeldRef { value: NonNull::from(master), _kept: Kept::ByHandle, _view: view, _lent: lent });
    }
    let replica = env.replica(core, master, format)?;
    Ok(HeldRef {
        value: NonNull::from(&*replica),
        _kept: Kept::Replica { _value: replica },
        _view: view,
        _lent: lent,
    })
}

impl<D: Data> HeldRef<D> {
    pub(super) fn value(&self) -> &D {
        // SAFETY: the master cannot change while the access is granted, and a replica or place is
        // kept alive by `_kept`.
        unsafe { self.value.as_ref() }
    }

    pub(super) fn view(&self) -> D::Ref<'_> {
        self.value().view()
    }
}

/// Returns the meta of `core`'s current version; the default if there is none yet.
pub(super) fn meta<D: Data>(core: &HandleCore<D>) -> Meta {
    // SAFETY: called by a task that has been granted an access to the handle, before its body runs.
    let here = unsafe { core.cell.engine() }.map(Data::meta);
    here.or_else(|| core.meta_elsewhere()).unwrap_or_default()
}

/// A value that is being written.
pub struct HeldMut<D: Data> {
    pub(super) core: NonNull<HandleCore<D>>,
    /// Place that the memory manager provided; `None`: the handle's own cell.
    place: Option<Arc<ValueCell<D>>>,
    pub(super) view: View,
    _lent: Option<Lent>,
}

impl<D: Data> HeldMut<D> {
    pub(super) fn new(core: &HandleCore<D>, env: &Env<'_>) -> Result<Self, Refusal> {
        let place = env.place().map(|buffer| core.place(buffer));
        let view = env.view(&core.base, place.as_deref().unwrap_or(&core.cell), Kind::Exclusive);
        Ok(HeldMut { core: NonNull::from(core), place, view, _lent: lend(core)? })
    }

    pub(super) fn core(&self) -> &HandleCore<D> {
        // SAFETY: the operand (or the replay's bindings) keeps the handle alive while the task
        // runs.
        unsafe { self.core.as_ref() }
    }

    pub(super) fn value(&mut self) -> &mut Option<D> {
        // SAFETY: the task has been granted the one exclusive access to the handle, and to the
        // place that the memory manager keeps for it.
        unsafe { self.place.as_deref().unwrap_or(&self.core().cell).exclusive() }
    }
}

/// Runs code of the data type: a panic there fails the task instead of the worker.
pub(super) fn guarded<D: Data, R>(
    core: &HandleCore<D>,
    what: &str,
    code: impl FnOnce() -> R,
) -> Result<R, Refusal> {
    caught(code)
        .map_err(|message| Refusal::Failed(format!("{what} {} panicked: {message}", core.base.name()).into()))
}

/// Acquires exclusive access to a value that must exist, in `format`.
#[inline]
pub(super) fn hold_mut<D: Data>(
    core: &HandleCore<D>,
    format: Format,
    env: &mut Env<'_>,
) -> Result<HeldMut<D>, Refusal> {
    env.check(&core.base)?;
    core.drop_replicas();
    let mut held = HeldMut::new(core, env)?;
    let Some(value) = held.value() else {
        return Err(Refusal::unwritten(&core.base));
    };
    let now = value.meta().format;
    if format != Format::NATIVE && format != now {
        let made = guarded(core, "converting", || value.convert(format))?;
        *value = made.ok_or_else(|| Refusal::Failed(core.no_conversion(now, format).into()))?;
    }
    env.add_bytes(value);
    Ok(held)
}
