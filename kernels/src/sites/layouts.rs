//! Layouts of records: words of 32 bits for the components of a site, with their scale.

use super::lanes::{Lanes, Real};
use super::{COMPONENTS, LANES, SiteFormat};

/// A number of each of some sites.
pub type Eight<T> = [T; LANES];
/// The words of some sites; fewer are used by most formats.
pub type Words = [Eight<u32>; 8];
/// The components of some sites.
pub type Components<R> = [Eight<R>; COMPONENTS];

/// An operation on records of any format.
pub trait OfFormat: Sized {
    /// Runs the operation on components in float64.
    fn doubles(self);

    /// Runs the operation on records of `PAIRS` pairs of words.
    fn records<const PAIRS: usize, F: Record<PAIRS>>(self, format: F);

    /// Runs the operation on records of this format.
    #[inline(always)]
    fn of(self, format: SiteFormat) {
        match format {
            SiteFormat::Fp64 => self.doubles(),
            SiteFormat::Fp32 => self.records::<3, _>(SingleRecord),
            SiteFormat::Half => self.records::<2, _>(Half),
            SiteFormat::Int20 => self.records::<2, _>(Int20),
            SiteFormat::Int30 => self.records::<3, _>(Int30),
            SiteFormat::Packed(bits) => {
                let packed = Packed { bits: bits.count() };
                match format.bytes() {
                    8 => self.records::<1, _>(packed),
                    16 => self.records::<2, _>(packed),
                    24 => self.records::<3, _>(packed),
                    _ => self.records::<4, _>(packed),
                }
            }
        }
    }
}

/// Applies `f` to each number. Other formulations are not always inlined, and vector instructions
/// are lost then.
#[inline(always)]
pub fn each<A: Copy, B: Copy + Default>(numbers: Eight<A>, f: impl Fn(A) -> B) -> Eight<B> {
    let mut results = [B::default(); LANES];
    for lane in 0..LANES {
        results[lane] = f(numbers[lane]);
    }
    results
}

/// A format of records: `PAIRS` pairs of 32-bit words, the lower one first.
pub trait Record<const PAIRS: usize>: Copy {
    /// Returns the components that these words encode.
    fn unpack<R: Real>(self, words: &Words) -> Components<R>;

    /// The words of these components.
    fn pack<R: Real, L: Lanes<R>>(self, lanes: L, values: &Components<R>) -> Words;
}

/// Returns the largest magnitude of each site in `f32`; NaN if a component is non-finite or too
/// large.
#[inline(always)]
fn largest<R: Real>(values: &Components<R>) -> Eight<f32> {
    let mut most = [R::default(); LANES];
    let mut zeros = [R::default(); LANES];
    for row in values {
        for lane in 0..LANES {
            let x = row[lane];
            most[lane] = if x.abs() > most[lane] { x.abs() } else { most[lane] };
            // Zero if it is finite.
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

/// Six float32.
#[derive(Clone, Copy)]
pub struct SingleRecord;

impl Record<3> for SingleRecord {
    #[inline(always)]
    fn unpack<R: Real>(self, words: &Words) -> Components<R> {
        let mut values = Components::default();
        for c in 0..COMPONENTS {
            values[c] = each(words[c], |word| R::from_f32(f32::from_bits(word)));
        }
        values
    }

    #[inline(always)]
    fn pack<R: Real, L: Lanes<R>>(self, _: L, values: &Components<R>) -> Words {
        let mut words = Words::default();
        for c in 0..COMPONENTS {
            words[c] = each(values[c], |x| x.to_f32().to_bits());
        }
        words
    }
}

/// Six integers of 16 bits and a scale in float32.
#[derive(Clone, Copy)]
pub struct Half;

impl Record<2> for Half {
    #[inline(always)]
    fn unpack<R: Real>(self, words: &Words) -> Components<R> {
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
    fn pack<R: Real, L: Lanes<R>>(self, lanes: L, values: &Components<R>) -> Words {
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

/// Returns the biased exponent of the scale of integers up to `most`: 0 for zeros, 255 if there is
/// none.
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

/// Returns a lane mask: all bits or none. Branches would prevent vectorization.
#[inline(always)]
fn ones_if(condition: bool) -> u32 {
    u32::from(condition).wrapping_neg()
}

/// Returns the scale for an exponent: zero for sites of zeros, NaN for non-finite ones.
#[inline(always)]
fn scale<R: Real>(exponent: u32) -> R {
    let infinite = exponent == 255;
    R::from_f32(if infinite { f32::NAN } else { f32::from_bits(exponent << 23) })
}

/// Six integers of 20 bits, the exponent of their scale in 8.
#[derive(Clone, Copy)]
pub struct Int20;

impl Record<2> for Int20 {
    #[inline(always)]
    fn unpack<R: Real>(self, words: &Words) -> Components<R> {
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
    fn pack<R: Real, L: Lanes<R>>(self, lanes: L, values: &Components<R>) -> Words {
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

/// Six integers of 30 bits, with the exponent of their scale in the remaining bits of four words.
#[derive(Clone, Copy)]
pub struct Int30;

impl Record<3> for Int30 {
    #[inline(always)]
    fn unpack<R: Real>(self, words: &Words) -> Components<R> {
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
    fn pack<R: Real, L: Lanes<R>>(self, lanes: L, values: &Components<R>) -> Words {
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

/// Six integers of some bits, one after the other, and the exponent of their scale.
#[derive(Clone, Copy)]
pub struct Packed {
    bits: u32,
}

impl Packed {
    /// Returns the word that holds the lowest bit of number `c`, and the position of the bit in it.
    #[inline(always)]
    fn place(self, c: usize) -> (usize, u32) {
        let bit = c as u32 * self.bits;
        ((bit / 32) as usize, bit % 32)
    }
}

impl<const PAIRS: usize> Record<PAIRS> for Packed {
    #[inline(always)]
    fn unpack<R: Real>(self, words: &Words) -> Components<R> {
        let word = |w: usize, lane: usize| if w < 2 * PAIRS { u64::from(words[w][lane]) } else { 0 };
        let mut values = Components::default();
        let (of_scale, shift) = self.place(COMPONENTS);
        let mut scales = [R::default(); LANES];
        for lane in 0..LANES {
            let both = word(of_scale, lane) | word(of_scale + 1, lane) << 32;
            scales[lane] = scale::<R>((both >> shift) as u32 & 0xff);
        }
        for c in 0..COMPONENTS {
            let (w, shift) = self.place(c);
            let unused = 32 - self.bits;
            for lane in 0..LANES {
                let both = word(w, lane) | word(w + 1, lane) << 32;
                let integer = ((both >> shift) as u32) << unused;
                values[c][lane] = R::from_i32(integer as i32 >> unused) * scales[lane];
            }
        }
        values
    }

    #[inline(always)]
    fn pack<R: Real, L: Lanes<R>>(self, lanes: L, values: &Components<R>) -> Words {
        let mut words = Words::default();
        let most = ((1_u32 << (self.bits - 1)) - 1) as f32;
        let exponents = each(largest(values), |m| exponent(m, most));
        let q = multiples(lanes, values, &exponents);
        for c in 0..=COMPONENTS {
            let (w, shift) = self.place(c);
            for lane in 0..LANES {
                let code =
                    if c < COMPONENTS { q[c][lane] as u32 & ((1 << self.bits) - 1) } else { exponents[lane] };
                let both = u64::from(code) << shift;
                words[w][lane] |= both as u32;
                if w + 1 < 2 * PAIRS {
                    words[w + 1][lane] |= (both >> 32) as u32;
                }
            }
        }
        words
    }
}
