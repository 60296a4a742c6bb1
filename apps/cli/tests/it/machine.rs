//! `machine calibrate`, `show` and `forget`, each with a separate cache folder.

use crate::common;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Ran, finish, result, results, zellige};
use serde_json::Value;

fn machine(cache: &Path, arguments: &[&str]) -> Ran {
    finish(zellige(cache).env("XDG_CACHE_HOME", cache.join("cache")).arg("machine").args(arguments))
}

fn models(cache: &Path) -> Value {
    let ran = machine(cache, &["show", "--json", "-"]).expect(0);
    result(&ran.stdout)["performance"].clone()
}

fn file(performance: &Value) -> PathBuf {
    performance["path"].as_str().expect("a path").into()
}

#[test]
fn what_is_calibrated_is_shown_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let before = models(folder.path());
    assert_eq!(before["state"], "absent");
    assert!(file(&before).starts_with(folder.path().join("cache/zellige")), "{before}");
    machine(folder.path(), &["show"]).expect(0);

    let ran = machine(folder.path(), &["calibrate", "--tile", "8", "--tile", "16", "--json", "-"]).expect(0);
    let calibrated = result(&ran.stdout);
    let rows = calibrated["models"].as_array().unwrap();
    // The rows are generate and potrf in two formats, trsm and syrk in four precisions, gemm in
    // nine, for two tiles, and the overhead of the runtime.
    assert_eq!(rows.len(), 2 * (2 * 2 + 2 * 4 + 9) + 1);
    assert!(rows.iter().all(|row| row["source"] == "history"), "{rows:?}");
    let rate = |row: &Value| row["gflops"].as_f64().unwrap_or(0.0);
    let computes = |row: &&Value| row["codelet"] != "generate" && row["codelet"] != "overhead";
    assert!(rows.iter().filter(computes).all(|row| rate(row) > 0.0), "{rows:?}");

    let shown = models(folder.path());
    assert_eq!(shown["state"], "fresh");
    assert_eq!(shown["models"].as_array().unwrap().len(), rows.len());
    let text = machine(folder.path(), &["show"]).expect(0).stdout;
    assert!(text.contains("hp1") && text.contains("16x16x16") && text.contains("history"), "{text}");

    assert!(machine(folder.path(), &["forget"]).expect(0).stdout.contains("removed"));
    assert!(!file(&shown).exists());
    assert!(machine(folder.path(), &["forget"]).expect(0).stdout.contains("nothing to remove"));
}

#[test]
fn files_that_are_no_models_are_described_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&models(folder.path()));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "half a fi").unwrap();
    let broken = models(folder.path());
    assert_eq!(broken["state"], "unreadable");
    assert!(broken["why"].as_str().unwrap().contains(path.to_str().unwrap()), "{broken}");
    fs::write(&path, r#"{"format":1,"build":"of somebody else","devices":{},"models":[],"links":[]}"#)
        .unwrap();
    assert_eq!(models(folder.path())["state"], "stale");
    machine(folder.path(), &["calibrate", "--tile", "8"]).expect(0);
    assert_eq!(models(folder.path())["state"], "fresh");
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cache"), "a file where the folder should be").unwrap();
    machine(folder.path(), &["calibrate"]).expect(1).says("cache");
    for arguments in [&["calibrate", "--tile", "0"][..], &["calibrate", "--workers", "0"], &["forget", "all"]]
    {
        machine(folder.path(), arguments).expect(2);
    }
    let homeless = finish(
        zellige(folder.path()).env_remove("HOME").env_remove("XDG_CACHE_HOME").args(["machine", "calibrate"]),
    );
    homeless.expect(1).says("XDG_CACHE_HOME");
}

#[test]
fn policies_and_simulations_use_what_was_calibrated() {
    let folder = common::folder(5);
    let cache = folder.path().join("cache");
    let zellige =
        |arguments: &[&str]| finish(zellige(folder.path()).env("XDG_CACHE_HOME", &cache).args(arguments));
    let tor = |sched: &str| {
        zellige(&["tor", "cov", "small.toml", "-o", "c.fits", "--sched", sched]).expect(0).stderr
    };
    let simulate = |workers: &str| {
        let host = ["--platform", "host", "--sched", "lws", "--workers", workers];
        zellige(&[&["simulate", "cholesky", "--n", "80", "--tile", "16", "--json", "-"][..], &host].concat())
    };
    assert!(!tor("lws").contains("warning"));
    assert_eq!(tor("dmdas").matches("zellige machine calibrate").count(), 1);
    simulate("2").expect(1).says("zellige machine calibrate");

    machine(folder.path(), &["calibrate", "--tile", "16", "--workers", "2"]).expect(0);
    assert!(!tor("dmdas").contains("warning"));
    let text = simulate("2").expect(0).stdout;
    let report = results(&text);
    assert_eq!((&report[0]["tasks"], &report[0]["devices"]), (&(5 + 10 + 10 + 10).into(), &2.into()));
    let seconds = report[0]["makespan_seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds < 1.0, "{seconds}");
    // The platform file describes a machine with as many workers and the same kernels. (Its times
    // are of all samples, the file of models keeps only some of them.)
    machine(folder.path(), &["calibrate", "--tile", "16", "--workers", "2", "--platform", "here.toml"])
        .expect(0);
    let common = ["simulate", "cholesky", "--n", "80", "--tile", "16", "--sched", "lws", "--json", "-"];
    let written = zellige(&[&common[..], &["--platform", "here.toml", "--precision", "hp1"]].concat());
    let written = results(&written.expect(0).stdout);
    assert_eq!((&written[0]["tasks"], &written[0]["devices"]), (&(5 + 10 + 10 + 10).into(), &2.into()));
    assert!(written[0]["makespan_seconds"].as_f64().unwrap() > 0.0, "{written}");
    zellige(&["simulate", "cholesky", "--n", "80", "--platform", "nowhere.toml"])
        .expect(2)
        .says("nowhere.toml");
    // Times of two workers are not valid for one.
    simulate("1").expect(1).says("zellige machine calibrate --workers 1");
}

#[test]
fn what_runs_teach_is_kept() {
    let folder = common::folder(5);
    let cov = |sched: &str| {
        let arguments = ["tor", "cov", "small.toml", "-o", "c.fits", "--sched", sched];
        finish(zellige(folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache")).args(arguments))
            .expect(0)
            .stderr
    };
    // A policy without measurements leaves no file.
    assert!(!cov("lws").contains("warning"));
    assert_eq!(models(folder.path())["state"], "absent");
    assert_eq!(cov("dmda").matches("starts without estimates").count(), 1);
    let samples = || -> u64 {
        let known = models(folder.path());
        assert_eq!(known["state"], "fresh", "{known}");
        known["models"].as_array().unwrap().iter().map(|row| row["samples"].as_u64().unwrap()).sum()
    };
    let once = samples();
    assert!(once > 0);
    assert!(!cov("dmda").contains("warning"));
    assert!(samples() > once);
    // The models of another build are not overwritten.
    let path = file(&models(folder.path()));
    let other = r#"{"format":1,"build":"of somebody else","devices":{},"models":[],"links":[]}"#;
    fs::write(&path, other).unwrap();
    assert!(cov("dmda").contains("starts without estimates"));
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
}
