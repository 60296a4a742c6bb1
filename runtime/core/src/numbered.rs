//! Hash tables whose keys are numbers that were given out one after the other: nobody chooses them
//! to collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::splitmix::STEP;

/// A table by such numbers.
pub(crate) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// An odd factor leaves the low bits of neighbours apart, and spreads them over the high ones.
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
