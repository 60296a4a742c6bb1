//! Error measures of an answer.

use std::ops::Range;

use libm::{frexp, ldexp};

use crate::concurrent::concurrent_map;
use crate::csr::Csr;
use zellige_krylov::method::norm;

/// Returns the normwise backward error of an answer to `(A + shift I) x = b`, and the attainable
/// residual. The result does not depend on the number of threads.
pub(super) fn quality(a: &Csr, shift: f64, b: &[f64], x: &[f64], threads: usize) -> (f64, f64) {
    // Products with a right-hand side far from 1 would be subnormal, or infinite.
    let power = scale(b, x);
    let scaled = |v: &[f64]| -> Vec<f64> { v.iter().map(|v| ldexp(*v, power)).collect() };
    if power != 0 {
        let (error, attainable) = quality_near_one(a, shift, &scaled(b), &scaled(x), threads);
        return (error, ldexp(attainable, -power));
    }
    quality_near_one(a, shift, b, x, threads)
}

/// Returns `|b - A x|_2` with products and sums in twice the working precision (Ogita, Rump and
/// Oishi 2005), in which rounding does not decide whether a tolerance is met.
pub(super) fn accurate_residual(a: &Csr, b: &[f64], x: &[f64]) -> f64 {
    let power = scale(b, x);
    let row = |((column, value), b): ((&[u32], &[f64]), &f64)| {
        let (mut sum, mut rest) = (ldexp(*b, power), 0.0);
        for (&j, a) in column.iter().zip(value) {
            let x = -ldexp(x[j as usize], power);
            let product = a * x;
            let (before, total) = (sum, sum + product);
            let added = total - before;
            rest += a.mul_add(x, -product) + ((before - (total - added)) + (product - added));
            sum = total;
        }
        sum + rest
    };
    ldexp(norm(&a.iter().zip(b).map(row).collect::<Vec<_>>()), -power)
}

/// Returns the exponent of the power of two that scales `b` to about 1; 0 if it is not far from
/// that.
fn scale(b: &[f64], x: &[f64]) -> i32 {
    const FAR: i32 = 600;
    let exponent = |v: &[f64]| frexp(v.iter().fold(0.0, |most: f64, v| most.max(v.abs()))).1;
    let of_rhs = exponent(b);
    if of_rhs.abs() <= FAR { 0 } else { (-of_rhs).min(1000 - exponent(x)) }
}

fn quality_near_one(a: &Csr, shift: f64, b: &[f64], x: &[f64], threads: usize) -> (f64, f64) {
    let count = if a.nonzeros() < LITTLE { 1 } else { threads };
    let parts = (0..count).map(|part| b.len() * part / count..b.len() * (part + 1) / count);
    let parts: Vec<Range<usize>> = parts.collect();
    let of_part = |rows: Range<usize>| {
        let [mut residual, mut most_b, mut most_row, mut most_x] = [0.0f64; 4];
        let mut sizes = Vec::with_capacity(rows.len());
        for i in rows {
            let (column, value) = a.row(i);
            let [mut sum, mut size, mut of_row] = [0.0f64; 3];
            for (&j, a) in column.iter().zip(value) {
                let product = a * x[j as usize];
                (sum, size, of_row) = (sum + product, size + product.abs(), of_row + a.abs());
            }
            let own = shift * x[i];
            residual = residual.max((b[i] - (sum + own)).abs());
            (most_b, most_x) = (most_b.max(b[i].abs()), most_x.max(x[i].abs()));
            most_row = most_row.max(of_row + shift.abs());
            sizes.push(size + own.abs());
        }
        ([residual, most_b, most_row, most_x], sizes)
    };
    let (mut most, mut sizes) = ([0.0f64; 4], Vec::with_capacity(b.len()));
    for (of_part, of_rows) in concurrent_map(count, parts.into_iter(), of_part) {
        most.iter_mut().zip(of_part).for_each(|(most, of_part)| *most = most.max(of_part));
        sizes.extend(of_rows);
    }
    let [residual, most_b, most_row, most_x] = most;
    let error = if residual == 0.0 { 0.0 } else { residual / (most_row * most_x + most_b) };
    (error, f64::EPSILON / 2.0 * norm(&sizes))
}

/// Nonzeros that take one thread less time than starting another.
const LITTLE: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Flow, flow};
    use zellige_krylov::Error;

    /// Sums of a row are made in its order, and the largest of all rows is the largest of those of
    /// parts.
    #[test]
    fn threads_do_not_change_what_is_known_of_an_answer() -> Result<(), Error> {
        let a = flow(&Flow { cells: [24, 24, 24], ..Flow::default() })?;
        assert!(a.nonzeros() > LITTLE);
        let x: Vec<f64> = (0..a.rows()).map(|i| ((i * 37 % 101) as f64 - 50.0) / 7.0).collect();
        let b: Vec<f64> = (0..a.rows()).map(|i| (i % 13) as f64 - 6.0).collect();
        for shift in [0.0, 0.3] {
            let [mut residual, mut most_row] = [0.0f64; 2];
            let mut sizes = Vec::new();
            for ((column, value), (b, own)) in a.iter().zip(b.iter().zip(&x)) {
                let products =
                    || column.iter().zip(value).map(|(&j, a)| a * x[j as usize]).chain([shift * own]);
                residual = residual.max((b - products().sum::<f64>()).abs());
                most_row = most_row.max(crate::csr::abs_sum(value) + shift.abs());
                sizes.push(products().map(f64::abs).sum::<f64>());
            }
            let most = |v: &[f64]| v.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
            let expected = residual / (most_row * most(&x) + most(&b));
            for threads in [1, 2, 5] {
                let found = quality(&a, shift, &b, &x, threads);
                assert_eq!(found, (expected, f64::EPSILON / 2.0 * norm(&sizes)), "{threads} threads");
            }
        }
        Ok(())
    }

    /// Residuals that rounding to `f64` hides or makes: those of sums whose parts cancel.
    #[test]
    fn residuals_of_large_answers_are_accurate() {
        let small = 2f64.powi(-60);
        let a = Csr::from_triplets(1, 3, &[(0, 0, 1.0), (0, 1, -1.0), (0, 2, small)]).unwrap();
        let large = 2f64.powi(40) + 1.0;
        // The sum of the first product and the third is rounded.
        let x = [large, 0.0, 3.0];
        for power in [-1000, 0, 900] {
            let b = [ldexp(large, power)];
            let x = x.map(|x| ldexp(x, power));
            assert_eq!(b[0] - (x[0] + small * x[2]), 0.0, "what float64 sees");
            let found = accurate_residual(&a, &b, &x);
            assert_eq!(found, ldexp(3.0 * small, power));
        }
        // Products are rounded too: (1 + e)(1 - e) = 1 - e^2.
        let e = 2f64.powi(-30);
        let a = Csr::from_triplets(1, 1, &[(0, 0, 1.0 + e)]).unwrap();
        assert_eq!(1.0 - (1.0 + e) * (1.0 - e), 0.0);
        assert_eq!(accurate_residual(&a, &[1.0], &[1.0 - e]), e * e);
    }
}
