//! The cheapest accepted rule of each kind of condition, to compare a map with.

use super::super::norms::TileNorms;
use super::super::{Observer, PipelineError};
use super::bench::Benches;
use super::costs::Costs;
use super::{Tuning, not_definite};
use serde::Serialize;
use std::collections::HashSet;
use zellige_dense::{GemmPrecision, PanelPrecision, Rule, Test};
use zellige_tune::{Data, Measures, OtherTrials};

/// Thresholds of conditions on norms, from cheap to dear.
const THRESHOLDS: [f64; 13] = [1.0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6];

/// Measure of the trials of rules: their cost.
const COST: &str = "cost";

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
    /// Whether the rule is accepted on the data of the verification; null if it was not tried
    /// there, since a cheaper one is.
    pub verified: Option<bool>,
}

/// Trials of rules; each runs once, and is kept in the log of the search.
pub(super) struct RuleTrials<'b, 'a> {
    benches: &'b mut Benches<'a>,
    /// Norms of the tiles in the reference, once a cost needs them.
    norms: Option<TileNorms>,
    costs: &'b Costs<'b>,
    tuning: &'b Tuning,
    /// Measures of the reference, and those on the data of the verification.
    reference: (&'b Measures, Option<&'b Measures>),
    panel: PanelPrecision,
    log: OtherTrials,
    seen: HashSet<String>,
    observer: &'b dyn Observer,
}

impl<'b, 'a> RuleTrials<'b, 'a> {
    pub(super) fn new(
        benches: &'b mut Benches<'a>,
        costs: &'b Costs<'b>,
        (tuning, reference): (&'b Tuning, (&'b Measures, Option<&'b Measures>)),
        panel: PanelPrecision,
        log: OtherTrials,
        observer: &'b dyn Observer,
    ) -> Self {
        let seen = HashSet::new();
        RuleTrials { benches, norms: None, costs, tuning, reference, panel, log, seen, observer }
    }

    /// Finds the cheapest accepted rule of each pair of formats and each condition, from cheap to
    /// dear, and the number of trials. Thresholds are bisected: a lower one is taken to be no
    /// worse. Rules are verified until one is accepted.
    pub(super) fn best(
        mut self,
        formats: &[GemmPrecision],
    ) -> Result<(Vec<RuleTrial>, usize), PipelineError> {
        let tiles = self.benches.problem().plan.tiles();
        let pairs = formats.len() * (formats.len() - 1) / 2;
        self.observer.stage("rules", 13 * pairs as u64);
        let mut found = Vec::new();
        for (at, &low) in formats.iter().enumerate() {
            for &otherwise in &formats[at + 1..] {
                if let Some(always) = self.run(low, Test::Always, otherwise)? {
                    found.push(always);
                    continue;
                }
                let bands: Vec<Test> = (2..tiles).map(Test::Band).collect();
                for tests in [bands, THRESHOLDS.map(Test::Tile).into(), THRESHOLDS.map(Test::Operand).into()]
                {
                    found.extend(self.bisect(low, &tests, otherwise)?);
                }
            }
        }
        found.extend(self.run(GemmPrecision::Sp, Test::Always, GemmPrecision::Sp)?);
        found.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.rule.cmp(&b.rule)));
        found.dedup_by(|a, b| a.rule == b.rule);
        self.verify(&mut found)?;
        Ok((found, self.seen.len()))
    }

    /// Verifies rules from cheap to dear, until one is accepted.
    fn verify(&mut self, rules: &mut [RuleTrial]) -> Result<(), PipelineError> {
        let Some(reference) = self.reference.1 else { return Ok(()) };
        for trial in rules {
            let benches = &mut *self.benches;
            let measures = self.log.run(Data::Verify, &trial.rule, || {
                let tried = benches.at(Data::Verify)?.run(&trial.rule.parse()?)?;
                Ok::<_, PipelineError>(tried.map(|tried| tried.measures).map_err(|lost| not_definite(&lost)))
            })?;
            let accepted = measures.is_ok_and(|measures| self.tuning.acceptance.holds(&measures, reference));
            trial.verified = Some(accepted);
            if accepted {
                break;
            }
        }
        Ok(())
    }

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
        let (benches, costs, norms) = (&mut *self.benches, self.costs, &mut self.norms);
        // The cost depends on more than the measures, e.g. on the norms of tiles.
        let logged = format!("{name}; {}", self.tuning.cost.unit());
        let measures = self.log.run(Data::Search, &logged, || {
            let bench = benches.at(Data::Search)?;
            let mut tried = match bench.run(&rule)? {
                Ok(tried) => tried,
                Err(lost) => return Ok::<_, PipelineError>(Err(not_definite(&lost))),
            };
            if norms.is_none() && costs.needs_norms() {
                *norms = bench.norms()?;
            }
            tried.measures.insert(COST, costs.of_rule(&rule, &tried, norms.as_ref())?, 0.0);
            Ok(Ok(tried.measures))
        })?;
        self.seen.insert(name.clone());
        self.observer.advance(self.seen.len() as u64);
        let is_accepted = |measures: &Measures| self.tuning.acceptance.holds(measures, self.reference.0);
        Ok(measures.ok().filter(is_accepted).map(|measures| {
            let measure = |name| measures.get(name).map(|measure| measure.value);
            RuleTrial {
                cost: measure(COST).unwrap_or(f64::NAN),
                strehl: measure("strehl"),
                strehl_stationary: measure("strehl_stationary"),
                rule: name,
                verified: None,
            }
        }))
    }
}
