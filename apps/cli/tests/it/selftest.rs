//! `zellige selftest`: figures, reproduction, help.

use std::collections::BTreeSet;

use crate::common::{left, result, run};
use serde_json::Value;

const COUNTS: [&str; 15] = [
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
    "graphs_with_parts",
    "device_deaths",
    "graphs_with_gpus",
    "launched_in_stream_order",
    "graphs_launched",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Returns the names in the first column of the table of the page.
fn documented() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/selftest.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.split("## JSON").nth(1).unwrap().lines().filter(|line| line.starts_with("| `"));
    let names = |row: &str| -> Vec<String> {
        let column = row.split('|').nth(1).unwrap();
        column.split('`').skip(1).step_by(2).map(Into::into).collect()
    };
    rows.flat_map(names).collect()
}

#[test]
fn figures_have_the_documented_keys_and_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["selftest", "--fuzz", "30", "--seed", "77", "--jobs", "2", "--json", "-"]);
    let report = result(&ran.expect(0).stdout);
    let more = ["seed", "by_policy", "failures", "seconds", "passed", "kernels", "gpus", "multi_gpu"];
    assert_eq!(keys(&report), COUNTS.into_iter().chain(more).collect());
    assert_eq!(keys(&report), documented().iter().map(String::as_str).collect());
    let policies = report["by_policy"].as_object().unwrap();
    for count in COUNTS {
        let sum: u64 = policies.values().map(|policy| policy[count].as_u64().unwrap()).sum();
        assert_eq!(report[count], sum, "{count}");
    }
    assert!(policies.values().all(|policy| keys(policy) == COUNTS.into()));
    assert_eq!((&report["graphs"], &report["seed"]), (&30.into(), &77.into()));
    assert!(report["tasks"].as_u64().unwrap() >= 30 * 20);
    assert_eq!((&report["failures"], &report["gpus"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert_eq!(report["passed"], true);
}

/// Kernels are compared with float64 without a GPU. `--only graphs` omits them, and `--quick` omits
/// most of their tiles.
#[test]
fn kernels_are_checked_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let report = |more: &[&str]| -> Value {
        let ran = run(folder.path(), &[&["selftest", "--fuzz", "1", "--json", "-"][..], more].concat());
        result(&ran.expect(0).stdout)
    };
    let (all, quick, none) = (report(&[]), report(&["--quick"]), report(&["--only", "graphs"]));
    let rows = |report: &Value| report["kernels"].as_array().unwrap().clone();
    let tiles = |report: &Value| rows(report).iter().map(|row| row["tiles"].as_u64().unwrap()).sum::<u64>();
    assert_eq!((rows(&all).len(), rows(&quick).len(), rows(&none).len()), (23, 23, 0));
    assert!(tiles(&all) > 2 * tiles(&quick) && tiles(&quick) > 23, "{all}");
    for row in rows(&all).iter().chain(&rows(&quick)) {
        assert_eq!(
            (&row["passed"], &row["skipped"], &row["apart"]),
            (&true.into(), &Value::Null, &0.0.into())
        );
        // No reference is compared with itself; a conversion is exact.
        let error = row["error"].as_f64().unwrap();
        assert!(if row["kernel"] == "convert" { error == 0.0 } else { 0.0 < error && error <= 1.0 }, "{row}");
    }
    let text = run(folder.path(), &["selftest", "--fuzz", "1", "--quick"]).expect(0).stdout;
    assert!(text.contains("kernel (CPU)") && text.contains("fp8") && !text.contains("FAILED"), "{text}");
}

#[test]
fn a_seed_is_a_graph_wherever_it_comes_in_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = |fuzz: &str, seed: &str| {
        let ran = run(
            folder.path(),
            &["selftest", "--only", "graphs", "--fuzz", fuzz, "--seed", seed, "--json", "-"],
        )
        .expect(0);
        result(&ran.stdout)["tasks"].as_u64().unwrap()
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
    for part in ["--fuzz 1 --seed", "Exit codes", "--patience", "--device-failures"] {
        assert!(help.contains(part), "no {part} in\n{help}");
    }
    for arguments in [["selftest", "--fuzz", "0"], ["selftest", "--jobs", "0"], ["selftest", "--seed", "x"]] {
        let ran = run(folder.path(), &arguments);
        assert!(ran.code == Some(2) && ran.stdout.is_empty(), "{ran:#?}");
    }
}
