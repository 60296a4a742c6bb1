//! Options of `zellige psa benchmark`.

use crate::args::{Input, RunOutputs, word};
use clap::Args;
use zellige_psa::channels::ChannelSet;
use zellige_psa::events::Energies;

pub(super) const TABLES_EXAMPLES: &str = "\
Events with one hit each are simulated on the fields of the basis, for each noise level and \
seed. Every search is compared with the full search in fp32 (fgs fp32): the fraction of the same \
points, within 5 mm and beyond 20 mm, and the distance from the true positions. The figures are \
means over the seeds, with their range if there are several, next to published figures of the \
search.

Examples
  zellige psa benchmark --basis basis --report tables.html
  zellige psa benchmark --basis basis -n 5000 --noise 1,2.5,5 --seed 1,2,3 \\
      --json tables.json";

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
    pub seed: Vec<u64>,
    /// Energies (keV), as for `psa events`.
    #[arg(long, value_name = "KEV", default_value = "15:5000", value_parser = word::<Energies>)]
    pub energy: Energies,
    /// Factor on the drift velocities of the events.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// Sets of channels to compare.
    #[arg(long, value_name = "SET", default_value = "hit-core,neighbours", value_delimiter = ',', value_parser = word::<ChannelSet>)]
    pub channels: Vec<ChannelSet>,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
