//! The pipeline on small systems of the project's own: units, workers, files, refusals.

use crate::common;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use zellige_runtime::Runtime;
use zellige_tests::data;
use zellige_tor::files::{SlopeOrder, fits, npy};
use zellige_tor::params::{Input, Mode, parse, read, timed_system};
use zellige_tor::pipeline::{
    self, Foreign, Observer, OnNotSpd, Options, Outcome, PipelineError, Silent, TileChoice, Xray, covariance,
    evaluate, precheck, write_images, write_reconstructors,
};
use zellige_tor::system::NoiseModel;
use zellige_tor::{Kind, reference};

const DEMO: &str = include_str!("../../systems/demo.toml");

/// Returns the demo's sky with `nssp` sub-apertures across.
fn system(nssp: usize) -> Input {
    let text = DEMO.replace("nssp = 16 ", &format!("nssp = {nssp} "));
    parse(Path::new("system.toml"), &text, None, Mode::Strict).unwrap()
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).bind(false).build().unwrap()
}

fn options(rules: &[&str], tile: usize) -> Options {
    Options {
        rules: rules.iter().map(|r| r.to_string()).collect(),
        tile: TileChoice::Uniform(tile),
        keep_reconstructors: true,
        ..Options::default()
    }
}

fn strehl(outcome: &Outcome, rule: usize) -> f64 {
    outcome.results[rule].measured.as_ref().unwrap().strehl_moao
}

#[test]
fn fp64_is_the_dense_reconstructor_for_every_target() {
    let input = system(6);
    let targets = vec![[0.0, 0.0], [12.0, -7.0], [150.0, 150.0]];
    let options = Options { targets: Some(targets.clone()), ..options(&["fp64", "fp32"], 25) };
    let outcome = pipeline::run(&runtime(2), &input, &options, &Silent).unwrap();
    let cov = zellige_tor::Covariance::with_targets(&input.system, &input.atmosphere, &targets).unwrap();
    for t in 0..3 {
        let want = reference::reconstruct(&cov, t).unwrap();
        let got = &outcome.results[0].extras.reconstructors[t];
        let error: f64 = got.data().iter().zip(want.data()).map(|(a, b)| (a - b).powi(2)).sum();
        assert!(error.sqrt() < 1e-9 * want.norm(), "target {t}: {}", error.sqrt() / want.norm());
    }
    // Each target is judged separately. Far from the guide stars the Strehl ratio is low.
    let m = outcome.results[1].measured.as_ref().unwrap();
    assert_eq!(m.targets.len(), 3);
    assert!(m.targets[2].strehl_moao < m.targets[0].strehl_moao);
    let flops = (outcome.results[0].n as f64).powi(3) / 3.0
        + 3.0 * 2.0 * (outcome.results[0].n as f64).powi(2) * outcome.results[0].m as f64;
    assert!((m.flops / flops - 1.0).abs() < 1e-12);
}

#[test]
fn judgement_agrees_with_the_sequential_one() {
    let input = system(7);
    let outcome = pipeline::run(&runtime(2), &input, &options(&["fp32"], 40), &Silent).unwrap();
    let cov = zellige_tor::Covariance::new(&input.system, &input.atmosphere).unwrap();
    let r = &outcome.results[0].extras.reconstructors[0];
    let cee = zellige_tor::evaluate::cee(&cov, 0, r).unwrap();
    let dx = zellige_tor::dm::command_matrix(&input.system, cov.geometry()).unwrap().dx;
    let (_, verdict) = zellige_tor::evaluate::judge(&input.system, &cov, &dx, &cee, true).unwrap();
    let m = outcome.results[0].measured.as_ref().unwrap();
    common::close("trace", m.trace_cee, verdict.trace_cee, 1e-12);
    common::close("Strehl", m.strehl_moao, verdict.strehl, 1e-12);
    common::close("exact Strehl", m.strehl_exact.unwrap(), verdict.strehl_exact.unwrap(), 1e-12);
}

#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Observer for Listener {
    fn stage(&self, _name: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn warn(&self, text: &str) {
        self.0.lock().unwrap().push(text.into());
    }
}

#[test]
fn figures_that_mean_nothing_come_with_a_warning() {
    let input = system(6);
    let mirror = zellige_tor::dm::DeformableMirror::new(&input.system);
    let m = precheck(&input, &options(&["fp32"], 48)).unwrap().info.truth_slopes;
    // A mirror with only two opposite actuators, which move together, contradicts the stationary
    // model.
    let line = |k: &usize| mirror.cells[*k][1] == 3;
    let ends = [(0..mirror.len()).find(line).unwrap(), (0..mirror.len()).rfind(line).unwrap()];
    let dx = zellige_tor::Matrix::from_fn(mirror.len(), m, |a, _| if ends.contains(&a) { 10.0 } else { 0.0 });
    let heard = Listener::default();
    let outcome =
        pipeline::run_with_mirror(&runtime(2), &input, &options(&["fp32"], 48), dx, &heard).unwrap();
    let result = &outcome.results[0];
    let warnings = &result.measured.as_ref().unwrap().warnings;
    assert_eq!(*warnings, *heard.0.lock().unwrap());
    assert!(warnings[0].starts_with("fp32, target (0, 0): strehl_moao"), "{warnings:?}");
    assert_eq!(serde_json::to_value(result).unwrap()["warnings"][0], warnings[0].as_str());
    assert!((0.0..1.0).contains(&result.measured.as_ref().unwrap().strehl_moao));

    let usual = pipeline::run(&runtime(2), &input, &options(&["fp32"], 48), &Silent).unwrap();
    assert!(serde_json::to_value(&usual.results[0]).unwrap().get("warnings").is_none());
}

#[test]
fn a_matrix_beyond_float32_is_sent_to_float64() {
    // Two stars at one position measure the same values twice. The noise is very small, and so are
    // the smallest eigenvalues, which equal it.
    let mut input = system(8);
    input.system.stars[1] = input.system.stars[0].clone();
    input.system.noise = NoiseModel::Uniform { variance: 1e-8 };
    let all = options(&["hp1:operand=1e-2", "x3", "fp32", "fp64"], 48);
    let outcome = pipeline::run(&runtime(2), &input, &all, &Silent).unwrap();
    for result in &outcome.results[..3] {
        let lost = result.not_spd.as_ref().unwrap_or_else(|| panic!("{} survived", result.rule));
        assert!(lost.to_string().ends_with("try fp64"), "{}: {lost}", result.rule);
    }
    // The suggested remedy works, in the list and by the retry.
    assert!(outcome.results[3].measured.is_some());
    let retried = Options { on_not_spd: OnNotSpd::Retry, ..options(&["hp1:operand=1e-2"], 48) };
    let outcome = pipeline::run(&runtime(2), &input, &retried, &Silent).unwrap();
    assert_eq!(outcome.results[0].rule, "fp64");
}

#[test]
fn results_do_not_depend_on_workers() {
    let input = system(8);
    let options = Options { refine: 1, ..options(&["hp1:operand=1e-2"], 33) };
    let all: Vec<Outcome> = [1, 2, 4]
        .into_iter()
        .map(|w| pipeline::run(&runtime(w), &input, &options, &Silent).unwrap())
        .collect();
    for other in &all[1..] {
        let [a, b] = [&all[0], other].map(|o| o.results[0].measured.clone().unwrap());
        assert_eq!(a.strehl_moao.to_bits(), b.strehl_moao.to_bits());
        assert_eq!(a.strehl_exact, b.strehl_exact);
        assert_eq!(a.backward_error.to_bits(), b.backward_error.to_bits());
        assert_eq!(all[0].results[0].extras.reconstructors[0], other.results[0].extras.reconstructors[0]);
    }
}

/// Returns the demo with every angle in `unit`.
fn in_unit(nssp: usize, unit: &str, arcsec: f64) -> Input {
    let mut out = String::new();
    let lengths = ["x", "y", "pixel_ngs", "pixel_lgs", "spot_width"];
    for line in DEMO.replace("nssp = 16 ", &format!("nssp = {nssp} ")).lines() {
        let key = line.split('=').next().unwrap_or("").trim();
        let value = line.split('=').nth(1).and_then(|v| v.split('#').next()?.trim().parse::<f64>().ok());
        match (key, value) {
            ("units", _) => out.push_str(&format!("units = \"{unit}\"\n")),
            ("lgs_cst", Some(v)) => out.push_str(&format!("lgs_cst = {:e}\n", v / arcsec / arcsec)),
            (key, Some(v)) if lengths.contains(&key) => out.push_str(&format!("{key} = {:e}\n", v / arcsec)),
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    parse(Path::new("system.toml"), &out, None, Mode::Strict).unwrap()
}

#[test]
fn units_do_not_matter() {
    let rules = ["hp1:band=2", "hp1:operand=1e-2"];
    let run = |input: &Input| pipeline::run(&runtime(2), input, &options(&rules, 48), &Silent).unwrap();
    let reference = run(&system(10));
    for (unit, arcsec) in [("rad", 206265.0), ("mas", 1e-3)] {
        let other = run(&in_unit(10, unit, arcsec));
        for k in 0..rules.len() {
            let change = (strehl(&other, k) - strehl(&reference, k)).abs();
            // The parameters differ in their last bits, and therefore a few roundings to 16 bits
            // do.
            assert!(change < 1e-6, "{unit}, {}: {change:e}", rules[k]);
        }
    }
}

#[test]
fn a_matrix_of_tiny_numbers_needs_no_luck() {
    // Turbulence and noise are weaker by 2^-40, 1e-12: unscaled entries would be far below the
    // range of f16.
    let mut input = system(8);
    let factor = 2.0f64.powi(-40);
    input.atmosphere.layers.iter_mut().for_each(|l| l.cn2 *= factor);
    input.system.lgs_cst *= factor;
    input.system.noise = NoiseModel::Uniform { variance: 1e-3 * factor };
    let mut usual = system(8);
    usual.system.noise = NoiseModel::Uniform { variance: 1e-3 };
    let weak = pipeline::run(&runtime(2), &input, &options(&["hp1:band=2"], 40), &Silent).unwrap();
    let usual = pipeline::run(&runtime(2), &usual, &options(&["hp1:band=2"], 40), &Silent).unwrap();
    // A power of two changes no rounding, so the reconstructor is the same.
    let [a, b] = [&weak, &usual].map(|o| &o.results[0].extras.reconstructors[0]);
    let error = a.data().iter().zip(b.data()).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    assert!(error < 1e-6 * b.norm(), "{}", error / b.norm());
}

#[test]
fn a_reconstructor_survives_its_file_in_either_slope_order() {
    let input = system(6);
    let folder = tempfile::tempdir().unwrap();
    let rt = runtime(2);
    let targets = Some(vec![[0.0, 0.0], [9.0, 3.0]]);
    let options = Options { targets, ..options(&["fp64"], 50) };
    let outcome = pipeline::build(&rt, &input, &options, &Silent).unwrap();
    let result = &outcome.results[0];
    let want = result.measured.as_ref().unwrap();
    for order in [SlopeOrder::Xxyy, SlopeOrder::Xyxy] {
        let path = folder.path().join(format!("r-{}.fits", order.name()));
        assert_eq!(
            write_reconstructors(&path, &outcome, result, order).unwrap(),
            std::slice::from_ref(&path)
        );
        let foreign = Foreign { reconstructor: path.clone(), ..Foreign::default() };
        let judged = evaluate(&rt, &input, &options, &foreign, &Silent).unwrap();
        assert_eq!(judged.slope_order, order);
        assert_eq!(judged.rule.as_deref(), Some("fp64"));
        for (a, b) in judged.targets.iter().zip(&want.targets) {
            common::close("Strehl from the file", a.strehl_moao, b.strehl_moao, 1e-12);
        }
        // For one target alone, the reconstructor of its direction is used, or a warning says that
        // there is none.
        for (target, number) in [([0.0, 0.0], 0), ([9.0, 3.0], 1)] {
            let alone = Options { targets: Some(vec![target]), ..options.clone() };
            let judged = evaluate(&rt, &input, &alone, &foreign, &Silent).unwrap();
            let strehl = want.targets[number].strehl_moao;
            common::close("Strehl of one target", judged.strehl_moao, strehl, 1e-12);
            assert_eq!(judged.warnings, [] as [String; 0]);
        }
        let elsewhere = Options { targets: Some(vec![[9.0, 4.0]]), ..options.clone() };
        let judged = evaluate(&rt, &input, &elsewhere, &foreign, &Silent).unwrap();
        assert!(judged.warnings[0].contains("(0, 0), judged at (9, 4)"), "{:?}", judged.warnings);
        // The wrong order must be detected.
        let wrong = if order == SlopeOrder::Xxyy { SlopeOrder::Xyxy } else { SlopeOrder::Xxyy };
        let foreign = Foreign { order: Some(wrong), ..foreign };
        let judged = evaluate(&rt, &input, &options, &foreign, &Silent).unwrap();
        assert!(judged.strehl_moao < 0.5 * want.strehl_moao);
    }
    let image = fits::read(&folder.path().join("r-xyxy.fits"), Some("R1")).unwrap();
    assert_eq!(image.text("SLOPEORD"), Some("xyxy"));
    assert_eq!(image.number("TARGETX"), Some(9.0));
    assert_eq!(image.number("STREHL"), Some(want.targets[1].strehl_moao));
    assert_eq!(write_images(&folder.path().join("psf.fits"), &result.extras.images).unwrap().len(), 1);
}

#[test]
fn without_a_judgement_there_is_the_same_reconstructor_and_nothing_else() {
    let input = system(6);
    let rt = runtime(2);
    let judged = options(&["hp1:operand=1e-2"], 40);
    let bare = Options { judge: false, ..judged.clone() };
    let build = |options: &Options| pipeline::build(&rt, &input, options, &Silent).unwrap();
    let (with, without) = (build(&judged), build(&bare));
    assert!(with.results[0].extras.reconstructors == without.results[0].extras.reconstructors);
    assert!(with.is_judged() && !without.is_judged() && without.survived());
    let measured = without.results[0].measured.as_ref().unwrap();
    assert!(measured.backward_error.is_nan() && measured.strehl_moao.is_nan() && measured.targets.is_empty());
    let needed = |options: &Options| precheck(&input, options).unwrap().memory.total();
    assert!(needed(&bare) < needed(&judged));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.fits");
    write_reconstructors(&path, &without, &without.results[0], SlopeOrder::Xxyy).unwrap();
    let image = fits::read(&path, Some("R")).unwrap();
    assert_eq!((image.number("BACKERR"), image.number("STREHL")), (None, None));
    assert_eq!(image.number("TARGETX"), Some(0.0));
}

/// The largest system takes minutes on a node of 16 cores. More rules take longer, and fewer
/// workers do as well.
#[test]
fn a_judgement_is_estimated() {
    let input = timed_system(86, false).unwrap();
    let info = pipeline::info(&input.system, &input.atmosphere).unwrap();
    let seconds = |rules, workers| info.judging_seconds(rules, workers);
    assert!((300.0..900.0).contains(&seconds(1, 16)), "{}", seconds(1, 16));
    assert!(seconds(2, 16) > 1.5 * seconds(1, 16) && seconds(1, 2) > 4.0 * seconds(1, 16));
    let small = system(6);
    assert!(pipeline::info(&small.system, &small.atmosphere).unwrap().judging_seconds(1, 1) < 0.1);
}

#[test]
fn foreign_files_that_do_not_fit_are_refused() {
    let input = system(6);
    let folder = tempfile::tempdir().unwrap();
    let rt = runtime(1);
    let cov = zellige_tor::Covariance::new(&input.system, &input.atmosphere).unwrap();
    let (m, n) = cov.shape(Kind::Ctm(0));
    let path = folder.path().join("r.npy");
    let judge = |matrix: &zellige_tor::Matrix, dm: Option<PathBuf>| {
        npy::write_f64(&path, matrix).unwrap();
        let foreign = Foreign { reconstructor: path.clone(), command_matrix: dm, order: None };
        evaluate(&rt, &input, &Options { exact: false, ..Options::default() }, &foreign, &Silent)
    };
    let zeros = zellige_tor::Matrix::zeros;
    let judged = judge(&zeros(n, m), None).unwrap();
    assert!(
        judged.warnings[0].contains("r.npy") && judged.warnings[0].contains("transposed"),
        "{:?}",
        judged.warnings
    );
    let message = judge(&zeros(m, n - 2), None).unwrap_err().to_string();
    assert!(message.contains(&format!("needs {m} x {n}")), "{message}");
    let mut broken = zeros(m, n);
    broken.data_mut()[m + 3] = f64::NAN;
    let message = judge(&broken, None).unwrap_err().to_string();
    assert!(message.contains("(3, 1)"), "{message}");
    let dm = folder.path().join("dx.npy");
    npy::write_f64(&dm, &zeros(5, m)).unwrap();
    let message = judge(&zeros(m, n), Some(dm)).unwrap_err().to_string();
    assert!(message.contains("dx.npy") && message.contains("mirror"), "{message}");
    // A reconstructor of zeros leaves the whole error, as without any correction.
    let judged = judge(&zeros(m, n), None).unwrap();
    common::close("relative error", judged.targets[0].relative_error, 1.0, 1e-12);
}

/// For a reconstructor in the order, sign or unit of another program, the remaining error is too
/// large, and the message names the interpretation that fits.
#[test]
fn useless_reconstructors_are_explained() {
    let (system, atmosphere) = common::laser_and_star();
    let input = Input { system, atmosphere, warnings: Vec::new() };
    let cov = zellige_tor::Covariance::new(&input.system, &input.atmosphere).unwrap();
    let exact = zellige_tor::reference::reconstruct(&cov, 0).unwrap();
    let (m, n) = (exact.rows(), exact.cols());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.npy");
    let rt = runtime(2);
    let judge = |matrix: &zellige_tor::Matrix| {
        npy::write_f64(&path, matrix).unwrap();
        let foreign = Foreign { reconstructor: path.clone(), ..Foreign::default() };
        let options = Options { exact: false, ..Options::default() };
        evaluate(&rt, &input, &options, &foreign, &Silent).unwrap()
    };
    let fine = judge(&exact);
    assert_eq!(fine.warnings, [] as [String; 0]);
    let share = format!("would leave {:.2} %", 100.0 * fine.targets[0].relative_error);
    // The index of slope k of the file in zellige's order is `from[k]`; sensors have 52
    // sub-apertures each.
    let cells = &cov.geometry().truth().cells;
    let mut columns: Vec<usize> = (0..52).collect();
    columns.sort_by_key(|&i| (cells[i][0], cells[i][1]));
    let in_order = |order: &dyn Fn(usize) -> usize| {
        let from = |k: usize| k / 104 * 104 + order(k % 104);
        zellige_tor::Matrix::from_fn(m, n, |i, j| exact[(from(i), from(j))])
    };
    let scaled = |factor: f64| zellige_tor::Matrix::from_fn(m, n, |i, j| factor * exact[(i, j)]);
    let mut explained = 0;
    for (matrix, words) in [
        (
            in_order(&|k| k / 2 + 52 * (k % 2)),
            &["x and y of each sub-aperture together", "use --slope-order xyxy"][..],
        ),
        (
            in_order(&|k| (k + 52) % 104),
            &["all y slopes of a sensor before its x slopes", "nothing was applied"],
        ),
        (
            in_order(&|k| k / 2 + 52 * (1 - k % 2)),
            &["y and x of each sub-aperture together", "nothing was applied"],
        ),
        (in_order(&|k| k / 52 * 52 + columns[k % 52]), &["with sub-apertures counted column by column it"]),
        (
            in_order(&|k| columns[k / 2] + 52 * (k % 2)),
            &["x and y of each sub-aperture together, sub-apertures counted column by column"],
        ),
        (scaled(-1.0), &["with the other sign it"]),
        (scaled(206_265.0), &["with all numbers divided by 206265 (radians and arcsec) it"]),
        (
            scaled(1.0 / 206_265.0),
            &["with all numbers times 206265 (radians and arcsec) it", "nearly as much as"],
        ),
        (scaled(17.5), &["with all numbers times 5.7143e-2 (pixels, a gain, a calibration?) it"]),
    ] {
        let judged = judge(&matrix);
        // For this system, some orders leave less error than the threshold of the diagnosis.
        let Some(warning) = judged.warnings.first() else {
            assert!(judged.targets[0].relative_error < 0.95, "{words:?}");
            continue;
        };
        explained += 1;
        let common =
            ["r.npy, target (0, 0): it leaves", "order of sub-apertures", "the sign and the unit", &share];
        for word in words.iter().chain(&common) {
            assert!(warning.contains(word), "'{warning}' does not say '{word}'");
        }
        // The interpretation is not applied.
        assert!(judged.targets[0].relative_error > 0.95, "{}", judged.targets[0].relative_error);
    }
    assert!(explained >= 7, "{explained} of 9");
    // Here only the columns are in another order.
    let from = |k: usize| k / 104 * 104 + (k + 52) % 104;
    let judged = judge(&zellige_tor::Matrix::from_fn(m, n, |i, j| exact[(i, from(j))]));
    assert!(judged.warnings[0].contains("x slopes in the columns alone"), "{:?}", judged.warnings);
    let by_axis = |k: usize| k % 104 / 52 * 104 + k / 104 * 52 + k % 52;
    let judged = judge(&zellige_tor::Matrix::from_fn(m, n, |i, j| exact[(i, by_axis(j))]));
    assert!(
        judged.warnings[0].contains("with x slopes of all sensors before all y slopes it"),
        "{:?}",
        judged.warnings
    );
    // The option itself may be wrong.
    npy::write_f64(&path, &exact).unwrap();
    let order = Some(SlopeOrder::Xyxy);
    let foreign = Foreign { reconstructor: path.clone(), order, ..Foreign::default() };
    let judged = evaluate(&rt, &input, &Options::default(), &foreign, &Silent).unwrap();
    let words = "with x slopes of a sensor before its y slopes it would leave";
    assert!(judged.warnings[0].contains(words), "{:?}", judged.warnings);
    // This matrix is no reconstructor at all.
    let judged = judge(&zellige_tor::Matrix::from_fn(m, n, |i, j| ((i * 37 + j * 101) % 17) as f64 - 8.0));
    assert!(judged.warnings[0].contains("None of the orders"), "{:?}", judged.warnings);
}

/// Matrices of commands, transposed ones, and files of other shapes.
#[test]
fn commands_are_judged_through_the_mirror() {
    let (system, atmosphere) = common::laser_and_star();
    let input = Input { system, atmosphere, warnings: Vec::new() };
    let cov = zellige_tor::Covariance::new(&input.system, &input.atmosphere).unwrap();
    let exact = zellige_tor::reference::reconstruct(&cov, 0).unwrap();
    let dx = zellige_tor::dm::command_matrix(&input.system, cov.geometry()).unwrap().dx;
    let commands = dx.times(&exact).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let rt = runtime(2);
    let judge = |name: &str, dm: Option<&str>| {
        let foreign = Foreign { reconstructor: at(name), command_matrix: dm.map(at), order: None };
        evaluate(&rt, &input, &Options::default(), &foreign, &Silent).map_err(|error| error.to_string())
    };
    npy::write_f64(&at("r.npy"), &exact).unwrap();
    npy::write_f64(&at("c.npy"), &commands).unwrap();
    npy::write_f64(&at("t.npy"), &commands.transposed()).unwrap();
    npy::write_f64(&at("dx.npy"), &dx).unwrap();
    let want = judge("r.npy", None).unwrap();
    for (name, dm, word) in [
        ("c.npy", None, "commands x 208"),
        ("c.npy", Some("dx.npy"), "commands x 208"),
        ("t.npy", None, "read transposed"),
    ] {
        let judged = judge(name, dm).unwrap();
        assert!(judged.warnings[0].contains(word), "{:?}", judged.warnings);
        // Equal commands leave the same residual on the mirror.
        common::close("exact Strehl", judged.strehl_exact.unwrap(), want.strehl_exact.unwrap(), 1e-8);
        common::close("Strehl", judged.strehl_moao, want.strehl_moao, 1e-8);
    }
    let minus = zellige_tor::Matrix::from_fn(commands.rows(), commands.cols(), |i, j| -commands[(i, j)]);
    npy::write_f64(&at("minus.npy"), &minus).unwrap();
    assert!(judge("minus.npy", None).unwrap().warnings[1].contains("with the other sign it"));
    // A stub of two zeros precedes a matrix without a name, as SPECULA writes it, and an image of
    // AOT's shape follows.
    let (rows, cols) = (exact.rows(), exact.cols());
    let by_rows = exact.transposed();
    let image = |name: &'static str, shape: Vec<usize>, values| fits::Hdu {
        name: name.to_string(),
        pixels: fits::Pixels::F64 { shape, values },
        axes: &[],
        cards: Vec::new(),
    };
    fits::write(
        &at("f.fits"),
        &[
            image("STUB", vec![2], &[0.0, 0.0]),
            image("R", vec![rows, cols], by_rows.data()),
            image("TURNED", vec![cols, rows], exact.data()),
        ],
        &[],
    )
    .unwrap();
    let strehl = |name: &str| judge(name, None).unwrap().strehl_moao;
    for name in ["f.fits", "f.fits/R", "f.fits/1", "f.fits/TURNED"] {
        assert_eq!(strehl(name), want.strehl_moao, "{name}");
    }
    let message = judge("f.fits/X", None).unwrap_err();
    assert!(message.contains("no image called X") && message.contains("STUB"), "{message}");
    assert!(judge("f.fits/17", None).unwrap_err().contains("17"));
    let shape = vec![rows, 2, cols / 2];
    fits::write(&at("aot.fits"), &[image("R", shape, by_rows.data())], &[]).unwrap();
    assert_eq!(strehl("aot.fits"), want.strehl_moao);
    zellige_files::array::write(&at("aot.npy"), &[rows, 2, cols / 2], by_rows.data().iter().copied())
        .unwrap();
    assert_eq!(strehl("aot.npy"), want.strehl_moao);
}

#[test]
fn covariances_are_those_of_the_generator() {
    let input = system(6);
    let folder = tempfile::tempdir().unwrap();
    let made = covariance(&runtime(2), &input, &Options::default(), &Silent).unwrap();
    let cov = zellige_tor::Covariance::new(&input.system, &input.atmosphere).unwrap();
    assert_eq!(made.cmm, cov.matrix(Kind::Cmm).unwrap());
    assert_eq!(made.ctm[0], cov.matrix(Kind::Ctm(0)).unwrap());
    assert_eq!(made.ctt, cov.matrix(Kind::Ctt).unwrap());
    let path = folder.path().join("cov.fits");
    made.write(&path, SlopeOrder::Xxyy).unwrap();
    assert_eq!(fits::read_matrix(&path, Some("CTM")).unwrap(), made.ctm[0]);
    let files = made.write(&folder.path().join("cov.npy"), SlopeOrder::Xxyy).unwrap();
    assert_eq!(files.len(), 3);
    assert_eq!(npy::read(&files[0]).unwrap(), made.cmm);
    assert!(files[0].ends_with("cov-cmm.npy"));
}

#[test]
fn wrong_options_are_refused_before_anything_runs() {
    let input = system(6);
    let code = |options: &Options| precheck(&input, options).unwrap_err().exit_code();
    assert_eq!(code(&options(&["hp1:bend=2"], 48)), 2);
    assert_eq!(code(&options(&[], 48)), 2);
    assert_eq!(code(&options(&["fp32"], 0)), 2);
    assert_eq!(code(&Options { targets: Some(Vec::new()), ..options(&["fp32"], 48) }), 2);
    assert_eq!(code(&Options { targets: Some(vec![[f64::NAN, 0.0]]), ..options(&["fp32"], 48) }), 2);
    assert_eq!(code(&Options { solve_rule: Some("fp64".into()), ..options(&["fp32"], 48) }), 2);
    let small = Options { memory_limit: Some(1000), ..options(&["fp32"], 48) };
    let error = precheck(&input, &small).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    let text = error.to_string();
    assert!(text.contains("triangle of Cmm") && text.contains("available"), "{text}");
    // The remedies are only those that are possible for this run.
    assert!(text.ends_with("; take a larger machine"), "{text}");
    let large = Options { targets: Some(vec![[0.0, 0.0], [1.0, 0.0]]), rules: vec!["x3".into()], ..small };
    let text = precheck(&input, &large).unwrap_err().to_string();
    assert!(text.contains("fewer targets") && text.contains("fp32 alone"), "{text}");
}

#[test]
fn the_largest_published_system_is_refused_or_fits() {
    let Some(root) = data("ao/moao/benchmark") else {
        return;
    };
    let Some(profile) = data("ao/moao/profiles60/prof0-atmos-night0.txt") else {
        return;
    };
    let file = root.join("nx50184_wfs9_Nssp86/sys-params.txt");
    let input = read(&file, Some(&profile), Mode::Lenient).unwrap();
    let options = Options { memory_limit: Some(24 << 30), ..Options::default() };
    let error = precheck(&input, &options).unwrap_err().to_string();
    assert!(error.contains("n = 100368 20.") && error.contains("GB available"), "{error}");
    let fits = Options { memory_limit: None, ..Options::default() };
    if let Ok(plan) = precheck(&input, &fits) {
        assert!(plan.memory.total() > 20_000_000_000);
    }
}

#[test]
fn all_published_systems_have_a_plan_or_a_reason() {
    let Some(root) = data("ao/moao") else {
        return;
    };
    let mut seen = 0;
    for (kind, profile) in [("check", None), ("benchmark", data("ao/moao/profiles60/prof0-atmos-night0.txt"))]
    {
        for entry in std::fs::read_dir(root.join(kind)).unwrap() {
            let folder = entry.unwrap().path();
            let atm = profile.clone().unwrap_or_else(|| folder.join("atm-params.txt"));
            let input = read(&folder.join("sys-params.txt"), Some(&atm), Mode::Lenient).unwrap();
            match precheck(&input, &options(&["hp1:band=2"], 512)) {
                Ok(plan) => assert_eq!(plan.grid.len(), plan.info.measurements),
                Err(PipelineError::Memory(refused)) => {
                    assert!(refused.to_string().contains("needed"), "{refused}")
                }
                Err(e) => panic!("{}: {e}", folder.display()),
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 16);
}

#[test]
fn edges_with_many_parts_come_with_advice() {
    let mut input = system(30);
    input.system.stars.truncate(5);
    let auto = |rule: &str| Options { tile: TileChoice::Auto, ..options(&[rule], 1) };
    let plan = precheck(&input, &auto("hp1")).unwrap();
    // 700 sub-apertures give two parts and no advice.
    assert!(plan.grid.parts_of_largest() == 2 && plan.advice.is_empty());
    let input = system(41);
    let plan = precheck(&input, &auto("hp1")).unwrap();
    assert_eq!(plan.grid.parts_of_largest(), 3);
    assert!(plan.advice[0].contains("band=2") && plan.advice[0].contains("hp1"), "{:?}", plan.advice);
}

struct Impatient(AtomicBool);

impl Observer for Impatient {
    fn stage(&self, name: &str, _total: u64) {
        if name.contains("factorisation") {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    fn advance(&self, _done: u64) {}
    fn warn(&self, _text: &str) {}
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_run_can_be_cancelled_and_the_runtime_used_again() {
    let input = system(10);
    let rt = runtime(2);
    let options = Options { xray: Xray::Auto, ..options(&["fp32"], 20) };
    let error = pipeline::run(&rt, &input, &options, &Impatient(AtomicBool::new(false))).unwrap_err();
    assert!(matches!(error, PipelineError::Cancelled), "{error:?}");
    assert_eq!(error.exit_code(), 130);
    let outcome = pipeline::run(&rt, &input, &options, &Silent).unwrap();
    assert!(outcome.survived());
    let xray = outcome.xray.unwrap();
    assert_eq!(xray.eigenvalues.len(), outcome.results[0].n);
    // The 2-norm of a diagonal tile is at most that of the matrix.
    assert!(xray.norms[0].max <= xray.eigenvalues[0] * (1.0 + 1e-9));
}
