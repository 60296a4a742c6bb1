//! Error bound of a product in adaptive precision.

use zellige_kernels::packed::{PackedFormat, Rounding};

use super::thresholds::{RowThresholds, Thresholds, has_short_exponent, scales};
use super::{Adaptation, Scaling, ldexp};
use crate::csr::Csr;
use zellige_krylov::Error;

/// Factor on a format's unit roundoff for two further roundings: values are divided by the limit of
/// their bucket first, and `fp32` is rounded before it is truncated.
const SLACK: f64 = 1.0 + 1.0 / 64.0;

/// Returns bounds `B_i >= |y_i - (A x)_i|` for the product with an adapted matrix, for any layout.
///
/// The bound (thesis, equation 3.12, with the dropped entries) is `sum_k u_k sum_{j in k} |a_ij
/// x_j| + sum_dropped |a_ij x_j| + gamma_{n_i} sum_j |a_ij x_j|`.
///
/// `u_k` is doubled if values are truncated. Formats with the exponents of `f32` add their
/// underflow error, `u_k 2^-126` of the row's scale for each nonzero. `gamma_n = n u / (1 - n u)`
/// with the `u` of `f64`; `n_i` counts the row's nonzeros, one addition for each bucket and two
/// roundings of scales.
///
/// # Errors
/// Those of storing the matrix.
pub fn error_bound(a: &Csr, adaptation: &Adaptation<'_>, x: &[f64]) -> Result<Vec<f64>, Error> {
    adaptation.check(a)?;
    if x.len() != a.columns() {
        return Err(Error::shape("length of x", format!("{} for {} columns", x.len(), a.columns())));
    }
    let thresholds = Thresholds::new(adaptation);
    let formats = adaptation.set.formats();
    let theta = scales(a, adaptation.criterion);
    let scaling = Scaling::of(a, adaptation.criterion, false);
    let of_row = |i: usize| RowThresholds::new(&thresholds, theta[i]);
    let row = |(i, (column, value)): (usize, (&[u32], &[f64]))| {
        let (row, exponent) = (of_row(i), scaling.of_row(i));
        let (mut stored, mut all) = (0.0, 0.0);
        for (&j, &value) in column.iter().zip(value) {
            let term = (value * x[j as usize]).abs();
            let (mut bucket, mut exponent) = (row.bucket(adaptation.criterion.magnitude(j, value)), exponent);
            if adaptation.symmetric {
                let magnitude = adaptation.criterion.magnitude(i as u32, value);
                bucket = bucket.into_iter().chain(of_row(j as usize).bucket(magnitude)).min();
                exponent = exponent.min(scaling.of_row(j as usize));
            }
            stored += match bucket {
                Some(at) if has_short_exponent(formats[at]) => {
                    let end = ldexp(1.0, -126 - exponent) * x[j as usize].abs();
                    (term + end) * roundoff(formats[at], adaptation.rounding)
                }
                Some(at) => term * roundoff(formats[at], adaptation.rounding),
                None => term,
            };
            all += term;
        }
        let n = (value.len() + formats.len() + 2) as f64 * (f64::EPSILON / 2.0);
        // The bound itself is rounded.
        (stored + n / (1.0 - n) * all) * (1.0 + n)
    };
    Ok(a.iter().enumerate().map(row).collect())
}

/// Returns the largest relative error of a nonzero.
fn roundoff(format: PackedFormat, rounding: Rounding) -> f64 {
    let twice = if rounding == Rounding::Chop && format != PackedFormat::Fp32 { 2.0 } else { 1.0 };
    match format {
        PackedFormat::Fp64 => 0.0,
        _ => twice * SLACK * format.unit_roundoff(),
    }
}
