//! `zellige lqcd`: the way from no field to a correlator, and invalid input.

use std::fs;
use std::path::PathBuf;

use crate::common::{left, ok, result, results, run, words};

#[test]
fn a_field_is_made_described_smeared_and_inverted() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let made = ok(here, &words("lqcd generate --size 4x4x4x6 --beta 5.7 --trajectories 3 -o a.lat --json -"));
    let made = result(&made);
    assert_eq!(made["history"].as_array().map(Vec::len), Some(3), "{made}");
    let info = ok(here, &["lqcd", "info", "a.lat", "--json", "-"]);
    let info = result(&info);
    assert_eq!((info["format"].as_str(), info["precision"].as_u64()), (Some("milc"), Some(32)));
    assert_eq!(info["lattice"], serde_json::json!([4, 4, 4, 6]));
    // The file is in float32.
    let near = |key: &str, a: &serde_json::Value, b: &serde_json::Value| {
        let (a, b) = (a["plaquette"][key].as_f64().unwrap(), b["plaquette"][key].as_f64().unwrap());
        assert!((a - b).abs() < 1e-6 && a > 0.4 && a < 1.0, "{a} {b}");
    };
    near("ss", &made, &info);
    near("st", &made, &info);
    let smeared = ok(here, &["lqcd", "smear", "a.lat", "--json", "-"]);
    let smeared = result(&smeared);
    near("ss", &info, &smeared);
    assert!(smeared["long_trace"].is_f64() && smeared["unitarised_plaquette"]["ss"].is_f64(), "{smeared}");
    let naive = ok(here, &["lqcd", "smear", "a.lat", "--action", "naive", "--json", "-"]);
    let naive = result(&naive);
    assert!(naive["long_trace"].is_null() && naive["unitarised_plaquette"].is_null(), "{naive}");
    let correlator = |workers: &str| {
        let more = ["--mass", "0.2", "--workers", workers, "--json", "-"];
        let inverted = ok(here, &[&["lqcd", "invert", "a.lat"][..], &more].concat());
        let inverted = result(&inverted);
        assert!(inverted["true_residual"].as_array().unwrap().iter().all(|r| r.as_f64() < Some(1e-10)));
        inverted["correlator"].clone()
    };
    let one = correlator("1");
    assert_eq!(one.as_array().map(Vec::len), Some(6));
    assert_eq!(one, correlator("2"), "the same bits for any number of workers");
}

#[test]
fn formats_and_shifts_are_chosen_by_options() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["lqcd", "generate", "--size", "4", "--beta", "5.7", "--trajectories", "2", "-o", "a.lat"]);
    let inverted = |more: &[&str]| {
        let line = ["lqcd", "invert", "a.lat", "--mass", "0.1", "--source", "point:0,0,0,0:0", "--json", "-"];
        result(&ok(here, &[&line[..], more].concat()))
    };
    let double = inverted(&[]);
    for (more, precision) in [
        (&["--precision", "double-fp32/int20/fp32"][..], "double-fp32/int20/fp32"),
        (&["--precision", "double-half", "--reliable", "estimate"], "double-half"),
        (&["--precision", "double-single", "--method", "bicgstabl:4"], "double-single"),
    ] {
        let mixed = inverted(more);
        assert_eq!(mixed["precision"], precision);
        assert!(mixed["reliable_updates"][0].as_u64() > Some(0), "{mixed}");
        let [a, b] = [&double, &mixed].map(|one| one["correlator"][1].as_f64().unwrap());
        assert!((a - b).abs() < 1e-8 * a, "{a} {b}");
    }
    for method in ["bicgstabl:2", "gmres:30"] {
        let other = inverted(&["--method", method]);
        let [a, b] = [&double, &other].map(|one| one["correlator"][1].as_f64().unwrap());
        assert!((a - b).abs() < 1e-8 * a, "{method}: {a} {b}");
    }
    let half = ["--precision", "double-half"];
    let kept = inverted(&[&half[..], &["--buffer", "4"]].concat());
    assert_eq!(kept["correlator"], inverted(&half)["correlator"], "a buffer changes no bits");
    let shifted = |more: &[&str]| {
        let line = words("lqcd multishift a.lat --mass 0.1 --shifts 0,0.5 --report s.html --json -");
        result(&ok(here, &[&line[..], more].concat()))
    };
    for found in [
        shifted(&[]),
        shifted(&["--precision", "double-int30", "--refine", "double-int20", "--tol", "1e-10,1e-8"]),
    ] {
        let shifts = found["shifts"].as_array().unwrap();
        assert!(shifts.len() == 2 && shifts.iter().all(|one| one["converged"] == true), "{found}");
    }
    assert!(fs::read_to_string(here.join("s.html")).unwrap().matches("class=\"line").count() >= 2);
    let line = words("lqcd dslash --size 4x4x4x4 --precision half,fp32/int20/fp32 --repeats 2 --json -");
    let rates = results(&ok(here, &line));
    assert_eq!(rates.as_array().map(Vec::len), Some(2), "{rates}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["lqcd", "generate", "--size", "4", "--trajectories", "1", "-o", "a.lat"]);
    let refused = |line: &str, word: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        run(here, &words).expect(2).says(word);
    };
    refused("lqcd generate --size 4x4x4x5 -o b.lat", "even");
    refused("lqcd invert a.lat --device cuda --precision double-half", "--precision");
    refused("lqcd dslash --size 4 --device cuda --precision half,fixed16-9/half/fp32", "compressed");
    refused("lqcd generate --size 4x4 -o b.lat", "--size");
    refused("lqcd generate --size 4 --beta nan -o b.lat", "--beta");
    refused("lqcd generate --size 4 -o a.lat --json a.lat", "a.lat");
    refused("lqcd invert a.lat --mass 0", "--mass");
    refused("lqcd invert a.lat --mass -0.1", "--mass");
    refused("lqcd multishift a.lat --mass -1e-3 --shifts 0", "--mass");
    refused("lqcd invert a.lat --mass 1e200", "the range of norms in float64");
    refused("lqcd multishift a.lat --mass 5e76 --shifts 1e160", "the range of norms in float64");
    refused("lqcd invert a.lat --heavy-quark-tol -1", "--heavy-quark-tol");
    refused("lqcd invert a.lat --tol 0", "--tol");
    refused("lqcd invert a.lat --source point:0,0,4,0", "--source");
    refused("lqcd invert a.lat --action clover", "hisq");
    refused("lqcd multishift a.lat --action wilson --shifts 0,1", "naive");
    refused("lqcd eigen a.lat --action wilson", "naive");
    refused("lqcd invert a.lat --action wilson --device cuda", "staggered");
    refused("lqcd dslash --size 4 --precision double --action wilson --device cuda", "staggered");
    refused("trust lqcd invert a.lat --source-fields a.lat", "leave this option out");
    refused("lqcd invert a.lat --source-fields a.lat", "SciDAC");
    refused("lqcd invert a.lat --long a.lat", "SciDAC");
    refused("lqcd invert a.lat --vectors int20", "--output");
    refused("lqcd invert a.lat --bc open", "antiperiodic");
    refused("lqcd convert a.lat b.lat --links fixed16-9", ".lime");
    refused("lqcd convert a.lat b.lime --links fixed8", "fixed24");
    refused("lqcd invert a.lat --buffer 4", "only conjugate gradients in a narrow format");
    refused("lqcd invert a.lat --method gmres:30 --precision single", "computes in float64");
    refused("lqcd invert a.lat --method bicgstab", "bicgstabl:4");
    refused("lqcd invert a.lat --method gmres:0", "from 1 to 1000");
    refused("lqcd invert a.lat --precision double-int40", "int20");
    refused("lqcd multishift a.lat --shifts 0,1 --tol 1e-9,1e-8,1e-7", "--tol");
    refused("lqcd multishift a.lat --shifts -1", "--shifts");
    // The files contain a link outside SU(3), or end too early.
    let whole = fs::read(here.join("a.lat")).unwrap();
    let mut broken = whole.clone();
    broken[200] ^= 0x40;
    fs::write(here.join("broken.lat"), broken).unwrap();
    fs::write(here.join("short.lat"), &whole[..whole.len() - 8]).unwrap();
    refused("lqcd info broken.lat", "checksum");
    refused("lqcd invert short.lat", "truncated");
    // With too few iterations the results are written, and the exit code reports the missed
    // tolerance.
    run(here, &["lqcd", "invert", "a.lat", "--max-steps", "2", "--json", "r.json"])
        .expect(5)
        .says("--max-steps");
    assert!(fs::read_to_string(here.join("r.json")).unwrap().contains("\"converged\": false"));
    // Both tolerances are met, although the residual cannot decrease while the solver still works
    // on distant sites.
    for mass in ["3", "100"] {
        let line = ["lqcd", "invert", "a.lat", "--mass", mass, "--tol", "1e-12", "--heavy-quark-tol", "1e-8"];
        let found = result(&ok(here, &[&line[..], &["--json", "-"]].concat()));
        assert!(
            found["heavy_quark_residual"].as_array().unwrap().iter().all(|one| one.as_f64() <= Some(1e-8))
        );
    }
    // More iterations would not help here.
    for line in [
        "lqcd invert a.lat --mass 0.1 --tol 1e-40",
        "lqcd invert a.lat --mass 3 --heavy-quark-tol 1e-40",
        "lqcd multishift a.lat --mass 0.1 --shifts 0 --tol 1e-40",
    ] {
        let ran =
            run(here, &line.split(' ').collect::<Vec<_>>()).expect(5).says("it does not decrease further");
        assert!(!ran.stderr.contains("--max-steps"), "{ran:#?}");
    }
    run(here, &["lqcd", "info", "none.lat"]).expect(2).says("none.lat");
    assert_eq!(left(here), ["a.lat", "broken.lat", "r.json", "short.lat"].map(PathBuf::from));
}

/// A written propagator is the source of another run; packed ones are smaller.
#[test]
fn propagators_are_written_and_are_sources() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &words("lqcd generate --size 4 --beta 5.7 --trajectories 2 -o a.lat"));
    let made = ok(here, &words("lqcd invert a.lat --mass 0.3 -o p.lime --json -"));
    assert_eq!(result(&made)["written"].as_str(), Some("p.lime"));
    ok(here, &words("lqcd invert a.lat --mass 0.3 -o q.lime --vectors int20"));
    let size = |name: &str| fs::metadata(here.join(name)).unwrap().len();
    assert!(2 * size("q.lime") < size("p.lime"));
    let again = ok(here, &words("lqcd invert a.lat --mass 0.3 --source-fields q.lime --json -"));
    let again = result(&again);
    assert_eq!(
        (again["source"].as_str(), again["iterations"].as_array().map(Vec::len)),
        (Some("q.lime"), Some(3))
    );
    let wilson =
        ok(here, &words("lqcd invert a.lat --action wilson --mass -0.3 --method bicgstabl:2 --json -"));
    assert_eq!(result(&wilson)["kappa"].as_f64(), Some(1.0 / 7.4));
    ok(here, &words("lqcd dslash --size 4 --action wilson --precision double --repeats 1"));
    let other = run(here, &words("lqcd invert a.lat --action wilson --source-fields p.lime"));
    assert_eq!(other.code, Some(2));
    assert!(other.stderr.contains("12"), "{}", other.stderr);
    assert_eq!(left(here).len(), 3);
}
