//! Options of `zellige psa track`.

use crate::args::{Input, OutputFolder, RunOutputs, word};
use clap::Args;
use zellige_psa::events::Energies;
use zellige_psa::track::Motion;

const EXAMPLES: &str = "\
Points that are close together as seen from the source are combined into gamma rays: clusters \
for all opening angles, in the order of points whose angles and energies best fit Compton's \
formula, the best clusters first. Single points and pairs have rules of their own \
(docs/explanation/psa-tracking.md).

HITS.json is the output of `zellige psa run --json`. Hits with the same event number are one \
event. Positions are in the frames of the crystals, and `crystal` is the number of the crystal \
in the array (0 if it is missing). The folder holds gammas.json (points in the laboratory frame, \
gamma rays with energies, first points and orders) and spectra.csv.

With --simulate, gamma rays are simulated instead: free paths, angles by Klein and Nishina, and \
pairs, in a shell of 90 mm of germanium or in the crystals of an array. The table has the \
fraction of gamma rays in the peak, and the ratio of the peak to all reconstructed gamma rays.

Examples
  zellige psa track hits.json -o tracked --array CrystalPositionLookUpTable \\
      --report tracked.html
  zellige psa track hits.json -o tracked --array aeuler --cluster aclust \\
      --beta 0.1
  zellige psa track --simulate 10000 --multiplicity 1,5,10,20,30 \\
      --report tracking.html
  zellige psa track --simulate 2000 --energy 300:3000 --beta 0.3 --json -";

/// Options of `zellige psa track`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct PsaTrackArgs {
    /// Hits: JSON of `psa run`, or frames of `psa stream`.
    #[arg(value_name = "HITS", required_unless_present = "simulate", conflicts_with = "simulate")]
    pub hits: Option<Input>,
    /// Time window for the frames of one event, from its first frame on (ns).
    #[arg(long, value_name = "NS", default_value_t = 100, hide_short_help = true)]
    pub coincidence_window: u64,
    /// Output folder of gamma rays and spectra.
    #[arg(
        long,
        short,
        value_name = "FOLDER",
        required_unless_present = "simulate",
        conflicts_with = "simulate"
    )]
    pub output: Option<OutputFolder>,
    /// Bin width of spectra (keV).
    #[arg(long, value_name = "KEV", default_value_t = 1.0, hide_short_help = true)]
    pub step: f64,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub geometry: Geometry,
    #[command(flatten)]
    pub tracking: Tracking,
    #[command(flatten)]
    pub simulation: Simulation,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Positions of the crystals and the source.
#[derive(Debug, Args)]
#[command(next_help_heading = "Geometry")]
pub struct Geometry {
    /// Positions of the crystals.
    ///
    /// The file is a table of AGATA (number, shift, rotation), or has lines of Euler angles and
    /// shifts.
    #[arg(long, value_name = "FILE", conflicts_with = "sphere")]
    pub array: Option<Input>,
    /// Positions of the crystals in a cluster; --array then places clusters.
    #[arg(long, value_name = "FILE", requires = "array", hide_short_help = true)]
    pub cluster: Option<Input>,
    /// Inner radius of the sphere of 180 crystals without --array (mm).
    ///
    /// With --simulate, the inner radius of a shell of germanium.
    #[arg(long, value_name = "MM", default_value_t = 235.0)]
    pub sphere: f64,
    /// Position of the source (mm).
    #[arg(long, value_name = "X,Y,Z", default_value = "0,0,0", value_parser = vector)]
    pub source: [f64; 3],
    /// Velocity of the source (v/c): along z, or a vector.
    #[arg(long, value_name = "B|X,Y,Z", default_value = "0", value_parser = motion)]
    pub beta: Motion,
}

/// Parameters of the tracking, which combines points into gamma rays.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracking")]
pub struct Tracking {
    /// Drop points below this energy (keV).
    #[arg(long, value_name = "KEV", default_value_t = 10.0, hide_short_help = true)]
    pub threshold: f64,
    /// Assumed position resolution: FWHM at 100 keV (mm).
    #[arg(long, value_name = "MM", default_value_t = 8.0, hide_short_help = true)]
    pub resolution: f64,
}

/// Parameters of the simulated gamma rays.
#[derive(Debug, Args)]
#[command(next_help_heading = "Simulation")]
pub struct Simulation {
    /// Simulate this number of events of each multiplicity instead of reading hits.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub simulate: Option<u32>,
    /// Gamma rays in an event: a list.
    #[arg(long, value_name = "N,...", default_value = "1,5,10,20,30", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=200))]
    pub multiplicity: Vec<u8>,
    /// Energies (keV): 1000, 300:3000 (log-uniform), or uniform:300:3000.
    #[arg(long, value_name = "KEV", default_value = "1000", value_parser = word::<Energies>)]
    pub energy: Energies,
    /// Position error: FWHM at 100 keV (mm).
    #[arg(long, value_name = "MM", default_value_t = 5.0, hide_short_help = true)]
    pub smearing: f64,
    /// Half width of the peak (keV).
    #[arg(long, value_name = "KEV", default_value_t = 5.0, hide_short_help = true)]
    pub window: f64,
    /// Seed of the random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

fn motion(text: &str) -> Result<Motion, String> {
    if let Ok(beta) = text.parse() {
        return Ok(Motion { beta, ..Motion::default() });
    }
    let axis = vector(text).map_err(|_| "use one number, or three separated by commas, e.g. 0.1,0,0")?;
    Ok(match axis.iter().map(|x| x * x).sum::<f64>().sqrt() {
        0.0 => Motion::default(),
        beta => Motion { beta, axis },
    })
}

fn vector(text: &str) -> Result<[f64; 3], String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse::<f64>()).collect();
    let numbers = numbers.ok().and_then(|numbers| <[f64; 3]>::try_from(numbers).ok());
    numbers.ok_or_else(|| "use three numbers separated by commas, e.g. 0,0,1".into())
}
