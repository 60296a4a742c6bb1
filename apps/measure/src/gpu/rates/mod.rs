//! Rates of one GPU: products of tiles, copies, factorisations by the library and by tiles.
//!
//! Everything is timed by the GPU's own events, except the tiled factorisation, which has many
//! streams and is timed by the host's clock. All numbers are random: with zeros a GPU takes less
//! power, and is faster than in use.

mod link;
mod meter;
mod predicted;
mod replays;
mod routines;
mod split;
mod tiled;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use zellige_cuda::{CUDA, Gpu, GpuContext, GpuTask};
use zellige_dense::{Error, GpuMatrix, GpuProducts, TileScalar};
use zellige_gpu::{Driver, Element, GpuError};
use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_runtime::codelet::{DeviceRef, DeviceTable, DeviceViews};
use zellige_runtime::{Codelet, Cpu, Operands, Read, Runtime, Submit, TaskContext, TaskError, read};

pub use meter::{Conditions, Meter};
pub use predicted::Chosen;
pub use replays::ReplayTimes;
pub use routines::{Latencies, Routine, RoutineRate};
pub use split::TimeSplit;
pub use tiled::{CodeletTime, TiledBench, TiledRun, TiledTrace};

use crate::median;
use crate::random::Random;
use link::{Direction, Link, Stopwatch};

/// A GPU and the number of repetitions of each measurement. Medians over the runs after an
/// uncounted one are reported.
#[derive(Clone, Debug)]
pub struct GpuBench {
    /// Driver of the GPU.
    pub driver: Arc<dyn Driver>,
    /// Number of the GPU.
    pub number: u32,
    /// Runs that count.
    pub repeats: usize,
    /// Seconds that the products of one run should take at least, so that clock rate and power are
    /// those of products.
    pub least_seconds: f64,
}

fn name<S: Serializer>(precision: &GemmPrecision, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(precision.name())
}

/// Rates of products `C -= A B^T` of square tiles. They count `2 tile^3` flop for each, also if a
/// precision needs more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProductRate {
    /// Precision of the operands, the sums and the result.
    #[serde(serialize_with = "name")]
    #[schemars(with = "String")]
    pub precision: GemmPrecision,
    /// Products of one run.
    pub products: usize,
    /// Time of one product as tasks compute it: scales, assembly of operands, rounding of results
    /// (seconds).
    pub seconds: f64,
    /// Rate of the products [Tflop/s].
    pub tflops: f64,
    /// Rate of the library's plain product of the same operands, the high halves of split ones, in
    /// the same run [Tflop/s].
    pub plain_tflops: f64,
    /// The median of `tflops / plain_tflops` of each run; X3, three products in one, reaches a
    /// third at most.
    pub fraction: f64,
    /// Conditions while the products ran, ours and the library's.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Rate of the library's plain product of large square matrices, with the operands and sums of a
/// precision: the peak of the GPU for this crate's layout of operands. For split operands, the rate
/// of their high halves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PeakRate {
    /// Precision of the operands and the sums.
    #[serde(skip)]
    pub precision: GemmPrecision,
    /// Order of the matrices.
    pub order: u32,
    /// Time of one product (seconds).
    pub seconds: f64,
    /// `2 order^3` flop by that time [Tflop/s].
    pub tflops: f64,
    /// Conditions while it ran, including the generation of the matrices.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Rates of copies from and to page-locked host memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkRates {
    /// Bytes of one copy.
    pub bytes: usize,
    /// Rate to the GPU [bytes per second].
    pub to_gpu: f64,
    /// Rate from the GPU [bytes per second].
    pub to_host: f64,
    /// Rate within the GPU's memory, read and written [bytes per second].
    pub within: f64,
    /// Conditions while copies ran.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Time of the library's factorisation of a whole matrix in the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WholeFactor {
    /// Seconds.
    pub seconds: f64,
    /// `n^3 / 3` flop by that time [Tflop/s].
    pub tflops: f64,
    /// Conditions while it ran, including the generation of the matrix.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// Most rounds over the tiles of one run.
const MOST_ROUNDS: usize = 4096;

/// Random numbers for whole matrices. The number is not a power of two, so that no column repeats
/// another.
const NUMBERS: usize = (1 << 22) - 3;

impl GpuBench {
    /// Returns a meter for the caller's own runs on this GPU.
    pub fn meter(&self) -> Meter {
        Meter::new(&self.driver, self.number)
    }

    fn gpu(&self) -> Gpu {
        Gpu::new(Arc::clone(&self.driver), self.number)
    }

    /// Runs a task on random numbers the requested number of times, after one uncounted run.
    /// Returns the task's messages and the conditions of the GPU. Each task is created from the
    /// message of the run before.
    fn runs<T: TileScalar, R: Copy>(
        &self,
        count: usize,
        task: impl Fn(Option<R>, Sender<R>) -> Timed<T>,
    ) -> Result<(Vec<R>, Conditions), Error> {
        let rt = Runtime::builder().workers(0).policy("lws").device(self.gpu()).build()?;
        let numbers = rt.register(random::<T>(count));
        let (sender, measured) = channel();
        let run = |before| -> Result<(), Error> {
            Ok(rt.wait(&rt.submit(task(before, sender.clone()), (read(&numbers),))?)?)
        };
        run(None)?;
        let mut last = measured.try_recv().ok();
        let (mut all, mut meter) = (Vec::new(), self.meter());
        for _ in 0..self.repeats.max(1) {
            meter.during(|| run(last))?;
            last = measured.try_recv().ok();
            all.extend(last);
        }
        Ok((all, meter.conditions()))
    }

    /// Measures products of square tiles, with as many triples of tiles as take `spread` bytes, so
    /// that caches do not hold them.
    ///
    /// # Errors
    /// [`Error::Grid`] for tiles that are empty or no multiple of 16 (8-bit products need that),
    /// [`Error::Runtime`] if there is not enough memory, or a library is missing.
    pub fn products(&self, precision: GemmPrecision, tile: u32, spread: u64) -> Result<ProductRate, Error> {
        check_order(tile)?;
        let count = spread.div_ceil(GpuProducts::bytes_of_triple(precision, tile)).clamp(2, 64) as usize;
        let of = Products { precision, tile, count, rounds: 2 };
        let shorter = |measured: Measured| measured.ours.min(measured.plain);
        let next =
            |before: Option<Measured>| before.map_or(of, |before| self.long_enough(of, shorter(before)));
        let (measured, conditions) = match precision {
            GemmPrecision::Dp => {
                self.runs(of.numbers(), |before, sender| products::<f64>(next(before), sender))?
            }
            _ => self.runs(of.numbers(), |before, sender| products::<f32>(next(before), sender))?,
        };
        let flop = 2.0 * f64::from(tile).powi(3);
        let of_each = |figure: &dyn Fn(&Measured) -> f64| median(measured.iter().map(figure));
        Ok(ProductRate {
            precision,
            products: measured.last().map_or(0, |measured| measured.products),
            seconds: of_each(&|measured| measured.ours),
            tflops: of_each(&|measured| flop / measured.ours / 1e12),
            plain_tflops: of_each(&|measured| flop / measured.plain / 1e12),
            fraction: of_each(&|measured| measured.plain / measured.ours),
            conditions,
        })
    }

    /// Bytes that [`peak`](GpuBench::peak) needs of a GPU's memory.
    pub fn peak_bytes(&self, precision: GemmPrecision, order: u32) -> u64 {
        let of = Products::one(precision, order);
        let number = if precision == GemmPrecision::Dp { 8 } else { 4 };
        // Random numbers, operands and result, and a result of another kind.
        let entries = of.numbers() as u64 * number + u64::from(order).pow(2) * number;
        GpuProducts::bytes_of_triple(precision, order)
            + entries
            + self.driver.stream_workspace(self.number) * 2
    }

    /// Measures the library's plain product of square matrices of this order.
    ///
    /// # Errors
    /// The errors of [`products`](GpuBench::products).
    pub fn peak(&self, precision: GemmPrecision, order: u32) -> Result<PeakRate, Error> {
        check_order(order)?;
        let of = Products::one(precision, order);
        let next = |before: Option<f64>| before.map_or(of, |seconds| self.long_enough(of, seconds));
        let (measured, conditions) = match precision {
            GemmPrecision::Dp => {
                self.runs(of.numbers(), |before, sender| plain::<f64>(next(before), sender))?
            }
            _ => self.runs(of.numbers(), |before, sender| plain::<f32>(next(before), sender))?,
        };
        let seconds = median(measured);
        let tflops = 2.0 * f64::from(order).powi(3) / seconds / 1e12;
        Ok(PeakRate { precision, order, seconds, tflops, conditions })
    }

    /// Returns the rounds that take [`least_seconds`](GpuBench::least_seconds), by the seconds of
    /// one product in the run before.
    fn long_enough(&self, of: Products, seconds: f64) -> Products {
        let wanted = self.least_seconds / (seconds * of.count as f64);
        // NaN becomes 0.
        Products { rounds: (wanted.ceil() as usize).clamp(of.rounds, MOST_ROUNDS), ..of }
    }

    /// Measures copies of `bytes` bytes, one direction at a time. The GPU needs memory for them
    /// twice.
    ///
    /// # Errors
    /// The driver's, e.g. if there is not enough memory.
    pub fn links(&self, bytes: usize) -> Result<LinkRates, Error> {
        let link = Link::new(&self.driver, self.number, bytes)?;
        let mut meter = self.meter();
        let mut rate = |way| -> Result<f64, GpuError> {
            link.seconds(way)?;
            let all = || (0..self.repeats.max(1)).map(|_| link.seconds(way)).collect();
            let seconds: Result<Vec<f64>, _> = meter.during(all);
            Ok(bytes as f64 / median(seconds?))
        };
        // The data of copies within the GPU have been copied there before.
        let [to_gpu, to_host, within] =
            [rate(Direction::ToGpu)?, rate(Direction::ToHost)?, rate(Direction::Within)?];
        Ok(LinkRates { bytes, to_gpu, to_host, within: 2.0 * within, conditions: meter.conditions() })
    }

    /// Bytes that [`whole`](GpuBench::whole) needs of the GPU's memory, matrix, working space and
    /// random numbers.
    ///
    /// # Errors
    /// The driver's.
    pub fn whole_bytes<T: TileScalar>(&self, n: usize) -> Result<u64, Error> {
        let element = if T::FORMAT == StorageFormat::F64 { Element::F64 } else { Element::F32 };
        let stream = self.driver.create_stream(self.number, false)?;
        let workspace = self.driver.potrf_workspace(stream, u32::try_from(n).unwrap_or(u32::MAX), element);
        self.driver.destroy_stream(stream);
        let matrix = (n as u64).saturating_mul(n as u64).saturating_mul(element.bytes());
        let numbers = NUMBERS.min(n.saturating_mul(n)) as u64;
        let rest = workspace? + numbers * element.bytes() + self.driver.stream_workspace(self.number) * 2;
        Ok(matrix.saturating_add(rest))
    }

    /// Measures the library's factorisation of a whole random matrix of order `n`, diagonally
    /// dominant.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is not enough memory, or the library is missing.
    pub fn whole<T: TileScalar>(&self, n: usize) -> Result<WholeFactor, Error> {
        let count = NUMBERS.min(n.saturating_mul(n)).max(1);
        let (times, conditions) = self.runs(count, |_, sender| whole::<T>(n, sender))?;
        let seconds = median(times);
        Ok(WholeFactor { seconds, tflops: (n as f64).powi(3) / 3.0 / seconds / 1e12, conditions })
    }
}

fn check_order(order: u32) -> Result<(), Error> {
    if order == 0 || !order.is_multiple_of(16) {
        return Err(Error::Grid(format!("a tile size of {order}: use a multiple of 16")));
    }
    Ok(())
}

/// Entry after entry in (-1, 1) / 2.
fn random<T: TileScalar>(count: usize) -> Vec<T> {
    let mut random = Random::new(1);
    (0..count).map(|_| T::from_f64(random.number() / 2.0)).collect()
}

/// Products to be timed.
#[derive(Clone, Copy, Debug)]
struct Products {
    precision: GemmPrecision,
    /// Order of the tiles.
    tile: u32,
    /// Triples of tiles.
    count: usize,
    /// Products of each triple.
    rounds: usize,
}

impl Products {
    /// One product, repeated: its operands have to be larger than caches.
    fn one(precision: GemmPrecision, tile: u32) -> Self {
        Products { precision, tile, count: 1, rounds: 2 }
    }

    /// Random numbers that they are made of.
    fn numbers(&self) -> usize {
        GpuProducts::numbers(self.tile, self.count)
    }

    /// Times the rounds, after an untimed one that loads the libraries.
    fn timed(&self, cx: GpuContext<'_>, round: impl Fn() -> Result<(), Error>) -> Result<Stopwatch, Error> {
        round()?;
        let watch = Stopwatch::new(cx.driver(), cx.gpu())?;
        watch.time(cx.stream(), || (0..self.rounds).try_for_each(|_| round()))?;
        Ok(watch)
    }
}

/// Function that puts a task's work on its stream, given its random numbers.
type Body<T> = Box<dyn Fn(GpuContext<'_>, &DeviceRef<'_, Vec<T>>) -> Result<(), TaskError> + Send + Sync>;

/// A task that reads random numbers on a GPU.
struct Timed<T>(Body<T>);

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

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

impl<T: TileScalar> Timed<T> {
    fn cuda(&self, (numbers,): DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        (self.0)(cx.gpu(), &numbers)
    }
}

/// Message of a run of products: seconds of one product, as tasks compute it and plain.
#[derive(Clone, Copy)]
struct Measured {
    products: usize,
    ours: f64,
    plain: f64,
}

/// Tells the times of products as tasks do them, and of plain ones.
fn products<T: TileScalar>(of: Products, sender: Sender<Measured>) -> Timed<T> {
    let products = of.count * of.rounds;
    Timed(Box::new(move |cx, numbers| {
        let made = GpuProducts::new::<T>(cx, of.precision, of.tile, of.count, numbers)?;
        let (ours, plain) = (of.timed(cx, || made.multiply())?, of.timed(cx, || made.multiply_plain())?);
        let sender = sender.clone();
        cx.at_end(move || {
            let each = |watch: &Stopwatch| Ok::<f64, GpuError>(watch.seconds()? / products as f64);
            Ok(sender.send(Measured { products, ours: each(&ours)?, plain: each(&plain)? })?)
        });
        Ok(())
    }))
}

/// Tells the seconds of one plain product.
fn plain<T: TileScalar>(of: Products, sender: Sender<f64>) -> Timed<T> {
    let products = of.count * of.rounds;
    Timed(Box::new(move |cx, numbers| {
        let made = GpuProducts::new::<T>(cx, of.precision, of.tile, of.count, numbers)?;
        let (watch, sender) = (of.timed(cx, || made.multiply_plain())?, sender.clone());
        cx.at_end(move || Ok(sender.send(watch.seconds()? / products as f64)?));
        Ok(())
    }))
}

/// Tells the time of a whole factorisation.
fn whole<T: TileScalar>(n: usize, sender: Sender<f64>) -> Timed<T> {
    Timed(Box::new(move |cx, numbers| {
        let lost =
            |info: i32| format!("column {info} of a diagonally dominant matrix has no positive pivot").into();
        let matrix = GpuMatrix::new::<T>(cx, n, numbers)?;
        let (watch, sender) = (Stopwatch::new(cx.driver(), cx.gpu())?, sender.clone());
        watch.time(cx.stream(), || matrix.factor(lost))?;
        cx.at_end(move || Ok(sender.send(watch.seconds()?)?));
        Ok(())
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use zellige_gpu::mock::Mock;
    use zellige_kernels::cuda::SOURCES;

    use super::*;

    /// Returns a mock GPU; `None`, with a printed line, if there is no g++.
    pub(super) fn mock(seed: u64) -> Option<Arc<Mock>> {
        Some(Arc::new(zellige_twins::mock(SOURCES)?.seed(seed).measured_links().build()))
    }

    /// Checks that there are no leaks and no violations.
    pub(super) fn check(mock: &Mock) {
        assert_eq!(mock.violations(), [] as [String; 0]);
        assert_eq!(mock.leaks(), [] as [String; 0]);
    }

    fn is_rate(x: f64) -> bool {
        x > 0.0 && x.is_finite()
    }

    #[test]
    fn every_precision_has_a_rate_and_one_beside_it() {
        let Some(mock) = mock(1) else { return };
        let bench = GpuBench { driver: mock.clone(), number: 0, repeats: 2, least_seconds: 0.0 };
        for precision in GemmPrecision::ALL {
            let rate = bench.products(precision, 32, 3 * 32 * 32 * 8).unwrap();
            assert!(rate.products >= 4, "{rate:?}");
            let figures = [rate.seconds, rate.tflops, rate.plain_tflops, rate.fraction];
            assert!(figures.into_iter().all(is_rate), "{rate:?}");
            assert_eq!(rate.conditions.sm_clock_mhz, Some(1500.0));
            let peak = bench.peak(precision, 48).unwrap();
            assert!(is_rate(peak.seconds) && is_rate(peak.tflops), "{peak:?}");
            assert_eq!((peak.order, peak.conditions.power_w), (48, Some(300.0)));
            assert!((peak.seconds * peak.tflops * 1e12 / (2.0 * 48f64.powi(3)) - 1.0).abs() < 1e-12);
        }
        for tile in [0, 24] {
            let error = bench.products(GemmPrecision::Fp8, tile, 1).unwrap_err().to_string();
            assert!(error.contains("multiple of 16"), "{error}");
            assert_eq!(bench.peak(GemmPrecision::Sp, tile).unwrap_err().to_string(), error);
        }
        // Three matrices of 8192, random numbers and one more.
        assert!((5 << 28..6 << 28).contains(&bench.peak_bytes(GemmPrecision::Sp, 8192)));
        check(&mock);
    }

    #[test]
    fn runs_are_as_long_as_asked_for() {
        let Some(mock) = mock(5) else { return };
        let short = GpuBench { driver: mock.clone(), number: 0, repeats: 1, least_seconds: 0.0 };
        let long = GpuBench { least_seconds: 0.05, ..short.clone() };
        let products = |bench: &GpuBench| bench.products(GemmPrecision::Sp, 16, 1).unwrap();
        let (few, many) = (products(&short), products(&long));
        assert!(few.products == 4 && many.products > 4, "{few:?} {many:?}");
        check(&mock);
    }

    #[test]
    fn copies_and_whole_factorisations_have_rates_or_say_what_is_wrong() {
        let Some(mock) = mock(2) else { return };
        let bench = GpuBench { driver: mock.clone(), number: 0, repeats: 3, least_seconds: 0.0 };
        let links = bench.links(100_000).unwrap();
        assert!(is_rate(links.to_gpu) && is_rate(links.to_host), "{links:?}");
        assert!(links.conditions.energy_j.is_some_and(is_rate), "{links:?}");
        for n in [1, 50] {
            let runs = [bench.whole::<f32>(n).unwrap(), bench.whole::<f64>(n).unwrap()];
            assert!(runs.iter().all(|run| is_rate(run.seconds) && is_rate(run.tflops)), "{runs:?}");
            assert!(runs.iter().all(|run| run.conditions.power_w == Some(300.0)), "{runs:?}");
        }
        assert!(bench.whole_bytes::<f64>(5000).unwrap() > 200_000_000);
        assert!(bench.links(1 << 45).is_err() && bench.whole::<f32>(200_000).is_err());
        let nowhere = GpuBench { number: 7, ..bench };
        assert!(nowhere.links(1).is_err() && nowhere.whole::<f32>(1).is_err());
        check(&mock);
    }
}
