use half::f16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Returns every metric, at an exponent of 0.3 if there is a choice.
fn metrics() -> Vec<Metric> {
    let powers = [0.25, 0.3, 0.5, 0.77, 1.0, 2.0].map(Metric::power);
    let tables = [Metric::whole_table(0.3, 1000.0), Metric::log_table(0.3)];
    let others = [Metric::bits(0.3), Metric::quarter_bits(), Metric::polynomials(0.5)];
    powers.into_iter().chain(tables).chain(others).collect()
}

/// Returns all implementations except the portable one.
fn other_levels() -> Vec<SimdLevel> {
    let mut levels = vec![SimdLevel::best()];
    #[cfg(target_arch = "x86_64")]
    levels.extend(x86::Avx2Lanes::new().map(SimdLevel::Avx2));
    levels
}

/// Points and events whose differences have all magnitudes, zero among them.
struct Sample {
    shape: Shape,
    values: Vec<f32>,
    high: Vec<f32>,
    low: Vec<f32>,
}

fn sample(shape: Shape, blocks: usize, events: usize, seed: u64) -> Sample {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut number = |_| match random.random_range(0..4) {
        0 => 0.0,
        1 => 0.25,
        2 => 2f32.powi(random.random_range(-40..1)),
        _ => random.random_range(-1.0..1.0),
    };
    let values = (0..blocks * shape.terms() * LANES).map(&mut number).collect();
    let high = (0..events * shape.terms()).map(&mut number).collect();
    let low = (0..events * shape.terms()).map(|i| number(i) * 1e-8).collect();
    Sample { shape, values, high, low }
}

fn halves(values: &[f32]) -> Vec<u16> {
    values.iter().map(|&x| f16::from_f32(x).to_bits()).collect()
}

fn through(simd: SimdLevel, metric: &Metric, values: Values<'_>, sample: &Sample, low: &[f32]) -> Vec<u32> {
    let Sample { shape, high, .. } = sample;
    let points = values.len() / shape.terms();
    let mut sums = vec![f32::NAN; high.len() / shape.terms() * points];
    let scratch = &mut vec![0.0; values.scratch_len(*shape)];
    by_metric(metric, &mut Operands { simd, values, shape: *shape, high, low, scratch, sums: &mut sums });
    sums.into_iter().map(f32::to_bits).collect()
}

#[test]
fn every_way_gives_the_same_bits() {
    for (shape, events) in [(Shape { channels: 2, samples: 7 }, 6), (Shape { channels: 3, samples: 4 }, 1)] {
        let mut sample = sample(shape, 3, events, 1);
        let ints: Vec<i16> = sample.values.iter().map(|x| (x * 30_000.0) as i16).collect();
        let bits = halves(&sample.values);
        sample.high.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
        for metric in metrics() {
            let all = [
                (Values::F32(&sample.values), &[][..]),
                (Values::F32(&sample.values), &sample.low),
                (Values::I16(&ints), &[]),
                (Values::F16(&bits), &[]),
                (Values::Bf16(&bits), &[]),
                (Values::Halves(&bits), &[]),
            ];
            for (values, low) in all {
                let portable = through(SimdLevel::Portable, &metric, values, &sample, low);
                for simd in other_levels() {
                    assert!(through(simd, &metric, values, &sample, low) == portable, "{metric:?}");
                }
            }
        }
    }
}

#[test]
fn the_sum_of_one_point_is_that_of_all() {
    let sample = sample(Shape { channels: 2, samples: 7 }, 2, 1, 9);
    for metric in metrics() {
        let all = through(SimdLevel::best(), &metric, Values::F32(&sample.values), &sample, &[]);
        for (point, &bits) in all.iter().enumerate() {
            let sum: f32 =
                sum_in(&metric, &sample.values, sample.shape, &sample.high, point).expect("a point");
            assert_eq!(sum.to_bits(), bits, "{metric:?}, point {point}");
        }
        let beyond = sum_in::<f32>(&metric, &sample.values, sample.shape, &sample.high, all.len());
        assert!(matches!(beyond, Err(KernelError::Points { .. })));
    }
}

#[test]
fn sums_do_not_depend_on_who_shares_the_call() {
    let shape = Shape { channels: 2, samples: 5 };
    let all = sample(shape, 2, 7, 2);
    let metric = Metric::power(0.3);
    let together = through(SimdLevel::best(), &metric, Values::F32(&all.values), &all, &[]);
    let points = 2 * LANES;
    for e in 0..7 {
        let high = all.high[e * shape.terms()..][..shape.terms()].to_vec();
        let alone = Sample { shape, values: Vec::new(), high, low: Vec::new() };
        let sums = through(SimdLevel::best(), &metric, Values::F32(&all.values), &alone, &[]);
        assert_eq!(sums, together[e * points..][..points]);
    }
}

#[test]
fn sums_are_those_of_the_formula() {
    let shape = Shape { channels: 2, samples: 40 };
    let sample = sample(shape, 2, 3, 3);
    for p in [0.25, 0.3, 0.5, 0.77, 1.0, 2.0] {
        let mut found = vec![0.0; 3 * 2 * LANES];
        let values = Values::F32(&sample.values);
        sums(&Metric::power(p), values, shape, &sample.high, &[], &mut [], &mut found)
            .expect("sizes that fit");
        for event in 0..3 {
            for point in 0..2 * LANES {
                let term = |term: usize| {
                    let d =
                        sample.values[place(point, term, shape)] - sample.high[event * shape.terms() + term];
                    f64::from(d).abs().powf(p)
                };
                let exact: f64 = (0..shape.terms()).map(term).sum();
                let error = f64::from(found[event * 2 * LANES + point]) / exact - 1.0;
                assert!(error.abs() < 3e-6, "p {p}, event {event}, point {point}: {error:e}");
            }
        }
    }
}

/// Rounds after each operation, one number at a time, with another crate's `f16`.
#[test]
fn halves_are_rounded_as_pairs_of_f16_are() {
    let shape = Shape { channels: 2, samples: 9 };
    let mut sample = sample(shape, 1, 2, 4);
    let scale = |x: &mut f32| *x = f16::from_f32(*x * 1000.0).to_f32();
    sample.high.iter_mut().for_each(scale);
    sample.values.iter_mut().for_each(scale);
    let bits = halves(&sample.values);
    for (metric, p) in [(Metric::power(0.3), 0.3), (Metric::power(0.5), 0.5), (Metric::power(1.0), 1.0)] {
        let sums = through(SimdLevel::best(), &metric, Values::Halves(&bits), &sample, &[]);
        for (at, sum) in sums.into_iter().enumerate() {
            let (event, point) = (at / LANES, at % LANES);
            let mut pair = [f16::ZERO; 2];
            for term in 0..shape.terms() {
                let value = f16::from_bits(bits[place(point, term, shape)]);
                let d = value - f16::from_f32(sample.high[event * shape.terms() + term]);
                let power = f16::from_f64(d.to_f64().abs().powf(p));
                let half = &mut pair[term % shape.samples % 2];
                *half = f16::from_f64(half.to_f64() + power.to_f64());
            }
            let expected = f16::from_f64(pair[0].to_f64() + pair[1].to_f64());
            assert_eq!(f32::from_bits(sum), expected.to_f32(), "p {p}, event {event}, point {point}");
        }
    }
}

/// The powers of many numbers.
struct OfAll<'a, P>(&'a P, &'a mut [f32]);

impl<P: Power> LaneWork for OfAll<'_, P> {
    #[inline(always)]
    fn run<L: SixteenLanes, const BATCH: usize>(self, lanes: L) {
        for x in self.1.as_chunks_mut().0 {
            let power = self.0.of(lanes, lanes.load(x));
            lanes.store(power, x);
        }
    }
}

/// The largest relative errors of `|d|^0.3` by polynomials: for magnitudes from 2^-10 to 2, and for
/// all normal ones below 16, with every mantissa of the runs of 2^16 whose number is a multiple of
/// `step`. `x^p = m^p 2^(e p)`, so that a reference needs a power for each mantissa only.
fn largest_errors(step: usize) -> [f64; 2] {
    let p = 0.3;
    let power = AnyPower::new(p);
    const RUN: u32 = 1 << 16;
    let (mut most, mut references) = ([0.0f64; 2], vec![0.0; RUN as usize]);
    let mut numbers = vec![0.0f32; RUN as usize];
    for first in (0..1u32 << 23).step_by(RUN as usize * step) {
        let mantissa = |i: usize| f32::from_bits(0x3f80_0000 + first + i as u32);
        for (i, reference) in references.iter_mut().enumerate() {
            *reference = f64::from(mantissa(i)).powf(-p);
        }
        for e in -126..4i32 {
            let (scale, factor) = (2f32.powi(e), (f64::from(e) * -p).exp2());
            numbers.iter_mut().enumerate().for_each(|(i, x)| *x = mantissa(i) * scale);
            SimdLevel::best().enter(OfAll(&power, &mut numbers));
            let errors =
                numbers.iter().zip(&references).map(|(&x, r)| (f64::from(x) * r * factor - 1.0).abs());
            let of_exponent = errors.fold(0.0, f64::max);
            most[1] = most[1].max(of_exponent);
            if (-10..1).contains(&e) {
                most[0] = most[0].max(of_exponent);
            }
        }
    }
    most
}

fn check_errors(step: usize) {
    let most = largest_errors(step);
    println!("largest relative errors: {:.2e} from 2^-10, {:.2e} everywhere", most[0], most[1]);
    assert!(most[0] < 3e-7 && most[1] < 4e-6, "{most:?}");
}

#[test]
fn polynomials_are_as_accurate_as_they_say() {
    check_errors(16);
}

/// 1.09e9 numbers: `cargo test -p zellige-kernels --lib for_every_number -- --ignored --nocapture`.
#[test]
#[ignore = "takes some ten seconds"]
fn polynomials_are_as_accurate_as_they_say_for_every_number() {
    check_errors(1);
}

#[test]
fn zeros_count_nothing_and_signs_do_not_count() {
    for metric in metrics() {
        let zero = f64::from(metric.of(0.0)) * metric.unit();
        assert!((0.0..1e-3).contains(&zero), "{metric:?}: {zero}");
        assert_eq!(metric.of(-0.3), metric.of(0.3));
    }
    assert_eq!(Metric::power(0.3).of(0.0), 0.0);
}

/// For each number and its successor in a sample of every exponent: the bits grow, and so do their
/// powers.
#[test]
fn quick_powers_never_decrease() {
    for metric in [Metric::bits(0.3), Metric::bits(0.9), Metric::quarter_bits()] {
        let mut before = 0.0;
        for bits in (0..0x7f80_0000).step_by(99_991) {
            for bits in [bits, bits + 1] {
                let power = metric.of(f32::from_bits(bits));
                assert!(power >= before, "{metric:?} at {bits:x}");
                before = power;
            }
        }
    }
}

#[test]
fn sizes_have_to_fit() {
    let shape = Shape { channels: 2, samples: 3 };
    let (metric, values) = (Metric::power(1.0), [0.0; 6 * LANES]);
    let try_sizes = |values: &[f32], high: &[f32], low: &[f32], sum: &mut [f32]| {
        sums(&metric, Values::F32(values), shape, high, low, &mut [], sum).is_ok()
    };
    assert!(try_sizes(&values, &[0.0; 12], &[], &mut [0.0; 2 * LANES]));
    assert!(!try_sizes(&values[1..], &[0.0; 12], &[], &mut [0.0; 2 * LANES]));
    assert!(!try_sizes(&values, &[0.0; 11], &[], &mut [0.0; LANES]));
    assert!(!try_sizes(&values, &[0.0; 12], &[0.0; 6], &mut [0.0; 2 * LANES]));
    assert!(!try_sizes(&values, &[0.0; 12], &[], &mut [0.0; LANES]));
    assert!(
        sums(&metric, Values::F32(&[]), Shape { channels: 0, samples: 3 }, &[], &[], &mut [], &mut [])
            .is_err()
    );
}

/// Tests events with no point, one, all of a block, the same point twice, and points far apart.
#[test]
fn pairs_have_the_bits_of_all_points() {
    let (shape, count) = (Shape { channels: 2, samples: 7 }, 37);
    let sample = sample(shape, 5, count, 7);
    let halves = halves(&sample.values);
    let stride = 5 * LANES;
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let (mut points, mut ends) = (Vec::new(), Vec::new());
    for event in 0..count {
        let mut of_event: Vec<usize> = match event % 4 {
            0 => Vec::new(),
            1 => (LANES..2 * LANES).collect(),
            2 => vec![70, 70, 3],
            _ => (0..30).map(|_| random.random_range(0..stride)).collect(),
        };
        of_event.sort_unstable();
        points.append(&mut of_event);
        ends.push(points.len());
    }
    for metric in metrics() {
        for values in [Values::F32(&sample.values), Values::Bf16(&halves)] {
            let all = through(SimdLevel::Portable, &metric, values, &sample, &[]);
            let want = ends.iter().enumerate().flat_map(|(event, &end)| {
                let begin = if event == 0 { 0 } else { ends[event - 1] };
                points[begin..end].iter().map(move |&point| event * stride + point)
            });
            let want: Vec<u32> = want.map(|at| all[at]).collect();
            for simd in other_levels().into_iter().chain([SimdLevel::Portable]) {
                let mut found = vec![f32::NAN; points.len()];
                let pairs = Pairs { points: &points, ends: &ends };
                let scratch = &mut vec![0.0; values.scratch_len(shape)];
                pairs::by_simd(simd, &metric, values, shape, &sample.high, pairs, scratch, &mut found)
                    .expect("sizes that fit");
                assert!(found.into_iter().map(f32::to_bits).eq(want.iter().copied()), "{metric:?}");
            }
        }
    }
}

#[test]
fn pairs_have_to_be_there_and_in_order() {
    let (shape, values) = (Shape { channels: 1, samples: 2 }, [0.0; 2 * LANES]);
    let of = |points: &[usize], ends: &[usize]| {
        let (events, mut sums) = (vec![0.0; 2 * ends.len()], vec![0.0; points.len()]);
        let pairs = Pairs { points, ends };
        sums_of_pairs(&Metric::power(1.0), Values::F32(&values), shape, &events, pairs, &mut [], &mut sums)
            .is_ok()
    };
    assert!(of(&[1, 15, 0], &[2, 3]) && of(&[], &[]) && of(&[], &[0, 0]));
    assert!(!of(&[15, 1], &[2]) && !of(&[16], &[1]) && !of(&[1], &[2]) && !of(&[1, 2], &[2, 1]));
    assert!(!of(&[1, 2], &[1]) && !of(&[1, 2], &[3, 2]));
}

fn products_through(simd: SimdLevel, values: Values<'_>, shape: Shape, events: &[f32]) -> Vec<f32> {
    let squares = squares(values, shape).expect("whole blocks");
    let mut sums = vec![f32::NAN; events.len() / shape.terms() * squares.len()];
    let scratch = &mut vec![0.0; values.scratch_len(shape)];
    product::products_by(simd, values, &squares, shape, events, scratch, &mut sums).expect("sizes that fit");
    sums
}

#[test]
fn products_have_the_same_bits_in_every_way_and_company() {
    for (shape, events) in [(Shape { channels: 2, samples: 7 }, 13), (Shape { channels: 3, samples: 4 }, 1)] {
        let sample = sample(shape, 3, events, 5);
        let ints: Vec<i16> = sample.values.iter().map(|x| (x * 30_000.0) as i16).collect();
        let halves = halves(&sample.values);
        for values in [
            Values::F32(&sample.values),
            Values::I16(&ints),
            Values::F16(&halves),
            Values::Bf16(&halves),
            Values::Halves(&halves),
        ] {
            let bits = |simd, events: &[f32]| -> Vec<u32> {
                products_through(simd, values, shape, events).into_iter().map(f32::to_bits).collect()
            };
            let portable = bits(SimdLevel::Portable, &sample.high);
            for simd in other_levels() {
                assert!(bits(simd, &sample.high) == portable, "{values:?}");
                let alone = sample.high.chunks(shape.terms()).flat_map(|event| bits(simd, event));
                assert!(alone.eq(portable.iter().copied()), "{values:?}");
            }
        }
    }
}

/// Events that are almost a point, so that all but the last bits cancel; the bound is said to be
/// one, and not much more.
#[test]
fn products_are_as_far_from_squares_of_distances_as_they_say() {
    for shape in [Shape { channels: 2, samples: 40 }, Shape { channels: 10, samples: 40 }] {
        let mut random = ChaCha8Rng::seed_from_u64(6);
        // Realistic signals: of one sign, for which sums lose most.
        let values: Vec<f32> =
            (0..4 * LANES * shape.terms()).map(|_| random.random_range(0.5..1.0)).collect();
        let event = |e: usize| -> Vec<f32> {
            let near = |term| values[place(e, term, shape)] * (1.0 + random.random_range(-1e-4..1e-4f32));
            (0..shape.terms()).map(near).collect()
        };
        let events: Vec<f32> = (0..8).flat_map(event).collect();
        let sums = products_through(SimdLevel::best(), Values::F32(&values), shape, &events);
        let mut largest = 0.0f64;
        for (at, sum) in sums.into_iter().enumerate() {
            let (event, point) = (at / (4 * LANES), at % (4 * LANES));
            let (mut distance, mut v_square, mut b_square) = (0.0, 0.0, 0.0);
            for term in 0..shape.terms() {
                let v = f64::from(events[event * shape.terms() + term]);
                let b = f64::from(values[place(point, term, shape)]);
                distance += (v - b) * (v - b);
                v_square += v * v;
                b_square += b * b;
            }
            let unit = (v_square.sqrt() + b_square.sqrt()).powi(2);
            largest = largest.max((f64::from(sum) + v_square - distance).abs() / unit);
        }
        let bound = product_error(shape);
        println!("{shape:?}: {largest:.2e}, at most {bound:.2e}");
        assert!(largest <= bound && largest > bound / 50.0, "{largest:e} {bound:e}");
    }
}

#[test]
fn products_want_squares_that_fit() {
    let shape = Shape { channels: 1, samples: 2 };
    let values = [0.0; 2 * LANES];
    let products = |squares: &[f32], events: &[f32], sums: &mut [f32]| {
        products(Values::F32(&values), squares, shape, events, &mut [], sums).is_ok()
    };
    assert!(products(&[0.0; LANES], &[0.0; 2], &mut [0.0; LANES]));
    assert!(!products(&[0.0; LANES - 1], &[0.0; 2], &mut [0.0; LANES]));
    assert!(!products(&[0.0; LANES], &[0.0; 3], &mut [0.0; LANES]));
    assert!(!products(&[0.0; LANES], &[0.0; 2], &mut [0.0; LANES + 1]));
    assert!(squares(Values::F32(&values[1..]), shape).is_err());
}

/// Returns a sum truncated to an `f32`.
fn cut_off(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near).abs() > x.abs() { f32::from_bits(near.to_bits() - 1) } else { near }
}

/// Sums from the front, from the back, by halves, in interleaved parts, and truncated instead of
/// rounded: the bound holds, and is not much larger than the last of them requires.
#[test]
fn products_in_any_order_are_within_their_bound() {
    fn by_halves(terms: &[f64]) -> f32 {
        match terms {
            [] => 0.0,
            [x] => *x as f32,
            _ => {
                let (front, back) = terms.split_at(terms.len() / 2);
                by_halves(front) + by_halves(back)
            }
        }
    }
    let in_parts = |terms: &[f64]| -> f32 {
        let part = |first| terms.iter().skip(first).step_by(8).fold(0.0f32, |sum, &x| sum + x as f32);
        (0..8).map(part).sum()
    };
    type Order<'o> = (&'o str, &'o dyn Fn(&[f64]) -> f32);
    let orders: [Order<'_>; 5] = [
        ("from the front", &|terms| terms.iter().fold(0.0, |sum, &x| (f64::from(sum) + x) as f32)),
        ("from the back", &|terms| terms.iter().rev().fold(0.0, |sum, &x| sum + x as f32)),
        ("by halves", &by_halves),
        ("in parts", &in_parts),
        ("cut off", &|terms| {
            terms.iter().fold(0.0, |sum, &x| cut_off(f64::from(sum) + f64::from(cut_off(x))))
        }),
    ];
    let shape = Shape { channels: 10, samples: 40 };
    let margin = Margin::in_any_order(shape);
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut largest = [0.0f64; 5];
    for _ in 0..200 {
        let mut signal = || -> Vec<f64> {
            (0..shape.terms()).map(|_| f64::from(random.random_range(0.5..1.0f32))).collect()
        };
        let (b, v) = (signal(), signal());
        let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
        let (length, distance) = (square(&b).sqrt() + square(&v).sqrt(), {
            b.iter().zip(&v).map(|(b, v)| (v - b) * (v - b)).sum::<f64>()
        });
        let terms: Vec<f64> = b.iter().zip(&v).map(|(b, v)| b * v).collect();
        let bound = margin.error_of(square(&v), square(&b).sqrt()).expect("lengths that have a bound");
        for ((_, sum), largest) in orders.iter().zip(&mut largest) {
            let sum = -2.0 * sum(&terms) + square(&b) as f32;
            let error = (f64::from(sum) + square(&v) - distance).abs();
            assert!(error <= bound && bound < 1.01 * margin.error * length * length);
            *largest = largest.max(error / bound);
        }
    }
    let by_name = orders.iter().zip(largest).map(|((name, _), part)| format!("{name}: {part:.3}"));
    println!("parts of the bound: {}", by_name.collect::<Vec<_>>().join(", "));
    assert!(largest[4] > 0.1 && largest[4] > 5.0 * largest[2], "{largest:?}");
}

#[test]
fn what_is_too_large_has_no_margin() {
    let shape = Shape { channels: 2, samples: 40 };
    for margin in [Margin::of_chains(shape), Margin::in_any_order(shape)] {
        assert!(margin.error_of(1e36, 1e18).is_some());
        assert!(
            [(1e38, 0.0), (0.0, 1e19), (f64::INFINITY, 0.0), (f64::NAN, 0.0)]
                .iter()
                .all(|&(square, longest)| margin.error_of(square, longest).is_none())
        );
        // Apart by twice the error at least.
        let error = margin.error_of(1.0, 1.0).expect("a bound");
        assert!(margin.around(0.5, 1.0, error) > 2.0 * error && error > 0.0);
    }
    let long = Shape { channels: 1 << 12, samples: 1 << 12 };
    assert!(Margin::in_any_order(long).error_of(1.0, 1.0).is_none());
}
