//! Sections with AVX2 and FMA, or with AVX-512: eight lanes at a time.

mod eight_lanes;
mod places;

use core::arch::x86_64::*;

use self::eight_lanes::{EightLanes, OneRegister, TwoRegisters};
use self::places::{OnDiagonals, Places, Short};
use super::LANES;
use super::bytes::{Columns, FOLLOW, GroupRows, RUNS};
use super::portable::any_section;
use super::product::{CHECKED, SectionArgs, Traversal, multiply_and_clear};
use crate::packed::PackedFormat::*;
use crate::packed::avx512::EightWide;
use crate::packed::x86::{Double, Reduced, Single};

/// Implementation for machines with AVX2 and FMA.
pub(super) struct Avx2;

/// Implementation for machines that also have AVX-512 with byte permutations.
pub(super) struct Avx512;

impl Avx2 {
    /// Returns true if the machine supports AVX2 and FMA.
    pub fn is_here() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
}

impl Avx512 {
    /// Returns true if the machine supports these instructions.
    pub fn is_here() -> bool {
        Avx2::is_here()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
    }
}

/// Selects the code for a section by its format, for elements of block size `$b`, `$k` vectors, and
/// columns encoded as `$places`.
macro_rules! by_format {
    ($narrow:ident, $any:ident, $b:tt, $k:literal, $places:ty, $section:ident, $sums:ident) => {
        match $section.bucket.format {
            Fp64 => $narrow::<Double<8>, $b, $k, $places>($section, $sums),
            Rp56 => $narrow::<Double<7>, $b, $k, $places>($section, $sums),
            Rp48 => $narrow::<Double<6>, $b, $k, $places>($section, $sums),
            Rp40 => $narrow::<Double<5>, $b, $k, $places>($section, $sums),
            Fp32 => $narrow::<Single<4>, $b, $k, $places>($section, $sums),
            Rp24 => $narrow::<Single<3>, $b, $k, $places>($section, $sums),
            Rp16 => $narrow::<Single<2>, $b, $k, $places>($section, $sums),
            // Blocks have no scaled formats.
            Rpre48 if B == 1 => $narrow::<Reduced<6, true>, 1, $k, $places>($section, $sums),
            Rpre40 if B == 1 => $narrow::<Reduced<5, true>, 1, $k, $places>($section, $sums),
            Rpre32 if B == 1 => $narrow::<Reduced<4, true>, 1, $k, $places>($section, $sums),
            Rpre16 if B == 1 => $narrow::<Reduced<2, true>, 1, $k, $places>($section, $sums),
            Rpre8 if B == 1 => $narrow::<Reduced<1, true>, 1, $k, $places>($section, $sums),
            Rpreu48 if B == 1 => $narrow::<Reduced<6, false>, 1, $k, $places>($section, $sums),
            Rpreu40 if B == 1 => $narrow::<Reduced<5, false>, 1, $k, $places>($section, $sums),
            Rpreu32 if B == 1 => $narrow::<Reduced<4, false>, 1, $k, $places>($section, $sums),
            Rpreu16 if B == 1 => $narrow::<Reduced<2, false>, 1, $k, $places>($section, $sums),
            Rpreu8 if B == 1 => $narrow::<Reduced<1, false>, 1, $k, $places>($section, $sums),
            // No set has the scaled formats of 24 bits.
            _ => $any::<B, K>($section, $sums),
        }
    };
}

/// Selects the fastest code: eight lanes at a time if their sums fit into the `$registers`
/// registers of eight numbers, otherwise some lanes at a time.
macro_rules! by_size {
    ($narrow:ident, $any:ident, $registers:literal, $section:ident, $sums:ident) => {
        match ($section.tile.columns, K) {
            (Columns::Short, 1) => by_format!($narrow, $any, B, 1, Short, $section, $sums),
            (Columns::Short, 2) => by_format!($narrow, $any, B, 2, Short, $section, $sums),
            (Columns::Short, 4) if $registers == 32 => {
                by_format!($narrow, $any, B, 4, Short, $section, $sums)
            }
            (Columns::Short, 4) if B == 1 => by_format!($narrow, $any, 1, 4, Short, $section, $sums),
            (Columns::Short, 8) if $registers == 32 && B == 1 => {
                by_format!($narrow, $any, 1, 8, Short, $section, $sums)
            }
            // Blocks are not written so.
            (Columns::Diagonals(_), 1) if B == 1 => {
                by_format!($narrow, $any, 1, 1, OnDiagonals, $section, $sums)
            }
            (Columns::Diagonals(_), 2) if B == 1 => {
                by_format!($narrow, $any, 1, 2, OnDiagonals, $section, $sums)
            }
            (Columns::Diagonals(_), 4) if B == 1 => {
                by_format!($narrow, $any, 1, 4, OnDiagonals, $section, $sums)
            }
            (Columns::Diagonals(_), 8) if $registers == 32 && B == 1 => {
                by_format!($narrow, $any, 1, 8, OnDiagonals, $section, $sums)
            }
            _ => $any::<B, K>($section, $sums),
        }
    };
}

/// Implementations differ only in the traversal of a section.
macro_rules! way {
    ($way:ident, $narrow:ident, $any:ident, $finish:ident, $registers:literal) => {
        impl Traversal for $way {
            fn fetch(numbers: &[f64]) {
                fetch(numbers);
            }

            fn finish(sums: &mut [f64], factor: f64, y: &mut [f64], streams: bool) {
                // SAFETY: this way is taken only where it `is_here`.
                unsafe { $finish(sums, factor, y, streams) };
            }

            fn fence() {
                // SAFETY: every machine of this kind has SSE.
                unsafe { _mm_sfence() };
            }

            fn section<const B: usize, const K: usize>(section: &SectionArgs<'_>, sums: &mut [f64]) -> usize {
                // SAFETY: this way is taken only where it `is_here`.
                unsafe { by_size!($narrow, $any, $registers, section, sums) }
            }
        }
    };
}
way!(Avx2, narrow_avx2, any_section_avx2, finish_avx2, 8);
way!(Avx512, narrow_avx512, any_section_avx512, finish_avx512, 32);

/// Prefetches what will be read soon.
#[inline(always)]
fn fetch<T>(soon: &[T]) {
    for line in soon.chunks(const { 64 / size_of::<T>() }) {
        // SAFETY: every machine of this kind has SSE; the line is within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[target_feature(enable = "avx2,fma")]
fn finish_avx2(sums: &mut [f64], factor: f64, y: &mut [f64], streams: bool) {
    // SAFETY: the machine has what `TwoRegisters` needs.
    unsafe { finish::<TwoRegisters>(sums, factor, y, streams) }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn finish_avx512(sums: &mut [f64], factor: f64, y: &mut [f64], streams: bool) {
    // SAFETY: the machine has what `OneRegister` needs.
    unsafe { finish::<OneRegister>(sums, factor, y, streams) }
}

/// Implements [`Traversal::finish`], with non-temporal stores of whole cache lines if `streams`.
///
/// # Safety
/// That of [`narrow`].
#[inline(always)]
unsafe fn finish<V: EightLanes>(sums: &mut [f64], factor: f64, y: &mut [f64], streams: bool) {
    if !streams {
        return multiply_and_clear(sums, factor, y);
    }
    let aligned = y.as_ptr().align_offset(64).min(y.len());
    let (first, y) = y.split_at_mut(aligned);
    let (first_sums, sums) = sums.split_at_mut(aligned);
    multiply_and_clear(first_sums, factor, first);
    let (lines, last) = y.as_chunks_mut::<LANES>();
    let (sums, last_sums) = sums.as_chunks_mut::<LANES>();
    for (y, sums) in lines.iter_mut().zip(sums) {
        // SAFETY: the caller's promise; eight numbers are read, and written to a line of their own.
        unsafe { V::load(sums.as_ptr()).stream(factor, y.as_mut_ptr()) };
        *sums = [0.0; LANES];
    }
    multiply_and_clear(last_sums, factor, last);
}

#[target_feature(enable = "avx2,fma")]
fn any_section_avx2<const B: usize, const K: usize>(section: &SectionArgs<'_>, sums: &mut [f64]) -> usize {
    fetch(section.next);
    any_section::<f64, B, K, 4>(section, sums, fetch)
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn any_section_avx512<const B: usize, const K: usize>(section: &SectionArgs<'_>, sums: &mut [f64]) -> usize {
    fetch(section.next);
    // The numbers of a row of eight vectors fill a whole register.
    if K == 8 {
        any_section::<f64, B, K, 8>(section, sums, fetch)
    } else {
        any_section::<f64, B, K, 4>(section, sums, fetch)
    }
}

#[target_feature(enable = "avx2,fma")]
fn narrow_avx2<E: EightWide, const B: usize, const K: usize, P: Places>(
    section: &SectionArgs<'_>,
    sums: &mut [f64],
) -> usize {
    // SAFETY: the machine has what `TwoRegisters` needs.
    unsafe { narrow::<TwoRegisters, E, B, K, P>(section, sums) }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vbmi")]
fn narrow_avx512<E: EightWide, const B: usize, const K: usize, P: Places>(
    section: &SectionArgs<'_>,
    sums: &mut [f64],
) -> usize {
    // Reads that cross a cache line cost twice, and registers of half the size cause half as many
    // of them. Other formats are decoded faster in full registers, which also have space for the
    // sums of several vectors.
    let in_halves = const { K == 1 && matches!(E::FORMAT, Fp64 | Fp32) };
    // SAFETY: the machine has what `TwoRegisters` and `OneRegister` need.
    unsafe {
        if in_halves {
            narrow::<TwoRegisters, E, B, K, P>(section, sums)
        } else {
            narrow::<OneRegister, E, B, K, P>(section, sums)
        }
    }
}

/// Head of a group, before its steps: the contents of [`GroupHead`](super::bytes::GroupHead), for
/// callers that need no bounds checks.
struct GroupStart {
    runs: usize,
    full: usize,
    ragged: usize,
    /// Number of lanes of each ragged step.
    active: *const u8,
    /// The rows' numbers, or only that of the first.
    rows: *const u8,
    follow: bool,
}

impl GroupStart {
    /// Reads a group head. Also returns the begin of its steps. There are no branches that the
    /// machine would have to predict.
    ///
    /// # Safety
    /// A group of a panel that was checked begins here.
    #[inline(always)]
    unsafe fn read(at: *const u8) -> (GroupStart, *const u8) {
        // SAFETY: the caller's promise; the bytes that are read in excess of runs are always there.
        unsafe {
            let (steps, full) = (*at, *at.add(1));
            let has_runs = full & RUNS != 0;
            let runs = if has_runs { usize::from(*at.add(2)) } else { 0 };
            let rows = at.add(if has_runs { 3 } else { 2 });
            let follow = steps & FOLLOW != 0;
            let active = rows.add(if follow { 1 } else { LANES });
            let full = usize::from(full & !RUNS);
            let ragged = usize::from(steps & !FOLLOW) - full - runs;
            (GroupStart { runs, full, ragged, active, rows, follow }, active.add(ragged))
        }
    }

    /// # Safety
    /// That of [`read`](GroupStart::read).
    #[inline(always)]
    unsafe fn rows(&self) -> GroupRows {
        // SAFETY: the caller's promise.
        unsafe {
            if self.follow {
                GroupRows::From((*self.rows).into())
            } else {
                GroupRows::These(*self.rows.cast())
            }
        }
    }
}

/// Groups of more full steps than these have a loop for them. In others one loop goes through all
/// steps that are no runs: what a loop costs is the guess where it ends.
const LONG: usize = 8;

/// `K` vectors.
///
/// # Safety
/// The machine has the instructions of `V`, and the caller may use them; the tile's columns are
/// written as `P` says.
#[inline(always)]
unsafe fn narrow<V: EightLanes, E: EightWide, const B: usize, const K: usize, P: Places>(
    section: &SectionArgs<'_>,
    sums: &mut [f64],
) -> usize {
    let SectionArgs { bytes, head, ref tile, element: _, bucket, x, mut next } = *section;
    let codes = const { LANES * B * B * E::FORMAT.bytes() };
    let (run_bytes, full_bytes) = (P::bytes(1) + codes, P::bytes(LANES) + codes);
    // SAFETY: the caller's promise.
    let of_tile = unsafe { P::of_tile(&tile.columns) };
    let (scale, x) = (bucket.scale(), x.as_ptr());
    // Prefetching all of them together would delay other accesses.
    let lines = next.len().div_ceil(LANES).div_ceil(head.groups.max(1));
    let mut at = bytes.as_ptr();
    for _ in 0..head.groups {
        let (now, later) = next.split_at(next.len().min(LANES * lines));
        fetch(now);
        next = later;
        // SAFETY: the caller's promise; a panel that was checked has these groups and steps and
        // goes on for 64 bytes, and all columns are in the window `x`.
        unsafe {
            let (group, steps) = GroupStart::read(at);
            let places = of_tile.of_group(&group);
            at = steps;
            let mut lanes = [[V::zero(); K]; B];
            for _ in 0..group.runs {
                ahead(at, run_bytes);
                add_run::<V, E, B, K, P>(places, at, x, &mut lanes);
                at = at.add(run_bytes);
            }
            let in_loop = if group.full > LONG { group.full } else { 0 };
            for _ in 0..in_loop {
                ahead(at, full_bytes);
                add_step::<V, E, B, K, P>(places, at, x, &mut lanes);
                at = at.add(full_bytes);
            }
            let full = group.full - in_loop;
            for step in 0..full + group.ragged {
                let active = if step < full { LANES } else { usize::from(*group.active.add(step - full)) };
                ahead(at, full_bytes);
                at = add_first::<V, E, B, K, P>(places, at, active, x, &mut lanes);
            }
            add_rows::<V, B, K>(&lanes, group.rows(), scale, sums);
        }
    }
    // SAFETY: it went on within `bytes`.
    unsafe { at.offset_from_unsigned(bytes.as_ptr()) }
}

/// Prefetch distance of the stream in bytes: about the latency of memory.
const AHEAD: usize = 4096;
/// Steps of more bytes than these (blocks) the machine sees to be one stream, and is faster by
/// itself.
const SEEN: usize = 200;

/// Asks for the bytes of a step to come, in about as many lines as it has. Without it the reads of
/// `x` in between keep the machine from seeing that the panel is one stream.
#[inline(always)]
fn ahead(step: *const u8, len: usize) {
    let lines = if len > SEEN { 0 } else { ((len + 32) / 64).max(1) };
    for line in 0..lines {
        // SAFETY: an address that cannot be read is not; every machine of this kind has SSE.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(step.wrapping_add(AHEAD + 64 * line).cast()) };
    }
}

/// Adds lanes to the sums of their rows.
///
/// # Safety
/// That of [`narrow`].
#[inline(always)]
unsafe fn add_rows<V: EightLanes, const B: usize, const K: usize>(
    lanes: &[[V; K]; B],
    rows: GroupRows,
    scale: f64,
    sums: &mut [f64],
) {
    if let (GroupRows::From(row), 1) = (rows, B * K) {
        let sums = sums[row..].first_chunk_mut().expect(CHECKED);
        // SAFETY: the caller's promise.
        return unsafe { lanes[0][0].add_to(scale, sums) };
    }
    if let (GroupRows::These(rows), 1) = (rows, B * K) {
        let mut out = [0.0; LANES];
        // SAFETY: the caller's promise.
        unsafe { lanes[0][0].add_to(scale, &mut out) };
        for (row, out) in rows.into_iter().zip(out) {
            // SAFETY: rows of a panel that was checked are in the tile, or those of the last eight.
            unsafe { *sums.get_unchecked_mut(usize::from(row)) += out };
        }
        return;
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

/// Returns the address in `x` of each column.
///
/// # Safety
/// All columns are in the window `x`.
#[inline(always)]
unsafe fn numbers_at<const B: usize, const K: usize>(
    columns: [u32; LANES],
    x: *const f64,
) -> [*const f64; LANES] {
    let mut at = [x; LANES];
    for lane in 0..LANES {
        // SAFETY: the caller's promise.
        at[lane] = unsafe { x.add(columns[lane] as usize * B * K) };
    }
    at
}

/// Adds a run to the sums of its lanes.
///
/// # Safety
/// That of [`add_first`].
#[inline(always)]
unsafe fn add_run<V: EightLanes, E: EightWide, const B: usize, const K: usize, P: Places>(
    places: P,
    step: *const u8,
    x: *const f64,
    lanes: &mut [[V; K]; B],
) {
    // SAFETY: the caller's promise; a run has one column, seven before the end of the window at
    // least, and then `B B` times eight codes.
    unsafe {
        let first = x.add(places.run(step) * B * K);
        let mut at = [first; LANES];
        for lane in 0..LANES {
            at[lane] = first.add(lane * B * K);
        }
        add_codes::<V, E, B, K, true>(step.add(P::bytes(1)), &at, lanes);
    }
}

/// The `K` numbers of `x` for column `j` of an element, from eight places.
///
/// # Safety
/// That of [`add_codes`].
#[inline(always)]
unsafe fn column<V: EightLanes, const B: usize, const K: usize, const RUN: bool>(
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
            numbers[0] = if RUN { V::gather_run::<B>(at, j) } else { V::gather(at, j) };
        }
        numbers
    }
}

/// Adds eight codes for each place of an element, with the `x` at eight places.
///
/// # Safety
/// That of [`add_first`]; the places of a `RUN` are `B K` numbers apart.
#[inline(always)]
unsafe fn add_codes<V: EightLanes, E: EightWide, const B: usize, const K: usize, const RUN: bool>(
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
unsafe fn add_step<V: EightLanes, E: EightWide, const B: usize, const K: usize, P: Places>(
    places: P,
    step: *const u8,
    x: *const f64,
    lanes: &mut [[V; K]; B],
) {
    // SAFETY: the caller's promise; a step has eight columns, and then `B B` times eight codes.
    unsafe {
        let at = numbers_at::<B, K>(places.step(step, LANES), x);
        add_codes::<V, E, B, K, false>(step.add(P::bytes(LANES)), &at, lanes);
    }
}

/// Adds a step of the first lanes. Returns the begin of the next one.
///
/// # Safety
/// `step` is one of a panel that was checked, with so many elements (one at least), of the group of
/// `places`, `x` its tile's window; and that of [`narrow`].
#[inline(always)]
unsafe fn add_first<V: EightLanes, E: EightWide, const B: usize, const K: usize, P: Places>(
    places: P,
    step: *const u8,
    active: usize,
    x: *const f64,
    lanes: &mut [[V; K]; B],
) -> *const u8 {
    // SAFETY: the caller's promise; more codes are read than there are, but at most 64 bytes from
    // the first of them.
    unsafe {
        let at = numbers_at::<B, K>(places.step(step, active), x);
        let mut codes = step.add(P::bytes(active));
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
        codes
    }
}
