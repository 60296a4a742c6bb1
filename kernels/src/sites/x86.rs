//! Lanes of AVX2 and AVX-512.

use core::arch::x86_64::{
    __m128i, __m256, __m256d, __m256i, __m512, __m512d, __m512i, _MM_HINT_T1, _mm_prefetch,
};
use std::marker::PhantomData;

use pulp::x86::{V3, V4};
use pulp::{NullaryFnOnce, cast};

use super::LANES;
use super::lanes::{Lanes, One, PairOps, Real, WithLanes};

/// Runs work with eight lanes: with the registers of AVX-512 if the machine has them, since
/// products have more sums than fit into sixteen.
pub fn with_singles(work: impl WithLanes<f32>) {
    match (V4::try_new(), V3::try_new()) {
        (Some(more), _) => more.vectorize(Vectorized::new(work, *more)),
        (None, Some(lanes)) => lanes.vectorize(Vectorized::new(work, lanes)),
        (None, None) => work.call(One),
    }
}

/// Runs work with sixteen lanes if the machine supports them.
pub fn with_most_singles(work: impl WithLanes<f32>) {
    match V4::try_new() {
        Some(lanes) => lanes.vectorize(Vectorized::new(work, lanes)),
        None => with_singles(work),
    }
}

/// Eight at a time, or four.
pub fn with_doubles(work: impl WithLanes<f64>) {
    match (V4::try_new(), V3::try_new()) {
        (Some(lanes), _) => lanes.vectorize(Vectorized::new(work, lanes)),
        (None, Some(lanes)) => lanes.vectorize(Vectorized::new(work, lanes)),
        (None, None) => work.call(One),
    }
}

/// Work, and the lanes that it is done with.
struct Vectorized<R, W, L> {
    work: W,
    lanes: L,
    numbers: PhantomData<R>,
}

impl<R: Real, W: WithLanes<R>, L: Lanes<R>> Vectorized<R, W, L> {
    fn new(work: W, lanes: L) -> Self {
        Vectorized { work, lanes, numbers: PhantomData }
    }
}

impl<R: Real, W: WithLanes<R>, L: Lanes<R>> NullaryFnOnce for Vectorized<R, W, L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.work.call(self.lanes);
    }
}

#[inline(always)]
fn first<T: Copy, const N: usize>(from: &[T]) -> [T; N] {
    *from.first_chunk().expect("a row with as many numbers")
}

impl PairOps for V3 {
    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        // SAFETY: this reads nothing, and is no fault for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }

    #[inline(always)]
    fn split(self, [a, b, c, d, e, f, g, h]: [u64; LANES]) -> ([u32; LANES], [u32; LANES]) {
        let (x, y) = (cast::<[u64; 4], __m256>([a, b, e, f]), cast::<[u64; 4], __m256>([c, d, g, h]));
        (
            cast(self.avx._mm256_shuffle_ps::<0b10_00_10_00>(x, y)),
            cast(self.avx._mm256_shuffle_ps::<0b11_01_11_01>(x, y)),
        )
    }

    #[inline(always)]
    fn join(self, low: [u32; LANES], high: [u32; LANES]) -> [u64; LANES] {
        let (low, high) = (cast::<[u32; LANES], __m256>(low), cast::<[u32; LANES], __m256>(high));
        let [a, b, e, f]: [u64; 4] = cast(self.avx._mm256_unpacklo_ps(low, high));
        let [c, d, g, h]: [u64; 4] = cast(self.avx._mm256_unpackhi_ps(low, high));
        [a, b, c, d, e, f, g, h]
    }

    #[inline(always)]
    fn split_doubles(self, pairs: [[f64; 2]; LANES]) -> ([f64; LANES], [f64; LANES]) {
        let four = |i: usize| {
            let x = cast::<[[f64; 2]; 2], __m256d>([pairs[i], pairs[i + 2]]);
            let y = cast::<[[f64; 2]; 2], __m256d>([pairs[i + 1], pairs[i + 3]]);
            (self.avx._mm256_unpacklo_pd(x, y), self.avx._mm256_unpackhi_pd(x, y))
        };
        let ((a, b), (c, d)) = (four(0), four(4));
        (cast::<[__m256d; 2], _>([a, c]), cast::<[__m256d; 2], _>([b, d]))
    }

    #[inline(always)]
    fn join_doubles(self, first: [f64; LANES], second: [f64; LANES]) -> [[f64; 2]; LANES] {
        let [a, b] = cast::<[f64; LANES], [__m256d; 2]>(first);
        let [c, d] = cast::<[f64; LANES], [__m256d; 2]>(second);
        let four = |x: __m256d, y: __m256d| -> [[f64; 2]; 4] {
            let [p, r]: [[f64; 2]; 2] = cast(self.avx._mm256_unpacklo_pd(x, y));
            let [q, s]: [[f64; 2]; 2] = cast(self.avx._mm256_unpackhi_pd(x, y));
            [p, q, r, s]
        };
        cast::<[[[f64; 2]; 4]; 2], _>([four(a, c), four(b, d)])
    }
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
    fn plus(self, a: __m256, b: __m256) -> __m256 {
        self.avx._mm256_add_ps(a, b)
    }

    #[inline(always)]
    fn times(self, a: __m256, b: __m256) -> __m256 {
        self.avx._mm256_mul_ps(a, b)
    }

    #[inline(always)]
    fn round(self, x: [f32; LANES]) -> [i32; LANES] {
        cast(self.avx._mm256_cvtps_epi32(cast(x)))
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
    fn plus(self, a: __m256d, b: __m256d) -> __m256d {
        self.avx._mm256_add_pd(a, b)
    }

    #[inline(always)]
    fn times(self, a: __m256d, b: __m256d) -> __m256d {
        self.avx._mm256_mul_pd(a, b)
    }

    #[inline(always)]
    fn round(self, x: [f64; LANES]) -> [i32; LANES] {
        let [a, b] = cast::<[f64; LANES], [__m256d; 2]>(x);
        cast([self.avx._mm256_cvtpd_epi32(a), self.avx._mm256_cvtpd_epi32(b)])
    }
}
impl PairOps for V4 {
    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        (*self).prefetch(address);
    }

    #[inline(always)]
    fn split(self, pairs: [u64; LANES]) -> ([u32; LANES], [u32; LANES]) {
        (*self).split(pairs)
    }

    #[inline(always)]
    fn join(self, low: [u32; LANES], high: [u32; LANES]) -> [u64; LANES] {
        (*self).join(low, high)
    }

    #[inline(always)]
    fn split_doubles(self, pairs: [[f64; 2]; LANES]) -> ([f64; LANES], [f64; LANES]) {
        (*self).split_doubles(pairs)
    }

    #[inline(always)]
    fn join_doubles(self, first: [f64; LANES], second: [f64; LANES]) -> [[f64; 2]; LANES] {
        (*self).join_doubles(first, second)
    }
}

impl Lanes<f32> for V4 {
    const N: usize = 16;
    type V = __m512;

    #[inline(always)]
    fn zero(self) -> __m512 {
        self.avx512f._mm512_setzero_ps()
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        self.avx512f._mm512_set1_ps(x)
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        cast::<[f32; 16], __m512>(first(from))
    }

    #[inline(always)]
    fn load_16(self, from: &[i16]) -> __m512 {
        let codes = cast::<[i16; 16], __m256i>(first(from));
        self.avx512f._mm512_cvtepi32_ps(self.avx512f._mm512_cvtepi16_epi32(codes))
    }

    #[inline(always)]
    fn load_32(self, from: &[i32]) -> __m512 {
        self.avx512f._mm512_cvtepi32_ps(cast::<[i32; 16], __m512i>(first(from)))
    }

    #[inline(always)]
    fn store(self, v: __m512, to: &mut [f32]) {
        to[..16].copy_from_slice(&cast::<__m512, [f32; 16]>(v));
    }

    #[inline(always)]
    fn fused(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        self.avx512f._mm512_fmadd_ps(a, b, c)
    }

    #[inline(always)]
    fn fused_negative(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        self.avx512f._mm512_fnmadd_ps(a, b, c)
    }

    #[inline(always)]
    fn plus(self, a: __m512, b: __m512) -> __m512 {
        self.avx512f._mm512_add_ps(a, b)
    }

    #[inline(always)]
    fn times(self, a: __m512, b: __m512) -> __m512 {
        self.avx512f._mm512_mul_ps(a, b)
    }

    #[inline(always)]
    fn round(self, x: [f32; LANES]) -> [i32; LANES] {
        (*self).round(x)
    }
}

impl Lanes<f64> for V4 {
    const N: usize = 8;
    type V = __m512d;

    #[inline(always)]
    fn zero(self) -> __m512d {
        self.avx512f._mm512_setzero_pd()
    }

    #[inline(always)]
    fn splat(self, x: f64) -> __m512d {
        self.avx512f._mm512_set1_pd(x)
    }

    #[inline(always)]
    fn load(self, from: &[f64]) -> __m512d {
        cast::<[f64; 8], __m512d>(first(from))
    }

    #[inline(always)]
    fn load_16(self, from: &[i16]) -> __m512d {
        let codes = cast::<[i16; 8], __m128i>(first(from));
        self.avx512f._mm512_cvtepi32_pd(self.avx2._mm256_cvtepi16_epi32(codes))
    }

    #[inline(always)]
    fn load_32(self, from: &[i32]) -> __m512d {
        self.avx512f._mm512_cvtepi32_pd(cast::<[i32; 8], __m256i>(first(from)))
    }

    #[inline(always)]
    fn store(self, v: __m512d, to: &mut [f64]) {
        to[..8].copy_from_slice(&cast::<__m512d, [f64; 8]>(v));
    }

    #[inline(always)]
    fn fused(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        self.avx512f._mm512_fmadd_pd(a, b, c)
    }

    #[inline(always)]
    fn fused_negative(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        self.avx512f._mm512_fnmadd_pd(a, b, c)
    }

    #[inline(always)]
    fn plus(self, a: __m512d, b: __m512d) -> __m512d {
        self.avx512f._mm512_add_pd(a, b)
    }

    #[inline(always)]
    fn times(self, a: __m512d, b: __m512d) -> __m512d {
        self.avx512f._mm512_mul_pd(a, b)
    }

    #[inline(always)]
    fn round(self, x: [f64; LANES]) -> [i32; LANES] {
        cast(self.avx512f._mm512_cvtpd_epi32(cast(x)))
    }
}
