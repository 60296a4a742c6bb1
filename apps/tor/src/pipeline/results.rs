//! What a run says: one record per rule, with the keys of the JSON output.

use serde::Serialize;
use std::sync::Arc;
use zellige_dense::{GemmCounts, GemmPrecision, NotPositiveDefinite};

use super::{Covariances, DeviceUse, Error, RankUse, TileChoice, grid};
use crate::Matrix;
use crate::image::Psf;
use crate::pipeline::info::Info;
use crate::pipeline::norms::TileNorms;

/// The result of `zellige tor cov`: sizes of the covariance matrices.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CovarianceResult {
    /// Measurements.
    pub n: usize,
    /// Slopes of a truth sensor.
    pub m: usize,
    /// Directions.
    pub targets: usize,
    /// Trace of `Cmm`.
    pub trace_cmm: f64,
    /// Time (s).
    pub seconds: f64,
    /// GPUs, where there were some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
}

impl CovarianceResult {
    /// Of matrices that were computed in so many seconds.
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

/// The result of `zellige tor info`: how large a system is.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct InfoResult {
    /// Sizes and work.
    #[serde(flatten)]
    pub info: Info,
    /// The tiles of `Cmm`.
    pub tiling: Tiling,
    /// What `tor run` would take.
    pub run: PlannedRun,
}

/// A run with these rules.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct PlannedRun {
    /// Precision rules.
    pub rules: Vec<String>,
    /// Bytes by purpose; empty where it does not fit.
    pub memory: Vec<(String, u64)>,
    /// Their sum.
    pub memory_bytes: Option<u64>,
    /// Bytes more for the records of a trace (`--trace`, `--report`).
    pub trace_bytes: Option<u64>,
    /// Bytes that are there, where the system tells.
    pub available_bytes: Option<u64>,
    /// Whether that is enough.
    pub fits: bool,
}

/// The tiles, and what they mean for the rules.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Tiling {
    /// Tiles along one side.
    pub tiles: usize,
    /// From 0 to n.
    pub edges: Vec<usize>,
    /// Rows of the largest tile.
    pub largest: usize,
    /// Tiles per block of one sensor axis, at most.
    pub parts_of_largest: usize,
    /// Tasks of one factorisation.
    pub factor_tasks: u64,
    /// In words, which rules may hold.
    pub advice: String,
}

impl Tiling {
    /// The tiles that a choice gives.
    ///
    /// # Errors
    /// A tile size of 0.
    pub fn new(info: &Info, tile: TileChoice) -> Result<Tiling, Error> {
        let grid = grid(info, tile)?;
        let parts = match tile {
            TileChoice::Uniform(_) => parts(info, grid.edges()),
            _ => grid.parts_of_largest(),
        };
        let advice = match (tile, parts) {
            (_, 3..) => format!(
                "an axis of one sensor lies in {parts} tiles: low precision needs a band of at least 2 (hp1:band=2) or a \
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
            // potrf, trsm, syrk, gemm
            factor_tasks: nt
                + nt * nt.saturating_sub(1)
                + nt * nt.saturating_sub(1) * nt.saturating_sub(2) / 6,
            advice,
        })
    }
}

/// In how many tiles the block lies that lies in most.
fn parts(info: &Info, edges: &[usize]) -> usize {
    let inside = |start: usize, end: usize| edges.iter().filter(|&&edge| start < edge && edge < end).count();
    info.blocks.iter().map(|b| 1 + inside(b.start, b.start + b.len)).max().unwrap_or(1)
}

/// Share of the factorisation's tile products in each precision, 0 to 1.
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

/// How many precisions there are.
const KINDS: usize = GemmPrecision::ALL.len();

impl GemmShare {
    /// The shares of what has been counted.
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

    /// Share of the products that tensor cores do: all but those in the element type, split ones
    /// included.
    pub fn low(&self) -> f64 {
        self.hp1 + self.hp2 + self.hp3 + self.bf1 + self.x3 + self.tf32 + self.fp8
    }

    /// Every precision by the name that rules give it, with its share.
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

/// Seconds of each stage, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Seconds {
    /// Generating the tiles of `Cmm` and `Ctm`.
    pub cov: f64,
    /// Factorisation.
    pub factor: f64,
    /// Triangular solves for all targets, and refinement where it was requested.
    pub solve: f64,
    /// Backward error, `Cee`, images and Strehl ratios of all targets, as far as they were
    /// computed.
    pub eval: f64,
}

/// Where a factorisation lost positive definiteness.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NotSpd {
    /// The diagonal tile, from 0.
    pub tile: usize,
    /// The row within the tile, from 0.
    pub pivot: usize,
    /// The row of the whole matrix, from 0.
    #[serde(skip)]
    pub row: usize,
    /// The rule to try next.
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
            None => write!(f, "; check noise and profile: no rule has more precision"),
        }
    }
}

/// A rule that was tried before the one that survived.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Attempt {
    /// The rule.
    pub rule: String,
    /// Where it failed.
    pub not_spd: NotSpd,
}

/// What the reconstructor is worth towards one target.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TargetResult {
    /// Direction in arcsec.
    pub x: f64,
    /// Direction in arcsec.
    pub y: f64,
    /// Trace of `Cee` in arcsec^2.
    pub trace_cee: f64,
    /// `trace(Cee) / trace(Ctt)`.
    pub relative_error: f64,
    /// Strehl ratio of the stationary image.
    pub strehl_moao: f64,
    /// Exact long-exposure Strehl ratio; `null` where it was not requested.
    pub strehl_exact: Option<f64>,
    /// Marechal approximation, piston removed.
    pub marechal: f64,
    /// Wavefront error in nm rms, piston removed.
    pub wfe_nm: f64,
}

/// The numbers of a rule that survived.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Measured {
    /// Share of the factorisation's products in each precision.
    pub gemm_share: GemmShare,
    /// `n^3 / 3`, and `2 n^2 m` per target.
    pub flops: f64,
    /// Seconds of each stage.
    pub seconds: Seconds,
    /// `flops` over the seconds of factorisation and solve, in Gflop/s.
    pub gflops: f64,
    /// Rate of the product of the largest tiles in the rule's native type on all workers, measured
    /// in this run, in Gflop/s; 0 where there are devices beside them, of which it says nothing.
    pub gemm_peak_gflops: f64,
    /// `||A - L L^T||_F / ||A||_F`; `null`, as all that judges, where it was not computed (`tor
    /// build`).
    pub backward_error: f64,
    /// Whether the backward error is an estimate from 16 vectors (above n = 8192).
    pub backward_error_estimated: bool,
    /// Trace of `Cee` in arcsec^2, first target.
    pub trace_cee: f64,
    /// Strehl ratio of the stationary image, first target.
    pub strehl_moao: f64,
    /// Exact long-exposure Strehl ratio, first target; `null` where it was not requested.
    pub strehl_exact: Option<f64>,
    /// Marechal approximation, piston removed, first target.
    pub marechal: f64,
    /// Every target; empty where nothing was judged.
    pub targets: Vec<TargetResult>,
    /// Most memory the process held during this rule (the kernel's high-water mark, reset before
    /// each rule where it allows that; 0 where the system does not tell).
    pub peak_memory_bytes: u64,
    /// Bytes of the tiles of the factor and of all reconstructors, without replicas.
    pub tile_bytes: u64,
    /// Each rank, where there are several; absent from the JSON where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankUse>,
    /// Figures that cannot be trusted, with the cause; absent from the JSON where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Products on each tile by precision, in the order of [`GemmPrecision::ALL`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PrecisionMap {
    /// Tiles along one side.
    pub tiles: usize,
    /// Of tile `(i, j)`, `i >= j`, at `i (i + 1) / 2 + j`.
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

    /// Products on tile `(i, j)` by precision; zeros outside of the lower triangle.
    pub fn at(&self, i: usize, j: usize) -> [u32; KINDS] {
        if j > i { [0; KINDS] } else { self.counts.get(i * (i + 1) / 2 + j).copied().unwrap_or_default() }
    }
}

/// One rule's run: the numbers, or where it failed.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct RuleResult {
    /// Measurements.
    pub n: usize,
    /// Truth-sensor slopes.
    pub m: usize,
    /// Tiles along one side of `Cmm`.
    pub tiles: usize,
    /// The rule that was used.
    pub rule: String,
    /// The requested rule, where it failed and more precision was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_asked: Option<String>,
    /// The rules that failed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The numbers of a rule that survived.
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// Where the rule failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_spd: Option<NotSpd>,
    /// Devices with memory of their own, as the whole run used them; absent from the JSON where
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// What the report shows and the JSON does not hold.
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
    /// The same of the refined reconstructor, recomputed.
    pub residual: Option<f64>,
    /// Images by target: the first one, or all with
    /// [`Options::keep_images`](super::Options::keep_images).
    pub images: Vec<Psf>,
    /// Norms of the tiles, with [`Options::keep_norms`](super::Options::keep_norms).
    pub norms: Option<TileNorms>,
    /// `R` by target, with [`Options::keep_reconstructors`](super::Options::keep_reconstructors).
    pub reconstructors: Vec<Arc<Matrix>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_rule_holds_no_numbers() {
        let result = RuleResult {
            n: 4,
            m: 2,
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
