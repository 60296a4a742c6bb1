//! Options of `zellige simulate`.

use clap::{Args, Subcommand};
use zellige_dense::Rule;
use zellige_runtime::sched::POLICIES;

use super::outputs::RunOutputs;
use super::paths::Input;
use super::{MemorySize, possible};

const SIMULATE_EXAMPLES: &str = "\
Examples
  Doucet et al. (2019): 100k measurements on four V100, in two precisions:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --precision fp32 \\
        --precision hp1:band=2 --platform v100x4
  Each tile on a fixed device, and a rule on norms measured by a smaller run:
    zellige tor run apps/tor/systems/demo.toml --tile 102 --precision fp32 \\
        --norms norms.json
    zellige simulate tor --n 100368 --m 11152 --tile 950 \\
        --precision hp1:operand=1e-2 --norms norms.json --sched owners
  Less memory on each device, or a single device:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 \\
        --device-memory 4GB
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 \\
        --devices 1
  Rates by size, and times by number of devices, with figures:
    zellige simulate tor --n 20000,50000,100000 --m 11152 --tile 950 \\
        --platform v100x4 --report rates.html
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 \\
        --devices 1,2,4 --report devices.html
  Strong scaling over machines:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform h200x8 \\
        --nodes 1,2,4,8,16";

const SIMULATE_CHOLESKY_EXAMPLES: &str = "\
Examples
  This machine with two workers, as measured with two:
    zellige machine calibrate --tile 256 --workers 2
    zellige simulate cholesky --n 8192 --tile 256 --platform host \\
        --workers 2 --sched lws
  Four GPUs:
    zellige simulate cholesky --n 65536 --tile 1024 --precision hp1:band=2 \\
        --platform v100x4
  An own machine, from a shipped one:
    zellige simulate platforms v100x4 > mine.toml
    zellige simulate cholesky --n 65536 --tile 1024 --platform mine.toml";

/// Verbs of `zellige simulate`.
#[derive(Debug, Subcommand)]
pub enum Simulate {
    /// Simulate a reconstructor: factorisation and both solves.
    #[command(after_long_help = SIMULATE_EXAMPLES)]
    Tor(SimulateTor),
    /// Simulate a Cholesky factorisation alone.
    #[command(after_long_help = SIMULATE_CHOLESKY_EXAMPLES)]
    Cholesky(SimulateCholesky),
    /// List the shipped platforms and the sources of their numbers, or print one as a file to edit.
    Platforms {
        /// Platform to print, as a file that --platform reads.
        name: Option<String>,
    },
}

/// Options of `simulate tor`.
#[derive(Debug, Args)]
pub struct SimulateTor {
    /// Number of measurements: the order of the covariance matrix, n of `tor info`; or a list.
    #[arg(long, value_name = "N[,N...]", required = true, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub n: Vec<u32>,
    /// Number of rows of the reconstructor, m of `tor info`.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub m: u32,
    #[command(flatten)]
    pub common: SimulateCommon,
}

/// Options of `simulate cholesky`.
#[derive(Debug, Args)]
pub struct SimulateCholesky {
    /// Order of the matrix, or a list of orders.
    #[arg(long, value_name = "N[,N...]", required = true, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub n: Vec<u32>,
    /// Leave out all tasks but the products of tiles.
    ///
    /// The rate is that of the products. Rules on norms need a whole factorisation.
    #[arg(long, conflicts_with = "norms")]
    pub products_only: bool,
    #[command(flatten)]
    pub common: SimulateCommon,
}

/// Options that all simulations share.
#[derive(Debug, Args)]
pub struct SimulateCommon {
    /// Tile size.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub tile: u32,
    /// Precision rule, as for `tor run` except fp64; may be repeated.
    ///
    /// Give each rule in an option of its own, since rules contain commas. Rules that use norms
    /// need --norms. Tiles are float32.
    #[arg(long = "precision", value_name = "RULE", default_value = "fp32")]
    pub rules: Vec<Rule>,
    /// Norms of tiles from `tor run --norms`, for rules that use norms.
    ///
    /// They are interpolated to the size of the matrix.
    #[arg(long, value_name = "FILE.json")]
    pub norms: Option<Input>,
    /// Most products on one tile in one task: fewer, longer tasks.
    ///
    /// For fp32, hp1, bf1, x3 and tf32; products in other precisions are not fused.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = super::fused_updates())]
    pub fuse_updates: u8,
    /// Platform: a shipped one (`simulate platforms`), a .toml file, or host.
    ///
    /// host: this machine, with the rates that `machine calibrate` has measured.
    #[arg(long, value_name = "NAME|FILE.toml|host", default_value = "v100x4")]
    pub platform: String,
    /// CPU workers of the platform host [default: one per core].
    ///
    /// Calibrate with the same number.
    #[arg(long, id = "simulated_workers", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Number of devices to use, from the first on; or a list.
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub devices: Vec<u16>,
    /// Machines, one rank on each; a list is compared.
    ///
    /// All machines are like the platform, which needs a network. Tiles are distributed as by
    /// `mpirun -n N zellige tor run`. With several numbers, e.g. 1,2,4,8, speedups are relative to
    /// the first.
    #[arg(long, value_name = "N[,N...]", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub nodes: Vec<u16>,
    /// Memory of each device, e.g. 4GB [default: the platform's].
    #[arg(long, value_name = "BYTES", value_parser = gigabytes)]
    pub device_memory: Option<f64>,
    /// Scheduling policy; owners: block-cyclic over the devices.
    #[arg(long, value_name = "P", default_value = "dmdas", value_parser = simulated_policy_names())]
    pub sched: String,
    /// Block size of the distribution with --sched owners (tiles).
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub cyclic_block: u16,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Those of the runtime, and the owner map of tiles.
fn simulated_policy_names() -> clap::builder::PossibleValuesParser {
    let owners = (
        zellige_tor::pipeline::simulate::OWNERS,
        "the device that owns the written tile, two-dimensional block cyclic",
    );
    possible(&[&POLICIES[..], &[owners]].concat())
}

/// Parses a memory size into gigabytes, the unit of platforms. Percentages are refused, because
/// they would refer to the value that is replaced.
fn gigabytes(text: &str) -> Result<f64, String> {
    match text.parse()? {
        MemorySize::Bytes(bytes) => Ok(bytes as f64 / 1e9),
        MemorySize::Share(_) => Err("use bytes, e.g. 4GB".into()),
    }
}
