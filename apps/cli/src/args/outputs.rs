//! Output options of every verb that runs tasks.

use clap::Args;

use super::paths::{Output, OutputFile};
use super::trace_file::TraceFile;

/// Files that a verb writes about its run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Results")]
pub struct RunOutputs {
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
    /// Write an HTML page with the results and a summary of the trace.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<OutputFile>,
    /// Write a trace of every worker: .zt for zellige trace, .json for Perfetto, .paje for ViTE,
    /// .html.
    ///
    /// zellige trace converts a .zt file to all other forms. chrome://tracing also opens .json, and
    /// ViTE also opens .trace.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<TraceFile>,
}
