//! Sums of products, in reduction blocks of [`REDUCTION_ROWS`] rows.

use zellige_kernels::RealNumber;
use zellige_kernels::vectors::{LANES, add_lanes};

use crate::scalar::Scalar;
use crate::space::REDUCTION_ROWS;

/// Overwrites sum `at` of each reduction block and column with that of `conj(x) y`: `sums` are
/// `[block][column][width]`.
pub fn dots<E: Scalar>(x: &[E], y: &[E], columns: usize, sums: &mut [f64], width: usize, at: usize) {
    let mut lanes = vec![E::default(); LANES * columns];
    let blocks = x.chunks(REDUCTION_ROWS * columns).zip(y.chunks(REDUCTION_ROWS * columns));
    let sums = E::of_words_mut(sums).chunks_exact_mut(columns * width);
    for ((x, y), sums) in blocks.zip(sums) {
        lanes.fill(E::default());
        let whole = x.len() / lanes.len() * lanes.len();
        E::accumulate(&x[..whole], &y[..whole], &mut lanes);
        finish(&mut lanes, &x[whole..], &y[whole..]);
        sums.chunks_exact_mut(width).zip(&lanes).for_each(|(sums, sum)| sums[at] = *sum);
    }
}

/// Returns the power of two that scales a vector to magnitudes of at most 1, so that its squares
/// neither underflow nor overflow; 1 for zeros and for non-finite vectors.
pub fn unit_scale<E: Scalar>(v: &[E]) -> f64 {
    let largest = E::words(v).iter().fold(0.0, |most: f64, word| most.max(word.abs()));
    if largest > 0.0 && largest.is_finite() {
        // The exponent and its negative are both within the range of numbers.
        libm::ldexp(1.0, -libm::frexp(largest).1.clamp(-1000, 1000))
    } else {
        1.0
    }
}

/// Returns `|v|_2` without overflow or underflow of squares.
pub fn norm<E: Scalar>(v: &[E]) -> f64 {
    let scale = E::from_real(unit_scale(v));
    let scaled: Vec<E> = v.iter().map(|v| scale * *v).collect();
    let squares = scaled.chunks(REDUCTION_ROWS).map(|block| dot(block, block).real()).sum::<E::Real>();
    (squares.sqrt() / scale.real()).value()
}

/// Returns `conj(x) . y` of one column.
pub(crate) fn dot<E: Scalar>(x: &[E], y: &[E]) -> E {
    let mut lanes = [E::default(); LANES];
    let whole = x.len() / LANES * LANES;
    E::accumulate(&x[..whole], &y[..whole], &mut lanes);
    finish(&mut lanes, &x[whole..], &y[whole..]);
    lanes[0]
}

/// Adds the lanes of each column, and the products of the last rows, which do not fill a group; the
/// sum of column `c` is stored in `lanes[c]`.
pub(crate) fn finish<E: Scalar>(lanes: &mut [E], x: &[E], y: &[E]) {
    add_lanes(lanes);
    let columns = lanes.len() / LANES;
    for (c, sum) in lanes[..columns].iter_mut().enumerate() {
        let of_column = |v: &'_ [E]| (c..v.len()).step_by(columns);
        *sum = *sum + of_column(x).map(|i| x[i].conj() * y[i]).sum();
    }
}

/// Sums the numbers of all reduction blocks for one column, in their order.
pub(crate) fn total<'s, E: Scalar>(
    partial: impl Iterator<Item = &'s [f64]>,
    column: usize,
    columns: usize,
    totals: &mut [E],
) {
    let width = totals.len();
    totals.fill(E::default());
    for of_part in partial {
        for of_block in E::of_words(of_part).chunks_exact(columns * width) {
            let of_column = &of_block[column * width..(column + 1) * width];
            totals.iter_mut().zip(of_column).for_each(|(total, sum)| *total = *total + *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_neither_underflow_nor_overflow() {
        for size in [1e-300, 1e-160, 1.0, 1e160, 1e300] {
            assert!((norm(&[3.0 * size, 0.0, -4.0 * size]) / size - 5.0).abs() < 1e-14, "{size:e}");
        }
        assert_eq!((norm(&[0.0; 3]), norm::<f64>(&[])), (0.0, 0.0));
        assert!(norm(&[1.0, f64::NAN]).is_nan() && norm(&[f64::INFINITY, 1.0]) == f64::INFINITY);
        assert!((norm(&[5e-324; 4]) - 1e-323).abs() < 5e-324);
    }

    #[test]
    fn sums_are_those_of_whole_numbers() {
        let x: Vec<f64> = (0..REDUCTION_ROWS + 77).map(|i| (i % 19) as f64 - 9.0).collect();
        let y: Vec<f64> = (0..REDUCTION_ROWS + 77).map(|i| (i % 23) as f64).collect();
        let exact = |range: std::ops::Range<usize>| range.map(|i| x[i] * y[i]).sum::<f64>();
        let mut sums = vec![f64::NAN; 4];
        dots(&x, &y, 1, &mut sums, 2, 0);
        assert_eq!(
            (sums[0], sums[2]),
            (exact(0..REDUCTION_ROWS), exact(REDUCTION_ROWS..REDUCTION_ROWS + 77))
        );
        let woven: Vec<f64> = x.iter().zip(&y).flat_map(|(x, y)| [*x, *y]).collect();
        let mut of_both = vec![f64::NAN; 8];
        dots(&woven, &woven, 2, &mut of_both, 2, 1);
        let squares = |v: &[f64], range: std::ops::Range<usize>| v[range].iter().map(|v| v * v).sum::<f64>();
        assert_eq!(of_both[1], squares(&x, 0..REDUCTION_ROWS));
        assert_eq!(of_both[7], squares(&y, REDUCTION_ROWS..REDUCTION_ROWS + 77));
    }
}
