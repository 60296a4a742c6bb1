//! Products of narrow operands with `f32` sums: HP1, BF1, HP2, X3, FP8 and TF32.
//!
//! A product of two `f16` numbers (or two of `bf16`, E4M3 or TF32) is exact in `f32`, so widening
//! the operands and running the `f32` product is the tensor core's arithmetic, up to the order and
//! the rounding of its sums. The scales of the operands meet in one power of two, the product's
//! factor.

use super::{GemmPrecision, Sign, scratch_len};
use crate::blas::product;
use crate::error::check_shape;
use crate::formats::simd::{self, power_of_two};
use crate::formats::{Fp8Ref, HalfKind, HalfMut, HalfRef, SplitRef, max_abs, scale_exponent};
use crate::{KernelError, MatMut, MatRef, Op};

/// `C = C + sign A op(B)`: `f16` operands (HP1) or `bf16` operands (BF1), sums and `C` in `f32`.
///
/// Scratch: [`scratch_len`]`(Hp1, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`], [`KernelError::Scratch`], or [`KernelError::Format`] when one operand is
/// `f16` and the other `bf16`; `C` is then untouched.
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
/// `C` is widened, updated in `f32`, and rounded back once, in its own scale. When a stored
/// magnitude would exceed `2^15`, the scale is raised first, once, so that the largest lies in `[1,
/// 2)`; the new scale is in `c.scale_exp`.
///
/// Scratch: [`scratch_len`]`(Hp2, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`], [`KernelError::Scratch`], or [`KernelError::Format`] when an operand is
/// not `f16`; `C` is then untouched.
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

/// `C = C + sign A op(B)` with operands split in two `f16` tiles: X3, three products, sums and `C`
/// in `f32`.
///
/// `A = (Ah + Al) 2^a`, `B = (Bh + Bl) 2^b`. The small products come first: `C += Al Bh + Ah Bl`,
/// as one product of inner length `2 k`, then `C += Ah Bh`. The fourth product, `Al Bl`, is below
/// `2^-22 |A| |B|` and left out, so the error is about that of the `f32` product of the unsplit
/// operands.
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
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_x3";
    let (m, n, k) = check_operands(NAME, a.hi.shape(), b.hi.shape(), op_b, c.shape())?;
    check_shape(NAME, "A lo", a.lo.shape(), a.hi.shape())?;
    check_shape(NAME, "B lo", b.lo.shape(), b.hi.shape())?;
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::X3, m, n, k))?;
    let (alpha, rest) = factor(sign, exponent_sum(a.scale_exp, b.scale_exp));
    let (wide_a, wide_b) = scratch.split_at_mut(2 * m * k);
    let wide_a = join(Join::LowHigh, a.hi.shape(), wide_a, |j, high, low| halves(a, j, rest, high, low))?;
    let wide_b =
        join(Join::of(op_b), b.hi.shape(), wide_b, |j, high, low| halves(b, j, (1.0, 1.0), high, low))?;
    add_split_product(alpha, wide_a, wide_b, op_b, c);
    Ok(())
}

/// Computes `C = C + sign A op(B)` in FP8: E4M3 operands, sums and `C` in `f32`.
///
/// Sums here are those of `f32`. The tensor cores of Hopper keep 13 bits after the binary point of
/// an FP8 sum (PyTorch's blog, "Some matrix multiplication engines are not as accurate as we
/// thought"). This adds an error of up to `k 2^-13 |A| |B|`, which is below the rounding of the
/// operands up to `k = 1000`.
///
/// Scratch: [`scratch_len`]`(Fp8, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`] or [`KernelError::Scratch`]; `C` is then untouched.
pub fn gemm_fp8(
    sign: Sign,
    a: Fp8Ref<'_>,
    b: Fp8Ref<'_>,
    op_b: Op,
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_fp8";
    let (m, n, k) = check_operands(NAME, a.mat.shape(), b.mat.shape(), op_b, c.shape())?;
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::Fp8, m, n, k))?;
    let (wide_a, wide_b) = scratch.split_at_mut(m * k);
    let (alpha, rest) = factor(sign, exponent_sum(a.scale_exp, b.scale_exp));
    let wide_a = each_column(a.mat, wide_a, |src, dst| simd::unpack_e4m3(src, rest, dst))?;
    let wide_b = each_column(b.mat, wide_b, |src, dst| simd::unpack_e4m3(src, (1.0, 1.0), dst))?;
    product(alpha, wide_a, Op::None, wide_b, op_b, 1.0, c);
    Ok(())
}

/// `C = C + sign A op(B)`: operands rounded to 11 bits, sums and `C` in `f32`: TF32.
///
/// Rounding is to nearest, ties away from zero
/// ([`tf32_from_f32`](crate::formats::bits::tf32_from_f32)), that of PTX's `cvt.rna.tf32.f32`. What
/// cuBLAS does under `CUBLAS_COMPUTE_32F_FAST_TF32` its manual leaves open: NVIDIA's blog
/// ("Accelerating AI training with NVIDIA TF32 tensor cores") says that inputs are rounded,
/// PyTorch's notes on numerical accuracy that only the first 10 bits of the mantissa are read. A
/// kernel that hands `f32` operands to the tensor cores as they are drops the other 13 bits, for
/// twice the error: `2^-9` instead of `2^-10`.
///
/// Scratch: [`scratch_len`]`(Tf32, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`] or [`KernelError::Scratch`]; `C` is then untouched.
pub fn gemm_tf32(
    sign: Sign,
    a: MatRef<'_, f32>,
    b: MatRef<'_, f32>,
    op_b: Op,
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_tf32";
    let (m, n, k) = check_operands(NAME, a.shape(), b.shape(), op_b, c.shape())?;
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::Tf32, m, n, k))?;
    let (wide_a, wide_b) = scratch.split_at_mut(m * k);
    let (wide_a, wide_b) = (round_tf32(a, wide_a)?, round_tf32(b, wide_b)?);
    product(sign.value(), wide_a, Op::None, wide_b, op_b, 1.0, c);
    Ok(())
}

/// `dst = tf32(src)`, without gaps between the columns.
pub(super) fn round_tf32<'a>(
    src: MatRef<'_, f32>,
    dst: &'a mut [f32],
) -> Result<MatRef<'a, f32>, KernelError> {
    each_column(src, dst, simd::round_tf32)
}

/// Layout of the two halves of an operand of X3 along the inner dimension of the product.
pub(super) enum Join {
    /// `[low | high]`: a first operand.
    LowHigh,
    /// `[high | low]`: a second operand, transposed.
    HighLow,
    /// `high` above `low`: a second operand, not transposed.
    HighOverLow,
}

impl Join {
    /// Returns the layout of a second operand.
    pub(super) fn of(op_b: Op) -> Self {
        match op_b {
            Op::Trans => Self::HighLow,
            Op::None => Self::HighOverLow,
        }
    }
}

/// Lays out halves of `rows x cols`: `fill` writes column `j` of `high` and of `low`.
pub(super) fn join<'a>(
    how: Join,
    (rows, cols): (usize, usize),
    wide: &'a mut [f32],
    mut fill: impl FnMut(usize, &mut [f32], &mut [f32]),
) -> Result<MatRef<'a, f32>, KernelError> {
    for j in 0..cols {
        let (first, second) = match how {
            Join::HighOverLow => wide[j * 2 * rows..][..2 * rows].split_at_mut(rows),
            Join::LowHigh | Join::HighLow => {
                let (first, second) = wide.split_at_mut(rows * cols);
                (&mut first[j * rows..][..rows], &mut second[j * rows..][..rows])
            }
        };
        match how {
            Join::LowHigh => fill(j, second, first),
            Join::HighLow | Join::HighOverLow => fill(j, first, second),
        }
    }
    match how {
        Join::HighOverLow => MatRef::new(wide, 2 * rows, cols, 2 * rows),
        Join::LowHigh | Join::HighLow => MatRef::new(wide, rows, 2 * cols, rows),
    }
}

/// Column `j` of both halves, times `factors`.
pub(super) fn halves(x: SplitRef<'_>, j: usize, factors: (f32, f32), high: &mut [f32], low: &mut [f32]) {
    HalfKind::F16.unpack(x.hi.col(j), factors, high);
    HalfKind::F16.unpack(x.lo.col(j), factors, low);
}

/// `C = C + alpha A op(B)` of operands that [`join`] has laid out: the small products first, then
/// `Ah Bh`.
pub(super) fn add_split_product(
    alpha: f32,
    a: MatRef<'_, f32>,
    b: MatRef<'_, f32>,
    op_b: Op,
    mut c: MatMut<'_, f32>,
) {
    product(alpha, a, Op::None, b, op_b, 1.0, c.reborrow());
    let (a_high, b_high) = high_parts(a, b, op_b);
    product(alpha, a_high, Op::None, b_high, op_b, 1.0, c);
}

/// `Ah` of `[Al | Ah]`, and `Bh`.
pub(super) fn high_parts<'a, 'b>(
    a: MatRef<'a, f32>,
    b: MatRef<'b, f32>,
    op_b: Op,
) -> (MatRef<'a, f32>, MatRef<'b, f32>) {
    let ((m, twice), (rows, cols)) = (a.shape(), b.shape());
    let k = twice / 2;
    let (rows, cols) = match op_b {
        Op::Trans => (rows, k),
        Op::None => (k, cols),
    };
    (a.sub(0, k, m, k), b.sub(0, 0, rows, cols))
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

/// `sign 2^exp` as a normal `f32`, and the factors that still have to go into one operand where
/// `exp` is beyond that.
pub(super) fn factor(sign: Sign, exp: i32) -> (f32, (f32, f32)) {
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
    each_column(src, dst, |src, dst| kind.unpack(src, factors, dst))
}

/// `dst = body(src)` column by column, without gaps between the columns.
fn each_column<'a, T>(
    src: MatRef<'_, T>,
    dst: &'a mut [f32],
    body: impl Fn(&[T], &mut [f32]),
) -> Result<MatRef<'a, f32>, KernelError> {
    let (rows, cols) = src.shape();
    if rows > 0 {
        for (j, dst) in dst.chunks_exact_mut(rows).enumerate().take(cols) {
            body(src.col(j), dst);
        }
    }
    MatRef::new(dst, rows, cols, rows)
}

/// Rounds `sum`, in units of `c`'s scale, to `c`; raises the scale if a magnitude exceeds `2^15`.
pub(super) fn store_rescaled(sum: MatRef<'_, f32>, c: &mut HalfMut<'_>) -> Result<(), KernelError> {
    let max = max_abs(sum);
    let raise = if max > 32768.0 { scale_exponent(max) } else { 0 };
    let target = HalfMut { mat: c.mat.reborrow(), kind: c.kind, scale_exp: raise };
    crate::formats::pack_half(sum, target)?;
    c.scale_exp = c.scale_exp.saturating_add(raise);
    Ok(())
}
