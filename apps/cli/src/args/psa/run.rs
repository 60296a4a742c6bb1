//! `zellige psa run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zellige_psa::channels::{ChannelSet, Segment};
use zellige_psa::search::{Precision, Screen, Table};

const EXAMPLES: &str = "\
The figure of merit of a point is the sum over channels and samples of |V - B|^p, with the event's signals V and the point's B for a charge of 1000. The
smallest wins, and of equal ones the point with the lowest number.

Methods (--method)
  fgs       every point
  cfgs      the points of a 6 mm lattice, then the fine ones around the best of them (--cells)
  screen    every point by a cheaper measure (--screen), then the best of them (--top) by the figure of merit
  exact     fgs in fp64, proven: a screen leaves in question what its known error allows, and that is compared again

Precisions (--precision)
  fp64, fp32, fp16 (every operation rounded as pairs of f16 are on GPUs), mixed (first stage fp16, second fp32), int16 (samples in fixed point), bf16

Files are npy arrays: the basis by point, channel and sample (float32 or float64, where 1 is the whole charge, or int16, where 16384 is), positions by point
(mm), events by event, channel and sample (keV), energies (keV). With 37 channels they are those of a crystal, 36 segments and the core; with fewer
the first is the hit segment's and the last the core's, positive where charge is collected.

Examples
  zellige psa run --basis B.npy --positions P.npy --events E.npy --energies K.npy --json hits.json
  zellige psa run --basis B.npy --positions P.npy --events E.npy --energies K.npy --channels hit-core --method cfgs --precision mixed";

/// `zellige psa run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PsaRunArgs {
    /// Signals of known points.
    #[arg(long, value_name = "FILE.npy")]
    pub basis: PathBuf,
    /// Where the points are.
    #[arg(long, value_name = "FILE.npy")]
    pub positions: PathBuf,
    /// Signals of events.
    #[arg(long, value_name = "FILE.npy")]
    pub events: PathBuf,
    /// Energies of events.
    #[arg(long, value_name = "FILE.npy")]
    pub energies: PathBuf,
    /// The segment that was hit, 0 to 35; of meaning with 37 channels.
    #[arg(long, value_name = "N", default_value = "0", value_parser = segment)]
    pub segment: Segment,
    /// Which channels are compared: hit-core, neighbours (10 of 37), all.
    #[arg(long, value_name = "SET", default_value = "all")]
    pub channels: ChannelSet,
    /// Which points are compared.
    #[arg(long, value_name = "METHOD", default_value = "screen")]
    pub method: PsaMethod,
    /// The exponent of the figure of merit.
    #[arg(long, value_name = "P", default_value_t = 0.3)]
    pub p: f64,
    /// fp64, fp32, fp16, mixed, int16, bf16.
    #[arg(long, value_name = "PRECISION", default_value = "fp32")]
    pub precision: Precision,
    /// Powers from a table: none, whole (2 MB, at whole thousandths), log (16 KB, with straight lines in between).
    #[arg(long, value_name = "TABLE", default_value = "none")]
    pub lut: Table,
    /// What a screen compares by: quarter (about p = 1/4, from bits), bits (about p, from bits), linear, square, product (square, faster), power.
    #[arg(long, value_name = "SCREEN", default_value = "quarter")]
    pub screen: Screen,
    /// How many points a screen keeps.
    #[arg(long, value_name = "K", default_value_t = 8)]
    pub top: usize,
    /// Around how many coarse points cfgs looks at fine ones.
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub cells: usize,
    /// Say of each answer of a screen whether it is proven to be that of fgs in fp64 (with --screen bits).
    #[arg(long)]
    pub certify: bool,
    /// With more points in question than this exact compares every point.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub cap: usize,
    /// Events of a task.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub batch: u16,
    /// Worker threads; by default one per core that this process may use.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Write the answers as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// See [`PsaRunArgs::method`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PsaMethod {
    /// Full grid search.
    Fgs,
    /// Coarse and fine grid search.
    Cfgs,
    /// A screen, and the best of it again.
    Screen,
    /// Full grid search in fp64, by a screen and a proof.
    Exact,
}

fn segment(text: &str) -> Result<Segment, String> {
    let segment = text.parse().ok().and_then(Segment::from_index);
    segment.ok_or_else(|| "a number from 0 to 35".into())
}
