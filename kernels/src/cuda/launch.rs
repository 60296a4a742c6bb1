//! Checks of operands and construction of launches.

use zellige_gpu::source::Launch;
use zellige_gpu::{Address, Arg, Element, Matrix};

/// Why operands are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Numbers that the kernel does not know.
    #[error("{kernel}: operand {operand} holds {got:?}, {want} is needed")]
    Element {
        /// The kernel or the function that refused.
        kernel: &'static str,
        /// The operand's name.
        operand: &'static str,
        /// Element type of the operand.
        got: Element,
        /// Element types that are allowed.
        want: &'static str,
    },
    /// Columns that overlap.
    #[error(
        "{kernel}: operand {operand} has {rows} rows and the leading dimension {ld}: it must be at least {rows}"
    )]
    Overlap {
        /// The kernel or the function that refused.
        kernel: &'static str,
        /// The operand's name.
        operand: &'static str,
        /// Rows of the operand.
        rows: u32,
        /// Leading dimension of the operand.
        ld: u32,
    },
    /// A size that is too small, such as that of an output.
    #[error("{kernel}: {what} is {got}, at least {least} is needed")]
    TooSmall {
        /// The kernel or the function that refused.
        kernel: &'static str,
        /// The quantity that is too small.
        what: &'static str,
        /// Actual size.
        got: u64,
        /// Smallest possible size.
        least: u64,
    },
    /// A tile or a batch that is too large for the kernel.
    #[error("{kernel}: {what} is {got}, the kernel takes at most {most}")]
    TooLarge {
        /// The kernel or the function that refused.
        kernel: &'static str,
        /// The quantity that is too large.
        what: &'static str,
        /// Actual size.
        got: u64,
        /// Largest possible size.
        most: u64,
    },
}

/// Threads of a block along rows and columns: `TILE_ROWS`, `TILE_COLS` of the sources.
const TILE: [u32; 3] = [64, 4, 1];
/// Columns that one thread of a full grid goes over.
const COLUMNS_EACH: u32 = 4;
/// Most blocks along the second axis of a grid.
const GRID_LIMIT: u32 = 65_535;

/// The launch of a kernel that goes over the entries of a matrix. An empty one is launched too: it
/// may have a scale to write.
pub(super) fn over_entries(kernel: &'static str, (m, n): (u32, u32), args: Vec<Arg>) -> Launch {
    let rows = m.div_ceil(TILE[0]).max(1);
    let cols = n.div_ceil(TILE[1] * COLUMNS_EACH).clamp(1, GRID_LIMIT);
    Launch { kernel, grid: [rows, cols, 1], block: TILE, args }
}

/// The launch of a kernel that goes over a matrix in squares of as many columns as a block has
/// rows.
pub(super) fn over_squares(kernel: &'static str, (m, n): (u32, u32), args: Vec<Arg>) -> Launch {
    let [rows, cols] = [m, n].map(|length| length.div_ceil(TILE[0]).max(1));
    Launch { kernel, grid: [rows, cols.min(GRID_LIMIT), 1], block: TILE, args }
}

/// The launch of a kernel that writes a number or two.
pub(super) fn single(kernel: &'static str, args: Vec<Arg>) -> Launch {
    Launch { kernel, grid: [1; 3], block: [1; 3], args }
}

/// Bytes from the first to the last entry.
fn span((rows, cols): (u32, u32), ld: u32, element: Element) -> u64 {
    if rows == 0 || cols == 0 {
        return 0;
    }
    (u64::from(cols - 1) * u64::from(ld)).saturating_add(u64::from(rows)).saturating_mul(element.bytes())
}

/// Operands of one kernel, checked one by one.
#[derive(Clone, Copy)]
pub(super) struct Checked(pub(super) &'static str);

impl Checked {
    fn check(self, operand: &'static str, shape: (u32, u32), matrix: Matrix) -> Result<u64, LaunchError> {
        if matrix.ld < shape.0 {
            return Err(LaunchError::Overlap { kernel: self.0, operand, rows: shape.0, ld: matrix.ld });
        }
        Ok(span(shape, matrix.ld, matrix.element))
    }

    /// Checks that a matrix has one of the element types `want`.
    pub(super) fn holds(
        self,
        operand: &'static str,
        matrix: Matrix,
        want: Element,
        name: &'static str,
    ) -> Result<(), LaunchError> {
        if matrix.element == want { Ok(()) } else { Err(self.unknown(operand, matrix, name)) }
    }

    pub(super) fn unknown(self, operand: &'static str, matrix: Matrix, want: &'static str) -> LaunchError {
        LaunchError::Element { kernel: self.0, operand, got: matrix.element, want }
    }

    /// Refuses a length below `least`.
    pub(super) fn at_least(self, what: &'static str, got: u32, least: u32) -> Result<(), LaunchError> {
        if got >= least {
            return Ok(());
        }
        Err(LaunchError::TooSmall { kernel: self.0, what, got: got.into(), least: least.into() })
    }

    /// A matrix that is read.
    pub(super) fn read(
        self,
        operand: &'static str,
        shape: (u32, u32),
        matrix: Matrix,
    ) -> Result<Arg, LaunchError> {
        Ok(Arg::Read(matrix.at, self.check(operand, shape, matrix)?))
    }

    /// Returns the argument of a matrix that is written completely, except the gaps between its
    /// columns.
    pub(super) fn write(
        self,
        operand: &'static str,
        shape: (u32, u32),
        matrix: Matrix,
    ) -> Result<Arg, LaunchError> {
        let bytes = self.check(operand, shape, matrix)?;
        let whole = matrix.ld == shape.0 || shape.1 <= 1;
        Ok(if whole { Arg::Write(matrix.at, bytes) } else { Arg::Update(matrix.at, bytes) })
    }

    /// A matrix that is read and written.
    pub(super) fn update(
        self,
        operand: &'static str,
        shape: (u32, u32),
        matrix: Matrix,
    ) -> Result<Arg, LaunchError> {
        Ok(Arg::Update(matrix.at, self.check(operand, shape, matrix)?))
    }
}

/// An `int` that is read.
pub(super) fn read_int(at: Address) -> Arg {
    Arg::Read(at, 4)
}

/// An `int` that is written.
pub(super) fn write_int(at: Address) -> Arg {
    Arg::Write(at, 4)
}
