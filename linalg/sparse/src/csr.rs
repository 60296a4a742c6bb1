//! CSR matrices in `f64`.

use std::ops::Range;

use zellige_kernels::RealNumber;
use zellige_krylov::Error;

/// A sparse matrix in CSR: columns increase strictly within a row, and all values are finite.
///
/// Zeros may be stored; see [`without_zeros`](Csr::without_zeros).
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    columns: usize,
    /// Start of each row in the other two arrays, and the end of the last one.
    starts: Vec<usize>,
    column: Vec<u32>,
    value: Vec<f64>,
}

/// An entry: row, column, value.
pub type Triplet = (u32, u32, f64);

/// Rows and columns are numbered with 32 bits.
pub(crate) fn check_size(rows: usize, columns: usize) -> Result<(), Error> {
    let limit = u32::MAX as usize;
    if rows > limit || columns > limit {
        let problem = format!("{rows} x {columns} has more than {limit} rows or columns");
        return Err(Error::shape("matrix", problem));
    }
    Ok(())
}

impl Csr {
    /// Creates a matrix from these arrays: row `i` has the nonzeros `starts[i] .. starts[i + 1]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays that do not fit each other, columns that do not increase or are
    /// too large, and non-finite values.
    pub fn new(columns: usize, starts: Vec<usize>, column: Vec<u32>, value: Vec<f64>) -> Result<Csr, Error> {
        let rows = starts.len().saturating_sub(1);
        check_size(rows, columns)?;
        let fits = starts.first() == Some(&0)
            && starts.is_sorted()
            && starts.last() == Some(&column.len())
            && column.len() == value.len();
        if !fits {
            let problem = "row starts, columns and values do not fit each other: starts rise from 0 to the number of nonzeros";
            return Err(Error::shape("matrix", problem));
        }
        let matrix = Csr { columns, starts, column, value };
        for i in 0..rows {
            let (column, value) = matrix.row(i);
            if !column.is_sorted_by(|a, b| a < b)
                || column.last().is_some_and(|&last| last as usize >= columns)
            {
                return Err(Error::shape(
                    "matrix",
                    format!("columns of row {i} do not rise, or are {columns} or more"),
                ));
            }
            if let Some(at) = value.iter().position(|value| !value.is_finite()) {
                return Err(Error::shape("matrix", format!("entry ({i}, {}) is {}", column[at], value[at])));
            }
        }
        Ok(matrix)
    }

    /// Creates a matrix of these entries, in any order; duplicates are added in the given order.
    ///
    /// # Errors
    /// Those of [`new`](Csr::new), and [`Error::Shape`] for an entry outside of the matrix.
    pub fn from_triplets(rows: usize, columns: usize, triplets: &[Triplet]) -> Result<Csr, Error> {
        check_size(rows, columns)?;
        if let Some((i, j, _)) = triplets.iter().find(|t| t.0 as usize >= rows || t.1 as usize >= columns) {
            return Err(Error::shape("matrix", format!("entry ({i}, {j}) is outside of {rows} x {columns}")));
        }
        let mut gather = Gather::new(rows);
        triplets.iter().for_each(|t| gather.count(t.0));
        gather.allocate();
        triplets.iter().for_each(|&(i, j, value)| gather.put(i, j, value));
        gather.finish(columns)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of stored entries.
    pub fn nonzeros(&self) -> usize {
        self.column.len()
    }

    /// Returns the columns and values of row `i`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, i: usize) -> (&[u32], &[f64]) {
        let range = self.starts[i]..self.starts[i + 1];
        (&self.column[range.clone()], &self.value[range])
    }

    /// Returns the row starts with the end of the last row, the columns, and the values.
    pub(crate) fn arrays(&self) -> (&[usize], &[u32], &[f64]) {
        (&self.starts, &self.column, &self.value)
    }

    /// Columns and values of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u32], &[f64])> {
        (0..self.rows()).map(|i| self.row(i))
    }

    /// Returns the entry at a position; 0 if none is stored.
    pub fn get(&self, i: usize, j: usize) -> f64 {
        let (column, value) = self.row(i);
        u32::try_from(j).ok().and_then(|j| column.binary_search(&j).ok()).map_or(0.0, |at| value[at])
    }

    /// Returns the matrix without the stored zeros.
    pub fn without_zeros(self) -> Csr {
        if !self.value.contains(&0.0) {
            return self;
        }
        self.map_nonzeros(|_, _, value| Some(value).filter(|&value| value != 0.0))
    }

    /// Returns the matrix of the values that `map` returns for each entry with its row and column;
    /// entries with `None` are removed.
    pub(crate) fn map_nonzeros(mut self, mut map: impl FnMut(usize, u32, f64) -> Option<f64>) -> Csr {
        let mut kept = 0;
        for i in 0..self.rows() {
            let range = self.starts[i]..self.starts[i + 1];
            self.starts[i] = kept;
            for at in range {
                if let Some(value) = map(i, self.column[at], self.value[at]) {
                    (self.column[kept], self.value[kept]) = (self.column[at], value);
                    kept += 1;
                }
            }
        }
        *self.starts.last_mut().expect("one more than rows") = kept;
        self.column.truncate(kept);
        self.value.truncate(kept);
        self
    }

    /// Returns the matrix on the same pattern with the value that `map` returns for each entry with
    /// its row and column.
    pub(crate) fn map_values(&self, mut map: impl FnMut(usize, u32, f64) -> f64) -> Csr {
        let mut value = Vec::with_capacity(self.value.len());
        for (i, (columns, values)) in self.iter().enumerate() {
            value.extend(columns.iter().zip(values).map(|(&j, &value)| map(i, j, value)));
        }
        Csr { columns: self.columns, starts: self.starts.clone(), column: self.column.clone(), value }
    }

    /// Returns the transpose.
    pub fn transposed(&self) -> Csr {
        let mut gather = Gather::new(self.columns);
        self.column.iter().for_each(|&j| gather.count(j));
        gather.allocate();
        for (i, (column, value)) in self.iter().enumerate() {
            column.iter().zip(value).for_each(|(&j, &value)| gather.put(j, i as u32, value));
        }
        gather.finish(self.rows()).expect("what was a matrix is one")
    }

    /// Returns the real matrix of twice the size that represents this one as a complex matrix (see
    /// [`market`](crate::files::market)).
    ///
    /// # Errors
    /// [`Error::Shape`] if it is too large.
    pub fn as_complex(&self) -> Result<Csr, Error> {
        check_size(2 * self.rows(), 2 * self.columns)?;
        let mut gather = Gather::new(2 * self.rows());
        let each = |nonzero: &mut dyn FnMut(u32, u32, f64)| {
            for (i, (column, value)) in self.iter().enumerate() {
                for part in 0..2 {
                    let of_row = column.iter().zip(value);
                    of_row.for_each(|(&j, &value)| nonzero(2 * i as u32 + part, 2 * j + part, value));
                }
            }
        };
        each(&mut |i, _, _| gather.count(i));
        gather.allocate();
        each(&mut |i, j, value| gather.put(i, j, value));
        gather.finish(2 * self.columns)
    }

    /// Returns true if every `a_ij` equals `a_ji`, to the bit.
    pub fn is_symmetric(&self) -> bool {
        if self.rows() != self.columns {
            return false;
        }
        // Row after row: each nonzero before the diagonal has to equal the next nonzero after the
        // diagonal of the row above.
        let behind = |i: usize| self.starts[i] + self.row(i).0.partition_point(|&j| j as usize <= i);
        let mut next: Vec<usize> = (0..self.rows()).map(behind).collect();
        for i in 0..self.rows() {
            let (column, value) = self.row(i);
            for (&j, &value) in column.iter().zip(value).take_while(|(j, _)| (**j as usize) < i) {
                let (at, end) = (&mut next[j as usize], self.starts[j as usize + 1]);
                if *at == end || self.column[*at] as usize != i || self.value[*at] != value {
                    return false;
                }
                *at += 1;
            }
        }
        next == self.starts[1..]
    }

    /// Returns `max_i sum_j |a_ij|`.
    pub fn norm_inf(&self) -> f64 {
        self.iter().map(|(_, value)| abs_sum(value)).fold(0.0, f64::max)
    }

    /// Returns the matrix times `2^exponent`.
    ///
    /// # Errors
    /// [`Error::Shape`] if a value becomes infinite.
    pub fn scaled(self, exponent: i32) -> Result<Csr, Error> {
        let matrix = self.map_nonzeros(|_, _, value| Some(libm::ldexp(value, exponent)));
        match matrix.value.iter().all(|value| value.is_finite()) {
            true => Ok(matrix),
            false => Err(Error::shape("matrix", format!("times 2^{exponent} it has infinite nonzeros"))),
        }
    }

    /// Computes `y = A x`, each row from left to right.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths.
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<(), Error> {
        self.check_vectors(x, y)?;
        self.multiply_rows(0..self.rows(), x, y);
        Ok(())
    }

    /// Computes these rows of `A x`, as many as there are in both. Values are exact numbers.
    ///
    /// # Panics
    /// For a shorter `x` than the matrix has columns, or rows that it does not have.
    pub fn multiply_rows<R: RealNumber>(&self, rows: Range<usize>, x: &[R], y: &mut [R]) {
        R::vectorize(
            #[inline(always)]
            || {
                for (y, i) in y.iter_mut().zip(rows.clone()) {
                    R::begin(i as u64);
                    let (column, value) = self.row(i);
                    let row = column.iter().zip(value);
                    *y = row.fold(R::from(0.0), |sum, (&j, &a)| sum + R::from(a) * x[j as usize]);
                }
            },
        );
    }

    /// Returns the block size of a matrix, if its blocks are nearly full: 1, 2, 3 or 4.
    pub fn block_size(&self) -> usize {
        let fits = |size: &usize| self.rows().is_multiple_of(*size) && self.columns.is_multiple_of(*size);
        let bytes_of_row = |size: usize| {
            let rows = self.rows() / size;
            let sample = || (0..rows).step_by(rows.div_ceil(SAMPLE).max(1));
            let blocks: usize = sample().map(|row| self.blocks_of(row, size)).sum();
            (blocks * (8 * size * size + 2)) as f64 / (sample().count() * size).max(1) as f64
        };
        let by_bytes = |one: &usize, other: &usize| bytes_of_row(*one).total_cmp(&bytes_of_row(*other));
        [1, 2, 3, 4].into_iter().filter(fits).min_by(by_bytes).unwrap_or(1)
    }

    /// Returns the number of blocks with nonzeros in a block row.
    fn blocks_of(&self, row: usize, size: usize) -> usize {
        let mut rows: Vec<&[u32]> = (0..size).map(|i| self.row(row * size + i).0).collect();
        let mut count = 0;
        while let Some(first) = rows.iter().filter_map(|columns| columns.first()).min() {
            let end = (first / size as u32 + 1) * size as u32;
            rows.iter_mut().for_each(|columns| *columns = &columns[columns.partition_point(|&j| j < end)..]);
            count += 1;
        }
        count
    }

    /// Returns `parts` ranges of rows with about equal numbers of nonzeros.
    pub fn even_rows(&self, parts: usize) -> Vec<Range<usize>> {
        let end = |part: usize| self.starts.partition_point(|&start| start < self.nonzeros() * part / parts);
        let ends =
            (0..=parts).map(|part| if part == parts { self.rows() } else { end(part).min(self.rows()) });
        let ends: Vec<usize> = ends.collect();
        ends.windows(2).map(|ends| ends[0]..ends[1]).collect()
    }

    pub(crate) fn check_vectors(&self, x: &[f64], y: &[f64]) -> Result<(), Error> {
        let (m, n) = (self.rows(), self.columns);
        if (x.len(), y.len()) == (n, m) {
            return Ok(());
        }
        let problem = format!("{} and {} for a matrix of {m} x {n}", x.len(), y.len());
        Err(Error::shape("lengths of x and y", problem))
    }

    /// Returns the bytes of its arrays in memory.
    pub fn memory(&self) -> u64 {
        let (starts, columns, values) = (self.starts.len(), self.column.len(), self.value.len());
        (size_of::<usize>() * starts + size_of::<u32>() * columns + size_of::<f64>() * values) as u64
    }

    /// Returns the bytes of the matrix in CSR with row starts of 32 bits: `4 (nonzeros +
    /// rows + 1) + 8 nonzeros` (thesis, section 3.4).
    pub fn bytes(&self) -> u64 {
        4 * (self.nonzeros() as u64 + self.rows() as u64 + 1) + 8 * self.nonzeros() as u64
    }
}

/// Number of block rows that are sampled for the block size.
const SAMPLE: usize = 100;

/// Returns `sum_j |a_j|`, from left to right.
pub(crate) fn abs_sum(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).sum()
}

/// Builder of a CSR matrix: counts the nonzeros of each row first and then fills them in, so that
/// no array grows.
pub(crate) struct Gather {
    /// Number of entries of each row, then the position of its next one.
    next: Vec<usize>,
    column: Vec<u32>,
    value: Vec<f64>,
}

impl Gather {
    pub(crate) fn new(rows: usize) -> Self {
        Gather { next: vec![0; rows + 1], column: Vec::new(), value: Vec::new() }
    }

    pub(crate) fn count(&mut self, i: u32) {
        self.next[i as usize] += 1;
    }

    /// Allocates the arrays; called once all entries are counted.
    pub(crate) fn allocate(&mut self) {
        let mut sum = 0;
        for next in &mut self.next {
            sum += std::mem::replace(next, sum);
        }
        self.column = vec![0; sum];
        self.value = vec![0.0; sum];
    }

    pub(crate) fn put(&mut self, i: u32, j: u32, value: f64) {
        let at = &mut self.next[i as usize];
        (self.column[*at], self.value[*at]) = (j, value);
        *at += 1;
    }

    /// Sorts rows that are not sorted, and adds duplicates.
    pub(crate) fn finish(mut self, columns: usize) -> Result<Csr, Error> {
        // The next position of each row is the start of the row after it.
        self.next.rotate_right(1);
        self.next[0] = 0;
        let (starts, mut column, mut value) = (self.next, self.column, self.value);
        let mut row = Vec::new();
        let mut has_twins = false;
        for range in starts.windows(2).map(|pair| pair[0]..pair[1]) {
            if !column[range.clone()].is_sorted() {
                row.clear();
                row.extend(range.clone().map(|at| (column[at], value[at])));
                row.sort_by_key(|&(j, _)| j);
                for (at, &(j, a)) in range.clone().zip(&row) {
                    (column[at], value[at]) = (j, a);
                }
            }
            has_twins |= column[range].windows(2).any(|pair| pair[0] == pair[1]);
        }
        if !has_twins {
            return Csr::new(columns, starts, column, value);
        }
        let (starts, kept) = add_twins(starts, &mut column, &mut value);
        column.truncate(kept);
        value.truncate(kept);
        Csr::new(columns, starts, column, value)
    }
}

/// Adds duplicates within a row; returns the new row starts and the number of remaining nonzeros.
fn add_twins(mut starts: Vec<usize>, column: &mut [u32], value: &mut [f64]) -> (Vec<usize>, usize) {
    let mut kept = 0;
    for i in 0..starts.len() - 1 {
        let range = starts[i]..starts[i + 1];
        let begin = kept;
        starts[i] = begin;
        for at in range {
            if kept > begin && column[kept - 1] == column[at] {
                value[kept - 1] += value[at];
            } else {
                (column[kept], value[kept]) = (column[at], value[at]);
                kept += 1;
            }
        }
    }
    *starts.last_mut().expect("one more than rows") = kept;
    (starts, kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_in_any_order_become_rows() {
        let a = Csr::from_triplets(3, 4, &[(2, 3, 1.0), (0, 2, 2.0), (0, 1, 3.0), (2, 3, 0.5), (2, 0, -1.0)])
            .unwrap();
        assert_eq!(a.row(0), (&[1, 2][..], &[3.0, 2.0][..]));
        assert_eq!(a.row(1), (&[][..], &[][..]));
        assert_eq!(a.row(2), (&[0, 3][..], &[-1.0, 1.5][..]));
        assert_eq!((a.get(2, 3), a.get(1, 1), a.norm_inf()), (1.5, 0.0, 5.0));
        let mut y = [0.0; 3];
        a.multiply(&[1.0, 10.0, 100.0, 1000.0], &mut y).unwrap();
        assert_eq!(y, [230.0, 0.0, 1499.0]);
        assert_eq!(a.bytes(), 4 * (4 + 4) + 8 * 4);
    }

    #[test]
    fn symmetry_is_of_places_and_values() {
        let of = |triplets: &[Triplet]| Csr::from_triplets(3, 3, triplets).unwrap().is_symmetric();
        assert!(of(&[]) && of(&[(1, 1, 1.0)]) && of(&[(0, 2, 1.0), (2, 0, 1.0), (1, 2, -1.0), (2, 1, -1.0)]));
        assert!(!of(&[(0, 2, 1.0), (2, 0, 1.5)]));
        assert!(!of(&[(0, 2, 1.0)]) && !of(&[(2, 0, 1.0)]));
        assert!(!of(&[(0, 1, 1.0), (0, 2, 1.0), (2, 0, 1.0)]) && !of(&[(0, 1, 1.0), (2, 0, 1.0)]));
        assert!(!Csr::from_triplets(2, 3, &[]).unwrap().is_symmetric());
    }

    #[test]
    fn what_is_no_matrix_is_an_error() {
        assert!(Csr::from_triplets(2, 2, &[(0, 2, 1.0)]).is_err());
        assert!(Csr::from_triplets(2, 2, &[(0, 1, f64::NAN)]).is_err());
        assert!(Csr::new(2, vec![0, 2], vec![1, 0], vec![1.0; 2]).is_err());
        assert!(Csr::new(2, vec![0, 1], vec![1, 0], vec![1.0; 2]).is_err());
        assert!(Csr::new(2, vec![], vec![], vec![]).is_err());
        assert!(Csr::from_triplets(1 << 33, 2, &[]).is_err());
        let a = Csr::from_triplets(2, 2, &[(0, 1, 1e300)]).unwrap();
        assert!(a.multiply(&[1.0; 3], &mut [0.0; 2]).is_err());
        assert!(a.scaled(100).is_err());
    }

    #[test]
    fn zeros_go_when_they_are_to() {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 0.0), (0, 1, 1.0), (1, 0, -0.0)]).unwrap();
        assert_eq!(a.nonzeros(), 3);
        let b = a.without_zeros();
        assert_eq!((b.nonzeros(), b.row(0).0, b.row(1).0), (1, &[1][..], &[][..]));
    }

    proptest! {
        #[test]
        fn transposing_twice_changes_nothing(
            triplets in prop::collection::vec((0..9u32, 0..7u32, -1.0..1.0f64), 0..40)
        ) {
            let a = Csr::from_triplets(9, 7, &triplets).unwrap();
            let t = a.transposed();
            prop_assert_eq!((t.rows(), t.columns()), (7, 9));
            for i in 0..9 {
                for j in 0..7 {
                    let sum: f64 = triplets
                        .iter()
                        .filter(|t| (t.0 as usize, t.1 as usize) == (i, j))
                        .map(|t| t.2)
                        .sum();
                    prop_assert_eq!(a.get(i, j), sum);
                    prop_assert_eq!(t.get(j, i), sum);
                }
            }
            prop_assert_eq!(t.transposed(), a);
        }

        #[test]
        fn symmetric_is_what_equals_its_transpose(
            triplets in prop::collection::vec((0..4u32, 0..4u32, 1..3i32), 0..9),
            mirrors in any::<bool>(),
        ) {
            let mut all: Vec<Triplet> = triplets.iter().map(|&(i, j, a)| (i, j, f64::from(a))).collect();
            if mirrors {
                all.extend(triplets.iter().map(|&(i, j, a)| (j, i, f64::from(a))));
            }
            let a = Csr::from_triplets(4, 4, &all).unwrap();
            prop_assert_eq!(a.is_symmetric(), a.transposed() == a);
        }
    }
}
