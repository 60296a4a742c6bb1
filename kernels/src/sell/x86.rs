//! Sections with AVX2 and FMA, or with AVX-512: eight lanes at a time.

use core::arch::x86_64::*;

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

    /// The first and the second numbers from eight places.
    ///
    /// # Safety
    /// There are two numbers at each.
    unsafe fn gather_two(at: &[*const f64; LANES], offset: usize) -> [Self; 2];

    /// Numbers that follow one another.
    ///
    /// # Safety
    /// There are eight.
    unsafe fn load(at: *const f64) -> Self;

    /// `self * x + sum`, rounded once.
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self;

    /// The same in the first lanes, `sum` in the others.
    unsafe fn mul_add_first(self, x: Self, sum: Self, lanes: usize) -> Self;

    /// Adds to eight numbers, times `scale`.
    unsafe fn add_to(self, scale: f64, to: &mut [f64; LANES]);

    /// Writes each lane's number and that of `other` beside each other, times `scale`, `stride` numbers apart.
    ///
    /// # Safety
    /// There is room for eight pairs.
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

/// All ones in those of four lanes, from `from` on, that are before `lanes`.
#[target_feature(enable = "avx2")]
#[inline]
fn first(lanes: usize, from: i64) -> __m256d {
    let all = _mm256_set_epi64x(from + 3, from + 2, from + 1, from);
    _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes as i64), all))
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
    unsafe fn gather_two(at: &[*const f64; LANES], offset: usize) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let low = four_twos([at[0].add(offset), at[1].add(offset), at[2].add(offset), at[3].add(offset)]);
            let high =
                four_twos([at[4].add(offset), at[5].add(offset), at[6].add(offset), at[7].add(offset)]);
            [Halves([low[0], high[0]]), Halves([low[1], high[1]])]
        }
    }

    #[inline(always)]
    unsafe fn load(at: *const f64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Halves([_mm256_loadu_pd(at), _mm256_loadu_pd(at.add(4))]) }
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
    unsafe fn mul_add_first(self, x: Self, sum: Self, lanes: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let all = self.mul_add(x, sum);
            Halves([
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

/// Four lanes' part of [`Eights::put_two`].
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
    unsafe fn gather_two(at: &[*const f64; LANES], offset: usize) -> [Self; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let [Halves([a, b]), Halves([c, d])] = Halves::gather_two(at, offset);
            let first = _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(a), b);
            let second = _mm512_insertf64x4::<1>(_mm512_castpd256_pd512(c), d);
            [Whole(first), Whole(second)]
        }
    }

    #[inline(always)]
    unsafe fn load(at: *const f64) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Whole(_mm512_loadu_pd(at)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, x: Self, sum: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Whole(_mm512_fmadd_pd(self.0, x.0, sum.0)) }
    }

    #[inline(always)]
    unsafe fn mul_add_first(self, x: Self, sum: Self, lanes: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Whole(_mm512_mask3_fmadd_pd(self.0, x.0, sum.0, !(u8::MAX << lanes))) }
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
            let halves = Halves([_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0)]);
            let others = Halves([_mm512_castpd512_pd256(other.0), _mm512_extractf64x4_pd::<1>(other.0)]);
            halves.put_two(others, scale, to, stride);
        }
    }
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
