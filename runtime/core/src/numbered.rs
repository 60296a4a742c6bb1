//! Hash tables keyed by consecutive numbers. The keys are not chosen by users, so that nobody can
//! force collisions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::splitmix::STEP;

/// A hash table keyed by consecutive numbers.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// A multiplicative hash: an odd factor keeps the low bits of neighbours distinct and spreads them
/// over the high bits.
#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(STEP);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
