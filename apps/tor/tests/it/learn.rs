//! Learning the profile from slopes, and telemetry of the loop.

use std::path::Path;
use zellige_runtime::Runtime;
use zellige_tor::Matrix;
use zellige_tor::end_to_end::{LoopOptions, Simulation};
use zellige_tor::files::SlopeOrder;
use zellige_tor::files::fits;
use zellige_tor::geometry::Geometry;
use zellige_tor::learn::{self, LearnOptions, read_slopes};
use zellige_tor::params::{self, Input, Mode};
use zellige_tor::pipeline::{self, Options, PipelineError, Silent};
use zellige_tor::system::{LoopMode, NoiseModel, StarKind};

fn system() -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/learn.toml");
    params::read(&path, None, Mode::Strict).unwrap()
}

/// Returns a smaller telescope with two layers.
fn small() -> Input {
    let mut input = system();
    input.system.diameter = 3.0;
    input.system.nssp = 6;
    input.system.stars.truncate(3);
    input.system.stars.iter_mut().for_each(|star| star.nssp = 6);
    input.system.simulation.frame_time = Some(0.005);
    input.atmosphere.layers.remove(1);
    // Much more than 1 % of the variance of slopes: so much may simulation and theory differ.
    input.system.noise = NoiseModel::Uniform { variance: 1e-2 };
    input
}

fn record(input: &Input, frames: u64, rt: &Runtime) -> Simulation {
    let options = LoopOptions { frames, skip: 3, images: 1, ..LoopOptions::default() };
    let mut simulation = Simulation::new(input, None, &options).unwrap();
    simulation.record(frames).unwrap();
    simulation.run(rt, 3 + frames, &Silent).unwrap();
    simulation
}

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

#[test]
fn the_profile_of_a_loop_is_learnt() {
    let (input, rt) = (small(), runtime());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.fits");
    record(&input, 4000, &rt).telemetry().unwrap().get().write(&file, &input.system).unwrap();
    let geometry = Geometry::new(&input.system).unwrap();
    let measured = read_slopes(&[file], &geometry, SlopeOrder::Xxyy).unwrap();
    assert_eq!(measured.frame_time, Some(0.005));
    let mut start = input.clone();
    for layer in &mut start.atmosphere.layers {
        (layer.cn2, layer.outer_scale, layer.wind) = (10.0, 50.0, None);
    }
    let found = learn::learn(&rt, &start, measured.slopes, &LearnOptions::default(), &Silent);
    let found = found.unwrap_or_else(|e| panic!("{e}"));
    // Errors from 16 blocks have an error of 18 %, so that four of them are rare enough.
    let near = |value: f64, error: f64, truth: f64, most: f64| {
        assert!((value - truth).abs() < 4.0 * error, "{value} +- {error}, not {truth}: {found:?}");
        assert!(error < most * truth, "{value} +- {error}: {found:?}");
    };
    near(found.r0, found.r0_error, input.atmosphere.r0(), 0.05);
    for (layer, truth) in found.layers.iter().zip(&input.atmosphere.layers) {
        near(layer.cn2, layer.cn2_error, truth.cn2, 0.15);
        let [x, y] = truth.wind.unwrap();
        near(layer.wind_speed, layer.wind_speed_error.unwrap(), x.hypot(y), 0.05);
        let turned = layer.wind_direction - y.atan2(x).to_degrees();
        assert!((turned + 180.0).rem_euclid(360.0) - 180.0 < 5.0, "{found:?}");
    }
    for noise in found.noise.as_flattened() {
        assert!((noise / 1e-2 - 1.0).abs() < 0.1, "{found:?}");
    }
}

#[test]
#[ignore = "minutes: 20 000 frames of four sensors"]
fn the_profile_from_20000_frames() {
    let (input, rt) = (system(), runtime());
    let geometry = Geometry::new(&input.system).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.fits");
    let begin = std::time::Instant::now();
    record(&input, 20_000, &rt).telemetry().unwrap().get().write(&file, &input.system).unwrap();
    println!("loop {:.1} s", begin.elapsed().as_secs_f64());
    let slopes = || read_slopes(std::slice::from_ref(&file), &geometry, SlopeOrder::Xxyy).unwrap().slopes;
    let mut start = input.clone();
    for layer in &mut start.atmosphere.layers {
        (layer.cn2, layer.outer_scale, layer.wind) = (15.0, 50.0, None);
    }
    let found = learn::learn(&rt, &start, slopes(), &LearnOptions::default(), &Silent).unwrap();
    println!("{}", zellige_tor::report::text::of_learnt(&found, false));
    let truth = &input.atmosphere;
    assert!((found.r0 / truth.r0() - 1.0).abs() < 0.03, "r0 {} {}", found.r0, truth.r0());
    for (layer, truth) in found.layers.iter().zip(&truth.layers) {
        let [x, y] = truth.wind.unwrap();
        println!(
            "{} m: strength {:+.2} errors, wind {:+.2} %",
            layer.altitude,
            (layer.cn2 - truth.cn2) / layer.cn2_error,
            100.0 * (layer.wind_speed / x.hypot(y) - 1.0)
        );
        assert!((layer.wind_speed / x.hypot(y) - 1.0).abs() < 0.05, "{layer:?}");
        assert!((layer.cn2 - truth.cn2).abs() < 2.0 * layer.cn2_error, "{layer:?}");
    }
    // The next cycle begins with the profile of this one.
    let next = Input { atmosphere: found.atmosphere(), ..input };
    let begin = std::time::Instant::now();
    let again = learn::learn(&rt, &next, slopes(), &LearnOptions::default(), &Silent).unwrap();
    println!("next cycle: reading and learning {:.1} s, r0 {:.4}", begin.elapsed().as_secs_f64(), again.r0);
    let begin = std::time::Instant::now();
    let options = Options { rules: vec!["fp32".into()], judge: false, ..Options::default() };
    pipeline::build(&rt, &next, &options, &Silent).unwrap();
    println!("build {:.2} s", begin.elapsed().as_secs_f64());
}

#[test]
fn files_have_the_slopes_and_commands_of_the_frames() {
    let mut input = small();
    input.system.stars[0].kind = StarKind::Lgs;
    input.system.stars[0].inverse_altitude = 1.0 / 90e3;
    input.system.targets.push([5.0, 0.0]);
    let rt = runtime();
    let by_tasks = record(&input, 250, &rt);
    let options = LoopOptions { frames: 250, skip: 3, images: 1, ..LoopOptions::default() };
    let mut by_steps = Simulation::new(&input, None, &options).unwrap();
    by_steps.record(250).unwrap();
    (0..253).for_each(|_| by_steps.step());
    let (tasks, steps) = (by_tasks.telemetry().unwrap().get(), by_steps.telemetry().unwrap().get());
    assert_eq!((tasks.frames(), steps.frames()), (250, 250));
    assert!((0..3).all(|star| tasks.slopes(star) == steps.slopes(star)));
    assert!(tasks.commands(0) == steps.commands(0));
    // One frame of delay: frame 0 of the exposure has the commands of a frame before it.
    assert!(tasks.commands(0)[..9].iter().any(|u| *u != 0.0));

    let folder = tempfile::tempdir().unwrap();
    let geometry = Geometry::new(&input.system).unwrap();
    let per_frame = geometry.measurements() / 3;
    for name in ["t.fits", "t.npz"] {
        let file = folder.path().join(name);
        tasks.write(&file, &input.system).unwrap();
        let read = read_slopes(&[file], &geometry, SlopeOrder::Xxyy).unwrap();
        assert_eq!((read.slopes.rows(), read.slopes.cols()), (250, geometry.measurements()));
        assert_eq!(read.frame_time, Some(0.005));
        for (frame, j) in [(0, 0), (7, 20), (249, per_frame + 1), (100, 3 * per_frame - 1)] {
            let (star, slope) = (j / per_frame, j % per_frame);
            let wanted = f64::from(tasks.slopes(star)[frame * per_frame + slope]);
            assert_eq!(read.slopes[(frame, j)], wanted, "{name} {frame} {j}");
        }
    }
    let file = folder.path().join("t.fits");
    let commands = fits::read(&file, Some("COMMANDS_1")).unwrap();
    assert_eq!(commands.shape, [250, tasks.commands(0).len() / 250]);
    assert!(commands.values.iter().zip(tasks.commands(0)).all(|(a, b)| *a == f64::from(*b)));
    let slopes = fits::read(&file, Some("SLOPES_2")).unwrap();
    assert_eq!(slopes.shape, [250, 2, per_frame / 2]);
    // One file for each sensor.
    let parts: Vec<_> = (1..=3).map(|k| file.join(format!("SLOPES_{k}"))).collect();
    let whole = read_slopes(std::slice::from_ref(&file), &geometry, SlopeOrder::Xxyy).unwrap().slopes;
    assert_eq!(read_slopes(&parts, &geometry, SlopeOrder::Xxyy).unwrap().slopes, whole);
}

#[test]
fn slopes_that_saw_the_mirror_are_refused() {
    let (mut input, rt) = (small(), runtime());
    input.system.simulation.mode = Some(LoopMode::Closed);
    let folder = tempfile::tempdir().unwrap();
    let simulation = record(&input, 10, &rt);
    let geometry = Geometry::new(&input.system).unwrap();
    for name in ["t.fits", "t.npz"] {
        let file = folder.path().join(name);
        simulation.telemetry().unwrap().get().write(&file, &input.system).unwrap();
        let error = read_slopes(&[file], &geometry, SlopeOrder::Xxyy).unwrap_err().to_string();
        assert!(error.contains("saw the mirror") && error.contains("open loop"), "{error}");
    }
}

#[test]
fn bad_slopes_are_named() {
    let (input, rt) = (small(), runtime());
    let n = Geometry::new(&input.system).unwrap().measurements();
    let noise = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 997) as f64 - 498.0;
    let refused = |slopes: Matrix, options: LearnOptions| {
        let error = learn::learn(&rt, &input, slopes, &options, &Silent).unwrap_err();
        assert!(matches!(error, PipelineError::Tor(_)), "{error}");
        error.to_string()
    };
    let usual = LearnOptions::default;
    let error = refused(Matrix::from_fn(1000, n - 2, noise), usual());
    assert!(error.contains(&format!("{n} measurements")), "{error}");
    let error = refused(Matrix::from_fn(100, n, noise), usual());
    assert!(error.contains("100 frames: give"), "{error}");
    let with_lag = LearnOptions { lag: Some(100), ..usual() };
    let error = refused(Matrix::from_fn(1000, n, noise), with_lag);
    assert!(error.contains("give 6400 or more"), "{error}");
    let mut holed = Matrix::from_fn(1000, n, noise);
    holed[(7, 3)] = f64::NAN;
    let error = refused(holed, usual());
    assert!(error.contains("NaN in frame 7, measurement 3"), "{error}");
    let constant = Matrix::from_fn(1000, n, |i, j| if j < n / 3 { 0.25 } else { noise(i, j) });
    let error = refused(constant, usual());
    assert!(error.contains("sensor 1") && error.contains("constant"), "{error}");
    let mut timeless = input.clone();
    timeless.system.simulation.frame_time = None;
    let error = learn::learn(&rt, &timeless, Matrix::from_fn(1000, n, noise), &usual(), &Silent);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("frame time") && error.contains("--frame-ms"), "{error}");
}
