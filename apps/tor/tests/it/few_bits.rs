//! Reconstructors in few bits: what is judged is what is written, and it loses less than the
//! nearest numbers.

use std::path::Path;
use std::sync::Arc;
use zellige_dense::Rounding;
use zellige_runtime::Runtime;
use zellige_tor::Matrix;
use zellige_tor::end_to_end::{LoopOptions, Simulation};
use zellige_tor::files::{RoundedMatrix, SlopeOrder};
use zellige_tor::params::{Input, Mode, parse};
use zellige_tor::pipeline::{
    self, Foreign, Options, Outcome, RuleResult, Silent, TileChoice, evaluate, read_reconstructors,
    write_reconstructors,
};
use zellige_tor::rtc::Packed;

fn runtime() -> Runtime {
    Runtime::builder().workers(2).bind(false).build().unwrap()
}

/// Returns the demonstration with `nssp` sub-apertures across.
fn system(nssp: usize) -> Input {
    let text = include_str!("../../systems/demo.toml").replace("nssp = 16 ", &format!("nssp = {nssp} "));
    parse(Path::new("system.toml"), &text, None, Mode::Strict).unwrap()
}

fn options(rounding: Option<Rounding>) -> Options {
    Options { rounding, tile: TileChoice::Uniform(40), keep_reconstructors: true, ..Options::default() }
}

fn run(rt: &Runtime, input: &Input, rounding: Option<Rounding>) -> Outcome {
    pipeline::run(rt, input, &options(rounding), &Silent).unwrap()
}

fn bits(bits: u32) -> Rounding {
    Rounding::new(bits, 32).unwrap()
}

#[test]
fn the_residual_grows_less_than_by_the_nearest_numbers() {
    let (input, rt) = (system(7), runtime());
    let trace = |rounding| run(&rt, &input, rounding).results[0].measured.as_ref().unwrap().trace_cee;
    let exact = trace(None);
    for count in [4, 6, 8] {
        let [within, nearest] = [bits(count), bits(count).to_nearest()].map(|r| trace(Some(r)) - exact);
        // The exact reconstructor is the minimiser.
        assert!(within > 0.0 && within < 0.3 * nearest, "{count} bits: {within:e} and {nearest:e}");
    }
}

/// From a factor in float64, too.
#[test]
fn the_rule_may_be_fp64() {
    let (input, rt) = (system(6), runtime());
    let traces = [None, Some(bits(8)), Some(bits(8).to_nearest())].map(|rounding| {
        let options = Options { rules: vec!["fp64".into()], ..options(rounding) };
        let outcome = pipeline::run(&rt, &input, &options, &Silent).unwrap();
        outcome.results[0].measured.as_ref().unwrap().trace_cee
    });
    let [within, nearest] = [traces[1], traces[2]].map(|trace| trace - traces[0]);
    assert!(within > 0.0 && within < 0.3 * nearest, "{within:e} and {nearest:e}");
}

#[test]
fn files_are_judged_and_simulated_as_the_run_judged_them() {
    let (mut input, rt) = (system(6), runtime());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.npz");
    let outcome = run(&rt, &input, Some(bits(6)));
    let result = &outcome.results[0];
    let measured = result.measured.as_ref().unwrap();
    assert_eq!(
        write_reconstructors(&path, &outcome, result, SlopeOrder::Xxyy).unwrap(),
        std::slice::from_ref(&path)
    );
    let file = RoundedMatrix::read(&path).unwrap();
    assert!(file.bits().iter().all(|bits| *bits == 6));
    assert_eq!(file.shape(), (result.m, result.n));
    // Integers without gaps, and a scale of 16 bits for each row of a tile's groups of 32 and 8.
    let tiles = result.n.div_ceil(40);
    let scales = 2 * tiles - usize::from(result.n % 40 <= 32 && !result.n.is_multiple_of(40));
    let bytes = (result.m * result.n * 6).div_ceil(8) + 2 * scales * result.m;
    assert_eq!((file.bytes(), measured.reconstructor_bytes), (bytes as u64, Some(bytes as u64)));
    assert_eq!(file.to_matrix(), Matrix::clone(&result.extras.reconstructors[0]));
    let fits = folder.path().join("r.fits");
    write_reconstructors(&fits, &outcome, result, SlopeOrder::Xxyy).unwrap();
    assert_eq!(RoundedMatrix::read(&fits).unwrap(), file);
    let [packed, of_fits] = [&path, &fits].map(|path| Packed::read(path).unwrap());
    assert_eq!(packed, of_fits);

    for reconstructor in [&path, &fits] {
        let foreign = Foreign { reconstructor: reconstructor.clone(), ..Foreign::default() };
        let judgement = evaluate(&rt, &input, &Options::default(), &foreign, &Silent).unwrap();
        assert_eq!(judgement.strehl_exact, measured.strehl_exact);
    }
    let foreign = Foreign { reconstructor: path, ..Foreign::default() };
    let (matrices, _) = read_reconstructors(&input.system, &input.atmosphere, &foreign).unwrap();
    input.system.simulation.pixels = 4;
    let options = LoopOptions { frames: 20, skip: 2, images: 1, ..LoopOptions::default() };
    let strehl = |matrices: &[Matrix]| {
        let mut simulation = Simulation::new(&input, Some(matrices), &options).unwrap();
        simulation.run(&rt, 22, &Silent).unwrap();
        simulation.result(&input.system, &options)
    };
    assert_eq!(strehl(&matrices), strehl(&[file.to_matrix()]));
}

#[test]
fn several_targets_have_files_of_their_own() {
    let (mut input, rt) = (system(5), runtime());
    input.system.targets = vec![[0.0, 0.0], [15.0, -5.0]];
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(&rt, &input, Some(bits(8)));
    let path = folder.path().join("r.npz");
    let files = write_reconstructors(&path, &outcome, &outcome.results[0], SlopeOrder::Xxyy).unwrap();
    assert_eq!(files, ["r-r0.npz", "r-r1.npz"].map(|name| folder.path().join(name)));
    for (file, matrix) in files.iter().zip(&outcome.results[0].extras.reconstructors) {
        assert_eq!(RoundedMatrix::read(file).unwrap().to_matrix(), Matrix::clone(matrix));
    }
}

/// A given reconstructor comes back, and is rounded as the system's own one is.
#[test]
fn given_reconstructors_are_rounded() {
    let (mut input, rt) = (system(6), runtime());
    input.system.targets = vec![[0.0, 0.0], [15.0, -5.0]];
    let with = |given: Option<Vec<Arc<Matrix>>>, rounding| {
        let outcome = pipeline::run(&rt, &input, &Options { given, ..options(rounding) }, &Silent).unwrap();
        outcome.results.into_iter().next().unwrap()
    };
    let own = Options { rules: vec!["fp64".into()], ..options(None) };
    let own = pipeline::run(&rt, &input, &own, &Silent).unwrap().results[0].extras.reconstructors.clone();
    let other: Vec<Arc<Matrix>> = own
        .iter()
        .map(|r| Arc::new(Matrix::from_fn(r.rows(), r.cols(), |i, j| (1.0 + 0.1 * i as f64) * r.col(j)[i])))
        .collect();
    for (wanted, found) in other.iter().zip(&with(Some(other.clone()), None).extras.reconstructors) {
        let most = wanted.data().iter().fold(0.0, |most: f64, r| most.max(r.abs()));
        let apart = wanted.data().iter().zip(found.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-3 * most, "{apart:e} of {most:e}");
    }
    let trace = |result: &RuleResult| result.measured.as_ref().unwrap().trace_cee;
    let exact = trace(&with(Some(own.clone()), None));
    let given = trace(&with(Some(own.clone()), Some(bits(5)))) - exact;
    let computed = trace(&with(None, Some(bits(5)))) - exact;
    assert!(given > 0.0 && (0.8..1.25).contains(&(given / computed)), "{given:e} and {computed:e}");
    let one = Options { given: Some(own[..1].to_vec()), ..options(Some(bits(5))) };
    let refused = pipeline::run(&rt, &input, &one, &Silent).unwrap_err().to_string();
    assert!(refused.contains("1 instead of 2 of"), "{refused}");
}

#[test]
fn what_cannot_be_rounded_is_refused() {
    let (input, rt) = (system(5), runtime());
    let refused = |options: Options| pipeline::run(&rt, &input, &options, &Silent).unwrap_err().to_string();
    let rounded = || options(Some(bits(6)));
    assert!(refused(Options { refine: 2, ..rounded() }).contains("refinement would undo"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.npz");
    let write = |outcome: &Outcome, order| {
        write_reconstructors(&path, outcome, &outcome.results[0], order).unwrap_err().to_string()
    };
    assert!(write(&run(&rt, &input, None), SlopeOrder::Xxyy).contains("--bits"));
    assert!(write(&run(&rt, &input, Some(bits(6))), SlopeOrder::Xyxy).contains("order xxyy"));
    assert!(!path.exists());
}

/// The chosen bits lose nearly as much as is allowed, in fewer bytes than the same number of bits
/// everywhere.
#[test]
fn as_few_bits_are_taken_as_a_loss_allows() {
    let (input, rt) = (system(6), runtime());
    let strehl = |outcome: &Outcome| outcome.results[0].measured.as_ref().unwrap().targets[0].strehl_exact;
    let bytes = |outcome: &Outcome| outcome.results[0].extras.rounded[0].bytes();
    let exact = strehl(&run(&rt, &input, None)).unwrap();
    let uniform: Vec<(f64, u64)> = (2..=16)
        .map(|count| run(&rt, &input, Some(bits(count))))
        .map(|outcome| (exact - strehl(&outcome).unwrap(), bytes(&outcome)))
        .collect();
    let search = |most, options: &Options| {
        pipeline::with_fewest_bits(
            options,
            |loss| Rounding::within(loss, 32),
            most,
            |options| pipeline::run(&rt, &input, options, &Silent),
        )
    };
    for most in [1e-5, 1e-4, 1e-3, 1e-2] {
        let outcome = search(most, &Options { judge: false, ..options(None) }).unwrap();
        let lost = exact - strehl(&outcome).unwrap();
        assert!(lost <= most && lost > 0.5 * most, "{lost:e} of {most:e}");
        let same = uniform.iter().find(|(lost, _)| *lost <= most).expect("16 bits are enough").1;
        assert!(bytes(&outcome) < same, "{most}: {} bytes, and {same} of {uniform:?}", bytes(&outcome));
        assert!(!outcome.results[0].extras.reconstructors.is_empty());
    }
    let refused = |most, options: &Options| search(most, options).unwrap_err().to_string();
    assert!(refused(0.0, &options(None)).contains("--max-strehl-loss"));
    let rules = vec!["fp32".into(), "hp1".into()];
    assert!(refused(1e-3, &Options { rules, ..options(None) }).contains("one --precision"));
}
