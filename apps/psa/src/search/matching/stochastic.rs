//! Full search of one segment in stochastic arithmetic.

use std::ops::Deref;

use zellige_kernels::distance::{Metric, SumNumber, sum_in};
use zellige_stochastic::{Sample, Samples, Stochastic, element, vectorize};

use super::plan::{Plan, Precision, Stage};
use crate::Error;
use crate::basis::SegmentBasis;
use crate::channels::CHANNELS;
use crate::search::segment::{Block, THOUSAND, figure_of_merit};

/// The point with the smallest figure of merit in stochastic order, and the digits of the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StochasticMatch {
    /// Index of the point in the segment.
    pub index: usize,
    /// Mean figure of merit of the point, for a charge of 1000.
    pub fom: f64,
    /// Second best point, if there is one.
    pub second: Option<usize>,
    /// Mean difference of the second best figure of merit to the best.
    pub gap: f64,
    /// Exact digits of the figure of merit.
    pub fom_digits: u8,
    /// Exact digits of the gap; 0 if rounding decides between the two points.
    pub gap_digits: u8,
    /// Exact digits of the part of each channel in the figure of merit.
    pub channel_digits: ChannelDigits,
}

/// Exact digits by channel, in the order of the segment's basis; of the first [`CHANNELS`] at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelDigits {
    count: usize,
    digits: [u8; CHANNELS],
}

impl Deref for ChannelDigits {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.digits[..self.count]
    }
}

impl FromIterator<u8> for ChannelDigits {
    fn from_iter<I: IntoIterator<Item = u8>>(all: I) -> Self {
        let mut of = ChannelDigits { count: 0, digits: [0; CHANNELS] };
        for (slot, digits) in of.digits.iter_mut().zip(all) {
            *slot = digits;
            of.count += 1;
        }
        of
    }
}

/// A segment that is prepared for stochastic searches of all points, in `f32` or `f64`.
///
/// The method of the plan counts for nothing: all points are compared by the metric of its last
/// stage. Samples of points and of events count as exact; in `f32`, those of events are rounded
/// first.
pub(crate) struct StochasticSearch {
    plan: Plan,
    metric: Metric,
    block: Block,
}

impl StochasticSearch {
    /// Prepares a segment for a plan.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid plan and for precisions other than `fp32` and `fp64`,
    /// [`Error::Shape`] for a segment without points or samples.
    pub fn new(plan: &Plan, basis: &SegmentBasis) -> Result<StochasticSearch, Error> {
        plan.check()?;
        if !matches!(plan.precision, Precision::Fp32 | Precision::Fp64) {
            let problem = format!("{}: stochastic searches are in fp32 or fp64", plan.precision);
            return Err(Error::Parameter { name: "precision", problem });
        }
        let block = Block::new(basis)?;
        let metric = plan.metric(Stage::Last, block.scale());
        Ok(StochasticSearch { plan: *plan, metric, block })
    }

    /// Checks the samples of an event.
    ///
    /// # Errors
    /// [`Error::Shape`] if they are not as many as those of a point.
    pub fn check(&self, samples: &[f64]) -> Result<(), Error> {
        let (got, wanted) = (samples.len(), self.block.shape().terms());
        if got == wanted {
            return Ok(());
        }
        Err(Error::shape("samples of an event", format!("{got}, {wanted} in the basis")))
    }

    /// Returns the best point for one event, given in thousandths of its energy, in the random
    /// rounding of the caller's scope. Points are its elements.
    pub fn find<S: Samples>(&self, samples: &[f64]) -> StochasticMatch {
        let best = self.best::<S>(&self.block, samples, 0);
        let per_channel = self.block.shape().samples;
        let digits = |(channel, samples): (usize, &[f64])| {
            let terms = channel * per_channel..(channel + 1) * per_channel;
            let values = terms.map(|term| self.block.sample(best.index, term)).collect();
            let one =
                SegmentBasis::new(1, per_channel, vec![[0.0; 3]], values).and_then(|one| Block::new(&one));
            let first = self.block.points() + 1 + 2 * channel;
            self.best::<S>(&one.expect("a channel of a point"), samples, first).fom_digits
        };
        let channel_digits = samples.chunks(per_channel).enumerate().map(digits).collect();
        StochasticMatch { channel_digits, ..best }
    }

    /// Returns the best point of a block without digits of channels; its points are elements from
    /// `first` on, and one more.
    #[inline(never)]
    fn best<S: Samples>(&self, block: &Block, samples: &[f64], first: usize) -> StochasticMatch {
        let points = block.points();
        if self.plan.precision == Precision::Fp64 {
            let smallest = Smallest::of(
                points,
                first,
                #[inline(always)]
                |point| figure_of_merit::<Stochastic<f64, S>>(block, point, samples, self.plan.p),
            );
            return smallest.to_match(1.0);
        }
        // Rounding to f32 is the first operation of the search; points share its errors.
        element((first + points) as u64);
        let factor = f64::from(block.scale()) / THOUSAND;
        let narrow = |&v: &f64| Single((Stochastic::<f64, S>::new(v) * factor).convert());
        let event: Vec<Single<S>> = samples.iter().map(narrow).collect();
        let (values, shape) = (block.singles(), block.shape());
        let smallest = Smallest::of(
            points,
            first,
            #[inline(always)]
            |point| {
                let sum: Result<Single<S>, _> = sum_in(&self.metric, values, shape, &event, point);
                sum.expect("a block and an event that fit").0
            },
        );
        smallest.to_match(self.plan.unit(&self.metric, block.scale()))
    }
}

/// The smallest and the second smallest of the numbers of points in stochastic order; of equal
/// ones, the first.
struct Smallest<T: Sample, S: Samples> {
    first: (Stochastic<T, S>, usize),
    second: Option<(Stochastic<T, S>, usize)>,
}

impl<T: Sample, S: Samples> Smallest<T, S> {
    /// Compares the numbers of all points, which are elements from `first` on; there is one at
    /// least.
    fn of(points: usize, first: usize, figure: impl Fn(usize) -> Stochastic<T, S>) -> Self {
        let smallest = vectorize(
            #[inline(always)]
            || {
                let mut smallest: Option<Self> = None;
                for point in 0..points {
                    element((first + point) as u64);
                    let next = (figure(point), point);
                    match &mut smallest {
                        None => smallest = Some(Smallest { first: next, second: None }),
                        Some(known) => known.offer(next),
                    }
                }
                smallest
            },
        );
        smallest.expect("a segment has points")
    }

    #[inline(always)]
    fn offer(&mut self, next: (Stochastic<T, S>, usize)) {
        if next.0 < self.first.0 {
            self.second = Some(self.first);
            self.first = next;
        } else if self.second.is_none_or(|second| next.0 < second.0) {
            self.second = Some(next);
        }
    }

    /// Returns the answer; `unit` turns a number into a figure of merit.
    fn to_match(&self, unit: f64) -> StochasticMatch {
        let (fom, index) = self.first;
        let wide = |number: Stochastic<T, S>| number.convert::<f64>() * unit;
        let gap = self.second.map(|(other, _)| wide(other) - wide(fom));
        StochasticMatch {
            index,
            fom: wide(fom).mean(),
            second: self.second.map(|(_, second)| second),
            gap: gap.map_or(f64::INFINITY, |gap| gap.mean()),
            fom_digits: fom.digits() as u8,
            gap_digits: gap.map_or(T::DIGITS, |gap| gap.digits().min(T::DIGITS)) as u8,
            channel_digits: [].into_iter().collect(),
        }
    }
}

/// A stochastic `f32` in the sums of the kernels.
#[derive(Clone, Copy)]
struct Single<S: Samples>(Stochastic<f32, S>);

impl<S: Samples> SumNumber for Single<S> {
    #[inline(always)]
    fn new(x: f32) -> Self {
        Single(Stochastic::new(x))
    }
    #[inline(always)]
    #[track_caller]
    fn plus(self, b: Self) -> Self {
        Single(self.0 + b.0)
    }
    #[inline(always)]
    #[track_caller]
    fn minus(self, b: Self) -> Self {
        Single(self.0 - b.0)
    }
    #[inline(always)]
    #[track_caller]
    fn times(self, b: Self) -> Self {
        Single(self.0 * b.0)
    }
    #[inline(always)]
    #[track_caller]
    fn fused(self, b: Self, c: Self) -> Self {
        Single(self.0.mul_add(b.0, c.0))
    }
    #[inline(always)]
    #[track_caller]
    fn root(self) -> Self {
        Single(self.0.sqrt())
    }
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        Single(self.0.map(f))
    }
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Single(self.0.map2(b.0, f))
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use zellige_stochastic::{Categories, Eight, Perturbation, Scope, Three};

    use super::*;
    use crate::search::{Match, Method, Prepared, SegmentEvents};

    const SHAPE: [usize; 2] = [3, 9];

    /// Returns 50 random points and 12 noisy events at some of them.
    fn segment() -> (SegmentBasis, SegmentEvents) {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let [channels, samples] = SHAPE;
        let terms = channels * samples;
        let values: Vec<f32> = (0..50 * terms).map(|_| random.random_range(-0.2..1.0)).collect();
        let basis = SegmentBasis::new(channels, samples, vec![[0.0; 3]; 50], values).expect("a basis");
        let energies: Vec<f64> = (0..12).map(|event| 20.0 * 1.5f64.powi(event)).collect();
        let mut signals = Vec::new();
        for &energy in &energies {
            let point = basis.point(random.random_range(0..50));
            signals.extend(point.iter().map(|b| b * energy as f32 + random.random_range(-4.0..4.0)));
        }
        let events = SegmentEvents::new(channels, samples, &energies, &signals).expect("events");
        (basis, events)
    }

    fn full(p: f64, precision: Precision) -> Plan {
        Plan { method: Method::Full, p, precision, ..Plan::default() }
    }

    /// The answers of a stochastic search in a scope, an event after the other.
    fn found<S: Samples>(plan: &Plan, perturbation: Perturbation) -> (Vec<StochasticMatch>, Vec<Match>) {
        let (basis, events) = segment();
        let search = StochasticSearch::new(plan, &basis).expect("a plan");
        let scope = Scope::with(5, perturbation, Categories::ALL);
        let of = |event| scope.task(event as u64, 0, || search.find::<S>(events.samples(event)));
        let plain = Prepared::new(plan, &basis).expect("a plan").search(&events, &[]).expect("events");
        ((0..events.len()).map(of).collect(), plain)
    }

    #[test]
    fn without_random_rounding_answers_have_the_bits_of_the_plain_search() {
        for p in [0.25, 0.3, 0.5, 0.77, 1.0, 2.0] {
            for precision in [Precision::Fp32, Precision::Fp64] {
                let (found, plain) = found::<Eight>(&full(p, precision), Perturbation::None);
                for (found, plain) in found.iter().zip(plain) {
                    assert_eq!((found.index, found.second), (plain.index, plain.second), "{p} {precision}");
                    // The powers of two libraries differ in the last bit.
                    let of_library = precision == Precision::Fp64 && matches!(p, 0.3 | 0.77);
                    let limit = if of_library { 1e-14 * plain.fom } else { 0.0 };
                    assert!((found.fom - plain.fom).abs() <= limit, "{p} {precision}: {found:?}, {plain:?}");
                    assert!((found.gap - plain.gap).abs() <= limit, "{p} {precision}: {found:?}, {plain:?}");
                }
            }
        }
    }

    /// Digits of one precision are not more than those that are the same in a wider one.
    #[test]
    fn digits_are_those_that_f64_has_too() {
        for p in [0.25, 0.3, 0.5, 1.0, 2.0] {
            let (single, _) = found::<Eight>(&full(p, Precision::Fp32), Perturbation::Random);
            let (double, _) = found::<Three>(&full(p, Precision::Fp64), Perturbation::Random);
            for (single, double) in single.iter().zip(&double) {
                let error = (single.fom / double.fom - 1.0).abs();
                let right = if error == 0.0 { 7.0 } else { -error.log10() };
                assert!((4..=7).contains(&single.fom_digits), "{p}: {single:?}");
                assert!(f64::from(single.fom_digits) <= right + 1.0, "{p}: {single:?}, {double:?}");
                assert!((12..=15).contains(&double.fom_digits), "{p}: {double:?}");
                assert_eq!(single.index, double.index);
            }
        }
    }

    /// A channel in which the event is the point but for a few units of `f32` has few digits in it.
    /// In `f64` these differences are exact.
    #[test]
    fn digits_of_channels() {
        let (basis, _) = segment();
        let samples: Vec<f64> = basis.point(7).iter().map(|&b| 1000.0 * f64::from(b)).collect();
        let differs = |(term, v): (usize, &f64)| if term / SHAPE[1] == 1 { v + 2e-4 } else { v + 50.0 };
        let event: Vec<f64> = samples.iter().enumerate().map(differs).collect();
        for (precision, [few, most]) in [(Precision::Fp32, [2, 5]), (Precision::Fp64, [15, 13])] {
            let search = StochasticSearch::new(&full(1.0, precision), &basis).expect("a plan");
            let found = Scope::new(1).run(|| search.find::<Eight>(&event));
            assert_eq!(found.index, 7);
            let [hit, near, core] = found.channel_digits[..] else { panic!("three channels") };
            assert!(near <= few && hit >= most && core >= most, "{precision}: {found:?}");
        }
    }

    #[test]
    fn only_two_precisions_are_searched() {
        let (basis, _) = segment();
        for precision in [Precision::Fp16, Precision::Int16, Precision::Bf16] {
            assert!(StochasticSearch::new(&full(0.3, precision), &basis).is_err());
        }
    }
}
