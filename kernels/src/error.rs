//! The one error type of this crate.

/// Why a kernel refused its operands, or could not finish.
///
/// Nothing is written to the output when an operand is refused;
/// [`NotPositive`](KernelError::NotPositive) is the only error that comes after work was done.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A slice cannot hold the matrix that was described.
    #[error(
        "a {rows} x {cols} matrix with leading dimension {ld} does not fit a slice of {len} elements: \
         the leading dimension must be at least {rows}, the slice at least {need} long"
    )]
    Layout {
        /// Requested rows.
        rows: usize,
        /// Requested columns.
        cols: usize,
        /// Requested leading dimension.
        ld: usize,
        /// Elements in the slice.
        len: usize,
        /// Elements the matrix needs (`usize::MAX` when the count overflows).
        need: usize,
    },
    /// Operands whose shapes do not fit each other.
    #[error(
        "{kernel}: operand {operand} is {got_rows} x {got_cols}, the other operands ask for {want_rows} x {want_cols}"
    )]
    Shape {
        /// The kernel that refused.
        kernel: &'static str,
        /// The operand's letter in the kernel's formula.
        operand: &'static str,
        /// Rows found.
        got_rows: usize,
        /// Columns found.
        got_cols: usize,
        /// Required rows.
        want_rows: usize,
        /// Required columns.
        want_cols: usize,
    },
    /// Too little scratch memory was handed in.
    #[error("{kernel}: scratch of {got} elements, {need} are needed (ask `scratch_len`)")]
    Scratch {
        /// The kernel that refused.
        kernel: &'static str,
        /// Elements handed in.
        got: usize,
        /// Elements needed.
        need: usize,
    },
    /// A list of points that does not rise, or names one that is not there.
    #[error("{kernel}: the points of each event have to rise, below {points}, and so do their ends")]
    Points {
        /// The kernel that refused.
        kernel: &'static str,
        /// Number of points.
        points: usize,
    },
    /// Operands stored in formats that the kernel does not combine.
    #[error("{kernel}: operand {operand} is stored in {got}, this kernel needs {want}")]
    Format {
        /// The kernel that refused.
        kernel: &'static str,
        /// The operand's letter in the kernel's formula.
        operand: &'static str,
        /// Format found.
        got: crate::StorageFormat,
        /// Format needed.
        want: crate::StorageFormat,
    },
    /// Bytes that are not a panel of a sparse matrix.
    #[error("panel: {problem}, at byte {at}: make it with `PanelWriter`, or take bytes that a panel gave")]
    Panel {
        /// Description of the problem.
        problem: &'static str,
        /// Offset in bytes.
        at: usize,
    },
    /// A Cholesky factorisation met a pivot that is not a positive finite number.
    ///
    /// The lower triangle is then partly overwritten.
    #[error(
        "potrf: the matrix is not positive definite, pivot {pivot} is {value:e}: use a higher precision for the \
         products that update this tile, or add to its diagonal"
    )]
    NotPositive {
        /// Index of the failing column in the matrix that was passed in.
        pivot: usize,
        /// Value of the pivot before the square root.
        value: f64,
    },
}

/// Returns an error unless `got` is `want`.
pub(crate) fn check_shape(
    kernel: &'static str,
    operand: &'static str,
    got: (usize, usize),
    want: (usize, usize),
) -> Result<(), KernelError> {
    if got == want {
        return Ok(());
    }
    Err(KernelError::Shape {
        kernel,
        operand,
        got_rows: got.0,
        got_cols: got.1,
        want_rows: want.0,
        want_cols: want.1,
    })
}
