//! What adaptive storage of one matrix costs and gives, for several sets, accuracies and criteria: the figures of the thesis' tables.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, Instant};

use zellige_kernels::packed::{PackedFormat, Rounding};

use crate::adaptive::{
    Accuracy, Adaptation, Criterion, FormatSet, SETS, ThesisMatrix, TiledMatrix, error_bound, machine,
};
use crate::csr::Csr;
use crate::error::Error;
use crate::exact::{BackwardError, ExactProduct, largest, ratio};

/// How elements are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A matrix by rows for each format ([`ThesisMatrix`]).
    Thesis,
    /// Tiles of single elements ([`TiledMatrix`]).
    Tiled,
    /// Tiles of blocks; of the edges 2, 3 and 4 that which is expected to be fastest.
    Bsr,
    /// Tiles of what is expected to be fastest.
    Auto,
}

impl Layout {
    /// All of them.
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

    /// The edges that blocks may have.
    fn edges(self) -> &'static [usize] {
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
        found.ok_or_else(|| Error::parameter("layout", format!("{s:?} is none of thesis, tiled, bsr, auto")))
    }
}

/// A matrix in one of the layouts, and what its products are timed beside.
enum Timed<'a> {
    Thesis(ThesisMatrix, &'a Csr),
    Tiled(TiledMatrix, TiledMatrix),
}

/// One way to store a matrix, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The formats there were.
    pub set: FormatSet,
    /// The layout; of blocks with their edge, as `bsr3`.
    pub layout: String,
    /// [`Criterion::name`].
    pub criterion: &'static str,
    /// The accuracy that was asked for.
    pub accuracy: Accuracy,
    /// Elements of each format, and those left out as `drop`.
    pub counts: BTreeMap<String, u64>,
    /// Positive elements of each format.
    pub positive: BTreeMap<String, u64>,
    /// Bytes of the buckets that have elements.
    pub bytes: u64,
    /// The same with the row starts of all buckets of the set.
    pub bytes_all_rowptr: u64,
    /// `bytes` in percent of the matrix by rows in `f64`.
    pub percent: f64,
    /// Of the product with a vector of ones.
    pub error: BackwardError,
    /// The largest `error / bound` of a row; at most 1.
    pub of_bound: f64,
    /// Median time of a product (s), and of one in `f64` between the same runs: by rows beside the thesis' layout, in tiles of the same edge beside tiles.
    pub seconds: (f64, f64),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// The layout of all.
    pub layout: Layout,
    /// The sets of formats; none for that which is expected to be fastest.
    pub sets: &'a [Option<FormatSet>],
    /// The accuracies.
    pub accuracies: &'a [Accuracy],
    /// The criteria: [`Criterion::name`]s.
    pub criteria: &'a [&'a str],
    /// How elements are rounded.
    pub rounding: Rounding,
    /// Whether what does not matter is left out.
    pub drops: bool,
    /// Products that are timed of each.
    pub repeats: usize,
}

/// The criterion of a name, for products with this vector.
fn criterion<'x>(name: &str, x: &'x [f64]) -> Result<Criterion<'x>, Error> {
    let all = [Criterion::Normwise, Criterion::Componentwise, Criterion::ComponentwiseFor(x)];
    let wrong = || Error::parameter("criterion", format!("{name:?} is none of nw, cw, cw-exact"));
    all.into_iter().find(|criterion| criterion.name().eq_ignore_ascii_case(name)).ok_or_else(wrong)
}

impl Survey<'_> {
    /// Rows that there will be.
    pub fn len(&self) -> usize {
        self.sets.len() * self.accuracies.len() * self.criteria.len()
    }

    /// True if nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores the matrix in every way that is asked for; `done` is told after each.
    ///
    /// # Errors
    /// [`Error::Parameter`] for what has no meaning together.
    pub fn run(&self, a: &Csr, mut done: impl FnMut(&Row)) -> Result<Vec<Row>, Error> {
        let x = vec![1.0; a.columns()];
        let exact = ExactProduct::of(a, &x)?;
        let mut rows = Vec::with_capacity(self.len());
        for &name in self.criteria {
            let criterion = criterion(name, &x)?;
            for &accuracy in self.accuracies {
                for &set in self.sets {
                    let (set, edge) = self.choose(a, set, criterion, accuracy)?;
                    let adaptation =
                        Adaptation { set, criterion, accuracy, rounding: self.rounding, drops: self.drops };
                    let row = self.row(a, &adaptation, edge, &x, &exact)?;
                    done(&row);
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }

    /// Set and edge, where these are not given.
    fn choose(
        &self,
        a: &Csr,
        set: Option<FormatSet>,
        criterion: Criterion<'_>,
        accuracy: Accuracy,
    ) -> Result<(FormatSet, usize), Error> {
        let (edges, sets) = (self.layout.edges(), set.as_ref().map_or(&SETS[..], std::slice::from_ref));
        match (set, edges, self.layout) {
            (None, _, Layout::Thesis) => {
                let problem = "auto knows what tiles cost, not the thesis' layout: name sets, or take tiled";
                Err(Error::parameter("sets", problem))
            }
            (Some(set), &[edge], _) => Ok((set, edge)),
            _ => {
                let choice = machine(1).choose(a, edges, sets, criterion, accuracy, self.rounding)?;
                Ok((choice.set, choice.edge))
            }
        }
    }

    fn row(
        &self,
        a: &Csr,
        adaptation: &Adaptation<'_>,
        edge: usize,
        x: &[f64],
        exact: &ExactProduct,
    ) -> Result<Row, Error> {
        // Nothing of a matrix in one format is left out.
        let adaptation = match adaptation.set {
            FormatSet::Fp64 => &Adaptation { accuracy: adaptation.accuracy, ..Adaptation::double() },
            FormatSet::Fp32 => &Adaptation { accuracy: adaptation.accuracy, ..Adaptation::single() },
            _ => adaptation,
        };
        let stored = match self.layout {
            Layout::Thesis => Timed::Thesis(ThesisMatrix::new(a, adaptation)?, a),
            _ => {
                let double = TiledMatrix::new(a, edge, &Adaptation::double())?;
                Timed::Tiled(TiledMatrix::new(a, edge, adaptation)?, double)
            }
        };
        let mut y = vec![0.0; a.rows()];
        stored.multiply(x, &mut y)?;
        let bound = error_bound(a, adaptation, x)?;
        let of_bounds = exact.errors(&y)?.into_iter().zip(bound).map(|(error, bound)| ratio(error, bound));
        let name = |format: PackedFormat| format.name().to_uppercase();
        let (counts, dropped) = stored.counts();
        let (bytes, bytes_all_rowptr) = stored.bytes();
        Ok(Row {
            set: adaptation.set,
            layout: if edge == 1 && self.layout != Layout::Thesis {
                "tiled".into()
            } else if edge == 1 {
                "thesis".into()
            } else {
                format!("bsr{edge}")
            },
            criterion: adaptation.criterion.name(),
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
            error: exact.backward_error(&y)?,
            of_bound: largest(of_bounds),
            seconds: self.times(&stored, x, &mut y)?,
        })
    }

    /// Products take turns, so that both see the same machine.
    fn times(&self, stored: &Timed<'_>, x: &[f64], y: &mut [f64]) -> Result<(f64, f64), Error> {
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        for _ in 0..self.repeats.max(1) {
            let begin = Instant::now();
            stored.multiply(x, y)?;
            narrow.push(begin.elapsed());
            let begin = Instant::now();
            stored.multiply_double(x, y)?;
            wide.push(begin.elapsed());
            std::hint::black_box(&*y);
        }
        Ok((median(narrow), median(wide)))
    }
}

impl Timed<'_> {
    fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<(), Error> {
        match self {
            Timed::Thesis(matrix, _) => matrix.multiply(x, y),
            Timed::Tiled(matrix, _) => matrix.multiply(x, y),
        }
    }

    fn multiply_double(&self, x: &[f64], y: &mut [f64]) -> Result<(), Error> {
        match self {
            Timed::Thesis(_, double) => double.multiply(x, y),
            Timed::Tiled(_, double) => double.multiply(x, y),
        }
    }

    /// Of each format; and what is left out.
    fn counts(&self) -> (Vec<(PackedFormat, u64, u64)>, u64) {
        match self {
            Timed::Thesis(matrix, _) => (matrix.counts(), matrix.dropped()),
            Timed::Tiled(matrix, _) => (matrix.counts(), matrix.dropped()),
        }
    }

    /// Bytes, and bytes with the row starts of all buckets.
    fn bytes(&self) -> (u64, u64) {
        match self {
            Timed::Thesis(matrix, _) => (matrix.bytes(), matrix.bytes_with_all_row_starts()),
            Timed::Tiled(matrix, _) => (matrix.bytes(), matrix.bytes()),
        }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Flow, flow};

    #[test]
    fn every_way_is_a_row() {
        let a = flow(&Flow { cells: [9, 8, 7], ..Flow::default() }).unwrap();
        let accuracies = ["2^-53", "2^-24"].map(|eps| eps.parse().unwrap());
        let survey = Survey {
            layout: Layout::Thesis,
            sets: &[Some(FormatSet::Ap2), Some(FormatSet::Ap7Reu)],
            accuracies: &accuracies,
            criteria: &["nw", "CW"],
            rounding: Rounding::Nearest,
            drops: true,
            repeats: 3,
        };
        let mut seen = 0;
        let rows = survey.run(&a, |_| seen += 1).unwrap();
        assert_eq!((rows.len(), seen), (8, 8));
        for row in &rows {
            assert_eq!(row.counts.values().sum::<u64>(), a.elements() as u64);
            assert!(row.of_bound > 0.0 && row.of_bound <= 1.0, "{row:?}");
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
                assert_eq!(row.counts.values().sum::<u64>(), a.elements() as u64);
                assert!(row.of_bound > 0.0 && row.of_bound <= 1.0, "{row:?}");
                assert!(
                    row.layout.starts_with("tiled") && layout != Layout::Bsr || row.layout.starts_with("bsr")
                );
            }
        }
        assert!(Survey { sets: &[None], ..survey.clone() }.run(&a, |_| ()).is_err());
        // The criterion that minds x has no scaled formats.
        assert!(Survey { criteria: &["cw-exact"], ..survey }.run(&a, |_| ()).is_err());
    }
}
