//! Products of 16-bit operands with `f32` sums: HP1, BF1, HP2 and X3.
//!
//! A product of two `f16` (or two `bf16`) numbers is exact in `f32`, so widening the operands and running the `f32` product
//! is the tensor core's arithmetic, up to the order of the sums. The scales of the operands meet in one power of two, the
//! product's factor.

use super::{GemmPrecision, Sign, scratch_len};
use crate::blas::product;
use crate::error::check_shape;
use crate::formats::simd::power_of_two;
use crate::formats::{HalfKind, HalfMut, HalfRef, SplitRef, max_abs, scale_exponent};
use crate::{KernelError, MatMut, MatRef, Op};

/// `C = C + sign A op(B)`: `f16` operands (HP1) or `bf16` operands (BF1), sums and `C` in `f32`.
///
/// Scratch: [`scratch_len`]`(Hp1, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`], [`KernelError::Scratch`], or [`KernelError::Format`] when one operand is `f16` and the other
/// `bf16`; `C` is then untouched.
pub fn gemm_half(
    sign: Sign,
    a: HalfRef<'_>,
    b: HalfRef<'_>,
    op_b: Op,
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_half";
    let (m, n, k) = check_operands(NAME, a.mat.shape(), b.mat.shape(), op_b, c.shape())?;
    check_kind(NAME, "B", b.kind, a.kind)?;
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::Hp1, m, n, k))?;
    let (wide_a, wide_b) = scratch.split_at_mut(m * k);
    let (alpha, rest) = factor(sign, exponent_sum(a.scale_exp, b.scale_exp));
    let wide_a = widen(a.mat, a.kind, rest, wide_a)?;
    let wide_b = widen(b.mat, b.kind, (1.0, 1.0), wide_b)?;
    product(alpha, wide_a, Op::None, wide_b, op_b, 1.0, c);
    Ok(())
}

/// `C = f16(C + sign A op(B))`: HP2, `f16` operands and `C`, sums in `f32`.
///
/// `C` is widened, updated in `f32`, and rounded back once, in its own scale. When a stored magnitude would exceed `2^15`, the
/// scale is raised first, once, so that the largest lies in `[1, 2)`; the new scale is in `c.scale_exp`.
///
/// Scratch: [`scratch_len`]`(Hp2, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`], [`KernelError::Scratch`], or [`KernelError::Format`] when an operand is not `f16`; `C` is then
/// untouched.
pub fn gemm_hp2(
    sign: Sign,
    a: HalfRef<'_>,
    b: HalfRef<'_>,
    op_b: Op,
    c: &mut HalfMut<'_>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_hp2";
    let (m, n, k) = check_operands(NAME, a.mat.shape(), b.mat.shape(), op_b, c.mat.shape())?;
    for (operand, kind) in [("A", a.kind), ("B", b.kind), ("C", c.kind)] {
        check_kind(NAME, operand, kind, HalfKind::F16)?;
    }
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::Hp2, m, n, k))?;
    let (operands, wide_c) = scratch.split_at_mut((m + n) * k);
    let (wide_a, wide_b) = operands.split_at_mut(m * k);
    let exp = exponent_sum(a.scale_exp, b.scale_exp).saturating_sub(c.scale_exp);
    let (alpha, rest) = factor(sign, exp);
    let wide_a = widen(a.mat, a.kind, rest, wide_a)?;
    let wide_b = widen(b.mat, b.kind, (1.0, 1.0), wide_b)?;
    widen(c.mat.as_ref(), c.kind, (1.0, 1.0), wide_c)?;
    let sum = MatMut::new(wide_c, m, n, m)?;
    product(alpha, wide_a, Op::None, wide_b, op_b, 1.0, sum);
    store_rescaled(MatRef::new(wide_c, m, n, m)?, c)
}

/// `C = C + sign A op(B)` with operands split in two `f16` tiles: X3, three products, sums and `C` in `f32`.
///
/// `A = (Ah + Al) 2^a`, `B = (Bh + Bl) 2^b`. The small products come first: `C += Al Bh + Ah Bl`, as one product of inner
/// length `2 k`, then `C += Ah Bh`. The fourth product, `Al Bl`, is below `2^-22 |A| |B|` and left out, so the error is about
/// that of the `f32` product of the unsplit operands.
///
/// Scratch: [`scratch_len`]`(X3, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`] or [`KernelError::Scratch`]; `C` is then untouched.
pub fn gemm_x3(
    sign: Sign,
    a: SplitRef<'_>,
    b: SplitRef<'_>,
    op_b: Op,
    mut c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_x3";
    let (m, n, k) = check_operands(NAME, a.hi.shape(), b.hi.shape(), op_b, c.shape())?;
    check_shape(NAME, "A lo", a.lo.shape(), a.hi.shape())?;
    check_shape(NAME, "B lo", b.lo.shape(), b.hi.shape())?;
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::X3, m, n, k))?;
    let (alpha, rest) = factor(sign, exponent_sum(a.scale_exp, b.scale_exp));
    let (wide_a, wide_b) = scratch.split_at_mut(2 * m * k);
    let f16 = HalfKind::F16;
    // [Al | Ah], side by side.
    let (low, high) = wide_a.split_at_mut(m * k);
    widen(a.lo, f16, rest, low)?;
    widen(a.hi, f16, rest, high)?;
    // Bh and Bl joined along the inner dimension: under each other as they are, side by side transposed.
    let wide_b = match op_b {
        Op::Trans => {
            let (high, low) = wide_b.split_at_mut(n * k);
            widen(b.hi, f16, (1.0, 1.0), high)?;
            widen(b.lo, f16, (1.0, 1.0), low)?;
            MatRef::new(wide_b, n, 2 * k, n)?
        }
        Op::None => {
            for j in 0..n {
                let (high, low) = wide_b[j * 2 * k..][..2 * k].split_at_mut(k);
                f16.unpack(b.hi.col(j), (1.0, 1.0), high);
                f16.unpack(b.lo.col(j), (1.0, 1.0), low);
            }
            MatRef::new(wide_b, 2 * k, n, 2 * k)?
        }
    };
    let wide_a = MatRef::new(wide_a, m, 2 * k, m)?;
    product(alpha, wide_a, Op::None, wide_b, op_b, 1.0, c.reborrow());
    let (rows, cols) = b.hi.shape();
    let (a_hi, b_hi) = (wide_a.sub(0, k, m, k), wide_b.sub(0, 0, rows, cols));
    product(alpha, a_hi, Op::None, b_hi, op_b, 1.0, c);
    Ok(())
}

/// Checks that `A op(B)` is defined and of `C`'s shape; `(m, n, k)`.
pub(super) fn check_operands(
    kernel: &'static str,
    a: (usize, usize),
    b: (usize, usize),
    op_b: Op,
    c: (usize, usize),
) -> Result<(usize, usize, usize), KernelError> {
    let (m, k) = a;
    let n = op_b.shape(b).1;
    check_shape(kernel, "B", b, op_b.shape((k, n)))?;
    check_shape(kernel, "C", c, (m, n))?;
    Ok((m, n, k))
}

pub(super) fn check_kind(
    kernel: &'static str,
    operand: &'static str,
    got: HalfKind,
    want: HalfKind,
) -> Result<(), KernelError> {
    if got == want {
        return Ok(());
    }
    Err(KernelError::Format { kernel, operand, got: got.format(), want: want.format() })
}

pub(super) fn take_scratch<'a>(
    kernel: &'static str,
    scratch: &'a mut [f32],
    need: usize,
) -> Result<&'a mut [f32], KernelError> {
    let got = scratch.len();
    scratch.get_mut(..need).ok_or(KernelError::Scratch { kernel, got, need })
}

pub(super) fn exponent_sum(a: i32, b: i32) -> i32 {
    a.saturating_add(b)
}

/// `sign 2^exp` as a normal `f32`, and the factors that still have to go into one operand where `exp` is beyond that.
fn factor(sign: Sign, exp: i32) -> (f32, (f32, f32)) {
    let inside = exp.clamp(-126, 127);
    (sign.value() * power_of_two(inside).0, power_of_two(exp - inside))
}

/// `dst = f32(src) factors`, without gaps between the columns.
fn widen<'a>(
    src: MatRef<'_, u16>,
    kind: HalfKind,
    factors: (f32, f32),
    dst: &'a mut [f32],
) -> Result<MatRef<'a, f32>, KernelError> {
    let (rows, cols) = src.shape();
    if rows > 0 {
        for (j, dst) in dst.chunks_exact_mut(rows).enumerate().take(cols) {
            kind.unpack(src.col(j), factors, dst);
        }
    }
    MatRef::new(dst, rows, cols, rows)
}

/// Rounds `sum`, in units of `c`'s scale, to `c`; raises the scale where a magnitude exceeds `2^15`.
pub(super) fn store_rescaled(sum: MatRef<'_, f32>, c: &mut HalfMut<'_>) -> Result<(), KernelError> {
    let max = max_abs(sum);
    let raise = if max > 32768.0 { scale_exponent(max) } else { 0 };
    let target = HalfMut { mat: c.mat.reborrow(), kind: c.kind, scale_exp: raise };
    crate::formats::pack_half(sum, target)?;
    c.scale_exp = c.scale_exp.saturating_add(raise);
    Ok(())
}
