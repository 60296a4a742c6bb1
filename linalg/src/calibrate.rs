//! Fills performance models with the tile kernels of a Cholesky factorisation.
//!
//! Whole factorisations run, not kernels in a loop: the tiles lie in memory as they do in real runs, and the models' keys are
//! those that real runs use.

use zellige_kernels::GemmPrecision;
use zellige_runtime::Runtime;

use crate::bench::test_matrix;
use crate::error::Error;
use crate::factor::cholesky;
use crate::grid::TileGrid;
use crate::policy::{Rule, SharedPolicy};
use crate::scalar::TileScalar;
use crate::tiled::SymmetricTiled;

/// Tiles along the matrix: each kernel runs at least so often, more often than a history needs.
const TILES: usize = 8;

/// One factorisation of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Tile edge.
    pub tile: usize,
    /// Precision of the products; `Dp` is a factorisation in `f64`, all others are in `f32`.
    pub precision: GemmPrecision,
}

/// The factorisations that calibrate tiles of these edges, in every precision.
pub fn steps(tiles: &[usize]) -> Vec<Step> {
    let of = |&tile: &usize| GemmPrecision::ALL.map(|precision| Step { tile, precision });
    tiles.iter().flat_map(of).collect()
}

/// Factors a matrix of 8 x 8 tiles on `rt`, whose models learn from it; they have all of it once `rt` is dropped.
///
/// # Errors
/// [`Error::Grid`] for a tile edge of 0, [`Error::Runtime`], e.g. for tasks that were cancelled.
pub fn calibrate(rt: &Runtime, step: Step) -> Result<(), Error> {
    match step.precision {
        GemmPrecision::Dp => factor::<f64>(rt, step),
        _ => factor::<f32>(rt, step),
    }
}

fn factor<T: TileScalar>(rt: &Runtime, step: Step) -> Result<(), Error> {
    let n = TILES * step.tile;
    let a = SymmetricTiled::<T>::new(rt, TileGrid::uniform(n, step.tile)?);
    a.fill(rt, &test_matrix::<T>(n))?;
    rt.wait_all()?;
    let policy: SharedPolicy = Rule::uniform(step.precision).into();
    cholesky(rt, &a, &policy)?.wait(rt)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zellige_runtime::TaskInfo;
    use zellige_runtime::model::Models;

    use super::*;

    #[test]
    fn every_kernel_is_calibrated_in_every_precision() {
        let models = Arc::new(Models::new());
        let rt = Runtime::builder().workers(2).models(Arc::clone(&models)).build().unwrap();
        for step in steps(&[8, 16]) {
            calibrate(&rt, step).unwrap();
        }
        drop(rt);
        let cpu = models.kind("cpu");
        let known = |codelet: &str, label: &'static str, shape: [u32; 3]| {
            let info = TaskInfo { label, shape, ..TaskInfo::default() };
            assert!(models.is_calibrated(models.id(codelet, &info), cpu), "{codelet} {label} {shape:?}");
        };
        for n in [8, 16] {
            for label in ["fp64", "fp32"] {
                known("generate", label, [n, n, 0]);
                known("potrf", label, [n, 0, 0]);
                known("trsm", label, [n, n, 0]);
                known("syrk", label, [n, n, 0]);
            }
            for precision in GemmPrecision::ALL {
                known("gemm", precision.name(), [n; 3]);
            }
        }
        let rows = models.rows();
        assert_eq!(rows.len(), 2 * (2 * 4 + 7));
        let kernels = rows.iter().filter(|row| row.codelet != "generate");
        assert!(kernels.clone().all(|row| row.bytes > 0 && row.flops > 0.0), "{rows:?}");
    }

    #[test]
    fn no_tile_is_an_error() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let step = Step { tile: 0, precision: GemmPrecision::Sp };
        assert!(matches!(calibrate(&rt, step), Err(Error::Grid(_))));
    }
}
