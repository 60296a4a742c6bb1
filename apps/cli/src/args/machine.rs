//! Options of `zellige machine`.

use crate::args::Output;
use clap::{ArgAction, Args, Subcommand};

use super::all_gpus;

const CALIBRATE_NOTES: &str = "\
The command factors matrices of 8 x 8 to 16 x 16 tiles in fp64, fp32, hp1, hp2, hp3, bf1, x3, \
tf32 and fp8. Run it on an idle machine.

With --device cuda, GPUs factor the same matrices in each precision that they support. GPUs of \
the same name share their times; each GPU has its own links. If there is no GPU, the exit code \
is 4.

With --platform FILE.toml, the machine is written as a platform for `zellige simulate --platform \
FILE.toml`, with the GPUs first: --devices N simulates the first N only.

The result replaces models-HOST.json in $XDG_CACHE_HOME/zellige (or ~/.cache/zellige), except \
the entries of GPUs that are not measured in this run. A file of another processor or another \
version is never used.";

/// Verbs of `zellige machine`.
#[derive(Debug, Subcommand)]
pub enum MachineVerb {
    /// Show cores, caches, memory, limits, vector instructions and the known performance models.
    Show(MachineShow),
    /// Measure the tile kernels in every precision, and store the result for scheduling policies
    /// and simulation.
    #[command(after_long_help = CALIBRATE_NOTES)]
    Calibrate(MachineCalibrate),
    /// Remove the performance models of this machine.
    Forget,
}

/// Options of `machine calibrate`.
#[derive(Debug, Args)]
pub struct MachineCalibrate {
    /// Tile sizes: a list [default: 64 to 512; on GPUs 512 to 2048].
    ///
    /// The default is 64, 96, 128, 192, 256, 384 and 512; on GPUs 512, 1024 and 2048. Sizes above
    /// 1024 are for GPUs alone.
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub tile: Vec<u16>,
    /// cuda: also measure every GPU and its links.
    #[arg(long = "device", value_name = "cpu|cuda", default_value = "cpu", value_parser = all_gpus, action = ArgAction::Set)]
    pub cuda: bool,
    /// Number of CPU worker threads [default: one per core].
    ///
    /// With more than one, the rates include the sharing of caches and memory bandwidth.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Write this machine as a platform file for `simulate`; `-` is standard output.
    ///
    /// The file has the CPU workers, links, and rates of each codelet by precision and size. With
    /// --device cuda it also has the GPUs.
    #[arg(long, value_name = "FILE.toml|-", conflicts_with_all = ["json"])]
    pub platform: Option<Output>,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// Options of `machine show`.
#[derive(Debug, Args)]
pub struct MachineShow {
    /// Also run a quick self-test, with GPUs if their driver is present.
    #[arg(long)]
    pub check: bool,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}
