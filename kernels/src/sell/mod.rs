//! Sparse matrices in buckets of formats, laid out for products: eight interleaved rows (SELL-8) in
//! tiles that are read from memory as one stream.
//!
//! A [`Panel`] holds some rows of a matrix as bytes. An element is a number, or a dense block of `B
//! x B` numbers; "rows" and "columns" in this table are those of elements.
//!
//! | part | bytes |
//! |---|---|
//! | panel | block size `B`, rows, buckets, the power of two that sums are multiplied by, then tiles |
//! | tile | up to [`tile_rows`] rows, the window of `x` that they need, the diagonals that all of its elements lie on where these are at most eight, powers of two of rows where these have their own, then sections |
//! | section | bucket, number of groups, then groups |
//! | group | steps, how many of them are full; how many are runs, if there are any; eight row numbers of a byte each, or the first one where rows follow one another; how many lanes each step that is not full has |
//! | step | the lanes' columns within the window, of 16 bits (32 in tiles with a wider window, 4 in those with a list of diagonals), then `B B` times the lanes' codes; of a run, whose columns follow one another, only the first column |
//!
//! Rows of a section are sorted by their number of elements, so that the eight rows of a group have
//! about the same length. Steps that are not full have only the first lanes. A long row is cut into
//! pieces, which are lanes of the same row. The order of each sum depends only on the tile: the
//! bits are the same for every partition of the matrix into panels, and on every machine.
//!
//! ```
//! use zellige_kernels::packed::{PackedFormat, Rounding};
//! use zellige_kernels::sell::{Bucket, Elements, PanelWriter};
//!
//! // [1 2; 0 3]
//! let mut writer = PanelWriter::new(1, 0, 2, 0, &[Bucket::unscaled(PackedFormat::Fp32)])?;
//! let mut elements = Elements::default();
//! [(0, 0, 1.0), (0, 1, 2.0), (1, 1, 3.0)].iter().for_each(|&(i, j, a)| elements.push(i, j, &[a]));
//! writer.tile(2, None, &[elements], Rounding::Nearest)?;
//! let panel = writer.finish()?;
//! let mut y = [0.0; 2];
//! panel.multiply(&[10.0, 1.0], &mut y)?;
//! assert_eq!(y, [12.0, 3.0]);
//! # Ok::<(), zellige_kernels::KernelError>(())
//! ```

mod bytes;
mod check;
mod index;
mod packed_panel;
mod portable;
mod product;
mod write;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

use std::ops::Range;

use crate::error::check_shape;
use crate::packed::PackedFormat;
use crate::{KernelError, RealNumber};
use bytes::Head;
pub use index::{Outline, PanelIndex};
pub use packed_panel::PackedPanel;
use product::Part;
pub use write::{Elements, PanelWriter};

/// Rows of a group.
pub(crate) const LANES: usize = 8;

/// The supported block sizes.
pub const EDGES: [usize; 4] = [1, 2, 3, 4];

/// Returns the largest number of rows of elements in a tile. Matrices are cut into tiles of this
/// size from the first row on, independently of the panels.
pub const fn tile_rows(edge: usize) -> usize {
    match edge {
        1 => 256,
        2 => 128,
        3 => 96,
        _ => 64,
    }
}

/// Elements of one format: `+-2^exponent` times their decoded values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Storage format of the elements.
    pub format: PackedFormat,
    /// Exponent of the power of two that multiplies the elements: 0 for formats that have no scale.
    pub exponent: i16,
    /// True if the elements are the negatives of the decoded values.
    pub negative: bool,
}

impl Bucket {
    /// Creates a bucket whose elements are equal to their decoded values.
    pub const fn unscaled(format: PackedFormat) -> Self {
        Bucket { format, exponent: 0, negative: false }
    }

    /// Returns the factor of the sums.
    fn scale(self) -> f64 {
        let scale = product::times_power_of_two(1.0, i32::from(self.exponent));
        if self.negative { -scale } else { scale }
    }
}

/// Size of one bucket in a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The bucket.
    pub bucket: Bucket,
    /// Number of elements.
    pub elements: u64,
    /// Number of groups of eight rows.
    pub groups: u64,
}

/// Some rows of a matrix, ready for products.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Validated bytes: products use their columns without bounds checks.
    bytes: Vec<u8>,
    head: Head,
    /// Columns of `x` that are read.
    columns: Range<usize>,
    loads: Vec<Load>,
}

impl Panel {
    /// Creates a panel from its bytes, as returned by [`into_bytes`](Panel::into_bytes).
    ///
    /// # Errors
    /// [`KernelError::Panel`] for bytes that are no panel, with the problem and its offset.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Panel, KernelError> {
        let (head, columns, loads) = check::check(&bytes)?;
        Ok(Panel { bytes, head, columns, loads })
    }

    /// Returns the bytes of the panel, for a file or another machine.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of bytes of the panel.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the rows of the matrix that the panel holds.
    pub fn rows(&self) -> Range<usize> {
        self.head.rows()
    }

    /// Returns the columns of `x` that products read.
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// Returns the sizes of all buckets, including empty ones.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Rows and columns of an element.
    pub fn edge(&self) -> usize {
        self.head.edge
    }

    /// Computes `y = A x` for the rows of the panel: `x` is the whole vector, `y` the panel's part.
    ///
    /// The bits are the same on every machine. An infinite or NaN entry of `x` that meets an
    /// element of the panel gives the result of `f64` arithmetic.
    ///
    /// # Errors
    /// [`KernelError::Shape`] for vectors of other lengths.
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<(), KernelError> {
        self.multiply_many(1, x, y)
    }

    /// Computes `Y = A X` for 1 to 8 vectors. The `count` numbers of a row are contiguous in `x`
    /// and in `y`. The result of each vector is bitwise equal to that of
    /// [`multiply`](Panel::multiply).
    ///
    /// # Errors
    /// [`KernelError::Shape`] for vectors of other lengths or another number of them.
    pub fn multiply_many(&self, count: usize, x: &[f64], y: &mut [f64]) -> Result<(), KernelError> {
        let columns = self.head.matrix_columns.saturating_mul(count);
        check_shape("multiply", "x", (x.len(), 1), (columns, 1))?;
        product::multiply(self, count, Part { first: 0, x }, y)
    }

    /// Computes the product like [`multiply_many`](Panel::multiply_many), with a part of `x` that
    /// begins at column `first` and contains all of [`columns`](Panel::columns).
    ///
    /// # Errors
    /// [`KernelError::Shape`] for a part without these columns, and a `y` of another length.
    pub fn multiply_part(
        &self,
        count: usize,
        first: usize,
        x: &[f64],
        y: &mut [f64],
    ) -> Result<(), KernelError> {
        product::multiply(self, count, Part { first, x }, y)
    }

    /// Computes `y = A x` like [`multiply_part`](Panel::multiply_part) for one vector of any real
    /// numbers, in the same order; the elements are exact. Random bits depend on the tile and its
    /// groups, not on the panels that the matrix is cut into.
    ///
    /// # Errors
    /// Those of [`multiply_part`](Panel::multiply_part).
    pub fn multiply_as<R: RealNumber>(&self, first: usize, x: &[R], y: &mut [R]) -> Result<(), KernelError> {
        product::multiply_as(self, Part { first, x }, y)
    }
}

#[cfg(test)]
mod tests;
