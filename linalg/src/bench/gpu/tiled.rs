//! A tiled factorisation on GPUs, its matrix made there.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::GemmPrecision;
use zellige_kernels::cuda::{Launch, SOURCES, copy};
use zellige_runtime::{Canceller, Gpu, Runtime, Submit, TaskError};

use super::{Conditions, Meter, Work, median};
use crate::error::Error;
use crate::factor::cholesky;
use crate::gpu::GpuGenerator;
use crate::grid::TileGrid;
use crate::policy::{PrecisionPolicy, Rule, SharedPolicy};
use crate::tiled::{Generator, SymmetricTiled, generator};
use crate::verify::random::Random;

/// Between two GPUs the rate of a link is measured: any number says that there may be one.
const PEERS: f64 = 1e10;
/// How many places of the random numbers a tile can begin at.
const PLACES: usize = 4093;

/// A factorisation in tiles of `f32`.
#[derive(Clone, Debug)]
pub struct TiledBench {
    /// Order of the matrix.
    pub n: usize,
    /// Tile size.
    pub tile: usize,
    /// Which products are made how.
    pub rule: Rule,
    /// Runs that count, after one that does not; medians are reported.
    pub repeats: usize,
    /// CPU workers beside the GPUs, on which the scheduling policy may let any task run.
    pub workers: usize,
    /// Whether the factor is brought to the host for its fingerprint.
    pub fingerprint: bool,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct TiledRun {
    /// From the first submission to the last task, the matrix lying where its tiles were made or went since (seconds).
    pub seconds: f64,
    /// `n^3 / 3` flop by that time [Tflop/s].
    pub tflops: f64,
    /// Bytes that came to any memory during one factorisation.
    pub bytes_moved: u64,
    /// Replicas that had to leave during one factorisation.
    pub evictions: u64,
    /// Tells one factor from another that differs in any bit, where that was asked for.
    pub fingerprint: Option<u64>,
    /// Its operations, by their precisions.
    pub work: Work,
    /// While it was factored, of the first GPU; `None` where there is none.
    pub conditions: Option<Conditions>,
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

    /// Factors a random, diagonally dominant matrix on these GPUs or parts of them, and where there are [`workers`](TiledBench::workers) on those
    /// too; then two runs do not count, in which the policy learns who is how fast. `watch` is given the means to cancel it.
    ///
    /// # Errors
    /// [`Error::Grid`] for a tile size of 0; [`Error::Runtime`] for memory that does not hold the tiles of a task.
    pub fn run<G>(&self, gpus: &[Gpu], watch: impl FnOnce(Canceller) -> G) -> Result<TiledRun, Error> {
        let grid = TileGrid::uniform(self.n, self.tile)?;
        let builder = Runtime::builder().workers(self.workers).policy("dmdas").peers(PEERS);
        let rt = gpus.iter().fold(builder, |builder, gpu| builder.device(gpu.clone())).build()?;
        let _watched = watch(rt.canceller());
        let a = SymmetricTiled::new(&rt, grid);
        let matrix = TestMatrix::new(self.n, self.tile);
        let (on_host, on_gpu) = matrix.generators(&rt);
        let policy: SharedPolicy = self.rule.clone().into();
        let run = || -> Result<_, Error> {
            let (before, start) = (counts(&rt), Instant::now());
            let factor = cholesky(&rt, &a, &policy)?;
            factor.wait(&rt)?;
            let (seconds, after) = (start.elapsed().as_secs_f64(), counts(&rt));
            Ok((seconds, [after[0] - before[0], after[1] - before[1]], factor))
        };
        let mut meter = gpus.first().map(|gpu| Meter::new(gpu.driver(), gpu.number()));
        let mut runs = Vec::new();
        let learning = 1 + usize::from(self.workers > 0);
        for at in 0..learning + self.repeats.max(1) {
            let counts = at >= learning;
            a.fill_with(&rt, &on_host, Some(&on_gpu))?;
            rt.wait_all()?;
            let ran = match meter.as_mut().filter(|_| counts) {
                Some(meter) => meter.during(run)?,
                None => run()?,
            };
            runs.extend(counts.then_some(ran));
        }
        let seconds = median(runs.iter().map(|run| run.0).collect());
        let native = (GemmPrecision::Sp, self.rule.full().gemm(GemmPrecision::Sp));
        let work = runs.last().map(|run| Work::of_factorisation(a.grid(), native, run.2.counts()));
        let middle = |which: usize| median(runs.iter().map(|run| run.1[which] as f64).collect()) as u64;
        Ok(TiledRun {
            seconds,
            tflops: (self.n as f64).powi(3) / 3.0 / seconds / 1e12,
            bytes_moved: middle(0),
            evictions: middle(1),
            fingerprint: self.fingerprint.then(|| fingerprint(&rt, &a)).transpose()?,
            work: work.unwrap_or_default(),
            conditions: meter.map(|meter| meter.conditions()),
        })
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

/// A matrix whose tiles are windows of one array of random numbers, `n` added on its diagonal, so that GPUs make it by copies.
///
/// The array has [`PLACES`] numbers more than a tile; behind it lies a tile for the diagonal.
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
    use super::super::tests::{check, fake};
    use super::*;

    /// GPUs copy what the host fills, tiles at the edge included, and the factor is the host's up to the order of sums.
    #[test]
    fn a_gpu_makes_the_matrix_of_the_host() {
        let Some(fake) = fake(3) else { return };
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
        let gpu = Runtime::builder().workers(0).device(Gpu::new(fake.clone(), 0)).build().unwrap();
        let (got, on_gpu) = made(&gpu);
        assert_eq!(got, want);
        assert!(want.iter().all(|x| x.abs() <= 0.5 || (x - n as f32).abs() <= 0.5));
        for (x, y) in on_gpu.iter().zip(&l) {
            assert!((x - y).abs() < 1e-4, "{x} {y}");
        }
        drop(gpu);
        check(&fake);
    }

    #[test]
    fn cpu_workers_may_help() {
        let Some(fake) = fake(6) else { return };
        let rule = "fp32".parse().unwrap();
        let alone = TiledBench { n: 100, tile: 24, rule, repeats: 1, workers: 0, fingerprint: false };
        let together = TiledBench { workers: 2, ..alone.clone() };
        for bench in [alone, together] {
            let run = bench.run(&[Gpu::new(fake.clone(), 0)], |_| ()).unwrap();
            assert!(run.seconds > 0.0 && run.conditions.is_some(), "{run:?}");
        }
        check(&fake);
    }

    #[test]
    fn little_memory_and_parts_of_a_gpu_move_more_and_change_no_bit() {
        let Some(fake) = fake(4) else { return };
        let rule = "hp1:band=2".parse().unwrap();
        let bench = TiledBench { n: 256, tile: 16, rule, repeats: 2, workers: 0, fingerprint: true };
        let whole = bench.bytes().unwrap();
        assert_eq!(whole, 256 * (256 + 16) / 2 * 4);
        let run = |parts: usize, memory| {
            let run = bench.run(&vec![Gpu::new(fake.clone(), 0).memory(memory); parts], |_| ()).unwrap();
            assert!(run.seconds > 0.0 && run.tflops > 0.0 && run.tflops.is_finite(), "{run:?}");
            run
        };
        let inside = run(1, 2 * whole);
        assert!((inside.work.flop() - 256f64.powi(3) / 3.0).abs() < 1.0, "{inside:?}");
        assert!(inside.work.seconds(|precision| (precision != GemmPrecision::Hp1).then_some(1.0)).is_none());
        assert!(inside.fingerprint.is_some());
        let (outside, parts) = (run(1, whole * 3 / 10), run(4, whole));
        assert_eq!([outside.fingerprint, parts.fingerprint], [inside.fingerprint; 2]);
        assert!(outside.evictions > 0 && outside.bytes_moved > inside.bytes_moved, "{outside:?} {inside:?}");
        assert!(parts.bytes_moved > inside.bytes_moved, "{parts:?} {inside:?}");
        let other = TiledBench { rule: "fp32".parse().unwrap(), ..bench };
        let gpus = [Gpu::new(fake.clone(), 0)];
        assert_ne!(other.run(&gpus, |_| ()).unwrap().fingerprint, inside.fingerprint);
        check(&fake);
    }
}
