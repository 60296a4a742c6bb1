//! Search for the cheapest precision map that keeps the quality of a reconstructor.
//!
//! Items are tiles, or classes of tiles by phase, pair of sensors and distance from the diagonal.
//! Each has some of the precisions of products as its formats. A trial factorises and solves in
//! the precisions of a map, and judges the reconstructor against the float64 covariances.

mod bench;
mod costs;
mod items;
mod rules;

pub use items::Granularity;
pub use rules::RuleTrial;

use super::problem::Problem;
use super::{NotSpd, Observer, Options, PipelineError};
use crate::params::Input;
use bench::{Bench, Benches};
use costs::Costs;
use items::Items;
use rules::RuleTrials;
use serde::Serialize;
use std::cell::RefCell;
use zellige_app::tune::TuneResult;
use zellige_dense::{GemmPrecision, PanelPrecision, Rule, TileMap};
use zellige_runtime::Runtime;
use zellige_sim::platform::Platform;
use zellige_tune::{Acceptance, Assignment, Data, Measures, OtherTrials, Search, Trial, Trials};

/// Default criterion: the exact Strehl ratio decreases by at most 1e-4.
pub const ACCEPT: &str = "strehl >= REF.strehl - 1e-4";
/// Default formats of products: those of Doucet et al. 2019.
pub const FORMATS: [GemmPrecision; 4] =
    [GemmPrecision::Hp3, GemmPrecision::Hp2, GemmPrecision::Hp1, GemmPrecision::Sp];

/// Cost of a map.
#[derive(Clone, Debug)]
pub enum CostModel {
    /// Bytes that tile products read and write.
    Bytes,
    /// Measured seconds of factorisation and solves.
    Measured,
    /// Predicted seconds of factorisation and solves.
    Predicted {
        /// Platform of the prediction.
        platform: Box<Platform>,
        /// Number of tasks whose operands a device prefetches beyond the running one.
        ahead: usize,
    },
}

impl CostModel {
    /// Returns the unit of the cost.
    pub fn unit(&self) -> String {
        match self {
            CostModel::Bytes => "bytes of tile products".into(),
            CostModel::Measured => "seconds, measured".into(),
            CostModel::Predicted { platform, .. } => format!("seconds on {}, predicted", platform.name),
        }
    }
}

/// Request for a search. Its system has one target.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Formats of products in any order; `fp32`, the reference, is always one of them.
    pub formats: Vec<GemmPrecision>,
    /// Formats of diagonal updates and triangular solves; `fp32` is always one of them.
    pub panels: Vec<PanelPrecision>,
    /// Items.
    pub items: Granularity,
    /// Cost to reduce.
    pub cost: CostModel,
    /// Criterion.
    pub acceptance: Acceptance,
    /// System and atmosphere on which the result is verified; none: no verification.
    pub verification: Option<Input>,
    /// Whether the best rules are searched, too.
    pub rules: bool,
    /// Budget, method and log.
    pub search: zellige_tune::Options,
}

/// Result of a search for a precision map.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct TunedMap {
    /// Number of measurements.
    pub n: usize,
    /// Number of truth-sensor slopes.
    pub m: usize,
    /// Boundaries of the tiles, from 0 to n.
    pub edges: Vec<usize>,
    /// Direction of the target in arcsec.
    pub target: [f64; 2],
    /// Direction of the target of the verification in arcsec.
    pub verified_target: Option<[f64; 2]>,
    /// Cheapest accepted rule of each pair of formats and condition, from cheap to dear; empty if
    /// none was searched.
    pub rules: Vec<RuleTrial>,
    /// Number of trials of rules.
    pub rule_trials: usize,
    /// Share of the gap between the best rule, verified as the map is, and the bound that the map
    /// closes; null without a gap.
    pub gap_share: Option<f64>,
    /// Share of the cost of the best rule that the map saves.
    pub saving: Option<f64>,
    /// Search of the map.
    #[serde(flatten)]
    pub search: TuneResult,
    /// Precision map.
    #[serde(skip)]
    pub map: TileMap,
    /// Number of sub-apertures of each sensor.
    #[serde(skip)]
    pub sub_apertures: Vec<usize>,
}

/// Searches the cheapest map for the first target of `input`.
///
/// # Errors
/// Bad parameters or options, too little memory, a reference that fails, a failed task,
/// cancellation. A trial that loses positive definiteness is a trial that failed, not an error.
pub fn tune(
    rt: &Runtime,
    input: &Input,
    options: &Options,
    tuning: &Tuning,
    observer: &dyn Observer,
) -> Result<TunedMap, PipelineError> {
    let with_error = tuning.acceptance.has("backward_error");
    let bench = Bench::new(rt, input, options, with_error, observer)?;
    let mut benches = Benches::new(bench, tuning.verification.as_ref());
    let (costs, items) = described(benches.problem(), options, tuning)?;
    let bound = costs.of_map(&items.map("bound", &items.space().cheapest())?, None)?;
    let uniform = items.space().reference();
    // The search continues after a trial that failed; an error stops it.
    let stopped: RefCell<Option<PipelineError>> = RefCell::new(None);
    let mut trial = |formats: &Assignment, data: Data| {
        let rule = match *formats == uniform {
            true => Rule::uniform(GemmPrecision::Sp),
            false => items.map("trial", formats)?.into(),
        };
        let tried = benches.at(data)?.run(&rule)?;
        Ok::<_, PipelineError>(tried.map(|tried| tried.measures).map_err(|lost| not_definite(&lost)))
    };
    let trials = Trials::in_turn(|formats, data| {
        if stopped.borrow().is_some() {
            return Err("stopped".into());
        }
        trial(formats, data).unwrap_or_else(|error| {
            let text = error.to_string();
            *stopped.borrow_mut() = Some(error);
            Err(text)
        })
    });
    let mut search = zellige_tune::Options { verify: tuning.verification.is_some(), ..tuning.search.clone() };
    if with_error {
        // Trials without this measure cannot be used again.
        search.subject += ", backward error";
    }
    let cost = |formats: &Assignment, measures: &Measures| {
        let map = items.map("cost", formats);
        let cost =
            map.and_then(|map| costs.of_map(&map, measures.get("seconds").map(|seconds| seconds.value)));
        cost.unwrap_or(f64::NAN)
    };
    let outcome =
        Search::new(items.space(), trials, &tuning.acceptance).cost(cost).observer(observer).run(&search);
    if let Some(error) = stopped.into_inner() {
        return Err(error);
    }
    let outcome = outcome?;
    let map = items.map("tuned", &outcome.best().formats)?;
    let (rules, rule_trials) = match tuning.rules {
        true => {
            let is_verified =
                |trial: &&Trial| trial.data == Data::Verify && trial.formats == outcome.reference().formats;
            let verified = outcome.trials.iter().find(is_verified).map(|trial| &trial.measures);
            let reference = (&outcome.reference().measures, verified);
            let panel = zellige_dense::PrecisionPolicy::panel(&map);
            let log = OtherTrials::open(items.space(), &search)?;
            let trials = RuleTrials::new(&mut benches, &costs, (tuning, reference), panel, log, observer);
            trials.best(items.formats())?
        }
        false => (Vec::new(), 0),
    };
    let problem = benches.problem();
    let cost = outcome.best().cost.unwrap_or(f64::NAN);
    let best_rule = rules.iter().find(|rule| rule.verified != Some(false)).map(|rule| rule.cost);
    let accept = tuning.acceptance.text();
    let search = TuneResult::new(items.space(), accept, tuning.cost.unit(), outcome, None);
    Ok(TunedMap {
        n: problem.n(),
        m: problem.m(),
        edges: problem.plan.grid.edges().to_vec(),
        target: problem.system().targets[0],
        verified_target: tuning.verification.as_ref().map(|input| input.system.targets[0]),
        gap_share: best_rule.filter(|&rule| rule > bound).map(|rule| (rule - cost) / (rule - bound)),
        saving: best_rule.map(|rule| 1.0 - cost / rule),
        rules,
        rule_trials,
        search: TuneResult { bound, ..search },
        map,
        sub_apertures: problem.plan.info.sub_apertures.clone(),
    })
}

/// Returns the cost with the cheapest format of every item, and with the dearest, before any trial;
/// none if costs are measured.
///
/// # Errors
/// Bad parameters or options.
pub fn bounds(input: &Input, options: &Options, tuning: &Tuning) -> Result<Option<[f64; 2]>, PipelineError> {
    if matches!(tuning.cost, CostModel::Measured) {
        return Ok(None);
    }
    let problem = Problem::new(input, options)?;
    let (costs, items) = described(&problem, options, tuning)?;
    let of = |formats: &Assignment| costs.of_map(&items.map("bound", formats)?, None);
    Ok(Some([of(&items.space().cheapest())?, of(&items.space().reference())?]))
}

fn not_definite(lost: &NotSpd) -> String {
    format!("not positive definite at tile {}, pivot {}", lost.tile, lost.pivot)
}

fn described<'t>(
    problem: &Problem,
    options: &Options,
    tuning: &'t Tuning,
) -> Result<(Costs<'t>, Items), PipelineError> {
    let costs = Costs::new(problem, options, &tuning.cost)?;
    let items = Items::new(problem, &costs, &tuning.formats, &tuning.panels, tuning.items)?;
    Ok((costs, items))
}

/// Returns another view of a system: a target a quarter of the field's radius away, and turbulence
/// that is stronger (`r0` times 0.85) and higher (altitudes times 1.1).
#[must_use]
pub fn verification(input: &Input) -> Input {
    let mut other = input.clone();
    let radius = input.system.stars.iter().map(|star| star.direction[0].hypot(star.direction[1]));
    let radius = radius.fold(0.0, f64::max);
    let shift = if radius > 0.0 { radius / 4.0 } else { 5.0 };
    if let Some(target) = other.system.targets.first_mut() {
        target[0] += shift * if target[0] > 0.0 { -1.0 } else { 1.0 };
    }
    for layer in &mut other.atmosphere.layers {
        layer.altitude *= 1.1;
        layer.cn2 *= 0.85f64.powf(-5.0 / 3.0);
    }
    other
}

#[cfg(test)]
mod tests {
    use super::super::{Silent, TileChoice};
    use super::*;
    use crate::params::{Mode, parse};
    use crate::report;
    use std::path::Path;
    use zellige_dense::{Phase, Rule};

    fn small() -> Input {
        let text = include_str!("../../../systems/demo.toml").replace("nssp = 16 ", "nssp = 6 ");
        let mut input = parse(Path::new("small.toml"), &text, None, Mode::Strict).unwrap();
        input.system.targets.truncate(1);
        input
    }

    fn options() -> Options {
        Options { tile: TileChoice::Uniform(48), ..Options::default() }
    }

    fn tuning(accept: &str) -> Tuning {
        Tuning {
            formats: vec![GemmPrecision::Hp1, GemmPrecision::Hp2],
            panels: Vec::new(),
            items: Granularity::Classes,
            cost: CostModel::Bytes,
            acceptance: Acceptance::parse(accept).unwrap(),
            verification: Some(verification(&small())),
            rules: true,
            search: zellige_tune::Options { max_trials: Some(12), ..Default::default() },
        }
    }

    fn runtime() -> Runtime {
        Runtime::builder().workers(2).bind(false).build().unwrap()
    }

    #[test]
    fn a_tuned_map_is_verified_and_costs_no_more_than_the_reference() {
        let rt = runtime();
        let result = tune(&rt, &small(), &options(), &tuning(ACCEPT), &Silent).unwrap();
        let (outcome, bound) = (&result.search.outcome, result.search.bound);
        let (best, reference) = (outcome.best(), outcome.reference().cost.unwrap());
        assert!(bound < reference && (bound..=reference).contains(&best.cost.unwrap()), "{result:?}");
        assert!(best.is_accepted() && outcome.verified.is_some());
        assert_eq!(result.rules.iter().filter(|rule| rule.verified == Some(true)).count(), 1);
        assert_eq!(result.rules.last().map(|rule| &*rule.rule), Some("fp32"));
        assert!((result.rules.last().unwrap().cost / reference - 1.0).abs() < 1e-2);
        // The written map gives the Strehl ratio of its trial.
        let map = TileMap::parse("again", &result.map.to_string()).unwrap();
        let mut bench = Bench::new(&rt, &small(), &options(), false, &Silent).unwrap();
        let again = bench.run(&map.into()).unwrap().ok().unwrap();
        let strehl = |measures: &Measures| measures.get("strehl").unwrap().value;
        assert!((strehl(&again.measures) - strehl(&best.measures)).abs() < 1e-9);
        assert_eq!(again.measures.get("definite").map(|measure| measure.value), Some(1.0));
        let page = report::tune::page("Tuned", &result).finish();
        for part in ["<svg", "Front", "Maps and rules", "factorisation; panel fp32", "Verification"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(report::tune::text(&result, false).contains("fp32"));
        assert_eq!(serde_json::to_value(&result).unwrap()["m"], result.m);
    }

    /// Trials of maps and of rules, and their verifications, are all in the log.
    #[test]
    fn a_search_that_goes_on_repeats_no_trial() {
        let (rt, folder) = (runtime(), tempfile::tempdir().unwrap());
        let path = folder.path().join("trials.jsonl");
        let mut tuning = tuning(ACCEPT);
        tuning.search.log = Some(path.clone());
        tuning.search.max_trials = Some(4);
        let run = || {
            let result = tune(&rt, &small(), &options(), &tuning, &Silent).unwrap();
            (result.rules, result.rule_trials, std::fs::read_to_string(&path).unwrap())
        };
        let (rules, count, log) = run();
        assert!(count > 3 && rules.iter().any(|rule| rule.verified == Some(true)), "{rules:?}");
        assert_eq!(run(), (rules, count, log.clone()));
        // Without the last trials the result is the same, too, within rounding.
        let lines: Vec<&str> = log.lines().collect();
        std::fs::write(&path, lines[..lines.len() - 4].join("\n") + "\n").unwrap();
        assert_eq!(run().2.lines().count(), lines.len());
    }

    #[test]
    fn counted_bytes_are_those_of_the_map() {
        let (rt, input, options, tuning) = (runtime(), small(), options(), tuning("definite"));
        let mut bench = Bench::new(&rt, &input, &options, true, &Silent).unwrap();
        let (costs, items) = described(bench.problem(), &options, &tuning).unwrap();
        let mixed = |phase, i: usize, j: usize| match (phase, (i - j) % 3) {
            (Phase::Factor, 1) | (Phase::Solve, 2) => GemmPrecision::Hp1,
            _ => GemmPrecision::Sp,
        };
        let edges = bench.problem().plan.grid.edges().to_vec();
        for map in
            [items.map("m", &items.space().cheapest()).unwrap(), TileMap::new("m", &edges, mixed).unwrap()]
        {
            let rule: Rule = map.clone().into();
            let Ok(tried) = bench.run(&rule).unwrap() else { continue };
            assert!(tried.measures.get("backward_error").unwrap().value < 1.0);
            let (listed, counted) =
                (costs.of_map(&map, None).unwrap(), costs.of_rule(&rule, &tried, None).unwrap());
            assert!((listed / counted - 1.0).abs() < 1e-2, "{listed} {counted}");
        }
        let [bound, reference] = bounds(&input, &options, &tuning).unwrap().unwrap();
        assert!(bound < reference);
    }

    #[test]
    fn predictions_need_uniform_tiles_and_search_panels() {
        let platform = Box::new(Platform::shipped("h200x1").unwrap());
        let mut tuning = tuning("strehl >= REF.strehl - 1e-3");
        tuning.cost = CostModel::Predicted { platform, ahead: 2 };
        tuning.panels = vec![PanelPrecision::Tf32, PanelPrecision::X3];
        tuning.search.max_trials = Some(4);
        // HP2 multiplies as fast as HP1, but the run is shorter.
        let problem = Problem::new(&small(), &options()).unwrap();
        let (_, items) = described(&problem, &options(), &tuning).unwrap();
        assert!(items.space().items().iter().any(|item| item.formats[0].name == "hp2"));
        let auto = Options::default();
        let error = bounds(&small(), &auto, &tuning).unwrap_err().to_string();
        assert!(error.contains("--tile"), "{error}");
        let result = tune(&runtime(), &small(), &options(), &tuning, &Silent).unwrap();
        assert!(result.search.outcome.best().formats.names().contains_key("panel"));
        assert!(result.search.cost.contains("h200x1") && result.search.bound > 0.0, "{result:?}");
    }

    #[test]
    fn mistakes_are_named_before_any_trial_but_the_reference() {
        let rt = runtime();
        let error = tune(&rt, &small(), &options(), &tuning("srehl > 0"), &Silent).unwrap_err();
        assert!(error.to_string().contains("strehl_stationary") && error.exit_code() == 2, "{error}");
        let whole = Options { tile: TileChoice::Uniform(4096), ..Options::default() };
        let error = tune(&rt, &small(), &whole, &tuning(ACCEPT), &Silent).unwrap_err();
        assert!(error.to_string().contains("smaller tiles"), "{error}");
    }
}
