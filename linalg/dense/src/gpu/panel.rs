//! Symmetric updates and factorisations, in the tile's own precision or with products in TF32 or
//! X3.

use zellige_gpu::{Compute, GpuError};
use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, Op, StorageFormat};
use zellige_runtime::TaskError;

use super::inverses::{DiagonalSolves, pass_solves};
use super::product::{DIFFERENCE, Factored, Small, gemm, is_small, multiply_small, tripled};
use super::view::View;
use super::{OnGpu, Ops};
use crate::error::Error;

/// Number of column strips of a symmetric update by products, each computed as a whole rectangle:
/// half of each first square is wasted, an eighth of the work.
const STRIPS: u32 = 4;
/// Computes `A -= L L^T` in the lower triangle. By products, entries above the diagonal are
/// overwritten too, within strips of columns.
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

/// Factors `L L^T = A` in place. `lost` creates the error of a pivot that is not a positive finite
/// number, from its column. That is the first pivot that is not positive, if the library finds one;
/// the library treats NaN as positive. In that case the diagonal is checked, and the column is the
/// last. `then` receives the solution methods for the columns of the factor's diagonal blocks.
pub(crate) fn factor(
    ops: &Ops<'_>,
    a: &OnGpu,
    lost: impl FnOnce(usize) -> TaskError + Send + 'static,
    then: Option<impl FnOnce(DiagonalSolves) + Send + 'static>,
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
    then.map_or(Ok(()), |then| pass_solves(ops, a, then))
}
