//! Rates of single routines of the libraries over their order, and the host's cost of a launch and
//! of waiting for its end.
//!
//! With [`link`](super::link) one of the two modules of this crate with `unsafe`: routines are
//! called on the driver, without a runtime.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_gpu::{
    Address, Compute, Driver, Element, Factors, Gemm, GpuError, Matrix, Place, Potrf, Side, Stream, Syrk,
    Transpose, Trsm,
};

use super::GpuBench;
use super::link::Stopwatch;
use crate::median;

/// A routine on square matrices of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Routine {
    /// `C -= A B^T`, operands in f16, sums and C in f32: `2 n^3` flop.
    GemmF16,
    /// `C -= A B^T` in f32, operands not rounded: `2 n^3` flop.
    Sgemm,
    /// `C -= A A^T`, the lower triangle, f32: `n^3` flop.
    Ssyrk,
    /// `X L^T = B` with as many rows as L: `n^3` flop.
    Strsm,
    /// Cholesky factorisation in f32: `n^3 / 3` flop.
    Spotrf,
}

impl Routine {
    /// All routines.
    pub const ALL: [Routine; 5] =
        [Routine::GemmF16, Routine::Sgemm, Routine::Ssyrk, Routine::Strsm, Routine::Spotrf];

    fn flop(self, order: u32) -> f64 {
        let cube = f64::from(order).powi(3);
        match self {
            Routine::GemmF16 | Routine::Sgemm => 2.0 * cube,
            Routine::Ssyrk | Routine::Strsm => cube,
            Routine::Spotrf => cube / 3.0,
        }
    }

    /// Returns the type of the operands that are read.
    fn element(self) -> Element {
        if self == Routine::GemmF16 { Element::F16 } else { Element::F32 }
    }
}

/// Rate of a routine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RoutineRate {
    /// The routine.
    pub routine: Routine,
    /// Rows and columns of all its matrices.
    pub order: u32,
    /// Time of one call in a sequence of calls (seconds).
    pub seconds: f64,
    /// Rate of its operations [Tflop/s].
    pub tflops: f64,
}

/// Host time of an operation that takes the GPU no time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latencies {
    /// Time to put an operation on a stream (seconds).
    pub launch_seconds: f64,
    /// Time from putting an operation on a stream until its end is known, if the thread sleeps
    /// until then (seconds).
    pub blocking_seconds: f64,
    /// Time until its end is known, if the thread polls (seconds).
    pub spinning_seconds: f64,
}

/// Number of calls in a sequence, so that the launch overhead of a single one does not count.
const IN_A_ROW: usize = 8;

/// A stream, matrices on its GPU, and page-locked memory with random numbers.
struct Space<'d> {
    driver: &'d Arc<dyn Driver>,
    gpu: u32,
    stream: Stream,
    /// Operand that is read, matrix that is written, working space, a word for the factorisation.
    there: Vec<(Address, u64)>,
    host: Option<(*mut u8, usize)>,
}

impl<'d> Space<'d> {
    fn new(driver: &'d Arc<dyn Driver>, gpu: u32) -> Result<Self, GpuError> {
        let stream = driver.create_stream(gpu, false)?;
        Ok(Space { driver, gpu, stream, there: Vec::new(), host: None })
    }

    fn allocate(&mut self, bytes: u64) -> Result<Address, GpuError> {
        let at = self.driver.allocate(self.stream, bytes)?;
        self.there.push((at, bytes));
        Ok(at)
    }

    /// Fills page-locked memory with a square matrix: ones on its diagonal. Its other entries are
    /// so small that it is positive definite, and that products with it neither grow nor vanish.
    fn random(&mut self, element: Element, order: u32) -> Result<(), GpuError> {
        let (n, size) = (order as usize, element.bytes() as usize);
        let host = self.driver.allocate_pinned(n * n * size)?;
        self.host = Some((host, n * n * size));
        for i in 0..n * n {
            let bits = (i as u32).wrapping_mul(0x9E37_79B1).rotate_left(13).wrapping_mul(0x85EB_CA6B);
            let is_diagonal = i % (n + 1) == 0;
            // Random mantissas and signs; the exponents are those of 2^-14 in f32, of 2^-1 in f16.
            if element == Element::F16 {
                let number = (bits as u16 & 0x83FF) | 0x3800;
                // SAFETY: the matrix has `n * n` numbers of two bytes, page-aligned, and nobody
                // else knows of them.
                unsafe { host.cast::<u16>().add(i).write(number) };
            } else {
                let small = f32::from_bits((bits & 0x807F_FFFF) | (113 << 23));
                // SAFETY: the same, with four bytes.
                unsafe { host.cast::<f32>().add(i).write(if is_diagonal { 1.0 } else { small }) };
            }
        }
        Ok(())
    }

    /// Brings the random matrix to the GPU.
    fn fill(&self, at: Address) -> Result<(), GpuError> {
        let Some((host, bytes)) = self.host else { return Ok(()) };
        let (to, from) = (Place::Gpu(self.gpu, at), Place::Host(host));
        // SAFETY: both ends have so many bytes, and live until this is dropped, which waits for the
        // stream.
        unsafe { self.driver.copy(self.stream, to, from, bytes as u64) }
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        // After a failure of the driver there is nothing left to wait for, and no one to report it
        // to.
        let _ = self.driver.synchronize(self.stream);
        for (there, _) in self.there.drain(..) {
            // SAFETY: it came from `allocate` for this GPU, and is given back here alone.
            let _ = unsafe { self.driver.free(self.stream, there) };
        }
        if let Some((host, bytes)) = self.host {
            // SAFETY: it came from `allocate_pinned` with so many bytes; the stream has ended.
            unsafe { self.driver.free_pinned(host, bytes) };
        }
        self.driver.destroy_stream(self.stream);
    }
}

/// A routine with all that it is called with.
struct Call<'d> {
    space: Space<'d>,
    routine: Routine,
    order: u32,
    operand: Address,
    written: Address,
    /// Working space of the factorisation: address and bytes.
    workspace: (Address, u64),
    info: Address,
}

impl<'d> Call<'d> {
    fn new(driver: &'d Arc<dyn Driver>, gpu: u32, routine: Routine, order: u32) -> Result<Self, GpuError> {
        let mut space = Space::new(driver, gpu)?;
        let numbers = u64::from(order).pow(2);
        // The device first: it may be out of memory.
        let operand = space.allocate(numbers * routine.element().bytes())?;
        let written = space.allocate(numbers * Element::F32.bytes())?;
        space.random(routine.element(), order)?;
        let bytes = match routine {
            Routine::Spotrf => driver.potrf_workspace(space.stream, order, Element::F32)?,
            _ => 4,
        };
        let (workspace, info) = ((space.allocate(bytes)?, bytes), space.allocate(4)?);
        space.fill(operand)?;
        Ok(Call { space, routine, order, operand, written, workspace, info })
    }

    /// Restores the matrix that is written to its state before the first call of a sequence.
    fn prepare(&self) -> Result<(), GpuError> {
        let space = &self.space;
        if self.routine.element() == Element::F32 {
            return space.fill(self.written);
        }
        let bytes = u64::from(self.order).pow(2) * Element::F32.bytes();
        // SAFETY: it has so many bytes, and lives until the space is dropped, which waits for the
        // stream.
        unsafe { space.driver.zero(space.stream, self.written, bytes) }
    }

    /// Calls in a row: a factor is no matrix to factor again.
    fn in_a_row(&self) -> usize {
        if self.routine == Routine::Spotrf { 1 } else { IN_A_ROW }
    }

    fn call(&self) -> Result<(), GpuError> {
        let Call { space, routine, order, operand, written, workspace, info } = self;
        let (driver, stream, n) = (space.driver, space.stream, *order);
        let matrix = |at, element| Matrix { at, ld: n, element };
        let (operand, written) = (matrix(*operand, routine.element()), matrix(*written, Element::F32));
        let gemm = Gemm {
            op_a: Transpose::No,
            op_b: Transpose::Yes,
            m: n,
            n,
            k: n,
            factors: Factors::Host { alpha: -1.0, beta: 1.0 },
            a: operand,
            b: operand,
            c: written,
            compute: Compute::F32,
        };
        let syrk = Syrk { n, k: n, alpha: -1.0, a: operand, beta: 1.0, c: written };
        let (side, op) = (Side::Right, Transpose::Yes);
        let trsm = Trsm { side, op, m: n, n, l: operand, b: written };
        let (workspace, workspace_bytes) = *workspace;
        let potrf = Potrf { n, a: written, workspace, workspace_bytes, info: *info };
        // SAFETY: all matrices are the space's, of the order and numbers that the call names; they
        // live until the space is dropped, which waits for the stream.
        unsafe {
            match routine {
                Routine::GemmF16 | Routine::Sgemm => driver.gemm(stream, &gemm),
                Routine::Ssyrk => driver.syrk(stream, &syrk),
                Routine::Strsm => driver.trsm(stream, &trsm),
                Routine::Spotrf => driver.potrf(stream, &potrf),
            }
        }
    }
}

impl GpuBench {
    /// Bytes that [`routine`](GpuBench::routine) needs of a GPU's memory, without the working space
    /// of factorisations.
    pub fn routine_bytes(routine: Routine, order: u32) -> u64 {
        u64::from(order).pow(2) * (routine.element().bytes() + Element::F32.bytes())
    }

    /// Measures the rate of a routine at one order.
    ///
    /// # Errors
    /// The driver's, e.g. if there is not enough memory, or a library is missing.
    pub fn routine(&self, routine: Routine, order: u32) -> Result<RoutineRate, GpuError> {
        let call = Call::new(&self.driver, self.number, routine, order)?;
        let (stream, calls) = (call.space.stream, call.in_a_row());
        let mut times = Vec::new();
        // The first does not count: libraries are loaded.
        for at in 0..=self.repeats.max(1) {
            call.prepare()?;
            let watch = Stopwatch::new(&self.driver, self.number)?;
            watch.time(stream, || (0..calls).try_for_each(|_| call.call()))?;
            self.driver.synchronize(stream)?;
            if at > 0 {
                times.push(watch.seconds()? / calls as f64);
            }
        }
        let seconds = median(times);
        Ok(RoutineRate { routine, order, seconds, tflops: routine.flop(order) / seconds / 1e12 })
    }

    /// Measures the host time of launches and their ends: medians of `count` operations.
    ///
    /// # Errors
    /// The driver's.
    pub fn latencies(&self, count: usize) -> Result<Latencies, GpuError> {
        let mut space = Space::new(&self.driver, self.number)?;
        let at = space.allocate(4)?;
        let (driver, stream) = (&self.driver, space.stream);
        // SAFETY: four bytes of the space, which live until it is dropped; it waits for the stream.
        let launch = || unsafe { driver.zero(stream, at, 4) };
        let event = Event::new(driver, self.number)?;
        let ended = |wait: &dyn Fn() -> Result<(), GpuError>| -> Result<f64, GpuError> {
            let one = |_| {
                let start = Instant::now();
                launch()?;
                driver.record(event.event, stream)?;
                wait()?;
                Ok(start.elapsed().as_secs_f64())
            };
            Ok(median((0..count.max(1)).map(one).collect::<Result<Vec<f64>, GpuError>>()?))
        };
        let blocking_seconds = ended(&|| driver.wait(event.event))?;
        let spinning_seconds = ended(&|| {
            while !driver.is_done(event.event)? {
                std::hint::spin_loop();
            }
            Ok(())
        })?;
        let start = Instant::now();
        (0..count.max(1)).try_for_each(|_| launch())?;
        let launch_seconds = start.elapsed().as_secs_f64() / count.max(1) as f64;
        Ok(Latencies { launch_seconds, blocking_seconds, spinning_seconds })
    }
}

/// An event without a clock.
struct Event<'d> {
    driver: &'d Arc<dyn Driver>,
    event: zellige_gpu::Event,
}

impl<'d> Event<'d> {
    fn new(driver: &'d Arc<dyn Driver>, gpu: u32) -> Result<Self, GpuError> {
        Ok(Event { driver, event: driver.create_event(gpu, false)? })
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        self.driver.destroy_event(self.event);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, mock};
    use super::*;

    #[test]
    fn every_routine_has_a_rate_at_every_order() {
        let Some(mock) = mock(3) else { return };
        let bench = GpuBench { driver: mock.clone(), number: 0, repeats: 2, least_seconds: 0.0 };
        for routine in Routine::ALL {
            for order in [16, 48] {
                let rate = bench.routine(routine, order).unwrap();
                assert!(rate.seconds > 0.0 && rate.tflops > 0.0, "{rate:?}");
                let flop = rate.seconds * rate.tflops * 1e12;
                assert!((flop / routine.flop(order) - 1.0).abs() < 1e-9, "{rate:?}");
            }
        }
        let latencies = bench.latencies(5).unwrap();
        for seconds in [latencies.launch_seconds, latencies.blocking_seconds, latencies.spinning_seconds] {
            assert!(seconds > 0.0 && seconds.is_finite(), "{latencies:?}");
        }
        assert!(bench.routine(Routine::Sgemm, 40_000).is_err(), "there is no room");
        check(&mock);
    }
}
