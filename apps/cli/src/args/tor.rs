//! The words after `zellige tor`.

use clap::{Args, Subcommand, ValueEnum};
use zellige_linalg::Rule;
use zellige_runtime::POLICIES;

use super::ExecutionArgs;
use super::execution::DEVICES;
use super::paths::{Input, Output, OutputFile, with_ending};
use crate::trace::TraceFile;

/// Formats of matrices, by the ending of a file's name.
const MATRICES: &[&str] = &[".fits", ".fit", ".npy"];

const RULES: &str = "\
Precision rules (--precision, --solve-precision): which tile products run in which precision
  fp64, fp32, hp1, hp2, hp3, bf1, x3, tf32, fp8
                                        the same for every product; fp64 stores float64 tiles, all others float32
  hp1:band=2                            hp1 on tiles at least 2 tiles off the diagonal, fp32 elsewhere
  hp1:tile=1e-2                         hp1 where |A_ij| <= 1e-2 |A|
  hp1:operand=1e-2                      hp1 where |L_ik| |L_jk| <= 1e-2 |A|: the norms of the very operands
  hp1:operand=1e-2,else=x3              and x3 elsewhere
  hp1:band=2,full=x3                    diagonal updates and triangular solves by way of x3 products (or tf32) instead of fp32
  script:FILE                           fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a) in FILE (Rhai)
  hp1, hp2, hp3: f16 operands, sums in f32, f16 with f32 products, f16; bf1: bf16 operands; x3: f32 split in three f16 products;
  tf32: f32 operands rounded to 11 bits; fp8: e4m3 operands, 4 bits. Sums are f32 but for hp3.
  A rule may lose positive definiteness: it is reported with tile and pivot, and the others go on.";

const RUN_EXAMPLES: &str = "\
Examples
  Compare four rules, and look at the result in a browser:
    zellige tor run demo.toml --precision fp32 --precision hp1:band=2 --precision hp1:operand=1e-2 --precision x3 \\
        --report report.html --trace trace.json
  MOAO's own files, a reconstructor for two targets, figures for a script:
    zellige tor run sys-params.txt --atm atm-params.txt --target 0,0 --target 10,-5 -o R.fits --json result.json
  Repair a rule that fails, one rule of more precision after the other:
    zellige tor run demo.toml --precision hp2 --on-not-spd retry
  On GPUs: all of them; a third of one GPU's memory, as if it were two:
    zellige tor run demo.toml --device cuda
    zellige tor run demo.toml --device cuda:0 --device-memory 30% --logical-gpus 2";

/// The words after `tor`.
#[derive(Debug, Subcommand)]
pub enum Tor {
    /// Say how large a system is, what it needs, and which tiles and rule suit it; of its tiles a sample is computed.
    Info(InfoArgs),
    /// Compute the covariance matrices and write them.
    #[command(after_help = DEVICES)]
    Cov(CovArgs),
    /// Compute a reconstructor and write it.
    #[command(after_help = format!("{RULES}\n\n{DEVICES}"))]
    Build(BuildArgs),
    /// Judge a reconstructor from any file: error covariance, image, Strehl ratio.
    #[command(after_help = DEVICES)]
    Eval(EvalArgs),
    /// All stages, for every precision rule, compared in one table.
    #[command(after_help = run_help())]
    Run(RunArgs),
}

fn run_help() -> String {
    format!("{RULES}\n\n{DEVICES}\n\n{}\n\n{RUN_EXAMPLES}", policies())
}

/// The scheduling policies, a line each.
fn policies() -> String {
    let lines = POLICIES.iter().map(|(name, what)| format!("  {name:<10} {what}"));
    format!(
        "Scheduling policies (--sched): which worker gets a ready task\n{}",
        lines.collect::<Vec<_>>().join("\n")
    )
}

/// The telescope.
#[derive(Debug, Args)]
pub struct SystemArgs {
    /// Telescope, guide stars and targets: a .toml file, or MOAO's sys-params.txt.
    #[arg(value_name = "SYSTEM")]
    pub system: Input,
    /// Turbulence profile (MOAO's atm-params.txt or .toml); a .toml SYSTEM may hold it.
    #[arg(long, value_name = "FILE")]
    pub atm: Option<Input>,
    /// Refuse what would be repaired with a warning.
    #[arg(long)]
    pub strict: bool,
    /// Direction to reconstruct in arcsec, instead of those in SYSTEM; may be repeated.
    #[arg(long = "target", value_name = "X,Y", value_parser = target, allow_hyphen_values = true)]
    pub targets: Vec<[f64; 2]>,
}

/// How the factorisation is cut, and what happens when it fails.
#[derive(Debug, Args)]
pub struct FactorArgs {
    /// Precision of the products of the two triangular solves; by default that of the factorisation.
    #[arg(long, value_name = "RULE")]
    pub solve_precision: Option<Rule>,
    /// Tile edge: a number (uniform tiles, the last one short), or auto (cut at sensor axes, at most 512; for GPUs that work alone at most 512, 1024
    /// or 2048, by the size of the matrix and their memory, at multiples of 16).
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile)]
    pub tile: Tile,
    /// Most products on one tile in one task: fewer, longer tasks, the same bits. For fp32, hp1, bf1, x3 and tf32; others stay alone.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = super::fused_updates())]
    pub fuse_updates: u8,
    /// What to do when a rule loses positive definiteness: report it, or try again with more precision.
    #[arg(long, value_name = "fail|retry", default_value = "fail")]
    pub on_not_spd: NotSpd,
    /// Steps of iterative refinement of the reconstructor.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub refine: usize,
}

/// See [`FactorArgs::tile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// Along the sensors.
    Auto,
    /// All of this edge.
    Edge(usize),
}

/// See [`FactorArgs::on_not_spd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NotSpd {
    /// Report the tile and go on with the next rule.
    Fail,
    /// Try rules of more precision until one holds.
    Retry,
}

/// See [`RunArgs::xray`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Xray {
    /// Up to 4096 measurements.
    Auto,
    /// Whatever it costs.
    Full,
    /// None.
    Off,
}

/// `tor info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    /// Precision rule to plan for; may be repeated. By default fp32 and hp1:operand=1e-2.
    #[arg(long, value_name = "RULE")]
    pub precision: Vec<Rule>,
    /// Tile edge to describe: a number, or auto.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile)]
    pub tile: Tile,
    /// Write the same as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// `tor cov`.
#[derive(Debug, Args)]
pub struct CovArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// File to write, float64: one .fits with images CMM, CTM, CTT, or a .npy for each.
    #[arg(short, long, value_name = "FILE.fits|FILE.npy", value_parser = with_ending(MATRICES))]
    pub output: OutputFile,
    /// Order of the slopes in the file.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    /// Write sizes and times as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// `tor build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub factor: FactorArgs,
    /// Precision rule of the factorisation; see below.
    #[arg(long, value_name = "RULE", default_value = "fp32")]
    pub precision: Rule,
    /// Reconstructor to write: .fits (an image per target) or .npy (a file per target)
    #[arg(short, long, value_name = "R.fits|R.npy", value_parser = with_ending(MATRICES))]
    pub output: OutputFile,
    /// Order of the slopes in the file.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// Order of the slopes of one sensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// All x slopes, then all y slopes.
    Xxyy,
    /// x and y of each sub-aperture together.
    Xyxy,
}

/// `tor eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// Reconstructor to judge (.fits or .npy).
    #[arg(long, value_name = "R.fits")]
    pub rec: Input,
    /// Command matrix of the mirror; by default that of the system's own model.
    #[arg(long, value_name = "Dx.fits")]
    pub dm: Option<Input>,
    /// Order of the slopes in the files; by default what their headers say, else xxyy.
    #[arg(long, value_name = "xxyy|xyxy")]
    pub slope_order: Option<Order>,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// `tor run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub factor: FactorArgs,
    /// Precision rule of the factorisation; may be repeated. By default fp32 and hp1:operand=1e-2. See below.
    #[arg(long, value_name = "RULE")]
    pub precision: Vec<Rule>,
    /// Spectra of the matrix and its tiles, for the report.
    #[arg(long, value_name = "auto|full|off", default_value = "auto")]
    pub xray: Xray,
    /// Write the figures as JSON, one object per rule; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
    /// Write what every worker did: .json for Perfetto and chrome://tracing, .paje or .trace for ViTE, .html for a browser.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<TraceFile>,
    /// Write a page with precision map, spectra, images and a summary of the trace.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<OutputFile>,
    /// Reconstructor of the first rule that survives: .fits (an image per target) or .npy (a file per target)
    #[arg(short, long, value_name = "R.fits|R.npy", value_parser = with_ending(MATRICES))]
    pub output: Option<OutputFile>,
    /// Write the norms of all tiles, of the first rule that survives, as JSON for `simulate tor --norms`; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub norms_out: Option<Output>,
}

fn target(text: &str) -> Result<[f64; 2], String> {
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    let parsed = text.split_once(',').and_then(|(x, y)| Some([number(x)?, number(y)?]));
    parsed.ok_or_else(|| "two numbers in arcsec with a comma between them, e.g. 10,-5".into())
}

pub(super) fn tile(text: &str) -> Result<Tile, String> {
    match text {
        "auto" => Ok(Tile::Auto),
        _ => match text.parse() {
            Ok(edge) if edge > 0 => Ok(Tile::Edge(edge)),
            _ => Err("auto, or a number of rows from 1 on".into()),
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
    fn tiles_have_an_edge() {
        assert_eq!(tile("auto"), Ok(Tile::Auto));
        assert_eq!(tile("48"), Ok(Tile::Edge(48)));
        for bad in ["", "0", "-1", "1.5", "AUTO"] {
            assert!(tile(bad).is_err(), "{bad}");
        }
    }
}
