//! The four operations, root and fused multiply-add.

use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};
use core::panic::Location;

use crate::digits::CERTAIN;
use crate::instability::Category;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::{Stochastic, perturbation, state};

/// A sum below this part of the larger operand may be a cancellation of four digits.
const CANCELLED: f64 = 1e-3;
/// Digits that a cancellation loses at least.
const LOST: u32 = 4;

/// Numbers that agree within it have at least half of the digits of `T`; numbers that do not agree
/// within 16 times as much have fewer.
fn half_of_digits<T: Sample>() -> f64 {
    // 10^(-digits / 2), divided by the deviations of the interval and a deviation of 1.1 distances.
    match T::DIGITS {
        15 => 0.9e-8,
        7 => 0.9e-4,
        3 => 0.9e-2,
        _ => 3e-2,
    }
}

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// Each lane of `r`, or its neighbour in the direction of the error, with probability 1/2.
    #[inline(always)]
    pub(crate) fn rounded(r: S::Array<T>, errors: S::Array<f64>) -> Self {
        if !state::is_random() {
            return Stochastic { lanes: perturbation::perturb::<T, S>(r, errors) };
        }
        let word = state::bits(S::LANES as u32);
        let (r, e) = (r.as_ref(), errors.as_ref());
        Stochastic {
            lanes: S::build(|lane| {
                let bit = word >> lane & 1 == 1;
                let moved = match lane {
                    // In the other direction than the second lane; the fourth is not counted.
                    2 if S::OPPOSED => ((word >> 1 & 1 == 1) != (e[1] > 0.0)) == (e[2] > 0.0),
                    _ => bit,
                };
                r[lane].step(e[lane], moved)
            }),
        }
    }

    /// Counts what the result of an operation shows: infinities, NaN, and gradual loss.
    #[inline(always)]
    fn checked<const N: usize>(self, operands: [&Self; N], place: &'static Location<'static>) -> Self {
        if !self.is_finite() {
            self.note_range(
                operands.iter().all(|x| x.is_finite()),
                operands.iter().any(|x| x.has_nan()),
                place,
            );
        }
        if state::watches_gradual_loss() {
            let half = half_of_digits::<T>();
            let known = |x: &&Self| x.agrees_within(16.0 * half) || x.lane(0) == T::zero();
            if !self.agrees_within(half) && operands.iter().all(known) {
                self.note_gradual_loss(
                    operands.iter().map(|x| x.precision()).fold(f64::MAX, f64::min),
                    place,
                );
            }
        }
        self
    }

    pub(crate) fn has_nan(&self) -> bool {
        self.samples().iter().any(|x| x.to_f64().is_nan())
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn note_range(&self, finite: bool, nan: bool, place: &'static Location<'static>) {
        if self.has_nan() {
            if !nan {
                state::record(Category::NotANumber, place);
            }
        } else if finite && self.samples().iter().any(|x| x.to_f64().is_infinite()) {
            state::record(Category::Infinity, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_gradual_loss(&self, before: f64, place: &'static Location<'static>) {
        let (half, after) = (f64::from(T::DIGITS) / 2.0, self.precision());
        if after < half
            && before >= half
            && before.floor() - after.floor() < f64::from(LOST)
            && !self.is_zero()
        {
            state::record(Category::GradualLoss, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_cancellation(&self, a: &Self, b: &Self, place: &'static Location<'static>) {
        if state::counts(Category::Cancellation) && a.digits().min(b.digits()) >= self.digits() + LOST {
            state::record(Category::Cancellation, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_product(&self, b: &Self, place: &'static Location<'static>) {
        if self.is_noise() && b.is_noise() {
            state::record(Category::Multiplication, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_divisor(&self, place: &'static Location<'static>) {
        if self.is_zero() {
            state::record(Category::Division, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_radicand(&self, place: &'static Location<'static>) {
        if self.is_noise() {
            state::record(Category::Function, place);
        }
    }

    #[inline(always)]
    fn sum(self, b: Self, place: &'static Location<'static>) -> Self {
        let r = S::build(|lane| self.lane(lane).plus(b.lane(lane)));
        let nearest = r.as_ref();
        let errors = S::build(|lane| T::sum_error(self.lane(lane), b.lane(lane), nearest[lane]));
        let mut cancelled = false;
        for lane in 0..S::LANES {
            let (x, y) = (self.lane(lane).to_f64().abs(), b.lane(lane).to_f64().abs());
            let larger = if x < y { y } else { x };
            cancelled |= nearest[lane].to_f64().abs() < CANCELLED * larger;
        }
        let sum = Self::rounded(r, errors);
        if cancelled {
            sum.note_cancellation(&self, &b, place);
        }
        sum.checked([&self, &b], place)
    }

    #[inline(always)]
    fn product(self, b: Self, place: &'static Location<'static>) -> Self {
        let r = S::build(|lane| self.lane(lane).times(b.lane(lane)));
        let nearest = r.as_ref();
        let mut errors = S::build(|lane| T::product_error(self.lane(lane), b.lane(lane), nearest[lane]));
        let mut vanishes = false;
        for lane in 0..S::LANES {
            vanishes |= T::product_vanishes(self.lane(lane), b.lane(lane), nearest[lane]);
        }
        if vanishes {
            errors = Self::careful(|lane| T::careful_product(self.lane(lane), b.lane(lane), nearest[lane]));
        }
        if !self.agrees_within(CERTAIN) && !b.agrees_within(CERTAIN) {
            self.note_product(&b, place);
        }
        Self::rounded(r, errors).checked([&self, &b], place)
    }

    #[inline(always)]
    fn quotient(self, b: Self, place: &'static Location<'static>) -> Self {
        let r = S::build(|lane| self.lane(lane).over(b.lane(lane)));
        let nearest = r.as_ref();
        let mut errors = S::build(|lane| T::quotient_error(self.lane(lane), b.lane(lane), nearest[lane]));
        let mut vanishes = false;
        for lane in 0..S::LANES {
            vanishes |= T::quotient_vanishes(self.lane(lane), nearest[lane]);
        }
        if vanishes {
            errors = Self::careful(|lane| T::careful_quotient(self.lane(lane), b.lane(lane), nearest[lane]));
        }
        if !b.agrees_within(CERTAIN) {
            b.note_divisor(place);
        }
        Self::rounded(r, errors).checked([&self, &b], place)
    }

    #[cold]
    #[inline(never)]
    fn careful(error: impl Fn(usize) -> f64) -> S::Array<f64> {
        S::build(error)
    }

    /// Square root; NaN for samples below 0.
    #[inline(always)]
    #[track_caller]
    pub fn sqrt(self) -> Self {
        let r = S::build(|lane| self.lane(lane).root());
        let nearest = r.as_ref();
        let mut errors = S::build(|lane| T::root_error(self.lane(lane), nearest[lane]));
        let mut vanishes = false;
        for lane in 0..S::LANES {
            vanishes |= T::root_vanishes(self.lane(lane));
        }
        if vanishes {
            errors = Self::careful(|lane| T::careful_root(self.lane(lane), nearest[lane]));
        }
        let place = Location::caller();
        if !self.agrees_within(CERTAIN) {
            self.note_radicand(place);
        }
        Self::rounded(r, errors).checked([&self], place)
    }

    /// `self * b + c`, rounded once.
    #[inline(always)]
    #[track_caller]
    pub fn mul_add(self, b: Self, c: Self) -> Self {
        let r = S::build(|lane| self.lane(lane).fused(b.lane(lane), c.lane(lane)));
        let nearest = r.as_ref();
        let error = |lane: usize| T::fused_error(self.lane(lane), b.lane(lane), c.lane(lane), nearest[lane]);
        let mut errors = S::build(error);
        let (mut vanishes, mut cancelled) = (false, false);
        for lane in 0..S::LANES {
            vanishes |= T::fused_vanishes(self.lane(lane), b.lane(lane), c.lane(lane));
            cancelled |= nearest[lane].to_f64().abs() < CANCELLED * c.lane(lane).to_f64().abs();
        }
        if vanishes {
            errors = Self::careful(|lane| {
                T::careful_fused(self.lane(lane), b.lane(lane), c.lane(lane), nearest[lane])
            });
        }
        let place = Location::caller();
        if !self.agrees_within(CERTAIN) && !b.agrees_within(CERTAIN) {
            self.note_product(&b, place);
        }
        let sum = Self::rounded(r, errors);
        if cancelled {
            let product = self.map2(b, |x, y| x.times(y));
            sum.note_cancellation(&product, &c, place);
        }
        sum.checked([&self, &b, &c], place)
    }

    /// `f` of the samples of two numbers, without rounding.
    #[inline(always)]
    pub fn map2(self, b: Self, f: impl Fn(T, T) -> T) -> Self {
        Stochastic { lanes: S::build(|lane| f(self.lane(lane), b.lane(lane))) }
    }
}

impl<T: Sample, S: Samples> Neg for Stochastic<T, S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|x| x.negative())
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $assign:ident, $assign_method:ident, |$a:ident, $b:ident, $place:ident| $body:expr) => {
        impl<T: Sample, S: Samples> $trait for Stochastic<T, S> {
            type Output = Self;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: Self) -> Self {
                let ($a, $b, $place) = (self, b, Location::caller());
                $body
            }
        }
        impl<T: Sample, S: Samples> $trait<T> for Stochastic<T, S> {
            type Output = Self;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: T) -> Self {
                let ($a, $b, $place) = (self, Self::new(b), Location::caller());
                $body
            }
        }
        impl<S: Samples> $trait<Stochastic<f64, S>> for f64 {
            type Output = Stochastic<f64, S>;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: Stochastic<f64, S>) -> Stochastic<f64, S> {
                let ($a, $b, $place) = (Stochastic::new(self), b, Location::caller());
                $body
            }
        }
        impl<S: Samples> $trait<Stochastic<f32, S>> for f32 {
            type Output = Stochastic<f32, S>;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: Stochastic<f32, S>) -> Stochastic<f32, S> {
                let ($a, $b, $place) = (Stochastic::new(self), b, Location::caller());
                $body
            }
        }
        impl<T: Sample, S: Samples> $assign for Stochastic<T, S> {
            #[inline(always)]
            #[track_caller]
            fn $assign_method(&mut self, b: Self) {
                let ($a, $b, $place) = (*self, b, Location::caller());
                *self = $body;
            }
        }
        impl<T: Sample, S: Samples> $assign<T> for Stochastic<T, S> {
            #[inline(always)]
            #[track_caller]
            fn $assign_method(&mut self, b: T) {
                let ($a, $b, $place) = (*self, Self::new(b), Location::caller());
                *self = $body;
            }
        }
    };
}

operator!(Add, add, AddAssign, add_assign, |a, b, place| a.sum(b, place));
operator!(Sub, sub, SubAssign, sub_assign, |a, b, place| a.sum(-b, place));
operator!(Mul, mul, MulAssign, mul_assign, |a, b, place| a.product(b, place));
operator!(Div, div, DivAssign, div_assign, |a, b, place| a.quotient(b, place));

impl<T: Sample, S: Samples> core::iter::Sum for Stochastic<T, S> {
    fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
        // As the sum of floats: an empty one is -0.
        numbers.fold(Self::new(T::zero().negative()), |sum, x| sum + x)
    }
}
