//! Perturbations other than random rounding: none, Monte Carlo arithmetic, reduced precision.

use crate::number::symmetric;
use crate::random::first;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::state;

/// Change of the result of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Perturbation {
    /// Up or down with probability 1/2 each (CESTAC), exact results unchanged: the default.
    Random,
    /// Round to nearest: all samples have the bits of the plain type.
    None,
    /// Monte Carlo arithmetic (Parker 1997): each result becomes x + 2^(e - t) u, with e its
    /// exponent, t the virtual precision in bits, u uniform in (-1/2, 1/2).
    MonteCarlo {
        /// Virtual precision in bits, at least 1.
        bits: u32,
    },
    /// VPREC: each result is rounded to nearest to `bits` significant bits, and to an exponent of
    /// `range` bits. Deterministic: all samples are equal.
    Reduced {
        /// Significant bits with the leading one, from 1 to 53.
        bits: u32,
        /// Bits of the exponent, from 2 to 11.
        range: u32,
    },
}

impl Perturbation {
    /// Whether results depend on the error of an operation, which can be costly.
    pub(crate) fn uses_errors(self) -> bool {
        matches!(self, Perturbation::Random | Perturbation::MonteCarlo { .. })
    }
}

/// The lanes of a result under the perturbation of the scope, which is not random rounding; random
/// numbers follow from `word`.
#[cold]
#[inline(never)]
pub(crate) fn perturb<T: Sample, S: Samples>(
    r: S::Array<T>,
    errors: S::Array<f64>,
    word: u64,
) -> S::Array<T> {
    let (lanes, e) = (r.as_ref(), errors.as_ref());
    match state::mode().perturbation {
        Perturbation::Random | Perturbation::None => r,
        Perturbation::MonteCarlo { bits } => S::build(|lane| {
            let x = lanes[lane].to_f64();
            // Exact results that the virtual precision holds stay exact.
            let exact = e[lane] == 0.0 || e[lane].is_nan();
            if !x.is_finite() || x == 0.0 || exact && reduce(x, bits, 11) == x {
                return lanes[lane];
            }
            T::from_f64(
                x + 0.5 * symmetric(first(word, lane as u64)) * power_of_two(exponent(x) + 1 - bits as i32),
            )
        }),
        Perturbation::Reduced { bits, range } => {
            S::build(|lane| T::from_f64(reduce(lanes[lane].to_f64(), bits, range)))
        }
    }
}

/// Exponent `e` of `x` with `2^e <= |x| < 2^(e + 1)`.
fn exponent(x: f64) -> i32 {
    libm::ilogb(x)
}

fn power_of_two(exponent: i32) -> f64 {
    libm::scalbn(1.0, exponent)
}

/// `x` rounded to nearest even to `bits` significant bits and an exponent of `range` bits, with
/// subnormal numbers and infinity as IEEE 754 has them.
pub(crate) fn reduce(x: f64, bits: u32, range: u32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let largest = (1 << (range.clamp(2, 11) - 1)) - 1;
    let smallest = 1 - largest;
    let digits = bits.clamp(1, 53) as i32 - 1;
    let unit = exponent(x).max(smallest) - digits;
    // Multiples of the unit are integers of at most 53 bits after scaling, in two exact steps.
    let scaled = libm::scalbn(x, -unit);
    let rounded = libm::scalbn(libm::rint(scaled), unit);
    if rounded != 0.0 && exponent(rounded) > largest { f64::INFINITY.copysign(x) } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// The formats of `half` are this rounding with their precision and range.
    #[test]
    fn reduced_precision_is_that_of_the_formats() {
        let mut x = 1e-10f64;
        while x < 1e40 {
            for value in [x, -x, x * 1.000_976_562_5, f64::from(f16::from_f64(x)) * 1.000_488_281_25] {
                assert_eq!(reduce(value, 24, 8), f64::from(value as f32));
                assert_eq!(reduce(value, 11, 5), <f16 as Sample>::from_f64(value).to_f64(), "{value:e}");
                assert_eq!(reduce(value, 8, 8), <bf16 as Sample>::from_f64(value).to_f64(), "{value:e}");
            }
            x *= 1.37;
        }
    }
}
