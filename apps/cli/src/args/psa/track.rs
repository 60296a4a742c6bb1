//! `zellige psa track`.

use crate::args::{Input, Output, OutputFile, OutputFolder};
use clap::Args;
use zellige_psa::events::Energies;

const EXAMPLES: &str = "\
Points that lie close together as seen from the source are put together to gamma rays: clusters for all opening angles, the order of each in which angles and
energies fit Compton's formula best, the best clusters first. Single points and pairs have rules of their own (docs/psa.md).

HITS.json is what `zellige psa run --json` writes: hits with one event number are one event, places are in the frames of the crystals, and `crystal` is the
crystal's number in the array (0 where it is missing). The folder holds gammas.json (points in the laboratory, gamma rays with energies, first points
and orders) and spectra.csv.

With --simulate gamma rays are drawn instead: free paths, Klein and Nishina's angles, pairs, in a shell of 90 mm of germanium or in the crystals of an
array. The table says what part of them comes back in the peak, and what part of all that comes back is in it.

Examples
  zellige psa track hits.json -o tracked --array CrystalPositionLookUpTable --report tracked.html
  zellige psa track hits.json -o tracked --array aeuler --cluster aclust --beta 0.1
  zellige psa track --simulate 10000 --multiplicity 1,5,10,20,30 --report tracking.html
  zellige psa track --simulate 2000 --energy 300:3000 --beta 0.3 --json -";

/// `zellige psa track`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PsaTrackArgs {
    /// What a search wrote: the JSON of `zellige psa run`, or the frames of `zellige psa stream`.
    #[arg(value_name = "HITS", required_unless_present = "simulate", conflicts_with = "simulate")]
    pub hits: Option<Input>,
    /// Frames that begin up to so long after the first of an event belong to it (ns).
    #[arg(long, value_name = "NS", default_value_t = 100)]
    pub coincidence_window: u64,
    /// The folder of gamma rays and spectra.
    #[arg(
        long,
        short,
        value_name = "FOLDER",
        required_unless_present = "simulate",
        conflicts_with = "simulate"
    )]
    pub output: Option<OutputFolder>,
    #[command(flatten)]
    pub geometry: Geometry,
    #[command(flatten)]
    pub tracking: Tracking,
    #[command(flatten)]
    pub simulation: Simulation,
    /// Width of the steps of spectra (keV).
    #[arg(long, value_name = "KEV", default_value_t = 1.0)]
    pub step: f64,
    /// Where spectra end (keV).
    #[arg(long, value_name = "KEV", default_value_t = 4000.0)]
    pub most: f64,
    /// Worker threads; by default one for each core that this process may use.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Write a page with spectra, and with the figures by multiplicity.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<OutputFile>,
    /// Write figures and spectra as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// Where crystals and source are.
#[derive(Debug, Args)]
pub struct Geometry {
    /// The places of the crystals: a table of AGATA (number, shift, rotation), or lines of Euler angles and shifts.
    #[arg(long, value_name = "FILE", conflicts_with = "sphere")]
    pub array: Option<Input>,
    /// The places of crystals in a cluster; --array then places clusters.
    #[arg(long, value_name = "FILE", requires = "array")]
    pub cluster: Option<Input>,
    /// Without an array: 180 crystals that point at the target with their fronts at this distance (mm); with --simulate a shell from there on.
    #[arg(long, value_name = "MM", default_value_t = 235.0)]
    pub sphere: f64,
    /// Where gamma rays begin (mm).
    #[arg(long, value_name = "X,Y,Z", default_value = "0,0,0", value_parser = vector, allow_hyphen_values = true)]
    pub source: [f64; 3],
    /// The speed of the source in parts of that of light.
    #[arg(long, value_name = "B", default_value_t = 0.0)]
    pub beta: f64,
    /// Where it goes.
    #[arg(long, value_name = "X,Y,Z", default_value = "0,0,1", value_parser = vector, allow_hyphen_values = true)]
    pub beam_axis: [f64; 3],
}

/// How points become gamma rays.
#[derive(Debug, Args)]
pub struct Tracking {
    /// Points nearer to each other become one (mm); 0 for none.
    #[arg(long, value_name = "MM", default_value_t = 5.0)]
    pub packing: f64,
    /// Points with less energy are left out (keV).
    #[arg(long, value_name = "KEV", default_value_t = 10.0)]
    pub threshold: f64,
    /// How well places are taken to be known: full width at half maximum at 100 keV (mm).
    #[arg(long, value_name = "MM", default_value_t = 8.0)]
    pub resolution: f64,
    /// How well energies of points are taken to be known: standard deviation (keV).
    #[arg(long, value_name = "KEV", default_value_t = 1.0)]
    pub energy_error: f64,
    /// Points of a gamma ray, up to 12.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u8).range(1..=12))]
    pub points: u8,
    /// The least figure of a gamma ray of several points, from 0 to 1; less likely ones are left out.
    #[arg(long, value_name = "F", default_value_t = 0.05)]
    pub accept: f64,
}

/// What is drawn.
#[derive(Debug, Args)]
pub struct Simulation {
    /// Draw so many events of each multiplicity instead of reading hits.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub simulate: Option<u32>,
    /// Gamma rays of an event, one number after the other.
    #[arg(long, value_name = "N,...", default_value = "1,5,10,20,30", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=200))]
    pub multiplicity: Vec<u8>,
    /// Energies as the source sends them out (keV): 1000, a line; 300:3000, as many in every octave; uniform:300:3000.
    #[arg(long, value_name = "KEV", default_value = "1000")]
    pub energy: Energies,
    /// Error of places: full width at half maximum at 100 keV (mm).
    #[arg(long, value_name = "MM", default_value_t = 5.0)]
    pub smearing: f64,
    /// Error of energies: full width at half maximum (keV).
    #[arg(long, value_name = "KEV", default_value_t = 2.0)]
    pub energy_width: f64,
    /// How far from what was sent out the peak goes (keV).
    #[arg(long, value_name = "KEV", default_value_t = 5.0)]
    pub window: f64,
    /// Of the random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

fn vector(text: &str) -> Result<[f64; 3], String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse::<f64>()).collect();
    let numbers = numbers.ok().and_then(|numbers| <[f64; 3]>::try_from(numbers).ok());
    numbers.ok_or_else(|| "three numbers with commas between them, as 0,0,1".into())
}
