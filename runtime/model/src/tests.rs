use std::sync::Arc;
use std::thread;

use super::*;

fn tile(n: u32) -> TaskInfo {
    TaskInfo { flops: 2.0 * f64::from(n).powi(3), label: "f32", shape: [n; 3], ..TaskInfo::default() }
}

/// Records `samples` times of products of tiles of `n`, at 20 Gflop/s.
fn run(models: &Models, kind: KindId, n: u32, samples: usize) -> ModelId {
    let id = models.id("gemm", &tile(n));
    for _ in 0..samples {
        models.record(id, kind, tile(n).flops, 0, Duration::from_nanos((tile(n).flops / 20.0) as u64));
    }
    id
}

fn micros(estimate: Option<Estimate>) -> Option<(u128, Source)> {
    estimate.map(|e| (e.time.as_micros(), e.source))
}

#[test]
fn nothing_is_known_of_what_never_ran() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    let id = models.id("gemm", &tile(64));
    assert_eq!(models.estimate(id, cpu, &tile(64), 0), None);
    assert!(!models.is_calibrated(id, cpu));
    assert_eq!(models.needs_exploration(id, cpu), 6);
}

#[test]
fn a_footprint_is_calibrated_after_six_runs() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    let id = run(&models, cpu, 100, 5);
    assert_eq!(models.estimate(id, cpu, &tile(100), 0), None, "one size gives no line");
    assert_eq!(models.needs_exploration(id, cpu), 1);
    run(&models, cpu, 100, 1);
    assert_eq!(micros(models.estimate(id, cpu, &tile(100), 0)), Some((100, Source::History)));
    assert_eq!(models.needs_exploration(id, cpu), 0);
    // Another kind of device has no data of it, and neither has another label.
    let gpu = models.kind("h200");
    assert!(!models.is_calibrated(id, gpu));
    let half = TaskInfo { label: "hp1", ..tile(100) };
    assert_eq!(models.estimate(models.id("gemm", &half), cpu, &half, 0), None);
}

#[test]
fn the_user_comes_before_regression_and_after_history() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    run(&models, cpu, 50, 10);
    run(&models, cpu, 200, 10);
    let guess = TaskInfo { cost: Some(Duration::from_micros(7)), ..tile(100) };
    let id = models.id("gemm", &guess);
    assert_eq!(micros(models.estimate(id, cpu, &tile(100), 0)), Some((100, Source::Regression)));
    assert_eq!(micros(models.estimate(id, cpu, &guess, 0)), Some((7, Source::User)));
    run(&models, cpu, 100, 6);
    assert_eq!(micros(models.estimate(id, cpu, &guess, 0)), Some((100, Source::History)));
}

#[test]
fn a_regression_follows_what_is_measured_later() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    let unseen = models.id("gemm", &tile(400));
    let ask = || models.estimate(unseen, cpu, &tile(400), 0);
    run(&models, cpu, 50, 2);
    assert_eq!(ask(), None);
    run(&models, cpu, 100, 1);
    assert_eq!(micros(ask()), Some((6400, Source::Regression)), "a first sample is better than none");
    // The machine turns out to be twice as slow as in the first runs.
    for n in [50, 100, 200] {
        let id = models.id("gemm", &tile(n));
        for _ in 0..100 {
            models.record(id, cpu, tile(n).flops, 0, Duration::from_nanos((tile(n).flops / 10.0) as u64));
        }
    }
    let later = ask().unwrap();
    assert!((12_000..13_000).contains(&later.time.as_micros()), "{later:?}");
}

/// Tasks without a shape, each of another size, as the panels of a sparse matrix: no size repeats.
#[test]
fn sizes_that_never_repeat_are_estimated() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    let panel = |i: u32| TaskInfo { flops: 1e4 * f64::from(i), label: "f32", ..TaskInfo::default() };
    for i in 1..30 {
        let info = panel(i * i);
        models.record(
            models.id("panel", &info),
            cpu,
            info.flops,
            0,
            Duration::from_nanos(500 + info.flops as u64 / 10),
        );
    }
    let unseen = panel(5000);
    let found = models.estimate(models.id("panel", &unseen), cpu, &unseen, 0).unwrap();
    assert!((found.time.as_nanos() as f64 / 5_000_500.0 - 1.0).abs() < 0.01, "{found:?}");
}

/// A law in flops and bytes, queried with known and with unknown bytes.
#[test]
fn unknown_bytes_are_not_no_bytes() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    for n in [32, 64, 128, 256] {
        let bytes = 12 * u64::from(n).pow(2);
        let time = Duration::from_nanos(tile(n).flops as u64 / 20 + bytes / 2);
        models.record(models.id("gemm", &tile(n)), cpu, tile(n).flops, bytes, time);
    }
    let id = models.id("gemm", &tile(96));
    let (true_time, bytes) = (tile(96).flops / 20.0 + 6.0 * 96.0 * 96.0, 12 * 96 * 96);
    let share = |bytes| {
        let estimate = models.estimate(id, cpu, &tile(96), bytes).unwrap();
        estimate.time.as_nanos() as f64 / true_time
    };
    assert!((share(bytes) - 1.0).abs() < 1e-3, "{}", share(bytes));
    assert!((share(0) - 1.0).abs() < 0.25 && (share(0) - 1.0).abs() > 1e-3, "{}", share(0));
    // Samples without a byte count do not spoil it for others.
    models.record(
        models.id("gemm", &tile(48)),
        cpu,
        tile(48).flops,
        0,
        Duration::from_nanos(tile(48).flops as u64 / 10),
    );
    models.record(
        models.id("gemm", &tile(50)),
        cpu,
        tile(50).flops,
        0,
        Duration::from_nanos(tile(50).flops as u64 / 10),
    );
    assert!((share(bytes) - 1.0).abs() < 1e-3, "{}", share(bytes));
}

#[test]
fn odd_numbers_do_no_harm() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    for flops in [f64::NAN, f64::INFINITY, -1.0, 1e300, 0.0] {
        let info = TaskInfo { flops, ..TaskInfo::default() };
        let id = models.id("", &info);
        for time in [Duration::ZERO, Duration::MAX] {
            models.record(id, cpu, flops, u64::MAX, time);
        }
        let estimate = models.estimate(id, cpu, &info, u64::MAX);
        assert!(estimate.is_none_or(|e| e.time > Duration::ZERO), "{estimate:?}");
    }
    assert!(models.rows().iter().all(|row| row.flops.is_finite()));
    models.record(ModelId::NONE, cpu, 1.0, 0, Duration::from_nanos(1));
    assert_eq!(models.needs_exploration(ModelId::NONE, cpu), 0);
    // Ids of other models: no estimate, no panic.
    let other = Models::new();
    other.record(models.id("x", &tile(1)), KindId(9), 1.0, 0, Duration::from_nanos(1));
    assert_eq!(other.rows().len(), 0);
}

#[test]
fn no_sample_of_any_thread_is_lost() {
    let models = Arc::new(Models::new());
    thread::scope(|scope| {
        for t in 0..4 {
            let models = &models;
            scope.spawn(move || {
                let cpu = models.kind("cpu");
                let mut sampler = Sampler::new(Arc::clone(models), cpu);
                for i in 0..10_000u32 {
                    // There are more footprints than a sampler has slots, and some are recorded
                    // directly.
                    let id = models.id("gemm", &tile(1 + i % 100));
                    let time = Duration::from_nanos(1000 + u64::from(i % 3));
                    match t {
                        0 => models.record(id, cpu, 1.0, 0, time),
                        _ => sampler.record(id, 1.0, 0, time),
                    }
                    assert!(models.estimate(id, cpu, &tile(1), 0).is_none_or(|e| e.time.as_nanos() <= 1002));
                }
            });
        }
    });
    let rows = models.rows();
    assert_eq!(rows.len(), 100);
    // All but each footprint's first.
    assert_eq!(rows.iter().map(|row| row.samples).sum::<u64>(), 40_000 - 100);
    assert!(rows.iter().all(|row| row.median.unwrap().as_nanos() == 1001 && row.kind == "cpu"));
}

#[test]
fn a_sampler_calibrates_at_once_and_then_gathers() {
    let models = Arc::new(Models::new());
    let cpu = models.kind("cpu");
    let mut sampler = Sampler::new(Arc::clone(&models), cpu);
    let id = models.id("gemm", &tile(64));
    for _ in 0..6 {
        sampler.record(id, 1.0, 0, Duration::from_nanos(500));
    }
    assert!(models.is_calibrated(id, cpu));
    for _ in 0..1000 {
        sampler.record(id, 1.0, 0, Duration::from_nanos(500));
    }
    let seen = models.rows()[0].samples;
    assert!((1006 - 1 - 32..1005).contains(&seen), "{seen}");
    sampler.flush();
    assert_eq!(models.rows()[0].samples, 1005);
}

#[test]
fn rows_say_what_an_estimate_rests_on() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    run(&models, cpu, 200, 10);
    run(&models, cpu, 100, 3);
    let rows = models.rows();
    assert_eq!(rows.iter().map(|row| (row.shape[0], row.samples)).collect::<Vec<_>>(), [(100, 2), (200, 9)]);
    assert_eq!(rows[0].estimate.unwrap().source, Source::Regression);
    assert_eq!(rows[1].estimate.unwrap().source, Source::History);
    assert!((rows[1].gflops().unwrap() - 20.0).abs() < 0.01);
    assert_eq!(rows[1].spread, Duration::ZERO);
}

#[test]
fn implementations_are_known_apart() {
    let models = Models::new();
    let cpu = models.kind("cpu");
    let [plain, tiled, packed] = ["", "tiled", "packed"].map(|name| models.id_of("gemm", &tile(64), name));
    assert_eq!(plain, models.id("gemm", &tile(64)));
    for (id, nanos) in [(plain, 900), (tiled, 500)] {
        (0..6).for_each(|_| models.record(id, cpu, 1e6, 0, Duration::from_nanos(nanos)));
    }
    let nanos = |id| models.estimate(id, cpu, &tile(64), 0).map(|e| e.time.as_nanos());
    assert_eq!([plain, tiled, packed].map(nanos), [Some(900), Some(500), None]);
    assert_eq!(models.needs_exploration(packed, cpu), 6);
    let names: Vec<String> = models.rows().into_iter().map(|row| row.implementation).collect();
    assert_eq!(names, ["", "tiled"]);
}

#[test]
fn a_cached_number_is_that_of_the_models_which_are_asked() {
    let (one, other) = (Models::new(), Models::new());
    let info = |label| TaskInfo { label, ..TaskInfo::default() };
    one.id("gemm", &info("f32"));
    let cached = CachedId::default();
    for models in [&one, &other, &other, &one] {
        assert_eq!(models.cached_id(&cached, "gemm", &info("f64")), models.id("gemm", &info("f64")));
    }
    assert_ne!(one.id("gemm", &info("f64")), other.id("gemm", &info("f64")));
}
