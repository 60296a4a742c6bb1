//! HP3: products of `f16` tiles with a 16-bit accumulator.

use super::tensor::{check_kind, check_operands, exponent_sum, store_rescaled, take_scratch};
use super::{GemmPrecision, Sign, scratch_len};
use crate::formats::simd::{HP3_COLS, HP3_ROWS, hp3_block, power_of_two};
use crate::formats::{HalfKind, HalfMut, HalfRef};
use crate::{KernelError, MatRef, Op};

/// Elements of scratch: both operands in whole blocks, and the sums.
pub(super) fn scratch(m: usize, n: usize, k: usize) -> usize {
    let rows = m.div_ceil(HP3_ROWS).saturating_mul(HP3_ROWS);
    let cols = n.div_ceil(HP3_COLS).saturating_mul(HP3_COLS);
    rows.saturating_add(cols).saturating_mul(k).saturating_add(m.saturating_mul(n))
}

/// Computes `C = f16(C + sign acc)` in HP3, `acc` the product `A op(B)` with a 16-bit accumulator.
///
/// Per entry, in stored units: `acc = 0`; the next four products (exact in `f32`) are summed left
/// to right in `f32`, and `acc = f16(acc + sum)`; and so on, with a shorter last step. Then
/// `C = f16(C + sign 2^(a + b - c) acc)`, `a`, `b`, `c` the exponents of the scales, once per call.
/// The result is the same, bit for bit, on every machine. An accumulator that overflows `f16` is
/// infinite, and so is its entry of `C`: with operands scaled to below 2 that takes `k > 16376`.
///
/// When a finite stored magnitude of `C` would exceed `2^15`, the scale is raised as in
/// [`gemm_hp2`](super::gemm_hp2).
///
/// Scratch: [`scratch_len`]`(Hp3, m, n, k)` elements.
///
/// # Errors
/// [`KernelError::Shape`], [`KernelError::Scratch`], or [`KernelError::Format`] when an operand is
/// not `f16`; `C` is then untouched.
pub fn gemm_hp3(
    sign: Sign,
    a: HalfRef<'_>,
    b: HalfRef<'_>,
    op_b: Op,
    c: &mut HalfMut<'_>,
    scratch: &mut [f32],
) -> Result<(), KernelError> {
    const NAME: &str = "gemm_hp3";
    let (m, n, k) = check_operands(NAME, a.mat.shape(), b.mat.shape(), op_b, c.mat.shape())?;
    for (operand, kind) in [("A", a.kind), ("B", b.kind), ("C", c.kind)] {
        check_kind(NAME, operand, kind, HalfKind::F16)?;
    }
    let scratch = take_scratch(NAME, scratch, scratch_len(GemmPrecision::Hp3, m, n, k))?;
    let (sums, operands) = scratch.split_at_mut(m * n);
    let (wide_a, wide_b) = operands.split_at_mut(m.div_ceil(HP3_ROWS) * HP3_ROWS * k);
    let (wide_a, _) = wide_a.as_chunks_mut::<HP3_ROWS>();
    let (wide_b, _) = wide_b.as_chunks_mut::<HP3_COLS>();
    pack_strips(a.mat, Op::None, wide_a);
    // The strips of op(B) run over its columns: over the rows of its transpose.
    let flipped = match op_b {
        Op::None => Op::Trans,
        Op::Trans => Op::None,
    };
    pack_strips(b.mat, flipped, wide_b);
    let exp = exponent_sum(a.scale_exp, b.scale_exp).saturating_sub(c.scale_exp);
    let factors = power_of_two(exp);
    let f = sign.value();
    for j in (0..n).step_by(HP3_COLS) {
        let b = &wide_b[j / HP3_COLS * k..][..k];
        for i in (0..m).step_by(HP3_ROWS) {
            let a = &wide_a[i / HP3_ROWS * k..][..k];
            let mut acc = [[0.0; HP3_ROWS]; HP3_COLS];
            hp3_block(a, b, &mut acc);
            let rows = HP3_ROWS.min(m - i);
            for (jj, acc) in acc.iter().enumerate().take(n - j) {
                let out = &mut sums[(j + jj) * m + i..][..rows];
                let mut old = [0.0; HP3_ROWS];
                let stored = &c.mat.as_ref().col(j + jj)[i..i + rows];
                HalfKind::F16.unpack(stored, (1.0, 1.0), &mut old[..rows]);
                for ((out, &old), &acc) in out.iter_mut().zip(&old).zip(acc) {
                    *out = old + f * (acc * factors.0 * factors.1);
                }
            }
        }
    }
    store_rescaled(MatRef::new(sums, m, n, m)?, c)
}

/// Widens `op(src)` into strips of `N` rows: `dst[(i / N) * k + l][i % N] = op(src)[i][l]`, zero
/// below the last row.
fn pack_strips<const N: usize>(src: MatRef<'_, u16>, op: Op, dst: &mut [[f32; N]]) {
    let (rows, k) = op.shape(src.shape());
    for i in (0..rows).step_by(N) {
        let here = N.min(rows - i);
        let strip = &mut dst[i / N * k..][..k];
        match op {
            Op::None => {
                for (l, row) in strip.iter_mut().enumerate() {
                    row.fill(0.0);
                    HalfKind::F16.unpack(&src.col(l)[i..i + here], (1.0, 1.0), &mut row[..here]);
                }
            }
            Op::Trans => {
                strip.as_flattened_mut().fill(0.0);
                for ii in 0..here {
                    let mut wide = [0.0; 64];
                    let col = src.col(i + ii).chunks(64).zip(strip.chunks_mut(64));
                    for (col, strip) in col {
                        HalfKind::F16.unpack(col, (1.0, 1.0), &mut wide);
                        for (row, &x) in strip.iter_mut().zip(&wide) {
                            row[ii] = x;
                        }
                    }
                }
            }
        }
    }
}
