//! Layout of the working space of a slab.

use std::ops::Range;

use zellige_kernels::sites::{COMPONENTS, LANES, ProductNumber, Rows};

/// Number of padding sites on each side of a line, for its neighbours.
pub(super) const BESIDE: usize = 2;
/// Number of decoded planes in z that are kept if a time slice has more: a plane and three on each
/// side, which fit a cache along with their links.
pub(super) const PLANES: usize = 8;
/// Numbers of a site if eight columns are interleaved.
pub(super) const SITE: usize = COMPONENTS * LANES;

/// Layout of numbers in the working space. With eight interleaved columns it is
/// `[site][component][column]`, otherwise `[column][line][component][site]`. Positions of lines and
/// neighbours are in sites, or in numbers of a column.
pub(super) struct Layout {
    /// Whether eight columns are interleaved.
    pub across: bool,
    pub columns: Range<usize>,
    /// Number of spins of a column. Each has rows of its own, which follow one another as those of
    /// columns do.
    pub spins: usize,
    /// Number of sites of a line.
    pub line: usize,
    /// Distance between consecutive lines.
    pub of_line: usize,
    /// Layout of neighbours.
    pub x: Rows,
    /// Layout of results.
    pub y: Rows,
    /// Number of planes in z that are kept.
    pub planes: usize,
    /// Offset of the lines of the neighbouring slices.
    pub around: usize,
}

impl Layout {
    /// Returns the index of a plane among the kept ones. Planes are counted from `nz` on, and
    /// continue beyond the ends if not all are kept.
    pub fn place(&self, plane: usize, nz: usize) -> usize {
        if self.planes == nz { plane % nz } else { plane % PLANES }
    }

    /// Returns the number of colour vectors of a site.
    pub fn vectors(&self) -> usize {
        self.columns.len() * self.spins
    }

    /// Copies the sites around the ends of a line into its padding. A line has at least two sites.
    pub fn wrap<N: ProductNumber>(&self, at: usize, x: &mut [N]) {
        if self.across {
            let sites = &mut x[at * SITE..];
            sites.copy_within(self.line * SITE..(self.line + BESIDE) * SITE, 0);
            return sites.copy_within(BESIDE * SITE..2 * BESIDE * SITE, (BESIDE + self.line) * SITE);
        }
        let two = |row: &[N], at: usize| -> [N; BESIDE] { *row[at..].first_chunk().expect("two sites") };
        for k in 0..self.vectors() {
            let rows = &mut x[k * self.x.column + at..][..self.of_line];
            for c in 0..COMPONENTS {
                let row = &mut rows[c * self.x.pitch..];
                let (first, last) = (two(row, BESIDE), two(row, self.line));
                row[..BESIDE].copy_from_slice(&last);
                row[BESIDE + self.line..][..BESIDE].copy_from_slice(&first);
            }
        }
    }
}
