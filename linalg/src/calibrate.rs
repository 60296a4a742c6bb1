//! Fills performance models with the tile kernels of a Cholesky factorisation.
//!
//! Whole factorisations run, not kernels in a loop: the tiles lie in memory as they do in real runs, and the models' keys are
//! those that real runs use.

use std::time::Duration;

use zellige_kernels::GemmPrecision;
use zellige_runtime::model::{KindId, Models};
use zellige_runtime::{Runtime, TaskEvent, TaskInfo};

use crate::bench::test_matrix;
use crate::error::Error;
use crate::factor::cholesky;
use crate::grid::TileGrid;
use crate::policy::{Rule, SharedPolicy};
use crate::scalar::TileScalar;
use crate::tiled::SymmetricTiled;

/// Tiles along the matrix: each kernel runs at least so often, more often than a history needs.
const TILES: usize = 8;

/// Records that a runtime needs room for in its trace, per worker; see [`calibrate`].
pub const TRACE_ROOM: usize = 4 * TILES * TILES * TILES;

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

/// Factors a matrix of 8 x 8 tiles on `rt` and records how long each kernel took. `rt` must have a trace with
/// [`TRACE_ROOM`] and nothing else to do; what was in its trace before is dropped. Times are those of the wall clock: calibrate on a
/// machine that does nothing else.
///
/// # Errors
/// [`Error::Grid`] for a tile edge of 0, [`Error::Runtime`], e.g. for tasks that were cancelled.
pub fn calibrate(rt: &Runtime, models: &Models, step: Step) -> Result<(), Error> {
    rt.take_trace();
    match step.precision {
        GemmPrecision::Dp => factor::<f64>(rt, step)?,
        _ => factor::<f32>(rt, step)?,
    }
    let cpu = models.kind("cpu");
    for event in rt.take_trace().iter().flat_map(|trace| &trace.tasks) {
        record(models, cpu, step.tile, event);
    }
    Ok(())
}

fn factor<T: TileScalar>(rt: &Runtime, step: Step) -> Result<(), Error> {
    let n = TILES * step.tile;
    let a = SymmetricTiled::<T>::new(rt, TileGrid::uniform(n, step.tile)?);
    a.fill(rt, &test_matrix::<T>(n))?;
    rt.wait_all()?;
    let policy: SharedPolicy = Rule::uniform(step.precision).into();
    cholesky(rt, &a, &policy)?.wait(rt)
}

/// A trace has no shapes, but all tiles are alike.
fn record(models: &Models, cpu: KindId, tile: usize, event: &TaskEvent) {
    let n = tile as u32;
    let shape = match event.name {
        "potrf" => [n, 0, 0],
        "trsm" | "syrk" => [n, n, 0],
        "gemm" => [n; 3],
        _ => return,
    };
    if event.failed {
        return;
    }
    let info = TaskInfo { flops: event.flops, label: event.label, shape, ..TaskInfo::default() };
    let time = Duration::from_nanos(event.end_ns.saturating_sub(event.start_ns));
    models.record(models.id(event.name, &info), cpu, event.flops, event.bytes, time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_calibrated_in_every_precision() {
        let rt = Runtime::builder().workers(1).trace_capacity(TRACE_ROOM).build().unwrap();
        let models = Models::new();
        for step in steps(&[8, 16]) {
            calibrate(&rt, &models, step).unwrap();
        }
        let cpu = models.kind("cpu");
        let known = |codelet: &str, label: &'static str, shape: [u32; 3]| {
            let info = TaskInfo { label, shape, ..TaskInfo::default() };
            assert!(models.is_calibrated(models.id(codelet, &info), cpu), "{codelet} {label} {shape:?}");
        };
        for n in [8, 16] {
            for label in ["fp64", "fp32"] {
                known("potrf", label, [n, 0, 0]);
                known("trsm", label, [n, n, 0]);
                known("syrk", label, [n, n, 0]);
            }
            for precision in GemmPrecision::ALL {
                known("gemm", precision.name(), [n; 3]);
            }
        }
        let rows = models.rows();
        assert_eq!(rows.len(), 2 * (2 * 3 + 7));
        assert!(rows.iter().all(|row| row.bytes > 0 && row.flops > 0.0), "{rows:?}");
    }

    #[test]
    fn no_tile_is_an_error() {
        let rt = Runtime::builder().workers(1).trace_capacity(TRACE_ROOM).build().unwrap();
        let step = Step { tile: 0, precision: GemmPrecision::Sp };
        assert!(matches!(calibrate(&rt, &Models::new(), step), Err(Error::Grid(_))));
    }
}
