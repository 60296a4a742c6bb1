//! Chapter 3, section 3: Algorithm 4 as it is written, with the sums of each bucket in the bucket's
//! own precision, and its error bound.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_sparse::Csr;
use zellige_sparse::adaptive::FormatSet;
use zellige_sparse::exact::ExactProduct;

use super::super::Context;
use super::super::found::Found;
use super::products::matrices;

/// Unit roundoff of the widest format.
const U1: f64 = f64::EPSILON / 2.0;

/// Row of a matrix in the buckets of a set by the normwise criterion.
pub struct Buckets {
    /// Limits `eps |A| / u_{k+1}`; entries up to the last are dropped.
    limits: Vec<f64>,
    /// Formats, the most accurate first.
    pub formats: &'static [PackedFormat],
}

impl Buckets {
    /// Equations (3.22) and (3.23), for a dropped entry as in remark 3.2.
    pub fn new(set: FormatSet, eps: f64, norm: f64) -> Buckets {
        Buckets::of_formats(set.formats(), eps, norm)
    }

    /// Returns the buckets of any list of formats.
    pub fn of_formats(formats: &'static [PackedFormat], eps: f64, norm: f64) -> Buckets {
        let next = formats.iter().skip(1).map(|format| format.unit_roundoff()).chain([1.0]);
        Buckets { limits: next.map(|u| eps * norm / u).collect(), formats }
    }

    fn of(&self, value: f64) -> Option<usize> {
        self.limits.iter().position(|&limit| value.abs() > limit)
    }

    /// Sums of one row: every operation of a bucket is rounded to its format, their sum to float64.
    fn multiply(&self, row: (&[u32], &[f64]), x: &[f64]) -> f64 {
        let mut sums = vec![0.0; self.formats.len()];
        for (&j, &value) in row.0.iter().zip(row.1) {
            let Some(k) = self.of(value) else { continue };
            let round = |number: f64| rounded(self.formats[k], number);
            sums[k] = round(sums[k] + round(round(value) * round(x[j as usize])));
        }
        sums.iter().rev().sum()
    }

    /// Returns the numbers `p_ik` of a row, those of dropped entries last.
    pub fn counts(&self, row: &[f64]) -> Vec<usize> {
        let mut counts = vec![0; self.formats.len() + 1];
        for &value in row {
            counts[self.of(value).unwrap_or(self.formats.len())] += 1;
        }
        counts
    }

    /// Returns the bound `(q - 1) u_1 + c eps` with the constant of equation (3.18).
    fn bound(&self, a: &Csr, eps: f64) -> (f64, f64) {
        let q = self.formats.len() as f64 + 1.0;
        let roundoffs: Vec<f64> = self.formats.iter().map(|format| format.unit_roundoff()).collect();
        // A dropped entry is off by itself, once: p instead of p^2, and no conversion.
        let of_row = |row: &[f64]| {
            let counts = self.counts(row);
            let kept = counts.iter().zip(&roundoffs).map(|(&p, u)| (p * p) as f64 * (1.0 + u).powi(2));
            kept.sum::<f64>() + counts[roundoffs.len()] as f64
        };
        let most = a.iter().map(|row| of_row(row.1)).fold(0.0, f64::max);
        let c = (1.0 + (q - 1.0) * U1) * most;
        (c, (q - 1.0) * U1 + c * eps)
    }
}

fn rounded(format: PackedFormat, number: f64) -> f64 {
    format.decode(format.encode(number, Rounding::Nearest))
}

/// Computes the constant of Theorem 1, its bound, and the errors of Algorithm 4 with sums in each
/// bucket's precision and with sums in float64.
pub fn theorem(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (mut holds, mut most, mut wider) = (true, 0.0f64, 0.0f64);
    for named in matrices(context)? {
        let a = &named.a;
        let x = vec![1.0; a.columns()];
        let exact = ExactProduct::of(a, &x)?;
        for (set, p) in [(FormatSet::Ap2, 53), (FormatSet::Ap3, 24), (FormatSet::Ap7, 24)] {
            let eps = 0.5f64.powi(p);
            let buckets = Buckets::new(set, eps, a.norm_inf());
            let y: Vec<f64> = a.iter().map(|row| buckets.multiply(row, &x)).collect();
            let error = exact.measured(&exact.errors(&y)?).normwise;
            let wide = wide_sums(&buckets, a, &x);
            let wide = exact.measured(&exact.errors(&wide)?).normwise;
            let (c, bound) = buckets.bound(a, eps);
            let row = format!("{} {set} 2^-{p}", named.name);
            found.value(row.clone(), "c of (3.18)", c);
            found.value(row.clone(), "bound of Theorem 1", bound);
            found.value(row.clone(), "error, sums in u_k", error);
            found.value(row, "error, sums in FP64", wide);
            holds &= error <= bound && wide <= bound;
            most = most.max(error / bound);
            wider = wider.max(error / wide.max(f64::MIN_POSITIVE));
        }
    }
    found.judge(
        "the normwise error is at most (q - 1) u_1 + c eps",
        holds,
        format!("the largest is {most:.1e} of its bound"),
    );
    found.judge(
        "sums in u_k keep errors of the order of eps, as sums in u_1 do",
        wider <= 16.0,
        format!("sums in u_k have at most {wider:.1} times the error of sums in FP64"),
    );
    Ok(found)
}

/// Multiplies with the same entries in the same formats, and sums in float64 (remark 3.1).
fn wide_sums(buckets: &Buckets, a: &Csr, x: &[f64]) -> Vec<f64> {
    let product = |(&j, &value): (&u32, &f64)| match buckets.of(value) {
        Some(k) => rounded(buckets.formats[k], value) * x[j as usize],
        None => 0.0,
    };
    a.iter().map(|(column, value)| column.iter().zip(value).map(product).sum()).collect()
}

/// Multiplies and sums vectors whose numbers span many decades in adaptive precision.
pub fn inner_products(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let n = if context.full { 10_000_000 } else { 100_000 };
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut draw = |decades: f64| -> f64 {
        let magnitude = 10f64.powf(-decades * random.random_range(0.0..1.0));
        if random.random_bool(0.5) { magnitude } else { -magnitude }
    };
    let (mut worst, mut holds) = (0.0f64, true);
    for (name, other) in [("sum", false), ("inner product", true)] {
        let value: Vec<f64> = (0..n).map(|_| draw(16.0)).collect();
        let x: Vec<f64> = (0..n).map(|_| if other { draw(1.0) } else { 1.0 }).collect();
        let columns: Vec<u32> = (0..n as u32).collect();
        let a = Csr::new(n, vec![0, n], columns, value)?;
        let exact = ExactProduct::of(&a, &x)?;
        for p in [53, 37, 24] {
            let eps = 0.5f64.powi(p);
            let buckets = Buckets::new(FormatSet::Ap7, eps, a.norm_inf());
            let y = wide_sums(&buckets, &a, &x);
            let error = exact.measured(&exact.errors(&y)?).normwise;
            let counts = buckets.counts(a.row(0).1);
            let bytes: usize =
                counts.iter().zip(buckets.formats).map(|(count, format)| count * format.bytes()).sum();
            let row = format!("{name} at 2^-{p}");
            found.value(row.clone(), "backward error", error);
            found.value(row.clone(), "% of FP64's bytes", 100.0 * bytes as f64 / (8 * n) as f64);
            found.value(row, "% dropped", 100.0 * counts[buckets.formats.len()] as f64 / n as f64);
            worst = worst.max(error / eps);
            holds &= error <= buckets.bound(&a, eps).1;
        }
    }
    found.judge(
        "inner products and sums have errors of at most c eps",
        holds,
        format!("the largest is {worst:.1e} eps, relative to sums of magnitudes: most of {n} numbers over 16 decades are dropped"),
    );
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits and sums of a row of four entries, by hand: AP2 at 2^-24 with norm 1.
    #[test]
    fn a_row_is_summed_bucket_by_bucket() {
        let buckets = Buckets::new(FormatSet::Ap2, 2f64.powi(-24), 1.0);
        assert_eq!(buckets.limits, [1.0, 2f64.powi(-24)]);
        let row = [1.5, 0.1, 2f64.powi(-24), -0.2];
        assert_eq!(buckets.counts(&row), [1, 2, 1]);
        let expected = 1.5 + f64::from(0.1f32 + -0.2f32);
        assert_eq!(buckets.multiply((&[0, 1, 2, 3], &row), &[1.0; 4]), expected);
        // c = p_1^2 (1 + u_1)^2 + p_2^2 (1 + u_2)^2, and the dropped entry.
        let a = Csr::new(4, vec![0, 4], vec![0, 1, 2, 3], row.to_vec()).unwrap();
        let (c, bound) = buckets.bound(&a, 2f64.powi(-24));
        assert!((c - 6.0).abs() < 1e-6 && (bound / 2f64.powi(-24) - 6.0).abs() < 1e-6, "{c} {bound}");
    }
}
