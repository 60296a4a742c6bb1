//! `zellige simulate`: quick and repeatable, since no task runs.

use crate::common::{folder, ok, result, results, run, words};
use serde_json::Value;

const SMALL: [&str; 10] =
    ["simulate", "tor", "--n", "20000", "--m", "2000", "--tile", "950", "--platform", "v100x4"];

fn simulated(more: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &[&SMALL[..], more, &["--json", "-"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    results(&ran.stdout).as_array().unwrap().clone()
}

#[test]
fn figures_are_there_and_repeat() {
    let reports = simulated(&["--precision", "fp32", "--precision", "hp1:band=2"]);
    for report in &reports {
        let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key}"));
        let (n, m) = (20_000f64, 2000f64);
        let flops = n.powi(3) / 3.0 + 2.0 * n * n * m;
        assert!((number("tflops") * number("makespan_seconds") * 1e12 / flops - 1.0).abs() < 1e-9);
        assert!((number("fraction_of_peak") - number("tflops") / 60.0).abs() < 1e-9);
        assert!((0.0..1.0).contains(&number("idle_share")));
        for key in ["area", "critical_path", "mixed"] {
            let bound = report["bounds"][key].as_f64().unwrap();
            assert!(bound > 0.0 && bound <= number("makespan_seconds"), "{key}: {bound}");
        }
        // The lower triangle and B are loaded at least once, and X is stored.
        let moved = |key: &str| report["bytes_moved"][key].as_u64().unwrap() as f64;
        assert!(moved("h2d") >= 4.0 * (n * n / 2.0 + n * m) && moved("d2h") >= 4.0 * n * m);
    }
    let seconds = |at: usize| reports[at]["makespan_seconds"].as_f64().unwrap();
    assert!(seconds(1) < seconds(0), "tensor cores help");
    assert_eq!(reports, simulated(&["--precision", "fp32", "--precision", "hp1:band=2"]));
}

#[test]
fn less_memory_moves_more_and_too_little_is_refused() {
    let roomy = simulated(&["--devices", "1"]);
    let tight = simulated(&["--devices", "1", "--device-memory", "300MB"]);
    let moved = |reports: &[Value]| reports[0]["bytes_moved"]["h2d"].as_u64().unwrap();
    assert!(moved(&tight) > moved(&roomy), "{} and {}", moved(&tight), moved(&roomy));
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &[&SMALL[..], &["--device-memory", "5MB"]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("bytes at once") && ran.stderr.contains("gpu0 has 5000000 bytes"),
        "{}",
        ran.stderr
    );
}

fn moved(report: &Value) -> u64 {
    ["h2d", "d2h", "p2p"].iter().map(|key| report["bytes_moved"][key].as_u64().unwrap()).sum()
}

/// On one owner map the bytes are a matter of the algorithm. Where every product is in 16 bits, the
/// f32 tiles for SYRK leave most of the saving.
#[test]
fn with_fixed_owners_narrow_operands_save_bytes() {
    let reports = simulated(&["--sched", "owners", "--precision", "fp32", "--precision", "hp1"]);
    assert!(moved(&reports[1]) < moved(&reports[0]));
    assert_eq!(reports[1]["low_share"], 1.0);
}

/// In a block distribution, only the owners of diagonal blocks need the float32 tiles next to the
/// diagonal, so that the band also saves bytes.
#[test]
fn in_blocks_a_band_saves_bytes_too() {
    let reports = simulated(&words(
        "--sched owners --cyclic-block 4 --precision fp32 --precision hp1:band=2 --precision hp1",
    ));
    assert!(moved(&reports[1]) < moved(&reports[0]), "{} {}", moved(&reports[1]), moved(&reports[0]));
    assert!(moved(&reports[2]) < moved(&reports[1]));
}

/// A run writes its norms, and a simulation reads them at the same size and interpolated.
#[test]
fn norms_go_from_a_run_to_a_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../tor/systems/demo.toml");
    let rule = "hp1:operand=1e-2";
    let run_args =
        ["tor", "run", demo, "--tile", "204", "--precision", rule, "--norms", "n.json", "--json", "r.json"];
    let ran = run(folder.path(), &run_args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let norms: Value = serde_json::from_str(&text("n.json")).unwrap();
    assert_eq!(norms["rule"], rule);
    let size = |key: &str| results(&text("r.json"))[0][key].to_string();
    let simulated = |n: &str, fused: &str| -> Value {
        let m = size("m");
        let line = format!(
            "simulate tor --n {n} --m {m} --tile 204 --precision {rule} --norms n.json \
             --fuse-updates {fused} --trace t.json --json -"
        );
        let ran = run(folder.path(), &words(&line));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        results(&ran.stdout)
    };
    let share = |n: &str, fused: &str| simulated(n, fused)[0]["low_share"].as_f64().unwrap();
    for n in [size("n"), "6000".into()] {
        let late = share(&n, "1");
        assert!(late > 0.3 && late < 1.0, "{late}");
        assert_eq!(late, share(&n, "3"), "chosen late, and looked up ahead");
    }
}

#[test]
fn a_factorisation_alone_is_less_than_a_reconstructor() {
    let folder = tempfile::tempdir().unwrap();
    let alone = ["simulate", "cholesky", "--n", "20000", "--tile", "950", "--json", "-"];
    let ran = run(folder.path(), &alone);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let reports = results(&ran.stdout);
    let number = |report: &Value, key: &str| report[key].as_f64().unwrap();
    let (alone, whole) = (&reports[0], &simulated(&[])[0]);
    let flops = 20_000f64.powi(3) / 3.0;
    assert!((number(alone, "tflops") * number(alone, "makespan_seconds") * 1e12 / flops - 1.0).abs() < 1e-9);
    assert!(number(alone, "makespan_seconds") < number(whole, "makespan_seconds"));
    // The factor returns to the host.
    assert!(alone["bytes_moved"]["d2h"].as_f64().unwrap() >= 4.0 * 20_000f64.powi(2) / 2.0);
}

/// On an H200, float32 outside the tensor cores is slow, and SYRK and TRSM take the rest of the
/// time.
#[test]
fn diagonal_updates_in_x3_save_time_where_tensor_cores_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let rules = ["fp8:band=2,else=hp1", "fp8:band=2,else=hp1,panel=tf32", "fp8:band=2,else=hp1,panel=x3"];
    let options = ["--platform", "h200x1", "--tile", "1024", "--json", "r.json"];
    let mut arguments = ["simulate", "tor", "--n", "20480", "--m", "2048"].to_vec();
    arguments.extend(options);
    arguments.extend(rules.iter().flat_map(|rule| ["--precision", rule]));
    let ran = run(folder.path(), &arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    let reports = results(&text);
    let seconds = [0, 1, 2].map(|k| reports[k]["makespan_seconds"].as_f64().unwrap());
    assert!(seconds[1] < seconds[2] && seconds[2] < 0.9 * seconds[0], "{seconds:?}");
    assert_eq!(reports[2]["rule"], rules[2]);
}

#[test]
fn a_trace_names_the_formats_that_move() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--precision", "hp1:band=2", "--trace", "t.json"];
    let ran = run(folder.path(), &[&SMALL[..], &more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let trace = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
    let moved = |format: &str| trace.matches(&format!("{format:?}")).count();
    assert!(moved("fp16") > 100 && moved("fp32") > 100, "{} and {}", moved("fp16"), moved("fp32"));
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("odd.toml"), "name = \"odd\"\nnodes = 3\n").unwrap();
    std::fs::write(folder.path().join("odd.json"), "{\"rule\": \"fp32\", \"edges\": [0, 3]}").unwrap();
    for (more, code, said) in [
        (["--platform", "v100"], 2, "p100x4"),
        (["--platform", "odd.toml"], 2, "line 2"),
        (["--devices", "5"], 2, "has 4"),
        (["--device-memory", "-1"], 2, "bytes as in 20GB"),
        (["--workers", "2"], 2, "--platform host"),
        (["--precision", "hp1:operand=1e-2"], 2, "norms"),
        (["--precision", "fp64"], 2, "float32 tiles only: use fp32"),
        (["--precision", "x3"], 1, "no kind has a rate"),
        (["--precision", "tf32"], 1, "no device can run it in \"tf32\": no kind has a rate"),
        (["--precision", "fp8:band=2"], 1, "no device can run it in \"fp8\": no kind has a rate"),
        (["--precision", "fp32,panel=x3"], 1, "in \"x3\": no kind has a rate"),
        (["--norms", "none.json"], 2, "none.json"),
        (["--norms", "odd.json"], 2, "\"edges\""),
    ] {
        let ran = run(folder.path(), &[&SMALL[..8], &more].concat());
        assert_eq!(ran.code, Some(code), "{more:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{more:?}: {}", ran.stderr);
    }
    let listed = run(folder.path(), &["simulate", "platforms"]);
    assert!(listed.stdout.contains("gh200x4") && listed.stdout.contains("section VIII"));
}

/// Simulations on a printed platform file give the results of the shipped platform.
#[test]
fn a_shipped_platform_is_a_file_to_edit() {
    let folder = tempfile::tempdir().unwrap();
    let printed = run(folder.path(), &["simulate", "platforms", "v100x4"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    std::fs::write(folder.path().join("mine.toml"), &printed.stdout).unwrap();
    let on = |platform: &str| {
        let ran = run(folder.path(), &[&SMALL[..8], &["--platform", platform, "--json", "-"]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        results(&ran.stdout)
    };
    assert_eq!(on("mine.toml"), on("v100x4"));
    let refused = run(folder.path(), &["simulate", "platforms", "v100"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("p100x4"), "{}", refused.stderr);
}

#[test]
fn lists_of_sizes_and_devices_are_simulated_with_figures() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let line = |more: &str| format!("simulate cholesky --tile 950 --platform v100x4 {more}");
    let all = results(&ok(here, &words(&line("--n 10000,20000 --devices 1,2,4 --precision fp32 --json -"))));
    let all = all.as_array().unwrap();
    let of = |key: &str| all.iter().map(|one| one[key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("devices"), [1, 1, 2, 2, 4, 4]);
    assert_eq!(of("n"), [10000, 20000].repeat(3));
    let alone = results(&ok(here, &words(&line("--n 20000 --devices 2 --json -"))));
    assert_eq!(alone[0], all[3]);
    let text = ok(here, &words(&line("--n 10000,20000 --devices 1,2 --report lists.html")));
    assert!(text.contains("devices") && text.contains("20000"), "{text}");
    let page = std::fs::read_to_string(here.join("lists.html")).unwrap();
    assert!(page.contains("Rates by size") && page.contains("Times by number of devices"));
    let refused = run(here, &words(&line("--n 10000 --devices 1,8")));
    assert!(refused.code == Some(2) && refused.stderr.contains("4 devices"), "{}", refused.stderr);
    let refused = run(here, &words(&line("--n 10000,20000 --trace a.json")));
    assert!(refused.code == Some(2) && refused.stderr.contains("--trace"), "{}", refused.stderr);
}

#[test]
fn nodes_are_compared() {
    let reports = simulated(&["--nodes", "1,2"]);
    let number = |at: usize, key: &str| reports[at][key].as_f64().unwrap_or_else(|| panic!("{key}"));
    assert_eq!([number(0, "nodes"), number(1, "nodes"), number(1, "devices")], [1.0, 2.0, 8.0]);
    assert_eq!([number(0, "speedup"), number(0, "efficiency")], [1.0, 1.0]);
    assert!(number(1, "speedup") > 1.0 && number(1, "efficiency") < 1.0);
    assert_eq!(reports[0]["tasks"], reports[1]["tasks"]);
    let ranks = reports[1]["ranks"].as_array().unwrap();
    let bytes = |rank: usize, key: &str| ranks[rank]["messages"][key].as_u64().unwrap();
    assert_eq!((ranks.len(), bytes(0, "sent_bytes")), (2, bytes(1, "received_bytes")));
    assert!(bytes(0, "sent_bytes") > 0 && ranks[0]["host_peak_bytes"].as_u64() > Some(0));
    assert_eq!(simulated(&[])[0], reports[0], "one node is what there is without the option");

    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &[&SMALL[..], &["--nodes", "2", "--trace", "trace.json"]].concat());
    assert!(ran.code == Some(0) && ran.stdout.contains("efficiency"), "{}{}", ran.stdout, ran.stderr);
    let trace = std::fs::read_to_string(folder.path().join("trace.json")).unwrap();
    assert!(trace.contains("rank 1") && trace.contains("receive"));
    for (more, said) in [
        (&["--nodes", "1,2", "--trace", "trace.json"][..], "--nodes"),
        (&["--nodes", "2", "--sched", "owners"], "--sched"),
        (&["--nodes", "0"], "--nodes"),
    ] {
        let ran = run(folder.path(), &[&SMALL[..], more].concat());
        assert!(ran.code == Some(2) && ran.stderr.contains(said), "{more:?}: {}", ran.stderr);
    }
}

/// A tuned map is loaded by runs and by simulations of the same tiles.
#[test]
fn tuned_maps_are_loaded() {
    let folder = folder(6);
    let here = folder.path();
    let line = "tune tor small.toml --tile 48 --max-trials 6 --trials log.jsonl --formats hp1 \
                -o map.json --json t.json --report t.html --workers 2";
    let text = ok(here, &words(line));
    assert!(text.contains("tuned map") && text.contains("repeat with: zellige tor run small.toml"), "{text}");
    let tuned = result(&std::fs::read_to_string(here.join("t.json")).unwrap());
    let best = &tuned["trials"][tuned["best"].as_u64().unwrap() as usize];
    assert!(tuned["bound"].as_f64() <= best["cost"].as_f64(), "{tuned}");
    // The log has all trials: a second search runs none.
    ok(here, &words(line));
    let log = std::fs::read_to_string(here.join("log.jsonl")).unwrap();
    assert!(log.lines().count() <= 1 + 6 + 10, "{log}");
    let ran =
        ok(here, &words("tor run small.toml --tile 48 --precision map:map.json --xray off --json r.json"));
    assert!(ran.contains("map:map.json"), "{ran}");
    let run_again = result(&std::fs::read_to_string(here.join("r.json")).unwrap());
    let exact = |value: &Value| value.as_f64().unwrap();
    let difference = exact(&run_again["strehl_exact"]) - exact(&best["measures"]["strehl"]["value"]);
    assert!(difference.abs() < 1e-7, "{difference}");
    let (n, m) = (tuned["n"].to_string(), tuned["m"].to_string());
    let simulation =
        ["simulate", "tor", "--n", &n, "--m", &m, "--platform", "h200x1", "--precision", "map:map.json"];
    assert!(ok(here, &[&simulation[..], &["--tile", "48"]].concat()).contains("map:map.json"));
    run(here, &[&simulation[..], &["--tile", "96"]].concat()).expect(2).says("--tile 48");
}
