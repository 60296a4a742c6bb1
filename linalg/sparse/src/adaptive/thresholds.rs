//! Thresholds that assign each nonzero to a bucket.

use zellige_kernels::packed::PackedFormat;

use super::{Adaptation, ldexp, to_one};
use crate::csr::{Csr, abs_sum};

/// Reference that the magnitude of a nonzero is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion<'x> {
    /// `max_i sum_j |a_ij|`: bounds the normwise backward error (thesis, equation 3.23).
    Normwise,
    /// `sum_j |a_ij|` of the nonzero's row: bounds the componentwise error for `|x| = 1` (equation
    /// 3.27).
    Componentwise,
    /// `sum_j |a_ij x_j|` of the row, compared with `|a_ij x_j|`: bounds the componentwise error
    /// for this `x` (equations 3.15, 3.16).
    ComponentwiseFor(&'x [f64]),
    /// `sum_j |a_ij|` of the row, times its weight: each row has an accuracy of its own, its weight
    /// times that of the product.
    Rows(&'x [f64]),
}

impl Criterion<'_> {
    /// Returns the compared magnitude of a nonzero in this column.
    pub(super) fn magnitude(self, column: u32, value: f64) -> f64 {
        match self {
            Criterion::ComponentwiseFor(x) => (value * x[column as usize]).abs(),
            _ => value.abs(),
        }
    }

    /// Returns the name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Criterion::Normwise => "nw",
            Criterion::Componentwise => "cw",
            Criterion::ComponentwiseFor(_) => "cw-exact",
            Criterion::Rows(_) => "rows",
        }
    }
}

/// Limits between buckets, for a scale of 1.
///
/// The nonzero `a` with scale `theta` goes to the first bucket `k`, the most accurate first, with
/// `|a| > eps theta / u_{k+1}`; the `u` after the last is 1. It is dropped if there is no such
/// bucket. Sets with scaled formats put `|a|` itself at a limit into the bucket above it: their
/// numbers are `eps theta / u_{k+1}` times a factor from `[1, 2^8)` (thesis, section 4.2.4).
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    formats: &'static [PackedFormat],
    /// `eps / u_{k+1}`.
    limits: Vec<f64>,
    /// True if a magnitude equal to a limit belongs to the bucket above it.
    closed_below: bool,
    drops: bool,
}

impl Thresholds {
    /// Returns the limits of an adaptation.
    pub fn new(adaptation: &Adaptation<'_>) -> Thresholds {
        Thresholds::at(adaptation, adaptation.accuracy.get())
    }

    /// Returns thresholds whose limits are rounded down to powers of two, so at least half as
    /// large.
    pub(super) fn of_powers(adaptation: &Adaptation<'_>) -> Thresholds {
        Thresholds::at(adaptation, power_below(adaptation.accuracy.get()))
    }

    fn at(adaptation: &Adaptation<'_>, eps: f64) -> Thresholds {
        let formats = adaptation.set.formats();
        let next = formats.iter().skip(1).map(|format| format.unit_roundoff()).chain([1.0]);
        Thresholds {
            formats,
            limits: next.map(|u| eps / u).collect(),
            closed_below: formats.iter().any(|format| format.is_scaled()),
            drops: adaptation.drops,
        }
    }

    /// Returns the bucket of a magnitude, by its index in the set; `None` for a dropped nonzero.
    pub fn bucket(&self, magnitude: f64, theta: f64) -> Option<usize> {
        let is_above = |limit: &f64| {
            let limit = limit * theta;
            magnitude > limit || self.closed_below && magnitude == limit
        };
        // A zero is in no bucket, for any scale.
        let place = if magnitude > 0.0 { self.limits.iter().position(is_above) } else { return None };
        place.or((!self.drops).then_some(self.formats.len() - 1))
    }

    /// Returns the unit that the numbers of a bucket of a scaled format are multiples of: its lower
    /// limit.
    pub fn unit(&self, bucket: usize, theta: f64) -> f64 {
        if self.formats[bucket].is_scaled() { self.limits[bucket] * theta } else { 1.0 }
    }
}

/// Returns the largest power of two that does not exceed a number; 0 for 0.
pub(super) fn power_below(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { ldexp(1.0, -to_one(number) - 1) }
}

/// Thresholds of the nonzeros of one row.
pub(super) struct RowThresholds<'a> {
    thresholds: &'a Thresholds,
    /// Brings the scale into `[1/2, 1)`, so that no limit is subnormal.
    pub(super) to_one: i32,
    /// The scale, so brought.
    pub(super) theta: f64,
}

impl<'a> RowThresholds<'a> {
    pub(super) fn new(thresholds: &'a Thresholds, theta: f64) -> Self {
        let to_one = to_one(theta);
        RowThresholds { thresholds, to_one, theta: ldexp(theta, to_one) }
    }

    /// Returns the bucket of a magnitude, like [`Thresholds::bucket`].
    pub(super) fn bucket(&self, magnitude: f64) -> Option<usize> {
        self.thresholds.bucket(ldexp(magnitude, self.to_one), self.theta)
    }

    /// Returns the unit like [`Thresholds::unit`], for values that are stored multiplied by
    /// `2^exponent`.
    pub(super) fn unit(&self, bucket: usize, exponent: i32) -> f64 {
        self.thresholds.unit(bucket, ldexp(self.theta, exponent - self.to_one))
    }
}

/// Returns true for formats with the exponents of `f32`, which end at `2^-126`.
pub(super) fn has_short_exponent(format: PackedFormat) -> bool {
    matches!(format, PackedFormat::Fp32 | PackedFormat::Rp24 | PackedFormat::Rp16)
}

/// Returns the scale of each row; all are equal under [`Criterion::Normwise`].
pub(super) fn scales(a: &Csr, criterion: Criterion<'_>) -> Vec<f64> {
    match criterion {
        Criterion::Normwise => vec![a.norm_inf(); a.rows()],
        Criterion::Componentwise => a.iter().map(|(_, value)| abs_sum(value)).collect(),
        Criterion::Rows(weights) => {
            a.iter().zip(weights).map(|((_, value), weight)| weight * abs_sum(value)).collect()
        }
        Criterion::ComponentwiseFor(_) => {
            let row = |(column, value): (&[u32], &[f64])| {
                column.iter().zip(value).fold(0.0, |sum, (&j, &a)| sum + criterion.magnitude(j, a))
            };
            a.iter().map(row).collect()
        }
    }
}
