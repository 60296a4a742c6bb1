//! Eight codes at a time, with AVX-512 and its byte permutations.

use core::arch::x86_64::*;

use super::x86::{Double, EightCodes, Reduced, Single};

/// A format whose codes are decoded eight at a time into one register.
pub(crate) trait EightWide: EightCodes {
    /// # Safety
    /// 64 bytes can be read at `at`, and the machine has AVX-512 (F, BW, VL, VBMI).
    unsafe fn load_wide(at: *const u8) -> __m512d;
}

/// Byte permutation that makes codes of `B` bytes the leading bytes of 64-bit lanes, and the mask
/// of the bytes that it fills.
struct Spread<const B: usize>;

impl<const B: usize> Spread<B> {
    const TABLE: [u8; 64] = {
        let mut table = [0; 64];
        let mut at = 0;
        while at < 64 {
            if at % 8 + B >= 8 {
                table[at] = (at / 8 * B + at % 8 + B - 8) as u8;
            }
            at += 1;
        }
        table
    };
    const FILLED: u64 = {
        let mut filled = 0;
        let mut at = 0;
        while at < 64 {
            if at % 8 + B >= 8 {
                filled |= 1 << at;
            }
            at += 1;
        }
        filled
    };
}

/// Eight codes, each the leading bytes of a lane of 64 bits.
///
/// # Safety
/// As for [`EightWide::load_wide`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
#[inline]
unsafe fn eight<const B: usize>(at: *const u8) -> __m512i {
    // SAFETY: the caller's promise; the table has 64 bytes.
    unsafe {
        match B {
            1 => _mm512_slli_epi64::<56>(_mm512_cvtepu8_epi64(_mm_loadl_epi64(at.cast()))),
            2 => _mm512_slli_epi64::<48>(_mm512_cvtepu16_epi64(_mm_loadu_si128(at.cast()))),
            4 => _mm512_slli_epi64::<32>(_mm512_cvtepu32_epi64(_mm256_loadu_si256(at.cast()))),
            8 => _mm512_loadu_si512(at.cast()),
            _ => {
                let table = _mm512_loadu_si512(Spread::<B>::TABLE.as_ptr().cast());
                let codes = _mm512_loadu_si512(at.cast());
                _mm512_maskz_permutexvar_epi8(const { Spread::<B>::FILLED }, table, codes)
            }
        }
    }
}

impl<const B: usize> EightWide for Double<B> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    #[inline]
    unsafe fn load_wide(at: *const u8) -> __m512d {
        // SAFETY: the caller's promise.
        unsafe { _mm512_castsi512_pd(eight::<B>(at)) }
    }
}

impl<const B: usize> EightWide for Single<B> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    #[inline]
    unsafe fn load_wide(at: *const u8) -> __m512d {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtps_pd(_mm256_castsi256_ps(super::x86::eight::<B>(at))) }
    }
}

impl<const B: usize, const SIGNED: bool> EightWide for Reduced<B, SIGNED> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    #[inline]
    unsafe fn load_wide(at: *const u8) -> __m512d {
        // SAFETY: the caller's promise.
        let codes = unsafe { eight::<B>(at) };
        let one = _mm512_set1_epi64(1023 << 52);
        _mm512_castsi512_pd(if SIGNED {
            let sign = _mm512_set1_epi64(i64::MIN);
            let magnitude = _mm512_srli_epi64::<8>(_mm512_andnot_si512(sign, codes));
            _mm512_or_si512(_mm512_add_epi64(magnitude, one), _mm512_and_si512(sign, codes))
        } else {
            _mm512_add_epi64(_mm512_srli_epi64::<9>(codes), one)
        })
    }
}
