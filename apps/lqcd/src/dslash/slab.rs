//! What the task of a slab multiplies.

use zellige_kernels::sites::{
    COMPONENTS, Group, LANES, Real, Rows, SiteFormat, decode_sites, encode_sites, multiply_line,
};

use crate::geometry::{DIRECTIONS, Geometry, Parity, T};

/// How far to the left of a line its neighbours begin, and to the right they end.
const BESIDE: usize = 2;

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

/// Working space of a worker, which stays in its caches: numbers of a time slice padded around each line, and of a line of each of the slices
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
        let [_, ny, nz, nt] = self.geometry.extents();
        let (line, lines) = (self.geometry.line(), ny * nz);
        let padded = line.next_multiple_of(LANES);
        let pitch = padded + 2 * BESIDE;
        let (around, width) = (lines * COMPONENTS * pitch, COMPONENTS * pitch);
        let of_x = Rows { pitch, column: around + 2 * self.hops().len() * width };
        let of_y = Rows { pitch: padded, column: COMPONENTS * padded };
        buffers.x.resize(self.columns * of_x.column, R::default());
        buffers.y.resize(self.columns * of_y.column, R::default());
        buffers.own.resize(of_y.column, R::default());
        let mut starts = Vec::with_capacity(2 * DIRECTIONS * self.hops().len());
        for (i, t) in self.slices.clone().enumerate() {
            self.decode_slice(self.slice(from, t), from.format, of_x, &mut buffers.x);
            let in_time: Vec<(&[f64], usize)> = self
                .hops()
                .iter()
                .flat_map(|&n| [(t + n) % nt, (t + nt - n) % nt])
                .map(|t| self.slice(from, t))
                .collect();
            for l in 0..lines {
                for column in 0..self.columns {
                    for (k, (words, first)) in in_time.iter().enumerate() {
                        let rows = &mut buffers.x[column * of_x.column + around + k * width + BESIDE..];
                        let sites = first + l * line..first + (l + 1) * line;
                        decode_sites(from.format, words, (self.columns, column), sites, rows, pitch);
                    }
                }
                self.starts(l, t, pitch, around, &mut starts);
                let codes = &links[(i * lines + l) * self.words..][..self.words];
                let x = (&*buffers.x, of_x);
                let to = (&mut *buffers.y, of_y);
                multiply_line(&self.groups, codes, x, &starts, to, self.columns, &mut buffers.matrices);
                let sites = (i * lines + l) * line..(i * lines + l + 1) * line;
                for column in 0..self.columns {
                    let rows = &mut buffers.y[column * of_y.column..][..of_y.column];
                    let factor = R::from_f64(self.factor);
                    match own {
                        None => rows.iter_mut().for_each(|y| *y = *y * factor),
                        Some(own) => {
                            let (z, at) = (&mut *buffers.own, (self.columns, column));
                            decode_sites(own.format, own.parts[0], at, sites.clone(), z, padded);
                            let diagonal = R::from_f64(self.diagonal);
                            rows.iter_mut().zip(z).for_each(|(y, z)| *y = *z * diagonal + *y * factor);
                        }
                    }
                    encode_sites(format, rows, padded, y, (self.columns, column), sites.clone());
                }
            }
        }
    }

    /// Decodes a time slice, and the sites around the ends of each line.
    fn decode_slice<R: Real>(
        &self,
        (words, first): (&[f64], usize),
        format: SiteFormat,
        of_x: Rows,
        x: &mut [R],
    ) {
        let line = self.geometry.line();
        for column in 0..self.columns {
            let lines = x[column * of_x.column..].chunks_exact_mut(COMPONENTS * of_x.pitch);
            for (l, rows) in lines.take(self.geometry.slice() / line).enumerate() {
                let sites = first + l * line..first + (l + 1) * line;
                decode_sites(format, words, (self.columns, column), sites, &mut rows[BESIDE..], of_x.pitch);
                for row in rows.chunks_exact_mut(of_x.pitch) {
                    for i in 0..BESIDE {
                        // A line has two sites at least.
                        row[i] = row[line + i];
                        row[BESIDE + line + i] = row[BESIDE + i];
                    }
                }
            }
        }
    }

    /// Where the neighbours of a line begin, in the order of its links.
    fn starts(&self, l: usize, t: usize, pitch: usize, around: usize, starts: &mut Vec<usize>) {
        let [_, ny, nz, _] = self.geometry.extents();
        let (y, z) = (l % ny, l / ny);
        let offset = (y + z + t + (self.to == Parity::Odd) as usize) % 2;
        let at = |y: usize, z: usize| (z * ny + y) * COMPONENTS * pitch + BESIDE;
        starts.clear();
        for (k, &n) in self.hops().iter().enumerate() {
            // Sites of the other parity lie between those of a line: x + n has the place (n - 1) / 2 + offset beside that of x, with x = 2 i + offset.
            let half = n.div_ceil(2);
            starts.extend([at(y, z) + offset + half - 1, at(y, z) + offset - half]);
            starts.extend([at((y + n) % ny, z), at((y + n * (ny - 1)) % ny, z)]);
            starts.extend([at(y, (z + n) % nz), at(y, (z + n * (nz - 1)) % nz)]);
            let in_time = |side: usize| around + (2 * k + side) * COMPONENTS * pitch + BESIDE;
            starts.extend([in_time(0), in_time(1)]);
        }
        debug_assert_eq!(starts.len(), 2 * (T + 1) * self.hops().len());
    }
}
