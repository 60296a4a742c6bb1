//! Options of searches, their order of trials, and what they refuse.

use proptest::prelude::*;
use zellige_runtime::Runtime;
use zellige_tune::{
    Acceptance, Data, Ended, Error, Item, Measures, Method, Options, Search, Space, Trials, Verdict,
};

use crate::landscapes::{Landscape, SplitMix, all, levels};

fn small() -> Space {
    let item = |name: &str, cost: f64| Item::new(name, "", [("low", cost), ("high", 2.0 * cost)]);
    Space::new(vec![item("a", 1.0), item("b", 4.0), item("c", 2.0)]).expect("items")
}

fn ok() -> Acceptance {
    Acceptance::parse("ok").expect("a condition")
}

/// Trials at once have the outcome of trials in turn.
#[test]
fn trials_at_once_change_nothing() {
    let rt = Runtime::builder().workers(3).build().expect("a runtime");
    for landscape in all().into_iter().step_by(3) {
        let landscape = std::sync::Arc::new(landscape);
        let run = |trials: Trials<'_>| {
            let search = Search::new(&landscape.space, trials, &landscape.acceptance);
            let mut outcome =
                search.run(&Options { max_trials: Some(70), ..Options::default() }).expect("an outcome");
            outcome.trials.iter_mut().for_each(|trial| trial.seconds = 0.0);
            outcome.unused = 0;
            outcome
        };
        let in_turn = run(landscape.trials());
        for at_once in [1, 2, 5] {
            let shared = std::sync::Arc::clone(&landscape);
            let trials =
                Trials::in_tasks(&rt, at_once, move |formats, _| Ok(shared.measures(&levels(formats))));
            assert_eq!(run(trials), in_turn, "{} {at_once}", landscape.name);
        }
    }
}

#[test]
fn groups_are_lowered_first() {
    let item = |name: &str, group: &str| Item::new(name, group, [("low", 1.0), ("high", 2.0)]);
    let space = Space::new(vec![
        item("a", "x/1"),
        item("b", "y"),
        item("c", "x/2"),
        item("d", "x/1"),
        item("e", "y"),
    ])
    .expect("items");
    let mut seen = Vec::new();
    let trials = Trials::in_turn(|formats, _| {
        let lowered =
            formats.iter().filter(|(_, format)| format.name == "low").map(|(item, _)| item.name.clone());
        let lowered: String = lowered.collect();
        let result = Measures::from([("ok", f64::from(u8::from(!lowered.contains('c'))))]);
        seen.push(lowered);
        Ok(result)
    });
    let outcome = Search::new(&space, trials, &ok()).run(&Options::default()).expect("an outcome");
    assert_eq!(seen, ["", "abcde", "acd", "be", "abde"]);
    assert_eq!(outcome.ended, Ended::Minimal);
    assert_eq!(outcome.best().cost, Some(6.0));
    assert_eq!(outcome.front.len(), 2); // the cheapest of all, and the best
}

#[test]
fn failed_trials_are_rejected() {
    let trials = Trials::in_turn(|formats, _| match formats.format("b") {
        "low" => Err("out of memory".into()),
        _ => Ok(Measures::from([("ok", 1.0)])),
    });
    let space = small();
    let outcome = Search::new(&space, trials, &ok()).run(&Options::default()).expect("an outcome");
    assert_eq!(outcome.best().cost, Some(11.0));
    let failed = Verdict::Failed("out of memory".into());
    assert!(outcome.trials.iter().any(|trial| trial.verdict == failed && trial.cost.is_none()));
}

#[test]
fn a_reference_that_cannot_be_judged_is_an_error() {
    let run = |acceptance: &str, figure: Result<f64, String>| {
        let space = small();
        let trials = Trials::in_turn(|_, _| figure.clone().map(|value| Measures::from([("ok", value)])));
        let acceptance = Acceptance::parse(acceptance).expect("a condition");
        let error = Search::new(&space, trials, &acceptance).run(&Options::default());
        error.expect_err("an error").to_string()
    };
    assert!(run("ok", Ok(0.0)).contains("is not accepted: not ok: 0 beside 0"));
    assert!(run("ok", Err("no file".into())).contains("failed: no file"));
    assert_eq!(run("okay", Ok(1.0)), "no measure `okay`; there are: ok");
}

#[test]
fn budgets_end_a_search_with_the_best_so_far() {
    let landscape = all().swap_remove(10);
    let run = |options: &Options| {
        Search::new(&landscape.space, landscape.trials(), &landscape.acceptance)
            .run(options)
            .expect("an outcome")
    };
    let mut last = f64::INFINITY;
    for most in 1..60 {
        let outcome = run(&Options { max_trials: Some(most), ..Options::default() });
        assert!(outcome.trials.len() <= most);
        let cost = outcome.best().cost.expect("a cost");
        assert!(cost <= last && outcome.best().is_accepted());
        last = cost;
    }
    let outcome = run(&Options { max_seconds: Some(0.0), ..Options::default() });
    assert_eq!((outcome.ended, outcome.best), (Ended::Seconds, outcome.reference));
}

/// A result that fails on unseen data gives way to the next dearer one.
#[test]
fn results_are_verified_on_unseen_data() {
    let run = |needs: &'static str| {
        let space = small();
        let trials = Trials::in_turn(move |formats, data| {
            let is_bad =
                data == Data::Verify && formats.format(needs) == "low" || formats.format("c") == "low";
            Ok(Measures::from([("ok", f64::from(u8::from(!is_bad)))]))
        });
        let outcome = Search::new(&space, trials, &ok()).run(&Options { verify: true, ..Options::default() });
        let outcome = outcome.expect("an outcome");
        let verified = &outcome.trials[outcome.verified.expect("verified")];
        assert!(verified.data == Data::Verify && verified.is_accepted());
        assert_eq!(verified.formats, outcome.best().formats);
        outcome.best().cost
    };
    assert_eq!(run("c"), Some(9.0)); // a and b low
    assert_eq!(run("b"), Some(13.0)); // a low
    assert_eq!(run("a"), Some(14.0)); // of what was tried, the reference alone
}

/// A measured cost chooses the result; predicted ones order the search.
#[test]
fn costs_may_be_measured() {
    let space = small();
    let trials = Trials::in_turn(|formats, _| {
        let slow = if formats.format("b") == "low" { 5.0 } else { 1.0 };
        Ok(Measures::from([("ok", 1.0), ("seconds", slow)]))
    });
    let acceptance = ok();
    let search = Search::new(&space, trials, &acceptance)
        .cost(|_, measures| measures.get("seconds").map_or(f64::NAN, |seconds| seconds.value));
    let outcome = search.run(&Options::default()).expect("an outcome");
    let best = &outcome.best().formats;
    assert_eq!((best.format("a"), best.format("b"), best.format("c")), ("low", "high", "low"));
}

/// Everything in its cheapest format is accepted, but one item costs less in a dearer one.
#[test]
fn items_are_raised_where_measured_costs_fall() {
    let space = small();
    let trials = Trials::in_turn(|formats, _| {
        let seconds = |item: &str, low: f64, high: f64| match formats.format(item) {
            "low" => low,
            _ => high,
        };
        let seconds = seconds("a", 1.0, 2.0) + seconds("b", 3.0, 4.0) + seconds("c", 2.0, 1.0);
        Ok(Measures::from([("ok", 1.0), ("seconds", seconds)]))
    });
    let acceptance = ok();
    let search = Search::new(&space, trials, &acceptance)
        .cost(|_, measures| measures.get("seconds").map_or(f64::NAN, |seconds| seconds.value));
    let outcome = search.run(&Options::default()).expect("an outcome");
    assert_eq!((outcome.best().cost, outcome.ended), (Some(5.0), Ended::Minimal));
    assert_eq!(outcome.best().formats.format("c"), "high");
}

#[test]
fn items_are_checked() {
    let error = |items: Vec<Item>| Space::new(items).expect_err("an error").to_string();
    assert!(error(vec![]).contains("there are none"));
    let item = |name: &str, costs: &[(&'static str, f64)]| Item::new(name, "", costs.iter().copied());
    assert!(error(vec![item("a", &[("x", 1.0)]), item("a", &[("x", 1.0)])]).contains("`a` occurs twice"));
    assert!(error(vec![item("a", &[])]).contains("needs 1 to 255 formats"));
    assert!(error(vec![item("a", &[("x", 1.0), ("x", 2.0)])]).contains("has a format twice"));
    assert!(error(vec![item("a", &[("x", 2.0), ("y", 1.0)])]).contains("order of their costs"));
    assert!(error(vec![item("a", &[("x", f64::NAN)])]).contains("not finite"));
    let space = small();
    assert!(matches!(space.assignment([("a", "middle")]), Err(Error::Items(_))));
    let one = space.assignment([("b", "low")]).expect("an assignment");
    assert_eq!((one.format("b"), one.format("a"), one.cost()), ("low", "high", 10.0));
    assert_eq!(serde_json::to_string(&one).expect("JSON"), r#"{"a":"high","b":"low","c":"high"}"#);
}

/// Accepts or rejects by chance, but always the reference.
fn by_chance(seed: u64, n: usize, formats: usize, share: usize) -> (Space, impl Fn(&[usize]) -> bool) {
    let item = |at: usize| {
        Item::new(
            at.to_string(),
            "",
            (0..formats).map(|level| (level.to_string(), (1 + level * (at + 1)) as f64)),
        )
    };
    let space = Space::new((0..n).map(item).collect()).expect("items");
    let accepts = move |levels: &[usize]| {
        let code =
            levels.iter().fold(seed, |code, &level| code.wrapping_mul(31).wrapping_add(level as u64 + 1));
        levels.iter().all(|&level| level + 1 == formats) || SplitMix(code).below(100) < share
    };
    (space, accepts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is accepted, no single item of the result can be lowered further, and no accepted
    /// trial is cheaper.
    #[test]
    fn results_are_minimal(seed: u64, n in 1usize..9, formats in 1usize..5, share in 0usize..100) {
        let (space, accepts) = by_chance(seed, n, formats, share);
        let trials = Trials::in_turn(|formats, _| Ok(Measures::from([("ok", f64::from(u8::from(accepts(&levels(formats)))))])));
        let outcome = Search::new(&space, trials, &ok()).run(&Options::default()).expect("an outcome");
        prop_assert_eq!(outcome.ended, Ended::Minimal);
        let best = levels(&outcome.best().formats);
        for item in 0..n {
            for level in 0..best[item] {
                let mut lower = best.clone();
                lower[item] = level;
                prop_assert!(!accepts(&lower), "{best:?} {lower:?}");
            }
        }
        for trial in outcome.trials.iter().filter(|trial| trial.is_accepted()) {
            prop_assert!(trial.cost >= outcome.best().cost);
        }
        let mut seen: Vec<Vec<usize>> = outcome.trials.iter().map(|trial| levels(&trial.formats)).collect();
        seen.sort();
        let count = seen.len();
        seen.dedup();
        prop_assert_eq!(seen.len(), count, "a trial ran twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever trials cost, no change of a single item is accepted and costs less.
    #[test]
    fn measured_costs_are_least_in_each_item(seed: u64, n in 1usize..5, formats in 2usize..4, share in 30usize..101) {
        let (space, accepts) = by_chance(seed, n, formats, share);
        let cost = |levels: &[usize]| {
            let code = levels.iter().fold(!seed, |code, &level| code.wrapping_mul(37).wrapping_add(level as u64 + 1));
            // The difference of two costs is never the predicted one by chance.
            SplitMix(code).below(1_000_003) as f64 / 997.0
        };
        let trials = Trials::in_turn(|formats, _| {
            Ok(Measures::from([("ok", f64::from(u8::from(accepts(&levels(formats)))))]))
        });
        let acceptance = ok();
        let search = Search::new(&space, trials, &acceptance).cost(|formats, _| cost(&levels(formats)));
        let outcome = search.run(&Options::default()).expect("an outcome");
        let best = levels(&outcome.best().formats);
        let most = (3 * (formats - 1) * n) as f64 * (n as f64).log2().max(1.0);
        for item in 0..n {
            for level in (0..formats).filter(|_| outcome.trials.len() < most as usize) {
                let mut other = best.clone();
                other[item] = level;
                prop_assert!(!accepts(&other) || cost(&other) >= cost(&best), "{best:?} {other:?}");
            }
        }
    }
}

/// The seed decides a random search, and nothing else does.
#[test]
fn random_searches_follow_their_seed() {
    let landscape: Landscape = all().swap_remove(12);
    let run = |seed: u64| {
        let search = Search::new(&landscape.space, landscape.trials(), &landscape.acceptance);
        let outcome =
            search.run(&Options { method: Method::Random, seed, ..Options::default() }).expect("an outcome");
        outcome.trials.iter().map(|trial| levels(&trial.formats)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
