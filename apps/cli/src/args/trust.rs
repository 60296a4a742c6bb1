//! Options of `zellige trust`: those of other verbs, and those of stochastic arithmetic.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Subcommand};

use super::PsaRunArgs;
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

const PSA_EXAMPLES: &str = "\
Examples
  zellige trust psa run --basis basis --events ev --report digits.html
  zellige trust psa run --basis B.npy --positions P.npy --events E.npy \\
      --energies K.npy --precision fp64 --samples 16";

/// Verbs of `zellige trust`.
#[derive(Debug, Subcommand)]
pub enum TrustVerb {
    /// As `zellige psa`.
    #[command(subcommand)]
    Psa(TrustPsa),
}

/// Verbs of `zellige trust psa`.
#[derive(Debug, Subcommand)]
pub enum TrustPsa {
    /// Judge the best figure of merit of each hit, and its gap to the second.
    ///
    /// All points are compared in stochastic arithmetic, in --precision fp32 or fp64. The gap
    /// decides the point: where it has no exact digit, rounding errors do. Only events with one
    /// hit are judged.
    #[command(after_long_help = format!("{PSA_EXAMPLES}\n\n{NOTES}"), mut_args = without(PSA_RUN))]
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

const ONE_HIT: &str = "only plain searches for one hit are judged: leave this option out";

const PSA_RUN: Unused = &[
    ("shifts", ONE_HIT),
    ("align", ONE_HIT),
    ("pairs", ONE_HIT),
    ("certify", "every point is compared: leave this option out"),
    ("array", "digits are those of figures of merit: use zellige psa run for positions"),
    ("crystal", "digits are those of figures of merit: use zellige psa run for positions"),
    ("show", "the report shows digits: use zellige psa run for signals"),
];

/// Returns a change of arguments that hides unused options. Their help becomes the remedy, which
/// [`check_trust`] prints.
fn without(unused: Unused) -> impl FnMut(Arg) -> Arg {
    move |arg| {
        let mut all = DEVICES.iter().chain(unused);
        match all.find(|(name, _)| arg.get_long() == Some(name)) {
            Some((_, remedy)) => arg.hide(true).help(*remedy),
            None => arg,
        }
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
        fn visit(verb: &Command, seen: &mut usize) {
            let is_of_trust = verb.get_arguments().any(|arg| arg.get_long() == Some("samples"));
            if is_of_trust {
                let hidden = verb.get_arguments().filter(|arg| arg.is_hide_set()).count();
                assert!(hidden > DEVICES.len(), "{}", verb.get_name());
                *seen += 1;
            }
            verb.get_subcommands().for_each(|verb| visit(verb, seen));
        }
        let mut seen = 0;
        visit(Cli::command().find_subcommand("trust").expect("a verb"), &mut seen);
        assert!(seen > 0);
    }
}
