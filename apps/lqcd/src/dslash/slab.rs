//! Arithmetic of the task of a slab.

use std::ops::Range;

use zellige_kernels::sites::{COMPONENTS, Group, LANES, ProductNumber, Real, Rows, SiteFormat};

use super::Hopping;
use super::layout::{BESIDE, Layout, PLANES, SITE};
use super::number::SlabNumber;
use super::spin::project;
use crate::geometry::{DIRECTIONS, Geometry, Parity, SPINS, T};

/// Number of columns in a block, so that they fit a cache, if eight sites are interleaved.
const COLUMNS: usize = 4;

/// A vector as seen by a task: its parts and their format.
pub(super) struct Stored<'v, W> {
    pub format: SiteFormat,
    pub parts: Vec<&'v [W]>,
}

/// Parameters that are constant over calls.
pub(super) struct Slab {
    pub geometry: Geometry,
    pub to: Parity,
    pub hopping: Hopping,
    /// Whether the operator is `gamma_5 H gamma_5`, for Wilson quarks.
    pub conjugated: bool,
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
/// around each line, a line of each of the neighbouring slices, and a line of results; for Wilson
/// quarks also the projected lines of all neighbours.
pub(super) struct Buffers<N: ProductNumber> {
    x: Vec<N>,
    y: Vec<N>,
    own: Vec<N>,
    projected: Vec<N>,
    matrices: Vec<N::Plain>,
}

impl<N: ProductNumber> Buffers<N> {
    pub const fn new() -> Self {
        Buffers { x: Vec::new(), y: Vec::new(), own: Vec::new(), projected: Vec::new(), matrices: Vec::new() }
    }

    /// Allocates the space for a layout.
    fn fit(&mut self, layout: &Layout) {
        let sizes = match layout.across {
            true => [layout.x.column * SITE, layout.line * SITE],
            false => [layout.x.column, layout.y.column].map(|numbers| numbers * layout.vectors()),
        };
        self.x.resize(sizes[0], N::default());
        for results in [&mut self.y, &mut self.own] {
            results.resize(sizes[1], N::default());
        }
        if layout.spins == SPINS {
            self.projected.resize(2 * DIRECTIONS * sizes[1], N::default());
        }
    }
}

impl Slab {
    /// Returns the hops in each direction.
    fn hops(&self) -> &'static [usize] {
        if self.groups.len() == 1 { &[1] } else { &[1, 3] }
    }

    /// Returns the words of a vector, and the index of the first site of a slice in them.
    fn slice<'v, W>(&self, from: &Stored<'v, W>, t: usize) -> (&'v [W], usize) {
        let slab = self.geometry.slab();
        let part = self.needed.binary_search(&(t / slab)).expect("a slab that is needed");
        (from.parts[part], t % slab * self.geometry.slice())
    }

    /// Multiplies the slices of a slab.
    pub fn multiply<N: SlabNumber>(
        &self,
        slices: Range<usize>,
        links: &[f64],
        from: &Stored<'_, N::Word>,
        own: Option<&Stored<'_, N::Word>>,
        (format, y): (SiteFormat, &mut [N::Word]),
        buffers: &mut Buffers<N>,
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
                        N::begin(self.first_site((t, l)), self.groups.len());
                        self.combine(own, sites.clone(), &layout, buffers);
                        N::encode(&layout, format, &buffers.y, (y, self.columns), sites);
                    }
                }
            }
        }
    }

    /// Returns the blocks of columns: eight interleaved ones each, then blocks of the remaining
    /// columns. The four spins of a Wilson quark are such a block of their own.
    fn shares(&self) -> impl Iterator<Item = Range<usize>> {
        let all = self.columns;
        let (side_by_side, at_once) = match self.hopping {
            Hopping::Staggered => (all / LANES * LANES, COLUMNS),
            Hopping::Wilson => (0, 1),
        };
        let one_by_one =
            (side_by_side..all).step_by(at_once).map(move |begin| begin..all.min(begin + at_once));
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
            spins: self.hopping.spins(),
            line,
            of_line,
            x: Rows { pitch, column },
            y: Rows { pitch: padded, column: COMPONENTS * padded },
            planes,
            around,
        }
    }

    /// Returns the index of the first site of a line within its parity.
    fn first_site(&self, (t, l): (usize, usize)) -> usize {
        t * self.geometry.slice() + l * self.geometry.line()
    }

    /// Sums the products for a line.
    fn multiply_line<N: SlabNumber>(
        &self,
        codes: &[f64],
        at: (usize, usize),
        layout: &Layout,
        buffers: &mut Buffers<N>,
    ) {
        let Buffers { x, y, projected, matrices, .. } = buffers;
        let starts = self.starts(at, layout);
        let mut starts = &starts[..2 * DIRECTIONS * self.hops().len()];
        let mut from = &x[..];
        let of_projected = std::array::from_fn::<_, { 2 * DIRECTIONS }, _>(|hop| hop * y.len());
        if self.hopping == Hopping::Wilson {
            project(layout, (x, starts), self.conjugated, projected);
            (from, starts) = (projected, &of_projected);
        }
        N::multiply(layout, (&self.groups, codes), from, starts, y, self.first_site(at), matrices);
    }

    /// Multiplies a line by the factor, and adds the term of the vector on the output sites.
    fn combine<N: SlabNumber>(
        &self,
        own: Option<&Stored<'_, N::Word>>,
        sites: Range<usize>,
        layout: &Layout,
        buffers: &mut Buffers<N>,
    ) {
        let [factor, diagonal] = [self.factor, self.diagonal].map(|x| N::new(N::Plain::from_f64(x)));
        let Buffers { y, own: z, .. } = buffers;
        let Some(own) = own else { return y.iter_mut().for_each(|y| *y = y.times(factor)) };
        N::decode(layout, own.format, (own.parts[0], self.columns), sites, 0, (z, layout.y));
        y.iter_mut().zip(z).for_each(|(y, z)| *y = z.times(diagonal).plus(y.times(factor)));
    }

    /// Decodes the planes of a time slice that plane `z` is the first to need, and the padding of
    /// each line.
    fn decode_planes<N: SlabNumber>(
        &self,
        from: &Stored<'_, N::Word>,
        (t, z): (usize, usize),
        layout: &Layout,
        x: &mut [N],
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
                let sites = begin..begin + layout.line;
                let to = (&mut *x, layout.x);
                N::decode(layout, from.format, (words, self.columns), sites, at + BESIDE, to);
                layout.wrap(at, x);
            }
        }
    }

    /// Decodes the lines at the position of line `l` in the neighbouring slices.
    fn decode_lines_in_time<N: SlabNumber>(
        &self,
        from: &Stored<'_, N::Word>,
        (t, l): (usize, usize),
        layout: &Layout,
        x: &mut [N],
    ) {
        let nt = self.geometry.extents()[T];
        let around = self.hops().iter().flat_map(|&n| [(t + n) % nt, (t + nt - n) % nt]);
        for (side, t) in around.enumerate() {
            let (words, first) = self.slice(from, t);
            let at = layout.around + side * layout.of_line;
            let begin = first + l * layout.line;
            let (sites, to) = (begin..begin + layout.line, (&mut *x, layout.x));
            N::decode(layout, from.format, (words, self.columns), sites, at + BESIDE, to);
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
