//! Blocks of matrices.

use zellige_gpu::{Arg, Element, Matrix};

use super::Launch;
use super::convert::plain;
use super::launch::{Checked, LaunchError, over_entries, over_squares};

/// `out = a`, numbers of one kind.
///
/// # Errors
/// [`LaunchError`] for numbers that differ or overlapping columns.
pub fn copy(shape: (u32, u32), a: Matrix, out: Matrix) -> Result<Launch, LaunchError> {
    let check = Checked(match a.element.bytes() {
        1 => "zellige_copy_8",
        2 => "zellige_copy_16",
        4 => "zellige_copy_32",
        _ => "zellige_copy_64",
    });
    check.holds("out", out, a.element, "what `a` holds")?;
    plain(check, shape, a, out)
}

/// `out = value`, in `f32` (rounded) or `f64`.
///
/// # Errors
/// [`LaunchError`] for other numbers or overlapping columns; so for all functions below.
pub fn fill(shape: (u32, u32), value: f64, out: Matrix) -> Result<Launch, LaunchError> {
    let (kernel, value) = match out.element {
        Element::F32 => ("zellige_fill_f32", Arg::F32(value as f32)),
        Element::F64 => ("zellige_fill_f64", Arg::F64(value)),
        _ => return Err(Checked("fill").unknown("out", out, "F32 or F64")),
    };
    let written = Checked(kernel).write("out", shape, out)?;
    let args = vec![Arg::U32(shape.0), Arg::U32(shape.1), value, written, Arg::U32(out.ld)];
    Ok(over_entries(kernel, shape, args))
}

/// Writes zeros above the diagonal of a matrix of order `n`. A factorisation does not change this
/// part, like [`potrf_lower`](crate::potrf_lower), so this is only for readers of the factor as a
/// full matrix.
///
/// # Errors
/// See [`fill`].
pub fn zero_upper(n: u32, a: Matrix) -> Result<Launch, LaunchError> {
    triangle("zero_upper", ["zellige_zero_upper_f32", "zellige_zero_upper_f64"], n, a)
}

/// The lower triangle of a matrix of order `n`, mirrored above its diagonal.
///
/// # Errors
/// See [`fill`].
pub fn mirror(n: u32, a: Matrix) -> Result<Launch, LaunchError> {
    triangle("mirror", ["zellige_mirror_f32", "zellige_mirror_f64"], n, a)
}

/// Columns of the blocks of [`invert_blocks`]: `INVERTED` of the source.
pub const INVERTED: u32 = 64;

/// The inverses of the diagonal blocks of [`INVERTED`] columns of a lower triangle of order `n` in
/// `f32`, at the same places of `out`, with zeros above their diagonals; the rest of `out` stays.
///
/// # Errors
/// See [`fill`].
pub fn invert_blocks(n: u32, l: Matrix, out: Matrix) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_invert_blocks");
    check.holds("l", l, Element::F32, "F32")?;
    check.holds("out", out, Element::F32, "F32")?;
    let (read, written) = (check.read("l", (n, n), l)?, check.update("out", (n, n), out)?);
    let args = vec![Arg::U32(n), read, Arg::U32(l.ld), written, Arg::U32(out.ld)];
    let grid = [n.div_ceil(INVERTED).max(1), 1, 1];
    Ok(Launch { kernel: check.0, grid, block: [INVERTED, 1, 1], args })
}

/// `out = A^T` of 8-bit numbers, `A` of `m x n`. `out` has `padded` rows and columns, at least `n`
/// and `m`, and zeros where `A` has ended: cuBLASLt takes the first of two 8-bit operands
/// transposed, and all lengths in multiples of 16.
///
/// # Errors
/// [`LaunchError`] for other numbers, overlapping columns, or an `out` that is too small.
pub fn transpose(
    (m, n): (u32, u32),
    a: Matrix,
    padded: (u32, u32),
    out: Matrix,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_transpose_8");
    check.holds("a", a, Element::F8E4M3, "F8E4M3")?;
    check.holds("out", out, Element::F8E4M3, "F8E4M3")?;
    check.at_least("the number of rows of out", padded.0, n)?;
    check.at_least("the number of columns of out", padded.1, m)?;
    let args = vec![
        Arg::U32(m),
        Arg::U32(n),
        check.read("a", (m, n), a)?,
        Arg::U32(a.ld),
        Arg::U32(padded.0),
        Arg::U32(padded.1),
        check.write("out", padded, out)?,
        Arg::U32(out.ld),
    ];
    // Blocks by rows of A, which are columns of the output.
    Ok(over_squares(check.0, (padded.1, padded.0), args))
}

fn triangle(
    name: &'static str,
    kernels: [&'static str; 2],
    n: u32,
    a: Matrix,
) -> Result<Launch, LaunchError> {
    let kernel = match a.element {
        Element::F32 => kernels[0],
        Element::F64 => kernels[1],
        _ => return Err(Checked(name).unknown("a", a, "F32 or F64")),
    };
    let updated = Checked(kernel).update("a", (n, n), a)?;
    Ok(over_entries(kernel, (n, n), vec![Arg::U32(n), updated, Arg::U32(a.ld)]))
}
