//! Kernels that run inside a task: number formats, the Level-3 kernels of one tile, and tile
//! products in lower precision.
//!
//! Every function runs on the calling thread, knows nothing of tasks, and takes the scratch memory
//! it needs from its caller. Matrices are column-major views with a leading dimension, [`MatRef`]
//! and [`MatMut`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`blas`] | `gemm`, `syrk`, `trsm`, `potrf` on one `f32` or `f64` tile |
//! | [`distance`] | sums of powers of differences, for many points at once |
//! | [`formats`] | `f16`, `bf16` and E4M3 tiles with a power-of-two scale, conversions, norms |
//! | [`few_bits`], [`row_blocks`] | matrices packed for products with vectors: 2 to 16 bits, float32 |
//! | [`packed`] | entries of adaptive matrices: 8 to 64 bits each, with their own exponents or a shared one |
//! | [`sell`] | sparse matrices of such entries, laid out for products |
//! | [`tile`] | GEMM, SYRK, TRSM and POTRF on numbers that may carry their rounding errors |
//! | [`sites`] | records of sites with a shared scale, sums of products of 3 x 3 matrices with them |
//! | [`precision`] | products `C - A B^T`, `C - A B` as tensor cores do them: HP1, HP2, HP3, BF1, X3, TF32, FP8; SYRK and TRSM in X3 and TF32 |
//! | [`triangular`] | solves with sparse triangular factors |
//! | [`vectors`] | inner products and updates of vectors |
//! | [`cuda`] | the same on NVIDIA GPUs: sources, and descriptions of launches |
//!
//! Bad operands are an `Err` that names the kernel and the operand ([`KernelError`]); only indexing
//! a view outside its shape panics, as indexing a slice does.
//!
//! ```
//! use zellige_kernels::{MatMut, MatRef, Op, potrf_lower, syrk_lower, trsm_right_lower};
//!
//! // One step of a blocked Cholesky factorisation: A11 = L11 L11^T, L21 = A21 L11^-T, A22 -= L21 L21^T.
//! let n = 2;
//! let mut a11 = vec![4.0, 2.0, 0.0, 5.0]; // column-major, lower triangle
//! let mut a21 = vec![2.0, 4.0, 1.0, 3.0];
//! let mut a22 = vec![9.0, 1.0, 0.0, 9.0];
//! potrf_lower(MatMut::new(&mut a11, n, n, n)?)?;
//! assert_eq!(a11, [2.0, 1.0, 0.0, 2.0]);
//! let l11 = MatRef::new(&a11, n, n, n)?;
//! trsm_right_lower(Op::Trans, l11, MatMut::new(&mut a21, n, n, n)?)?;
//! let l21 = MatRef::new(&a21, n, n, n)?;
//! syrk_lower(-1.0, l21, 1.0, MatMut::new(&mut a22, n, n, n)?)?;
//! assert_eq!(a22, [8.0, -1.0, 0.0, 4.75]);
//! # Ok::<(), zellige_kernels::KernelError>(())
//! ```
//!
//! A product in half precision, with the scale that makes it independent of the unit:
//!
//! ```
//! use zellige_kernels::formats::{HalfKind, HalfMut, HalfRef, max_abs, pack_half, scale_exponent};
//! use zellige_kernels::precision::{GemmPrecision, Sign, gemm_half, scratch_len};
//! use zellige_kernels::{MatMut, MatRef, Op};
//!
//! let a = [1e-11f32, 2e-11, 3e-11, 4e-11]; // radians: far below the smallest f16
//! let view = MatRef::new(&a, 2, 2, 2)?;
//! let scale = scale_exponent(max_abs(view));
//! let mut bits = [0u16; 4];
//! pack_half(view, HalfMut::new(&mut bits, 2, 2, 2, HalfKind::F16, scale)?)?;
//! let half = HalfRef::new(&bits, 2, 2, 2, HalfKind::F16, scale)?;
//! let mut c = [1e-20f32; 4];
//! let mut scratch = vec![0.0; scratch_len(GemmPrecision::Hp1, 2, 2, 2)];
//! gemm_half(Sign::Minus, half, half, Op::Trans, MatMut::new(&mut c, 2, 2, 2)?, &mut scratch)?;
//! assert!((c[0] / (1e-20 - 10e-22) - 1.0).abs() < 1e-4);
//! # Ok::<(), zellige_kernels::KernelError>(())
//! ```
//!
//! `unsafe` is confined to `mat` (views that share one slice), the wrapper of crate `gemm`,
//! `few_bits::dot`, `formats::simd`, `packed::x86`, `distance::x86`, `sell::x86` and `sites::x86`
//! (instructions by name) and `few_bits::gpu` (memory and launches).
#![deny(missing_docs, unsafe_code, unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod blas;
pub mod cuda;
pub mod distance;
mod error;
pub mod few_bits;
pub mod formats;
pub mod formulas;
#[allow(unsafe_code)]
mod mat;
mod number;
pub mod packed;
pub mod precision;
pub mod row_blocks;
mod scalar;
pub mod sell;
pub mod sites;
pub mod tile;
pub mod triangular;
pub mod vectors;

pub use blas::{Op, gemm, potrf_lower, syrk_lower, trsm_left_lower, trsm_right_lower};
pub use error::KernelError;
pub use formats::StorageFormat;
pub use mat::{MatMut, MatRef};
pub use number::RealNumber;
pub use precision::GemmPrecision;
pub use scalar::Scalar;
