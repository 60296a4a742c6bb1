//! From parameters to judged reconstructors, as tasks on the runtime.
//!
//! | stage | tasks |
//! | --- | --- |
//! | covariance | one per tile of `Cmm` (lower triangle) and `Ctm` (all targets), scaled by one power of two |
//! | factor | tile Cholesky, each product in the precision that the rule gives it |
//! | solve | two triangular solves for the rows of all targets, from one factorisation; refinement with residuals in float64 |
//! | evaluation | backward error; `Cee` by blocks of `Cmm` and panels of columns, added in order; blocks of the exact Strehl ratio |
//!
//! Whatever the rule, a reconstructor is judged with the float64 `Cmm`, generated again where it is
//! needed, on CPU workers. With [`Options::judge`] off there is no evaluation.

mod cee;
mod devices;
mod error;
mod factor;
mod foreign;
pub mod info;
mod judge;
pub mod memory;
pub mod norms;
mod orders;
mod peak;
mod plan;
mod problem;
mod products;
mod ranks;
mod recommend;
mod results;
mod rules;
pub mod simulate;
mod timed;
mod watch;
mod xray;

pub use devices::{DeviceUse, devices};
pub use error::Error;
pub use foreign::{Foreign, Judgement, evaluate};
pub use info::info;
pub use plan::{LARGEST_TILE, Plan, XRAY_UP_TO, grid, plan, precheck};
pub use products::{Covariances, covariance, write_images, write_reconstructors};
pub use ranks::RankUse;
pub use recommend::{Recommendation, recommend};
pub use results::{
    Attempt, CovarianceResult, Extras, GemmShare, InfoResult, Measured, NotSpd, PlannedRun, PrecisionMap,
    RuleResult, Seconds, TargetResult, Tiling,
};
pub use timed::{Timing, timed};
pub use xray::{NormsAt, XrayPicture};
pub use zellige_files::memory::MemoryPlan;
pub use zellige_files::observe::{Observer, Silent};

use crate::Matrix;
use crate::params::Input;
use info::Info;
use zellige_runtime::Session;

/// How `Cmm` is cut into tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TileChoice {
    /// Edges along the axis blocks of the sensors: each block in the fewest equal parts of at most
    /// 512, small sensors merged.
    #[default]
    Auto,
    /// The same for GPUs that work alone: parts of at most 512 to 2048, the larger the larger `Cmm`
    /// and the GPU, and edges at the nearest multiple of 16.
    AutoGpu {
        /// Bytes that each GPU has for tiles.
        memory: u64,
    },
    /// Tiles of this size, the last one short, whatever the sensors are.
    Uniform(usize),
}

/// What to do when a rule loses positive definiteness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnNotSpd {
    /// Report it.
    #[default]
    Fail,
    /// Try the next rule with more precision, until one survives.
    Retry,
}

/// Whether eigenvalues are computed for the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Xray {
    /// Of the whole matrix up to n = 4096; norms of tiles always.
    Auto,
    /// Of the whole matrix whatever its size (`8 n^2` bytes twice, about `4 n^3 / 3` flops on one
    /// worker).
    Full,
    /// None at all.
    #[default]
    Off,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Precision rules, one result each; `script:FILE` where the build has scripts.
    pub rules: Vec<String>,
    /// Rule of the solve's products; by default each factorisation's own.
    pub solve_rule: Option<String>,
    /// Tile edges.
    pub tile: TileChoice,
    /// The most products on one tile in one task of factorisation and solves; see
    /// [`zellige_dense::Submission::fuse_updates`].
    pub fuse_updates: usize,
    /// Triangular solves on GPUs by inverses of diagonal blocks, where tiles are not small; see
    /// [`zellige_dense::Submission::by_inverses`].
    pub by_inverses: bool,
    /// Directions to reconstruct in arcsec; by default the file's.
    pub targets: Option<Vec<[f64; 2]>>,
    /// What to do with a rule that fails.
    pub on_not_spd: OnNotSpd,
    /// Steps of iterative refinement at most (of no use to `fp64`, which skips them); it ends where
    /// one has not halved the residual.
    pub refine: usize,
    /// Whether reconstructors are judged. Without it there is no backward error, no `Cee`, no image
    /// and no Strehl ratio: those figures are NaN (`null` in the JSON), and [`Measured::targets`]
    /// is empty.
    pub judge: bool,
    /// Whether the exact long-exposure Strehl ratio is computed.
    pub exact: bool,
    /// X-ray for the report.
    pub xray: Xray,
    /// Keep the reconstructors in the results.
    pub keep_reconstructors: bool,
    /// Keep the norms of the tiles in the results.
    pub keep_norms: bool,
    /// Keep the image of every target, not of the first one only.
    pub keep_images: bool,
    /// Most memory to use in bytes; by default what the system has available.
    pub memory_limit: Option<u64>,
    /// Workers whose working space is counted before there is a runtime; by default one for each
    /// core.
    pub workers: Option<usize>,
    /// Whether the records of a trace are planned for.
    pub trace: bool,
    /// Ranks among which the tiles are dealt out: memory is planned for one of them, the one with
    /// the most.
    pub ranks: usize,
}

impl Default for Options {
    /// `fp32` alone, automatic tiles, judged with the exact Strehl ratio, no X-ray.
    fn default() -> Self {
        Options {
            rules: vec!["fp32".into()],
            solve_rule: None,
            tile: TileChoice::Auto,
            fuse_updates: 1,
            by_inverses: true,
            targets: None,
            on_not_spd: OnNotSpd::Fail,
            refine: 0,
            judge: true,
            exact: true,
            xray: Xray::Off,
            keep_reconstructors: false,
            keep_norms: false,
            keep_images: false,
            memory_limit: None,
            workers: None,
            trace: false,
            ranks: 1,
        }
    }
}

/// Everything that a run found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// One result per rule, in the requested order: the JSON output is this list.
    pub results: Vec<RuleResult>,
    /// The system's sizes.
    pub info: Info,
    /// The system and its atmosphere, with the targets that were used.
    pub input: Input,
    /// Edges of the tiles.
    pub edges: Vec<usize>,
    /// Workers of the runtime that drive no device with memory of its own.
    pub workers: usize,
    /// Devices with memory of their own.
    pub devices: Vec<DeviceUse>,
    /// The X-ray, where it was requested.
    pub xray: Option<XrayPicture>,
}

impl Outcome {
    /// Whether at least one rule survived (if not, the command exits with 3).
    pub fn survived(&self) -> bool {
        self.results.iter().any(|r| r.measured.is_some())
    }

    /// Whether at least one reconstructor was judged.
    pub fn is_judged(&self) -> bool {
        self.results.iter().filter_map(|r| r.measured.as_ref()).any(|m| !m.targets.is_empty())
    }

    /// The result that the others are compared with: `fp64` where it survived, else `fp32`, else
    /// the smallest backward error.
    pub fn reference(&self) -> Option<&RuleResult> {
        let found = |rule| self.results.iter().find(|r| r.rule == rule && r.measured.is_some());
        let error = |r: &&RuleResult| r.measured.as_ref().map_or(f64::INFINITY, |m| m.backward_error);
        found("fp64").or_else(|| found("fp32")).or_else(|| {
            let survivors = self.results.iter().filter(|r| r.measured.is_some());
            survivors.min_by(|a, b| error(a).total_cmp(&error(b)))
        })
    }
}

/// Runs every rule of `options` on a system and judges its reconstructors through the system's own
/// mirror.
///
/// On several ranks each generates, factorises and solves its tiles; reconstructors are brought to
/// the first rank, which judges them, so that it alone has results to show, images and
/// reconstructors. The others return which rules have failed.
///
/// # Errors
/// Bad parameters, rules or options, too little memory (said before anything is allocated), a
/// failed task, cancellation. A rule that loses positive definiteness is no error: it is in the
/// results.
pub fn run<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome, Error> {
    rules::run(s, input, options, None, observer)
}

/// As [`run`], through another command matrix (actuators x m, volts per arcsec).
///
/// # Errors
/// As [`run`]; also if the matrix does not fit the system.
pub fn run_with_mirror<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    dx: Matrix,
    observer: &dyn Observer,
) -> Result<Outcome, Error> {
    rules::run(s, input, options, Some(dx), observer)
}

/// Builds the reconstructors of every rule and keeps them, for [`write_reconstructors`].
///
/// # Errors
/// As [`run`].
pub fn build<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome, Error> {
    run(s, input, &Options { keep_reconstructors: true, ..options.clone() }, observer)
}
