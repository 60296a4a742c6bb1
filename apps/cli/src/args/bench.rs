//! Options of `zellige bench`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use zellige_dense::Rule;
use zellige_measure::gpu::Part;

use super::{CudaDevices, Device, policy_names};
use crate::args::Output;

const MEMORY_NOTES: &str = "\
With every policy, a run starts with the whole matrix in host memory and ends with the factor \
there. The bits of the factor are compared with those of a run without devices. The seconds are \
those of emulated devices, which share the CPU's cores; the bytes are the result of interest.

Columns
  x bound   Time from the first task to the last, relative to the larger of the
            area bound and the critical path, for the measured task times and
            without transfers.
  x must    All transferred bytes, relative to the minimum for the given
            placement of tasks: each tile that a device uses goes there once,
            and each tile that it has written returns once.
  x loads   Bytes loaded by devices, relative to the lower bound for their part
            of the work: flops / sqrt(2 M) numbers with memory for M numbers
            (Beaumont, Eyraud-Dubois, Verite, Langou 2022: n^3 / (3 sqrt(2 M))
            for a whole factorisation).";

const GPU_NOTES: &str = "\
All measurements are on one GPU with random numbers, and are medians of the runs after a first \
run that is not counted. A measurement that does not fit the memory is left out, with a line \
that says so.

Parts
  products        C -= A B^T of tiles as in a task (scales, operands of x3 and
                  fp8 assembled, results of hp2 and hp3 rounded), compared with
                  the plain product of the library for the same operands;
                  2 tile^3 flops each. x3 makes three products and reaches at
                  most a third. peak: the maximum of these and of the library's
                  product of large matrices (8192).
  copies          In one direction at a time, from and to page-locked host
                  memory.
  replays         A recorded graph of 256 small tasks in a chain: time of a task
                  if each is launched, and if the replay is one launch of a CUDA
                  graph.
  routines        GEMM in f16 and f32, SYRK, TRSM and POTRF in f32 by the
                  libraries alone, for orders from 512 to 8192; and the host
                  time for a launch and for the end of an operation, sleeping
                  and spinning.
  Cholesky        cuSOLVER on a whole matrix in GPU memory (f32, f64), and this
                  program in f32 tiles with each rule; n^3 / 3 flops.
  little memory   The same with 30 % of the memory that the matrix needs, and on
                  2 and 4 parts of the GPU; all must give the same bits.
  CPU and GPU     The same with CPU workers as well, compared with the GPU
                  alone.
  several GPUs    The largest factorisation on two GPUs and on all, if there are
                  several.
  reconstructor   From the parameters of a 39 m telescope to R, with each rule,
                  or with the next safer rule if definiteness is lost; also the
                  last telescope with sixty layers of turbulence.

Columns
  idle            Fraction of the time in which the GPU's worker ran no body.
  x bound         Time relative to the larger of the area bound and the critical
                  path of the same bodies.
  predicted       Virtual time of a tiled factorisation on the measured
                  platform, relative to the measured time.
  of limit        Minimum time of the same operations, each at the peak of its
                  precision in this run, relative to their measured time.

Times are from CUDA's events, except those of tiled factorisations, which run on many streams. \
Each rate has the median clock rate of the multiprocessors (MHz) and the mean power (W) during \
its measurement, if NVML can be loaded and the GPU reports them. A short table of the main \
results comes last.

Examples
  All parts:     zellige bench gpu --json gpu.json
  A first look:  zellige bench gpu --quick
  One part:
    zellige bench gpu --only cholesky --n 100352 --tile 3072 \\
        --precision hp1:operand=1e-2,panel=x3 --tuning urgent-stream

Exit codes
  0 measured   1 a factor has other bits, or something failed
  2 an option is wrong   4 no GPU, or a required library is missing";

/// Verbs of `zellige bench`.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Measure the process's CPU time per empty task (us, medians).
    Tasks(BenchTasks),
    /// Measure the rates of a Cholesky factorisation and a tile product.
    Cholesky(BenchCholesky),
    /// Measure the transfers of a Cholesky factorisation on emulated devices with little memory.
    ///
    /// The memory holds a fraction of the matrix. The transfers are compared with the least
    /// possible.
    #[command(after_long_help = MEMORY_NOTES)]
    Memory(BenchMemory),
    /// Measure the rates of a GPU: products, copies, factorisations.
    ///
    /// Products are in each precision. Factorisations are compared with cuSOLVER's, and also run
    /// out of core and on logical GPUs.
    #[command(after_long_help = GPU_NOTES)]
    Gpu(BenchGpu),
}

/// Options of `bench tasks`.
#[derive(Debug, Args)]
pub struct BenchTasks {
    /// Number of CPU worker threads; the submitting thread is not counted [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Scheduling policy.
    #[arg(long, value_name = "P", default_value = "lws", value_parser = policy_names())]
    pub sched: String,
    /// Number of tasks in each case.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Repetitions; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
}

/// Options of `bench cholesky`.
#[derive(Debug, Args)]
pub struct BenchCholesky {
    /// Order of the matrix.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub n: u32,
    /// Tile size.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub tile: u32,
    /// Maximum number of products that one task applies to a tile (f32).
    ///
    /// More products give fewer, longer tasks and the same bits.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = super::fused_updates())]
    pub fuse_updates: u8,
    /// Number format of the tiles.
    #[arg(long, value_name = "f32|f64", default_value = "f32")]
    pub format: Number,
    /// Number of CPU worker threads; the submitting thread is not counted [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Scheduling policy.
    #[arg(long, value_name = "P", default_value = "lws", value_parser = policy_names())]
    pub sched: String,
    /// Repetitions; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
}

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub struct BenchMemory {
    /// Order of the matrix.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub n: u32,
    /// Tile size.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub tile: u32,
    /// Precision rule, e.g. fp32, hp1:band=2; tiles are float32.
    #[arg(long, value_name = "RULE", default_value = "fp32")]
    pub precision: Rule,
    /// Scheduling policies: a list [default: all].
    #[arg(long, visible_alias = "policies", value_name = "P,...", value_delimiter = ',', value_parser = policy_names())]
    pub sched: Vec<String>,
    /// Emulated devices; 0 is allowed with --host-memory.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=64))]
    pub devices: u16,
    /// Total memory of the devices, in % of the tiles of the lower triangle.
    #[arg(long, value_name = "P%", default_value = "30%", value_parser = percent)]
    pub device_memory: f64,
    /// Host memory, in % of these tiles; the rest goes to a swap file.
    #[arg(long, value_name = "P%", value_parser = percent, required_if_eq("devices", "0"))]
    pub host_memory: Option<f64>,
    /// Folder of the swap file [default: the temporary folder].
    #[arg(long, value_name = "FOLDER", requires = "host_memory")]
    pub swap: Option<PathBuf>,
    /// Number of CPU worker threads; 0 for none [default: one per core].
    #[arg(long, value_name = "N")]
    pub workers: Option<u16>,
    /// Print the memory use and the transfers of each memory node, for each policy.
    #[arg(long)]
    pub stats: bool,
    /// Write the results as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
}

/// Options of `bench gpu`.
#[derive(Debug, Args)]
pub struct BenchGpu {
    /// GPU, by its number in `machine show`.
    #[arg(long, value_name = "cuda:N", default_value = "cuda:0", value_parser = one_gpu)]
    pub device: u32,
    /// Measure only these parts: a list [default: all].
    ///
    /// products, copies, replays, routines (single routines of cuBLAS and cuSOLVER by matrix order,
    /// launches and completions), cusolver, cholesky (tiled), memory, with-cpu, several, sparse,
    /// tor.
    #[arg(long, value_name = "PART,...", value_delimiter = ',', value_parser = part)]
    pub only: Vec<Part>,
    /// Settings of the runtime and the solver: a list.
    ///
    /// streams=N: streams for concurrent task bodies (3). depth=N: task bodies submitted to the GPU
    /// before the first has ended (4, or 2 if values have less than 4 GiB of memory); twice as many
    /// are submitted stream-ordered after other bodies. spins=US: microseconds for which a thread
    /// polls an operation before it sleeps until its end (50 on 8 CPUs or more, else 0).
    /// urgent-stream: a stream of the highest priority, for task bodies that are more urgent than
    /// all those in flight. substitution: triangular solves without inverses of diagonal blocks.
    #[arg(long, value_name = "SETTING,..", value_delimiter = ',')]
    pub tuning: Vec<Tune>,
    /// Matrix orders [default: 16384,32768,65536,100352; of routines 512 to 8192].
    ///
    /// With --quick 8192,16384, and of routines 1024,2048. Runs with little memory have the order
    /// 32768 (with --quick 16384), or a smaller one that is given and has at least 12 tiles a row.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=500_000))]
    pub n: Vec<u32>,
    /// Tile size, a multiple of 16 [default: 2048; of reconstructors by their size].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=32_768))]
    pub tile: Option<u32>,
    /// Precision rule of the factorisations; may be repeated.
    ///
    /// Give each rule in an option of its own, since rules contain commas.
    #[arg(long, value_name = "RULE", default_values = ["fp32", "x3,panel=x3", "hp1:band=2", "hp1:operand=1e-2,else=x3"])]
    pub precision: Vec<Rule>,
    /// Precision rule of the solves of reconstructors [default: the factorisation's rule].
    #[arg(long, value_name = "RULE")]
    pub solve_precision: Option<Rule>,
    /// Sub-apertures of reconstructors [default: 47,67,86].
    ///
    /// n = 30096, 60912, 100368; with --quick 41.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    pub tor: Vec<u16>,
    /// Maximum number of products on a tile per task.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = super::fused_updates())]
    pub fuse_updates: u8,
    /// Repetitions; medians are reported.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Time budget for all measurements, in seconds.
    ///
    /// A measurement starts only if smaller ones predict that it ends in time. Large measurements
    /// are repeated less often. The output lists the measurements that were left out.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: u32,
    /// Use smaller matrices, unless their orders are given.
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON; `-` is standard output.
    ///
    /// For a file, the measured platform for `zellige simulate` is written next to it (FILE.toml).
    #[arg(long, value_name = "FILE|-", help_heading = "Results")]
    pub json: Option<Output>,
}

/// Number format of the tiles; see [`BenchCholesky::format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Number {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

/// Parses a percentage into a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let share = number.filter(|p| *p > 0.0 && *p <= 1000.0).map(|p| p / 100.0);
    share.ok_or_else(|| "use a percentage above 0, e.g. 30%".into())
}

/// Change of a setting of the measured runtime or solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// Number of streams for concurrent task bodies.
    Streams(usize),
    /// Number of task bodies submitted to the GPU before the first has ended.
    Depth(usize),
    /// Time for which a thread polls an operation before it sleeps (us).
    Spins(u32),
    /// Additional stream of the highest priority, for urgent task bodies.
    UrgentStream,
    /// Triangular solves by substitution instead of products with inverses.
    Substitution,
}

impl FromStr for Tune {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "use streams=1 to 64, depth=1 to 64, spins=0 to 1000000, urgent-stream, or substitution";
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let within = |most: u32| value.parse::<u32>().ok().filter(|value| *value <= most).ok_or(wrong);
        let count = || within(64)?.try_into().ok().filter(|count| *count > 0).ok_or(wrong);
        match (name, value) {
            ("streams", _) => count().map(Tune::Streams),
            ("depth", _) => count().map(Tune::Depth),
            ("spins", _) => within(1_000_000).map(Tune::Spins),
            ("urgent-stream", "") => Ok(Tune::UrgentStream),
            ("substitution", "") => Ok(Tune::Substitution),
            _ => Err(wrong),
        }
    }
}

fn part(text: &str) -> Result<Part, String> {
    let names = || Part::ALL.map(Part::name).join(", ");
    let known = Part::ALL.into_iter().find(|part| part.name() == text);
    known.ok_or_else(|| format!("use one of {}", names()))
}

fn one_gpu(text: &str) -> Result<u32, String> {
    match text.parse()? {
        Device::Cuda(CudaDevices { numbers: Some(numbers), with_cpu: false }) if numbers.len() == 1 => {
            Ok(numbers[0])
        }
        _ => Err("use one GPU, e.g. cuda:0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("30%"), Ok(0.3));
        assert_eq!(percent("12.5"), Ok(0.125));
        for bad in ["", "%", "0%", "-3%", "nan", "1e9%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
