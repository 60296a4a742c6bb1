//! Costs of maps and rules.

use super::super::norms::TileNorms;
use super::super::problem::Problem;
use super::super::simulate::{Request, SimulateError, simulate};
use super::super::{Options, PipelineError, TileChoice};
use super::CostModel;
use super::bench::Tried;
use zellige_dense::{
    GemmCounts, GemmPrecision, PanelPrecision, Phase, PrecisionPolicy, Rule, TileGrid, TileMap,
};

/// Scheduling policy of predictions, the default of `zellige simulate`.
const POLICY: &str = "dmdas";

/// Costs of one system.
pub(super) struct Costs<'m> {
    model: &'m CostModel,
    grid: TileGrid,
    rows: TileGrid,
    tile: usize,
    fuse_updates: usize,
}

impl<'m> Costs<'m> {
    pub(super) fn new(
        problem: &Problem,
        options: &Options,
        model: &'m CostModel,
    ) -> Result<Costs<'m>, PipelineError> {
        let tile = match (model, options.tile) {
            (CostModel::Predicted { .. }, TileChoice::Uniform(tile)) => tile,
            (CostModel::Predicted { .. }, _) => {
                let problem = "predicted seconds need uniform tiles: give their size (--tile N)";
                return Err(PipelineError::Options(problem.into()));
            }
            _ => 0,
        };
        let (grid, rows) = (problem.plan.grid.clone(), problem.rows.clone());
        Ok(Costs { model, grid, rows, tile, fuse_updates: options.fuse_updates })
    }

    /// Returns whether costs of rules need the norms of tiles.
    pub(super) fn needs_norms(&self) -> bool {
        matches!(self.model, CostModel::Predicted { .. })
    }

    /// Returns whether products can have a format: false if the platform has no rate for it.
    pub(super) fn has(&self, format: GemmPrecision) -> bool {
        match self.model {
            CostModel::Predicted { platform, .. } => platform.peak_tflops(format.name()) > 0.0,
            CostModel::Bytes | CostModel::Measured => true,
        }
    }

    /// Returns the time of a flop, for the order of formats.
    fn of_flop(&self, format: GemmPrecision) -> f64 {
        match self.model {
            CostModel::Predicted { platform, .. } => 1e-12 / platform.peak_tflops(format.name()),
            // Relative rates of tensor cores.
            CostModel::Bytes | CostModel::Measured => {
                1e-12
                    * match format {
                        GemmPrecision::Dp => 2.0,
                        GemmPrecision::Sp => 1.0,
                        GemmPrecision::X3 => 0.75,
                        GemmPrecision::Tf32 => 0.5,
                        GemmPrecision::Bf1 | GemmPrecision::Hp1 => 0.25,
                        GemmPrecision::Hp2 => 0.24,
                        GemmPrecision::Hp3 => 0.23,
                        GemmPrecision::Fp8 => 0.125,
                    }
            }
        }
    }

    /// Returns the cost of a product on a tile of `height` rows and `width` columns, with operands
    /// of `inner` columns.
    fn of_product(&self, [height, width, inner]: [f64; 3], format: GemmPrecision) -> f64 {
        match self.model {
            CostModel::Bytes => {
                let [operands, result] =
                    [format.operand_format(), format.output_format()].map(|format| format.bytes() as f64);
                operands * (height + width) * inner + 2.0 * result * height * width
            }
            _ => 2.0 * height * width * inner * self.of_flop(format),
        }
    }

    /// Returns the cost of the products that a map's tile `(i, j)` stands for.
    pub(super) fn of_tile(&self, phase: Phase, i: usize, j: usize, format: GemmPrecision) -> f64 {
        let width = |i: usize| self.grid.width(i) as f64;
        match phase {
            Phase::Factor => (0..j).map(|k| self.of_product([width(i), width(j), width(k)], format)).sum(),
            Phase::Solve => {
                let both = |row: usize| {
                    let height = self.rows.width(row) as f64;
                    let ways = [[height, width(i), width(j)], [height, width(j), width(i)]];
                    ways.into_iter().map(|shape| self.of_product(shape, format)).sum::<f64>()
                };
                (0..self.rows.tiles()).map(both).sum()
            }
        }
    }

    /// Returns the predicted time of a run with all products in one format; none if costs are not
    /// predicted, and those of tiles add up.
    pub(super) fn of_run(&self, format: GemmPrecision) -> Result<Option<f64>, PipelineError> {
        match self.model {
            CostModel::Bytes | CostModel::Measured => Ok(None),
            CostModel::Predicted { .. } => self.predicted(Rule::uniform(format), None).map(Some),
        }
    }

    /// Returns the predicted time of diagonal updates and triangular solves. Their bytes are the
    /// same in all formats.
    pub(super) fn of_panel(&self, panel: PanelPrecision) -> f64 {
        if matches!(self.model, CostModel::Bytes) {
            return 0.0;
        }
        let width = |i: usize| self.grid.width(i) as f64;
        let tiles = self.grid.tiles();
        let mut flops = 0.0;
        for k in 0..tiles {
            flops += (k + 1..tiles).map(|i| width(i) * width(k) * (width(i) + width(k))).sum::<f64>();
            flops += 2.0 * self.rows.len() as f64 * width(k).powi(2);
        }
        flops * self.of_flop(panel.gemm(GemmPrecision::Sp))
    }

    /// Returns the cost of a map; `seconds` are those of its trial.
    pub(super) fn of_map(&self, map: &TileMap, seconds: Option<f64>) -> Result<f64, PipelineError> {
        match self.model {
            CostModel::Bytes => {
                let mut sum = 0.0;
                for phase in [Phase::Factor, Phase::Solve] {
                    for i in 1..self.grid.tiles() {
                        sum += (0..i).map(|j| self.of_tile(phase, i, j, map.at(phase, i, j))).sum::<f64>();
                    }
                }
                Ok(sum)
            }
            CostModel::Measured => Ok(seconds.unwrap_or(f64::NAN)),
            CostModel::Predicted { .. } => self.predicted(map.clone().into(), None),
        }
    }

    /// Returns the cost of a rule from its trial; `norms` are those of the reference.
    pub(super) fn of_rule(
        &self,
        rule: &Rule,
        tried: &Tried,
        norms: Option<&TileNorms>,
    ) -> Result<f64, PipelineError> {
        match self.model {
            CostModel::Bytes => Ok(self.counted(tried)),
            CostModel::Measured => Ok(tried.seconds),
            CostModel::Predicted { .. } => self.predicted(rule.clone(), norms),
        }
    }

    /// Returns the bytes of counted products. Precisions of the products on one tile count as
    /// spread evenly over the steps.
    fn counted(&self, tried: &Tried) -> f64 {
        let width = |i: usize| self.grid.width(i) as f64;
        let mixed = |counts: &GemmCounts, i: usize, j: usize, of: &dyn Fn(GemmPrecision) -> f64| {
            let count = |format| f64::from(counts.at(i, j, format));
            let total: f64 = GemmPrecision::ALL.into_iter().map(count).sum();
            let shares = GemmPrecision::ALL.into_iter().filter(|&format| count(format) > 0.0);
            shares.map(|format| count(format) / total * of(format)).sum::<f64>()
        };
        let mut sum = 0.0;
        for j in 0..self.grid.tiles() {
            for i in j + 1..self.grid.tiles() {
                let of = |format| self.of_tile(Phase::Factor, i, j, format);
                sum += mixed(tried.factor.counts(), i, j, &of);
            }
            for i in 0..self.rows.tiles() {
                let height = self.rows.width(i) as f64;
                let others = || (0..self.grid.tiles()).filter(|&k| k != j);
                let of = |format| {
                    others().map(|k| self.of_product([height, width(j), width(k)], format)).sum::<f64>()
                };
                sum += mixed(tried.solution.counts(), i, j, &of);
            }
        }
        sum
    }

    fn predicted(&self, rule: Rule, norms: Option<&TileNorms>) -> Result<f64, PipelineError> {
        let CostModel::Predicted { platform, ahead } = self.model else { return Ok(f64::NAN) };
        let request = Request {
            n: self.grid.len(),
            m: self.rows.len(),
            tile: self.tile,
            norms: norms.filter(|_| rule.when() == zellige_dense::When::OperandsReady),
            rule,
            fuse_updates: self.fuse_updates,
            policy: POLICY.into(),
            products_only: false,
            cyclic_block: 1,
            ahead: *ahead,
            nodes: 1,
        };
        let refused = |error| match error {
            SimulateError::Linalg(error) => PipelineError::from(error),
            other => PipelineError::Options(other.to_string()),
        };
        Ok(simulate(&request, platform).map_err(refused)?.0.makespan_seconds)
    }
}
