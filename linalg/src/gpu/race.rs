//! What benchmarks time: many products of distinct operands, with all that this crate does around them and without, and a factorisation of a
//! whole matrix by the library.

use zellige_cuda::GpuContext;
use zellige_gpu::{Address, Compute, Element, GpuError, Matrix, Transpose};
use zellige_kernels::cuda::{copy, fill};
use zellige_kernels::{GemmPrecision, Op, StorageFormat};
use zellige_runtime::TaskError;

use super::capability::compute_of;
use super::convert::narrow;
use super::product::DIFFERENCE;
use super::tile::length;
use super::view::{Product, View};
use super::{OnGpu, Ops, Stopwatch, element, element_of, multiply};
use crate::error::Error;
use crate::scalar::TileScalar;

/// Entries from the random numbers of one operand to those of the next.
const WINDOW_STEP: usize = 64;

/// One product's operands and result, in working space.
struct Lane {
    a: OnGpu,
    b: OnGpu,
    c: OnGpu,
}

/// Which products are timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    pub(crate) precision: GemmPrecision,
    /// Order of the tiles.
    pub(crate) tile: u32,
    /// How many triples of tiles; each is used as often as the others.
    pub(crate) count: usize,
    /// How often.
    pub(crate) rounds: usize,
}

impl Lanes {
    /// One product, again and again: its operands are to be larger than caches.
    pub(crate) fn one(precision: GemmPrecision, tile: u32) -> Lanes {
        Lanes { precision, tile, count: 1, rounds: 2 }
    }

    /// Bytes of one triple.
    pub(crate) fn bytes_each(&self) -> u64 {
        let (operand, result) = (self.precision.operand_format(), self.precision.output_format());
        u64::from(self.tile).pow(2) * (2 * operand.bytes() + result.bytes()) as u64
    }

    /// Random numbers that [`Prepared::new`] reads.
    pub(crate) fn numbers(&self) -> usize {
        (self.tile as usize).pow(2) + 3 * self.count * WINDOW_STEP
    }
}

/// Triples of tiles that are filled.
pub(crate) struct Prepared<'c> {
    cx: GpuContext<'c>,
    ops: Ops<'c>,
    of: Lanes,
    lanes: Vec<Lane>,
}

impl<'c> Prepared<'c> {
    /// Fills the tiles from [`Lanes::numbers`] random numbers of `T`.
    ///
    /// # Errors
    /// The driver's, e.g. where there is no room; so for all functions here.
    pub(crate) fn new<T: TileScalar>(
        cx: GpuContext<'c>,
        of: Lanes,
        numbers: Address,
    ) -> Result<Self, GpuError> {
        let ops = Ops::new(cx)?;
        let element = element_of::<T>();
        let window = |at: usize| {
            let from = (at * WINDOW_STEP) as u64 * element.bytes();
            let left = (of.numbers() as u64 * element.bytes()).saturating_sub(from);
            let (none, shape) = (Address::default(), (of.tile, of.tile));
            let values = View::new((numbers.offset(from), left), shape, of.tile, element)?;
            Ok(OnGpu { shape, storage: T::FORMAT, values, lo: none, scale: none, stays: false })
        };
        let (operand, result) = (of.precision.operand_format(), of.precision.output_format());
        let lane = |lane: usize| {
            let next = |which, format| stored(&ops, &window(3 * lane + which)?, format);
            Ok(Lane { a: next(0, operand)?, b: next(1, operand)?, c: next(2, result)? })
        };
        let lanes = (0..of.count).map(lane).collect::<Result<_, GpuError>>()?;
        Ok(Prepared { cx, ops, of, lanes })
    }

    fn each(&self, mut product: impl FnMut(&Lane) -> Result<(), Error>) -> Result<(), Error> {
        (0..self.of.rounds).flat_map(|_| &self.lanes).try_for_each(&mut product)
    }

    /// Times `C -= A B^T` as tasks do it.
    pub(crate) fn as_tasks_do(&self) -> Result<Stopwatch, Error> {
        let product =
            |lane: &Lane| multiply(&self.ops, self.of.precision, Op::Trans, &lane.a, &lane.b, &lane.c);
        self.timed(product)
    }

    /// Times the library's product of the same operands with factors that the host knows, and nothing else.
    pub(crate) fn plain(&self) -> Result<Stopwatch, Error> {
        let (tile, precision) = (self.of.tile, self.of.precision);
        let compute = compute_of(precision);
        let element = match compute {
            Compute::F64 => Element::F64,
            Compute::F16 => Element::F16,
            Compute::F32 | Compute::Tf32 => Element::F32,
        };
        // A result of another kind than C's would not fit there.
        let spare = self.ops.scratch_matrix((tile, tile), element)?;
        if element == Element::F32 {
            self.ops.launch(fill((tile, tile), 0.0, *spare))?;
        }
        let (op_a, op_b) = match precision {
            // The only way that 8-bit operands may lie.
            GemmPrecision::Fp8 => (Transpose::Yes, Transpose::No),
            _ => (Transpose::No, Transpose::Yes),
        };
        self.timed(|lane| {
            let c = if lane.c.values.element == element { lane.c.values } else { spare };
            let (a, b) = (lane.a.values, lane.b.values);
            Ok(self.ops.gemm(&Product { op_a, op_b, factors: DIFFERENCE, a, b, c, compute })?)
        })
    }

    /// Times one product of each lane and round; one more before them has libraries loaded.
    fn timed(&self, product: impl Fn(&Lane) -> Result<(), Error>) -> Result<Stopwatch, Error> {
        self.lanes.first().map_or(Ok(()), &product)?;
        let watch = Stopwatch::new(self.cx.driver(), self.cx.gpu())?;
        watch.time(self.cx.stream(), || self.each(&product))?;
        Ok(watch)
    }
}

/// A window in working space, in another format where that is not its own.
fn stored(ops: &Ops<'_>, window: &OnGpu, format: StorageFormat) -> Result<OnGpu, GpuError> {
    let element = element(format);
    let values = ops.scratch_matrix(window.shape, element)?;
    if format == window.storage {
        ops.launch(copy(window.shape, *window.values, *values))?;
        return Ok(OnGpu { values, ..*window });
    }
    let lo = match format {
        StorageFormat::F16x2 => ops.scratch_matrix(window.shape, element)?.at,
        _ => Address::default(),
    };
    let (shape, scale) = (window.shape, ops.scratch(4)?);
    let made = OnGpu { shape, storage: format, values, lo, scale, stays: false };
    narrow(ops, window, &made)?;
    Ok(made)
}

/// Times the library's factorisation of a random matrix of order `n` with `n` on its diagonal, made from `count` random numbers in (-1, 1) / 2.
pub(crate) fn whole_factor<T: TileScalar>(
    cx: GpuContext<'_>,
    n: usize,
    (numbers, count): (Address, usize),
    lost: impl FnOnce(i32) -> TaskError + Send + 'static,
) -> Result<Stopwatch, GpuError> {
    let (ops, element) = (Ops::new(cx)?, element_of::<T>());
    let (order, column) = (length(n)?, length(count)?);
    // Without gaps: it is filled as one column.
    let a = ops.scratch_columns((order, order), order.max(1), element)?;
    let block = |at, ld| Matrix { at, ld, element };
    for (from, rows) in stretches(n * n, column) {
        let at = a.at.offset(from as u64 * element.bytes());
        ops.launch(copy((rows, 1), block(numbers, rows), block(at, rows)))?;
    }
    // From one entry of the diagonal to the next it is a column and an entry.
    ops.launch(fill((1, order), n as f64, block(a.at, order + 1)))?;
    let watch = Stopwatch::new(cx.driver(), cx.gpu())?;
    let then = |info, _| if info == 0 { Ok(()) } else { Err(lost(info)) };
    watch.time(cx.stream(), || ops.potrf(a, then))?;
    Ok(watch)
}

/// The beginnings and lengths of stretches of at most `most` that make up so many entries, which may be more than 32 bits count.
fn stretches(entries: usize, most: u32) -> impl Iterator<Item = (usize, u32)> {
    let length = move |from| u32::try_from(entries - from).map_or(most, |left| left.min(most));
    (0..entries).step_by((most as usize).max(1)).map(move |from| (from, length(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_of_more_entries_than_32_bits_count_are_made_whole() {
        for (entries, most) in [(0, 7), (6, 7), (7, 7), (15, 7), (100_352 * 100_352, (1 << 22) - 3)] {
            let mut end = 0;
            for (from, length) in stretches(entries, most) {
                assert!(from == end && (1..=most).contains(&length), "{from} {length}");
                end += length as usize;
            }
            assert_eq!(end, entries);
        }
    }
}
