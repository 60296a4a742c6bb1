//! `zellige psa`.

use std::path::Path;

use crate::common::{ok, result, results, run};
use serde_json::Value;
use zellige_test_data::data;

fn files(folder: &Path, segment: &str, set: &str) -> Vec<String> {
    let file = |name: String| folder.join(format!("{segment}_{name}")).display().to_string();
    let options = [
        ("--basis", "basis_i16.npy".to_owned()),
        ("--positions", "pos_f32.npy".to_owned()),
        ("--events", format!("{set}_keV_f32.npy")),
        ("--energies", format!("{set}_energy_keV_f64.npy")),
    ];
    options.into_iter().flat_map(|(option, name)| [option.to_owned(), file(name)]).collect()
}

/// Segments of the project's own, with answers that NumPy computed.
fn own() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../psa/tests/fixtures"))
}

#[test]
fn full_searches_in_f64_give_the_answers_of_another_program() {
    full_searches(own());
}

#[test]
fn full_searches_in_f64_give_the_answers_of_the_prototype() {
    let Some(folder) = data("psa/synthetic") else { return };
    full_searches(&folder);
}

fn full_searches(folder: &Path) {
    let here = tempfile::tempdir().unwrap();
    let answers = std::fs::read(folder.join("seg00_answers.json")).unwrap();
    let answers: Value = serde_json::from_slice(&answers).unwrap();
    for set in ["events0", "events1"] {
        for (p, mask, channels) in
            [("0.3", "p03_hitcore", "hit-core"), ("1", "p1_all", "all"), ("2", "p2_all", "all")]
        {
            let files = files(folder, "seg00", set);
            let words =
                ["--channels", channels, "--p", p, "--method", "fgs", "--precision", "fp64", "--json", "-"];
            let args: Vec<&str> =
                ["psa", "run"].into_iter().chain(files.iter().map(String::as_str)).chain(words).collect();
            let found = result(&ok(here.path(), &args));
            let expected = answers["sets"][set].as_array().unwrap();
            for (found, expected) in found["events"].as_array().unwrap().iter().zip(expected) {
                let expected = &expected[mask];
                assert_eq!(found["index"], expected["idx"], "{set} {mask}");
                let ratio = found["fom"].as_f64().unwrap() / expected["fom"].as_f64().unwrap();
                assert!((ratio - 1.0).abs() <= 1e-12, "{set} {mask}: {ratio}");
            }
        }
    }
}

#[test]
fn runs_are_compared() {
    compare(own());
}

#[test]
fn runs_of_the_prototypes_events_are_compared() {
    let Some(folder) = data("psa/synthetic") else { return };
    compare(&folder);
}

fn compare(folder: &Path) {
    let here = tempfile::tempdir().unwrap();
    let files = files(folder, "seg00", "events0");
    for (method, workers, name) in [("screen", "2", "a.json"), ("exact", "1", "b.json")] {
        let words = ["--channels", "hit-core", "--method", method, "--workers", workers, "--json", name];
        let args: Vec<&str> =
            ["psa", "run"].into_iter().chain(files.iter().map(String::as_str)).chain(words).collect();
        assert!(ok(here.path(), &args).contains(" hits in "));
    }
    let text = ok(here.path(), &["psa", "compare", "a.json", "b.json"]);
    assert!(text.starts_with("energy") && text.contains("all"), "{text}");
    let rows = ok(here.path(), &["psa", "compare", "a.json", "b.json", "--json", "-"]);
    let rows = results(&rows);
    assert!(rows[0]["same_percent"].as_f64().unwrap() > 95.0, "{rows}");
}

#[test]
fn what_cannot_be_is_refused() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("b.npy"), b"no array").unwrap();
    let files = ["--basis", "b.npy", "--positions", "b.npy", "--events", "b.npy", "--energies", "b.npy"];
    let with = |more: &[&str]| run(here.path(), &[&["psa", "run"], &files[..], more].concat());
    let broken = with(&[]);
    assert_eq!(broken.code, Some(2), "{}", broken.stderr);
    assert!(broken.stderr.contains("b.npy, byte"), "{}", broken.stderr);
    for wrong in [
        &["--p", "0"][..],
        &["--method", "fgs", "--precision", "mixed"],
        &["--segment", "36"],
        &["--certify"],
        &["--trapping", "3000"],
        &["--pairs"],
    ] {
        assert_eq!(with(wrong).code, Some(2), "{wrong:?}");
    }
    std::fs::write(here.path().join("r.json"), b"{}").unwrap();
    assert_eq!(run(here.path(), &["psa", "compare", "r.json", "r.json"]).code, Some(2));
}

/// Frames of two channels, searched by those of neighbours: every event is broken, and that is an error which says why.
#[test]
fn frames_of_other_channels_are_no_answer() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path();
    for line in [
        "psa simulate -o basis --grid 5 --step 12 --samples 40",
        "psa events --basis basis -n 3 -o events",
        "psa frames events --channels hit-core -o e.geb",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        run(path, &words).expect(0);
    }
    let stream = |channels: &str| {
        let output = format!("{channels}.hits");
        let words = ["psa", "stream", "e.geb", "--basis", "basis", "--channels", channels, "-o", &output];
        run(path, &words)
    };
    stream("neighbours").expect(2).says("event 0 is broken").says("--channels");
    stream("hit-core").expect(0);
}
