//! The least time that work in tiles takes: every operation at the rate of products, nothing else.

use zellige_kernels::GemmPrecision;

use crate::factor::GemmCounts;
use crate::grid::TileGrid;

/// Floating-point operations, by the precision of the products that they are or could be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work(Vec<(GemmPrecision, f64)>);

impl Work {
    /// Returns the work of a factorisation, `n^3 / 3`: products in the counted precisions, all of
    /// one size; factorisations of tiles in the first of the two precisions, diagonal updates and
    /// triangular solves in the second.
    pub fn of_factorisation(
        grid: &TileGrid,
        (native, full): (GemmPrecision, GemmPrecision),
        products: &GemmCounts,
    ) -> Work {
        let n = grid.len() as f64;
        let (mut potrf, mut around) = (0.0, 0.0);
        // Sums over the tiles after a column: rows, and squares of widths.
        let (mut rows, mut squares) = (0.0, 0.0);
        for k in (0..grid.tiles()).rev() {
            let width = grid.width(k) as f64;
            potrf += width.powi(3) / 3.0;
            around += width * (width * rows + squares);
            rows += width;
            squares += width * width;
        }
        let mut work = Work::default();
        work.add(native, potrf);
        work.add(full, around);
        work.add_products(products, n.powi(3) / 3.0 - potrf - around);
        work
    }

    /// Returns the work of both triangular solves with `rows` rows, `2 n^2 rows`: products as
    /// counted, diagonal tiles in precision `full`.
    pub fn of_solves(grid: &TileGrid, rows: usize, full: GemmPrecision, products: &GemmCounts) -> Work {
        let (n, rows) = (grid.len() as f64, rows as f64);
        let diagonal: f64 = (0..grid.tiles()).map(|k| (grid.width(k) as f64).powi(2)).sum();
        let mut work = Work::default();
        work.add(full, 2.0 * rows * diagonal);
        work.add_products(products, 2.0 * rows * (n * n - diagonal));
        work
    }

    /// Returns the sum of this and other work.
    #[must_use]
    pub fn with(mut self, other: &Work) -> Work {
        other.0.iter().for_each(|(precision, flop)| self.add(*precision, *flop));
        self
    }

    fn add_products(&mut self, products: &GemmCounts, flop: f64) {
        products.shares().into_iter().for_each(|(precision, share)| self.add(precision, flop * share));
    }

    fn add(&mut self, precision: GemmPrecision, flop: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == precision) {
            Some((_, sum)) => *sum += flop,
            None => self.0.push((precision, flop)),
        }
    }

    /// Operations in all.
    pub fn flop(&self) -> f64 {
        self.0.iter().map(|(_, flop)| flop).sum()
    }

    /// Returns the seconds at these rates [Tflop/s]; `None` if a rate that is needed is unknown.
    pub fn seconds(&self, tflops: impl Fn(GemmPrecision) -> Option<f64>) -> Option<f64> {
        let needed = self.0.iter().filter(|(_, flop)| *flop > 0.0);
        needed.map(|(precision, flop)| Some(flop / tflops(*precision)? / 1e12)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GemmPrecision::{Hp1, Sp, X3};

    /// Counts of `C_ij -= ..` for all of a factorisation with `tiles` tiles: `Hp1` below the first
    /// subdiagonal.
    fn counts(tiles: usize) -> GemmCounts {
        let counts = GemmCounts::new(tiles, tiles);
        for i in 0..tiles {
            for j in 0..i {
                (0..j).for_each(|_| counts.count(i, j, if i - j > 1 { Hp1 } else { Sp }));
            }
        }
        counts
    }

    #[test]
    fn all_operations_are_counted_once() {
        let grid = TileGrid::from_edges(vec![0, 30, 50, 90, 100]).unwrap();
        let counts = counts(4);
        let work = Work::of_factorisation(&grid, (Sp, X3), &counts);
        assert!((work.flop() - 1e6 / 3.0).abs() < 1e-6, "{work:?}");
        let solves = Work::of_solves(&grid, 7, X3, &counts);
        assert!((solves.flop() - 2.0 * 1e4 * 7.0).abs() < 1e-6, "{solves:?}");
        assert!((work.clone().with(&solves).flop() - work.flop() - solves.flop()).abs() < 1e-6);
        assert_eq!(Work::of_factorisation(&TileGrid::uniform(0, 8).unwrap(), (Sp, Sp), &counts).flop(), 0.0);
    }

    /// Three tiles of 10: 3 factorisations of 1000/3, 3 solves and 3 updates of 1000, one product
    /// of 2000 on a first subdiagonal.
    #[test]
    fn each_operation_has_the_rate_of_its_precision() {
        let grid = TileGrid::uniform(30, 10).unwrap();
        let work = Work::of_factorisation(&grid, (Sp, X3), &counts(3));
        assert_eq!(work, Work(vec![(Sp, 3000.0), (X3, 6000.0)]));
        let rate = |precision| (precision != Hp1).then_some(if precision == Sp { 1e-9 } else { 2e-9 });
        assert_eq!(work.seconds(rate), Some(3.0 + 3.0));
        assert_eq!(work.seconds(|precision| (precision == Sp).then_some(1.0)), None);
        // Rates that are not needed may be unknown.
        assert_eq!(Work::default().seconds(|_| None), Some(0.0));
    }
}
