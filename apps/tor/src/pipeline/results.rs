//! Results of a run: one record per rule, with the keys of the JSON output.

use serde::Serialize;
use std::sync::Arc;
use zellige_dense::{GemmCounts, GemmPrecision, NotPositiveDefinite};

use super::{DeviceUse, PipelineError, RankUse, TileChoice, grid};
use crate::Matrix;
use crate::files::RoundedMatrix;
use crate::image::Psf;
use crate::params::Input;
use crate::pipeline::info::Info;
use crate::pipeline::norms::TileNorms;

/// The covariance matrices of a system in float64, in arcsec^2.
#[derive(Debug, Clone)]
pub struct Covariances {
    /// The system, with the targets that were used.
    pub input: Input,
    /// Measurements with measurements, `n x n`.
    pub cmm: Matrix,
    /// Truth sensor with measurements by target, `m x n`.
    pub ctm: Vec<Matrix>,
    /// Truth sensor with itself, `m x m`.
    pub ctt: Matrix,
}

/// The result of `zellige tor cov`: sizes of the covariance matrices.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CovarianceResult {
    /// Number of measurements.
    pub n: usize,
    /// Number of slopes of a truth sensor.
    pub m: usize,
    /// Number of directions.
    pub targets: usize,
    /// Trace of `Cmm`.
    pub trace_cmm: f64,
    /// Time (s).
    pub seconds: f64,
    /// GPUs, if there were any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
}

impl CovarianceResult {
    /// Returns the result for matrices that were computed in `seconds` seconds.
    pub fn new(all: &Covariances, seconds: f64, devices: Vec<DeviceUse>) -> CovarianceResult {
        CovarianceResult {
            n: all.cmm.rows(),
            m: all.ctt.rows(),
            targets: all.ctm.len(),
            trace_cmm: all.cmm.trace(),
            seconds,
            devices,
        }
    }
}

/// The result of `zellige tor info`: the size of a system.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct InfoResult {
    /// Sizes and work.
    #[serde(flatten)]
    pub info: Info,
    /// Tiles of `Cmm`.
    pub tiling: Tiling,
    /// Needs of `tor run`.
    pub run: PlannedRun,
}

/// Plan of a run with these rules.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct PlannedRun {
    /// Precision rules.
    pub rules: Vec<String>,
    /// Bytes by purpose; empty if the run does not fit.
    pub memory: Vec<(String, u64)>,
    /// Total number of bytes.
    pub memory_bytes: Option<u64>,
    /// Additional bytes for the records of a trace (`--trace`, `--report`).
    pub trace_bytes: Option<u64>,
    /// Available memory in bytes, if the system reports it.
    pub available_bytes: Option<u64>,
    /// Whether the run fits the available memory.
    pub fits: bool,
}

/// Tiles of a matrix, with advice on the rules.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Tiling {
    /// Number of tiles along one side.
    pub tiles: usize,
    /// Boundaries of the tiles, from 0 to n.
    pub edges: Vec<usize>,
    /// Number of rows of the largest tile.
    pub largest: usize,
    /// Maximum number of tiles for a block of one sensor axis.
    pub parts_of_largest: usize,
    /// Number of tasks of one factorisation.
    pub factor_tasks: u64,
    /// Advice on the rules that may hold, in words.
    pub advice: String,
}

impl Tiling {
    /// Returns the tiles for a rule of tile sizes.
    ///
    /// # Errors
    /// A tile size of 0.
    pub fn new(info: &Info, tile: TileChoice) -> Result<Tiling, PipelineError> {
        let grid = grid(info, tile)?;
        let parts = match tile {
            TileChoice::Uniform(_) => parts(info, grid.edges()),
            _ => grid.parts_of_largest(),
        };
        let advice = match (tile, parts) {
            (_, 3..) => format!(
                "an axis of one sensor spans {parts} tiles: low precision needs a band of at least 2 (hp1:band=2) or a \
                 rule on operands"
            ),
            (TileChoice::Uniform(_), 2) => {
                "tiles cut across sensors: --tile auto follows them, and low precision then loses \
                                   positive definiteness less often"
                    .into()
            }
            _ => "tiles follow the sensors: hp1:band=1 and more may hold".into(),
        };
        let nt = grid.tiles() as u64;
        Ok(Tiling {
            tiles: grid.tiles(),
            largest: grid.max_width(),
            edges: grid.edges().to_vec(),
            parts_of_largest: parts,
            // The terms are potrf, trsm and syrk, gemm.
            factor_tasks: nt
                + nt * nt.saturating_sub(1)
                + nt * nt.saturating_sub(1) * nt.saturating_sub(2) / 6,
            advice,
        })
    }
}

/// Returns the largest number of tiles in which a block lies.
fn parts(info: &Info, edges: &[usize]) -> usize {
    let inside = |start: usize, end: usize| edges.iter().filter(|&&edge| start < edge && edge < end).count();
    info.blocks.iter().map(|b| 1 + inside(b.start, b.start + b.len)).max().unwrap_or(1)
}

/// Fraction of the factorisation's tile products in each precision, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GemmShare {
    /// Double precision.
    pub dp: f64,
    /// Single precision.
    pub sp: f64,
    /// `f16` operands, `f32` sums and result.
    pub hp1: f64,
    /// `f16` operands and result, `f32` sums.
    pub hp2: f64,
    /// `f16` throughout.
    pub hp3: f64,
    /// `bf16` operands, `f32` sums and result.
    pub bf1: f64,
    /// Split `f16` operands, three products.
    pub x3: f64,
    /// `f32` operands rounded to 11 bits, `f32` sums and result.
    pub tf32: f64,
    /// E4M3 operands, `f32` sums and result.
    pub fp8: f64,
}

/// Number of precisions.
const KINDS: usize = GemmPrecision::ALL.len();

impl GemmShare {
    /// Returns the shares of the counted products.
    pub fn of(counts: &GemmCounts) -> Self {
        let share = |p| counts.share(p);
        GemmShare {
            dp: share(GemmPrecision::Dp),
            sp: share(GemmPrecision::Sp),
            hp1: share(GemmPrecision::Hp1),
            hp2: share(GemmPrecision::Hp2),
            hp3: share(GemmPrecision::Hp3),
            bf1: share(GemmPrecision::Bf1),
            x3: share(GemmPrecision::X3),
            tf32: share(GemmPrecision::Tf32),
            fp8: share(GemmPrecision::Fp8),
        }
    }

    /// Returns the share of the products on tensor cores: all but those in the element type,
    /// including split ones.
    pub fn low(&self) -> f64 {
        self.hp1 + self.hp2 + self.hp3 + self.bf1 + self.x3 + self.tf32 + self.fp8
    }

    /// Returns every precision by the name that rules use, with its share.
    pub fn list(&self) -> [(&'static str, f64); KINDS] {
        GemmPrecision::ALL.map(|p| {
            let share = match p {
                GemmPrecision::Dp => self.dp,
                GemmPrecision::Sp => self.sp,
                GemmPrecision::Hp1 => self.hp1,
                GemmPrecision::Hp2 => self.hp2,
                GemmPrecision::Hp3 => self.hp3,
                GemmPrecision::Bf1 => self.bf1,
                GemmPrecision::X3 => self.x3,
                GemmPrecision::Tf32 => self.tf32,
                GemmPrecision::Fp8 => self.fp8,
            };
            (p.name(), share)
        })
    }
}

/// Duration of each stage in seconds; stages are consecutive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Seconds {
    /// Generation of the tiles of `Cmm` and `Ctm`.
    pub cov: f64,
    /// Factorisation.
    pub factor: f64,
    /// Triangular solves for all targets, and refinement if it was requested.
    pub solve: f64,
    /// Backward error, `Cee`, images and Strehl ratios of all targets, if they were computed.
    pub eval: f64,
}

/// Position at which a factorisation lost positive definiteness.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NotSpd {
    /// Diagonal tile, from 0.
    pub tile: usize,
    /// Row within the tile, from 0.
    pub pivot: usize,
    /// Row of the whole matrix, from 0.
    #[serde(skip)]
    pub row: usize,
    /// Rule to try next.
    #[serde(skip)]
    pub suggestion: Option<String>,
}

impl NotSpd {
    pub(super) fn new(lost: &NotPositiveDefinite, suggestion: Option<String>) -> Self {
        NotSpd { tile: lost.tile, pivot: lost.pivot, row: lost.row, suggestion }
    }
}

impl std::fmt::Display for NotSpd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not positive definite at tile {}, pivot {} (row {})", self.tile, self.pivot, self.row)?;
        match &self.suggestion {
            Some(rule) => write!(f, "; try {rule}"),
            None => write!(f, "; no rule has more precision: check noise and profile"),
        }
    }
}

/// A rule that was tried before the one that survived.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Attempt {
    /// Precision rule.
    pub rule: String,
    /// Position of the failure.
    pub not_spd: NotSpd,
}

/// Evaluation of the reconstructor for one target.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TargetResult {
    /// Direction x in arcsec.
    pub x: f64,
    /// Direction y in arcsec.
    pub y: f64,
    /// Trace of `Cee` in arcsec^2.
    pub trace_cee: f64,
    /// Ratio `trace(Cee) / trace(Ctt)`.
    pub relative_error: f64,
    /// Strehl ratio of the stationary image.
    pub strehl_moao: f64,
    /// Exact long-exposure Strehl ratio; `null` if it was not requested.
    pub strehl_exact: Option<f64>,
    /// Marechal approximation, piston removed.
    pub marechal: f64,
    /// Wavefront error in nm rms, piston removed.
    pub wfe_nm: f64,
}

/// Figures of a rule that survived.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Measured {
    /// Share of the factorisation's products in each precision.
    pub gemm_share: GemmShare,
    /// Operations: `n^3 / 3`, and `2 n^2 m` per target.
    pub flops: f64,
    /// Duration of each stage in seconds.
    pub seconds: Seconds,
    /// `flops` over the seconds of factorisation and solve, in Gflop/s.
    pub gflops: f64,
    /// Rate of the product of the largest tiles in the rule's native type on all workers, measured
    /// in this run, in Gflop/s; 0 if there are devices as well, for which it has no meaning.
    pub gemm_peak_gflops: f64,
    /// Backward error `||A - L L^T||_F / ||A||_F`; `null`, like all figures of the evaluation, if
    /// it was not computed (`tor build`).
    pub backward_error: f64,
    /// Whether the backward error is an estimate from 16 vectors (above n = 8192).
    pub backward_error_estimated: bool,
    /// Trace of `Cee` in arcsec^2, first target.
    pub trace_cee: f64,
    /// Strehl ratio of the stationary image, first target.
    pub strehl_moao: f64,
    /// Exact long-exposure Strehl ratio, first target; `null` if it was not requested.
    pub strehl_exact: Option<f64>,
    /// Marechal approximation, piston removed, first target.
    pub marechal: f64,
    /// Results for every target; empty if nothing was judged.
    pub targets: Vec<TargetResult>,
    /// Peak memory of the process during this rule (the kernel's high-water mark, reset before each
    /// rule if the kernel allows it; 0 if the system does not report it).
    pub peak_memory_bytes: u64,
    /// Bytes of the tiles of the factor and of all reconstructors, without replicas.
    pub tile_bytes: u64,
    /// Bytes of all reconstructors in few bits, packed without gaps, with scales of 16 bits; absent
    /// from the JSON if they are not rounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconstructor_bytes: Option<u64>,
    /// Resource use of each rank if there are several; absent from the JSON for a single one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankUse>,
    /// Unreliable figures, each with the cause; absent from the JSON if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Products on each tile by precision, in the order of [`GemmPrecision::ALL`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrecisionMap {
    /// Number of tiles along one side.
    pub tiles: usize,
    /// Counts by precision; tile `(i, j)`, `i >= j`, is at `i (i + 1) / 2 + j`.
    pub counts: Vec<[u32; KINDS]>,
}

impl PrecisionMap {
    pub(super) fn of(counts: &GemmCounts) -> Self {
        let tiles = counts.shape().0;
        let cells = (0..tiles).flat_map(|i| (0..=i).map(move |j| (i, j)));
        PrecisionMap {
            tiles,
            counts: cells.map(|(i, j)| GemmPrecision::ALL.map(|p| counts.at(i, j, p))).collect(),
        }
    }

    /// Returns the products on tile `(i, j)` by precision; zeros outside of the lower triangle.
    pub fn at(&self, i: usize, j: usize) -> [u32; KINDS] {
        if j > i { [0; KINDS] } else { self.counts.get(i * (i + 1) / 2 + j).copied().unwrap_or_default() }
    }
}

/// Result of one rule: its figures, or the position of its failure.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct RuleResult {
    /// Number of measurements.
    pub n: usize,
    /// Number of truth-sensor slopes.
    pub m: usize,
    /// Time in ms from the measurements to the reconstructed wavefront; absent at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<f64>,
    /// Number of tiles along one side of `Cmm`.
    pub tiles: usize,
    /// Rule that was used.
    pub rule: String,
    /// Requested rule, if it failed and more precision was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_asked: Option<String>,
    /// Rules that failed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// Figures of a rule that survived.
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// Position of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_spd: Option<NotSpd>,
    /// Devices with their own memory, with their use in the whole run; absent from the JSON if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// Data for the report that the JSON does not contain.
    #[serde(skip)]
    pub extras: Extras,
}

/// Larger results of one rule.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Precision of every product of the factorisation.
    pub map: PrecisionMap,
    /// Shares of the solve's products.
    pub solve_share: GemmShare,
    /// Relative residual `||R Cmm - Ctm|| / ||Ctm||` before each refinement step.
    pub residuals: Vec<f64>,
    /// Relative residual of the refined reconstructor, recomputed.
    pub residual: Option<f64>,
    /// Images by target: the first one, or all with
    /// [`Options::keep_images`](super::Options::keep_images).
    pub images: Vec<Psf>,
    /// Norms of the tiles, with [`Options::keep_norms`](super::Options::keep_norms).
    pub norms: Option<TileNorms>,
    /// Reconstructors `R` by target, with
    /// [`Options::keep_reconstructors`](super::Options::keep_reconstructors).
    pub reconstructors: Vec<Arc<Matrix>>,
    /// Reconstructors by target in few bits, with [`Options::rounding`](super::Options::rounding).
    pub rounded: Vec<Arc<RoundedMatrix>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_rule_holds_no_numbers() {
        let result = RuleResult {
            n: 4,
            m: 2,
            lag_ms: None,
            tiles: 2,
            rule: "hp1".into(),
            rule_asked: None,
            attempts: Vec::new(),
            measured: None,
            not_spd: Some(NotSpd { tile: 1, pivot: 3, row: 5, suggestion: Some("x3".into()) }),
            devices: Vec::new(),
            extras: Extras::default(),
        };
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"n":4,"m":2,"tiles":2,"rule":"hp1","not_spd":{"tile":1,"pivot":3}}"#
        );
        assert!(result.not_spd.unwrap().to_string().ends_with("try x3"));
    }

    #[test]
    fn shares_keep_their_names() {
        let share = GemmShare { sp: 0.25, hp1: 0.25, x3: 0.25, fp8: 0.25, ..GemmShare::default() };
        assert_eq!(share.low(), 0.75);
        assert_eq!(share.list().map(|(_, share)| share).iter().sum::<f64>(), 1.0);
        assert_eq!(share.list()[1], ("fp32", 0.25));
        assert_eq!(share.list()[6], ("x3", 0.25));
    }
}
