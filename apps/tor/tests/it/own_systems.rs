//! The project's own files in the formats of other programs, with values that another program
//! computed from them (`fixtures/README.md`).

use crate::common::close;
use serde_json::Value;
use std::path::{Path, PathBuf};
use zellige_tor::files::fits;
use zellige_tor::params::{self, Input, Mode, read};
use zellige_tor::pipeline::info;
use zellige_tor::pipeline::{Options, PipelineError, TileChoice, precheck};
use zellige_tor::system::NoiseModel;
use zellige_tor::{Covariance, Error, Kind, Matrix, dm, evaluate, reference};

fn file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).join(name)
}

/// Reads a system in the current layout, which must give no warning.
fn system(name: &str) -> Input {
    let files = [file(&format!("{name}-sys.txt")), file(&format!("{name}-atm.txt"))];
    let input = read(&files[0], Some(&files[1]), Mode::Strict).unwrap();
    assert!(input.warnings.is_empty(), "{name}: {:?}", input.warnings);
    input
}

fn expected(name: &str) -> Value {
    let mut all: Value = serde_json::from_slice(&std::fs::read(file("expected.json")).unwrap()).unwrap();
    all[name].take()
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("not a number: {v}"))
}

/// Compares entries of a matrix, with a tolerance relative to its largest entry.
fn samples(what: &str, matrix: &Matrix, expected: &Value, relative: f64) {
    for s in expected.as_array().unwrap() {
        let (i, j) = (s[0].as_u64().unwrap() as usize, s[1].as_u64().unwrap() as usize);
        let (got, want) = (matrix[(i, j)], number(&s[2]));
        assert!(
            (got - want).abs() <= relative * matrix.max_abs(),
            "{what}[{i}, {j}] = {got:e}, not {want:e}"
        );
    }
}

#[test]
fn sizes_of_systems() {
    for name in ["small", "medium", "large"] {
        let (input, wanted) = (system(name), expected(name));
        assert!(matches!(input.system.noise, NoiseModel::Photometric(_)));
        let info = info(&input.system, &input.atmosphere).unwrap();
        assert_eq!(Some(info.measurements as u64), wanted["measurements"].as_u64(), "{name}");
        assert_eq!(Some(info.truth_slopes as u64), wanted["truth_slopes"].as_u64(), "{name}");
        close("r0", info.r0, number(&wanted["r0"]), 1e-9);
    }
}

#[test]
fn covariances_and_reconstructors() {
    for name in ["small", "medium"] {
        let (input, wanted) = (system(name), expected(name));
        let of = |key: &str| number(&wanted[key]);
        let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
        let cmm = cov.matrix(Kind::Cmm).unwrap();
        close("trace Cmm", cmm.trace(), of("trace_cmm"), 1e-10);
        close("norm Cmm", cmm.norm(), of("norm_cmm"), 1e-10);
        close("sum Cmm", cmm.data().iter().sum(), of("sum_cmm"), 1e-9);
        close("trace Ctt", cov.matrix(Kind::Ctt).unwrap().trace(), of("trace_ctt"), 1e-10);
        let factor = reference::Factor::new(&cov).unwrap();
        let l = factor.lower();
        let log_det = 2.0 * (0..cmm.rows()).map(|k| l[(k, k)].ln()).sum::<f64>();
        close("log det", log_det, of("log_det"), 1e-8);
        let targets = wanted["targets"].as_array().unwrap();
        assert_eq!(targets.len(), input.system.targets.len());
        for (target, wanted) in targets.iter().enumerate() {
            close(
                "norm Ctm",
                cov.matrix(Kind::Ctm(target)).unwrap().norm(),
                number(&wanted["norm_ctm"]),
                1e-10,
            );
            let r = factor.reconstruct(&cov, target).unwrap();
            close("norm R", r.norm(), number(&wanted["norm_r"]), 1e-6);
            samples("R", &r, &wanted["samples_r"], 1e-6);
            let cee = evaluate::cee(&cov, target, &r).unwrap();
            close("trace Cee", cee.trace(), number(&wanted["trace_cee"]), 1e-6);
        }
        // The power method is compared with a decomposition.
        let mut v = Matrix::from_fn(cmm.rows(), 1, |i, _| 1.0 + (i % 7) as f64);
        let mut largest = 0.0;
        for _ in 0..3000 {
            let w = cmm.times(&v).unwrap();
            largest = w.norm() / v.norm();
            v = Matrix::from_fn(cmm.rows(), 1, |i, _| w[(i, 0)] / w.norm());
        }
        close("largest eigenvalue", largest, of("largest_eigenvalue"), 1e-3);
    }
}

#[test]
fn the_older_layout_and_a_missing_truth_sensor() {
    let (profile, current) = (file("medium-atm.txt"), system("medium"));
    let directions = |input: &Input| input.system.stars.iter().map(|s| s.direction).collect::<Vec<_>>();
    for (name, repaired) in [("older-sys.txt", 0), ("older-short-sys.txt", 2)] {
        let input = read(&file(name), Some(&profile), Mode::Lenient).unwrap();
        assert_eq!(directions(&input), directions(&current));
        assert_eq!(input.system.noise, NoiseModel::Uniform { variance: 0.015 });
        let about = input.warnings.iter().filter(|w| w.message.contains("truth sensor")).count();
        assert_eq!(about, repaired, "{:?}", input.warnings);
        match read(&file(name), Some(&profile), Mode::Strict) {
            Ok(_) => assert_eq!(repaired, 0),
            Err(Error::Parameter { line, key, .. }) => {
                assert!(repaired > 0 && line == Some(10) && key.contains("GsAlt"), "{line:?} {key}");
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn profiles() {
    let parse =
        |name: &str| params::parse_atmosphere(&file(name), &std::fs::read_to_string(file(name)).unwrap());
    let (night, warnings) = parse("night-atm.txt").unwrap();
    let wanted = expected("night");
    assert_eq!((Some(night.layers.len() as u64), warnings.len()), (wanted["layers"].as_u64(), 0));
    close("r0", night.r0(), number(&wanted["r0"]), 1e-12);
    let text = parse("negative-atm.txt").unwrap_err().to_string();
    for part in [":6:", "cn2", "layer 41 of 41", "negative"] {
        assert!(text.contains(part), "'{text}' does not say '{part}'");
    }
}

#[test]
fn an_interaction_matrix_and_its_inverse() {
    let wanted = expected("interaction");
    let of = |key: &str| number(&wanted[key]);
    let interaction = fits::read_matrix(&file("interaction.fits"), None).unwrap();
    assert_eq!((interaction.rows(), interaction.cols()), (120, 61));
    close("norm", interaction.norm(), of("norm_matrix"), 1e-12);
    let command = dm::pseudo_inverse(&interaction, 1.0 / 30f64.sqrt()).unwrap();
    assert_eq!((Some(command.kept as u64), command.kept + command.filtered), (wanted["kept"].as_u64(), 61));
    close("largest", command.singular_values[0], of("largest"), 1e-12);
    close("smallest that is kept", command.singular_values[command.kept - 1], of("smallest_kept"), 1e-10);
    close("largest that is not", command.singular_values[command.kept], of("largest_filtered"), 1e-10);
    close("norm of the inverse", command.dx.norm(), of("norm_inverse"), 1e-10);
    samples("inverse", &command.dx, &wanted["samples"], 1e-10);
}

#[test]
fn a_large_system_is_refused_or_has_a_plan() {
    let input = system("large");
    let options = |memory_limit| Options {
        rules: vec!["hp1:band=2".into()],
        tile: TileChoice::Uniform(512),
        memory_limit,
        ..Options::default()
    };
    let error = precheck(&input, &options(Some(2 << 30))).unwrap_err().to_string();
    let n = expected("large")["measurements"].as_u64().unwrap();
    assert!(error.contains(&format!("n = {n}")) && error.contains("GB available"), "{error}");
    // The free memory of this machine decides between the two.
    let memory = match precheck(&input, &options(Some(1 << 40))) {
        Ok(plan) => {
            assert_eq!(plan.grid.len() as u64, n);
            plan.memory
        }
        Err(PipelineError::Memory(refused)) => refused.plan,
        Err(other) => panic!("{other}"),
    };
    // The triangle of Cmm in float32 alone has this size.
    assert!(memory.total() > 2 * n * n, "{} bytes", memory.total());
}
