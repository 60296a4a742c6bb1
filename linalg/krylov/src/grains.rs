//! Sums of products over a part, [`GRAIN`] rows at a time.

use zellige_kernels::vectors::{LANES, add_lanes};

use crate::scalar::Scalar;
use crate::space::GRAIN;

/// Overwrites sum `at` of each grain and column with that of `conj(x) y`: `sums` are `[grain][column][width]`.
pub fn dots<E: Scalar>(x: &[E], y: &[E], columns: usize, sums: &mut [f64], width: usize, at: usize) {
    let mut lanes = vec![E::default(); LANES * columns];
    let grains = x.chunks(GRAIN * columns).zip(y.chunks(GRAIN * columns));
    let sums = E::of_words_mut(sums).chunks_exact_mut(columns * width);
    for ((x, y), sums) in grains.zip(sums) {
        lanes.fill(E::default());
        let whole = x.len() / lanes.len() * lanes.len();
        E::accumulate(&x[..whole], &y[..whole], &mut lanes);
        finish(&mut lanes, &x[whole..], &y[whole..]);
        sums.chunks_exact_mut(width).zip(&lanes).for_each(|(sums, sum)| sums[at] = *sum);
    }
}

/// `conj(x) . y` of one column.
pub(crate) fn dot<E: Scalar>(x: &[E], y: &[E]) -> E {
    let mut lanes = [E::default(); LANES];
    let whole = x.len() / LANES * LANES;
    E::accumulate(&x[..whole], &y[..whole], &mut lanes);
    finish(&mut lanes, &x[whole..], &y[whole..]);
    lanes[0]
}

/// Adds the lanes of each column, and the products of the last rows, which are no whole group: the sum of column `c` comes to lie in `lanes[c]`.
pub(crate) fn finish<E: Scalar>(lanes: &mut [E], x: &[E], y: &[E]) {
    add_lanes(lanes);
    let columns = lanes.len() / LANES;
    for (c, sum) in lanes[..columns].iter_mut().enumerate() {
        let of_column = |v: &'_ [E]| (c..v.len()).step_by(columns);
        *sum = *sum + of_column(x).map(|i| x[i].conj() * y[i]).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_whole_numbers() {
        let x: Vec<f64> = (0..GRAIN + 77).map(|i| (i % 19) as f64 - 9.0).collect();
        let y: Vec<f64> = (0..GRAIN + 77).map(|i| (i % 23) as f64).collect();
        let exact = |range: std::ops::Range<usize>| range.map(|i| x[i] * y[i]).sum::<f64>();
        let mut sums = vec![f64::NAN; 4];
        dots(&x, &y, 1, &mut sums, 2, 0);
        assert_eq!((sums[0], sums[2]), (exact(0..GRAIN), exact(GRAIN..GRAIN + 77)));
        let woven: Vec<f64> = x.iter().zip(&y).flat_map(|(x, y)| [*x, *y]).collect();
        let mut of_both = vec![f64::NAN; 8];
        dots(&woven, &woven, 2, &mut of_both, 2, 1);
        let squares = |v: &[f64], range: std::ops::Range<usize>| v[range].iter().map(|v| v * v).sum::<f64>();
        assert_eq!(of_both[1], squares(&x, 0..GRAIN));
        assert_eq!(of_both[7], squares(&y, GRAIN..GRAIN + 77));
    }
}
