//! Sums of products of stored matrices with the numbers of sites.

use super::lanes::{Code, Lanes, ProductNumber, WithLanes};
use super::matrices::{REALS, place};
use super::{COMPONENTS, LANES, MatrixFormat, Real};

/// Matrices of one format, several of which are summed for each site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    pub(crate) format: MatrixFormat,
    pub(crate) hops: usize,
    pub(crate) step: f64,
    pub(super) unit: f64,
}

/// Rows of numbers for several columns: component `c` of column `k` begins at `k * column + c *
/// pitch`.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Distance from a component to the next.
    pub pitch: usize,
    /// Distance from a column to the next.
    pub column: usize,
}

/// Overwrites `y` with sums of products for a line of sites, eight at a time: `y_i = sum_g sum_h
/// a_ghi x_(starts[gh] + i)`, for each of `columns` columns.
///
/// `codes` are the matrices of eight sites after those of the eight before: of each group in turn,
/// `[hop][real][site]`. What belongs to sites beyond the end of a line has to be there, and is of
/// no consequence. A column has the bits that it has alone. `buffer` is working space that is kept
/// from call to call. `site` is the number of the first site, for numbers that have use for it
/// ([`ProductNumber::begin`]): their columns are multiplied one by one. Products of these are
/// compiled into the caller.
///
/// # Panics
/// If there are other `starts` than hops, or numbers beyond the ends.
#[inline(always)]
pub fn multiply_line<N: ProductNumber>(
    groups: &[Group],
    codes: &[f64],
    (x, of_x): (&[N], Rows),
    starts: &[usize],
    (y, of_y): (&mut [N], Rows),
    site: usize,
    columns: usize,
    buffer: &mut Vec<N::Plain>,
) {
    N::with_lanes(Line::new(groups, codes, (x, of_x), starts, (y, of_y), site, columns, buffer));
}

/// Overwrites `y` with the sums of [`multiply_line`] for `sites` sites and eight interleaved
/// columns, as returned by [`decode_columns`](super::decode_columns): `x` and `y` have 48 numbers
/// for each site, and `starts` count sites. The bits of a column do not depend on the others.
///
/// # Panics
/// If there are other `starts` than hops, or numbers beyond the ends.
pub fn multiply_columns<R: Real>(
    groups: &[Group],
    codes: &[f64],
    x: &[R],
    starts: &[usize],
    y: &mut [R],
    sites: usize,
    buffer: &mut Vec<R>,
) {
    check(groups, starts);
    buffer.resize(starts.len() * REALS * LANES, R::default());
    R::with_most_lanes(ColumnProduct {
        groups,
        codes,
        x,
        starts,
        y: &mut y[..sites * COMPONENTS * LANES],
        buffer,
    });
}

fn check(groups: &[Group], starts: &[usize]) {
    let hops = groups.iter().map(|group| group.hops).sum::<usize>();
    assert_eq!(starts.len(), hops, "a start for each hop");
}

/// The work of [`multiply_columns`].
struct ColumnProduct<'a, R> {
    groups: &'a [Group],
    codes: &'a [f64],
    x: &'a [R],
    starts: &'a [usize],
    y: &'a mut [R],
    buffer: &'a mut [R],
}

impl<R: Real> WithLanes<R> for ColumnProduct<'_, R> {
    #[inline(always)]
    fn call<L: Lanes<R>>(self, lanes: L) {
        let ColumnProduct { groups, codes, x, starts, y, buffer } = self;
        let words: usize = groups.iter().map(Group::words).sum();
        let of_eight = y.chunks_mut(LANES * COMPONENTS * LANES).zip(codes.chunks_exact(words));
        for (i, (y, codes)) in of_eight.enumerate() {
            let block = SiteBlock { groups, starts, codes, columns: LANES };
            block.decode(buffer);
            block.multiply_columns(lanes, buffer, &x[i * LANES * COMPONENTS * LANES..], y);
        }
    }
}

/// The work of [`multiply_line`].
pub(super) struct Line<'a, N: ProductNumber> {
    groups: &'a [Group],
    codes: &'a [f64],
    x: (&'a [N], Rows),
    starts: &'a [usize],
    y: (&'a mut [N], Rows),
    site: usize,
    columns: usize,
    buffer: &'a mut [N::Plain],
}

impl<'a, N: ProductNumber> Line<'a, N> {
    pub fn new(
        groups: &'a [Group],
        codes: &'a [f64],
        x: (&'a [N], Rows),
        starts: &'a [usize],
        y: (&'a mut [N], Rows),
        site: usize,
        columns: usize,
        buffer: &'a mut Vec<N::Plain>,
    ) -> Self {
        check(groups, starts);
        let numbers = starts.len() * REALS * LANES;
        let blocks = codes.len() / groups.iter().map(Group::words).sum::<usize>().max(1);
        buffer.resize(numbers * if columns == 1 { 1 } else { blocks }, N::Plain::default());
        Line { groups, codes, x, starts, y, site, columns, buffer }
    }
}

impl<N: ProductNumber> WithLanes<N> for Line<'_, N> {
    #[inline(always)]
    fn call<L: Lanes<N>>(self, lanes: L) {
        let Line { groups, codes, x: (x, of_x), starts, y: (y, of_y), site, columns, buffer } = self;
        let words: usize = groups.iter().map(Group::words).sum();
        let (blocks, numbers) = (codes.len() / words, starts.len() * REALS * LANES);
        // Matrices are decoded once for all columns: those of the line, or of eight sites for one
        // column, which stay in the first cache.
        let span = if columns == 1 { 1 } else { blocks.max(1) };
        for begin in (0..blocks).step_by(span) {
            let codes = &codes[begin * words..][..span * words];
            for (codes, buffer) in codes.chunks_exact(words).zip(buffer.chunks_exact_mut(numbers)) {
                SiteBlock { groups, starts, codes, columns }.decode(buffer);
            }
            for column in 0..columns {
                let (x, y) = (&x[column * of_x.column..], &mut y[column * of_y.column..]);
                for (i, codes) in codes.chunks_exact(words).enumerate() {
                    let (at, decoded) = ((begin + i) * LANES, &buffer[i * numbers..][..numbers]);
                    let block = SiteBlock { groups, starts, codes, columns };
                    let (x, y) = ((&x[at..], of_x.pitch), (&mut y[at..], of_y.pitch));
                    block.multiply(lanes, decoded, x, y, site + at);
                }
            }
        }
    }
}

/// The matrices of eight sites.
struct SiteBlock<'a> {
    groups: &'a [Group],
    starts: &'a [usize],
    codes: &'a [f64],
    columns: usize,
}

impl SiteBlock<'_> {
    /// Returns true for each format of numbers that products read from memory without decoding.
    #[inline(always)]
    fn is_direct<R: Real>(&self, group: &Group) -> [bool; 2] {
        let is_stored = |number| group.format == MatrixFormat::full(number);
        [is_stored(R::DIRECT[0]), is_stored(R::DIRECT[1]) && self.columns == 1]
    }

    /// Decodes the groups that products do not read directly.
    #[inline(always)]
    fn decode<R: Real>(&self, buffer: &mut [R]) {
        let (mut codes, mut rest) = (self.codes, buffer);
        for group in self.groups {
            let (own, others) = codes.split_at(group.words());
            let (matrices, behind) = rest.split_at_mut(group.hops * REALS * LANES);
            (codes, rest) = (others, behind);
            if self.is_direct::<R>(group) == [false; 2] {
                group.decode(own, matrices);
            }
        }
    }

    #[inline(always)]
    fn multiply<N: ProductNumber, L: Lanes<N>>(
        &self,
        lanes: L,
        decoded: &[N::Plain],
        x: (&[N], usize),
        y: (&mut [N], usize),
        site: usize,
    ) {
        let (mut codes, mut starts, mut decoded) = (self.codes, self.starts, decoded);
        for (g, group) in self.groups.iter().enumerate() {
            let (own, other_codes) = codes.split_at(group.words());
            let (hops, other_starts) = starts.split_at(group.hops);
            let (matrices, behind) = decoded.split_at(group.hops * REALS * LANES);
            (codes, starts, decoded) = (other_codes, other_starts, behind);
            let step = N::new(N::Plain::from_f64(group.step));
            let sums = Sums { hops, site, group: g, step };
            let y = (&mut *y.0, y.1);
            match self.is_direct::<N::Plain>(group) {
                [true, _] => sums.multiply::<L, N::Plain>(lanes, bytemuck::cast_slice(own), x, y),
                [_, true] => {
                    let codes = bytemuck::cast_slice(own);
                    sums.multiply::<L, <N::Plain as Real>::Fixed>(lanes, codes, x, y);
                }
                _ => {
                    let step = N::new(group.step_of_decoded());
                    Sums { step, ..sums }.multiply::<L, N::Plain>(lanes, matrices, x, y);
                }
            }
        }
    }
}

impl SiteBlock<'_> {
    /// Multiplies eight interleaved columns.
    #[inline(always)]
    fn multiply_columns<R: Real, L: Lanes<R>>(&self, lanes: L, decoded: &[R], x: &[R], y: &mut [R]) {
        let (mut codes, mut starts, mut decoded) = (self.codes, self.starts, decoded);
        for (g, group) in self.groups.iter().enumerate() {
            let (own, other_codes) = codes.split_at(group.words());
            let (hops, other_starts) = starts.split_at(group.hops);
            let (matrices, behind) = decoded.split_at(group.hops * REALS * LANES);
            (codes, starts, decoded) = (other_codes, other_starts, behind);
            let (step, matrices) = match self.is_direct::<R>(group) {
                [true, _] => (R::from_f64(group.step), bytemuck::cast_slice(own)),
                _ => (group.step_of_decoded(), matrices),
            };
            Sums { hops, site: 0, group: g, step }.columns(lanes, matrices, x, y);
        }
    }
}

/// The sums of a group.
struct Sums<'a, N> {
    hops: &'a [usize],
    /// The number of the first of eight sites.
    site: usize,
    group: usize,
    step: N,
}

impl<N: ProductNumber> Sums<'_, N> {
    #[inline(always)]
    fn multiply<L: Lanes<N>, C: Code<N::Plain>>(
        &self,
        lanes: L,
        codes: &[C],
        x: (&[N], usize),
        y: (&mut [N], usize),
    ) {
        let (matrices, _) = codes.as_chunks::<{ REALS * LANES }>();
        for first in (0..LANES).step_by(L::N) {
            N::begin(self.site + first, self.group);
            self.some(lanes, matrices, x, (&mut *y.0, y.1), first);
        }
    }

    /// The sites from `first` on: as many as there are lanes.
    #[inline(always)]
    fn some<L: Lanes<N>, C: Code<N::Plain>>(
        &self,
        lanes: L,
        matrices: &[[C; REALS * LANES]],
        (x, of_x): (&[N], usize),
        (y, of_y): (&mut [N], usize),
        first: usize,
    ) {
        let mut sums = [[lanes.zero(); 4]; 3];
        for (matrix, start) in matrices.iter().zip(self.hops) {
            if C::AHEAD > 0 {
                let begin = matrix.as_ptr().cast::<u8>().wrapping_add(C::AHEAD);
                (0..size_of_val(matrix)).step_by(64).for_each(|i| lanes.prefetch(begin.wrapping_add(i)));
            }
            let x = &x[start + first..];
            for j in 0..3 {
                let xr = lanes.load(&x[2 * j * of_x..]);
                let xi = lanes.load(&x[(2 * j + 1) * of_x..]);
                for (i, sums) in sums.iter_mut().enumerate() {
                    let real = place(i, j) * LANES + first;
                    let ar = C::load::<N, L>(lanes, &matrix[real..]);
                    let ai = C::load::<N, L>(lanes, &matrix[real + LANES..]);
                    add(lanes, sums, (ar, ai), (xr, xi));
                }
            }
        }
        self.put(lanes, &sums, (y, of_y), first);
    }

    /// Stores a sum, or adds it to those of the groups before.
    #[inline(always)]
    fn put<L: Lanes<N>>(&self, lanes: L, sums: &[[L::V; 4]; 3], (y, of_y): (&mut [N], usize), first: usize) {
        let step = lanes.splat(self.step);
        for c in 0..COMPONENTS {
            let y = &mut y[c * of_y + first..];
            let [rr, ii, ri, ir] = sums[c / 2];
            let sum = if c % 2 == 0 { lanes.plus(rr, ii) } else { lanes.plus(ri, ir) };
            let sum =
                if self.group == 0 { lanes.times(step, sum) } else { lanes.fused(step, sum, lanes.load(y)) };
            lanes.store(sum, y);
        }
    }
}

impl<R: Real> Sums<'_, R> {
    /// Eight columns of each site, as many at a time as there are lanes.
    #[inline(always)]
    fn columns<L: Lanes<R>>(&self, lanes: L, matrices: &[R], x: &[R], y: &mut [R]) {
        let (matrices, _) = matrices.as_chunks::<{ REALS * LANES }>();
        let ((x, _), (y, _)) =
            (x.as_chunks::<{ COMPONENTS * LANES }>(), y.as_chunks_mut::<{ COMPONENTS * LANES }>());
        for (site, y) in y.iter_mut().enumerate() {
            // The index is below eight, so that bounds checks are removed.
            let site = site % LANES;
            if L::N == 2 * LANES {
                self.both_parts(lanes, matrices, x, y, site);
                continue;
            }
            for first in (0..LANES).step_by(L::N) {
                let mut sums = [[lanes.zero(); 4]; 3];
                for (matrix, start) in matrices.iter().zip(self.hops) {
                    let x = &x[start + site];
                    for j in 0..3 {
                        let xr = lanes.load(&x[2 * j * LANES + first..]);
                        let xi = lanes.load(&x[(2 * j + 1) * LANES + first..]);
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let real = place(i, j) * LANES + site;
                            let (ar, ai) = (lanes.splat(matrix[real]), lanes.splat(matrix[real + LANES]));
                            add(lanes, sums, (ar, ai), (xr, xi));
                        }
                    }
                }
                self.put(lanes, &sums, (y, LANES), first);
            }
        }
    }

    /// Multiplies eight columns of a site. Real and imaginary parts of `x` are contiguous, in the
    /// same lanes.
    #[inline(always)]
    fn both_parts<L: Lanes<R>>(
        &self,
        lanes: L,
        matrices: &[[R; REALS * LANES]],
        x: &[[R; COMPONENTS * LANES]],
        y: &mut [R; COMPONENTS * LANES],
        site: usize,
    ) {
        let mut signs = [R::from_f64(1.0); 2 * LANES];
        signs[LANES..].fill(R::from_f64(-1.0));
        let (signs, mut sums) = (lanes.load(&signs), [[lanes.zero(); 2]; 3]);
        for (matrix, start) in matrices.iter().zip(self.hops) {
            for j in 0..3 {
                let x = lanes.load(&x[start + site][2 * j * LANES..]);
                let conjugate = lanes.times(signs, x);
                for (i, [of_re, of_im]) in sums.iter_mut().enumerate() {
                    let real = place(i, j) * LANES + site;
                    *of_re = lanes.fused(lanes.splat(matrix[real]), x, *of_re);
                    *of_im = lanes.fused(lanes.splat(matrix[real + LANES]), conjugate, *of_im);
                }
            }
        }
        let parts = |v: L::V| {
            let mut both = [R::default(); 2 * LANES];
            lanes.store(v, &mut both);
            both
        };
        for ([of_re, of_im], y) in sums.into_iter().zip(y.chunks_exact_mut(2 * LANES)) {
            let (of_re, of_im) = (parts(of_re), parts(of_im));
            for lane in 0..2 * LANES {
                let sum = of_re[lane] + of_im[(lane + LANES) % (2 * LANES)];
                y[lane] = if self.group == 0 { self.step * sum } else { self.step.fused(sum, y[lane]) };
            }
        }
    }
}

/// Adds a product of complex numbers. Products of real parts and those of imaginary parts are
/// summed apart: twelve sums of a site do not wait for each other.
#[inline(always)]
fn add<N: ProductNumber, L: Lanes<N>>(
    lanes: L,
    [rr, ii, ri, ir]: &mut [L::V; 4],
    (ar, ai): (L::V, L::V),
    (xr, xi): (L::V, L::V),
) {
    *rr = lanes.fused(ar, xr, *rr);
    *ri = lanes.fused(ar, xi, *ri);
    *ii = lanes.fused_negative(ai, xi, *ii);
    *ir = lanes.fused(ai, xr, *ir);
}
