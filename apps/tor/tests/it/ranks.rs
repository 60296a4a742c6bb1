//! The pipeline on several ranks, as threads of this process, has the bits of a single process.

use std::path::Path;
use zellige_mpi::run_local;
use zellige_runtime::Runtime;
use zellige_tor::params::{Input, Mode, parse};
use zellige_tor::pipeline::{self, OnNotSpd, Options, Outcome, PipelineError, Silent, TileChoice};
use zellige_tor::system::NoiseModel;

const DEMO: &str = include_str!("../../systems/demo.toml");

fn system(nssp: usize) -> Input {
    let text = DEMO.replace("nssp = 16 ", &format!("nssp = {nssp} "));
    parse(Path::new("system.toml"), &text, None, Mode::Strict).unwrap()
}

fn options(rules: &[&str]) -> Options {
    Options {
        rules: rules.iter().map(|r| r.to_string()).collect(),
        tile: TileChoice::Uniform(40),
        targets: Some(vec![[0.0, 0.0], [12.0, -7.0]]),
        keep_reconstructors: true,
        ..Options::default()
    }
}

fn alone(input: &Input, options: &Options) -> Outcome {
    let rt = Runtime::builder().workers(2).bind(false).build().unwrap();
    pipeline::run(&rt, input, options, &Silent).unwrap()
}

fn on_ranks(ranks: usize, input: &Input, options: &Options) -> Vec<Outcome> {
    let options = Options { ranks, ..options.clone() };
    run_local(ranks, 1, |cluster| pipeline::run(cluster, input, &options, &Silent).unwrap()).unwrap()
}

#[test]
fn any_number_of_ranks_gives_the_same_reconstructors() {
    let input = system(8);
    // The rules select at submission or by norms, have low-precision results (which fail here), are
    // refined, or use float64.
    for options in [
        options(&["fp32", "hp1:operand=1e-2", "fp64"]),
        Options { refine: 2, exact: false, ..options(&["hp2:band=1", "hp1:operand=1e-2"]) },
    ] {
        let wanted = alone(&input, &options);
        assert!(wanted.survived());
        for ranks in [1, 2, 4] {
            let outcomes = on_ranks(ranks, &input, &options);
            for (result, wanted) in outcomes[0].results.iter().zip(&wanted.results) {
                let what = format!("{} on {ranks} ranks", result.rule);
                assert_eq!(result.not_spd, wanted.not_spd, "{what}");
                if wanted.not_spd.is_some() {
                    continue;
                }
                assert!(result.extras.reconstructors == wanted.extras.reconstructors, "{what}: other bits");
                assert_eq!(result.extras.residuals, wanted.extras.residuals, "{what}");
                assert_eq!(result.extras.map, wanted.extras.map, "{what}");
                let (got, wanted) = (result.measured.as_ref().unwrap(), wanted.measured.as_ref().unwrap());
                assert_eq!(got.targets, wanted.targets, "{what}");
                assert_eq!(got.backward_error, wanted.backward_error, "{what}");
                assert_eq!(
                    (got.gemm_share, got.tile_bytes),
                    (wanted.gemm_share, wanted.tile_bytes),
                    "{what}"
                );
                if ranks == 1 {
                    assert!(got.ranks.is_empty());
                    continue;
                }
                assert_eq!(got.ranks.iter().map(|r| r.rank).collect::<Vec<_>>(), Vec::from_iter(0..ranks));
                // Every rank has some tiles, but not all.
                assert!(got.ranks.iter().all(|r| r.sent_bytes > 0 && r.tile_bytes > 0), "{:?}", got.ranks);
                assert!(got.ranks.iter().all(|r| r.tile_bytes < got.tile_bytes), "{:?}", got.ranks);
            }
            for outcome in &outcomes[1..] {
                assert!(outcome.results.iter().all(|result| result.measured.is_none()));
            }
        }
    }
}

#[test]
fn a_rule_that_fails_fails_on_every_rank_and_the_next_is_tried() {
    // The system is that of `pipeline::a_matrix_beyond_float32_is_sent_to_float64`.
    let mut input = system(8);
    input.system.stars[1] = input.system.stars[0].clone();
    input.system.noise = NoiseModel::Uniform { variance: 1e-8 };
    let options = Options { on_not_spd: OnNotSpd::Retry, ..options(&["hp1:operand=1e-2"]) };
    let wanted = alone(&input, &options);
    assert!(!wanted.results[0].attempts.is_empty());
    for outcome in on_ranks(3, &input, &options) {
        assert_eq!(outcome.results[0].rule, wanted.results[0].rule);
        assert_eq!(outcome.results[0].attempts, wanted.results[0].attempts);
    }
    let all = Options { on_not_spd: OnNotSpd::Fail, ..options };
    let lost = alone(&input, &all).results[0].not_spd.clone();
    assert!(lost.is_some());
    for outcome in on_ranks(2, &input, &all) {
        assert_eq!(outcome.results[0].not_spd, lost);
    }
}

#[test]
fn what_one_process_alone_can_do_is_refused_on_all_ranks() {
    let input = system(6);
    let options = Options { keep_norms: true, ranks: 2, ..options(&["fp32"]) };
    let errors = run_local(2, 1, |cluster| pipeline::run(cluster, &input, &options, &Silent).unwrap_err());
    for error in errors.unwrap() {
        assert!(
            matches!(&error, PipelineError::Options(text) if text.contains("a single process")),
            "{error}"
        );
    }
}

/// In the memory plan of one of several ranks, the tiles are distributed, but the work of the first
/// rank for all is not.
#[test]
fn memory_is_planned_for_one_rank() {
    let input = system(40);
    let needed = |ranks| {
        let options = Options { ranks, memory_limit: Some(u64::MAX), ..options(&["hp1:band=1"]) };
        pipeline::plan(&input, &options).unwrap().memory.total()
    };
    let all = [1, 4, 16].map(needed);
    assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
}
