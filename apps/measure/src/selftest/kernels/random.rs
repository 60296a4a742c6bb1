//! Random tiles, the same on every machine.

use crate::random::Random;

use super::dense::Dense;

/// Numbers of a seed, and tiles of them.
pub(super) struct Tiles(Random);

impl Tiles {
    pub(super) fn new(seed: u64) -> Self {
        Tiles(Random::new(seed))
    }

    /// Returns a number in [0, most).
    pub(super) fn below(&mut self, most: usize) -> usize {
        self.0.below(most)
    }

    /// Returns a number in (-1, 1).
    pub(super) fn number(&mut self) -> f64 {
        self.0.number()
    }

    /// A length up to `largest`: every other one a multiple of 16, as tensor cores like it, and the
    /// others odd ones too.
    pub(super) fn length(&mut self, largest: usize) -> usize {
        let length = 1 + self.below(largest);
        if self.below(2) == 0 { length } else { length.next_multiple_of(16).min(largest) }
    }

    /// Returns a matrix of numbers in (-1, 1), times a random unit.
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
