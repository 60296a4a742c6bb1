//! What an adaptive product may cost at most.

use zellige_kernels::packed::{PackedFormat, Rounding};

use super::thresholds::{RowThresholds, scales};
use super::{Adaptation, Thresholds};
use crate::Error;
use crate::csr::Csr;

/// What comes on top of a format's unit roundoff: numbers are divided by their bucket's limit first, and `fp32` is rounded before it is cut.
const SLACK: f64 = 1.0 + 1.0 / 64.0;

/// `B_i >= |y_i - (A x)_i|` for the product of an adapted matrix, whatever the layout (thesis, equation 3.12, with what is dropped):
/// `sum_k u_k sum_{j in k} |a_ij x_j| + sum_dropped |a_ij x_j| + gamma_{n_i} sum_j |a_ij x_j|`.
///
/// `u_k` is doubled where elements are chopped; `gamma_n = n u / (1 - n u)` with the `u` of `f64`, and `n_i` counts the row's elements, one
/// addition for each bucket and two roundings of scales.
///
/// # Errors
/// As for storing the matrix.
pub fn error_bound(a: &Csr, adaptation: &Adaptation<'_>, x: &[f64]) -> Result<Vec<f64>, Error> {
    adaptation.check(a)?;
    if x.len() != a.columns() {
        return Err(Error::shape("length of x", format!("{} for {} columns", x.len(), a.columns())));
    }
    let thresholds = Thresholds::new(adaptation);
    let formats = adaptation.set.formats();
    let theta = scales(a, adaptation.criterion);
    let row = |(i, (column, value)): (usize, (&[u32], &[f64]))| {
        let row = RowThresholds::new(&thresholds, theta[i]);
        let (mut stored, mut all) = (0.0, 0.0);
        for (&j, &value) in column.iter().zip(value) {
            let term = (value * x[j as usize]).abs();
            let bucket = row.bucket(adaptation.criterion.magnitude(j, value));
            stored += term * bucket.map_or(1.0, |at| roundoff(formats[at], adaptation.rounding));
            all += term;
        }
        let n = (value.len() + formats.len() + 2) as f64 * (f64::EPSILON / 2.0);
        // The bound itself is rounded.
        (stored + n / (1.0 - n) * all) * (1.0 + n)
    };
    Ok(a.iter().enumerate().map(row).collect())
}

/// The largest relative error of one element.
fn roundoff(format: PackedFormat, rounding: Rounding) -> f64 {
    let twice = if rounding == Rounding::Chop && format != PackedFormat::Fp32 { 2.0 } else { 1.0 };
    match format {
        PackedFormat::Fp64 => 0.0,
        _ => twice * SLACK * format.unit_roundoff(),
    }
}
