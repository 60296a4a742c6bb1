//! Sixteen lanes with AVX2 and FMA, and with AVX-512: the file of this module that calls
//! instructions by name.
//!
//! A value of [`Avx2Lanes`] or [`Avx512Lanes`] is created only if the machine has the instructions,
//! and every `unsafe` block here relies on this.

use core::arch::x86_64::*;

use super::LANES;
use super::lanes::{LaneOps, LaneWork, SixteenLanes};

/// Number of events that are processed together for a block: a value is loaded once for all of
/// them, and their sums are independent of each other.
const BATCH: usize = 4;

/// Implementation for machines with AVX2, FMA and conversions of `f16`.
#[derive(Clone, Copy)]
pub(super) struct Avx2Lanes(());

/// Implementation for machines that also have AVX-512.
#[derive(Clone, Copy)]
pub(super) struct Avx512Lanes(());

impl Avx2Lanes {
    /// Returns `None` on other machines.
    pub fn new() -> Option<Self> {
        let here = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        here.then_some(Avx2Lanes(()))
    }
}

impl Avx512Lanes {
    /// Returns `None` on other machines.
    pub fn new() -> Option<Self> {
        let here = Avx2Lanes::new().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        here.then_some(Avx512Lanes(()))
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn enter_avx2<W: LaneWork>(lanes: Avx2Lanes, work: W) {
    work.run::<Avx2Lanes, BATCH>(lanes);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn enter_avx512<W: LaneWork>(lanes: Avx512Lanes, work: W) {
    work.run::<Avx512Lanes, BATCH>(lanes);
}

/// Methods that are one expression each, of `__m256` halves.
macro_rules! by_halves {
    ($(fn $name:ident$(<const $n:ident: u32>)?($($arg:ident),+) $body:expr;)*) => {$(
        #[inline(always)]
        fn $name$(<const $n: u32>)?(self, $($arg: Self::Vector),+) -> Self::Vector {
            // SAFETY: the machine has these instructions, or there would be no `self`.
            unsafe {
                let mut out = [_mm256_setzero_ps(); 2];
                for half in 0..2 {
                    $(let $arg = $arg[half];)+
                    out[half] = $body;
                }
                out
            }
        }
    )*};
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

impl SixteenLanes for Avx2Lanes {
    #[inline(always)]
    fn enter<W: LaneWork>(self, work: W) {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe { enter_avx2(self, work) }
    }

    #[inline(always)]
    fn store(self, v: Self::Vector, to: &mut [f32; LANES]) {
        // SAFETY: the machine has these instructions, or there would be no `self`; sixteen numbers
        // are there.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), v[1]);
        }
    }

    #[inline(always)]
    fn permute(self, a: Self::Vector, places: Self::Vector) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe {
            let eight = |places| {
                // The fourth bit selects the half, as a sign.
                let (at, half) = (_mm256_castps_si256(places), 28);
                let (low, high) = (_mm256_permutevar8x32_ps(a[0], at), _mm256_permutevar8x32_ps(a[1], at));
                let half = _mm256_sll_epi32(at, _mm_cvtsi32_si128(half));
                _mm256_blendv_ps(low, high, _mm256_castsi256_ps(half))
            };
            [eight(places[0]), eight(places[1])]
        }
    }
}

impl LaneOps for Avx2Lanes {
    type Vector = [__m256; 2];
    type Sample = f32;

    #[inline(always)]
    fn broadcast(self, x: f32) -> Self::Vector {
        self.splat(x)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`; sixteen numbers
        // are there.
        unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
    }

    by_halves! {
        fn add(a, b) _mm256_add_ps(a, b);
        fn sub(a, b) _mm256_sub_ps(a, b);
        fn mul(a, b) _mm256_mul_ps(a, b);
        fn mul_add(a, b, c) _mm256_fmadd_ps(a, b, c);
        fn sqrt(a) _mm256_sqrt_ps(a);
        fn round_f16(a) _mm256_cvtph_ps(_mm256_cvtps_ph::<NEAREST>(a));
        fn where_normal(x, y)
            _mm256_and_ps(y, _mm256_cmp_ps::<_CMP_GE_OQ>(x, _mm256_set1_ps(f32::MIN_POSITIVE)));
        fn add_int(a, b)
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
        fn sub_int(a, b)
            _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
        fn shift_right<const N: u32>(a)
            _mm256_castsi256_ps(_mm256_srl_epi32(_mm256_castps_si256(a), _mm_cvtsi32_si128(N as i32)));
        fn shift_right_signed<const N: u32>(a)
            _mm256_castsi256_ps(_mm256_sra_epi32(_mm256_castps_si256(a), _mm_cvtsi32_si128(N as i32)));
        fn shift_left<const N: u32>(a)
            _mm256_castsi256_ps(_mm256_sll_epi32(_mm256_castps_si256(a), _mm_cvtsi32_si128(N as i32)));
        fn number_of(a) _mm256_cvtepi32_ps(_mm256_castps_si256(a));
        fn to_int(a) _mm256_castsi256_ps(_mm256_cvtps_epi32(a));
        fn truncate(a) _mm256_castsi256_ps(_mm256_cvttps_epi32(a));
    }

    #[inline(always)]
    fn and(self, a: Self::Vector, mask: u32) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe {
            let mask = _mm256_set1_ps(f32::from_bits(mask));
            [_mm256_and_ps(a[0], mask), _mm256_and_ps(a[1], mask)]
        }
    }

    #[inline(always)]
    fn max_int(self, a: Self::Vector, bound: u32) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe {
            let bound = _mm256_set1_epi32(bound as i32);
            let max = |a| _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), bound));
            [max(a[0]), max(a[1])]
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[f32], places: Self::Vector) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`; no place is
        // beyond the table's end.
        unsafe {
            let last = _mm256_set1_epi32(last_place(table));
            let eight = |places| {
                let places = _mm256_min_epu32(_mm256_castps_si256(places), last);
                _mm256_i32gather_ps::<4>(table.as_ptr(), places)
            };
            [eight(places[0]), eight(places[1])]
        }
    }
}

/// The place of a table's last element.
fn last_place(table: &[f32]) -> i32 {
    i32::try_from(table.len())
        .expect("tables are small")
        .checked_sub(1)
        .filter(|&last| last >= 0)
        .expect("a table")
}

/// Methods that are one expression each, of `__m512`.
macro_rules! whole {
    ($(fn $name:ident$(<const $n:ident: u32>)?($($arg:ident),+) $body:expr;)*) => {$(
        #[inline(always)]
        fn $name$(<const $n: u32>)?(self, $($arg: Self::Vector),+) -> Self::Vector {
            // SAFETY: the machine has these instructions, or there would be no `self`.
            unsafe { $body }
        }
    )*};
}

impl SixteenLanes for Avx512Lanes {
    const HAS_MANY_REGISTERS: bool = true;

    #[inline(always)]
    fn enter<W: LaneWork>(self, work: W) {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe { enter_avx512(self, work) }
    }

    #[inline(always)]
    fn store(self, v: Self::Vector, to: &mut [f32; LANES]) {
        // SAFETY: the machine has these instructions, or there would be no `self`; sixteen numbers
        // are there.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
    }

    whole! {
        fn permute(a, places) _mm512_permutexvar_ps(_mm512_castps_si512(places), a);
    }
}

impl LaneOps for Avx512Lanes {
    type Vector = __m512;
    type Sample = f32;

    #[inline(always)]
    fn broadcast(self, x: f32) -> Self::Vector {
        self.splat(x)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`; sixteen numbers
        // are there.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    whole! {
        fn add(a, b) _mm512_add_ps(a, b);
        fn sub(a, b) _mm512_sub_ps(a, b);
        fn mul(a, b) _mm512_mul_ps(a, b);
        fn mul_add(a, b, c) _mm512_fmadd_ps(a, b, c);
        fn sqrt(a) _mm512_sqrt_ps(a);
        fn round_f16(a) _mm512_cvtph_ps(_mm512_cvtps_ph::<NEAREST>(a));
        fn where_normal(x, y) {
            let normal = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, _mm512_set1_ps(f32::MIN_POSITIVE));
            _mm512_maskz_mov_ps(normal, y)
        };
        fn add_int(a, b)
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
        fn sub_int(a, b)
            _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
        fn shift_right<const N: u32>(a)
            _mm512_castsi512_ps(_mm512_srli_epi32::<N>(_mm512_castps_si512(a)));
        fn shift_right_signed<const N: u32>(a)
            _mm512_castsi512_ps(_mm512_srai_epi32::<N>(_mm512_castps_si512(a)));
        fn shift_left<const N: u32>(a)
            _mm512_castsi512_ps(_mm512_slli_epi32::<N>(_mm512_castps_si512(a)));
        fn number_of(a) _mm512_cvtepi32_ps(_mm512_castps_si512(a));
        fn to_int(a) _mm512_castsi512_ps(_mm512_cvtps_epi32(a));
        fn truncate(a) _mm512_castsi512_ps(_mm512_cvttps_epi32(a));
    }

    #[inline(always)]
    fn and(self, a: Self::Vector, mask: u32) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe { _mm512_and_ps(a, _mm512_set1_ps(f32::from_bits(mask))) }
    }

    #[inline(always)]
    fn max_int(self, a: Self::Vector, bound: u32) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`.
        unsafe {
            _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(bound as i32)))
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[f32], places: Self::Vector) -> Self::Vector {
        // SAFETY: the machine has these instructions, or there would be no `self`; no place is
        // beyond the table's end.
        unsafe {
            let last = _mm512_set1_epi32(last_place(table));
            let places = _mm512_min_epu32(_mm512_castps_si512(places), last);
            _mm512_i32gather_ps::<4>(places, table.as_ptr())
        }
    }
}
