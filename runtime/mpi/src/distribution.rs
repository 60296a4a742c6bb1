//! Ownership of data by ranks.

/// Maps every element of a grid, or of a row, to a rank: a function of its position, the same on
/// every rank. Any `Fn(usize, usize) -> usize` is one.
pub trait Distribution {
    /// Returns the rank that owns the element in this row and column.
    fn owner(&self, row: usize, column: usize) -> usize;
}

impl<F: Fn(usize, usize) -> usize> Distribution for F {
    fn owner(&self, row: usize, column: usize) -> usize {
        self(row, column)
    }
}

/// Two-dimensional block-cyclic distribution: blocks of `block x block` elements are distributed
/// over a grid of `rows x columns` ranks, row after row. With one row or one column of ranks, and
/// one row of elements, this is the one-dimensional cyclic distribution.
///
/// ```
/// use zellige_mpi::{BlockCyclic, Distribution};
///
/// let four = BlockCyclic::of(4); // a grid of 2 x 2 ranks
/// assert_eq!([(0, 0), (0, 1), (1, 0), (5, 3)].map(|(i, j)| four.owner(i, j)), [0, 1, 2, 3]);
/// let rows = BlockCyclic::new(3, 1).blocks(2); // two rows each
/// assert_eq!([0, 1, 2, 3, 6].map(|i| rows.owner(i, 7)), [0, 0, 1, 1, 0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCyclic {
    rows: usize,
    columns: usize,
    block: usize,
}

impl BlockCyclic {
    /// Creates the distribution on a grid of `rows x columns` ranks, each at least 1.
    pub fn new(rows: usize, columns: usize) -> Self {
        BlockCyclic { rows: rows.max(1), columns: columns.max(1), block: 1 }
    }

    /// Creates the distribution on the grid of `ranks` ranks that is closest to a square, with no
    /// more rows than columns.
    pub fn of(ranks: usize) -> Self {
        let ranks = ranks.max(1);
        let divides = |rows: &usize| rows * rows <= ranks && ranks.is_multiple_of(*rows);
        let rows = (1..=ranks).filter(divides).max().unwrap_or(1);
        BlockCyclic::new(rows, ranks / rows)
    }

    /// Returns the rows and columns of the grid of ranks.
    pub fn grid(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// Sets the block size to `edge x edge` elements, at least 1.
    #[must_use]
    pub fn blocks(self, edge: usize) -> Self {
        BlockCyclic { block: edge.max(1), ..self }
    }
}

impl Distribution for BlockCyclic {
    fn owner(&self, row: usize, column: usize) -> usize {
        (row / self.block % self.rows) * self.columns + column / self.block % self.columns
    }
}

/// One-dimensional distribution with one block of consecutive elements per rank. The first blocks
/// are larger by one if the number of elements is no multiple of the number of ranks. The column
/// does not matter.
///
/// ```
/// use zellige_mpi::{Contiguous, Distribution};
///
/// let parts = Contiguous::new(10, 4);
/// assert_eq!((0..10).map(|i| parts.owner(i, 0)).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contiguous {
    elements: usize,
    ranks: usize,
}

impl Contiguous {
    /// Distributes `elements` elements over `ranks` ranks, at least 1.
    pub fn new(elements: usize, ranks: usize) -> Self {
        Contiguous { elements, ranks: ranks.max(1) }
    }
}

impl Distribution for Contiguous {
    fn owner(&self, row: usize, _column: usize) -> usize {
        let (each, larger) = (self.elements / self.ranks, self.elements % self.ranks);
        let first = larger * (each + 1);
        let owner = if row < first { row / (each + 1) } else { larger + (row - first) / each.max(1) };
        owner.min(self.ranks - 1)
    }
}
