//! Efficiency of a whole factorisation relative to its own tile product.

use std::fmt;
use std::sync::{Barrier, OnceLock};
use std::thread::Builder;
use std::time::Instant;

use rustix::time::ClockId;
use schemars::JsonSchema;
use serde::Serialize;
use zellige_dense::{
    Error, Generator, Rule, SharedPolicy, Submission, SymmetricTiled, TileGrid, TileScalar, cholesky_with,
};
use zellige_kernels::formats::frobenius_norm;
use zellige_kernels::{MatMut, MatRef, Op, gemm, potrf_lower, syrk_lower, trsm_right_lower};
use zellige_runtime::{Buffer, Runtime};

use crate::{clock, median, test_matrix};

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CholeskyBench {
    /// Order of the matrix.
    pub n: usize,
    /// Tile size.
    pub tile: usize,
    /// The most products on one tile in one task; see [`Submission::fuse_updates`].
    pub fuse_updates: usize,
    /// Numbers of the tiles.
    pub format: Number,
    /// Workers.
    pub workers: usize,
    /// Scheduling policy, by name.
    pub policy: String,
    /// Runs, each after a measurement of the tile product; medians are reported.
    pub repeats: usize,
}

/// Numbers of the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Number {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Number::F32 => "f32",
            Number::F64 => "f64",
        })
    }
}

/// Output of `bench cholesky`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CholeskyFigures {
    /// Parameters of the measurement.
    #[serde(flatten)]
    pub bench: CholeskyBench,
    /// Results.
    #[serde(flatten)]
    pub rate: CholeskyRate,
}

/// Results of the measurement. Rates count `n^3 / 3` flop for a factorisation.
///
/// Each ratio is the median over the runs of two figures that were measured one right after the
/// other. The `_cpu` ones are per second of CPU time of the whole process (submitting thread
/// included). They exclude the time that other processes take on a shared machine, and the time in
/// which workers sleep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CholeskyRate {
    /// Time of a factorisation, from the first submission to the last task, in seconds.
    pub seconds: f64,
    /// Rate of a factorisation by the wall clock [Gflop/s].
    pub gflops: f64,
    /// Rate of products `C -= A B^T` of the same tiles, on the same number of threads, by the wall
    /// clock [Gflop/s]. The tiles are in memory as in the factorisation: as many as its matrix has,
    /// each `C` once per round.
    pub gemm_gflops_same_tile: f64,
    /// `gflops / gemm_gflops_same_tile`.
    pub ratio: f64,
    /// `ratio` by CPU time.
    pub ratio_cpu: f64,
    /// Time inside the tasks' bodies / (workers x time from the first body to the last), in runs of
    /// their own with the trace on: 1 minus what waiting, scheduling and acquiring operands take.
    pub kernel_share: f64,
    /// CPU time of the same kernels on the same tiles, called in a plain loop on one thread, / CPU
    /// time of the factorisation.
    pub kernel_share_cpu: f64,
    /// Makespan / bound of the traced runs, bodies as long as they were: 1 is a schedule that
    /// cannot be improved; see [`Report::over_bound`](zellige_runtime::trace::Report::over_bound).
    pub makespan_over_bound: f64,
}

/// Measures a tiled Cholesky factorisation in `f32` or `f64` and the product of one tile.
///
/// # Errors
/// [`Error::Grid`] for a tile size of 0, [`Error::Runtime`] for a runtime that cannot be built.
pub fn cholesky_rate(bench: &CholeskyBench) -> Result<CholeskyRate, Error> {
    match bench.format {
        Number::F32 => measure::<f32>(bench),
        Number::F64 => measure::<f64>(bench),
    }
}

/// Wall-clock and CPU time of a section of code (seconds).
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

fn cost<R>(id: ClockId, body: impl FnOnce() -> R) -> (Cost, R) {
    let (start, cpu) = (Instant::now(), clock(id));
    let result = body();
    let spent = Cost { wall: start.elapsed().as_secs_f64(), cpu: clock(id) - cpu };
    (spent, result)
}

fn measure<T: TileScalar>(bench: &CholeskyBench) -> Result<CholeskyRate, Error> {
    let grid = TileGrid::uniform(bench.n, bench.tile)?;
    let build = |trace: bool| {
        let tasks = grid.tiles().pow(3) / 6 + grid.tiles().pow(2) + 1;
        let builder = Runtime::builder().workers(bench.workers).policy(&bench.policy);
        if trace { builder.trace_capacity(tasks).build() } else { builder.build() }
    };
    let policy: SharedPolicy = Rule::uniform(T::FULL).into();
    let fill = test_matrix::<T>(bench.n);
    let (plain, traced) = (build(false)?, build(true)?);
    let a = SymmetricTiled::new(&plain, grid.clone());
    let whole = (bench.n as f64).powi(3) / 3.0;
    let run = |rt: &Runtime, a: &SymmetricTiled<T>| -> Result<Cost, Error> {
        a.fill(rt, &fill)?;
        rt.wait_all()?;
        let submission = Submission::default().fuse_updates(bench.fuse_updates);
        let (spent, result) =
            cost(ClockId::ProcessCPUTime, || cholesky_with(rt, a, &policy, &submission)?.wait(rt));
        result.map(|()| spent)
    };
    // Pages are touched, clocks are up.
    run(&plain, &a)?;
    let mut tiles = Plain::new(&grid);
    let count = grid.tiles() * (grid.tiles() + 1) / 2;
    let spread = (count / bench.workers.max(1)).max(RING);
    // As long as a factorisation, within reason: the same clock speed, the same neighbours.
    let product = tile_product::<T>(bench.tile, bench.workers, RING, 0.05);
    let span = (whole / product.wall).clamp(0.1, 1.0);
    let mut rounds = Vec::new();
    for _ in 0..bench.repeats.max(1) {
        let same_tile = tile_product::<T>(bench.tile, bench.workers, spread, span);
        let factorisation = run(&plain, &a)?;
        let kernels = tiles.factor(&grid, &fill)?;
        rounds.push(Round { same_tile, factorisation, kernels });
    }
    let of = |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure));
    let seconds = of(&|r| r.factorisation.wall);
    let (kernel_share, makespan_over_bound) = traced_runs(&traced, &grid, bench.repeats, &run)?;
    Ok(CholeskyRate {
        seconds,
        gflops: whole / seconds / 1e9,
        gemm_gflops_same_tile: of(&|r| r.same_tile.wall) / 1e9,
        ratio: of(&|r| whole / r.factorisation.wall / r.same_tile.wall),
        ratio_cpu: of(&|r| whole / r.factorisation.cpu / r.same_tile.cpu),
        kernel_share,
        kernel_share_cpu: of(&|r| r.kernels.cpu / r.factorisation.cpu),
        makespan_over_bound,
    })
}

/// A round of all compared measurements: rates of products [flop/s], times of factorisations
/// (seconds).
struct Round {
    same_tile: Cost,
    factorisation: Cost,
    kernels: Cost,
}

/// Medians over runs with the trace on: the share of the workers' time that is spent in bodies, and
/// makespan / bound.
fn traced_runs<T: TileScalar>(
    rt: &Runtime,
    grid: &TileGrid,
    repeats: usize,
    run: &impl Fn(&Runtime, &SymmetricTiled<T>) -> Result<Cost, Error>,
) -> Result<(f64, f64), Error> {
    let a = SymmetricTiled::new(rt, grid.clone());
    let (mut shares, mut over_bounds) = (Vec::new(), Vec::new());
    for _ in 0..repeats.max(1) {
        run(rt, &a)?;
        let Some(mut trace) = rt.take_trace() else {
            continue;
        };
        trace.tasks.retain(|task| task.name != "generate");
        let report = trace.report();
        shares.push(report.kernels_share());
        over_bounds.push(report.over_bound());
    }
    Ok((median(shares), median(over_bounds)))
}

/// The tiles of a lower triangle without a runtime, column by column.
struct Plain<T: TileScalar>(Vec<Buffer<T>>);

impl<T: TileScalar> Plain<T> {
    fn new(grid: &TileGrid) -> Self {
        let nt = grid.tiles();
        let sizes = (0..nt).flat_map(|j| (j..nt).map(move |i| grid.width(i) * grid.width(j)));
        Plain(sizes.map(Buffer::zeroed).collect())
    }

    /// Generates and factors the matrix with the kernels of [`cholesky`], one after the other; the
    /// cost of factoring.
    fn factor(&mut self, grid: &TileGrid, fill: &Generator<T>) -> Result<Cost, Error> {
        let nt = grid.tiles();
        let place = |i: usize, j: usize| j * nt - j * (j + 1) / 2 + i;
        for j in 0..nt {
            for i in j..nt {
                let failed = |e: zellige_runtime::TaskError| Error::Generator(e.to_string());
                let out = &mut self.0[place(i, j)];
                fill(grid.range(i), grid.range(j), out, grid.width(i)).map_err(failed)?;
            }
        }
        let tiles = &mut self.0;
        let w = |i: usize| grid.width(i);
        let (spent, result) = cost(ClockId::ThreadCPUTime, || -> Result<(), Error> {
            for k in 0..nt {
                // Tiles of column k come before those of later columns.
                let (column, rest) = tiles[place(k, k)..].split_at_mut(nt - k);
                let (diagonal, below) = column.split_at_mut(1);
                potrf_lower(MatMut::new(&mut diagonal[0], w(k), w(k), w(k))?)?;
                let l_kk = MatRef::new(&diagonal[0], w(k), w(k), w(k))?;
                for (i, tile) in (k + 1..nt).zip(below.iter_mut()) {
                    trsm_right_lower(Op::Trans, l_kk, MatMut::new(tile, w(i), w(k), w(i))?)?;
                    frobenius_norm(MatRef::new(tile, w(i), w(k), w(i))?);
                }
                let l = |i: usize| MatRef::new(&below[i - k - 1], w(i), w(k), w(i));
                let first = place(k, k) + nt - k;
                for j in k + 1..nt {
                    let tile = &mut rest[place(j, j) - first];
                    syrk_lower(-T::ONE, l(j)?, T::ONE, MatMut::new(tile, w(j), w(j), w(j))?)?;
                    for i in j + 1..nt {
                        let c = MatMut::new(&mut rest[place(i, j) - first], w(i), w(j), w(i))?;
                        gemm(-T::ONE, l(i)?, Op::None, l(j)?, Op::Trans, T::ONE, c)?;
                    }
                }
            }
            Ok(())
        });
        result.map(|()| spent)
    }
}

/// Tiles that a thread goes around in the cache: operands change from product to product, as they
/// do in a factorisation.
const RING: usize = 4;

/// Rates of `C -= A B^T` on square tiles, flop per second of all threads together: by the wall
/// clock, and per second of CPU time. Each thread goes around `ring` tiles of its own, for about
/// `span` seconds. Threads that the system does not start are left out.
fn tile_product<T: TileScalar>(tile: usize, threads: usize, ring: usize, span: f64) -> Cost {
    let flops = 2.0 * (tile as f64).powi(3);
    // Known once all threads that can be started have been.
    let start = OnceLock::<Barrier>::new();
    let work = || {
        // Aligned as the tiles of a factorisation are: in a `Vec` the product is 1 % slower, which
        // would flatter the ratio.
        let make = |seed: usize| -> Buffer<T> {
            let mut values = Buffer::zeroed(tile * tile);
            for (i, x) in values.iter_mut().enumerate() {
                *x = T::from_f64(((i * 31 + seed * 17) % 64) as f64 / 64.0 - 0.5);
            }
            values
        };
        // A column of the triangle that `ring` tiles make, for the operands.
        let height = ((2 * ring) as f64).sqrt().ceil() as usize;
        let inputs: Vec<Buffer<T>> = (0..height).map(make).collect();
        let mut outputs: Vec<Buffer<T>> = (0..ring).map(make).collect();
        let mut product = |i: usize| {
            let view = |v| MatRef::new(v, tile, tile, tile);
            let a = view(&inputs[i % height])?;
            let b = view(&inputs[i / height % height])?;
            let c = MatMut::new(&mut outputs[i % ring], tile, tile, tile)?;
            gemm(-T::ONE, a, Op::None, b, Op::Trans, T::ONE, c)
        };
        // Shapes fit by construction: an error would show as an absurd rate.
        let _ = product(0);
        start.wait().wait();
        let mut count = 0u64;
        let (spent, ()) = cost(ClockId::ThreadCPUTime, || {
            let begin = Instant::now();
            while begin.elapsed().as_secs_f64() < span {
                let _ = product(count as usize);
                count += 1;
            }
        });
        (count as f64 * flops / spent.wall, count as f64 * flops / spent.cpu)
    };
    let rates: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let others = (1..threads).map_while(|_| Builder::new().spawn_scoped(scope, work).ok());
        let others: Vec<_> = others.collect();
        start.get_or_init(|| Barrier::new(1 + others.len()));
        let mine = work();
        std::iter::once(mine).chain(others.into_iter().filter_map(|thread| thread.join().ok())).collect()
    });
    let wall = rates.iter().map(|rate| rate.0).sum();
    let cpu = rates.iter().map(|rate| rate.1).sum::<f64>() / rates.len().max(1) as f64;
    Cost { wall, cpu }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_plausible() {
        for format in [Number::F32, Number::F64] {
            let bench = CholeskyBench {
                n: 300,
                tile: 64,
                fuse_updates: 2,
                format,
                workers: 2,
                repeats: 3,
                policy: "lws".into(),
            };
            let rate = cholesky_rate(&bench).unwrap();
            assert!(rate.gflops > 0.0 && rate.seconds > 0.0, "{rate:?}");
            assert!(rate.gemm_gflops_same_tile > 0.0, "{rate:?}");
            let expected = 300f64.powi(3) / 3.0 / rate.seconds / 1e9;
            assert!((rate.gflops / expected - 1.0).abs() < 1e-12);
            assert!(rate.kernel_share > 0.0 && rate.kernel_share <= 1.0, "{rate:?}");
            assert!(rate.makespan_over_bound >= 1.0 && rate.makespan_over_bound.is_finite(), "{rate:?}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let bench = CholeskyBench {
            n: 10,
            tile: 0,
            fuse_updates: 1,
            format: Number::F32,
            workers: 1,
            repeats: 1,
            policy: "lws".into(),
        };
        assert!(matches!(cholesky_rate(&bench), Err(Error::Grid(_))));
        let policy = "nonsense".into();
        assert!(cholesky_rate(&CholeskyBench { policy, tile: 4, ..bench }).is_err());
    }
}
