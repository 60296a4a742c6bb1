//! The element types of the tile kernels.

use core::fmt::{Debug, Display};
use core::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// `f32` or `f64`. Sealed: the kernels rely on what these two are.
pub trait Scalar:
    lanes::SimdScalar
    + crate::formats::half_tile::source::HalfSource
    + crate::formats::fp8_tile::source::Fp8Source
    + crate::blas::transpose::Transpose
    + crate::formats::norms::reduce::Reduce
    + Copy
    + Debug
    + Display
    + Default
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + bytemuck::Pod
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Unit roundoff of round to nearest, half the distance from 1 to the next number.
    const UNIT_ROUNDOFF: f64;
    /// Storage format of this type.
    const FORMAT: crate::StorageFormat;
    /// The nearest value to `x`.
    fn from_f64(x: f64) -> Self;
    /// The value, exactly.
    fn to_f64(self) -> f64;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

/// SIMD operations that the kernels require of an element type, and the seal of [`Scalar`].
pub(crate) mod lanes {
    use pulp::Simd;

    pub trait SimdScalar: Sized + Copy {
        /// A register of `S`.
        type Reg<S: Simd>: Copy;
        /// Elements per register.
        fn count<S: Simd>() -> usize;
        fn splat<S: Simd>(s: S, x: Self) -> Self::Reg<S>;
        /// The first elements of `x`, which holds at least one register.
        fn load<S: Simd>(x: &[Self]) -> Self::Reg<S>;
        /// Stores to the first elements of `x`, which holds at least one register.
        fn store<S: Simd>(x: &mut [Self], v: Self::Reg<S>);
        fn times<S: Simd>(s: S, a: Self::Reg<S>, b: Self::Reg<S>) -> Self::Reg<S>;
        /// `c - a b`, fused where the machine fuses.
        fn sub_mul<S: Simd>(s: S, c: Self::Reg<S>, a: Self::Reg<S>, b: Self::Reg<S>) -> Self::Reg<S>;
    }
}

macro_rules! scalar {
    ($t:ident, $lanes:ident, $reg:ident, $splat:ident, $as_simd:ident, $as_mut:ident, $mul:ident, $fma:ident, $neg:ident,
     $u:expr, $format:ident) => {
        impl lanes::SimdScalar for $t {
            type Reg<S: pulp::Simd> = S::$reg;
            #[inline(always)]
            fn count<S: pulp::Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: pulp::Simd>(s: S, x: Self) -> S::$reg {
                s.$splat(x)
            }
            #[inline(always)]
            fn load<S: pulp::Simd>(x: &[Self]) -> S::$reg {
                S::$as_simd(&x[..S::$lanes]).0[0]
            }
            #[inline(always)]
            fn store<S: pulp::Simd>(x: &mut [Self], v: S::$reg) {
                S::$as_mut(&mut x[..S::$lanes]).0[0] = v;
            }
            #[inline(always)]
            fn times<S: pulp::Simd>(s: S, a: S::$reg, b: S::$reg) -> S::$reg {
                s.$mul(a, b)
            }
            #[inline(always)]
            fn sub_mul<S: pulp::Simd>(s: S, c: S::$reg, a: S::$reg, b: S::$reg) -> S::$reg {
                s.$fma(s.$neg(a), b, c)
            }
        }

        impl Scalar for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const UNIT_ROUNDOFF: f64 = $u;
            const FORMAT: crate::StorageFormat = crate::StorageFormat::$format;
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
        }
    };
}

scalar!(
    f32,
    F32_LANES,
    f32s,
    splat_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    mul_f32s,
    mul_add_e_f32s,
    neg_f32s,
    1.0 / 16_777_216.0,
    F32
);
scalar!(
    f64,
    F64_LANES,
    f64s,
    splat_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    mul_f64s,
    mul_add_e_f64s,
    neg_f64s,
    1.0 / 9_007_199_254_740_992.0,
    F64
);
