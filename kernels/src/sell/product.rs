//! Products with panels. The code here is portable; `x86` has faster traversals of a section that
//! give the same bits.

use super::bytes::{SectionHead, TileHead, take};
use super::portable::any_section;
use super::{Bucket, LANES, Panel};
use crate::error::check_shape;
use crate::packed::code;
use crate::{KernelError, RealNumber};

/// Largest number of vectors that are multiplied together.
const MOST: usize = 8;
/// Vectors of more bytes are in no cache by the time they are read again (16 MiB).
const CACHE: usize = 1 << 24;
/// Most rows of numbers in a tile.
const ROWS: usize = 288;

/// `value * 2^exponent`, of any exponent.
pub(super) fn times_power_of_two(value: f64, exponent: i32) -> f64 {
    if (-1022..=1023).contains(&exponent) {
        return value * code::power_of_two(exponent);
    }
    // Two factors that are numbers; the first product of a sum of scaled elements is exact.
    let first = (exponent / 2).clamp(-1022, 1023);
    value * code::power_of_two(first) * code::power_of_two((exponent - first).clamp(-1022, 1023))
}

/// Arguments of the traversal of a section. `B` is the block size of elements, `K` the number of
/// vectors.
#[derive(Clone, Copy)]
pub(super) struct SectionArgs<'a, R = f64> {
    /// Bytes from the first group to the end of the panel.
    pub bytes: &'a [u8],
    pub head: SectionHead,
    pub tile: TileHead,
    /// Number of the first group as an [element](RealNumber::begin): that of another panel of the
    /// matrix, too.
    pub element: u64,
    pub bucket: Bucket,
    /// The window; `K` numbers for each column.
    pub x: &'a [R],
    /// Numbers of `x` that later tiles read first, to be prefetched.
    pub next: &'a [R],
}

/// A traversal of the groups of a section. It adds to the sums of the tile's rows, and returns the
/// number of bytes.
pub(super) trait Traversal<R: RealNumber = f64> {
    /// Asks for numbers that will be needed soon.
    fn fetch(_: &[R]) {}

    /// `y = factor * sums`, and zeros in place of the sums. A `y` that `streams` is not read soon.
    fn finish(sums: &mut [R], factor: f64, y: &mut [R], _streams: bool) {
        multiply_and_clear(sums, factor, y);
    }

    /// Makes non-temporal stores visible to other threads.
    fn fence() {}

    fn section<const B: usize, const K: usize>(section: &SectionArgs<'_, R>, sums: &mut [R]) -> usize;
}

/// Portable implementation, for any numbers.
pub(super) struct Portable;

impl<R: RealNumber> Traversal<R> for Portable {
    fn section<const B: usize, const K: usize>(section: &SectionArgs<'_, R>, sums: &mut [R]) -> usize {
        R::vectorize(
            #[inline(always)]
            || any_section::<R, B, K, 4>(section, sums, |_| ()),
        )
    }
}

/// Input of a panel's product: `x` from column `first` on, with `K` numbers for each column.
#[derive(Clone, Copy)]
pub(super) struct Part<'a, R = f64> {
    pub first: usize,
    pub x: &'a [R],
}

/// Multiplies with a part of `x` that has all columns that the panel reads.
pub(super) fn multiply(
    panel: &Panel,
    count: usize,
    part: Part<'_>,
    y: &mut [f64],
) -> Result<(), KernelError> {
    check(panel, count, part, y)?;
    #[cfg(target_arch = "x86_64")]
    {
        use super::x86::{Avx2, Avx512};
        if Avx512::is_here() {
            multiply_by::<Avx512>(panel, count, part, y);
            return Ok(());
        }
        if Avx2::is_here() {
            multiply_by::<Avx2>(panel, count, part, y);
            return Ok(());
        }
    }
    multiply_by::<Portable>(panel, count, part, y);
    Ok(())
}

/// Multiplies a vector of any numbers.
pub(super) fn multiply_as<R: RealNumber>(
    panel: &Panel,
    part: Part<'_, R>,
    y: &mut [R],
) -> Result<(), KernelError> {
    check(panel, 1, part, y)?;
    match panel.head.edge {
        1 => walk::<R, Portable, 1, 1>(panel, part, y),
        2 => walk::<R, Portable, 2, 1>(panel, part, y),
        3 => walk::<R, Portable, 3, 1>(panel, part, y),
        _ => walk::<R, Portable, 4, 1>(panel, part, y),
    }
    Ok(())
}

fn check<R>(panel: &Panel, count: usize, part: Part<'_, R>, y: &[R]) -> Result<(), KernelError> {
    let rows = panel.head.row_count;
    let known = count.clamp(1, MOST);
    check_shape("multiply", "count of vectors", (count, 1), (known, 1))?;
    let (columns, here) = (panel.columns(), part.first..part.first + part.x.len() / known);
    if !columns.is_empty() && (columns.start < here.start || columns.end > here.end) {
        check_shape("multiply", "columns of x", (here.start, here.end), (columns.start, columns.end))?;
    }
    check_shape("multiply", "y", (y.len(), 1), (rows.saturating_mul(count), 1))
}

/// Multiplies with the implementation `W`; sizes have been checked.
pub(super) fn multiply_by<W: Traversal>(panel: &Panel, count: usize, part: Part<'_>, y: &mut [f64]) {
    macro_rules! of {
        ($($b:literal)*) => {
            match (panel.head.edge, count) {
                $(
                    ($b, 1) => walk::<f64, W, $b, 1>(panel, part, y),
                    ($b, 2) => walk::<f64, W, $b, 2>(panel, part, y),
                    ($b, 3) => walk::<f64, W, $b, 3>(panel, part, y),
                    ($b, 4) => walk::<f64, W, $b, 4>(panel, part, y),
                    ($b, 5) => walk::<f64, W, $b, 5>(panel, part, y),
                    ($b, 6) => walk::<f64, W, $b, 6>(panel, part, y),
                    ($b, 7) => walk::<f64, W, $b, 7>(panel, part, y),
                    ($b, _) => walk::<f64, W, $b, MOST>(panel, part, y),
                )*
                _ => unreachable!("panels have an edge of 1 to 4"),
            }
        };
    }
    of!(1 2 3 4)
}

/// Sums of a tile's rows, aligned to a page. The position of a stack differs from run to run, and
/// with it the time of a product (by a third), because of the cache lines that an access touches
/// and of addresses that alias those of `y`.
#[repr(align(4096))]
struct TileSums<R, const K: usize>([[R; K]; ROWS]);

/// Message of failures that cannot happen, because every panel has been checked.
pub(super) const CHECKED: &str = "panels are checked";

fn walk<R: RealNumber, W: Traversal<R>, const B: usize, const K: usize>(
    panel: &Panel,
    part: Part<'_, R>,
    y: &mut [R],
) {
    let (bytes, head) = (&panel.bytes[..], &panel.head);
    let mut sums = TileSums([[R::from(0.0); K]; ROWS]);
    let (mut at, mut row, mut y) = (head.len(), head.first_row, y);
    let streams = size_of_val(part.x) > CACHE;
    for _ in 0..head.tiles {
        let tile = TileHead::read(bytes, &mut at).expect(CHECKED);
        let rows = tile.rows * B;
        let exponents = &bytes[at..at + if tile.has_exponents { 2 * rows } else { 0 }];
        at += exponents.len();
        let sums = &mut sums.0.as_flattened_mut()[..tile.rows.next_multiple_of(LANES) * B * K];
        // A tile that reads nothing may begin anywhere.
        let first = if tile.window == 0 { 0 } else { tile.base * B - part.first };
        let (before, after) = part.x.split_at((first + tile.window * B) * K);
        let x = &before[first * K..];
        // If windows move on with the rows, each tile reads as many new columns as it has rows. The
        // columns of the tile after the next are prefetched now.
        let [begin, end] = [1, 2].map(|tiles| after.len().min(tiles * rows * K));
        let mut next = &after[begin..end];
        if streams {
            // The next tile shares its last line: that cannot be written past the caches.
            W::fetch(&y[..rows * K][(rows * K).saturating_sub(1)..]);
        }
        for section in 0..tile.sections {
            let element = ((row as u64) << 8 | section as u64) << 16;
            let head = SectionHead::read(bytes, &mut at).expect(CHECKED);
            let bucket = panel.head.buckets[head.bucket];
            let section = SectionArgs { bytes: &bytes[at..], head, tile, element, bucket, x, next };
            at += W::section::<B, K>(&section, sums);
            next = &[];
        }
        row += rows;
        let (rows, rest) = y.split_at_mut(rows * K);
        let (sums, of_no_row) = sums.split_at_mut(rows.len());
        of_no_row.fill(0.0.into());
        finish::<R, W, K>(sums, head.exponent, exponents, streams, rows);
        y = rest;
    }
    W::fence();
}

/// `y = factor * sums`, and zeros in place of the sums.
#[inline(always)]
pub(super) fn multiply_and_clear<R: RealNumber>(sums: &mut [R], factor: f64, y: &mut [R]) {
    y.iter_mut().zip(sums).for_each(|(y, sum)| *y = std::mem::take(sum).exactly(|sum| sum * factor));
}

/// Sums to `y`, with the powers of two of the panel and of the rows; zeros in their place.
fn finish<R: RealNumber, W: Traversal<R>, const K: usize>(
    sums: &mut [R],
    exponent: i32,
    exponents: &[u8],
    streams: bool,
    y: &mut [R],
) {
    if exponents.is_empty() && (-1022..=1023).contains(&exponent) {
        let factor = code::power_of_two(exponent);
        return W::finish(sums, factor, y, streams);
    }
    let mut at = 0;
    for (y, sums) in y.chunks_exact_mut(K).zip(sums.chunks_exact_mut(K)) {
        let of_row = take(exponents, &mut at).map_or(0, i16::from_le_bytes);
        for (y, sum) in y.iter_mut().zip(sums) {
            let exponent = exponent + i32::from(of_row);
            *y = std::mem::take(sum).exactly(|sum| times_power_of_two(sum, exponent));
        }
    }
}
