//! `zellige psa simulate` and `zellige psa events`.

use crate::args::{Input, OutputFile, OutputFolder};
use clap::{Args, ValueEnum};
use zellige_psa::drift::Trapping;
use zellige_psa::events::{Energies, Within};

pub(super) const SIMULATE_EXAMPLES: &str = "\
Fields on a grid (Poisson, and a weighting potential for each of the 37 contacts), drift of electrons and holes, the signals of all contacts
behind preamplifiers. A crystal of AGATA at 2 mm has 47 589 points and takes half a minute on two cores.

The folder holds positions.npy (mm), segments.npy, signals.npy (points x 37 x samples, 1 is the whole charge) and basis.toml;
potential.npy and weighting.npy (z, y, x) for what `zellige psa events` does.

Examples
  zellige psa crystal > mine.toml                       a crystal to edit
  zellige psa simulate --crystal mine.toml -o basis     its basis
  zellige psa simulate --values i16 -o basis            2 bytes a sample, 1/16384 of the whole charge
  zellige psa simulate --agata basis.dat                AGATA's records: 121 samples of 5 ns, 17 932 bytes a point
  zellige psa simulate --gretina basis.dat --step 1.5   a basis of GRETINA: 50 samples of 10 ns, points by r, phi and z";

pub(super) const EVENTS_EXAMPLES: &str = "\
Places are uniform in the crystal and not those of the basis; signals are those of a drift from there. The same seed gives the same events on any
number of workers. The folder holds signals.npy (keV, events x 37 x samples), energies.npy, positions.npy and segments.npy (events x hits),
timestamps.npy (ns) and events.toml.

Examples
  zellige psa events --basis basis -o ev                          1000 events of 15 keV to 5 MeV
  zellige psa events --basis basis --energy 1332 --noise 1 -o co60   a line, less noise
  zellige psa events --basis basis --speed 1.04 --tau 38 --jitter 3 --cross-talk -0.0015 -o other
                                                                  a detector that is not quite what the basis says
  zellige psa events --basis basis --hits 2 --within segment -o pairs";

/// `psa simulate`.
#[derive(Debug, Args)]
pub struct PsaSimulate {
    /// The crystal, a TOML file; by default the one that `zellige psa crystal` prints.
    #[arg(long, value_name = "FILE.toml")]
    pub crystal: Option<Input>,
    /// Distance of the nodes of the fields (mm).
    #[arg(long, value_name = "MM", default_value_t = 1.0)]
    pub grid: f64,
    /// Distance of the points of the basis (mm).
    #[arg(long, value_name = "MM", default_value_t = 2.0)]
    pub step: f64,
    /// Voltage of the core instead of the file's (V).
    #[arg(long, value_name = "V", allow_negative_numbers = true)]
    pub bias: Option<f64>,
    /// Samples of a signal: enough for every charge to settle.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..))]
    pub samples: u16,
    /// Time between samples (ns).
    #[arg(long, value_name = "NS", default_value_t = 10.0)]
    pub sample_step: f64,
    /// Samples before charges move.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub before: u16,
    #[command(flatten)]
    pub electronics: Electronics,
    /// How signals are stored.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub values: BasisValues,
    /// Leave the fields out of the folder; `psa events` then solves for them again.
    #[arg(long)]
    pub no_fields: bool,
    /// Worker threads; by default one for each core that this process may use.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// The folder of the basis.
    #[arg(long, short, value_name = "FOLDER", required_unless_present_any = ["agata", "gretina"])]
    pub output: Option<OutputFolder>,
    /// Write AGATA's records into this file instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "samples", "sample_step", "before", "values"])]
    pub agata: Option<OutputFile>,
    /// Write a basis of GRETINA into this file instead: points on a lattice in cylindrical coordinates.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "agata", "samples", "sample_step", "before", "values"])]
    pub gretina: Option<OutputFile>,
}

/// What lies between crystal and samples.
#[derive(Clone, Copy, Debug, Args)]
pub struct Electronics {
    /// Time constant of the preamplifiers (ns); 35 unless a basis says otherwise.
    #[arg(long, value_name = "NS")]
    pub tau: Option<f64>,
    /// What each segment gets of every other one's signal; measured: about -0.0015.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub cross_talk: Option<f64>,
    /// What each segment gets of every other one's slope (ns).
    #[arg(long, value_name = "NS", allow_negative_numbers = true)]
    pub differential_cross_talk: Option<f64>,
}

/// How signals are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BasisValues {
    /// Four bytes a sample.
    F32,
    /// Two bytes a sample, in multiples of 1/16384 of the whole charge.
    I16,
}

/// `psa events`.
#[derive(Debug, Args)]
pub struct PsaEvents {
    /// The folder of a basis: its crystal, fields, electronics and sampling are those of the events.
    #[arg(long, value_name = "FOLDER")]
    pub basis: Input,
    /// How many events.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    pub count: u32,
    /// Of the random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Energies (keV): 15:5000, as many in every octave; uniform:15:5000; 1332, a line.
    #[arg(long, value_name = "KEV", default_value = "15:5000")]
    pub energy: Energies,
    /// Hits of an event, which share its energy.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub hits: u8,
    /// Where they are: crystal, anywhere; segment, all in one; segments, each in its own.
    #[arg(long, value_name = "WHERE", default_value = "crystal")]
    pub within: Within,
    /// Noise of a sample (keV rms).
    #[arg(long, value_name = "KEV", default_value_t = 2.5)]
    pub noise: f64,
    /// Correlation of the noise of neighbouring samples.
    #[arg(long, value_name = "RHO", default_value_t = 0.55)]
    pub correlation: f64,
    /// Step of the digitiser (keV); 0 for none.
    #[arg(long, value_name = "KEV", default_value_t = 0.4)]
    pub adc_step: f64,
    /// Standard deviation of the time at which charges begin to move (ns).
    #[arg(long, value_name = "NS", default_value_t = 0.0)]
    pub jitter: f64,
    /// Mean rate of events (1/s).
    #[arg(long, value_name = "HZ", default_value_t = 10_000.0)]
    pub rate: f64,
    /// Charges are caught on their way: how far holes, and perhaps electrons, come in the mean (mm).
    #[arg(long, value_name = "MM[,MM]")]
    pub trapping: Option<Trapping>,
    /// All charges are faster than the basis says by this factor.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    #[command(flatten)]
    pub electronics: Electronics,
    /// Worker threads; by default one for each core that this process may use.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// The folder of the events.
    #[arg(long, short, value_name = "FOLDER")]
    pub output: OutputFolder,
}
