//! `zellige psa`.

use std::path::Path;

use crate::common::{ok, result, results, run};
use serde_json::Value;
use zellige_files::array::{self, Array};
use zellige_tests::data;

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

/// Returns the folder of zellige's own segments, with answers computed by NumPy.
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

/// Frames of two channels, searched with the channels of neighbours: every event is incomplete,
/// which is an error with this reason.
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
    stream("neighbours").expect(2).says("event 0 is invalid").says("--channels");
    stream("hit-core").expect(0);
}

/// Clipped events, and events in other units, of the opposite polarity or late, are reported with a
/// remedy.
#[test]
fn events_that_are_not_what_they_seem_are_said() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path();
    let said = |line: &str| run(path, &line.split(' ').collect::<Vec<_>>());
    for line in [
        "psa simulate -o basis --grid 5 --step 8",
        "psa events --basis basis -n 40 --noise 2 -o events",
        "psa simulate -o later --grid 5 --step 8 --before 7",
        "psa simulate -o slower --grid 5 --step 8 --sample-step 16",
    ] {
        said(line).expect(0);
    }
    said("psa frames events --channels all --unit 0.02 -o clipped.geb")
        .expect(0)
        .says("do not fit 16 bits at --unit 0.02 (655.3 keV at most")
        .says("use --unit 1.");
    let ran = said("psa frames events --channels all --unit 0.2 -o whole.geb").expect(0);
    assert_eq!(ran.stderr, "");
    // Energies are restored approximately, with a flag. The true energy of each event is in
    // energies.npy.
    let energies = Array::open(&path.join("events/energies.npy")).unwrap().reals().unwrap();
    let ran = said("psa run --basis basis --events clipped.geb --json -");
    let ran = ran.expect(0).says("40 events have samples that are clipped");
    let hits = result(&ran.stdout)["events"].as_array().unwrap().clone();
    let mut clipped = 0;
    for hit in &hits {
        let truth = energies[hit["event"].as_u64().unwrap() as usize];
        let is_flagged = hit["flags"].as_array().unwrap().iter().any(|flag| flag == "saturated");
        clipped += usize::from(is_flagged);
        assert!(is_flagged || truth < 690.0, "{truth}: {hit}");
        assert!(!is_flagged || (hit["energy"].as_f64().unwrap() / truth - 1.0).abs() < 0.4, "{truth}: {hit}");
    }
    assert!(clipped > 5, "{clipped}");
    let skipped = said("psa run --basis basis --events clipped.geb --saturated skip --json -");
    assert_eq!(result(&skipped.stdout)["events"].as_array().unwrap().len(), hits.len() - clipped);
    said("psa run --basis basis --events clipped.geb --saturated refuse")
        .expect(2)
        .says("event ")
        .says("are clipped");
    let stream = said("psa stream clipped.geb --basis basis -o hits.geb --json -");
    assert_eq!(result(&stream.stdout)["saturated"], clipped);
    let ran = said("psa run --basis basis --events whole.geb").expect(0);
    assert_eq!(ran.stderr, "");

    let signals = Array::open(&path.join("events/signals.npy")).unwrap();
    let sides = signals.sides().to_vec();
    let signals = signals.finite().unwrap();
    let write = |name: &str, change: &dyn Fn(f32) -> f32| {
        array::write(&path.join(name), &sides, signals.iter().map(|&x| change(x))).unwrap();
    };
    write("mev.npy", &|x| x / 1000.0);
    write("turned.npy", &|x| -x);
    write("top.npy", &|x| x.min(700.0));
    let codes = signals.iter().map(|x| (x / 0.1).round().clamp(-8192.0, 8191.0) as i16);
    array::write(&path.join("codes.npy"), &sides, codes).unwrap();
    for (events, words) in [
        ("mev.npy", "none of 40 events has a hit"),
        ("mev.npy", "multiplied by 1000"),
        ("turned.npy", "the opposite polarity"),
        ("top.npy", "events have samples that are clipped"),
        ("codes.npy", "events have samples that are clipped"),
    ] {
        said(&format!("psa run --basis basis --events {events}")).expect(0).says(words);
    }
    said("psa run --basis later --events events").expect(2).says("in the basis after 7").says("--shifts 5");
    said("psa run --basis later --events events --shifts 5").expect(0);
    said("psa run --basis later --events whole.geb").expect(0).says("samples earlier than in the basis");
    said("psa stream whole.geb --basis later -o late.geb")
        .expect(0)
        .says("samples earlier than in the basis");
    said("psa run --basis slower --events events").expect(2).says("--sample-step 10");
}
