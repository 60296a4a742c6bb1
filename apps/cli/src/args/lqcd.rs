//! Options of `zellige lqcd`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use zellige_kernels::sites::{MatrixFormat, SiteFormat};
use zellige_lqcd::pipeline::{Method, Mixed, Solver, Source};
use zellige_lqcd::precision::Precision;
use zellige_lqcd::{Action, Boundary};

use super::execution::DEVICES;
use super::paths::{Input, Output, OutputFile};
use super::{ExecutionArgs, RunOutputs};

const GENERATE_EXAMPLES: &str = "\
Links are updated by heatbath and over-relaxation with the Wilson action, without quarks. The \
field depends on --seed alone, not on the number of workers. From a cold start, about 50 \
trajectories bring small lattices to equilibrium; --report shows the plaquette after each.

Examples
  zellige lqcd generate --size 8x8x8x16 --beta 5.7 -o small.lat
  zellige lqcd generate --size 16x16x16x16 --beta 6.0 --trajectories 100 \\
      --report plaquettes.html -o field.lat";

const INFO_EXAMPLES: &str = "\
The formats are MILC (version 5, both byte orders), NERSC archives, SciDAC and ILDG files, \
exported configurations of openQCD, and npy arrays of shape (4, T, Z, Y, X, 3, 3) or (T, Z, Y, \
X, 4, 3, 3). They are detected from the first bytes. Checksums are verified, and every link must \
be in SU(3).

Example
  zellige lqcd info small.lat --json -";

const CONVERT_EXAMPLES: &str = "\
The name of the output selects its format: .ildg for ILDG, .lime for SciDAC, others for MILC \
(float32). LIME files have float64 unless --links has another format. Packed links are read by \
every verb of lqcd, and by no other program: fixed16-13 takes 26 bytes for a link in place of \
144, with numbers that are off by 1.5e-5 at most.

Examples
  zellige lqcd convert small.lat small.ildg
  zellige lqcd convert small.lat small.lime --links fixed24-9
  zellige lqcd convert small.lime again.lat";

const SMEAR_EXAMPLES: &str = "\
Actions (--action)
  naive            Unchanged links.
  asqtad:U0        Paths of up to seven links and three-link terms, with the
                   tadpole factor U0.
  hisq             Smeared, projected to U(3), smeared again, with three-link
                   terms; hisq:EPSILON for heavy quarks.

Traces and plaquettes are computed; smeared links are not written, since invert and multishift \
smear links themselves.

Example
  zellige lqcd smear small.lat --action hisq";

/// Section on formats in the help of the solvers.
macro_rules! formats {
    () => {
        "\
Formats (--precision)
  double        float64.
  double-X      Iterations in X, with residuals replaced by ones recomputed in
                float64 (reliable updates).
  X             Iterations in X alone. The residual is recomputed when it seems
                small enough; half and int20 often stay above 1e-5.
  X is single (float32), half (16-bit integers and a scale for each site),
  int20, int30, or LINKS/QUARKS/PRODUCTS such as fp32/int20/fp32. QUARKS may
  also be int8 to int31.

Links are fp64, fp32, fixed32, fixed24 or fixed16, each also compressed (fixed16-13, fixed16-9).
"
    };
}

const INVERT_EXAMPLES: &str = concat!(
    "\
The propagator (2 m + D)^-1 from a point is computed for each colour on the sites of one parity, by a \
system with 4 m^2 - D D. The residual is recomputed in float64 before a solution counts as converged. \
The correlator, that of the Goldstone pion, is the sum of the squares of the propagator's elements in \
each time slice.

With --action wilson the operator is 4 + m0 - H / 2, the point has four spins, and kappa = 1 / (2 m0 + 8) \
is printed. cg and block-cg solve the normal equations, bicgstabl:L and gmres:M the system itself.

",
    formats!(),
    "
With --device cuda, conjugate gradients in double run entirely on a GPU, with the bits of the CPU. \
Other formats of vectors are for CPU workers.

If a residual is above --tol or --heavy-quark-tol, the exit code is 5.

Examples
  zellige lqcd invert small.lat --mass 0.05
  zellige lqcd invert small.lat --mass 0.05 --device cuda
  zellige lqcd invert small.lat --mass 0.01 --report residuals.html \\
      --precision double-fp32/int20/fp32
  zellige lqcd invert small.lat --action naive --mass 0.1 --tol 1e-12 \\
      --json result.json
  zellige lqcd invert small.lat --source point:0,0,0,4:1 --bc periodic
  zellige lqcd invert small.lat --mass 0.001 --deflate 20
  zellige lqcd invert small.lat --action wilson --mass -0.2 --method bicgstabl:4
  zellige lqcd invert small.lat --mass 0.05 -o prop.lime --vectors int20
  zellige lqcd invert fat.lime --long long.lime --mass 0.1 \\
      --source-fields source.lime -o answer.lime"
);

const EIGEN_EXAMPLES: &str = "\
The lowest eigenvalues of 4 m^2 - D D on the even sites are computed by the Lanczos method with thick \
restarts and a Chebyshev filter. With --output the eigenvectors are written, with a checksum. They \
serve every mass and source on this gauge field, on the sites of both parities.

Eigenvectors pay for light quarks, where conjugate gradients need thousands of steps, and for many \
sources: computing them takes as long as several solves.

Examples
  zellige lqcd eigen small.lat --count 10
  zellige lqcd eigen small.lat -n 40 --vectors int20 --output modes.eig
  zellige lqcd invert small.lat --mass 0.001 --deflate modes.eig";

const MULTISHIFT_EXAMPLES: &str = concat!(
    "\
4 m^2 - D D + sigma is solved for all shifts sigma in one Krylov space, by conjugate gradients in \
--precision, until only the smallest is left. Each shift is then refined separately in --refine. The source has one colour, the first \
unless --source gives another.

",
    formats!(),
    "
If a residual is above its tolerance, the exit code is 5.

Examples
  zellige lqcd multishift small.lat --shifts 0,1e-3,0.1,1
  zellige lqcd multishift small.lat --shifts 0,0.01,1 --tol 1e-10,1e-8,1e-6 \\
      --precision double-int30 --refine double-int20"
);

const DSLASH_EXAMPLES: &str = "\
The operator between the two parities of random links is applied to random fields. Its bytes \
(each number once) are compared with the memory bandwidth of this machine, or with that of \
copies within the memory of a GPU (bytes read and written). GPUs have kernels for uncompressed \
links, with the bits of the CPU; links and fields stay in GPU memory.

Examples
  zellige lqcd dslash --size 16 --workers 2
  zellige lqcd dslash --size 32x32x32x64 --device cuda
  zellige lqcd dslash --size 32x32x32x64 --precision half,int20 --columns 8 \\
      --json -";

/// Verbs of `zellige lqcd`.
#[derive(Debug, Subcommand)]
pub enum Lqcd {
    /// Generate a quenched gauge field and write it as a MILC or ILDG file.
    #[command(after_long_help = GENERATE_EXAMPLES)]
    Generate(LqcdGenerate),
    /// Describe a gauge field: lattice, plaquettes, link trace, Polyakov loop.
    #[command(after_long_help = INFO_EXAMPLES)]
    Info(LqcdInfo),
    /// Write a gauge field in another format: ILDG, MILC, or with packed links.
    #[command(after_long_help = CONVERT_EXAMPLES)]
    Convert(LqcdConvert),
    /// Smear the links of a gauge field, and print traces and plaquettes of the smeared links.
    #[command(after_long_help = SMEAR_EXAMPLES)]
    Smear(LqcdSmear),
    /// Compute the propagator of a staggered or Wilson quark, and its correlator.
    #[command(after_long_help = format!("{INVERT_EXAMPLES}\n\n{DEVICES}"))]
    Invert(Box<LqcdInvert>),
    /// Compute the lowest eigenvalues of the staggered operator, and vectors that speed up invert.
    #[command(after_long_help = EIGEN_EXAMPLES)]
    Eigen(LqcdEigen),
    /// Solve for several shifts in one Krylov space.
    #[command(after_long_help = MULTISHIFT_EXAMPLES)]
    Multishift(Box<LqcdMultishift>),
    /// Measure the rate of the staggered operator in its formats, compared with the memory
    /// bandwidth.
    #[command(after_long_help = format!("{DSLASH_EXAMPLES}\n\n{DEVICES}"))]
    Dslash(Box<LqcdDslash>),
}

/// Lattice extents in x, y, z and t, as `8x8x8x16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents(pub [usize; 4]);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        match parts.as_deref() {
            Ok(&[x, y, z, t]) => Ok(Extents([x, y, z, t])),
            Ok(&[n]) => Ok(Extents([n; 4])),
            _ => Err("use four numbers like 8x8x8x16, or one for all directions".into()),
        }
    }
}

/// Options of `zellige lqcd generate`.
#[derive(Debug, Args)]
pub struct LqcdGenerate {
    /// Lattice extents x, y, z, t, e.g. 8x8x8x16: even, from 4.
    #[arg(long, value_name = "XxYxZxT")]
    pub size: Extents,
    /// Gauge coupling beta: 6 / g^2.
    #[arg(long, value_name = "BETA", default_value_t = 6.0)]
    pub beta: f64,
    /// Number of trajectories: each is a heatbath sweep and several over-relaxation sweeps.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub trajectories: u32,
    /// Seed of the random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// File to write: MILC (float32), or ILDG (float64) if the name ends in .ildg or .lime.
    #[arg(long, short, value_name = "FILE")]
    pub output: OutputFile,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Options of `zellige lqcd info`.
#[derive(Debug, Args)]
pub struct LqcdInfo {
    /// Gauge field to read.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// Write the result as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// Options of `zellige lqcd convert`.
#[derive(Debug, Args)]
pub struct LqcdConvert {
    /// Gauge field to read.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// File to write: ILDG if its name ends in .ildg, SciDAC if in .lime, otherwise MILC.
    #[arg(value_name = "OUTPUT")]
    pub output: OutputFile,
    /// Format of the links: fp64, fp32, fixed32, fixed24, fixed16, each also with -13 or -9.
    #[arg(long, value_name = "FORMAT")]
    pub links: Option<MatrixFormat>,
}

/// Options of `zellige lqcd smear`.
#[derive(Debug, Args)]
pub struct LqcdSmear {
    /// Gauge field to read.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// Action: naive, asqtad:U0, hisq or hisq:EPSILON.
    #[arg(long, value_name = "ACTION", default_value_t = Action::HISQ)]
    pub action: Action,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Linear system of a solver verb: gauge field, action, mass and source.
#[derive(Debug, Args)]
pub struct LqcdSystem {
    /// Gauge field to read.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// Action: naive, asqtad:U0, hisq, hisq:EPSILON, as for `lqcd smear`, or wilson (invert only).
    #[arg(long, value_name = "ACTION", default_value_t = Action::HISQ)]
    pub action: Action,
    /// Quark mass in lattice units, above 0; the bare mass of Wilson quarks, above -4.
    #[arg(long, value_name = "MASS", default_value_t = 0.01, allow_negative_numbers = true)]
    pub mass: f64,
    /// Point source: point:X,Y,Z,T, or point:X,Y,Z,T:COLOUR for one colour. Wilson quarks have all
    /// four spins.
    #[arg(long, value_name = "SOURCE", default_value_t = Source::default())]
    pub source: Source,
    /// Boundary condition in time: periodic or antiperiodic.
    #[arg(long, value_name = "BC", default_value_t = Boundary::default())]
    pub bc: Boundary,
    /// Maximum number of iterations for each right-hand side.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub max_steps: usize,
}

/// Formats of the solver, and its updates of the residual.
#[derive(Debug, Args)]
#[command(next_help_heading = "Solver")]
pub struct LqcdSolver {
    /// Formats: double, single, half, int20, int30, double-int20, ...; --help lists all.
    #[arg(long, value_name = "FORMATS", default_value_t = Mixed::Double)]
    pub precision: Mixed,
    /// Reliable updates of double-X: replace the residual when it has fallen by this factor since
    /// the last replacement.
    ///
    /// estimate: replace it when an estimate of its error is large (van der Vorst and Ye).
    #[arg(long, value_name = "DELTA|estimate", default_value = "0.1", hide_short_help = true)]
    pub reliable: Reliable,
    /// Number of search directions of narrow conjugate gradients that are added to the solution
    /// together, 1 to 8.
    ///
    /// The solution is in float64 and moves through memory every N steps only. N - 1 more vectors
    /// are kept. The bits do not change.
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub buffer: u8,
}

impl LqcdSolver {
    /// Returns the solver that these options describe, with the given method.
    pub fn solver(&self, method: Method) -> Solver {
        let buffer = usize::from(self.buffer);
        let solver = Solver { method, precision: self.precision, buffer, ..Solver::default() };
        match self.reliable {
            Reliable::Factor(delta) => Solver { delta, ..solver },
            Reliable::Estimate => Solver { estimate: true, ..solver },
        }
    }
}

/// Condition of reliable updates; see [`LqcdSolver::reliable`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reliable {
    /// Decrease of the residual since the last update.
    Factor(f64),
    /// Estimate of the rounding errors.
    Estimate,
}

impl FromStr for Reliable {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(delta) => Ok(Reliable::Factor(delta)),
            Err(_) if text == "estimate" => Ok(Reliable::Estimate),
            Err(_) => Err("use a factor such as 0.1, or estimate"),
        }
    }
}

/// Options of `zellige lqcd invert`.
#[derive(Debug, Args)]
pub struct LqcdInvert {
    #[command(flatten)]
    pub system: LqcdSystem,
    /// Tolerance: norm of the residual relative to that of the source.
    #[arg(long, value_name = "TOL", default_value = "1e-10")]
    pub tol: f64,
    /// Method: cg, block-cg, bicgstabl:L or gmres:M; --help describes them.
    ///
    /// cg: conjugate gradients. block-cg: in one Krylov space for all colours. bicgstabl:L:
    /// BiCGStab(l) with polynomials of degree L, up to 8. gmres:M: GMRES, restarted after M steps.
    /// block-cg and gmres are for --precision double.
    #[arg(long, value_name = "METHOD", default_value_t = Method::Cg, help_heading = "Solver")]
    pub method: Method,
    /// Additional tolerance for the heavy-quark residual: sqrt(mean |r(x)|^2 / |z(x)|^2) over the
    /// sites.
    ///
    /// Propagators of heavy quarks fall by many orders of magnitude with the distance from the
    /// source. The plain residual is dominated by sites near the source and does not control
    /// distant ones.
    #[arg(long, value_name = "TOL", help_heading = "Solver", hide_short_help = true)]
    pub heavy_quark_tol: Option<f64>,
    /// Begin with the solution in the space of the lowest eigenvectors: their number, or a file of
    /// `zellige lqcd eigen`, which serves every source and mass of this gauge field.
    #[arg(long, value_name = "N|FILE", help_heading = "Solver", hide_short_help = true)]
    pub deflate: Option<Deflate>,
    #[command(flatten)]
    pub files: LqcdFiles,
    #[command(flatten)]
    pub solver: LqcdSolver,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Files of links and quark fields of `zellige lqcd invert`.
#[derive(Debug, Args)]
pub struct LqcdFiles {
    /// File to write the propagator to, as SciDAC fields: colour vectors, or Dirac fermions.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<OutputFile>,
    /// Storage format of the written propagator: double, single, half, or int8 to int31.
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "double",
        requires = "output",
        hide_short_help = true
    )]
    pub vectors: SiteFormat,
    /// Solve for the quark fields of a SciDAC file in place of a point source.
    #[arg(long, value_name = "FILE", conflicts_with = "source", hide_short_help = true)]
    pub source_fields: Option<Input>,
    /// Three-hop links of MILC; LATTICE then has its one-hop links. Both contain the phases.
    #[arg(long, value_name = "FILE", conflicts_with = "action", hide_short_help = true)]
    pub long: Option<Input>,
}

/// Eigenvectors that begin a solve: their number, or a file of `zellige lqcd eigen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deflate {
    /// Number of vectors that are computed first.
    Count(usize),
    /// File with vectors.
    File(PathBuf),
}

impl FromStr for Deflate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(0) => Err("0 eigenvectors: use 1 or more, or a file of lqcd eigen".into()),
            Ok(count) => Ok(Deflate::Count(count)),
            Err(_) if text.is_empty() => Err("use a number of eigenvectors, or a file of lqcd eigen".into()),
            Err(_) => Ok(Deflate::File(text.into())),
        }
    }
}

/// Options of `zellige lqcd eigen`.
#[derive(Debug, Args)]
pub struct LqcdEigen {
    /// Gauge field to read.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// Number of eigenvalues.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub count: u16,
    /// Action: naive, asqtad:U0, hisq or hisq:EPSILON, as for `zellige lqcd smear`.
    #[arg(long, value_name = "ACTION", default_value_t = Action::HISQ)]
    pub action: Action,
    /// Quark mass in lattice units: 4 m^2 is added to the eigenvalues.
    ///
    /// Eigenvectors do not depend on it.
    #[arg(long, value_name = "MASS", default_value_t = 0.0)]
    pub mass: f64,
    /// Boundary condition in time: periodic or antiperiodic.
    #[arg(long, value_name = "BC", default_value_t = Boundary::default())]
    pub bc: Boundary,
    /// Tolerance: norm of A v - lambda v relative to the largest eigenvalue.
    #[arg(long, value_name = "TOL", default_value = "1e-10")]
    pub tol: f64,
    /// Storage format of the vectors: double, single, half, or int8 to int31.
    #[arg(long, value_name = "FORMAT", default_value = "single")]
    pub vectors: SiteFormat,
    /// File to write the vectors to, for --deflate of `zellige lqcd invert`.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<OutputFile>,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Options of `zellige lqcd multishift`.
#[derive(Debug, Args)]
pub struct LqcdMultishift {
    #[command(flatten)]
    pub system: LqcdSystem,
    /// Shifts sigma, 0 or more, added to 4 m^2 - D D.
    #[arg(long, value_name = "SIGMA,..", value_delimiter = ',', required = true)]
    pub shifts: Vec<f64>,
    /// Tolerance: norm of the residual relative to that of the source.
    ///
    /// One for all shifts, or one for each.
    #[arg(long, value_name = "TOL,..", value_delimiter = ',', default_value = "1e-10")]
    pub tol: Vec<f64>,
    #[command(flatten)]
    pub solver: LqcdSolver,
    /// Formats of the separate steps for each shift after the shared steps [default: as
    /// --precision].
    #[arg(long, value_name = "FORMATS", help_heading = "Solver")]
    pub refine: Option<Mixed>,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Options of `zellige lqcd dslash`.
#[derive(Debug, Args)]
pub struct LqcdDslash {
    /// Lattice extents x, y, z, t, e.g. 32x32x32x64: even, from 4.
    #[arg(long, value_name = "XxYxZxT", default_value = "16")]
    pub size: Extents,
    /// Formats: double, single, half, int20, int30, or LINKS/QUARKS/PRODUCTS such as
    /// fp32/int20/fp32.
    #[arg(
        long,
        value_name = "FORMAT,..",
        value_delimiter = ',',
        default_value = "double,single,half,int20,int30"
    )]
    pub precision: Vec<Precision>,
    /// Number of right-hand sides in a block.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub columns: u16,
    /// Action: one-link hops with naive, and with wilson between four spins; otherwise three-link
    /// hops as well.
    #[arg(long, value_name = "ACTION", default_value_t = Action::HISQ)]
    pub action: Action,
    /// Number of timed applications; on GPUs each of them is 20 consecutive applications.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub repeats: u16,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
