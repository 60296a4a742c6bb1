//! Transfers of values between the host and devices with an architecture of their own.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Data, DeviceContext, DeviceValue, Portability};
use crate::device::{DeviceBuffer, DeviceMemory, Place, Stream, StreamError};
use crate::format::Format;

/// Carries values over one stream. Copies are queued without waiting: their sources stay alive
/// until the stream's operation has ended.
#[derive(Clone, Copy)]
pub(crate) struct Carrier<'s> {
    pub(crate) stream: &'s dyn Stream,
}

impl Carrier<'_> {
    /// Copies a host value to a device's memory. The caller keeps `value` in place until the copy
    /// has ended.
    pub(crate) fn up<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &D,
        memory: &Arc<dyn DeviceMemory>,
    ) -> Result<DeviceValue, StreamError> {
        let host = |bytes: &[u8]| (Place::Host(bytes.as_ptr().cast_mut()), bytes.len() as u64);
        // Run the type's own code first: if it panics, nothing has been queued.
        let (header, meta, parts) = ((travel.header)(value), value.meta(), (travel.parts)(value));
        let parts = self.copies(parts.into_iter().map(host), memory)?;
        Ok(DeviceValue::new(header, parts, meta))
    }

    /// Copies a device's value to its final place on the host: `place` is not moved before the copy
    /// has ended.
    pub(crate) fn down<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        place: &mut Option<D>,
    ) -> Result<(), StreamError> {
        let blank = (travel.blank)(&value.known().header).expect("it was made by the same functions");
        let parts = (travel.parts_mut)(place.insert(blank));
        // Before anything is queued, since a panic drops the value.
        let sizes = parts.iter().map(|to| to.len() as u64);
        assert!(
            sizes.eq(value.parts.iter().map(DeviceBuffer::bytes)),
            "a header says how large its parts are"
        );
        parts.into_iter().zip(&value.parts).try_for_each(|(to, from)| self.fetch(to, from))
    }

    /// Copies a device's value to the memory of the same or another device.
    pub(crate) fn across<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        memory: &Arc<dyn DeviceMemory>,
    ) -> Result<DeviceValue, StreamError> {
        let known = value.known();
        let header = (travel.clone_header)(&known.header);
        let parts = self.copies(value.parts.iter().map(|part| (place(part), part.bytes())), memory)?;
        Ok(DeviceValue::new(header, parts, known.meta))
    }

    /// Converts a device's value to another format, on the stream's device and in its memory;
    /// `None`: only the host can convert it.
    pub(crate) fn converted<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        to: Format,
    ) -> Result<Option<DeviceValue>, StreamError> {
        let (arch, cx) = (self.memory().arch(), DeviceContext::new(self.stream));
        if !(travel.converts)(arch) {
            return Ok(None);
        }
        if value.parts.iter().all(|part| Arc::ptr_eq(part.memory(), self.memory())) {
            return Ok((travel.convert_on_device)(value, to, &cx)?);
        }
        let near = Arc::new(self.across(travel, value, self.memory())?);
        // Also if the type's own code panics.
        self.stream.keep(Box::new(Arc::clone(&near)));
        Ok((travel.convert_on_device)(&near, to, &cx)?)
    }

    /// Returns the memory of the stream's device.
    pub(crate) fn memory(&self) -> &Arc<dyn DeviceMemory> {
        self.stream.memory()
    }

    /// Returns a value of that memory in this one: the value itself, or a copy.
    pub(crate) fn on<D: Data>(
        &self,
        travel: &Portability<D>,
        value: DeviceValue,
        memory: &Arc<dyn DeviceMemory>,
    ) -> Result<DeviceValue, StreamError> {
        if Arc::ptr_eq(memory, self.memory()) {
            return Ok(value);
        }
        let there = self.across(travel, &value, memory);
        self.stream.keep(Box::new(value));
        there
    }

    /// Allocates buffers in a device's memory, with copies of these bytes.
    fn copies<'p>(
        &self,
        from: impl Iterator<Item = (Place<'p>, u64)>,
        memory: &Arc<dyn DeviceMemory>,
    ) -> Result<SmallVec<[DeviceBuffer; 2]>, StreamError> {
        let mut parts = SmallVec::new();
        for (from, bytes) in from {
            let copied = self.stream.buffer(memory, bytes).and_then(|buffer| {
                let at = buffer.at();
                parts.push(buffer);
                self.copy(Place::Device(memory, at), from, bytes)
            });
            if let Err(error) = copied {
                // Operations queued before may still use them.
                self.stream.keep(Box::new(parts));
                return Err(error);
            }
        }
        Ok(parts)
    }

    fn copy(&self, to: Place<'_>, from: Place<'_>, bytes: u64) -> Result<(), StreamError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the target has just been allocated for this stream; the memory manager prevents
        // that anybody writes or frees the source of a transfer before the transfer has ended.
        unsafe { self.stream.copy(to, from, bytes) }
    }

    fn fetch(&self, to: &mut [u8], from: &DeviceBuffer) -> Result<(), StreamError> {
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: nobody accesses the target before the transfer has ended, and the source is
        // protected as in `copy`.
        unsafe { self.stream.fetch(to, place(from)) }
    }

    /// Sends `bytes` bytes from one memory to another (`None`: the host's), to measure the time.
    pub(crate) fn probe(
        &self,
        from: Option<&Arc<dyn DeviceMemory>>,
        to: Option<&Arc<dyn DeviceMemory>>,
        (source, target): (&mut [u8], &mut [u8]),
    ) -> Result<(), StreamError> {
        let bytes = source.len() as u64;
        let (from, to) = (self.end_of_probe(from, source)?, self.end_of_probe(to, target)?);
        // SAFETY: the device's buffers are kept by the stream; the host's are waited for here.
        unsafe { self.stream.copy(to, from, bytes)? };
        self.stream.synchronize()
    }

    fn end_of_probe<'p>(
        &self,
        memory: Option<&'p Arc<dyn DeviceMemory>>,
        host: &mut [u8],
    ) -> Result<Place<'p>, StreamError> {
        let Some(memory) = memory else { return Ok(Place::Host(host.as_mut_ptr())) };
        let buffer = self.stream.buffer(memory, host.len() as u64)?;
        let at = buffer.at();
        self.stream.keep(Box::new(buffer));
        Ok(Place::Device(memory, at))
    }
}

fn place(buffer: &DeviceBuffer) -> Place<'_> {
    Place::Device(buffer.memory(), buffer.at())
}
