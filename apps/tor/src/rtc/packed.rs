//! Packed reconstructors.

use crate::files::{RoundedMatrix, fits, npy};
use crate::{Error, Matrix};
use std::ops::Range;
use std::path::Path;
use zellige_kernels::few_bits::{Digits, FewBits, ROWS};
use zellige_kernels::row_blocks::RowBlocks;

/// Number of columns of a group of a float32 matrix.
const GROUP: usize = 32;

/// A reconstructor, commands x slopes, stored for products: blocks of 64 rows, and groups of
/// columns within them.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// First column of each group, and the number of columns.
    edges: Vec<usize>,
    mean_bits: f64,
    entries: Entries,
}

#[derive(Debug, Clone, PartialEq)]
enum Entries {
    Float(RowBlocks),
    Few(FewBits),
}

/// Slopes of a frame, for products with any packed matrix.
#[derive(Debug)]
pub(super) struct FrameSlopes {
    pub(super) values: Vec<f32>,
    /// For products with few bits.
    pub(super) digits: Digits,
}

impl FrameSlopes {
    /// Makes slopes of 0.
    pub(super) fn new(count: usize) -> Self {
        FrameSlopes { values: vec![0.0; count], digits: Digits::new(count) }
    }
}

impl Packed {
    /// Packs a matrix in float32, in groups of 32 columns.
    ///
    /// # Errors
    /// A matrix without rows or columns, or an entry that is not finite in float32.
    pub fn of_matrix(matrix: &Matrix) -> Result<Self, Error> {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        if let Some(entry) = matrix.data().iter().find(|entry| !(**entry as f32).is_finite()) {
            return Err(Error::numeric("reconstructor", format!("{entry} is not finite in float32")));
        }
        let float = RowBlocks::new(rows, cols, |i, j| matrix.col(j)[i] as f32);
        let edges = (0..cols).step_by(GROUP).chain([cols]).collect();
        Packed { edges, mean_bits: 32.0, entries: Entries::Float(float) }.not_empty()
    }

    /// Packs a matrix in few bits.
    ///
    /// # Errors
    /// A matrix without rows or columns, or a scale that is no bfloat16 number.
    pub fn of_rounded(matrix: &RoundedMatrix) -> Result<Self, Error> {
        let few = matrix.pack()?;
        let mean_bits = matrix.mean_bits();
        Packed { edges: few.edges().to_vec(), mean_bits, entries: Entries::Few(few) }.not_empty()
    }

    /// Reads a reconstructor: npz and FITS files in few bits as they are; other FITS, npy and other
    /// arrays in float32.
    ///
    /// # Errors
    /// The file cannot be read, or holds no such matrix.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if RoundedMatrix::is_in(path) {
            Packed::of_rounded(&RoundedMatrix::read(path)?)
        } else if fits::is_fits(path) || fits::names_image(path) {
            Packed::of_matrix(&fits::read_matrix(path, None)?)
        } else {
            Packed::of_matrix(&npy::read(path)?)
        }
    }

    fn not_empty(self) -> Result<Self, Error> {
        match self.shape() {
            (0, _) | (_, 0) => Err(Error::shape("reconstructor", "it has no rows or no columns")),
            _ => Ok(self),
        }
    }

    /// Returns `(rows, columns)`: numbers of commands and of slopes.
    pub fn shape(&self) -> (usize, usize) {
        match &self.entries {
            Entries::Float(float) => float.shape(),
            Entries::Few(few) => few.shape(),
        }
    }

    /// Returns the mean number of bits of an entry, without scales: 2 to 16 of integers, 32 in
    /// float32.
    pub fn mean_bits(&self) -> f64 {
        self.mean_bits
    }

    /// Returns the bytes that a product reads.
    pub fn bytes(&self) -> usize {
        match &self.entries {
            Entries::Float(float) => size_of_val(float.values()),
            Entries::Few(few) => few.bytes(),
        }
    }

    /// Returns a checksum of shape, format and entries (FNV-1a of words of 64 bits).
    pub fn checksum(&self) -> u64 {
        let (rows, cols) = self.shape();
        let head = [rows, cols].into_iter().chain(self.edges.iter().copied()).map(|size| size as u64);
        let sum = head.fold(0xcbf2_9ce4_8422_2325, add_word);
        match &self.entries {
            Entries::Float(float) => {
                float.values().iter().map(|v| u64::from(v.to_bits())).fold(add_word(sum, 32), add_word)
            }
            Entries::Few(few) => {
                few.bits().chunks(8).chain(few.data().chunks(8)).map(word).fold(sum, add_word)
            }
        }
    }

    /// Returns the matrix if it is one of few bits.
    pub(super) fn few_bits(&self) -> Option<&FewBits> {
        match &self.entries {
            Entries::Float(_) => None,
            Entries::Few(few) => Some(few),
        }
    }

    /// Returns the first column of each group, and the number of columns.
    pub(super) fn edges(&self) -> &[usize] {
        &self.edges
    }

    pub(super) fn groups(&self) -> usize {
        self.edges.len() - 1
    }

    /// Returns the number of groups that are multiplied at a time.
    pub(super) fn run(&self) -> usize {
        match &self.entries {
            Entries::Float(_) => self.groups().div_ceil(16),
            Entries::Few(few) => few.run(),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.shape().0.div_ceil(ROWS)
    }

    /// Brings slopes of groups of columns into the form that products take.
    pub(super) fn prepare(&self, groups: Range<usize>, x: &mut FrameSlopes) {
        if let Entries::Few(_) = &self.entries {
            x.digits.put(&self.edges, groups, &x.values);
        }
    }

    /// Adds the products of blocks of rows with groups of columns, which are
    /// [prepared](Packed::prepare), to `sums`.
    pub(super) fn multiply(
        &self,
        blocks: Range<usize>,
        groups: Range<usize>,
        x: &FrameSlopes,
        sums: &mut [[f32; ROWS]],
    ) {
        match &self.entries {
            Entries::Float(float) => {
                let columns = self.edges[groups.start]..self.edges[groups.end];
                for (block, sums) in blocks.zip(sums) {
                    float.multiply_block(block, columns.clone(), &x.values, sums);
                }
            }
            Entries::Few(few) => few.multiply_blocks(blocks, groups, &x.digits, sums),
        }
    }
}

fn add_word(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x0100_0000_01b3)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}
