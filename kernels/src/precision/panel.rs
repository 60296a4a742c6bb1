//! Symmetric updates and triangular solves whose products run in X3 or TF32.

use core::{fmt, str::FromStr};

use super::tensor::{
    Join, add_split_product, exponent_sum, factor, halves, high_parts, join, round_tf32, take_scratch,
};
use super::{GemmPrecision, Sign, UnknownPrecision, scratch_len};
use crate::blas::{BLOCK, middle, product, syrk, trsm};
use crate::error::check_shape;
use crate::formats::half_tile::source::{CHUNK, HalfSource};
use crate::formats::{HalfKind, SplitRef, max_abs, split_scale_exponent};
use crate::{KernelError, MatMut, MatRef, Op};

/// Precision of the products inside a symmetric update or a triangular solve.
///
/// Operands and results are full tiles in each case. These operations accompany the tile products
/// of a factorization, and soon dominate it on tensor cores if they stay in `f32`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PanelPrecision {
    /// Precision of the tile's element type: [`syrk_lower`](crate::syrk_lower),
    /// [`trsm_right_lower`](crate::trsm_right_lower).
    #[default]
    Native,
    /// [`GemmPrecision::Tf32`].
    Tf32,
    /// [`GemmPrecision::X3`], about as accurate as `f32`.
    X3,
}

impl PanelPrecision {
    /// All precisions.
    pub const ALL: [Self; 3] = [Self::Native, Self::Tf32, Self::X3];

    /// The precision of the products, on tiles whose own products run in `native`.
    pub const fn gemm(self, native: GemmPrecision) -> GemmPrecision {
        match self {
            Self::Native => native,
            Self::Tf32 => GemmPrecision::Tf32,
            Self::X3 => GemmPrecision::X3,
        }
    }

    /// The name that [`FromStr`] reads back: that of the products on `f32` tiles.
    pub const fn name(self) -> &'static str {
        self.gemm(GemmPrecision::Sp).name()
    }
}

impl fmt::Display for PanelPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PanelPrecision {
    type Err = UnknownPrecision;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|p| p.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| UnknownPrecision(s.to_owned()))
    }
}

/// Scratch of a symmetric update of order `n` with an operand `n x k`, in `f32` elements; saturates
/// at `usize::MAX`.
pub fn syrk_scratch_len(precision: PanelPrecision, n: usize, k: usize) -> usize {
    let area = n.saturating_mul(k);
    match precision {
        PanelPrecision::Native => 0,
        PanelPrecision::Tf32 => area,
        // Both orders of the two halves.
        PanelPrecision::X3 => area.saturating_mul(4),
    }
}

/// Scratch of a triangular solve with `m` rows and a triangle of order `n`, in `f32` elements;
/// saturates at `usize::MAX`.
pub fn trsm_scratch_len(precision: PanelPrecision, m: usize, n: usize) -> usize {
    if precision == PanelPrecision::Native || n <= BLOCK {
        return 0;
    }
    // No product has more rows or columns of the triangle, see `middle`.
    let most = n.min((n / 2).saturating_add(BLOCK));
    scratch_len(precision.gemm(GemmPrecision::Sp), m, most, most)
}

/// Lower triangle of `C = C + sign A A^T` in TF32, `C` of order `n`, `A` `n x k`; the strict upper
/// part is neither read nor written. The error is that of [`gemm_tf32`](super::gemm_tf32).
///
/// Scratch: [`syrk_scratch_len`]`(Tf32, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`] or [`KernelError::Scratch`]; `C` is then untouched.
pub fn syrk_lower_tf32(
    sign: Sign,
    a: MatRef<'_, f32>,
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "syrk_lower_tf32";
    let (n, k) = a.shape();
    check_shape(NAME, "C", c.shape(), (n, n))?;
    let scratch = take_scratch(NAME, scratch, syrk_scratch_len(PanelPrecision::Tf32, n, k))?;
    syrk::update(sign.value(), round_tf32(a, scratch)?, 1.0, c);
    Ok(())
}

/// Computes the lower triangle of `C = C + sign A A^T` in X3, `C` of order `n`, `A` `n x k`. The
/// strict upper part is neither read nor written.
///
/// The small products come first, then `Ah Ah^T`, as in [`gemm_x3`](super::gemm_x3), whose error
/// bound applies. The omitted product `Al Al^T` is positive semidefinite: `C - A A^T` becomes
/// slightly too large without it, never too small.
///
/// Scratch: [`syrk_scratch_len`]`(X3, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`] or [`KernelError::Scratch`]; `C` is then untouched.
pub fn syrk_lower_x3(
    sign: Sign,
    a: SplitRef<'_>,
    mut c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "syrk_lower_x3";
    let (n, k) = a.hi.shape();
    check_shape(NAME, "A lo", a.lo.shape(), (n, k))?;
    check_shape(NAME, "C", c.shape(), (n, n))?;
    let scratch = take_scratch(NAME, scratch, syrk_scratch_len(PanelPrecision::X3, n, k))?;
    let (first, second) = scratch.split_at_mut(2 * n * k);
    let (alpha, rest) = factor(sign, exponent_sum(a.scale_exp, a.scale_exp));
    let first = join(Join::LowHigh, (n, k), first, |j, high, low| halves(a, j, rest, high, low))?;
    let second = join(Join::HighLow, (n, k), second, |j, high, low| halves(a, j, (1.0, 1.0), high, low))?;
    lower_product(alpha, first, second, c.reborrow());
    let (first, second) = high_parts(first, second, Op::Trans);
    lower_product(alpha, first, second, c);
    Ok(())
}

/// Lower triangle of `C = C + alpha A B^T`.
fn lower_product(alpha: f32, a: MatRef<'_, f32>, b: MatRef<'_, f32>, mut c: MatMut<'_, f32>) {
    let (n, k) = a.shape();
    if n > BLOCK {
        let h = middle(n);
        let ((a1, a2), (b1, b2)) = (halved(a, h, k), halved(b, h, k));
        let (top, bottom) = c.split_rows(h);
        let (c11, _) = top.split_cols(h);
        let (c21, c22) = bottom.split_cols(h);
        lower_product(alpha, a1, b1, c11);
        product(alpha, a2, Op::None, b1, Op::Trans, 1.0, c21);
        lower_product(alpha, a2, b2, c22);
        return;
    }
    let mut square = [0.0; BLOCK * BLOCK];
    let Ok(whole) = MatMut::new(&mut square, n, n, n) else {
        unreachable!("n is at most BLOCK");
    };
    product(alpha, a, Op::None, b, Op::Trans, 0.0, whole);
    for j in 0..n {
        for (c, x) in c.col_mut(j)[j..].iter_mut().zip(&square[j * n + j..(j + 1) * n]) {
            *c += x;
        }
    }
}

/// The first `h` rows and the others.
fn halved(x: MatRef<'_, f32>, h: usize, cols: usize) -> (MatRef<'_, f32>, MatRef<'_, f32>) {
    (x.sub(0, 0, h, cols), x.sub(h, 0, x.rows() - h, cols))
}

/// Solves `X op(L) = B` in place of `B` (`m x n`), `L` lower triangular of order `n`, its products
/// in `precision`.
///
/// Triangles of order at most 64 are solved by substitution in `f32`; what they leave to the other
/// columns are products `B2 - X1 L21^T` in `precision`, whose operands are rounded or split on the
/// way, each block with a scale of its own. No inverse is formed, so the solution is backward
/// stable row by row, as that of [`trsm_right_lower`](crate::trsm_right_lower): `|X op(L) - B| <=
/// (c n u32 + e) |X| |op(L)|`, with `e = 3 * 2^-22` in X3 and `e = 2^-10` in TF32. Multiplying with
/// the inverse of `L` instead would multiply `e` with its condition number. Of the `m n^2`
/// operations `64 / n` stay in `f32`.
///
/// Scratch: [`trsm_scratch_len`]`(precision, m, n)` elements.
///
/// # Errors
/// [`KernelError::Shape`] when `L` is not square of `B`'s column count, [`KernelError::Scratch`];
/// `B` is then untouched.
pub fn trsm_right_lower_in(
    precision: PanelPrecision,
    op: Op,
    l: MatRef<'_, f32>,
    b: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "trsm_right_lower_in";
    let (m, n) = b.shape();
    check_shape(NAME, "L", l.shape(), (n, n))?;
    let scratch = take_scratch(NAME, scratch, trsm_scratch_len(precision, m, n))?;
    match precision {
        PanelPrecision::Native => trsm::right(op, l, b),
        PanelPrecision::Tf32 => right(subtract_tf32, op, l, b, scratch)?,
        PanelPrecision::X3 => right(subtract_x3, op, l, b, scratch)?,
    }
    Ok(())
}

/// `C = C - A op(B)`; `scratch` is long enough.
type SubtractProduct =
    fn(MatRef<'_, f32>, MatRef<'_, f32>, Op, MatMut<'_, f32>, &mut [f32]) -> Result<(), KernelError>;

/// Solves as [`trsm::right`] does, with the products by `subtract`.
fn right(
    subtract: SubtractProduct,
    op: Op,
    l: MatRef<'_, f32>,
    b: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    let n = l.rows();
    if n <= BLOCK || b.is_empty() {
        trsm::right(op, l, b);
        return Ok(());
    }
    let h = middle(n);
    let (l11, l21, l22) = (l.sub(0, 0, h, h), l.sub(h, 0, n - h, h), l.sub(h, h, n - h, n - h));
    let (mut b1, mut b2) = b.split_cols(h);
    match op {
        Op::Trans => {
            right(subtract, op, l11, b1.reborrow(), scratch)?;
            subtract(b1.as_ref(), l21, op, b2.reborrow(), scratch)?;
            right(subtract, op, l22, b2, scratch)
        }
        Op::None => {
            right(subtract, op, l22, b2.reborrow(), scratch)?;
            subtract(b2.as_ref(), l21, op, b1.reborrow(), scratch)?;
            right(subtract, op, l11, b1, scratch)
        }
    }
}

fn subtract_tf32(
    a: MatRef<'_, f32>,
    b: MatRef<'_, f32>,
    op_b: Op,
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    super::gemm_tf32(Sign::Minus, a, b, op_b, c, scratch)
}

fn subtract_x3(
    a: MatRef<'_, f32>,
    b: MatRef<'_, f32>,
    op_b: Op,
    c: MatMut<'_, f32>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    let ((m, k), (rows, cols)) = (a.shape(), b.shape());
    let (wide_a, wide_b) = scratch.split_at_mut(2 * m * k);
    let wide_b = &mut wide_b[..2 * rows * cols];
    let (exp_a, exp_b) = (split_scale_exponent(max_abs(a)), split_scale_exponent(max_abs(b)));
    let (alpha, rest) = factor(Sign::Minus, exponent_sum(exp_a, exp_b));
    let fill = |j: usize, high: &mut [f32], low: &mut [f32]| split(a.col(j), exp_a, rest, high, low);
    let wide_a = join(Join::LowHigh, (m, k), wide_a, fill)?;
    let fill = |j: usize, high: &mut [f32], low: &mut [f32]| split(b.col(j), exp_b, (1.0, 1.0), high, low);
    let wide_b = join(Join::of(op_b), (rows, cols), wide_b, fill)?;
    add_split_product(alpha, wide_a, wide_b, op_b, c);
    Ok(())
}

/// The two `f16` halves of `x 2^-exp`, widened, times `factors`.
fn split(x: &[f32], exp: i32, factors: (f32, f32), high: &mut [f32], low: &mut [f32]) {
    let (mut hi, mut lo) = ([0; CHUNK], [0; CHUNK]);
    let parts = x.chunks(CHUNK).zip(high.chunks_mut(CHUNK)).zip(low.chunks_mut(CHUNK));
    for ((x, high), low) in parts {
        let (hi, lo) = (&mut hi[..x.len()], &mut lo[..x.len()]);
        f32::split(x, exp, hi, lo);
        HalfKind::F16.unpack(hi, factors, high);
        HalfKind::F16.unpack(lo, factors, low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for p in PanelPrecision::ALL {
            assert_eq!(p.to_string().parse(), Ok(p));
        }
        assert_eq!("fp32".parse(), Ok(PanelPrecision::Native));
        assert!("hp1".parse::<PanelPrecision>().is_err());
        assert_eq!(PanelPrecision::Native.gemm(GemmPrecision::Dp), GemmPrecision::Dp);
    }

    /// The longest scratch of a product in a solve.
    fn longest(p: GemmPrecision, m: usize, n: usize) -> usize {
        if n <= BLOCK {
            return 0;
        }
        let (h, rest) = (middle(n), n - middle(n));
        let here = scratch_len(p, m, rest, h).max(scratch_len(p, m, h, rest));
        here.max(longest(p, m, h)).max(longest(p, m, rest))
    }

    #[test]
    fn scratch_suffices_for_every_product_of_a_solve() {
        for n in 0..600 {
            for p in [PanelPrecision::Tf32, PanelPrecision::X3] {
                let gemm = p.gemm(GemmPrecision::Sp);
                assert!(trsm_scratch_len(p, 7, n) >= longest(gemm, 7, n), "{p} {n}");
                assert_eq!(trsm_scratch_len(p, 7, n) == 0, n <= BLOCK);
            }
            assert_eq!(trsm_scratch_len(PanelPrecision::Native, 7, n), 0);
        }
        assert_eq!(syrk_scratch_len(PanelPrecision::X3, usize::MAX, 2), usize::MAX);
        assert_eq!(trsm_scratch_len(PanelPrecision::Tf32, usize::MAX, usize::MAX), usize::MAX);
    }
}
