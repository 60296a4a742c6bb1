//! Places of a handle's values while a runtime with several memory nodes manages it.
//!
//! The memory manager numbers the places and grants their use; this is only the table from numbers
//! to values.

use std::sync::Arc;

use crossbeam_queue::SegQueue;
use smallvec::SmallVec;

use super::HandleCore;
use crate::device::{DeviceMemory, StreamError};
use crate::error::{DeviceError, TaskError, caught};
use crate::format::Format;
use crate::memory::{BufferId, Datum, Ticket};
use crate::swap::{Extent, Swap};
use crate::value::{
    AnyHeader, Carrier, Data, DeviceValue, Kind, Known, Meta, Pending, Portability, Seen, ValueCell, View,
    Viewer, granted,
};

/// Data whose handles are gone, until the memory manager handles them.
pub(crate) type Forgotten = Arc<SegQueue<Datum>>;

/// Places by their numbers.
type Cells<T> = SmallVec<[(BufferId, Arc<ValueCell<T>>); 2]>;

/// Per-handle state of the memory manager's driver.
pub(crate) struct Managed<D> {
    datum: Datum,
    /// Meta of the current version, as its writer left it.
    meta: Meta,
    places: Cells<D>,
    /// Values on the disk.
    stored: Vec<(BufferId, Arc<Stored>)>,
    /// Values on devices.
    on_devices: Cells<DeviceValue>,
    forgotten: Forgotten,
    /// Ticket and result of the last writer that was launched on a device, until it ends.
    ahead: Option<(Ticket, Ahead)>,
}

/// Result of a launched writer that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Meta with the final size and format.
    pub(crate) meta: Meta,
    /// True if the end of the writer updates the meta of the value.
    pub(crate) learns: bool,
}

/// A value on the disk.
struct Stored {
    header: AnyHeader,
    extent: Extent,
}

/// Target of a transfer.
#[derive(Clone, Copy)]
pub(crate) enum Onto<'n> {
    /// A node's memory.
    Memory,
    /// The disk.
    Disk(&'n Arc<Swap>),
    /// The memory of a device with an architecture of its own.
    Device(&'n Arc<dyn DeviceMemory>),
}

/// Reason why a value could not be carried from one place to another.
pub(crate) enum CarryError {
    /// Error of the value itself.
    Value(TaskError),
    /// Failure of the disk.
    Disk(DeviceError),
    /// Error of a device's stream.
    Stream(StreamError),
}

impl From<StreamError> for CarryError {
    fn from(error: StreamError) -> Self {
        CarryError::Stream(error)
    }
}

impl From<String> for CarryError {
    fn from(message: String) -> Self {
        CarryError::Value(message.into())
    }
}

impl<D> Drop for Managed<D> {
    fn drop(&mut self) {
        self.forgotten.push(self.datum);
    }
}

impl<D: Data> HandleCore<D> {
    /// Returns the place with this number; a new and empty one if it has not been used.
    pub(crate) fn place(&self, buffer: BufferId) -> Arc<ValueCell<D>> {
        let mut managed = self.managed.lock();
        find_or_make(&mut managed.as_mut().expect("a buffer's handle is managed").places, buffer)
    }

    /// Returns the place on a device with this number; a new and empty one if it has not been used.
    pub(crate) fn device_place(&self, buffer: BufferId) -> Arc<ValueCell<DeviceValue>> {
        let mut managed = self.managed.lock();
        find_or_make(&mut managed.as_mut().expect("a buffer's handle is managed").on_devices, buffer)
    }

    /// Returns the places on the host that have been used, for tests.
    #[cfg(test)]
    pub(crate) fn cells_on_host(&self) -> Vec<Arc<ValueCell<D>>> {
        let managed = self.managed.lock();
        let places = managed.iter().flat_map(|managed| &managed.places);
        places.map(|(_, cell)| Arc::clone(cell)).collect()
    }

    /// Creates views of both ends of a transfer for the time in which the host touches them: until
    /// the end of the stream's operation for ends on the host that a `carrier` copies. Streams
    /// order the accesses to device memory.
    fn views_of_ends(&self, source: BufferId, target: BufferId, onto: Onto<'_>) -> [Option<View>; 2] {
        if !View::COUNTS {
            return [None, None];
        }
        let by = Viewer::runtime("a transfer");
        let from = match (self.on_device(source), self.stored(source)) {
            (Some(_), _) | (None, Some(_)) => None,
            (None, None) => Some(granted(self.place(source).view(Kind::Shared, &self.base, by))),
        };
        let to = match onto {
            Onto::Memory => Some(granted(self.place(target).view(Kind::Exclusive, &self.base, by))),
            Onto::Disk(_) | Onto::Device(_) => None,
        };
        [from, to]
    }

    fn on_device(&self, buffer: BufferId) -> Option<Arc<ValueCell<DeviceValue>>> {
        let managed = self.managed.lock();
        let (_, place) = managed.as_ref()?.on_devices.iter().find(|(known, _)| *known == buffer)?;
        Some(Arc::clone(place))
    }

    /// Carries a value from the host to a device.
    fn send_up(
        &self,
        value: &D,
        to: Format,
        memory: &Arc<dyn DeviceMemory>,
        carrier: Carrier<'_>,
    ) -> Result<DeviceValue, CarryError> {
        let travel = self.portability()?;
        if is_native(value, to) {
            return Ok(carrier.up(&travel, value, memory)?);
        }
        // Boxed before anything points into it.
        let converted = Box::new(self.convert(value, to)?);
        let sent = carrier.up(&travel, &*converted, memory);
        carrier.stream.keep(converted);
        Ok(sent?)
    }

    /// Carries a value from a device to `target`, on the host or on a device.
    fn send_on(
        &self,
        value: &DeviceValue,
        target: BufferId,
        to: Format,
        onto: Onto<'_>,
        carrier: Carrier<'_>,
    ) -> Result<(), CarryError> {
        let travel = self.portability()?;
        let is_native = to == Format::NATIVE || to == value.meta().format;
        match onto {
            Onto::Disk(_) => unreachable!("only the host is linked to the disk"),
            Onto::Device(memory) => {
                let sent = if is_native {
                    carrier.across(&travel, value, memory)?
                } else {
                    let sent = match carrier.converted(&travel, value, to)? {
                        Some(made) => made,
                        None => {
                            let wide = self.fetched(&travel, value, carrier)?;
                            self.send_up(&wide, to, carrier.memory(), carrier)?
                        }
                    };
                    carrier.on(&travel, sent, memory)?
                };
                let place = self.device_place(target);
                // SAFETY: nobody reads or writes the target before the manager is notified of its
                // arrival.
                *unsafe { place.exclusive() } = Some(sent);
            }
            Onto::Memory => {
                let place = self.place(target);
                // SAFETY: nobody reads or writes the target before the manager is notified of its
                // arrival.
                let place = unsafe { place.exclusive() };
                if is_native {
                    carrier.down(&travel, value, place)?;
                } else if let Some(made) = carrier.converted(&travel, value, to)? {
                    let sent = carrier.down(&travel, &made, place);
                    carrier.stream.keep(Box::new(made));
                    sent?;
                } else {
                    *place = Some(self.convert(&self.fetched(&travel, value, carrier)?, to)?);
                }
            }
        }
        Ok(())
    }

    /// Copies a device's value to the host, for a conversion there.
    fn fetched(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        carrier: Carrier<'_>,
    ) -> Result<D, CarryError> {
        let mut place = None;
        let sent = carrier.down(travel, value, &mut place);
        // Also if only some copies could be queued: those write here.
        let ended = carrier.stream.synchronize();
        sent.and(ended)?;
        Ok(place.expect("just made"))
    }

    fn stored(&self, buffer: BufferId) -> Option<Arc<Stored>> {
        let managed = self.managed.lock();
        let (_, stored) = managed.as_ref()?.stored.iter().find(|(known, _)| *known == buffer)?;
        Some(Arc::clone(stored))
    }

    fn portability(&self) -> Result<Portability<D>, String> {
        D::portability()
            .ok_or_else(|| format!("{} does not travel: its data type stays on the host", self.base.name()))
    }

    /// Runs code of the data type, and turns a panic into an error.
    fn guarded<R>(&self, code: impl FnOnce() -> Result<R, CarryError>) -> Result<R, CarryError> {
        caught(code)
            .unwrap_or_else(|message| Err(format!("moving {} panicked: {message}", self.base.name()).into()))
    }

    fn copy(&self, value: &D, to: Format) -> Result<D, CarryError> {
        if is_native(value, to) {
            Ok((self.portability()?.duplicate)(value))
        } else {
            self.convert(value, to)
        }
    }

    fn convert(&self, value: &D, to: Format) -> Result<D, CarryError> {
        value.convert(to).ok_or_else(|| self.no_conversion(value.meta().format, to).into())
    }

    fn store(&self, value: &D, target: BufferId, swap: &Arc<Swap>) -> Result<(), CarryError> {
        let travel = self.portability()?;
        let header = (travel.header)(value);
        let extent = swap.store(&(travel.parts)(value)).map_err(CarryError::Disk)?;
        if let Some(managed) = self.managed.lock().as_mut() {
            managed.stored.push((target, Arc::new(Stored { header, extent })));
        }
        Ok(())
    }

    fn load(&self, stored: &Stored, to: Format) -> Result<D, CarryError> {
        let travel = self.portability()?;
        let mut value = (travel.blank)(&stored.header).expect("it was made by the same functions");
        stored.extent.load(&mut (travel.parts_mut)(&mut value)).map_err(CarryError::Disk)?;
        if is_native(&value, to) { Ok(value) } else { self.convert(&value, to) }
    }
}

fn find_or_make<T>(cells: &mut Cells<T>, buffer: BufferId) -> Arc<ValueCell<T>> {
    if let Some((_, cell)) = cells.iter().find(|(known, _)| *known == buffer) {
        return Arc::clone(cell);
    }
    let cell = Arc::new(ValueCell::new(None));
    cells.push((buffer, Arc::clone(&cell)));
    cell
}

fn is_native<D: Data>(value: &D, to: Format) -> bool {
    to == Format::NATIVE || to == value.meta().format
}

/// Operations of the memory manager's thread driver on a handle with an erased type.
pub(crate) trait Places {
    /// Returns its number, once it is managed.
    fn datum(&self) -> Option<Datum>;
    /// Returns the meta of the current version.
    fn current(&self) -> Meta;
    /// Hands the value, which `meta` describes, over to the memory manager: if there is a value, it
    /// is at `buffer` from now on. Nobody may use the handle meanwhile.
    fn manage(&self, datum: Datum, meta: Meta, buffer: Option<BufferId>, forgotten: &Forgotten);
    /// Returns the meta of the value in the handle's own cell.
    fn own(&self) -> Option<Meta>;
    /// Takes the value back from `buffer`; the handle is not managed any more. Nobody may use it
    /// meanwhile.
    fn unmanage(&self, buffer: Option<BufferId>);
    /// Returns true if its values can be stored on any node.
    fn is_portable(&self) -> bool;
    /// Copies the value at `source` to `target`, in format `to` if that differs. The manager has
    /// granted both. Data that a `carrier` moves have arrived once its stream's operation has
    /// ended.
    fn carry(
        &self,
        source: BufferId,
        target: BufferId,
        to: Format,
        onto: Onto<'_>,
        carrier: Option<Carrier<'_>>,
    ) -> Result<(), CarryError>;
    /// Removes a place, and drops its value.
    fn clear(&self, buffer: BufferId);
    /// Makes the value of `buffer`, whose writer has ended, the current version. Returns its meta.
    fn settle(&self, buffer: BufferId) -> Meta;
    /// Works like [`settle`](Places::settle) for a writer that was launched on a device: others may
    /// have been launched after it in stream order, so the version is given by the `meta` that it
    /// left.
    fn settle_as(&self, by: Ticket, meta: Meta);
    /// Records that the body of a writer has put its operations on a stream. Returns its result in
    /// `buffer`.
    fn launched(&self, buffer: BufferId, by: Ticket, pending: &Pending) -> Ahead;
    /// In simulated time: records the launch of a writer that is planned to leave a value like
    /// `meta`. Returns its result.
    fn planned(&self, by: Ticket, meta: Meta) -> Ahead {
        let _ = by;
        Ahead { meta, learns: false }
    }
    /// Updates the result once the end of the writer has been evaluated. Returns it.
    fn learnt(&self, buffer: BufferId, by: Ticket) -> Ahead;
    /// Drops the result of a writer whose device has failed.
    fn unlaunched(&self, by: Ticket);
    /// Returns the result of the last launched writer, if it has not ended.
    fn ahead(&self) -> Option<Ahead>;
    /// Returns the value at `buffer` on a device, if there is one, for a task to which the place
    /// has been granted.
    fn seen_on_device(&self, buffer: BufferId) -> Option<Seen>;
    /// Updates the host's knowledge of the value, for a task that writes it.
    fn learn_on_device(&self, buffer: BufferId, known: Known);
    /// Returns true if two headers of the type's values are equal.
    fn is_same_header(&self, one: &AnyHeader, other: &AnyHeader) -> bool;
}

impl<D: Data> Places for HandleCore<D> {
    fn datum(&self) -> Option<Datum> {
        self.managed.lock().as_ref().map(|managed| managed.datum)
    }

    fn current(&self) -> Meta {
        self.managed.lock().as_ref().map(|managed| managed.meta).unwrap_or_default()
    }

    fn own(&self) -> Option<Meta> {
        // SAFETY: called before the handle's first task in this runtime is linked, under its
        // chain's lock.
        unsafe { self.cell.engine() }.map(Data::meta)
    }

    fn manage(&self, datum: Datum, meta: Meta, buffer: Option<BufferId>, forgotten: &Forgotten) {
        self.drop_replicas();
        // SAFETY: as in `own`: nobody has an access.
        let value = unsafe { self.cell.exclusive() }.take();
        let places = buffer.into_iter().map(|buffer| (buffer, Arc::new(ValueCell::new(None)))).collect();
        let managed = Managed {
            datum,
            meta,
            places,
            stored: Vec::new(),
            on_devices: SmallVec::new(),
            forgotten: Arc::clone(forgotten),
            ahead: None,
        };
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
            // SAFETY: no task, gate or transfer is in flight any more in the runtime that managed
            // the handle.
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
        onto: Onto<'_>,
        carrier: Option<Carrier<'_>>,
    ) -> Result<(), CarryError> {
        let views = self.views_of_ends(source, target, onto);
        if let Some(carrier) = carrier.filter(|_| View::COUNTS) {
            carrier.stream.keep(Box::new(views));
        }
        let carrier = || carrier.expect("a device carries what goes to it or from it");
        if let Some(source) = self.on_device(source) {
            // SAFETY: the memory manager prevents writes to a replica that a transfer reads.
            let value = unsafe { source.engine() };
            // A writer that failed left no value: its handle is poisoned, and nobody will read it.
            return value
                .map_or(Ok(()), |value| self.guarded(|| self.send_on(value, target, to, onto, carrier())));
        }
        let carried = if let Some(stored) = self.stored(source) {
            self.guarded(|| self.load(&stored, to))?
        } else {
            let source = self.place(source);
            // SAFETY: the memory manager prevents writes to a replica that a transfer reads.
            let Some(value) = (unsafe { source.engine() }) else {
                // A writer that failed left no value: its handle is poisoned, and nobody will read
                // it.
                return Ok(());
            };
            match onto {
                Onto::Disk(swap) => return self.guarded(|| self.store(value, target, swap)),
                Onto::Memory => self.guarded(|| self.copy(value, to))?,
                Onto::Device(memory) => {
                    let sent = self.guarded(|| self.send_up(value, to, memory, carrier()))?;
                    let target = self.device_place(target);
                    // SAFETY: as for the target below.
                    *unsafe { target.exclusive() } = Some(sent);
                    return Ok(());
                }
            }
        };
        let target = self.place(target);
        // SAFETY: nobody reads or writes the target before the manager is notified of its arrival.
        *unsafe { target.exclusive() } = Some(carried);
        Ok(())
    }

    fn clear(&self, buffer: BufferId) {
        let mut locked = self.managed.lock();
        let Some(managed) = locked.as_mut() else { return };
        let on_device = managed.on_devices.iter().position(|(known, _)| *known == buffer);
        let on_device = on_device.map(|at| managed.on_devices.swap_remove(at));
        let place = managed.places.iter().position(|(known, _)| *known == buffer);
        let place = place.map(|at| managed.places.swap_remove(at));
        let stored = managed.stored.iter().position(|(known, _)| *known == buffer);
        let stored = stored.map(|at| managed.stored.swap_remove(at));
        drop(locked);
        // Without the lock: dropping a value is user code.
        drop((place, stored, on_device));
    }

    fn settle(&self, buffer: BufferId) -> Meta {
        let meta = match self.on_device(buffer) {
            // SAFETY: the calling writer still has exclusive access to the replica.
            Some(place) => unsafe { place.engine() }.map(DeviceValue::meta),
            // SAFETY: the calling writer still has exclusive access to the replica.
            None => unsafe { self.place(buffer).engine() }.map(Data::meta),
        };
        let meta = meta.unwrap_or_default();
        if let Some(managed) = self.managed.lock().as_mut().filter(|_| !crate::mutant::mutant(10)) {
            managed.meta = meta;
        }
        meta
    }

    fn settle_as(&self, by: Ticket, meta: Meta) {
        if let Some(managed) = self.managed.lock().as_mut() {
            managed.ahead.take_if(|(ticket, _)| *ticket == by);
            managed.meta = if crate::mutant::mutant(10) { managed.meta } else { meta };
        }
    }

    fn launched(&self, buffer: BufferId, by: Ticket, pending: &Pending) -> Ahead {
        let cell = self.device_place(buffer);
        // SAFETY: the writer's body has just returned, and nothing has been launched after it.
        let meta = unsafe { cell.engine() }.map(DeviceValue::meta).unwrap_or_default();
        let ahead = Ahead { meta, learns: pending.learns_of(&cell) };
        if let Some(managed) = self.managed.lock().as_mut() {
            managed.ahead = Some((by, ahead));
        }
        ahead
    }

    fn learnt(&self, buffer: BufferId, by: Ticket) -> Ahead {
        // SAFETY: no writer is launched after one whose end updates the meta of its value.
        let value = self.on_device(buffer).and_then(|cell| unsafe { cell.engine() }.map(DeviceValue::meta));
        let learnt = Ahead { meta: value.unwrap_or_default(), learns: false };
        if let Some((ticket, ahead)) = self.managed.lock().as_mut().and_then(|managed| managed.ahead.as_mut())
            && *ticket == by
        {
            *ahead = learnt;
        }
        learnt
    }

    fn unlaunched(&self, by: Ticket) {
        if let Some(managed) = self.managed.lock().as_mut() {
            managed.ahead.take_if(|(ticket, _)| *ticket == by);
        }
    }

    fn ahead(&self) -> Option<Ahead> {
        self.managed.lock().as_ref().and_then(|managed| managed.ahead).map(|(_, ahead)| ahead)
    }

    fn seen_on_device(&self, buffer: BufferId) -> Option<Seen> {
        // SAFETY: the place has been granted to the calling task, which is not writing it now.
        self.on_device(buffer).and_then(|place| unsafe { place.engine() }.map(Seen::of))
    }

    fn learn_on_device(&self, buffer: BufferId, known: Known) {
        // SAFETY: the place has been granted to the calling task; the host's knowledge of a value
        // is protected by a lock.
        if let Some(value) = self.on_device(buffer).and_then(|place| unsafe { place.engine() }) {
            value.changes();
            value.learn(known);
        }
    }

    fn is_same_header(&self, one: &AnyHeader, other: &AnyHeader) -> bool {
        D::portability().is_some_and(|travel| (travel.is_same_header)(one, other))
    }
}
