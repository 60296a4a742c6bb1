//! A tiled factorisation on GPUs, its matrix made there.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_cuda::Gpu;
use zellige_dense::{
    Error, Generator, GpuGenerator, PrecisionPolicy, Rule, SharedPolicy, Submission, SymmetricTiled,
    TileGrid, Work, cholesky_with, generator,
};
use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::GemmPrecision;
use zellige_kernels::cuda::{Launch, SOURCES, copy};
use zellige_runtime::model::Models;
use zellige_runtime::trace::Report;
use zellige_runtime::{Canceller, Runtime, Submit, TaskError, Trace};

use super::{Chosen, Conditions, Meter, TimeSplit};
use crate::calibrate::device_conversions;
use crate::random::Random;
use crate::{PEERS, median};

/// Scheduling policy of the factorisation.
pub(super) const POLICY: &str = "dmdas";
/// Number of positions in the random numbers at which a tile can begin.
const PLACES: usize = 4093;

/// A factorisation in tiles of `f32`.
#[derive(Clone, Debug)]
pub struct TiledBench {
    /// Order of the matrix.
    pub n: usize,
    /// Tile size.
    pub tile: usize,
    /// Precision rule of the products.
    pub rule: Rule,
    /// Runs that count, after one that does not; medians are reported.
    pub repeats: usize,
    /// CPU workers in addition to the GPUs, on which the scheduling policy may let any task run.
    pub workers: usize,
    /// True if the factor is brought to the host for its fingerprint.
    pub fingerprint: bool,
    /// The most products on one tile in one task; see [`Submission::fuse_updates`].
    pub fuse_updates: usize,
    /// See [`Submission::by_inverses`].
    pub by_inverses: bool,
    /// Models that collect the times of tasks and the rates of links and conversions: a platform is
    /// made of them. With `None` only the policy has models, while this runs.
    pub models: Option<Arc<Models>>,
}

/// Results of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct TiledRun {
    /// Time from the first submission to the last task (seconds). The matrix is in the memories in
    /// which its tiles were made or to which they moved since.
    pub seconds: f64,
    /// `n^3 / 3` flop by that time [Tflop/s].
    pub tflops: f64,
    /// Bytes that came to any memory during one factorisation.
    pub bytes_moved: u64,
    /// Replicas that were evicted during one factorisation.
    pub evictions: u64,
    /// Hash of the bits of the factor, if requested.
    pub fingerprint: Option<u64>,
    /// Operations of the factorisation, by precision.
    pub work: Work,
    /// Products of the factorisation, tile by tile.
    pub chosen: Chosen,
    /// Evaluation of the trace of the last run.
    pub trace: TiledTrace,
    /// Conditions on the first GPU during the factorisation; `None` if there is no GPU.
    pub conditions: Option<Conditions>,
}

/// Evaluation of the trace of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TiledTrace {
    /// The codelet with the most time first.
    pub codelets: Vec<CodeletTime>,
    /// Share of the workers' time, from the first body's start to the last one's end, in which they
    /// were in no body.
    pub idle_share: f64,
    /// That time relative to the larger of its bounds, the area and the critical path of the same
    /// bodies: another order cannot improve on 1.
    pub over_bound: f64,
    /// Breakdown of the time.
    pub split: TimeSplit,
    /// Lost records: if there are any, the figures are not those of all tasks.
    pub lost: u64,
}

/// Time of the tasks of one codelet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CodeletTime {
    /// Name of the codelet.
    pub name: &'static str,
    /// Number of tasks.
    pub tasks: usize,
    /// Total time in bodies.
    pub seconds: f64,
}

/// Share of the workers' time, from the first body's start to the last one's end, in which they
/// were in no body.
fn idle_share(report: &Report) -> f64 {
    report.idle.iter().sum::<f64>() / report.idle.len().max(1) as f64
}

impl TiledTrace {
    /// Evaluates the trace of a run of `seconds`.
    fn of(trace: &Trace, seconds: f64) -> Self {
        let report = trace.report();
        let codelets = report.codelets.iter().map(|codelet| CodeletTime {
            name: codelet.name,
            tasks: codelet.count,
            seconds: codelet.total.as_secs_f64(),
        });
        TiledTrace {
            codelets: codelets.collect(),
            idle_share: idle_share(&report),
            over_bound: report.over_bound(),
            split: TimeSplit::of(trace, seconds),
            lost: report.lost,
        }
    }
}

impl TiledBench {
    /// Bytes of the tiles on and below the diagonal.
    ///
    /// # Errors
    /// [`Error::Grid`] for a tile size of 0.
    pub fn bytes(&self) -> Result<u64, Error> {
        let grid = TileGrid::uniform(self.n, self.tile)?;
        let columns = (0..grid.tiles()).map(|j| (grid.width(j) * (self.n - grid.range(j).start)) as u64);
        Ok(4 * columns.sum::<u64>())
    }

    /// Factors a random, diagonally dominant matrix on these GPUs or parts of them, and on the
    /// [`workers`](TiledBench::workers) if there are any. With workers, two runs do not count, in
    /// which the policy learns the speeds. `watch` receives the means to cancel it.
    ///
    /// # Errors
    /// [`Error::Grid`] for a tile size of 0; [`Error::Runtime`] if memory does not hold the tiles
    /// of a task.
    pub fn run<G>(&self, gpus: &[Gpu], watch: impl FnOnce(Canceller) -> G) -> Result<TiledRun, Error> {
        let grid = TileGrid::uniform(self.n, self.tile)?;
        let builder = Runtime::builder().workers(self.workers).policy(POLICY).peers(PEERS);
        let builder = builder.trace_capacity(self.records(&grid));
        let builder = match &self.models {
            Some(models) => builder.models(Arc::clone(models)),
            None => builder,
        };
        let rt = gpus.iter().fold(builder, |builder, gpu| builder.device(gpu.clone())).build()?;
        let _watched = watch(rt.canceller());
        let a = SymmetricTiled::new(&rt, grid);
        let matrix = TestMatrix::new(self.n, self.tile);
        let (on_host, on_gpu) = matrix.generators(&rt);
        let policy: SharedPolicy = self.rule.clone().into();
        let submission = Submission::default().fuse_updates(self.fuse_updates).by_inverses(self.by_inverses);
        let run = || -> Result<_, Error> {
            let (before, start) = (counts(&rt), Instant::now());
            let factor = cholesky_with(&rt, &a, &policy, &submission)?;
            factor.wait(&rt)?;
            let (seconds, after) = (start.elapsed().as_secs_f64(), counts(&rt));
            Ok((seconds, [after[0] - before[0], after[1] - before[1]], factor))
        };
        let mut meter = gpus.first().map(|gpu| Meter::new(gpu.driver(), gpu.number()));
        let (mut runs, mut trace) = (Vec::new(), Trace::default());
        let learning = 1 + usize::from(self.workers > 0);
        for at in 0..learning + self.repeats.max(1) {
            let counts = at >= learning;
            a.fill_with(&rt, &on_host, Some(&on_gpu))?;
            rt.wait_all()?;
            rt.wait_transfers()?;
            // The records so far do not belong to the factorisation.
            drop(rt.take_trace());
            let ran = match meter.as_mut().filter(|_| counts) {
                Some(meter) => meter.during(run)?,
                None => run()?,
            };
            runs.extend(counts.then_some(ran));
            rt.wait_transfers()?;
            trace = rt.take_trace().unwrap_or_default();
        }
        self.teach(&rt, gpus, &trace);
        let seconds = median(runs.iter().map(|run| run.0));
        let native = (GemmPrecision::Sp, self.rule.panel().gemm(GemmPrecision::Sp));
        let work = runs.last().map(|run| Work::of_factorisation(a.grid(), native, run.2.counts()));
        let middle = |which: usize| median(runs.iter().map(|run| run.1[which] as f64)) as u64;
        Ok(TiledRun {
            seconds,
            tflops: (self.n as f64).powi(3) / 3.0 / seconds / 1e12,
            bytes_moved: middle(0),
            evictions: middle(1),
            fingerprint: self.fingerprint.then(|| fingerprint(&rt, &a)).transpose()?,
            work: work.unwrap_or_default(),
            chosen: runs
                .last()
                .map_or_else(Chosen::default, |run| Chosen::of(run.2.counts(), self.rule.panel())),
            trace: TiledTrace::of(&trace, runs.last().map_or(0.0, |run| run.0)),
            conditions: meter.map(|meter| meter.conditions()),
        })
    }
}

impl TiledBench {
    /// Returns the trace capacity for the tasks of one worker, and for transfers: in little memory
    /// each task may need its tile moved twice.
    fn records(&self, grid: &TileGrid) -> usize {
        let tiles = grid.tiles();
        4 * (tiles * tiles * tiles / 6 + tiles * tiles + 1)
    }

    /// Tells the models of what tasks do not teach them.
    fn teach(&self, rt: &Runtime, gpus: &[Gpu], trace: &Trace) {
        let Some(models) = &self.models else { return };
        rt.measure_links();
        if let Some(rate) = device_conversions(trace) {
            gpus.iter().for_each(|gpu| models.set_link(&gpu.link_end(), &gpu.link_end(), rate));
        }
    }
}

/// Bytes that came to any memory, and evictions.
fn counts(rt: &Runtime) -> [u64; 2] {
    let nodes = rt.memory();
    [nodes.iter().map(|node| node.bytes_in).sum(), nodes.iter().map(|node| node.evictions).sum()]
}

/// FNV-1a over the bits of every tile.
fn fingerprint(rt: &Runtime, a: &SymmetricTiled<f32>) -> Result<u64, Error> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for handle in a.handles() {
        for x in rt.read(handle)?.as_slice()? {
            hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

/// A matrix whose tiles are windows of one array of random numbers, with `n` added on its diagonal,
/// so that GPUs make it by copies.
///
/// The array has [`PLACES`] numbers more than a tile, followed by a tile for the diagonal.
#[derive(Debug)]
struct TestMatrix {
    tile: usize,
    numbers: Vec<f32>,
}

impl TestMatrix {
    fn new(n: usize, tile: usize) -> Arc<Self> {
        let mut random = Random::new(2);
        let mut numbers: Vec<f32> =
            (0..2 * tile * tile + PLACES).map(|_| (random.number() / 2.0) as f32).collect();
        let diagonal = numbers[tile * tile + PLACES..].iter_mut();
        diagonal.step_by(tile + 1).for_each(|x| *x += n as f32);
        Arc::new(TestMatrix { tile, numbers })
    }

    /// First number of a block and numbers from one column to the next.
    fn window(&self, rows: &Range<usize>, cols: &Range<usize>) -> (usize, usize) {
        if rows.start == cols.start {
            return (self.tile * self.tile + PLACES, self.tile);
        }
        let mixed = (rows.start * 31 + cols.start * 17) % PLACES;
        (mixed, rows.len())
    }

    fn fill(&self, rows: &Range<usize>, cols: &Range<usize>, out: &mut [f32], ld: usize) {
        let (first, step) = self.window(rows, cols);
        for (j, column) in out.chunks_mut(ld).take(cols.len()).enumerate() {
            let from = first + j * step;
            column[..rows.len()].copy_from_slice(&self.numbers[from..from + rows.len()]);
        }
    }

    fn launch(
        &self,
        at: Address,
        rows: &Range<usize>,
        cols: &Range<usize>,
        out: Matrix,
    ) -> Result<Launch, TaskError> {
        let (first, step) = self.window(rows, cols);
        let from =
            Matrix { at: at.offset(4 * first as u64), ld: u32::try_from(step)?, element: Element::F32 };
        Ok(copy((u32::try_from(rows.len())?, u32::try_from(cols.len())?), from, out)?)
    }

    /// The matrix on the host, and on the GPUs of a runtime.
    fn generators(self: Arc<Self>, rt: &Runtime) -> (Generator<f32>, GpuGenerator) {
        let pair = |x: &[f32]| {
            let [low, high] = [x[0], x.get(1).copied().unwrap_or(0.0)].map(|x| u64::from(x.to_bits()));
            if cfg!(target_endian = "little") { low | high << 32 } else { high | low << 32 }
        };
        let words: Vec<u64> = self.numbers.chunks(2).map(pair).collect();
        let source = SOURCES.iter().find(|source| source.kernels.contains(&"zellige_copy_32"));
        let (host, device) = (Arc::clone(&self), self);
        let on_gpu = GpuGenerator {
            model: rt.register(words),
            source: source.unwrap_or(&SOURCES[0]),
            describe: Arc::new(move |at, rows, cols, out| device.launch(at, &rows, &cols, out)),
        };
        let on_host = generator(move |rows: Range<usize>, cols: Range<usize>, out: &mut [f32], ld: usize| {
            host.fill(&rows, &cols, out, ld);
        });
        (on_host, on_gpu)
    }
}

#[cfg(test)]
mod tests {
    use zellige_sim::platform::Platform;

    use super::super::tests::{check, mock};
    use super::*;
    use zellige_dense::{GemmQuery, Phase, cholesky};

    /// Checks that GPUs copy the host's matrix, including tiles at the edge, and that the factor is
    /// the host's up to the order of sums.
    #[test]
    fn a_gpu_makes_the_matrix_of_the_host() {
        let Some(mock) = mock(3) else { return };
        let (n, tile) = (100, 24);
        let made = |rt: &Runtime| {
            let a = SymmetricTiled::new(rt, TileGrid::uniform(n, tile).unwrap());
            let (on_host, on_gpu) = TestMatrix::new(n, tile).generators(rt);
            a.fill_with(rt, &on_host, Some(&on_gpu)).unwrap();
            let matrix = a.gather(rt).unwrap();
            a.fill_with(rt, &on_host, Some(&on_gpu)).unwrap();
            cholesky(rt, &a, &"fp32".parse::<Rule>().unwrap().into()).unwrap().wait(rt).unwrap();
            (matrix, a.gather(rt).unwrap())
        };
        let (want, l) = made(&Runtime::builder().workers(1).build().unwrap());
        let gpu = Runtime::builder().workers(0).device(Gpu::new(mock.clone(), 0)).build().unwrap();
        let (got, on_gpu) = made(&gpu);
        assert_eq!(got, want);
        assert!(want.iter().all(|x| x.abs() <= 0.5 || (x - n as f32).abs() <= 0.5));
        for (x, y) in on_gpu.iter().zip(&l) {
            assert!((x - y).abs() < 1e-4, "{x} {y}");
        }
        drop(gpu);
        check(&mock);
    }

    #[test]
    fn cpu_workers_may_help() {
        let Some(mock) = mock(6) else { return };
        let rule = "fp32".parse().unwrap();
        let alone = TiledBench {
            n: 100,
            tile: 24,
            rule,
            repeats: 1,
            workers: 0,
            fingerprint: false,
            fuse_updates: 1,
            by_inverses: false,
            models: None,
        };
        let together = TiledBench { workers: 2, ..alone.clone() };
        for bench in [alone, together] {
            let run = bench.run(&[Gpu::new(mock.clone(), 0)], |_| ()).unwrap();
            assert!(run.seconds > 0.0 && run.conditions.is_some(), "{run:?}");
        }
        check(&mock);
    }

    /// Checks that the trace has all tasks of the last run, and that virtual time on the measured
    /// platform runs the same tasks.
    #[test]
    fn a_run_is_predicted_from_what_it_has_taught() {
        let Some(mock) = mock(7) else { return };
        let models = Arc::new(Models::new());
        let bench = |rule: &str, fuse_updates| TiledBench {
            n: 192,
            tile: 16,
            rule: rule.parse().unwrap(),
            repeats: 2,
            workers: 0,
            fingerprint: false,
            fuse_updates,
            by_inverses: false,
            models: Some(Arc::clone(&models)),
        };
        let gpus = [Gpu::new(mock.clone(), 0)];
        let ran: Vec<(TiledBench, TiledRun)> = [
            ("fp32", 1),
            ("hp1:band=2", 1),
            ("hp1:operand=3e-1,else=x3", 1),
            ("x3,panel=x3", 1),
            ("fp32", 4),
        ]
        .map(|(rule, fuse_updates)| bench(rule, fuse_updates))
        .map(|bench| (bench.clone(), bench.run(&gpus, |_| ()).unwrap()))
        .into();
        crate::calibrate::host_conversions(&models);
        let platform = Platform::measured(Arc::clone(&models), 0, &[gpus[0].clone().into()]).unwrap();
        for (bench, run) in &ran {
            let count =
                |name: &str| run.trace.codelets.iter().find(|c| c.name == name).map_or(0, |c| c.tasks);
            let products = if bench.fuse_updates == 1 { 220..=220 } else { 66..=120 };
            assert_eq!((count("potrf"), count("trsm"), count("syrk")), (12, 66, 66), "{run:?}");
            assert!(
                products.contains(&count("gemm")) && count("generate") == 0 && run.trace.lost == 0,
                "{run:?}"
            );
            assert!(run.trace.codelets.iter().all(|codelet| codelet.seconds > 0.0), "{run:?}");
            assert!((0.0..=1.0).contains(&run.trace.idle_share) && run.trace.over_bound > 0.0, "{run:?}");
            assert!(bench.predicted(run, &platform).unwrap() > 0.0);
        }
        // One GPU holds all data: its tasks run in sequence, with the times of the models.
        let gpu = platform.kinds.values().next().unwrap();
        let flops = [16f64.powi(3) / 3.0, 4096.0, 4096.0, 8192.0];
        let kernels = [
            ("potrf", [16, 0, 0], 12),
            ("trsm", [16, 16, 0], 66),
            ("syrk", [16, 16, 0], 66),
            ("gemm", [16; 3], 220),
        ];
        let bodies = kernels.iter().zip(flops).map(|((name, shape, count), flops)| {
            *count as f64 * gpu.nanos(name, "fp32", *shape, flops, 0).unwrap() as f64 * 1e-9
        });
        let (bodies, (bench0, run0)) = (bodies.sum::<f64>(), &ran[0]);
        let predicted = bench0.predicted(run0, &platform).unwrap();
        assert!((predicted / bodies - 1.0).abs() < 1e-3, "{predicted} {bodies}");
        // Products of both precisions of the band.
        let (_, mixed) = &ran[1];
        let labels = |precision| {
            let query = |i, j, k| GemmQuery::unmeasured(Phase::Factor, [i, j, k], 12);
            let all = (0..12).flat_map(|i| (0..i).flat_map(move |j| (0..j).map(move |k| (i, j, k))));
            all.filter(|&(i, j, k)| mixed.chosen.choose(&query(i, j, k)).unwrap() == precision).count()
        };
        let (low, high) = (labels(GemmPrecision::Hp1), labels(GemmPrecision::Sp));
        assert!(low > 0 && high > 0 && low + high == 220, "{low} {high}");
        let nobody = Platform::shipped("v100x4").unwrap();
        let (fp8, run) = (bench("fp8", 1), &ran[0].1);
        let run = TiledRun { chosen: Chosen::default(), ..run.clone() };
        assert!(fp8.predicted(&run, &nobody).is_ok(), "without counts products are native");
        check(&mock);
    }

    #[test]
    fn little_memory_and_parts_of_a_gpu_move_more_and_change_no_bit() {
        let Some(mock) = mock(4) else { return };
        let rule = "hp1:band=2".parse().unwrap();
        let bench = TiledBench {
            n: 192,
            tile: 16,
            rule,
            repeats: 1,
            workers: 0,
            fingerprint: true,
            fuse_updates: 1,
            by_inverses: false,
            models: None,
        };
        let whole = bench.bytes().unwrap();
        assert_eq!(whole, 192 * (192 + 16) / 2 * 4);
        let run = |parts: usize, memory| {
            let run = bench.run(&vec![Gpu::new(mock.clone(), 0).memory(memory); parts], |_| ()).unwrap();
            assert!(run.seconds > 0.0 && run.tflops > 0.0 && run.tflops.is_finite(), "{run:?}");
            run
        };
        let inside = run(1, 2 * whole);
        assert!((inside.work.flop() - 192f64.powi(3) / 3.0).abs() < 1.0, "{inside:?}");
        assert!(inside.work.seconds(|precision| (precision != GemmPrecision::Hp1).then_some(1.0)).is_none());
        assert!(inside.fingerprint.is_some());
        // Fewer tasks, the same bits.
        let left = TiledBench { fuse_updates: 8, ..bench.clone() };
        let gpus = [Gpu::new(mock.clone(), 0)];
        assert_eq!(left.run(&gpus, |_| ()).unwrap().fingerprint, inside.fingerprint);
        let (outside, parts) = (run(1, whole * 3 / 10), run(4, whole));
        assert_eq!([outside.fingerprint, parts.fingerprint], [inside.fingerprint; 2]);
        assert!(outside.evictions > 0 && outside.bytes_moved > inside.bytes_moved, "{outside:?} {inside:?}");
        assert!(parts.bytes_moved > inside.bytes_moved, "{parts:?} {inside:?}");
        let other = TiledBench { rule: "fp32".parse().unwrap(), ..bench };
        assert_ne!(other.run(&gpus, |_| ()).unwrap().fingerprint, inside.fingerprint);
        check(&mock);
    }
}
