//! Incomplete factorisation.

use crate::csr::Csr;
use crate::error::Error;

/// `A` is about `L D U`: `L` and `U` with unit diagonals that are not stored.
#[derive(Debug)]
pub struct Factors {
    /// Strictly lower.
    pub lower: Csr,
    /// Strictly upper.
    pub upper: Csr,
    /// `D`.
    pub pivots: Vec<f64>,
}

/// The first factor by which a diagonal is enlarged, and how often it is doubled (Manteuffel 1980).
const FIRST_SHIFT: f64 = 1e-3;
const SHIFTS: i32 = 12;
/// A pivot that is smaller than this beside its diagonal element has lost what it was made of.
const LEAST_PIVOT: f64 = 1e-10;

/// Factors a matrix on its own pattern, by rows.
///
/// # Errors
/// [`Error::Unsolvable`] for a row without a diagonal element, and where no enlargement of the diagonal helps.
pub fn factors(a: &Csr) -> Result<Factors, Error> {
    let diagonal = diagonal(a)?;
    let is_symmetric = a.is_symmetric();
    let needs_positive = is_symmetric && diagonal.iter().all(|&d| d > 0.0);
    let mut row = 0;
    for shift in [0.0].into_iter().chain((0..SHIFTS).map(|k| FIRST_SHIFT * f64::from(1 << k))) {
        let mut work = Work::new(a, &diagonal, shift, needs_positive);
        match (0..a.rows()).find(|&i| !work.eliminate(i)) {
            None => return work.finish(is_symmetric),
            Some(failed) => row = failed,
        }
    }
    let problem =
        format!("no incomplete factors: the pivot of row {} vanishes; take jacobi or chebyshev", row + 1);
    Err(Error::unsolvable("preconditioner", problem))
}

fn diagonal(a: &Csr) -> Result<Vec<f64>, Error> {
    let of_row = |i| match a.get(i, i) {
        0.0 => {
            let problem = format!("row {} has no diagonal element: ilu0 divides by it", i + 1);
            Err(Error::unsolvable("preconditioner", problem))
        }
        diagonal => Ok(diagonal),
    };
    (0..a.rows()).map(of_row).collect()
}

/// A factorisation that has come to some row.
struct Work<'a> {
    a: &'a Csr,
    diagonal: &'a [f64],
    shift: f64,
    needs_positive: bool,
    lower: Growing,
    upper: Growing,
    pivots: Vec<f64>,
    /// Where the row that is being eliminated has its columns, counted from 1; 0 where it has none.
    place: Vec<u32>,
    /// Its elements so far.
    row: Vec<f64>,
}

/// A matrix that gets one row after the other.
#[derive(Default)]
struct Growing {
    starts: Vec<usize>,
    column: Vec<u32>,
    value: Vec<f64>,
}

impl Growing {
    fn new() -> Self {
        Growing { starts: vec![0], ..Growing::default() }
    }

    fn push_row(&mut self, elements: impl Iterator<Item = (u32, f64)>) {
        for (column, value) in elements {
            self.column.push(column);
            self.value.push(value);
        }
        self.starts.push(self.column.len());
    }

    fn row(&self, i: usize) -> (&[u32], &[f64]) {
        let row = self.starts[i]..self.starts[i + 1];
        (&self.column[row.clone()], &self.value[row])
    }
}

impl<'a> Work<'a> {
    fn new(a: &'a Csr, diagonal: &'a [f64], shift: f64, needs_positive: bool) -> Self {
        Work {
            a,
            diagonal,
            shift,
            needs_positive,
            lower: Growing::new(),
            upper: Growing::new(),
            pivots: Vec::with_capacity(a.rows()),
            place: vec![0; a.columns()],
            row: Vec::new(),
        }
    }

    /// Makes row `i` of the factors; false if its pivot is useless.
    fn eliminate(&mut self, i: usize) -> bool {
        let (column, value) = self.a.row(i);
        self.row.clear();
        self.row.extend(value);
        for (at, &j) in column.iter().enumerate() {
            self.place[j as usize] = at as u32 + 1;
            if j as usize == i {
                self.row[at] *= 1.0 + self.shift;
            }
        }
        let first_upper = column.partition_point(|&j| (j as usize) < i);
        for (at, &k) in column[..first_upper].iter().enumerate() {
            let element = self.row[at];
            let (above, u) = self.upper.row(k as usize);
            for (&j, u) in above.iter().zip(u) {
                if let Some(place) = (self.place[j as usize] as usize).checked_sub(1) {
                    self.row[place] -= element * u;
                }
            }
        }
        column.iter().for_each(|&j| self.place[j as usize] = 0);
        let pivot = self.row[first_upper];
        let sign = if self.needs_positive { pivot } else { pivot.abs() };
        if sign.is_nan() || sign <= LEAST_PIVOT * self.diagonal[i].abs() || !(1.0 / pivot).is_finite() {
            return false;
        }
        let below = column[..first_upper].iter().zip(&self.row);
        self.lower.push_row(below.map(|(&k, element)| (k, element / self.pivots[k as usize])));
        let above = column[first_upper + 1..].iter().zip(&self.row[first_upper + 1..]);
        self.upper.push_row(above.map(|(&j, element)| (j, element / pivot)));
        self.pivots.push(pivot);
        true
    }

    fn finish(self, is_symmetric: bool) -> Result<Factors, Error> {
        let columns = self.a.columns();
        let matrix = |factor: Growing| {
            let is_wide = |value: &f64| value.abs() > f64::from(f32::MAX);
            if factor.value.iter().any(is_wide) {
                let problem = "its factors are beyond the range of f32: scale the system first";
                return Err(Error::unsolvable("preconditioner", problem));
            }
            Csr::new(columns, factor.starts, factor.column, factor.value)
        };
        let lower = matrix(self.lower)?;
        // The two differ by rounding; the preconditioner of a symmetric matrix has to be symmetric.
        let upper = if is_symmetric { lower.transposed() } else { matrix(self.upper)? };
        Ok(Factors { lower, upper, pivots: self.pivots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Elasticity, Transport, elasticity, transport};

    /// `L D U` equals `A` where `A` has elements: what defines ILU(0).
    #[test]
    fn products_of_factors_agree_on_the_pattern() -> Result<(), Error> {
        let a = transport(&Transport {
            flow: crate::generate::Flow { cells: [6, 5, 4], ..Default::default() },
            ..Transport::default()
        })?;
        let Factors { lower, upper, pivots } = factors(&a)?;
        for (i, (column, value)) in a.iter().enumerate() {
            for (&j, &a) in column.iter().zip(value) {
                let j = j as usize;
                let unit = |factor: &Csr, i: usize, j: usize| if i == j { 1.0 } else { factor.get(i, j) };
                let product: f64 =
                    (0..=i.min(j)).map(|k| unit(&lower, i, k) * pivots[k] * unit(&upper, k, j)).sum();
                assert!(
                    (product - a).abs() <= 1e-13 * pivots[i].abs().max(a.abs()),
                    "({i}, {j}): {product:e} {a:e}"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn symmetric_positive_matrices_get_positive_pivots() -> Result<(), Error> {
        let a = elasticity(&Elasticity {
            elements: crate::generate::Elements([6, 6, 5]),
            ..Elasticity::default()
        })?;
        let factors = factors(&a)?;
        assert!(factors.pivots.iter().all(|&pivot| pivot > 0.0));
        assert_eq!(factors.upper, factors.lower.transposed());
        Ok(())
    }

    #[test]
    fn a_missing_diagonal_is_named() -> Result<(), Error> {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0)])?;
        let error = factors(&a).expect_err("row 2").to_string();
        assert!(error.contains("row 2 has no diagonal"), "{error}");
        Ok(())
    }
}
