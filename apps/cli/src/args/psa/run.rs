//! Options of `zellige psa run`.

use clap::Args;
use zellige_psa::channels::{ChannelSet, Segment};
use zellige_psa::drift::Trapping;
use zellige_psa::search::saturation::Saturated;
use zellige_psa::search::{Method, PowerTable, Precision};

use crate::args::ExecutionArgs;
use crate::args::execution::DEVICES;
use crate::args::{Input, RunOutputs, word};

const EXAMPLES: &str = "\
The figure of merit of a point is the sum over channels and samples of |V - B|^p, with the \
signals V of the event and B of the point, for a charge of 1000. The smallest figure is \
selected, and among equal figures the point with the lowest number.

Precisions (--precision)
  fp64, fp32
  fp16     Each operation is rounded, like pairs of f16 on GPUs.
  mixed    The first stage in fp16, the second in fp32.
  int16    Samples in fixed point.
  bf16

With folders, whole crystals are searched. A segment that has collected at least --threshold has \
a hit. Each hit is searched for in the signals minus those of the other hits, in up to four \
passes.

The basis of a whole crystal is one of
  - a folder of `psa simulate`,
  - a basis of GRETINA (it begins with \"GRETA basis signals\"),
  - zellige records (`psa simulate --format record`),
  - an archive (FILE.npz, FILE.h5, or a group: FILE.lh5/GROUP) with signals
    (points x 37 x samples), positions (mm), segments (0 to 35) and sampling (ns
    between samples, number of samples before charges move; dt and t0 if signals
    are a table of waveforms).

Its events are one of
  - a folder of `psa events`,
  - an array (events x 37 x samples, keV, sampled as the basis),
  - GEB frames: those of `psa frames --channels all`, or traces of digitisers
    (mode 3) with --channel-map FILE.

Keys of the channel map
  step = 10.0       ns between samples, as in the basis
  baseline = 20     number of first samples, whose mean is subtracted
  begin = 98        sample of a trace that is the first one of the event
  [[channel]]       one for each of the 37 contacts; other channels are ignored
  board = 3, module = 17, channel = 9
                    numbers in the header of the trace
  segment = 14      0 to 35 (6 sector + ring), or \"core\"
  gain = 0.21       keV of one step of the digitiser
  polarity = -1     1 if collected charge raises the trace, -1 if it lowers it
  t0 = 12.5         delay of this channel relative to the others (ns); default 0

With --positions and --energies, the inputs are arrays of the hits of one segment: the basis by \
point, channel and sample (1 is the whole charge; 16384 in int16), positions by point (mm), \
events by event, channel and sample (keV), and energies (keV). Arrays are npy files or members \
of an archive (FILE.npz/NAME; FILE.h5/NAME in a build with the feature hdf5). Numbers can have \
any type; only those of an int16 basis are scaled. Arrays with 37 channels have the 36 segments \
and the core of a crystal. With fewer channels, the first is the hit segment and the last the \
core, positive for collected charge.

Examples
  zellige psa run --basis basis --events ev --json hits.json
  zellige psa run --basis basis --events ev --cross-talk xt.cal \\
      --trapping 3000 --json hits.json
  zellige psa run --basis basis --events ev --pairs --align \\
      --array CrystalPositionLookUpTable --crystal 3 --json hits.json
  zellige psa run --basis basis --events measured.npy --json hits.json
  zellige psa run --basis gretina.dat --events run1.geb --channel-map map.toml \\
      --window 40 --json hits.json
  zellige psa run --basis B.npy --positions P.npy --events E.npy \\
      --energies K.npy --json hits.json
  zellige psa run --basis B.npy --positions P.npy --events E.npy \\
      --energies K.npy --channels hit-core --method cfgs --precision mixed";

/// Note on the searches for which GPUs have kernels.
pub(super) const GPUS: &str = "\
GPUs (--device cuda) have kernels for --method fgs and screen, with --precision fp32, int16 and \
bf16, --lut none and without --certify. Their answers have the bits of the CPU.";

/// Options of `zellige psa run`.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{GPUS}\n\n{DEVICES}"))]
pub struct PsaRunArgs {
    #[command(flatten)]
    pub input: PsaInput,
    /// Events whose signals a report shows.
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "0,1,2,3,4,5",
        hide_short_help = true
    )]
    pub show: Vec<usize>,
    /// Positions of the crystals: adds laboratory coordinates (folders).
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub array: Option<Input>,
    /// Number of the crystal in the array.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    pub crystal: usize,
    #[command(flatten)]
    pub search: PsaSearch,
    #[command(flatten)]
    pub rules: PsaRules,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Basis and events of a search.
#[derive(Clone, Debug, Args)]
pub struct PsaInput {
    /// Signals of known points: a folder of `psa simulate`, a file of GRETINA, zellige records, an
    /// archive, or an array.
    #[arg(long, value_name = "FOLDER|FILE")]
    pub basis: Input,
    /// Signals of events: a folder of `psa events`, a file of GEB frames, or an array.
    #[arg(long, value_name = "FOLDER|FILE")]
    pub events: Input,
    /// Map from digitiser channels to segments (TOML), for frames of mode 3; --help has its keys.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub channel_map: Option<Input>,
    /// Positions of the points, for a basis that is an array.
    #[arg(long, value_name = "FILE.npy", requires = "energies", hide_short_help = true)]
    pub positions: Option<Input>,
    /// Energies of the events, for a basis that is an array.
    #[arg(long, value_name = "FILE.npy", requires = "positions", hide_short_help = true)]
    pub energies: Option<Input>,
    /// Hit segment, 0 to 35, for arrays with 37 channels.
    #[arg(long, value_name = "N", default_value = "0", value_parser = segment, requires = "energies", hide_short_help = true)]
    pub segment: Segment,
}

/// Search method for a segment, with its parameters.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct PsaSearch {
    /// Search method: fgs, cfgs[:CELLS], screen[:METRIC[:KEEP]], exact.
    ///
    /// fgs: every point (full grid search). cfgs: the points of a 6 mm lattice, then the fine ones
    /// around the best of them (1). screen: every point by a cheaper metric, then the best of them
    /// (8) in full. exact: fgs in fp64 with a proof; a screen leaves undecided what its known error
    /// allows, and these points are compared again.
    ///
    /// Metrics are quarter (about p = 1/4, from bits; the default), bits (about p, from bits),
    /// linear, square, power (exponents 1, 2, P) and product (square, by a faster formula).
    #[arg(long, value_name = "METHOD", default_value = "screen", value_parser = word::<Method>)]
    pub method: Method,
    /// Exponent of the figure of merit.
    #[arg(long, value_name = "P", default_value_t = 0.3)]
    pub p: f64,
    /// Precision: fp64, fp32, fp16, mixed, int16, bf16.
    #[arg(long, value_name = "PRECISION", default_value = "fp32", value_parser = word::<Precision>)]
    pub precision: Precision,
    /// Table of powers: none, whole, log.
    ///
    /// whole: 2 MB, at whole thousandths. log: 16 KB, interpolated.
    #[arg(long, value_name = "TABLE", default_value = "none", hide_short_help = true, value_parser = word::<PowerTable>)]
    pub lut: PowerTable,
    /// State for each answer of a screen whether it is proven equal to that of fgs in fp64.
    ///
    /// Only for --method screen:bits.
    #[arg(long, hide_short_help = true)]
    pub certify: bool,
}

/// Treatment of the events of a crystal.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Events")]
pub struct PsaRules {
    /// Channels to compare: hit-core, neighbours (10 of 37), all.
    #[arg(long, value_name = "SET", default_value = "neighbours", value_parser = word::<ChannelSet>)]
    pub channels: ChannelSet,
    /// Number of samples to compare [default: 40 of a folder's, all of an array's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub window: Option<u16>,
    /// Drop hits below this energy (keV; folders).
    #[arg(long, value_name = "KEV", default_value_t = 10.0)]
    pub threshold: f64,
    /// Compare any hit below this energy with coarse points only (keV; cfgs, folders).
    ///
    /// Without it, the third and later hits of an event are, below 50 keV.
    #[arg(long, value_name = "KEV", hide_short_help = true)]
    pub coarse_below: Option<f64>,
    /// Search also with the event shifted by up to N samples in each direction (folders).
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    pub shifts: u8,
    /// Align events in time with the core signal of the best point, and search again (folders).
    #[arg(long, hide_short_help = true)]
    pub align: bool,
    /// Search for two hits in each segment (folders).
    ///
    /// Two hits are reported if one hit explains the signals worse by more than this factor.
    #[arg(long, value_name = "PENALTY", num_args = 0..=1, default_missing_value = "1.05")]
    pub pairs: Option<f64>,
    /// Remove cross-talk first: lines `seen gate coefficient`, segments from 0 (folders).
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub cross_talk: Option<Input>,
    /// Treatment of events with clipped samples: fit, skip, refuse.
    ///
    /// Such events are flagged and counted. fit: point and energy are fitted to the other samples,
    /// and the fit replaces the clipped ones (arrays of one segment are only flagged). skip: the
    /// event has no hits.
    #[arg(long, value_name = "WHAT", default_value = "fit", hide_short_help = true, value_parser = word::<Saturated>)]
    pub saturated: Saturated,
    /// Correct energies for charge trapping: mean path of holes[, electrons] (mm; folders).
    #[arg(long, value_name = "MM[,MM]", hide_short_help = true, value_parser = word::<Trapping>)]
    pub trapping: Option<Trapping>,
}

fn segment(text: &str) -> Result<Segment, String> {
    let segment = text.parse().ok().and_then(Segment::from_index);
    segment.ok_or_else(|| "use a number from 0 to 35".into())
}
