//! Options of `zellige trust`: those of other verbs, and those of stochastic arithmetic.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Subcommand};

use super::{LqcdInvert, PsaRunArgs, RunArgs, SolveArgs, SpmvArgs};
use crate::exit::CommandError;

const NOTES: &str = "\
Each number of the run is 8 samples, and each operation rounds each sample up or down at random. \
The digits in which the samples agree are exact with a probability of 95 %, as long as rounding \
errors act to first order. The same seed gives the same digits on any number of workers.

Output
  x: 6 to 15 of 15 digits, median 14, fewest in row 312
                     The exact digits of a result, and where it has the fewest.
  4 losses of accuracy by cancellation
                     Operations that rounding errors decide or dominate, with
                     the file and line of the code. Digits may be overestimated
                     after unstable divisions, multiplications and powers; a
                     warning says so.

The page of --report has a histogram and a map of the digits of each result. \
docs/how-to/trust.md explains how to read them.";

const SOLVE_EXAMPLES: &str = "\
The system is solved as it is given, without scaling. --method auto is the first method that \
suits the matrix. Preconditioners are none and jacobi; auto is jacobi. The digits of the method's \
coefficients by step are judged as well. A tolerance that is not reached ends with exit code 5.

Examples
  zellige trust solve A.mtx -b b.mtx --report digits.html
  zellige trust solve A.mtx --method gmres:40 --tol 1e-8 --samples 16
  zellige trust solve A.mtx --operator ap7:cw:2^-24 --json digits.json";

const SPMV_EXAMPLES: &str = "\
Examples
  zellige trust spmv A.mtx
  zellige trust spmv A.mtx --sets ap7 --eps 2^-24 --criterion cw --x-for x.npy";

const PSA_EXAMPLES: &str = "\
Examples
  zellige trust psa run --basis basis --events ev --report digits.html
  zellige trust psa run --basis B.npy --positions P.npy --events E.npy \\
      --energies K.npy --precision fp64 --samples 16";

const TOR_EXAMPLES: &str = "\
The covariances, the factor and the reconstructor of the first target are computed in fp32, with \
tiles of 96 unless --tile says otherwise. A small system is enough.

Examples
  zellige trust tor run system.toml --report digits.html
  zellige trust tor run system.toml --target 10,-5 --tile 64";

const LQCD_EXAMPLES: &str = "\
The system is solved in stochastic arithmetic, in double precision. Residual, quarks on the other \
sites and correlator follow from that solution. Rows of their maps are time slices; the \
coefficients of the method have a row for each step. A tolerance that is not reached ends with \
exit code 5.

Examples
  zellige trust lqcd invert field.lat --mass 0.05 --report digits.html
  zellige trust lqcd invert field.lat --method bicgstab --tol 1e-8";

/// Verbs of `zellige trust`.
#[derive(Debug, Subcommand)]
pub enum TrustVerb {
    /// Judge the solution of A x = b.
    ///
    /// The system is solved twice: with plain numbers, for the time, and in stochastic arithmetic.
    #[command(after_long_help = format!("{SOLVE_EXAMPLES}\n\n{NOTES}"), mut_args = without(&[DEVICES, SOLVE]))]
    Solve(Box<Trusted<SolveArgs>>),
    /// Judge a sparse product.
    ///
    /// The matrix is stored in one set of formats, by default fp64, and multiplied with --x-for.
    #[command(after_long_help = format!("{SPMV_EXAMPLES}\n\n{NOTES}"), mut_args = without(&[SPMV]), mut_args = of_one_product)]
    Spmv(Box<Trusted<SpmvArgs>>),
    /// As `zellige psa`.
    #[command(subcommand)]
    Psa(TrustPsa),
    /// As `zellige tor`.
    #[command(subcommand)]
    Tor(TrustTor),
    /// As `zellige lqcd`.
    #[command(subcommand)]
    Lqcd(TrustLqcd),
}

/// Verbs of `zellige trust tor`.
#[derive(Debug, Subcommand)]
pub enum TrustTor {
    /// Judge the covariances, the factor and the reconstructor of a system.
    #[command(after_long_help = format!("{TOR_EXAMPLES}\n\n{NOTES}"), mut_args = without(&[DEVICES, TOR_RUN]))]
    Run(Box<Trusted<RunArgs>>),
}

/// Verbs of `zellige trust lqcd`.
#[derive(Debug, Subcommand)]
pub enum TrustLqcd {
    /// Judge a quark propagator, its residual and its correlator.
    #[command(after_long_help = format!("{LQCD_EXAMPLES}\n\n{NOTES}"), mut_args = without(&[DEVICES, LQCD_INVERT]))]
    Invert(Box<Trusted<LqcdInvert>>),
}

/// Verbs of `zellige trust psa`.
#[derive(Debug, Subcommand)]
pub enum TrustPsa {
    /// Judge the best figure of merit of each hit, and its gap to the second.
    ///
    /// All points are compared in stochastic arithmetic, in --precision fp32 or fp64. The gap
    /// decides the point: where it has no exact digit, rounding errors do. Only events with one
    /// hit are judged.
    #[command(after_long_help = format!("{PSA_EXAMPLES}\n\n{NOTES}"), mut_args = without(&[DEVICES, PSA_RUN]))]
    Run(Box<Trusted<PsaRunArgs>>),
}

/// Options of a verb under `zellige trust`.
#[derive(Debug, Args)]
pub struct Trusted<A: Args> {
    #[command(flatten)]
    pub sampling: Sampling,
    #[command(flatten)]
    pub verb: A,
}

/// Samples and seed of random rounding.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Stochastic arithmetic")]
pub struct Sampling {
    /// Number of samples of each number: 3, 8 or 16.
    ///
    /// 8 agree on a wrong number with a probability of 1/256, 16 of 1/65536. 3 are those of CADNA,
    /// for comparison with it.
    #[arg(long, value_name = "3|8|16", default_value_t = 8, value_parser = samples)]
    pub samples: usize,
    /// Seed of random rounding.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
}

fn samples(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(samples @ (3 | 8 | 16)) => Ok(samples),
        _ => Err("use 3, 8 or 16".into()),
    }
}

/// Options of a verb that do not apply under `trust`, each with the remedy.
type Unused = &'static [(&'static str, &'static str)];

const ON_CPU: &str = "stochastic arithmetic runs on CPU workers: leave this option out";

/// Options of devices and their memory.
const DEVICES: Unused = &[
    ("device", ON_CPU),
    ("device-memory", ON_CPU),
    ("logical-gpus", ON_CPU),
    (
        "host-memory",
        "stochastic numbers are kept in memory: leave this option out, or judge a smaller problem",
    ),
    ("swap", "stochastic numbers are kept in memory: leave this option out, or judge a smaller problem"),
    ("stats", "there is nothing to report on CPU workers alone: leave this option out"),
];

const AS_GIVEN: &str = "the digits are those of the system as it is given: leave this option out";
const BY_ZELLIGE_SOLVE: &str = "this is not judged: use zellige solve";

const PLAIN_OR_JACOBI: &str =
    "systems are judged with Jacobi's preconditioner or none: leave this option out";

const SOLVE: Unused = &[
    ("near-null", PLAIN_OR_JACOBI),
    ("coordinates", PLAIN_OR_JACOBI),
    ("setup", PLAIN_OR_JACOBI),
    ("save-setup", PLAIN_OR_JACOBI),
    ("x0", "stochastic solutions start at zero: leave this option out"),
    ("x-for", "cw-exact is not judged: use --operator with nw or cw"),
    ("relax", BY_ZELLIGE_SOLVE),
    ("reliable", BY_ZELLIGE_SOLVE),
    ("shifts", "systems are judged one by one: add the shift to the matrix"),
    ("scale", AS_GIVEN),
    ("reorder", AS_GIVEN),
    ("nullspace", AS_GIVEN),
    ("damping", "least squares are not judged: use zellige solve"),
    ("max-time", "digits must not depend on the time: use --max-steps"),
    ("output", BY_ZELLIGE_SOLVE),
    ("csv", BY_ZELLIGE_SOLVE),
];

const IN_DOUBLE: &str = "stochastic numbers are solved with in double alone: leave this option out";

const POINT_SOURCE: &str = "a point source in a gauge field is judged: leave this option out";

const LQCD_INVERT: Unused = &[
    ("precision", IN_DOUBLE),
    ("reliable", IN_DOUBLE),
    ("heavy-quark-tol", "one solution is judged, without corrections: leave this option out"),
    ("buffer", IN_DOUBLE),
    ("deflate", "solutions are judged that begin at zero: leave this option out"),
    ("output", POINT_SOURCE),
    ("vectors", POINT_SOURCE),
    ("source-fields", POINT_SOURCE),
    ("long", POINT_SOURCE),
];

const SPMV: Unused = &[("repeats", "one product is judged: leave this option out")];

const IN_FP32: &str = "a plain factorisation in fp32 is judged: leave this option out";
const BY_TOR_RUN: &str = "this is not judged: use zellige tor run";

const TOR_RUN: Unused = &[
    ("precision", IN_FP32),
    ("solve-precision", IN_FP32),
    ("fuse-updates", IN_FP32),
    ("on-not-spd", IN_FP32),
    ("refine", IN_FP32),
    ("xray", BY_TOR_RUN),
    ("output", BY_TOR_RUN),
    ("norms", BY_TOR_RUN),
    ("bits", BY_TOR_RUN),
    ("nearest", BY_TOR_RUN),
    ("max-strehl-loss", BY_TOR_RUN),
];

const ONE_HIT: &str = "only plain searches for one hit are judged: leave this option out";

const PSA_RUN: Unused = &[
    ("shifts", ONE_HIT),
    ("align", ONE_HIT),
    ("pairs", ONE_HIT),
    ("coarse-below", "every hit is searched for in all stages: leave this option out"),
    ("certify", "every point is compared: leave this option out"),
    ("array", "digits are those of figures of merit: use zellige psa run for positions"),
    ("crystal", "digits are those of figures of merit: use zellige psa run for positions"),
    ("show", "the report shows digits: use zellige psa run for signals"),
];

/// Returns a change of arguments that hides unused options. Their help becomes the remedy, which
/// [`check_trust`] prints.
fn without(unused: &'static [Unused]) -> impl FnMut(Arg) -> Arg {
    move |arg| match unused.iter().copied().flatten().find(|(name, _)| arg.get_long() == Some(name)) {
        Some((_, remedy)) => arg.hide(true).help(*remedy),
        None => arg,
    }
}

/// Changes the lists of `spmv` to one product.
fn of_one_product(arg: Arg) -> Arg {
    match arg.get_long() {
        Some("sets") => {
            let help = "Format set: fp64, ap2, ap3, ap4, ap7, ap7re, ap7reu";
            arg.default_value("fp64").value_name("SET").help(help).long_help(None)
        }
        Some("eps") => arg.default_value("2^-53").value_name("EPS").help("Accuracy in [2^-53, 1)"),
        Some("criterion") => {
            arg.default_value("nw").value_name("C").help("Criterion for the format of an entry")
        }
        _ => arg,
    }
}

/// Refuses options of the chosen verb that do not apply under `trust`.
///
/// # Errors
/// [`CommandError::Option`].
pub(super) fn check_trust(command: &Command, matches: &ArgMatches) -> Result<(), CommandError> {
    let Some(("trust", mut matches)) = matches.subcommand() else { return Ok(()) };
    let mut command = command.find_subcommand("trust").expect("clap found it");
    while let Some((name, inner)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name).expect("clap found it"), inner);
    }
    let is_given = |arg: &&Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    match command.get_arguments().filter(|arg| arg.is_hide_set()).find(is_given) {
        Some(arg) => {
            let option = format!("--{}", arg.get_long().unwrap_or_default());
            Err(CommandError::option(option, arg.get_help().map(ToString::to_string).unwrap_or_default()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    /// Options without a use are refused with the remedy, and the help does not show them.
    #[test]
    fn options_that_do_not_apply_are_refused() {
        let refused = |line: &str| {
            let mut command = Cli::command();
            let matches = command.try_get_matches_from_mut(line.split(' ')).expect(line);
            check_trust(&command, &matches).err().map(|error| error.to_string())
        };
        let run = "zellige trust psa run --basis b --events e";
        assert_eq!(refused(&format!("{run} --workers 2 --samples 16 --seed 3")), None);
        assert_eq!(refused("zellige psa run --basis b --events e --device cuda"), None);
        for (option, words) in [
            ("--device cuda", "--device: stochastic arithmetic runs on CPU workers"),
            ("--device-memory 1GB", "--device-memory: stochastic arithmetic runs on CPU workers"),
            ("--pairs", "--pairs: only plain searches"),
        ] {
            let said = refused(&format!("{run} {option}")).unwrap_or_default();
            assert!(said.contains(words), "{option}: {said}");
        }
    }

    #[test]
    fn unused_options_are_those_of_their_verbs() {
        for (verb, unused) in [
            (&["solve"][..], &[DEVICES, SOLVE][..]),
            (&["spmv"], &[SPMV]),
            (&["psa", "run"], &[DEVICES, PSA_RUN]),
            (&["tor", "run"], &[DEVICES, TOR_RUN]),
            (&["lqcd", "invert"], &[DEVICES, LQCD_INVERT]),
        ] {
            let mut command = Cli::command();
            for name in ["trust"].iter().chain(verb) {
                command = command.find_subcommand(name).expect("a verb").clone();
            }
            for (option, _) in unused.iter().copied().flatten() {
                let is_hidden = |arg: &Arg| arg.get_long() == Some(option) && arg.is_hide_set();
                assert!(command.get_arguments().any(is_hidden), "{verb:?} {option}");
            }
        }
    }

    /// Options that `trust` judges by. One that a verb gets has to join them, or those that are
    /// refused.
    #[test]
    fn every_option_of_a_verb_is_judged_by_or_refused() {
        let common = ["samples", "seed", "workers", "json", "report", "help"];
        let run = ["sched", "trace"];
        for (verb, own) in [
            (
                ["solve", ""],
                &[
                    "rhs",
                    "method",
                    "operator",
                    "basis-format",
                    "precond",
                    "tol",
                    "max-steps",
                    "orthogonalise",
                ][..],
            ),
            (["spmv", ""], &["sets", "eps", "criterion", "layout", "x-for", "no-drop"]),
            (["tor", "run"], &["atm", "strict", "target", "lag-ms", "valid-map", "influence", "tile"]),
            (
                ["psa", "run"],
                &[
                    "basis",
                    "events",
                    "channel-map",
                    "positions",
                    "energies",
                    "segment",
                    "method",
                    "p",
                    "precision",
                    "lut",
                    "channels",
                    "window",
                    "threshold",
                    "cross-talk",
                    "saturated",
                    "trapping",
                ],
            ),
            (["lqcd", "invert"], &["action", "mass", "source", "bc", "max-steps", "tol", "method"]),
        ] {
            let command = Cli::command();
            let mut command = command.find_subcommand("trust").expect("trust");
            for word in verb.iter().filter(|word| !word.is_empty()) {
                command = command.find_subcommand(word).expect("a verb");
            }
            let visible = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set());
            for name in visible.filter_map(|arg| arg.get_long()) {
                let is_known = common.iter().chain(&run).chain(own).any(|known| *known == name);
                assert!(is_known, "trust {}: --{name} is neither judged by nor refused", verb.join(" "));
            }
        }
    }
}
