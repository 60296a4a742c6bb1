//! `zellige trust`.

use std::path::Path;

use crate::common::{ok, result, run};
use serde_json::Value;

/// Events of one segment, with the plain words of `psa run`.
fn psa(options: &[&str]) -> Vec<String> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../psa/tests/fixtures"));
    let file = |name: &str| folder.join(format!("seg00_{name}")).display().to_string();
    let files = [
        ("--basis", "basis_i16.npy"),
        ("--positions", "pos_f32.npy"),
        ("--events", "events0_keV_f32.npy"),
        ("--energies", "events0_energy_keV_f64.npy"),
    ];
    let files = files.into_iter().flat_map(|(option, name)| [option.to_owned(), file(name)]);
    let verb = ["trust", "psa", "run"].map(String::from).into_iter();
    verb.chain(files).chain(options.iter().map(|&word| word.to_owned())).collect()
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn digits_of_a_search_do_not_depend_on_workers() {
    let here = tempfile::tempdir().unwrap();
    let judged = |workers: &str| {
        let args = psa(&["--samples", "3", "--seed", "5", "--workers", workers, "--json", "-"]);
        let mut trust = result(&ok(here.path(), &words(&args)));
        trust["seconds"].take();
        trust["plain_seconds"].take();
        trust
    };
    let trust = judged("1");
    assert_eq!(trust, judged("2"));
    assert_eq!((&trust["samples"], &trust["seed"]), (&Value::from(3), &Value::from(5)));
    let maps = trust["maps"].as_array().unwrap();
    assert_eq!(maps.len(), 3);
    assert!(!maps[0]["digits"].as_array().unwrap().is_empty());
}

#[test]
fn text_and_page_tell_the_digits() {
    let here = tempfile::tempdir().unwrap();
    let text = ok(here.path(), &words(&psa(&["--report", "digits.html", "--precision", "fp64"])));
    assert!(text.contains(" of 15 digits") && text.contains("8 samples, seed 0: "), "{text}");
    let page = std::fs::read_to_string(here.path().join("digits.html")).unwrap();
    assert!(page.contains("<h2>Conclusions</h2>") && page.contains("<h2>Instabilities</h2>"));
}

#[test]
fn options_without_a_use_name_the_remedy() {
    let here = tempfile::tempdir().unwrap();
    for (options, said) in [
        (&["--device", "cuda"][..], "--device: stochastic arithmetic runs on CPU workers"),
        (&["--certify"], "--certify: every point is compared"),
        (&["--precision", "fp16"], "--precision: "),
        (&["--samples", "5"], "use 3, 8 or 16"),
    ] {
        let ran = run(here.path(), &words(&psa(options)));
        assert_eq!(ran.code, Some(2), "{options:?}");
        assert!(ran.stderr.contains(said), "{options:?}: {}", ran.stderr);
    }
}

#[test]
fn a_tolerance_that_is_not_reached_has_its_exit_code() {
    let here = tempfile::tempdir().unwrap();
    let matrix = "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n2 2 2\n3 3 3\n";
    std::fs::write(here.path().join("a.mtx"), matrix).unwrap();
    let solve = ["trust", "solve", "a.mtx", "--precond", "none", "--json", "-"];
    let few = run(here.path(), &[&solve[..], &["--max-steps", "1"]].concat());
    assert_eq!(few.code, Some(5), "{}", few.stderr);
    assert!(few.stderr.contains("use a larger --max-steps"), "{}", few.stderr);
    assert_eq!(result(&few.stdout)["converged"], Value::from(false));
    assert_eq!(result(&ok(here.path(), &solve))["converged"], Value::from(true));

    ok(here.path(), &["lqcd", "generate", "--size", "4", "--trajectories", "2", "-o", "u.lat"]);
    let invert = |options: &[&str]| {
        let verb = ["trust", "lqcd", "invert", "u.lat", "--mass", "0.3", "--samples", "3"];
        run(here.path(), &[&verb, options].concat())
    };
    let few = invert(&["--max-steps", "2"]);
    assert!(few.code == Some(5) && few.stdout.contains("the tolerance was not reached"), "{few:?}");
    let refused = invert(&["--precision", "single"]);
    assert!(
        refused.code == Some(2) && refused.stderr.contains("--precision: stochastic numbers"),
        "{refused:?}"
    );
}
