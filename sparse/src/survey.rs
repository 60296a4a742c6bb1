//! What adaptive storage of one matrix costs and gives, for several sets, accuracies and criteria: the figures of the thesis' tables.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use zellige_kernels::packed::Rounding;

use crate::adaptive::{Accuracy, Adaptation, Criterion, FormatSet, ThesisMatrix, error_bound};
use crate::csr::Csr;
use crate::error::Error;
use crate::exact::{BackwardError, ExactProduct, largest, ratio};

/// One way to store a matrix, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The formats there were.
    pub set: FormatSet,
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
    /// Median time of a product, and of one by rows in `f64` between the same runs.
    pub seconds: (f64, f64),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// The sets of formats.
    pub sets: &'a [FormatSet],
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
                    let adaptation =
                        Adaptation { set, criterion, accuracy, rounding: self.rounding, drops: self.drops };
                    let row = self.row(a, &adaptation, &x, &exact)?;
                    done(&row);
                    rows.push(row);
                }
            }
        }
        Ok(rows)
    }

    fn row(
        &self,
        a: &Csr,
        adaptation: &Adaptation<'_>,
        x: &[f64],
        exact: &ExactProduct,
    ) -> Result<Row, Error> {
        let stored = ThesisMatrix::new(a, adaptation)?;
        let mut y = vec![0.0; a.rows()];
        stored.multiply(x, &mut y)?;
        let bound = error_bound(a, adaptation, x)?;
        let of_bounds = exact.errors(&y)?.into_iter().zip(bound).map(|(error, bound)| ratio(error, bound));
        let name = |format: zellige_kernels::packed::PackedFormat| format.name().to_uppercase();
        let counts = stored.counts();
        let dropped = ("drop".to_string(), stored.dropped());
        Ok(Row {
            set: adaptation.set,
            criterion: adaptation.criterion.name(),
            accuracy: adaptation.accuracy,
            counts: counts.iter().map(|count| (name(count.0), count.1)).chain([dropped]).collect(),
            positive: counts.iter().map(|count| (name(count.0), count.2)).collect(),
            bytes: stored.bytes(),
            bytes_all_rowptr: stored.bytes_with_all_row_starts(),
            percent: 100.0 * stored.bytes() as f64 / a.bytes() as f64,
            error: exact.backward_error(&y)?,
            of_bound: largest(of_bounds),
            seconds: self.times(a, &stored, x, &mut y)?,
        })
    }

    /// Products take turns, so that both see the same machine.
    fn times(&self, a: &Csr, stored: &ThesisMatrix, x: &[f64], y: &mut [f64]) -> Result<(f64, f64), Error> {
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        for _ in 0..self.repeats.max(1) {
            let begin = Instant::now();
            stored.multiply(x, y)?;
            narrow.push(begin.elapsed());
            let begin = Instant::now();
            a.multiply(x, y)?;
            wide.push(begin.elapsed());
            std::hint::black_box(&*y);
        }
        Ok((median(narrow), median(wide)))
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
            sets: &[FormatSet::Ap2, FormatSet::Ap7Reu],
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
        // The criterion that minds x has no scaled formats.
        assert!(Survey { criteria: &["cw-exact"], ..survey }.run(&a, |_| ()).is_err());
    }
}
