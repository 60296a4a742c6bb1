//! Level-3 kernels on one tile: one thread, no memory of their own beyond small arrays on the stack
//! (at most 132 KiB).
//!
//! | kernel | computes | flops |
//! |---|---|---|
//! | [`gemm`] | `C = alpha op(A) op(B) + beta C` | `2 m n k` |
//! | [`syrk_lower`] | lower triangle of `C = alpha A A^T + beta C` | `n^2 k` |
//! | [`trsm_right_lower`] | `X op(L) = B` | `m n^2` |
//! | [`trsm_left_lower`] | `op(L) X = B` | `m^2 n` |
//! | [`potrf_lower`] | `L L^T = A` | `n^3 / 3` |
//!
//! All but `gemm` halve their problem until a triangle of order at most 64 (`syrk`: 128) is left,
//! so that most flops run in `gemm` blocks as large as the problem has; the triangles run in a
//! register-blocked kernel of their own. The pack buffers inside crate `gemm` are the only memory
//! that is allocated.

#[allow(unsafe_code)]
mod gemm;
mod micro;
mod potrf;
pub(crate) mod syrk;
pub(crate) mod transpose;
pub(crate) mod trsm;

pub(crate) use gemm::product;
pub use gemm::{Op, gemm};
pub use potrf::potrf_lower;
pub use syrk::syrk_lower;
pub use trsm::{trsm_left_lower, trsm_right_lower};

/// Largest order of a triangle that is not halved any more.
pub(crate) const BLOCK: usize = 64;

/// Returns the split position of a triangle of order `n > BLOCK`: near the middle, at a multiple of
/// [`BLOCK`].
pub(crate) fn middle(n: usize) -> usize {
    (n / 2).next_multiple_of(BLOCK)
}
