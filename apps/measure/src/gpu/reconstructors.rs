//! Whole reconstructors, from the parameters of a telescope to `R`, by the code of `zellige tor run
//! --device cuda`.

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::table::Side;
use zellige_app::text::digits;
use zellige_dense::Rule;
use zellige_runtime::Trace;
use zellige_tor::params::{Input, timed_system};
use zellige_tor::pipeline::{self, Attempt, OnNotSpd, Options, Plan, TileChoice, Timing};

use super::rates::{Conditions, TimeSplit};
use super::run::GpuRun;
use crate::{Error, median, on_gpus};

/// The rule of the run under sixty layers.
const NIGHT_RULE: &str = "hp1:band=2";

/// A system with which MOAO is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorSize {
    /// Sub-apertures across each sensor.
    pub nssp: usize,
    /// Sixty layers instead of ten, with one rule.
    pub night: bool,
}

impl TorSize {
    /// Returns each of these sizes, and the last one with sixty layers too.
    pub fn all(across: &[u16]) -> Vec<TorSize> {
        let sizes = across.iter().map(|&nssp| TorSize { nssp: usize::from(nssp), night: false });
        let night = across.last().map(|&nssp| TorSize { nssp: usize::from(nssp), night: true });
        sizes.chain(night).collect()
    }
}

/// Results for one system with one rule; medians.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TorFigures {
    nssp: usize,
    layers: usize,
    n: usize,
    m: usize,
    /// Tiles along one side.
    tiles: usize,
    /// Size of the largest tile.
    tile_edge: usize,
    rule_asked: String,
    /// The rule of the successful attempt.
    rule: String,
    attempts: Vec<Attempt>,
    preparation_seconds: f64,
    covariance_seconds: f64,
    factor_seconds: f64,
    solve_seconds: f64,
    factor_and_solve_seconds: f64,
    /// Time from the parameters to `R`, which is in the memories in which its tiles were made.
    parameters_to_r_seconds: f64,
    /// n^3 / 3 + 2 n^2 m by the time of factorisation and solves.
    tflops: f64,
    /// Least time of factorisation and solves, at the measured peaks of products.
    limit_seconds: Option<f64>,
    fraction_of_limit: Option<f64>,
    /// Time split of the last run, from covariances to `R`.
    #[serde(flatten)]
    split: TimeSplit,
    #[serde(flatten)]
    conditions: Conditions,
}

/// Columns of the table for [`TorFigures::cells`].
pub(super) const COLUMNS: [(&str, Side); 9] = [
    ("n", Side::Right),
    ("layers", Side::Right),
    ("reconstructor", Side::Left),
    ("factor s", Side::Right),
    ("solve s", Side::Right),
    ("both s", Side::Right),
    ("to R s", Side::Right),
    ("Tflop/s", Side::Right),
    ("of limit", Side::Right),
];

impl TorFigures {
    /// The telescope: measurements and layers.
    pub(super) fn system(&self) -> (usize, usize) {
        (self.n, self.layers)
    }

    /// Returns the time from the parameters to `R`.
    pub(super) fn seconds(&self) -> f64 {
        self.parameters_to_r_seconds
    }

    /// Returns the main figures in one line.
    pub(super) fn in_short(&self) -> String {
        format!(
            "{}: factor and solve {} s, parameters to R {} s",
            self.rule,
            digits(self.factor_and_solve_seconds),
            digits(self.parameters_to_r_seconds)
        )
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = String> {
        let seconds = [
            self.factor_seconds,
            self.solve_seconds,
            self.factor_and_solve_seconds,
            self.parameters_to_r_seconds,
        ];
        let names = [self.n.to_string(), self.layers.to_string(), self.rule.clone()];
        let limit = self.fraction_of_limit.map_or_else(String::new, digits);
        let figures = seconds.map(digits).into_iter().chain([digits(self.tflops), limit]);
        names.into_iter().chain(figures).chain(self.conditions.cells())
    }
}

impl GpuRun<'_> {
    pub(super) fn reconstructors(&mut self) -> Result<(), Error> {
        let mut done = 0;
        for size in self.sizes.tor.clone() {
            let input = timed_system(size.nssp, size.night)?;
            let rules = if size.night { vec![NIGHT_RULE.parse()?] } else { self.sizes.rules.clone() };
            for rule in &rules {
                if let Some(figures) = self.reconstructor(size, &input, rule)? {
                    self.figures.tor.push(figures);
                }
                done += 1;
                self.done(done);
            }
        }
        Ok(())
    }

    fn reconstructor(
        &mut self,
        size: TorSize,
        input: &Input,
        rule: &Rule,
    ) -> Result<Option<TorFigures>, Error> {
        let memory = self.bench.driver.memory(self.bench.number);
        let what = format!("reconstructor of {} sub-apertures across, {rule}", size.nssp);
        let Some((memory, _)) = self.tried(&what, memory)? else { return Ok(None) };
        let options = Options {
            rules: vec![rule.to_string()],
            solve_rule: self.sizes.solve_rule.as_ref().map(Rule::to_string),
            tile: match self.sizes.tor_tile {
                None => TileChoice::AutoGpu { memory },
                Some(tile) => TileChoice::Uniform(tile),
            },
            on_not_spd: OnNotSpd::Retry,
            fuse_updates: self.sizes.fuse_updates.into(),
            by_inverses: self.sizes.by_inverses,
            ..Options::default()
        };
        let plan = pipeline::plan(input, &options)?;
        let what =
            format!("reconstructor n = {}, {} layers, {rule}", plan.info.measurements, plan.info.layers);
        if !self.fits(&what, plan.tile_bytes())? {
            return Ok(None);
        }
        let (kind, n) = (format!("reconstructor {rule}"), plan.info.measurements as f64);
        let Some(repeats) = self.affordable(&what, &kind, n, 1) else { return Ok(None) };
        let start = Instant::now();
        let timings = self.timings(input, options, &plan, repeats);
        if timings.is_ok() {
            self.budget.took(&kind, n, usize::from(repeats) + 1, start.elapsed());
        }
        let Some((attempts, timings, conditions, trace)) = self.tried(&what, timings)? else {
            return Ok(None);
        };
        let of = |figure: &dyn Fn(&Timing) -> f64| median(timings.iter().map(figure));
        let Some(last) = timings.last() else { return Ok(None) };
        let both = of(&|timing| timing.factor + timing.solve);
        let limit_seconds = self.figures.least_seconds(&last.work[1]);
        let Plan { info, grid, .. } = &plan;
        Ok(Some(TorFigures {
            nssp: size.nssp,
            layers: info.layers,
            n: info.measurements,
            m: info.truth_slopes,
            tiles: plan.tiles(),
            tile_edge: grid.max_width(),
            rule_asked: rule.to_string(),
            rule: last.rule.to_string(),
            attempts,
            preparation_seconds: of(&|timing| timing.preparation),
            covariance_seconds: of(&|timing| timing.covariances),
            factor_seconds: of(&|timing| timing.factor),
            solve_seconds: of(&|timing| timing.solve),
            factor_and_solve_seconds: both,
            parameters_to_r_seconds: of(&|timing| timing.total),
            tflops: last.work[1].flop() / both / 1e12,
            limit_seconds,
            fraction_of_limit: limit_seconds.map(|limit| limit / both),
            split: TimeSplit::of(&trace, last.total - last.preparation),
            conditions,
        }))
    }

    /// Runs once uncounted, which finds the rule that succeeds, and then the counted runs.
    fn timings(
        &self,
        input: &Input,
        mut options: Options,
        plan: &Plan,
        repeats: u16,
    ) -> Result<(Vec<Attempt>, Vec<Timing>, Conditions, Trace), pipeline::PipelineError> {
        let tiles = plan.tiles();
        let records = 4 * (tiles * tiles * tiles / 6 + tiles * tiles * 4 + 1);
        let rt = on_gpus(&[self.gpu()]).trace_capacity(records).build()?;
        let _watched = (self.listeners.watch)(rt.canceller());
        let first = pipeline::timed(&rt, input, &options, self.listeners.progress)?;
        options.rules = vec![first.rule.to_string()];
        let mut meter = self.bench.meter();
        let one = |_| {
            drop(rt.take_trace());
            meter.during(|| pipeline::timed(&rt, input, &options, self.listeners.progress))
        };
        let timings = (0..repeats).map(one).collect::<Result<_, _>>()?;
        Ok((first.attempts, timings, meter.conditions(), rt.take_trace().unwrap_or_default()))
    }
}
