//! Where a handle's values lie while a runtime with several memory nodes has it.
//!
//! The memory manager numbers the places and says who may use which; this is only the table from numbers to values.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_queue::SegQueue;
use smallvec::SmallVec;

use super::cell::ValueCell;
use super::{Data, Format, HandleCore, Meta, Spare, Spares};
use crate::error::{TaskError, panic_message};
use crate::memory::{BufferId, Datum};

/// Data whose handles are gone, until the memory manager looks.
pub(crate) type Forgotten = Arc<SegQueue<Datum>>;

/// What such a handle keeps.
pub(crate) struct Managed<D> {
    datum: Datum,
    /// Of the current version, as its writer left it.
    meta: Meta,
    places: SmallVec<[(BufferId, Arc<ValueCell<D>>); 2]>,
    forgotten: Forgotten,
}

impl<D> Drop for Managed<D> {
    fn drop(&mut self) {
        self.forgotten.push(self.datum);
    }
}

impl<D: Data> HandleCore<D> {
    /// The place with this number; a new and empty one if it has not been used.
    pub(crate) fn place(&self, buffer: BufferId) -> Arc<ValueCell<D>> {
        let mut managed = self.managed.lock();
        let managed = managed.as_mut().expect("a buffer's handle is managed");
        if let Some((_, place)) = managed.places.iter().find(|(known, _)| *known == buffer) {
            return Arc::clone(place);
        }
        let place = Arc::new(ValueCell::new(None));
        managed.places.push((buffer, Arc::clone(&place)));
        place
    }
}

/// What the thread driver of the memory manager does with a handle whose type it does not know.
pub(crate) trait Places {
    /// Its number, once it is managed.
    fn datum(&self) -> Option<Datum>;
    /// The meta of the current version.
    fn current(&self) -> Meta;
    /// Hands the value, which `meta` describes, over to the memory manager: it lies at `buffer` from now on, if there is a value.
    /// Nobody may use the handle meanwhile.
    fn manage(&self, datum: Datum, meta: Meta, buffer: Option<BufferId>, forgotten: &Forgotten);
    /// The meta of the value that is in the handle's own cell.
    fn own(&self) -> Option<Meta>;
    /// The value comes back from `buffer`, and the handle is not managed any more. Nobody may use it meanwhile.
    fn unmanage(&self, buffer: Option<BufferId>);
    /// True if values can lie on any node.
    fn is_portable(&self) -> bool;
    /// Copies the value at `source` to `target`, in format `to` if that is another; into memory of `spares`, those of the target's
    /// node, where that fits. The manager has granted both.
    fn carry(&self, source: BufferId, target: BufferId, to: Format, spares: &Spares)
    -> Result<(), TaskError>;
    /// Forgets a place. What was there is handed out if others can have its memory.
    fn clear(&self, buffer: BufferId) -> Option<Spare>;
    /// The writer of `buffer` has ended: its value is the current version. Returns what it is.
    fn settle(&self, buffer: BufferId) -> Meta;
}

impl<D: Data> Places for HandleCore<D> {
    fn datum(&self) -> Option<Datum> {
        self.managed.lock().as_ref().map(|managed| managed.datum)
    }

    fn current(&self) -> Meta {
        self.managed.lock().as_ref().map(|managed| managed.meta).unwrap_or_default()
    }

    fn own(&self) -> Option<Meta> {
        // SAFETY: asked before the handle's first task in this runtime is linked, under its chain's lock.
        unsafe { self.cell.shared() }.map(Data::meta)
    }

    fn manage(&self, datum: Datum, meta: Meta, buffer: Option<BufferId>, forgotten: &Forgotten) {
        self.drop_replicas();
        // SAFETY: as in `own`: nobody has an access.
        let value = unsafe { self.cell.exclusive() }.take();
        let places = buffer.into_iter().map(|buffer| (buffer, Arc::new(ValueCell::new(None)))).collect();
        let managed = Managed { datum, meta, places, forgotten: Arc::clone(forgotten) };
        if let Some((_, place)) = managed.places.first() {
            // SAFETY: the place has just been made.
            *unsafe { place.exclusive() } = value;
        }
        *self.managed.lock() = Some(Box::new(managed));
    }

    fn unmanage(&self, buffer: Option<BufferId>) {
        let place = buffer.map(|buffer| self.place(buffer));
        let managed = self.managed.lock().take();
        if let Some(place) = place {
            // SAFETY: nothing is in flight any more in the runtime that had the handle: no task, gate or transfer.
            unsafe { *self.cell.exclusive() = place.exclusive().take() };
        }
        drop(managed);
    }

    fn is_portable(&self) -> bool {
        D::portability().is_some()
    }

    fn carry(
        &self,
        source: BufferId,
        target: BufferId,
        to: Format,
        spares: &Spares,
    ) -> Result<(), TaskError> {
        let (source, target) = (self.place(source), self.place(target));
        // SAFETY: the memory manager lets nobody write a replica that a transfer reads.
        let Some(value) = (unsafe { source.shared() }) else {
            // A writer that failed left nothing: its handle is poisoned, and nobody will look.
            return Ok(());
        };
        let carried = catch_unwind(AssertUnwindSafe(|| {
            if to == Format::NATIVE || to == value.meta().format {
                D::portability().map(|travel| (travel.duplicate)(value, Some(spares))).ok_or_else(|| {
                    format!("{} does not travel: its data type stays on the host", self.base.name())
                })
            } else {
                drop(spares.make_way());
                value.convert(to).ok_or_else(|| self.no_conversion(value.meta().format, to))
            }
        }))
        .map_err(|panic| format!("moving {} panicked: {}", self.base.name(), panic_message(&*panic)))
        .flatten()?;
        // SAFETY: nobody reads or writes the target before the manager is told that it has arrived.
        *unsafe { target.exclusive() } = Some(carried);
        Ok(())
    }

    fn clear(&self, buffer: BufferId) -> Option<Spare> {
        let place = self.managed.lock().as_mut().and_then(|managed| {
            let at = managed.places.iter().position(|(known, _)| *known == buffer)?;
            Some(managed.places.swap_remove(at))
        });
        // The lock is given back by now: what is done to the value, or dropping it, is user code.
        let (_, place) = place?;
        let value = Arc::into_inner(place)?.into_inner()?;
        let travel = D::portability()?;
        catch_unwind(AssertUnwindSafe(|| (travel.spare)(value))).ok().flatten()
    }

    fn settle(&self, buffer: BufferId) -> Meta {
        let place = self.place(buffer);
        // SAFETY: the writer that asks still has the replica to itself.
        let meta = unsafe { place.shared() }.map(Data::meta).unwrap_or_default();
        if let Some(managed) = self.managed.lock().as_mut().filter(|_| !crate::mutant::mutant(10)) {
            managed.meta = meta;
        }
        meta
    }
}
