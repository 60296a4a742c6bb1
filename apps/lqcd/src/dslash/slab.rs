//! What the task of a slab multiplies.

use zellige_kernels::sites::{
    COMPONENTS, Group, LANES, Real, Rows, SiteFormat, decode_sites, encode_sites, multiply_line,
};

use crate::geometry::{DIRECTIONS, Geometry, Parity, T};

/// How far to the left of a line its neighbours begin, and to the right they end.
const BESIDE: usize = 2;
/// Planes in z that are kept decoded, if a time slice has more: a plane and three on each side, in a cache beside the links that go through it.
const PLANES: usize = 8;
/// Columns that are multiplied in one go, for the same reason.
const COLUMNS: usize = 4;

/// A vector as a task sees it: its parts, and how they are stored.
pub(super) struct Stored<'v> {
    pub format: SiteFormat,
    pub parts: Vec<&'v [f64]>,
}

/// What does not change from call to call.
pub(super) struct Slab {
    pub geometry: Geometry,
    pub to: Parity,
    pub groups: Vec<Group>,
    /// Words of the links of a line.
    pub words: usize,
    pub slices: std::ops::Range<usize>,
    /// The slabs that it is given.
    pub needed: Vec<usize>,
    pub columns: usize,
    pub factor: f64,
    pub diagonal: f64,
}

/// Working space of a worker, which stays in its caches: numbers of planes of a time slice padded around each line, and of a line of each of the slices
/// around; a line of results.
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

impl Slab {
    /// Hops in each direction.
    fn hops(&self) -> &'static [usize] {
        if self.groups.len() == 1 { &[1] } else { &[1, 3] }
    }

    /// The words of a vector, and the first site of a slice in them.
    fn slice<'v>(&self, from: &Stored<'v>, t: usize) -> (&'v [f64], usize) {
        let slab = self.geometry.slab();
        let part = self.needed.binary_search(&(t / slab)).expect("a slab that is needed");
        (from.parts[part], t % slab * self.geometry.slice())
    }

    pub fn multiply<R: Real>(
        &self,
        links: &[f64],
        from: &Stored<'_>,
        own: Option<&Stored<'_>>,
        (format, y): (SiteFormat, &mut [f64]),
        buffers: &mut Buffers<R>,
    ) {
        let layout = self.layout();
        let most = self.columns.min(COLUMNS);
        buffers.x.resize(most * layout.x.column, R::default());
        buffers.y.resize(most * layout.y.column, R::default());
        buffers.own.resize(layout.y.column, R::default());
        let [_, ny, nz, _] = self.geometry.extents();
        let line = self.geometry.line();
        for (i, t) in self.slices.clone().enumerate() {
            for begin in (0..self.columns).step_by(COLUMNS) {
                let columns = begin..self.columns.min(begin + COLUMNS);
                for z in 0..nz {
                    self.decode_planes(from, (t, z), columns.clone(), layout, &mut buffers.x);
                    for l in z * ny..(z + 1) * ny {
                        self.decode_lines_in_time(from, (t, l), columns.clone(), layout, &mut buffers.x);
                        let of_slab = i * ny * nz + l;
                        let codes = &links[of_slab * self.words..][..self.words];
                        let starts = self.starts((t, l), layout);
                        let starts = &starts[..2 * DIRECTIONS * self.hops().len()];
                        let (x, to) = ((&*buffers.x, layout.x), (&mut *buffers.y, layout.y));
                        let count = columns.len();
                        multiply_line(&self.groups, codes, x, starts, to, count, &mut buffers.matrices);
                        let sites = of_slab * line..(of_slab + 1) * line;
                        for (k, column) in columns.clone().enumerate() {
                            let rows = &mut buffers.y[k * layout.y.column..][..layout.y.column];
                            let at = (self.columns, column);
                            self.combine(rows, own, at, sites.clone(), layout, &mut buffers.own);
                            encode_sites(format, rows, layout.y.pitch, y, at, sites.clone());
                        }
                    }
                }
            }
        }
    }

    /// Where numbers are in the working space.
    fn layout(&self) -> Layout {
        let [_, ny, nz, _] = self.geometry.extents();
        let padded = self.geometry.line().next_multiple_of(LANES);
        let pitch = padded + 2 * BESIDE;
        let planes = nz.min(PLANES);
        let around = planes * ny * COMPONENTS * pitch;
        let column = around + 2 * self.hops().len() * COMPONENTS * pitch;
        Layout {
            x: Rows { pitch, column },
            y: Rows { pitch: padded, column: COMPONENTS * padded },
            planes,
            around,
        }
    }

    /// Multiplies a line by the factor, and adds that of the vector on the output sites.
    fn combine<R: Real>(
        &self,
        rows: &mut [R],
        own: Option<&Stored<'_>>,
        at: (usize, usize),
        sites: std::ops::Range<usize>,
        layout: Layout,
        z: &mut [R],
    ) {
        let factor = R::from_f64(self.factor);
        let Some(own) = own else { return rows.iter_mut().for_each(|y| *y = *y * factor) };
        decode_sites(own.format, own.parts[0], at, sites, z, layout.y.pitch);
        let diagonal = R::from_f64(self.diagonal);
        rows.iter_mut().zip(z).for_each(|(y, z)| *y = *z * diagonal + *y * factor);
    }

    /// Decodes the planes of a time slice that plane `z` is the first to need, and the sites around the ends of each line.
    fn decode_planes<R: Real>(
        &self,
        from: &Stored<'_>,
        (t, z): (usize, usize),
        columns: std::ops::Range<usize>,
        layout: Layout,
        x: &mut [R],
    ) {
        let [_, ny, nz, _] = self.geometry.extents();
        let (line, pitch) = (self.geometry.line(), layout.x.pitch);
        let far = self.hops()[self.hops().len() - 1];
        // From `far` planes below the first one on.
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
                let begin = first + (z * ny + y) * line;
                for (k, column) in columns.clone().enumerate() {
                    let at = k * layout.x.column + (place * ny + y) * COMPONENTS * pitch;
                    let rows = &mut x[at..][..COMPONENTS * pitch];
                    let (of, sites) = ((self.columns, column), begin..begin + line);
                    decode_sites(from.format, words, of, sites, &mut rows[BESIDE..], pitch);
                    for row in rows.chunks_exact_mut(pitch) {
                        for i in 0..BESIDE {
                            // A line has two sites at least.
                            row[i] = row[line + i];
                            row[BESIDE + line + i] = row[BESIDE + i];
                        }
                    }
                }
            }
        }
    }

    /// Decodes the lines at the same place as line `l` in the slices around.
    fn decode_lines_in_time<R: Real>(
        &self,
        from: &Stored<'_>,
        (t, l): (usize, usize),
        columns: std::ops::Range<usize>,
        layout: Layout,
        x: &mut [R],
    ) {
        let (nt, line, pitch) = (self.geometry.extents()[T], self.geometry.line(), layout.x.pitch);
        let around = self.hops().iter().flat_map(|&n| [(t + n) % nt, (t + nt - n) % nt]);
        for (side, t) in around.enumerate() {
            let (words, first) = self.slice(from, t);
            for (k, column) in columns.clone().enumerate() {
                let at = k * layout.x.column + layout.around + side * COMPONENTS * pitch + BESIDE;
                let sites = first + l * line..first + (l + 1) * line;
                decode_sites(from.format, words, (self.columns, column), sites, &mut x[at..], pitch);
            }
        }
    }

    /// Where the neighbours of a line begin, in the order of its links.
    fn starts(&self, (t, l): (usize, usize), layout: Layout) -> [usize; 4 * DIRECTIONS] {
        let [_, ny, nz, _] = self.geometry.extents();
        let (y, z, of_line) = (l % ny, l / ny, COMPONENTS * layout.x.pitch);
        let offset = (y + z + t + (self.to == Parity::Odd) as usize) % 2;
        let at = |y: usize, plane: usize| (layout.place(plane, nz) * ny + y) * of_line + BESIDE;
        let mut starts = [0; 4 * DIRECTIONS];
        let (of_hops, _) = starts.as_chunks_mut::<{ 2 * DIRECTIONS }>();
        for (k, (&n, starts)) in self.hops().iter().zip(of_hops).enumerate() {
            // Sites of the other parity lie between those of a line: x + n has the place (n - 1) / 2 + offset beside that of x, with x = 2 i + offset.
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

/// Where numbers are in the working space.
#[derive(Clone, Copy)]
struct Layout {
    /// Of neighbours.
    x: Rows,
    /// Of results.
    y: Rows,
    /// Planes in z that are kept.
    planes: usize,
    /// Where the lines of the slices around begin.
    around: usize,
}

impl Layout {
    /// The place of a plane among those that are kept; planes count from `nz` on, and go on beyond the ends if not all are kept.
    fn place(self, plane: usize, nz: usize) -> usize {
        if self.planes == nz { plane % nz } else { plane % PLANES }
    }
}
