//! Error budgets of simulated loops, beside integrals over the spectrum of turbulence.

use std::path::Path;
use zellige_runtime::Runtime;
use zellige_tor::end_to_end::{Compared, LoopBudget, LoopOptions, LoopRun, Study, expose};
use zellige_tor::params::{self, Input, Mode};
use zellige_tor::pipeline::Silent;
use zellige_tor::system::{LoopMode, NoiseModel, SensorModel};
use zellige_tor::{Covariance, reference};

/// Returns a closed loop with `nssp` sub-apertures of 0.4 m across the pupil, with so much noise
/// that it matters.
fn closed(nssp: usize) -> Input {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systems/scao.toml");
    let mut input = params::read(&path, None, Mode::Strict).unwrap();
    input.system.diameter = 0.4 * nssp as f64;
    input.system.nssp = nssp;
    input.system.stars[0].nssp = nssp;
    input.system.noise = NoiseModel::Uniform { variance: 4e-3 };
    input.atmosphere.layers[0].wind = Some([20.0, 0.0]);
    let model = &mut input.system.simulation;
    (model.sensor, model.delay, model.frame_time) = (SensorModel::Gradients, 2, Some(0.002));
    input
}

fn run(input: &Input, compared: &Compared, options: &LoopOptions, study: Study) -> LoopRun {
    let rt = Runtime::builder().workers(2).build().unwrap();
    expose(&rt, input, compared, (options, study), &Silent, &mut || ()).unwrap().unwrap().0
}

fn measured() -> Compared {
    Compared { name: "measured".into(), matrices: None, shares: None }
}

/// Returns the sum of the squares of the terms over that of the total, which is 1 by definition but
/// for rounding.
fn sum_of_terms(budget: &LoopBudget) -> f64 {
    let square = |nm: f64| nm * nm.abs();
    let all = budget.list();
    all[..5].iter().map(|(_, term)| square(term.nm)).sum::<f64>() / square(budget.total.nm)
}

/// Theory has an infinite mirror and no edge of the pupil. Actuators at the edge have fewer slopes,
/// and so more aliasing: 9 to 20 % with 10 sub-apertures across the pupil, 6 % with 20, 2 % with
/// 40. The loop's aliasing has what it shares with the delay. Noise is tested beside the command
/// matrix: low orders of a finite pupil have more of it than waves, however large it is.
#[test]
fn terms_of_a_closed_loop_are_those_of_the_integrals() {
    let options = LoopOptions { frames: 200, skip: 60, images: 1, ..LoopOptions::default() };
    let study = Study { budget: true, ..Study::default() };
    let result = run(&closed(20), &measured(), &options, study);
    let (budget, theory) = (&result.budget[0], result.theory.unwrap().integral);
    for (name, found, wanted, near) in [
        ("fitting", budget.fitting, theory.fitting, 0.1),
        ("aliasing", budget.aliasing, theory.aliasing, 0.1),
        ("delay", budget.delay, theory.delay, 0.1),
        ("total", budget.total, theory.total, 0.05),
    ] {
        let ratio = found.nm / wanted;
        assert!((ratio - 1.0).abs() < near, "{name}: {found:?}, {wanted}");
    }
    // The star is the target, and control has nearly all modes.
    assert!(budget.tomographic.nm.abs() < 0.2 * budget.total.nm, "{budget:?}");
    assert!((sum_of_terms(budget) - 1.0).abs() < 1e-9, "{budget:?}");
    assert_eq!(result.result.unwrap().targets[0].rms_nm, budget.total.nm);
}

/// A term is what its source does alone, where sources are independent: noise without turbulence.
#[test]
fn noise_adds_what_it_makes_alone() {
    let options = LoopOptions { frames: 400, skip: 60, images: 1, ..LoopOptions::default() };
    let mut input = closed(10);
    let study = Study { budget: true, ..Study::default() };
    let both = run(&input, &measured(), &options, study).budget[0].noise;
    input.atmosphere.layers[0].cn2 = 1e-9;
    let alone = run(&input, &measured(), &options, Study::default()).result.unwrap().targets[0].rms_nm;
    let near = 3.0 * both.error_nm.unwrap() + 0.02 * alone;
    assert!((both.nm - alone).abs() < near, "{both:?}, alone {alone}");
    assert!(near < 0.2 * alone, "{both:?}");
}

/// Far from the star, most of the error is tomographic: the turbulence of a high layer, seen
/// elsewhere. Its structure function is known (anisoplanatism).
#[test]
fn the_rest_is_tomographic() {
    let mut input = closed(10);
    input.system.noise = NoiseModel::Uniform { variance: 1e-6 };
    input.atmosphere.layers[0].altitude = 8000.0;
    input.system.simulation.mode = Some(LoopMode::Open);
    input.system.simulation.gain = None;
    input.system.targets = vec![[0.0, 0.0], [15.0, 0.0]];
    let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
    let matrices: Vec<_> = (0..2).map(|t| reference::reconstruct(&cov, t).unwrap()).collect();
    let options = LoopOptions { frames: 300, skip: 0, images: 1, ..LoopOptions::default() };
    let compared = Compared { name: "R".into(), matrices: Some(matrices), shares: None };
    let study = Study { budget: true, ..Study::default() };
    let result = run(&input, &compared, &options, study);
    let [on, off] = [0, 1].map(|t| &result.budget[t]);
    assert!(off.tomographic.nm > 2.0 * on.tomographic.nm.abs(), "{on:?} {off:?}");
    // The wavefront at 15 arcsec and 8 km is shifted by 0.58 m, more than a pitch.
    assert!(off.tomographic.nm > off.fitting.nm, "{off:?}");
    assert!((off.fitting.nm / on.fitting.nm - 1.0).abs() < 0.1, "{on:?} {off:?}");
    assert!(off.noise.nm.abs() < 0.1 * off.total.nm && result.theory.is_none(), "{off:?}");
}

#[test]
fn seeds_are_pooled() {
    let options = LoopOptions { frames: 40, skip: 10, images: 4, ..LoopOptions::default() };
    let all = run(&closed(10), &measured(), &options, Study { seeds: 3, ..Study::default() });
    let one = |seed: u64| {
        let options = LoopOptions { seed, ..options.clone() };
        run(&closed(10), &measured(), &options, Study::default()).result.unwrap().targets[0].bands[0].strehl
    };
    let strehls = [1, 2, 3].map(one);
    let listed: Vec<(u64, f64)> = all.seeds.iter().map(|seed| (seed.seed, seed.strehl[0])).collect();
    assert_eq!(listed, [(1, strehls[0]), (2, strehls[1]), (3, strehls[2])]);
    let result = all.result.unwrap();
    let mean = strehls.iter().sum::<f64>() / 3.0;
    let error = (strehls.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 6.0).sqrt();
    assert!((result.targets[0].bands[0].strehl - mean).abs() < 1e-12 && result.frames == 120);
    assert!((result.targets[0].strehl_error.unwrap() - error).abs() < 1e-12);
    assert!(all.complete && all.stages.unwrap().list().iter().all(|(_, seconds)| *seconds > 0.0));
}
