//! The generator of all random numbers in a case.

use zellige_runtime::internal::splitmix::{STEP, scramble};

/// The state of a sequence of numbers.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scramble(self.0)
    }

    /// Returns a number below `end`, which is above 0. The bias of the remainder does not matter
    /// here.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns a number in `from..=to`.
    pub(super) fn within(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// True in `percent` of all cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Combines two numbers into one that differs if one of them does.
pub(super) fn blend(a: u64, b: u64) -> u64 {
    scramble(a.rotate_left(17).wrapping_mul(STEP) ^ b.wrapping_add(0xd1b5_4a32_d192_ed03))
}
