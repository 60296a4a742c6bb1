//! Options of `zellige psa compare`.

use crate::args::{Input, Output, OutputFile};
use clap::Args;

const EXAMPLES: &str = "\
Hits of the same event and segment are compared. The figures are the fractions of hits with the \
same point, within 5 mm of each other, and beyond 20 mm. They are given for all events and for \
each energy class of the events of the first run.

Examples
  One run and the true positions:
    zellige psa compare hits.json --truth events
  Two runs:
    zellige psa compare fast.json full.json --truth events --report compare.html";

/// Options of `zellige psa compare`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct PsaCompareArgs {
    /// Results of a run (`psa run --json`).
    #[arg(value_name = "A.json")]
    pub a: Input,
    /// Results of another run of the same events: the reference. Optional with --truth.
    #[arg(value_name = "B.json", required_unless_present = "truth")]
    pub b: Option<Input>,
    /// True positions: a folder of `psa events`, or an npy array (events x 3, mm).
    #[arg(long, value_name = "FOLDER|FILE.npy")]
    pub truth: Option<Input>,
    /// Write an HTML page: distances, energies of hits that differ, resolution.
    #[arg(long, value_name = "FILE.html", help_heading = "Results")]
    pub report: Option<OutputFile>,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
}
