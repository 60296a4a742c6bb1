//! One sample: its type, the errors of its operations, its neighbours.

use half::{bf16, f16};

use crate::exact::sign_of_error;

/// Type of the samples: `f32`, `f64`, and `f16` and `bf16`, which are computed in software. Sealed.
pub trait Sample: sealed::Rounded + PartialEq + PartialOrd + core::fmt::Debug + Send + Sync {
    /// Decimal digits that the type holds, and that an exact number has.
    const DIGITS: u32;
    /// The value, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value to `x`.
    fn from_f64(x: f64) -> Self;
}

pub(crate) mod sealed {
    /// Operations rounded to nearest, and for each a number with the sign of its error.
    ///
    /// An error is exact result minus rounded result. Only its sign counts: it is 0 or NaN where
    /// the result is exact (infinities of infinite operands and NaN are exact), and it points
    /// towards zero where the result has overflowed.
    pub trait Rounded: crate::wide::Wide {
        fn zero() -> Self;
        fn plus(self, b: Self) -> Self;
        fn times(self, b: Self) -> Self;
        fn over(self, b: Self) -> Self;
        fn root(self) -> Self;
        fn fused(self, b: Self, c: Self) -> Self;
        fn negative(self) -> Self;
        fn magnitude(self) -> Self;
        /// Whether the distance to `b` is below `part` of the magnitude of `b`.
        fn is_within(self, part: f64, b: Self) -> bool;
        /// Whether the number is finite and at least `part` of `b` in magnitude.
        fn is_at_least(self, part: f64, b: Self) -> bool;

        fn sum_error(a: Self, b: Self, r: Self) -> f64;
        fn product_error(a: Self, b: Self, r: Self) -> f64;
        fn quotient_error(a: Self, b: Self, r: Self) -> f64;
        fn root_error(a: Self, r: Self) -> f64;
        fn fused_error(a: Self, b: Self, c: Self, r: Self) -> f64;
        /// Error of rounding `x` to `r`.
        fn conversion_error(x: f64, r: Self) -> f64;

        /// The error above may have vanished below the smallest number, or the result is infinite
        /// or NaN: `careful_*` is needed.
        fn product_is_special(a: Self, b: Self, r: Self) -> bool;
        fn quotient_is_special(a: Self, r: Self) -> bool;
        fn root_is_special(a: Self) -> bool;
        fn fused_is_special(a: Self, b: Self, c: Self) -> bool;
        fn careful_product(a: Self, b: Self, r: Self) -> f64;
        fn careful_quotient(a: Self, b: Self, r: Self) -> f64;
        fn careful_root(a: Self, r: Self) -> f64;
        fn careful_fused(a: Self, b: Self, c: Self, r: Self) -> f64;

        /// The neighbour in the direction of `error`, which is not 0, if `moved`.
        fn step(self, error: f64, moved: bool) -> Self;
    }
}

/// The next number of a type towards the sign of `$error`: bits of a float are ordered by
/// magnitude.
macro_rules! step {
    ($self:ident, $error:ident, $moved:ident, $bits:ty, $signed:ty) => {{
        let toward_zero = ($error < 0.0) != ($self.to_bits() >> (<$bits>::BITS - 1) == 1);
        let one: $signed = if toward_zero { -1 } else { 1 };
        let delta = if $moved { one } else { 0 };
        Self::from_bits($self.to_bits().wrapping_add(delta as $bits))
    }};
}

impl Sample for f64 {
    const DIGITS: u32 = 15;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
}

/// Products, quotients and roots below it have errors that may not be normal numbers.
const TINY: f64 = 1e-290;

impl sealed::Rounded for f64 {
    #[inline(always)]
    fn zero() -> f64 {
        0.0
    }
    #[inline(always)]
    fn plus(self, b: f64) -> f64 {
        self + b
    }
    #[inline(always)]
    fn times(self, b: f64) -> f64 {
        self * b
    }
    #[inline(always)]
    fn over(self, b: f64) -> f64 {
        self / b
    }
    #[inline(always)]
    fn root(self) -> f64 {
        self.sqrt()
    }
    #[inline(always)]
    fn fused(self, b: f64, c: f64) -> f64 {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn negative(self) -> f64 {
        -self
    }
    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }
    #[inline(always)]
    fn is_within(self, part: f64, b: f64) -> bool {
        (self - b).abs() < b.abs() * part
    }
    #[inline(always)]
    fn is_at_least(self, part: f64, b: f64) -> bool {
        (self.abs() >= b.abs() * part) & (self.abs() <= f64::MAX)
    }

    /// Fast two-sum of Dekker on operands sorted by magnitude: exact, and without overflow.
    #[inline(always)]
    fn sum_error(a: f64, b: f64, r: f64) -> f64 {
        let (of_b, of_a) = (b - (r - a), a - (r - b));
        if a.abs() < b.abs() { of_a } else { of_b }
    }
    #[inline(always)]
    fn product_error(a: f64, b: f64, r: f64) -> f64 {
        a.mul_add(b, -r)
    }
    /// The residual `a - r b` has the sign of the error times that of `b`.
    #[inline(always)]
    fn quotient_error(a: f64, b: f64, r: f64) -> f64 {
        (-r).mul_add(b, a) * 1f64.copysign(b)
    }
    #[inline(always)]
    fn root_error(a: f64, r: f64) -> f64 {
        (-r).mul_add(r, a)
    }
    /// Sum of three terms by two-sums: (p - r) + t + e, where a b = p + e and p + c = s + t.
    #[inline(always)]
    fn fused_error(a: f64, b: f64, c: f64, r: f64) -> f64 {
        let p = a * b;
        let e = a.mul_add(b, -p);
        let s = p + c;
        let t = Self::sum_error(p, c, s);
        let d = s - r;
        let u = d + t;
        let v = Self::sum_error(d, t, u);
        let w = u + e;
        w + (Self::sum_error(u, e, w) + v)
    }
    #[inline(always)]
    fn conversion_error(_: f64, _: f64) -> f64 {
        0.0
    }

    #[inline(always)]
    fn product_is_special(a: f64, b: f64, r: f64) -> bool {
        // Magnitudes are ordered as integers: one comparison for tiny and infinite results and NaN.
        let magnitude = r.to_bits() & (u64::MAX >> 1);
        (magnitude.wrapping_sub(TINY.to_bits()) >= f64::MAX.to_bits() - TINY.to_bits())
            & (a != 0.0)
            & (b != 0.0)
    }
    #[inline(always)]
    fn quotient_is_special(a: f64, r: f64) -> bool {
        ((a.abs() < TINY) | !(TINY..f64::MAX).contains(&r.abs())) & (a != 0.0)
    }
    #[inline(always)]
    fn root_is_special(a: f64) -> bool {
        !(TINY..=f64::MAX).contains(&a) & (a != 0.0)
    }
    /// A product that has overflowed may still give a finite sum.
    #[inline(always)]
    fn fused_is_special(a: f64, b: f64, c: f64) -> bool {
        let p = (a * b).abs();
        (!(TINY..1e307).contains(&p) & (a != 0.0) & (b != 0.0)) | !(0.0..1e307).contains(&c.abs())
    }
    #[cold]
    fn careful_product(a: f64, b: f64, r: f64) -> f64 {
        if r.is_finite() { sign_of_error(a, b, 0.0, r) } else { Self::product_error(a, b, r) }
    }
    #[cold]
    fn careful_quotient(a: f64, b: f64, r: f64) -> f64 {
        if !(a.is_finite() && b.is_finite() && r.is_finite()) {
            return Self::quotient_error(a, b, r);
        }
        sign_of_error(-r, b, a, 0.0) * 1f64.copysign(b)
    }
    #[cold]
    fn careful_root(a: f64, r: f64) -> f64 {
        if a.is_finite() && a > 0.0 { sign_of_error(-r, r, a, 0.0) } else { 0.0 }
    }
    #[cold]
    fn careful_fused(a: f64, b: f64, c: f64, r: f64) -> f64 {
        if !(a.is_finite() && b.is_finite() && c.is_finite()) || r.is_nan() {
            return 0.0;
        }
        if r.is_infinite() { -r } else { sign_of_error(a, b, c, r) }
    }
    /// As `step!`, with the sign of the product as a mask: a shorter chain of instructions.
    #[inline(always)]
    fn step(self, error: f64, moved: bool) -> f64 {
        let one = ((error.to_bits() ^ self.to_bits()) as i64 >> 63) | 1;
        let delta = if moved { one } else { 0 };
        f64::from_bits(self.to_bits().wrapping_add(delta as u64))
    }
}

/// Results whose errors never vanish, because they are computed in f64.
macro_rules! errors_in_f64 {
    () => {
        #[inline(always)]
        fn product_is_special(_: Self, _: Self, r: Self) -> bool {
            !(0.0..Self::MAX.to_f64()).contains(&r.to_f64().abs())
        }
        #[inline(always)]
        fn quotient_is_special(_: Self, r: Self) -> bool {
            !(0.0..Self::MAX.to_f64()).contains(&r.to_f64().abs())
        }
        #[inline(always)]
        fn root_is_special(a: Self) -> bool {
            !(0.0..=Self::MAX.to_f64()).contains(&a.to_f64())
        }
        #[inline(always)]
        fn fused_is_special(a: Self, b: Self, c: Self) -> bool {
            !(0.0..Self::MAX.to_f64()).contains(&((a.to_f64() * b.to_f64()).abs() + c.to_f64().abs()))
        }
        fn careful_product(a: Self, b: Self, r: Self) -> f64 {
            Self::product_error(a, b, r)
        }
        fn careful_quotient(a: Self, b: Self, r: Self) -> f64 {
            Self::quotient_error(a, b, r)
        }
        fn careful_root(a: Self, r: Self) -> f64 {
            Self::root_error(a, r)
        }
        fn careful_fused(a: Self, b: Self, c: Self, r: Self) -> f64 {
            Self::fused_error(a, b, c, r)
        }

        /// Products of two numbers of at most 24 bits are exact in f64.
        #[inline(always)]
        fn product_error(a: Self, b: Self, r: Self) -> f64 {
            a.to_f64() * b.to_f64() - r.to_f64()
        }
        /// A quotient that is not `r` differs from it by more than f64 rounds.
        #[inline(always)]
        fn quotient_error(a: Self, b: Self, r: Self) -> f64 {
            a.to_f64() / b.to_f64() - r.to_f64()
        }
        #[inline(always)]
        fn root_error(a: Self, r: Self) -> f64 {
            a.to_f64().sqrt() - r.to_f64()
        }
        #[inline(always)]
        fn fused_error(a: Self, b: Self, c: Self, r: Self) -> f64 {
            let p = a.to_f64() * b.to_f64();
            error_of_sum(p, c.to_f64(), r)
        }
        #[inline(always)]
        fn conversion_error(x: f64, r: Self) -> f64 {
            x - r.to_f64()
        }
    };
}

/// Error of `r` as the sum of two f64 numbers, whose own sum may be rounded.
#[inline(always)]
fn error_of_sum<T: Sample>(p: f64, c: f64, r: T) -> f64 {
    let s = p + c;
    (s - r.to_f64()) + <f64 as sealed::Rounded>::sum_error(p, c, s)
}

impl Sample for f32 {
    const DIGITS: u32 = 7;
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
}

impl sealed::Rounded for f32 {
    #[inline(always)]
    fn zero() -> f32 {
        0.0
    }
    #[inline(always)]
    fn plus(self, b: f32) -> f32 {
        self + b
    }
    #[inline(always)]
    fn times(self, b: f32) -> f32 {
        self * b
    }
    #[inline(always)]
    fn over(self, b: f32) -> f32 {
        self / b
    }
    #[inline(always)]
    fn root(self) -> f32 {
        self.sqrt()
    }
    #[inline(always)]
    fn fused(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn negative(self) -> f32 {
        -self
    }
    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }
    #[inline(always)]
    fn is_within(self, part: f64, b: f32) -> bool {
        (self - b).abs() < b.abs() * (part as f32)
    }
    #[inline(always)]
    fn is_at_least(self, part: f64, b: f32) -> bool {
        (self.abs() >= b.abs() * (part as f32)) & (self.abs() <= f32::MAX)
    }
    #[inline(always)]
    fn sum_error(a: f32, b: f32, r: f32) -> f64 {
        let swapped = a.abs() < b.abs();
        let (large, small) = if swapped { (b, a) } else { (a, b) };
        f64::from(small - (r - large))
    }
    errors_in_f64!();
    #[inline(always)]
    fn step(self, error: f64, moved: bool) -> f32 {
        step!(self, error, moved, u32, i32)
    }
}

/// `p + c` rounded to odd: what a narrow type rounds from it is rounded once.
fn sum_to_odd(p: f64, c: f64) -> f64 {
    let s = p + c;
    let error = <f64 as sealed::Rounded>::sum_error(p, c, s);
    let even = s.to_bits() & 1 == 0;
    sealed::Rounded::step(s, error, even && error != 0.0 && !error.is_nan())
}

/// Rounds to odd to f32, which has more than twice the bits of a narrow type, so that the second
/// rounding is the only one.
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let even = near.to_bits() & 1 == 0;
    let error = x - f64::from(near);
    sealed::Rounded::step(near, error, even && error != 0.0 && !error.is_nan())
}

macro_rules! narrow {
    ($name:ident, $digits:literal) => {
        impl Sample for $name {
            const DIGITS: u32 = $digits;
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn from_f64(x: f64) -> $name {
                $name::from_f32(to_odd(x))
            }
        }

        impl sealed::Rounded for $name {
            fn zero() -> $name {
                $name::ZERO
            }
            fn plus(self, b: $name) -> $name {
                <$name as Sample>::from_f64(sum_to_odd(self.to_f64(), b.to_f64()))
            }
            fn times(self, b: $name) -> $name {
                <$name as Sample>::from_f64(self.to_f64() * b.to_f64())
            }
            fn over(self, b: $name) -> $name {
                <$name as Sample>::from_f64(self.to_f64() / b.to_f64())
            }
            fn root(self) -> $name {
                <$name as Sample>::from_f64(self.to_f64().sqrt())
            }
            fn fused(self, b: $name, c: $name) -> $name {
                <$name as Sample>::from_f64(sum_to_odd(self.to_f64() * b.to_f64(), c.to_f64()))
            }
            fn negative(self) -> $name {
                -self
            }
            fn magnitude(self) -> $name {
                $name::from_bits(self.to_bits() & 0x7fff)
            }
            fn is_within(self, part: f64, b: $name) -> bool {
                self.to_f64().is_within(part, b.to_f64())
            }
            fn is_at_least(self, part: f64, b: $name) -> bool {
                self.to_f64().is_at_least(part, b.to_f64())
            }
            fn sum_error(a: $name, b: $name, r: $name) -> f64 {
                error_of_sum(a.to_f64(), b.to_f64(), r)
            }
            errors_in_f64!();
            fn step(self, error: f64, moved: bool) -> $name {
                step!(self, error, moved, u16, i16)
            }
        }
    };
}

narrow!(f16, 3);
narrow!(bf16, 2);
