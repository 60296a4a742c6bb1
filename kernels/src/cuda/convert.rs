//! Conversions of one tile.

use zellige_gpu::{Address, Arg, Element, Matrix};

use super::Launch;
use super::Measure;
use super::launch::{Checked, LaunchError, over_entries, read_int, write_int};

/// Exponent of the binade `[2^e, 2^(e + 1))` of the largest stored number, for a pair of `f16`
/// tiles: [`split_scale_exponent`](crate::formats::split_scale_exponent).
pub const SPLIT_HEADROOM: i32 = 14;

/// Returns the same exponent for one tile: 0 for 16-bit formats, 7 for e4m3. A tile in e4m3 uses 8
/// if its largest entry is then at most 448, the largest number of the format. A larger exponent
/// keeps more bits of small entries.
pub const fn headroom(element: Element) -> i32 {
    match element {
        Element::F8E4M3 => 7,
        _ => 0,
    }
}

/// `out = f32(a)`, `a` in `f64`, to nearest; as [`formats::narrow`](crate::formats::narrow).
///
/// # Errors
/// [`LaunchError`] for other numbers or overlapping columns; so for all functions below.
pub fn narrow(shape: (u32, u32), a: Matrix, out: Matrix) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_narrow");
    check.holds("a", a, Element::F64, "F64")?;
    check.holds("out", out, Element::F32, "F32")?;
    plain(check, shape, a, out)
}

/// `out = f64(a)`, `a` in `f32`; as [`formats::widen`](crate::formats::widen).
///
/// # Errors
/// See [`narrow`].
pub fn widen(shape: (u32, u32), a: Matrix, out: Matrix) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_widen");
    check.holds("a", a, Element::F32, "F32")?;
    check.holds("out", out, Element::F64, "F64")?;
    plain(check, shape, a, out)
}

pub(super) fn plain(
    check: Checked,
    shape: (u32, u32),
    a: Matrix,
    out: Matrix,
) -> Result<Launch, LaunchError> {
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("a", shape, a)?,
        Arg::U32(a.ld),
        check.write("out", shape, out)?,
        Arg::U32(out.ld),
    ];
    Ok(over_entries(check.0, shape, args))
}

/// `out = round(a 2^-scale)`, `a` in `f32`; as [`pack_half`](crate::formats::pack_half).
///
/// The scale is chosen on the device, from the tile's [`Measure`]: its exponent less [`headroom`];
/// 0 for a tile of zeros and one that is not finite. It goes to `scale`.
///
/// # Errors
/// See [`narrow`].
pub fn pack(
    shape: (u32, u32),
    a: Matrix,
    measure: Address,
    out: Matrix,
    scale: Address,
) -> Result<Launch, LaunchError> {
    let kernel = match out.element {
        Element::F16 => "zellige_pack_f16",
        Element::BF16 => "zellige_pack_bf16",
        Element::F8E4M3 => "zellige_pack_e4m3",
        _ => return Err(Checked("pack").unknown("out", out, "F16, BF16 or F8E4M3")),
    };
    let check = Checked(kernel);
    check.holds("a", a, Element::F32, "F32")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("a", shape, a)?,
        Arg::U32(a.ld),
        Arg::Read(measure, Measure::BYTES),
        Arg::I32(headroom(out.element)),
        check.write("out", shape, out)?,
        Arg::U32(out.ld),
        write_int(scale),
    ];
    Ok(over_entries(kernel, shape, args))
}

/// `out = a 2^scale` in `f32`; as [`unpack_half`](crate::formats::unpack_half).
///
/// # Errors
/// See [`narrow`].
pub fn unpack(shape: (u32, u32), a: Matrix, scale: Address, out: Matrix) -> Result<Launch, LaunchError> {
    let kernel = match a.element {
        Element::F16 => "zellige_unpack_f16",
        Element::BF16 => "zellige_unpack_bf16",
        Element::F8E4M3 => "zellige_unpack_e4m3",
        _ => return Err(Checked("unpack").unknown("a", a, "F16, BF16 or F8E4M3")),
    };
    let check = Checked(kernel);
    check.holds("out", out, Element::F32, "F32")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("a", shape, a)?,
        Arg::U32(a.ld),
        read_int(scale),
        check.write("out", shape, out)?,
        Arg::U32(out.ld),
    ];
    Ok(over_entries(kernel, shape, args))
}

/// The matrix at another address.
fn moved(matrix: Matrix, at: Address) -> Matrix {
    Matrix { at, ..matrix }
}

/// Splits `a`, in `f32`, into `hi` and the remainder, at `lo` with the same leading dimension, like
/// [`pack_split`](crate::formats::pack_split). The scale is chosen as in [`pack`], with
/// [`SPLIT_HEADROOM`].
///
/// # Errors
/// See [`narrow`].
pub fn split(
    shape: (u32, u32),
    a: Matrix,
    measure: Address,
    hi: Matrix,
    lo: Address,
    scale: Address,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_split");
    check.holds("a", a, Element::F32, "F32")?;
    check.holds("hi", hi, Element::F16, "F16")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("a", shape, a)?,
        Arg::U32(a.ld),
        Arg::Read(measure, Measure::BYTES),
        Arg::I32(SPLIT_HEADROOM),
        check.write("hi", shape, hi)?,
        check.write("lo", shape, moved(hi, lo))?,
        Arg::U32(hi.ld),
        write_int(scale),
    ];
    Ok(over_entries(check.0, shape, args))
}

/// `out = (hi + lo) 2^scale` in `f32`, rounded once; as
/// [`unpack_split`](crate::formats::unpack_split).
///
/// # Errors
/// See [`narrow`].
pub fn join(
    shape: (u32, u32),
    hi: Matrix,
    lo: Address,
    scale: Address,
    out: Matrix,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_join");
    check.holds("hi", hi, Element::F16, "F16")?;
    check.holds("out", out, Element::F32, "F32")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("hi", shape, hi)?,
        check.read("lo", shape, moved(hi, lo))?,
        Arg::U32(hi.ld),
        read_int(scale),
        check.write("out", shape, out)?,
        Arg::U32(out.ld),
    ];
    Ok(over_entries(check.0, shape, args))
}

/// Operand that [`triple`] makes, and the axis along which it is three times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Third {
    /// `[hi|hi|lo]`, along the columns: A of `A op(B)`.
    FirstAlongColumns,
    /// `[hi|lo|hi]`, along the columns: B of `A B^T`.
    SecondAlongColumns,
    /// `[hi; lo; hi]`, under each other: B of `A B`.
    SecondAlongRows,
}

/// Makes an operand of X3 three times as long, so that one product of inner length `3 k` does the
/// work of three: `[hi|hi|lo] [hi|lo|hi]^T = hi hi^T + hi lo^T + lo hi^T`.
///
/// The fourth product is omitted, as in [`gemm_x3`](crate::precision::gemm_x3), which adds the two
/// small ones first; here their order is the product's. `out` is three times `shape` along the axis
/// of `third`.
///
/// # Errors
/// See [`narrow`].
pub fn triple(
    shape: (u32, u32),
    hi: Matrix,
    lo: Address,
    third: Third,
    out: Matrix,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_triple");
    check.holds("hi", hi, Element::F16, "F16")?;
    check.holds("out", out, Element::F16, "F16")?;
    let (m, n) = shape;
    let thrice = |length: u32, what| {
        let got = 3 * u64::from(length);
        u32::try_from(got).map_err(|_| LaunchError::TooLarge {
            kernel: check.0,
            what,
            got,
            most: u32::MAX.into(),
        })
    };
    let (whole, second, step) = match third {
        Third::FirstAlongColumns => ((m, thrice(n, "3 n")?), 0, u64::from(n) * u64::from(out.ld)),
        Third::SecondAlongColumns => ((m, thrice(n, "3 n")?), 1, u64::from(n) * u64::from(out.ld)),
        Third::SecondAlongRows => ((thrice(m, "3 m")?, n), 1, u64::from(m)),
    };
    let args = vec![
        Arg::U32(m),
        Arg::U32(n),
        check.read("hi", shape, hi)?,
        check.read("lo", shape, moved(hi, lo))?,
        Arg::U32(hi.ld),
        Arg::U32(second),
        Arg::U64(step),
        check.write("out", whole, out)?,
        Arg::U32(out.ld),
    ];
    Ok(over_entries(check.0, shape, args))
}
