//! Sums of products of stored matrices with the numbers of sites.

use pulp::NullaryFnOnce;

use super::lanes::{Code, Lanes, One};
use super::matrices::REALS;
use super::{COMPONENTS, LANES, MatrixFormat, Real};

/// Matrices of one format of which some are summed for each site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    pub(super) format: MatrixFormat,
    pub(super) hops: usize,
    pub(super) step: f64,
    pub(super) unit: f64,
}

/// Rows of numbers for several columns: component `c` of column `k` begins at `k * column + c * pitch`.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// From a component to the next.
    pub pitch: usize,
    /// From a column to the next.
    pub column: usize,
}

/// Overwrites `y` with sums of products for a line of sites, eight at a time: `y_i = sum_g sum_h a_ghi x_(starts[gh] + i)`, for each of `columns` columns.
///
/// `codes` are the matrices of eight sites after those of the eight before: of each group in turn, `[hop][real][site]`. What belongs to sites beyond
/// the end of a line has to be there, and is of no consequence. A column has the bits that it has alone. `buffer` is working space that is kept from call to call.
///
/// # Panics
/// If there are other `starts` than hops, or numbers beyond the ends.
pub fn multiply_line<R: Real>(
    groups: &[Group],
    codes: &[f64],
    (x, of_x): (&[R], Rows),
    starts: &[usize],
    (y, of_y): (&mut [R], Rows),
    columns: usize,
    buffer: &mut Vec<R>,
) {
    multiply_by(R::wide(), groups, codes, (x, of_x), starts, (y, of_y), columns, buffer);
}

/// The same, with these lanes, or one number at a time.
pub(super) fn multiply_by<R: Real, L: Lanes<R>>(
    lanes: Option<L>,
    groups: &[Group],
    codes: &[f64],
    x: (&[R], Rows),
    starts: &[usize],
    y: (&mut [R], Rows),
    columns: usize,
    buffer: &mut Vec<R>,
) {
    assert_eq!(starts.len(), groups.iter().map(|group| group.hops).sum::<usize>(), "a start for each hop");
    buffer.resize(groups.iter().map(|group| group.hops).max().unwrap_or(0) * REALS * LANES, R::default());
    match lanes {
        Some(lanes) => lanes.run(Line { lanes, groups, codes, x, starts, y, columns, buffer }),
        None => Lanes::<R>::run(One, Line { lanes: One, groups, codes, x, starts, y, columns, buffer }),
    }
}

struct Line<'a, R, L> {
    lanes: L,
    groups: &'a [Group],
    codes: &'a [f64],
    x: (&'a [R], Rows),
    starts: &'a [usize],
    y: (&'a mut [R], Rows),
    columns: usize,
    buffer: &'a mut [R],
}

impl<R: Real, L: Lanes<R>> NullaryFnOnce for Line<'_, R, L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Line { lanes, groups, codes, x: (x, of_x), starts, y: (y, of_y), columns, buffer } = self;
        let words: usize = groups.iter().map(Group::words).sum();
        for (block, codes) in codes.chunks_exact(words).enumerate() {
            let (mut codes, mut starts) = (codes, starts);
            for (g, group) in groups.iter().enumerate() {
                let (own, rest) = codes.split_at(group.words());
                let (hops, others) = starts.split_at(group.hops);
                (codes, starts) = (rest, others);
                let places = Places { hops, at: block * LANES, of_x, of_y, is_first: g == 0 };
                let is_direct = |number| group.format == MatrixFormat::full(number);
                let step = R::from_f64(group.step);
                if is_direct(R::DIRECT[0]) {
                    places.columns::<R, L, R>(lanes, bytemuck::cast_slice(own), step, x, y, columns);
                } else if is_direct(R::DIRECT[1]) && columns == 1 {
                    places.columns::<R, L, R::Fixed>(lanes, bytemuck::cast_slice(own), step, x, y, columns);
                } else {
                    let buffer = &mut buffer[..group.hops * REALS * LANES];
                    let step = group.decode(own, buffer);
                    places.columns::<R, L, R>(lanes, buffer, step, x, y, columns);
                }
            }
        }
    }
}

/// Where eight sites and their neighbours are.
struct Places<'a> {
    hops: &'a [usize],
    at: usize,
    of_x: Rows,
    of_y: Rows,
    is_first: bool,
}

impl Places<'_> {
    #[inline(always)]
    fn columns<R: Real, L: Lanes<R>, C: Code<R>>(
        &self,
        lanes: L,
        codes: &[C],
        step: R,
        x: &[R],
        y: &mut [R],
        columns: usize,
    ) {
        let (matrices, _) = codes.as_chunks::<{ REALS * LANES }>();
        for column in 0..columns {
            let (x, y) = (&x[column * self.of_x.column..], &mut y[column * self.of_y.column..]);
            for first in (0..LANES).step_by(L::N) {
                self.multiply(lanes, matrices, step, x, y, first);
            }
        }
    }

    /// The sites from `first` on: as many as there are lanes.
    #[inline(always)]
    fn multiply<R: Real, L: Lanes<R>, C: Code<R>>(
        &self,
        lanes: L,
        matrices: &[[C; REALS * LANES]],
        step: R,
        x: &[R],
        y: &mut [R],
        first: usize,
    ) {
        let mut re = [lanes.zero(); 3];
        let mut im = [lanes.zero(); 3];
        for (matrix, start) in matrices.iter().zip(self.hops) {
            let x = &x[start + self.at + first..];
            let part = |c: usize| lanes.load(&x[c * self.of_x.pitch..]);
            let xr = [part(0), part(2), part(4)];
            let xi = [part(1), part(3), part(5)];
            for i in 0..3 {
                for j in 0..3 {
                    let real = (3 * i + j) * 2 * LANES + first;
                    let ar = C::load(lanes, &matrix[real..]);
                    let ai = C::load(lanes, &matrix[real + LANES..]);
                    re[i] = lanes.fused(ar, xr[j], re[i]);
                    im[i] = lanes.fused(ar, xi[j], im[i]);
                    re[i] = lanes.fused_negative(ai, xi[j], re[i]);
                    im[i] = lanes.fused(ai, xr[j], im[i]);
                }
            }
        }
        let step = lanes.splat(step);
        for c in 0..COMPONENTS {
            let y = &mut y[c * self.of_y.pitch + self.at + first..];
            let sum = if c % 2 == 0 { re[c / 2] } else { im[c / 2] };
            let sum =
                if self.is_first { lanes.times(step, sum) } else { lanes.fused(step, sum, lanes.load(y)) };
            lanes.store(sum, y);
        }
    }
}
