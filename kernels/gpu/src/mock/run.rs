//! Executing an operation on the host.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use super::call::Call;
use super::memory::{Block, GARBAGE};
use crate::call::{Arg, Element, Factors};
use crate::twin::{HostKernel, Twin, TwinArg, decode};

/// Memory of an operand on the host.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// There are none.
    Empty,
    /// Bytes of a block, and the GPU that owns them.
    Gpu { gpu: u32, block: Arc<Block>, offset: usize, bytes: usize },
    /// Host memory of the caller's.
    Host { at: usize, bytes: usize },
}

impl Bound {
    fn raw(&self) -> (*mut u8, usize) {
        match self {
            // Aligned, so that an empty slice can be cast to any type.
            Bound::Empty => (ptr::without_provenance_mut(256), 0),
            // SAFETY: when it was bound, so many bytes from there were inside the block, which
            // lives as long as `self`.
            Bound::Gpu { block, offset, bytes, .. } => (unsafe { block.pointer().add(*offset) }, *bytes),
            Bound::Host { at, bytes } => (ptr::with_exposed_provenance_mut(*at), *bytes),
        }
    }

    /// # Safety
    /// Nobody writes the bytes meanwhile.
    unsafe fn read<'a>(&self) -> &'a [u8] {
        let (at, bytes) = self.raw();
        // SAFETY: so many bytes are there: device memory was filled when allocated, the host's are
        // the caller's promise.
        unsafe { std::slice::from_raw_parts(at, bytes) }
    }

    /// # Safety
    /// Nobody else uses the bytes meanwhile.
    unsafe fn write<'a>(&self) -> &'a mut [u8] {
        let (at, bytes) = self.raw();
        // SAFETY: so many bytes are there, as for reading; that nobody else uses them is the
        // caller's promise.
        unsafe { std::slice::from_raw_parts_mut(at, bytes) }
    }
}

/// Host versions of what can be launched.
#[derive(Debug)]
pub(super) struct Twins {
    pub(super) twin: Box<dyn Twin>,
    pub(super) kernels: Kernels,
}

/// Kernels that were given one by one.
pub(super) struct Kernels(pub(super) HashMap<String, HostKernel>);

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Twins {
    pub(super) fn knows(&self, name: &str) -> bool {
        self.kernels.0.contains_key(name) || self.twin.knows(name)
    }

    fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &mut [TwinArg<'_>],
    ) -> Result<(), String> {
        match self.kernels.0.get(name) {
            Some(kernel) => kernel(grid, block, args),
            None => self.twin.launch(name, grid, block, args),
        }
    }

    /// Executes an operation; `bound` are its operands in their order. An `Err` is a fault of the
    /// GPU.
    ///
    /// # Safety
    /// No other operation, and nobody on the host, uses the operands in a way that conflicts, and
    /// operands that are written share no bytes with others of the same operation.
    pub(super) unsafe fn run(&self, call: &Call, bound: &[Bound]) -> Result<(), String> {
        // SAFETY: as the caller promises.
        let run = || unsafe { self.dispatch(call, bound) };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(format!("the host version panicked: {text}"))
        })
    }

    /// # Safety
    /// As [`run`](Twins::run).
    unsafe fn dispatch(&self, call: &Call, bound: &[Bound]) -> Result<(), String> {
        // SAFETY: for all slices below: nobody else uses these bytes in a way that conflicts, the
        // caller promises, and operands that are written share no bytes with others.
        let read = |i: usize| unsafe { bound[i].read() };
        // SAFETY: by the caller's promise nobody else uses these bytes; each operand that is
        // written is borrowed once.
        let write = |i: usize| unsafe { bound[i].write() };
        match call {
            Call::Copy { .. } => {
                write(0).copy_from_slice(read(1));
                Ok(())
            }
            Call::Zero { .. } => {
                write(0).fill(0);
                Ok(())
            }
            Call::Launch { name, grid, block, args } => {
                let mut arrays = 0..;
                let mut next = || arrays.next().unwrap_or_default();
                let mut args: Vec<TwinArg<'_>> = args
                    .iter()
                    .map(|arg| match *arg {
                        Arg::Read(..) => TwinArg::Read(read(next())),
                        Arg::Write(..) => TwinArg::Write(spoilt(write(next()))),
                        Arg::Update(..) => TwinArg::Update(write(next())),
                        Arg::I32(x) => TwinArg::I32(x),
                        Arg::U32(x) => TwinArg::U32(x),
                        Arg::U64(x) => TwinArg::U64(x),
                        Arg::F32(x) => TwinArg::F32(x),
                        Arg::F64(x) => TwinArg::F64(x),
                    })
                    .collect();
                self.launch(name, *grid, *block, &mut args)
            }
            Call::Gemm { shape, at } => {
                let last = 3 * at.len();
                let factors = match shape.factors {
                    Factors::Host { alpha, beta } => [alpha, beta],
                    Factors::Device(_) if last < bound.len() => pair(read(last)),
                    Factors::Device(_) => [0.0; 2], // nothing is computed
                };
                (0..at.len()).try_for_each(|i| {
                    self.twin.gemm(shape, factors, read(3 * i), read(3 * i + 1), write(3 * i + 2))
                })
            }
            Call::Trsm(trsm) => self.twin.trsm(trsm, read(0), write(1)),
            Call::Syrk(syrk) => self.twin.syrk(syrk, read(0), write(1)),
            Call::Potrf(potrf) => {
                let a = write(0);
                spoilt(write(1));
                let info = self.twin.potrf(potrf, a)?;
                write(2).copy_from_slice(&info.to_le_bytes());
                Ok(())
            }
        }
    }
}

/// Reads the two factors from their bytes in device memory.
fn pair(bytes: &[u8]) -> [f64; 2] {
    [0, 4].map(|at| decode(Element::F32, &bytes[at..]))
}

/// Fills bytes with garbage.
fn spoilt(bytes: &mut [u8]) -> &mut [u8] {
    bytes.fill(GARBAGE);
    bytes
}
