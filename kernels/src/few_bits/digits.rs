//! Vectors in fixed point, for products with integers.

use std::ops::Range;

/// Number of digits of an entry.
pub(super) const DIGITS: usize = 3;

/// Rounds to an integer where it is added.
const ROUND: f32 = 1.5 * (1 << 23) as f32;

/// A digit of four entries.
pub(super) type FourDigits = [i8; 4];

/// A vector in fixed point: three digits of 8 bits for each entry, from -128 to 127, with a unit
/// for each group of entries. An entry is rounded by at most `2^-22` of the largest one of its
/// group.
#[derive(Clone, Debug, PartialEq)]
pub struct Digits {
    /// Digits of all entries, least significant ones first, each with three more at the end.
    planes: [Vec<i8>; DIGITS],
    /// Sums of the digits of each group.
    sums: Vec<[i32; DIGITS]>,
    /// Units: powers of two, or not a number if the group has an entry that is not finite.
    units: Vec<f32>,
}

impl Digits {
    /// Makes a vector of zeros. It may be divided into any groups.
    pub fn new(entries: usize) -> Self {
        Digits {
            planes: [(); DIGITS].map(|()| vec![0; entries + 3]),
            sums: vec![[0; DIGITS]; entries],
            units: vec![0.0; entries],
        }
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        self.units.len()
    }

    /// Replaces the entries of `groups` by those of `x`. `edges` has the first entry of each group,
    /// and the number of entries.
    ///
    /// # Panics
    /// `x` or the groups do not fit.
    pub fn put(&mut self, edges: &[usize], groups: Range<usize>, x: &[f32]) {
        assert_eq!((x.len(), edges.last()), (self.entries(), Some(&self.entries())), "entries");
        for group in groups {
            let entries = edges[group]..edges[group + 1];
            let x = &x[entries.clone()];
            // Values that are not finite have the largest exponent.
            let exponent = x.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff)) >> 23;
            // The largest entry is below 2^22 units.
            let unit = exponent.saturating_sub(21).max(1);
            let power = |biased: u32| f32::from_bits(biased << 23);
            let per_unit = if exponent < 255 { power(254 - unit) } else { 0.0 };
            self.units[group] = if exponent < 255 { power(unit) } else { f32::NAN };
            let [low, middle, high] = &mut self.planes;
            let mut sums = [0; DIGITS];
            let planes =
                low[entries.clone()].iter_mut().zip(&mut middle[entries.clone()]).zip(&mut high[entries]);
            for (((low, middle), high), x) in planes.zip(x) {
                // An integer of up to 22 bits ends up in the last bits of the sum.
                let value = (x * per_unit + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32;
                *low = value as i8;
                let value = (value - i32::from(*low)) >> 8;
                *middle = value as i8;
                *high = ((value - i32::from(*middle)) >> 8) as i8;
                sums[0] += i32::from(*low);
                sums[1] += i32::from(*middle);
                sums[2] += i32::from(*high);
            }
            self.sums[group] = sums;
        }
    }

    /// Returns the digits of `entries`, four by four, and of up to three more.
    #[inline(always)]
    pub(super) fn of(&self, entries: Range<usize>) -> [&[FourDigits]; DIGITS] {
        let end = entries.start + entries.len().next_multiple_of(4);
        let [low, middle, high] = &self.planes;
        [low, middle, high].map(|plane| plane[entries.start..end].as_chunks().0)
    }

    #[inline(always)]
    pub(super) fn sums(&self, group: usize) -> [i32; DIGITS] {
        self.sums[group]
    }

    #[inline(always)]
    pub(super) fn unit(&self, group: usize) -> f32 {
        self.units[group]
    }
}

/// Places of the records of groups, as GPUs read them.
///
/// The record of a group has its unit, the sums of its three digits, then for each digit, least
/// significant ones first, the digits of four entries in each word; entries beyond the last one are
/// 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// First word of each record, and the number of words.
    places: Vec<u32>,
}

/// Words of a record before the digits.
const HEAD: usize = 1 + DIGITS;

impl Records {
    /// Places the records of the groups of a vector. `edges` has the first entry of each group, and
    /// the number of entries.
    pub fn new(edges: &[usize]) -> Self {
        let words = edges.windows(2).map(|of| HEAD + DIGITS * (of[1] - of[0]).div_ceil(4));
        let places = std::iter::once(0).chain(words.scan(0, |sum, words| {
            *sum += words as u32;
            Some(*sum)
        }));
        Records { places: places.collect() }
    }

    /// Returns the largest number of words that records of so many entries take in any groups.
    pub fn most_words(entries: usize) -> usize {
        entries * (HEAD + DIGITS)
    }

    /// Returns the first word of each record, and the number of words.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// Returns the words of the records of `groups`.
    ///
    /// # Panics
    /// There are no such groups.
    pub fn words(&self, groups: Range<usize>) -> Range<usize> {
        self.places[groups.start] as usize..self.places[groups.end] as usize
    }

    /// Writes the records of `groups` of `x` to `words`, which begin with that of the first group.
    ///
    /// # Panics
    /// `x` has other groups, the number of words is not that of the groups, or a group is empty.
    pub fn write(&self, x: &Digits, edges: &[usize], groups: Range<usize>, words: &mut [u32]) {
        assert_eq!(
            (words.len(), edges.len()),
            (self.words(groups.clone()).len(), self.places.len()),
            "words"
        );
        let mut rest = words;
        for group in groups {
            let entries = edges[group]..edges[group + 1];
            let fours = entries.len().div_ceil(4);
            let (record, others) = rest.split_at_mut(HEAD + DIGITS * fours);
            rest = others;
            record[0] = x.units[group].to_bits();
            for (word, sum) in record[1..].iter_mut().zip(x.sums[group]) {
                *word = sum as u32;
            }
            for (words, plane) in record[HEAD..].chunks_mut(fours).zip(&x.planes) {
                for (word, four) in words.iter_mut().zip(plane[entries.clone()].chunks(4)) {
                    *word = four.iter().rev().fold(0, |word, &digit| word << 8 | u32::from(digit as u8));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_rounded_by_little_of_the_largest_of_their_group() {
        let x = [0.0, 1.0, -0.3, 1e-9, -3e38, 2.5e38, 0.0, 1e-45, -2e-38, 0.0, 0.0];
        let edges = [0, 4, 6, 8, 9, 11];
        let mut digits = Digits::new(11);
        digits.put(&edges, 0..5, &x);
        for group in 0..5 {
            let entries = edges[group]..edges[group + 1];
            let largest = x[entries.clone()].iter().fold(0f64, |most, &x| most.max(f64::from(x).abs()));
            let mut sums = [0; DIGITS];
            for j in entries {
                let of_entry = [0, 1, 2].map(|d| i32::from(digits.planes[d][j]));
                let value = of_entry[0] + 256 * of_entry[1] + 65536 * of_entry[2];
                let value = f64::from(value) * f64::from(digits.unit(group));
                // The smallest unit is the smallest normal number.
                let most = (largest * 2f64.powi(-22)).max(f64::from(f32::MIN_POSITIVE) / 2.0);
                assert!((value - f64::from(x[j])).abs() <= most, "entry {j}: {value} of {}", x[j]);
                (0..DIGITS).for_each(|d| sums[d] += of_entry[d]);
            }
            assert_eq!(digits.sums(group), sums);
        }
    }
}
