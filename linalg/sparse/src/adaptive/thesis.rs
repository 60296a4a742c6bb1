//! The layout of the thesis: a CSR matrix for each bucket.

use std::ops::Range;

use zellige_kernels::RealNumber;
use zellige_kernels::packed::{self, PackedFormat};

use super::thresholds::{RowThresholds, Thresholds, scales};
use super::{Adaptation, FormatSet, Scaling};
use crate::csr::Csr;
use zellige_krylov::Error;

/// Signs of the values in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// Both signs; the codes contain a sign bit.
    Both,
    /// Positive ones.
    Positive,
    /// Negative ones; codes are of their magnitudes.
    Negative,
}

/// The nonzeros of one format, in CSR.
#[derive(Clone, Debug, PartialEq)]
struct ThesisBucket {
    format: PackedFormat,
    sign: Sign,
    /// Index of the format in the set.
    place: usize,
    starts: Vec<u32>,
    column: Vec<u32>,
    codes: Vec<u8>,
    positive: u64,
}

impl ThesisBucket {
    /// Returns the number of nonzeros in the bucket.
    fn nonzeros(&self) -> u64 {
        self.column.len() as u64
    }

    /// Returns the bytes of row starts, columns and codes: `4 (nonzeros + rows + 1) + s nonzeros`
    /// (thesis, section 3.4).
    fn bytes(&self) -> u64 {
        4 * (self.starts.len() + self.column.len()) as u64 + self.codes.len() as u64
    }
}

/// A matrix in buckets, each stored in CSR with its own row starts.
///
/// `y = A x` adds up the buckets of a row from the narrowest to the widest; all arithmetic is in
/// `f64`.
#[derive(Clone, Debug)]
pub struct ThesisMatrix {
    rows: usize,
    columns: usize,
    set: FormatSet,
    thresholds: Thresholds,
    scaling: Scaling,
    /// Scale of each row of the scaled matrix; a single one under the normwise criterion. Empty if
    /// no format needs one.
    theta: Vec<f64>,
    /// Buckets with nonzeros, the most accurate first.
    buckets: Vec<ThesisBucket>,
    dropped: u64,
}

impl ThesisMatrix {
    /// Stores a matrix. Zeros are dropped.
    ///
    /// # Errors
    /// [`Error::Parameter`] for incompatible options, [`Error::Shape`] for 2^32 or more nonzeros in
    /// a bucket.
    pub fn new(a: &Csr, adaptation: &Adaptation<'_>) -> Result<ThesisMatrix, Error> {
        adaptation.check(a)?;
        let (set, thresholds) = (adaptation.set, Thresholds::new(adaptation));
        let scaling = Scaling::of(a, adaptation.criterion, false);
        let theta = scales(a, adaptation.criterion);
        let has_units = set.formats().iter().any(|format| format.is_scaled());
        let mut sorter = Sorter::new(set, a.rows());
        for (i, (column, value)) in a.iter().enumerate() {
            let (row, exponent) = (RowThresholds::new(&thresholds, theta[i]), scaling.of_row(i));
            for (&j, &value) in column.iter().zip(value) {
                let Some(place) = row.bucket(adaptation.criterion.magnitude(j, value)) else {
                    sorter.dropped += 1;
                    continue;
                };
                let alpha = libm::ldexp(value, exponent) / row.unit(place, exponent);
                sorter.put(place, j, set.formats()[place].encode(alpha, adaptation.rounding), value)?;
            }
            sorter.end_row();
        }
        Ok(ThesisMatrix {
            rows: a.rows(),
            columns: a.columns(),
            set,
            theta: if has_units { scaled_theta(&theta, &scaling) } else { Vec::new() },
            thresholds,
            scaling,
            dropped: sorter.dropped,
            buckets: sorter.buckets.into_iter().filter(|bucket| bucket.nonzeros() > 0).collect(),
        })
    }

    /// Returns, for each format of the set, the number of nonzeros and of positive nonzeros.
    pub fn counts(&self) -> Vec<(PackedFormat, u64, u64)> {
        let of = |(place, &format): (usize, &PackedFormat)| {
            let buckets = self.buckets.iter().filter(|bucket| bucket.place == place);
            let (nonzeros, positive) =
                buckets.fold((0, 0), |sum, bucket| (sum.0 + bucket.nonzeros(), sum.1 + bucket.positive));
            (format, nonzeros, positive)
        };
        self.set.formats().iter().enumerate().map(of).collect()
    }

    /// Returns the number of dropped nonzeros.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the bytes of the nonempty buckets, and of the rows' powers of two if rows have their
    /// own.
    pub fn bytes(&self) -> u64 {
        let of_rows = self.scaling.of_rows.as_ref().map_or(0, |rows| 2 * rows.len() as u64);
        self.buckets.iter().map(ThesisBucket::bytes).sum::<u64>() + of_rows
    }

    /// Returns `bytes` plus the row starts of all buckets that the set could have.
    pub fn bytes_with_all_row_starts(&self) -> u64 {
        let formats = self.set.formats().iter();
        let buckets: usize = formats.map(|format| if format.has_sign() { 1 } else { 2 }).sum();
        self.bytes() + (buckets - self.buckets.len()) as u64 * 4 * (self.rows as u64 + 1)
    }

    /// Computes `y = A x`.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths.
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) -> Result<(), Error> {
        if (x.len(), y.len()) != (self.columns, self.rows) {
            let problem =
                format!("{} and {} for a matrix of {} x {}", x.len(), y.len(), self.rows, self.columns);
            return Err(Error::shape("lengths of x and y", problem));
        }
        self.multiply_rows(0..self.rows, x, y);
        Ok(())
    }

    /// Computes these rows of `A x`, as many as there are in both. Stored values are exact numbers.
    ///
    /// # Panics
    /// For a shorter `x` than the matrix has columns, or rows that it does not have.
    pub fn multiply_rows<R: RealNumber>(&self, rows: Range<usize>, x: &[R], y: &mut [R]) {
        R::vectorize(
            #[inline(always)]
            || {
                for (y, i) in y.iter_mut().zip(rows.clone()) {
                    R::begin(i as u64);
                    let buckets = self.buckets.iter().rev();
                    let sum = buckets.fold(R::from(0.0), |sum, bucket| sum + self.part(bucket, i, x));
                    *y = sum.exactly(|sum| libm::ldexp(sum, -self.scaling.of_row(i)));
                }
            },
        );
    }

    /// Returns the contribution of one bucket to a row.
    #[inline(always)]
    fn part<R: RealNumber>(&self, bucket: &ThesisBucket, i: usize, x: &[R]) -> R {
        let range = bucket.starts[i] as usize..bucket.starts[i + 1] as usize;
        if range.is_empty() {
            return R::from(0.0);
        }
        let bytes = bucket.format.bytes();
        let codes = &bucket.codes[range.start * bytes..range.end * bytes];
        let sum =
            packed::dot(codes, bucket.format, &bucket.column[range], x).expect("codes of these columns");
        let unit = match bucket.format.is_scaled() {
            true => self.thresholds.unit(bucket.place, self.theta[i % self.theta.len()]),
            false => 1.0,
        };
        R::from(if bucket.sign == Sign::Negative { -unit } else { unit }) * sum
    }
}

/// Returns the scales of the scaled matrix; a single one if all are equal.
fn scaled_theta(theta: &[f64], scaling: &Scaling) -> Vec<f64> {
    let scaled: Vec<f64> =
        theta.iter().enumerate().map(|(i, &t)| libm::ldexp(t, scaling.of_row(i))).collect();
    match scaled.first() {
        Some(&first) if scaled.iter().all(|&theta| theta == first) => vec![first],
        _ => scaled,
    }
}

/// Buckets as they fill, row by row.
struct Sorter {
    /// Buckets in the order of the set; unsigned formats have one for each sign.
    buckets: Vec<ThesisBucket>,
    /// Index of the first bucket of each format.
    first: Vec<usize>,
    dropped: u64,
}

impl Sorter {
    fn new(set: FormatSet, rows: usize) -> Self {
        let mut sorter = Sorter { buckets: Vec::new(), first: Vec::new(), dropped: 0 };
        for (place, &format) in set.formats().iter().enumerate() {
            sorter.first.push(sorter.buckets.len());
            let signs: &[Sign] =
                if format.has_sign() { &[Sign::Both] } else { &[Sign::Positive, Sign::Negative] };
            sorter.buckets.extend(signs.iter().map(|&sign| {
                let mut starts = Vec::with_capacity(rows + 1);
                starts.push(0);
                ThesisBucket {
                    format,
                    sign,
                    place,
                    starts,
                    column: Vec::new(),
                    codes: Vec::new(),
                    positive: 0,
                }
            }));
        }
        sorter
    }

    fn put(&mut self, place: usize, column: u32, code: u64, value: f64) -> Result<(), Error> {
        let first = self.first[place];
        let is_second = self.buckets[first].sign == Sign::Positive && value < 0.0;
        let bucket = &mut self.buckets[first + usize::from(is_second)];
        if bucket.column.len() == u32::MAX as usize {
            return Err(Error::shape("matrix", format!("2^32 or more nonzeros in {}", bucket.format)));
        }
        bucket.column.push(column);
        bucket.codes.extend_from_slice(&code.to_le_bytes()[..bucket.format.bytes()]);
        bucket.positive += u64::from(value > 0.0);
        Ok(())
    }

    fn end_row(&mut self) {
        for bucket in &mut self.buckets {
            bucket.starts.push(bucket.column.len() as u32);
        }
    }
}
