//! The words after `zellige trace`.

use clap::Args;

use super::paths::Input;
use crate::trace::TraceFile;

pub(super) const EXAMPLES: &str = "\
Examples
  zellige tor run system.toml --precision fp32 --trace run.zt
  zellige trace run.zt                           who was busy with what, the critical path, bounds
  zellige trace run.zt -o run.json -o run.html   the same run for Perfetto, and for a browser";

/// `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// A trace in the native form, as `--trace FILE.zt` of other verbs writes it.
    #[arg(value_name = "FILE.zt")]
    pub file: Input,
    /// Write it in another form: .json for Perfetto, .paje for ViTE, .html, or .zt again; several times for several forms.
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<TraceFile>,
}
