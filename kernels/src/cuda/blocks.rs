//! Blocks of matrices.

use zellige_gpu::{Arg, Element, Matrix};

use super::convert::plain;
use super::launch::{Checked, Launch, LaunchError, over_entries};

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

/// Zeros above the diagonal of a matrix of order `n`, where a factorisation leaves what was there, as
/// [`potrf_lower`](crate::potrf_lower) does: only for those who read the factor as a full matrix.
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
