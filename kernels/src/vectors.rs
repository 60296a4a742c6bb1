//! Sums and updates of vectors in `f64`, in an order that no machine changes.
//!
//! Loops are compiled for the instructions that the machine has; lanes are added in one order, and no product is fused with a sum, so that every
//! machine computes the same bits.
//!
//! ```
//! use zellige_kernels::vectors::{dot, dots, subtract};
//!
//! let (x, y, mut z) = ([1.0; 100], [2.0; 100], [5.0; 100]);
//! assert_eq!(dot(&x, &y), 200.0);
//! assert_eq!(dots(&x, [&x, &y]), [100.0, 200.0]);
//! subtract(&mut z, [1.0, 2.0], [&x, &y]);
//! assert_eq!(z, [0.0; 100]);
//! ```

use pulp::{Arch, Simd, WithSimd};

/// `x . y`: 32 sums side by side.
///
/// # Panics
/// If the lengths differ.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    let [sum] = Arch::new().dispatch(Dots::<1, 32> { x, y: [y] });
    sum
}

/// `x . y` for several `y` at once, which reads `x` once: eight sums side by side for each.
///
/// # Panics
/// If the lengths differ.
pub fn dots<const N: usize>(x: &[f64], y: [&[f64]; N]) -> [f64; N] {
    Arch::new().dispatch(Dots::<N, 8> { x, y })
}

/// `w -= sum_k h_k v_k`, which reads and writes `w` once; the sum is made first, from left to right.
///
/// # Panics
/// If the lengths differ.
pub fn subtract<const N: usize>(w: &mut [f64], h: [f64; N], v: [&[f64]; N]) {
    Arch::new().dispatch(Subtract { w, h, v });
}

struct Dots<'a, const N: usize, const LANES: usize> {
    x: &'a [f64],
    y: [&'a [f64]; N],
}

impl<const N: usize, const LANES: usize> WithSimd for Dots<'_, N, LANES> {
    type Output = [f64; N];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; N] {
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let y = self.y.map(|y| {
            assert_eq!(y.len(), self.x.len(), "vectors of one length");
            y.as_chunks::<LANES>()
        });
        let mut sums = [[0.0; LANES]; N];
        for (at, x) in x.iter().enumerate() {
            for (sums, y) in sums.iter_mut().zip(&y) {
                let y = &y.0[at];
                for lane in 0..LANES {
                    sums[lane] += x[lane] * y[lane];
                }
            }
        }
        std::array::from_fn(|k| {
            let rest: f64 = x_rest.iter().zip(y[k].1).map(|(x, y)| x * y).sum();
            together(&mut sums[k]) + rest
        })
    }
}

/// The sum of a number of lanes that is a power of two: halves are added to halves.
#[inline(always)]
fn together(lanes: &mut [f64]) -> f64 {
    let mut half = lanes.len() / 2;
    while half > 0 {
        let (left, right) = lanes.split_at_mut(half);
        left.iter_mut().zip(&right[..half]).for_each(|(left, right)| *left += right);
        half /= 2;
    }
    lanes[0]
}

struct Subtract<'a, const N: usize> {
    w: &'a mut [f64],
    h: [f64; N],
    v: [&'a [f64]; N],
}

impl<const N: usize> WithSimd for Subtract<'_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Subtract { w, h, v } = self;
        // Without bounds to check the loop becomes one of vectors.
        let v = v.map(|v| &v[..w.len()]);
        for (i, w) in w.iter_mut().enumerate() {
            let mut sum = 0.0;
            for k in 0..N {
                sum += h[k] * v[k][i];
            }
            *w -= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, factor: usize) -> Vec<f64> {
        (0..len).map(|i| (i * factor % 101) as f64 - 50.0).collect()
    }

    /// Sums of whole numbers are exact in any order.
    #[test]
    fn sums_are_those_of_whole_numbers() {
        for len in [0, 1, 7, 8, 31, 32, 33, 100, 4096, 5001] {
            let (x, y, z) = (numbers(len, 37), numbers(len, 53), numbers(len, 11));
            let exact = |y: &[f64]| x.iter().zip(y).map(|(x, y)| *x as i64 * *y as i64).sum::<i64>() as f64;
            assert_eq!(dot(&x, &y), exact(&y));
            assert_eq!(dots(&x, [&y, &z, &x]), [exact(&y), exact(&z), exact(&x)]);
        }
    }

    /// The order that the documentation says, in plain loops.
    #[test]
    fn bits_are_those_of_the_order_said() {
        let (x, y) = (numbers(1003, 37), numbers(1003, 53));
        let (x, y): (Vec<f64>, Vec<f64>) = x.iter().zip(&y).map(|(x, y)| (x / 3.0, y / 7.0)).unzip();
        let by_lanes = |lanes: usize| {
            let whole = x.len() / lanes * lanes;
            let mut sums = vec![0.0; lanes];
            (0..whole).for_each(|i| sums[i % lanes] += x[i] * y[i]);
            while sums.len() > 1 {
                let right = sums.split_off(sums.len() / 2);
                sums.iter_mut().zip(right).for_each(|(left, right)| *left += right);
            }
            sums[0] + (whole..x.len()).map(|i| x[i] * y[i]).sum::<f64>()
        };
        assert_eq!(dot(&x, &y).to_bits(), by_lanes(32).to_bits());
        assert_eq!(dots(&x, [&x, &y])[1].to_bits(), by_lanes(8).to_bits());
        let mut w = x.clone();
        subtract(&mut w, [0.3, 0.7], [&x, &y]);
        let expected = x.iter().zip(&y).map(|(x, y)| x - (0.3 * x + 0.7 * y));
        assert!(w.iter().zip(expected).all(|(w, expected)| w.to_bits() == expected.to_bits()));
    }
}
