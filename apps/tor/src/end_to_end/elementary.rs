//! Sine, cosine and logarithm, vectorised by the compiler, with the same bits on every machine.

use std::f64::consts::{FRAC_PI_2, LN_2, SQRT_2};

/// Added to a number below `2^51`, it rounds that to a whole number, which is then in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// Coefficients of the Taylor polynomials in the square of the angle, highest power first.
const SIN: [f64; 6] = [-1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];
const COS: [f64; 7] =
    [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5, 1.0];

/// Computes sine and cosine of `2 pi turns`. On the reduced interval of a quarter turn the
/// polynomials leave less than `(pi/4)^13 / 13! < 1e-11`.
#[inline(always)]
pub(super) fn sin_cos(turns: f64) -> [f64; 2] {
    let rounded = 4.0 * turns + ROUNDER;
    let angle = (4.0 * turns - (rounded - ROUNDER)) * FRAC_PI_2;
    let square = angle * angle;
    let mut sin = SIN[0];
    for c in &SIN[1..] {
        sin = sin * square + c;
    }
    let mut cos = COS[0];
    for c in &COS[1..] {
        cos = cos * square + c;
    }
    let sin = sin * angle;
    let quadrant = rounded.to_bits();
    let (s, c) = if quadrant & 1 == 0 { (sin, cos) } else { (cos, sin) };
    let sign = |value: f64, bits: u64| f64::from_bits(value.to_bits() ^ ((bits & 2) << 62));
    [sign(s, quadrant), sign(c, quadrant.wrapping_add(1))]
}

/// Computes `ln x` of a normal number above 0. With the mantissa `m` between `sqrt(1/2)` and
/// `sqrt(2)`, the series of `2 artanh((m - 1) / (m + 1))` leaves less than 1e-13.
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    const MANTISSA: u32 = 52;
    // Half an exponent more, so that mantissas above sqrt(2) belong to the next power of 2.
    let bits = x.to_bits().wrapping_add(1f64.to_bits().wrapping_sub((SQRT_2 / 2.0).to_bits()));
    let exponent = (bits >> MANTISSA) as i32 - 1023;
    let m = f64::from_bits(x.to_bits().wrapping_sub((exponent as u64) << MANTISSA));
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 1.0 / 15.0;
    for k in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / k;
    }
    2.0 * s * sum + f64::from(exponent) * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_follow_libm() {
        for k in -20_000..20_000 {
            let turns = f64::from(k) * 0.000_713;
            let (sin, cos) = (std::f64::consts::TAU * turns).sin_cos();
            let [s, c] = sin_cos(turns);
            assert!((s - sin).abs() < 2e-11 && (c - cos).abs() < 2e-11, "{turns}: {s} {c}");
        }
    }

    #[test]
    fn the_logarithm_follows_libm() {
        for k in 1..20_000 {
            for x in [f64::from(k) / 20_000.0, (-0.0018 * f64::from(k)).exp()] {
                assert!((ln(x) - x.ln()).abs() < 1e-12 * (1.0 + x.ln().abs()), "{x}: {} {}", ln(x), x.ln());
            }
        }
        assert_eq!(ln(1.0), 0.0);
    }
}
