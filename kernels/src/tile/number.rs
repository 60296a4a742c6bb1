//! Numbers of tiles.

use core::ops::{Add, Div, Mul, Neg, Sub};

use crate::Scalar;

use zellige_stochastic::{Sample, Samples, Stochastic};

/// Number that the tile kernels compute with: `f32`, `f64`, and [`Stochastic`] numbers of these.
pub trait Number:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// Type that is perturbed, the number itself for plain ones.
    type Plain: Scalar;
    /// The exact number `x`.
    fn from_plain(x: Self::Plain) -> Self;
    /// `self * b + c`, rounded once.
    #[track_caller]
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Square root.
    #[track_caller]
    fn sqrt(self) -> Self;
    /// Value as a pivot: 0 for a number whose sign is not known, else that of the mean.
    fn pivot(self) -> f64;
}

macro_rules! plain {
    ($t:ident) => {
        impl Number for $t {
            type Plain = $t;
            #[inline(always)]
            fn from_plain(x: $t) -> $t {
                x
            }
            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                $t::mul_add(self, b, c)
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn pivot(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

plain!(f32);
plain!(f64);

impl<T: Sample + Scalar, S: Samples> Number for Stochastic<T, S> {
    type Plain = T;
    #[inline(always)]
    fn from_plain(x: T) -> Self {
        Stochastic::new(x)
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
    fn pivot(self) -> f64 {
        let positive = self.samples().iter().filter(|x| **x > T::ZERO).count();
        let is_known = positive == 0 || positive == S::COUNT;
        if is_known { self.pivot_key().copysign(self.mean()) } else { 0.0 }
    }
}
