//! `zellige selftest`: figures, reproduction, help.

mod common;

use std::collections::BTreeSet;

use common::{left, run};
use serde_json::Value;

const COUNTS: [&str; 14] = [
    "graphs",
    "tasks",
    "evictions",
    "write_backs",
    "conversions",
    "prefetch_hits",
    "bytes_moved",
    "graphs_with_evictions",
    "graphs_with_conversions",
    "graphs_with_disk_writes",
    "device_deaths",
    "graphs_with_gpus",
    "launched_behind",
    "graphs_launched",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn figures_have_the_documented_keys_and_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["selftest", "--fuzz", "60", "--seed", "77", "--jobs", "2", "--json", "-"]);
    let report: Value = serde_json::from_str(&ran.expect(0).stdout).unwrap();
    let more = ["seed", "by_policy", "failures", "seconds", "passed", "gpus"];
    assert_eq!(keys(&report), COUNTS.into_iter().chain(more).collect());
    let policies = report["by_policy"].as_object().unwrap();
    for count in COUNTS {
        let sum: u64 = policies.values().map(|policy| policy[count].as_u64().unwrap()).sum();
        assert_eq!(report[count], sum, "{count}");
    }
    assert!(policies.values().all(|policy| keys(policy) == COUNTS.into()));
    assert_eq!((&report["graphs"], &report["seed"]), (&60.into(), &77.into()));
    assert!(report["tasks"].as_u64().unwrap() >= 60 * 20);
    assert_eq!((&report["failures"], &report["gpus"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert_eq!(report["passed"], true);
}

#[test]
fn a_seed_is_a_graph_wherever_it_comes_in_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = |fuzz: &str, seed: &str| {
        let ran = run(folder.path(), &["selftest", "--fuzz", fuzz, "--seed", seed, "--json", "-"]).expect(0);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["tasks"].as_u64().unwrap()
    };
    let alone: u64 = ["500", "501", "502"].map(|seed| tasks("1", seed)).iter().sum();
    assert_eq!(tasks("3", "500"), alone);
}

#[test]
fn a_table_says_what_ran() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["selftest", "--fuzz", "20", "--json", "x.json"]).expect(0);
    for part in ["write-backs", "all", "20 graphs from seed 0 (to 19)", "0 failed"] {
        assert!(ran.stdout.contains(part), "no {part} in\n{}", ran.stdout);
    }
    assert_eq!(left(folder.path()), [std::path::Path::new("x.json")]);
}

#[test]
fn help_teaches_and_wrong_numbers_are_2() {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), &["selftest", "--help"]).expect(0).stdout;
    for part in ["--fuzz 1 --seed", "Exit codes", "--patience", "--deaths"] {
        assert!(help.contains(part), "no {part} in\n{help}");
    }
    for arguments in [["selftest", "--fuzz", "0"], ["selftest", "--jobs", "0"], ["selftest", "--seed", "x"]] {
        let ran = run(folder.path(), &arguments);
        assert!(ran.code == Some(2) && ran.stdout.is_empty(), "{ran:#?}");
    }
}
