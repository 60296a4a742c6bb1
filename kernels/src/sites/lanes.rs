//! Numbers that are computed with, one or several at a time.

use std::ops::{Add, Div, Mul, Neg};

use bytemuck::Pod;

use super::{LANES, MatrixNumber};

/// A number that takes the place of `f32` or `f64` in products: one of these, or one that follows
/// its rounding errors.
///
/// Products do the operations of [`Plain`](ProductNumber::Plain) numbers in their order.
pub trait ProductNumber: Copy + Default + Send + Sync {
    /// The type that matrices are decoded to.
    type Plain: Real;

    /// The number `x`, exactly.
    fn new(x: Self::Plain) -> Self;

    /// Sum, rounded.
    #[must_use]
    fn plus(self, b: Self) -> Self;

    /// Product, rounded.
    #[must_use]
    fn times(self, b: Self) -> Self;

    /// `-self`.
    #[must_use]
    fn negative(self) -> Self;

    /// Returns `self * a + b`, rounded once.
    #[must_use]
    fn fused(self, a: Self, b: Self) -> Self;

    /// Begins the sum of a group of matrices for a site.
    #[inline(always)]
    fn begin(site: usize, group: usize) {
        let _ = (site, group);
    }

    /// Does work with as many numbers at a time as the machine can.
    #[doc(hidden)]
    #[inline(always)]
    fn with_lanes(work: impl WithLanes<Self>) {
        work.call(One);
    }

    /// Loads the first numbers of a matrix.
    #[doc(hidden)]
    #[inline(always)]
    fn load<L: Lanes<Self>>(lanes: L, matrix: &[Self::Plain]) -> L::V {
        lanes.splat(Self::new(matrix[0]))
    }
}

/// `f32` or `f64`.
pub trait Real:
    ProductNumber<Plain = Self>
    + Pod
    + PartialOrd
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
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! real {
    ($real:ty, $own:ident, $fixed:ty, $name:ident, $with:ident, $with_most:ident) => {
        impl ProductNumber for $real {
            type Plain = $real;

            #[inline(always)]
            fn new(x: $real) -> $real {
                x
            }

            #[inline(always)]
            fn plus(self, b: $real) -> $real {
                self + b
            }

            #[inline(always)]
            fn times(self, b: $real) -> $real {
                self * b
            }

            #[inline(always)]
            fn negative(self) -> $real {
                -self
            }

            #[inline(always)]
            fn fused(self, a: $real, b: $real) -> $real {
                self.mul_add(a, b)
            }

            fn with_lanes(work: impl WithLanes<Self>) {
                #[cfg(target_arch = "x86_64")]
                return super::x86::$with(work);
                #[cfg(not(target_arch = "x86_64"))]
                work.call(One)
            }

            #[inline(always)]
            fn load<L: Lanes<$real>>(lanes: L, matrix: &[$real]) -> L::V {
                lanes.load(matrix)
            }
        }

        impl Real for $real {
            type Fixed = $fixed;
            const DIRECT: [MatrixNumber; 2] = [MatrixNumber::$own, MatrixNumber::$name];

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
    fn load<N: ProductNumber<Plain = R>, L: Lanes<N>>(lanes: L, codes: &[Self]) -> L::V;
}

impl<R: Real> Code<R> for R {
    #[inline(always)]
    fn load<N: ProductNumber<Plain = R>, L: Lanes<N>>(lanes: L, codes: &[R]) -> L::V {
        N::load(lanes, codes)
    }
}

impl Code<f32> for i16 {
    const AHEAD: usize = 1 << 14;

    #[inline(always)]
    fn load<N: ProductNumber<Plain = f32>, L: Lanes<N>>(lanes: L, codes: &[i16]) -> L::V {
        lanes.load_16(codes)
    }
}

impl Code<f64> for i32 {
    #[inline(always)]
    fn load<N: ProductNumber<Plain = f64>, L: Lanes<N>>(lanes: L, codes: &[i32]) -> L::V {
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
    fn round(self, x: [R; LANES]) -> [i32; LANES]
    where
        R: Real;
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

/// Operations are those of the caller: numbers that follow errors name its place.
impl<N: ProductNumber> Lanes<N> for One {
    const N: usize = 1;
    type V = N;

    #[inline(always)]
    fn zero(self) -> N {
        N::default()
    }

    #[inline(always)]
    fn splat(self, x: N) -> N {
        x
    }

    #[inline(always)]
    fn load(self, from: &[N]) -> N {
        from[0]
    }

    #[inline(always)]
    fn load_16(self, from: &[i16]) -> N {
        N::new(N::Plain::from_i32(i32::from(from[0])))
    }

    #[inline(always)]
    fn load_32(self, from: &[i32]) -> N {
        N::new(N::Plain::from_i32(from[0]))
    }

    #[inline(always)]
    fn store(self, v: N, to: &mut [N]) {
        to[0] = v;
    }

    #[inline(always)]
    #[track_caller]
    fn fused(self, a: N, b: N, c: N) -> N {
        a.fused(b, c)
    }

    #[inline(always)]
    #[track_caller]
    fn fused_negative(self, a: N, b: N, c: N) -> N {
        a.negative().fused(b, c)
    }

    #[inline(always)]
    #[track_caller]
    fn plus(self, a: N, b: N) -> N {
        a.plus(b)
    }

    #[inline(always)]
    #[track_caller]
    fn times(self, a: N, b: N) -> N {
        a.times(b)
    }

    fn round(self, x: [N; LANES]) -> [i32; LANES]
    where
        N: Real,
    {
        x.map(N::round)
    }
}
