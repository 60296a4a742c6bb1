//! Numbers that are computed with, one or several at a time.

use std::ops::{Add, Div, Mul, Neg};

use bytemuck::Pod;
#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;

use super::MatrixNumber;

/// `f32` or `f64`.
pub trait Real:
    Pod
    + Send
    + Sync
    + PartialOrd
    + Default
    + std::fmt::Debug
    + Add<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + private::Sealed
{
    /// Several at a time.
    #[doc(hidden)]
    type Wide: Lanes<Self>;

    /// What products take from memory as it is stored, besides these numbers themselves.
    #[doc(hidden)]
    type Fixed: Code<Self>;
    /// Its name, and that of these numbers.
    #[doc(hidden)]
    const DIRECT: [MatrixNumber; 2];

    /// How several are computed with, where the machine can.
    #[doc(hidden)]
    fn wide() -> Option<Self::Wide>;

    /// To nearest.
    fn from_f64(x: f64) -> Self;

    /// As it is, or to nearest.
    fn from_f32(x: f32) -> Self;

    /// To nearest.
    fn from_i32(x: i32) -> Self;

    /// As it is.
    fn to_f64(self) -> f64;

    /// To nearest.
    fn to_f32(self) -> f32;

    /// To nearest, ties to even; within the range of integers.
    fn round(self) -> i32;

    /// The magnitude.
    #[must_use]
    fn abs(self) -> Self;

    /// `self * a + b`, rounded once.
    #[must_use]
    fn fused(self, a: Self, b: Self) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! real {
    ($real:ty, $own:ident, $fixed:ty, $name:ident) => {
        impl Real for $real {
            #[cfg(target_arch = "x86_64")]
            type Wide = V3;
            #[cfg(not(target_arch = "x86_64"))]
            type Wide = One;

            type Fixed = $fixed;
            const DIRECT: [MatrixNumber; 2] = [MatrixNumber::$own, MatrixNumber::$name];

            #[cfg(target_arch = "x86_64")]
            fn wide() -> Option<V3> {
                V3::try_new()
            }

            #[cfg(not(target_arch = "x86_64"))]
            fn wide() -> Option<One> {
                None
            }

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $real
            }

            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                x as $real
            }

            #[inline(always)]
            fn from_i32(x: i32) -> Self {
                x as $real
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn round(self) -> i32 {
                self.round_ties_even() as i32
            }

            #[inline(always)]
            fn abs(self) -> Self {
                <$real>::abs(self)
            }

            #[inline(always)]
            fn fused(self, a: Self, b: Self) -> Self {
                self.mul_add(a, b)
            }
        }
    };
}

real!(f32, Fp32, i16, Fixed16);
real!(f64, Fp64, i32, Fixed32);

/// A number of a matrix as it is stored.
pub trait Code<R>: Pod {
    /// The first of them.
    fn load<L: Lanes<R>>(lanes: L, codes: &[Self]) -> L::V;
}

impl<R: Real> Code<R> for R {
    #[inline(always)]
    fn load<L: Lanes<R>>(lanes: L, codes: &[R]) -> L::V {
        lanes.load(codes)
    }
}

impl Code<f32> for i16 {
    #[inline(always)]
    fn load<L: Lanes<f32>>(lanes: L, codes: &[i16]) -> L::V {
        lanes.load_16(codes)
    }
}

impl Code<f64> for i32 {
    #[inline(always)]
    fn load<L: Lanes<f64>>(lanes: L, codes: &[i32]) -> L::V {
        lanes.load_32(codes)
    }
}

/// Several numbers at a time: `N` of them in a `V`.
pub trait Lanes<R>: Copy + Send + Sync {
    /// How many.
    const N: usize;
    /// So many.
    type V: Copy;

    /// Zeros.
    fn zero(self) -> Self::V;
    /// The same number in all.
    fn splat(self, x: R) -> Self::V;
    /// The first `N`.
    fn load(self, from: &[R]) -> Self::V;
    /// The first `N`, from 16-bit integers.
    fn load_16(self, from: &[i16]) -> Self::V;
    /// The first `N`, from 32-bit integers.
    fn load_32(self, from: &[i32]) -> Self::V;
    /// Overwrites the first `N`.
    fn store(self, v: Self::V, to: &mut [R]);
    /// `a b + c`.
    fn fused(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a b`.
    fn fused_negative(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a b`.
    fn times(self, a: Self::V, b: Self::V) -> Self::V;
    /// Runs what has been compiled for it.
    fn run(self, work: impl pulp::NullaryFnOnce<Output = ()>);
}

/// One number at a time: the portable way.
#[derive(Clone, Copy)]
pub(super) struct One;

impl<R: Real> Lanes<R> for One {
    const N: usize = 1;
    type V = R;

    fn zero(self) -> R {
        R::default()
    }

    fn splat(self, x: R) -> R {
        x
    }

    fn load(self, from: &[R]) -> R {
        from[0]
    }

    fn load_16(self, from: &[i16]) -> R {
        R::from_i32(i32::from(from[0]))
    }

    fn load_32(self, from: &[i32]) -> R {
        R::from_i32(from[0])
    }

    fn store(self, v: R, to: &mut [R]) {
        to[0] = v;
    }

    fn fused(self, a: R, b: R, c: R) -> R {
        a.fused(b, c)
    }

    fn fused_negative(self, a: R, b: R, c: R) -> R {
        (-a).fused(b, c)
    }

    fn times(self, a: R, b: R) -> R {
        a * b
    }

    fn run(self, work: impl pulp::NullaryFnOnce<Output = ()>) {
        work.call();
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::{__m128i, __m256, __m256d, __m256i};

    use pulp::cast;
    use pulp::x86::V3;

    use super::Lanes;

    #[inline(always)]
    fn first<T: Copy, const N: usize>(from: &[T]) -> [T; N] {
        *from.first_chunk().expect("a row with as many numbers")
    }

    impl Lanes<f32> for V3 {
        const N: usize = 8;
        type V = __m256;

        #[inline(always)]
        fn zero(self) -> __m256 {
            self.avx._mm256_setzero_ps()
        }

        #[inline(always)]
        fn splat(self, x: f32) -> __m256 {
            self.avx._mm256_set1_ps(x)
        }

        #[inline(always)]
        fn load(self, from: &[f32]) -> __m256 {
            cast::<[f32; 8], __m256>(first(from))
        }

        #[inline(always)]
        fn load_16(self, from: &[i16]) -> __m256 {
            let codes = cast::<[i16; 8], __m128i>(first(from));
            self.avx._mm256_cvtepi32_ps(self.avx2._mm256_cvtepi16_epi32(codes))
        }

        #[inline(always)]
        fn load_32(self, from: &[i32]) -> __m256 {
            self.avx._mm256_cvtepi32_ps(cast::<[i32; 8], __m256i>(first(from)))
        }

        #[inline(always)]
        fn store(self, v: __m256, to: &mut [f32]) {
            to[..8].copy_from_slice(&cast::<__m256, [f32; 8]>(v));
        }

        #[inline(always)]
        fn fused(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            self.fma._mm256_fmadd_ps(a, b, c)
        }

        #[inline(always)]
        fn fused_negative(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            self.fma._mm256_fnmadd_ps(a, b, c)
        }

        #[inline(always)]
        fn times(self, a: __m256, b: __m256) -> __m256 {
            self.avx._mm256_mul_ps(a, b)
        }

        #[inline(always)]
        fn run(self, work: impl pulp::NullaryFnOnce<Output = ()>) {
            self.vectorize(work);
        }
    }

    impl Lanes<f64> for V3 {
        const N: usize = 4;
        type V = __m256d;

        #[inline(always)]
        fn zero(self) -> __m256d {
            self.avx._mm256_setzero_pd()
        }

        #[inline(always)]
        fn splat(self, x: f64) -> __m256d {
            self.avx._mm256_set1_pd(x)
        }

        #[inline(always)]
        fn load(self, from: &[f64]) -> __m256d {
            cast::<[f64; 4], __m256d>(first(from))
        }

        #[inline(always)]
        fn load_16(self, from: &[i16]) -> __m256d {
            let [a, b, c, d]: [i16; 4] = first(from);
            let codes = [a, b, c, d, 0, 0, 0, 0];
            self.avx._mm256_cvtepi32_pd(self.sse4_1._mm_cvtepi16_epi32(cast::<[i16; 8], __m128i>(codes)))
        }

        #[inline(always)]
        fn load_32(self, from: &[i32]) -> __m256d {
            self.avx._mm256_cvtepi32_pd(cast::<[i32; 4], __m128i>(first(from)))
        }

        #[inline(always)]
        fn store(self, v: __m256d, to: &mut [f64]) {
            to[..4].copy_from_slice(&cast::<__m256d, [f64; 4]>(v));
        }

        #[inline(always)]
        fn fused(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
            self.fma._mm256_fmadd_pd(a, b, c)
        }

        #[inline(always)]
        fn fused_negative(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
            self.fma._mm256_fnmadd_pd(a, b, c)
        }

        #[inline(always)]
        fn times(self, a: __m256d, b: __m256d) -> __m256d {
            self.avx._mm256_mul_pd(a, b)
        }

        #[inline(always)]
        fn run(self, work: impl pulp::NullaryFnOnce<Output = ()>) {
            self.vectorize(work);
        }
    }
}
