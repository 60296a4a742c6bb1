//! Cost and accuracy of adaptive storage of one matrix, for several sets, accuracies and criteria:
//! the figures of the thesis' tables.

pub mod report;
pub mod results;

use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;

use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_kernels::sell::Panel;

use zellige_sparse::adaptive::{
    Accuracy, Adaptation, Choice, Criterion, FormatSet, SETS, ThesisMatrix, TiledMatrix, error_bound,
    fastest, in_turns, is_faster, multiply_panels, shares,
};
use zellige_sparse::exact::{BackwardError, ExactProduct, largest, ratio};
use zellige_sparse::{Csr, Error};

fn parameter(name: &'static str, problem: impl Into<String>) -> Error {
    Error::Parameter { name, problem: problem.into() }
}

/// Layout of the nonzeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A CSR matrix for each format ([`ThesisMatrix`]).
    Thesis,
    /// Tiles of single nonzeros ([`TiledMatrix`]).
    Tiled,
    /// Tiles of blocks, with the block size 2, 3 or 4 that is predicted to be fastest.
    Bsr,
    /// Tiles with the storage that is predicted to be fastest.
    Auto,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 4] = [Self::Thesis, Self::Tiled, Self::Bsr, Self::Auto];

    /// The name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thesis => "thesis",
            Self::Tiled => "tiled",
            Self::Bsr => "bsr",
            Self::Auto => "auto",
        }
    }

    /// The block sizes that may be chosen.
    fn block_sizes(self) -> &'static [usize] {
        match self {
            Self::Thesis | Self::Tiled => &[1],
            Self::Bsr => &[2, 3, 4],
            Self::Auto => &[1, 2, 3, 4],
        }
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|layout| layout.name().eq_ignore_ascii_case(s));
        found.ok_or_else(|| parameter("layout", format!("{s:?} is not one of thesis, tiled, bsr, auto")))
    }
}

/// A matrix in one of the layouts, and what its products are compared with.
enum TimedMatrix<'a> {
    Thesis(ThesisMatrix, &'a Csr),
    Tiled(TiledMatrix, TiledMatrix),
}

/// Results for one storage of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageRow {
    /// The set of formats.
    pub set: FormatSet,
    /// The layout; of blocks with the block size, as `bsr3`.
    pub layout: String,
    /// [`Criterion::name`].
    pub criterion: &'static str,
    /// The requested accuracy.
    pub accuracy: Accuracy,
    /// Nonzeros of each format, and those left out as `drop`.
    pub counts: BTreeMap<String, u64>,
    /// Positive nonzeros of each format.
    pub positive: BTreeMap<String, u64>,
    /// Bytes of the buckets that have nonzeros.
    pub bytes: u64,
    /// Bytes with the row pointers of all buckets of the set.
    pub bytes_all_rowptr: u64,
    /// `bytes` in percent of CSR in FP64.
    pub percent: f64,
    /// Backward error of the product with [`Survey::x`].
    pub error: BackwardError,
    /// The largest bound of a row, `max_i B_i` ([`error_bound`]).
    pub bound: f64,
    /// The bounds, measured as the error is: no error is larger.
    pub bounds: BackwardError,
    /// The largest `error / bound` of a row; at most 1.
    pub of_bound: f64,
    /// Median time of a product (s), and of one in `f64` between the same runs: CSR for the thesis'
    /// layout, tiles of the same block size for tiles.
    pub seconds: (f64, f64),
}

/// Parameters of a survey.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// The layout of all.
    pub layout: Layout,
    /// The sets of formats; none for the one that is predicted to be fastest.
    pub sets: &'a [Option<FormatSet>],
    /// The accuracies.
    pub accuracies: &'a [Accuracy],
    /// The criteria: [`Criterion::name`]s.
    pub criteria: &'a [&'a str],
    /// Weights of the rows, for the criterion `rows`.
    pub weights: &'a [f64],
    /// True if negligible nonzeros are dropped instead of stored in the narrowest format.
    pub drops: bool,
    /// Vector that is multiplied, and that `cw-exact` uses; none for ones.
    pub x: Option<&'a [f64]>,
    /// Threads of each timed product; the predictions of the fastest storage are for this number.
    pub workers: usize,
    /// Number of timed products of each storage.
    pub repeats: usize,
}

/// The criterion of a name, for products with this vector.
///
/// # Errors
/// [`Error::Parameter`] for another name.
pub fn criterion<'x>(name: &str, x: &'x [f64]) -> Result<Criterion<'x>, Error> {
    let all = [Criterion::Normwise, Criterion::Componentwise, Criterion::ComponentwiseFor(x)];
    let wrong = || parameter("criterion", format!("{name:?} is not one of nw, cw, cw-exact"));
    all.into_iter().find(|criterion| criterion.name().eq_ignore_ascii_case(name)).ok_or_else(wrong)
}

impl Survey<'_> {
    /// Rows that there will be.
    pub fn len(&self) -> usize {
        self.sets.len() * self.accuracies.len() * self.criteria.len()
    }

    /// True if nothing is requested.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores the matrix in every requested way, and calls `done` after each.
    ///
    /// # Errors
    /// [`Error::Parameter`] for inconsistent parameters, [`Error::Shape`] for a vector of another
    /// length.
    pub fn run(&self, a: &Csr, mut done: impl FnMut(&StorageRow)) -> Result<Vec<StorageRow>, Error> {
        let x = self.x.map_or_else(|| vec![1.0; a.columns()], <[f64]>::to_vec);
        let exact = ExactProduct::of(a, &x)?;
        let mut rows = Vec::with_capacity(self.len());
        for &name in self.criteria {
            let of_rows = Criterion::Rows(self.weights);
            let criterion = if name == of_rows.name() { of_rows } else { criterion(name, &x)? };
            for &accuracy in self.accuracies {
                for &set in self.sets {
                    let (set, block_size) = self.choose(a, set, criterion, accuracy)?;
                    let adaptation =
                        Adaptation { drops: self.drops, ..Adaptation::new(set, criterion, accuracy) };
                    let row = self.row(a, &adaptation, block_size, &x, &exact)?;
                    done(&row);
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }

    /// Set and block size, where these are not given.
    fn choose(
        &self,
        a: &Csr,
        set: Option<FormatSet>,
        criterion: Criterion<'_>,
        accuracy: Accuracy,
    ) -> Result<(FormatSet, usize), Error> {
        let (sizes, sets) = (self.layout.block_sizes(), set.as_ref().map_or(&SETS[..], std::slice::from_ref));
        match (set, sizes, self.layout) {
            (None, _, Layout::Thesis) => {
                let problem = "auto has no costs of the thesis' layout: name sets, or use --layout tiled";
                Err(parameter("sets", problem))
            }
            (Some(set), &[block_size], _) => Ok((set, block_size)),
            _ => {
                if let Some(set) = set {
                    // A set that is not possible with the criterion is reported for every block
                    // size.
                    let adaptation = Adaptation::new(set, criterion, accuracy);
                    adaptation.check(a)?;
                }
                let ways = (sizes, sets);
                let way = fastest(a, ways, criterion, accuracy, Rounding::Nearest, self.workers.max(1))?;
                // If nothing is requested, a storage slower than `f64` is not used.
                let is_free = set.is_none() && self.layout == Layout::Auto;
                Ok(if is_free {
                    self.unless_slower(a, way, criterion, accuracy)?
                } else {
                    (way.set, way.block_size)
                })
            }
        }
    }

    /// Returns this storage, or plain `f64` in its fastest layout if products with the whole matrix
    /// are not faster.
    fn unless_slower(
        &self,
        a: &Csr,
        way: Choice,
        criterion: Criterion<'_>,
        accuracy: Accuracy,
    ) -> Result<(FormatSet, usize), Error> {
        let adaptation = Adaptation::new(way.set, criterion, accuracy);
        let double = TiledMatrix::new(a, way.double_block_size, &Adaptation::double())?;
        let is_faster =
            is_faster(&TiledMatrix::new(a, way.block_size, &adaptation)?, &double, self.workers.max(1));
        Ok(if is_faster { (way.set, way.block_size) } else { (FormatSet::Fp64, way.double_block_size) })
    }

    fn row(
        &self,
        a: &Csr,
        adaptation: &Adaptation<'_>,
        block_size: usize,
        x: &[f64],
        exact: &ExactProduct,
    ) -> Result<StorageRow, Error> {
        let criterion = adaptation.criterion.name();
        // A matrix in one format has no dropped nonzeros.
        let uniform = Adaptation { accuracy: adaptation.accuracy, ..Adaptation::uniform(adaptation.set) };
        let adaptation = if adaptation.set.is_uniform() { &uniform } else { adaptation };
        let stored = match self.layout {
            Layout::Thesis => TimedMatrix::Thesis(ThesisMatrix::new(a, adaptation)?, a),
            _ => {
                let double = TiledMatrix::new(a, block_size, &Adaptation::double())?;
                TimedMatrix::Tiled(TiledMatrix::new(a, block_size, adaptation)?, double)
            }
        };
        let mut y = vec![0.0; a.rows()];
        stored.multiply(x, &mut y)?;
        let bound = error_bound(a, adaptation, x)?;
        let errors = exact.errors(&y)?;
        let of_bounds = errors.iter().zip(&bound).map(|(&error, &bound)| ratio(error, bound));
        let name = |format: PackedFormat| format.name().to_uppercase();
        let (counts, dropped) = stored.counts();
        let (bytes, bytes_all_rowptr) = stored.bytes();
        Ok(StorageRow {
            set: adaptation.set,
            layout: if block_size == 1 && self.layout != Layout::Thesis {
                "tiled".into()
            } else if block_size == 1 {
                "thesis".into()
            } else {
                format!("bsr{block_size}")
            },
            criterion,
            accuracy: adaptation.accuracy,
            counts: counts
                .iter()
                .map(|count| (name(count.0), count.1))
                .chain([("drop".to_string(), dropped)])
                .collect(),
            positive: counts.iter().map(|count| (name(count.0), count.2)).collect(),
            bytes,
            bytes_all_rowptr,
            percent: 100.0 * bytes as f64 / a.bytes() as f64,
            error: exact.measured(&errors),
            bound: largest(bound.iter().copied()),
            bounds: exact.measured(&bound),
            of_bound: largest(of_bounds),
            seconds: self.times(&stored, x),
        })
    }

    /// Products take turns, so that both run under the same conditions.
    fn times(&self, stored: &TimedMatrix<'_>, x: &[f64]) -> (f64, f64) {
        let [narrow, double] = in_turns(self.repeats, stored.shares(self.workers.max(1), x));
        (narrow, double)
    }
}

/// A worker's part of a product.
type Share<'s> = Box<dyn FnMut() + Send + 's>;

impl TimedMatrix<'_> {
    fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<(), Error> {
        match self {
            TimedMatrix::Thesis(matrix, _) => matrix.multiply(x, y),
            TimedMatrix::Tiled(matrix, _) => matrix.multiply(x, y),
        }
    }

    /// Returns the work of each of `workers` workers for the product, and for the one in `f64`: its
    /// rows, written to memory of its own.
    fn shares<'s>(&'s self, workers: usize, x: &'s [f64]) -> [Vec<Share<'s>>; 2] {
        fn of<'s>(rows: usize, mut work: impl FnMut(&mut [f64]) + Send + 's) -> Share<'s> {
            let mut y = vec![0.0; rows];
            Box::new(move || {
                work(&mut y);
                std::hint::black_box(&y);
            })
        }
        match self {
            TimedMatrix::Thesis(narrow, double) => {
                let parts = double.even_rows(workers);
                let of_narrow = |rows: &Range<usize>| {
                    let rows = rows.clone();
                    of(rows.len(), move |y| narrow.multiply_rows(rows.clone(), x, y))
                };
                let of_double = |rows: &Range<usize>| {
                    let rows = rows.clone();
                    of(rows.len(), move |y| double.multiply_rows(rows.clone(), x, y))
                };
                [parts.iter().map(of_narrow).collect(), parts.iter().map(of_double).collect()]
            }
            TimedMatrix::Tiled(narrow, double) => {
                let of_panels = |panels: &'s [Panel]| {
                    let rows = panels.iter().map(|panel| panel.rows().len()).sum();
                    of(rows, move |y| multiply_panels(panels, x, y))
                };
                [narrow, double].map(|matrix| shares(matrix, workers).into_iter().map(of_panels).collect())
            }
        }
    }

    /// Returns the counts of each format, and the number of dropped nonzeros.
    fn counts(&self) -> (Vec<(PackedFormat, u64, u64)>, u64) {
        match self {
            TimedMatrix::Thesis(matrix, _) => (matrix.counts(), matrix.dropped()),
            TimedMatrix::Tiled(matrix, _) => (matrix.counts(), matrix.dropped()),
        }
    }

    /// Bytes, and bytes with the row pointers of all buckets.
    fn bytes(&self) -> (u64, u64) {
        match self {
            TimedMatrix::Thesis(matrix, _) => (matrix.bytes(), matrix.bytes_with_all_row_starts()),
            TimedMatrix::Tiled(matrix, _) => (matrix.bytes(), matrix.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_sparse::generate::{Flow, flow};

    #[test]
    fn every_way_is_a_row() {
        let a = flow(&Flow { cells: [9, 8, 7], ..Flow::default() }).unwrap();
        let accuracies = ["2^-53", "2^-24"].map(|eps| eps.parse().unwrap());
        let survey = Survey {
            layout: Layout::Thesis,
            sets: &[Some(FormatSet::Ap2), Some(FormatSet::Ap7Reu)],
            accuracies: &accuracies,
            criteria: &["nw", "CW"],
            weights: &[],
            drops: true,
            x: None,
            workers: 1,
            repeats: 3,
        };
        let mut seen = 0;
        let rows = survey.run(&a, |_| seen += 1).unwrap();
        assert_eq!((rows.len(), seen), (8, 8));
        for row in &rows {
            assert_eq!(row.counts.values().sum::<u64>(), a.nonzeros() as u64);
            assert!(row.of_bound > 0.0 && row.of_bound <= 1.0, "{row:?}");
            assert!(
                row.error.normwise <= row.bounds.normwise && row.bounds.normwise < 24.0 * row.accuracy.get()
            );
            assert!(row.error.componentwise <= row.bounds.componentwise && row.bound > 0.0, "{row:?}");
            assert!(row.seconds.0 > 0.0 && row.seconds.1 > 0.0);
            assert!((row.percent / 100.0 * a.bytes() as f64 - row.bytes as f64).abs() < 1.0);
        }
        assert!(Survey { criteria: &["xw"], ..survey.clone() }.run(&a, |_| ()).is_err());
        // Tiles, and what is chosen by its costs.
        for (layout, sets) in
            [(Layout::Tiled, survey.sets), (Layout::Bsr, &[Some(FormatSet::Ap4)]), (Layout::Auto, &[None])]
        {
            let rows = Survey { layout, sets, ..survey.clone() }.run(&a, |_| ()).unwrap();
            assert_eq!(rows.len(), 4 * sets.len());
            for row in &rows {
                assert_eq!(row.counts.values().sum::<u64>(), a.nonzeros() as u64);
                assert!(row.of_bound > 0.0 && row.of_bound <= 1.0, "{row:?}");
                assert!(
                    row.layout.starts_with("tiled") && layout != Layout::Bsr || row.layout.starts_with("bsr")
                );
            }
        }
        assert!(Survey { sets: &[None], ..survey.clone() }.run(&a, |_| ()).is_err());
        // Another vector, on which bounds depend, and what is stored under one of the criteria;
        // times of two workers.
        let x: Vec<f64> = (0..a.columns()).map(|j| 10f64.powi(-((j % 9) as i32))).collect();
        for (layout, sets) in [(Layout::Thesis, &[Some(FormatSet::Ap7)]), (Layout::Auto, &[None])] {
            let criteria = &["nw", "cw", "cw-exact"];
            let other = Survey { x: Some(&x), workers: 2, layout, sets, criteria, ..survey.clone() };
            let (others, rows) =
                (other.run(&a, |_| ()).unwrap(), Survey { x: None, ..other }.run(&a, |_| ()).unwrap());
            // Two accuracies each, whatever is chosen.
            let names: Vec<_> = others.iter().map(|row| row.criterion).collect();
            assert_eq!(names, ["nw", "nw", "cw", "cw", "cw-exact", "cw-exact"]);
            for (row, of_ones) in others.iter().zip(&rows) {
                assert!(row.of_bound > 0.0 && row.of_bound <= 1.0, "{row:?}");
                assert!(row.seconds.0 > 0.0 && row.seconds.1 > 0.0 && row.bound != of_ones.bound);
                let stored_for_x = row.criterion == "cw-exact";
                assert!(layout == Layout::Auto || stored_for_x == (row.counts != of_ones.counts), "{row:?}");
            }
        }
        assert!(Survey { x: Some(&x[1..]), ..survey.clone() }.run(&a, |_| ()).is_err());
        // Weights of one are no weights, and larger ones need fewer bytes.
        let weighted = |weight: f64| {
            let weights = vec![weight; a.rows()];
            let criteria = &["rows"];
            Survey { criteria, weights: &weights, ..survey.clone() }.run(&a, |_| ()).unwrap()
        };
        let of_rows = |rows: &[StorageRow]| {
            rows.iter().map(|row| (row.counts.clone(), row.bytes, row.error)).collect::<Vec<_>>()
        };
        assert_eq!(of_rows(&weighted(1.0)), of_rows(&rows[4..]));
        let fewer =
            |(wide, row): (&StorageRow, &StorageRow)| wide.bytes < row.bytes && wide.counts != row.counts;
        assert!(weighted(256.0).iter().zip(&rows[4..]).any(fewer));
        assert!(Survey { criteria: &["rows"], ..survey.clone() }.run(&a, |_| ()).is_err());
        // One format for all nonzeros is as accurate as its unit roundoff; AP1 drops as AP2.
        for set in FormatSet::UNIFORM {
            let sets = &[Some(set)];
            let rows = Survey { sets, ..survey.clone() }.run(&a, |_| ()).unwrap();
            for row in rows {
                assert!(row.counts["drop"] == 0 && row.of_bound <= 1.0, "{row:?}");
                let roundoff = set.formats()[0].unit_roundoff();
                assert!(row.error.normwise <= 2.0 * roundoff && row.error.componentwise <= 2.0 * roundoff);
            }
        }
        let dropped = |set, drops| {
            let sets = &[Some(set)];
            Survey { sets, drops, ..survey.clone() }.run(&a, |_| ()).unwrap()[1].counts["drop"]
        };
        assert_eq!(dropped(FormatSet::Ap1, true), dropped(FormatSet::Ap2, true));
        assert!(dropped(FormatSet::Ap1, true) > 0 && dropped(FormatSet::Ap2, false) == 0);
        // The criterion that minds x has no scaled formats.
        assert!(Survey { criteria: &["cw-exact"], ..survey }.run(&a, |_| ()).is_err());
    }
}
