//! Options of `zellige selftest`.

use crate::args::Output;
use clap::{ArgAction, Args};

use super::all_gpus;

pub(super) const NOTES: &str = "\
First, every kernel of factorisations and solves runs in every precision on CPU workers, on \
random tiles. Errors relative to float64 are compared with bounds that follow from the \
precisions. The graphs follow.

Each graph depends on its seed alone. It has 20 to 200 tasks on 2 to 24 handles at a time in \
several number formats, with reads, writes, updates, commuting and reducing tasks, deliberate \
failures, replays, and values read and written in place. It runs on 0 to 2 CPU workers and 1 to \
6 devices with little memory: emulated devices, or GPUs of a mock driver that checks the order \
of its streams. Every value must have the bits of a sequential run. Graph i has seed S + i: a \
failure is reproduced by --fuzz 1 --seed with the printed seed.

With --device cuda, each NVIDIA GPU is checked before the graphs run on the GPUs:
  - every kernel in every precision, compared with float64 and with the CPU;
  - products of sparse solvers, searches and covariances, which must have the
    bits of the CPU;
  - precision rules that keep MOAO's check system positive definite;
  - a factorisation in a third of the memory that it needs, and on several
    parts of one GPU;
  - lack of memory, and a faulting kernel (in a separate process).
A precision that the GPU does not support is skipped, with a row that says so. Several GPUs also \
run a factorisation together. The graphs then run on whole GPUs and on parts of GPUs.

Examples
  A short check:
    zellige selftest
  A long check, with results for a script:
    zellige selftest --fuzz 100000 --seed 1000000 --jobs 2 --json selftest.json
  One graph again, on emulated devices or on GPUs:
    zellige selftest --fuzz 1 --seed 1605
    zellige selftest --device cuda --only graphs --fuzz 1 --seed 1605
  All GPUs as well, in minutes:
    zellige selftest --device cuda --json selftest.json

Exit codes
  0 all checks passed   4 no GPU for --device cuda
  1 a graph or a check failed: a wrong value, an error, a panic or a hang";

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
    /// Run only this part.
    #[arg(long, value_name = "PART", value_parser = ["graphs"])]
    pub only: Option<String>,
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
