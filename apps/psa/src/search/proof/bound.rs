//! Error bounds of the quick metrics relative to figures of merit, valid for every number.

use zellige_kernels::distance::{Metric, Shape};

/// Magnitude below which a screen's proof treats differences as 0: 2^-100 of the charge.
const LEAST: f32 = f32::from_bits((127 - 100) << 23);
/// Largest magnitude of a difference: 2^4 times the charge.
const MOST: f32 = 16.0;
/// Number of floating-point numbers in an interval of the proof.
const INTERVAL: usize = 1 << 12;
/// Half the distance from 1 to the next `f32`.
const ROUNDING: f64 = 1.0 / (1u32 << 24) as f64;

/// Bounds of the figure of merit `F` (in units of the charge, exact) by a sum `S` of a quick
/// metric. `F` lies between `S / high - nothing` and `S / low + nothing`. `nothing` is the error of
/// small differences and of the rounding of the event's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    low: f64,
    high: f64,
    /// Upper bound of the contribution of differences below the smallest one.
    least: f64,
}

impl Bound {
    /// Computes the bound of [`Metric::bits`] for an exponent from 0 to 1, by intervals. Neither
    /// the metric nor the power ever decreases. Therefore their ratio between `a` and `b` lies
    /// between `m(a) / b^p` and `m(b) / a^p`. Intervals of 2^12 numbers cover the range from 2^-100
    /// to 2^4.
    pub fn of_bits(p: f64, shape: Shape) -> Bound {
        let metric = Metric::bits(p);
        let ends = (LEAST.to_bits()..=MOST.to_bits()).step_by(INTERVAL).map(f32::from_bits);
        let at = ends.map(|x| (f64::from(metric.of(x)), f64::from(x).powf(p)));
        let (mut low, mut high, mut before) = (f64::INFINITY, 0.0f64, None);
        for (quick, exact) in at {
            if let Some((quick_before, exact_before)) = before {
                low = low.min(quick_before / exact);
                high = high.max(quick / exact_before);
            }
            before = Some((quick, exact));
        }
        let least = f64::from(metric.of(LEAST)).max(f64::from(LEAST).powf(p));
        Bound::with_sums(low, high, least, shape)
    }

    /// Returns the bound of [`Metric::polynomials`] for `p = 0.3`, `None` for other exponents. It
    /// is 4e-6 for all normal numbers below 2, which a test of the metric verifies for each of
    /// them.
    pub fn of_polynomials(p: f64, shape: Shape) -> Option<Bound> {
        (p == 0.3)
            .then(|| Bound::with_sums(1.0 - 4e-6, 1.0 + 4e-6, f64::from(f32::MIN_POSITIVE).powf(p), shape))
    }

    /// Adds the rounding of sums, first over the samples of a channel and then over channels, and
    /// of differences: 2^-22 for samples in two parts.
    fn with_sums(low: f64, high: f64, least: f64, shape: Shape) -> Bound {
        let additions = (shape.samples + shape.channels) as f64;
        let sums = additions * ROUNDING / (1.0 - additions * ROUNDING);
        // |d (1 + e)|^p is |d|^p (1 + e) at most for p of 1 and less.
        let differences = 4.0 * ROUNDING;
        Bound {
            low: low * (1.0 - sums) * (1.0 - differences),
            high: high * (1.0 + sums) * (1.0 + differences),
            least: least * shape.terms() as f64,
        }
    }

    /// Returns the smallest figure of merit that a sum allows; `lost` is the error of the event's
    /// samples.
    pub fn least(&self, sum: f64, lost: f64) -> f64 {
        (sum - self.least) / self.high - self.least - lost
    }

    /// Returns the largest figure of merit that a sum allows.
    pub fn most(&self, sum: f64, lost: f64) -> f64 {
        sum / self.low + self.least + lost
    }

    /// Returns the relative errors of the sum, below and above.
    #[cfg(test)]
    fn errors(&self) -> (f64, f64) {
        (self.low - 1.0, self.high - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_within_the_bound_where_they_are_looked_at() {
        let shape = Shape { channels: 1, samples: 1 };
        for p in [0.1, 0.25, 0.3, 0.5, 0.9, 1.0] {
            let (bound, metric) = (Bound::of_bits(p, shape), Metric::bits(p));
            let mut widest = (0.0f64, 0.0f64);
            for bits in (LEAST.to_bits()..MOST.to_bits()).step_by(10_007) {
                let x = f32::from_bits(bits);
                let (sum, exact) = (f64::from(metric.of(x)), f64::from(x).powf(p));
                assert!(bound.least(sum, 0.0) <= exact && exact <= bound.most(sum, 0.0), "p {p}, {x:e}");
                let error = sum / exact - 1.0;
                widest = (widest.0.min(error), widest.1.max(error));
            }
            // The bound is not wider than necessary.
            let (low, high) = bound.errors();
            println!("p {p}: {low:.4} to {high:.4}");
            assert!(low > widest.0 - 1e-3 && high < widest.1 + 1e-3, "p {p}: {widest:?} in {low} to {high}");
            assert!(low > -0.07 && high < 0.07, "p {p}: {low} to {high}");
        }
    }
}
