//! What may be written after `zellige`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use zellige_linalg::Rule;
use zellige_runtime::POLICIES;

const TOP_EXAMPLES: &str = "\
Begin with
  zellige tor run apps/tor/systems/demo.toml --precision fp32 --precision hp1:operand=1e-2 --report report.html
  zellige tor info SYSTEM.toml          how large it is, before anything runs
  zellige machine show                  what this machine offers
  zellige simulate tor --help           what another machine would do
  zellige selftest                      whether the runtime does what it should here
  zellige help tor run                  every option, with examples

Exit codes
  0  done        1  failed       2  bad parameter or option     3  no precision rule survived
  4  no such device              130  Ctrl-C";

const RULES: &str = "\
Precision rules (--precision, --solve-precision): which tile products run in which precision
  fp64, fp32, hp1, hp2, hp3, bf1, x3    the same for every product; fp64 stores float64 tiles, all others float32
  hp1:band=2                            hp1 on tiles at least 2 tiles off the diagonal, fp32 elsewhere
  hp1:tile=1e-2                         hp1 where |A_ij| <= 1e-2 |A|
  hp1:operand=1e-2                      hp1 where |L_ik| |L_jk| <= 1e-2 |A|: the norms of the very operands
  hp1:operand=1e-2,else=x3              and x3 elsewhere
  script:FILE                           fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a) in FILE (Rhai)
  hp1, hp2, hp3: f16 operands, sums in f32, f16 with f32 products, f16; bf1: bf16 operands; x3: f32 split in three f16 products.
  A rule may lose positive definiteness: it is reported with tile and pivot, and the others go on.";

const RUN_EXAMPLES: &str = "\
Examples
  Compare four rules, and look at the result in a browser:
    zellige tor run demo.toml --precision fp32 --precision hp1:band=2 --precision hp1:operand=1e-2 --precision x3 \\
        --report report.html --trace trace.json
  MOAO's own files, a reconstructor for two targets, figures for a script:
    zellige tor run sys-params.txt --atm atm-params.txt --target 0,0 --target 10,-5 -o R.fits --json result.json
  Repair a rule that fails, one rule of more precision after the other:
    zellige tor run demo.toml --precision hp2 --on-not-spd retry";

const SELFTEST_NOTES: &str = "\
Each graph is made from its seed alone: 20 to 200 tasks on 2 to 24 handles at a time in several number formats, with reads, writes,
updates, commuting and reducing tasks, failures on purpose, replays, and values read and written in place, on 0 to 2 CPU workers and 1 to 6
emulated devices with little memory. Every value must be what the same tasks give one after the other, bit by bit.
Graph i has seed S + i: a failure is repeated by --fuzz 1 --seed with the seed that is printed.

Examples
  A short check:                    zellige selftest
  A long one, figures for a script: zellige selftest --fuzz 100000 --seed 1000000 --jobs 2 --json selftest.json
  One graph again:                  zellige selftest --fuzz 1 --seed 1605

Exit codes: 0 all as they should be, 1 a graph failed (by a wrong value, an error, a panic or a hang).";

const MEMORY_NOTES: &str = "\
Every policy starts with the whole matrix in host memory and ends with the factor there; its bits are compared with those of a run
without devices. Seconds are of emulated devices, which share the CPU's cores: bytes are what this measures.
  x must    all bytes that moved, by those that tasks need where they ran: each tile that a device uses goes there once, each that it
            wrote comes back once
  x bound   bytes that devices loaded, by the least for their part of the work: flops / sqrt(2 M) numbers with memory for M of them
            (Beaumont, Eyraud-Dubois, Verite, Langou 2022: n^3 / (3 sqrt(2 M)) for a whole factorisation)";

const CALIBRATE_NOTES: &str = "\
It factors matrices of 8 x 8 tiles in fp64, fp32, hp1, hp2, hp3, bf1 and x3; run it on a machine that does nothing else.
The result replaces what is in $XDG_CACHE_HOME/zellige (or ~/.cache/zellige), models-HOST.json. A file of another processor
or another version is never used.";

/// Task graphs over tiles, each tile in the precision it deserves.
#[derive(Debug, Parser)]
#[command(name = "zellige", version, after_help = TOP_EXAMPLES, max_term_width = 120, propagate_version = true)]
pub struct Cli {
    /// What to log on standard error: off, error, warn, info, debug, trace, or a filter as in RUST_LOG.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The first word.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Tomographic reconstructors for adaptive optics.
    #[command(subcommand)]
    Tor(Box<Tor>),
    /// How fast this machine is at what the runtime and the kernels do.
    #[command(subcommand)]
    Bench(Bench),
    /// The machine itself.
    #[command(subcommand)]
    Machine(MachineVerb),
    /// What a machine that is only written down would do: nothing runs, time is virtual.
    #[command(subcommand)]
    Simulate(Simulate),
    /// Check the runtime on this machine: random task graphs on emulated devices, compared bit by bit with a sequential run.
    #[command(after_help = SELFTEST_NOTES)]
    Selftest(SelftestArgs),
}

/// The words after `tor`.
#[derive(Debug, Subcommand)]
pub enum Tor {
    /// Say how large a system is, what it needs, and which tiles suit it; nothing is computed.
    Info(InfoArgs),
    /// Compute the covariance matrices and write them.
    Cov(CovArgs),
    /// Compute a reconstructor and write it.
    #[command(after_help = RULES)]
    Build(BuildArgs),
    /// Judge a reconstructor from any file: error covariance, image, Strehl ratio.
    Eval(EvalArgs),
    /// All stages, for every precision rule, compared in one table.
    #[command(after_help = run_help())]
    Run(RunArgs),
}

fn run_help() -> String {
    format!("{RULES}\n\n{}\n\n{RUN_EXAMPLES}", policies())
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
    pub system: PathBuf,
    /// Turbulence profile (MOAO's atm-params.txt or .toml); a .toml SYSTEM may hold it.
    #[arg(long, value_name = "FILE")]
    pub atm: Option<PathBuf>,
    /// Refuse what would be repaired with a warning.
    #[arg(long)]
    pub strict: bool,
    /// Direction to reconstruct in arcsec, instead of those in SYSTEM; may be repeated.
    #[arg(long = "target", value_name = "X,Y", value_parser = target, allow_hyphen_values = true)]
    pub targets: Vec<[f64; 2]>,
}

/// Who computes.
#[derive(Debug, Args)]
pub struct ExecutionArgs {
    /// Worker threads; by default one per core that this process may use. The thread that submits comes on top.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Scheduling policy.
    #[arg(long, value_name = "P", default_value = "lws", value_parser = policy_names())]
    pub sched: String,
    /// Where tasks run.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: Device,
}

/// Kinds of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// CPU cores.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
}

/// How the factorisation is cut, and what happens when it fails.
#[derive(Debug, Args)]
pub struct FactorArgs {
    /// Precision of the products of the two triangular solves; by default that of the factorisation.
    #[arg(long, value_name = "RULE")]
    pub solve_precision: Option<Rule>,
    /// Tile edge: a number (uniform tiles, the last one short), or auto (cut at sensor axes, at most 512).
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = tile)]
    pub tile: Tile,
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
    pub json: Option<PathBuf>,
}

/// `tor cov`.
#[derive(Debug, Args)]
pub struct CovArgs {
    #[command(flatten)]
    pub system: SystemArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// File to write, float64: one .fits with images CMM, CTM, CTT, or a .npy for each.
    #[arg(short, long, value_name = "FILE.fits|FILE.npy")]
    pub output: PathBuf,
    /// Order of the slopes in the file.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    /// Write sizes and times as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
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
    #[arg(short, long, value_name = "R.fits|R.npy")]
    pub output: PathBuf,
    /// Order of the slopes in the file.
    #[arg(long, value_name = "xxyy|xyxy", default_value = "xxyy")]
    pub slope_order: Order,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
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
    pub rec: PathBuf,
    /// Command matrix of the mirror; by default that of the system's own model.
    #[arg(long, value_name = "Dx.fits")]
    pub dm: Option<PathBuf>,
    /// Order of the slopes in the files; by default what their headers say, else xxyy.
    #[arg(long, value_name = "xxyy|xyxy")]
    pub slope_order: Option<Order>,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
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
    pub json: Option<PathBuf>,
    /// Write what every worker did: .json for Perfetto and chrome://tracing, .paje or .trace for ViTE, .html for a browser.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write a page with precision map, spectra, images and a summary of the trace.
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Reconstructor of the first rule that survives: .fits (an image per target) or .npy (a file per target)
    #[arg(short, long, value_name = "R.fits|R.npy")]
    pub output: Option<PathBuf>,
    /// Write the norms of all tiles, of the first rule that survives, as JSON for `simulate tor --norms`; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub norms_out: Option<PathBuf>,
}

/// The words after `bench`.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// CPU time of the process per empty task, in microseconds; medians.
    Tasks(BenchTasks),
    /// Rate of a Cholesky factorisation beside that of one tile product.
    Cholesky(BenchCholesky),
    /// What a Cholesky factorisation moves when emulated devices hold a fraction of its matrix, beside what it must move.
    #[command(after_help = MEMORY_NOTES)]
    Memory(BenchMemory),
}

/// `bench tasks`.
#[derive(Debug, Args)]
pub struct BenchTasks {
    /// Worker threads; the thread that submits comes on top.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,
    /// Scheduling policy.
    #[arg(long, value_name = "P", default_value = "lws", value_parser = policy_names())]
    pub sched: String,
    /// Tasks of a case.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub tasks: u32,
    /// Repetitions; the median counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// `bench cholesky`.
#[derive(Debug, Args)]
pub struct BenchCholesky {
    /// Order of the matrix.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub n: u32,
    /// Tile edge.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub tile: u32,
    /// Numbers of the tiles.
    #[arg(long, value_name = "f32|f64", default_value = "f32")]
    pub format: Number,
    /// Worker threads; the thread that submits comes on top.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,
    /// Scheduling policy.
    #[arg(long, value_name = "P", default_value = "lws", value_parser = policy_names())]
    pub sched: String,
    /// Repetitions; medians count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// `bench memory`.
#[derive(Debug, Args)]
pub struct BenchMemory {
    /// Order of the matrix.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub n: u32,
    /// Tile edge.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub tile: u32,
    /// Precision rule, e.g. fp32, hp1:band=2; tiles are float32.
    #[arg(long, value_name = "RULE", default_value = "fp32")]
    pub rule: Rule,
    /// Scheduling policies, with commas between them, or several times; by default all.
    #[arg(long, visible_alias = "policies", value_name = "P,...", value_delimiter = ',', value_parser = policy_names())]
    pub sched: Vec<String>,
    /// Emulated devices.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub devices: u16,
    /// What they hold together, in percent of the bytes of the tiles on and below the diagonal.
    #[arg(long, value_name = "P%", default_value = "30%", value_parser = percent)]
    pub memory: f64,
    /// Rate of each device's link to the host, each way (GB/s).
    #[arg(long, value_name = "GB/s", default_value_t = 10.0, value_parser = rate)]
    pub link: f64,
    /// Worker threads for CPU cores, 0 for none; each device has one on top.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub workers: u16,
    /// Print what happened on each memory node, for each policy.
    #[arg(long)]
    pub stats: bool,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// See [`BenchCholesky::format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Number {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

const SIMULATE_EXAMPLES: &str = "\
Examples
  Doucet et al. (2019): 100k measurements on four V100, in single and mixed precision:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --rule fp32 --rule hp1:band=2 --platform v100x4
  Two copies of each tile, as in that paper, each tile on a fixed device, and a rule on norms that a smaller run has measured:
    zellige tor run apps/tor/systems/demo.toml --tile 102 --precision fp32 --norms-out norms.json
    zellige simulate tor --n 100368 --m 11152 --tile 950 --rule hp1:operand=1e-2 --norms norms.json --sched owners --copies both
  Less memory on each device, or one of them:
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 --capacity 4
    zellige simulate tor --n 100368 --m 11152 --tile 950 --platform v100x4 --devices 1";

const SIMULATE_CHOLESKY_EXAMPLES: &str = "\
Examples
  This machine with two workers, by what was measured with two:
    zellige machine calibrate --tile 256 --workers 2
    zellige simulate cholesky --n 8192 --tile 256 --platform host --workers 2 --sched lws
  Four GPUs:
    zellige simulate cholesky --n 65536 --tile 1024 --rule hp1:band=2 --platform v100x4";

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
    /// Precision rule, e.g. fp32, hp1, hp1:band=2; may be repeated. Rules that look at norms need --norms.
    #[arg(long = "rule", value_name = "RULE", default_value = "fp32")]
    pub rules: Vec<Rule>,
    /// Norms of tiles, from `tor run --norms-out`: interpolated to this size, for rules that look at norms.
    #[arg(long, value_name = "FILE.json")]
    pub norms: Option<PathBuf>,
    /// How products get 16-bit operands: replicas of a tile, or a second copy of each, made by conversion tasks.
    #[arg(long, value_name = "replicas|both", default_value = "replicas")]
    pub copies: CopiesArg,
    /// A shipped platform (see `simulate platforms`), a .toml file, or host: this machine, as `machine calibrate` has measured it.
    #[arg(long, value_name = "NAME|FILE.toml|host", default_value = "v100x4")]
    pub platform: String,
    /// Workers of the platform host; by default one per core that this process may use. Calibrate with as many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Only the first so many devices of it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub devices: Option<u16>,
    /// Memory of each device (GB), instead of what the platform says.
    #[arg(long, value_name = "GB", allow_negative_numbers = true)]
    pub capacity: Option<f64>,
    /// Scheduling policy; owners: each tile has a fixed device, two-dimensional block cyclic.
    #[arg(long, visible_alias = "policy", value_name = "P", default_value = "dmdas", value_parser = simulated_policy_names())]
    pub sched: String,
    /// Tasks for which a device gathers operands beyond the running one; 0: it takes a task when it is free. By default 2, on the
    /// platform host 0.
    #[arg(long, value_name = "N")]
    pub ahead: Option<u16>,
    /// Write what every device would do: .json for Perfetto and chrome://tracing, .paje or .trace for ViTE, .html for a browser.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the figures as JSON, one object per rule; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// See [`SimulateCommon::copies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CopiesArg {
    /// Replicas of one handle, where and while they are wanted.
    Replicas,
    /// Two values per tile.
    Both,
}

/// `selftest`.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Random graphs to run; after ten failures no more are begun.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub fuzz: u64,
    /// Seed of the first graph; graph i has this plus i.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Graphs that run side by side.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// Seconds after which a graph counts as one that hangs; it usually takes some milliseconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub patience: u16,
    /// Have a device fail for good in some graphs: values must be right, or errors that name the device.
    #[arg(long)]
    pub deaths: bool,
    /// Write the figures as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// The words after `machine`.
#[derive(Debug, Subcommand)]
pub enum MachineVerb {
    /// Cores, caches, memory, limits, vector instructions, and the performance models that are known.
    Show(MachineShow),
    /// Measure the tile kernels in every precision, and keep the result for scheduling policies and simulation.
    #[command(after_help = CALIBRATE_NOTES)]
    Calibrate(MachineCalibrate),
    /// Remove the performance models of this machine.
    Forget,
}

/// `machine calibrate`.
#[derive(Debug, Args)]
pub struct MachineCalibrate {
    /// Tile edge; may be repeated. By default 64, 96, 128, 192, 256, 384 and 512.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub tile: Vec<u16>,
    /// Worker threads that run at once; more than one measures how they share caches and memory.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: u16,
    /// Write the models as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

/// `machine show`.
#[derive(Debug, Args)]
pub struct MachineShow {
    /// Write the same as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

fn policy_names() -> clap::builder::PossibleValuesParser {
    possible(&POLICIES)
}

/// Those of the runtime, and the owner map of tiles.
fn simulated_policy_names() -> clap::builder::PossibleValuesParser {
    let owners = (
        zellige_tor::simulate::OWNERS,
        "the device that owns the written tile, two-dimensional block cyclic",
    );
    possible(&[&POLICIES[..], &[owners]].concat())
}

fn possible(policies: &[(&'static str, &'static str)]) -> clap::builder::PossibleValuesParser {
    let values = policies.iter().map(|&(name, what)| clap::builder::PossibleValue::new(name).help(what));
    values.collect::<Vec<_>>().into()
}

fn target(text: &str) -> Result<[f64; 2], String> {
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    let parsed = text.split_once(',').and_then(|(x, y)| Some([number(x)?, number(y)?]));
    parsed.ok_or_else(|| "two numbers in arcsec with a comma between them, e.g. 10,-5".into())
}

/// A share of something, from its percentage.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let share = number.filter(|p| *p > 0.0 && *p <= 1000.0).map(|p| p / 100.0);
    share.ok_or_else(|| "a percentage above 0, e.g. 30%".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
    number.ok_or_else(|| "a number of GB/s above 0".into())
}

fn tile(text: &str) -> Result<Tile, String> {
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
    use clap::CommandFactory;

    #[test]
    fn the_command_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn targets_are_two_numbers() {
        assert_eq!(target("10,-5.5"), Ok([10.0, -5.5]));
        for bad in ["", "1", "1;2", "1,nan", "1,2,3", "x,y"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent("30%"), Ok(0.3));
        assert_eq!(percent("12.5"), Ok(0.125));
        for bad in ["", "%", "0%", "-3%", "nan", "1e9%"] {
            assert!(percent(bad).is_err(), "{bad}");
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
