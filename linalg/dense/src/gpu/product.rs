//! `C -= A op(B)` in each precision, one product of a library each.

use zellige_gpu::{Address, Compute, Element, Factors, GpuError, Transpose};
use zellige_kernels::cuda::{
    SMALL, SMALL_BATCH, Scales, SmallProduct, SmallProducts, Third, accumulate, copy, factors,
    small_products, store, sum, transpose, triple, unpack,
};
use zellige_kernels::precision::Sign;
use zellige_kernels::{GemmPrecision, Op};

use super::ops::Form;
use super::view::{GemmArgs, View};
use super::{OnGpu, Ops};
use crate::error::Error;

/// Number of entries that 8-bit operands are padded to a multiple of.
const STEP_8: u32 = 16;

/// A product of two matrices in workspace or operands, the input of [`subtract`] besides C.
#[derive(Clone, Copy)]
pub(super) struct Factored {
    pub(super) a: View,
    pub(super) b: View,
    pub(super) op_b: Op,
    pub(super) factors: Factors,
    pub(super) compute: Compute,
}

/// Factors of a difference, `C = C - A op(B)`.
pub(super) const DIFFERENCE: Factors = Factors::Host { alpha: -1.0, beta: 1.0 };
/// `C = A op(B)`.
pub(super) const PRODUCT: Factors = Factors::Host { alpha: 1.0, beta: 0.0 };
/// `C = C + A op(B)`.
pub(super) const SUM: Factors = Factors::Host { alpha: 1.0, beta: 1.0 };

/// Puts one product on the stream.
pub(super) fn gemm(
    ops: &Ops<'_>,
    Factored { a, b, op_b, factors, compute }: Factored,
    c: View,
) -> Result<(), GpuError> {
    let (op_a, op_b) = (Transpose::No, super::transpose(op_b));
    ops.gemm(&GemmArgs { op_a, op_b, factors, a, b, c, compute })
}

/// Returns the factors of a sum of products of numbers with these scales.
pub(super) fn scaled(ops: &Ops<'_>, sign: Sign, a: Address, b: Address) -> Result<Factors, GpuError> {
    let to = ops.scratch(8)?;
    ops.launch(Ok(factors(sign, Scales { a, b }, to)))?;
    Ok(Factors::Device(to))
}

/// One of several products of a batch on a stream.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    pub(crate) op_b: Op,
    pub(crate) a: OnGpu,
    pub(crate) b: OnGpu,
    pub(crate) c: OnGpu,
}

/// Returns true for products of tiles so small that the launch dominates a product of the library:
/// a kernel does several in one launch, with bits that do not depend on their number.
pub(crate) fn is_small(precision: GemmPrecision, (m, n): (usize, usize)) -> bool {
    use GemmPrecision::{Bf1, Hp1, Sp};
    matches!(precision, Sp | Hp1 | Bf1) && m.max(n) <= SMALL as usize
}

/// Computes `C -= A op(B)` for each, on tiles in the formats of one precision for which they [are
/// small](is_small).
pub(crate) fn multiply_small(ops: &Ops<'_>, products: &[Small]) -> Result<(), GpuError> {
    let alike = |x: &Small, y: &Small| {
        (x.op_b, x.a.shape, x.b.shape, x.a.storage) == (y.op_b, y.a.shape, y.b.shape, y.a.storage)
    };
    let groups = products.chunk_by(alike).flat_map(|alike| alike.chunks(SMALL_BATCH));
    for group in groups.filter(|group| !group[0].c.is_empty() && !group[0].a.is_empty()) {
        let Small { op_b, a, b, c } = group[0];
        let shape = (c.shape.0, c.shape.1, a.shape.1);
        let (ld, element) = ([a, b, c].map(|tile| tile.values.ld), a.values.element);
        let transposed = op_b == Op::Trans;
        let of = SmallProducts { shape, alpha: -1.0, ld, element, transposed, beta: 1.0 };
        let place = |small: &Small| SmallProduct {
            tiles: [small.a, small.b, small.c].map(|tile| tile.values.at),
            scales: [small.a.scale, small.b.scale],
        };
        let places: Vec<SmallProduct> = group.iter().map(place).collect();
        ops.launch(small_products(&of, &places))?;
    }
    Ok(())
}

/// Computes `C -= A op(B)` on tiles in the formats of `precision`.
///
/// Sums are those of tensor cores if the operands are narrow. HP2 and HP3 round C once per product,
/// in a scale that is raised if necessary, as on the CPU.
pub(crate) fn multiply(
    ops: &Ops<'_>,
    precision: GemmPrecision,
    op_b: Op,
    a: &OnGpu,
    b: &OnGpu,
    c: &OnGpu,
) -> Result<(), Error> {
    use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Hp2, Hp3, Sp, Tf32, X3};
    let (operand, result) = (precision.operand_format(), precision.output_format());
    let (a, b, c) = (a.want(operand)?, b.want(operand)?, c.want(result)?);
    if c.is_empty() || a.is_empty() {
        return Ok(());
    }
    if is_small(precision, (c.shape.0 as usize, c.shape.1 as usize)) {
        return Ok(multiply_small(ops, &[Small { op_b, a: *a, b: *b, c: *c }])?);
    }
    let plain = |compute, factors| Factored { a: a.values, b: b.values, op_b, factors, compute };
    match precision {
        Dp => gemm(ops, plain(Compute::F64, DIFFERENCE), c.values)?,
        Sp => gemm(ops, plain(Compute::F32, DIFFERENCE), c.values)?,
        Tf32 => gemm(ops, plain(Compute::Tf32, DIFFERENCE), c.values)?,
        Hp1 | Bf1 => {
            let factors = scaled(ops, Sign::Minus, a.scale, b.scale)?;
            gemm(ops, plain(Compute::F32, factors), c.values)?;
        }
        X3 => {
            let product = tripled(ops, op_b, a, b)?;
            gemm(ops, product, c.values)?;
        }
        Fp8 => multiply_8(ops, op_b, a, b, c)?,
        Hp2 | Hp3 => {
            let half = precision == Hp3;
            let p = ops.scratch_matrix(c.shape, if half { Element::F16 } else { Element::F32 })?;
            let compute = if half { Compute::F16 } else { Compute::F32 };
            gemm(ops, plain(compute, PRODUCT), p)?;
            let s = if half { ops.scratch_matrix(c.shape, Element::F32)? } else { p };
            let scales = Scales { a: a.scale, b: b.scale };
            ops.launch(sum(c.shape, *p, Sign::Minus, scales, (*c.values, c.scale), *s))?;
            let measured = ops.measure(s)?;
            ops.launch(store(c.shape, *s, measured, *c.values, c.scale))?;
        }
    }
    Ok(())
}

/// Computes X3 as one product of three times the inner length: `[hi|hi|lo] [hi|lo|hi]^T`, so that C
/// is read and written once. Both are blocks of one matrix `[hi|hi|lo|hi]`, made once for each tile
/// while there is memory for it.
pub(super) fn tripled(ops: &Ops<'_>, op_b: Op, a: &OnGpu, b: &OnGpu) -> Result<Factored, GpuError> {
    let ((m, k), factors) = (a.shape, scaled(ops, Sign::Minus, a.scale, b.scale)?);
    let first = along_columns(ops, a)?.block((0, 0), (m, 3 * k));
    let second = match op_b {
        Op::Trans => along_columns(ops, b)?.block((0, k), (b.shape.0, 3 * k)),
        Op::None => below(ops, b)?,
    };
    Ok(Factored { a: first, b: second, op_b, factors, compute: Compute::F32 })
}

/// Returns `[hi|hi|lo|hi]`.
fn along_columns(ops: &Ops<'_>, tile: &OnGpu) -> Result<View, GpuError> {
    let (rows, cols) = tile.shape;
    ops.cached_operand(tile, Form::Tripled, ((rows, 4 * cols), Element::F16), |out| {
        ops.launch(triple(tile.shape, *tile.values, tile.lo, Third::FirstAlongColumns, *out))?;
        ops.launch(copy(tile.shape, *tile.values, *out.block((0, 3 * cols), tile.shape)))
    })
}

/// Returns `[hi; lo; hi]`.
fn below(ops: &Ops<'_>, tile: &OnGpu) -> Result<View, GpuError> {
    let (rows, cols) = tile.shape;
    ops.cached_operand(tile, Form::TripledBelow, ((3 * rows, cols), Element::F16), |out| {
        ops.launch(triple(tile.shape, *tile.values, tile.lo, Third::SecondAlongRows, *out))
    })
}

/// Computes a product of 8-bit tiles: the library takes `A` transposed and `B` as stored, with
/// lengths in multiples of [`STEP_8`].
fn multiply_8(ops: &Ops<'_>, op_b: Op, a: &OnGpu, b: &OnGpu, c: &OnGpu) -> Result<(), GpuError> {
    let ((m, k), n) = (a.shape, c.shape.1);
    let [mp, np, kp] = [m, n, k].map(|length| length.next_multiple_of(STEP_8));
    let first = transposed_8(ops, a, (kp, mp))?;
    let second = match op_b {
        Op::Trans => transposed_8(ops, b, (kp, np))?,
        Op::None if (kp, np) == (k, n) => b.values,
        Op::None => padded_8(ops, b, (kp, np))?,
    };
    let whole = |factors, c| GemmArgs {
        op_a: Transpose::Yes,
        op_b: Transpose::No,
        factors,
        a: first,
        b: second,
        c,
        compute: Compute::F32,
    };
    if (mp, np) == (m, n) {
        return match ops.gemm(&whole(scaled(ops, Sign::Minus, a.scale, b.scale)?, c.values)) {
            Err(GpuError::NoKernel { .. }) => widened(ops, op_b, a, b, c),
            made => made,
        };
    }
    let p = ops.scratch_matrix((mp, np), Element::F32)?;
    match ops.gemm(&whole(PRODUCT, p)) {
        Err(GpuError::NoKernel { .. }) => return widened(ops, op_b, a, b, c),
        made => made?,
    }
    let scales = Scales { a: a.scale, b: b.scale };
    ops.launch(accumulate(c.shape, *p, Sign::Minus, scales, *c.values))
}

/// Computes a product of 8-bit tiles for which the library has no kernel, in TF32. It holds their 4
/// bits and any scale, so that every product of two entries is equal and only the order of the sums
/// differs.
fn widened(ops: &Ops<'_>, op_b: Op, a: &OnGpu, b: &OnGpu, c: &OnGpu) -> Result<(), GpuError> {
    let wide = |tile: &OnGpu| -> Result<View, GpuError> {
        let out = ops.scratch_matrix(tile.shape, Element::F32)?;
        ops.launch(unpack(tile.shape, *tile.values, tile.scale, *out))?;
        Ok(out)
    };
    let (a, b) = (wide(a)?, wide(b)?);
    gemm(ops, Factored { a, b, op_b, factors: DIFFERENCE, compute: Compute::Tf32 }, c.values)
}

/// Returns the transpose of a tile, padded with zeros to `padded` rows and columns.
fn transposed_8(ops: &Ops<'_>, tile: &OnGpu, padded: (u32, u32)) -> Result<View, GpuError> {
    ops.cached_operand(tile, Form::Transposed, (padded, Element::F8E4M3), |out| {
        ops.launch(transpose(tile.shape, *tile.values, padded, *out))
    })
}

/// Returns the tile, padded with zeros to `padded` rows and columns.
fn padded_8(ops: &Ops<'_>, tile: &OnGpu, padded: (u32, u32)) -> Result<View, GpuError> {
    let out = ops.scratch_matrix(padded, Element::F8E4M3)?;
    ops.zero(out)?;
    ops.launch(copy(tile.shape, *tile.values, *out))?;
    Ok(out)
}
