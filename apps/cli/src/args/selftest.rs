//! Options of `zellige selftest`.

use crate::args::Output;
use clap::{ArgAction, Args};

use super::all_gpus;

pub(super) const NOTES: &str = "\
First every kernel of factorisations and solves runs in every precision on CPU workers, on random tiles; errors are compared with bounds that
follow from the precisions, against float64. Then come the graphs.

Each graph is made from its seed alone: 20 to 200 tasks on 2 to 24 handles at a time in several number formats, with reads, writes,
updates, commuting and reducing tasks, failures on purpose, replays, and values read and written in place, on 0 to 2 CPU workers and 1 to 6
devices with little memory, emulated or GPUs of a driver that needs none and checks the order of its streams. Every value must be what the same tasks give one after the other, bit by bit.
Graph i has seed S + i: a failure is repeated by --fuzz 1 --seed with the seed that is printed.

Examples
  A short check:                    zellige selftest
  A long one, figures for a script: zellige selftest --fuzz 100000 --seed 1000000 --jobs 2 --json selftest.json
  One graph again:                  zellige selftest --fuzz 1 --seed 1605
  One graph again, on the GPUs:     zellige selftest --device cuda --only-graphs --fuzz 1 --seed 1605
  Every GPU as well, in minutes:    zellige selftest --device cuda --json selftest.json

With --device cuda each NVIDIA GPU is checked next: every kernel in every precision against float64 and against the CPU, products of sparse solvers, searches
and covariances against the CPU's bits, which precision rules keep
MOAO's check system positive definite, a factorisation in a third of the memory it needs and on several parts of one GPU, and what
happens when memory is short or a kernel faults (in a process of its own). A precision that the GPU is too old for is skipped, with a row that says so. Where
there are several GPUs a factorisation runs on all together. Then the graphs run on these GPUs, whole and in parts.

Exit codes: 0 all as they should be, 1 a graph or a check failed (by a wrong value, an error, a panic or a hang), 4 --device cuda and no GPU.";

/// Options of `selftest`.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Number of random task graphs; the run stops after ten failures.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub fuzz: u64,
    /// Seed of the first graph; graph i adds i to it.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Number of graphs that run concurrently.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// Seconds after which a graph counts as hung.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub patience: u16,
    /// Let a device fail in some graphs.
    ///
    /// Then values must be correct, or errors must name the device.
    #[arg(long)]
    pub device_failures: bool,
    /// Run each graph on a single thread, in an order drawn from the seed.
    ///
    /// In this mode GPUs are emulated devices.
    #[arg(long, conflicts_with = "cuda")]
    pub single_threaded: bool,
    /// cuda: also check every GPU.
    ///
    /// CUDA_VISIBLE_DEVICES restricts the GPUs.
    #[arg(long = "device", value_name = "cpu|cuda", default_value = "cpu", value_parser = all_gpus, action = ArgAction::Set)]
    pub cuda: bool,
    /// Use fewer and smaller tiles: one minute instead of several.
    #[arg(long)]
    pub quick: bool,
    /// Run only the graphs.
    #[arg(long)]
    pub only_graphs: bool,
    /// Let a kernel fault on this GPU, and print the outcome. --device cuda starts this in a
    /// separate process.
    #[arg(long, hide = true, value_name = "GPU")]
    pub faulty_kernel: Option<u32>,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        selftest: SelftestArgs,
    }

    /// Checks the default of --jobs. On a GPU, too, one graph has the memory for itself.
    #[test]
    fn one_graph_runs_at_a_time() {
        for line in [&["zellige"][..], &["zellige", "--device", "cuda"]] {
            assert_eq!(Line::parse_from(line).selftest.jobs, 1);
        }
    }
}
