//! The pipeline from parameters to judged reconstructors, as tasks on the runtime.
//!
//! | stage | tasks |
//! | --- | --- |
//! | covariance | one per tile of `Cmm` (lower triangle) and `Ctm` (all targets), scaled by one power of two |
//! | factor | tile Cholesky, each product in the precision that the rule gives it |
//! | solve | two triangular solves for the rows of all targets, from one factorisation; refinement with residuals in float64 |
//! | evaluation | backward error; `Cee` by blocks of `Cmm` and panels of columns, added in order; blocks of the exact Strehl ratio |
//!
//! For every rule, a reconstructor is judged with the float64 `Cmm`, which CPU workers generate
//! again on demand. With [`Options::judge`] off there is no evaluation.

mod cee;
mod devices;
mod error;
mod factor;
mod fewest;
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
pub mod tune;
mod watch;
mod xray;

pub use devices::{DeviceUse, devices};
pub use error::PipelineError;
pub use fewest::with_fewest_bits;
pub use foreign::{Foreign, Judgement, evaluate, read_reconstructors};
pub use info::info;
pub use plan::{LARGEST_TILE, Plan, XRAY_UP_TO, grid, plan, precheck};
pub use products::{covariance, write_images, write_reconstructors};
pub use ranks::RankUse;
pub use recommend::{Recommendation, recommend};
pub use results::{
    Attempt, CovarianceResult, Covariances, Extras, GemmShare, InfoResult, Measured, NotSpd, PlannedRun,
    PrecisionMap, RuleResult, Seconds, TargetResult, Tiling,
};
pub use timed::{Timing, timed};
pub use xray::{NormsAt, XrayPicture};
pub use zellige_files::memory::MemoryPlan;
pub use zellige_files::observe::{Observer, Silent};

use crate::Matrix;
use crate::params::Input;
use info::Info;
use std::sync::Arc;
use zellige_dense::Rounding;
use zellige_runtime::Session;

/// Rule for the tile sizes of `Cmm`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TileChoice {
    /// Tile boundaries at the axis blocks of the sensors: each block in the fewest equal parts of
    /// at most 512, small sensors merged.
    #[default]
    Auto,
    /// Automatic boundaries for GPUs without CPU workers: parts of at most 512 to 3072, larger for
    /// a larger `Cmm` and GPU, and boundaries at the nearest multiple of 16.
    AutoGpu {
        /// Bytes that each GPU has for tiles.
        memory: u64,
    },
    /// Tiles of this size, the last one smaller, independent of the sensors.
    Uniform(usize),
}

/// Action if a rule loses positive definiteness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnNotSpd {
    /// Reports it.
    #[default]
    Fail,
    /// Tries the next rule with more precision, until one survives.
    Retry,
}

/// Computation of eigenvalues for the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Xray {
    /// Eigenvalues of the whole matrix up to n = 4096; norms of tiles always.
    Auto,
    /// Eigenvalues of the whole matrix for any size (`8 n^2` bytes twice, about `4 n^3 / 3` flops
    /// on one worker).
    Full,
    /// No eigenvalues and no norms.
    #[default]
    Off,
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Precision rules, one result each; `script:FILE` if the build has scripts.
    pub rules: Vec<String>,
    /// Precision rule of the solve's products; by default that of each factorisation.
    pub solve_rule: Option<String>,
    /// Rule for the tile sizes.
    pub tile: TileChoice,
    /// Maximum number of products on one tile in one task of factorisation and solves; see
    /// [`zellige_dense::Submission::fuse_updates`].
    pub fuse_updates: usize,
    /// Whether triangular solves on GPUs use inverses of diagonal blocks, if tiles are not small;
    /// see [`zellige_dense::Submission::by_inverses`].
    pub by_inverses: bool,
    /// Directions to reconstruct in arcsec; by default the file's.
    pub targets: Option<Vec<[f64; 2]>>,
    /// Action if a rule loses positive definiteness.
    pub on_not_spd: OnNotSpd,
    /// Maximum number of steps of iterative refinement (`fp64` skips them, since they have no
    /// effect). It ends if a step has not halved the residual.
    pub refine: usize,
    /// Format to which reconstructors are rounded within the solve, so that columns make up for the
    /// errors of others. They are judged as rounded.
    pub rounding: Option<Rounding>,
    /// Reconstructors by target, truth-sensor slopes x measurements, in place of those of the
    /// covariances, so that they are rounded.
    pub given: Option<Vec<Arc<Matrix>>>,
    /// Whether reconstructors are judged. Without it there is no backward error, no `Cee`, no image
    /// and no Strehl ratio: those figures are NaN (`null` in the JSON), and [`Measured::targets`]
    /// is empty.
    pub judge: bool,
    /// Whether the exact long-exposure Strehl ratio is computed.
    pub exact: bool,
    /// Computation of eigenvalues for the report.
    pub xray: Xray,
    /// Whether the reconstructors are kept in the results.
    pub keep_reconstructors: bool,
    /// Whether the norms of the tiles are kept in the results.
    pub keep_norms: bool,
    /// Whether the image of every target is kept, not of the first one only.
    pub keep_images: bool,
    /// Memory limit in bytes; by default the memory that the system has available.
    pub memory_limit: Option<u64>,
    /// Number of workers in the memory plan before there is a runtime; by default one for each
    /// core.
    pub workers: Option<usize>,
    /// Whether the memory plan includes the records of a trace.
    pub trace: bool,
    /// Number of ranks that share the tiles. The memory plan is for the rank with the most.
    pub ranks: usize,
}

impl Default for Options {
    /// Returns the defaults: `fp32` alone, automatic tiles, judged with the exact Strehl ratio, no
    /// eigenvalues.
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
            rounding: None,
            given: None,
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

/// Results of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// One result per rule, in the requested order: the JSON output is this list.
    pub results: Vec<RuleResult>,
    /// Sizes of the system.
    pub info: Info,
    /// The system and its atmosphere, with the targets that were used.
    pub input: Input,
    /// Boundaries of the tiles.
    pub edges: Vec<usize>,
    /// Number of workers of the runtime without those of devices with their own memory.
    pub workers: usize,
    /// Devices with their own memory.
    pub devices: Vec<DeviceUse>,
    /// Eigenvalues and norms, if they were requested.
    pub xray: Option<XrayPicture>,
}

impl Outcome {
    /// Returns whether at least one rule survived (if not, the command exits with 3).
    pub fn survived(&self) -> bool {
        self.results.iter().any(|r| r.measured.is_some())
    }

    /// Returns whether at least one reconstructor was judged.
    pub fn is_judged(&self) -> bool {
        self.results.iter().filter_map(|r| r.measured.as_ref()).any(|m| !m.targets.is_empty())
    }

    /// Returns the reference result for comparisons: `fp64` if it survived, else `fp32`, else the
    /// one with the smallest backward error.
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
/// On several ranks, each generates, factorises and solves its tiles. The first rank collects the
/// reconstructors and judges them, so that it alone has results, images and reconstructors. The
/// others return the rules that failed.
///
/// # Errors
/// Bad parameters, rules or options, too little memory (reported before anything is allocated), a
/// failed task, cancellation. A rule that loses positive definiteness is no error but a result.
pub fn run<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome, PipelineError> {
    rules::run(s, input, options, None, observer)
}

/// Runs the pipeline as [`run`] does, with another command matrix (actuators x m, volts per
/// arcsec).
///
/// # Errors
/// The errors of [`run`]; a matrix that does not fit the system.
pub fn run_with_mirror<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    dx: Matrix,
    observer: &dyn Observer,
) -> Result<Outcome, PipelineError> {
    rules::run(s, input, options, Some(dx), observer)
}

/// Builds the reconstructors of every rule and keeps them, for [`write_reconstructors`].
///
/// # Errors
/// The errors of [`run`].
pub fn build<S: Session>(
    s: &S,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome, PipelineError> {
    run(s, input, &Options { keep_reconstructors: true, ..options.clone() }, observer)
}
