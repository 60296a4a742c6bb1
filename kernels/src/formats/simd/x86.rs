//! Kernels by intrinsics. Every function returns true if the machine has the instructions.

use core::arch::x86_64::*;

use super::{HP3_COLS, HP3_ROWS, HP3_STEP};

/// Round to nearest even, independently of the machine's mode.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

pub fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// AVX2, FMA and F16C.
pub fn has_f16c() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

/// Runs `$full` on whole groups of `$n`, and on the rest through a padded copy.
macro_rules! in_groups {
    ($src:ident, $dst:ident: $t:ty, $n:literal, |$s:ident, $d:ident| $full:expr) => {{
        let len = $src.len().min($dst.len());
        let (heads, tail) = $src[..len].as_chunks::<$n>();
        let (dst_heads, dst_tail) = $dst[..len].as_chunks_mut::<$n>();
        for ($s, $d) in heads.iter().zip(dst_heads) {
            $full
        }
        if !tail.is_empty() {
            let mut padded = [Default::default(); $n];
            padded[..tail.len()].copy_from_slice(tail);
            let mut result = [<$t>::default(); $n];
            {
                let ($s, $d) = (&padded, &mut result);
                $full
            }
            dst_tail.copy_from_slice(&result[..tail.len()]);
        }
    }};
}

/// False when the machine has none of the instructions; `wide` allows AVX-512.
pub fn pack_f16(wide: bool, src: &[f32], factors: (f32, f32), dst: &mut [u16]) -> bool {
    #[target_feature(enable = "avx512f")]
    fn v4(src: &[f32], f: (f32, f32), dst: &mut [u16]) {
        let (f0, f1) = (_mm512_set1_ps(f.0), _mm512_set1_ps(f.1));
        in_groups!(src, dst: u16, 16, |s, d| {
            // SAFETY: s is an array of 16 f32; the load asks for no alignment.
            let x = unsafe { _mm512_loadu_ps(s.as_ptr()) };
            let x = _mm512_mul_ps(_mm512_mul_ps(x, f0), f1);
            // SAFETY: d is an array of 16 u16, 32 bytes; the store asks for no alignment.
            unsafe {
                _mm256_storeu_si256(d.as_mut_ptr().cast(), _mm512_cvtps_ph::<NEAREST>(x));
            }
        });
    }
    #[target_feature(enable = "avx2,f16c")]
    fn v3(src: &[f32], f: (f32, f32), dst: &mut [u16]) {
        let (f0, f1) = (_mm256_set1_ps(f.0), _mm256_set1_ps(f.1));
        in_groups!(src, dst: u16, 8, |s, d| {
            // SAFETY: s is an array of 8 f32; the load asks for no alignment.
            let x = unsafe { _mm256_loadu_ps(s.as_ptr()) };
            let x = _mm256_mul_ps(_mm256_mul_ps(x, f0), f1);
            // SAFETY: d is an array of 8 u16, 16 bytes; the store asks for no alignment.
            unsafe {
                _mm_storeu_si128(d.as_mut_ptr().cast(), _mm256_cvtps_ph::<NEAREST>(x));
            }
        });
    }
    if wide && has_avx512() {
        // SAFETY: avx512f was detected.
        unsafe { v4(src, factors, dst) };
    } else if has_f16c() {
        // SAFETY: avx2 and f16c were detected.
        unsafe { v3(src, factors, dst) };
    } else {
        return false;
    }
    true
}

/// Unpacks `f16` numbers. `wide` and the result are as for [`pack_f16`].
pub fn unpack_f16(wide: bool, src: &[u16], factors: (f32, f32), dst: &mut [f32]) -> bool {
    #[target_feature(enable = "avx512f")]
    fn v4(src: &[u16], f: (f32, f32), dst: &mut [f32]) {
        let (f0, f1) = (_mm512_set1_ps(f.0), _mm512_set1_ps(f.1));
        in_groups!(src, dst: f32, 16, |s, d| {
            // SAFETY: s is an array of 16 u16, 32 bytes; the load asks for no alignment.
            let x = _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(s.as_ptr().cast()) });
            let x = _mm512_mul_ps(_mm512_mul_ps(x, f0), f1);
            // SAFETY: d is an array of 16 f32; the store asks for no alignment.
            unsafe { _mm512_storeu_ps(d.as_mut_ptr(), x) };
        });
    }
    #[target_feature(enable = "avx2,f16c")]
    fn v3(src: &[u16], f: (f32, f32), dst: &mut [f32]) {
        let (f0, f1) = (_mm256_set1_ps(f.0), _mm256_set1_ps(f.1));
        in_groups!(src, dst: f32, 8, |s, d| {
            // SAFETY: s is an array of 8 u16, 16 bytes; the load asks for no alignment.
            let x = _mm256_cvtph_ps(unsafe { _mm_loadu_si128(s.as_ptr().cast()) });
            let x = _mm256_mul_ps(_mm256_mul_ps(x, f0), f1);
            // SAFETY: d is an array of 8 f32; the store asks for no alignment.
            unsafe { _mm256_storeu_ps(d.as_mut_ptr(), x) };
        });
    }
    if wide && has_avx512() {
        // SAFETY: avx512f was detected.
        unsafe { v4(src, factors, dst) };
    } else if has_f16c() {
        // SAFETY: avx2 and f16c were detected.
        unsafe { v3(src, factors, dst) };
    } else {
        return false;
    }
    true
}

/// Computes a block of HP3. `wide` and the result are as for [`pack_f16`].
pub fn hp3_block(
    wide: bool,
    a: &[[f32; HP3_ROWS]],
    b: &[[f32; HP3_COLS]],
    out: &mut [[f32; HP3_ROWS]; HP3_COLS],
) -> bool {
    // Products of f16 are exact in f32: a fused multiply-add rounds as a product and a sum do.
    #[target_feature(enable = "avx512f")]
    fn v4(a: &[[f32; HP3_ROWS]], b: &[[f32; HP3_COLS]], out: &mut [[f32; HP3_ROWS]; HP3_COLS]) {
        let mut acc = [_mm512_setzero_ps(); HP3_COLS];
        for (a, b) in a.chunks(HP3_STEP).zip(b.chunks(HP3_STEP)) {
            let mut sums = [_mm512_setzero_ps(); HP3_COLS];
            for (k, (a, b)) in a.iter().zip(b).enumerate() {
                // SAFETY: a is an array of 16 f32; the load asks for no alignment.
                let x = unsafe { _mm512_loadu_ps(a.as_ptr()) };
                for c in 0..HP3_COLS {
                    let f = _mm512_set1_ps(b[c]);
                    // The first product is not added to a zero: that would lose the sign of -0.
                    sums[c] = if k == 0 { _mm512_mul_ps(x, f) } else { _mm512_fmadd_ps(x, f, sums[c]) };
                }
            }
            for c in 0..HP3_COLS {
                let sum = _mm512_add_ps(acc[c], sums[c]);
                acc[c] = _mm512_cvtph_ps(_mm512_cvtps_ph::<NEAREST>(sum));
            }
        }
        for c in 0..HP3_COLS {
            // SAFETY: out[c] is an array of 16 f32; the store asks for no alignment.
            unsafe { _mm512_storeu_ps(out[c].as_mut_ptr(), acc[c]) };
        }
    }
    #[target_feature(enable = "avx2,fma,f16c")]
    fn v3(a: &[[f32; HP3_ROWS]], b: &[[f32; HP3_COLS]], out: &mut [[f32; HP3_ROWS]; HP3_COLS]) {
        for half in 0..2 {
            let mut acc = [_mm256_setzero_ps(); HP3_COLS];
            for (a, b) in a.chunks(HP3_STEP).zip(b.chunks(HP3_STEP)) {
                let mut sums = [_mm256_setzero_ps(); HP3_COLS];
                for (k, (a, b)) in a.iter().zip(b).enumerate() {
                    // SAFETY: 8 of the 16 f32 of a, from 0 or 8 on; the load asks for no alignment.
                    let x = unsafe { _mm256_loadu_ps(a.as_ptr().add(8 * half)) };
                    for c in 0..HP3_COLS {
                        let f = _mm256_set1_ps(b[c]);
                        sums[c] = if k == 0 { _mm256_mul_ps(x, f) } else { _mm256_fmadd_ps(x, f, sums[c]) };
                    }
                }
                for c in 0..HP3_COLS {
                    let sum = _mm256_add_ps(acc[c], sums[c]);
                    acc[c] = _mm256_cvtph_ps(_mm256_cvtps_ph::<NEAREST>(sum));
                }
            }
            for c in 0..HP3_COLS {
                // SAFETY: 8 of the 16 f32 of out[c], from 0 or 8 on; the store asks for no
                // alignment.
                unsafe { _mm256_storeu_ps(out[c].as_mut_ptr().add(8 * half), acc[c]) };
            }
        }
    }
    if wide && has_avx512() {
        // SAFETY: avx512f was detected.
        unsafe { v4(a, b, out) };
    } else if has_f16c() {
        // SAFETY: avx2, fma and f16c were detected.
        unsafe { v3(a, b, out) };
    } else {
        return false;
    }
    true
}
