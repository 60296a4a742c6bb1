//! Level-3 kernels on one tile of numbers that may carry their rounding errors.
//!
//! | kernel | computes |
//! |---|---|
//! | [`gemm`] | `C = alpha op(A) op(B) + beta C` |
//! | [`syrk_lower`] | lower triangle of `C = alpha A A^T + beta C` |
//! | [`trsm_right_lower`] | `X op(L) = B` |
//! | [`trsm_left_lower`] | `op(L) X = B` |
//! | [`potrf_lower`] | `L L^T = A` |
//!
//! Each entry goes through the operations of the kernel of the same name in this crate, in
//! the same order, so that without perturbation it has the same bits. That order depends on the
//! registers and on the first-level cache of the processor; one without fused multiply-add has
//! another order in the plain kernels.

mod gemm;
mod machine;
mod number;
mod potrf;
mod syrk;
#[cfg(test)]
mod tests;
mod trsm;

use crate::{KernelError, MatRef, Op, Scalar};

pub use gemm::gemm;
pub use number::Number;
pub use potrf::potrf_lower;
pub use syrk::syrk_lower;
pub use trsm::{trsm_left_lower, trsm_right_lower};

/// Largest order of a triangle that is not halved any more, in the plain kernels too.
const BLOCK: usize = 64;

/// Split position of a triangle of order `n > BLOCK`.
fn middle(n: usize) -> usize {
    (n / 2).next_multiple_of(BLOCK)
}

/// Numbers of the elements of a task: each entry that a kernel computes takes one of its own.
///
/// Random bits of an entry depend on its number and on the task's, on nothing else. Kernels that
/// run in one task share one `Elements`, so that none repeats the bits of another.
#[derive(Debug, Default)]
pub struct Elements {
    next: u64,
}

impl Elements {
    /// The first of `count` numbers that follow each other.
    pub fn take(&mut self, count: usize) -> u64 {
        let first = self.next;
        self.next += count as u64;
        first
    }
}

/// Rows of `op(M)`, one after the other: operands of a sum of products then lie side by side.
fn rows_of<N: Number>(matrix: MatRef<'_, N>, op: Op) -> Vec<N> {
    let (rows, columns) = op.shape(matrix.shape());
    let mut packed = vec![N::from_plain(N::Plain::ZERO); rows * columns];
    for j in 0..matrix.cols() {
        let column = matrix.col(j);
        match op {
            Op::Trans => packed[j * columns..][..columns].copy_from_slice(column),
            Op::None => column.iter().enumerate().for_each(|(i, x)| packed[i * columns + j] = *x),
        }
    }
    packed
}

/// `sum + x_0 y_0 + x_1 y_1 + ..`, fused.
#[inline(always)]
#[track_caller]
fn add_products<N: Number>(sum: N, x: &[N], y: &[N]) -> N {
    let mut sum = sum;
    for (x, y) in x.iter().zip(y) {
        sum = x.mul_add(*y, sum);
    }
    sum
}

/// `sum - x_0 y_0 - x_1 y_1 - ..`, fused.
#[inline(always)]
#[track_caller]
fn subtract_products<N: Number>(sum: N, x: &[N], y: &[N]) -> N {
    let mut sum = sum;
    for (x, y) in x.iter().zip(y) {
        sum = (-*x).mul_add(*y, sum);
    }
    sum
}

/// Returns an error unless `got` is `want`.
fn check_shape(
    kernel: &'static str,
    operand: &'static str,
    got: (usize, usize),
    want: (usize, usize),
) -> Result<(), KernelError> {
    if got == want {
        return Ok(());
    }
    let ((got_rows, got_cols), (want_rows, want_cols)) = (got, want);
    Err(KernelError::Shape { kernel, operand, got_rows, got_cols, want_rows, want_cols })
}
