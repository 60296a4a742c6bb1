//! Records of sites, and rows of numbers that are computed with.

use std::ops::Range;

use super::lanes::{Lanes, Pairs, Real, WithLanes};
use super::{COMPONENTS, LANES, SiteFormat};

/// A number of each of some sites.
type Eight<T> = [T; LANES];
/// The words of some sites; fewer are used by most formats.
type Words = [Eight<u32>; COMPONENTS];
/// The components of some sites.
type Components<R> = [Eight<R>; COMPONENTS];

/// Decodes sites of a column into rows: component `c` of the `i`-th of them to `rows[c * pitch + i]`. `codes` are a whole number of sites of so many columns.
///
/// # Panics
/// If `rows` or `codes` are too short.
pub fn decode_sites<R: Real>(
    format: SiteFormat,
    codes: &[f64],
    (columns, column): (usize, usize),
    sites: Range<usize>,
    rows: &mut [R],
    pitch: usize,
) {
    let at = At { columns, column, first: sites.start, sites: sites.len(), pitch };
    R::with_lanes(Decode { format, codes, at, rows });
}

/// Stores what [`decode_sites`] decodes. The scale of a record follows from its numbers alone.
///
/// # Panics
/// If `rows` or `codes` are too short.
pub fn encode_sites<R: Real>(
    format: SiteFormat,
    rows: &[R],
    pitch: usize,
    codes: &mut [f64],
    (columns, column): (usize, usize),
    sites: Range<usize>,
) {
    let at = At { columns, column, first: sites.start, sites: sites.len(), pitch };
    R::with_lanes(Encode { format, codes, at, rows });
}

/// Decodes sites of a single column into numbers as they lie in float64: three complex ones of each site, the first at `numbers[0]`.
///
/// # Panics
/// If `numbers` or `codes` are too short.
pub fn decode_numbers(format: SiteFormat, codes: &[f64], sites: Range<usize>, numbers: &mut [f64]) {
    let at = At { columns: 1, column: 0, first: sites.start, sites: sites.len(), pitch: 0 };
    f64::with_lanes(DecodeNumbers { format, codes, at, numbers });
}

/// Stores what [`decode_numbers`] decodes, with the same bits as [`encode_sites`].
///
/// # Panics
/// If `numbers` or `codes` are too short.
pub fn encode_numbers(format: SiteFormat, numbers: &[f64], codes: &mut [f64], sites: Range<usize>) {
    let at = At { columns: 1, column: 0, first: sites.start, sites: sites.len(), pitch: 0 };
    f64::with_lanes(EncodeNumbers { format, codes, at, numbers });
}

/// Which sites of which column, and how far apart rows are.
#[derive(Clone, Copy)]
struct At {
    columns: usize,
    column: usize,
    first: usize,
    sites: usize,
    pitch: usize,
}

impl At {
    /// The place of the record of a site.
    #[inline(always)]
    fn record(self, i: usize) -> usize {
        (self.first + i) * self.columns + self.column
    }

    /// The place of a complex number in float64, where numbers of a row lie beside each other.
    #[inline(always)]
    fn double(self, i: usize, colour: usize) -> usize {
        ((self.first + i) * (COMPONENTS / 2) + colour) * self.columns + self.column
    }

    /// The first of each eight sites, and how many there are.
    fn blocks(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.sites).step_by(LANES).map(move |begin| (begin, LANES.min(self.sites - begin)))
    }

    #[inline(always)]
    fn store<R: Real>(self, values: &Components<R>, (begin, count): (usize, usize), rows: &mut [R]) {
        let rows = rows[begin..].chunks_mut(self.pitch);
        if count == LANES {
            for (row, values) in rows.zip(values) {
                *row.first_chunk_mut().expect("a row of eight numbers") = *values;
            }
        } else {
            for (row, values) in rows.zip(values) {
                row.iter_mut().zip(values).take(count).for_each(|(to, from)| *to = *from);
            }
        }
    }

    #[inline(always)]
    fn load<R: Real>(self, rows: &[R], (begin, count): (usize, usize)) -> Components<R> {
        let mut values = Components::<R>::default();
        let rows = rows[begin..].chunks(self.pitch);
        if count == LANES {
            for (row, values) in rows.zip(&mut values) {
                *values = *row.first_chunk().expect("a row of eight numbers");
            }
        } else {
            for (row, values) in rows.zip(&mut values) {
                row.iter().zip(values).take(count).for_each(|(from, to)| *to = *from);
            }
        }
        values
    }
}

struct Decode<'a, R> {
    format: SiteFormat,
    codes: &'a [f64],
    at: At,
    rows: &'a mut [R],
}

impl<R: Real> WithLanes<R> for Decode<'_, R> {
    #[inline(always)]
    fn call<L: Lanes<R>>(self, lanes: L) {
        match self.format {
            SiteFormat::Fp64 => self.doubles(lanes),
            SiteFormat::Fp32 => self.records::<3, Single, L>(lanes),
            SiteFormat::Half => self.records::<2, Half, L>(lanes),
            SiteFormat::Int20 => self.records::<2, Int20, L>(lanes),
            SiteFormat::Int30 => self.records::<3, Int30, L>(lanes),
        }
    }
}

impl<R: Real> Decode<'_, R> {
    #[inline(always)]
    fn doubles<L: Pairs>(self, lanes: L) {
        let Decode { codes, at, rows, .. } = self;
        let (codes, _) = codes.as_chunks::<2>();
        for block in at.blocks() {
            prefetch_next(lanes, at, &codes[at.double(block.0, 0)..], COMPONENTS / 2);
            let mut values = Components::default();
            for colour in 0..COMPONENTS / 2 {
                let (step, first) = (COMPONENTS / 2 * at.columns, at.double(block.0, colour));
                let own = &codes[first..];
                let mut pairs = [[0.0; 2]; LANES];
                match own.first_chunk::<{ COMPONENTS / 2 * (LANES - 1) + 1 }>() {
                    Some(own) if at.columns == 1 && block.1 == LANES => {
                        (0..LANES).for_each(|lane| pairs[lane] = own[COMPONENTS / 2 * lane]);
                    }
                    _ => (0..block.1).for_each(|lane| pairs[lane] = own[lane * step]),
                }
                let (re, im) = lanes.split_doubles(pairs);
                values[2 * colour] = each(re, R::from_f64);
                values[2 * colour + 1] = each(im, R::from_f64);
            }
            at.store(&values, block, rows);
        }
    }

    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>, L: Pairs>(self, lanes: L) {
        let Decode { codes, at, rows, .. } = self;
        let (codes, _) = codes.as_chunks::<PAIRS>();
        for block in at.blocks() {
            prefetch_next(lanes, at, &codes[at.record(block.0)..], 1);
            at.store(&F::unpack::<R>(&words_of(lanes, codes, at, block)), block, rows);
        }
    }
}

/// The words of eight sites, or of the last ones.
#[inline(always)]
fn words_of<const PAIRS: usize, L: Pairs>(
    lanes: L,
    codes: &[[f64; PAIRS]],
    at: At,
    (begin, count): (usize, usize),
) -> Words {
    let mut copy = [[0.0; PAIRS]; LANES];
    let records = eight(codes, at.record(begin), at.columns, count, &mut copy);
    let mut words = Words::default();
    for pair in 0..PAIRS {
        let mut pairs = [0; LANES];
        for lane in 0..LANES {
            pairs[lane] = records[lane][pair].to_bits();
        }
        (words[2 * pair], words[2 * pair + 1]) = lanes.split(pairs);
    }
    words
}

/// Stores them.
#[inline(always)]
fn store_words<const PAIRS: usize, L: Pairs>(
    lanes: L,
    words: &Words,
    codes: &mut [[f64; PAIRS]],
    at: At,
    (begin, count): (usize, usize),
) {
    let mut pairs = [[0; LANES]; PAIRS];
    for pair in 0..PAIRS {
        pairs[pair] = lanes.join(words[2 * pair], words[2 * pair + 1]);
    }
    let first = at.record(begin);
    match codes[first..].first_chunk_mut::<LANES>() {
        Some(all) if at.columns == 1 && count == LANES => {
            for lane in 0..LANES {
                (0..PAIRS).for_each(|pair| all[lane][pair] = f64::from_bits(pairs[pair][lane]));
            }
        }
        _ => {
            for lane in 0..count {
                let record = &mut codes[first + lane * at.columns];
                (0..PAIRS).for_each(|pair| record[pair] = f64::from_bits(pairs[pair][lane]));
            }
        }
    }
}

/// Complex numbers of a site.
const COLOURS: usize = COMPONENTS / 2;

struct DecodeNumbers<'a> {
    format: SiteFormat,
    codes: &'a [f64],
    at: At,
    numbers: &'a mut [f64],
}

impl WithLanes<f64> for DecodeNumbers<'_> {
    #[inline(always)]
    fn call<L: Lanes<f64>>(self, lanes: L) {
        match self.format {
            SiteFormat::Fp64 => {
                let own = COMPONENTS * self.at.first..COMPONENTS * (self.at.first + self.at.sites);
                self.numbers[..own.len()].copy_from_slice(&self.codes[own]);
            }
            SiteFormat::Fp32 => self.records::<3, Single, L>(lanes),
            SiteFormat::Half => self.records::<2, Half, L>(lanes),
            SiteFormat::Int20 => self.records::<2, Int20, L>(lanes),
            SiteFormat::Int30 => self.records::<3, Int30, L>(lanes),
        }
    }
}

impl DecodeNumbers<'_> {
    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>, L: Pairs>(self, lanes: L) {
        let DecodeNumbers { codes, at, numbers, .. } = self;
        let ((codes, _), (numbers, _)) = (codes.as_chunks::<PAIRS>(), numbers.as_chunks_mut::<2>());
        for block in at.blocks() {
            let values = F::unpack::<f64>(&words_of(lanes, codes, at, block));
            let own = &mut numbers[COLOURS * block.0..];
            for colour in 0..COLOURS {
                let pairs = lanes.join_doubles(values[2 * colour], values[2 * colour + 1]);
                match own.first_chunk_mut::<{ COLOURS * LANES }>() {
                    Some(own) if block.1 == LANES => {
                        (0..LANES).for_each(|lane| own[COLOURS * lane + colour] = pairs[lane]);
                    }
                    _ => (0..block.1).for_each(|lane| own[COLOURS * lane + colour] = pairs[lane]),
                }
            }
        }
    }
}

struct EncodeNumbers<'a> {
    format: SiteFormat,
    codes: &'a mut [f64],
    at: At,
    numbers: &'a [f64],
}

impl WithLanes<f64> for EncodeNumbers<'_> {
    #[inline(always)]
    fn call<L: Lanes<f64>>(self, lanes: L) {
        match self.format {
            SiteFormat::Fp64 => {
                let own = COMPONENTS * self.at.first..COMPONENTS * (self.at.first + self.at.sites);
                self.codes[own.clone()].copy_from_slice(&self.numbers[..own.len()]);
            }
            SiteFormat::Fp32 => self.records::<3, Single, L>(lanes),
            SiteFormat::Half => self.records::<2, Half, L>(lanes),
            SiteFormat::Int20 => self.records::<2, Int20, L>(lanes),
            SiteFormat::Int30 => self.records::<3, Int30, L>(lanes),
        }
    }
}

impl EncodeNumbers<'_> {
    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>, L: Lanes<f64>>(self, lanes: L) {
        let EncodeNumbers { codes, at, numbers, .. } = self;
        let ((codes, _), (numbers, _)) = (codes.as_chunks_mut::<PAIRS>(), numbers.as_chunks::<2>());
        for block in at.blocks() {
            let own = &numbers[COLOURS * block.0..];
            let mut values = Components::default();
            for colour in 0..COLOURS {
                let mut pairs = [[0.0; 2]; LANES];
                match own.first_chunk::<{ COLOURS * LANES }>() {
                    Some(own) if block.1 == LANES => {
                        (0..LANES).for_each(|lane| pairs[lane] = own[COLOURS * lane + colour]);
                    }
                    _ => (0..block.1).for_each(|lane| pairs[lane] = own[COLOURS * lane + colour]),
                }
                (values[2 * colour], values[2 * colour + 1]) = lanes.split_doubles(pairs);
            }
            store_words(lanes, &F::pack(lanes, &values), codes, at, block);
        }
    }
}

/// Prefetches what lies as far behind eight sites as a call has sites: where lines are decoded in turn, that is the next line.
#[inline(always)]
fn prefetch_next<T>(lanes: impl Pairs, at: At, codes: &[T], of_site: usize) {
    if at.column == 0 {
        let begin = codes.as_ptr().wrapping_add(at.sites * at.columns * of_site).cast::<u8>();
        let bytes = LANES * at.columns * of_site * size_of::<T>();
        (0..bytes).step_by(64).for_each(|i| lanes.prefetch(begin.wrapping_add(i)));
    }
}

/// Every `step`-th item from `first` on, `count` of them; what is beyond is some item. Where they do not lie beside each other they are copied.
#[inline(always)]
fn eight<'a, T: Copy>(
    items: &'a [T],
    first: usize,
    step: usize,
    count: usize,
    copy: &'a mut Eight<T>,
) -> &'a Eight<T> {
    match items[first..].first_chunk() {
        Some(all) if step == 1 && count == LANES => all,
        _ if count == LANES => {
            let own = &items[first..first + (LANES - 1) * step + 1];
            for lane in 0..LANES {
                copy[lane] = own[lane * step];
            }
            copy
        }
        _ => {
            for lane in 0..count {
                copy[lane] = items[first + lane * step];
            }
            copy
        }
    }
}

struct Encode<'a, R> {
    format: SiteFormat,
    codes: &'a mut [f64],
    at: At,
    rows: &'a [R],
}

impl<R: Real> WithLanes<R> for Encode<'_, R> {
    #[inline(always)]
    fn call<L: Lanes<R>>(self, lanes: L) {
        match self.format {
            SiteFormat::Fp64 => self.doubles(lanes),
            SiteFormat::Fp32 => self.records::<3, Single, L>(lanes),
            SiteFormat::Half => self.records::<2, Half, L>(lanes),
            SiteFormat::Int20 => self.records::<2, Int20, L>(lanes),
            SiteFormat::Int30 => self.records::<3, Int30, L>(lanes),
        }
    }
}

impl<R: Real> Encode<'_, R> {
    #[inline(always)]
    fn doubles<L: Pairs>(self, lanes: L) {
        let Encode { codes, at, rows, .. } = self;
        let (codes, _) = codes.as_chunks_mut::<2>();
        for block in at.blocks() {
            let values = at.load(rows, block);
            for colour in 0..COMPONENTS / 2 {
                let row = |c: usize| each(values[c], R::to_f64);
                let pairs = lanes.join_doubles(row(2 * colour), row(2 * colour + 1));
                let (step, first) = (COMPONENTS / 2 * at.columns, at.double(block.0, colour));
                (0..block.1).for_each(|lane| codes[first + lane * step] = pairs[lane]);
            }
        }
    }

    #[inline(always)]
    fn records<const PAIRS: usize, F: Record<PAIRS>, L: Lanes<R>>(self, lanes: L) {
        let Encode { codes, at, rows, .. } = self;
        let (codes, _) = codes.as_chunks_mut::<PAIRS>();
        for block in at.blocks() {
            let words = F::pack(lanes, &at.load(rows, block));
            store_words(lanes, &words, codes, at, block);
        }
    }
}

/// `f` of each number. Other ways to write it are not always inlined, where vector instructions are lost.
#[inline(always)]
fn each<A: Copy, B: Copy + Default>(numbers: Eight<A>, f: impl Fn(A) -> B) -> Eight<B> {
    let mut results = [B::default(); LANES];
    for lane in 0..LANES {
        results[lane] = f(numbers[lane]);
    }
    results
}

/// A format of records: so many pairs of 32-bit words, the lower one first.
trait Record<const PAIRS: usize> {
    fn unpack<R: Real>(words: &Words) -> Components<R>;

    fn pack<R: Real, L: Lanes<R>>(lanes: L, values: &Components<R>) -> Words;
}

/// The largest magnitude of each site in `f32`; NaN where a component is not finite, or too large.
#[inline(always)]
fn largest<R: Real>(values: &Components<R>) -> Eight<f32> {
    let mut most = [R::default(); LANES];
    let mut zeros = [R::default(); LANES];
    for row in values {
        for lane in 0..LANES {
            let x = row[lane];
            most[lane] = if x.abs() > most[lane] { x.abs() } else { most[lane] };
            // Zero where it is finite.
            zeros[lane] = zeros[lane] + x * R::default();
        }
    }
    let mut found = [0.0; LANES];
    for lane in 0..LANES {
        let m = most[lane].to_f32();
        found[lane] = if m < f32::INFINITY && zeros[lane] == R::default() { m } else { f32::NAN };
    }
    found
}

struct Single;

impl Record<3> for Single {
    #[inline(always)]
    fn unpack<R: Real>(words: &Words) -> Components<R> {
        let mut values = Components::default();
        for c in 0..COMPONENTS {
            values[c] = each(words[c], |word| R::from_f32(f32::from_bits(word)));
        }
        values
    }

    #[inline(always)]
    fn pack<R: Real, L: Lanes<R>>(_: L, values: &Components<R>) -> Words {
        let mut words = Words::default();
        for c in 0..COMPONENTS {
            words[c] = each(values[c], |x| x.to_f32().to_bits());
        }
        words
    }
}

struct Half;

impl Record<2> for Half {
    #[inline(always)]
    fn unpack<R: Real>(words: &Words) -> Components<R> {
        let mut values = Components::default();
        for lane in 0..LANES {
            let scale = R::from_f32(f32::from_bits(words[3][lane]));
            for pair in 0..3 {
                let word = words[pair][lane];
                values[2 * pair][lane] = R::from_i32((word << 16) as i32 >> 16) * scale;
                values[2 * pair + 1][lane] = R::from_i32(word as i32 >> 16) * scale;
            }
        }
        values
    }

    #[inline(always)]
    fn pack<R: Real, L: Lanes<R>>(lanes: L, values: &Components<R>) -> Words {
        let largest = largest(values);
        let scales = each(largest, |m| {
            let scale = if m == 0.0 { 0.0 } else { (m / 32767.0).max(f32::MIN_POSITIVE) };
            if m.is_nan() { m } else { scale }
        });
        let mut divisors = [R::default(); LANES];
        for lane in 0..LANES {
            divisors[lane] = R::from_f32(if largest[lane] > 0.0 { scales[lane] } else { 1.0 });
        }
        let mut q = [[0; LANES]; COMPONENTS];
        for c in 0..COMPONENTS {
            let mut quotients = [R::default(); LANES];
            for lane in 0..LANES {
                quotients[lane] = values[c][lane] / divisors[lane];
            }
            q[c] = lanes.round(quotients);
            for lane in 0..LANES {
                q[c][lane] = q[c][lane].clamp(-32767, 32767) & ones_if(largest[lane] > 0.0) as i32;
            }
        }
        let mut words = Words::default();
        for pair in 0..3 {
            for lane in 0..LANES {
                words[pair][lane] = q[2 * pair][lane] as u32 & 0xffff | (q[2 * pair + 1][lane] as u32) << 16;
            }
        }
        words[3] = each(scales, f32::to_bits);
        words
    }
}

/// The biased exponent of the scale of integers up to `most`: 0 for zeros, 255 where there is none.
#[inline(always)]
fn exponent(largest: f32, most: f32) -> u32 {
    let above = ((largest / most).to_bits() >> 23 & 0xff) + 1;
    let bounded = if above > 253 { 255 } else { above };
    if largest == 0.0 { 0 } else { bounded }
}

/// Integers that are multiples of a scale with this exponent.
#[inline(always)]
fn multiples<R: Real, L: Lanes<R>>(
    lanes: L,
    values: &Components<R>,
    exponents: &Eight<u32>,
) -> [Eight<i32>; COMPONENTS] {
    let is_number = each(*exponents, |e| ones_if(e.wrapping_sub(1) < 254));
    let mut inverses = [R::default(); LANES];
    for lane in 0..LANES {
        // A power of two: 2^-(e - 127).
        let bits = 254_u32.wrapping_sub(exponents[lane]) << 23 & is_number[lane];
        inverses[lane] = R::from_f32(f32::from_bits(bits));
    }
    let mut integers = [[0; LANES]; COMPONENTS];
    for c in 0..COMPONENTS {
        let mut scaled = [R::default(); LANES];
        for lane in 0..LANES {
            scaled[lane] = values[c][lane] * inverses[lane];
        }
        let q = lanes.round(scaled);
        for lane in 0..LANES {
            integers[c][lane] = q[lane] & is_number[lane] as i32;
        }
    }
    integers
}

/// All bits of a lane, or none: branches would end what several lanes do at a time.
#[inline(always)]
fn ones_if(condition: bool) -> u32 {
    u32::from(condition).wrapping_neg()
}

/// What a scale is: zero for zeros, NaN where there is no number.
#[inline(always)]
fn scale<R: Real>(exponent: u32) -> R {
    let infinite = exponent == 255;
    R::from_f32(if infinite { f32::NAN } else { f32::from_bits(exponent << 23) })
}

struct Int20;

impl Record<2> for Int20 {
    #[inline(always)]
    fn unpack<R: Real>(words: &Words) -> Components<R> {
        let mut values = Components::default();
        for lane in 0..LANES {
            let [w0, w1, w2, w3] = [words[0][lane], words[1][lane], words[2][lane], words[3][lane]];
            let integers = [
                (w0 << 12) as i32 >> 12,
                (w0 & 0xfff0_0000) as i32 >> 12 | (w1 & 0xff) as i32,
                (w1 << 4) as i32 >> 12,
                (w1 & 0xf000_0000) as i32 >> 12 | (w2 & 0xffff) as i32,
                (w2 & 0xffff_0000) as i32 >> 12 | (w3 & 0xf) as i32,
                (w3 << 8) as i32 >> 12,
            ];
            let scale = scale::<R>(w3 >> 24);
            (0..COMPONENTS).for_each(|c| values[c][lane] = R::from_i32(integers[c]) * scale);
        }
        values
    }

    #[inline(always)]
    fn pack<R: Real, L: Lanes<R>>(lanes: L, values: &Components<R>) -> Words {
        let mut words = Words::default();
        let exponents = each(largest(values), |m| exponent(m, ((1 << 19) - 1) as f32));
        let q = multiples(lanes, values, &exponents);
        for lane in 0..LANES {
            let [a, b, c, d, e, f] = std::array::from_fn(|c| q[c][lane] as u32 & 0xf_ffff);
            words[0][lane] = a | (b >> 8) << 20;
            words[1][lane] = b & 0xff | c << 8 | (d >> 16) << 28;
            words[2][lane] = d & 0xffff | (e >> 4) << 16;
            words[3][lane] = e & 0xf | f << 4 | exponents[lane] << 24;
        }
        words
    }
}

struct Int30;

impl Record<3> for Int30 {
    #[inline(always)]
    fn unpack<R: Real>(words: &Words) -> Components<R> {
        let mut values = Components::default();
        for lane in 0..LANES {
            let part = |w: usize| (words[w][lane] >> 30) << (2 * w);
            let scale = scale::<R>(part(0) | part(1) | part(2) | part(3));
            for c in 0..COMPONENTS {
                values[c][lane] = R::from_i32((words[c][lane] << 2) as i32 >> 2) * scale;
            }
        }
        values
    }

    #[inline(always)]
    fn pack<R: Real, L: Lanes<R>>(lanes: L, values: &Components<R>) -> Words {
        let mut words = Words::default();
        let exponents = each(largest(values), |m| exponent(m, ((1 << 29) - 1) as f32));
        let q = multiples(lanes, values, &exponents);
        for c in 0..COMPONENTS {
            for lane in 0..LANES {
                let part = if c < 4 { exponents[lane] >> (2 * c) & 3 } else { 0 };
                words[c][lane] = q[c][lane] as u32 & 0x3fff_ffff | part << 30;
            }
        }
        words
    }
}
