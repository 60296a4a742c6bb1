//! Encoding and decoding of single numbers: the definition of the codes, and the portable path.

use super::{Family, PackedFormat, Rounding};
use crate::formats::bits::f32_to_odd;

const SIGN: u64 = 1 << 63;
const F64_FRACTION: u32 = 52;
const F32_FRACTION: u32 = 23;
/// `1.0`, as bits: the exponents of the scaled formats begin there.
const ONE: u64 = 1023 << F64_FRACTION;

/// `2^exp`, for exponents of normal numbers.
pub(crate) fn power_of_two(exp: i32) -> f64 {
    f64::from_bits(((exp + 1023) as u64) << F64_FRACTION)
}

/// Drops the last `drop` bits of a magnitude.
#[inline(always)]
fn cut(bits: u64, drop: u32, rounding: Rounding) -> u64 {
    if drop == 0 || rounding == Rounding::Chop {
        return bits >> drop;
    }
    let odd = (bits >> drop) & 1;
    // A carry may run into the exponent: the next binade, or infinity.
    (bits + (1 << (drop - 1)) - 1 + odd) >> drop
}

/// Cuts an IEEE number's bits, without its sign. `top` are the bits of infinity.
#[inline(always)]
fn cut_ieee(magnitude: u64, top: u64, drop: u32, rounding: Rounding) -> u64 {
    let infinity = top >> drop;
    if magnitude > top {
        return infinity | 1; // a NaN stays one
    }
    let code = cut(magnitude, drop, rounding);
    // A finite number stays finite.
    if magnitude < top { code.min(infinity - 1) } else { code }
}

#[inline(always)]
pub(super) fn encode(format: PackedFormat, value: f64, rounding: Rounding) -> u64 {
    let bits = 8 * format.bytes() as u32;
    let negative = u64::from(value.is_sign_negative());
    let (magnitude, signed) = match format.family() {
        Family::Double => {
            let drop = F64_FRACTION - format.fraction_bits();
            (cut_ieee(value.to_bits() & !SIGN, 0x7ff << F64_FRACTION, drop, rounding), true)
        }
        Family::Single => {
            let drop = F32_FRACTION - format.fraction_bits();
            // Rounding to odd first makes the second rounding the only one.
            let near = if drop == 0 || rounding == Rounding::Chop { value as f32 } else { f32_to_odd(value) };
            let near = if value.is_finite() { near.clamp(-f32::MAX, f32::MAX) } else { near };
            let magnitude = u64::from(near.to_bits() & 0x7fff_ffff);
            (cut_ieee(magnitude, 0xff << F32_FRACTION, drop, rounding), true)
        }
        Family::Reduced => (scaled(format, value, rounding), true),
        Family::Unsigned => (scaled(format, value, rounding), false),
    };
    if signed { magnitude | (negative << (bits - 1)) } else { magnitude }
}

/// Encodes exponent and fraction of a magnitude in `[1, 2^8)`; values outside are clamped to it.
#[inline(always)]
fn scaled(format: PackedFormat, value: f64, rounding: Rounding) -> u64 {
    let fraction = format.fraction_bits();
    let largest = (1u64 << (3 + fraction)) - 1;
    let magnitude = value.abs();
    if magnitude >= 256.0 {
        return largest;
    }
    // A NaN and values that are too small become 1.
    let offset = if magnitude > 1.0 { magnitude.to_bits() - ONE } else { 0 };
    cut(offset, F64_FRACTION - fraction, rounding).min(largest)
}

pub(super) fn decode(format: PackedFormat, code: u64) -> f64 {
    let free = 64 - 8 * format.bytes() as u32;
    // The code's first bit first.
    let top = code << free;
    match format.family() {
        Family::Double => f64::from_bits(top),
        Family::Single => f64::from(f32::from_bits((top >> 32) as u32)),
        Family::Reduced => f64::from_bits((((top & !SIGN) >> 8) + ONE) | (top & SIGN)),
        Family::Unsigned => f64::from_bits((top >> 9) + ONE),
    }
}

/// Decodes the bytes of one code as [`decode`] does.
#[inline(always)]
pub(super) fn decode_bytes(format: PackedFormat, code: &[u8]) -> f64 {
    let mut whole = [0; 8];
    whole[..code.len()].copy_from_slice(code);
    decode(format, u64::from_le_bytes(whole))
}
