//! Values of the handles of a case. They depend on the converted version, on the time of the
//! conversion, and on its source.

use zellige_cuda::{CUDA, GpuContext};
use zellige_runtime::data::{ConversionTable, Element, Portability, Portable};
use zellige_runtime::{Buffer, Data, Format, Meta};

use super::rng::blend;

/// Words of 64, 32 and 16 bits.
pub(super) const FORMATS: [Format; 3] = [Format(1), Format(2), Format(3)];
const WIDE: Format = FORMATS[0];
const HALF: Format = FORMATS[1];
const QUARTER: Format = FORMATS[2];
/// A format that no type here has.
pub(super) const NO_FORMAT: Format = Format(9);

/// Words whose narrow forms keep only some bits. If `TRAVELS` is false, they stay on the host.
///
/// Narrowing in one step and in two gives different words, and widening does not restore lost bits.
/// So a replica made from a wrong version, in a wrong order or from a wrong replica is detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words<const TRAVELS: bool>(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Wide(Buffer<u64>),
    Half(Buffer<u32>),
    Quarter(Buffer<u16>),
}

fn filled<T: Element>(len: usize, word: impl Fn(usize) -> T) -> Buffer<T> {
    let mut words = Buffer::unfilled(len);
    words.iter_mut().enumerate().for_each(|(i, w)| *w = word(i));
    words
}

fn width(format: Format) -> Option<usize> {
    match format {
        WIDE => Some(8),
        HALF => Some(4),
        QUARTER => Some(2),
        _ => None,
    }
}

impl<const TRAVELS: bool> Words<TRAVELS> {
    fn of(format: Format, len: usize, word: impl Fn(usize) -> u64) -> Self {
        Words(match format {
            HALF => Form::Half(filled(len, |i| word(i) as u32)),
            QUARTER => Form::Quarter(filled(len, |i| word(i) as u16)),
            _ => Form::Wide(filled(len, word)),
        })
    }

    fn format(&self) -> Format {
        match self.0 {
            Form::Wide(_) => WIDE,
            Form::Half(_) => HALF,
            Form::Quarter(_) => QUARTER,
        }
    }

    fn len(&self) -> usize {
        match &self.0 {
            Form::Wide(words) => words.len(),
            Form::Half(words) => words.len(),
            Form::Quarter(words) => words.len(),
        }
    }

    fn word(&self, i: usize) -> u64 {
        match &self.0 {
            Form::Wide(words) => words[i],
            Form::Half(words) => words[i].into(),
            Form::Quarter(words) => words[i].into(),
        }
    }

    fn each(&mut self, change: impl Fn(usize, u64) -> u64) {
        match &mut self.0 {
            Form::Wide(words) => words.iter_mut().enumerate().for_each(|(i, w)| *w = change(i, *w)),
            Form::Half(words) => {
                words.iter_mut().enumerate().for_each(|(i, w)| *w = change(i, (*w).into()) as u32);
            }
            Form::Quarter(words) => {
                words.iter_mut().enumerate().for_each(|(i, w)| *w = change(i, (*w).into()) as u16);
            }
        }
    }
}

impl<const TRAVELS: bool> Data for Words<TRAVELS> {
    type Ref<'v> = &'v Self;
    type Mut<'v> = &'v mut Self;

    fn view(&self) -> &Self {
        self
    }

    fn view_mut(&mut self) -> &mut Self {
        self
    }

    fn meta(&self) -> Meta {
        let format = self.format();
        let bytes = width(format).unwrap_or(0) * self.len();
        // The norm depends on every word, so a selection by the norm of another version gives
        // another result.
        Meta { format, norm: (Self::digest(&self) >> 12) as f64, bytes }
    }

    fn size_as(meta: &Meta, to: Format) -> Option<usize> {
        if to == Format::NATIVE || to == meta.format {
            return Some(meta.bytes);
        }
        Some(meta.bytes / width(meta.format)? * width(to)?)
    }

    fn convert(&self, to: Format) -> Option<Self> {
        width(to)?;
        let converted = |word: u64| match (self.format(), to) {
            (WIDE, HALF) => word >> 32,
            (WIDE, QUARTER) => (word >> 48) ^ word,
            (HALF, QUARTER) => (word >> 16) ^ word,
            (HALF, WIDE) => (word << 32) | 0x5555_5555,
            (QUARTER, WIDE) => (word << 48) | 0x3333,
            (QUARTER, HALF) => word << 16,
            _ => word,
        };
        Some(Words::of(to, self.len(), |i| converted(self.word(i))))
    }

    fn portability() -> Option<Portability<Self>> {
        TRAVELS.then(Portability::of)
    }
}

impl<const TRAVELS: bool> Portable for Words<TRAVELS> {
    type Header = (Format, usize);

    fn header(&self) -> (Format, usize) {
        (self.format(), self.len())
    }

    fn blank(&(format, len): &(Format, usize)) -> Self {
        Words(match format {
            HALF => Form::Half(Buffer::unfilled(len)),
            QUARTER => Form::Quarter(Buffer::unfilled(len)),
            _ => Form::Wide(Buffer::unfilled(len)),
        })
    }

    fn parts(&self) -> Vec<&[u8]> {
        vec![match &self.0 {
            Form::Wide(words) => words.as_bytes(),
            Form::Half(words) => words.as_bytes(),
            Form::Quarter(words) => words.as_bytes(),
        }]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        vec![match &mut self.0 {
            Form::Wide(words) => words.as_bytes_mut(),
            Form::Half(words) => words.as_bytes_mut(),
            Form::Quarter(words) => words.as_bytes_mut(),
        }]
    }

    fn conversions(table: &mut ConversionTable<Self>) {
        table.add(*CUDA, |value, to, cx| {
            let &(_, len) = value.header();
            // Some conversions pass through the host.
            if width(to).is_none() || len % 3 == 0 {
                return Ok(None);
            }
            let made = cx.value::<Self>((to, len))?;
            super::gpu::convert(value, &made, GpuContext::of(cx))?;
            Ok(Some(made))
        });
    }
}

/// Operations of bodies on values, through their views.
pub(super) trait Sample: Portable + PartialEq {
    /// Returns format and length of a value with this header; the native format for a plain vector.
    fn shape(header: &Self::Header) -> (Format, usize);
    /// Returns `len` words determined by `seed`.
    fn fresh(format: Format, len: usize, seed: u64) -> Self;
    /// Returns a number that depends on every bit, the format and the length.
    fn digest(view: &Self::Ref<'_>) -> u64;
    /// Returns the digest of a value that is being written.
    fn digest_mut(view: &Self::Mut<'_>) -> u64;
    /// Changes every word, depending on its old value.
    fn mix(view: &mut Self::Mut<'_>, seed: u64);
    /// Adds to every word, modulo its range: the result does not depend on the order.
    fn add(view: &mut Self::Mut<'_>, seed: u64);
    /// Converts in place, if the type has formats.
    fn become_format(view: &mut Self::Mut<'_>, format: Format);
    /// Returns a value of the same size with zeros.
    fn zeros(&self) -> Self;
    /// Adds word by word.
    fn plus(&mut self, other: &Self);
    /// Describes the difference of two values.
    fn difference(&self, wanted: &Self) -> String;
}

fn mixed(word: u64, seed: u64, i: usize) -> u64 {
    word.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(7) ^ blend(seed, i as u64)
}

fn first_difference(len: usize, differs: impl Fn(usize) -> Option<String>) -> String {
    (0..len).find_map(differs).unwrap_or_default()
}

impl<const TRAVELS: bool> Sample for Words<TRAVELS> {
    fn shape(header: &(Format, usize)) -> (Format, usize) {
        *header
    }

    fn fresh(format: Format, len: usize, seed: u64) -> Self {
        Words::of(format, len, |i| blend(seed, i as u64))
    }

    fn digest(view: &&Self) -> u64 {
        let start = blend(view.format().0.into(), view.len() as u64);
        (0..view.len()).fold(start, |sum, i| blend(sum, view.word(i)))
    }

    fn digest_mut(view: &&mut Self) -> u64 {
        Self::digest(&&**view)
    }

    fn mix(view: &mut &mut Self, seed: u64) {
        view.each(|i, word| mixed(word, seed, i));
    }

    fn add(view: &mut &mut Self, seed: u64) {
        view.each(|i, word| word.wrapping_add(blend(seed, i as u64)));
    }

    fn become_format(view: &mut &mut Self, format: Format) {
        if let Some(converted) = view.convert(format) {
            **view = converted;
        }
    }

    fn zeros(&self) -> Self {
        Words::of(self.format(), self.len(), |_| 0)
    }

    fn plus(&mut self, other: &Self) {
        self.each(|i, word| word.wrapping_add(other.word(i)));
    }

    fn difference(&self, wanted: &Self) -> String {
        if self.header() != wanted.header() {
            let (have, want) = (self.header(), wanted.header());
            return format!("{} words in {:?} instead of {} in {:?}", have.1, have.0, want.1, want.0);
        }
        first_difference(self.len(), |i| {
            let (have, want) = (self.word(i), wanted.word(i));
            (have != want).then(|| {
                format!("word {i} of {} ({:?}) is {have:#x}, not {want:#x}", self.len(), self.format())
            })
        })
    }
}

impl Sample for Vec<u64> {
    fn shape(&len: &usize) -> (Format, usize) {
        (Format::NATIVE, len)
    }

    fn fresh(_format: Format, len: usize, seed: u64) -> Self {
        (0..len).map(|i| blend(seed, i as u64)).collect()
    }

    fn digest(view: &&[u64]) -> u64 {
        view.iter().fold(view.len() as u64, |sum, &word| blend(sum, word))
    }

    fn digest_mut(view: &&mut [u64]) -> u64 {
        Self::digest(&&**view)
    }

    fn mix(view: &mut &mut [u64], seed: u64) {
        view.iter_mut().enumerate().for_each(|(i, word)| *word = mixed(*word, seed, i));
    }

    fn add(view: &mut &mut [u64], seed: u64) {
        view.iter_mut().enumerate().for_each(|(i, w)| *w = w.wrapping_add(blend(seed, i as u64)));
    }

    fn become_format(_view: &mut &mut [u64], _format: Format) {}

    fn zeros(&self) -> Self {
        vec![0; self.len()]
    }

    fn plus(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
    }

    fn difference(&self, wanted: &Self) -> String {
        if self.len() != wanted.len() {
            return format!("{} words instead of {}", self.len(), wanted.len());
        }
        first_difference(self.len(), |i| {
            let (have, want) = (self[i], wanted[i]);
            (have != want).then(|| format!("word {i} of {} is {have:#x}, not {want:#x}", self.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_through_formats_leaves_its_trace() {
        let value = Words::<true>::fresh(WIDE, 4, 7);
        let to = |value: &Words<true>, format| value.convert(format).unwrap();
        assert_ne!(to(&value, QUARTER), to(&to(&value, HALF), QUARTER));
        assert_ne!(to(&to(&value, HALF), WIDE), value);
        assert_ne!(to(&to(&value, QUARTER), HALF), to(&value, HALF));
        assert!(value.convert(NO_FORMAT).is_none());
        assert_eq!(<Words<true> as Data>::size_as(&value.meta(), QUARTER), Some(8));
    }

    #[test]
    fn sums_do_not_depend_on_their_order() {
        for format in FORMATS {
            let start = Words::<true>::fresh(format, 3, 1);
            let (mut direct, mut partial, mut by_parts) = (start.clone(), start.zeros(), start.clone());
            Words::<true>::add(&mut &mut direct, 2);
            Words::<true>::add(&mut &mut direct, 3);
            Words::<true>::add(&mut &mut partial, 3);
            Words::<true>::add(&mut &mut by_parts, 2);
            by_parts.plus(&partial);
            assert_eq!(direct, by_parts);
        }
    }
}
