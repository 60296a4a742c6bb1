//! Sections with AVX2 and FMA, or with AVX-512: eight lanes at a time.

use core::arch::x86_64::*;

use super::LANES;
use super::bytes::{GroupHead, step_bytes};
use super::product::{Section, Way, any_section};
use crate::packed::PackedFormat::*;
use crate::packed::avx512::EightWide;
use crate::packed::x86::{Double, Reduced, Single};

/// The way of machines with AVX2 and FMA.
pub(super) struct Avx2;

/// The way of machines that have AVX-512 with byte permutations as well.
pub(super) struct Avx512;

impl Avx2 {
    /// Whether this is such a machine.
    pub fn is_here() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
}

impl Avx512 {
    /// Whether this is such a machine.
    pub fn is_here() -> bool {
        Avx2::is_here()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
    }
}

/// A section by its format, one vector and columns of 16 bits; all else by `any_section_avx2`.
macro_rules! by_format {
    ($narrow:ident, $section:ident, $sums:ident) => {
        match $section.bucket.format {
            _ if K > 1 || $section.tile.wide => any_section_avx2::<B, K>($section, $sums),
            Fp64 => $narrow::<Double<8>, B>($section, $sums),
            Rp56 => $narrow::<Double<7>, B>($section, $sums),
            Rp48 => $narrow::<Double<6>, B>($section, $sums),
            Rp40 => $narrow::<Double<5>, B>($section, $sums),
            Fp32 => $narrow::<Single<4>, B>($section, $sums),
            Rp24 => $narrow::<Single<3>, B>($section, $sums),
            Rp16 => $narrow::<Single<2>, B>($section, $sums),
            // Blocks have no scaled formats.
            Rpre48 if B == 1 => $narrow::<Reduced<6, true>, 1>($section, $sums),
            Rpre40 if B == 1 => $narrow::<Reduced<5, true>, 1>($section, $sums),
            Rpre32 if B == 1 => $narrow::<Reduced<4, true>, 1>($section, $sums),
            Rpre16 if B == 1 => $narrow::<Reduced<2, true>, 1>($section, $sums),
            Rpre8 if B == 1 => $narrow::<Reduced<1, true>, 1>($section, $sums),
            Rpreu48 if B == 1 => $narrow::<Reduced<6, false>, 1>($section, $sums),
            Rpreu40 if B == 1 => $narrow::<Reduced<5, false>, 1>($section, $sums),
            Rpreu32 if B == 1 => $narrow::<Reduced<4, false>, 1>($section, $sums),
            Rpreu16 if B == 1 => $narrow::<Reduced<2, false>, 1>($section, $sums),
            Rpreu8 if B == 1 => $narrow::<Reduced<1, false>, 1>($section, $sums),
            _ => any_section_avx2::<B, K>($section, $sums),
        }
    };
}

impl Way for Avx2 {
    fn section<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
        // SAFETY: this way is taken only where it `is_here`.
        unsafe { by_format!(narrow_avx2, section, sums) }
    }
}

impl Way for Avx512 {
    fn section<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
        // SAFETY: this way is taken only where it `is_here`.
        unsafe { by_format!(narrow_avx512, section, sums) }
    }
}

#[target_feature(enable = "avx2,fma")]
fn any_section_avx2<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    any_section::<B, K>(section, sums)
}

#[target_feature(enable = "avx2,fma")]
fn narrow_avx2<E: EightWide, const B: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    // SAFETY: the machine has what `Halves` needs.
    unsafe { narrow::<Halves, E, B>(section, sums) }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn narrow_avx512<E: EightWide, const B: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    // SAFETY: the machine has what `Whole` needs.
    unsafe { narrow::<Whole, E, B>(section, sums) }
}

/// Eight numbers. All functions are unsafe because they need a machine with the instructions; they become part of a caller that may use them.
/// No closures around instructions here: closures would be functions of their own, of a machine without them.
trait Eights: Copy {
    unsafe fn zero() -> Self;

    /// # Safety
    /// As for [`EightWide::load_wide`].
    unsafe fn decode<E: EightWide>(at: *const u8) -> Self;

    /// Numbers from eight places.
    ///
    /// # Safety
    /// There is a number at each.
    unsafe fn gather(at: &[*const f64; LANES], offset: usize) -> Self;

    /// Zeros in the lanes whose bits are not set.
    unsafe fn keep(self, active: u8) -> Self;

    /// `self * x + sum`, rounded once.
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self;

    unsafe fn times(self, scale: f64) -> [f64; LANES];
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

/// All ones in the lanes whose bits are set, of the lowest four.
#[target_feature(enable = "avx2")]
#[inline]
fn mask(active: u8) -> __m256d {
    let bits = _mm256_set_epi64x(8, 4, 2, 1);
    let here = _mm256_and_si256(_mm256_set1_epi64x(active.into()), bits);
    _mm256_castsi256_pd(_mm256_cmpeq_epi64(here, bits))
}

/// With AVX2 and FMA.
#[derive(Clone, Copy)]
struct Halves([__m256d; 2]);

impl Eights for Halves {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, as below.
        unsafe { Halves([_mm256_setzero_pd(); 2]) }
    }

    #[inline(always)]
    unsafe fn decode<E: EightWide>(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Halves(E::load(at)) }
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
            Halves([first, _mm256_set_m128d(high, low)])
        }
    }

    #[inline(always)]
    unsafe fn keep(self, active: u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Halves([_mm256_and_pd(self.0[0], mask(active)), _mm256_and_pd(self.0[1], mask(active >> 4))])
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Halves([
                _mm256_fmadd_pd(self.0[0], x.0[0], sum.0[0]),
                _mm256_fmadd_pd(self.0[1], x.0[1], sum.0[1]),
            ])
        }
    }

    #[inline(always)]
    unsafe fn times(self, scale: f64) -> [f64; LANES] {
        let mut out = [0.0; LANES];
        // SAFETY: the caller's promise; eight numbers are written to eight.
        unsafe {
            _mm256_storeu_pd(out.as_mut_ptr(), _mm256_mul_pd(self.0[0], _mm256_set1_pd(scale)));
            _mm256_storeu_pd(out.as_mut_ptr().add(4), _mm256_mul_pd(self.0[1], _mm256_set1_pd(scale)));
        }
        out
    }
}

/// With AVX-512.
#[derive(Clone, Copy)]
struct Whole(__m512d);

impl Eights for Whole {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's promise, as below.
        unsafe { Whole(_mm512_setzero_pd()) }
    }

    #[inline(always)]
    unsafe fn decode<E: EightWide>(at: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Whole(E::load_wide(at)) }
    }

    #[inline(always)]
    unsafe fn gather(at: &[*const f64; LANES], offset: usize) -> Self {
        // SAFETY: the caller's promise. Two loads and inserts are faster than a gather where these are microcode.
        unsafe {
            let Halves([low, high]) = Halves::gather(at, offset);
            Whole(_mm512_insertf64x4::<1>(_mm512_castpd256_pd512(low), high))
        }
    }

    #[inline(always)]
    unsafe fn keep(self, active: u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Whole(_mm512_maskz_mov_pd(active, self.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Whole(_mm512_fmadd_pd(self.0, x.0, sum.0)) }
    }

    #[inline(always)]
    unsafe fn times(self, scale: f64) -> [f64; LANES] {
        let mut out = [0.0; LANES];
        // SAFETY: the caller's promise; eight numbers are written to eight.
        unsafe { _mm512_storeu_pd(out.as_mut_ptr(), _mm512_mul_pd(self.0, _mm512_set1_pd(scale))) };
        out
    }
}

/// One vector, columns of 16 bits.
///
/// # Safety
/// The machine has the instructions of `V`, and the caller may use them.
#[inline(always)]
unsafe fn narrow<V: Eights, E: EightWide, const B: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    let Section { bytes, head, tile: _, bucket, x } = *section;
    let step_bytes = step_bytes(2, B, bucket.format);
    let scale = bucket.scale();
    let mut at = 0;
    for group in 0..head.groups {
        let of_group = GroupHead::read(bytes, &mut at, head.natural).expect("panels are checked");
        let steps = &bytes[at..at + of_group.steps() * step_bytes];
        at += steps.len();
        // SAFETY: the caller's promise.
        let mut lanes = [unsafe { V::zero() }; B];
        let (full, ragged) = steps.split_at(of_group.full * step_bytes);
        for step in full.chunks_exact(step_bytes) {
            // SAFETY: all of the step's columns are in the window `x`, and the panel goes on for 64 bytes.
            unsafe { add_step::<V, E, B>(step.as_ptr(), None, x.as_ptr(), &mut lanes) };
        }
        for (step, &active) in ragged.chunks_exact(step_bytes).zip(of_group.ragged) {
            // SAFETY: as above.
            unsafe { add_step::<V, E, B>(step.as_ptr(), Some(active), x.as_ptr(), &mut lanes) };
        }
        let mut out = [[0.0; LANES]; B];
        for i in 0..B {
            // SAFETY: the caller's promise.
            out[i] = unsafe { lanes[i].times(scale) };
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

/// Adds a step to the sums of its lanes; where only some are `active`, the others have an `x` of zero.
///
/// # Safety
/// `step` is that of a panel that was checked, `x` its tile's window; and the caller's promise.
#[inline(always)]
unsafe fn add_step<V: Eights, E: EightWide, const B: usize>(
    step: *const u8,
    active: Option<u8>,
    x: *const f64,
    lanes: &mut [V; B],
) {
    // SAFETY: a step has eight columns of 16 bits, less than the window has, and then `B B` times eight codes.
    unsafe {
        let column = |lane: usize| usize::from(u16::from_le(step.cast::<u16>().add(lane).read_unaligned()));
        let at: [*const f64; LANES] = core::array::from_fn(|lane| x.add(column(lane) * B));
        let mut codes = step.add(2 * LANES);
        for j in 0..B {
            let x = V::gather(&at, j);
            let x = if let Some(active) = active { x.keep(active) } else { x };
            for i in 0..B {
                lanes[i] = V::decode::<E>(codes).mul_add(x, lanes[i]);
                codes = codes.add(LANES * E::BYTES);
            }
        }
    }
}
