//! Search for the cheapest plan, with the deterministic cost of bytes.

use crate::trust::searches;
use zellige_psa::search::{Method, Plan};
use zellige_psa::tune::{ACCEPT, MEASURES, Tuning, options};
use zellige_tune::{Acceptance, Data, Ended, Options, Search, Trials};

fn tuning() -> Tuning {
    let clock = |run: &mut dyn FnMut()| {
        run();
        0.1
    };
    Tuning::new(&searches(), None, 0.3, clock).expect("hits")
}

#[test]
fn the_result_finds_the_same_points_in_fewer_bytes() {
    let mut tuning = tuning();
    assert_eq!(tuning.hits(), [40, 40]);
    let (space, accept) = (tuning.space().clone(), Acceptance::parse("same >= 0.8").expect("a condition"));
    let trials = Trials::in_turn(|formats, data| tuning.trial(formats, data));
    let bytes =
        |measures: &zellige_tune::Measures| measures.get("bytes").map_or(f64::NAN, |bytes| bytes.value);
    let search = Search::new(&space, trials, &accept).cost(|_, measures| bytes(measures));
    let outcome = search.run(&Options { verify: true, ..Options::default() }).expect("an outcome");
    assert_eq!(outcome.ended, Ended::Minimal);
    let (best, reference) = (outcome.best(), outcome.reference());
    assert!(best.cost <= reference.cost.map(|cost| 0.75 * cost), "{best:?} {reference:?}");
    assert!(outcome.verified.is_some());
    let plan = tuning.plan(&best.formats).expect("a plan");
    assert!(plan.method != Method::Full && options(&plan).starts_with(&format!("--method {}", plan.method)));
}

/// Shares of a sample are not accepted as if they were exact, but those of the reference are.
#[test]
fn few_events_prove_little() {
    let mut tuning = tuning();
    let reference = tuning.trial(&tuning.space().reference(), Data::Search).expect("the reference");
    let mut names = reference.names();
    // Those of tracking are computed only if a condition names them.
    let mut known: Vec<String> = MEASURES.map(str::to_owned).to_vec();
    known.retain(|name| !["efficiency", "peak_to_total"].contains(&name.as_str()));
    names.sort();
    known.sort();
    assert_eq!(names, known);
    let same = reference.get("same").expect("a share");
    assert_eq!((same.value, same.error), (1.0, 0.0));
    let formats = tuning.space().assignment([("method", "exact")]).expect("a method");
    let same = tuning.trial(&formats, Data::Search).expect("a trial").get("same").expect("a share");
    assert_eq!(same.value, 1.0);
    assert!((0.02..0.04).contains(&same.error), "{same:?}");
    let none = tuning.space().assignment([("method", "exact"), ("samples", "fp16")]).expect("names");
    let problem = tuning.trial(&none, Data::Search).expect_err("no such search");
    assert!(problem.contains("an exact search screens in fp32"), "{problem}");
    let accept = Acceptance::parse(ACCEPT).expect("a condition");
    accept.check(&reference).expect("its names are known");
    assert!(Acceptance::parse("efficiency > 0.5").expect("a condition").check(&reference).is_err());
    assert_eq!(tuning.plan(&tuning.space().reference()).expect("a plan").p, Plan::default().p);
}
