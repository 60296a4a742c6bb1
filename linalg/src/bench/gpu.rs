//! Rates of one GPU: products of tiles, copies, factorisations by the library and by tiles.
//!
//! Everything is timed by the GPU's own events but the tiled factorisation, which has many streams and is timed by the host's clock. All
//! numbers are random: with zeros a GPU takes less power, and is faster than in use.

mod tiled;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use zellige_gpu::{Address, Driver, GpuError};
use zellige_kernels::GemmPrecision;
use zellige_runtime::{
    Codelet, Cpu, Cuda, Gpu, GpuContext, Operands, Read, Runtime, Submit, TaskContext, TaskError, read,
};

pub use tiled::{TiledBench, TiledRun};

use super::median;
use crate::error::Error;
use crate::gpu::{Lanes, Link, Prepared, Stopwatch, element_of, whole_factor};
use crate::scalar::TileScalar;
use crate::verify::random::Random;

/// One GPU and how often it is asked; medians are reported, of runs that follow one that does not count.
#[derive(Clone, Debug)]
pub struct GpuBench {
    /// Its driver.
    pub driver: Arc<dyn Driver>,
    /// Its number.
    pub number: u32,
    /// Runs that count.
    pub repeats: usize,
}

/// What was measured of products `C -= A B^T` of square tiles; rates count `2 tile^3` flop for each, also where a precision needs more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductRate {
    /// Of the operands, the sums and the result.
    pub precision: GemmPrecision,
    /// Products of one run.
    pub products: usize,
    /// Of one product as tasks do it: scales, operands put together, results rounded (seconds).
    pub seconds: f64,
    /// Its rate [Tflop/s].
    pub tflops: f64,
    /// Rate of the library's plain product of the same operands, the high halves of split ones, in the same run [Tflop/s].
    pub plain_tflops: f64,
    /// The median of `tflops / plain_tflops` of each run; X3, three products in one, reaches a third at most.
    pub fraction: f64,
}

/// Rates of copies from and to page-locked host memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRates {
    /// Bytes of one copy.
    pub bytes: usize,
    /// To the GPU [bytes per second].
    pub to_gpu: f64,
    /// From the GPU [bytes per second].
    pub to_host: f64,
}

/// Time of the library's factorisation of a whole matrix that lies in the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeFactor {
    /// Seconds.
    pub seconds: f64,
    /// `n^3 / 3` flop by that time [Tflop/s].
    pub tflops: f64,
}

/// Random numbers of which whole matrices are made: not a power of two, so that no column repeats another.
const NUMBERS: usize = (1 << 22) - 3;

impl GpuBench {
    fn gpu(&self) -> Gpu {
        Gpu::new(Arc::clone(&self.driver), self.number)
    }

    /// Runs a task on random numbers as often as asked: what it told each time but the first.
    fn runs<T: TileScalar, R>(
        &self,
        count: usize,
        task: impl Fn(Sender<R>) -> Timed<T>,
    ) -> Result<Vec<R>, Error> {
        let rt = Runtime::builder().workers(0).policy("lws").device(self.gpu()).build()?;
        let numbers = rt.register(random::<T>(count));
        let (tell, told) = channel();
        for _ in 0..=self.repeats.max(1) {
            rt.wait(&rt.submit(task(tell.clone()), (read(&numbers),))?)?;
        }
        Ok(told.try_iter().skip(1).collect())
    }

    /// Rates of products of square tiles, of as many triples of tiles as take `spread` bytes, so that caches do not hold them.
    ///
    /// # Errors
    /// [`Error::Grid`] for tiles that are empty or no multiple of 16 (8-bit products need that), [`Error::Runtime`] where there is no room,
    /// or a library is missing.
    pub fn products(&self, precision: GemmPrecision, tile: u32, spread: u64) -> Result<ProductRate, Error> {
        if tile == 0 || !tile.is_multiple_of(16) {
            return Err(Error::Grid(format!("tiles of {tile} are to be multiplied: take a multiple of 16")));
        }
        let mut of = Lanes { precision, tile, count: 1, rounds: 2 };
        of.count = spread.div_ceil(of.bytes_each()).clamp(2, 64) as usize;
        let times = match precision {
            GemmPrecision::Dp => self.runs(of.numbers(), |tell| products::<f64>(of, tell))?,
            _ => self.runs(of.numbers(), |tell| products::<f32>(of, tell))?,
        };
        let products = of.count * of.rounds;
        let flop = 2.0 * f64::from(tile).powi(3) * products as f64;
        let of_each = |figure: &dyn Fn(&[f64; 2]) -> f64| median(times.iter().map(figure).collect());
        let seconds = of_each(&|[ours, _]| ours / products as f64);
        Ok(ProductRate {
            precision,
            products,
            seconds,
            tflops: of_each(&|[ours, _]| flop / ours / 1e12),
            plain_tflops: of_each(&|[_, plain]| flop / plain / 1e12),
            fraction: of_each(&|[ours, plain]| plain / ours),
        })
    }

    /// Rates of copies of so many bytes, one way at a time.
    ///
    /// # Errors
    /// The driver's, e.g. where there is no room.
    pub fn links(&self, bytes: usize) -> Result<LinkRates, Error> {
        let link = Link::new(&self.driver, self.number, bytes)?;
        let rate = |to_gpu| -> Result<f64, GpuError> {
            link.seconds(to_gpu)?;
            let seconds: Result<Vec<f64>, _> =
                (0..self.repeats.max(1)).map(|_| link.seconds(to_gpu)).collect();
            Ok(bytes as f64 / median(seconds?))
        };
        Ok(LinkRates { bytes, to_gpu: rate(true)?, to_host: rate(false)? })
    }

    /// Bytes that [`whole`](GpuBench::whole) needs of the GPU's memory, matrix, working space and random numbers.
    ///
    /// # Errors
    /// The driver's.
    pub fn whole_bytes<T: TileScalar>(&self, n: usize) -> Result<u64, Error> {
        let element = element_of::<T>();
        let stream = self.driver.create_stream(self.number, false)?;
        let workspace = self.driver.potrf_workspace(stream, u32::try_from(n).unwrap_or(u32::MAX), element);
        self.driver.destroy_stream(stream);
        let matrix = (n as u64).saturating_mul(n as u64).saturating_mul(element.bytes());
        let numbers = NUMBERS.min(n.saturating_mul(n)) as u64;
        let rest = workspace? + numbers * element.bytes() + self.driver.stream_workspace(self.number) * 2;
        Ok(matrix.saturating_add(rest))
    }

    /// The library's factorisation of a whole random matrix of order `n`, diagonally dominant.
    ///
    /// # Errors
    /// [`Error::Runtime`] where there is no room, or the library is missing.
    pub fn whole<T: TileScalar>(&self, n: usize) -> Result<WholeFactor, Error> {
        let count = NUMBERS.min(n.saturating_mul(n)).max(1);
        let times = self.runs(count, |tell| whole::<T>(n, count, tell))?;
        let seconds = median(times.iter().map(|[seconds]| *seconds).collect());
        Ok(WholeFactor { seconds, tflops: (n as f64).powi(3) / 3.0 / seconds / 1e12 })
    }
}

/// Entry after entry in (-1, 1) / 2.
fn random<T: TileScalar>(count: usize) -> Vec<T> {
    let mut random = Random::new(1);
    (0..count).map(|_| T::from_f64(random.number() / 2.0)).collect()
}

/// What a task puts on its stream, given where its random numbers lie.
type Body = Box<dyn Fn(&GpuContext<'_>, Address) -> Result<(), TaskError> + Send + Sync>;

/// A task that reads random numbers on a GPU.
struct Timed<T> {
    body: Body,
    numbers: PhantomData<fn() -> T>,
}

impl<T: TileScalar> Timed<T> {
    fn new(body: impl Fn(&GpuContext<'_>, Address) -> Result<(), TaskError> + Send + Sync + 'static) -> Self {
        Timed { body: Box::new(body), numbers: PhantomData }
    }
}

impl<T: TileScalar> Codelet for Timed<T> {
    type Operands = (Read<Vec<T>>,);

    fn name(&self) -> &'static str {
        "timed"
    }

    fn cpu(
        &self,
        _views: <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        Err("there is nothing to time on a CPU".into())
    }

    fn has_cuda(&self) -> bool {
        true
    }

    fn cuda(
        &self,
        (numbers,): <Self::Operands as Operands>::Views<'_, Cuda>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        (self.body)(cx.gpu(), numbers.part(0).0)
    }
}

/// Tells the times of products as tasks do them, and of plain ones.
fn products<T: TileScalar>(of: Lanes, tell: Sender<[f64; 2]>) -> Timed<T> {
    Timed::new(move |cx, numbers| {
        let prepared = Prepared::new::<T>(cx, of, numbers)?;
        let watches = [prepared.as_tasks_do()?, prepared.plain()?];
        told(cx, watches, tell.clone());
        Ok(())
    })
}

/// Tells the time of a whole factorisation.
fn whole<T: TileScalar>(n: usize, count: usize, tell: Sender<[f64; 1]>) -> Timed<T> {
    Timed::new(move |cx, numbers| {
        let lost =
            |info: i32| format!("column {info} of a diagonally dominant matrix has no positive pivot").into();
        let watch = whole_factor::<T>(cx, n, (numbers, count), lost)?;
        told(cx, [watch], tell.clone());
        Ok(())
    })
}

/// Has the times told once the body's operations have ended.
fn told<const N: usize>(cx: &GpuContext<'_>, watches: [Stopwatch; N], tell: Sender<[f64; N]>) {
    cx.at_end(move || {
        let mut seconds = [0.0; N];
        for (seconds, watch) in seconds.iter_mut().zip(&watches) {
            *seconds = watch.seconds()?;
        }
        Ok(tell.send(seconds)?)
    });
}

#[cfg(test)]
pub(super) mod tests {
    use zellige_gpu::fake::Fake;
    use zellige_kernels::cuda::SOURCES;

    use super::*;

    /// A GPU that is not there; `None`, with a printed line, where there is no g++.
    pub(super) fn fake(seed: u64) -> Option<Arc<Fake>> {
        Some(Arc::new(zellige_twins::fake(SOURCES)?.seed(seed).build()))
    }

    /// Nothing is left behind, and nothing was in disorder.
    pub(super) fn check(fake: &Fake) {
        assert_eq!(fake.violations(), [] as [String; 0]);
        assert_eq!(fake.leaks(), [] as [String; 0]);
    }

    fn is_rate(x: f64) -> bool {
        x > 0.0 && x.is_finite()
    }

    #[test]
    fn every_precision_has_a_rate_and_one_beside_it() {
        let Some(fake) = fake(1) else { return };
        let bench = GpuBench { driver: fake.clone(), number: 0, repeats: 2 };
        for precision in GemmPrecision::ALL {
            let rate = bench.products(precision, 32, 3 * 32 * 32 * 8).unwrap();
            assert!(rate.products >= 4, "{rate:?}");
            let figures = [rate.seconds, rate.tflops, rate.plain_tflops, rate.fraction];
            assert!(figures.into_iter().all(is_rate), "{rate:?}");
        }
        for tile in [0, 24] {
            let error = bench.products(GemmPrecision::Fp8, tile, 1).unwrap_err().to_string();
            assert!(error.contains("multiple of 16"), "{error}");
        }
        check(&fake);
    }

    #[test]
    fn copies_and_whole_factorisations_have_rates_or_say_what_is_wrong() {
        let Some(fake) = fake(2) else { return };
        let bench = GpuBench { driver: fake.clone(), number: 0, repeats: 3 };
        let links = bench.links(100_000).unwrap();
        assert!(is_rate(links.to_gpu) && is_rate(links.to_host), "{links:?}");
        for n in [1, 50] {
            let runs = [bench.whole::<f32>(n).unwrap(), bench.whole::<f64>(n).unwrap()];
            assert!(runs.iter().all(|run| is_rate(run.seconds) && is_rate(run.tflops)), "{runs:?}");
        }
        assert!(bench.whole_bytes::<f64>(5000).unwrap() > 200_000_000);
        assert!(bench.links(1 << 45).is_err() && bench.whole::<f32>(200_000).is_err());
        let nowhere = GpuBench { number: 7, ..bench };
        assert!(nowhere.links(1).is_err() && nowhere.whole::<f32>(1).is_err());
        check(&fake);
    }
}
