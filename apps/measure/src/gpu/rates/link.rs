//! Operations that measurements put on streams themselves: events with a clock, copies between
//! memory that a [`Link`] owns, and a copy of one operand of a body to another. With
//! [`routines`](super::routines) one of the two modules of this crate with `unsafe`.
#![allow(unsafe_code)]

use std::sync::Arc;

use zellige_cuda::GpuContext;
use zellige_gpu::{Address, Driver, Element, Event, GpuError, Matrix, Place, Stream};
use zellige_kernels::cuda::{Loaded, SOURCES, copy};
use zellige_runtime::TaskError;
use zellige_runtime::codelet::{DeviceMut, DeviceRef};

/// Two events of a GPU with a clock.
#[derive(Debug)]
pub(super) struct Stopwatch {
    driver: Arc<dyn Driver>,
    from: Event,
    to: Event,
}

impl Stopwatch {
    /// # Errors
    /// The driver's; so for all functions here.
    pub(super) fn new(driver: &Arc<dyn Driver>, gpu: u32) -> Result<Self, GpuError> {
        let from = driver.create_event(gpu, true)?;
        let to = driver.create_event(gpu, true).inspect_err(|_| driver.destroy_event(from))?;
        Ok(Stopwatch { driver: Arc::clone(driver), from, to })
    }

    /// Times what `body` puts on the stream.
    pub(super) fn time<E: From<GpuError>>(
        &self,
        stream: Stream,
        body: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.driver.record(self.from, stream)?;
        body()?;
        Ok(self.driver.record(self.to, stream)?)
    }

    /// Seconds between the two, once the stream has come past both.
    pub(super) fn seconds(&self) -> Result<f64, GpuError> {
        self.driver.elapsed(self.from, self.to)
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.driver.destroy_event(self.from);
        self.driver.destroy_event(self.to);
    }
}

/// Direction of the copies of a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToGpu,
    ToHost,
    /// Within the GPU's memory.
    Within,
}

/// Page-locked memory and twice as many bytes of a GPU's, and a stream between them.
pub(super) struct Link<'d> {
    driver: &'d Arc<dyn Driver>,
    gpu: u32,
    stream: Stream,
    bytes: usize,
    host: Option<*mut u8>,
    there: [Option<Address>; 2],
}

impl<'d> Link<'d> {
    /// Creates a link with random bytes on the host.
    pub(super) fn new(driver: &'d Arc<dyn Driver>, gpu: u32, bytes: usize) -> Result<Self, GpuError> {
        let stream = driver.create_stream(gpu, false)?;
        let mut link = Link { driver, gpu, stream, bytes, host: None, there: [None; 2] };
        for there in &mut link.there {
            *there = Some(driver.allocate(stream, bytes as u64)?);
        }
        let host = driver.allocate_pinned(bytes)?;
        link.host = Some(host);
        for i in 0..bytes {
            // SAFETY: `i` is below the number of bytes that were allocated, and nobody else knows
            // of them.
            unsafe { host.add(i).write((i.wrapping_mul(0x9E37_79B1) >> 13) as u8) };
        }
        Ok(link)
    }

    /// Seconds of one copy.
    pub(super) fn seconds(&self, direction: Direction) -> Result<f64, GpuError> {
        let (Some(host), [Some(there), Some(other)]) = (self.host, self.there) else { return Ok(f64::NAN) };
        let host = Place::Host(host);
        let [there, other] = [there, other].map(|at| Place::Gpu(self.gpu, at));
        let (to, from) = match direction {
            Direction::ToGpu => (there, host),
            Direction::ToHost => (host, there),
            Direction::Within => (other, there),
        };
        let watch = Stopwatch::new(self.driver, self.gpu)?;
        watch.time(self.stream, || {
            // SAFETY: both ends are this link's own, and live until it is dropped, which waits for
            // the stream.
            unsafe { self.driver.copy(self.stream, to, from, self.bytes as u64) }
        })?;
        self.driver.synchronize(self.stream)?;
        watch.seconds()
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        // After a failure of the driver there is nothing left to wait for, and no one to report it
        // to.
        let _ = self.driver.synchronize(self.stream);
        for there in self.there.into_iter().flatten() {
            // SAFETY: it came from `allocate` for this GPU, and is given back here alone.
            let _ = unsafe { self.driver.free(self.stream, there) };
        }
        if let Some(host) = self.host {
            // SAFETY: it came from `allocate_pinned` with so many bytes; the stream has ended.
            unsafe { self.driver.free_pinned(host, self.bytes) };
        }
        self.driver.destroy_stream(self.stream);
    }
}

/// Puts a kernel on the body's stream that copies one operand to another of the same length.
pub(super) fn copy_operand(
    cx: GpuContext<'_>,
    from: &DeviceRef<'_, Vec<f32>>,
    to: &DeviceMut<'_, Vec<f32>>,
) -> Result<(), TaskError> {
    let count = u32::try_from((*from.header()).min(*to.header()))?;
    let array = |at| Matrix { at, ld: count.max(1), element: Element::F32 };
    let kernels = Loaded::shared(cx.driver(), cx.gpu(), SOURCES)?;
    let launch = copy((count, 1), array(from.part(0).0), array(to.part(0).0))?;
    // SAFETY: the launch reads and writes `count` numbers of operands of the body, which have as
    // many, on the body's stream.
    unsafe { Ok(kernels.launch(&**cx.driver(), cx.stream(), &launch)?) }
}
