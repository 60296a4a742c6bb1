//! Options of `zellige tune`: those of the search, and those of the verbs.

mod lqcd;
mod psa;
mod solve;
mod spmv;
mod tor;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use zellige_tune::{Acceptance, Expression, Method};

use super::RunOutputs;
use super::execution::DEVICES;
use super::paths::{Input, Output};
pub use lqcd::TuneLqcd;
pub use psa::TunePsa;
pub use solve::TuneSolve;
pub use spmv::TuneSpmv;

pub use tor::{TuneCost, TuneTor};

const SEARCH_NOTES: &str = "\
The search
  The reference, with every item in its last format, is tried first and must be
  accepted. Then all items together are lowered by one format; where that is
  rejected, groups, parts of groups and items are. In the result no single item
  can go to any of its lower formats. With a measured cost, dearer formats of
  single items are tried as well.

Acceptance (--accept)
  strehl >= REF.strehl - 1e-4
  same >= 0.999 && within_5mm_by_energy >= 0.99
                     Measures, REF.name for those of the reference, numbers,
                     + - * /, abs(x), min(x, y), max(x, y), < <= > >= == !=,
                     && || ! and parentheses. A mistake is reported with the
                     names of all measures. A comparison of samples holds only
                     if it holds by 1.645 standard errors.

Output
  best       4100 bytes, 50.0 % of the reference: no single item can be lowered
  trial  bytes  quality  front of cost and quality
                     Quality is the distance from the limit: 1 for the
                     reference, 0 at the limit, negative beyond.

docs/how-to/tune.md explains how to choose items, measures and costs.";

const COMMAND_EXAMPLES: &str = "\
Items (ITEMS.json)
  {\"unit\": \"bytes\", \"items\": [
    {\"name\": \"h\", \"group\": \"loop\", \"formats\": [
      {\"name\": \"float\", \"cost\": 4}, {\"name\": \"double\", \"cost\": 8}]}]}
                     Formats go from cheap to dear; the last is the reference.
                     Groups are paths such as loop/inner, and may be left out.

Trials (--trial)
  The shell runs the command. It reads the formats from the JSON file {}, e.g.
  {\"h\": \"float\"}, and prints its measures as one JSON object. A measure is a
  number, a truth value, or {\"value\": x, \"error\": s} with a standard error.
  Numbers in nested objects have names such as a.b, those in lists a.0.
  A command that fails, prints no JSON or takes longer than --trial-timeout is a
  rejected trial; it is an error if the reference does. The measure
  trial_seconds is the time of the command. With --verify, ZELLIGE_TUNE_DATA is
  search or verify in its environment.

Examples
  zellige tune command items.json --trial './run.py {}' --accept 'digits >= 7'
  zellige tune command items.json --trial 'make -s && ./prog {}' \\
      --accept 'error <= 2 * REF.error' --cost trial_seconds \\
      --trials trials.jsonl --max-trials 100 --report tune.html -o formats.json";

/// Verbs of `zellige tune`.
#[derive(Debug, Subcommand)]
pub enum TuneVerb {
    /// Tune any program that reads its formats from a file and prints measures.
    #[command(after_long_help = format!("{COMMAND_EXAMPLES}\n\n{SEARCH_NOTES}"))]
    Command(Box<TuneCommand>),
    /// Find the fastest search for pulse shapes that still finds the same points.
    #[command(after_long_help = format!("{}\n\n{SEARCH_NOTES}", psa::EXAMPLES))]
    Psa(Box<TunePsa>),
    /// Find the formats in which a sparse system is solved fastest.
    #[command(after_long_help = format!("{}\n\n{SEARCH_NOTES}", solve::EXAMPLES))]
    Solve(Box<TuneSolve>),
    /// Find the accuracies of row blocks in which a sparse product needs the fewest bytes.
    #[command(after_long_help = format!("{}\n\n{SEARCH_NOTES}", spmv::EXAMPLES))]
    Spmv(Box<TuneSpmv>),
    /// Find the formats in which a propagator of lattice QCD is computed fastest.
    #[command(after_long_help = format!("{}\n\n{SEARCH_NOTES}", lqcd::EXAMPLES))]
    Lqcd(Box<TuneLqcd>),
    /// Tune the precisions of tiles of a reconstructor, and write them as a precision map.
    ///
    /// Each trial factorises, solves and judges in the precisions of a map. The best band, tile and
    /// operand rules of the same quality are searched as well, and shown beside the map.
    #[command(
        after_long_help = format!("{}\n\n{SEARCH_NOTES}\n\n{DEVICES}", tor::EXAMPLES),
        mut_arg("output", |arg| arg.help("Write the map for --precision map:FILE; `-` is standard output"))
    )]
    Tor(Box<TuneTor>),
}

/// Options of the search, the same for every verb of `zellige tune`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct TuneSearch {
    /// Condition that a trial must meet, over the measures of the trial and the reference.
    #[arg(long, value_name = "EXPR", value_parser = acceptance)]
    pub accept: Option<Acceptance>,
    /// Maximum number of trials.
    ///
    /// The cheapest accepted trial so far is then the result.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_trials: Option<u64>,
    /// Time in seconds after which no trial starts.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_time: Option<f64>,
    /// Append each trial to this file, and go on from the trials that it has.
    ///
    /// A search that was interrupted, or killed, goes on where it was. Another --accept or budget
    /// uses the trials again.
    #[arg(long, value_name = "FILE.jsonl")]
    pub trials: Option<PathBuf>,
    /// Method: delta, or the baselines greedy and random.
    #[arg(long = "search", value_name = "M", value_enum, default_value_t = TuneMethod::Delta, hide_short_help = true)]
    pub strategy: TuneMethod,
    /// Seed of --search random.
    #[arg(long, value_name = "S", default_value_t = 0, hide_short_help = true)]
    pub seed: u64,
    /// Write the formats of the result as JSON; `-` is standard output.
    #[arg(long, short, value_name = "FILE|-")]
    pub output: Option<Output>,
}

/// Methods of a search; see [`Method`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TuneMethod {
    Delta,
    Greedy,
    Random,
}

impl From<TuneMethod> for Method {
    fn from(method: TuneMethod) -> Self {
        match method {
            TuneMethod::Delta => Method::Delta,
            TuneMethod::Greedy => Method::Greedy,
            TuneMethod::Random => Method::Random,
        }
    }
}

/// Options of `zellige tune command`.
#[derive(Debug, Args)]
pub struct TuneCommand {
    /// Items and their formats; see "Items" below.
    #[arg(value_name = "ITEMS.json")]
    pub items: Input,
    /// Command of a trial; `{}` stands for the file with the formats.
    #[arg(long, value_name = "CMD", value_parser = with_place)]
    pub trial: String,
    /// Time limit of a trial in seconds [default: none].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub trial_timeout: Option<f64>,
    /// Cost of a trial as an expression over its measures [default: the sum of the items' costs].
    ///
    /// For example trial_seconds. The costs of the items then only order the search.
    #[arg(long, value_name = "EXPR", value_parser = cost)]
    pub cost: Option<Expression>,
    /// Check the result on data that the search has not seen.
    ///
    /// The command finds `verify` in ZELLIGE_TUNE_DATA. If the result is not accepted there, the
    /// next dearer accepted trial is checked, and so on.
    #[arg(long)]
    pub verify: bool,
    /// Number of trials that run at once.
    ///
    /// Trials then run ahead, as if those before them were rejected. The result does not change.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub at_once: u16,
    #[command(flatten)]
    pub search: TuneSearch,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

fn acceptance(text: &str) -> Result<Acceptance, String> {
    Acceptance::parse(text).map_err(|error| error.to_string())
}

fn cost(text: &str) -> Result<Expression, String> {
    Expression::parse(text).map_err(|error| error.to_string())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| "use a number of seconds above 0".into())
}

fn with_place(text: &str) -> Result<String, String> {
    match text.contains("{}") {
        true => Ok(text.to_string()),
        false => Err("put {} where the command takes the file with the formats".into()),
    }
}
