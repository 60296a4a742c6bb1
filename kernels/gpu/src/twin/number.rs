//! Numbers of each element type to f64 and back.

use half::{bf16, f16};

use crate::call::Element;

/// Rounds `x` to `bits` significant bits, to nearest, ties to even. Below `2^lowest` (the smallest
/// normal exponent) bits are lost as in subnormal numbers. Overflow is not handled.
pub(super) fn round(x: f64, bits: i32, lowest: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = exponent(x).max(lowest);
    // A power of two that f64 holds exactly for every type narrower than f64.
    let unit = 2f64.powi(exponent - (bits - 1));
    (x / unit).round_ties_even() * unit
}

/// The exponent of the leading bit of a number that is not zero (f64's own subnormal numbers count
/// as its smallest normal one).
fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// The largest finite number becomes infinity above half a step.
fn overflow(x: f64, largest: f64) -> f64 {
    if x.abs() > largest { f64::INFINITY.copysign(x) } else { x }
}

/// Rounds to f16.
pub(super) fn to_f16(x: f64) -> f64 {
    overflow(round(x, 11, -14), 65_504.0)
}

fn to_bf16(x: f64) -> f64 {
    overflow(round(x, 8, -126), bf16::MAX.to_f64())
}

/// An f32 with 11 significant bits, as tensor cores take it.
pub(super) fn to_tf32(x: f64) -> f64 {
    overflow(round(x, 11, -126), f64::from(f32::MAX))
}

/// The number of an e4m3 code (OCP 8-bit floating point, 2023): 4 bits of exponent with bias 7, 3
/// of mantissa, no infinity.
fn from_e4m3(code: u8) -> f64 {
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from((code >> 3) & 0xf), f64::from(code & 7));
    match (exponent, code & 7) {
        (15, 7) => f64::NAN,
        (0, _) => sign * mantissa * 2f64.powi(-9),
        _ => sign * (8.0 + mantissa) * 2f64.powi(exponent - 10),
    }
}

/// The nearest e4m3 code; beyond 448 it is 448, as CUDA's conversions saturate.
fn to_e4m3(x: f64) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_nan() {
        return sign | 0x7f;
    }
    let size = round(x.abs().min(448.0), 4, -6);
    // Codes of positive numbers are in their order.
    sign | (0..=0x7e).find(|code| from_e4m3(*code) >= size).unwrap_or(0x7e)
}

/// The number whose bytes these are (little-endian, as many as the element has).
///
/// # Panics
/// If there are fewer bytes.
pub fn decode(element: Element, bytes: &[u8]) -> f64 {
    match element {
        Element::F64 => f64::from_le_bytes(first(bytes)),
        Element::F32 => f64::from(f32::from_le_bytes(first(bytes))),
        Element::F16 => f16::from_le_bytes(first(bytes)).to_f64(),
        Element::BF16 => bf16::from_le_bytes(first(bytes)).to_f64(),
        Element::F8E4M3 => from_e4m3(bytes[0]),
    }
}

/// Writes a number, rounded to nearest with ties to even; 16 bits overflow to infinity, 8 bits to
/// the largest number.
///
/// # Panics
/// If there are fewer bytes than the element has.
pub fn encode(element: Element, x: f64, bytes: &mut [u8]) {
    match element {
        Element::F64 => bytes[..8].copy_from_slice(&x.to_le_bytes()),
        Element::F32 => bytes[..4].copy_from_slice(&(x as f32).to_le_bytes()),
        // The number is one of the type already, so that how the conversion rounds does not matter.
        Element::F16 => bytes[..2].copy_from_slice(&f16::from_f64(to_f16(x)).to_le_bytes()),
        Element::BF16 => bytes[..2].copy_from_slice(&bf16::from_f64(to_bf16(x)).to_le_bytes()),
        Element::F8E4M3 => bytes[0] = to_e4m3(x),
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_16_bit_number_comes_back() {
        for bits in 0..=u16::MAX {
            for element in [Element::F16, Element::BF16] {
                let x = decode(element, &bits.to_le_bytes());
                let mut back = [0; 2];
                encode(element, x, &mut back);
                let again = decode(element, &back);
                assert!(
                    x.to_bits() == again.to_bits() || x.is_nan() && again.is_nan(),
                    "{element:?} {bits:#x}"
                );
            }
        }
    }

    #[test]
    fn e4m3_is_the_published_table() {
        // OCP 8-bit floating point specification 1.0, table 2: largest 448, smallest normal 2^-6,
        // smallest subnormal 2^-9.
        assert_eq!(from_e4m3(0x7e), 448.0);
        assert_eq!(from_e4m3(0x08), 2f64.powi(-6));
        assert_eq!(from_e4m3(0x01), 2f64.powi(-9));
        assert_eq!(from_e4m3(0x38), 1.0);
        assert!(from_e4m3(0x7f).is_nan() && from_e4m3(0xff).is_nan());
        for code in (0..=255u8).filter(|code| code & 0x7f != 0x7f) {
            let mut back = [0];
            encode(Element::F8E4M3, from_e4m3(code), &mut back);
            assert_eq!(back[0], code);
        }
        let mut byte = [0];
        for (x, nearest) in [(17.0, 16.0), (19.0, 20.0), (1e9, 448.0), (-1e9, -448.0), (2f64.powi(-10), 0.0)]
        {
            encode(Element::F8E4M3, x, &mut byte);
            assert_eq!(from_e4m3(byte[0]), nearest, "{x}");
        }
    }

    #[test]
    fn ties_go_to_even_and_overflow_is_infinite() {
        assert_eq!(to_f16(2049.0), 2048.0);
        assert_eq!(to_f16(2051.0), 2052.0);
        assert_eq!(to_f16(2049.0 + 1e-9), 2050.0); // a conversion by way of f32 would see a tie
        assert_eq!(to_f16(65_519.9), 65_504.0);
        assert_eq!(to_f16(65_520.0), f64::INFINITY);
        assert_eq!(to_f16(2f64.powi(-25)), 0.0);
        assert_eq!(to_f16(1.5 * 2f64.powi(-24)), 2f64.powi(-23));
        assert_eq!(to_tf32(1.0 + 2f64.powi(-11)), 1.0);
        assert_eq!(to_tf32(1.0 + 3.0 * 2f64.powi(-11)), 1.0 + 2f64.powi(-9));
    }

    proptest! {
        #[test]
        fn rounding_to_24_bits_is_what_f32_does(x in proptest::num::f64::ANY) {
            let ours = overflow(round(x, 24, -126), f64::from(f32::MAX));
            prop_assert!(x.is_nan() || ours == f64::from(x as f32), "{} {}", ours, x as f32);
        }
    }
}
