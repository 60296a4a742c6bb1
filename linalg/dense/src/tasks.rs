//! Tasks on single tiles, which [`cholesky`](crate::cholesky) and [`solve`](crate::solve) are made
//! of, for other tiled algorithms.
//!
//! Each function submits one task. Shapes are those of the tiles, which need not have been written
//! yet.

use std::marker::PhantomData;
use std::sync::Arc;

use zellige_kernels::precision::{PanelPrecision, scratch_len};
use zellige_kernels::{GemmPrecision, Op};
use zellige_runtime::{Handle, Submit, TaskRef, read, scratch, update};

use crate::error::Error;
use crate::factor::codelets::{Potrf, Syrk};
use crate::factor::product::{Coordinates, Product};
use crate::factor::{GemmCounts, Trsm, native_update};
use crate::format::format_of;
use crate::policy::{GemmQuery, Phase};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Submits `A = L L^T` in place of a tile `A` of order `n`.
///
/// # Errors
/// [`Error::Runtime`] for a task that is refused, as for all functions here.
pub fn potrf<T: TileScalar, S: Submit>(s: &S, a: &Handle<Tile<T>>, n: usize) -> Result<TaskRef, Error> {
    Ok(s.submit(Potrf::<T>::new(0, 0..n, None), (native_update(a),))?)
}

/// Submits `X op(L) = B` in place of a tile `B` of this shape, and the norm of `X`.
pub fn trsm<T: TileScalar, S: Submit>(
    s: &S,
    panel: PanelPrecision,
    op: Op,
    l: &Handle<Tile<T>>,
    b: &Handle<Tile<T>>,
    shape: (usize, usize),
) -> Result<TaskRef, Error> {
    let trsm = Trsm::<T>::of_solution(panel, op, (0, 0), shape, None);
    let space = trsm.scratch();
    Ok(s.submit(trsm, (read(l), native_update(b), space))?)
}

/// Submits `A -= L L^T` in the lower triangle of `A`, for a tile `L` of this shape.
pub fn syrk<T: TileScalar, S: Submit>(
    s: &S,
    panel: PanelPrecision,
    l: &Handle<Tile<T>>,
    a: &Handle<Tile<T>>,
    shape: (usize, usize),
) -> Result<TaskRef, Error> {
    let syrk = Syrk::<T>::new(panel, 0, 0, shape);
    let (operand, space) = (panel.gemm(T::FULL).operand_format(), syrk.scratch());
    Ok(s.submit(syrk, (read(l).as_format(format_of(operand)), native_update(a), space))?)
}

/// Submits `C -= A op(B)`; `shape` is `(m, n, k)` with `m` rows and `n` columns of `C`, and `k`
/// columns of `A`. `C` is left in the output format of the precision.
pub fn gemm<T: TileScalar, S: Submit>(
    s: &S,
    precision: GemmPrecision,
    op_b: Op,
    (a, b): (&Handle<Tile<T>>, &Handle<Tile<T>>),
    c: &Handle<Tile<T>>,
    shape: (usize, usize, usize),
) -> Result<TaskRef, Error> {
    let (operand, result) = (precision.operand_format(), precision.output_format());
    let operands = (
        read(a).as_format(format_of(operand)),
        read(b).as_format(format_of(operand)),
        update(c).as_format(format_of(result)),
        scratch(scratch_len(precision, shape.0, shape.1, shape.2)).on_host(),
    );
    let query = GemmQuery::unmeasured(Phase::Factor, [0; 3], 1);
    let coordinates = Coordinates { query, op_b, shape, counts: Arc::new(GemmCounts::new(1, 1)) };
    Ok(s.submit(Product::<T> { coordinates, precision, _element: PhantomData }, operands)?)
}
