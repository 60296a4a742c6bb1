//! Arithmetic of the task of a slab.

use std::ops::Range;

use zellige_kernels::sites::{
    COMPONENTS, Group, LANES, Real, Rows, SiteFormat, decode_columns, decode_sites, encode_columns,
    encode_sites, multiply_columns, multiply_line,
};

use crate::geometry::{DIRECTIONS, Geometry, Parity, T};

/// Number of padding sites on each side of a line, for its neighbours.
const BESIDE: usize = 2;
/// Number of decoded planes in z that are kept if a time slice has more: a plane and three on each
/// side, which fit a cache along with their links.
const PLANES: usize = 8;
/// Number of columns in a block, for the same reason, if eight sites are interleaved.
const COLUMNS: usize = 4;
/// Numbers of a site if eight columns are interleaved.
const SITE: usize = COMPONENTS * LANES;

/// A vector as seen by a task: its parts and their format.
pub(super) struct Stored<'v> {
    pub format: SiteFormat,
    pub parts: Vec<&'v [f64]>,
}

/// Parameters that are constant over calls.
pub(super) struct Slab {
    pub geometry: Geometry,
    pub to: Parity,
    pub groups: Vec<Group>,
    /// Number of words for the links of a line.
    pub words: usize,
    /// Indices of the given slabs.
    pub needed: Vec<usize>,
    pub columns: usize,
    pub factor: f64,
    pub diagonal: f64,
}

/// Working space of a worker, which stays in its caches. It holds planes of a time slice, padded
/// around each line, a line of each of the neighbouring slices, and a line of results.
#[derive(Default)]
pub(super) struct Buffers<R> {
    x: Vec<R>,
    y: Vec<R>,
    own: Vec<R>,
    matrices: Vec<R>,
}

impl<R> Buffers<R> {
    pub const fn new() -> Self {
        Buffers { x: Vec::new(), y: Vec::new(), own: Vec::new(), matrices: Vec::new() }
    }
}

impl<R: Real> Buffers<R> {
    /// Allocates the space for a layout.
    fn fit(&mut self, layout: &Layout) {
        let sizes = match layout.across {
            true => [layout.x.column * SITE, layout.line * SITE],
            false => [layout.x.column, layout.y.column].map(|numbers| numbers * layout.columns.len()),
        };
        self.x.resize(sizes[0], R::default());
        for results in [&mut self.y, &mut self.own] {
            results.resize(sizes[1], R::default());
        }
    }
}

impl Slab {
    /// Returns the hops in each direction.
    fn hops(&self) -> &'static [usize] {
        if self.groups.len() == 1 { &[1] } else { &[1, 3] }
    }

    /// Returns the words of a vector, and the index of the first site of a slice in them.
    fn slice<'v>(&self, from: &Stored<'v>, t: usize) -> (&'v [f64], usize) {
        let slab = self.geometry.slab();
        let part = self.needed.binary_search(&(t / slab)).expect("a slab that is needed");
        (from.parts[part], t % slab * self.geometry.slice())
    }

    /// Multiplies the slices of a slab.
    pub fn multiply<R: Real>(
        &self,
        slices: Range<usize>,
        links: &[f64],
        from: &Stored<'_>,
        own: Option<&Stored<'_>>,
        (format, y): (SiteFormat, &mut [f64]),
        buffers: &mut Buffers<R>,
    ) {
        let [_, ny, nz, _] = self.geometry.extents();
        let line = self.geometry.line();
        for (i, t) in slices.enumerate() {
            for columns in self.shares() {
                let layout = self.layout(columns);
                buffers.fit(&layout);
                for z in 0..nz {
                    self.decode_planes(from, (t, z), &layout, &mut buffers.x);
                    for l in z * ny..(z + 1) * ny {
                        self.decode_lines_in_time(from, (t, l), &layout, &mut buffers.x);
                        let of_slab = i * ny * nz + l;
                        let codes = &links[of_slab * self.words..][..self.words];
                        self.multiply_line(codes, (t, l), &layout, buffers);
                        let sites = of_slab * line..(of_slab + 1) * line;
                        self.combine(own, sites.clone(), &layout, buffers);
                        layout.encode(format, &buffers.y, (y, self.columns), sites);
                    }
                }
            }
        }
    }

    /// Returns the blocks of columns: eight interleaved ones each, then blocks of the remaining
    /// columns.
    fn shares(&self) -> impl Iterator<Item = Range<usize>> {
        let (side_by_side, all) = (self.columns / LANES * LANES, self.columns);
        let one_by_one =
            (side_by_side..all).step_by(COLUMNS).map(move |begin| begin..all.min(begin + COLUMNS));
        (0..side_by_side).step_by(LANES).map(|begin| begin..begin + LANES).chain(one_by_one)
    }

    /// Returns the layout of numbers in the working space.
    fn layout(&self, columns: Range<usize>) -> Layout {
        let [_, ny, nz, _] = self.geometry.extents();
        let across = columns.len() == LANES;
        let line = self.geometry.line();
        let padded = if across { line } else { line.next_multiple_of(LANES) };
        let pitch = padded + 2 * BESIDE;
        let of_line = if across { pitch } else { COMPONENTS * pitch };
        let planes = nz.min(PLANES);
        let around = planes * ny * of_line;
        let column = around + 2 * self.hops().len() * of_line;
        Layout {
            across,
            columns,
            line,
            of_line,
            x: Rows { pitch, column },
            y: Rows { pitch: padded, column: COMPONENTS * padded },
            planes,
            around,
        }
    }

    /// Sums the products for a line.
    fn multiply_line<R: Real>(
        &self,
        codes: &[f64],
        at: (usize, usize),
        layout: &Layout,
        buffers: &mut Buffers<R>,
    ) {
        let Buffers { x, y, matrices, .. } = buffers;
        let starts = self.starts(at, layout);
        let starts = &starts[..2 * DIRECTIONS * self.hops().len()];
        if layout.across {
            return multiply_columns(&self.groups, codes, x, starts, y, layout.line, matrices);
        }
        let columns = layout.columns.len();
        multiply_line(&self.groups, codes, (x, layout.x), starts, (y, layout.y), columns, matrices);
    }

    /// Multiplies a line by the factor, and adds the term of the vector on the output sites.
    fn combine<R: Real>(
        &self,
        own: Option<&Stored<'_>>,
        sites: Range<usize>,
        layout: &Layout,
        buffers: &mut Buffers<R>,
    ) {
        let (factor, diagonal) = (R::from_f64(self.factor), R::from_f64(self.diagonal));
        let Buffers { y, own: z, .. } = buffers;
        let Some(own) = own else { return y.iter_mut().for_each(|y| *y = *y * factor) };
        let (words, all) = (own.parts[0], self.columns);
        if layout.across {
            decode_columns(own.format, words, (all, layout.columns.start), sites, z);
        } else {
            let columns = z.chunks_exact_mut(layout.y.column).zip(layout.columns.clone());
            for (z, column) in columns {
                decode_sites(own.format, words, (all, column), sites.clone(), z, layout.y.pitch);
            }
        }
        y.iter_mut().zip(z).for_each(|(y, z)| *y = *z * diagonal + *y * factor);
    }

    /// Decodes the planes of a time slice that plane `z` is the first to need, and the padding of
    /// each line.
    fn decode_planes<R: Real>(
        &self,
        from: &Stored<'_>,
        (t, z): (usize, usize),
        layout: &Layout,
        x: &mut [R],
    ) {
        let [_, ny, nz, _] = self.geometry.extents();
        let far = self.hops()[self.hops().len() - 1];
        // The planes start at `far` planes below the first one.
        let new = match (layout.planes == nz, z) {
            (true, 0) => far..far + nz,
            (true, _) => 0..0,
            (false, 0) => 0..2 * far + 1,
            (false, _) => z + 2 * far..z + 2 * far + 1,
        };
        let (words, first) = self.slice(from, t);
        for plane in new {
            let (z, place) = ((plane + nz - far) % nz, layout.place(plane + nz - far, nz));
            for y in 0..ny {
                let begin = first + (z * ny + y) * layout.line;
                let at = (place * ny + y) * layout.of_line;
                layout.decode(from.format, (words, self.columns), begin, at, x);
                layout.wrap(at, x);
            }
        }
    }

    /// Decodes the lines at the position of line `l` in the neighbouring slices.
    fn decode_lines_in_time<R: Real>(
        &self,
        from: &Stored<'_>,
        (t, l): (usize, usize),
        layout: &Layout,
        x: &mut [R],
    ) {
        let nt = self.geometry.extents()[T];
        let around = self.hops().iter().flat_map(|&n| [(t + n) % nt, (t + nt - n) % nt]);
        for (side, t) in around.enumerate() {
            let (words, first) = self.slice(from, t);
            let at = layout.around + side * layout.of_line;
            layout.decode(from.format, (words, self.columns), first + l * layout.line, at, x);
        }
    }

    /// Returns the first indices of the neighbours of a line, in the order of its links.
    fn starts(&self, (t, l): (usize, usize), layout: &Layout) -> [usize; 4 * DIRECTIONS] {
        let [_, ny, nz, _] = self.geometry.extents();
        let (y, z, of_line) = (l % ny, l / ny, layout.of_line);
        let offset = (y + z + t + (self.to == Parity::Odd) as usize) % 2;
        let at = |y: usize, plane: usize| (layout.place(plane, nz) * ny + y) * of_line + BESIDE;
        let mut starts = [0; 4 * DIRECTIONS];
        let (of_hops, _) = starts.as_chunks_mut::<{ 2 * DIRECTIONS }>();
        for (k, (&n, starts)) in self.hops().iter().zip(of_hops).enumerate() {
            // Sites of the other parity alternate with those of a line: x + n has the index (n - 1)
            // / 2 + offset relative to that of x, with x = 2 i + offset.
            let half = n.div_ceil(2);
            let own = at(y, z + nz);
            let in_time = |side: usize| layout.around + (2 * k + side) * of_line + BESIDE;
            *starts = [
                own + offset + half - 1,
                own + offset - half,
                at((y + n) % ny, z + nz),
                at((y + n * (ny - 1)) % ny, z + nz),
                at(y, z + nz + n),
                at(y, z + nz - n),
                in_time(0),
                in_time(1),
            ];
        }
        starts
    }
}

/// Layout of numbers in the working space. With eight interleaved columns it is
/// `[site][component][column]`, otherwise `[column][line][component][site]`. Positions of lines and
/// neighbours are in sites, or in numbers of a column.
struct Layout {
    /// Whether eight columns are interleaved.
    across: bool,
    columns: Range<usize>,
    /// Number of sites of a line.
    line: usize,
    /// Distance between consecutive lines.
    of_line: usize,
    /// Layout of neighbours.
    x: Rows,
    /// Layout of results.
    y: Rows,
    /// Number of planes in z that are kept.
    planes: usize,
    /// Offset of the lines of the neighbouring slices.
    around: usize,
}

impl Layout {
    /// Returns the index of a plane among the kept ones. Planes are counted from `nz` on, and
    /// continue beyond the ends if not all are kept.
    fn place(&self, plane: usize, nz: usize) -> usize {
        if self.planes == nz { plane % nz } else { plane % PLANES }
    }

    /// Decodes a line, from its first site on, to position `at`.
    fn decode<R: Real>(
        &self,
        format: SiteFormat,
        (words, all): (&[f64], usize),
        first: usize,
        at: usize,
        x: &mut [R],
    ) {
        let sites = first..first + self.line;
        if self.across {
            let rows = &mut x[(at + BESIDE) * SITE..];
            return decode_columns(format, words, (all, self.columns.start), sites, rows);
        }
        for (k, column) in self.columns.clone().enumerate() {
            let rows = &mut x[k * self.x.column + at + BESIDE..];
            decode_sites(format, words, (all, column), sites.clone(), rows, self.x.pitch);
        }
    }

    /// Copies the sites around the ends of a line into its padding. A line has at least two sites.
    fn wrap<R: Real>(&self, at: usize, x: &mut [R]) {
        if self.across {
            let sites = &mut x[at * SITE..];
            sites.copy_within(self.line * SITE..(self.line + BESIDE) * SITE, 0);
            return sites.copy_within(BESIDE * SITE..2 * BESIDE * SITE, (BESIDE + self.line) * SITE);
        }
        let two = |row: &[R], at: usize| -> [R; BESIDE] { *row[at..].first_chunk().expect("two sites") };
        for k in 0..self.columns.len() {
            let rows = &mut x[k * self.x.column + at..][..self.of_line];
            for c in 0..COMPONENTS {
                let row = &mut rows[c * self.x.pitch..];
                let (first, last) = (two(row, BESIDE), two(row, self.line));
                row[..BESIDE].copy_from_slice(&last);
                row[BESIDE + self.line..][..BESIDE].copy_from_slice(&first);
            }
        }
    }

    /// Stores a line of results.
    fn encode<R: Real>(
        &self,
        format: SiteFormat,
        results: &[R],
        (words, all): (&mut [f64], usize),
        sites: Range<usize>,
    ) {
        if self.across {
            return encode_columns(format, results, words, (all, self.columns.start), sites);
        }
        for (rows, column) in results.chunks_exact(self.y.column).zip(self.columns.clone()) {
            encode_sites(format, rows, self.y.pitch, words, (all, column), sites.clone());
        }
    }
}
