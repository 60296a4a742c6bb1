//! JSON schemas of the results of verbs. A test compares docs/reference/json with the types. With
//! ZELLIGE_WRITE_DOCS in the environment it writes the files.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use zellige_app::json::{self, Envelope, schema};
use zellige_lqcd::pipeline::results::{
    DslashResult, EigenResult, GenerateResult, InfoResult, InvertResult, MultishiftResult, SmearResult,
};
use zellige_psa::pipeline::results::{BasisResult, Results, SimulatedEvents, TallyResult, TrackResult};
use zellige_solve::pipeline::results::{MatrixResult, SolveOutput};
use zellige_tor::pipeline::{CovarianceResult, Judgement, RuleResult};

use crate::args::Cli;
use crate::machine;

/// Results of `psa track`: of hits, or of simulated events.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum Tracked {
    Hits(TrackResult),
    Simulated(TallyResult),
}

/// Returns the schemas of an entry of the results, by verb.
fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("tor info", schema::<zellige_tor::pipeline::InfoResult>()),
        ("tor cov", schema::<CovarianceResult>()),
        ("tor build", schema::<RuleResult>()),
        ("tor eval", schema::<Judgement>()),
        ("tor learn", schema::<zellige_tor::learn::LearnResult>()),
        ("tor loop", schema::<zellige_tor::end_to_end::LoopRun>()),
        ("tor rtc", schema::<zellige_tor::rtc::RtcResult>()),
        ("tor run", schema::<RuleResult>()),
        ("psa simulate", schema::<BasisResult>()),
        ("psa events", schema::<SimulatedEvents>()),
        ("psa run", schema::<Results>()),
        ("psa benchmark", schema::<zellige_measure::searches::Row>()),
        ("psa stream", schema::<zellige_psa::pipeline::stream::Summary>()),
        ("psa compare", schema::<zellige_psa::pipeline::compare::Agreement>()),
        ("psa track", schema::<Tracked>()),
        ("lqcd generate", schema::<GenerateResult>()),
        ("lqcd info", schema::<InfoResult>()),
        ("lqcd smear", schema::<SmearResult>()),
        ("lqcd invert", schema::<InvertResult>()),
        ("lqcd eigen", schema::<EigenResult>()),
        ("lqcd multishift", schema::<MultishiftResult>()),
        ("lqcd dslash", schema::<DslashResult>()),
        ("formats", schema::<crate::formats::FormatResult>()),
        ("solve", schema::<SolveOutput>()),
        ("spmv", schema::<zellige_measure::spmv::results::SpmvResult>()),
        ("trust solve", schema::<zellige_stochastic::Trust>()),
        ("trust spmv", schema::<zellige_stochastic::Trust>()),
        ("trust psa run", schema::<zellige_stochastic::Trust>()),
        ("trust tor run", schema::<zellige_stochastic::Trust>()),
        ("trust lqcd invert", schema::<zellige_stochastic::Trust>()),
        ("tune command", schema::<zellige_app::tune::TuneResult>()),
        ("tune lqcd", schema::<zellige_app::tune::TuneResult>()),
        ("tune psa", schema::<zellige_app::tune::TuneResult>()),
        ("tune solve", schema::<zellige_app::tune::TuneResult>()),
        ("tune spmv", schema::<zellige_app::tune::TuneResult>()),
        ("tune tor", schema::<zellige_tor::pipeline::tune::TunedMap>()),
        ("matrix info", schema::<MatrixResult>()),
        ("bench tasks", schema::<zellige_measure::tasks::TaskFigures>()),
        ("bench cholesky", schema::<zellige_measure::cholesky::CholeskyFigures>()),
        ("bench memory", schema::<zellige_measure::memory::MemoryBenchFigures>()),
        ("bench gpu", schema::<zellige_measure::gpu::Figures>()),
        ("machine show", schema::<machine::show::Machine>()),
        ("machine calibrate", schema::<machine::known::Known>()),
        ("simulate tor", schema::<zellige_tor::pipeline::simulate::Report>()),
        ("simulate cholesky", schema::<zellige_tor::pipeline::simulate::Report>()),
        ("trace summary", schema::<crate::trace::Summary>()),
        ("reproduce thesis", schema::<crate::reproduce::ItemResult>()),
        ("reproduce lattice", schema::<crate::reproduce::ItemResult>()),
        ("reproduce tomography", schema::<crate::reproduce::ItemResult>()),
        ("selftest", schema::<zellige_measure::selftest::Report>()),
    ]
}

/// Collects the verbs with the option `--json`.
fn with_json(command: &clap::Command, verb: &str, found: &mut BTreeSet<String>) {
    if command.get_arguments().any(|argument| argument.get_long() == Some("json")) {
        found.insert(verb.to_owned());
    }
    for inner in command.get_subcommands() {
        with_json(inner, format!("{verb} {}", inner.get_name()).trim(), found);
    }
}

#[test]
fn every_verb_that_writes_json_has_a_schema() {
    let mut found = BTreeSet::new();
    with_json(&Cli::command(), "", &mut found);
    let known: BTreeSet<String> = all().into_iter().map(|(verb, _)| verb.to_owned()).collect();
    assert_eq!(found, known);
}

#[test]
fn the_files_are_what_the_types_have() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json"));
    let envelope = ("envelope", schema::<Envelope<'_, serde_json::Value>>());
    for (verb, schema) in all().into_iter().chain([envelope]) {
        let file = folder.join(format!("{}.json", verb.replace(' ', "-")));
        let text = json::text(&schema).expect("a schema is JSON");
        if std::env::var_os("ZELLIGE_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(folder).expect("a folder for schemas");
            std::fs::write(&file, &text).expect("a schema can be written");
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == text,
            "{} is not what `zellige {verb} --json` writes: ZELLIGE_WRITE_DOCS=1 cargo test -p zellige-cli schemas; a key that is removed or \
             renamed raises zellige_app::json::SCHEMA",
            file.display()
        );
    }
}
