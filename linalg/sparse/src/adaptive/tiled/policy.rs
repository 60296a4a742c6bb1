//! Formats that differ from block to block of rows.

use std::ops::Range;

use super::super::{Accuracy, FormatSet};
use crate::csr::{Csr, abs_sum};

/// Policy that chooses the formats of a block of rows, like a precision policy for tiles of dense
/// matrices. Blocks are the parts of a [`Space`](zellige_krylov::Space), whose numbers depend on
/// the size of the matrix only.
pub trait StoragePolicy {
    /// Returns the format set of block `id`, for products that are accurate to `accuracy`.
    fn choose(&self, id: usize, norms: &BlockNorms, accuracy: Accuracy) -> FormatSet;
}

/// Norms of a block, the input of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockNorms {
    /// Rows of the block.
    pub rows: Range<usize>,
    /// Number of its nonzeros.
    pub nonzeros: usize,
    /// The largest magnitude of a nonzero.
    pub largest: f64,
    /// The largest sum of magnitudes of a row: its infinity norm.
    pub norm: f64,
    /// The infinity norm of the matrix.
    pub of_matrix: f64,
}

impl BlockNorms {
    pub(super) fn of(a: &Csr, rows: Range<usize>, of_matrix: f64) -> BlockNorms {
        let mut norms = BlockNorms { rows: rows.clone(), nonzeros: 0, largest: 0.0, norm: 0.0, of_matrix };
        for (_, value) in rows.map(|i| a.row(i)) {
            norms.nonzeros += value.len();
            norms.largest = value.iter().fold(norms.largest, |most, value| most.max(value.abs()));
            norms.norm = norms.norm.max(abs_sum(value));
        }
        norms
    }
}

/// Chooses one set for all blocks.
impl StoragePolicy for FormatSet {
    fn choose(&self, _: usize, _: &BlockNorms, _: Accuracy) -> FormatSet {
        *self
    }
}

impl<F: Fn(usize, &BlockNorms, Accuracy) -> FormatSet> StoragePolicy for F {
    fn choose(&self, id: usize, norms: &BlockNorms, accuracy: Accuracy) -> FormatSet {
        self(id, norms, accuracy)
    }
}
