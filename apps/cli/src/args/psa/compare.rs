//! `zellige psa compare`.

use crate::args::{Input, Output, OutputFile};
use clap::Args;

const EXAMPLES: &str = "\
Hits are those of the same event and segment. Answers that agree name one point; others are within 5 mm of each other, beyond 20 mm, or in between. All figures are given for all events and for each
energy class of the first run's events.

Example
  zellige psa compare fast.json full.json --truth events --report compare.html";

/// `zellige psa compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PsaCompareArgs {
    /// What a run wrote (`zellige psa run --json`).
    #[arg(value_name = "A.json")]
    pub a: Input,
    /// What another run of the same events wrote: the one to compare with.
    #[arg(value_name = "B.json")]
    pub b: Input,
    /// Where the hits happened: a folder of `zellige psa events`, or an npy array of events x 3 (mm).
    #[arg(long, value_name = "FOLDER|FILE.npy")]
    pub truth: Option<Input>,
    /// Write a page with pictures: distances, energies of hits that differ, resolution by energy where the truth is known.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<OutputFile>,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}
