//! Host versions of kernels and library routines, which the mock runs.

mod number;
mod reference;

use std::fmt;

pub use number::{decode, encode};
pub(crate) use reference::HostKernel;
pub use reference::Reference;

use crate::call::{Gemm, Potrf, Syrk, Trsm};

/// A kernel's argument as its host version gets it.
#[derive(Debug)]
pub enum TwinArg<'a> {
    /// An array that is only read.
    Read(&'a [u8]),
    /// An array that has to be overwritten completely: it holds garbage.
    Write(&'a mut [u8]),
    /// An array that is read and written.
    Update(&'a mut [u8]),
    /// `int`.
    I32(i32),
    /// `unsigned`.
    U32(u32),
    /// `unsigned long long`.
    U64(u64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
}

/// Host versions of kernels and library routines. Arrays are aligned as their addresses are (256
/// bytes at the begin of an allocation).
///
/// A matrix is passed as the bytes from its first to its last entry, with columns `ld` entries
/// apart. The bytes between columns must not be changed. If there are no entries, the slice is
/// empty. An `Err` is a fault of the GPU: it is lost.
///
/// The default versions of the library routines are those of [`Reference`].
pub trait Twin: Send + Sync + fmt::Debug {
    /// Returns true if there is a kernel of this name.
    fn knows(&self, kernel: &str) -> bool {
        let _ = kernel;
        false
    }

    /// Runs a kernel.
    ///
    /// # Errors
    /// A description of the fault.
    fn launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &mut [TwinArg<'_>],
    ) -> Result<(), String> {
        let _ = (grid, block, args);
        Err(format!("there is no host version of {kernel}"))
    }

    /// Computes `C = alpha op(A) op(B) + beta C`. `factors` are alpha and beta, also if the
    /// description has them in device memory.
    ///
    /// # Errors
    /// A description of the fault.
    fn gemm(&self, gemm: &Gemm, factors: [f64; 2], a: &[u8], b: &[u8], c: &mut [u8]) -> Result<(), String> {
        reference::gemm(gemm, factors, a, b, c);
        Ok(())
    }

    /// Solves with a lower triangular `L`; `b` becomes `X`.
    ///
    /// # Errors
    /// A description of the fault.
    fn trsm(&self, trsm: &Trsm, l: &[u8], b: &mut [u8]) -> Result<(), String> {
        reference::trsm(trsm, l, b);
        Ok(())
    }

    /// Computes the lower triangle of `C = alpha A A^T + beta C`.
    ///
    /// # Errors
    /// A description of the fault.
    fn syrk(&self, syrk: &Syrk, a: &[u8], c: &mut [u8]) -> Result<(), String> {
        reference::syrk(syrk, a, c);
        Ok(())
    }

    /// Factorizes `L L^T = A` in place, lower triangle. Returns 0, or the number of the column
    /// whose pivot is not positive, plus one.
    ///
    /// # Errors
    /// A description of the fault.
    fn potrf(&self, potrf: &Potrf, a: &mut [u8]) -> Result<i32, String> {
        Ok(reference::potrf(potrf, a))
    }
}
