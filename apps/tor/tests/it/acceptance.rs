//! Acceptance tests of mixed-precision reconstructors, on a published system and on the project's
//! own.

use std::path::Path;
use zellige_runtime::Runtime;
use zellige_tests::every;
use zellige_tor::params::{CHECK_SYSTEM, Input, Mode, parse, read};
use zellige_tor::pipeline::{self, Measured, OnNotSpd, Options, RuleResult, Silent, TileChoice};

fn runtime() -> Runtime {
    Runtime::builder().workers(2).bind(false).build().unwrap()
}

/// Returns MOAO's check system with ten layers, n = 912.
fn check_system() -> Input {
    parse(Path::new("check.toml"), CHECK_SYSTEM, None, Mode::Strict).unwrap()
}

fn demo() -> Input {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/systems/demo.toml");
    read(Path::new(path), None, Mode::Strict).unwrap()
}

fn options(rules: &[&str], tile: TileChoice) -> Options {
    Options { rules: rules.iter().map(|r| r.to_string()).collect(), tile, exact: false, ..Options::default() }
}

fn run(input: &Input, options: &Options) -> Vec<RuleResult> {
    let results = pipeline::run(&runtime(), input, options, &Silent).unwrap().results;
    for r in &results {
        match (&r.measured, &r.not_spd) {
            (Some(m), _) => println!(
                "{:28} low {:.4} be {:.2e} Strehl {:.8} trace {:.10} seconds {:?}",
                r.rule,
                m.gemm_share.low(),
                m.backward_error,
                m.strehl_moao,
                m.trace_cee,
                m.seconds
            ),
            (None, failure) => println!("{:28} {failure:?}", r.rule),
        }
    }
    results
}

fn measured(result: &RuleResult) -> &Measured {
    result.measured.as_ref().unwrap_or_else(|| panic!("{}: {:?}", result.rule, result.not_spd))
}

const TILE: TileChoice = TileChoice::Uniform(48);

#[test]
fn check_system_by_rules() {
    let input = check_system();
    let rules = ["fp64", "fp32", "hp1:band=2", "hp1:operand=1e-2", "x3", "bf1:band=2", "hp2", "hp3:band=2"];
    let results = run(&input, &options(&rules, TILE));
    let reference = measured(&results[0]);
    // These values were published with the system, from an independent float64 implementation.
    assert!((reference.strehl_moao - 0.554_059_04).abs() < 1e-6, "{}", reference.strehl_moao);
    assert!((reference.trace_cee - 0.031_696_556_6).abs() < 1e-6 * 0.0317);
    let change = |k: usize| (measured(&results[k]).strehl_moao - reference.strehl_moao).abs();
    assert!(change(1) <= 5e-5, "fp32: {}", change(1));
    assert!(change(2) < 1e-3, "hp1:band=2: {}", change(2));
    assert!(measured(&results[2]).backward_error < 2e-6);
    assert!(change(3) < 5e-4, "hp1:operand=1e-2: {}", change(3));
    assert!(measured(&results[3]).gemm_share.low() > 0.95);
    assert!(measured(&results[4]).backward_error <= 5e-7);
    assert_eq!(measured(&results[4]).gemm_share.x3, 1.0);
    for failed in &results[5..] {
        let lost = failed.not_spd.as_ref().unwrap_or_else(|| panic!("{} survived", failed.rule));
        assert!(failed.measured.is_none() && lost.tile < failed.tiles);
    }
}

/// Runs rules on the check system: `survive` lists surviving ones with the largest change of their
/// Strehl ratio, `fail` lists failing ones.
fn outcomes(tile: usize, survive: &[(&str, f64)], fail: &[&str]) -> Vec<RuleResult> {
    let input = check_system();
    let mut rules = vec!["fp64"];
    rules.extend(survive.iter().map(|(rule, _)| rule));
    rules.extend(fail);
    let results = run(&input, &options(&rules, TileChoice::Uniform(tile)));
    let reference = measured(&results[0]).strehl_moao;
    for (result, (rule, bound)) in results[1..].iter().zip(survive) {
        let change = (measured(result).strehl_moao - reference).abs();
        assert!(change < *bound, "{rule}: {change}");
    }
    for failed in &results[1 + survive.len()..] {
        assert!(failed.not_spd.is_some(), "{} survived", failed.rule);
    }
    results
}

#[test]
fn check_system_in_tf32_and_fp8() {
    // TF32 has the 11 bits of HP1, and needs the same care. FP8 suits only products of little
    // effect.
    let results = outcomes(
        48,
        &[
            ("tf32:band=2", 1e-3),
            ("tf32:operand=1e-2", 5e-4),
            ("fp8:operand=1e-5", 2e-4),
            ("fp8:operand=1e-4", 2e-2),
            ("fp8:operand=1e-4,else=x3", 2e-2),
        ],
        &["tf32", "fp8", "fp8:band=2", "fp8:band=16", "fp8:band=8,else=x3", "fp8:operand=1e-3"],
    );
    let [_, _, operand, fp8, half, split, ..] = &results[..] else { panic!("{} results", results.len()) };
    assert!(measured(operand).gemm_share.tf32 > 0.95);
    assert!(measured(fp8).gemm_share.fp8 > 0.05);
    assert!(measured(half).gemm_share.fp8 > 0.4 && measured(half).backward_error < 1e-5);
    let share = measured(split).gemm_share;
    assert!(share.fp8 > 0.4 && (share.fp8 + share.x3 - 1.0).abs() < 1e-12);
    outcomes(76, &[("tf32", 5e-4), ("fp8:operand=1e-5,else=hp1", 5e-4)], &["fp8", "fp8:band=8,else=x3"]);
}

/// Diagonal updates and solves in X3 are as good as in float32. In TF32 they fail, although
/// products in TF32 do not.
#[test]
fn check_system_with_updates_and_solves_on_tensor_cores() {
    let x3 = [
        ("fp32,panel=x3", 5e-5),
        ("x3,panel=x3", 5e-5),
        ("hp1:band=2,panel=x3", 1e-3),
        ("hp1:operand=1e-2,panel=x3", 5e-4),
        ("tf32:operand=1e-2,panel=x3", 5e-4),
    ];
    let tf32 = ["fp32,panel=tf32", "tf32:operand=1e-2,panel=tf32", "hp1:operand=1e-2,panel=tf32"];
    let narrow = [("fp32,panel=tf32", 5e-4), ("tf32,panel=tf32", 5e-4)];
    let survive = [&x3[..], &narrow].concat();
    let mut all = vec![outcomes(48, &x3, &tf32), outcomes(76, &survive, &[])];
    if every(2) == 1 {
        all.push(outcomes(152, &x3, &[]));
    }
    for results in all {
        for result in
            results.iter().filter(|result| result.rule.starts_with("x3") || result.rule == "fp32,panel=x3")
        {
            let error = result.measured.as_ref().map_or(0.0, |measured| measured.backward_error);
            assert!(error <= 5e-7, "{}: {error:e}", result.rule);
        }
    }
}

#[test]
fn edges_decide_whether_hp1_survives() {
    let input = check_system();
    let tiles = [(48, false), (40, false), (76, true), (64, false), (38, true)];
    for (tile, survives) in tiles.into_iter().step_by(every(2)) {
        let results = run(&input, &options(&["hp1"], TileChoice::Uniform(tile)));
        assert_eq!(results[0].measured.is_some(), survives, "tile {tile}");
    }
    // The automatic tile boundaries are suitable ones.
    let results = run(&input, &options(&["hp1"], TileChoice::Auto));
    measured(&results[0]);
}

#[test]
fn one_refinement_step_repairs_a_low_precision_factor() {
    let input = check_system();
    let reference = run(&input, &options(&["fp64"], TILE));
    let refined = run(&input, &Options { refine: 1, ..options(&["hp1:band=2"], TILE) });
    let change = measured(&refined[0]).strehl_moao - measured(&reference[0]).strehl_moao;
    assert!(change.abs() < 5e-5, "{change}");
    assert_eq!(refined[0].extras.residuals.len(), 1);
}

#[test]
fn retry_ends_with_a_rule_that_survives() {
    let input = check_system();
    let results = run(&input, &Options { on_not_spd: OnNotSpd::Retry, ..options(&["bf1"], TILE) });
    measured(&results[0]);
    assert_eq!(results[0].rule_asked.as_deref(), Some("bf1"));
    assert_eq!(results[0].attempts[0].rule, "bf1");
    assert_ne!(results[0].rule, "bf1");
}

#[test]
fn demo_system_by_rules() {
    let input = demo();
    let all = [("x3", 1e-5), ("fp32", 1e-5), ("hp1:operand=1e-2", 5e-4), ("hp1:band=2", 1e-3)];
    let tried: Vec<(&str, f64)> = all.into_iter().step_by(every(2)).collect();
    let rules: Vec<&str> = std::iter::once("fp64").chain(tried.iter().map(|(rule, _)| *rule)).collect();
    let results = run(&input, &options(&rules, TileChoice::Auto));
    let reference = measured(&results[0]).strehl_moao;
    for (result, (_, bound)) in results[1..].iter().zip(tried) {
        let change = (measured(result).strehl_moao - reference).abs();
        assert!(change < bound, "{}: {change}", result.rule);
    }
    assert!(measured(&results[1]).backward_error <= 5e-7, "x3");
}
