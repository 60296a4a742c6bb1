//! Written files: their content, and that they are complete or absent.

use crate::common;
use crate::common::{finish, folder, left, result, results, run, words, zellige};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn json(path: &Path) -> Value {
    results(&fs::read_to_string(path).unwrap())
}

#[test]
fn a_run_has_the_documented_keys() {
    let folder = folder(6);
    let arguments = words(
        "tor run small.toml --tile 20 --target 0,0 --target -10,5.5 --precision fp32 \
         --precision bf1 --json x.json",
    );
    let ran = run(folder.path(), &arguments).expect(0);
    let all = json(&folder.path().join("x.json"));
    let rules = all.as_array().unwrap();
    assert_eq!(rules.len(), 2);
    let expected: BTreeSet<&str> = words(
        "n m tiles rule gemm_share flops seconds gflops gemm_peak_gflops backward_error \
         backward_error_estimated trace_cee strehl_moao strehl_exact marechal targets \
         peak_memory_bytes tile_bytes",
    )
    .into_iter()
    .collect();
    assert_eq!(keys(&rules[0]), expected);
    assert_eq!(keys(&rules[0]["seconds"]), ["cov", "factor", "solve", "eval"].into());
    assert!(
        keys(&rules[0]["gemm_share"])
            .is_superset(&["sp", "hp1", "hp2", "hp3", "bf1", "x3", "tf32", "fp8"].into())
    );
    assert_eq!(rules[0]["targets"].as_array().unwrap().len(), 2);
    assert_eq!(rules[0]["targets"][1]["x"], -10.0);
    let (n, m) = (rules[0]["n"].as_f64().unwrap(), rules[0]["m"].as_f64().unwrap());
    let flops = n.powi(3) / 3.0 + 2.0 * n * n * m * 2.0;
    assert!((rules[0]["flops"].as_f64().unwrap() / flops - 1.0).abs() < 1e-12);
    assert!(rules[0]["backward_error"].as_f64().unwrap() < 1e-6);
    let strehl = rules[0]["strehl_exact"].as_f64().unwrap();
    assert!(strehl > 0.1 && strehl < 1.0, "{strehl}");

    assert_eq!(keys(&rules[1]), ["n", "m", "tiles", "rule", "not_spd"].into());
    assert!(rules[1]["not_spd"]["tile"].is_u64() && rules[1]["not_spd"]["pivot"].is_u64());

    // The table has a line for each rule, with numbers under their headings.
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[1].starts_with("rule") && lines[2].starts_with("fp32") && lines[3].starts_with("bf1"),
        "{ran:#?}"
    );
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "colours in a pipe");
}

#[test]
fn benches_have_the_documented_keys() {
    let folder = folder(4);
    run(
        folder.path(),
        &["bench", "tasks", "--workers", "2", "--count", "500", "--repeats", "1", "--json", "tasks.json"],
    )
    .expect(0);
    let tasks = &json(&folder.path().join("tasks.json"))[0];
    for case in ["independent", "chain", "graph3", "cholesky_empty", "replay"] {
        assert!(tasks["us_per_task"][case].as_f64().unwrap() > 0.0, "{case}: {tasks}");
    }
    for format in ["f32", "f64"] {
        let line = format!("bench cholesky --n 200 --tile 50 --format {format} --workers 1 --json c.json");
        run(folder.path(), &words(&line)).expect(0);
        let figures = &json(&folder.path().join("c.json"))[0];
        for key in ["gflops", "gemm_gflops_same_tile", "kernel_share", "makespan_over_bound", "seconds"] {
            assert!(figures[key].as_f64().unwrap() > 0.0, "{key}: {figures}");
        }
    }
}

#[test]
fn json_on_standard_output_is_alone_there() {
    let folder = folder(4);
    for arguments in [
        &["tor", "run", "small.toml", "--json", "-"][..],
        &["tor", "info", "small.toml", "--json", "-"],
        &["tor", "build", "small.toml", "--json", "-", "-o", "R.npy"],
        &["tor", "eval", "small.toml", "--json", "-", "--rec", "R.npy"],
        &["tor", "cov", "small.toml", "--json", "-", "-o", "cov.fits"],
        &["machine", "show", "--json", "-"],
    ] {
        let ran = run(folder.path(), arguments).expect(0);
        results(&ran.stdout);
    }
}

#[test]
fn a_build_judges_nothing_and_says_so() {
    let folder = folder(5);
    let ran =
        run(folder.path(), &["tor", "build", "small.toml", "-o", "R.fits", "--json", "x.json"]).expect(0);
    assert!(ran.stdout.contains("not computed; use zellige tor eval"), "{ran:#?}");
    let built = &json(&folder.path().join("x.json"))[0];
    for key in ["backward_error", "trace_cee", "strehl_moao", "strehl_exact", "marechal"] {
        assert_eq!(built.get(key), Some(&Value::Null), "{key}");
    }
    assert_eq!(built["targets"].as_array().map(Vec::len), Some(0));
    assert!(built["seconds"]["factor"].as_f64() > Some(0.0), "{built}");
}

#[test]
fn a_reconstructor_comes_back_whatever_the_order_of_its_slopes() {
    let folder = folder(5);
    let mut strehls = Vec::new();
    for (order, file) in [("xxyy", "R.fits"), ("xyxy", "Ri.fits"), ("xyxy", "Ri.npy")] {
        run(folder.path(), &["tor", "build", "small.toml", "--slope-order", order, "-o", file]).expect(0);
        let mut arguments = vec!["tor", "eval", "small.toml", "--rec", file, "--json", "-"];
        if file.ends_with("npy") {
            // Only FITS files state the order of their slopes.
            arguments.extend(["--slope-order", order]);
        }
        let judged = result(&run(folder.path(), &arguments).expect(0).stdout);
        assert_eq!(judged["slope_order"], order);
        strehls.push(judged["strehl_moao"].as_f64().unwrap());
    }
    assert!(strehls.iter().all(|s| (s - strehls[0]).abs() < 1e-12), "{strehls:?}");
    let wrong = ["tor", "eval", "small.toml", "--rec", "Ri.npy", "--slope-order", "xxyy", "--json", "-"];
    let judged = result(&run(folder.path(), &wrong).expect(0).stdout);
    assert!(
        (judged["strehl_moao"].as_f64().unwrap_or(0.0) - strehls[0]).abs() > 1e-3,
        "order does not matter?"
    );

    // A reconstructor of another system without a header is recognised by its shape.
    let other = common::folder(6);
    fs::copy(folder.path().join("Ri.npy"), other.path().join("R.npy")).unwrap();
    run(other.path(), &["tor", "eval", "small.toml", "--rec", "R.npy"]).expect(2).says("R.npy").says(" x ");
}

/// A reconstructor from a file loses what is allowed, whatever the order of its slopes.
#[test]
fn a_given_reconstructor_is_rounded_to_few_bits() {
    let folder = folder(6);
    let here = folder.path();
    let strehl = |file: &str| {
        let judged = run(here, &["tor", "eval", "small.toml", "--rec", file, "--json", "-"]).expect(0);
        result(&judged.stdout)["strehl_exact"].as_f64().unwrap()
    };
    for order in ["xxyy", "xyxy"] {
        run(here, &["tor", "build", "small.toml", "--slope-order", order, "-o", "R.fits"]).expect(0);
        let auto = ["--bits", "auto", "--max-strehl-loss", "1e-3"];
        let rounded = ["tor", "build", "small.toml", "--rec", "R.fits", "-o", "R.npz"];
        let made = run(here, &[&rounded[..], &auto[..]].concat()).expect(0);
        assert!(made.stdout.contains("% of float32"), "{made:#?}");
        let lost = strehl("R.fits") - strehl("R.npz");
        assert!(lost > 5e-4 && lost <= 1e-3, "{order}: {lost:e}");
    }
    run(here, &["tor", "build", "small.toml", "--rec", "R.fits", "-o", "R.npz"]).expect(2).says("--bits");
    let missing = ["tor", "build", "small.toml", "--rec", "none.fits", "--bits", "6", "-o", "R.npz"];
    run(here, &missing).expect(2).says("none.fits");
}

/// The header identifies the telescope, even if shapes agree. Another atmosphere is permitted,
/// because users want to study its effect.
#[test]
fn a_reconstructor_of_another_telescope_is_refused() {
    let folder = folder(5);
    let here = folder.path();
    run(here, &["tor", "build", "small.toml", "-o", "R.fits"]).expect(0);
    let late = ["tor", "eval", "small.toml", "--rec", "R.fits", "--lag-ms", "5"];
    run(here, &late).expect(0).says("LAG = 0, but").says("no wind in the profile");
    let text = fs::read_to_string(here.join("small.toml")).unwrap();
    for (key, value, code, said) in [
        ("diameter", "30.0", 2, "made for another instrument: DIAM = 8, but this system has 30"),
        ("r0", "0.2", 0, "R0 = "),
    ] {
        let line = text.lines().find(|line| line.starts_with(&format!("{key} ="))).unwrap();
        fs::write(here.join("other.toml"), text.replace(line, &format!("{key} = {value}"))).unwrap();
        run(here, &["tor", "eval", "other.toml", "--rec", "R.fits"]).expect(code).says(said);
    }
}

#[test]
fn traces_have_the_format_of_their_ending() {
    let folder = folder(5);
    for (file, head) in
        [("t.json", "{"), ("t.paje", "%EventDef"), ("t.trace", "%EventDef"), ("t.html", "<!DOCTYPE html>")]
    {
        let arguments = ["tor", "run", "small.toml", "--tile", "30", "--precision", "fp32", "--trace", file];
        run(folder.path(), &arguments).expect(0);
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(
            text.to_lowercase().starts_with(&head.to_lowercase()),
            "{file}: {}",
            &text[..80.min(text.len())]
        );
        assert!(text.contains("potrf"), "{file} names the tasks");
        if file == "t.json" {
            assert!(serde_json::from_str::<Value>(&text).is_ok());
        }
    }
}

#[test]
fn a_native_trace_is_summed_up_and_becomes_any_other() {
    let folder = folder(5);
    let here = folder.path();
    let arguments = ["tor", "run", "small.toml", "--tile", "30", "--precision", "fp32", "--trace", "t.zt"];
    run(here, &arguments).expect(0);
    let bytes = fs::read(here.join("t.zt")).unwrap();
    assert!(bytes.starts_with(b"zltrace\n"));
    let summary = run(here, &["trace", "summary", "t.zt", "--json", "summary.json"]).expect(0);
    assert!(summary.stdout.contains("potrf"), "{}", summary.stdout);
    let figures: Value = serde_json::from_slice(&fs::read(here.join("summary.json")).unwrap()).unwrap();
    let figures = &figures["results"][0];
    let runs = |name: &str| {
        let all = figures["codelets"].as_array().unwrap();
        all.iter().find(|codelet| codelet["name"] == name).unwrap()["count"].as_u64().unwrap()
    };
    assert!(figures["tasks"].as_u64().unwrap() > runs("potrf") && runs("potrf") > 1, "{figures}");
    for (form, file) in [("perfetto", "t.json"), ("paje", "t.paje"), ("html", "t.html")] {
        run(here, &["trace", form, "t.zt"]).expect(0).says(file);
        assert!(fs::read_to_string(here.join(file)).unwrap().contains("potrf"), "{form} names the tasks");
        let printed = run(here, &["trace", form, "t.zt", "-o", "-"]).expect(0);
        assert_eq!(printed.stdout.as_bytes(), fs::read(here.join(file)).unwrap());
    }
    // The stages of a reconstruction are phases of the trace.
    let perfetto: serde_json::Value =
        serde_json::from_slice(&fs::read(here.join("t.json")).unwrap()).unwrap();
    let phases: Vec<&str> = perfetto["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["cat"] == "phase")
        .filter_map(|event| event["name"].as_str())
        .collect();
    let in_order = ["fp32: covariances", "fp32: factorisation", "fp32: solve"];
    assert!(phases.windows(3).any(|three| three == in_order), "{phases:?}");

    fs::write(here.join("cut.zt"), &bytes[..bytes.len() / 2]).unwrap();
    run(here, &["trace", "summary", "cut.zt"]).expect(2).says("it was cut off");
    run(here, &["trace", "summary", "t.json"]).expect(2).says("not a native trace file");
    run(here, &["trace", "html", "none.zt"]).expect(2).says("none.zt");
    run(here, &["trace", "html", "t.zt", "-o", "t.zt"]).expect(2);
    fs::write(here.join("named.html"), &bytes).unwrap();
    run(here, &["trace", "html", "named.html"]).expect(2).says("-o FILE.html");
    assert_eq!(fs::read(here.join("named.html")).unwrap(), bytes);
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let folder = folder(6);
    let arguments = words(
        "tor run small.toml --tile 20 --precision fp32 --precision bf1 --xray full \
         --report report.html --trace trace.html",
    );
    run(folder.path(), &arguments).expect(0);
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.to_lowercase().starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for part in ["fp32", "bf1", "not positive definite", "<svg", "trace.html"] {
        assert!(page.contains(part), "no {part} in the report");
    }
    for foreign in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(foreign), "the report asks for {foreign}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_work() {
    let folder = folder(4);
    fs::write(folder.path().join("file"), "").unwrap();
    for option in ["--json", "--trace", "--report", "-o"] {
        let ending = match option {
            "-o" => "fits",
            "--report" => "html",
            _ => "json",
        };
        for place in ["absent", "file", "/proc"] {
            let path = format!("{place}/x.{ending}");
            let ran = run(folder.path(), &["tor", "run", "small.toml", option, &path]).expect(1).says(&path);
            assert!(ran.stdout.is_empty(), "{option}: the work began: {ran:#?}");
        }
    }
    run(folder.path(), &["tor", "run", "small.toml", "--json", "."]).expect(1).says("this is a folder");
    run(folder.path(), &["tor", "cov", "small.toml", "-o", "/dev/null"]).expect(2);
    assert_eq!(left(folder.path()), [Path::new("file")]);
}

#[test]
fn a_full_disk_leaves_no_half_written_file() {
    let folder = folder(6);
    // Devices are written directly and not replaced by a rename.
    run(folder.path(), &["tor", "info", "small.toml", "--json", "/dev/full"]).expect(1).says("/dev/full");
    assert!(!fs::metadata("/dev/full").unwrap().is_file());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = zellige(folder.path())
        .args(["tor", "info", "small.toml"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("standard output"), "{ran:?}");

    // A limit on file sizes fails in the middle of a file, like a full disk, and needs no
    // permission.
    for output in [&["-o", "R.fits"][..], &["-o", "R.npy"], &["--trace", "t.json"], &["--trace", "t.html"]] {
        let old = Path::new(output[1]);
        for before in [None, Some("old")] {
            if let Some(text) = before {
                fs::write(folder.path().join(old), text).unwrap();
            }
            let mut shell = Command::new("sh");
            shell.current_dir(folder.path()).stdin(Stdio::null());
            shell.args([
                "-c",
                "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"",
                env!("CARGO_BIN_EXE_zellige"),
            ]);
            shell.args(["tor", "run", "small.toml", "--precision", "fp32", "--tile", "20"]).args(output);
            finish(&mut shell).expect(1).says(output[1]).says("cannot write");
            match before {
                None => assert!(left(folder.path()).is_empty(), "{output:?}: {:?}", left(folder.path())),
                Some(text) => {
                    assert_eq!(left(folder.path()), [old]);
                    assert_eq!(fs::read_to_string(folder.path().join(old)).unwrap(), text);
                    fs::remove_file(folder.path().join(old)).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = folder(4);
    for arguments in [
        &["tor", "run", "small.toml", "--json", "x.json"][..],
        &["tor", "info", "small.toml"],
        &["machine", "show", "--json", "-"],
        &["help", "tor", "run"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran =
            zellige(folder.path()).args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        assert_eq!(ran.status.code(), Some(0), "{arguments:?}: {errors}");
    }
    assert_eq!(left(folder.path()), [Path::new("x.json")], "the work went on");
}

#[test]
fn more_workers_than_cores_are_said() {
    let folder = folder(4);
    let more = (std::thread::available_parallelism().map_or(1, |n| n.get()) + 1).to_string();
    let arguments = ["tor", "run", "small.toml", "--workers", &more];
    run(folder.path(), &arguments).expect(0).says("more workers than cores");
    let mut quiet = arguments.to_vec();
    quiet.extend(["--log", "error"]);
    assert_eq!(run(folder.path(), &quiet).expect(0).stderr, "");
}
