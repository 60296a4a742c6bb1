//! Sections with AVX2 and FMA, eight numbers at a time.

use core::arch::x86_64::*;

use super::LANES;
use super::bytes::{GroupHead, step_bytes};
use super::product::{Section, Way, any_section};
use crate::packed::PackedFormat::*;
use crate::packed::x86::{Double, Eight, Reduced, Single};

/// The way of machines with AVX2 and FMA.
pub(super) struct Avx2;

/// Whether this is such a machine.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

impl Way for Avx2 {
    fn section<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
        // SAFETY: this way is taken only where `is_here`.
        unsafe {
            if K > 1 || section.tile.wide {
                return any_section_avx2::<B, K>(section, sums);
            }
            match section.bucket.format {
                Fp64 => narrow::<Double<8>, B>(section, sums),
                Rp56 => narrow::<Double<7>, B>(section, sums),
                Rp48 => narrow::<Double<6>, B>(section, sums),
                Rp40 => narrow::<Double<5>, B>(section, sums),
                Fp32 => narrow::<Single<4>, B>(section, sums),
                Rp24 => narrow::<Single<3>, B>(section, sums),
                Rp16 => narrow::<Single<2>, B>(section, sums),
                Rpre48 if B == 1 => narrow::<Reduced<6, true>, 1>(section, sums),
                Rpre40 if B == 1 => narrow::<Reduced<5, true>, 1>(section, sums),
                Rpre32 if B == 1 => narrow::<Reduced<4, true>, 1>(section, sums),
                Rpre16 if B == 1 => narrow::<Reduced<2, true>, 1>(section, sums),
                Rpre8 if B == 1 => narrow::<Reduced<1, true>, 1>(section, sums),
                Rpreu48 if B == 1 => narrow::<Reduced<6, false>, 1>(section, sums),
                Rpreu40 if B == 1 => narrow::<Reduced<5, false>, 1>(section, sums),
                Rpreu32 if B == 1 => narrow::<Reduced<4, false>, 1>(section, sums),
                Rpreu16 if B == 1 => narrow::<Reduced<2, false>, 1>(section, sums),
                Rpreu8 if B == 1 => narrow::<Reduced<1, false>, 1>(section, sums),
                _ => any_section_avx2::<B, K>(section, sums),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn any_section_avx2<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    any_section::<B, K>(section, sums)
}

type Sums<const B: usize> = [[__m256d; 2]; B];

/// One vector, columns of 16 bits.
#[target_feature(enable = "avx2,fma")]
fn narrow<E: Eight, const B: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    let Section { bytes, head, tile: _, bucket, x } = *section;
    let step_bytes = step_bytes(2, B, bucket.format);
    let scale = bucket.scale();
    let mut at = 0;
    for group in 0..head.groups {
        let of_group = GroupHead::read(bytes, &mut at, head.natural).expect("panels are checked");
        let steps = &bytes[at..at + of_group.steps() * step_bytes];
        at += steps.len();
        let mut lanes: Sums<B> = [[_mm256_setzero_pd(); 2]; B];
        let (full, ragged) = steps.split_at(of_group.full * step_bytes);
        for step in full.chunks_exact(step_bytes) {
            // SAFETY: all of the step's columns are in the window `x`, and the panel goes on for 64 bytes.
            unsafe { add_step::<E, B, true>(step.as_ptr(), 0, x.as_ptr(), &mut lanes) };
        }
        for (step, &active) in ragged.chunks_exact(step_bytes).zip(of_group.ragged) {
            // SAFETY: as above.
            unsafe { add_step::<E, B, false>(step.as_ptr(), active, x.as_ptr(), &mut lanes) };
        }
        let mut out = [[0.0; LANES]; B];
        for (out, lanes) in out.iter_mut().zip(lanes) {
            for (half, lanes) in out.as_chunks_mut::<4>().0.iter_mut().zip(lanes) {
                // SAFETY: four numbers are written to four.
                unsafe { _mm256_storeu_pd(half.as_mut_ptr(), _mm256_mul_pd(lanes, _mm256_set1_pd(scale))) };
            }
        }
        for lane in 0..LANES {
            let row = if head.natural { group * LANES + lane } else { of_group.rows[lane].into() };
            let sums: &mut [f64; B] = sums[row * B..].first_chunk_mut().expect("panels are checked");
            for i in 0..B {
                sums[i] += out[i][lane];
            }
        }
    }
    at
}

/// Adds a step to the sums of its lanes. Where it is not `FULL`, lanes that are not `active` have an `x` of zero.
///
/// # Safety
/// `step` is that of a panel that was checked, `x` its tile's window.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn add_step<E: Eight, const B: usize, const FULL: bool>(
    step: *const u8,
    active: u8,
    x: *const f64,
    lanes: &mut Sums<B>,
) {
    // SAFETY: a step has eight columns of 16 bits, less than the window has, and then `B B` times eight codes.
    unsafe {
        let column = |lane: usize| usize::from(u16::from_le(step.cast::<u16>().add(lane).read_unaligned()));
        let at: [*const f64; LANES] = core::array::from_fn(|lane| x.add(column(lane) * B));
        let mut codes = step.add(2 * LANES);
        for j in 0..B {
            let mut x = [
                four(at[0].add(j), at[1].add(j), at[2].add(j), at[3].add(j)),
                four(at[4].add(j), at[5].add(j), at[6].add(j), at[7].add(j)),
            ];
            if !FULL {
                x = [_mm256_and_pd(x[0], mask(active)), _mm256_and_pd(x[1], mask(active >> 4))];
            }
            for sums in lanes.iter_mut() {
                let a = E::load(codes);
                *sums = [_mm256_fmadd_pd(a[0], x[0], sums[0]), _mm256_fmadd_pd(a[1], x[1], sums[1])];
                codes = codes.add(LANES * E::BYTES);
            }
        }
    }
}

/// Numbers from four places.
///
/// # Safety
/// There is a number at each.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn four(a: *const f64, b: *const f64, c: *const f64, d: *const f64) -> __m256d {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm_loadh_pd(_mm_load_sd(a), b);
        let high = _mm_loadh_pd(_mm_load_sd(c), d);
        _mm256_set_m128d(high, low)
    }
}

/// All ones in the lanes whose bits are set, of the lowest four.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn mask(active: u8) -> __m256d {
    let bits = _mm256_set_epi64x(8, 4, 2, 1);
    let here = _mm256_and_si256(_mm256_set1_epi64x(active.into()), bits);
    _mm256_castsi256_pd(_mm256_cmpeq_epi64(here, bits))
}
