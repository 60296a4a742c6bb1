//! Stochastic order (Definition 5 of discrete stochastic arithmetic), extrema and rounding.

use core::cmp::Ordering;
use core::panic::Location;

use crate::digits::CERTAIN;
use crate::instability::Category;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::{Stochastic, state};

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// Order of two numbers: equal where their difference is a computational zero, else that of
    /// their means; none where a sample is NaN.
    ///
    /// With a place, an instability where the difference is no exact 0. Tests of equality have
    /// none, as in CADNA: that two numbers can no longer be told apart is what they ask.
    #[inline(always)]
    fn order(&self, b: &Self, place: Option<&'static Location<'static>>) -> Option<Ordering> {
        let difference = self.map2(*b, |x, y| x.plus(y.negative()));
        if difference.agrees_within(CERTAIN) {
            return difference.lane(0).partial_cmp(&T::zero());
        }
        self.close_order(b, &difference, place)
    }

    #[cold]
    #[inline(never)]
    fn close_order(
        &self,
        b: &Self,
        difference: &Self,
        place: Option<&'static Location<'static>>,
    ) -> Option<Ordering> {
        if difference.is_zero() {
            if let (Some(place), true) = (place, difference.is_noise()) {
                state::record(Category::Branching, place);
            }
            return Some(Ordering::Equal);
        }
        if difference.is_finite() {
            return difference.mean().partial_cmp(&0.0);
        }
        // Equal infinities, or an infinity beside a finite number.
        self.mean().partial_cmp(&b.mean())
    }

    /// The larger number; the first of two equal ones.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn max(self, b: Self) -> Self {
        match self.order(&b, Some(Location::caller())) {
            Some(Ordering::Less) => b,
            None if self.mean().is_nan() => b,
            _ => self,
        }
    }

    /// The smaller number; the first of two equal ones.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn min(self, b: Self) -> Self {
        match self.order(&b, Some(Location::caller())) {
            Some(Ordering::Greater) => b,
            None if self.mean().is_nan() => b,
            _ => self,
        }
    }

    /// The number or its negative, by the sign of its mean; an instability where samples have
    /// different signs.
    ///
    /// Absolute values of the samples would make a number of noise, which is larger than 0.
    #[inline(always)]
    #[track_caller]
    #[must_use]
    pub fn abs(self) -> Self {
        let (mut below, mut above) = (false, false);
        for lane in 0..S::COUNT {
            below |= self.lane(lane) < T::zero();
            above |= self.lane(lane) > T::zero();
        }
        if below & above {
            state::record(Category::Intrinsic, Location::caller());
            return if self.mean() < 0.0 { -self } else { self };
        }
        self.map(|x| x.magnitude())
    }

    /// Integer below each sample.
    #[track_caller]
    #[must_use]
    pub fn floor(self) -> Self {
        self.to_integer(Location::caller(), f64::floor)
    }

    /// Integer above each sample.
    #[track_caller]
    #[must_use]
    pub fn ceil(self) -> Self {
        self.to_integer(Location::caller(), f64::ceil)
    }

    /// Integer nearest to each sample, away from zero where two are as near.
    #[track_caller]
    #[must_use]
    pub fn round(self) -> Self {
        self.to_integer(Location::caller(), f64::round)
    }

    /// Integer towards zero of each sample.
    #[track_caller]
    #[must_use]
    pub fn trunc(self) -> Self {
        self.to_integer(Location::caller(), f64::trunc)
    }

    /// Integers of samples are samples: they differ where the number lies near an integer.
    fn to_integer(self, place: &'static Location<'static>, f: impl Fn(f64) -> f64) -> Self {
        self.note_intrinsic(place);
        self.map(|x| T::from_f64(f(x.to_f64())))
    }
}

/// Every operator by name: the provided ones would be places in the standard library.
macro_rules! comparisons {
    ($other:ty, |$b:ident| $number:expr) => {
        impl<T: Sample, S: Samples> PartialEq<$other> for Stochastic<T, S> {
            #[inline(always)]
            fn eq(&self, $b: &$other) -> bool {
                self.order($number, None) == Some(Ordering::Equal)
            }
        }

        impl<T: Sample, S: Samples> PartialOrd<$other> for Stochastic<T, S> {
            #[inline(always)]
            #[track_caller]
            fn partial_cmp(&self, $b: &$other) -> Option<Ordering> {
                self.order($number, Some(Location::caller()))
            }
            #[inline(always)]
            #[track_caller]
            fn lt(&self, $b: &$other) -> bool {
                self.order($number, Some(Location::caller())) == Some(Ordering::Less)
            }
            #[inline(always)]
            #[track_caller]
            fn le(&self, $b: &$other) -> bool {
                matches!(
                    self.order($number, Some(Location::caller())),
                    Some(Ordering::Less | Ordering::Equal)
                )
            }
            #[inline(always)]
            #[track_caller]
            fn gt(&self, $b: &$other) -> bool {
                self.order($number, Some(Location::caller())) == Some(Ordering::Greater)
            }
            #[inline(always)]
            #[track_caller]
            fn ge(&self, $b: &$other) -> bool {
                matches!(
                    self.order($number, Some(Location::caller())),
                    Some(Ordering::Greater | Ordering::Equal)
                )
            }
        }
    };
}

comparisons!(Self, |b| b);
comparisons!(T, |b| &Self::new(*b));
