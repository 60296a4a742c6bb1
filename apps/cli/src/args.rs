//! The command line of `zellige`: verbs and options.

mod bench;
mod check;
mod config;
mod execution;
mod formats;
mod lqcd;
mod machine;
mod manual;
mod outputs;
mod paths;
mod psa;
mod reproduce;
mod rounding;
mod rtc;
mod selftest;
mod simulate;
mod solve;
mod sparse;
mod tor;
mod trace;
mod trace_file;
mod trust;
mod tune;
mod vector;

use std::ffi::OsString;
use std::str::FromStr;

use clap::{Parser, Subcommand};
use zellige_dense::Submission;
use zellige_runtime::sched::POLICIES;

pub use bench::{Bench, BenchCholesky, BenchGpu, BenchMemory, BenchTasks, Number, Tune};
pub use check::{check, has_option};
pub use config::expand;
pub use execution::{CudaDevices, Device, ExecutionArgs, MemorySize};
pub use formats::FormatsArgs;
pub use lqcd::{
    Deflate, Lqcd, LqcdConvert, LqcdDslash, LqcdEigen, LqcdGenerate, LqcdInfo, LqcdInvert, LqcdMultishift,
    LqcdSmear, LqcdSystem,
};
pub use machine::{MachineCalibrate, MachineShow, MachineVerb};
pub use manual::{CompletionsArgs, ManArgs};
pub use outputs::RunOutputs;
pub use paths::{Input, Output, OutputFile, OutputFolder};
pub use psa::{
    BasisFormat, Electronics, Psa, PsaBenchmark, PsaCompareArgs, PsaEvents, PsaFrames, PsaInput, PsaOverload,
    PsaRules, PsaRunArgs, PsaSearch, PsaSend, PsaSimulate, PsaStream, PsaTrackArgs, TrackGeometry,
};
pub use reproduce::{Reproduce, ReproduceItems, ReproduceLattice};
pub use rounding::RoundingArgs;
pub use rtc::RtcArgs;
pub use selftest::SelftestArgs;
pub use simulate::{Simulate, SimulateCommon};
pub use solve::SolveArgs;
pub use sparse::{
    MatrixConvert, MatrixGenerate, MatrixInfo, MatrixVerb, OperatorChoice, Problem, SetChoice, Size, SpmvArgs,
};
pub use tor::{
    BuildArgs, CovArgs, EvalArgs, FactorArgs, InfoArgs, LearnArgs, LoopArgs, NotSpd, Order, RunArgs,
    SystemArgs, Tile, Tor, Xray,
};
pub use trace::{TraceCompareArgs, TraceFormArgs, TraceSummaryArgs, TraceVerb};
pub use trace_file::{TraceFile, TraceFormat};
pub use trust::{Sampling, TrustLqcd, TrustPsa, TrustTor, TrustVerb, Trusted};
pub use tune::{
    TuneCommand, TuneCost, TuneLqcd, TunePsa, TuneSearch, TuneSolve, TuneSpmv, TuneTor, TuneVerb,
};
pub use vector::{NearNullSource, VectorSource};

/// Template of the top-level help: the verbs on one screen, one line for each option.
const TOP: &str = "\
{about-with-newline}
{usage-heading} {usage}

Commands:
{subcommands}{after-help}";

/// The section on the options of [`Cli`] in the top-level help.
const TOP_OPTIONS: &str = "\
Options of every command
  -h, --help           Print the main options; --help prints all, with examples
  -V, --version        Print version, commit and features
  --config FILE.toml   Read options from a file: long names as keys, a table for
                       each command
  --log LEVEL          off, error, warn, info, debug or trace, on standard error
  --oversubscribe      Allow more than four workers per core
  --cuda-libs FOLDER   Folder of CUDA's libraries, if they are not found without";

const TOP_EXAMPLES: &str = "\
Examples
  zellige tor example > system.toml             a telescope to edit
  zellige tor run system.toml                   its reconstructor by two rules
  zellige solve A.mtx -b b.npy -o x.npy         a sparse linear system
  zellige psa simulate -o basis                 signals of a germanium crystal
  zellige lqcd generate --size 8 -o small.lat   a gauge field
  zellige lqcd invert small.lat                 its quark propagator
  zellige tune command --help                   the cheapest formats that do
  zellige trace summary run.zt                  a run with --trace run.zt

Exit codes
  0 success   1 failure   2 invalid parameter, option or input
  3 no precision rule survived   4 device missing
  5 a system was not solved to the tolerance   130 Ctrl-C";

/// Task graphs over tiles, each tile in the precision it needs.
#[derive(Debug, Parser)]
#[command(name = "zellige", version = crate::provenance::VERSION, help_template = TOP, after_help = TOP_OPTIONS, after_long_help = format!("{TOP_OPTIONS}\n\n{TOP_EXAMPLES}"), max_term_width = 120, propagate_version = true)]
pub struct Cli {
    /// Log on standard error: off, error, warn, info, debug, trace, or a filter as in RUST_LOG.
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        help_heading = "Global options",
        hide_short_help = true
    )]
    pub log: Option<String>,
    /// Allow more than four workers for each core that this process may use.
    #[arg(long, global = true, help_heading = "Global options", hide_short_help = true)]
    pub oversubscribe: bool,
    /// Read options from a TOML file: long names as keys, a table for each verb.
    ///
    /// For example `workers = 4` for every verb that has --workers, and `[tor.run]` with
    /// `precision = ["fp32", "hp1"]` for one. The command line has precedence.
    #[arg(
        long,
        global = true,
        value_name = "FILE.toml",
        help_heading = "Global options",
        hide_short_help = true
    )]
    pub config: Option<Input>,
    /// Folder with CUDA's libraries (cuBLAS, cuSOLVER, NVRTC), searched before the loader's path.
    ///
    /// By default the loader's path is searched, then /usr/local/cuda*/lib64, then the wheels of
    /// each python3 on PATH. `machine show` lists the files that were loaded.
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        help_heading = "Global options",
        hide_short_help = true
    )]
    pub cuda_libs: Option<std::path::PathBuf>,
    /// Verb to run.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Verbs: the first word of the command line.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Tomographic reconstructors for adaptive optics.
    #[command(subcommand)]
    Tor(Box<Tor>),
    /// Pulse-shape analysis of segmented germanium detectors.
    #[command(subcommand)]
    Psa(Box<Psa>),
    /// Lattice QCD with staggered and Wilson quarks.
    #[command(subcommand)]
    Lqcd(Box<Lqcd>),
    /// Solve A x = b by the method that suits the matrix, with a recomputed residual.
    Solve(Box<SolveArgs>),
    /// Sparse products with small nonzeros in fewer bits.
    ///
    /// Storage, errors and times.
    Spmv(SpmvArgs),
    /// Tell how many digits of a result are exact, and where others were lost.
    ///
    /// The verbs run as without `trust`, with random rounding.
    #[command(subcommand)]
    Trust(TrustVerb),
    /// Find the cheapest formats with which a program still does its job.
    ///
    /// The user's criterion judges each trial.
    #[command(subcommand)]
    Tune(TuneVerb),
    /// Compute the figures and tables of three papers anew, beside the published numbers.
    #[command(subcommand, after_long_help = reproduce::NOTES)]
    Reproduce(Reproduce),
    /// Sparse matrices: describe, make and convert them.
    #[command(subcommand)]
    Matrix(MatrixVerb),
    /// List the number formats: bits, range, unit roundoff, and what stores numbers in them.
    Formats(FormatsArgs),
    /// Measure the speed of the runtime and of the kernels on this machine.
    #[command(subcommand)]
    Bench(Bench),
    /// Show and calibrate this machine, and remove its performance models.
    #[command(subcommand)]
    Machine(MachineVerb),
    /// Predict times on a machine from its platform file.
    ///
    /// Nothing runs, time is virtual.
    #[command(subcommand)]
    Simulate(Simulate),
    /// Analyse the trace of a run: summary, pictures, comparison.
    #[command(subcommand, after_long_help = trace::EXAMPLES)]
    Trace(TraceVerb),
    /// Check the runtime on this machine with random task graphs.
    ///
    /// They run on emulated devices, and are compared bit by bit with a sequential run.
    #[command(after_long_help = selftest::NOTES)]
    Selftest(SelftestArgs),
    /// Print a completion script for a shell.
    #[command(after_long_help = manual::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write the pages of all verbs.
    Man(ManArgs),
}

/// Joins a negative number to the option before it, as in `--mass=-0.1` and `--shifts=-0.001,0`.
/// The option's own check then accepts or refuses the number. Separate words such as `--mass -0.1`
/// would be reported as an unknown option.
pub fn join_negative_numbers(words: Vec<OsString>) -> Vec<OsString> {
    let is_number = |word: &str| {
        let rest = word.strip_prefix('-').unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            || word.parse::<f64>().is_ok_and(f64::is_sign_negative)
    };
    let mut joined: Vec<OsString> = Vec::with_capacity(words.len());
    let mut is_over = false;
    for word in words {
        is_over |= word == "--";
        let option = joined.last().and_then(|last| last.to_str()).filter(|last| {
            let (is_long, is_short) = (last.starts_with("--"), last.starts_with('-') && last.len() == 2);
            !is_over && (is_long && !last.contains('=') || is_short && !is_number(last))
        });
        match (option, word.to_str().filter(|word| is_number(word))) {
            (Some(option), Some(number)) => {
                let equals = if option.starts_with("--") { "=" } else { "" };
                let whole = format!("{option}{equals}{number}");
                joined.pop();
                joined.push(whole.into());
            }
            _ => joined.push(word),
        }
    }
    joined
}

fn policy_names() -> clap::builder::PossibleValuesParser {
    possible(&POLICIES)
}

/// Returns the parser of the largest number of products that one task may fuse.
fn fused_updates() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(1..=Submission::MOST as i64)
}

/// Parses a word of a library. The message of a wrong one has no name of a parameter, since clap
/// names the option.
fn word<T>(text: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: std::error::Error + 'static,
{
    text.parse().map_err(|error: T::Err| crate::exit::problem(&error))
}

/// Parses a device and returns whether it means all GPUs.
fn all_gpus(text: &str) -> Result<bool, String> {
    match text.parse()? {
        Device::Cpu => Ok(false),
        Device::Cuda(CudaDevices { numbers: None, with_cpu: false }) => Ok(true),
        Device::Cuda(_) => Err("use cpu, or cuda for all GPUs; CUDA_VISIBLE_DEVICES hides some".into()),
    }
}

fn possible(policies: &[(&'static str, &'static str)]) -> clap::builder::PossibleValuesParser {
    let values = policies.iter().map(|&(name, what)| clap::builder::PossibleValue::new(name).help(what));
    values.collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;
    use clap::{Arg, Command, CommandFactory};
    use std::any::TypeId;
    use std::collections::BTreeMap;

    #[test]
    fn the_command_is_consistent() {
        Cli::command().debug_assert();
    }

    /// clap wraps the lines of a help text by the width of the terminal and indents continuations
    /// as the first line. Lines of tables and commands would lose their columns, so they fit 80.
    #[test]
    fn tables_in_the_help_fit_80_columns() {
        fn visit(verb: &Command, seen: &mut usize) {
            let texts = [verb.get_after_help(), verb.get_after_long_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                for line in text.lines().filter(|line| line.starts_with(' ')) {
                    assert!(line.chars().count() <= 80, "{}: {line}", verb.get_name());
                    *seen += 1;
                }
            }
            verb.get_subcommands().for_each(|verb| visit(verb, seen));
        }
        let mut seen = 0;
        visit(&Cli::command(), &mut seen);
        assert!(seen > 100, "{seen}");
    }

    /// A wrong value is named with its option once.
    #[test]
    fn wrong_words_are_named_once() {
        for (line, words) in [
            ("solve a.mtx --precond cg", "'--precond <M>': \"cg\" is a method (--method), not one of"),
            ("solve a.mtx --method amg", "'--method <METHOD>': \"amg\" is a preconditioner (--precond)"),
            ("solve a.mtx --scale all", "'--scale <HOW>': \"all\" is not one of"),
            ("psa run --basis b --events e --lut x", "'--lut <TABLE>': 'x' is not one of"),
        ] {
            let words_of = std::iter::once("zellige").chain(line.split(' '));
            let said = Cli::command().try_get_matches_from(words_of).unwrap_err().to_string();
            assert!(said.contains(words), "{line}: {said}");
        }
    }

    /// An option of a verb.
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
    struct Found {
        verb: String,
        short: Option<char>,
        takes_value: bool,
        has_default: bool,
        is_shown: bool,
    }

    /// Collects all options by name.
    fn options() -> BTreeMap<String, Vec<Found>> {
        fn visit(command: &clap::Command, verb: &str, all: &mut BTreeMap<String, Vec<Found>>) {
            for option in command.get_arguments().filter(|option| !option.is_positional()) {
                let found = Found {
                    verb: verb.to_owned(),
                    short: option.get_short(),
                    takes_value: option.get_action().takes_values(),
                    has_default: !option.get_default_values().is_empty(),
                    is_shown: !option.is_hide_set(),
                };
                all.entry(option.get_long().expect("every option has a long name").to_owned())
                    .or_default()
                    .push(found);
            }
            for verb_of in command.get_subcommands().filter(|verb_of| verb_of.get_name() != "help") {
                visit(verb_of, format!("{verb} {}", verb_of.get_name()).trim(), all);
            }
        }
        let mut all = BTreeMap::new();
        visit(&Cli::command(), "", &mut all);
        all
    }

    /// Every option that takes numbers checks negative numbers itself.
    #[test]
    fn options_take_negative_numbers() {
        fn visit(verb: &Command, seen: &mut usize) {
            let numbers = [
                TypeId::of::<f64>(),
                TypeId::of::<f32>(),
                TypeId::of::<u8>(),
                TypeId::of::<u16>(),
                TypeId::of::<u32>(),
                TypeId::of::<u64>(),
                TypeId::of::<usize>(),
                TypeId::of::<i32>(),
                TypeId::of::<[f64; 2]>(),
                TypeId::of::<[f64; 3]>(),
                TypeId::of::<MemorySize>(),
            ];
            let is_number = |option: &&Arg| {
                let values = option.get_value_parser();
                option.get_action().takes_values() && numbers.iter().any(|number| values.type_id() == *number)
            };
            for option in verb.get_arguments().filter(is_number) {
                let long = option.get_long().map(|long| format!("--{long}"));
                let short = option.get_short().map(|short| format!("-{short}"));
                for name in long.iter().chain(&short) {
                    for value in ["-0.1", "-2", "-.5", "-1e-3", "-inf", "-1,2", "-1GB"] {
                        let words =
                            join_negative_numbers(["zellige", name, value].map(OsString::from).into());
                        let kind = verb.clone().try_get_matches_from(words).err().map(|error| error.kind());
                        assert_ne!(
                            kind,
                            Some(ErrorKind::UnknownArgument),
                            "{} {name} {value}",
                            verb.get_name()
                        );
                        *seen += 1;
                    }
                }
            }
            verb.get_subcommands().for_each(|verb| visit(verb, seen));
        }
        let mut seen = 0;
        visit(&Cli::command(), &mut seen);
        assert!(seen > 500, "{seen}");
        let joined = |line: &str| join_negative_numbers(line.split(' ').map(OsString::from).collect());
        let said =
            |line: &str| Cli::command().try_get_matches_from(joined(line)).err().map(|e| e.to_string());
        for line in [
            "zellige lqcd multishift a.lat --shifts -0.001,0",
            "zellige solve a.mtx --shifts -1,0",
            "zellige psa track h.json -o g --beta -0.1 --source -1,-2,-3",
            "zellige psa run --basis b --events e --pairs --align",
            "zellige tor run s.toml --target -1,-2 --target -3,4",
        ] {
            assert_eq!(said(line), None);
        }
        // No other words are joined.
        for line in [
            "zellige solve --json - -1",
            "zellige solve a -1",
            "zellige x=1 -1",
            "zellige --a=b -1",
            "zellige -- --a -1",
        ] {
            assert_eq!(joined(line).len(), line.split(' ').count(), "{line}");
        }
        for (line, words) in [
            ("zellige lqcd invert a.lat --mass --json x", "a value is required for '--mass <MASS>'"),
            ("zellige bench tasks --workers -1", "-1 is not in"),
        ] {
            let said = said(line).unwrap_or_default();
            assert!(said.contains(words), "{line}: {said}");
        }
    }

    /// Former names of options in some verbs, each with the one name in use now.
    const ONE_NAME: [(&str, &str); 22] = [
        ("out", "output"),
        ("gpu-mem", "device-memory"),
        ("capacity", "device-memory"),
        ("rule", "precision"),
        ("cuda", "device"),
        ("gpu", "device"),
        ("threads", "workers"),
        ("inner", "operator"),
        ("together", "coincidence-window"),
        ("look-left", "fuse-updates"),
        ("policy", "sched"),
        ("deaths", "device-failures"),
        ("memory", "device-memory"),
        ("memory-share", "device-memory"),
        ("tasks", "count"),
        ("repeat", "repeats"),
        ("seeds", "seed"),
        ("tols", "tol"),
        ("norms-out", "norms"),
        ("naive", "action"),
        ("only-graphs", "only"),
        ("values", "format"),
    ];

    #[test]
    fn one_thing_has_one_name() {
        let all = options();
        for (other, name) in ONE_NAME {
            assert!(!all.contains_key(other), "--{other} is called --{name}");
            assert!(all.contains_key(name), "nothing is called --{name}");
        }
        for (name, found) in &all {
            let first = &found[0];
            for other in found {
                let same = (other.short, other.takes_value) == (first.short, first.takes_value);
                assert!(same, "--{name}: {} and {}", first.verb, other.verb);
            }
        }
    }

    /// The default is one worker for each core, a number that is known only at run time.
    #[test]
    fn no_verb_has_its_own_number_of_workers() {
        for found in &options()["workers"] {
            assert!(!found.has_default, "{}", found.verb);
        }
    }

    /// Checks the table in docs/reference/options.md. With ZELLIGE_WRITE_DOCS in the environment,
    /// the table is written first.
    #[test]
    fn the_table_of_options_is_up_to_date() {
        let mut page = String::from(
            "# Options\n\nEvery option of the command, and the verbs that have it. Made by the tests of `apps/cli/src/args.rs` \
             (`ZELLIGE_WRITE_DOCS=1 cargo test -p zellige-cli options`).\n\n| option | verbs |\n| --- | --- |\n",
        );
        for (name, found) in options() {
            let verbs: Vec<_> =
                found.iter().filter(|found| found.is_shown).map(|found| &*found.verb).collect();
            if verbs.is_empty() {
                continue;
            }
            let short = found[0].short.map_or(String::new(), |short| format!("`-{short}`, "));
            let verbs = match verbs[0] {
                "" => "all".to_owned(),
                _ => verbs.join(", "),
            };
            page += &format!("| {short}`--{name}` | {verbs} |\n");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/options.md");
        if std::env::var_os("ZELLIGE_WRITE_DOCS").is_some() {
            std::fs::write(path, &page).expect("docs/reference/options.md can be written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            written, page,
            "docs/reference/options.md is not what the command has; see its first lines"
        );
    }
}
