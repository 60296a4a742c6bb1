//! Squares of distances by inner products, `|v - b|^2 = |v|^2 + (|b|^2 - 2 v b)`. They take one
//! fused multiply-add for a sample, while the difference and its square take three instructions.
//! The price is cancellation, with a known bound.

use super::lanes::{LaneWork, SixteenLanes};
use super::{LANES, Shape, SimdLevel, Values};
use crate::KernelError;
use crate::error::check_shape;

/// Half the distance from 1 to the next `f32`.
const ROUNDING: f64 = 1.0 / (1u32 << 24) as f64;

/// The square of each point's length, the sum of the squares of all its samples: added in `f64` and
/// rounded once. With those that fill up the last block.
///
/// # Errors
/// [`KernelError::Shape`] for values that are no whole blocks of the shape.
pub fn squares(values: Values<'_>, shape: Shape) -> Result<Vec<f32>, KernelError> {
    let stride = values.check("distance::squares", shape)?;
    let mut scratch = vec![0.0; values.scratch_len(shape)];
    let mut squares = Vec::with_capacity(stride);
    for first in (0..stride).step_by(LANES) {
        let mut sums = [0.0f64; LANES];
        for value in values.of_block(first, shape, &mut scratch) {
            sums.iter_mut().zip(value).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
        }
        squares.extend(sums.map(|sum| sum as f32));
    }
    Ok(squares)
}

/// Computes `|b|^2 - 2 v b` of every point `b` for every event `v`. This is the square of their
/// distance without `|v|^2`, which all sums of an event have in common.
///
/// `squares` are those of [`squares`](fn@squares). Everything else is as for [`sums`](super::sums).
/// The product of the samples is one chain of fused multiply-adds for each channel. Channels are
/// added in their order, and `|b|^2` comes last. The bits do not depend on the other points and
/// events of a call. [`product_error`] bounds the rounding error.
///
/// # Errors
/// The errors of [`sums`](super::sums).
pub fn products(
    values: Values<'_>,
    squares: &[f32],
    shape: Shape,
    events: &[f32],
    scratch: &mut [f32],
    sums: &mut [f32],
) -> Result<(), KernelError> {
    products_by(SimdLevel::best(), values, squares, shape, events, scratch, sums)
}

pub(super) fn products_by(
    simd: SimdLevel,
    values: Values<'_>,
    squares: &[f32],
    shape: Shape,
    events: &[f32],
    scratch: &mut [f32],
    sums: &mut [f32],
) -> Result<(), KernelError> {
    let kernel = "distance::products";
    let stride = values.check(kernel, shape)?;
    let count = events.len() / shape.terms();
    check_shape(kernel, "squares", (squares.len(), 1), (stride, 1))?;
    check_shape(kernel, "events", (events.len(), 1), (count * shape.terms(), 1))?;
    check_shape(kernel, "sums", (sums.len(), 1), (count * stride, 1))?;
    let (got, need) = (scratch.len(), values.scratch_len(shape));
    if got < need {
        return Err(KernelError::Scratch { kernel, got, need });
    }
    for (first, squares) in (0..stride).step_by(LANES).zip(squares.as_chunks().0) {
        let values = values.of_block(first, shape, scratch);
        simd.enter(Products { values, squares, shape, events, first, stride, sums });
    }
    Ok(())
}

/// Returns the largest error of a sum of [`products`] and `|v|^2` against `|v - b|^2`, for each
/// unit of `(|v| + |b|)^2`. The bound holds if nothing is infinite or subnormal.
///
/// Let `n` be the number of samples plus channels and `u = 2^-24`. The product of samples `v b` has
/// an error of at most `n u / (1 - n u)` of `|v| |b|` (a chain and the sum of channels; Higham,
/// Accuracy and Stability of Numerical Algorithms, eq. 3.5). Twice that is at most half of it times
/// `(|v| + |b|)^2`, since `4 |v| |b|` is not more. `|b|^2` and the last sum are each rounded once,
/// with an error of at most `u (|v| + |b|)^2`, and a little more.
pub fn product_error(shape: Shape) -> f64 {
    error_after(shape.samples + shape.channels)
}

/// Returns the error bound of a sum if the product of samples is `v b` times up to `operations`
/// factors of `1 + d`, `|d| <= u`.
fn error_after(operations: usize) -> f64 {
    0.5 * relative(operations) + 2.5 * ROUNDING
}

/// Returns a bound of the distance from 1 of the product of `operations` factors of `1 + d`.
fn relative(operations: usize) -> f64 {
    let n = operations as f64 * ROUNDING;
    if n < 1.0 { n / (1.0 - n) } else { f64::INFINITY }
}

/// Margin between a sum of products and the last one that is kept. Beyond it the direct sums of
/// both points have the same order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// Largest error of a sum of products, for each unit of `(|v| + |b|)^2`.
    pub error: f64,
    /// Additional error from subnormal numbers, for each unit of `1 + |v| + |b|`.
    pub subnormal: f64,
    /// Largest relative error of a direct sum.
    pub direct: f64,
}

impl Margin {
    /// Squares of lengths that are larger have no bound: sums may be infinite.
    pub const LARGEST: f64 = f32::MAX as f64 / 8.0;

    /// Returns the margin for the sums of [`products`].
    pub fn of_chains(shape: Shape) -> Margin {
        Margin::with(product_error(shape), shape)
    }

    /// Returns the margin for sums of products that a library adds in its own order, in any number
    /// of parts, fused or not.
    ///
    /// In every order, each of `n` terms goes through a product and at most `n - 1` sums, and the
    /// factor -2 is exact. The bound allows twice as many roundings, and one more of each. This
    /// covers units that truncate (an error of `2 u`, not `u`). For units that round to nearest, it
    /// only costs a few additional direct sums. Operands must not be narrowed first: TF32 has no
    /// bound here.
    pub fn in_any_order(shape: Shape) -> Margin {
        Margin::with(error_after(2 * (shape.terms() + 1)), shape)
    }

    fn with(error: f64, shape: Shape) -> Margin {
        // Two products and two sums for each term, whose operands or results may be flushed.
        let subnormal = 8.0 * shape.terms() as f64 * f64::from(f32::MIN_POSITIVE);
        // A difference counts twice, its square once; then sums.
        Margin { error, subnormal, direct: relative(shape.samples + shape.channels + 3) }
    }

    /// Returns the largest error of the sums for an event whose length has this `square`, and for
    /// points up to the length `longest`. There is none if that has no bound.
    pub fn error_of(&self, square: f64, longest: f64) -> Option<f64> {
        let length = square.sqrt() + longest;
        let unit = length * length;
        let error = self.error * unit + self.subnormal * (1.0 + length);
        (unit <= Self::LARGEST && error <= Self::LARGEST).then_some(error)
    }

    /// Returns the margin around the `last` sum that is kept, for an event whose length has this
    /// `square` and whose sums have errors up to `error`.
    ///
    /// Let `q` be the relative error of a direct sum, and `T = last + e + |v|^2` the largest value
    /// of such a sum. Sums that are more than `2 e` apart belong to distances in the same order.
    /// Direct sums of distances `a < b` are in order if `a (1 + q) < b (1 - q)`, and a difference
    /// of `3 q T` ensures this.
    pub fn around(&self, last: f64, square: f64, error: f64) -> f64 {
        2.0 * error + 3.0 * self.direct * (last + error + square)
    }
}

/// The largest length of points whose lengths have these squares, each rounded once.
pub fn longest(squares: &[f32]) -> f64 {
    let most = squares.iter().fold(0.0, |most: f32, &x| most.max(x));
    f64::from(most).sqrt() * (1.0 + ROUNDING)
}

/// Products of one block with all events.
struct Products<'a> {
    values: &'a [[f32; LANES]],
    squares: &'a [f32; LANES],
    shape: Shape,
    events: &'a [f32],
    /// Index of the block's first point among all points of an event. The sums of an event have
    /// this `stride`.
    first: usize,
    stride: usize,
    sums: &'a mut [f32],
}

impl LaneWork for Products<'_> {
    #[inline(always)]
    fn run<L: SixteenLanes, const BATCH: usize>(self, lanes: L) {
        if L::HAS_MANY_REGISTERS { self.all::<L, 8>(lanes) } else { self.all::<L, BATCH>(lanes) }
    }
}

impl Products<'_> {
    #[inline(always)]
    fn all<L: SixteenLanes, const E: usize>(mut self, lanes: L) {
        let events = self.events.len() / self.shape.terms();
        let whole = events / E * E;
        for event in (0..whole).step_by(E) {
            self.group::<L, E>(lanes, event);
        }
        for event in whole..events {
            self.group::<L, 1>(lanes, event);
        }
    }

    /// The events from this one on: a value is loaded once for all of them, and as many chains as
    /// there are events do not wait for each other.
    #[inline(always)]
    fn group<L: SixteenLanes, const E: usize>(&mut self, l: L, event: usize) {
        let Shape { samples, .. } = self.shape;
        let terms = self.shape.terms();
        let mut sums = [l.splat(0.0); E];
        for (channel, values) in self.values.chunks_exact(samples).enumerate() {
            let events: [&[f32]; E] =
                std::array::from_fn(|e| &self.events[(event + e) * terms + channel * samples..][..samples]);
            let mut inner = [l.splat(0.0); E];
            for t in 0..samples {
                let value = l.load(&values[t]);
                for e in 0..E {
                    inner[e] = l.mul_add(value, l.splat(events[e][t]), inner[e]);
                }
            }
            for e in 0..E {
                sums[e] = l.add(sums[e], inner[e]);
            }
        }
        let square = l.load(self.squares);
        for (e, sum) in sums.into_iter().enumerate() {
            let to = &mut self.sums[(event + e) * self.stride + self.first..];
            let sum = l.mul_add(l.splat(-2.0), sum, square);
            l.store(sum, to.first_chunk_mut().expect("sixteen lanes"));
        }
    }
}
