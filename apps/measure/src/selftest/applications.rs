//! Kernels of sparse solvers, searches and covariances on a GPU, against the same tasks on CPU
//! workers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_dense::{GpuGenerator, SymmetricTiled, TileGrid, TileScalar, generator};
use zellige_kernels::StorageFormat;
use zellige_psa::basis::SegmentBasis;
use zellige_psa::channels::Segment;
use zellige_psa::search::{
    Batching, Hit, Match, Method, Plan, Precision, Prepared, Screen, Searcher, SegmentEvents,
};
use zellige_runtime::{Runtime, Submit, TaskError};
use zellige_sparse::Csr;
use zellige_sparse::Stored;
use zellige_sparse::adaptive::{Adaptation, Criterion, FormatSet};
use zellige_sparse::generate::{Elasticity, Elements, Flow, elasticity, flow};
use zellige_sparse::krylov::{Space, multiply};
use zellige_tor::covariance::Scalar;
use zellige_tor::covariance::device::{DeviceModel, SOURCE};
use zellige_tor::params::{CHECK_SYSTEM, Mode, parse};
use zellige_tor::{Covariance, Kind};

use super::Failure;
use super::outcome::KernelRow;

/// Sizes of the computations.
#[derive(Clone, Copy, Debug)]
pub struct ApplicationExtent {
    /// Cells along each axis of the matrix of flow: a multiple of 4.
    pub cells: usize,
    /// Points along each axis of a basis.
    pub points: usize,
    /// Events that are searched for.
    pub events: usize,
    /// Tile of the covariances of the check system.
    pub tile: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Number of rows of [`kernels`].
pub const CHECKS: u64 = 8 + 3 + 2;

/// Precisions of searches that GPUs support.
const SEARCHED: [(&str, Precision); 3] =
    [("fp32", Precision::Fp32), ("int16", Precision::Int16), ("bf16", Precision::Bf16)];
const CHANNELS: usize = 5;
const SAMPLES: usize = 24;

/// Result of a check: the number of checked results, and the largest difference relative to its
/// bound.
type Checked = Result<(usize, f64), Failure>;

/// Products of sparse matrices in each set of formats and searches in each precision, which have to
/// have the CPU's bits, and covariances, which may differ as the kernel's source says. `there`
/// has no CPU worker, so that all tasks run on the GPU.
pub fn kernels(
    there: &Runtime,
    here: &Runtime,
    extent: &ApplicationExtent,
    done: &dyn Fn(),
) -> Vec<KernelRow> {
    let mut rows = Vec::new();
    let mut add = |kernel, precision, checked: Checked| {
        rows.push(row(kernel, precision, checked));
        done();
    };
    for set in [FormatSet::Fp64, FormatSet::Fp32].into_iter().chain(FormatSet::ALL) {
        add("sparse product", set.name(), products(there, here, extent, set));
    }
    for (name, precision) in SEARCHED {
        add("search", name, searches(there, extent, precision));
    }
    add("covariance", "fp64", covariances::<f64>(there, extent));
    add("covariance", "fp32", covariances::<f32>(there, extent));
    rows
}

fn row(kernel: &'static str, precision: &'static str, checked: Checked) -> KernelRow {
    let (tiles, apart, failed) = match checked {
        Ok((tiles, apart)) => (tiles, apart, None),
        Err(error) => (0, f64::NAN, Some(super::chain(&*error))),
    };
    let passed = tiles > 0 && apart <= 1.0;
    KernelRow { kernel, precision, tiles, error: 0.0, apart, passed, skipped: None, failed }
}

/// Products of matrices whose elements are numbers, and blocks of two, four and three.
fn products(there: &Runtime, here: &Runtime, extent: &ApplicationExtent, set: FormatSet) -> Checked {
    let cells = [extent.cells; 3];
    let fluid = flow(&Flow { cells, seed: extent.seed, ..Flow::default() })?;
    let elements = Elements([extent.cells / 2; 3]);
    let solid = elasticity(&Elasticity { elements, ..Elasticity::default() })?;
    let adaptation = Adaptation::new(set, Criterion::Componentwise, "2^-37".parse()?);
    let cases = [(&fluid, 1), (&fluid, 2), (&fluid, 4), (&solid, 3)];
    // Scales are those of numbers.
    let cases = cases.into_iter().filter(|(_, edge)| *edge == 1 || !set.has_scales());
    let (mut count, mut other) = (0, 0);
    for (a, edge) in cases {
        let [found, expected] = [there, here].map(|rt| product(rt, a, edge, &adaptation, extent.seed));
        other += differing(&found?, &expected?);
        count += 1;
    }
    Ok((count, bits(other)))
}

/// Converts the number of results that differ to a part of the bound. None may differ, and one that
/// does is twice the bound.
fn bits(differing: usize) -> f64 {
    2.0 * differing as f64
}

fn differing(found: &[f64], expected: &[f64]) -> usize {
    found.iter().zip(expected).filter(|(x, y)| x.to_bits() != y.to_bits()).count()
}

/// `A x` as solvers compute it, of a random `x`.
fn product(
    rt: &Runtime,
    a: &Csr,
    edge: usize,
    adaptation: &Adaptation<'_>,
    seed: u64,
) -> Result<Vec<f64>, Failure> {
    // The number of bytes is such that there are several parts.
    let space = Space::new(a.rows(), 64 * a.bytes());
    let stored = Stored::new(rt, &space, a, edge, adaptation)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let numbers: Vec<f64> = (0..a.rows()).map(|_| random.random_range(-1.0..1.0)).collect();
    Ok(multiply(rt, &stored, &numbers)?)
}

/// Runs every search plan with a GPU kernel, in one precision.
fn searches(there: &Runtime, extent: &ApplicationExtent, precision: Precision) -> Checked {
    let basis = basis(extent.points)?;
    let events = events(&basis, extent)?;
    let full = Plan { method: Method::Full, precision, ..Plan::default() };
    let powers = [0.25, 0.5, 1.0, 2.0, 0.77].map(|p| Plan { p, ..full });
    let screens =
        [Screen::Quarter, Screen::Bits, Screen::Linear, Screen::Square, Screen::Product, Screen::Power];
    let screens = screens.map(|by| Plan { method: Method::Screen { by, keep: 8 }, ..full });
    let (mut count, mut other) = (0, 0);
    for plan in powers.into_iter().chain(screens).filter(|plan| plan.check().is_ok()) {
        let expected = Prepared::new(&plan, &basis)?.search(&events, &[])?;
        let found = search(there, &plan, &basis, &events)?;
        let differ = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
        other += differ + found.len().abs_diff(expected.len());
        count += found.len();
    }
    Ok((count, bits(other)))
}

fn search(
    rt: &Runtime,
    plan: &Plan,
    basis: &SegmentBasis,
    events: &SegmentEvents,
) -> Result<Vec<Match>, Failure> {
    let segment = Segment::from_index(3).expect("one of 36");
    let batching = Batching { size: 16, patience: Duration::from_secs(60) };
    let mut searcher = Searcher::new(rt, plan, batching);
    searcher.host(segment, basis)?;
    let now = Instant::now();
    for (number, &energy) in events.energies().iter().enumerate() {
        let hit = Hit { ticket: number, segment, energy, coarse_only: false };
        searcher.push(hit, events.samples(number), now)?;
    }
    Ok(searcher.finish()?.into_iter().map(|(_, found)| found).collect())
}

/// Returns points of a cube of 2 mm steps. The channel and time of a signal's rise depend on the
/// position of the point.
fn basis(edge: usize) -> Result<SegmentBasis, Failure> {
    let at = |i: usize| [i % edge, i / edge % edge, i / edge / edge].map(|x| x as f32 * 2.0);
    let positions: Vec<[f32; 3]> = (0..edge.pow(3)).map(at).collect();
    let signal = |place: &[f32; 3]| {
        let place = *place;
        (0..CHANNELS * SAMPLES).map(move |term| {
            let (channel, t) = (term / SAMPLES, (term % SAMPLES) as f32);
            1.0 / (1.0 + (0.25 * place[channel % 3] + 3.0 + channel as f32 - t).exp())
        })
    };
    let values = positions.iter().flat_map(signal).collect();
    Ok(SegmentBasis::new(CHANNELS, SAMPLES, positions, values)?)
}

/// Noisy signals of random points, of 20 keV to 2 MeV.
fn events(basis: &SegmentBasis, extent: &ApplicationExtent) -> Result<SegmentEvents, Failure> {
    let mut random = ChaCha8Rng::seed_from_u64(extent.seed);
    let energy = |random: &mut ChaCha8Rng| 20.0 * 100f64.powf(random.random_range(0.0..1.0));
    let energies: Vec<f64> = (0..extent.events).map(|_| energy(&mut random)).collect();
    let mut samples = Vec::new();
    for energy in &energies {
        let point = basis.point(random.random_range(0..basis.positions().len()));
        samples.extend(point.iter().map(|b| b * *energy as f32 + random.random_range(-4.0..4.0)));
    }
    Ok(SegmentEvents::new(CHANNELS, SAMPLES, &energies, &samples)?)
}

/// Compares covariances of the measurements of MOAO's check system. If separations are below a
/// micrometre, they go through `pow`, whose last bits differ between libraries. The difference is
/// below 1e-9 of the largest entry, and may be rounded differently in `f32`.
fn covariances<T: TileScalar + Scalar<Real = f64>>(there: &Runtime, extent: &ApplicationExtent) -> Checked {
    let input = parse("check.toml".as_ref(), CHECK_SYSTEM, None, Mode::Strict)?;
    let cov = Arc::new(Covariance::new(&input.system, &input.atmosphere)?);
    let n = cov.measurements();
    let model = Arc::new(DeviceModel::new(&cov));
    let on_gpu = GpuGenerator {
        model: there.register(model.words().to_vec()),
        source: &SOURCE,
        describe: Arc::new(move |at, rows, cols, out| Ok(model.fill(at, rows, cols, 1.0, out)?)),
    };
    let nowhere = generator(|_, _, _: &mut [T], _| Err::<(), TaskError>("no CPU worker is there".into()));
    let a = SymmetricTiled::<T>::new(there, TileGrid::uniform(n, extent.tile)?);
    a.fill_with(there, &nowhere, Some(&on_gpu))?;
    let found = a.gather(there)?;
    let mut expected = vec![T::ZERO; n * n];
    cov.fill(Kind::Cmm, 0..n, 0..n, &mut expected, n)?;
    let largest = expected.iter().fold(0.0f64, |most, x| most.max(x.to_f64().abs()));
    let rounding = if T::FORMAT == StorageFormat::F32 { f64::from(f32::EPSILON) } else { 0.0 };
    let mut apart = 0.0f64;
    for j in 0..n {
        // Diagonal tiles hold their upper halves too, all others lie below.
        for at in (j..n).map(|i| i + j * n) {
            let (found, expected) = (found[at].to_f64(), expected[at].to_f64());
            let part = (found - expected).abs() / (1e-9 * largest + rounding * expected.abs());
            apart = if part.is_nan() { f64::INFINITY } else { apart.max(part) };
        }
    }
    Ok((a.handles().len(), apart))
}
