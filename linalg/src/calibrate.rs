//! Fills performance models with the tile kernels of a Cholesky factorisation.
//!
//! Whole factorisations run, not kernels in a loop: the tiles lie in memory as they do in real runs, and the models' keys are
//! those that real runs use.

use std::time::Instant;

use zellige_kernels::precision::FullPrecision;
use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_runtime::bench::task_overhead;
use zellige_runtime::model::{LinkModel, Models, OVERHEAD};
use zellige_runtime::{Runtime, TaskInfo};

use crate::bench::test_matrix;
use crate::error::Error;
use crate::factor::cholesky;
use crate::gpu::capability_for;
use crate::grid::TileGrid;
use crate::policy::Rule;
use crate::scalar::TileScalar;
use crate::tile::Tile;
use crate::tiled::SymmetricTiled;

/// Fewest and most tiles along the matrix: each kernel runs at least eight times, more often than a history needs.
const TILES: (usize, usize) = (8, 16);
/// Edge of a matrix that no cache holds: kernels that find their tiles in a cache are faster than those of a real run.
const EDGE: usize = 4096;

/// Policy of the runtime that is calibrated: tasks in the order in which they were submitted find fewer tiles in caches than with policies
/// that mind it, and as many as with those that go by models. (Calibrated with `prio`, bodies under those took 3 to 12 % more time on two cores
/// than predicted.)
pub const POLICY: &str = "eager";

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

/// The same, without precisions that a GPU of this compute capability lacks.
pub fn steps_on_gpu(tiles: &[usize], capability: (u32, u32)) -> Vec<Step> {
    let mut all = steps(tiles);
    all.retain(|step| capability_for(step.precision) <= capability);
    all
}

/// As [`calibrate`], on a runtime without CPU workers: the host makes the matrix before. Tiles travel to the devices as in any run, beside what
/// is timed.
///
/// # Errors
/// As [`calibrate`].
pub fn calibrate_on_gpu(rt: &Runtime, step: Step) -> Result<(), Error> {
    match step.precision {
        GemmPrecision::Dp => factor_there::<f64>(rt, step),
        _ => factor_there::<f32>(rt, step),
    }
}

fn factor_there<T: TileScalar>(rt: &Runtime, step: Step) -> Result<(), Error> {
    let host = Runtime::builder().policy(POLICY).build()?;
    let a = made::<T>(&host, step)?;
    drop(host);
    cholesky(rt, &a, &rule(step.precision).into())?.wait(rt)
}

/// Factors a matrix of 8 x 8 to 16 x 16 tiles on `rt`, whose models learn from it; they have all of it once `rt` is dropped.
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
    cholesky(rt, &made::<T>(rt, step)?, &rule(step.precision).into())?.wait(rt)
}

/// The matrix of a step.
fn made<T: TileScalar>(rt: &Runtime, step: Step) -> Result<SymmetricTiled<T>, Error> {
    let n = step.tile * (EDGE / step.tile.max(1)).clamp(TILES.0, TILES.1);
    let a = SymmetricTiled::<T>::new(rt, TileGrid::uniform(n, step.tile)?);
    a.fill(rt, &test_matrix::<T>(n))?;
    rt.wait_all()?;
    Ok(a)
}

/// `precision` for the products, and for diagonal updates and solves where they have it: a run like any other fills in both.
fn rule(precision: GemmPrecision) -> Rule {
    let full = FullPrecision::ALL.into_iter().find(|full| full.gemm(GemmPrecision::Sp) == precision);
    Rule::uniform(precision).with_full(full.unwrap_or_default())
}

/// Rounds of what is measured apart from factorisations; a history needs six.
const ROUNDS: usize = 9;

/// Measures what surrounds the kernels on `workers` workers, for [`Platform::host`](zellige_runtime::platform::Platform::host): what a
/// worker spends on a task besides its body, and how fast tiles are converted between formats (f32 to f16, on one thread).
///
/// # Errors
/// [`Error::Runtime`] for a runtime that cannot be built.
pub fn surroundings(models: &Models, workers: usize, policy: &str) -> Result<(), Error> {
    let info = TaskInfo { shape: [workers as u32, 0, 0], ..TaskInfo::default() };
    let (id, cpu) = (models.id(OVERHEAD, &info), models.kind("cpu"));
    for time in task_overhead(workers, policy, ROUNDS)? {
        models.record(id, cpu, 0.0, 0, time);
    }
    // A clock that stands still would make a rate that no link has: then nothing is known of conversions.
    if let Ok(conversion) = LinkModel::new(conversion_rate(), 0.0) {
        models.set_link("host", "host", conversion);
    }
    Ok(())
}

/// Bytes read and written per second by conversions of tiles; median.
fn conversion_rate() -> f64 {
    const EDGE: usize = 512;
    let tile = Tile::<f32>::zeros(EDGE, EDGE);
    let moved = tile.bytes() + EDGE * EDGE * StorageFormat::F16.bytes();
    let mut rates = [(); ROUNDS].map(|()| {
        let start = Instant::now();
        std::hint::black_box(tile.to_storage(StorageFormat::F16));
        moved as f64 / start.elapsed().as_secs_f64()
    });
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zellige_runtime::platform::Platform;
    use zellige_runtime::sim::Simulation;
    use zellige_runtime::{Graph, Recorder};

    use super::*;
    use crate::policy::SharedPolicy;

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
            }
            for label in ["fp64", "fp32", "x3", "tf32"] {
                known("trsm", label, [n, n, 0]);
                known("syrk", label, [n, n, 0]);
            }
            for precision in GemmPrecision::ALL {
                known("gemm", precision.name(), [n; 3]);
            }
        }
        let rows = models.rows();
        assert_eq!(rows.len(), 2 * (2 * 2 + 4 * 2 + 9));
        let kernels = rows.iter().filter(|row| row.codelet != "generate");
        assert!(kernels.clone().all(|row| row.bytes > 0 && row.flops > 0.0), "{rows:?}");
    }

    /// What is calibrated is enough to simulate a factorisation on this machine.
    #[test]
    fn a_calibrated_machine_is_a_platform() {
        let models = Arc::new(Models::new());
        let rt = Runtime::builder().workers(2).models(Arc::clone(&models)).build().unwrap();
        calibrate(&rt, Step { tile: 16, precision: GemmPrecision::Sp }).unwrap();
        drop(rt);
        assert!(Platform::host(Arc::clone(&models), 2).is_err(), "the overhead is not known");
        surroundings(&models, 2, "lws").unwrap();
        assert!(Platform::host(Arc::clone(&models), 1).is_err(), "of another number of workers");
        let host = Platform::host(models, 2).unwrap();
        let policy: SharedPolicy = Rule::uniform(GemmPrecision::Sp).into();
        let graph = Graph::record(|g: &Recorder| {
            let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(160, 16)?);
            cholesky(g, &a, &policy).map(drop)
        })
        .unwrap();
        let outcome = Simulation::new(&graph, &host).policy("lws").ahead(0).run().unwrap();
        assert_eq!(outcome.trace.tasks.len(), 10 + 45 + 45 + 120);
        assert!(outcome.makespan >= outcome.bounds.mixed && outcome.trace.transfers.is_empty());
    }

    #[test]
    fn no_tile_is_an_error() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let step = Step { tile: 0, precision: GemmPrecision::Sp };
        assert!(matches!(calibrate(&rt, step), Err(Error::Grid(_))));
    }
}
