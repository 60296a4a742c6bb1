//! Kernels around tensor-core products whose scales are known on the device only.

use zellige_gpu::{Address, Arg, Element, Factors, Matrix};

use super::Launch;
use super::Measure;
use super::launch::{Checked, LaunchError, over_entries, read_int, single};
use crate::precision::Sign;

/// Addresses of the scale exponents of the two operands of a product. The value of the product is
/// the product of the stored numbers times `2^(a + b)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scales {
    /// A's.
    pub a: Address,
    /// B's.
    pub b: Address,
}

/// Returns the launch that writes `alpha = sign 2^(a + b)` and `beta = 1`, two `f32`, to `to`. They
/// are the [`Factors::Device`] of `C = C + sign 2^(a + b) A op(B)` as one product of the library
/// (HP1, BF1, X3, 8-bit operands).
///
/// `alpha` is exact if `f32` has the power, subnormal or not. It is 0 below, if a product of the
/// largest values is below `2^-148` (below `2^-132` with 8-bit operands), and infinite above. In
/// the latter case results that the CPU's functions and [`accumulate`] still represent, because the
/// products of stored numbers are small, are infinite too, and NaN if those are 0.
pub fn factors(sign: Sign, scales: Scales, to: Address) -> Launch {
    let args =
        vec![Arg::F32(sign.value()), read_int(scales.a), read_int(scales.b), Arg::Write(to, Factors::BYTES)];
    single("zellige_factors", args)
}

/// `C = C + sign P 2^(a + b)`, both in `f32`: the end of HP1, BF1, X3 and 8-bit products.
///
/// # Errors
/// [`LaunchError`] for other numbers or overlapping columns; so for all functions below.
pub fn accumulate(
    shape: (u32, u32),
    p: Matrix,
    sign: Sign,
    scales: Scales,
    c: Matrix,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_accumulate");
    check.holds("p", p, Element::F32, "F32")?;
    check.holds("c", c, Element::F32, "F32")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("p", shape, p)?,
        Arg::U32(p.ld),
        Arg::F32(sign.value()),
        read_int(scales.a),
        read_int(scales.b),
        check.update("c", shape, c)?,
        Arg::U32(c.ld),
    ];
    Ok(over_entries(check.0, shape, args))
}

/// `S = C + sign P 2^(a + b - c)` in `f32` and in units of `C`'s scale `c`, `C` in `f16`. With `P`
/// in `f32` (HP2), `S` takes its place and `s` must be `p`; with `P` in `f16` (HP3), `S` is another
/// matrix.
///
/// [`measure`](super::measure) of `S` and [`store`] end the product.
///
/// # Errors
/// See [`accumulate`].
pub fn sum(
    shape: (u32, u32),
    p: Matrix,
    sign: Sign,
    scales: Scales,
    (c, scale_c): (Matrix, Address),
    s: Matrix,
) -> Result<Launch, LaunchError> {
    let in_place = p == s;
    let check = Checked(if in_place { "zellige_sum_f32" } else { "zellige_sum_f16" });
    let want =
        if in_place { (Element::F32, "F32") } else { (Element::F16, "F16, or F32 where it is S too,") };
    check.holds("p", p, want.0, want.1)?;
    check.holds("c", c, Element::F16, "F16")?;
    check.holds("s", s, Element::F32, "F32")?;
    let product = if in_place { check.update("p", shape, p)? } else { check.read("p", shape, p)? };
    let mut args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        product,
        Arg::U32(p.ld),
        Arg::F32(sign.value()),
        read_int(scales.a),
        read_int(scales.b),
        check.read("c", shape, c)?,
        Arg::U32(c.ld),
        read_int(scale_c),
    ];
    if !in_place {
        args.extend([check.write("s", shape, s)?, Arg::U32(s.ld)]);
    }
    Ok(over_entries(check.0, shape, args))
}

/// `C = f16(S)`, `S` in units of `C`'s scale; one rounding. Where the measure of `S` finds a
/// magnitude above `2^15`, the scale is raised first, as in
/// [`gemm_hp2`](crate::precision::gemm_hp2).
///
/// # Errors
/// See [`accumulate`].
pub fn store(
    shape: (u32, u32),
    s: Matrix,
    measure: Address,
    c: Matrix,
    scale_c: Address,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_store_f16");
    check.holds("s", s, Element::F32, "F32")?;
    check.holds("c", c, Element::F16, "F16")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.read("s", shape, s)?,
        Arg::U32(s.ld),
        Arg::Read(measure, Measure::BYTES),
        check.write("c", shape, c)?,
        Arg::U32(c.ld),
        Arg::Update(scale_c, 4),
    ];
    Ok(over_entries(check.0, shape, args))
}

/// Changes the scale of the `f16` tile `C` from `from` to `to`: one rounding if the new scale is
/// too coarse, infinite if it is too fine. The scales themselves are not changed.
///
/// # Errors
/// See [`accumulate`].
pub fn rescale(shape: (u32, u32), c: Matrix, from: Address, to: Address) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_rescale_f16");
    check.holds("c", c, Element::F16, "F16")?;
    let args = vec![
        Arg::U32(shape.0),
        Arg::U32(shape.1),
        check.update("c", shape, c)?,
        Arg::U32(c.ld),
        read_int(from),
        read_int(to),
    ];
    Ok(over_entries(check.0, shape, args))
}

/// `P = A op(B)` with a 16-bit accumulator, all in `f16`: the product inside
/// [`gemm_hp3`](crate::precision::gemm_hp3), bit for bit. `C` is `m x n`, the inner length `k`;
/// `transposed`: `op(B) = B^T`. On CUDA cores, to check tensor cores with.
///
/// # Errors
/// See [`accumulate`].
pub fn product_hp3(
    (m, n, k): (u32, u32, u32),
    a: Matrix,
    b: Matrix,
    transposed: bool,
    p: Matrix,
) -> Result<Launch, LaunchError> {
    let check = Checked("zellige_product_hp3");
    for (name, matrix) in [("a", a), ("b", b), ("p", p)] {
        check.holds(name, matrix, Element::F16, "F16")?;
    }
    let args = vec![
        Arg::U32(m),
        Arg::U32(n),
        Arg::U32(k),
        check.read("a", (m, k), a)?,
        Arg::U32(a.ld),
        check.read("b", if transposed { (n, k) } else { (k, n) }, b)?,
        Arg::U32(b.ld),
        Arg::U32(transposed.into()),
        check.write("p", (m, n), p)?,
        Arg::U32(p.ld),
    ];
    Ok(over_entries(check.0, (m, n), args))
}
