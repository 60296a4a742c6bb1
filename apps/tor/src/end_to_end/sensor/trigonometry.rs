//! Sine and cosine, vectorised by the compiler.

use std::f64::consts::FRAC_PI_2;

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
}
