//! Options of `zellige psa simulate` and `zellige psa events`.

use crate::args::{Input, OutputFolder, RunOutputs, word};
use clap::{Args, ValueEnum};
use zellige_psa::drift::Trapping;
use zellige_psa::events::{Energies, Within};

pub(super) const SIMULATE_EXAMPLES: &str = "\
The simulation computes fields on a grid (the Poisson equation, and a weighting potential for \
each of the 37 contacts), the drift of electrons and holes, and the signals of all contacts \
after the preamplifiers. A crystal of AGATA at 2 mm has 47 589 points and takes half a minute on \
two cores.

The folder holds positions.npy (mm), segments.npy, signals.npy (points x 37 x samples, 1 is the \
whole charge) and basis.toml; and potential.npy and weighting.npy (z, y, x), which `zellige psa \
events` uses.

Examples
  A crystal to edit, and its basis:
    zellige psa crystal > mine.toml
    zellige psa simulate --crystal mine.toml -o basis
  A hexagonal crystal of greta_siggen, with the files that it names:
    zellige psa simulate --crystal A1.config --tau 30 -o basis
  Two bytes per sample, 1/16384 of the whole charge:
    zellige psa simulate --format i16 -o basis
  zellige records: 121 samples of 5 ns, 17 932 bytes per point:
    zellige psa simulate --format record -o basis.dat
  A basis of GRETINA: 50 samples of 10 ns, points by r, phi and z:
    zellige psa simulate --format gretina -o basis.dat --step 1.5";

pub(super) const EVENTS_EXAMPLES: &str = "\
Positions are uniform in the crystal and not those of the basis; the signals are those of a \
drift from there. The same seed gives the same events for any number of workers. The folder \
holds signals.npy (keV, events x 37 x samples), energies.npy, positions.npy and segments.npy \
(events x hits), timestamps.npy (ns) and events.toml.

Examples
  1000 events of 15 keV to 5 MeV:
    zellige psa events --basis basis -o ev
  A line, with less noise:
    zellige psa events --basis basis --energy 1332 --noise 1 -o co60
  A detector that differs from the basis:
    zellige psa events --basis basis --speed 1.04 --tau 38 \\
        --cross-talk -0.0015 -o other
  Two hits in one segment:
    zellige psa events --basis basis --hits 2 --within segment -o pairs";

/// Options of `psa simulate`.
#[derive(Debug, Args)]
pub struct PsaSimulate {
    /// Crystal: TOML or a .config of greta_siggen [default: the crystal of `psa crystal`].
    #[arg(long, value_name = "FILE")]
    pub crystal: Option<Input>,
    /// Spacing of the grid of the fields (mm).
    #[arg(long, value_name = "MM", default_value_t = 1.0)]
    pub grid: f64,
    /// Spacing of the points of the basis (mm).
    #[arg(long, value_name = "MM", default_value_t = 2.0)]
    pub step: f64,
    /// Number of samples of a signal [default: 60].
    ///
    /// It must be large enough for every charge to be collected.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub samples: Option<u16>,
    /// Time between samples (ns) [default: 10].
    #[arg(long, value_name = "NS")]
    pub sample_step: Option<f64>,
    /// Number of samples before charges move [default: 2].
    #[arg(long, value_name = "N")]
    pub before: Option<u16>,
    /// Format: f32 or i16 (a folder), record or gretina (a file).
    ///
    /// record: zellige records, with sizes as in AGATA's records and scalars in zellige's own
    /// order. gretina: a basis of GRETINA on a cylindrical lattice. Both have their own sampling.
    #[arg(long, value_name = "FORMAT", default_value = "f32")]
    pub format: BasisFormat,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Folder or file of the basis.
    #[arg(long, short, value_name = "FOLDER|FILE")]
    pub output: OutputFolder,
    #[command(flatten)]
    pub electronics: Electronics,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Response of the electronics between crystal and samples.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Electronics")]
pub struct Electronics {
    /// Time constant of the preamplifiers (ns) [default: 35, or the basis' own].
    #[arg(long, value_name = "NS")]
    pub tau: Option<f64>,
    /// Cross-talk between segments: proportional, e.g. -0.0015[, and differential (ns)].
    #[arg(long, value_name = "SHARE[,NS]", value_parser = cross_talk)]
    pub cross_talk: Option<(f64, Option<f64>)>,
}

fn cross_talk(text: &str) -> Result<(f64, Option<f64>), String> {
    let (proportional, differential) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
    let number = |text: &str| {
        text.trim().parse().map_err(|_| "use a share, or a share and a time in ns, e.g. -0.0015,2")
    };
    Ok((number(proportional)?, differential.map(number).transpose()?))
}

/// Format of a basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BasisFormat {
    /// Four bytes per sample.
    F32,
    /// Two bytes per sample, in multiples of 1/16384 of the whole charge.
    I16,
    /// Records of 121 samples of 5 ns.
    Record,
    /// Records of 50 samples of 10 ns, points by r, phi and z.
    Gretina,
}

/// Options of `psa events`.
#[derive(Debug, Args)]
pub struct PsaEvents {
    /// Folder of a basis, which also provides crystal, fields, electronics and sampling.
    #[arg(long, value_name = "FOLDER")]
    pub basis: Input,
    /// Number of events.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    pub count: u32,
    /// Seed of the random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Energies (keV): 15:5000 (log-uniform), uniform:15:5000, or 1332.
    #[arg(long, value_name = "KEV", default_value = "15:5000", value_parser = word::<Energies>)]
    pub energy: Energies,
    /// Number of hits of an event; they share its energy.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub hits: u8,
    /// Positions of the hits: crystal, segment (all in one), segments (one in each).
    #[arg(long, value_name = "WHERE", default_value = "crystal", value_parser = word::<Within>)]
    pub within: Within,
    /// Noise of a sample (keV rms).
    #[arg(long, value_name = "KEV", default_value_t = 2.5)]
    pub noise: f64,
    /// Step of the digitiser (keV); 0 for none.
    #[arg(long, value_name = "KEV", default_value_t = 0.4)]
    pub adc_step: f64,
    /// Mean rate of events (1/s).
    #[arg(long, value_name = "HZ", default_value_t = 10_000.0)]
    pub rate: f64,
    /// Charge trapping: mean path of holes[, electrons] (mm).
    #[arg(long, value_name = "MM[,MM]", value_parser = word::<Trapping>)]
    pub trapping: Option<Trapping>,
    /// Factor on all drift velocities.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Folder of the events.
    #[arg(long, short, value_name = "FOLDER")]
    pub output: OutputFolder,
    #[command(flatten)]
    pub electronics: Electronics,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
