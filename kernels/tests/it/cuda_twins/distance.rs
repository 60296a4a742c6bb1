//! Searches of a basis: sums, the smallest of them and answers against those of the CPU, bit by
//! bit.

use half::{bf16, f16};
use rand::{Rng, RngExt};
use zellige_gpu::{Address, Compute, Factors, Transpose};
use zellige_kernels::cuda::{
    ANSWER_NUMBERS, Compared, LaunchError, PointsAt, Stored, distance_again, distance_answers, distance_best,
    distance_events, distance_matrix, distance_nearest, distance_products, distance_sums,
};
use zellige_kernels::distance::{LANES, Margin, Metric, Shape, Values, longest, place, squares, sums};

use super::run;
use super::tile::{rng, same_f32, same_f64};

/// Numbers for a launch, between two guards.
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

/// Returns every metric with a GPU kernel, at an exponent of 0.3 if there is a choice, and some
/// others.
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

/// Stored signals of points, and events.
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

    /// Checks the sums of all points, and of some again, for samples in one format. Returns false
    /// without g++.
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

/// Returns sums with few different values, so that many are equal, with infinity and negative ones
/// among them.
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
            // The padding is smaller than all other numbers, and must not be read.
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

/// Samples in `f32`, and the squares of the lengths of points as the kernel adds them; false
/// without g++.
fn check_matrix<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(
    sample: &Sample,
    stored: Stored,
    values: &[T],
    on_cpu: Values<'_>,
    widened: impl Fn(usize) -> f32,
) -> bool {
    let (shape, terms) = (sample.shape, sample.shape.terms());
    let mut values = Array::new(values.iter().copied());
    let points = sample.at(stored, values.at());
    let stride = points.stride();
    let mut matrix = Array::new(vec![f32::NAN; stride * terms]);
    let mut found = Array::new(vec![f32::NAN; stride]);
    if !run(&distance_matrix(&points, matrix.at(), found.at()).unwrap(), 7) {
        return false;
    }
    let at = |point, term| widened(place(point, term, shape));
    let by_term = (0..terms).flat_map(|term| (0..stride).map(move |point| (point, term)));
    let want: Vec<f32> = by_term.map(|(point, term)| at(point, term)).collect();
    super::tile::assert_same(matrix.numbers(), &want, same_f32, &format!("{stored:?}, {shape:?}"));
    let square = |point| -> f32 {
        let part = |first| {
            (first..terms)
                .step_by(16)
                .fold(0.0, |sum, term| sum + f64::from(at(point, term)) * f64::from(at(point, term)))
        };
        (0..16).map(part).fold(0.0, |sum, part| sum + part) as f32
    };
    let want: Vec<f32> = (0..stride).map(square).collect();
    super::tile::assert_same(found.numbers(), &want, same_f32, &format!("squares, {stored:?}, {shape:?}"));
    // The CPU's order differs: by a last bit at most.
    let theirs = squares(on_cpu, shape).unwrap();
    assert!(want.iter().zip(theirs).all(|(x, y)| x.to_bits().abs_diff(y.to_bits()) <= 1));
    true
}

#[test]
fn points_are_one_matrix() {
    for (seed, (shape, points)) in
        (20..).zip([((2, 20), 70), ((3, 7), 16), ((1, 65), 1), ((1, 1), 17), ((33, 16), 40), ((2, 3), 0)])
    {
        let shape = Shape { channels: shape.0, samples: shape.1 };
        let sample = Sample::new(shape, points, 0, seed);
        let values = &sample.values;
        let ints: Vec<i16> = values.iter().map(|x| (x * 30_000.0) as i16).collect();
        let halves: Vec<u16> = values.iter().map(|&x| f16::from_f32(x).to_bits()).collect();
        let bfloats: Vec<u16> = values.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
        let half = |i: usize| f16::from_bits(halves[i]).to_f32();
        let bfloat = |i: usize| bf16::from_bits(bfloats[i]).to_f32();
        let there = check_matrix(&sample, Stored::F32, values, Values::F32(values), |i| values[i])
            && check_matrix(&sample, Stored::I16, &ints, Values::I16(&ints), |i| f32::from(ints[i]))
            && check_matrix(&sample, Stored::F16, &halves, Values::F16(&halves), half)
            && check_matrix(&sample, Stored::Bf16, &bfloats, Values::Bf16(&bfloats), bfloat);
        if !there {
            return;
        }
    }
}

/// Points and events that are hardly apart, far from zero, the `round`s after each other from
/// clearly apart to not at all; one of the events is a point.
fn hardly_apart(shape: Shape, points: usize, events: usize, round: i32) -> Sample {
    let mut rng = rng(round as u64);
    let apart = 10f32.powi(-(round % 7));
    let mut number = || 1.0 + apart * rng.random_range(0.0..1.0f32);
    let stored = points.next_multiple_of(LANES) * shape.terms();
    let values: Vec<f32> = (0..stored).map(|_| number()).collect();
    let mut events: Vec<f32> = (0..events * shape.terms()).map(|_| number()).collect();
    (0..shape.terms()).for_each(|term| events[term] = values[place(points / 2, term, shape)]);
    Sample { shape, points, values, events }
}

/// Returns `-2 v b` of all points and events, each added in a random order.
fn products_in_some_order(sample: &Sample, seed: u64) -> Vec<f32> {
    let (mut rng, terms) = (rng(seed), sample.shape.terms());
    let stride = sample.points.next_multiple_of(LANES);
    let of = |event: &[f32], point: usize, first: usize, fused: bool| -> f32 {
        let sum = (first..terms).chain(0..first).fold(0.0f32, |sum, term| {
            let (b, v) = (sample.values[place(point, term, sample.shape)], event[term]);
            if fused { b.mul_add(v, sum) } else { sum + b * v }
        });
        -2.0 * sum
    };
    let events = sample.events.chunks(terms);
    events
        .flat_map(|event| (0..stride).map(move |point| (event, point)))
        .map(|(event, point)| of(event, point, rng.random_range(0..terms), rng.random()))
        .collect()
}

/// Sums `count` numbers as 256 threads do. Each adds every 256th number: sixteen of them at a time,
/// then those sums.
fn joined(count: usize, number: impl Fn(usize) -> f64) -> f64 {
    let threads: Vec<f64> =
        (0..256).map(|t| (t..count).step_by(256).fold(0.0, |sum, i| sum + number(i))).collect();
    let add = |numbers: &[f64]| numbers[1..].iter().fold(numbers[0], |sum, x| sum + x);
    add(&threads.chunks(16).map(add).collect::<Vec<f64>>())
}

/// Returns the kernel's result for the products of one event.
fn nearest(sample: &Sample, event: usize, products: &[f32], direct: &[f32], keep: usize) -> Vec<f32> {
    let margin = Margin::in_any_order(sample.shape);
    let lengths = squares(Values::F32(&sample.values), sample.shape).unwrap();
    let event = &sample.events[event * sample.shape.terms()..][..sample.shape.terms()];
    let square = joined(event.len(), |i| f64::from(event[i]) * f64::from(event[i]));
    let sums: Vec<f32> = products.iter().zip(&lengths).map(|(product, b)| product + b).collect();
    let of_points = &sums[..sample.points];
    let last = f64::from(of_points[order(of_points)[keep - 1]]);
    let apart = margin
        .error_of(square, longest(&lengths[..sample.points]))
        .map(|error| margin.around(last, square, error));
    let marked = sums.iter().zip(direct).enumerate().map(|(point, (&sum, &direct))| match apart {
        _ if point >= sample.points => products[point],
        Some(apart) if f64::from(sum) < last - apart => f32::NEG_INFINITY,
        Some(apart) if f64::from(sum) > last + apart => f32::INFINITY,
        _ => direct,
    });
    marked.collect()
}

/// Checks one sample: sums bit by bit, and the points that are kept. Returns the numbers of points
/// that are certain and that are not, or none without g++.
fn check_nearest(sample: &Sample, keep: usize, seed: u64) -> Option<[usize; 2]> {
    let (mut values, mut events) =
        (Array::new(sample.values.iter().copied()), Array::new(sample.events.iter().copied()));
    let (points, count) = (sample.at(Stored::F32, values.at()), sample.count());
    let (stride, shape) = (points.stride(), sample.shape);
    let direct = sample.on_cpu(&Metric::power(2.0), Values::F32(&sample.values));
    let products = products_in_some_order(sample, seed);
    let mut lengths = Array::new(squares(Values::F32(&sample.values), shape).unwrap());
    let mut sums = Array::new(products.iter().copied());
    let launch = distance_nearest(&points, events.at(), (count, keep), lengths.at(), sums.at()).unwrap();
    if !run(&launch, seed) {
        return None;
    }
    let (rows, marked) = (products.chunks(stride).zip(direct.chunks(stride)), sums.numbers());
    let want: Vec<f32> =
        rows.enumerate().flat_map(|(e, (row, direct))| nearest(sample, e, row, direct, keep)).collect();
    super::tile::assert_same(
        marked,
        &want,
        same_f32,
        &format!("{shape:?}, best {keep} of {}", points.points),
    );
    let is_direct = |at: &usize| at % stride < points.points && same_f32(marked[*at], direct[*at]);
    let doubtful = (0..marked.len()).filter(is_direct).count();
    let certain = count * points.points - doubtful;
    let mut kept = Array::new(vec![u32::MAX; count * keep]);
    run(&distance_best(&points, sums.at(), count, keep, kept.at()).unwrap(), seed);
    for (direct, kept) in direct.chunks(stride).zip(kept.numbers().chunks(keep)) {
        let mut want = order(&direct[..points.points]);
        want.truncate(keep);
        want.sort_unstable();
        assert!(want.iter().map(|&i| i as u32).eq(kept.iter().copied()), "best {keep} of {}", points.points);
    }
    Some([certain, doubtful])
}

#[test]
fn products_keep_the_points_of_direct_sums() {
    let [mut certain, mut doubtful] = [0; 2];
    for round in 0..28 {
        let (channels, samples, points) =
            [(3, 12, 70), (10, 40, 300), (1, 5, 16), (7, 37, 33)][round as usize % 4];
        let sample = hardly_apart(Shape { channels, samples }, points, 3, round);
        let keep = [1, 5, 16, 31][round as usize % 3].min(points);
        let Some(found) = check_nearest(&sample, keep, round as u64 + 1) else { return };
        certain += found[0];
        doubtful += found[1];
    }
    assert!(certain > 1000 && doubtful > 1000, "both happen: {certain} {doubtful}");
}

/// For lengths whose squares are no `f32` all sums are direct. Subnormal numbers have a bound, too.
#[test]
fn products_of_what_is_too_large_or_small_keep_the_points_of_direct_sums() {
    let shape = Shape { channels: 2, samples: 9 };
    for scale in [1e19, 1e25, 1e-17, 1e-21, 1e-40] {
        let mut sample = hardly_apart(shape, 40, 2, 0);
        sample.values.iter_mut().for_each(|x| *x *= scale);
        sample.events.iter_mut().for_each(|x| *x *= scale);
        let Some([certain, doubtful]) = check_nearest(&sample, 4, 9) else { return };
        let known = scale == 1e-17;
        assert_eq!((certain > 0, doubtful == 80), (known, !known), "{scale:e}: {certain} {doubtful}");
    }
}

#[test]
fn products_are_in_f32_and_their_operands_are_not_narrowed() {
    let shape = Shape { channels: 2, samples: 3 };
    let points = PointsAt { at: (Address(0), 0), stored: Stored::I16, shape, points: 17 };
    let of = [0x100, 0x200, 0x300].map(Address);
    let gemm = distance_products(&points, of[0], of[1], 5, of[2]).unwrap();
    assert_eq!((gemm.m, gemm.n, gemm.k), (32, 5, 6));
    assert_eq!((gemm.a.at, gemm.b.at, gemm.c.at), (of[0], of[1], of[2]));
    assert_eq!((gemm.a.ld, gemm.b.ld, gemm.c.ld), (32, 6, 32));
    assert_eq!((gemm.op_a, gemm.op_b), (Transpose::No, Transpose::No));
    assert_eq!((gemm.factors, gemm.compute), (Factors::Host { alpha: -2.0, beta: 0.0 }, Compute::F32));
    assert!(distance_products(&points, of[0], of[1], 1 << 31, of[2]).is_err());
}

/// Computes the answer of one event sequentially.
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
    assert!(distance_matrix(&points(384), none, none).is_ok());
    assert!(matches!(distance_matrix(&points(383), none, none), Err(LaunchError::TooSmall { .. })));
    let nearest = |bytes, keep| distance_nearest(&points(bytes), none, (1, keep), none, none);
    assert!(nearest(384, 17).is_ok());
    assert!(matches!(nearest(384, 18), Err(LaunchError::TooLarge { .. })));
    assert!(matches!(nearest(383, 17), Err(LaunchError::TooSmall { .. })));
    let compared = Compared { sums: none, stride: 0, count: 0, kept: None, unit: 1.0, near: 1.0, tie: 0.0 };
    assert!(distance_answers(&compared, (none, 0), 1, none).is_err());
}
