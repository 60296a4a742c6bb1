//! Numbers that slabs are multiplied in: `f32` and `f64`, and stochastic numbers.

use std::ops::Range;

use zellige_kernels::sites::{
    COMPONENTS, Group, ProductNumber, Real, Rows, SiteFormat, decode_columns, decode_sites, encode_columns,
    encode_sites, multiply_columns, multiply_line,
};
use zellige_stochastic::{Samples, Stochastic, element, vectorize};

use super::layout::{Layout, SITE};

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
        let columns = layout.columns.len();
        multiply_line(groups, codes, (x, layout.x), starts, (y, layout.y), site, columns, matrices);
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
