//! Squares of distances by inner products, `|v - b|^2 = |v|^2 + (|b|^2 - 2 v b)`: one fused multiply-add for a sample, where the difference and its square are
//! three instructions. The price is cancellation, whose bound is known.

use super::lanes::{Lanes, Work};
use super::{LANES, Shape, Values, Way};
use crate::KernelError;
use crate::error::check_shape;

/// Half the distance from 1 to the next `f32`.
const ROUNDING: f64 = 1.0 / (1u32 << 24) as f64;

/// The square of each point's length, the sum of the squares of all its samples: added in `f64` and rounded once. With those that fill up the last block.
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

/// `|b|^2 - 2 v b` of every point `b` for every event `v`: what the square of their distance is without `|v|^2`, which an event's sums have in common.
///
/// `squares` are those of [`squares`](fn@squares); everything else is as for [`sums`](super::sums). The product of the samples is one chain of fused multiply-adds for each
/// channel, channels are added in their order, and `|b|^2` comes last: the same bits whatever is computed beside it. [`product_error`] bounds what they have
/// lost.
///
/// # Errors
/// As [`sums`](super::sums).
pub fn products(
    values: Values<'_>,
    squares: &[f32],
    shape: Shape,
    events: &[f32],
    scratch: &mut [f32],
    sums: &mut [f32],
) -> Result<(), KernelError> {
    products_by(Way::best(), values, squares, shape, events, scratch, sums)
}

pub(super) fn products_by(
    way: Way,
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
        way.enter(Products { values, squares, shape, events, first, stride, sums });
    }
    Ok(())
}

/// How far a sum of [`products`] and `|v|^2` is from `|v - b|^2` at most, for each unit of `(|v| + |b|)^2`, where nothing is infinite or subnormal.
///
/// With `n` for samples and channels and `u = 2^-24`: the product of samples `v b` is off by `n u / (1 - n u)` of `|v| |b|` at most (a chain and the sum of channels; Higham,
/// Accuracy and Stability of Numerical Algorithms, eq. 3.5), which twice it is half of that of `(|v| + |b|)^2`, since `4 |v| |b|` is not more; `|b|^2` and the last
/// sum are each rounded once, by `u (|v| + |b|)^2` at most, and a little more.
pub fn product_error(shape: Shape) -> f64 {
    let n = (shape.samples + shape.channels) as f64 * ROUNDING;
    0.5 * n / (1.0 - n) + 2.5 * ROUNDING
}

/// One block, for all events.
struct Products<'a> {
    values: &'a [[f32; LANES]],
    squares: &'a [f32; LANES],
    shape: Shape,
    events: &'a [f32],
    /// Where the block's points are among all of an event, whose sums have this `stride`.
    first: usize,
    stride: usize,
    sums: &'a mut [f32],
}

impl Work for Products<'_> {
    #[inline(always)]
    fn run<L: Lanes, const TOGETHER: usize>(self, lanes: L) {
        if L::HAS_MANY_REGISTERS { self.all::<L, 8>(lanes) } else { self.all::<L, TOGETHER>(lanes) }
    }
}

impl Products<'_> {
    #[inline(always)]
    fn all<L: Lanes, const E: usize>(mut self, lanes: L) {
        let events = self.events.len() / self.shape.terms();
        let whole = events / E * E;
        for event in (0..whole).step_by(E) {
            self.group::<L, E>(lanes, event);
        }
        for event in whole..events {
            self.group::<L, 1>(lanes, event);
        }
    }

    /// The events from this one on: a value is loaded once for all of them, and as many chains as there are events do not wait for each other.
    #[inline(always)]
    fn group<L: Lanes, const E: usize>(&mut self, l: L, event: usize) {
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
