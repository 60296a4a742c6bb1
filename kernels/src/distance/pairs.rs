//! Sums of some points for each of several events, where every event has points of its own.

use super::lanes::{LaneWork, SixteenLanes};
use super::power::Power;
use super::{LANES, Metric, OfPower, Shape, SimdLevel, Values};
use crate::KernelError;
use crate::error::check_shape;

/// Points and events of a search.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// The points of one event after those of the other, of each in rising order.
    pub points: &'a [usize],
    /// End of each event's points in `points`.
    pub ends: &'a [usize],
}

/// The sums of pairs of points and events, in the order of `pairs`, each with the bits that
/// [`sums`](super::sums) gives it; [`Values::Halves`] count as [`Values::F16`].
///
/// Events go through the blocks sixteen at a time. The points of a block that they want, whoever
/// wants them, share vectors: a lane is a pair, whose samples are taken from two vectors by their
/// places. So a block is read once for sixteen events, where gathering its points for each event
/// would read all of it sixteen times. It pays where events want several points of a block
/// together.
///
/// # Errors
/// As [`sums`](super::sums); [`KernelError::Points`] for points or ends that do not rise, and
/// points that are not there.
pub fn sums_of_pairs(
    metric: &Metric,
    values: Values<'_>,
    shape: Shape,
    events: &[f32],
    pairs: Pairs<'_>,
    scratch: &mut [f32],
    sums: &mut [f32],
) -> Result<(), KernelError> {
    by_simd(SimdLevel::best(), metric, values, shape, events, pairs, scratch, sums)
}

#[allow(clippy::too_many_arguments)] // those of the function above, and the instructions
pub(super) fn by_simd(
    simd: SimdLevel,
    metric: &Metric,
    values: Values<'_>,
    shape: Shape,
    events: &[f32],
    pairs: Pairs<'_>,
    scratch: &mut [f32],
    sums: &mut [f32],
) -> Result<(), KernelError> {
    let kernel = "distance::sums_of_pairs";
    let stride = values.check(kernel, shape)?;
    let count = pairs.ends.len();
    check_shape(kernel, "events", (events.len(), 1), (count * shape.terms(), 1))?;
    check_shape(kernel, "sums", (sums.len(), 1), (pairs.points.len(), 1))?;
    let end = pairs.ends.last().copied().unwrap_or(0);
    check_shape(kernel, "points", (pairs.points.len(), 1), (end, 1))?;
    let rise = pairs.ends.is_sorted() && (0..count).all(|event| pairs.of(event).is_sorted());
    if !rise || pairs.points.iter().any(|&point| point >= stride) {
        return Err(KernelError::Points { kernel, points: stride });
    }
    let (got, need) = (scratch.len(), values.scratch_len(shape));
    if got < need {
        return Err(KernelError::Scratch { kernel, got, need });
    }
    metric.with(Groups { simd, values, shape, events, pairs, scratch, sums });
    Ok(())
}

impl<'a> Pairs<'a> {
    /// Returns the begin of an event's points.
    fn begin(&self, event: usize) -> usize {
        if event == 0 { 0 } else { self.ends[event - 1] }
    }

    fn of(&self, event: usize) -> &'a [usize] {
        &self.points[self.begin(event)..self.ends[event]]
    }
}

struct Groups<'a> {
    simd: SimdLevel,
    values: Values<'a>,
    shape: Shape,
    events: &'a [f32],
    pairs: Pairs<'a>,
    scratch: &'a mut [f32],
    sums: &'a mut [f32],
}

impl OfPower for Groups<'_> {
    type Answer = ();

    fn of<P: Power>(self, power: &P) {
        let Groups { simd, values, shape, events, pairs, scratch, sums } = self;
        let (terms, stride) = (shape.terms(), values.len() / shape.terms());
        let (mut samples, mut lists) = (vec![[0.0; LANES]; terms], Lists::default());
        for first in (0..pairs.ends.len()).step_by(LANES) {
            let here = (pairs.ends.len() - first).min(LANES);
            for (e, event) in events[first * terms..][..here * terms].chunks_exact(terms).enumerate() {
                samples.iter_mut().zip(event).for_each(|(to, &sample)| to[e] = sample);
            }
            // Next position of each event in its list of points.
            let mut next: [usize; LANES] =
                std::array::from_fn(|e| if e < here { pairs.begin(first + e) } else { 0 });
            for block in 0..stride / LANES {
                lists.clear();
                for (e, next) in next[..here].iter_mut().enumerate() {
                    while *next < pairs.ends[first + e] && pairs.points[*next] / LANES == block {
                        lists.push(pairs.points[*next] % LANES, e, *next);
                        *next += 1;
                    }
                }
                if !lists.targets.is_empty() {
                    let values = values.of_block(block * LANES, shape, scratch);
                    simd.enter(PairBlock { power, values, samples: &samples, shape, lists: &lists, sums });
                }
            }
        }
    }
}

/// Pairs of one block, sixteen at a time: places of points and of events, as bits.
#[derive(Default)]
struct Lists {
    places: Vec<[[f32; LANES]; 2]>,
    /// Positions of the results in `sums`.
    targets: Vec<usize>,
}

impl Lists {
    fn clear(&mut self) {
        self.places.clear();
        self.targets.clear();
    }

    fn push(&mut self, point: usize, event: usize, target: usize) {
        let lane = self.targets.len() % LANES;
        if lane == 0 {
            self.places.push([[0.0; LANES]; 2]);
        }
        let last = self.places.last_mut().expect("there is one");
        last[0][lane] = f32::from_bits(point as u32);
        last[1][lane] = f32::from_bits(event as u32);
        self.targets.push(target);
    }
}

/// The pairs of one block.
struct PairBlock<'a, P> {
    power: &'a P,
    values: &'a [[f32; LANES]],
    samples: &'a [[f32; LANES]],
    shape: Shape,
    lists: &'a Lists,
    sums: &'a mut [f32],
}

impl<P: Power> LaneWork for PairBlock<'_, P> {
    #[inline(always)]
    fn run<L: SixteenLanes, const BATCH: usize>(self, l: L) {
        let samples = self.shape.samples;
        for (places, targets) in self.lists.places.iter().zip(self.lists.targets.chunks(LANES)) {
            let [points, events] = [l.load(&places[0]), l.load(&places[1])];
            let mut sum = l.splat(0.0);
            for (values, of_events) in
                self.values.chunks_exact(samples).zip(self.samples.chunks_exact(samples))
            {
                let mut inner = l.splat(0.0);
                for (value, sample) in values.iter().zip(of_events) {
                    let d = l.sub(l.permute(l.load(value), points), l.permute(l.load(sample), events));
                    inner = l.add(inner, self.power.of(l, d));
                }
                sum = l.add(sum, inner);
            }
            let mut lanes = [0.0; LANES];
            l.store(sum, &mut lanes);
            targets.iter().zip(lanes).for_each(|(&target, sum)| self.sums[target] = sum);
        }
    }
}
