//! Covariances on a GPU: the generator as one array, and the launches that fill parts of a matrix
//! from it.
//!
//! The kernel (`apps/tor/cuda/covariance.cu`) computes the same entries as `fill`, with the same
//! bits except for the differences that its source describes.

use super::{Covariance, Diagonal, Part, direct, half_k};
use crate::Error;
use crate::geometry::{Axis, Block};
use std::ops::Range;
use zellige_gpu::{Address, Arg, Element, Matrix};
use zellige_kernels::cuda::{Launch, Source};

/// The kernels of this crate.
pub const SOURCE: Source = Source {
    name: "covariance",
    text: include_str!("../../cuda/covariance.cu"),
    kernels: &["zellige_covariance_f32", "zellige_covariance_f64"],
};

/// Rows of a block, and columns of one thread: `ROWS` and `COLUMNS` of the source.
const ROWS: u32 = 64;
const COLUMNS: u32 = 8;
/// Maximum number of blocks along the second axis of a grid.
const GRID_LIMIT: usize = 65_535;
/// Length of the header, which holds the offsets of the parts: `Model` of the source.
const HEADER: usize = 16;

/// A [`Covariance`] in the layout that a GPU reads.
///
/// Slopes have one numbering: the `n` measurements, then the `m` slopes of the truth sensor on the
/// first target, on the second, and so on. Rows and columns `0..n` are `Cmm`; rows `n + t m..n +
/// (t + 1) m` and columns `0..n` are `Ctm(t)`; `n..n + m` twice is `Ctt`.
#[derive(Debug)]
pub struct DeviceModel {
    words: Vec<u64>,
    slopes: usize,
}

impl DeviceModel {
    /// Copies the generator into one array.
    pub fn new(covariance: &Covariance) -> Self {
        let slopes = list_slopes(covariance);
        let mut words = Words(vec![0; HEADER]);
        words.0[..3].copy_from_slice(&[
            slopes.len() as u64,
            covariance.views.len() as u64,
            covariance.layers.len() as u64,
        ]);
        words.begin(3);
        for s in &slopes {
            words.0.extend([s.view as u64, s.axis as u64, s.linear, s.point]);
        }
        words.pairs(covariance);
        words.lattices(covariance);
        words.begin(7);
        for view in &covariance.views {
            words.0.extend(view.projections.iter().map(|p| u64::from(p.visible())));
        }
        words.begin(8);
        words.numbers(covariance.layers.iter().flat_map(|l| [l.weight, l.stretch]));
        words.begin(9);
        words.numbers(covariance.table.pieces().as_flattened().iter().copied());
        words.begin(10);
        let tip_tilt = |view| covariance.tip_tilt.get(view).copied().unwrap_or(0.0);
        words.numbers((0..covariance.views.len()).map(tip_tilt));
        words.begin(11);
        words.numbers(slopes.iter().flat_map(|s| noise(covariance, s)));
        words.begin(12);
        words.numbers(crate::turbulence::outside_the_table());
        DeviceModel { words: words.0, slopes: slopes.len() }
    }

    /// Returns the words to copy to the device, in this machine's byte order.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Fills `rows x cols` of the matrix of all slopes, times the power of two `scale`, in `f32` or
    /// `f64`. `model` is the device address of the words.
    ///
    /// # Errors
    /// [`Error`] for rows or columns that do not exist, too many of them, overlapping columns of
    /// `out`, or other numbers in it.
    pub fn fill(
        &self,
        model: Address,
        rows: Range<usize>,
        cols: Range<usize>,
        scale: f64,
        out: Matrix,
    ) -> Result<Launch, Error> {
        let bad = |problem: String| Err(Error::shape("part of a covariance on a GPU", problem));
        let kernel = match out.element {
            Element::F32 => "zellige_covariance_f32",
            Element::F64 => "zellige_covariance_f64",
            other => return bad(format!("the output format is {other:?}, but F32 or F64 is needed")),
        };
        if rows.start > rows.end || cols.start > cols.end || rows.end.max(cols.end) > self.slopes {
            return bad(format!("rows {rows:?}, columns {cols:?} of {} slopes", self.slopes));
        }
        let (m, n) = (rows.len(), cols.len());
        if (out.ld as usize) < m || n > GRID_LIMIT * COLUMNS as usize {
            return bad(format!("{m} x {n} entries with leading dimension {}", out.ld));
        }
        let entries = if m == 0 || n == 0 { 0 } else { (n as u64 - 1) * u64::from(out.ld) + m as u64 };
        let bytes = entries * out.element.bytes();
        let whole = out.ld as usize == m || n <= 1;
        let (m, n) = (m as u32, n as u32); // below the leading dimension and the limit
        let args = vec![
            Arg::U32(m),
            Arg::U32(n),
            Arg::U64(rows.start as u64),
            Arg::U64(cols.start as u64),
            Arg::Read(model, 8 * self.words.len() as u64),
            Arg::F64(scale),
            if whole { Arg::Write(out.at, bytes) } else { Arg::Update(out.at, bytes) },
            Arg::U32(out.ld),
        ];
        let grid = [m.div_ceil(ROWS).max(1), n.div_ceil(COLUMNS).max(1), 1];
        Ok(Launch { kernel, grid, block: [ROWS, 1, 1], args })
    }
}

/// One slope of the numbering.
struct SlopeEntry {
    view: usize,
    axis: Axis,
    /// Index of the sub-aperture in the view.
    index: usize,
    /// Cell `ix + iy (2 nssp - 1)` of the sub-aperture.
    linear: u64,
    /// Index of the preceding edge point in its lattice.
    point: u64,
}

fn list_slopes(covariance: &Covariance) -> Vec<SlopeEntry> {
    let sensors = covariance.geometry.sensors().len();
    let measured = covariance.geometry.blocks().iter().map(|b| (b, b.wfs));
    let truth_blocks = covariance.geometry.truth_blocks();
    let truths = (0..covariance.targets).flat_map(|t| truth_blocks.iter().map(move |b| (b, sensors + t)));
    measured.chain(truths).flat_map(|(block, view)| slopes_of(covariance, block, view)).collect()
}

fn slopes_of(covariance: &Covariance, block: &Block, view: usize) -> Vec<SlopeEntry> {
    let grid = &covariance.views[view].grid;
    let side = 2 * grid.nssp as u64 - 1;
    let points = lattice(covariance, view, block.axis).first_points();
    let entry = |(index, (cell, point)): (usize, (&[u16; 2], usize))| SlopeEntry {
        view,
        axis: block.axis,
        index,
        linear: u64::from(cell[0]) + u64::from(cell[1]) * side,
        point: point as u64,
    };
    grid.cells.iter().zip(points).enumerate().map(entry).collect()
}

/// Returns the edge points of all sub-apertures of a view along one axis.
fn lattice(covariance: &Covariance, view: usize, axis: Axis) -> direct::Lattice<f64> {
    let view_of = &covariance.views[view];
    direct::Lattice::new(view_of, &Part { view, axis, cells: 0..view_of.grid.len(), at: 0 })
}

/// Returns the noise variance of a slope, and its noise covariance with the other slope of the same
/// sub-aperture.
fn noise(covariance: &Covariance, slope: &SlopeEntry) -> [f64; 2] {
    let Some(list) = covariance.noise.get(slope.view) else { return [0.0; 2] };
    let other = if slope.axis == Axis::X { Axis::Y } else { Axis::X };
    [slope.axis, other]
        .map(|axis| Diagonal { constant: 0.0, noise: Some((list, slope.axis, axis)) }.noise(slope.index))
}

/// The array under construction.
struct Words(Vec<u64>);

impl Words {
    /// Records in the header that part `place` begins here.
    fn begin(&mut self, place: usize) {
        self.0[place] = self.0.len() as u64;
    }

    fn numbers(&mut self, values: impl IntoIterator<Item = f64>) {
        self.0.extend(values.into_iter().map(f64::to_bits));
    }

    /// Appends the tables by offset, then an index that assigns them to pairs of views.
    fn pairs(&mut self, covariance: &Covariance) {
        let mut places = Vec::with_capacity(covariance.tables.len());
        for table in &covariance.tables {
            places.push((table.side() as u64, self.0.len() as u64));
            for values in table.values() {
                self.numbers(values.iter().copied());
            }
        }
        self.begin(4);
        let views = &covariance.views;
        for (a, va) in views.iter().enumerate() {
            for (b, vb) in views.iter().enumerate() {
                let scale = half_k() / (va.grid.pitch * vb.grid.pitch);
                let table = covariance.pairs[a * views.len() + b].map(|index| places[index as usize]);
                let (side, place) = table.unwrap_or((0, 0));
                self.0.extend([scale.to_bits(), side, place]);
            }
        }
    }

    /// Appends the edge points on every layer, then an index of the lattices that they belong to.
    fn lattices(&mut self, covariance: &Covariance) {
        self.begin(6);
        let mut places = Vec::new();
        for view in 0..covariance.views.len() {
            for axis in [Axis::X, Axis::Y] {
                let lattice = lattice(covariance, view, axis);
                places.extend([self.0.len() as u64, lattice.points() as u64]);
                self.numbers(lattice.coordinates());
            }
        }
        self.begin(5);
        self.0.extend(places);
    }
}
