//! Powers of two that bring numbers of any size into the range of the arithmetic, without rounding.

/// Returns the exponent `e` with `2^e <= |x| < 2^(e + 1)`; 0 for zero and for non-finite numbers.
pub(crate) fn exponent(x: f64) -> i32 {
    if x == 0.0 || !x.is_finite() { 0 } else { libm::frexp(x).1 - 1 }
}

/// Returns `x 2^e`, rounded only if the result is subnormal.
pub(crate) fn times_power(x: f64, e: i32) -> f64 {
    if e == 0 { x } else { libm::ldexp(x, e) }
}

/// Returns the power of two that brings `|x|` into \[1, 2), as far as it has an inverse in float64;
/// 1 for zero and for non-finite numbers.
pub fn unit_scale(x: f64) -> f64 {
    libm::ldexp(1.0, (-exponent(x)).clamp(-1000, 1000))
}

/// Returns `|v|_2` of numbers `x 2^e`, as `(y, e)` for `y 2^e`: the squares neither underflow nor
/// overflow.
pub(crate) fn norm(v: impl Iterator<Item = (f64, i32)> + Clone) -> (f64, i32) {
    let nonzero = v.filter(|(x, _)| *x != 0.0);
    let Some(most) = nonzero.clone().map(|(x, e)| exponent(x) + e).max() else {
        return (0.0, 0);
    };
    // The largest number is scaled to [1, 2).
    (nonzero.map(|(x, e)| times_power(x, e - most).powi(2)).sum::<f64>().sqrt(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_brought_to_one() {
        for x in [1.0, 76.0, 2.35e-11, 3e6, 0.999_999, -1e300, 1e-300] {
            let y = x * unit_scale(x);
            assert!((1.0..2.0).contains(&y.abs()), "{x}: {y}");
            assert_eq!(times_power(x, -exponent(x)), y);
        }
        let y = times_power(5e-324, -exponent(5e-324));
        assert_eq!((y, unit_scale(5e-324)), (1.0, libm::ldexp(1.0, 1000)));
        for x in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!((unit_scale(x), exponent(x)), (1.0, 0));
        }
    }

    #[test]
    fn norms_of_any_numbers_are_in_range() {
        let of = |v: &[(f64, i32)]| norm(v.iter().copied());
        assert_eq!(
            of(&[(3e300, 2000), (0.0, 3000), (4e300, 2000)]).0 / 5e300,
            libm::ldexp(1.0, -exponent(4e300))
        );
        assert_eq!(of(&[(5e-324, 1074), (1.0, -2000)]), (1.0, 0));
        assert_eq!((of(&[]), of(&[(0.0, 5)])), ((0.0, 0), (0.0, 0)));
        assert!(of(&[(1.0, 0), (f64::NAN, 0)]).0.is_nan());
    }
}
