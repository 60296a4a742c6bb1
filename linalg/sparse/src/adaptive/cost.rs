//! Selection of the layout and the format set with the fastest product, by measured costs instead
//! of bytes alone.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_kernels::sell::{Bucket, EDGES, Elements, Panel, PanelWriter, tile_rows};

use super::tiled::check_block_size;
use super::{Accuracy, Adaptation, Criterion, FormatSet, TiledMatrix};
use crate::concurrent::{concurrent_map, in_turns};
use crate::csr::Csr;
use zellige_krylov::Error;

/// Costs of the parts of a product on a machine, for one worker while the others are busy too.
///
/// A product takes `sqrt(m^2 + c^2)` with the time `m` for bytes and `c` for nonzeros and groups:
/// memory traffic and computation overlap, but not completely.
#[derive(Clone, Debug, PartialEq)]
struct CostModel {
    /// Bytes that memory gives (bytes/s).
    bandwidth: f64,
    /// Cost of a group of eight rows (s), for each block size of [`EDGES`].
    group: [f64; 4],
    /// Cost of a nonzero, or of a block (s), for each block size and each format of
    /// [`PackedFormat::ALL`]. Infinite if blocks have no such format.
    element: [[f64; PackedFormat::ALL.len()]; 4],
}

/// Sets that a model chooses from.
pub const SETS: [FormatSet; 7] = {
    let [a, b, c, d, e, f] = FormatSet::ALL;
    [FormatSet::Fp64, a, b, c, d, e, f]
};

/// Approximate number of nonzeros of a sample.
const SAMPLE: usize = 300_000;
/// Number of layouts, the fastest by the model, that are timed.
const TRIED: usize = 4;
/// Number of alternating timings.
const PAIRS: usize = 7;
/// Numbers that are read to measure the bandwidth (64 MB), more than caches hold.
const ARRAY: usize = 1 << 23;

/// Stores the matrix in the layout and the set with the fastest products on this machine with this
/// number of workers, for this accuracy; never in one that was measured to be slower than `f64`.
///
/// The model of the machine is measured at the first call for a number of workers, which takes a
/// fraction of a second. It selects the layouts that are timed on a sample of the tiles; the best
/// of these has to be faster than plain `f64` on the whole matrix. Measurements differ from run to
/// run, and so may the result among layouts that are equally fast.
///
/// # Errors
/// Those of storing the matrix.
pub fn auto(
    a: &Csr,
    criterion: Criterion<'_>,
    accuracy: Accuracy,
    rounding: Rounding,
    workers: usize,
) -> Result<TiledMatrix, Error> {
    let choice = fastest(a, (&EDGES, &SETS), criterion, accuracy, rounding, workers)?;
    let double = TiledMatrix::new(a, choice.double_block_size, &Adaptation::double())?;
    if choice.set == FormatSet::Fp64 {
        return Ok(double);
    }
    let narrow =
        TiledMatrix::new(a, choice.block_size, &adaptation(choice.set, criterion, accuracy, rounding))?;
    Ok(if is_faster(&narrow, &double, workers) { narrow } else { double })
}

/// Returns the layout with the fastest product on this number of workers, among these block sizes
/// and sets.
///
/// The candidates that the model of the machine ranks first are timed on a sample of the tiles.
/// Plain `f64` is returned only if nothing else is possible. The comparison on the whole matrix
/// shows whether the layout is [faster](is_faster) than `f64`.
///
/// # Errors
/// Those of storing the matrix, and [`Error::Parameter`] if no block size is compatible with any
/// set.
pub fn fastest(
    a: &Csr,
    (block_sizes, sets): (&[usize], &[FormatSet]),
    criterion: Criterion<'_>,
    accuracy: Accuracy,
    rounding: Rounding,
    workers: usize,
) -> Result<Choice, Error> {
    let model = machine(workers);
    let mut choices = model.rank(a, block_sizes, sets, criterion, accuracy, rounding)?;
    let double = choices[0];
    choices.retain(|choice| choice.set != FormatSet::Fp64);
    choices.truncate(TRIED);
    if let [] | [_] = choices[..] {
        return Ok(choices.pop().unwrap_or(double));
    }
    let adaptation = |set| adaptation(set, criterion, accuracy, rounding);
    let (x, mut y) = (vec![1.0; a.columns()], vec![0.0; a.rows()]);
    let mut best: Option<(f64, Choice)> = None;
    for choice in choices {
        let (sample, part) = sample(a, choice.block_size, &adaptation(choice.set))?;
        let mut time = |_| {
            let begin = Instant::now();
            sample.multiply(&x, &mut y).map(|()| begin.elapsed().as_secs_f64())
        };
        let computing =
            (0..PAIRS).map(&mut time).try_fold(f64::INFINITY, |least, time| time.map(|t| t.min(least)))?;
        let time = model.memory(sample.panels()).hypot(computing) / part;
        if best.is_none_or(|best| time < best.0) {
            best = Some((time, choice));
        }
    }
    Ok(best.map_or(double, |(_, choice)| choice))
}

fn adaptation<'x>(
    set: FormatSet,
    criterion: Criterion<'x>,
    accuracy: Accuracy,
    rounding: Rounding,
) -> Adaptation<'x> {
    match set {
        FormatSet::Fp64 => Adaptation::double(),
        _ => Adaptation { rounding, ..Adaptation::new(set, criterion, accuracy) },
    }
}

/// Returns a sample of a matrix' tiles, and its share of all tiles.
fn sample(a: &Csr, block_size: usize, adaptation: &Adaptation<'_>) -> Result<(TiledMatrix, f64), Error> {
    let tiles = (a.rows() / block_size).div_ceil(tile_rows(block_size)).max(1);
    let every = (a.nonzeros() / SAMPLE + 1).min(tiles);
    let sample = TiledMatrix::of_tiles(a, block_size, adaptation, every)?;
    Ok((sample, tiles.div_ceil(every) as f64 / tiles as f64))
}

/// Returns the cost model of this machine for this number of workers; it is measured once for each
/// number.
fn machine(workers: usize) -> CostModel {
    static MODELS: Mutex<BTreeMap<usize, CostModel>> = Mutex::new(BTreeMap::new());
    let mut models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    models.entry(workers).or_insert_with(|| CostModel::measure(workers)).clone()
}

/// Returns true if products with `one` take less time than with `other`, in alternating timings.
pub fn is_faster(one: &TiledMatrix, other: &TiledMatrix, workers: usize) -> bool {
    let x = vec![1.0; one.columns()];
    fn of<'s>(panels: &'s [Panel], x: &'s [f64]) -> impl FnMut() + Send + use<'s> {
        let mut y = vec![0.0; panels.iter().map(|panel| panel.rows().len()).sum()];
        move || multiply_panels(panels, x, black_box(&mut y))
    }
    let parts = |matrix| shares(matrix, workers).into_iter().map(|panels| of(panels, &x)).collect::<Vec<_>>();
    let [one, other] = in_turns(PAIRS, [parts(one), parts(other)]);
    one < other
}

/// Computes `y = A x` for the rows of these panels.
///
/// # Panics
/// For vectors of other lengths.
pub fn multiply_panels(panels: &[Panel], x: &[f64], mut y: &mut [f64]) {
    for panel in panels {
        let (part, rest) = y.split_at_mut(panel.rows().len());
        panel.multiply_many(1, x, part).expect("vectors of the matrix' lengths");
        y = rest;
    }
}

/// Panels for each worker, consecutive ones and with about as many bytes.
pub fn shares(matrix: &TiledMatrix, workers: usize) -> Vec<&[Panel]> {
    let share = matrix.bytes() as usize / workers.max(1);
    let (mut panels, mut shares) = (matrix.panels(), Vec::with_capacity(workers));
    for _ in 1..workers {
        let mut bytes = 0;
        let is_enough = |panel: &Panel| {
            bytes += panel.bytes();
            bytes >= share
        };
        let count = panels.iter().position(is_enough).map_or(panels.len(), |last| last + 1);
        let (mine, others) = panels.split_at(count);
        (panels, _) = (others, shares.push(mine));
    }
    shares.push(panels);
    shares
}

/// Computes `y = A x` with this number of workers.
#[cfg(test)]
fn multiply_with(matrix: &TiledMatrix, workers: usize, x: &[f64], mut y: &mut [f64]) {
    for panels in shares(matrix, workers) {
        let (part, rest) = y.split_at_mut(panels.iter().map(|panel| panel.rows().len()).sum());
        multiply_panels(panels, x, part);
        y = rest;
    }
}

/// Layout that a model predicts to be the fastest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Rows and columns of a block.
    pub block_size: usize,
    /// The formats.
    pub set: FormatSet,
    /// Time relative to that of `f64` in its fastest layout, with blocks of
    /// `double_block_size`.
    pub of_double: f64,
    /// Block size of the fastest layout in `f64`.
    pub double_block_size: usize,
}

impl CostModel {
    /// Measures this machine: memory bandwidth with this number of concurrent workers, and panels
    /// of one format that fit the nearest cache.
    fn measure(workers: usize) -> CostModel {
        let bandwidth = bandwidth(workers.max(1)) / workers.max(1) as f64;
        let mut model =
            CostModel { bandwidth, group: [0.0; 4], element: [[f64::INFINITY; PackedFormat::ALL.len()]; 4] };
        for (at, block_size) in EDGES.into_iter().enumerate() {
            // Equal numbers of nonzeros in few long rows, and in many short ones.
            let (long, short) =
                (panel(block_size, PackedFormat::Fp64, 16), panel(block_size, PackedFormat::Fp64, 1));
            let (elements, groups) =
                (|panel: &Panel| panel.loads()[0].elements, |panel: &Panel| panel.loads()[0].groups);
            let per_element = seconds(&long) / elements(&long) as f64;
            let rest = seconds(&short) - per_element * elements(&short) as f64;
            model.group[at] = rest.max(0.0) / groups(&short) as f64;
            for (format, cost) in PackedFormat::ALL.into_iter().zip(&mut model.element[at]) {
                if block_size == 1 || !format.is_scaled() {
                    let panel = panel(block_size, format, 16);
                    let groups = model.group[at] * groups(&panel) as f64;
                    *cost = (seconds(&panel) - groups).max(0.0) / elements(&panel) as f64;
                }
            }
        }
        model
    }

    /// Seconds of a product with these panels, without reading `x` and writing `y`.
    fn seconds(&self, panels: &[Panel]) -> f64 {
        let of_panel = |panel: &Panel| {
            let at = EDGES
                .iter()
                .position(|&block_size| block_size == panel.edge())
                .expect("a block size of EDGES");
            let cost = |format| {
                let place = PackedFormat::ALL.iter().position(|&other| other == format);
                self.element[at][place.expect("one of all")]
            };
            let loads = panel.loads().iter().filter(|load| load.elements > 0);
            loads
                .map(|load| {
                    load.elements as f64 * cost(load.bucket.format) + load.groups as f64 * self.group[at]
                })
                .sum::<f64>()
        };
        self.memory(panels).hypot(panels.iter().map(of_panel).sum())
    }

    /// Seconds of reading these panels.
    fn memory(&self, panels: &[Panel]) -> f64 {
        panels.iter().map(|panel| panel.bytes() as f64).sum::<f64>() / self.bandwidth
    }

    /// Returns all compatible pairs of block size and set, the fastest first, from a sample of the
    /// matrix' tiles. The result is deterministic for a given model.
    ///
    /// # Errors
    /// Those of storing the matrix, and [`Error::Parameter`] if no block size is compatible with
    /// any set.
    fn rank(
        &self,
        a: &Csr,
        block_sizes: &[usize],
        sets: &[FormatSet],
        criterion: Criterion<'_>,
        accuracy: Accuracy,
        rounding: Rounding,
    ) -> Result<Vec<Choice>, Error> {
        let fits = |block_size: &usize| check_block_size(a, *block_size, FormatSet::Fp64).is_ok();
        let (mut double, mut double_block_size) = (f64::INFINITY, 1);
        for block_size in EDGES.into_iter().filter(fits) {
            let time = self.of_sample(a, block_size, &Adaptation::double())?;
            if time < double {
                (double, double_block_size) = (time, block_size);
            }
        }
        let mut choices = Vec::new();
        let block_sizes = block_sizes.iter().copied().filter(fits);
        for (block_size, set) in
            block_sizes.flat_map(|block_size| sets.iter().map(move |&set| (block_size, set)))
        {
            let adaptation = adaptation(set, criterion, accuracy, rounding);
            if check_block_size(a, block_size, set).is_ok() && adaptation.check(a).is_ok() {
                let of_double = self.of_sample(a, block_size, &adaptation)? / double;
                choices.push(Choice { block_size, set, of_double, double_block_size });
            }
        }
        choices.sort_by(|one, other| one.of_double.total_cmp(&other.of_double));
        if choices.is_empty() {
            let problem =
                "no block size suits the matrix, the sets and the criterion: allow block size 1 and ap7";
            return Err(Error::parameter("layout", problem));
        }
        Ok(choices)
    }

    /// Seconds of a product, from some of the matrix' tiles.
    fn of_sample(&self, a: &Csr, block_size: usize, adaptation: &Adaptation<'_>) -> Result<f64, Error> {
        let (sample, part) = sample(a, block_size, adaptation)?;
        let vectors = 8.0 * (a.rows() + a.columns()) as f64 / self.bandwidth;
        Ok(vectors + self.seconds(sample.panels()) / part)
    }
}

/// Returns the bytes per second that this number of threads reads concurrently.
fn bandwidth(workers: usize) -> f64 {
    let array = vec![1.0; ARRAY];
    let sum = |part: &[f64]| {
        let mut sums = [0.0; 32];
        for part in part.chunks_exact(32) {
            sums.iter_mut().zip(part).for_each(|(sum, a)| *sum += a);
        }
        black_box(sums);
    };
    let time = |_| {
        let begin = Instant::now();
        concurrent_map(workers, array.chunks(ARRAY.div_ceil(workers)), sum);
        begin.elapsed().as_secs_f64()
    };
    8.0 * ARRAY as f64 / (0..5).map(time).fold(f64::INFINITY, f64::min)
}

/// Returns a panel of one tile with about 2000 numbers, with `row` nonzeros in each row.
fn panel(block_size: usize, format: PackedFormat, row: usize) -> Panel {
    let rows = (2048 / (row * block_size * block_size)).clamp(16, tile_rows(block_size));
    let mut elements = Elements::default();
    let block = [1.5; 16];
    for (i, k) in (0..rows).flat_map(|i| (0..row).map(move |k| (i, k))) {
        // Neighbouring rows have columns that are close to each other, but not adjacent.
        elements.push(i as u8, ((i * 3 + k * 7) % 128) as u32, &block[..block_size * block_size]);
    }
    let mut writer = PanelWriter::new(block_size, 0, 128 * block_size, 0, &[Bucket::unscaled(format)])
        .expect("a block size of EDGES");
    writer.tile(rows, None, &[elements], Rounding::Nearest).expect("rows of one tile");
    writer.finish().expect("a panel that was just made")
}

/// Returns the least time of a product with a panel that is in a cache.
fn seconds(panel: &Panel) -> f64 {
    const PRODUCTS: usize = 20;
    let (x, mut y) = (vec![1.0; 128 * panel.edge()], vec![0.0; panel.rows().len()]);
    let mut time = |_| {
        let begin = Instant::now();
        for _ in 0..PRODUCTS {
            panel.multiply(&x, black_box(&mut y)).expect("sizes that fit");
        }
        begin.elapsed().as_secs_f64() / PRODUCTS as f64
    };
    (0..20).map(&mut time).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

    /// Returns the model of a machine of 20 GB/s with equal costs of all nonzeros.
    fn model(element: f64) -> CostModel {
        CostModel { bandwidth: 2e10, group: [0.0; 4], element: [[element; PackedFormat::ALL.len()]; 4] }
    }

    #[test]
    fn where_computing_costs_nothing_the_fewest_bytes_win() {
        let a = flow(&Flow { cells: [16, 14, 12], ..Flow::default() }).unwrap();
        let choice = model(0.0)
            .rank(&a, &EDGES, &SETS, Criterion::Normwise, "2^-37".parse().unwrap(), Rounding::Nearest)
            .unwrap()[0];
        let bytes = |block_size, set| {
            let adaptation = Adaptation::new(set, Criterion::Normwise, "2^-37".parse().unwrap());
            TiledMatrix::new(&a, block_size, &adaptation).unwrap().bytes()
        };
        let chosen = bytes(choice.block_size, choice.set);
        assert!(choice.of_double < 1.0 && choice.double_block_size == 1);
        for set in FormatSet::ALL {
            assert!(chosen <= bytes(1, set), "{set}");
        }
    }

    #[test]
    fn where_memory_costs_nothing_f64_wins() {
        let a = elasticity(&Elasticity { elements: Elements([6, 6, 6]), ..Elasticity::default() }).unwrap();
        let mut model = model(1e-9);
        model.bandwidth = 1e30;
        model.group = [1e-8; 4];
        let choice = model
            .rank(&a, &EDGES, &SETS, Criterion::Componentwise, Accuracy::DOUBLE, Rounding::Nearest)
            .unwrap()[0];
        // A block costs as much as a number here: the larger the better.
        assert_eq!(
            (choice.block_size, choice.set, choice.of_double),
            (choice.double_block_size, FormatSet::Fp64, 1.0)
        );
        assert!(choice.block_size > 1);
    }

    #[test]
    fn the_machine_is_measured_and_its_choice_multiplies() {
        let a = flow(&Flow { cells: [10, 9, 8], ..Flow::default() }).unwrap();
        for workers in [1, 3] {
            let eps = "2^-24".parse().unwrap();
            let matrix = auto(&a, Criterion::Normwise, eps, Rounding::Nearest, workers).unwrap();
            let (x, mut y) = (vec![1.0; a.columns()], vec![f64::NAN; a.rows()]);
            multiply_with(&matrix, workers, &x, &mut y);
            let error = crate::exact::ExactProduct::of(&a, &x).unwrap().backward_error(&y).unwrap();
            assert!(error.normwise < 12.0 * 2f64.powi(-24));
        }
        let model = CostModel::measure(1);
        assert!(model.bandwidth > 1e8 && model.element[0].iter().all(|cost| (1e-12..1e-6).contains(cost)));
        assert!(model.element[1].iter().any(|cost| cost.is_infinite()));
    }
}
