//! Random tiles, the same on every machine.

use super::dense::Dense;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [0, most).
    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.bits() % most.max(1) as u64) as usize
    }

    /// In (-1, 1).
    pub(crate) fn number(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A length up to `largest`: every other one a multiple of 16, as tensor cores like it, and the others odd ones too.
    pub(super) fn length(&mut self, largest: usize) -> usize {
        let length = 1 + self.below(largest);
        if self.below(2) == 0 { length } else { length.next_multiple_of(16).min(largest) }
    }

    /// Numbers in (-1, 1), in a unit of its own.
    pub(super) fn matrix(&mut self, rows: usize, cols: usize) -> Dense {
        let unit = 2f64.powi(self.below(41) as i32 - 20);
        Dense::from_fn(rows, cols, |_, _| self.number() * unit)
    }

    /// A lower triangle of moderate condition.
    pub(super) fn triangle(&mut self, n: usize) -> Dense {
        let unit = 2f64.powi(self.below(21) as i32 - 10);
        Dense::from_fn(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => unit * (1.5 + 0.5 * self.number()),
            std::cmp::Ordering::Greater => unit * self.number() / (n as f64).sqrt(),
        })
    }
}
