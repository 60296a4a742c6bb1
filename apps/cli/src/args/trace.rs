//! The words after `zellige trace`.

use clap::{Args, Subcommand};

use super::paths::{Input, Output};

pub(super) const EXAMPLES: &str = "\
Examples
  zellige tor run system.toml --precision fp32 --trace run.zt
  zellige trace summary run.zt                   who was busy with what, the critical path, bounds
  zellige trace html run.zt                      run.html: every task on its worker, in a browser
  zellige trace perfetto run.zt -o tasks.json    the same for https://ui.perfetto.dev
  zellige trace compare before.zt after.zt       which codelets took more or less time, and why the whole did";

/// `trace`: what becomes of a native trace.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Print codelets, workers, links, the critical path and bounds.
    Summary(TraceSummaryArgs),
    /// Write a page for any browser: every task and transfer, no server and no network needed.
    Html(TraceFormArgs),
    /// Write JSON for Perfetto (https://ui.perfetto.dev) and chrome://tracing.
    Perfetto(TraceFormArgs),
    /// Write a file in Paje's language, for ViTE.
    Paje(TraceFormArgs),
    /// Compare two runs: times, bounds, and the time of each codelet.
    Compare(TraceCompareArgs),
}

/// `trace summary`.
#[derive(Debug, Args)]
pub struct TraceSummaryArgs {
    /// A trace in the native form, as `--trace FILE.zt` of other verbs writes it.
    #[arg(value_name = "FILE.zt")]
    pub file: Input,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// `trace html`, `trace perfetto`, `trace paje`.
#[derive(Debug, Args)]
pub struct TraceFormArgs {
    /// A trace in the native form, as `--trace FILE.zt` of other verbs writes it.
    #[arg(value_name = "FILE.zt")]
    pub file: Input,
    /// Where to; `-` is standard output. Without it: the trace's name with the ending of the form.
    #[arg(short, long, value_name = "FILE|-")]
    pub output: Option<Output>,
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
