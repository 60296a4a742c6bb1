//! The traits of `num-traits`, so that `Complex<Stochastic<T>>` computes.

use core::ops::Rem;

use num_traits::{Num, One, Zero};

use crate::Stochastic;
use crate::sample::Sample;
use crate::samples::Samples;

impl<T: Sample, S: Samples> Zero for Stochastic<T, S> {
    fn zero() -> Self {
        Self::default()
    }
    /// A computational zero.
    fn is_zero(&self) -> bool {
        Stochastic::is_zero(self)
    }
}

impl<T: Sample, S: Samples> One for Stochastic<T, S> {
    fn one() -> Self {
        Self::new(T::from_f64(1.0))
    }
}

/// Remainder of each sample, which is exact.
impl<T: Sample, S: Samples> Rem for Stochastic<T, S> {
    type Output = Self;
    fn rem(self, b: Self) -> Self {
        self.map2(b, |x, y| T::from_f64(x.to_f64() % y.to_f64()))
    }
}

impl<T: Sample, S: Samples> Num for Stochastic<T, S> {
    type FromStrRadixErr = <f64 as Num>::FromStrRadixErr;
    /// The nearest number to the text, which counts as exact.
    fn from_str_radix(text: &str, radix: u32) -> Result<Self, Self::FromStrRadixErr> {
        Ok(Self::new(T::from_f64(f64::from_str_radix(text, radix)?)))
    }
}
