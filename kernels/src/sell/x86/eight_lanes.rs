//! Eight numbers, in registers of AVX2 or of AVX-512.

use core::arch::x86_64::*;

use crate::packed::avx512::EightWide;
use crate::sell::LANES;

/// Eight numbers. All functions are unsafe because they need a machine with the instructions; they
/// become part of a caller that may use them. No closures around instructions here: closures would
/// be functions of their own, of a machine without them.
pub(super) trait EightLanes: Copy {
    unsafe fn zero() -> Self;

    /// # Safety
    /// As for [`EightWide::load_wide`].
    unsafe fn decode<E: EightWide>(at: *const u8) -> Self;

    /// Numbers from eight places.
    ///
    /// # Safety
    /// There is a number at each.
    unsafe fn gather(at: &[*const f64; LANES], offset: usize) -> Self;

    /// The first and the second numbers from eight places.
    ///
    /// # Safety
    /// There are two numbers at each.
    unsafe fn gather_two(at: &[*const f64; LANES], offset: usize) -> [Self; 2];

    /// Gathers as [`gather`](Self::gather) does from positions that are `B` numbers apart.
    ///
    /// # Safety
    /// The positions are `B` numbers apart, and `B` numbers can be read at the last one.
    unsafe fn gather_run<const B: usize>(at: &[*const f64; LANES], offset: usize) -> Self;

    /// Numbers that follow one another.
    ///
    /// # Safety
    /// There are eight.
    unsafe fn load(at: *const f64) -> Self;

    /// Writes the numbers times `factor` with non-temporal stores.
    ///
    /// # Safety
    /// Eight numbers can be written at `to`, which is a multiple of 64 bytes.
    unsafe fn stream(self, factor: f64, to: *mut f64);

    /// `self * x + sum`, rounded once.
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self;

    /// Returns `self * x + sum` in the first `lanes` lanes (at least one), and `sum` in the others.
    unsafe fn mul_add_first(self, x: Self, sum: Self, lanes: usize) -> Self;

    /// Adds to eight numbers, times `scale`.
    unsafe fn add_to(self, scale: f64, to: &mut [f64; LANES]);

    /// Writes pairs of a number of `self` and one of `other`, times `scale`. Pairs are `stride`
    /// numbers apart.
    ///
    /// # Safety
    /// Eight pairs can be written.
    unsafe fn put_two(self, other: Self, scale: f64, to: *mut f64, stride: usize);
}

/// Two numbers.
///
/// # Safety
/// There is a number at each place.
#[inline(always)]
unsafe fn two(low: *const f64, high: *const f64) -> __m128d {
    // SAFETY: the caller's promise.
    unsafe { _mm_loadh_pd(_mm_load_sd(low), high) }
}

/// The first and the second numbers from four places.
///
/// # Safety
/// There are two numbers at each.
#[inline(always)]
unsafe fn four_twos(at: [*const f64; 4]) -> [__m256d; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        let even = _mm256_set_m128d(_mm_loadu_pd(at[2]), _mm_loadu_pd(at[0]));
        let odd = _mm256_set_m128d(_mm_loadu_pd(at[3]), _mm_loadu_pd(at[1]));
        [_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd)]
    }
}

/// Loads every `B`th number from the `offset`th on, four of them.
///
/// # Safety
/// There are four times `B` numbers.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn four_of_run<const B: usize>(at: *const f64, offset: usize) -> __m256d {
    // SAFETY: the caller's promise: `B` times four numbers are read.
    unsafe {
        let a = _mm256_loadu_pd(at);
        if B == 1 {
            return a;
        }
        let b = _mm256_loadu_pd(at.add(4));
        if B == 2 {
            let mixed = if offset == 0 { _mm256_unpacklo_pd(a, b) } else { _mm256_unpackhi_pd(a, b) };
            return _mm256_permute4x64_pd::<0b11_01_10_00>(mixed);
        }
        let c = _mm256_loadu_pd(at.add(8));
        if B == 3 {
            return match offset {
                0 => {
                    let mixed = _mm256_blend_pd::<0b0010>(_mm256_blend_pd::<0b0100>(a, b), c);
                    _mm256_permute4x64_pd::<0b01_10_11_00>(mixed)
                }
                1 => {
                    let mixed = _mm256_blend_pd::<0b0100>(_mm256_blend_pd::<0b1001>(a, b), c);
                    _mm256_permute_pd::<0b0101>(mixed)
                }
                _ => {
                    let mixed = _mm256_blend_pd::<0b1001>(_mm256_blend_pd::<0b0010>(a, b), c);
                    _mm256_permute4x64_pd::<0b11_00_01_10>(mixed)
                }
            };
        }
        let d = _mm256_loadu_pd(at.add(12));
        let (ab, cd) = match offset % 2 {
            0 => (_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d)),
            _ => (_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d)),
        };
        match offset / 2 {
            0 => _mm256_permute2f128_pd::<0x20>(ab, cd),
            _ => _mm256_permute2f128_pd::<0x31>(ab, cd),
        }
    }
}

/// Mask of the lanes `from` to `from + 3` that are below `lanes`.
#[target_feature(enable = "avx2")]
#[inline]
fn first(lanes: usize, from: i64) -> __m256d {
    let all = _mm256_set_epi64x(from + 3, from + 2, from + 1, from);
    _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes as i64), all))
}

/// Eight numbers in two registers, with AVX2 and FMA.
#[derive(Clone, Copy)]
pub(super) struct TwoRegisters([__m256d; 2]);

impl EightLanes for TwoRegisters {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, as below.
        unsafe { TwoRegisters([_mm256_setzero_pd(); 2]) }
    }

    #[inline(always)]
    unsafe fn decode<E: EightWide>(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { TwoRegisters(E::load(at)) }
    }

    #[inline(always)]
    unsafe fn gather(at: &[*const f64; LANES], offset: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let low = two(at[0].add(offset), at[1].add(offset));
            let high = two(at[2].add(offset), at[3].add(offset));
            let first = _mm256_set_m128d(high, low);
            let low = two(at[4].add(offset), at[5].add(offset));
            let high = two(at[6].add(offset), at[7].add(offset));
            TwoRegisters([first, _mm256_set_m128d(high, low)])
        }
    }

    #[inline(always)]
    unsafe fn gather_two(at: &[*const f64; LANES], offset: usize) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = four_twos([at[0].add(offset), at[1].add(offset), at[2].add(offset), at[3].add(offset)]);
            let high =
                four_twos([at[4].add(offset), at[5].add(offset), at[6].add(offset), at[7].add(offset)]);
            [TwoRegisters([low[0], high[0]]), TwoRegisters([low[1], high[1]])]
        }
    }

    #[inline(always)]
    unsafe fn gather_run<const B: usize>(at: &[*const f64; LANES], offset: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { TwoRegisters([four_of_run::<B>(at[0], offset), four_of_run::<B>(at[4], offset)]) }
    }

    #[inline(always)]
    unsafe fn load(at: *const f64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { TwoRegisters([_mm256_loadu_pd(at), _mm256_loadu_pd(at.add(4))]) }
    }

    #[inline(always)]
    unsafe fn stream(self, factor: f64, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe {
            let factor = _mm256_set1_pd(factor);
            _mm256_stream_pd(to, _mm256_mul_pd(self.0[0], factor));
            _mm256_stream_pd(to.add(4), _mm256_mul_pd(self.0[1], factor));
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            TwoRegisters([
                _mm256_fmadd_pd(self.0[0], x.0[0], sum.0[0]),
                _mm256_fmadd_pd(self.0[1], x.0[1], sum.0[1]),
            ])
        }
    }

    #[inline(always)]
    unsafe fn mul_add_first(self, x: Self, sum: Self, lanes: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let all = self.mul_add(x, sum);
            TwoRegisters([
                _mm256_blendv_pd(sum.0[0], all.0[0], first(lanes, 0)),
                _mm256_blendv_pd(sum.0[1], all.0[1], first(lanes, 4)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn add_to(self, scale: f64, to: &mut [f64; LANES]) {
        // SAFETY: the caller's promise; eight numbers are read and written.
        unsafe {
            let (scale, to) = (_mm256_set1_pd(scale), to.as_mut_ptr());
            _mm256_storeu_pd(to, _mm256_fmadd_pd(self.0[0], scale, _mm256_loadu_pd(to)));
            let to = to.add(4);
            _mm256_storeu_pd(to, _mm256_fmadd_pd(self.0[1], scale, _mm256_loadu_pd(to)));
        }
    }

    #[inline(always)]
    unsafe fn put_two(self, other: Self, scale: f64, to: *mut f64, stride: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            put_four_twos(self.0[0], other.0[0], scale, to, stride);
            put_four_twos(self.0[1], other.0[1], scale, to.add(4 * stride), stride);
        }
    }
}

/// Four lanes' part of [`EightLanes::put_two`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn put_four_twos(first: __m256d, second: __m256d, scale: f64, to: *mut f64, stride: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let scale = _mm256_set1_pd(scale);
        let (first, second) = (_mm256_mul_pd(first, scale), _mm256_mul_pd(second, scale));
        let (even, odd) = (_mm256_unpacklo_pd(first, second), _mm256_unpackhi_pd(first, second));
        _mm_storeu_pd(to, _mm256_castpd256_pd128(even));
        _mm_storeu_pd(to.add(stride), _mm256_castpd256_pd128(odd));
        _mm_storeu_pd(to.add(2 * stride), _mm256_extractf128_pd::<1>(even));
        _mm_storeu_pd(to.add(3 * stride), _mm256_extractf128_pd::<1>(odd));
    }
}

/// Eight numbers in one register, with AVX-512.
#[derive(Clone, Copy)]
pub(super) struct OneRegister(__m512d);

impl EightLanes for OneRegister {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, as below.
        unsafe { OneRegister(_mm512_setzero_pd()) }
    }

    #[inline(always)]
    unsafe fn decode<E: EightWide>(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { OneRegister(E::load_wide(at)) }
    }

    #[inline(always)]
    unsafe fn gather(at: &[*const f64; LANES], offset: usize) -> Self {
        // SAFETY: the caller's promise. Two loads and inserts are faster than a gather where these
        // are microcode.
        unsafe {
            let TwoRegisters([low, high]) = TwoRegisters::gather(at, offset);
            OneRegister(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(low), high))
        }
    }

    #[inline(always)]
    unsafe fn gather_two(at: &[*const f64; LANES], offset: usize) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let [TwoRegisters([a, b]), TwoRegisters([c, d])] = TwoRegisters::gather_two(at, offset);
            let first = _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(a), b);
            let second = _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(c), d);
            [OneRegister(first), OneRegister(second)]
        }
    }

    #[inline(always)]
    unsafe fn gather_run<const B: usize>(at: &[*const f64; LANES], offset: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let TwoRegisters([low, high]) = TwoRegisters::gather_run::<B>(at, offset);
            OneRegister(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(low), high))
        }
    }

    #[inline(always)]
    unsafe fn load(at: *const f64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { OneRegister(_mm512_loadu_pd(at)) }
    }

    #[inline(always)]
    unsafe fn stream(self, factor: f64, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_pd(to, _mm512_mul_pd(self.0, _mm512_set1_pd(factor))) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { OneRegister(_mm512_fmadd_pd(self.0, x.0, sum.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add_first(self, x: Self, sum: Self, lanes: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { OneRegister(_mm512_mask3_fmadd_pd(self.0, x.0, sum.0, u8::MAX >> (LANES - lanes))) }
    }

    #[inline(always)]
    unsafe fn add_to(self, scale: f64, to: &mut [f64; LANES]) {
        // SAFETY: the caller's promise; eight numbers are read and written.
        unsafe {
            let (scale, to) = (_mm512_set1_pd(scale), to.as_mut_ptr());
            _mm512_storeu_pd(to, _mm512_fmadd_pd(self.0, scale, _mm512_loadu_pd(to)));
        }
    }

    #[inline(always)]
    unsafe fn put_two(self, other: Self, scale: f64, to: *mut f64, stride: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let halves = TwoRegisters([_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0)]);
            let others =
                TwoRegisters([_mm512_castpd512_pd256(other.0), _mm512_extractf64x4_pd::<1>(other.0)]);
            halves.put_two(others, scale, to, stride);
        }
    }
}
