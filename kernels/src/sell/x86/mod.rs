//! Sections with AVX2 and FMA, or with AVX-512: eight lanes at a time.

mod eights;

use core::arch::x86_64::*;

use self::eights::{Eights, Halves, Whole};
use super::LANES;
use super::bytes::{GroupHead, Rows, element_bytes, run_bytes};
use super::portable::any_section;
use super::product::{CHECKED, Section, Way, multiply_all};
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

/// A section by its format, for elements of an edge of `$b`, `$k` vectors, and columns of 16 bits.
macro_rules! by_format {
    ($narrow:ident, $b:tt, $k:literal, $section:ident, $sums:ident) => {
        match $section.bucket.format {
            Fp64 => $narrow::<Double<8>, $b, $k>($section, $sums),
            Rp56 => $narrow::<Double<7>, $b, $k>($section, $sums),
            Rp48 => $narrow::<Double<6>, $b, $k>($section, $sums),
            Rp40 => $narrow::<Double<5>, $b, $k>($section, $sums),
            Fp32 => $narrow::<Single<4>, $b, $k>($section, $sums),
            Rp24 => $narrow::<Single<3>, $b, $k>($section, $sums),
            Rp16 => $narrow::<Single<2>, $b, $k>($section, $sums),
            // Blocks have no scaled formats.
            Rpre48 if B == 1 => $narrow::<Reduced<6, true>, 1, $k>($section, $sums),
            Rpre40 if B == 1 => $narrow::<Reduced<5, true>, 1, $k>($section, $sums),
            Rpre32 if B == 1 => $narrow::<Reduced<4, true>, 1, $k>($section, $sums),
            Rpre16 if B == 1 => $narrow::<Reduced<2, true>, 1, $k>($section, $sums),
            Rpre8 if B == 1 => $narrow::<Reduced<1, true>, 1, $k>($section, $sums),
            Rpreu48 if B == 1 => $narrow::<Reduced<6, false>, 1, $k>($section, $sums),
            Rpreu40 if B == 1 => $narrow::<Reduced<5, false>, 1, $k>($section, $sums),
            Rpreu32 if B == 1 => $narrow::<Reduced<4, false>, 1, $k>($section, $sums),
            Rpreu16 if B == 1 => $narrow::<Reduced<2, false>, 1, $k>($section, $sums),
            Rpreu8 if B == 1 => $narrow::<Reduced<1, false>, 1, $k>($section, $sums),
            // No set has the scaled formats of 24 bits.
            _ => any_section_avx2::<B, K>($section, $sums),
        }
    };
}

/// The fastest way: eight lanes at a time as long as their sums have room in registers, of which `$eights` hold eight numbers each; else some lanes at
/// a time.
macro_rules! by_size {
    ($narrow:ident, $eights:literal, $section:ident, $sums:ident) => {
        match K {
            1 if !$section.tile.wide => by_format!($narrow, B, 1, $section, $sums),
            2 if !$section.tile.wide => by_format!($narrow, B, 2, $section, $sums),
            4 if $eights == 32 && !$section.tile.wide => by_format!($narrow, B, 4, $section, $sums),
            4 if B == 1 && !$section.tile.wide => by_format!($narrow, 1, 4, $section, $sums),
            8 if $eights == 32 && B == 1 && !$section.tile.wide => by_format!($narrow, 1, 8, $section, $sums),
            _ => any_section_avx2::<B, K>($section, $sums),
        }
    };
}

/// The ways differ in how a section is gone through, and in nothing else.
macro_rules! way {
    ($way:ident, $narrow:ident, $eights:literal) => {
        impl Way for $way {
            fn fetch(numbers: &[f64]) {
                fetch(numbers);
            }

            fn stream(sums: &[f64], factor: f64, y: &mut [f64]) {
                stream(sums, factor, y);
            }

            fn fence() {
                // SAFETY: every machine of this kind has SSE.
                unsafe { _mm_sfence() };
            }

            fn section<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
                // SAFETY: this way is taken only where it `is_here`.
                unsafe { by_size!($narrow, $eights, section, sums) }
            }
        }
    };
}
way!(Avx2, narrow_avx2, 8);
way!(Avx512, narrow_avx512, 32);

fn fetch(numbers: &[f64]) {
    for line in numbers.chunks(8) {
        // SAFETY: every machine of this kind has SSE; the numbers are there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Writes past the caches.
fn stream(sums: &[f64], factor: f64, y: &mut [f64]) {
    if !y.as_ptr().cast::<__m128d>().is_aligned() {
        return multiply_all(sums, factor, y);
    }
    let (pairs, last) = y.as_chunks_mut::<2>();
    let (sums, last_sums) = sums.as_chunks::<2>();
    for (y, sums) in pairs.iter_mut().zip(sums) {
        // SAFETY: every machine of this kind has SSE2; two numbers are written to two, at a multiple of 16 bytes.
        unsafe {
            _mm_stream_pd(y.as_mut_ptr(), _mm_mul_pd(_mm_loadu_pd(sums.as_ptr()), _mm_set1_pd(factor)))
        };
    }
    multiply_all(last_sums, factor, last);
}

#[target_feature(enable = "avx2,fma")]
fn any_section_avx2<const B: usize, const K: usize>(section: &Section<'_>, sums: &mut [f64]) -> usize {
    any_section::<B, K>(section, sums)
}

#[target_feature(enable = "avx2,fma")]
fn narrow_avx2<E: EightWide, const B: usize, const K: usize>(
    section: &Section<'_>,
    sums: &mut [f64],
) -> usize {
    // SAFETY: the machine has what `Halves` needs.
    unsafe { narrow::<Halves, E, B, K>(section, sums) }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn narrow_avx512<E: EightWide, const B: usize, const K: usize>(
    section: &Section<'_>,
    sums: &mut [f64],
) -> usize {
    // SAFETY: the machine has what `Whole` needs.
    unsafe { narrow::<Whole, E, B, K>(section, sums) }
}

/// `K` vectors, columns of 16 bits.
///
/// # Safety
/// The machine has the instructions of `V`, and the caller may use them.
#[inline(always)]
unsafe fn narrow<V: Eights, E: EightWide, const B: usize, const K: usize>(
    section: &Section<'_>,
    sums: &mut [f64],
) -> usize {
    let Section { bytes, head, tile: _, bucket, x } = *section;
    let element_bytes = const { element_bytes(2, B, E::FORMAT) };
    let scale = bucket.scale();
    let mut at = 0;
    for _ in 0..head.groups {
        let group = GroupHead::read(bytes, &mut at).expect(CHECKED);
        // SAFETY: the caller's promise; all of the steps' columns are in the window `x`, and the panel goes on for 64 bytes after its steps.
        unsafe {
            let mut lanes = [[V::zero(); K]; B];
            let runs = &bytes[at..][..group.runs * const { run_bytes(2, B, E::FORMAT) }];
            for step in 0..group.runs {
                let step = runs.as_ptr().add(step * const { run_bytes(2, B, E::FORMAT) });
                ahead(step, LANES * element_bytes);
                add_run::<V, E, B, K>(step, x.as_ptr(), &mut lanes);
            }
            at += runs.len();
            let full = &bytes[at..][..group.full * LANES * element_bytes];
            for step in 0..group.full {
                let step = full.as_ptr().add(step * LANES * element_bytes);
                ahead(step, LANES * element_bytes);
                add_step::<V, E, B, K>(step, x.as_ptr(), &mut lanes);
            }
            at += full.len();
            for &active in group.ragged {
                let active = usize::from(active);
                let step = &bytes[at..][..active * element_bytes];
                ahead(step.as_ptr(), LANES * element_bytes);
                add_first::<V, E, B, K>(step.as_ptr(), active, x.as_ptr(), &mut lanes);
                at += step.len();
            }
            add_rows::<V, B, K>(&lanes, group.rows, scale, sums);
        }
    }
    at
}

/// How far ahead of its use the stream is asked for: about what memory takes to answer, and no more than a few steps of blocks.
const AHEAD: usize = 2048;

/// Asks for the bytes of a step to come. Without it the reads of `x` in between keep the machine from seeing that the panel is one stream.
#[inline(always)]
fn ahead(step: *const u8, len: usize) {
    for line in (0..len).step_by(64) {
        // SAFETY: an address that cannot be read is not; every machine of this kind has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(step.wrapping_add(AHEAD + line).cast()) };
    }
}

/// Adds lanes to the sums of their rows.
///
/// # Safety
/// That of [`narrow`].
#[inline(always)]
unsafe fn add_rows<V: Eights, const B: usize, const K: usize>(
    lanes: &[[V; K]; B],
    rows: Rows,
    scale: f64,
    sums: &mut [f64],
) {
    if let (Rows::From(row), 1) = (rows, B * K) {
        let sums = sums[row..].first_chunk_mut().expect(CHECKED);
        // SAFETY: the caller's promise.
        return unsafe { lanes[0][0].add_to(scale, sums) };
    }
    let mut out = [[[0.0; K]; B]; LANES];
    for (i, lanes) in lanes.iter().enumerate() {
        for (pair, two) in lanes.as_chunks::<2>().0.iter().enumerate() {
            // SAFETY: the caller's promise; there are `B K` numbers for each lane.
            unsafe {
                two[0].put_two(two[1], scale, out.as_mut_ptr().cast::<f64>().add(i * K + 2 * pair), B * K)
            };
        }
        if K == 1 {
            let mut of_lanes = [0.0; LANES];
            // SAFETY: the caller's promise.
            unsafe { lanes[0].add_to(scale, &mut of_lanes) };
            out.iter_mut().zip(of_lanes).for_each(|(out, sum)| out[i][0] = sum);
        }
    }
    for (lane, out) in out.iter().enumerate() {
        let sums = &mut sums[rows.of(lane) * B * K..][..B * K];
        for (sum, out) in sums.iter_mut().zip(out.as_flattened()) {
            *sum += out;
        }
    }
}

/// Where the `x` of each lane is.
///
/// # Safety
/// That of [`add_first`].
#[inline(always)]
unsafe fn places<const B: usize, const K: usize>(
    step: *const u8,
    active: usize,
    x: *const f64,
) -> [*const f64; LANES] {
    let mut at = [x; LANES];
    for lane in 0..LANES {
        // Lanes without an element look where the first one does.
        let lane_or_first = if lane < active { lane } else { 0 };
        // SAFETY: so many columns are there, of 16 bits, less than the window has.
        at[lane] = unsafe {
            let column = u16::from_le(step.cast::<u16>().add(lane_or_first).read_unaligned());
            x.add(usize::from(column) * B * K)
        };
    }
    at
}

/// Adds a run to the sums of its lanes.
///
/// # Safety
/// That of [`add_first`].
#[inline(always)]
unsafe fn add_run<V: Eights, E: EightWide, const B: usize, const K: usize>(
    step: *const u8,
    x: *const f64,
    lanes: &mut [[V; K]; B],
) {
    // SAFETY: the caller's promise; a run has one column of 16 bits, seven before the end of the window at least, and then `B B` times eight codes.
    unsafe {
        let first = x.add(usize::from(u16::from_le(step.cast::<u16>().read_unaligned())) * B * K);
        let mut at = [first; LANES];
        for lane in 0..LANES {
            at[lane] = first.add(lane * B * K);
        }
        add_codes::<V, E, B, K, true>(step.add(2), &at, lanes);
    }
}

/// The `K` numbers of `x` for column `j` of an element, from eight places.
///
/// # Safety
/// That of [`add_codes`].
#[inline(always)]
unsafe fn column<V: Eights, const B: usize, const K: usize, const RUN: bool>(
    at: &[*const f64; LANES],
    j: usize,
) -> [V; K] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut numbers = [V::zero(); K];
        for (pair, two) in numbers.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *two = V::gather_two(at, j * K + 2 * pair);
        }
        if K == 1 {
            numbers[0] = if RUN && B == 1 { V::load(at[0]) } else { V::gather(at, j) };
        }
        numbers
    }
}

/// Adds eight codes for each place of an element, with the `x` at eight places.
///
/// # Safety
/// That of [`add_first`]; the places of a `RUN` are `B K` numbers apart.
#[inline(always)]
unsafe fn add_codes<V: Eights, E: EightWide, const B: usize, const K: usize, const RUN: bool>(
    codes: *const u8,
    at: &[*const f64; LANES],
    lanes: &mut [[V; K]; B],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut codes = codes;
        for j in 0..B {
            let of_column = column::<V, B, K, RUN>(at, j);
            for i in 0..B {
                let a = V::decode::<E>(codes);
                for k in 0..K {
                    lanes[i][k] = a.mul_add(of_column[k], lanes[i][k]);
                }
                codes = codes.add(LANES * E::BYTES);
            }
        }
    }
}

/// Adds a full step to the sums of its lanes.
///
/// # Safety
/// That of [`add_first`].
#[inline(always)]
unsafe fn add_step<V: Eights, E: EightWide, const B: usize, const K: usize>(
    step: *const u8,
    x: *const f64,
    lanes: &mut [[V; K]; B],
) {
    // SAFETY: the caller's promise; a step has eight columns of 16 bits, and then `B B` times eight codes.
    unsafe {
        let at = places::<B, K>(step, LANES, x);
        add_codes::<V, E, B, K, false>(step.add(2 * LANES), &at, lanes);
    }
}

/// Adds a step that only the first lanes have.
///
/// # Safety
/// `step` is one of a panel that was checked, with so many elements (one at least), `x` its tile's window; and that of [`narrow`].
#[inline(always)]
unsafe fn add_first<V: Eights, E: EightWide, const B: usize, const K: usize>(
    step: *const u8,
    active: usize,
    x: *const f64,
    lanes: &mut [[V; K]; B],
) {
    // SAFETY: the caller's promise; more codes are read than there are, but no more than 64 bytes behind the first of them.
    unsafe {
        let at = places::<B, K>(step, active, x);
        let mut codes = step.add(2 * active);
        for j in 0..B {
            let of_column = column::<V, B, K, false>(&at, j);
            for i in 0..B {
                let a = V::decode::<E>(codes);
                for k in 0..K {
                    lanes[i][k] = a.mul_add_first(of_column[k], lanes[i][k], active);
                }
                codes = codes.add(active * E::BYTES);
            }
        }
    }
}
