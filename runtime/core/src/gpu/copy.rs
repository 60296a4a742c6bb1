//! Values on their way between the host and GPUs.

use std::sync::Arc;

use smallvec::SmallVec;
use zellige_gpu::{Address, GpuError, Place};

use super::context::GpuContext;
use super::landing::Landing;
use super::memory::{DeviceBuffer, GpuMemory, GpuStream};
use super::value::DeviceValue;
use crate::data::{Data, Portability};
use crate::format::Format;

/// Carries values over one stream. Copies are queued, not waited for: their sources stay until the stream's operation has ended.
#[derive(Clone, Copy)]
pub(crate) struct Carrier<'s> {
    pub(crate) stream: &'s GpuStream,
}

impl Carrier<'_> {
    /// A copy of a host value in a GPU's memory. The caller keeps `value` where it is until the copy has ended.
    pub(crate) fn up<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &D,
        memory: &Arc<GpuMemory>,
    ) -> Result<DeviceValue, GpuError> {
        let host = |bytes: &[u8]| (Place::Host(bytes.as_ptr().cast_mut()), bytes.len() as u64);
        // The type's own code first: should it panic, nothing has been queued.
        let (header, meta, parts) = ((travel.header)(value), value.meta(), (travel.parts)(value));
        let parts = self.copies(parts.into_iter().map(host), memory)?;
        Ok(DeviceValue::new(header, parts, meta))
    }

    /// A copy of a GPU's value on the host, made where it is to stay: `place` is not moved before the copy has ended.
    pub(crate) fn down<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        place: &mut Option<D>,
    ) -> Result<(), GpuError> {
        let blank = (travel.blank)(&value.known().header).expect("it was made by the same functions");
        let parts = (travel.parts_mut)(place.insert(blank));
        // Before anything is queued, since a panic lets the value go.
        let sizes = parts.iter().map(|to| to.len() as u64);
        assert!(
            sizes.eq(value.parts.iter().map(DeviceBuffer::bytes)),
            "a header says how large its parts are"
        );
        parts.into_iter().zip(&value.parts).try_for_each(|(to, from)| self.fetch(to, from))
    }

    /// A copy of a GPU's value in the memory of the same or another one.
    pub(crate) fn across<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        memory: &Arc<GpuMemory>,
    ) -> Result<DeviceValue, GpuError> {
        let there = |from: &DeviceBuffer| (Place::Gpu(from.gpu(), from.at()), from.bytes());
        let known = value.known();
        let header = (travel.clone_header)(&known.header);
        let parts = self.copies(value.parts.iter().map(there), memory)?;
        Ok(DeviceValue::new(header, parts, known.meta))
    }

    /// A GPU's value in another format, made on the stream's GPU and in its memory; `None`: only the host knows how.
    pub(crate) fn converted<D: Data>(
        &self,
        travel: &Portability<D>,
        value: &DeviceValue,
        to: Format,
    ) -> Result<Option<DeviceValue>, GpuError> {
        let cx = GpuContext::new(self.stream);
        if value.parts.iter().all(|part| part.gpu() == self.memory().gpu) {
            return (travel.convert_on_gpu)(value, to, &cx);
        }
        let near = Arc::new(self.across(travel, value, self.memory())?);
        // Also where the type's own code panics.
        self.stream.keep(Arc::clone(&near));
        (travel.convert_on_gpu)(&near, to, &cx)
    }

    /// The memory of the GPU whose stream it is.
    pub(crate) fn memory(&self) -> &Arc<GpuMemory> {
        &self.stream.memory
    }

    /// A value of that memory's in this one: itself, or a copy.
    pub(crate) fn on<D: Data>(
        &self,
        travel: &Portability<D>,
        value: DeviceValue,
        memory: &Arc<GpuMemory>,
    ) -> Result<DeviceValue, GpuError> {
        if Arc::ptr_eq(memory, self.memory()) {
            return Ok(value);
        }
        let there = self.across(travel, &value, memory);
        self.stream.keep(value);
        there
    }

    /// Waits for all that is queued, and for its bytes to be where they belong.
    pub(crate) fn wait(&self) -> Result<(), GpuError> {
        let landing = self.stream.take_landing();
        self.stream.driver().synchronize(self.stream.stream)?;
        landing.into_iter().for_each(Landing::land);
        Ok(())
    }

    /// New buffers in a GPU's memory with copies of these bytes.
    fn copies(
        &self,
        from: impl Iterator<Item = (Place, u64)>,
        memory: &Arc<GpuMemory>,
    ) -> Result<SmallVec<[DeviceBuffer; 2]>, GpuError> {
        let mut parts = SmallVec::new();
        for (from, bytes) in from {
            let copied = self.stream.allocate_on(memory, bytes).and_then(|buffer| {
                let at = buffer.at();
                parts.push(buffer);
                self.copy((memory.gpu, at), from, bytes)
            });
            if let Err(error) = copied {
                // What was queued before may still use them.
                self.stream.keep(parts);
                return Err(error);
            }
        }
        Ok(parts)
    }

    fn copy(&self, (gpu, to): (u32, Address), from: Place, bytes: u64) -> Result<(), GpuError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the target has just been allocated for this stream; the memory manager lets nobody write the source of a transfer, nor
        // give it up, before the transfer has ended.
        unsafe { self.stream.driver().copy(self.stream.stream, Place::Gpu(gpu, to), from, bytes) }
    }

    fn fetch(&self, to: &mut [u8], from: &DeviceBuffer) -> Result<(), GpuError> {
        if to.is_empty() {
            return Ok(());
        }
        let (source, bytes) = (Place::Gpu(from.gpu(), from.at()), to.len() as u64);
        let driver = self.stream.driver();
        // Where no memory can be locked, it goes the slow way.
        let Some(block) = self.memory().pinned.stage(to.len()) else {
            let there = Place::Host(to.as_mut_ptr());
            // SAFETY: the target is a place that nobody looks at before the transfer has ended, and the source as in `copy`.
            return unsafe { driver.copy(self.stream.stream, there, source, bytes) };
        };
        let there = Place::Host(block.at().as_ptr());
        // SAFETY: the source is as in `copy`, and nobody else has the block; it stays with the stream until
        // the copy has ended.
        unsafe { driver.copy(self.stream.stream, there, source, bytes)? };
        // SAFETY: nobody looks at `to` before the transfer has ended, and the stream lets go of it before
        // that (`Flying::landing`, `wait`).
        self.stream.land_later(unsafe { Landing::new(block, to) });
        Ok(())
    }

    /// Sends so many bytes over the way from one memory to another (`None`: the host's), to see how long that takes.
    pub(crate) fn probe(
        &self,
        from: Option<&Arc<GpuMemory>>,
        to: Option<&Arc<GpuMemory>>,
        (source, target): (&mut [u8], &mut [u8]),
    ) -> Result<(), GpuError> {
        let bytes = source.len() as u64;
        let place = |memory: Option<&Arc<GpuMemory>>, host: &mut [u8]| {
            let on_host = Place::Host(host.as_mut_ptr());
            let Some(memory) = memory else { return Ok(on_host) };
            let buffer = self.stream.allocate_on(memory, bytes)?;
            let place = Place::Gpu(memory.gpu, buffer.at());
            self.stream.keep(buffer);
            Ok(place)
        };
        let (from, to) = (place(from, source)?, place(to, target)?);
        // SAFETY: the GPU's buffers are kept by the stream; the host's are waited for here.
        unsafe { self.stream.driver().copy(self.stream.stream, to, from, bytes)? };
        self.wait()
    }
}
