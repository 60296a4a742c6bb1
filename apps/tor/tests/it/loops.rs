//! The end-to-end simulation.

use std::path::Path;
use zellige_runtime::Runtime;
use zellige_tor::end_to_end::{LoopOptions, LoopResult, Simulation};
use zellige_tor::params::{self, Input, Mode};
use zellige_tor::pipeline::Silent;
use zellige_tor::system::{LoopMode, SensorModel};
use zellige_tor::{Covariance, Matrix, dm, evaluate, geometry::Geometry, reference};

fn system(name: &str) -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems").join(name);
    params::read(&path, None, Mode::Strict).unwrap()
}

/// Returns a smaller telescope than that of the file.
fn small() -> Input {
    let mut input = system("scao.toml");
    input.system.diameter = 3.2;
    input.system.nssp = 8;
    input.system.stars[0].nssp = 8;
    input
}

fn run(input: &Input, options: &LoopOptions) -> LoopResult {
    let mut simulation = Simulation::new(input, None, options).unwrap();
    (0..options.skip + options.frames).for_each(|_| simulation.step());
    simulation.result(&input.system, options)
}

#[test]
fn a_closed_loop_corrects_and_delay_costs() {
    let options = LoopOptions { frames: 150, skip: 40, images: 20, ..LoopOptions::default() };
    let mut input = small();
    input.system.simulation.sensor = SensorModel::Gradients;
    let with = |gain: f64, delay: usize, input: &mut Input| {
        input.system.simulation.gain = Some(gain);
        input.system.simulation.delay = delay;
        run(input, &options).targets[0].clone()
    };
    let off = with(0.0, 1, &mut input);
    let [on, late] = [1, 4].map(|delay| with(0.4, delay, &mut input));
    assert!(off.bands[0].strehl < 0.3, "{off:?}");
    assert!(on.bands[0].strehl > 0.75, "{on:?}");
    assert!(late.rms_nm > on.rms_nm + 5.0, "{late:?} {on:?}");
    // Fitting alone is 0.28 (d / r0)^(5/3) rad^2 at 500 nm.
    let fitting = 1e9 * (0.28 * (0.4f64 / 0.15).powf(5.0 / 3.0)).sqrt() * 500e-9 / std::f64::consts::TAU;
    assert!(on.rms_nm_tilt_removed > 0.8 * fitting && on.rms_nm < 1.6 * fitting, "{on:?}, {fitting}");
}

/// The usual cutoff of command matrices, `1 / sqrt(30)`, leaves the tilt of this pupil uncorrected.
#[test]
fn reconstructors_correct_tilt() {
    let options = LoopOptions { frames: 60, skip: 60, images: 1, noise: false, ..LoopOptions::default() };
    let mut input = system("scao.toml");
    input.system.simulation.sensor = SensorModel::Gradients;
    let measured = run(&input, &options).targets[0].rms_nm;
    let by_covariances = run_with_reconstructors(&input, &options, None).targets[0].rms_nm;
    assert!(by_covariances < 1.25 * measured, "{by_covariances} {measured}");
}

/// Theory takes an infinite mirror, so that the edge of the pupil makes a difference.
#[test]
fn theory_agrees_with_the_loop() {
    let options = LoopOptions { frames: 400, skip: 40, images: 1, noise: false, ..LoopOptions::default() };
    let mut input = small();
    input.system.simulation.sensor = SensorModel::Gradients;
    let mut simulation = Simulation::new(&input, None, &options).unwrap();
    let theory = simulation.theory(&input, &options).unwrap().unwrap().integral;
    (0..options.skip + options.frames).for_each(|_| simulation.step());
    let loop_nm = simulation.result(&input.system, &options).targets[0].rms_nm;
    assert!((loop_nm / theory.total - 1.0).abs() < 0.2, "{loop_nm} {theory:?}");
    assert!(theory.noise == 0.0 && theory.fitting > theory.aliasing && theory.delay > 5.0, "{theory:?}");
    input.system.targets = vec![[5.0, 0.0]];
    assert_eq!(Simulation::new(&input, None, &options).unwrap().theory(&input, &options).unwrap(), None);
    input.system.targets = vec![[0.0, 0.0]];
    input.system.simulation.gain = Some(2.0);
    let unstable = Simulation::new(&input, None, &options).unwrap().theory(&input, &options);
    assert!(unstable.unwrap_err().to_string().contains("stable"));
}

#[test]
fn tasks_have_the_bits_of_one_thread() {
    let options = LoopOptions { frames: 41, skip: 6, images: 10, ..LoopOptions::default() };
    for (mode, delay) in [(LoopMode::Closed, 1), (LoopMode::PseudoOpen, 2), (LoopMode::Open, 0)] {
        let mut input = small();
        input.system.targets.push([10.0, 0.0]);
        input.system.simulation.mode = Some(mode);
        input.system.simulation.gain = None;
        input.system.simulation.delay = delay;
        let wanted = run_with_reconstructors(&input, &options, None);
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            assert_eq!(run_with_reconstructors(&input, &options, Some(&rt)), wanted, "{mode:?}");
        }
    }
}

fn run_with_reconstructors(input: &Input, options: &LoopOptions, rt: Option<&Runtime>) -> LoopResult {
    let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
    let matrices: Vec<_> = (0..cov.targets()).map(|t| reference::reconstruct(&cov, t).unwrap()).collect();
    let mut simulation = Simulation::new(input, Some(&matrices), options).unwrap();
    match rt {
        Some(rt) => {
            // Runs go on where others ended.
            simulation.run(rt, 20, &Silent).unwrap();
            simulation.run(rt, options.skip + options.frames - 20, &Silent).unwrap();
        }
        None => (0..options.skip + options.frames).for_each(|_| simulation.step()),
    }
    simulation.result(&input.system, options)
}

/// Returns the result of a loop whose frames `step` simulates.
fn stepped(input: &Input, options: &LoopOptions, mut step: impl FnMut(&mut Simulation)) -> LoopResult {
    let mut simulation = Simulation::new(input, None, options).unwrap();
    (0..options.skip + options.frames).for_each(|_| step(&mut simulation));
    simulation.result(&input.system, options)
}

#[test]
fn slopes_of_a_caller_have_the_bits_of_the_sensors() {
    let options = LoopOptions { frames: 20, skip: 4, images: 5, ..LoopOptions::default() };
    let mut input = small();
    input.system.targets.push([10.0, 0.0]);
    for delay in [0, 2] {
        input.system.simulation.delay = delay;
        let wanted = run(&input, &options);
        let by_slopes = stepped(&input, &options, |loop_| {
            let slopes = loop_.slopes();
            loop_.step_with_slopes(&slopes).unwrap();
        });
        assert_eq!(by_slopes, wanted, "delay {delay}");
        let rt = Runtime::builder().workers(2).build().unwrap();
        let mut tasks = Simulation::new(&input, None, &options).unwrap();
        tasks.run(&rt, 10, &Silent).unwrap();
        (0..4).for_each(|_| tasks.step());
        tasks.run(&rt, 10, &Silent).unwrap();
        assert_eq!(tasks.result(&input.system, &options), wanted, "delay {delay}");
    }
}

/// The law by its formula `u += g C s`, in a sum of another order than the controller's.
#[test]
fn an_integrator_of_a_caller_corrects_as_the_loops_own() {
    let options = LoopOptions { frames: 20, skip: 4, images: 1, ..LoopOptions::default() };
    let mut input = small();
    input.system.simulation.sensor = SensorModel::Gradients;
    for delay in [0, 1, 3] {
        input.system.simulation.delay = delay;
        let wanted = run(&input, &options).targets[0].clone();
        let mut u = Vec::new();
        let by_commands = stepped(&input, &options, |loop_| {
            let slopes = loop_.slopes();
            let matrix = loop_.command_matrices().next().unwrap().clone();
            u.resize(matrix.rows(), 0.0);
            for (column, slope) in slopes.iter().enumerate() {
                u.iter_mut().zip(matrix.col(column)).for_each(|(u, c)| *u += 0.4 * c * slope);
            }
            loop_.step_with_commands(&u).unwrap();
        });
        let (found, wanted) = (by_commands.targets[0].rms_nm, wanted.rms_nm);
        assert!((found / wanted - 1.0).abs() < 1e-9, "delay {delay}: {found} {wanted}");
    }
}

#[test]
fn callers_see_the_wavefronts_that_the_loop_uses() {
    let options = LoopOptions { frames: 1, skip: 8, images: 1, noise: false, ..LoopOptions::default() };
    let mut input = small();
    input.system.simulation.sensor = SensorModel::Gradients;
    let mut simulation = Simulation::new(&input, None, &options).unwrap();
    (0..8).for_each(|_| simulation.step());
    assert_eq!(simulation.frame(), 8);
    // The residual, whose variance the exposure of one frame has.
    let residual = simulation.wavefront(0, true).unwrap();
    let lit: Vec<f64> = simulation.pupil().lit.iter().map(|&p| residual[p]).collect();
    let mean = lit.iter().sum::<f64>() / lit.len() as f64;
    let variance = lit.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / lit.len() as f64;
    // A mean gradient is the difference of the means over opposite edges, 3.2 m / 8 apart.
    let (wavefront, slopes) = (simulation.star_wavefront(0).unwrap(), simulation.slopes());
    let cells = Geometry::new(&input.system).unwrap().sensors()[0].cells.clone();
    let across = wavefront.len().isqrt();
    let step = (across - 1) / 8;
    for (cell, slope) in cells.iter().zip(&slopes) {
        let [x, y] = cell.map(|k| usize::from(k) * step);
        let edge = |x: usize| -> f64 {
            let at = |k: usize| wavefront[(y + k) * across + x];
            (0..step).map(|k| 0.5 * (at(k) + at(k + 1))).sum::<f64>() / step as f64
        };
        let wanted = (edge(x + step) - edge(x)) / 0.4 * zellige_tor::ARCSEC_PER_RADIAN;
        assert!((slope - wanted).abs() < 1e-9, "{slope} {wanted}");
    }
    simulation.step();
    let found = simulation.result(&input.system, &options).targets[0].rms_nm;
    assert!((found / (1e9 * variance.sqrt()) - 1.0).abs() < 1e-9, "{found}");
}

#[test]
fn an_interaction_matrix_predicts_slopes() {
    let mut input = small();
    // Too little turbulence to see.
    input.atmosphere.layers[0].cn2 = 1e-20;
    let options = LoopOptions { noise: false, ..LoopOptions::default() };
    let mut simulation = Simulation::new(&input, None, &options).unwrap();
    let interaction = simulation.interaction(&input).unwrap();
    let commands = Matrix::from_fn(interaction.cols(), 1, |a, _| 1e-3 * (a as f64).sin());
    simulation.step_with_commands(commands.data()).unwrap();
    let wanted = interaction.times(&commands).unwrap();
    let largest = wanted.max_abs();
    // The mirror is subtracted from the wavefront.
    for (slope, wanted) in simulation.slopes().iter().zip(wanted.data()) {
        assert!((slope + wanted).abs() < 1e-3 * largest, "{slope} {wanted}");
    }
    input.system.simulation.sensor = SensorModel::Edges;
    assert!(simulation.interaction(&input).unwrap_err().to_string().contains("grid"));
}

#[test]
fn numbers_of_a_caller_are_checked() {
    let mut simulation = Simulation::new(&small(), None, &LoopOptions::default()).unwrap();
    let (slopes, commands) = (simulation.slopes(), simulation.mirrors()[0].clone());
    let count = commands.len().to_string();
    for (result, words) in [
        (simulation.step_with_slopes(&slopes[1..]), vec!["slopes", "one for each"]),
        (
            simulation.step_with_commands(&vec![f64::NAN; commands.len()]),
            vec!["commands", "number 0", "finite"],
        ),
        (simulation.step_with_commands(&[]), vec!["commands", "0 numbers", count.as_str()]),
        (simulation.wavefront(1, true).map(drop), vec!["target", "1", "[imaging]"]),
        (simulation.star_wavefront(7).map(drop), vec!["star", "7", "there are 1"]),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert_eq!(simulation.frame(), 0);
}

/// Returns the variance of the commands' error in an open loop over independent frames, relative to
/// what the covariances predict, with a sensor that measures what they assume.
fn against_the_covariances(mut input: Input, frames: u64) -> f64 {
    // The wind carries the turbulence away between two frames.
    input.system.simulation.frame_time = Some(2.0);
    input.system.simulation.mode = Some(LoopMode::Open);
    input.system.simulation.gain = None;
    input.system.simulation.sensor = SensorModel::Edges;
    input.system.simulation.delay = 0;
    let options = LoopOptions { frames, skip: 0, images: 1, ..LoopOptions::default() };
    let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
    let r = reference::reconstruct(&cov, 0).unwrap();
    let geometry = Geometry::new(&input.system).unwrap();
    let interaction = dm::DeformableMirror::new(&input.system).interaction(&input.system, geometry.truth());
    let dx = dm::pseudo_inverse(&interaction, input.system.simulation.cutoff).unwrap().dx;
    let predicted = evaluate::cvv(&dx, &evaluate::cee(&cov, 0, &r).unwrap()).unwrap().trace();
    let mut simulation = Simulation::new(&input, Some(&[r]), &options).unwrap();
    // The truth is what the same mirror would do with the slopes of the target.
    let mut sum = 0.0;
    for _ in 0..frames {
        let truth = dx.times(&simulation.truth(0)).unwrap();
        simulation.step();
        let commands = &simulation.mirrors()[0];
        sum += truth.data().iter().zip(commands).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    }
    sum / frames as f64 / predicted
}

/// Returns one star, two layers, and a target beside the star.
fn one_star() -> Input {
    let mut input = small();
    input.system.targets = vec![[20.0, 0.0]];
    input.system.noise = zellige_tor::system::NoiseModel::Uniform { variance: 1e-4 };
    input.atmosphere.layers[0].altitude = 4000.0;
    input
}

/// Returns the demonstration with fewer sub-apertures: four laser and three natural stars.
fn laser_stars() -> Input {
    let mut input = system("demo.toml");
    input.system.diameter = 4.0;
    input.system.nssp = 8;
    input.system.stars.iter_mut().for_each(|star| star.nssp = 8);
    input.atmosphere.layers.truncate(6);
    input
}

#[test]
fn an_open_loop_has_the_tomographic_error_of_the_covariances() {
    for (name, input, frames, near) in
        [("one star", one_star(), 200, 0.15), ("laser stars", laser_stars(), 40, 0.25)]
    {
        let ratio = against_the_covariances(input, frames);
        assert!((ratio - 1.0).abs() < near, "{name}: {ratio}");
    }
}

#[test]
#[ignore = "25 minutes: independent draws until the standard error is 1 %"]
fn tomographic_errors_of_three_systems() {
    let mut faint = laser_stars();
    faint.system.stars.iter_mut().for_each(|star| star.magnitude = star.magnitude.map(|m| m + 2.0));
    faint.system.targets = vec![[15.0, -10.0]];
    for (name, input) in [("one star", one_star()), ("laser stars", laser_stars()), ("faint stars", faint)] {
        let ratio = against_the_covariances(input, 4000);
        println!("{name}: {ratio:.4}");
        assert!((ratio - 1.0).abs() < 0.03, "{name}: {ratio}");
    }
}

#[test]
fn bad_parameters_are_named() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/scao.toml")).unwrap();
    for (from, to, named) in [
        ("gain = 0.4", "gain = -0.4", "loop.gain"),
        ("mode = \"closed\"", "mode = \"open\"", "loop.gain"),
        ("delay = 1 ", "delay = 1001 ", "loop.delay"),
        ("delay = 1 ", "delay = -1 ", "s.toml:51"),
        ("pixels = 8 ", "pixels = 0 ", "loop.pixels"),
        ("wavelengths = [1.65e-6, 2.2e-6]", "wavelengths = [1.65]", "loop.wavelengths[0]"),
        ("sensor = \"spots\"", "sensor = \"spot\"", "spots"),
        ("cutoff = 0.02", "cutof = 0.02", "cutof"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = params::parse(Path::new("s.toml"), &changed, None, Mode::Strict).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let mut input = small();
    input.system.noise = zellige_tor::system::NoiseModel::Uniform { variance: 1e-4 };
    let error = Simulation::new(&input, None, &LoopOptions::default()).err().unwrap().to_string();
    assert!(error.contains("frame_time") && error.contains("[loop]"), "{error}");
    input.system.simulation.frame_time = Some(0.002);
    let error = Simulation::new(&input, None, &LoopOptions::default()).err().unwrap().to_string();
    assert!(error.contains("spots need light") && error.contains("[photometry]"), "{error}");
    let error = Simulation::new(&small(), Some(&[]), &LoopOptions::default()).err().unwrap().to_string();
    assert!(error.contains("reconstructors"), "{error}");
}
