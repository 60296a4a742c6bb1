//! `zellige psa crystal`, `simulate` and `events`.

mod common;

use common::run;

#[test]
fn a_crystal_is_printed_edited_simulated_and_hit() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let ok = |args: &[&str]| {
        let ran = run(here, args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.stderr);
        ran.stdout
    };
    let printed = ok(&["psa", "crystal"]);
    let tenths = [
        ("length = 90.0", "length = 18.0"),
        ("radius = 40.0", "radius = 9.0"),
        ("bore_radius = 5.0", "bore_radius = 2.0"),
        ("bore_start = 13.0", "bore_start = 4.0"),
        ("rings = [8.0, 13.0, 15.0, 18.0, 18.0, 18.0]", "rings = [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]"),
        ("bias = 5000.0", "bias = 400.0"),
    ];
    let mut edited =
        printed.lines().filter(|line| !line.starts_with("corners")).collect::<Vec<_>>().join("\n");
    for (from, to) in tenths {
        assert!(edited.contains(from), "{from}");
        edited = edited.replacen(from, to, 1);
    }
    std::fs::write(here.join("mine.toml"), edited).unwrap();
    let said = ok(&["psa", "simulate", "--crystal", "mine.toml", "-o", "basis", "--values", "i16"]);
    assert!(said.contains("every charge is settled") && !said.contains("warning"), "{said}");
    for file in
        ["basis.toml", "positions.npy", "segments.npy", "signals.npy", "potential.npy", "weighting.npy"]
    {
        assert!(here.join("basis").join(file).exists(), "{file}");
    }
    let events = ["psa", "events", "--basis", "basis", "-n", "50", "--seed", "3", "--hits", "2"];
    ok(&[&events[..], &["--workers", "1", "-o", "one"]].concat());
    ok(&[&events[..], &["--workers", "3", "-o", "three"]].concat());
    let signals = |folder: &str| std::fs::read(here.join(folder).join("signals.npy")).unwrap();
    assert_eq!(signals("one"), signals("three"));
    let said = ok(&["psa", "simulate", "--crystal", "mine.toml", "--step", "3", "--agata", "basis.dat"]);
    assert!(said.contains("basis.dat"));
    assert_eq!(std::fs::metadata(here.join("basis.dat")).unwrap().len() % 17_932, 0);
    ok(&["psa", "simulate", "--crystal", "mine.toml", "--step", "3", "--gretina", "gretina.dat"]);
    assert!(
        std::fs::read(here.join("gretina.dat")).unwrap().starts_with(b"GRETA basis signals; Cylindrical")
    );
    // Too little to sweep the charge out.
    let said =
        ok(&["psa", "simulate", "--crystal", "mine.toml", "--bias", "10", "--step", "4", "-o", "weak"]);
    assert!(said.contains("do not deplete"), "{said}");

    let refused = |args: &[&str], code: i32, words: &str| {
        let ran = run(here, args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
    };
    refused(&["psa", "simulate", "--crystal", "none.toml", "-o", "x"], 1, "none.toml");
    refused(&["psa", "simulate", "--grid", "0", "-o", "x"], 2, "grid");
    refused(&["psa", "events", "--basis", "one", "-o", "x"], 2, "holds no basis");
    refused(&["psa", "events", "--basis", "basis", "--energy", "7:3", "-o", "x"], 2, "uniform:15:5000");
}
