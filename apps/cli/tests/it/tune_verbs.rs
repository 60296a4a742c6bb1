//! Verbs of `zellige tune` for the applications, with costs that do not depend on time.

use crate::common::{ok, result, run, words};
use std::path::Path;

/// Tunes, and runs the command that the text ends with.
fn tuned(here: &Path, line: &str) {
    let text = ok(here, &words(line));
    assert!(text.contains("no single item can be lowered"), "{text}");
    assert!(text.contains("verified   accepted"), "{text}");
    let repeat = text.lines().find_map(|line| line.strip_prefix("repeat with: zellige "));
    ok(here, &words(repeat.unwrap_or_else(|| panic!("a command: {text}"))));
}

#[test]
fn systems_and_products_need_fewer_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &words("matrix generate flow --size 7x6x5 -o a.mtx"));
    tuned(
        here,
        "tune solve a.mtx --method gmres:30 --precond jacobi --tol 1e-8 --repeats 1 --cost bytes --verify --workers 2",
    );
    tuned(here, "tune spmv a.mtx --blocks 4 --repeats 1 --verify -o rows.json");
    let solved =
        ok(here, &words("solve a.mtx --method gmres:30 --operator map:rows.json --json - --workers 2"));
    assert!(result(&solved)["operator"].as_str().unwrap().starts_with("ap7:rows:2^-"), "{solved}");
    run(here, &words("solve a.mtx --operator map:rows.json --x-for ones")).expect(2).says("any vector");
    run(here, &words("spmv a.mtx --sets ap7,map:rows.json")).expect(2).says("a map stands alone");
    std::fs::write(here.join("other.json"), r#"{"rows 0..7":"ap7:cw:2^-24"}"#).unwrap();
    run(here, &words("spmv a.mtx --sets map:other.json")).expect(2).says("a matrix with 210 rows");
    let text = ok(here, &words("tune spmv a.mtx --blocks 4 --repeats 1 --json -"));
    let products = result(&text);
    assert_eq!(products["items"].as_array().unwrap().len(), 4);
    let best = products["best"].as_u64().unwrap() as usize;
    assert!(products["trials"][best]["cost"].as_f64() < products["trials"][0]["cost"].as_f64(), "{products}");
}

#[test]
fn propagators_need_fewer_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &words("lqcd generate --size 4 --beta 5.7 --trajectories 2 -o g.lat"));
    tuned(here, "tune lqcd g.lat --action naive --mass 0.5 --tol 1e-8 --cost bytes --verify --workers 2");
}

#[test]
fn names_are_checked_before_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b", "e", "a.mtx", "g.lat"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    for verb in ["psa --basis b --events e", "solve a.mtx", "spmv a.mtx", "lqcd g.lat"] {
        for option in ["--accept", "--cost"] {
            let mut line = words(verb);
            line.insert(0, "tune");
            let expression = if option == "--cost" { "strehl" } else { "strehl > 0.5" };
            line.extend([option, expression]);
            run(folder.path(), &line).expect(2).says("no measure `strehl`; there are: ");
        }
    }
}
