//! Every exit code and its message.

use crate::common::{folder, left, results, run, system, words};
use std::fs;

#[test]
fn success_is_0() {
    let folder = folder(4);
    let ran = run(folder.path(), &["tor", "info", "small.toml"]).expect(0);
    assert!(ran.stdout.contains("measurements") && ran.stdout.contains("tiles"), "{ran:#?}");
    let ran = run(folder.path(), &["machine", "show"]).expect(0);
    // The output names each CUDA library, installed or not.
    for name in ["CUDA driver", "cuBLAS", "cuBLASLt", "cuSOLVER", "NVRTC", "NVTX", "GPU"] {
        assert!(ran.stdout.lines().any(|line| line.starts_with(name)), "{name}: {ran:#?}");
    }
    run(folder.path(), &["--version"]).expect(0);
}

#[test]
fn help_teaches() {
    let folder = folder(4);
    let help = run(folder.path(), &["help", "tor", "run"]).expect(0).stdout;
    for part in words("hp1:operand=1e-2,else=x3 script:FILE Examples --on-not-spd lws prio eager cuda:0,2") {
        assert!(help.contains(part), "no {part} in\n{help}");
    }
    let top = run(folder.path(), &["--help"]).expect(0).stdout;
    assert!(top.contains("Exit codes") && top.contains("130"), "{top}");
    assert!(top.lines().count() <= 47, "more than a screen:\n{top}");
    // This page lists the options of every command by hand.
    for option in ["--help", "--version", "--config", "--log", "--oversubscribe", "--cuda-libs"] {
        assert!(top.contains(option), "no {option} in\n{top}");
    }
    // One tile: the rule has no product to lower.
    let said =
        run(folder.path(), &["tor", "run", "small.toml", "--precision", "hp1:band=2", "--tile", "4096"]);
    assert!(said.expect(0).stdout.contains("tiles are too few (--tile N)"));
    assert!(!help.contains('\u{1b}') && !top.contains('\u{1b}'), "colours in a pipe");
}

#[test]
fn usage_errors_are_2() {
    let folder = folder(4);
    for arguments in [
        &["tor", "run"][..],
        &["tor", "run", "small.toml", "--workers", "0"],
        &["tor", "run", "small.toml", "--tile", "0"],
        &["tor", "run", "small.toml", "--sched", "fastest"],
        &["tor", "run", "small.toml", "--target", "north"],
        &["tor", "run", "small.toml", "--device", "abacus"],
        &["tor", "run", "small.toml", "--device", "cuda:0,0"],
        &["tor", "run", "small.toml", "--device", "cuda", "--device-memory", "110%"],
        &["tor", "run", "small.toml", "--device", "cuda", "--logical-gpus", "0"],
        &["tor", "run", "small.toml", "--device-memory", "1GB"],
        &["tor", "build", "small.toml", "-o", "R.fits", "--logical-gpus", "2"],
        &["tor", "run", "small.toml", "--trace", "trace.txt"],
        &["tor", "run", "small.toml", "-o", "R.doc"],
        &["tor", "run", "small.toml", "--log", "a=b=c"],
        &["tor", "run", "small.toml", "--precision", "fp32", "--solve-precision", "fp64"],
        &["bench", "cholesky", "--format", "f16"],
        &["paint"],
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:#?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{arguments:?}: {ran:#?}");
    }
    assert!(left(folder.path()).is_empty());
}

#[test]
fn a_wrong_rule_names_its_position() {
    let folder = folder(4);
    run(folder.path(), &["tor", "run", "small.toml", "--precision", "hp1:bend=2"])
        .expect(2)
        .says("position 4")
        .says("band=TILES");
    run(folder.path(), &["tor", "run", "small.toml", "--precision", "hp7"]).expect(2).says("position 0");
    run(folder.path(), &["tor", "run", "small.toml", "--precision", "script:none.rhai"])
        .expect(2)
        .says("none.rhai");
    fs::write(folder.path().join("m.json"), "{\"format\": \"zellige precision map\", \"schema\": 1, \"edges\": [0, 4, 8], \"legend\": {\"s\": \"fp32\"}, \"factor\": [\".\", \"s.\"]}").unwrap();
    run(folder.path(), &["tor", "run", "small.toml", "--precision", "map:m.json", "--tile", "4096"])
        .expect(2)
        .says("2 tiles along a side (n = 8, --tile 4), and the matrix has 1")
        .says("change --tile");
}

#[test]
fn bad_parameter_files_are_2() {
    let folder = folder(4);
    let whole = system(4);
    let write = |text: &str| fs::write(folder.path().join("small.toml"), text).unwrap();
    let arguments = ["tor", "run", "small.toml", "--json", "x.json"];

    write(&whole[..whole.len() / 2]);
    run(folder.path(), &arguments).expect(2).says("small.toml");

    write(&whole.replace("diameter = 8.0", "diametre = 8.0"));
    run(folder.path(), &arguments).expect(2).says("small.toml:").says("diametre");

    write(&whole.replace("diameter = 8.0", "diameter = -8.0"));
    run(folder.path(), &arguments).expect(2).says("diameter");

    fs::write(folder.path().join("small.toml"), [0xff, 0xfe, 0x00]).unwrap();
    run(folder.path(), &arguments).expect(2).says("not a parameter file");

    // A truncated file of the other format.
    fs::write(folder.path().join("sys-params.txt"), "tel diam in meters\n8.0\n").unwrap();
    run(folder.path(), &["tor", "run", "sys-params.txt"]).expect(2).says("sys-params.txt");
    fs::remove_file(folder.path().join("sys-params.txt")).unwrap();
    assert!(left(folder.path()).is_empty());
}

#[test]
fn inputs_that_are_missing_or_broken_are_2() {
    let folder = folder(4);
    run(folder.path(), &["tor", "run", "absent.toml"]).expect(2).says("absent.toml");
    run(folder.path(), &["tor", "eval", "small.toml", "--rec", "absent.fits"]).expect(2).says("absent.fits");
    fs::write(folder.path().join("torn.fits"), "SIMPLE  =                    T").unwrap();
    run(folder.path(), &["tor", "loop", "small.toml", "--rec", "absent.fits"]).expect(2).says("absent.fits");
    let open = ["tor", "loop", "small.toml", "--mode", "open", "--gain", "0.5"];
    run(folder.path(), &open).expect(2).says("loop.gain");
    run(folder.path(), &["tor", "eval", "small.toml", "--rec", "torn.fits"]).expect(2).says("torn.fits");
    run(folder.path(), &["tor", "learn", "small.toml", "absent.npy"]).expect(2).says("absent.npy");
    run(folder.path(), &["tor", "learn", "small.toml", "torn.fits"]).expect(2).says("torn.fits");
}

#[test]
fn other_failures_are_1() {
    let folder = folder(4);
    run(folder.path(), &["tor", "run", "small.toml", "--json", "/dev/full"]).expect(1).says("/dev/full");
}

#[test]
fn a_rule_that_fails_alone_is_3_and_names_the_tile() {
    let folder = folder(6);
    let arguments = words("tor run small.toml --tile 20 --precision bf1 --json x.json -o R.fits");
    let ran =
        run(folder.path(), &arguments).expect(3).says("bf1").says("tile 9").says("try hp1:operand=1e-2");
    assert!(ran.stdout.contains("not positive definite at tile 9"), "{ran:#?}");
    let json = results(&fs::read_to_string(folder.path().join("x.json")).unwrap());
    assert_eq!(json[0]["not_spd"]["tile"], 9);
    assert_eq!(left(folder.path()), [std::path::Path::new("x.json")], "no reconstructor of a failed rule");

    let two = ["tor", "run", "small.toml", "--tile", "20", "--precision", "bf1", "--precision", "bf1:band=1"];
    run(folder.path(), &two).expect(3).says("no precision rule survived").says("bf1:band=1");
    let build = ["tor", "build", "small.toml", "--tile", "20", "--precision", "bf1", "-o", "R.fits"];
    run(folder.path(), &build).expect(3).says("tile 9");
}

#[test]
fn one_survivor_among_failures_is_0() {
    let folder = folder(6);
    let arguments = ["tor", "run", "small.toml", "--tile", "20", "--precision", "bf1", "--precision", "fp32"];
    let ran = run(folder.path(), &arguments).expect(0);
    assert!(ran.stdout.contains("not positive definite at tile 9"), "{ran:#?}");
    let retry = ["tor", "run", "small.toml", "--tile", "20", "--precision", "bf1", "--on-not-spd", "retry"];
    let ran = run(folder.path(), &retry).expect(0);
    assert!(ran.stdout.contains("after bf1, which was not positive definite"), "{ran:#?}");
}

/// MOAO's older layout, with comment and value on separate lines. One entry of `GsAlt`, that of the
/// truth sensor, is missing.
const OLD_LAYOUT: &str = "\
tel diam in meters\n8\ncent obs\n0.14\nN WFS\n4\nNssp n subaps per wfs\n4\nGsAlt\n1e-05 0 0\ntype\n2 1 1 1\nnlgs\n1\n\
alphaX in arcsec\n15 -25 10 0\nalphaY in arcsec\n5 -12 30 0\nXPup\n0 0 0.1 0\nYPup\n0 0 0 0\nthetaML\n0 0 0 0\n\
thetaCam\n0 0 0 0\nsensibilite\n1 1 1 1\ntracking\n0 0 0\npasDphi\n0.0001\nncpu\n12\nlgs_cst\n0.1\nnoise_var\n0.01\n\
spot_width arcsec\n1\nlgs_alt (m)\n100000\nlgs_depth (m)\n5000\n";

#[test]
fn a_repaired_parameter_warns_and_strict_refuses() {
    let folder = folder(4);
    fs::write(folder.path().join("sys-params.txt"), OLD_LAYOUT).unwrap();
    run(folder.path(), &["tor", "info", "sys-params.txt"]).expect(2).says("atmosphere");
    let profile = "[atmosphere]\nr0 = 0.13\ncn2 = [0.7, 0.3]\naltitude = [0.0, 5000.0]\nouter_scale = 25.0\n";
    fs::write(folder.path().join("atm.toml"), profile).unwrap();
    let mut arguments = vec!["tor", "run", "sys-params.txt", "--atm", "atm.toml", "--precision", "fp32"];
    let ran = run(folder.path(), &arguments).expect(0).says("warning: sys-params.txt:").says("GsAlt");
    assert!(ran.stdout.contains("fp32"), "{ran:#?}");
    arguments.push("--strict");
    run(folder.path(), &arguments).expect(2).says("sys-params.txt:").says("GsAlt");
}

#[test]
fn a_system_that_does_not_fit_is_refused_with_the_arithmetic_and_info_still_describes_it() {
    let folder = folder(250);
    run(folder.path(), &["tor", "run", "small.toml"]).expect(1).says("not enough memory").says("Cmm");
    let ran = run(folder.path(), &["tor", "info", "small.toml"]).expect(0).says("not enough memory");
    assert!(ran.stdout.contains("band of at least 2"), "{ran:#?}");
}
