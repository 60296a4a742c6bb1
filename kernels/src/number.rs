//! Real numbers that kernels and formulas of methods are generic over.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Neg, Sub};

use bytemuck::Pod;
use zellige_stochastic::{Samples, Stochastic, element, follow, vectorize};

/// A real number of 64 bits: `f64`, or a stochastic number, which carries its rounding errors.
///
/// Data are exact numbers ([`From<f64>`]). Kernels that take both do the operations of `f64` in the
/// same order for both, so that without perturbation all samples have the bits of `f64`.
///
/// ```
/// use zellige_kernels::RealNumber;
/// use zellige_stochastic::{Stochastic, Eight};
///
/// fn length<R: RealNumber>(x: &[R]) -> R {
///     x.iter().fold(R::from(0.0), |sum, &x| x.mul_add(x, sum)).sqrt()
/// }
///
/// assert_eq!(length(&[3.0, 4.0]), 5.0);
/// assert_eq!(length(&[3.0, 4.0].map(Stochastic::<f64, Eight>::new)).value(), 5.0);
/// ```
pub trait RealNumber:
    Pod
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + From<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Sum
{
    /// Words of 64 bits of a number.
    const WORDS: usize = size_of::<Self>() / size_of::<f64>();

    /// Returns the number, or the mean of its samples.
    fn value(self) -> f64;

    /// Returns `self * b + c`, rounded once.
    #[must_use]
    #[track_caller]
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// Returns the square root.
    #[must_use]
    #[track_caller]
    fn sqrt(self) -> Self;

    /// Returns the magnitude.
    #[must_use]
    #[track_caller]
    fn abs(self) -> Self;

    /// Returns the larger number.
    #[must_use]
    #[track_caller]
    fn max(self, b: Self) -> Self;

    /// Returns `sqrt(self^2 + b^2)` without overflow.
    #[must_use]
    #[track_caller]
    fn hypot(self, b: Self) -> Self;

    /// Returns `f` of the number, or of each of its samples, for functions that round.
    #[must_use]
    #[track_caller]
    fn apply(self, f: impl Fn(f64) -> f64) -> Self;

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

    /// Returns `f` of the number, or of each of its samples: for functions that are exact.
    #[must_use]
    #[inline(always)]
    fn exactly(mut self, f: impl Fn(f64) -> f64) -> Self {
        Self::words_mut(std::slice::from_mut(&mut self)).iter_mut().for_each(|word| *word = f(*word));
        self
    }

    /// Begins an element of a result: random bits of the operations that follow depend on its
    /// number, not on what was computed before.
    #[inline(always)]
    fn begin(element: u64) {
        let _ = element;
    }

    /// Runs `f`, for stochastic numbers compiled for the instructions that the machine has: where
    /// what it calls is inlined.
    #[inline(always)]
    fn vectorize<T>(mut f: impl FnMut() -> T) -> T {
        f()
    }

    /// Notes the digits of a number that is computed again and again.
    fn follow(self, name: &'static str) {
        let _ = name;
    }
}

impl RealNumber for f64 {
    #[inline(always)]
    fn value(self) -> f64 {
        self
    }

    #[inline(always)]
    fn mul_add(self, b: f64, c: f64) -> f64 {
        f64::mul_add(self, b, c)
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    #[inline(always)]
    fn abs(self) -> f64 {
        f64::abs(self)
    }

    #[inline(always)]
    fn max(self, b: f64) -> f64 {
        f64::max(self, b)
    }

    fn hypot(self, b: f64) -> f64 {
        libm::hypot(self, b)
    }

    #[inline(always)]
    fn apply(self, f: impl Fn(f64) -> f64) -> f64 {
        f(self)
    }
}

impl<S: Samples> RealNumber for Stochastic<f64, S> {
    #[inline(always)]
    fn value(self) -> f64 {
        self.mean()
    }

    #[inline(always)]
    #[track_caller]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Stochastic::mul_add(self, b, c)
    }

    #[inline(always)]
    #[track_caller]
    fn sqrt(self) -> Self {
        Stochastic::sqrt(self)
    }

    #[inline(always)]
    #[track_caller]
    fn abs(self) -> Self {
        Stochastic::abs(self)
    }

    #[inline(always)]
    #[track_caller]
    fn max(self, b: Self) -> Self {
        Stochastic::max(self, b)
    }

    #[track_caller]
    fn hypot(self, b: Self) -> Self {
        Stochastic::hypot(self, b)
    }

    #[track_caller]
    fn apply(self, f: impl Fn(f64) -> f64) -> Self {
        Stochastic::apply(self, f)
    }

    #[inline(always)]
    fn begin(number: u64) {
        element(number);
    }

    #[inline(always)]
    fn vectorize<T>(f: impl FnMut() -> T) -> T {
        vectorize(f)
    }

    fn follow(self, name: &'static str) {
        follow(name, self);
    }
}
