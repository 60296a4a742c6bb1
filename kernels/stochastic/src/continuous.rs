//! Continuous stochastic arithmetic: a Gaussian variable by its mean and variance.

use core::ops::{Add, Div, Mul, Neg, Sub};

/// A number as a Gaussian variable, whose operations follow formulas instead of samples.
///
/// Operands count as independent (Chesneaux 1990; thesis of Molina, eq. 1.15 to 1.19).
///
/// ```
/// use zellige_stochastic::Continuous;
///
/// let x = Continuous::new(2.0, 1e-6);
/// assert_eq!((x * x).mean(), 4.0);
/// assert_eq!((x * x).digits(1.96), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Continuous {
    mean: f64,
    variance: f64,
}

impl Continuous {
    /// A variable with a mean and a standard deviation.
    pub fn new(mean: f64, deviation: f64) -> Continuous {
        Continuous { mean, variance: deviation * deviation }
    }
    /// Mean.
    pub fn mean(self) -> f64 {
        self.mean
    }
    /// Standard deviation.
    pub fn deviation(self) -> f64 {
        self.variance.sqrt()
    }
    /// Exact digits, log10(|m| / (lambda sigma)), from 0 to 15; `lambda` is 1.96 for 95 %.
    pub fn digits(self, lambda: f64) -> u32 {
        if self.variance == 0.0 {
            return 15;
        }
        // NaN becomes 0.
        (self.mean.abs() / (lambda * self.deviation())).log10().clamp(0.0, 15.0) as u32
    }
}

impl Add for Continuous {
    type Output = Continuous;
    fn add(self, b: Continuous) -> Continuous {
        Continuous { mean: self.mean + b.mean, variance: self.variance + b.variance }
    }
}

impl Sub for Continuous {
    type Output = Continuous;
    fn sub(self, b: Continuous) -> Continuous {
        self + -b
    }
}

impl Neg for Continuous {
    type Output = Continuous;
    fn neg(self) -> Continuous {
        Continuous { mean: -self.mean, variance: self.variance }
    }
}

impl Mul for Continuous {
    type Output = Continuous;
    fn mul(self, b: Continuous) -> Continuous {
        let variance = b.mean * b.mean * self.variance + self.mean * self.mean * b.variance;
        Continuous { mean: self.mean * b.mean, variance }
    }
}

impl Div for Continuous {
    type Output = Continuous;
    fn div(self, b: Continuous) -> Continuous {
        let square = b.mean * b.mean;
        let variance = (self.variance + self.mean * self.mean * b.variance / square) / square;
        Continuous { mean: self.mean / b.mean, variance }
    }
}
