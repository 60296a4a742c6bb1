//! Symmetric updates, triangular solves and factorisations, in the tile's own precision or with products in TF32 or X3.

use zellige_gpu::{Compute, Element, GpuError, Transpose};
use zellige_kernels::cuda::{copy, fill, split, zero_upper};
use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, Op, StorageFormat};
use zellige_runtime::TaskError;

use super::ops::Form;
use super::product::{DIFFERENCE, Factored, PRODUCT, Small, gemm, is_small, multiply_small, tripled};
use super::view::View;
use super::{OnGpu, Ops, transpose};
use crate::error::Error;

/// Columns of which a symmetric update by products computes a whole rectangle, as a part of the order: half of each first square is
/// computed in vain, an eighth of the work.
const STRIPS: u32 = 4;
/// Columns that a triangular solve by products solves in `f32` at a time.
const SOLVED: u32 = 256;

/// `A -= L L^T` in the lower triangle. By products, entries above the diagonal are overwritten too, within strips of columns.
pub(crate) fn subtract_square(
    ops: &Ops<'_>,
    panel: PanelPrecision,
    l: &OnGpu,
    a: &OnGpu,
) -> Result<(), Error> {
    let n = l.shape.0;
    if l.is_empty() {
        return Ok(());
    }
    let product = match panel {
        // Above the diagonal too.
        PanelPrecision::Native
            if a.storage == StorageFormat::F32 && is_small(GemmPrecision::Sp, (n as usize, n as usize)) =>
        {
            return Ok(multiply_small(ops, &[Small { op_b: Op::Trans, a: *l, b: *l, c: *a }])?);
        }
        PanelPrecision::Native => {
            return Ok(ops.syrk((-1.0, l.values), (1.0, a.values))?);
        }
        PanelPrecision::Tf32 => {
            l.want(StorageFormat::F32)?;
            let (a, b) = (l.values, l.values);
            Factored { a, b, op_b: Op::Trans, factors: DIFFERENCE, compute: Compute::Tf32 }
        }
        PanelPrecision::X3 => tripled(ops, Op::Trans, l.want(StorageFormat::F16x2)?, l)?,
    };
    let width = n.div_ceil(STRIPS).next_multiple_of(STEP);
    for j in (0..n).step_by(width as usize) {
        let (below, width) = (n - j, width.min(n - j));
        let rows = |of: View, rows| of.block((j, 0), (rows, of.shape().1));
        let strip = Factored { a: rows(product.a, below), b: rows(product.b, width), ..product };
        gemm(ops, strip, a.values.block((j, j), (below, width)))?;
    }
    Ok(())
}

/// Strips begin at multiples of it: operands of tensor cores are aligned then.
const STEP: u32 = 16;

/// `X op(L) = B` in place of `B`, `L` of order `n` on the right.
///
/// Not in the native precision, columns are solved by [`SOLVED`] in `f32`, and what they leave to the others are products, as
/// [`trsm_right_lower_in`](zellige_kernels::precision::trsm_right_lower_in) does in halves: the same bound of the error.
///
/// Columns of diagonal blocks that are `inverted` are multiplied with the inverse, in `f32`, in place of being solved: those of which
/// [`tell_benign`] has said so.
pub(crate) fn solve_right(
    ops: &Ops<'_>,
    panel: PanelPrecision,
    op: Op,
    l: &OnGpu,
    b: &OnGpu,
    inverted: Blocks,
) -> Result<(), GpuError> {
    let (m, n) = b.shape;
    if b.is_empty() {
        return Ok(());
    }
    if panel == PanelPrecision::Native && inverted == Blocks::NONE {
        return ops.trsm(transpose(op), l.values, b.values);
    }
    let with = match inverted {
        Blocks::NONE => None,
        _ => Some((inverses(ops, l)?, ops.scratch_matrix((m, SOLVED.min(n)), Element::F32)?)),
    };
    // From the first columns on for L^T, from the last ones on for L.
    let mut starts: Vec<u32> = (0..n).step_by(SOLVED as usize).collect();
    if op == Op::None {
        starts.reverse();
    }
    for j in starts {
        let width = SOLVED.min(n - j);
        let solved = b.values.block((0, j), (m, width));
        match with.filter(|_| inverted.has(j / SOLVED)) {
            None => ops.trsm(transpose(op), l.values.block((j, j), (width, width)), solved)?,
            Some((inverses, before)) => {
                let before = before.block((0, 0), (m, width));
                ops.launch(copy((m, width), *solved, *before))?;
                let inverse = inverses.block((0, j), (width, width));
                let of =
                    Factored { a: before, b: inverse, op_b: op, factors: PRODUCT, compute: Compute::F32 };
                gemm(ops, of, solved)?;
            }
        }
        // Columns that are left, and the block of L by which the solved ones reach them.
        let (left, count, reach) = match op {
            Op::Trans => {
                let (left, count) = (j + width, n - j - width);
                (left, count, l.values.block((left, j), (count, width)))
            }
            Op::None => (0, j, l.values.block((j, 0), (width, j))),
        };
        if count > 0 {
            let product = product(ops, panel, solved, (reach, op))?;
            gemm(ops, product, b.values.block((0, left), (m, count)))?;
        }
    }
    Ok(())
}

/// `A op(B)` of two blocks of `f32` with the factors of a difference, their numbers rounded or split first.
fn product(
    ops: &Ops<'_>,
    panel: PanelPrecision,
    a: View,
    (b, op_b): (View, Op),
) -> Result<Factored, GpuError> {
    let compute = match panel {
        PanelPrecision::X3 => return tripled(ops, op_b, &halves(ops, a)?, &halves(ops, b)?),
        PanelPrecision::Tf32 => Compute::Tf32,
        PanelPrecision::Native => Compute::F32,
    };
    Ok(Factored { a, b, op_b, factors: DIFFERENCE, compute })
}

/// First columns of the diagonal blocks of a factor of this order, and how many columns each has.
fn diagonal_blocks(n: u32) -> impl ExactSizeIterator<Item = (u32, u32)> {
    (0..n.div_ceil(SOLVED)).map(move |at| (at * SOLVED, SOLVED.min(n - at * SOLVED)))
}

/// The inverses of the diagonal blocks of a factor in `f32`, one beside the other, kept with the factor while there is room.
fn inverses(ops: &Ops<'_>, l: &OnGpu) -> Result<View, GpuError> {
    let n = l.shape.1;
    ops.cached_operand(l, Form::Inverses, ((SOLVED.min(n), n), Element::F32), |out| {
        ops.zero(out)?;
        for (j, width) in diagonal_blocks(n) {
            // X L = I.
            let (block, inverse) =
                (l.values.block((j, j), (width, width)), out.block((0, j), (width, width)));
            ops.launch(fill((1, width), 1.0, *inverse.diagonal()))?;
            ops.trsm(Transpose::No, block, inverse)?;
        }
        Ok(())
    })
}

/// Roundoff times `|L_jj| |L_jj^-1|` (Frobenius) up to which a block of columns is multiplied with the inverse of its block. That product is
/// 256 at least, which makes `2^-16`, and so a sixteenth of this: where a few singular values are large and most are small, as of covariances, it is some 16
/// times the condition number, which then is 256 at most. By the condition number the error of a solve exceeds that of substitution.
const BENIGN: f64 = 1.0 / 4096.0;

/// A set of diagonal blocks of a tile, a bit for each; blocks beyond the 64th are in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks(pub(crate) u64);

impl Blocks {
    pub(crate) const NONE: Blocks = Blocks(0);

    fn has(self, block: u32) -> bool {
        self.0.checked_shr(block).is_some_and(|bits| bits & 1 == 1)
    }
}

impl FromIterator<bool> for Blocks {
    fn from_iter<I: IntoIterator<Item = bool>>(each: I) -> Blocks {
        let bits = each.into_iter().take(64).enumerate();
        Blocks(bits.fold(0, |all, (block, is_in)| all | u64::from(is_in) << block))
    }
}

/// Tells `then`, once the body's operations have ended, which diagonal blocks of a factor in `f32`, which was made by what is on the stream, may be
/// inverted. The inverses are made for that, and kept for the solves.
fn tell_benign(ops: &Ops<'_>, l: &OnGpu, then: impl FnOnce(Blocks) + Send + 'static) -> Result<(), GpuError> {
    let n = l.shape.0;
    // What lies above the diagonal is not the factor's.
    let blocks = ops.scratch_matrix((SOLVED.min(n), n), Element::F32)?;
    // Whoever solves with the factor finds them: it is not written any more.
    let inverses = inverses(ops, &OnGpu { stays: true, ..*l })?;
    for (j, width) in diagonal_blocks(n) {
        let (from, to) = (l.values.block((j, j), (width, width)), blocks.block((0, j), (width, width)));
        ops.launch(copy((width, width), *from, *to))?;
        ops.launch(zero_upper(width, *to))?;
    }
    let both = move |(j, width)| [blocks, inverses].map(|of| of.block((0, j), (width, width)));
    let matrices: Vec<View> = diagonal_blocks(n).flat_map(both).collect();
    ops.norms(matrices.into_iter(), move |norms| {
        let unit = f64::from(f32::EPSILON) / 2.0;
        // What is no number is not benign.
        then(norms.chunks_exact(2).map(|pair| unit * pair[0] * pair[1] <= BENIGN).collect());
        Ok(())
    })
}

/// A block of `f32` as the sum of two `f16`, in working space.
fn halves(ops: &Ops<'_>, a: View) -> Result<OnGpu, GpuError> {
    let shape = a.shape();
    let (hi, lo) = (ops.scratch_matrix(shape, Element::F16)?, ops.scratch_matrix(shape, Element::F16)?);
    let (measured, scale) = (ops.measure(a)?, ops.scratch(4)?);
    ops.launch(split(shape, *a, measured, *hi, lo.at, scale))?;
    Ok(OnGpu { shape, storage: StorageFormat::F16x2, values: hi, lo: lo.at, scale, stays: false })
}

/// `L L^T = A` in place. `lost` makes the error of a pivot that is not a positive finite number, from its column: the first that is not
/// positive, where the library finds one, which takes NaN for positive; then the diagonal tells, and the column is the last. `benign` is told
/// with inverses of which of the factor's diagonal blocks solves may multiply.
pub(crate) fn factor(
    ops: &Ops<'_>,
    a: &OnGpu,
    lost: impl FnOnce(usize) -> TaskError + Send + 'static,
    benign: Option<impl FnOnce(Blocks) + Send + 'static>,
) -> Result<(), GpuError> {
    if a.is_empty() {
        return Ok(());
    }
    let n = a.shape.0;
    ops.potrf(a.values, move |info, diagonal| match usize::try_from(info) {
        Ok(0) if diagonal.max.is_finite() => Ok(()),
        Ok(0) => Err(lost(n as usize - 1)),
        Ok(column) => Err(lost(column - 1)),
        Err(_) => Err(format!("cuSOLVER refused argument {} of a factorisation", -info).into()),
    })?;
    benign.map_or(Ok(()), |then| tell_benign(ops, a, then))
}
