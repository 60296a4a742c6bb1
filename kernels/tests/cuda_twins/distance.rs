//! Searches of a basis: sums, the smallest of them and answers against those of the CPU, bit by bit.

use half::{bf16, f16};
use rand::{Rng, RngExt};
use zellige_gpu::Address;
use zellige_kernels::cuda::{
    ANSWER_NUMBERS, Compared, LaunchError, PointsAt, Stored, distance_again, distance_answers, distance_best,
    distance_events, distance_sums,
};
use zellige_kernels::distance::{LANES, Metric, Shape, Values, sums};

use super::run;
use super::tile::{rng, same_f32, same_f64};

/// Numbers for a launch, between two that nobody may write.
struct Array<T>(Vec<T>);

impl<T: bytemuck::Pod + PartialEq + std::fmt::Debug> Array<T> {
    fn new(numbers: impl IntoIterator<Item = T>) -> Self {
        let guard = [T::zeroed()];
        Array(guard.into_iter().chain(numbers).chain(guard).collect())
    }

    fn at(&mut self) -> Address {
        Address(self.0[1..].as_mut_ptr().expose_provenance() as u64)
    }

    fn numbers(&self) -> &[T] {
        let end = self.0.len() - 1;
        assert_eq!([self.0[0], self.0[end]], [T::zeroed(); 2], "numbers beside an array were written");
        &self.0[1..end]
    }
}

/// Every metric that GPUs have, at an exponent of 0.3 where there is a choice, and some others.
fn metrics() -> Vec<Metric> {
    let powers = [0.25, 0.3, 0.5, 0.77, 1.0, 2.0, 3.3].map(Metric::power);
    let others = [Metric::bits(0.3), Metric::bits(1.0), Metric::quarter_bits(), Metric::polynomials(0.5)];
    powers.into_iter().chain(others).collect()
}

/// A number as differences of samples may be: zero, subnormal, tiny, and of the size of a charge.
fn number(rng: &mut impl Rng) -> f32 {
    match rng.random_range(0..6) {
        0 => 0.0,
        1 => 0.25,
        2 => 2f32.powi(rng.random_range(-148..-100)),
        3 => -(2f32.powi(rng.random_range(-40..3))),
        _ => rng.random_range(-1.0..1.0),
    }
}

/// Signals of points, as they are stored, and events.
struct Sample {
    shape: Shape,
    points: usize,
    values: Vec<f32>,
    events: Vec<f32>,
}

impl Sample {
    fn new(shape: Shape, points: usize, events: usize, seed: u64) -> Self {
        let mut rng = rng(seed);
        let stored = points.next_multiple_of(LANES) * shape.terms();
        let values = (0..stored).map(|_| number(&mut rng)).collect();
        Sample {
            shape,
            points,
            values,
            events: (0..events * shape.terms()).map(|_| number(&mut rng)).collect(),
        }
    }

    fn count(&self) -> usize {
        self.events.len() / self.shape.terms()
    }

    fn at(&self, stored: Stored, at: Address) -> PointsAt {
        let bytes = self.values.len() * if stored == Stored::F32 { 4 } else { 2 };
        PointsAt { at: (at, bytes as u64), stored, shape: self.shape, points: self.points }
    }

    fn on_cpu(&self, metric: &Metric, values: Values<'_>) -> Vec<f32> {
        let mut found = vec![f32::NAN; self.count() * self.points.next_multiple_of(LANES)];
        let scratch = &mut vec![0.0; values.scratch_len(self.shape)];
        sums(metric, values, self.shape, &self.events, &[], scratch, &mut found).unwrap();
        found
    }

    /// Sums of all points, and of some again, for samples that are stored in one way; false without g++.
    fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(
        &self,
        metric: &Metric,
        stored: Stored,
        values: &[T],
        on_cpu: Values<'_>,
        seed: u64,
    ) -> bool {
        let (mut values, mut events) =
            (Array::new(values.iter().copied()), Array::new(self.events.iter().copied()));
        let (points, count) = (self.at(stored, values.at()), self.count());
        let want = self.on_cpu(metric, on_cpu);
        let mut found = Array::new(vec![f32::NAN; want.len()]);
        let launch = distance_sums(metric, &points, events.at(), count, found.at()).unwrap().unwrap();
        if !run(&launch, seed) {
            return false;
        }
        let what = format!("{metric:?}, {stored:?}, {:?}, {} points", self.shape, self.points);
        super::tile::assert_same(found.numbers(), &want, same_f32, &what);
        let mut rng = rng(seed);
        let keep = 5;
        let some: Vec<u32> = (0..count * keep).map(|_| rng.random_range(0..self.points as u32)).collect();
        let stride = points.stride();
        let want: Vec<f32> =
            some.iter().enumerate().map(|(i, &point)| want[i / keep * stride + point as usize]).collect();
        let (mut kept, mut found) = (Array::new(some), Array::new(vec![f32::NAN; want.len()]));
        let again =
            distance_again(metric, &points, events.at(), (count, keep), kept.at(), found.at()).unwrap();
        again.is_none_or(|launch| {
            let there = run(&launch, seed);
            super::tile::assert_same(found.numbers(), &want, same_f32, &what);
            there
        })
    }
}

#[test]
fn sums_have_the_bits_of_the_cpu() {
    let mut seed = 0;
    let shape = |channels, samples| Shape { channels, samples };
    for (shape, points, events) in
        [(shape(2, 20), 70, 18), (shape(3, 7), 16, 1), (shape(1, 65), 1, 5), (shape(33, 1), 130, 3)]
    {
        let sample = Sample::new(shape, points, events, seed);
        let values = &sample.values;
        let ints: Vec<i16> = values.iter().map(|x| (x * 30_000.0) as i16).collect();
        let halves: Vec<u16> = values.iter().map(|&x| f16::from_f32(x).to_bits()).collect();
        let bfloats: Vec<u16> = values.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
        for metric in metrics() {
            seed += 1;
            let there = sample.check(&metric, Stored::F32, values, Values::F32(values), seed)
                && sample.check(&metric, Stored::I16, &ints, Values::I16(&ints), seed)
                && sample.check(&metric, Stored::F16, &halves, Values::F16(&halves), seed)
                && sample.check(&metric, Stored::Bf16, &bfloats, Values::Bf16(&bfloats), seed);
            if !there {
                return;
            }
        }
    }
}

/// Sums of few values, so that many are alike; infinity and negative ones among them.
fn alike(rng: &mut impl Rng, points: usize, values: i32) -> Vec<f32> {
    let of = |x: i32| if x == 0 { f32::INFINITY } else { (x - values / 4) as f32 * 0.5 };
    (0..points).map(|_| of(rng.random_range(0..values))).collect()
}

/// The order of sums: the smallest first, of equal ones the lowest number.
fn order(sums: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sums.len()).collect();
    order.sort_by(|&a, &b| sums[a].total_cmp(&sums[b]).then(a.cmp(&b)));
    order
}

#[test]
fn the_best_are_the_smallest_with_the_lowest_numbers() {
    let shape = Shape { channels: 1, samples: 1 };
    for (seed, points) in (0..).zip([1, 16, 255, 256, 300, 1157]) {
        for (keep, values) in [(1, 4), (8, 1000), (8, 3), (128, 50), (2000, 20)] {
            let (mut rng, keep) = (rng(seed), points.min(keep));
            let at = PointsAt { at: (Address(0), 1 << 20), stored: Stored::F32, shape, points };
            let (stride, events) = (at.stride(), 3);
            let rows: Vec<Vec<f32>> = (0..events).map(|_| alike(&mut rng, points, values)).collect();
            // What fills up is smaller than all others, and not to be looked at.
            let padded = rows
                .iter()
                .flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(-1e30, stride - points)));
            let (mut sums, mut kept) = (Array::new(padded), Array::new(vec![u32::MAX; events * keep]));
            if !run(&distance_best(&at, sums.at(), events, keep, kept.at()).unwrap(), seed + 1) {
                return;
            }
            for (row, kept) in rows.iter().zip(kept.numbers().chunks(keep)) {
                let mut want = order(row);
                want.truncate(keep);
                want.sort_unstable();
                assert!(want.iter().map(|&i| i as u32).eq(kept.iter().copied()), "{points} points, {keep}");
            }
        }
    }
}

/// The answer of one event, computed one after the other.
fn answer(sums: &[f32], kept: &[u32], compared: &Compared, positions: &[[f32; 3]]) -> [f64; ANSWER_NUMBERS] {
    let &Compared { unit, near, tie, .. } = compared;
    let order = order(sums);
    let fom = |i: usize| f64::from(sums[i]) * unit;
    let best = order[0];
    let place = positions[kept[best] as usize];
    let limit = if compared.kept.is_some() { f32::INFINITY } else { (f64::from(sums[best]) * near) as f32 };
    let (mut squares, mut count) = (0.0, 0.0);
    for i in (0..sums.len()).filter(|&i| sums[i] <= limit && fom(i) <= fom(best) * near) {
        let at = positions[kept[i] as usize];
        squares += at.iter().zip(place).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>();
        count += 1.0;
    }
    let (second, gap) = match order.get(1) {
        Some(&second) => (f64::from(kept[second]), fom(second) - fom(best)),
        None => (-1.0, f64::INFINITY),
    };
    let spread = (squares / f64::max(count, 1.0)).sqrt();
    [f64::from(kept[best]), fom(best), second, gap, spread, if gap == 0.0 { tie } else { 0.0 }]
}

#[test]
fn answers_are_those_of_one_after_the_other() {
    for (seed, count) in (0..).zip([1, 2, 8, 128, 300, 1157]) {
        for listed in [false, true] {
            let mut rng = rng(seed);
            let (points, events, stride) = (2 * count, 4, count + usize::from(!listed) * 3);
            let positions: Vec<[f32; 3]> =
                (0..points).map(|_| [0; 3].map(|_| rng.random_range(-40.0..40.0f32))).collect();
            let sums: Vec<f32> =
                (0..events * stride).map(|_| 1.0 + rng.random_range(0..400) as f32 / 999.0).collect();
            let kept: Vec<u32> = (0..events * stride)
                .map(|i| if listed { 2 * (i % stride) as u32 } else { (i % stride) as u32 })
                .collect();
            let (mut at, mut of) =
                (Array::new(positions.iter().flatten().copied()), Array::new(sums.clone()));
            let mut list = Array::new(kept.clone());
            let mut found = Array::new(vec![f64::NAN; events * ANSWER_NUMBERS]);
            let compared = Compared {
                sums: of.at(),
                stride,
                count,
                kept: listed.then(|| list.at()),
                unit: 7.943_282_347_242_816,
                near: 1.02,
                tie: 8.0,
            };
            let launch = distance_answers(&compared, (at.at(), points), events, found.at()).unwrap();
            if !run(&launch, seed + 1) {
                return;
            }
            for (event, found) in found.numbers().chunks(ANSWER_NUMBERS).enumerate() {
                let part = event * stride..event * stride + count;
                let want = answer(&sums[part.clone()], &kept[part], &compared, &positions);
                super::tile::assert_same(found, &want, same_f64, &format!("{count} sums, listed: {listed}"));
            }
        }
    }
}

#[test]
fn samples_of_events_are_rounded_once() {
    let mut rng = rng(3);
    let samples: Vec<f64> = (0..1000).map(|_| rng.random_range(-1e3..1e3)).collect();
    let (mut from, mut to) = (Array::new(samples.clone()), Array::new(vec![f32::NAN; 1000]));
    let factor = 30_000.0 / 1000.0 / 3.0;
    if run(&distance_events(from.at(), factor, 1000, to.at()), 1) {
        assert!(to.numbers().iter().zip(&samples).all(|(to, x)| *to == (x * factor) as f32));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let shape = Shape { channels: 2, samples: 3 };
    let points = |bytes| PointsAt { at: (Address(0), bytes), stored: Stored::I16, shape, points: 17 };
    let none = Address(0);
    let metric = Metric::power(0.3);
    let sums = |points: &PointsAt, count| distance_sums(&metric, points, none, count, none).map(|_| ());
    assert_eq!(sums(&points(2 * 32 * 6), 1), Ok(()));
    assert!(matches!(sums(&points(2 * 32 * 6 - 1), 1), Err(LaunchError::TooSmall { least: 384, .. })));
    assert!(matches!(sums(&points(384), 1 << 21), Err(LaunchError::TooLarge { .. })));
    assert!(distance_sums(&Metric::log_table(0.3), &points(384), none, 1, none).unwrap().is_none());
    assert!(distance_again(&Metric::bits(0.3), &points(384), none, (1, 1), none, none).unwrap().is_none());
    assert!(matches!(distance_best(&points(384), none, 1, 18, none), Err(LaunchError::TooLarge { .. })));
    let compared = Compared { sums: none, stride: 0, count: 0, kept: None, unit: 1.0, near: 1.0, tie: 0.0 };
    assert!(distance_answers(&compared, (none, 0), 1, none).is_err());
}
