//! Options of `zellige trace`.

use clap::{Args, Subcommand};

use super::paths::{Input, Output};

pub(super) const EXAMPLES: &str = "\
Examples
  zellige tor run system.toml --precision fp32 --trace run.zt
  Codelets, workers, the critical path and bounds:
    zellige trace summary run.zt
  run.html, with every task on its worker, for a browser:
    zellige trace html run.zt
  The same for the page ui.perfetto.dev:
    zellige trace perfetto run.zt -o tasks.json
  Codelets that took more or less time, and the cause of the difference:
    zellige trace compare before.zt after.zt";

/// Verbs of `zellige trace`, which read a native trace.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Print codelets, workers, links, the critical path and bounds.
    Summary(TraceSummaryArgs),
    /// Write a page for any browser with every task and transfer; no server and no network needed.
    Html(TraceFormArgs),
    /// Write JSON for Perfetto (https://ui.perfetto.dev) and chrome://tracing.
    Perfetto(TraceFormArgs),
    /// Write a file in the Paje format, for ViTE.
    Paje(TraceFormArgs),
    /// Compare two runs: times, bounds, and the time of each codelet.
    Compare(TraceCompareArgs),
}

/// Options of `trace summary`.
#[derive(Debug, Args)]
pub struct TraceSummaryArgs {
    /// Native trace, as `--trace FILE.zt` of other verbs writes it.
    #[arg(value_name = "FILE.zt")]
    pub file: Input,
    /// Write the summary as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// Options of `trace html`, `trace perfetto` and `trace paje`.
#[derive(Debug, Args)]
pub struct TraceFormArgs {
    /// Native trace, as `--trace FILE.zt` of other verbs writes it.
    #[arg(value_name = "FILE.zt")]
    pub file: Input,
    /// Output file; `-` is standard output [default: the trace's name with the ending of the form].
    #[arg(short, long, value_name = "FILE|-")]
    pub output: Option<Output>,
}

/// Options of `trace compare`.
#[derive(Debug, Args)]
pub struct TraceCompareArgs {
    /// First native trace.
    #[arg(value_name = "A.zt")]
    pub a: Input,
    /// Second native trace; ratios are relative to the first.
    #[arg(value_name = "B.zt")]
    pub b: Input,
}
