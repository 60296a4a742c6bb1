//! Triangular solves.

use std::ops::Range;

use zellige_gpu::{Address, Compute, Element, Factors, GpuError};
use zellige_kernels::Op;
use zellige_kernels::cuda::{copy, split, zero_upper};
use zellige_kernels::precision::{PanelPrecision, Sign};

use super::inverses::{DiagonalSolve, DiagonalSolves, Diagonals, SOLVED, diagonals};
use super::ops::Form;
use super::product::{DIFFERENCE, Factored, PRODUCT, SUM, gemm, scaled};
use super::view::View;
use super::{OnGpu, Ops, transpose};

/// Solves `X op(L) = B` in place of `B`, with `L` on the right: by the library, or, if `solves` has
/// any, by blocks of [`SOLVED`] columns.
///
/// The columns of each block are solved by its method. The rest are products, of halves of the
/// columns: in `f32`, TF32 or X3, as in the panel.
pub(crate) fn solve_right(
    ops: &Ops<'_>,
    panel: PanelPrecision,
    op: Op,
    l: &OnGpu,
    b: &OnGpu,
    solves: DiagonalSolves,
) -> Result<(), GpuError> {
    if b.is_empty() {
        return Ok(());
    }
    if solves == DiagonalSolves::NONE {
        return ops.trsm(transpose(op), l.values, b.values);
    }
    let cached = diagonals(ops, l)?;
    let splits = match panel {
        PanelPrecision::X3 => Some([lower_split(ops, l)?, inverse_split(ops, l, cached.inverses)?]),
        PanelPrecision::Native | PanelPrecision::Tf32 => None,
    };
    let compute = if panel == PanelPrecision::Tf32 { Compute::Tf32 } else { Compute::F32 };
    let solve = Solve { ops, op, l: l.values, b: b.values, solves, cached, splits, compute };
    solve.columns(0..b.shape.1.div_ceil(SOLVED))
}

/// A solve by inverses.
struct Solve<'o, 'c> {
    ops: &'o Ops<'c>,
    op: Op,
    l: View,
    b: View,
    solves: DiagonalSolves,
    cached: Diagonals,
    /// `L` and the inverses in split form, for X3.
    splits: Option<[Split; 2]>,
    compute: Compute,
}

impl Solve<'_, '_> {
    /// Returns the first column of these blocks, and their number of columns.
    fn extent(&self, blocks: &Range<u32>) -> (u32, u32) {
        let (from, n) = (blocks.start * SOLVED, self.b.shape().1);
        (from, n.min(blocks.end * SOLVED) - from)
    }

    fn columns_of(&self, blocks: &Range<u32>) -> View {
        let (from, count) = self.extent(blocks);
        self.b.block((0, from), (self.b.shape().0, count))
    }

    /// Solves the columns of these blocks, from which the products of those that were solved before
    /// have been subtracted.
    fn columns(&self, blocks: Range<u32>) -> Result<(), GpuError> {
        if blocks.len() == 1 {
            return self.reusing(|| self.block(blocks));
        }
        // From the first columns on for L^T, from the last ones on for L.
        let middle = blocks.start.midpoint(blocks.end);
        let (first, second) = match self.op {
            Op::Trans => (blocks.start..middle, middle..blocks.end),
            Op::None => (middle..blocks.end, blocks.start..middle),
        };
        self.columns(first.clone())?;
        self.reusing(|| self.subtract(&first, &second))?;
        self.columns(second)
    }

    /// Runs operations that reuse the workspace of earlier ones: they run one after the other.
    fn reusing(&self, put: impl FnOnce() -> Result<(), GpuError>) -> Result<(), GpuError> {
        let used = self.ops.scratch_used();
        put()?;
        self.ops.scratch_from(used);
        Ok(())
    }

    /// Subtracts the contribution of the solved blocks from the columns of the remaining ones.
    fn subtract(&self, solved: &Range<u32>, left: &Range<u32>) -> Result<(), GpuError> {
        let (from, to) = (self.extent(solved), self.extent(left));
        let ((row, rows), (col, cols)) = match self.op {
            Op::Trans => (to, from),
            Op::None => (from, to),
        };
        let (x, b) = (self.columns_of(solved), self.columns_of(left));
        match &self.splits {
            Some([l, _]) => {
                let x = split_of(self.ops, x)?;
                multiply_split(self.ops, Sign::Minus, &x, &l.block((row, col), (rows, cols)), self.op, b)
            }
            None => {
                let l = self.l.block((row, col), (rows, cols));
                gemm(self.ops, self.factored(x, l, DIFFERENCE, self.compute), b)
            }
        }
    }

    fn factored(&self, a: View, b: View, factors: Factors, compute: Compute) -> Factored {
        Factored { a, b, op_b: self.op, factors, compute }
    }

    /// Solves the columns of one block.
    fn block(&self, block: Range<u32>) -> Result<(), GpuError> {
        let (ops, x, (from, width)) = (self.ops, self.columns_of(&block), self.extent(&block));
        let [inverse, l] = self.cached.of(from, width);
        let single = |a, b, factors| self.factored(a, b, factors, Compute::F32);
        match (self.solves.of(block.start), &self.splits) {
            (DiagonalSolve::Substitute, _) => ops.trsm(transpose(self.op), l, x),
            (DiagonalSolve::MultiplyInX3, Some([_, inverses])) => {
                let b = split_of(ops, x)?;
                ops.zero(x)?;
                let inverse = inverses.block((0, from), (width, width));
                multiply_split(ops, Sign::Plus, &b, &inverse, self.op, x)
            }
            (method, _) => {
                let b = ops.scratch_matrix(x.shape(), Element::F32)?;
                ops.launch(copy(x.shape(), *x, *b))?;
                gemm(ops, single(b, inverse, PRODUCT), x)?;
                if method == DiagonalSolve::Refine {
                    // X += (B - X op(L)) op(L)^-1.
                    gemm(ops, single(x, l, DIFFERENCE), b)?;
                    gemm(ops, single(b, inverse, SUM), x)?;
                }
                Ok(())
            }
        }
    }
}

/// A matrix of `f32` as the sum of two `f16`, in units of a scale.
#[derive(Clone, Copy)]
struct Split {
    hi: View,
    lo: View,
    scale: Address,
}

impl Split {
    fn block(&self, from: (u32, u32), shape: (u32, u32)) -> Split {
        Split { hi: self.hi.block(from, shape), lo: self.lo.block(from, shape), scale: self.scale }
    }

    /// Returns the split form within a matrix of twice as many columns and one more, which has the
    /// scale.
    fn within(all: View) -> Split {
        let (rows, cols) = all.shape();
        let (shape, count) = ((rows, cols / 2), cols / 2);
        let scale = all.block((0, cols - 1), (rows, 1)).at;
        Split { hi: all.block((0, 0), shape), lo: all.block((0, count), shape), scale }
    }
}

/// Splits a matrix.
fn split_to(ops: &Ops<'_>, a: View, to: &Split) -> Result<(), GpuError> {
    let measured = ops.measure(a)?;
    ops.launch(split(a.shape(), *a, measured, *to.hi, to.lo.at, to.scale))
}

/// Returns the split form of a matrix in workspace.
fn split_of(ops: &Ops<'_>, a: View) -> Result<Split, GpuError> {
    let (rows, cols) = a.shape();
    let to = Split::within(ops.scratch_matrix((rows, 2 * cols + 1), Element::F16)?);
    split_to(ops, a, &to)?;
    Ok(to)
}

/// Returns the split form of the lower triangle of a factor.
fn lower_split(ops: &Ops<'_>, l: &OnGpu) -> Result<Split, GpuError> {
    let (n, shape) = (l.shape.1, l.shape);
    let all = ops.cached_operand(l, Form::LowerSplit, ((n, 2 * n + 1), Element::F16), |out| {
        // Numbers above the diagonal would affect the scale.
        let lower = ops.scratch_matrix(shape, Element::F32)?;
        ops.launch(copy(shape, *l.values, *lower))?;
        ops.launch(zero_upper(n, *lower))?;
        split_to(ops, lower, &Split::within(out))
    })?;
    Ok(Split::within(all))
}

/// Returns the split form of the inverses of the diagonal blocks of a factor.
fn inverse_split(ops: &Ops<'_>, l: &OnGpu, inverses: View) -> Result<Split, GpuError> {
    let (rows, n) = inverses.shape();
    let all = ops.cached_operand(l, Form::InverseSplit, ((rows, 2 * n + 1), Element::F16), |out| {
        split_to(ops, inverses, &Split::within(out))
    })?;
    Ok(Split::within(all))
}

/// Computes `C = C + sign A op(B)` in X3, the small products first.
fn multiply_split(
    ops: &Ops<'_>,
    sign: Sign,
    a: &Split,
    b: &Split,
    op_b: Op,
    c: View,
) -> Result<(), GpuError> {
    let factors = scaled(ops, sign, a.scale, b.scale)?;
    for (a, b) in [(a.hi, b.lo), (a.lo, b.hi), (a.hi, b.hi)] {
        gemm(ops, Factored { a, b, op_b, factors, compute: Compute::F32 }, c)?;
    }
    Ok(())
}
