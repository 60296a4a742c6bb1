//! Matching of rows with columns so that the product of the matched nonzeros is largest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use libm::{ldexp, log2};

use crate::csr::Csr;
use zellige_krylov::Error;

/// A matching of rows with columns that maximises the product of magnitudes, with its scalings
/// (Duff and Koster 2001; like the code MC64 of the HSL). With rows and columns multiplied by the
/// scalings, every matched nonzero has the magnitude 1 and no other a larger one, except for
/// rounding to powers of two.
///
/// Once each row is moved to its column, incomplete factors have pivots, also for matrices whose
/// diagonal has zeros or whose rows have other units.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// The row that each column is matched with.
    pub row_of: Vec<u32>,
    /// Row scales, powers of two.
    pub rows: Vec<f64>,
    /// Column scales, powers of two.
    pub columns: Vec<f64>,
}

/// Marker for no row, or no column.
const NONE: u32 = u32::MAX;

/// Number of rows that an error names.
const NAMED: usize = 8;

impl Matching {
    /// Computes the best matching of a square matrix. The choice among several is deterministic.
    ///
    /// # Errors
    /// [`Error::Shape`] for a matrix that is not square; [`Error::Unsolvable`] if some rows have
    /// nonzeros in too few columns (the matrix is structurally singular), or a column has none,
    /// with their numbers.
    pub fn new(a: &Csr) -> Result<Matching, Error> {
        if a.rows() != a.columns() {
            let problem = format!("{} x {}: only square ones are matched", a.rows(), a.columns());
            return Err(Error::shape("matrix", problem));
        }
        let bytes = 8 * a.nonzeros() as u64 + 64 * a.rows() as u64;
        Error::if_too_large(|| format!("a matching of {} nonzeros", a.nonzeros()), bytes)?;
        let mut search = Search::new(a);
        search.match_what_is_free();
        if let Some(column) = search.price.iter().position(|price| *price == f64::INFINITY) {
            let problem = format!("column {} is all zeros: the matrix is singular", column + 1);
            return Err(Error::unsolvable("matrix", problem));
        }
        for row in 0..a.rows() as u32 {
            if search.column_of[row as usize] == NONE {
                search.augment(row)?;
            }
        }
        Ok(search.matching())
    }
}

/// Search for shortest augmenting paths. The cost of a nonzero is the logarithm of the largest
/// magnitude of its row divided by its own, so all costs are at least 0. Prices of rows and columns
/// add up to the cost of a matched nonzero, and to at most the cost elsewhere.
struct Search<'a> {
    a: &'a Csr,
    /// Costs in the order of the nonzeros; infinite for stored zeros.
    cost: Vec<f64>,
    /// Start of each row's costs.
    starts: Vec<usize>,
    /// Logarithms of the largest magnitudes.
    largest: Vec<f64>,
    /// The prices of columns; of rows those that are free still have none.
    price: Vec<f64>,
    row_of: Vec<u32>,
    column_of: Vec<u32>,
    /// The cost of the nonzero that a row is matched by.
    paid: Vec<f64>,
    /// Distances of the columns in the search for one path; `from` has the rows that they are
    /// reached from and the cost of that step.
    distance: Vec<f64>,
    from: Vec<(u32, f64)>,
    is_settled: Vec<bool>,
}

/// A distance in a heap. No cost is NaN.
struct Distance(f64);

impl PartialEq for Distance {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Distance {}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Distance {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl<'a> Search<'a> {
    fn new(a: &'a Csr) -> Self {
        let n = a.rows();
        let (mut cost, mut starts, mut largest) =
            (Vec::with_capacity(a.nonzeros()), Vec::with_capacity(n), Vec::with_capacity(n));
        for (_, value) in a.iter() {
            starts.push(cost.len());
            // The logarithm of zero is minus infinity.
            let logs = || value.iter().map(|value| log2(value.abs()));
            let most = logs().fold(f64::NEG_INFINITY, f64::max);
            largest.push(most);
            cost.extend(logs().map(|log| if log > f64::NEG_INFINITY { most - log } else { f64::INFINITY }));
        }
        Search {
            a,
            cost,
            starts,
            largest,
            price: vec![0.0; n],
            row_of: vec![NONE; n],
            column_of: vec![NONE; n],
            paid: vec![0.0; n],
            distance: vec![f64::INFINITY; n],
            from: vec![(NONE, 0.0); n],
            is_settled: vec![false; n],
        }
    }

    /// Columns and costs of a row.
    fn row(&self, row: u32) -> impl Iterator<Item = (u32, f64)> + use<'a, '_> {
        let (columns, start) = (self.a.row(row as usize).0, self.starts[row as usize]);
        let costs = &self.cost[start..start + columns.len()];
        columns.iter().copied().zip(costs.iter().copied()).filter(|(_, cost)| cost.is_finite())
    }

    /// Prices columns by their cheapest nonzeros, and matches rows with columns for which nothing
    /// cheaper is possible.
    fn match_what_is_free(&mut self) {
        self.price.fill(f64::INFINITY);
        for row in 0..self.a.rows() as u32 {
            let (columns, start) = (self.a.row(row as usize).0, self.starts[row as usize]);
            for (&column, &cost) in columns.iter().zip(&self.cost[start..]) {
                let price = &mut self.price[column as usize];
                *price = price.min(cost);
            }
        }
        for row in 0..self.a.rows() as u32 {
            let least = self.least(row);
            let free = |(column, cost): &(u32, f64)| {
                self.row_of[*column as usize] == NONE && cost - self.price[*column as usize] <= least
            };
            let found = self.row(row).find(free);
            if let Some((column, cost)) = found {
                self.assign(row, column, cost);
            }
        }
    }

    /// Returns the price of a free row: the largest that keeps all reduced costs nonnegative.
    fn least(&self, row: u32) -> f64 {
        self.row(row).map(|(column, cost)| cost - self.price[column as usize]).fold(f64::INFINITY, f64::min)
    }

    fn assign(&mut self, row: u32, column: u32, cost: f64) {
        self.column_of[row as usize] = column;
        self.row_of[column as usize] = row;
        self.paid[row as usize] = cost;
    }

    /// Matches a row that is free, along the shortest path to a column that is free (Dijkstra).
    fn augment(&mut self, root: u32) -> Result<(), Error> {
        let mut heap = BinaryHeap::new();
        let (mut reached, mut settled) = (Vec::new(), Vec::new());
        let (mut row, mut length) = (root, 0.0);
        let mut own = self.least(root);
        // The free column that is nearest so far.
        let (mut best, mut end) = (f64::INFINITY, NONE);
        loop {
            let (columns, start) = (self.a.row(row as usize).0, self.starts[row as usize]);
            for (at, &column) in columns.iter().enumerate() {
                let (j, cost) = (column as usize, self.cost[start + at]);
                if cost == f64::INFINITY {
                    continue;
                }
                // Rounding makes differences negative that are none.
                let distance = length + (cost - own - self.price[j]).max(0.0);
                if self.is_settled[j] || distance >= self.distance[j].min(best) {
                    continue;
                }
                if self.distance[j] == f64::INFINITY {
                    reached.push(column);
                }
                (self.distance[j], self.from[j]) = (distance, (row, cost));
                if self.row_of[j] == NONE {
                    (best, end) = (distance, column);
                } else {
                    heap.push(Reverse((Distance(distance), column)));
                }
            }
            let next = loop {
                match heap.pop() {
                    Some(Reverse((Distance(distance), column))) if distance < best => {
                        if !self.is_settled[column as usize] && distance <= self.distance[column as usize] {
                            break Some((distance, column));
                        }
                    }
                    _ => break None,
                }
            };
            let Some((distance, column)) = next else { break };
            self.is_settled[column as usize] = true;
            settled.push(column);
            (length, row) = (distance, self.row_of[column as usize]);
            own = self.paid[row as usize] - self.price[column as usize];
        }
        if end == NONE {
            return Err(self.singular(root, &settled));
        }
        for column in settled {
            self.price[column as usize] += self.distance[column as usize] - best;
        }
        // Rows along the path give up their columns to those before them.
        let mut column = end;
        loop {
            let (row, cost) = self.from[column as usize];
            let given_up = self.column_of[row as usize];
            self.assign(row, column, cost);
            if row == root {
                break;
            }
            column = given_up;
        }
        for column in reached {
            self.distance[column as usize] = f64::INFINITY;
            self.is_settled[column as usize] = false;
        }
        Ok(())
    }

    /// Returns an error that names the rows with nonzeros in too few columns: those that were
    /// reached from one that found no column.
    fn singular(&self, root: u32, settled: &[u32]) -> Error {
        let mut rows: Vec<u32> = settled.iter().map(|&column| self.row_of[column as usize]).collect();
        rows.push(root);
        let problem = if let [row] = rows[..] {
            format!("row {} is all zeros: the matrix is singular", row + 1)
        } else {
            let (rows, columns) = (numbers(rows), numbers(settled.to_vec()));
            format!(
                "it is structurally singular: the {} rows {} have nonzeros in {} column{} only: {}",
                settled.len() + 1,
                rows,
                settled.len(),
                if settled.len() == 1 { "" } else { "s" },
                columns,
            )
        };
        Error::unsolvable("matrix", problem)
    }

    fn matching(self) -> Matching {
        let power = |log: f64| ldexp(1.0, libm::round(log).clamp(-1000.0, 1000.0) as i32);
        let of_row = |row: usize| {
            let price = self.paid[row] - self.price[self.column_of[row] as usize];
            power(price - self.largest[row])
        };
        Matching {
            rows: (0..self.a.rows()).map(of_row).collect(),
            columns: self.price.iter().map(|&price| power(price)).collect(),
            row_of: self.row_of,
        }
    }
}

/// Lists the first of some rows or columns, counted from 1.
fn numbers(mut all: Vec<u32>) -> String {
    all.sort_unstable();
    let named: Vec<String> = all.iter().take(NAMED).map(|i| (i + 1).to_string()).collect();
    let more = if all.len() > NAMED { ", ..." } else { "" };
    named.join(", ") + more
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zellige_tests::cases;

    use super::*;

    /// Returns the largest sum of logarithms of any permutation, by exhaustive search.
    fn best(a: &Csr) -> Option<f64> {
        fn from(a: &Csr, row: usize, is_taken: &mut Vec<bool>) -> Option<f64> {
            if row == a.rows() {
                return Some(0.0);
            }
            let mut most = None;
            for j in 0..a.rows() {
                let value = a.get(row, j);
                if value != 0.0 && !is_taken[j] {
                    is_taken[j] = true;
                    let sum = from(a, row + 1, is_taken).map(|sum| sum + log2(value.abs()));
                    most = [most, sum].into_iter().flatten().reduce(f64::max);
                    is_taken[j] = false;
                }
            }
            most
        }
        from(a, 0, &mut vec![false; a.rows()])
    }

    fn check(a: &Csr) {
        let (found, expected) = (Matching::new(a), best(a));
        let Some(expected) = expected else {
            let error = found.expect_err("there is none").to_string();
            assert!(error.contains("singular"), "{error}");
            return;
        };
        let matching = found.expect("there is one");
        let mut rows = matching.row_of.clone();
        rows.sort_unstable();
        assert!(rows.iter().enumerate().all(|(i, row)| i == *row as usize), "{matching:?}");
        let pairs = matching.row_of.iter().enumerate();
        let sum: f64 = pairs.map(|(j, &i)| log2(a.get(i as usize, j).abs())).sum();
        assert!((sum - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{sum} {expected}");
        let size = |i: usize, j: usize| (matching.rows[i] * a.get(i, j) * matching.columns[j]).abs();
        for i in 0..a.rows() {
            for j in 0..a.rows() {
                let is_matched = matching.row_of[j] as usize == i;
                // Each of both scales is rounded by less than the root of two.
                assert!(
                    size(i, j) <= 2.001 && (!is_matched || size(i, j) >= 0.4999),
                    "{i} {j}: {}",
                    size(i, j)
                );
            }
        }
    }

    proptest! {
        #![proptest_config(cases(400))]
        #[test]
        fn no_other_product_is_larger(
            nonzeros in prop::collection::vec((0..6u32, 0..6u32, -30..30i32, 1.0..2.0f64), 6..24)
        ) {
            let triplets: Vec<_> =
                nonzeros.iter().map(|&(i, j, e, value)| (i, j, ldexp(value, e))).collect();
            check(&Csr::from_triplets(6, 6, &triplets).unwrap());
        }
    }

    #[test]
    fn rows_without_columns_are_named() -> Result<(), Error> {
        let problem = |triplets: &[(u32, u32, f64)]| {
            let a = Csr::from_triplets(4, 4, triplets).expect("a matrix");
            Matching::new(&a).expect_err("singular").to_string()
        };
        // Rows 2, 3 and 4 share columns 1 and 3; the zero in column 4 counts as none.
        let narrow = [
            (0, 0, 1.0),
            (0, 1, 1.0),
            (0, 3, 1.0),
            (1, 0, 2.0),
            (1, 2, 1.0),
            (2, 0, 3.0),
            (3, 2, 1.0),
            (3, 3, 0.0),
        ];
        let said = problem(&narrow);
        assert!(said.contains("the 3 rows 2, 3, 4 have nonzeros in 2 columns only: 1, 3"), "{said}");
        let empty = problem(&[(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (2, 3, 1.0)]);
        assert!(empty.contains("row 4 is all zeros"), "{empty}");
        let empty = problem(&[(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (3, 2, 1.0), (3, 3, 0.0)]);
        assert!(empty.contains("column 4 is all zeros"), "{empty}");
        assert!(Matching::new(&Csr::from_triplets(2, 3, &[])?).is_err());
        Ok(())
    }

    /// A long chain in which the last row makes every other one move.
    #[test]
    fn paths_may_be_long() -> Result<(), Error> {
        let n = 20_000u32;
        let mut triplets: Vec<_> = (0..n - 1).flat_map(|i| [(i, i, 2.0), (i, i + 1, 1.0)]).collect();
        triplets.push((n - 1, 0, 1e-300));
        let a = Csr::from_triplets(n as usize, n as usize, &triplets)?;
        let matching = Matching::new(&a)?;
        assert!((1..n).all(|j| matching.row_of[j as usize] == j - 1) && matching.row_of[0] == n - 1);
        Ok(())
    }
}
