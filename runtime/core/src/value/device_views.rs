//! Views of operands for bodies on devices with an architecture of their own: addresses and
//! headers.

use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{DeviceContext, DeviceValue, Known, Meta, Portable, Seen, ValueCell};
use crate::device::StreamError;

fn header<D: Portable>(known: &Known) -> &D::Header {
    known.header.downcast_ref().expect("a handle's values have its type's headers")
}

/// View of a value that is read.
pub struct DeviceRef<'v, D> {
    seen: &'v Seen,
    _type: PhantomData<fn() -> D>,
}

impl<D> Clone for DeviceRef<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for DeviceRef<'_, D> {}

impl<'v, D> DeviceRef<'v, D> {
    pub(crate) fn new(seen: &'v Seen) -> Self {
        DeviceRef { seen, _type: PhantomData }
    }

    /// Returns the value's header.
    pub fn header(&self) -> &'v D::Header
    where
        D: Portable,
    {
        header::<D>(&self.seen.known)
    }

    /// Returns the address of part `i`, and its size in bytes.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn part<A: From<u64>>(&self, i: usize) -> (A, u64) {
        let (at, bytes) = self.seen.parts[i];
        (at.into(), bytes)
    }

    /// Returns format, norm and size.
    pub fn meta(&self) -> Meta {
        self.seen.known.meta
    }
}

/// View of a value that is updated.
pub struct DeviceMut<'v, D> {
    value: &'v mut DeviceValue,
    known: Known,
    cell: Arc<ValueCell<DeviceValue>>,
    _type: PhantomData<fn() -> D>,
}

impl<'v, D> DeviceMut<'v, D> {
    pub(crate) fn new(value: &'v mut DeviceValue, cell: &Arc<ValueCell<DeviceValue>>) -> Self {
        value.changes();
        DeviceMut { known: value.known(), value, cell: Arc::clone(cell), _type: PhantomData }
    }

    /// Returns the value's header.
    pub fn header(&self) -> &D::Header
    where
        D: Portable,
    {
        header::<D>(&self.known)
    }

    /// Returns the address of part `i`, and its size in bytes.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn part<A: From<u64>>(&self, i: usize) -> (A, u64) {
        (self.value.parts[i].at().into(), self.value.parts[i].bytes())
    }

    /// Returns format, norm and size, as the previous writer left them.
    pub fn meta(&self) -> Meta {
        self.known.meta
    }

    /// Replaces the value: sets another header, and allocates new parts that later operations on
    /// the stream fill. The old parts are freed once the body's operations have ended, and can be
    /// used until then.
    ///
    /// # Errors
    /// An error of the device, e.g. [`StreamError::OutOfMemory`]. While a replay is recorded
    /// ([`DeviceGraphs`](crate::DeviceGraphs)) the call is refused, and the graph's tasks are
    /// launched one by one from then on.
    pub fn replace(&mut self, header: D::Header, cx: &DeviceContext<'_>) -> Result<(), StreamError>
    where
        D: Portable,
    {
        cx.refuse_recording("a value that is updated is replaced")?;
        let new = cx.blank::<D>(header)?;
        self.known = new.known();
        let old = std::mem::replace(self.value, new);
        cx.keep(old.parts);
        Ok(())
    }

    /// Copies bytes of the device's memory to the host, after the queued operations, and uses them
    /// to update the metadata of the value, e.g. its norm, once the body's operations have ended.
    /// Format and size stay as they are.
    ///
    /// # Errors
    /// An error of the device.
    ///
    /// # Safety
    /// The requirements of [`DeviceContext::read_back`].
    pub unsafe fn read_back(
        &self,
        cx: &DeviceContext<'_>,
        (at, bytes): (impl Into<u64>, usize),
        change: impl FnOnce(&[u8], &mut D::Header, &mut Meta) + Send + 'static,
    ) -> Result<(), StreamError>
    where
        D: Portable,
    {
        let cell = Arc::clone(&self.cell);
        cx.is_learnt_later(&self.cell);
        let then = move |bytes: &[u8]| {
            // SAFETY: called before the task ends. Nobody writes the place before: a writer is not
            // launched in stream order after a task that updates the metadata of its value at its
            // end.
            if let Some(value) = unsafe { cell.engine() } {
                let Known { header: old, mut meta } = value.known();
                let old: Option<&D::Header> = old.downcast_ref();
                let mut new = old.expect("a handle's values have its type's headers").clone();
                change(bytes, &mut new, &mut meta);
                value.learn(Known { header: Arc::new(Box::new(new)), meta });
            }
            Ok(())
        };
        // SAFETY: the caller's promise.
        unsafe { cx.read_back(at, bytes, then) }
    }
}

/// A value that a conversion makes ([`Portable::conversions`]); [`DeviceContext::value`] keeps it.
pub struct NewValue<D: Portable> {
    header: D::Header,
    parts: SmallVec<[(u64, u64); 2]>,
    /// Index in its context.
    at: usize,
}

impl<D: Portable> NewValue<D> {
    pub(super) fn new(header: D::Header, value: &DeviceValue, at: usize) -> Self {
        let parts = value.parts.iter().map(|part| (part.at(), part.bytes())).collect();
        NewValue { header, parts, at }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the value's header.
    pub fn header(&self) -> &D::Header {
        &self.header
    }

    /// Returns the address of part `i`, and its size in bytes.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn part<A: From<u64>>(&self, i: usize) -> (A, u64) {
        let (at, bytes) = self.parts[i];
        (at.into(), bytes)
    }
}

/// View of a value that a body writes without reading.
pub struct DeviceSlot<'v, D> {
    place: &'v mut Option<DeviceValue>,
    cell: Arc<ValueCell<DeviceValue>>,
    _type: PhantomData<fn() -> D>,
}

impl<'v, D> DeviceSlot<'v, D> {
    pub(crate) fn new(place: &'v mut Option<DeviceValue>, cell: &Arc<ValueCell<DeviceValue>>) -> Self {
        DeviceSlot { place, cell: Arc::clone(cell), _type: PhantomData }
    }

    /// Sets the header, and returns a value whose parts later operations on the stream fill: the
    /// existing parts, if they have the right sizes.
    ///
    /// # Errors
    /// An error of the device, e.g. [`StreamError::OutOfMemory`]; for other sizes those of
    /// [`DeviceMut::replace`].
    pub fn put(self, header: D::Header, cx: &DeviceContext<'_>) -> Result<DeviceMut<'v, D>, StreamError>
    where
        D: Portable,
    {
        let sizes = D::part_sizes(&header);
        let fits = self.place.as_ref().is_some_and(|old| old.has_sizes(&sizes));
        if !fits && self.place.is_some() {
            cx.refuse_recording("a value is put in the place of one of another size")?;
        }
        let parts = if fits { None } else { Some(cx.parts(&sizes)?) };
        let old = self.place.take().map(|old| old.parts);
        let parts = match (parts, old) {
            (Some(new), old) => {
                old.into_iter().for_each(|old| cx.keep(old));
                new
            }
            (None, old) => old.unwrap_or_default(),
        };
        let meta = D::header_meta(&header);
        let new = DeviceValue::new(Box::new(header), parts, meta);
        Ok(DeviceMut::new(self.place.insert(new), &self.cell))
    }
}

/// Views of the values of a list of handles.
pub struct DeviceList<'v, D>(pub(crate) Vec<DeviceRef<'v, D>>);

impl<'v, D> DeviceList<'v, D> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the values.
    pub fn iter(&self) -> impl Iterator<Item = DeviceRef<'v, D>> + '_ {
        self.0.iter().copied()
    }
}

macro_rules! debug_by_meta {
    ($($name:ident => |$v:ident| $what:expr),*) => {$(
        impl<D> std::fmt::Debug for $name<'_, D> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $v = self;
                write!(f, concat!(stringify!($name), "({:?})"), $what)
            }
        }
    )*};
}
debug_by_meta!(
    DeviceRef => |v| v.seen.known.meta,
    DeviceMut => |v| v.known.meta,
    DeviceSlot => |v| v.place.as_ref().map(DeviceValue::meta),
    DeviceList => |v| v.0.len()
);

impl<D: Portable> std::fmt::Debug for NewValue<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewValue({:?})", D::header_meta(&self.header))
    }
}
