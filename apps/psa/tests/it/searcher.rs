//! Searches as tasks: identical results with any number of workers, any batches, and on devices
//! with separate memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_cuda::Gpu;
use zellige_gpu::mock::MockBuilder;
use zellige_gpu::{Gemm, Library};
use zellige_kernels::cuda::DISTANCE_SOURCES;
use zellige_kernels::distance::{Margin, Shape};
use zellige_psa::basis::SegmentBasis;
use zellige_psa::channels::Segment;
use zellige_psa::search::{
    Batching, Block, Flags, Hit, Match, Method, Plan, PowerTable, Precision, Prepared, Query, SampleFormat,
    Screen, Searcher, SegmentEvents,
};
use zellige_runtime::{Data, Emulated, Runtime, RuntimeBuilder};
use zellige_twins::mock_with_wrong_products;

const CHANNELS: usize = 3;
const SAMPLES: usize = 12;
/// Precisions for which GPUs have kernels.
const ON_GPUS: [Precision; 3] = [Precision::Fp32, Precision::Int16, Precision::Bf16];

fn segment(index: usize) -> Segment {
    Segment::from_index(index).expect("one of 36")
}

/// Returns points of a cube of 2 mm steps; the position of a point determines the time and the size
/// of its signals' rise.
fn basis(edge: usize) -> SegmentBasis {
    let at = |i: usize| [i % edge, i / edge % edge, i / edge / edge].map(|x| x as f32 * 2.0);
    let positions: Vec<[f32; 3]> = (0..edge * edge * edge).map(at).collect();
    let signal = |place: &[f32; 3]| {
        let place = *place;
        (0..CHANNELS * SAMPLES).map(move |term| {
            let (channel, t) = (term / SAMPLES, (term % SAMPLES) as f32);
            1.0 / (1.0 + (0.25 * place[channel] + 3.0 - t).exp())
        })
    };
    let values = positions.iter().flat_map(signal).collect();
    SegmentBasis::new(CHANNELS, SAMPLES, positions, values).expect("sizes that fit")
}

/// Returns noisy signals of random points, of 20 keV to 2 MeV.
fn events(basis: &SegmentBasis, count: usize) -> SegmentEvents {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let energies: Vec<f64> = (0..count).map(|_| 20.0 * 100f64.powf(random.random_range(0.0..1.0))).collect();
    let mut samples = Vec::new();
    for energy in &energies {
        let point = basis.point(random.random_range(0..basis.positions().len()));
        samples.extend(point.iter().map(|b| b * *energy as f32 + random.random_range(-4.0..4.0)));
    }
    SegmentEvents::new(CHANNELS, SAMPLES, &energies, &samples).expect("events")
}

fn plans() -> Vec<Plan> {
    let full = Plan { method: Method::Full, ..Plan::default() };
    let cells = Plan { method: Method::CoarseFine { cells: 2 }, ..full };
    let screen = |by| Plan { method: Method::Screen { by, keep: 4 }, ..full };
    vec![
        full,
        Plan { precision: Precision::Fp64, p: 0.5, ..full },
        Plan { precision: Precision::Fp16, ..full },
        Plan { table: PowerTable::Log, ..full },
        Plan { precision: Precision::Mixed, ..cells },
        Plan { precision: Precision::Int16, ..screen(Screen::Quarter) },
        Plan { precision: Precision::Bf16, ..screen(Screen::Power) },
        Plan { certify: true, ..screen(Screen::Bits) },
        screen(Screen::Product),
        Plan { precision: Precision::Mixed, ..screen(Screen::Product) },
        Plan { method: Method::Exact { cap: 50 }, ..full },
    ]
}

fn on(
    rt: RuntimeBuilder,
    plan: &Plan,
    basis: &SegmentBasis,
    events: &SegmentEvents,
    size: usize,
) -> Vec<Match> {
    search_on(&rt.build().expect("a runtime"), plan, basis, events, size)
}

fn search_on(
    rt: &Runtime,
    plan: &Plan,
    basis: &SegmentBasis,
    events: &SegmentEvents,
    size: usize,
) -> Vec<Match> {
    let batching = Batching { size, patience: Duration::from_secs(60) };
    let mut searcher = Searcher::new(rt, plan, batching);
    searcher.host(segment(3), basis).expect("a basis");
    let now = Instant::now();
    for (number, &energy) in events.energies().iter().enumerate() {
        let hit = Hit { ticket: number, segment: segment(3), energy, coarse_only: false };
        searcher.push(hit, events.samples(number), now).expect("an event that fits");
    }
    searcher.finish().expect("answers").into_iter().map(|(_, found)| found).collect()
}

#[test]
fn answers_do_not_depend_on_who_computes_them() {
    let basis = basis(5);
    let events = events(&basis, 40);
    for plan in plans() {
        let alone = Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events");
        for (workers, size) in [(1, 1), (2, 7), (3, 64)] {
            assert_eq!(
                on(Runtime::builder().workers(workers), &plan, &basis, &events, size),
                alone,
                "{plan:?}"
            );
        }
        let device = Emulated::new(1 << 22);
        let devices = Runtime::builder().workers(0).device(device.clone()).device(device);
        assert_eq!(on(devices, &plan, &basis, &events, 5), alone, "{plan:?} on devices");
    }
}

#[test]
fn an_exact_search_is_the_full_one_in_f64() {
    let basis = basis(6);
    let events = events(&basis, 60);
    for p in [0.25, 0.3, 0.5, 0.8, 1.0] {
        let of = |method, precision| {
            let plan = Plan { method, precision, p, ..Plan::default() };
            Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events")
        };
        let full = of(Method::Full, Precision::Fp64);
        for cap in [3, 1000] {
            for (exact, full) in of(Method::Exact { cap }, Precision::Fp32).iter().zip(&full) {
                assert_eq!(
                    (exact.index, exact.fom, exact.second, exact.gap),
                    (full.index, full.fom, full.second, full.gap)
                );
                assert!(exact.flags.has(Flags::CERTIFIED));
            }
        }
    }
}

/// Searches on a mock GPU: the kernels' source on the host, and a driver that checks the order of
/// streams. `None` without g++.
fn on_gpu(
    workers: usize,
    plan: &Plan,
    basis: &SegmentBasis,
    events: &SegmentEvents,
) -> Option<(Vec<Match>, u64)> {
    Some(on_mock(zellige_twins::mock(DISTANCE_SOURCES)?, workers, plan, basis, events))
}

/// Returns the answers, and the number of bytes that came back from the GPU.
fn on_mock(
    mock: MockBuilder,
    workers: usize,
    plan: &Plan,
    basis: &SegmentBasis,
    events: &SegmentEvents,
) -> (Vec<Match>, u64) {
    let mock = Arc::new(mock.seed(5).build());
    let rt = Runtime::builder().workers(workers).gpu_only(true);
    let rt = rt.device(Gpu::new(mock.clone(), 0).memory(1 << 28)).build().expect("a runtime");
    let found = search_on(&rt, plan, basis, events, 9);
    let came_back = rt.memory().iter().filter(|node| node.device.is_some()).map(|node| node.bytes_out).sum();
    drop(rt);
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
    (found, came_back)
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes).into()).collect()
}

fn length<'x>(numbers: impl Iterator<Item = &'x f64>) -> f64 {
    numbers.map(|x| x * x).sum::<f64>().sqrt()
}

/// Returns a mock GPU with a library of inexact products, and the counter of its products. The
/// errors are this part of the limit of [`Margin::in_any_order`], up and down. `None` without g++.
fn rough(part: f64) -> Option<(MockBuilder, Arc<AtomicUsize>)> {
    let products = Arc::new(AtomicUsize::new(0));
    let count = products.clone();
    let error = part * Margin::in_any_order(Shape { channels: CHANNELS, samples: SAMPLES }).error;
    let change = move |gemm: &Gemm, [a, b]: [&[u8]; 2], c: &mut [u8]| {
        let (m, k, points, events) = (gemm.m as usize, gemm.k as usize, numbers(a), numbers(b));
        for (at, bytes) in c.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let (point, event) = (at % m, at / m);
            let unit = length(points[point..].iter().step_by(m)) + length(events[event * k..][..k].iter());
            let off = if (at * 7 + event) % 3 == 0 { -error } else { error } * unit * unit;
            *bytes = ((f64::from(f32::from_le_bytes(*bytes)) + off) as f32).to_le_bytes();
        }
        count.fetch_add(1, Ordering::Relaxed);
    };
    Some((mock_with_wrong_products(DISTANCE_SOURCES, change)?, products))
}

#[test]
fn answers_of_a_gpu_have_the_bits_of_the_cpu() {
    let basis = basis(5);
    let events = events(&basis, 40);
    let full = Plan { method: Method::Full, ..Plan::default() };
    let screens =
        [Screen::Quarter, Screen::Bits, Screen::Linear, Screen::Square, Screen::Product, Screen::Power];
    let screens = screens.into_iter().zip([1, 8, 4, 128, 16, 2]);
    let screens = screens.map(|(by, keep)| Plan { method: Method::Screen { by, keep }, ..full });
    let powers = [0.25, 0.5, 1.0, 2.0, 0.77].map(|p| Plan { p, ..full });
    let there = powers.into_iter().chain(screens).flat_map(|plan| {
        ON_GPUS.map(|precision| Plan { precision, ..plan }).into_iter().filter(|plan| plan.check().is_ok())
    });
    // Without a CPU worker only the GPU can search.
    for plan in there.chain([full]) {
        let alone = Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events");
        let Some((found, _)) = on_gpu(0, &plan, &basis, &events) else { return };
        assert_eq!(found, alone, "{plan:?}");
    }
}

#[test]
fn what_gpus_have_no_kernels_for_is_searched_beside_them() {
    let basis = basis(4);
    let events = events(&basis, 20);
    for plan in plans() {
        let alone = Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events");
        let Some((found, came_back)) = on_gpu(1, &plan, &basis, &events) else { return };
        assert_eq!(found, alone, "{plan:?}");
        let searched = matches!(plan.method, Method::Full | Method::Screen { .. })
            && ON_GPUS.contains(&plan.precision)
            && plan.table == PowerTable::None
            && !plan.certify;
        assert_eq!(came_back > 0, searched, "{plan:?}");
    }
}

/// Returns the signals of points of a basis as events, so that products with the basis cancel.
/// Points on the diagonal of a cube of five are included: their neighbours on the three axes have
/// equal distances.
fn still(basis: &SegmentBasis) -> SegmentEvents {
    let points = 0..basis.positions().len();
    let points = points.clone().step_by(5).chain(points.step_by(31));
    let points: Vec<f32> = points.flat_map(|point| basis.point(point).to_vec()).collect();
    SegmentEvents::new(CHANNELS, SAMPLES, &vec![1.0; points.len() / CHANNELS / SAMPLES], &points)
        .expect("events")
}

fn by_product(precision: Precision, keep: usize) -> Plan {
    Plan { method: Method::Screen { by: Screen::Product, keep }, precision, ..Plan::default() }
}

/// Uses a library with the largest allowed error, also for products that cancel.
#[test]
fn products_on_a_gpu_keep_the_points_that_squares_keep() {
    let basis = basis(5);
    let (noisy, still) = (events(&basis, 40), still(&basis));
    for (keep, part) in [(2, 0.9), (5, -0.9), (40, 0.9), (1000, 0.0)] {
        for (precision, events) in ON_GPUS.into_iter().flat_map(|p| [(p, &noisy), (p, &still)]) {
            let plan = by_product(precision, keep);
            let alone = Prepared::new(&plan, &basis).expect("a plan").search(events, &[]).expect("events");
            let Some((mock, products)) = rough(part) else { return };
            assert_eq!(on_mock(mock, 0, &plan, &basis, events).0, alone, "{precision}, best {keep}");
            assert!(products.load(Ordering::Relaxed) > 0);
        }
    }
}

#[test]
fn without_a_library_sums_of_the_screen_by_products_are_direct() {
    let basis = basis(5);
    let events = still(&basis);
    for precision in ON_GPUS {
        let plan = by_product(precision, 5);
        let alone = Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events");
        let Some((mock, products)) = rough(0.9) else { return };
        let (found, came_back) = on_mock(mock.without(Library::Cublas), 0, &plan, &basis, &events);
        assert_eq!(found, alone, "{precision}");
        assert_eq!((products.load(Ordering::Relaxed), came_back > 0), (0, true), "{precision}");
    }
}

/// A library with twice the allowed error is detected, so that the test above can fail.
#[test]
fn products_that_are_too_wrong_keep_other_points() {
    let basis = basis(5);
    let events = still(&basis);
    let plan = by_product(Precision::Fp32, 2);
    let alone = Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events");
    let Some((mock, _)) = rough(2.0) else { return };
    assert_ne!(on_mock(mock, 0, &plan, &basis, &events).0, alone);
}

/// Includes events that are points of the basis, so that products with the basis cancel.
#[test]
fn products_keep_the_points_that_squares_keep() {
    let basis = basis(6);
    let (noisy, still) = (events(&basis, 60), still(&basis));
    for (precision, keep) in [
        (Precision::Fp32, 1),
        (Precision::Fp32, 5),
        (Precision::Int16, 16),
        (Precision::Bf16, 40),
        (Precision::Fp64, 100),
        (Precision::Fp32, 1000),
    ] {
        for events in [&noisy, &still] {
            let of = |by| {
                let plan = Plan { method: Method::Screen { by, keep }, precision, ..Plan::default() };
                Prepared::new(&plan, &basis).expect("a plan").search(events, &[]).expect("events")
            };
            assert_eq!(of(Screen::Product), of(Screen::Square), "{precision}, best {keep}");
        }
    }
}

/// Samples with squares that exceed the range of `f32`.
#[test]
fn events_that_are_too_large_for_products_have_an_answer() {
    let basis = basis(4);
    let events =
        SegmentEvents::new(CHANNELS, SAMPLES, &[1e-3], &[1e30; CHANNELS * SAMPLES]).expect("an event");
    let plan = Plan { method: Method::Screen { by: Screen::Product, keep: 3 }, ..Plan::default() };
    let found = Prepared::new(&plan, &basis).expect("a plan").search(&events, &[]).expect("events");
    assert_eq!(found.len(), 1);
    let Some((on_gpu, _)) = on_gpu(0, &plan, &basis, &events) else { return };
    assert_eq!(on_gpu, found);
}

/// High energies by a full search, low ones by coarse points: a rule depends on segment and energy.
#[test]
fn a_rule_chooses_by_energy() {
    let basis = basis(5);
    let events = events(&basis, 30);
    let rule = |query: &Query| {
        let coarse = Method::CoarseFine { cells: 1 };
        let method =
            if query.class == zellige_psa::search::EnergyClass::Tiny { coarse } else { Method::Full };
        Plan { method, ..Plan::default() }
    };
    let rt = Runtime::builder().workers(2).build().expect("a runtime");
    let mut searcher = Searcher::new(&rt, &rule, Batching::default());
    searcher.host(segment(0), &basis).expect("a basis");
    for (number, &energy) in events.energies().iter().enumerate() {
        let hit = Hit { ticket: number, segment: segment(0), energy, coarse_only: true };
        searcher.push(hit, events.samples(number), Instant::now()).expect("an event that fits");
    }
    for (number, found) in searcher.finish().expect("answers") {
        assert_eq!(found.flags.has(Flags::COARSE_ONLY), events.energies()[number] < 50.0);
    }
    let nowhere = Hit { ticket: 0, segment: segment(9), energy: 1.0, coarse_only: false };
    assert!(searcher.push(nowhere, events.samples(0), Instant::now()).is_err());
    let here = Hit { segment: segment(0), ..nowhere };
    assert!(searcher.push(here, &events.samples(0)[1..], Instant::now()).is_err());
}

/// Memory of the segments of a crystal of AGATA's size: 47 590 points, 10 channels or 7 (first and
/// last ring), 40 samples.
#[test]
fn a_crystal_in_fixed_point_takes_less_than_forty_megabytes() {
    let mut bytes = 0;
    for segment in Segment::all() {
        let channels = zellige_psa::channels::ChannelSet::Neighbours.of(segment).len();
        let points = 47_590usize.div_ceil(36);
        let values = vec![0.5; points * channels * 40];
        let basis = SegmentBasis::new(channels, 40, vec![[0.0; 3]; points], values).expect("sizes that fit");
        let block = Block::new(&basis).expect("points and samples");
        let block = block.to_format(SampleFormat::I16).expect("from f32");
        bytes += block.meta().bytes;
    }
    println!("{:.1} MB", bytes as f64 / 1e6);
    assert!(bytes <= 40_000_000, "{bytes}");
}
