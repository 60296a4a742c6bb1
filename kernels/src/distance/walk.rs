//! The loops over points: blocks of sixteen points, and the events that go through them together.

use std::marker::PhantomData;

use super::lanes::{LaneOps, LaneWork, SixteenLanes};
use super::power::Power;
use super::{LANES, Shape};

/// The samples of an event, and their remainders below the last bit.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a, T> {
    pub high: &'a [T],
    /// Empty if there are no remainders.
    pub low: &'a [T],
}

/// Order and precision of the sum of terms.
pub(super) trait Adding {
    /// Sums of one block, whose values come by term, for `E` events.
    fn block<L: LaneOps, P: Power, const E: usize>(
        lanes: L,
        power: &P,
        values: &[[f32; LANES]],
        events: &[Samples<'_, L::Sample>; E],
        samples: usize,
    ) -> [L::Vector; E];
}

/// Sums in `f32`: first the samples of each channel, then the channels. Samples of events have one
/// part or two (`LOW`).
pub(super) struct Plain<const LOW: bool>;
/// Sums as pairs of `f16` on a GPU: every result is rounded to `f16`, and even and odd samples have
/// separate sums.
pub(super) struct HalfSums;

impl<const LOW: bool> Adding for Plain<LOW> {
    #[inline(always)]
    fn block<L: LaneOps, P: Power, const E: usize>(
        l: L,
        power: &P,
        values: &[[f32; LANES]],
        events: &[Samples<'_, L::Sample>; E],
        samples: usize,
    ) -> [L::Vector; E] {
        let mut sums = [l.splat(0.0); E];
        for (channel, values) in values.chunks_exact(samples).enumerate() {
            let first = channel * samples;
            let high: [&[L::Sample]; E] = std::array::from_fn(|e| &events[e].high[first..][..samples]);
            let low: [&[L::Sample]; E] =
                std::array::from_fn(|e| if LOW { &events[e].low[first..][..samples] } else { &[] });
            let mut inner = [l.splat(0.0); E];
            for t in 0..samples {
                let value = l.load(&values[t]);
                for e in 0..E {
                    let mut d = l.sub(value, l.broadcast(high[e][t]));
                    if LOW {
                        d = l.sub(d, l.broadcast(low[e][t]));
                    }
                    inner[e] = l.add(inner[e], power.of(l, d));
                }
            }
            for e in 0..E {
                sums[e] = l.add(sums[e], inner[e]);
            }
        }
        sums
    }
}

impl Adding for HalfSums {
    #[inline(always)]
    fn block<L: LaneOps, P: Power, const E: usize>(
        l: L,
        power: &P,
        values: &[[f32; LANES]],
        events: &[Samples<'_, L::Sample>; E],
        samples: usize,
    ) -> [L::Vector; E] {
        let mut sums = [[l.splat(0.0); 2]; E];
        for (channel, values) in values.chunks_exact(samples).enumerate() {
            for t in 0..samples {
                let value = l.load(&values[t]);
                for e in 0..E {
                    let sample = l.broadcast(events[e].high[channel * samples + t]);
                    let d = l.round_f16(l.sub(value, sample));
                    let term = l.round_f16(power.of(l, d));
                    // f32 has two bits more than twice those of f16, so rounding the sum again
                    // gives the same as rounding directly to f16.
                    sums[e][t % 2] = l.round_f16(l.add(sums[e][t % 2], term));
                }
            }
        }
        sums.map(|[even, odd]| l.round_f16(l.add(even, odd)))
    }
}

/// Sums of one block for all events.
pub(super) struct Walk<'a, P, A> {
    pub power: &'a P,
    pub values: &'a [[f32; LANES]],
    pub shape: Shape,
    /// Event after event.
    pub high: &'a [f32],
    /// The lower parts, in the same layout, or empty.
    pub low: &'a [f32],
    /// Index of the block's first point among all points of an event. The sums of an event have
    /// this `stride`.
    pub first: usize,
    pub stride: usize,
    /// Event after event.
    pub sums: &'a mut [f32],
    pub adding: PhantomData<A>,
}

impl<P: Power, A: Adding> LaneWork for Walk<'_, P, A> {
    #[inline(always)]
    fn run<L: SixteenLanes, const BATCH: usize>(mut self, lanes: L) {
        let events = self.high.len() / self.shape.terms();
        let whole = events / BATCH * BATCH;
        for event in (0..whole).step_by(BATCH) {
            self.group::<L, BATCH>(lanes, event);
        }
        for event in whole..events {
            self.group::<L, 1>(lanes, event);
        }
    }
}

impl<P: Power, A: Adding> Walk<'_, P, A> {
    /// The events from this one on.
    #[inline(always)]
    fn group<L: SixteenLanes, const E: usize>(&mut self, lanes: L, event: usize) {
        let terms = self.shape.terms();
        let low = |e: usize| if self.low.is_empty() { &[] } else { &self.low[e * terms..][..terms] };
        let samples = |e: usize| Samples { high: &self.high[e * terms..][..terms], low: low(e) };
        let events = std::array::from_fn(|e| samples(event + e));
        let of_block = A::block::<L, P, E>(lanes, self.power, self.values, &events, self.shape.samples);
        for (e, sum) in of_block.into_iter().enumerate() {
            let to = &mut self.sums[(event + e) * self.stride + self.first..];
            lanes.store(sum, to.first_chunk_mut().expect("sixteen lanes"));
        }
    }
}
