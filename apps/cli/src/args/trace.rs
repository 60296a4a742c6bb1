//! The words after `zellige trace`.

use clap::{Args, Subcommand};

use super::paths::Input;
use crate::trace::TraceFile;

pub(super) const EXAMPLES: &str = "\
Examples
  zellige tor run system.toml --precision fp32 --trace run.zt
  zellige trace run.zt                           who was busy with what, the critical path, bounds
  zellige trace run.zt -o run.json -o run.html   the same run for Perfetto, and for a browser
  zellige trace compare before.zt after.zt       which codelets took more or less time, and why the whole did";

/// `trace`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TraceArgs {
    /// See [`TraceVerb`].
    #[command(subcommand)]
    pub verb: Option<TraceVerb>,
    /// A trace in the native form, as `--trace FILE.zt` of other verbs writes it.
    #[arg(value_name = "FILE.zt", required = true)]
    pub file: Option<Input>,
    /// Write it in another form: .json for Perfetto, .paje for ViTE, .html, or .zt again; several times for several forms.
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<TraceFile>,
}

/// What is done with several traces.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Compare two runs: times, bounds, and the time of each codelet.
    Compare(TraceCompareArgs),
}

/// `trace compare`.
#[derive(Debug, Args)]
pub struct TraceCompareArgs {
    /// A trace in the native form.
    #[arg(value_name = "A.zt")]
    pub a: Input,
    /// Another one; ratios are its figures over those of the first.
    #[arg(value_name = "B.zt")]
    pub b: Input,
}
