//! Records of sites, and rows of numbers that are computed with.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::lanes::Real;
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
    match format {
        SiteFormat::Fp64 => Arch::new().dispatch(DecodeDoubles { codes, at, rows }),
        SiteFormat::Fp32 => decode_records::<Single, R>(codes, at, rows),
        SiteFormat::Half => decode_records::<Half, R>(codes, at, rows),
        SiteFormat::Int20 => decode_records::<Int20, R>(codes, at, rows),
        SiteFormat::Int30 => decode_records::<Int30, R>(codes, at, rows),
    }
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
    match format {
        SiteFormat::Fp64 => Arch::new().dispatch(EncodeDoubles { codes, at, rows }),
        SiteFormat::Fp32 => encode_records::<Single, R>(codes, at, rows),
        SiteFormat::Half => encode_records::<Half, R>(codes, at, rows),
        SiteFormat::Int20 => encode_records::<Int20, R>(codes, at, rows),
        SiteFormat::Int30 => encode_records::<Int30, R>(codes, at, rows),
    }
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
    fn record(self, i: usize) -> usize {
        (self.first + i) * self.columns + self.column
    }

    /// The place of a component in float64, where numbers of a row lie beside each other.
    fn double(self, i: usize, component: usize) -> usize {
        2 * (((self.first + i) * (COMPONENTS / 2) + component / 2) * self.columns + self.column)
            + component % 2
    }
}

struct DecodeDoubles<'a, R> {
    codes: &'a [f64],
    at: At,
    rows: &'a mut [R],
}

impl<R: Real> WithSimd for DecodeDoubles<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let DecodeDoubles { codes, at, rows } = self;
        for c in 0..COMPONENTS {
            let (first, step) = (at.double(0, c), 2 * at.columns * COMPONENTS / 2);
            let row = &mut rows[c * at.pitch..][..at.sites];
            for (to, from) in row.iter_mut().zip(codes[first..].iter().step_by(step)) {
                *to = R::from_f64(*from);
            }
        }
    }
}

struct EncodeDoubles<'a, R> {
    codes: &'a mut [f64],
    at: At,
    rows: &'a [R],
}

impl<R: Real> WithSimd for EncodeDoubles<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let EncodeDoubles { codes, at, rows } = self;
        for c in 0..COMPONENTS {
            let (first, step) = (at.double(0, c), 2 * at.columns * COMPONENTS / 2);
            let row = &rows[c * at.pitch..][..at.sites];
            for (to, from) in codes[first..].iter_mut().step_by(step).zip(row) {
                *to = from.to_f64();
            }
        }
    }
}

fn decode_records<F: Record, R: Real>(codes: &[f64], at: At, rows: &mut [R]) {
    let codes = bytemuck::cast_slice(codes);
    Arch::new().dispatch(Decode::<F, R> { codes, at, rows, format: std::marker::PhantomData });
}

fn encode_records<F: Record, R: Real>(codes: &mut [f64], at: At, rows: &[R]) {
    let codes = bytemuck::cast_slice_mut(codes);
    Arch::new().dispatch(Encode::<F, R> { codes, at, rows, format: std::marker::PhantomData });
}

struct Decode<'a, F, R> {
    codes: &'a [u32],
    at: At,
    rows: &'a mut [R],
    format: std::marker::PhantomData<F>,
}

impl<F: Record, R: Real> WithSimd for Decode<'_, F, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Decode { codes, at, rows, .. } = self;
        let mut words = Words::default();
        for begin in (0..at.sites).step_by(LANES) {
            let count = LANES.min(at.sites - begin);
            for lane in 0..LANES {
                // The last lanes of the last sites are those of some site.
                let record = &codes[at.record(begin + lane.min(count - 1)) * F::WORDS..][..F::WORDS];
                (0..F::WORDS).for_each(|w| words[w][lane] = record[w]);
            }
            let values = F::unpack::<R>(&words);
            for (c, values) in values.iter().enumerate() {
                let row = &mut rows[c * at.pitch + begin..];
                match row.first_chunk_mut() {
                    Some(row) if count == LANES => *row = *values,
                    _ => row[..count].copy_from_slice(&values[..count]),
                }
            }
        }
    }
}

struct Encode<'a, F, R> {
    codes: &'a mut [u32],
    at: At,
    rows: &'a [R],
    format: std::marker::PhantomData<F>,
}

impl<F: Record, R: Real> WithSimd for Encode<'_, F, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Encode { codes, at, rows, .. } = self;
        for begin in (0..at.sites).step_by(LANES) {
            let count = LANES.min(at.sites - begin);
            let mut values = Components::<R>::default();
            for (c, values) in values.iter_mut().enumerate() {
                let row = &rows[c * at.pitch + begin..];
                match row.first_chunk() {
                    Some(row) if count == LANES => *values = *row,
                    _ => values[..count].copy_from_slice(&row[..count]),
                }
            }
            let words = F::pack(&values);
            for lane in 0..count {
                let record = &mut codes[at.record(begin + lane) * F::WORDS..][..F::WORDS];
                (0..F::WORDS).for_each(|w| record[w] = words[w][lane]);
            }
        }
    }
}

/// A format of records.
trait Record {
    /// 32-bit words of a site.
    const WORDS: usize;

    fn unpack<R: Real>(words: &Words) -> Components<R>;

    fn pack<R: Real>(values: &Components<R>) -> Words;
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

impl Record for Single {
    const WORDS: usize = 6;

    #[inline(always)]
    fn unpack<R: Real>(words: &Words) -> Components<R> {
        words.map(|row| row.map(|word| R::from_f32(f32::from_bits(word))))
    }

    #[inline(always)]
    fn pack<R: Real>(values: &Components<R>) -> Words {
        values.map(|row| row.map(|x| x.to_f32().to_bits()))
    }
}

struct Half;

impl Record for Half {
    const WORDS: usize = 4;

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
    fn pack<R: Real>(values: &Components<R>) -> Words {
        let mut words = Words::default();
        let largest = largest(values);
        for lane in 0..LANES {
            let m = largest[lane];
            let scale = if m == 0.0 { 0.0 } else { (m / 32767.0).max(f32::MIN_POSITIVE) };
            let scale = if m.is_nan() { m } else { scale };
            words[3][lane] = scale.to_bits();
            let divisor = R::from_f32(if m > 0.0 { scale } else { 1.0 });
            for pair in 0..3 {
                let [re, im] = [2 * pair, 2 * pair + 1].map(|c| {
                    let q = (values[c][lane] / divisor).round();
                    if m > 0.0 { q.clamp(-32767, 32767) } else { 0 }
                });
                words[pair][lane] = re as u32 & 0xffff | (im as u32) << 16;
            }
        }
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
fn multiples<R: Real>(values: &Components<R>, exponents: &Eight<u32>) -> [Eight<i32>; COMPONENTS] {
    let mut integers = [[0; LANES]; COMPONENTS];
    for lane in 0..LANES {
        let e = exponents[lane];
        let is_number = e != 0 && e != 255;
        // A power of two: 2^-(e - 127).
        let inverse = R::from_f32(f32::from_bits(if is_number { (254 - e) << 23 } else { 0 }));
        for c in 0..COMPONENTS {
            let q = (values[c][lane] * inverse).round();
            integers[c][lane] = if is_number { q } else { 0 };
        }
    }
    integers
}

/// What a scale is: zero for zeros, NaN where there is no number.
#[inline(always)]
fn scale<R: Real>(exponent: u32) -> R {
    let infinite = exponent == 255;
    R::from_f32(if infinite { f32::NAN } else { f32::from_bits(exponent << 23) })
}

struct Int20;

impl Record for Int20 {
    const WORDS: usize = 4;

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
    fn pack<R: Real>(values: &Components<R>) -> Words {
        let mut words = Words::default();
        let exponents = largest(values).map(|m| exponent(m, ((1 << 19) - 1) as f32));
        let q = multiples(values, &exponents);
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

impl Record for Int30 {
    const WORDS: usize = 6;

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
    fn pack<R: Real>(values: &Components<R>) -> Words {
        let mut words = Words::default();
        let exponents = largest(values).map(|m| exponent(m, ((1 << 29) - 1) as f32));
        let q = multiples(values, &exponents);
        for c in 0..COMPONENTS {
            for lane in 0..LANES {
                let part = if c < 4 { exponents[lane] >> (2 * c) & 3 } else { 0 };
                words[c][lane] = q[c][lane] as u32 & 0x3fff_ffff | part << 30;
            }
        }
        words
    }
}
