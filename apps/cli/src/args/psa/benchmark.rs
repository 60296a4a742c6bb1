//! Options of `zellige psa benchmark`.

use crate::args::{Input, RunOutputs};
use clap::Args;
use zellige_psa::channels::ChannelSet;
use zellige_psa::events::Energies;

pub(super) const TABLES_EXAMPLES: &str = "\
Events with one hit each are simulated on the basis' own fields, for each noise and each seed; every search is compared with the full one in fp32 (fgs fp32): how
many of its points are the same, within 5 mm, beyond 20 mm, and how far they are from where the events happened. Figures are means over seeds, with the
range behind them where there are several. What is published of a search stands beside it.

Examples
  zellige psa benchmark --basis basis --report tables.html
  zellige psa benchmark --basis basis -n 5000 --noise 1,2.5,5 --seeds 1,2,3 --json tables.json";

/// Options of `zellige psa benchmark`.
#[derive(Debug, Args)]
pub struct PsaBenchmark {
    /// Folder of a basis.
    #[arg(long, value_name = "FOLDER")]
    pub basis: Input,
    /// Number of events for each noise level and seed.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Noise levels of a sample (keV rms).
    #[arg(long, value_name = "KEV", default_value = "2.5", value_delimiter = ',')]
    pub noise: Vec<f64>,
    /// Seeds of the random numbers.
    #[arg(long, value_name = "S", default_value = "1", value_delimiter = ',')]
    pub seeds: Vec<u64>,
    /// Energies (keV), as for `psa events`.
    #[arg(long, value_name = "KEV", default_value = "15:5000")]
    pub energy: Energies,
    /// Factor on the drift velocities of the events.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// Sets of channels to compare.
    #[arg(long, value_name = "SET", default_value = "hit-core,neighbours", value_delimiter = ',')]
    pub channels: Vec<ChannelSet>,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
