//! Features that all verbs share: help, version, the JSON envelope, traces and reports, options
//! from a file.

use std::fs;
use std::path::Path;

use crate::common::{folder, left, ok, result, results, run};
use serde_json::Value;

/// Collects every verb, from the help of the command.
fn verbs(here: &Path, verb: &[&str], found: &mut Vec<Vec<String>>) {
    let help = ok(here, &[verb, &["-h"]].concat());
    let commands = help.split("Commands:\n").nth(1).map(|text| text.split("\n\n").next().unwrap_or(""));
    for line in commands.unwrap_or("").lines() {
        let name = line.trim_start().split(' ').next().unwrap_or("");
        if line.starts_with("  ") && !line.starts_with("   ") && name != "help" {
            verbs(here, &[verb, &[name]].concat(), found);
        }
    }
    found.push(verb.iter().map(|&word| word.to_owned()).collect());
}

#[test]
fn short_help_fits_a_screen() {
    let here = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    verbs(here.path(), &[], &mut found);
    assert!(found.len() > 35, "{found:?}");
    for verb in &found {
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let short = ok(here.path(), &[&words[..], &["-h"]].concat());
        let lines = short.lines().count();
        assert!(lines < 40, "{verb:?}: {lines} lines\n{short}");
        let long = ok(here.path(), &[&words[..], &["--help"]].concat());
        assert!(long.len() > short.len() || long == short, "{verb:?}");
    }
}

#[test]
fn the_version_names_commit_and_features() {
    let here = tempfile::tempdir().unwrap();
    let version = ok(here.path(), &["--version"]);
    let is_as_it_should = version.starts_with(concat!("zellige ", env!("CARGO_PKG_VERSION"), " ("))
        && version.contains("features: ");
    assert!(is_as_it_should, "{version}");
}

#[test]
fn results_say_where_they_are_from() {
    let folder = folder(4);
    let text = ok(folder.path(), &["tor", "info", "small.toml", "--json", "-"]);
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["schema"], 2);
    assert_eq!(file["zellige"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(file["args"], serde_json::json!(["tor", "info", "small.toml", "--json", "-"]));
    assert!(
        file["date"].as_str().unwrap().ends_with('Z') && file["host"]["cores"].as_u64() > Some(0),
        "{file}"
    );
    assert!(result(&text)["measurements"].as_u64() > Some(0), "{text}");
}

/// Every verb that runs tasks writes a trace, a report that contains the command line, and JSON
/// that matches its schema.
#[test]
fn verbs_that_run_tasks_have_traces_and_reports() {
    let folder = folder(4);
    let here = folder.path();
    ok(here, &["matrix", "generate", "flow", "--size", "4x4x4", "-o", "a.mtx"]);
    fs::write(here.join("crystal.toml"), ok(here, &["psa", "crystal"])).unwrap();
    let layers = include_str!("../../../tor/systems/learn.toml");
    let layers = layers.replace("diameter = 8.0", "diameter = 3.0").replace("nssp = 10", "nssp = 5");
    fs::write(here.join("layers.toml"), layers).unwrap();
    for line in [
        "tor cov small.toml -o c.npy",
        "tor build small.toml -o R.npy",
        "tor eval small.toml --rec R.npy",
        "tor loop small.toml --rec R.npy --frames 6 --skip 2 --mode pseudo-open",
        "tor loop small.toml --frames 6 --skip 2 --precision fp32 --precision hp3 --tile 4 --exposures 2 --error-budget",
        "tor loop layers.toml --frames 1000 --skip 0 --telemetry slopes.fits",
        "tor learn layers.toml slopes.fits --wind-lag 4 -o learnt.toml",
        "tor build learnt.toml -o R.npy",
        "tor run small.toml",
        "psa simulate --crystal crystal.toml --grid 6 --step 9 -o basis",
        "psa events --basis basis -n 5 -o ev",
        "psa run --basis basis --events ev",
        "psa benchmark --basis basis -n 3",
        "psa track --simulate 3 --multiplicity 2",
        "lqcd generate --size 4 --beta 5.7 --trajectories 2 -o small.lat",
        "lqcd smear small.lat",
        "lqcd invert small.lat --mass 0.5 --source point:0,1,2,3:2",
        "lqcd eigen small.lat -n 3 -o small.eig",
        "lqcd invert small.lat --mass 0.5 --deflate small.eig",
        "solve a.mtx",
        "simulate cholesky --n 2000 --tile 500",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let more = ["--trace", "t.html", "--report", "r.html", "--json", "j.json"];
        ok(here, &[&words[..], &more].concat());
        let [trace, report, json] =
            ["t.html", "r.html", "j.json"].map(|name| fs::read_to_string(here.join(name)).unwrap());
        assert!(trace.to_ascii_lowercase().starts_with("<!doctype html>"), "{line}");
        let is_whole = report.ends_with("</html>\n") && report.contains("href=\"t.html\"");
        assert!(is_whole && report.contains(&format!("<pre>zellige {line}")), "{line}: {report}");
        assert!(!results(&json).as_array().unwrap().is_empty(), "{line}");
        for name in ["t.html", "r.html", "j.json"] {
            fs::remove_file(here.join(name)).unwrap();
        }
    }
    for line in ["tor rtc R.npy --frames 50 --workers 2", "tor rtc R.npy --frames 50 --udp 0 --rate 500"] {
        let words: Vec<&str> = line.split(' ').collect();
        let more = ["--report", "r.html", "--json", "j.json"];
        assert!(ok(here, &[&words[..], &more].concat()).contains("last packet to last command"), "{line}");
        let page = fs::read_to_string(here.join("r.html")).unwrap();
        assert!(page.ends_with("</html>\n") && page.contains(&format!("<pre>zellige {line}")), "{line}");
        let json = fs::read_to_string(here.join("j.json")).unwrap();
        assert_eq!(result(&json)["setting"]["frames"], 50, "{line}");
    }
    let both = run(here, &["tor", "rtc", "R.npy", "--device", "cuda:0", "--workers", "2"]);
    assert_eq!((both.code, both.stderr.contains("--workers")), (Some(2), true), "{}", both.stderr);
    // A GPU that is not there is no reason to multiply elsewhere.
    let absent = run(here, &["tor", "rtc", "R.npy", "--device", "cuda:31"]);
    assert_eq!((absent.code, absent.stderr.contains("cuda:31")), (Some(4), true), "{}", absent.stderr);
    ok(here, &["psa", "frames", "ev", "--channels", "all", "-o", "ev.geb"]);
    ok(
        here,
        &[
            "psa", "stream", "--basis", "basis", "ev.geb", "-o", "hits.geb", "--report", "r.html", "--trace",
            "t.json",
        ],
    );
    assert!(fs::read_to_string(here.join("r.html")).unwrap().contains("latency"));
}

#[test]
fn examples_can_be_run() {
    let here = tempfile::tempdir().unwrap();
    let example = ok(here.path(), &["tor", "example"]);
    fs::write(here.path().join("system.toml"), example).unwrap();
    ok(here.path(), &["tor", "info", "system.toml"]);
}

#[test]
fn options_come_from_a_file() {
    let folder = folder(4);
    let here = folder.path();
    fs::write(here.join("z.toml"), "[tor.info]\nprecision = [\"fp64\"]\njson = \"-\"\n").unwrap();
    let rules = |more: &[&str]| {
        let text = ok(here, &[&["tor", "info", "small.toml", "--config", "z.toml"][..], more].concat());
        result(&text)["run"]["rules"].clone()
    };
    assert_eq!(rules(&[]), serde_json::json!(["fp64"]));
    assert_eq!(rules(&["--precision", "hp1"]), serde_json::json!(["hp1"]));
    fs::write(here.join("z.toml"), "[tor.info]\nprecison = 1\n").unwrap();
    run(here, &["tor", "info", "small.toml", "--config", "z.toml"]).expect(2).says("precison");
    run(here, &["tor", "info", "small.toml", "--config", "none.toml"]).expect(2).says("none.toml");
    // An output that the file names is checked like any other.
    fs::write(here.join("z.toml"), "json = \"small.toml\"\n").unwrap();
    run(here, &["tor", "info", "small.toml", "--config", "z.toml"]).expect(2).says("would be lost");
}

#[test]
fn completions_and_manual_pages_are_written() {
    let here = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(here.path(), &["completions", shell]).contains("psa"), "{shell}");
    }
    assert!(ok(here.path(), &["man"]).starts_with(".ie"));
    ok(here.path(), &["man", "-o", "man1"]);
    let page = fs::read_to_string(here.path().join("man1/zellige-tor-run.1")).unwrap();
    assert!(page.contains(".SH SYNOPSIS") && page.contains("zellige tor run"), "{page}");
    assert!(left(&here.path().join("man1")).len() > 35);
}

#[test]
fn a_machine_is_described_and_checked() {
    let here = tempfile::tempdir().unwrap();
    let text = ok(here.path(), &["machine", "show", "--check", "--json", "m.json"]);
    assert!(text.contains("cores") && text.ends_with("all checks passed\n"), "{text}");
    let found = result(&fs::read_to_string(here.path().join("m.json")).unwrap());
    assert_eq!(found["selftest"]["passed"], true);
    assert!(found["cpus"].is_array() && found["memory"].is_object(), "{found}");
}
