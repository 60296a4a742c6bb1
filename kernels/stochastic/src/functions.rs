//! Elementary functions: the result moved by one unit in the last place with probability 1/2.

use core::panic::Location;

use crate::digits::CERTAIN;
use crate::instability::Category;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::{Stochastic, state};

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// `f` of each sample in f64, rounded at random to the type unless `exact`. In f64 the sign of
    /// the error of `f` is not known, and the direction is random too.
    #[inline(never)]
    fn function(
        self,
        place: &'static Location<'static>,
        f: impl Fn(f64) -> f64,
        exact: impl Fn(f64, f64) -> bool,
    ) -> Self {
        if !self.agrees_within(CERTAIN) && self.is_noise() {
            state::record(Category::Function, place);
        }
        self.evaluated(place, self, |lane| {
            let x = self.lane(lane).to_f64();
            let y = f(x);
            (y, exact(x, y))
        })
    }

    /// Results of lanes in f64, and whether they are exact, rounded at random.
    fn evaluated(
        self,
        place: &'static Location<'static>,
        other: Self,
        f: impl Fn(usize) -> (f64, bool),
    ) -> Self {
        let mut are_exact = 0u64;
        let results: S::Array<f64> = S::build(|lane| {
            let (y, is_exact) = f(lane);
            are_exact |= u64::from(is_exact) << lane;
            y
        });
        let directions = state::bits().word;
        let r = Stochastic { lanes: S::build(|lane| T::from_f64(results.as_ref()[lane])) };
        let errors = S::build(|lane| {
            let y = results.as_ref()[lane];
            let error = T::conversion_error(y, r.lane(lane));
            match () {
                () if are_exact >> lane & 1 == 1 || !y.is_finite() => 0.0,
                () if error != 0.0 => error,
                () if directions >> lane & 1 == 1 => 1.0,
                () => -1.0,
            }
        });
        let result = Self::rounded(r, errors, state::bits().word);
        if !result.is_finite() {
            result.note_range(&[self, other], place);
        }
        result
    }

    /// `f` of each sample in f64, moved as the result of an elementary function: for functions of
    /// another library than those of this type.
    #[track_caller]
    #[must_use]
    pub fn apply(self, f: impl Fn(f64) -> f64) -> Self {
        self.function(Location::caller(), f, |_, _| false)
    }

    /// `self` to the power `exponent`. Exact where the result is a number of the type.
    #[track_caller]
    #[must_use]
    pub fn powi(self, exponent: i32) -> Self {
        self.power(Self::new(T::from_f64(f64::from(exponent))), f64::from(exponent), Location::caller())
    }

    /// `self` to the power `exponent`; NaN for samples below 0 and exponents that are no integers.
    #[track_caller]
    #[must_use]
    pub fn powf(self, exponent: Self) -> Self {
        self.power(exponent, f64::NAN, Location::caller())
    }

    /// `whole` is the exponent where all samples have it, and NaN otherwise: a narrow type may not
    /// hold it.
    fn power(self, exponent: Self, whole: f64, place: &'static Location<'static>) -> Self {
        let noise = |x: &Self| !x.agrees_within(CERTAIN) && x.is_noise();
        if noise(&self) || noise(&exponent) {
            state::record(Category::Power, place);
        }
        self.evaluated(place, exponent, |lane| {
            let x = self.lane(lane).to_f64();
            let y = if whole.is_nan() { exponent.lane(lane).to_f64() } else { whole };
            (libm::pow(x, y), power_is_exact(x, y))
        })
    }

    /// Length of the vector `(self, b)`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn hypot(self, b: Self) -> Self {
        let place = Location::caller();
        self.evaluated(place, b, |lane| {
            let (x, y) = (self.lane(lane).to_f64(), b.lane(lane).to_f64());
            let r = libm::hypot(x, y);
            (r, x == 0.0 || y == 0.0 || is_square_sum(x, y, r))
        })
    }

    /// Angle of the vector `(b, self)` in radians.
    #[track_caller]
    #[must_use]
    pub fn atan2(self, b: Self) -> Self {
        let place = Location::caller();
        self.evaluated(place, b, |lane| {
            let (y, x) = (self.lane(lane).to_f64(), b.lane(lane).to_f64());
            (libm::atan2(y, x), y == 0.0 && x >= 0.0)
        })
    }
}

/// Odd factor of the significand of a finite `x`, and its exponent of two.
fn odd_part(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (significand, exponent) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
    let zeros = significand.trailing_zeros().min(63);
    (significand >> zeros, exponent + zeros as i32)
}

/// Whether x^y is a number of f64 without rounding.
fn power_is_exact(x: f64, y: f64) -> bool {
    if y == 0.0 || x == 1.0 || x == 0.0 || y == 1.0 {
        return true;
    }
    if !x.is_finite() || !y.is_finite() {
        return true;
    }
    if y == 0.5 {
        let root = libm::sqrt(x);
        return root.mul_add(root, -x) == 0.0;
    }
    if y != libm::trunc(y) {
        return false;
    }
    let (odd, exponent) = odd_part(x);
    if odd == 1 {
        // A power of two, unless it is below the smallest number.
        return f64::from(exponent) * y >= -1074.0;
    }
    y > 0.0 && y <= 33.0 && odd.checked_pow(y as u32).is_some_and(|p| p < 1 << 53)
}

/// Whether `r` is exactly sqrt(x^2 + y^2): only for numbers of few bits, whose squares are exact.
fn is_square_sum(x: f64, y: f64, r: f64) -> bool {
    let square = |a: f64| (a * a, a.mul_add(a, -(a * a)) == 0.0);
    let ((x2, x_exact), (y2, y_exact), (r2, r_exact)) = (square(x), square(y), square(r));
    x_exact && y_exact && r_exact && x2 + y2 == r2 && (x2 + y2) - x2 == y2
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $f:path, exact where |$x:ident, $y:ident| $exact:expr;)*) => {
        impl<T: Sample, S: Samples> Stochastic<T, S> {
            $(
                $(#[$doc])*
                #[track_caller]
                #[must_use]
                pub fn $name(self) -> Self {
                    self.function(Location::caller(), $f, |$x, $y| { let _ = $y; $exact })
                }
            )*
        }
    };
}

functions! {
    /// e to the power of the number; exact at 0.
    exp = libm::exp, exact where |x, y| x == 0.0;
    /// 2 to the power of the number; exact at integers.
    exp2 = libm::exp2, exact where |x, y| x == libm::trunc(x);
    /// exp(x) - 1; exact at 0.
    exp_m1 = libm::expm1, exact where |x, y| x == 0.0;
    /// Natural logarithm; exact at 1.
    ln = libm::log, exact where |x, y| x == 1.0;
    /// Natural logarithm of 1 + x; exact at 0.
    ln_1p = libm::log1p, exact where |x, y| x == 0.0;
    /// Logarithm to base 2; exact at powers of two.
    log2 = libm::log2, exact where |x, y| x > 0.0 && odd_part(x).0 == 1;
    /// Logarithm to base 10; exact at powers of ten.
    log10 = libm::log10, exact where |x, y| (0.0..=22.0).contains(&y) && y == libm::trunc(y) && libm::pow(10.0, y) == x;
    /// Sine of an angle in radians; exact at 0.
    sin = libm::sin, exact where |x, y| x == 0.0;
    /// Cosine of an angle in radians; exact at 0.
    cos = libm::cos, exact where |x, y| x == 0.0;
    /// Tangent of an angle in radians; exact at 0.
    tan = libm::tan, exact where |x, y| x == 0.0;
    /// Angle with this sine, in radians; exact at 0.
    asin = libm::asin, exact where |x, y| x == 0.0;
    /// Angle with this cosine, in radians; exact at 1.
    acos = libm::acos, exact where |x, y| x == 1.0;
    /// Angle with this tangent, in radians; exact at 0.
    atan = libm::atan, exact where |x, y| x == 0.0;
    /// Hyperbolic sine; exact at 0.
    sinh = libm::sinh, exact where |x, y| x == 0.0;
    /// Hyperbolic cosine; exact at 0.
    cosh = libm::cosh, exact where |x, y| x == 0.0;
    /// Hyperbolic tangent; exact at 0.
    tanh = libm::tanh, exact where |x, y| x == 0.0;
    /// Cube root; exact at cubes.
    cbrt = libm::cbrt, exact where |x, y| (y * y).mul_add(y, -x) == 0.0 && y.mul_add(y, -(y * y)) == 0.0;
}
