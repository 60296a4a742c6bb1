//! Sums over stretches of vectors, grain by grain.

use zellige_kernels::vectors::dot;

use crate::space::GRAIN;

/// Overwrites sum `at` of each grain, `width` sums to a grain, with that of `x . y`.
pub fn dots(x: &[f64], y: &[f64], sums: &mut [f64], width: usize, at: usize) {
    let grains = x.chunks(GRAIN).zip(y.chunks(GRAIN));
    for ((x, y), sums) in grains.zip(sums.chunks_exact_mut(width)) {
        sums[at] = dot(x, y);
    }
}

/// Overwrites `totals` with the sums of all grains, in their order.
pub fn total<'s>(sums: impl Iterator<Item = &'s [f64]>, totals: &mut [f64]) {
    totals.fill(0.0);
    let width = totals.len();
    for of_grain in sums.flat_map(|of_stretch| of_stretch.chunks_exact(width)) {
        totals.iter_mut().zip(of_grain).for_each(|(total, sum)| *total += sum);
    }
}

/// The power of two that takes a vector to magnitudes of at most 1, so that its squares neither underflow nor overflow; 1 for zeros and
/// for what is not finite.
pub fn unit_scale(v: &[f64]) -> f64 {
    let largest = crate::exact::largest(v.iter().copied());
    if largest > 0.0 && largest.is_finite() {
        // Far enough from where numbers end for one by it to be one.
        libm::ldexp(1.0, -libm::frexp(largest).1.clamp(-1000, 1000))
    } else {
        1.0
    }
}

/// `|v|_2`, whatever the size of its elements.
pub fn norm(v: &[f64]) -> f64 {
    let scale = unit_scale(v);
    let scaled: Vec<f64> = v.iter().map(|v| scale * v).collect();
    scaled.chunks(GRAIN).map(|grain| dot(grain, grain)).sum::<f64>().sqrt() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_neither_underflow_nor_overflow() {
        for size in [1e-300, 1e-160, 1.0, 1e160, 1e300] {
            assert!((norm(&[3.0 * size, 0.0, -4.0 * size]) / size - 5.0).abs() < 1e-14, "{size:e}");
        }
        assert_eq!((norm(&[0.0; 3]), norm(&[])), (0.0, 0.0));
        assert!(norm(&[1.0, f64::NAN]).is_nan() && norm(&[f64::INFINITY, 1.0]) == f64::INFINITY);
        assert!((norm(&[5e-324; 4]) - 1e-323).abs() < 5e-324);
    }

    #[test]
    fn sums_are_those_of_whole_numbers() {
        let x: Vec<f64> = (0..GRAIN + 77).map(|i| (i % 19) as f64 - 9.0).collect();
        let y: Vec<f64> = (0..GRAIN + 77).map(|i| (i % 23) as f64).collect();
        let exact: i64 = (0..GRAIN as i64 + 77).map(|i| (i % 19 - 9) * (i % 23)).sum();
        let (mut sums, mut totals) = (vec![f64::NAN; 4], [f64::NAN; 2]);
        dots(&x, &y, &mut sums, 2, 0);
        dots(&y, &y, &mut sums, 2, 1);
        total([&sums[..2], &sums[2..]].into_iter(), &mut totals);
        assert_eq!(totals[0], exact as f64);
        assert_eq!(totals[1], y.iter().map(|y| y * y).sum::<f64>());
    }
}
