//! Measures of a tile.

use super::simd::{self, SUMS};
use crate::{MatRef, Scalar};

/// The reductions, per element type.
pub(crate) mod reduce {
    pub trait Reduce: Sized {
        fn max_abs(columns: impl Iterator<Item = impl AsRef<[Self]>>) -> f64;
        /// Adds squares of `x 2^(-exp)`.
        fn add_squares(x: &[Self], exp: i32, sums: &mut [f64; super::SUMS]);
        /// True if [`add_squares`](Self::add_squares) needs a scale.
        const SCALED: bool;
    }
}
use reduce::Reduce;

impl Reduce for f32 {
    const SCALED: bool = false;
    fn max_abs(columns: impl Iterator<Item = impl AsRef<[Self]>>) -> f64 {
        let bits = columns.fold(0, |m, c| simd::max_abs_f32(c.as_ref()).max(m));
        f64::from(f32::from_bits(bits))
    }
    /// The square of an `f32` fits an `f64` exactly, largest and smallest included.
    fn add_squares(x: &[Self], _exp: i32, sums: &mut [f64; SUMS]) {
        simd::add_squares_f32(x, sums);
    }
}

impl Reduce for f64 {
    const SCALED: bool = true;
    fn max_abs(columns: impl Iterator<Item = impl AsRef<[Self]>>) -> f64 {
        f64::from_bits(columns.fold(0, |m, c| simd::max_abs_f64(c.as_ref()).max(m)))
    }
    fn add_squares(x: &[Self], exp: i32, sums: &mut [f64; SUMS]) {
        // Two factors: one cannot reach 2^1074.
        let half = -exp / 2;
        simd::add_squares_f64(x, (exp2(half), exp2(-exp - half)), sums);
    }
}

/// `2^e` for `e` in `-1022 ..= 1023`.
pub(crate) fn exp2(e: i32) -> f64 {
    f64::from_bits(((e.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// The largest magnitude; 0 for an empty matrix, NaN when there is a NaN.
pub fn max_abs<T: Scalar>(a: MatRef<'_, T>) -> f64 {
    T::max_abs((0..a.cols()).map(|j| a.col(j)))
}

/// Returns the Frobenius norm, the root of the sum of squares.
///
/// It neither overflows nor underflows if the norm itself is representable. The additions have a
/// fixed order (32 partial sums, column by column), so the result depends on the values and the
/// shape only. The relative error is at most `(rows cols / 32 + 40) 2^-53` for both types, below
/// `1e-11` for tiles up to 1024. Infinite when an entry is, NaN when one is NaN.
pub fn frobenius_norm<T: Scalar>(a: MatRef<'_, T>) -> f64 {
    let mut exp = 0;
    if T::SCALED {
        let max = max_abs(a);
        if max == 0.0 || !max.is_finite() {
            return max;
        }
        exp = super::scale_exponent(max);
    }
    let mut sums = [0.0; SUMS];
    for j in 0..a.cols() {
        T::add_squares(a.col(j), exp, &mut sums);
    }
    // Pairwise: 32, 16, .. 1.
    let mut width = SUMS / 2;
    while width > 0 {
        for i in 0..width {
            sums[i] += sums[i + width];
        }
        width /= 2;
    }
    let half = exp / 2;
    sums[0].sqrt() * exp2(half) * exp2(exp - half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(x: &[f64]) -> MatRef<'_, f64> {
        MatRef::new(x, x.len(), 1, x.len()).unwrap()
    }

    #[test]
    fn norms_at_the_ends_of_the_range() {
        assert_eq!(frobenius_norm(column(&[3e300, 4e300])), 5e300);
        let tiny = f64::from_bits(1);
        assert_eq!(frobenius_norm(column(&[3.0 * tiny, -4.0 * tiny])), 5.0 * tiny);
        assert_eq!(frobenius_norm(column(&[])), 0.0);
        assert_eq!(frobenius_norm(column(&[0.0, -0.0])), 0.0);
        assert_eq!(frobenius_norm(column(&[1.0, f64::NEG_INFINITY])), f64::INFINITY);
        assert!(frobenius_norm(column(&[1.0, f64::NAN, f64::INFINITY])).is_nan());
        let x = [3e38f32, 0.0, 3e38];
        let norm = frobenius_norm(MatRef::new(&x, 1, 2, 2).unwrap());
        assert!((norm / (f64::from(3e38f32) * 2.0f64.sqrt()) - 1.0).abs() < 1e-15);
        let norm = frobenius_norm(MatRef::new(&[3e-45f32, 3e-45], 2, 1, 2).unwrap());
        assert!((norm / (f64::from(3e-45f32) * 2.0f64.sqrt()) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn norms_skip_the_gaps_between_columns() {
        let x: Vec<f32> = (0..70).map(|i| if i % 7 < 5 { 2.0 } else { 1e30 }).collect();
        let a = MatRef::new(&x, 5, 10, 7).unwrap();
        assert_eq!(frobenius_norm(a), 200.0f64.sqrt());
        assert_eq!(max_abs(a), 2.0);
    }

    #[test]
    fn max_abs_sees_signs_and_nan() {
        assert_eq!(max_abs(column(&[1.0, -7.0, 3.0])), 7.0);
        assert!(max_abs(column(&[1.0, f64::NAN, f64::INFINITY])).is_nan());
    }

    #[test]
    fn norm_of_many_is_accurate() {
        let x: Vec<f64> = (1..=100_003).map(|i| 1.0 / f64::from(i)).collect();
        // Sum of 1/i^2 to n: pi^2/6 - 1/n + 1/(2 n^2) - ..
        let n = 100_003.0f64;
        let want =
            (core::f64::consts::PI.powi(2) / 6.0 - 1.0 / n + 0.5 / (n * n) - 1.0 / (6.0 * n.powi(3))).sqrt();
        assert!((frobenius_norm(column(&x)) / want - 1.0).abs() < 1e-14);
    }
}
