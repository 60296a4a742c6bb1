//! `zellige tune`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{collect, ok, result, run, zellige};
use serde_json::Value;

/// Three variables of 4 or 8 bytes.
const ITEMS: &str = r#"{"unit": "bytes", "items": [
  {"name": "h", "group": "loop", "formats": [{"name": "float", "cost": 4}, {"name": "double", "cost": 8}]},
  {"name": "t", "group": "loop", "formats": [{"name": "float", "cost": 4}, {"name": "double", "cost": 8}]},
  {"name": "s", "formats": [{"name": "float", "cost": 4}, {"name": "double", "cost": 8}]}]}"#;

/// A program that needs `s` in double: it has 15 digits then, and 3 otherwise.
const TRIAL: &str = r#"echo run >> runs; if grep -q '"s":"double"' {}; then echo '{"digits": 15}'; else echo '{"digits": 3}'; fi"#;

fn folder() -> tempfile::TempDir {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("items.json"), ITEMS).unwrap();
    here
}

fn words<'w>(trial: &'w str, accept: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    [&["tune", "command", "items.json", "--trial", trial, "--accept", accept], more].concat()
}

fn runs(here: &Path) -> usize {
    fs::read_to_string(here.join("runs")).map_or(0, |text| text.lines().count())
}

#[test]
fn a_program_gets_the_cheapest_formats() {
    let folder = folder();
    let here = folder.path();
    let more = ["--json", "j.json", "--report", "r.html", "-o", "formats.json"];
    let text = ok(here, &words(TRIAL, "digits >= 7", &more));
    assert!(text.contains("best       16.0 bytes, 66.7 % of the reference: no single item"), "{text}");
    assert!(text.contains("'formats.json'"), "{text}");
    let formats: Value =
        serde_json::from_str(&fs::read_to_string(here.join("formats.json")).unwrap()).unwrap();
    assert_eq!(formats, serde_json::json!({"h": "float", "t": "float", "s": "double"}));
    let tuned = result(&fs::read_to_string(here.join("j.json")).unwrap());
    let trials = tuned["trials"].as_array().unwrap();
    assert_eq!((trials.len(), runs(here)), (3, 3));
    assert_eq!(trials[tuned["best"].as_u64().unwrap() as usize]["formats"], formats);
    assert_eq!((&tuned["ended"], &tuned["bound"]), (&"minimal".into(), &12.0.into()));
    let page = fs::read_to_string(here.join("r.html")).unwrap();
    assert!(page.contains("<h2>Formats</h2>") && page.contains("not digits &gt;= 7: 3 beside 7"), "{page}");
}

/// Trials at once change nothing, and a log saves trials.
#[test]
fn trials_are_kept() {
    let folder = folder();
    let here = folder.path();
    let formats = |more: &[&str]| {
        let text = ok(here, &words(TRIAL, "digits >= 7", &[&["--json", "-"], more].concat()));
        let tuned = result(&text);
        tuned["trials"][tuned["best"].as_u64().unwrap() as usize]["formats"].clone()
    };
    let first = formats(&["--trials", "trials.jsonl"]);
    let count = runs(here);
    assert_eq!(formats(&["--trials", "trials.jsonl"]), first);
    assert_eq!(runs(here), count);
    assert_eq!(formats(&["--at-once", "2", "--verify"]), first);
    let other = words("echo '{\"digits\": 9}' {}", "digits >= 7", &["--trials", "trials.jsonl"]);
    run(here, &other).expect(1).says("the trials of another search");
}

#[test]
fn mistakes_are_found_before_the_search() {
    let folder = folder();
    let here = folder.path();
    run(here, &words(TRIAL, "digits > ", &[])).expect(2).says("at the end: expected a number");
    run(here, &words("true", "digits > 7", &[])).expect(2).says("put {} where");
    run(here, &["tune", "command", "items.json", "--trial", TRIAL]).expect(2).says("--accept");
    assert_eq!(runs(here), 0);
    run(here, &words(TRIAL, "digit > 7", &[]))
        .expect(2)
        .says("no measure `digit`; there are: digits, trial_seconds");
    assert_eq!(runs(here), 1);
    run(here, &words(TRIAL, "digits > 7", &["--cost", "second"]))
        .expect(1)
        .says("--cost: no measure `second`; there are");
    run(here, &words(TRIAL, "digits > 15", &[]))
        .expect(1)
        .says("is not accepted: not digits > 15: 15 beside 15");
    run(here, &words("echo no memory >&2; false {}", "x > 1", &[]))
        .expect(1)
        .says("exit status: 1: no memory");
    fs::write(here.join("items.json"), "{\"items\": [{\"name\": \"a\", \"formats\": []}]}").unwrap();
    run(here, &words(TRIAL, "digits > 7", &[])).expect(2).says("`a` needs 1 to 255 formats");
    fs::write(here.join("items.json"), "[]").unwrap();
    run(here, &words(TRIAL, "digits > 7", &[])).expect(2).says("items.json: ");
}

/// A trial that hangs is rejected; Ctrl-C ends the one that runs.
#[test]
fn trials_that_hang_are_ended() {
    let folder = folder();
    let here = folder.path();
    let hangs = r#"if grep -q '"h":"double"' {}; then echo '{"ok": true}'; else sleep 100; fi"#;
    let text = ok(here, &words(hangs, "ok", &["--trial-timeout", "0.3"]));
    assert!(text.contains("no result in 0.3 s") || text.contains("of them failed"), "{text}");
    let begin = Instant::now();
    let child = zellige(here)
        .args(words(": {}; sleep 100", "ok", &[]))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    collect(child, Duration::from_secs(60)).expect(130).says("interrupted");
    assert!(begin.elapsed() < Duration::from_secs(50));
}
