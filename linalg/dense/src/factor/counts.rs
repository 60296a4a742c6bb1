//! Counts of products by precision, taken when they run, so that deferred selections count with
//! their actual precision.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use zellige_kernels::GemmPrecision;

/// Precisions, in the order of [`GemmPrecision::ALL`].
const KINDS: usize = GemmPrecision::ALL.len();

/// Products per updated tile and precision, over all runs since the last
/// [`reset`](GemmCounts::reset).
pub struct GemmCounts {
    rows: usize,
    cols: usize,
    cells: Vec<[AtomicU32; KINDS]>,
}

fn index(precision: GemmPrecision) -> usize {
    let at = GemmPrecision::ALL.iter().position(|&p| p == precision);
    at.expect("ALL lists every precision")
}

impl GemmCounts {
    pub(crate) fn new(rows: usize, cols: usize) -> Self {
        let cells = (0..rows * cols).map(|_| Default::default()).collect();
        GemmCounts { rows, cols, cells }
    }

    pub(crate) fn count(&self, i: usize, j: usize, precision: GemmPrecision) {
        self.cells[i * self.cols + j][index(precision)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of tile rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Products on tile `(i, j)` in `precision`; 0 outside of the matrix.
    pub fn at(&self, i: usize, j: usize, precision: GemmPrecision) -> u32 {
        if i >= self.rows || j >= self.cols {
            return 0;
        }
        self.cells[i * self.cols + j][index(precision)].load(Ordering::Relaxed)
    }

    /// Products in `precision`.
    pub fn count_of(&self, precision: GemmPrecision) -> u64 {
        let at = index(precision);
        let cells = self.cells.iter();
        cells.map(|cell| u64::from(cell[at].load(Ordering::Relaxed))).sum()
    }

    /// Products in all.
    pub fn total(&self) -> u64 {
        GemmPrecision::ALL.iter().map(|&p| self.count_of(p)).sum()
    }

    /// Returns the share of `precision` among all products, 0 to 1; 0 if there were none.
    pub fn share(&self, precision: GemmPrecision) -> f64 {
        match self.total() {
            0 => 0.0,
            total => self.count_of(precision) as f64 / total as f64,
        }
    }

    /// Returns the share of the products with operands narrower than the element type or rounded, 0
    /// to 1.
    pub fn low_share(&self) -> f64 {
        let full = [GemmPrecision::Dp, GemmPrecision::Sp];
        let low = GemmPrecision::ALL.iter().filter(|p| !full.contains(p));
        low.map(|&p| self.share(p)).sum()
    }

    /// Returns every precision that occurred, with its share.
    pub fn shares(&self) -> Vec<(GemmPrecision, f64)> {
        let all = GemmPrecision::ALL.iter().map(|&p| (p, self.share(p)));
        all.filter(|&(_, share)| share > 0.0).collect()
    }

    /// Returns all counts, row by row of tiles, in the order of [`GemmPrecision::ALL`] for each.
    pub fn to_vec(&self) -> Vec<u32> {
        self.cells.iter().flatten().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Adds the counts of another rank, given as its [`to_vec`](GemmCounts::to_vec).
    pub fn add(&self, others: &[u32]) {
        for (count, other) in self.cells.iter().flatten().zip(others) {
            count.fetch_add(*other, Ordering::Relaxed);
        }
    }

    /// Sets every count to 0, e.g. between two replays.
    pub fn reset(&self) {
        for count in self.cells.iter().flatten() {
            count.store(0, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for GemmCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GemmCounts({} products: {:?})", self.total(), self.shares())
    }
}
