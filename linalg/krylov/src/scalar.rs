//! The numbers that vectors consist of.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Neg, Sub};

use bytemuck::Pod;
use num_complex::Complex;
use smallvec::SmallVec;
use zellige_kernels::sell::Panel;
use zellige_kernels::{KernelError, RealNumber, vectors};
use zellige_stochastic::{Samples, Stochastic};

/// A number type of vectors: real or complex, or one of both with its rounding errors
/// ([`Stochastic`]). Arithmetic is in float64, for any storage of vectors.
///
/// The kernels of this trait have portable defaults. Implementations for other numbers may override
/// them with vectorised ones; results have to have the same bits.
///
/// ```
/// use num_complex::Complex;
/// use zellige_krylov::Scalar;
///
/// fn squared_norm<E: Scalar>(x: &[E]) -> E::Real {
///     x.iter().map(|x| (x.conj() * *x).real()).sum()
/// }
///
/// assert_eq!(squared_norm(&[3.0, 4.0]), 25.0);
/// assert_eq!(squared_norm(&[Complex::new(3.0, 4.0)]), 25.0);
/// ```
pub trait Scalar:
    Pod
    + Send
    + Sync
    + Debug
    + Default
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Sum<Self>
{
    /// Real numbers that a number consists of.
    type Real: RealNumber;

    /// Number of them: 1, or 2 for complex numbers.
    const PARTS: usize = 1;

    /// Number of 64-bit words of a number.
    const WORDS: usize = size_of::<Self>() / size_of::<f64>();

    /// True if operations are rounded at random, by the place of their task in a scope.
    const IS_STOCHASTIC: bool = false;

    /// True if there are kernels for GPUs: for `f64` and complex numbers of it.
    const HAS_KERNELS: bool = false;

    /// Returns the number with this real part.
    fn from_real(real: impl Into<Self::Real>) -> Self;

    /// Returns the real part.
    fn real(self) -> Self::Real;

    /// Returns the complex conjugate.
    #[must_use]
    fn conj(self) -> Self;

    /// Returns the magnitude.
    fn abs(self) -> Self::Real;

    /// Adds the products `conj(x_i) y_i` of whole groups of [`LANES`](vectors::LANES) rows to
    /// `sums`; see [`vectors::accumulate`].
    fn accumulate(x: &[Self], y: &[Self], sums: &mut [Self]) {
        Self::Real::vectorize(
            #[inline(always)]
            || {
                for (x, y) in x.chunks_exact(sums.len()).zip(y.chunks_exact(sums.len())) {
                    for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                        *sum = *sum + x.conj() * *y;
                    }
                }
            },
        );
    }

    /// Computes `y = sum_t a_t x_t`, from left to right, with `y` itself for a missing `x_t`; see
    /// [`vectors::combine`].
    fn combine(y: &mut [Self], columns: usize, a: &[Self], x: &[Option<&[Self]>]) {
        Self::Real::vectorize(
            #[inline(always)]
            || combine_each(y, columns, a, x),
        );
    }

    /// Computes `y = a d x`, with an `a` for each column and a `d` for each row; see
    /// [`vectors::scale_rows`].
    fn scale_rows(y: &mut [Self], a: &[Self], d: &[Self], x: &[Self]) {
        Self::Real::vectorize(
            #[inline(always)]
            || {
                for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
                    *y = a[i % a.len()] * d[i / a.len()] * *x;
                }
            },
        );
    }

    /// Returns `conj(v_k) . w` for several `v` at once.
    fn projections<const N: usize>(w: &[Self], v: [&[Self]; N]) -> [Self; N] {
        v.map(|v| v.iter().zip(w).map(|(v, w)| v.conj() * *w).sum())
    }

    /// Computes `w -= sum_k h_k v_k`; the sum is computed first, from left to right.
    fn subtract<const N: usize>(w: &mut [Self], h: [Self; N], v: [&[Self]; N]) {
        Self::Real::vectorize(
            #[inline(always)]
            || {
                for (i, w) in w.iter_mut().enumerate() {
                    *w = *w - (0..N).map(|k| h[k] * v[k][i]).sum();
                }
            },
        );
    }

    /// Computes `y = A x` for the rows of a panel, for the `columns` numbers of each row. `x`
    /// begins at column `first` of the matrix.
    ///
    /// # Errors
    /// Those of [`Panel::multiply_part`].
    fn multiply(
        panel: &Panel,
        columns: usize,
        first: usize,
        x: &[Self],
        y: &mut [Self],
    ) -> Result<(), KernelError> {
        panel.multiply_part(columns * Self::WORDS, first, Self::words(x), Self::words_mut(y))
    }

    /// Returns the words of some numbers.
    #[inline(always)]
    fn words(numbers: &[Self]) -> &[f64] {
        bytemuck::cast_slice(numbers)
    }

    /// Returns the words of some numbers.
    #[inline(always)]
    fn words_mut(numbers: &mut [Self]) -> &mut [f64] {
        bytemuck::cast_slice_mut(numbers)
    }

    /// Returns words as numbers.
    ///
    /// # Panics
    /// If they are not whole numbers.
    #[inline(always)]
    fn of_words(words: &[f64]) -> &[Self] {
        bytemuck::cast_slice(words)
    }

    /// Returns words as numbers.
    ///
    /// # Panics
    /// If they are not whole numbers.
    #[inline(always)]
    fn of_words_mut(words: &mut [f64]) -> &mut [Self] {
        bytemuck::cast_slice_mut(words)
    }
}

/// Computes [`Scalar::combine`], number by number.
#[inline(always)]
fn combine_each<E: Scalar>(y: &mut [E], columns: usize, a: &[E], x: &[Option<&[E]>]) {
    for (row, y) in y.chunks_mut(columns).enumerate() {
        for (c, y) in y.iter_mut().enumerate() {
            let old = *y;
            let mut sum = E::default();
            for (t, x) in x.iter().enumerate() {
                let factor = match x {
                    Some(x) => x[row * columns + c],
                    None => old,
                };
                let term = a[t * columns + c] * factor;
                sum = if t == 0 { term } else { sum + term };
            }
            *y = sum;
        }
    }
}

impl Scalar for f64 {
    type Real = f64;

    const HAS_KERNELS: bool = true;

    fn from_real(real: impl Into<f64>) -> f64 {
        real.into()
    }

    fn real(self) -> f64 {
        self
    }

    fn conj(self) -> f64 {
        self
    }

    fn abs(self) -> f64 {
        f64::abs(self)
    }

    fn accumulate(x: &[f64], y: &[f64], sums: &mut [f64]) {
        vectors::accumulate(x, y, sums);
    }

    fn combine(y: &mut [f64], columns: usize, a: &[f64], x: &[Option<&[f64]>]) {
        vectors::combine(y, columns, a, x);
    }

    fn scale_rows(y: &mut [f64], a: &[f64], d: &[f64], x: &[f64]) {
        vectors::scale_rows(y, a, d, x);
    }

    fn projections<const N: usize>(w: &[f64], v: [&[f64]; N]) -> [f64; N] {
        vectors::dots(w, v)
    }

    fn subtract<const N: usize>(w: &mut [f64], h: [f64; N], v: [&[f64]; N]) {
        vectors::subtract(w, h, v);
    }
}

impl Scalar for Complex<f64> {
    type Real = f64;

    const PARTS: usize = 2;

    const HAS_KERNELS: bool = true;

    fn from_real(real: impl Into<f64>) -> Self {
        Complex::new(real.into(), 0.0)
    }

    fn real(self) -> f64 {
        self.re
    }

    fn conj(self) -> Self {
        Complex::conj(&self)
    }

    fn abs(self) -> f64 {
        libm::hypot(self.re, self.im)
    }

    fn accumulate(x: &[Self], y: &[Self], sums: &mut [Self]) {
        vectors::accumulate_complex(Self::words(x), Self::words(y), Self::words_mut(sums));
    }

    /// Skips the multiplication by imaginary parts if all factors are real, as for Hermitian
    /// systems.
    fn combine(y: &mut [Self], columns: usize, a: &[Self], x: &[Option<&[Self]>]) {
        /// Real columns, and factors of three terms for them, at most.
        const MOST: usize = 8;
        if a.iter().any(|a| a.im != 0.0) || 2 * columns > MOST || !columns.is_power_of_two() {
            return combine_each(y, columns, a, x);
        }
        // With one column both parts have the same factor.
        let (mut factors, each) = ([0.0; 3 * MOST], if columns == 1 { 1 } else { 2 });
        let factors = &mut factors[..each * a.len()];
        factors.chunks_exact_mut(each).zip(a).for_each(|(factors, a)| factors.fill(a.re));
        let x: SmallVec<[Option<&[f64]>; 3]> = x.iter().map(|x| x.map(Self::words)).collect();
        vectors::combine(Self::words_mut(y), each * columns, factors, &x);
    }
}

/// Products of one column at a time; loops are those of `f64`, in the same order.
impl<S: Samples> Scalar for Stochastic<f64, S> {
    type Real = Self;

    const IS_STOCHASTIC: bool = true;

    #[inline(always)]
    fn from_real(real: impl Into<Self>) -> Self {
        real.into()
    }

    #[inline(always)]
    fn real(self) -> Self {
        self
    }

    #[inline(always)]
    fn conj(self) -> Self {
        self
    }

    #[inline(always)]
    #[track_caller]
    fn abs(self) -> Self {
        Stochastic::abs(self)
    }

    fn projections<const N: usize>(w: &[Self], v: [&[Self]; N]) -> [Self; N] {
        v.map(|v| {
            Self::vectorize(
                #[inline(always)]
                || dot_of_eight(w, v),
            )
        })
    }

    fn multiply(
        panel: &Panel,
        columns: usize,
        first: usize,
        x: &[Self],
        y: &mut [Self],
    ) -> Result<(), KernelError> {
        debug_assert_eq!(columns, 1, "several columns would share their random bits");
        panel.multiply_as(first, x, y)
    }
}

/// Products of one column at a time. Loops are over real parts, so that instabilities are counted
/// where they are here; orders are those of `Complex<f64>`.
impl<S: Samples> Scalar for Complex<Stochastic<f64, S>> {
    type Real = Stochastic<f64, S>;

    const PARTS: usize = 2;

    const IS_STOCHASTIC: bool = true;

    fn from_real(real: impl Into<Self::Real>) -> Self {
        Complex::new(real.into(), Stochastic::default())
    }

    fn real(self) -> Self::Real {
        self.re
    }

    fn conj(self) -> Self {
        Complex::conj(&self)
    }

    fn abs(self) -> Self::Real {
        self.re.hypot(self.im)
    }

    fn accumulate(x: &[Self], y: &[Self], sums: &mut [Self]) {
        Self::Real::vectorize(
            #[inline(always)]
            || {
                for (x, y) in x.chunks_exact(sums.len()).zip(y.chunks_exact(sums.len())) {
                    for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                        sum.re += x.re * y.re + x.im * y.im;
                        sum.im += x.re * y.im - x.im * y.re;
                    }
                }
            },
        );
    }

    /// Skips the multiplication by imaginary parts if all factors are real, as for Hermitian
    /// systems.
    fn combine(y: &mut [Self], columns: usize, a: &[Self], x: &[Option<&[Self]>]) {
        let is_real = |a: &Self| a.im.samples().iter().all(|im| *im == 0.0);
        if !a.iter().all(is_real) {
            return combine_each(y, columns, a, x);
        }
        let factors: SmallVec<[Self::Real; 6]> = a.iter().flat_map(|a| [a.re, a.re]).collect();
        let x: SmallVec<[Option<&[Self::Real]>; 3]> = x.iter().map(|x| x.map(bytemuck::cast_slice)).collect();
        <Self::Real as Scalar>::combine(bytemuck::cast_slice_mut(y), 2 * columns, &factors, &x);
    }
}

/// Returns `w . v` with the eight sums of [`vectors::dots`].
#[inline(always)]
fn dot_of_eight<R: RealNumber>(w: &[R], v: &[R]) -> R {
    let ((w, w_rest), (v, v_rest)) = (w.as_chunks::<8>(), v.as_chunks::<8>());
    let mut sums = [R::from(0.0); 8];
    for (w, v) in w.iter().zip(v) {
        for lane in 0..8 {
            sums[lane] = sums[lane] + w[lane] * v[lane];
        }
    }
    let rest: R = w_rest.iter().zip(v_rest).map(|(&w, &v)| w * v).sum();
    for half in [4, 2, 1] {
        for lane in 0..half {
            sums[lane] = sums[lane] + sums[lane + half];
        }
    }
    sums[0] + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real factors use another kernel with equal results.
    #[test]
    fn complex_terms_are_added_as_one_by_one() {
        let number =
            |i: usize| Complex::new((i * 37 % 101) as f64 / 3.0 - 15.0, (i * 53 % 97) as f64 / 7.0 - 6.0);
        for (columns, imaginary) in [(1, 0.0), (2, 0.0), (4, 0.0), (3, 0.0), (8, 0.0), (2, 0.25)] {
            let vector = |seed: usize| (0..24 * columns).map(|i| number(i + seed)).collect::<Vec<_>>();
            let (x, z) = (vector(1), vector(2));
            for terms in [&[Some(&x[..]), None, Some(&z[..])][..], &[None, Some(&x)], &[Some(&z)]] {
                let a: Vec<_> =
                    (0..terms.len() * columns).map(|i| Complex::new(number(i).re, imaginary)).collect();
                let (mut y, mut expected) = (vector(3), vector(3));
                Scalar::combine(&mut y, columns, &a, terms);
                combine_each(&mut expected, columns, &a, terms);
                assert_eq!(y, expected, "{columns} columns, {} terms", terms.len());
            }
        }
    }
}
