//! Products in twice the precision of `f64`, to measure others by.

use crate::csr::Csr;
use zellige_krylov::Error;

/// A number as an unevaluated sum of two: the first is the sum, rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Double {
    /// The sum, rounded to `f64`.
    high: f64,
    /// Rounding error of the high part.
    low: f64,
}

impl Double {
    /// Adds `a b`, exact but for about `2^-104` of the larger one (Dekker 1971; Ogita, Rump and
    /// Oishi 2005, algorithm 5.3).
    fn add_product(self, a: f64, b: f64) -> Double {
        let (product, lost) = two_product(a, b);
        let (high, rounded) = two_sum(self.high, product);
        let low = self.low + (lost + rounded);
        let (high, low) = two_sum(high, low);
        Double { high, low }
    }

    /// Returns `self - y`, rounded once more.
    fn minus(self, y: f64) -> f64 {
        let (high, low) = two_sum(self.high, -y);
        high + (low + self.low)
    }
}

/// Returns `a + b` and its rounding error (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// Returns `a b` and its rounding error.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// Backward errors of a computed product `y = A x` (thesis, equations 3.3 and 3.4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackwardError {
    /// `|y - A x|_inf / (|A|_inf |x|_inf)`.
    pub normwise: f64,
    /// `max_i |y - A x|_i / (|A| |x|)_i`; rows of zeros count if `y` is not zero there.
    pub componentwise: f64,
}

/// `A x` in doubled precision, and the scales of its errors.
#[derive(Clone, Debug)]
pub struct ExactProduct {
    rows: Vec<Double>,
    /// `|A| |x|`.
    magnitudes: Vec<f64>,
    /// `|A|_inf |x|_inf`.
    scale: f64,
}

impl ExactProduct {
    /// Computes the product.
    ///
    /// # Errors
    /// [`Error::Shape`] for a vector of another length.
    pub fn of(a: &Csr, x: &[f64]) -> Result<ExactProduct, Error> {
        if x.len() != a.columns() {
            return Err(Error::shape("length of x", format!("{} for {} columns", x.len(), a.columns())));
        }
        let row = |(column, value): (&[u32], &[f64])| {
            column.iter().zip(value).fold((Double::default(), 0.0), |(sum, magnitude), (&j, &a)| {
                let x = x[j as usize];
                (sum.add_product(a, x), magnitude + (a * x).abs())
            })
        };
        let (rows, magnitudes) = a.iter().map(row).unzip();
        Ok(ExactProduct { rows, magnitudes, scale: a.norm_inf() * largest(x.iter().copied()) })
    }

    /// Returns `|y - A x|`, row by row.
    ///
    /// # Errors
    /// [`Error::Shape`] for a vector of another length.
    pub fn errors(&self, y: &[f64]) -> Result<Vec<f64>, Error> {
        if y.len() != self.rows.len() {
            return Err(Error::shape("length of y", format!("{} for {} rows", y.len(), self.rows.len())));
        }
        Ok(self.rows.iter().zip(y).map(|(exact, &y)| exact.minus(y).abs()).collect())
    }

    /// Returns the backward error of `y` as `A x`.
    ///
    /// # Errors
    /// Those of [`errors`](ExactProduct::errors).
    pub fn backward_error(&self, y: &[f64]) -> Result<BackwardError, Error> {
        Ok(self.measured(&self.errors(y)?))
    }

    /// Returns the backward error of a product with these errors of its rows.
    pub fn measured(&self, errors: &[f64]) -> BackwardError {
        let of_rows = errors.iter().zip(&self.magnitudes).map(|(&error, &magnitude)| ratio(error, magnitude));
        BackwardError {
            normwise: ratio(largest(errors.iter().copied()), self.scale),
            componentwise: largest(of_rows),
        }
    }
}

/// Returns an error divided by its scale; a zero error gives zero for any scale.
pub fn ratio(error: f64, scale: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / scale }
}

/// Returns the largest magnitude; NaN if there is one.
pub fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |m: f64, v| if v.is_nan() || m.is_nan() { f64::NAN } else { m.max(v.abs()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_f64_loses_is_kept() {
        let a = Csr::from_triplets(1, 3, &[(0, 0, 1e16), (0, 1, 1.0), (0, 2, -1e16)]).unwrap();
        let x = [1.0, 0.1, 1.0];
        let mut y = [0.0];
        a.multiply(&x, &mut y).unwrap();
        let exact = ExactProduct::of(&a, &x).unwrap();
        assert_eq!(exact.rows[0].high, 0.1);
        assert_eq!(
            exact.backward_error(&[0.1]).unwrap(),
            BackwardError { normwise: 0.0, componentwise: 0.0 }
        );
        let lost = exact.backward_error(&y).unwrap();
        assert_eq!(lost.normwise, (y[0] - 0.1).abs() / (2e16 + 1.0));
        assert!(lost.componentwise > 0.0 && lost.componentwise < 1e-16);
        // 0.1 * 0.1 in twice the precision.
        let square = Double::default().add_product(0.1, 0.1);
        assert_eq!(square.minus(0.1 * 0.1), square.low);
        assert!(square.low != 0.0 && square.low.abs() < 1e-18);
    }

    #[test]
    fn an_empty_row_counts_where_it_is_not_zero() {
        let a = Csr::from_triplets(2, 1, &[(0, 0, 1.0)]).unwrap();
        let exact = ExactProduct::of(&a, &[1.0]).unwrap();
        let componentwise = |y: &[f64]| exact.backward_error(y).unwrap().componentwise;
        assert_eq!(componentwise(&[1.0, 0.0]), 0.0);
        assert_eq!(componentwise(&[1.0, 1e-9]), f64::INFINITY);
        assert!(componentwise(&[f64::NAN, 0.0]).is_nan());
        assert!(exact.backward_error(&[1.0]).is_err() && ExactProduct::of(&a, &[1.0; 2]).is_err());
    }
}
