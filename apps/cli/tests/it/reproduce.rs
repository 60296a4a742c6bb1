//! Figures and tables of papers, computed anew, and the list of formats.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{ok, run};

/// Returns the list of results in JSON.
fn results(json: &str) -> Vec<Value> {
    crate::common::results(json).as_array().expect("a list").clone()
}

/// Computes items and checks that each has numbers and judged statements.
#[track_caller]
fn computed(here: &Path, paper: &str, items: &[&str]) -> Vec<Value> {
    let all =
        results(&ok(here, &[&["reproduce", paper][..], items, &["--workers", "2", "--json", "-"]].concat()));
    assert_eq!(all.iter().map(|item| item["item"].as_str().unwrap()).collect::<Vec<_>>(), items);
    for item in &all {
        let values = item["values"].as_array().unwrap();
        assert!(values.iter().any(|value| value["found"].is_number()), "{item}");
        assert!(!item["statements"].as_array().unwrap().is_empty(), "{item}");
        for series in item["series"].as_array().unwrap() {
            let [x, y] = ["x", "y"].map(|axis| series[axis].as_array().unwrap().len());
            assert!(x == y && x > 0, "{series}");
        }
    }
    all
}

/// Returns a computed number.
fn found(item: &Value, row: &str, column: &str) -> f64 {
    let values = item["values"].as_array().unwrap();
    let is_it = |value: &&Value| value["row"] == row && value["column"] == column;
    values.iter().find(is_it).unwrap_or_else(|| panic!("{row}, {column}: {item}"))["found"].as_f64().unwrap()
}

fn verdicts(item: &Value) -> Vec<&str> {
    item["statements"].as_array().unwrap().iter().map(|one| one["verdict"].as_str().unwrap()).collect()
}

/// The sums are those of numpy in float32, term after term; digits of the other programs are in the
/// thesis.
#[test]
fn errors_of_floating_point_are_those_of_the_thesis() {
    let here = tempfile::tempdir().unwrap();
    let all = computed(here.path(), "thesis", &["fig1.1", "fig1.2", "fig1.4", "section1.4.6", "fig1.6"]);
    let [sums, squares, fields, rump, _] = &all[..] else { panic!("five items") };
    assert!((found(sums, "large terms first", "n = 10^6") - 14.357358).abs() < 1e-6);
    assert!((found(sums, "small terms first", "n = 10^6") - 14.392652).abs() < 1e-6);
    assert!((found(sums, "large terms first", "n = 10^7") - 15.403683).abs() < 1e-6);
    assert!((found(sums, "small terms first", "n = 10^7") - 16.686031).abs() < 1e-6);
    assert_eq!(verdicts(sums), ["contradicts", "agrees"]);
    assert_eq!(found(squares, "x*x - y*y", "result"), 1.862645149230957e-9);
    assert_eq!(found(squares, "(x-y)*(x+y)", "result"), 1.8626451518330422e-9);
    assert_eq!(verdicts(fields), ["agrees"]);
    assert!((found(rump, "exact", "P") + 0.8273960599468214).abs() < 1e-15);
    assert_eq!(found(rump, "double", "exact digits"), 0.0);
    assert_eq!(verdicts(rump), ["agrees", "contradicts"]);
}

#[test]
fn tables_of_formats_agree_but_for_the_fields_of_fp8() {
    let here = tempfile::tempdir().unwrap();
    let items = ["fig1.3", "fig1.5", "table3.1", "table4.1", "table4.2", "table4.3"];
    for item in &computed(here.path(), "thesis", &items) {
        for value in item["values"].as_array().unwrap() {
            let is_other = value["row"].as_str().unwrap().starts_with("FP8")
                || value["found"].is_null()
                || value["published"].is_null();
            assert!(is_other || value["found"] == value["published"], "{value}");
        }
    }
    for item in computed(here.path(), "lattice", &["table1"]).iter().chain(&computed(
        here.path(),
        "tomography",
        &["table1"],
    )) {
        for value in item["values"].as_array().unwrap().iter().filter(|value| value["row"] != "half of QUDA")
        {
            let [found, published] = ["found", "published"].map(|key| value[key].as_f64().unwrap());
            assert!((found / published - 1.0).abs() < 4e-3, "{value}");
        }
    }
    let formats = results(&ok(here.path(), &["formats", "--json", "-"]));
    assert!(formats.len() > 30 && formats.iter().all(|format| format["unit_roundoff"].as_f64() > Some(0.0)));
    ok(here.path(), &["formats", "--report", "formats.html"]);
    assert!(fs::read_to_string(here.path().join("formats.html")).unwrap().contains("rpreu48"));
}

#[test]
fn adaptive_products_are_those_of_the_thesis() {
    let here = tempfile::tempdir().unwrap();
    let items = ["fig3.1", "fig3.2", "fig3.3", "fig3.6", "fig4.4", "fig4.7"];
    let all = computed(here.path(), "thesis", &items);
    for item in &all[..2] {
        assert!(!verdicts(item).contains(&"contradicts"), "{item}");
    }
    assert_eq!(verdicts(&all[4]), ["agrees"]);
}

#[test]
fn simulated_machines_and_zones() {
    let here = tempfile::tempdir().unwrap();
    let all = computed(here.path(), "tomography", &["fig3", "fig9"]);
    assert!(found(&all[0], "SP, HP1, HP2", "% of products in hp1") > 10.0);
    assert!(found(&all[1], "4 GPUs", "SP; s") < found(&all[1], "1 GPUs", "SP; s"));
    assert_eq!(verdicts(&all[0]), ["agrees"]);
}

#[test]
fn lattice_items_take_a_field() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["lqcd", "generate", "--size", "4", "--beta", "5.7", "--trajectories", "2", "-o", "a.lat"]);
    let of_field = ["--lattice", "a.lat", "--mass", "0.5", "--tol", "1e-8"];
    let words = [
        &["reproduce", "lattice", "table2", "fig2", "table3", "fig1"][..],
        &of_field,
        &["--json", "-", "-o", "pages"],
    ]
    .concat();
    let all = results(&ok(here, &words));
    assert_eq!(all.len(), 4);
    let iterations: Vec<_> = all[0]["values"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|value| value["column"] == "iterations")
        .map(|value| value["published"].as_u64())
        .collect();
    assert_eq!(iterations.len(), 5);
    assert!(
        found(&all[0], "double-half", "iterations") > 0.0 && found(&all[0], "double", "residual") < 1.1e-8
    );
    assert!(
        found(&all[1], "fixed32/int30/fp64", "median deviation")
            < found(&all[1], "fp32/single/fp32", "median deviation")
    );
    assert!(found(&all[2], "total", "double-int30-int20 iter") > 0.0);
    let index = fs::read_to_string(here.join("pages/lattice.html")).unwrap();
    for name in ["table2", "fig2", "table3", "fig1"] {
        assert!(index.contains(&format!("lattice-{name}.html")), "{name}");
        assert!(here.join(format!("pages/lattice-{name}.html")).exists());
    }
    assert!(
        fs::read_to_string(here.join("pages/lattice-table2.csv"))
            .unwrap()
            .contains("\"double-int20\",\"iterations\",2.9336e4,")
    );
    let refused = run(here, &["reproduce", "lattice", "fig9"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("fig1") && refused.stderr.contains("table3"), "{}", refused.stderr);
    let list = ok(here, &["reproduce", "thesis", "--list"]);
    assert!(list.contains("table5.3") && list.lines().count() > 30, "{list}");
}

/// Every item of every paper at its small size.
#[test]
#[ignore = "minutes; run by scripts/test-long"]
fn every_item_is_computed() {
    let here = tempfile::tempdir().unwrap();
    for paper in ["thesis", "lattice", "tomography"] {
        let list = ok(here.path(), &["reproduce", paper, "--list"]);
        let items: Vec<&str> =
            list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        for item in items {
            computed(here.path(), paper, &[item]);
        }
    }
}

/// Every command of the page of all rows that is not an item of a paper.
#[test]
#[ignore = "minutes; run by scripts/test-long"]
fn every_row_runs() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/results/papers.md")).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_zellige")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let shell = |line: &str, here: &Path| {
        let run = std::process::Command::new("sh")
            .args(["-e", "-c", line])
            .current_dir(here)
            .env("PATH", &path)
            .env("FOLDER", folder.path())
            .output()
            .unwrap();
        assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    };
    let (_, files) = page.split_once("```sh\n").unwrap();
    let (files, _) = files.split_once("```").unwrap();
    shell(&files.replace("FOLDER", "\"$FOLDER\""), &root);
    let commands = page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| {
        let command = line.split(" | ").nth(4)?.trim_matches('`');
        let is_run = command.starts_with("zellige ") && !command.starts_with("zellige reproduce");
        (is_run && !command.contains("--device cuda")).then_some(command)
    });
    let mut count = 0;
    for command in commands {
        shell(command, folder.path());
        count += 1;
    }
    assert!(count > 50, "{count} commands");
}
