//! Numbers that are computed with, one or several at a time.

use std::ops::{Add, Div, Mul, Neg};

use bytemuck::Pod;

use super::{LANES, MatrixNumber};

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
    /// Integer type that products also read from memory without decoding, besides these numbers.
    #[doc(hidden)]
    type Fixed: Code<Self>;
    /// Matrix number formats of this type and of `Fixed`.
    #[doc(hidden)]
    const DIRECT: [MatrixNumber; 2];

    /// Does work with as many numbers at a time as the machine can.
    #[doc(hidden)]
    fn with_lanes(work: impl WithLanes<Self>);

    /// Does work that can use twice as many lanes as [`LANES`] sites.
    #[doc(hidden)]
    fn with_most_lanes(work: impl WithLanes<Self>);

    /// Converts to the nearest number.
    fn from_f64(x: f64) -> Self;

    /// Converts exactly or to the nearest number.
    fn from_f32(x: f32) -> Self;

    /// Converts to the nearest number.
    fn from_i32(x: i32) -> Self;

    /// Converts exactly.
    fn to_f64(self) -> f64;

    /// Converts to the nearest number.
    fn to_f32(self) -> f32;

    /// Rounds to nearest, ties to even; `self` must be within the range of integers.
    fn round(self) -> i32;

    /// Returns the magnitude.
    #[must_use]
    fn abs(self) -> Self;

    /// Returns `self * a + b`, rounded once.
    #[must_use]
    fn fused(self, a: Self, b: Self) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! real {
    ($real:ty, $own:ident, $fixed:ty, $name:ident, $with:ident, $with_most:ident) => {
        impl Real for $real {
            type Fixed = $fixed;
            const DIRECT: [MatrixNumber; 2] = [MatrixNumber::$own, MatrixNumber::$name];

            fn with_lanes(work: impl WithLanes<Self>) {
                #[cfg(target_arch = "x86_64")]
                return super::x86::$with(work);
                #[cfg(not(target_arch = "x86_64"))]
                work.call(One)
            }

            fn with_most_lanes(work: impl WithLanes<Self>) {
                #[cfg(target_arch = "x86_64")]
                return super::x86::$with_most(work);
                #[cfg(not(target_arch = "x86_64"))]
                work.call(One)
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

real!(f32, Fp32, i16, Fixed16, with_singles, with_most_singles);
real!(f64, Fp64, i32, Fixed32, with_doubles, with_doubles);

/// A stored number of a matrix.
pub trait Code<R>: Pod {
    /// Prefetch distance in bytes. With 0 only the hardware prefetches, which is not far enough
    /// ahead if a cache line requires much work.
    const AHEAD: usize = 0;

    /// Loads the first numbers.
    fn load<L: Lanes<R>>(lanes: L, codes: &[Self]) -> L::V;
}

impl<R: Real> Code<R> for R {
    #[inline(always)]
    fn load<L: Lanes<R>>(lanes: L, codes: &[R]) -> L::V {
        lanes.load(codes)
    }
}

impl Code<f32> for i16 {
    const AHEAD: usize = 1 << 14;

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
pub trait Lanes<R>: PairOps {
    /// Number of lanes.
    const N: usize;
    /// A vector of `N` numbers.
    type V: Copy;

    /// Zeros.
    fn zero(self) -> Self::V;
    /// Returns a vector with the same number in all lanes.
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
    /// `a + b`.
    fn plus(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a b`.
    fn times(self, a: Self::V, b: Self::V) -> Self::V;
    /// Rounds to nearest, ties to even. Numbers beyond the range of integers and NaN give an
    /// arbitrary integer.
    fn round(self, x: [R; LANES]) -> [i32; LANES];
}

/// Work that is written for any number of lanes.
pub trait WithLanes<R> {
    /// Does it.
    fn call<L: Lanes<R>>(self, lanes: L);
}

/// Operations that are the same for all number types: prefetching, and the conversion between the
/// pairs of eight sites and two rows.
pub trait PairOps: Copy + Send + Sync {
    /// Prefetches the cache line at an address into the L2 cache; any address will do.
    #[inline(always)]
    fn prefetch(self, _: *const u8) {}

    /// The lower halves, and the upper ones.
    #[inline(always)]
    fn split(self, pairs: [u64; LANES]) -> ([u32; LANES], [u32; LANES]) {
        (pairs.map(|pair| pair as u32), pairs.map(|pair| (pair >> 32) as u32))
    }

    /// The pairs of these lower and upper halves.
    #[inline(always)]
    fn join(self, low: [u32; LANES], high: [u32; LANES]) -> [u64; LANES] {
        std::array::from_fn(|i| u64::from(low[i]) | u64::from(high[i]) << 32)
    }

    /// The first numbers, and the second ones.
    #[inline(always)]
    fn split_doubles(self, pairs: [[f64; 2]; LANES]) -> ([f64; LANES], [f64; LANES]) {
        (pairs.map(|pair| pair[0]), pairs.map(|pair| pair[1]))
    }

    /// The pairs of these numbers.
    #[inline(always)]
    fn join_doubles(self, first: [f64; LANES], second: [f64; LANES]) -> [[f64; 2]; LANES] {
        std::array::from_fn(|i| [first[i], second[i]])
    }
}

/// One lane: the portable implementation.
#[derive(Clone, Copy)]
pub(super) struct One;

impl PairOps for One {}

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

    fn plus(self, a: R, b: R) -> R {
        a + b
    }

    fn times(self, a: R, b: R) -> R {
        a * b
    }

    fn round(self, x: [R; LANES]) -> [i32; LANES] {
        x.map(R::round)
    }
}
