//! Numbers that slabs are multiplied in: `f32` and `f64`, and stochastic numbers.

use std::ops::Range;

use zellige_kernels::sites::{
    COMPONENTS, Group, ProductNumber, Real, Rows, SiteFormat, decode_columns, decode_sites, encode_columns,
    encode_sites, multiply_columns, multiply_line,
};
use zellige_stochastic::{Samples, Stochastic, element, vectorize};

use super::layout::{Layout, SITE};
use crate::geometry::SPINS;

/// Number of a product, with the storage of its vectors.
pub(super) trait SlabNumber: ProductNumber {
    /// A word of a stored vector.
    type Word;

    /// Decodes sites of the columns of a layout to position `at` of rows.
    fn decode(
        layout: &Layout,
        format: SiteFormat,
        words: (&[Self::Word], usize),
        sites: Range<usize>,
        at: usize,
        rows: (&mut [Self], Rows),
    );

    /// Stores a line of results.
    fn encode(
        layout: &Layout,
        format: SiteFormat,
        results: &[Self],
        words: (&mut [Self::Word], usize),
        sites: Range<usize>,
    );

    /// Sums the products for a line, whose first site has the index `site` within its parity.
    fn multiply(
        layout: &Layout,
        links: (&[Group], &[f64]),
        x: &[Self],
        starts: &[usize],
        y: &mut [Self],
        site: usize,
        matrices: &mut Vec<Self::Plain>,
    );
}

impl<R: Real> SlabNumber for R {
    type Word = f64;

    fn decode(
        layout: &Layout,
        format: SiteFormat,
        (words, all): (&[f64], usize),
        sites: Range<usize>,
        at: usize,
        (rows, of_rows): (&mut [R], Rows),
    ) {
        if layout.across {
            let rows = &mut rows[at * SITE..];
            return decode_columns(format, words, (all, layout.columns.start), sites, rows);
        }
        if layout.spins == SPINS {
            let from = (words, (all, layout.columns.start));
            return decode_spins(format, from, sites, at, (rows, of_rows));
        }
        for (k, column) in layout.columns.clone().enumerate() {
            let rows = &mut rows[k * of_rows.column + at..];
            decode_sites(format, words, (all, column), sites.clone(), rows, of_rows.pitch);
        }
    }

    fn encode(
        layout: &Layout,
        format: SiteFormat,
        results: &[R],
        (words, all): (&mut [f64], usize),
        sites: Range<usize>,
    ) {
        if layout.across {
            return encode_columns(format, results, words, (all, layout.columns.start), sites);
        }
        if layout.spins == SPINS {
            let to = (words, (all, layout.columns.start));
            return encode_spins(format, (results, layout.y), to, sites);
        }
        for (rows, column) in results.chunks_exact(layout.y.column).zip(layout.columns.clone()) {
            encode_sites(format, rows, layout.y.pitch, words, (all, column), sites.clone());
        }
    }

    fn multiply(
        layout: &Layout,
        (groups, codes): (&[Group], &[f64]),
        x: &[R],
        starts: &[usize],
        y: &mut [R],
        site: usize,
        matrices: &mut Vec<R>,
    ) {
        if layout.across {
            return multiply_columns(groups, codes, x, starts, y, layout.line, matrices);
        }
        let (from, columns) =
            if layout.spins == 1 { (layout.x, layout.columns.len()) } else { (layout.y, SPINS) };
        multiply_line(groups, codes, (x, from), starts, (y, layout.y), site, columns, matrices);
    }
}

/// Number of sites whose spins are moved at a time.
const AT_ONCE: usize = 16;
/// Components of these spins: `[component][site][spin]`, as records of a column are stored.
type OfSpins<R> = [R; COMPONENTS * SPINS * AT_ONCE];

/// Decodes sites of a column to position `at` of the rows of each spin.
fn decode_spins<R: Real>(
    format: SiteFormat,
    (words, column): (&[f64], (usize, usize)),
    sites: Range<usize>,
    at: usize,
    (rows, of_rows): (&mut [R], Rows),
) {
    let mut records: OfSpins<R> = [R::default(); _];
    for first in sites.clone().step_by(AT_ONCE) {
        let last = sites.end.min(first + AT_ONCE);
        let pitch = SPINS * (last - first);
        decode_sites(format, words, column, SPINS * first..SPINS * last, &mut records, pitch);
        for (c, records) in records.chunks_exact(pitch).take(COMPONENTS).enumerate() {
            let begin = c * of_rows.pitch + at + first - sites.start;
            for spin in 0..SPINS {
                let row = &mut rows[spin * of_rows.column + begin..][..last - first];
                row.iter_mut().zip(records.as_chunks::<SPINS>().0).for_each(|(x, site)| *x = site[spin]);
            }
        }
    }
}

/// Stores sites of a column from the rows of each spin.
fn encode_spins<R: Real>(
    format: SiteFormat,
    (rows, of_rows): (&[R], Rows),
    (words, column): (&mut [f64], (usize, usize)),
    sites: Range<usize>,
) {
    let mut records: OfSpins<R> = [R::default(); _];
    for first in sites.clone().step_by(AT_ONCE) {
        let last = sites.end.min(first + AT_ONCE);
        let pitch = SPINS * (last - first);
        for (c, records) in records.chunks_exact_mut(pitch).take(COMPONENTS).enumerate() {
            let begin = c * of_rows.pitch + first - sites.start;
            for spin in 0..SPINS {
                let row = &rows[spin * of_rows.column + begin..][..last - first];
                records.as_chunks_mut::<SPINS>().0.iter_mut().zip(row).for_each(|(site, x)| site[spin] = *x);
            }
        }
        encode_sites(format, &records, pitch, words, column, SPINS * first..SPINS * last);
    }
}

/// A stochastic number in products. Vectors have one column, and are six numbers for each site.
#[derive(Clone, Copy)]
pub(super) struct RoundedNumber<S: Samples>(Stochastic<f64, S>);

impl<S: Samples> Default for RoundedNumber<S> {
    fn default() -> Self {
        RoundedNumber(Stochastic::default())
    }
}

impl<S: Samples> ProductNumber for RoundedNumber<S> {
    type Plain = f64;

    #[inline(always)]
    fn new(x: f64) -> Self {
        RoundedNumber(Stochastic::new(x))
    }

    #[inline(always)]
    #[track_caller]
    fn plus(self, b: Self) -> Self {
        RoundedNumber(self.0 + b.0)
    }

    #[inline(always)]
    #[track_caller]
    fn times(self, b: Self) -> Self {
        RoundedNumber(self.0 * b.0)
    }

    #[inline(always)]
    fn negative(self) -> Self {
        RoundedNumber(-self.0)
    }

    #[inline(always)]
    #[track_caller]
    fn fused(self, a: Self, b: Self) -> Self {
        RoundedNumber(self.0.mul_add(a.0, b.0))
    }

    /// Elements are keyed by site: the sums of fat links, those of long links, and the rest.
    #[inline(always)]
    fn begin(site: usize, group: usize) {
        element((3 * site + group) as u64);
    }
}

impl<S: Samples> SlabNumber for RoundedNumber<S> {
    type Word = Stochastic<f64, S>;

    fn decode(
        _: &Layout,
        _: SiteFormat,
        (words, _): (&[Self::Word], usize),
        sites: Range<usize>,
        at: usize,
        (rows, of_rows): (&mut [Self], Rows),
    ) {
        for (i, site) in sites.enumerate() {
            for c in 0..COMPONENTS {
                rows[c * of_rows.pitch + at + i] = RoundedNumber(words[COMPONENTS * site + c]);
            }
        }
    }

    fn encode(
        layout: &Layout,
        _: SiteFormat,
        results: &[Self],
        (words, _): (&mut [Self::Word], usize),
        sites: Range<usize>,
    ) {
        for (i, site) in sites.enumerate() {
            for c in 0..COMPONENTS {
                words[COMPONENTS * site + c] = results[c * layout.y.pitch + i].0;
            }
        }
    }

    fn multiply(
        layout: &Layout,
        (groups, codes): (&[Group], &[f64]),
        x: &[Self],
        starts: &[usize],
        y: &mut [Self],
        site: usize,
        matrices: &mut Vec<f64>,
    ) {
        vectorize(
            #[inline(always)]
            || {
                let (x, y) = ((x, layout.x), (&mut *y, layout.y));
                multiply_line(groups, codes, x, starts, y, site, 1, matrices);
            },
        );
    }
}
