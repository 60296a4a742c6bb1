//! Sums and updates of vectors in `f64`, in an order that no machine changes.
//!
//! Loops are compiled for the instructions that the machine has; lanes are added in one order, and
//! no product is fused with a sum, so that every machine computes the same bits.
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

/// Number of independent partial sums: row `i` is added to sum `i % LANES`.
pub const LANES: usize = 32;

/// Returns `x . y`, with 32 independent partial sums.
///
/// # Panics
/// If the lengths differ.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    let [sum] = Arch::new().dispatch(Dots::<1, 32> { x, y: [y] });
    sum
}

/// Returns `x . y` for several `y`, and reads `x` once. Each product has eight independent sums.
///
/// # Panics
/// If the lengths differ.
pub fn dots<const N: usize>(x: &[f64], y: [&[f64]; N]) -> [f64; N] {
    Arch::new().dispatch(Dots::<N, 8> { x, y })
}

/// `w -= sum_k h_k v_k`, which reads and writes `w` once; the sum is made first, from left to
/// right.
///
/// # Panics
/// If the lengths differ.
pub fn subtract<const N: usize>(w: &mut [f64], h: [f64; N], v: [&[f64]; N]) {
    Arch::new().dispatch(Subtract { w, h, v });
}

/// Adds the products `x_i y_i` of whole groups of [`LANES`] rows to `sums`, one sum for each row of
/// a group and each column. In vectors of several columns the numbers of a row are contiguous.
/// There are `sums.len() / LANES` columns.
///
/// # Panics
/// If the lengths differ, or are no multiples of `sums.len()`.
pub fn accumulate(x: &[f64], y: &[f64], sums: &mut [f64]) {
    Arch::new().dispatch(Accumulate::<false> { x, y, sums });
}

/// Adds the products `conj(x_i) y_i` of complex numbers as [`accumulate`] does. Each number is its
/// real part and its imaginary part. There are `sums.len() / 2 LANES` columns.
///
/// # Panics
/// In the cases of [`accumulate`].
pub fn accumulate_complex(x: &[f64], y: &[f64], sums: &mut [f64]) {
    Arch::new().dispatch(Accumulate::<true> { x, y, sums });
}

/// Adds the partial sums of each column from [`accumulate`], pairwise by halves. The sum of column
/// `c` is stored in `sums[c]`.
pub fn add_lanes<E: Copy + std::ops::Add<Output = E>>(sums: &mut [E]) {
    let columns = sums.len() / LANES;
    let mut half = LANES / 2;
    while half > 0 {
        let (left, right) = sums.split_at_mut(half * columns);
        left.iter_mut().zip(&right[..half * columns]).for_each(|(left, right)| *left = *left + *right);
        half /= 2;
    }
}

/// Computes `y = sum_t a_t x_t`, from left to right, for vectors of `columns` columns.
/// `a[t * columns + c]` multiplies column `c` of `x[t]`; if `x[t]` is `None`, it is `y` itself.
///
/// # Panics
/// If the lengths differ, for other numbers of terms than 1, 2 and 3, and if `y` is more than one
/// of them.
pub fn combine(y: &mut [f64], columns: usize, a: &[f64], x: &[Option<&[f64]>]) {
    let own = x.iter().position(Option::is_none);
    assert!(x.iter().filter(|x| x.is_none()).count() <= 1, "y is one term at most");
    let x = |t: usize| x[t].unwrap_or(&[]);
    match (a.len() / columns, own) {
        (1, None) => combine_terms::<1, 1>(y, columns, a, [x(0)]),
        (1, Some(_)) => combine_terms::<1, 0>(y, columns, a, [x(0)]),
        (2, None) => combine_terms::<2, 2>(y, columns, a, [x(0), x(1)]),
        (2, Some(0)) => combine_terms::<2, 0>(y, columns, a, [x(0), x(1)]),
        (2, Some(_)) => combine_terms::<2, 1>(y, columns, a, [x(0), x(1)]),
        (3, None) => combine_terms::<3, 3>(y, columns, a, [x(0), x(1), x(2)]),
        (3, Some(0)) => combine_terms::<3, 0>(y, columns, a, [x(0), x(1), x(2)]),
        (3, Some(1)) => combine_terms::<3, 1>(y, columns, a, [x(0), x(1), x(2)]),
        (3, Some(_)) => combine_terms::<3, 2>(y, columns, a, [x(0), x(1), x(2)]),
        (terms, _) => panic!("{terms} terms: 1, 2 or 3"),
    }
}

/// Combines `N` terms. Term `OWN`, if that is less than `N`, is `y` itself.
fn combine_terms<const N: usize, const OWN: usize>(y: &mut [f64], columns: usize, a: &[f64], x: [&[f64]; N]) {
    assert_eq!(a.len(), N * columns, "a factor for each term and column");
    assert!((0..N).all(|t| t == OWN || x[t].len() == y.len()), "vectors of one length");
    let factor = |t: usize, i: usize| a[t * columns + i % columns];
    // After `period` groups of numbers the factors repeat.
    let period = columns / gcd(columns, GROUP);
    match period {
        1 => {
            let a = std::array::from_fn(|t| [std::array::from_fn(|i| factor(t, i))]);
            Arch::new().dispatch(Combine::<N, OWN, 1> { y, a, x, period });
        }
        2..=MOST_GROUPS => {
            let of_group = |t: usize, group: usize| std::array::from_fn(|i| factor(t, group * GROUP + i));
            let a = std::array::from_fn(|t| std::array::from_fn(|group| of_group(t, group)));
            Arch::new().dispatch(Combine::<N, OWN, MOST_GROUPS> { y, a, x, period });
        }
        _ => {
            for (i, y) in y.iter_mut().enumerate() {
                let old = *y;
                let term = |t: usize| factor(t, i) * if t == OWN { old } else { x[t][i] };
                *y = (1..N).fold(term(0), |sum, t| sum + term(t));
            }
        }
    }
}

/// Number of numbers that are processed together, in as many registers as they need.
const GROUP: usize = 8;
/// Most groups that have factors of their own.
const MOST_GROUPS: usize = 8;

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Group `g` of the numbers has the factors `a[t][g % period]`.
///
/// The code is explicitly vectorized: the compiler turns the loop over rows into gathers and
/// scatters if there are several columns.
struct Combine<'a, const N: usize, const OWN: usize, const P: usize> {
    y: &'a mut [f64],
    a: [[[f64; GROUP]; P]; N],
    x: [&'a [f64]; N],
    period: usize,
}

impl<const N: usize, const OWN: usize, const P: usize> WithSimd for Combine<'_, N, OWN, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combine { y, a, x, period } = self;
        let factors: [&[f64]; N] = std::array::from_fn(|t| &a[t].as_flattened()[..period.min(P) * GROUP]);
        let a = factors.map(|a| S::as_simd_f64s(a).0);
        let whole = y.len() - y.len() % GROUP;
        let first = whole % factors[0].len();
        let (y, y_rest) = y.split_at_mut(whole);
        let y = S::as_mut_simd_f64s(y).0;
        // Without bounds to check.
        let registers_of = |t: usize| &S::as_simd_f64s(&x[t][..whole]).0[..y.len()];
        let x_whole: [&[S::f64s]; N] =
            std::array::from_fn(|t| if t == OWN { &[][..] } else { registers_of(t) });
        let (registers, mut at) = (GROUP / S::F64_LANES, 0);
        for (group, y) in y.chunks_exact_mut(registers).enumerate() {
            for (i, y) in y.iter_mut().enumerate() {
                let own = *y;
                let of = |t: usize| if t == OWN { own } else { x_whole[t][group * registers + i] };
                let mut sum = simd.mul_f64s(a[0][at + i], of(0));
                for t in 1..N {
                    sum = simd.add_f64s(sum, simd.mul_f64s(a[t][at + i], of(t)));
                }
                *y = sum;
            }
            at = if P == 1 || at + registers == a[0].len() { 0 } else { at + registers };
        }
        for (i, y) in y_rest.iter_mut().enumerate() {
            let own = *y;
            let term = |t: usize| factors[t][first + i] * if t == OWN { own } else { x[t][whole + i] };
            *y = (1..N).fold(term(0), |sum, t| sum + term(t));
        }
    }
}

/// `y = a d x` for vectors of `a.len()` columns: `a[c]` multiplies column `c`, and `d` has a number
/// for each row; `a d` is rounded first.
///
/// # Panics
/// If the lengths do not fit together.
pub fn scale_rows(y: &mut [f64], a: &[f64], d: &[f64], x: &[f64]) {
    assert!(y.len() == x.len() && y.len() == a.len() * d.len(), "a number of each for each row");
    match a.len() {
        1 => Arch::new().dispatch(ScaleRows::<1> { y, a, d, x }),
        2 => Arch::new().dispatch(ScaleRows::<2> { y, a, d, x }),
        4 => Arch::new().dispatch(ScaleRows::<4> { y, a, d, x }),
        8 => Arch::new().dispatch(ScaleRows::<8> { y, a, d, x }),
        columns => {
            for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
                *y = a[i % columns] * d[i / columns] * x;
            }
        }
    }
}

struct ScaleRows<'a, const K: usize> {
    y: &'a mut [f64],
    a: &'a [f64],
    d: &'a [f64],
    x: &'a [f64],
}

impl<const K: usize> WithSimd for ScaleRows<'_, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ScaleRows { y, a: factors, d, x } = self;
        let whole = y.len() - y.len() % GROUP;
        let (y, y_rest) = y.split_at_mut(whole);
        let (x, x_rest) = x.split_at(whole);
        let (d, d_rest) = d.split_at(whole / K);
        let a: [f64; GROUP] = std::array::from_fn(|i| factors[i % K]);
        let a = S::as_simd_f64s(&a).0;
        let registers = GROUP / S::F64_LANES;
        let groups = S::as_mut_simd_f64s(y).0.chunks_exact_mut(registers);
        let groups = groups.zip(S::as_simd_f64s(x).0.chunks_exact(registers)).zip(d.chunks_exact(GROUP / K));
        for ((y, x), d) in groups {
            let d: [f64; GROUP] = std::array::from_fn(|i| d[i / K]);
            for (((y, x), d), a) in y.iter_mut().zip(x).zip(S::as_simd_f64s(&d).0).zip(a) {
                *y = simd.mul_f64s(simd.mul_f64s(*a, *d), *x);
            }
        }
        for (i, (y, x)) in y_rest.iter_mut().zip(x_rest).enumerate() {
            *y = factors[i % K] * d_rest[i / K] * x;
        }
    }
}

struct Accumulate<'a, const COMPLEX: bool> {
    x: &'a [f64],
    y: &'a [f64],
    sums: &'a mut [f64],
}

impl<const COMPLEX: bool> WithSimd for Accumulate<'_, COMPLEX> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Accumulate { x, y, sums } = self;
        let group = sums.len();
        assert!(x.len() == y.len() && x.len().is_multiple_of(group), "whole groups of rows");
        let (x, y) = (x.as_chunks::<LANES>().0, y.as_chunks::<LANES>().0);
        // As many sums at a time as fit into registers, over all groups.
        for (part, sums) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let mut own = *sums;
            for (x, y) in x.iter().zip(y).skip(part).step_by(group / LANES) {
                if COMPLEX {
                    for lane in (0..LANES).step_by(2) {
                        own[lane] += x[lane] * y[lane] + x[lane + 1] * y[lane + 1];
                        own[lane + 1] += x[lane] * y[lane + 1] - x[lane + 1] * y[lane];
                    }
                } else {
                    for lane in 0..LANES {
                        own[lane] += x[lane] * y[lane];
                    }
                }
            }
            *sums = own;
        }
    }
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
            lane_sum(&mut sums[k]) + rest
        })
    }
}

/// The sum of a number of lanes that is a power of two: halves are added to halves.
#[inline(always)]
fn lane_sum(lanes: &mut [f64]) -> f64 {
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

    /// A column of several has the bits that it has alone.
    #[test]
    fn columns_have_the_bits_that_they_have_alone() {
        let rows = 4 * LANES;
        let column = |k: usize| numbers(rows, 37 + k).iter().map(|x| x / 3.0).collect::<Vec<f64>>();
        for columns in (1..=9).chain([12, 16, 20, 24]) {
            let all: Vec<Vec<f64>> = (0..columns).map(column).collect();
            let joined: Vec<f64> = (0..rows * columns).map(|at| all[at % columns][at / columns]).collect();
            let mut sums = vec![0.0; LANES * columns];
            accumulate(&joined, &joined, &mut sums);
            add_lanes(&mut sums);
            // Some rows remain after the last whole group.
            let joined = &joined[..(rows - 3) * columns];
            let a: Vec<f64> = (0..2 * columns).map(|at| 1.0 / (at + 3) as f64).collect();
            let mut y = vec![0.0; joined.len()];
            combine(&mut y, columns, &a, &[Some(joined), Some(joined)]);
            let mut own = joined.to_vec();
            combine(&mut own, columns, &a, &[Some(joined), None]);
            assert_eq!(own, y);
            let (d, mut scaled) = (column(9), joined.to_vec());
            scale_rows(&mut scaled, &a[..columns], &d[..rows - 3], joined);
            for (c, column) in all.iter().enumerate() {
                assert_eq!(sums[c].to_bits(), dot(column, column).to_bits());
                for (row, x) in column[..rows - 3].iter().enumerate() {
                    let expected = a[c] * x + a[columns + c] * x;
                    assert_eq!(y[row * columns + c].to_bits(), expected.to_bits());
                    let expected = a[c] * d[row] * x;
                    assert_eq!(scaled[row * columns + c].to_bits(), expected.to_bits());
                }
            }
        }
    }

    /// The products of complex numbers, each by itself, and of several columns.
    #[test]
    fn complex_sums_are_those_of_plain_loops() {
        for columns in [1, 2, 3] {
            let (group, rows) = (2 * LANES * columns, 3);
            let (x, y) = (numbers(rows * group, 37), numbers(rows * group, 53));
            let (x, y): (Vec<f64>, Vec<f64>) = x.iter().zip(&y).map(|(x, y)| (x / 3.0, y / 7.0)).unzip();
            let mut sums = vec![0.5; group];
            accumulate_complex(&x, &y, &mut sums);
            for (at, sums) in sums.chunks_exact(2).enumerate() {
                let mut expected = [0.5; 2];
                for i in (0..rows).map(|row| row * group + 2 * at) {
                    expected[0] += x[i] * y[i] + x[i + 1] * y[i + 1];
                    expected[1] += x[i] * y[i + 1] - x[i + 1] * y[i];
                }
                assert_eq!([sums[0].to_bits(), sums[1].to_bits()], expected.map(f64::to_bits));
            }
        }
    }

    /// Computes the sums in the documented order, in plain loops.
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
