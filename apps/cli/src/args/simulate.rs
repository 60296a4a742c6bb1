//! The words after `zellige simulate`.

use clap::{Args, Subcommand, ValueEnum};
use zellige_linalg::Rule;
use zellige_runtime::POLICIES;

use super::paths::{Input, Output};
use super::{MemorySize, possible};
use crate::trace::TraceFile;

const SIMULATE_EXAMPLES: &str = "\
Examples
  Doucet et al. (2019): 100k measurements on four V100, in single and mixed precision:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --precision fp32 --precision hp1:band=2 --platform v100x4
  Two copies of each tile, as in that paper, each tile on a fixed device, and a rule on norms that a smaller run has measured:
    zellige tor run apps/tor/systems/demo.toml --tile 102 --precision fp32 --norms-out norms.json
    zellige simulate tor --n 100368 --m 11152 --tile 950 --precision hp1:operand=1e-2 --norms norms.json --sched owners --copies both
  Less memory on each device, or one of them:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 --device-memory 4GB
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 --devices 1";

const SIMULATE_CHOLESKY_EXAMPLES: &str = "\
Examples
  This machine with two workers, by what was measured with two:
    zellige machine calibrate --tile 256 --workers 2
    zellige simulate cholesky --n 8192 --tile 256 --platform host --workers 2 --sched lws
  Four GPUs:
    zellige simulate cholesky --n 65536 --tile 1024 --precision hp1:band=2 --platform v100x4";

/// The words after `simulate`.
#[derive(Debug, Subcommand)]
pub enum Simulate {
    /// A tomographic reconstructor: factorisation and both solves.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Tor(SimulateTor),
    /// A Cholesky factorisation alone.
    #[command(after_help = SIMULATE_CHOLESKY_EXAMPLES)]
    Cholesky(SimulateCholesky),
    /// The platforms that are shipped, and where their numbers come from.
    Platforms,
}

/// `simulate tor`.
#[derive(Debug, Args)]
pub struct SimulateTor {
    /// Measurements: the order of the covariance matrix.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub n: u32,
    /// Rows of the reconstructor.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub m: u32,
    #[command(flatten)]
    pub common: SimulateCommon,
}

/// `simulate cholesky`.
#[derive(Debug, Args)]
pub struct SimulateCholesky {
    /// Order of the matrix.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub n: u32,
    #[command(flatten)]
    pub common: SimulateCommon,
}

/// What all simulations are told.
#[derive(Debug, Args)]
pub struct SimulateCommon {
    /// Tile edge.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub tile: u32,
    /// Precision rule, e.g. fp32, hp1, hp1:band=2,full=x3 (see `tor run --help`); may be repeated. Rules that look at norms need --norms.
    #[arg(long = "precision", value_name = "RULE", default_value = "fp32")]
    pub rules: Vec<Rule>,
    /// Norms of tiles, from `tor run --norms-out`: interpolated to this size, for rules that look at norms.
    #[arg(long, value_name = "FILE.json")]
    pub norms: Option<Input>,
    /// How products get narrow operands: replicas of a tile, or a second copy of each, made by conversion tasks.
    #[arg(long, value_name = "replicas|both", default_value = "replicas")]
    pub copies: CopiesArg,
    /// Most products on one tile in one task: fewer, longer tasks. For fp32, hp1, bf1, x3 and tf32; others stay alone.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = super::fused_updates())]
    pub fuse_updates: u8,
    /// A shipped platform (see `simulate platforms`), a .toml file, or host: this machine, as `machine calibrate` has measured it.
    #[arg(long, value_name = "NAME|FILE.toml|host", default_value = "v100x4")]
    pub platform: String,
    /// Workers of the platform host; by default one per core that this process may use. Calibrate with as many.
    #[arg(long, id = "simulated_workers", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Only the first so many devices of it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub devices: Option<u16>,
    /// Memory of each device, e.g. 4GB, instead of what the platform says.
    #[arg(long, value_name = "BYTES", value_parser = gigabytes, allow_negative_numbers = true)]
    pub device_memory: Option<f64>,
    /// Scheduling policy; owners: each tile has a fixed device, two-dimensional block cyclic.
    #[arg(long, value_name = "P", default_value = "dmdas", value_parser = simulated_policy_names())]
    pub sched: String,
    /// With --sched owners: tiles along a block of the owner map.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub owner_block: u16,
    /// Tasks for which a device gathers operands beyond the running one; 0: it takes a task when it is free. By default 2, on the
    /// platform host 0.
    #[arg(long, value_name = "N")]
    pub ahead: Option<u16>,
    /// Write what every device would do: .json for Perfetto and chrome://tracing, .paje or .trace for ViTE, .html for a browser.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<TraceFile>,
    /// Write the figures as JSON, one object per rule; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// See [`SimulateCommon::copies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CopiesArg {
    /// Replicas of one handle, where and while they are wanted.
    Replicas,
    /// Two values per tile.
    Both,
}

/// Those of the runtime, and the owner map of tiles.
fn simulated_policy_names() -> clap::builder::PossibleValuesParser {
    let owners = (
        zellige_tor::simulate::OWNERS,
        "the device that owns the written tile, two-dimensional block cyclic",
    );
    possible(&[&POLICIES[..], &[owners]].concat())
}

/// Bytes as everywhere, in the unit of platforms; a share would be one of what is replaced.
fn gigabytes(text: &str) -> Result<f64, String> {
    match text.parse()? {
        MemorySize::Bytes(bytes) => Ok(bytes as f64 / 1e9),
        MemorySize::Share(_) => Err("bytes are needed, e.g. 4GB".into()),
    }
}
