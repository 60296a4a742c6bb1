//! Number formats, conversions between them, and the measures of a tile that choose its scale.
//!
//! # Tiles of 16 and 8 bits carry a scale
//!
//! A tile stored in `f16`, `bf16` or E4M3 is its numbers and one exponent: true value = stored
//! value times `2^scale_exp`. Without it a matrix in radians (entries around `1e-11`) would
//! underflow to zero in `f16` while the same matrix in arcseconds is fine. Powers of two make the
//! scaling itself free of rounding.
//!
//! | function | scale |
//! |---|---|
//! | [`scale_exponent`] | puts the largest magnitude into `[1, 2)`: the scale of one 16-bit tile |
//! | [`split_scale_exponent`] | puts it into `[2^14, 2^15)`: the scale of a pair of `f16` tiles that stands for an `f32` tile |
//! | [`fp8_scale_exponent`] | puts it into `(224, 448]`, the top of E4M3: the scale of one 8-bit tile |
//!
//! TF32 is no storage format: operands stay `f32` and are rounded when they are multiplied
//! ([`bits::tf32_from_f32`]).

pub mod bits;
pub(crate) mod fp8_tile;
pub(crate) mod half_tile;
pub(crate) mod norms;
#[allow(unsafe_code)]
pub(crate) mod simd;
mod storage;

pub use fp8_tile::{Fp8Mut, Fp8Ref, fp8_scale_exponent, pack_fp8, unpack_fp8};
pub use half_tile::{
    HalfKind, HalfMut, HalfRef, SplitRef, pack_half, pack_split, scale_exponent, split_scale_exponent,
    unpack_half, unpack_split,
};
pub use norms::{frobenius_norm, max_abs};
pub use storage::{StorageFormat, UnknownFormat};

use crate::error::check_shape;
use crate::{KernelError, MatMut, MatRef};

/// `dst = f32(src)`, rounded to nearest.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ.
pub fn narrow(src: MatRef<'_, f64>, mut dst: MatMut<'_, f32>) -> Result<(), KernelError> {
    check_shape("narrow", "dst", dst.shape(), src.shape())?;
    for j in 0..src.cols() {
        simd::narrow_f64(src.col(j), dst.col_mut(j));
    }
    Ok(())
}

/// `dst = f64(src)`, exactly.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ.
pub fn widen(src: MatRef<'_, f32>, mut dst: MatMut<'_, f64>) -> Result<(), KernelError> {
    check_shape("widen", "dst", dst.shape(), src.shape())?;
    for j in 0..src.cols() {
        simd::widen_f32(src.col(j), 1.0, dst.col_mut(j));
    }
    Ok(())
}
