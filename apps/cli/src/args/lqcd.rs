//! The words after `zellige lqcd`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use zellige_lqcd::generate::Start;
use zellige_lqcd::pipeline::Source;
use zellige_lqcd::{Action, Boundary};

use super::RunOutputs;
use super::paths::{Input, Output, OutputFile};

const GENERATE_EXAMPLES: &str = "\
Links are updated by heatbath and over-relaxation in the Wilson action without quarks. The field follows from --seed alone: it is the same for any number of workers.
From a cold start some 50 trajectories bring small lattices to equilibrium; --report shows the plaquette after each.

Examples
  zellige lqcd generate --size 8x8x8x16 --beta 5.7 -o small.lat
  zellige lqcd generate --size 16x16x16x16 --beta 6.0 --trajectories 100 --report plaquettes.html -o field.lat";

const INFO_EXAMPLES: &str = "\
Reads MILC (version 5, both byte orders), NERSC archives, and SciDAC and ILDG files. Checksums are checked, and that every link is in SU(3).

Example
  zellige lqcd info small.lat --json -";

const SMEAR_EXAMPLES: &str = "\
Actions (--action)
  naive            links as they are
  asqtad:U0        paths of up to seven links and three-link terms, with the tadpole factor U0
  hisq             smeared, projected to U(3), smeared again, with three-link terms; hisq:EPSILON for heavy quarks

Example
  zellige lqcd smear small.lat --action hisq";

const INVERT_EXAMPLES: &str = "\
The propagator (2 m + D)^-1 from a point is computed for each colour by the conjugate gradient method for 4 m^2 - D D on the sites of one parity. A residual
that the method reports is recomputed before anything is called converged. The correlator is the sum of the squares of the propagator's elements in each time slice.

Exit code 5: a residual is above --tol.

Examples
  zellige lqcd invert small.lat --mass 0.05
  zellige lqcd invert small.lat --action naive --mass 0.1 --tol 1e-12 --report residuals.html --json result.json
  zellige lqcd invert small.lat --source point:0,0,0,4:1 --bc periodic";

/// `zellige lqcd`.
#[derive(Debug, Subcommand)]
pub enum Lqcd {
    /// Make a gauge field without quarks (quenched) and write it as a MILC file.
    #[command(after_long_help = GENERATE_EXAMPLES)]
    Generate(LqcdGenerate),
    /// Describe a gauge field: lattice, plaquettes, link trace, Polyakov loop.
    #[command(after_long_help = INFO_EXAMPLES)]
    Info(LqcdInfo),
    /// Smear the links of a gauge field: traces and plaquettes of the links that quarks move on.
    #[command(after_long_help = SMEAR_EXAMPLES)]
    Smear(LqcdSmear),
    /// Compute the propagator of a staggered quark from a point, and its correlator.
    #[command(after_long_help = INVERT_EXAMPLES)]
    Invert(LqcdInvert),
}

/// Extents in x, y, z and t, as `8x8x8x16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents(pub [usize; 4]);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        match parts.as_deref() {
            Ok(&[x, y, z, t]) => Ok(Extents([x, y, z, t])),
            Ok(&[n]) => Ok(Extents([n; 4])),
            _ => Err("four numbers like 8x8x8x16, or one for all directions".into()),
        }
    }
}

/// `zellige lqcd generate`.
#[derive(Debug, Args)]
pub struct LqcdGenerate {
    /// Extents in x, y, z and t, e.g. 8x8x8x16: even, from 4.
    #[arg(long, value_name = "XxYxZxT")]
    pub size: Extents,
    /// The coupling: 6 / g^2.
    #[arg(long, value_name = "BETA", default_value_t = 6.0)]
    pub beta: f64,
    /// Trajectories: a sweep of the heatbath and some of over-relaxation each.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub trajectories: u32,
    /// Sweeps of over-relaxation in each trajectory.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub overrelaxation: u32,
    /// What the field begins as: cold (unit matrices) or hot (random matrices).
    #[arg(long, value_name = "START", default_value = "cold")]
    pub start: Start,
    /// Seed of the random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// The file to write (MILC, version 5, little endian, float32).
    #[arg(long, short, value_name = "FILE")]
    pub output: OutputFile,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// `zellige lqcd info`.
#[derive(Debug, Args)]
pub struct LqcdInfo {
    /// The gauge field.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// Write the result as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<Output>,
}

/// `zellige lqcd smear`.
#[derive(Debug, Args)]
pub struct LqcdSmear {
    /// The gauge field.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// naive, asqtad:U0, hisq or hisq:EPSILON.
    #[arg(long, value_name = "ACTION", default_value_t = Action::HISQ)]
    pub action: Action,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// `zellige lqcd invert`.
#[derive(Debug, Args)]
pub struct LqcdInvert {
    /// The gauge field.
    #[arg(value_name = "LATTICE")]
    pub lattice: Input,
    /// naive, asqtad:U0, hisq or hisq:EPSILON, as for `zellige lqcd smear`.
    #[arg(long, value_name = "ACTION", default_value_t = Action::HISQ)]
    pub action: Action,
    /// The quark's mass in units of the lattice, above 0.
    #[arg(long, value_name = "MASS", default_value_t = 0.01)]
    pub mass: f64,
    /// Where the propagator begins: point:X,Y,Z,T for all colours, or point:X,Y,Z,T:COLOUR.
    #[arg(long, value_name = "SOURCE", default_value_t = Source::default())]
    pub source: Source,
    /// Boundary condition in time: periodic or antiperiodic.
    #[arg(long, value_name = "BC", default_value_t = Boundary::default())]
    pub bc: Boundary,
    /// Residual relative to the source that is small enough.
    #[arg(long, value_name = "TOL", default_value_t = 1e-10)]
    pub tol: f64,
    /// Most iterations for each colour.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub max_steps: usize,
    /// Number of CPU worker threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    #[command(flatten)]
    pub outputs: RunOutputs,
}
