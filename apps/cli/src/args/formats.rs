//! Options of `zellige formats`.

use clap::Args;

use super::paths::{Output, OutputFile};

/// Options of `formats`.
#[derive(Debug, Args)]
pub struct FormatsArgs {
    /// Write the formats as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
    /// Write an HTML page with the formats.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<OutputFile>,
}
