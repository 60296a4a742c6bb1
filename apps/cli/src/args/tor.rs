//! Options of `zellige tor`.

use clap::{Args, Subcommand, ValueEnum};
use zellige_dense::Rule;
use zellige_tor::system::{LoopMode, SensorModel};

use super::ExecutionArgs;
use super::execution::DEVICES;
use super::outputs::RunOutputs;
use super::paths::{Input, Output, OutputFile, with_ending};
use super::rounding::RoundingArgs;
use super::rtc::{RTC_HELP, RtcArgs};

/// Formats of matrices, by the ending of a file's name.
const MATRICES: &[&str] = &[".fits", ".fit", ".npy"];
const RECONSTRUCTORS: &[&str] = &[".fits", ".fit", ".npy", ".npz"];

const RULES: &str = "\
Precision rules (--precision, --solve-precision): precision of each tile product
  fp64, fp32, hp1, hp2, hp3, bf1, x3, tf32, fp8
                        The same for all products. fp64 stores float64 tiles,
                        all others float32 tiles.
  hp1:band=2            hp1 on tiles at least 2 tiles off the diagonal, fp32
                        elsewhere.
  hp1:tile=1e-2         hp1 if |A_ij| <= 1e-2 |A|.
  hp1:operand=1e-2      hp1 if |L_ik| |L_jk| <= 1e-2 |A|: the norms of the
                        operands.
  hp1:operand=1e-2,else=x3
                        The same, and x3 elsewhere.
  hp1:band=2,panel=x3   Diagonal updates and triangular solves by x3 products
                        (or tf32) instead of fp32.
  map:FILE              The precisions of a map of tiles.
  script:FILE           fn precision(i, j, k, nt, norm_a_ij, norm_l_ik,
                        norm_l_jk, norm_a) in FILE (Rhai), in a build with
                        the feature script.

Precisions
  hp1, hp2, hp3         f16 operands; sums in f32, f32, f16; results in f32,
                        f16, f16.
  bf1                   bf16 operands.
  x3                    f32 split into three f16 products.
  tf32                  f32 operands rounded to 11 bits.
  fp8                   e4m3 operands, 4 bits.

fp64 has sums in f64, hp3 in f16, all others in f32. If a rule loses positive definiteness, the \
tile and pivot are reported, and the other rules continue.";

const RUN_EXAMPLES: &str = "\
Examples
  Compare four rules, and view the result in a browser:
    zellige tor run demo.toml --precision fp32 --precision hp1:band=2 \\
        --precision hp1:operand=1e-2 --precision x3 \\
        --report report.html --trace trace.json
  MOAO's own files, a reconstructor for two targets, results for a script:
    zellige tor run sys-params.txt --atm atm-params.txt --target 0,0 \\
        --target 10,-5 -o R.fits --json result.json
  Repair a failing rule by rules of increasing precision:
    zellige tor run demo.toml --precision hp2 --on-not-spd retry
  All GPUs; a third of the memory of one GPU, split into two devices:
    zellige tor run demo.toml --device cuda
    zellige tor run demo.toml --device cuda:0 --device-memory 30% \\
        --logical-gpus 2";

const LOOP_HELP: &str = "\
Examples
  A closed loop of one natural star, 2000 frames:
    zellige tor loop scao.toml --frames 2000
  Long-exposure Strehl ratios of reconstructors in three precisions:
    zellige tor loop demo.toml --precision fp32 --precision hp1:band=2 \\
        --precision hp2 --json loop.json --report loop.html
  Errors of Strehl ratios from five seeds, in tiles of 102:
    zellige tor loop demo.toml --precision fp32 --precision hp3:band=4 \\
        --tile 102 --exposures 5 --report loop.html";

const LEARN_HELP: &str = "\
Examples
  The cycle of an instrument: record, learn, build.
    zellige tor loop learn.toml --sensor edges --mode open --frames 20000 \\
        --telemetry slopes.fits
    zellige tor learn learn.toml slopes.fits -o learnt.toml
    zellige tor build learnt.toml -o R.fits
  Slopes of two sensors in files of their own, at 250 frames/s:
    zellige tor learn system.toml wfs1.npy wfs2.npy --frame-ms 4";

/// Formats of telemetry, by the ending of a file's name.
const TELEMETRY: &[&str] = &[".fits", ".fit", ".npz"];

/// Verbs of `zellige tor`.
#[derive(Debug, Subcommand)]
pub enum Tor {
    /// Print an example system as a file to edit.
    Example,
    /// Describe the size and needs of a system, and recommend tiles and a precision rule. Only a
    /// sample of the tiles is computed.
    Info(InfoArgs),
    /// Compute the covariance matrices and write them.
    #[command(after_long_help = DEVICES)]
    Cov(CovArgs),
    /// Compute a reconstructor and write it.
    ///
    /// It is not judged: backward error and Strehl ratios are not computed (null in the JSON).
    /// zellige tor eval judges the file. zellige tor run -o FILE judges and writes, which takes
    /// much longer for large systems.
    #[command(after_long_help = format!("{RULES}\n\n{DEVICES}"))]
    Build(BuildArgs),
    /// Judge a reconstructor from any file: error covariance, image, Strehl ratio.
    ///
    /// The judgement is in float64 on CPU workers, also with --device cuda. The error covariance of
    /// a target takes n^2 m operations.
    #[command(after_long_help = DEVICES)]
    Eval(EvalArgs),
    /// Learn the turbulence profile from slopes of an open loop: r0, outer scale, strength and
    /// wind of each layer.
    ///
    /// Covariances of the slopes are fitted by those of the system's model (Learn & Apply). The fit
    /// begins with the profile of SYSTEM and keeps its altitudes. Errors are standard errors from
    /// 16 blocks of time.
    #[command(after_long_help = LEARN_HELP)]
    Learn(LearnArgs),
    /// Simulate a loop frame by frame: turbulence, sensors, control, long exposure.
    ///
    /// Turbulence moves with the wind of each layer over the telescope. Sensors measure it, and
    /// control moves the mirror. Parameters are in the table [loop] of SYSTEM. Without --rec and
    /// --precision, control inverts the interaction matrix that the sensors measure.
    #[command(after_long_help = LOOP_HELP)]
    Loop(LoopArgs),
    /// Multiply frames of slopes in real time: latency from the last packet to the last command.
    #[command(after_long_help = RTC_HELP)]
    Rtc(RtcArgs),
    /// Run all stages for every precision rule, and compare them.
    ///
    /// Reconstructors are judged in float64 on CPU workers, also with --device cuda. The error
    /// covariance of a target and rule takes n^2 m operations. If that takes long, a note says so
    /// beforehand.
    #[command(after_long_help = run_help())]
    Run(RunArgs),
}

fn run_help() -> String {
    format!("{RULES}\n\n{DEVICES}\n\n{RUN_EXAMPLES}")
}

/// System files: telescope and turbulence, with replacements for some of their parts.
#[derive(Debug, Args)]
#[command(next_help_heading = "System")]
pub struct SystemArgs {
    /// Telescope, guide stars and targets: .toml, .yaml (zellige's or pyTomoAO's), .py (COMPASS),
    /// or MOAO's sys-params.txt.
    ///
    /// COMPASS files are not executed. Values that such a file computes are refused with their
    /// line.
    #[arg(value_name = "SYSTEM")]
    pub system: Input,
    /// Turbulence profile: .toml, .yaml or MOAO's atm-params.txt.
    ///
    /// SYSTEM may contain it. The profile is that at the zenith: the zenith angle of SYSTEM is
    /// applied.
    #[arg(long, value_name = "FILE")]
    pub atm: Option<Input>,
    /// Refuse parameters that would be repaired with a warning.
    #[arg(long)]
    pub strict: bool,
    /// Direction to reconstruct (arcsec), instead of those in SYSTEM; may be repeated.
    #[arg(long = "target", value_name = "X,Y", value_parser = target)]
    pub targets: Vec<[f64; 2]>,
    /// Time in ms from the measurements to the wavefront to reconstruct, or to judge.
    ///
    /// The layers move by their wind during this time, so that the reconstructor predicts.
    #[arg(long, value_name = "MS", value_parser = milliseconds, hide_short_help = true)]
    pub lag_ms: Option<f64>,
    /// Map of valid sub-apertures, instead of SYSTEM's rule: text of 0 and 1, .fits or .npy (also
    /// bool).
    ///
    /// Rows start at the lowest y. All sensors of more than one sub-aperture share the map.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub valid_map: Option<Input>,
    /// Influence functions of the mirror, instead of SYSTEM's model: .fits or .npy of (actuators,
    /// y, x).
    ///
    /// Values are in m per volt (FITS also in um and nm, by BUNIT), on square pixels that cover the
    /// pupil.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub influence: Option<Input>,
}

/// Tiles and precision of the factorisation, and its action on failure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Factorisation")]
pub struct FactorArgs {
    /// Precision rule of the triangular solves [default: that of the factorisation].
    #[arg(long, value_name = "RULE", hide_short_help = true)]
    pub solve_precision: Option<Rule>,
    /// Tile size: a number, or auto.
    ///
    /// A number gives uniform tiles, except for a smaller last one. auto cuts at sensor axes, with
    /// at most 512. For GPUs without CPU workers it is at most 512, 1024, 2048 or 3072, in
    /// multiples of 16, by the size of the matrix and the GPU memory.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile)]
    pub tile: Tile,
    /// Maximum number of products that one task applies to a tile: fewer, longer tasks, the same
    /// bits.
    ///
    /// For fp32, hp1, bf1, x3 and tf32; products in other precisions are not fused.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = super::fused_updates(), hide_short_help = true)]
    pub fuse_updates: u8,
    /// Action if a rule loses positive definiteness: report it, or retry with more precision.
    #[arg(long, value_name = "fail|retry", default_value = "fail")]
    pub on_not_spd: NotSpd,
    /// Maximum number of steps of iterative refinement of the reconstructor. It ends if a step has
    /// not halved the residual.
    #[arg(long, value_name = "K", default_value_t = 0, hide_short_help = true)]
    pub refine: usize,
}

/// Tile size; see [`FactorArgs::tile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// Tiles that end at the boundaries of sensors.
    Auto,
    /// Uniform tiles of this size.
    Edge(usize),
}

/// Actions on loss of positive definiteness; see [`FactorArgs::on_not_spd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NotSpd {
    /// Report the tile and go on with the next rule.
    Fail,
    /// Try rules of more precision until one holds.
    Retry,
}

/// Computation of spectra; see [`RunArgs::xray`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Xray {
    /// Spectra for up to 4096 measurements.
    Auto,
    /// Spectra at any cost.
    Full,
    /// No spectra.
    Off,
}

/// Options of `tor info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Precision rule to plan for; may be repeated [default: fp32 and hp1:operand=1e-2].
    ///
    /// Give each rule in an option of its own, since rules contain commas.
    #[arg(long, value_name = "RULE")]
    pub precision: Vec<Rule>,
    /// Tile size to describe: a number, or auto.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile)]
    pub tile: Tile,
    /// Number of workers to plan for [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
    #[command(flatten)]
    pub system: SystemArgs,
}

/// Options of `tor cov`.
#[derive(Debug, Args)]
pub struct CovArgs {
    /// File to write in float64: .fits (images CMM, CTM, CTT), or .npy (a file for each).
    #[arg(short, long, value_name = "FILE.fits|FILE.npy", value_parser = with_ending(MATRICES))]
    pub output: OutputFile,
    /// Order of the slopes in the file.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Options of `tor build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Precision rule of the factorisation; see --help.
    #[arg(long, value_name = "RULE", default_value = "fp32")]
    pub precision: Rule,
    /// Reconstructor to write: .fits (an image per target) or .npy (a file per target); with --bits
    /// .fits or .npz (integers and scales, a file per target).
    #[arg(short, long, value_name = "R.fits|.npy|.npz", value_parser = with_ending(RECONSTRUCTORS))]
    pub output: OutputFile,
    /// Order of the slopes in the file.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    /// Round this reconstructor instead of computing one (.fits, FILE.fits/NAME, .npy,
    /// FILE.npz/NAME): truth-sensor slopes x measurements.
    ///
    /// Its slopes are in the order that its header says, else xxyy. Errors are made up for by the
    /// covariances of the system. Commands x measurements become the slopes that they make.
    #[arg(long, value_name = "R.fits", requires = "bits", hide_short_help = true)]
    pub rec: Option<Input>,
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub factor: FactorArgs,
    #[command(flatten)]
    pub rounding: RoundingArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Order of the slopes of one sensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// All x slopes, then all y slopes.
    Xxyy,
    /// The x and y slope of each sub-aperture in turn.
    Xyxy,
}

/// Options of `tor eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Reconstructor to evaluate (.fits, FILE.fits/NAME, .npy, FILE.npz/NAME): truth-sensor slopes
    /// or commands x measurements.
    ///
    /// NAME selects an image of a FITS file by name or number (the primary one is 0). Without NAME,
    /// the first image of two dimensions or more is read. Commands are in the unit of --dm. A
    /// transposed reconstructor is detected, transposed and reported. AOT's (commands, 2,
    /// sub-apertures) are x slopes, then y slopes.
    #[arg(long, value_name = "R.fits")]
    pub rec: Input,
    /// Command matrix of the mirror, actuators x truth-sensor slopes [default: that of the system's
    /// model].
    #[arg(long, value_name = "Dx.fits")]
    pub dm: Option<Input>,
    /// Order of the slopes in the files [default: from their headers, else xxyy].
    #[arg(long, value_name = "xxyy|xyxy")]
    pub slope_order: Option<Order>,
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Options of `tor loop`.
#[derive(Debug, Args)]
pub struct LoopArgs {
    /// Frames of the exposure.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub frames: u64,
    /// Frames before it, in which the loop converges.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=100_000_000))]
    pub skip: u64,
    /// Seed of turbulence and noise.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of exposures with seeds of their own, from --seed on; figures are their means.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000), hide_short_help = true)]
    pub exposures: u64,
    /// Split the error by simulating the exposure again.
    ///
    /// It is simulated without noise, then also without aliasing, then also without delay; what
    /// each change removes is a term of the error budget.
    #[arg(long)]
    pub error_budget: bool,
    /// Reconstructor to use (.fits, FILE.fits/NAME, .npy, FILE.npz/NAME), as in tor eval.
    #[arg(long, value_name = "R.fits", conflicts_with = "precision")]
    pub rec: Option<Input>,
    /// Order of the slopes in that file [default: from its header, else xxyy].
    #[arg(long, value_name = "xxyy|xyxy", requires = "rec", hide_short_help = true)]
    pub slope_order: Option<Order>,
    /// Precision rule of a reconstructor that is computed first; may be repeated.
    #[arg(long, value_name = "RULE")]
    pub precision: Vec<Rule>,
    /// Tile size of its factorisation: a number, or auto, as in tor run.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile, hide_short_help = true)]
    pub tile: Tile,
    /// Relation between sensors and mirror, instead of SYSTEM's.
    ///
    /// Open: sensors do not see the mirror. Pseudo-open: the mirror's slopes are added to theirs.
    /// Closed: commands integrate the residual.
    #[arg(long, value_name = "open|pseudo-open|closed")]
    pub mode: Option<Mode>,
    /// Model of the sensors, instead of SYSTEM's.
    ///
    /// Edges: the difference between the middles of opposite edges, as covariances assume.
    /// Gradients: means over sub-apertures. Spots: images and their centres of gravity.
    #[arg(long, value_name = "edges|gradients|spots")]
    pub sensor: Option<Sensor>,
    /// Gain of control, instead of SYSTEM's.
    #[arg(long, value_name = "G", hide_short_help = true)]
    pub gain: Option<f64>,
    /// Frames after which slopes move the mirror, instead of SYSTEM's.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub delay: Option<usize>,
    /// Measure without noise.
    #[arg(long)]
    pub no_noise: bool,
    /// Write slopes and commands of the exposure: .fits (AOT standard) or .npz.
    ///
    /// Slopes (arcsec) are those that the sensors measured. Commands (volts) are those on the
    /// mirrors during the frame. After Ctrl-C the file has the frames until then.
    #[arg(long, value_name = "FILE.fits|FILE.npz", value_parser = with_ending(TELEMETRY))]
    pub telemetry: Option<OutputFile>,
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Options of `tor learn`.
#[derive(Debug, Args)]
pub struct LearnArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    /// Slopes in arcsec: telemetry of tor loop, or frames x measurements (.fits, .npy, .npz).
    ///
    /// Several files have the slopes of one sensor each, in the order of the system. FILE.fits/NAME
    /// and FILE.npz/NAME name an array. AOT's (frames, 2, sub-apertures) are x slopes, then y
    /// slopes.
    #[arg(value_name = "SLOPES", required = true)]
    pub slopes: Vec<Input>,
    /// Write SYSTEM with the learnt profile; if SYSTEM is no .toml, the profile alone, for --atm.
    #[arg(short, long, value_name = "FILE.toml", value_parser = with_ending(&[".toml"]))]
    pub output: Option<OutputFile>,
    /// Time between frames in ms [default: from SLOPES, else from SYSTEM].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub frame_ms: Option<f64>,
    /// Lag in frames of the covariances that show the winds [default: 10 m/s cross a sub-aperture].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub wind_lag: Option<u32>,
    /// Search the winds; otherwise the fit begins with those of SYSTEM, if it has any.
    #[arg(long)]
    pub search_wind: bool,
    /// Order of the slopes of a sensor in SLOPES.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Relations between sensors and mirror; see [`LoopArgs::mode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Sensors do not see the mirror.
    Open,
    /// The mirror's slopes are added to those of the sensors.
    PseudoOpen,
    /// Commands integrate the residual.
    Closed,
}

impl From<Mode> for LoopMode {
    fn from(mode: Mode) -> LoopMode {
        match mode {
            Mode::Open => LoopMode::Open,
            Mode::PseudoOpen => LoopMode::PseudoOpen,
            Mode::Closed => LoopMode::Closed,
        }
    }
}

/// Models of sensors; see [`LoopArgs::sensor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sensor {
    /// Differences between the middles of edges.
    Edges,
    /// Means over sub-apertures.
    Gradients,
    /// Centres of images.
    Spots,
}

impl From<Sensor> for SensorModel {
    fn from(sensor: Sensor) -> SensorModel {
        match sensor {
            Sensor::Edges => SensorModel::Edges,
            Sensor::Gradients => SensorModel::Gradients,
            Sensor::Spots => SensorModel::Spots,
        }
    }
}

/// Options of `tor run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Precision rule of the factorisation; may be repeated [default: fp32, hp1:operand=1e-2].
    ///
    /// See "Precision rules" below. Give each rule in an option of its own, since rules contain
    /// commas.
    #[arg(long, value_name = "RULE")]
    pub precision: Vec<Rule>,
    /// Compute spectra of the matrix and its tiles, for the report.
    ///
    /// auto computes them for up to 4096 measurements.
    #[arg(long, value_name = "auto|full|off", default_value = "auto", hide_short_help = true)]
    pub xray: Xray,
    /// Write the reconstructor of the first rule that succeeds: .fits, .npy, or .npz with --bits.
    ///
    /// FITS has an image per target, npy a file per target; with --bits, FITS and npz have integers
    /// and scales in a file per target.
    #[arg(short, long, value_name = "R.fits|.npy|.npz", value_parser = with_ending(RECONSTRUCTORS))]
    pub output: Option<OutputFile>,
    /// Write the norms of all tiles for `simulate tor --norms`; `-` is standard output.
    ///
    /// The file is JSON, with the norms of the first rule that succeeds.
    #[arg(long, value_name = "FILE|-", hide_short_help = true)]
    pub norms: Option<Output>,
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub factor: FactorArgs,
    #[command(flatten)]
    pub rounding: RoundingArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

pub(super) fn target(text: &str) -> Result<[f64; 2], String> {
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    let parsed = text.split_once(',').and_then(|(x, y)| Some([number(x)?, number(y)?]));
    parsed.ok_or_else(|| "use two numbers in arcsec separated by a comma, e.g. 10,-5".into())
}

/// Parses a lag in ms, up to 10 s.
pub(super) fn milliseconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|ms| (0.0..=10_000.0).contains(ms));
    parsed.ok_or_else(|| "use a time in ms from 0 to 10000, e.g. 4.5".into())
}

pub(super) fn tile(text: &str) -> Result<Tile, String> {
    match text {
        "auto" => Ok(Tile::Auto),
        _ => match text.parse() {
            Ok(edge) if edge > 0 => Ok(Tile::Edge(edge)),
            _ => Err("use auto, or a number of rows of 1 or more".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_two_numbers() {
        assert_eq!(target("10,-5.5"), Ok([10.0, -5.5]));
        for bad in ["", "1", "1;2", "1,nan", "1,2,3", "x,y"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lags_are_not_negative() {
        assert_eq!(milliseconds("4.5"), Ok(4.5));
        assert_eq!(milliseconds("0"), Ok(0.0));
        for bad in ["", "-1", "nan", "inf", "20000", "4 ms"] {
            assert!(milliseconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tiles_have_an_edge() {
        assert_eq!(tile("auto"), Ok(Tile::Auto));
        assert_eq!(tile("48"), Ok(Tile::Edge(48)));
        for bad in ["", "0", "-1", "1.5", "AUTO"] {
            assert!(tile(bad).is_err(), "{bad}");
        }
    }
}
