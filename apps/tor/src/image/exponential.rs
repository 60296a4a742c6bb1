//! Sums of exponentials, vectorised by the compiler.

use zellige_stochastic::vectorize;

/// Number of independent partial sums, enough to hide the latency of additions.
const LANES: usize = 32;
/// Smallest exponent: `exp` of it is the smallest normal number, almost.
const LEAST: f64 = -708.0;
/// Added to a number below `2^51`, it rounds that to a whole number, which is then in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// Parts of `ln 2`. The first has 32 bits, so that its products with whole numbers are exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
/// Coefficients `1 / k!` of the Taylor polynomial, highest power first.
const TAYLOR: [f64; 12] = [
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];
const MANTISSA: u32 = 52;

/// Returns the sum of `exp(min(x, 0))` over all `x`, with the same bits on every machine.
///
/// Relative error of an exponential: on the reduced interval `|r| <= ln(2) / 2` the polynomial of
/// degree 11 leaves `|r|^12 / 12! < 7e-15`, and rounding adds less than 1e-15. Numbers below -708
/// count as `exp(-708) = 3e-308`.
pub(super) fn sum_exp(x: &[f64]) -> f64 {
    vectorize(
        #[inline(always)]
        || {
            let (blocks, rest) = x.as_chunks::<LANES>();
            let mut sums = [0.0; LANES];
            for block in blocks {
                for lane in 0..LANES {
                    sums[lane] += exp(block[lane]);
                }
            }
            rest.iter().zip(&mut sums).for_each(|(x, sum)| *sum += exp(*x));
            sums.iter().sum()
        },
    )
}

/// Computes `exp(min(x, 0))`.
#[inline(always)]
fn exp(x: f64) -> f64 {
    // Comparisons, as `min` and `max` would take more instructions for numbers that are no numbers.
    let x = if x < 0.0 { x } else { 0.0 };
    let x = if x > LEAST { x } else { LEAST };
    let rounded = x * std::f64::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let r = (x - n * LN_2[0]) - n * LN_2[1];
    let mut p = TAYLOR[0];
    for c in &TAYLOR[1..] {
        p = p * r + c;
    }
    // Adds n to the exponent.
    f64::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << MANTISSA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_follow_libm() {
        let mut worst: f64 = 0.0;
        for k in 0..2_000_000 {
            // Dense near 0, where most exponents are, and down to -708.
            let x = -708.0 * (f64::from(k) / 2e6).powi(3);
            worst = worst.max((exp(x) / x.exp() - 1.0).abs());
        }
        assert!(worst < 1e-14, "{worst:e}");
        assert_eq!([exp(0.0), exp(1e-9), exp(f64::MAX)], [1.0; 3]);
        assert!(exp(-1e300) < 1e-300 && exp(f64::NEG_INFINITY) < 1e-300);
    }

    #[test]
    fn sums_hold_every_term() {
        for len in [0, 1, 31, 32, 33, 1000] {
            let x: Vec<f64> = (0..len).map(|k| 0.1 - f64::from(k) * 0.37).collect();
            let want: f64 = x.iter().map(|x| x.min(0.0).exp()).sum();
            assert!((sum_exp(&x) - want).abs() <= 1e-14 * want, "{len}");
        }
    }
}
