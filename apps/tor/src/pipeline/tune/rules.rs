//! The cheapest accepted rule of each kind of condition, to compare a map with.

use super::super::norms::TileNorms;
use super::super::{Observer, PipelineError};
use super::bench::Bench;
use super::costs::Costs;
use serde::Serialize;
use std::collections::HashMap;
use zellige_dense::{GemmPrecision, PanelPrecision, Rule, Test};
use zellige_tune::{Acceptance, Measures};

/// Thresholds of conditions on norms, from cheap to dear.
const THRESHOLDS: [f64; 13] = [1.0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6];

/// The cheapest accepted rule of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RuleTrial {
    /// Rule.
    pub rule: String,
    /// Cost.
    pub cost: f64,
    /// Exact Strehl ratio.
    pub strehl: Option<f64>,
    /// Strehl ratio of the stationary image.
    pub strehl_stationary: Option<f64>,
}

/// Trials of rules; each runs once.
struct RuleTrials<'b, 'a> {
    bench: &'b mut Bench<'a>,
    norms: Option<TileNorms>,
    costs: &'b Costs<'b>,
    acceptance: (&'b Acceptance, &'b Measures),
    panel: PanelPrecision,
    seen: HashMap<String, Option<RuleTrial>>,
    observer: &'b dyn Observer,
}

/// Finds the cheapest accepted rule of each pair of formats and each condition, from cheap to dear,
/// and the number of trials. Thresholds are bisected: a lower one is taken to be no worse.
pub(super) fn best(
    bench: &mut Bench<'_>,
    costs: &Costs<'_>,
    formats: &[GemmPrecision],
    panel: PanelPrecision,
    acceptance: (&Acceptance, &Measures),
    observer: &dyn Observer,
) -> Result<(Vec<RuleTrial>, usize), PipelineError> {
    let tiles = bench.problem().plan.tiles();
    let pairs = formats.len() * (formats.len() - 1) / 2;
    observer.stage("rules", 13 * pairs as u64);
    let norms = if costs.needs_norms() { bench.norms()? } else { None };
    let seen = HashMap::new();
    let mut trials = RuleTrials { bench, norms, costs, acceptance, panel, seen, observer };
    let mut found = Vec::new();
    for (at, &low) in formats.iter().enumerate() {
        for &otherwise in &formats[at + 1..] {
            if let Some(always) = trials.run(low, Test::Always, otherwise)? {
                found.push(always);
                continue;
            }
            let bands: Vec<Test> = (2..tiles).map(Test::Band).collect();
            for tests in [bands, THRESHOLDS.map(Test::Tile).into(), THRESHOLDS.map(Test::Operand).into()] {
                found.extend(trials.bisect(low, &tests, otherwise)?);
            }
        }
    }
    found.extend(trials.run(GemmPrecision::Sp, Test::Always, GemmPrecision::Sp)?);
    found.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.rule.cmp(&b.rule)));
    found.dedup_by(|a, b| a.rule == b.rule);
    Ok((found, trials.seen.len()))
}

impl RuleTrials<'_, '_> {
    /// Returns the trial of the cheapest accepted of these conditions, which come from cheap to
    /// dear.
    fn bisect(
        &mut self,
        low: GemmPrecision,
        tests: &[Test],
        otherwise: GemmPrecision,
    ) -> Result<Option<RuleTrial>, PipelineError> {
        let (mut from, mut to) = (0, tests.len());
        let mut best = None;
        while from < to {
            let middle = (from + to) / 2;
            match self.run(low, tests[middle], otherwise)? {
                Some(accepted) => {
                    best = Some(accepted);
                    to = middle;
                }
                None => from = middle + 1,
            }
        }
        Ok(best)
    }

    /// Returns the trial of a rule if it is accepted.
    fn run(
        &mut self,
        low: GemmPrecision,
        test: Test,
        otherwise: GemmPrecision,
    ) -> Result<Option<RuleTrial>, PipelineError> {
        let rule = Rule::when(low, test, otherwise).with_panel(self.panel);
        let name = rule.to_string();
        if let Some(seen) = self.seen.get(&name) {
            return Ok(seen.clone());
        }
        let tried = self.bench.run(&rule)?.ok();
        let (acceptance, reference) = self.acceptance;
        let trial = match tried.filter(|tried| acceptance.holds(&tried.measures, reference)) {
            Some(tried) => {
                let measure = |name| tried.measures.get(name).map(|measure| measure.value);
                Some(RuleTrial {
                    cost: self.costs.of_rule(&rule, &tried, self.norms.as_ref())?,
                    strehl: measure("strehl"),
                    strehl_stationary: measure("strehl_stationary"),
                    rule: name.clone(),
                })
            }
            None => None,
        };
        self.seen.insert(name, trial.clone());
        self.observer.advance(self.seen.len() as u64);
        Ok(trial)
    }
}
