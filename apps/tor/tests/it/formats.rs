//! Parameter files of other programs. The values read are compared with those that another program
//! computed from the same files, and the messages of refusals are checked.

use crate::common::close;
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zellige_tests::data;
use zellige_tor::params::{self, Input, Mode, parse, parse_compass, parse_yaml, read};
use zellige_tor::system::{CellMap, InfluenceFunctions, MirrorModel, NoiseModel, StarKind, Valid};
use zellige_tor::{Covariance, Error, Kind, dm, evaluate, reference};

fn file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("not a number: {v}"))
}

/// Checks that the message of a refusal contains all of `parts`.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "'{message}' does not say '{part}'");
    }
}

#[test]
fn covariances_of_three_formats() {
    let all: Value = serde_json::from_str(&text("formats.json")).unwrap();
    for (name, path) in [("oblique", "oblique.yaml"), ("circle", "circle.yaml"), ("ltao", "ltao.py")] {
        let wanted = &all[name];
        let input = read(&file(path), None, Mode::Strict).unwrap();
        let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
        assert_eq!(Some(cov.measurements() as u64), wanted["measurements"].as_u64(), "{name}");
        assert_eq!(Some(cov.truth_slopes() as u64), wanted["truth_slopes"].as_u64(), "{name}");
        close("r0", input.atmosphere.r0(), number(&wanted["r0"]), 1e-12);
        let cmm = cov.matrix(Kind::Cmm).unwrap();
        close("trace of Cmm", cmm.trace(), number(&wanted["trace_cmm"]), 1e-9);
        close("norm of Cmm", cmm.norm(), number(&wanted["norm_cmm"]), 1e-9);
        close("trace of Ctt", cov.matrix(Kind::Ctt).unwrap().trace(), number(&wanted["trace_ctt"]), 1e-9);
        let targets = wanted["targets"].as_array().unwrap();
        assert_eq!(cov.targets(), targets.len(), "{name}");
        for (t, target) in targets.iter().enumerate() {
            close("norm of Ctm", cov.matrix(Kind::Ctm(t)).unwrap().norm(), number(&target["norm_ctm"]), 1e-9);
            let r = reference::reconstruct(&cov, t).unwrap();
            let cee = evaluate::cee(&cov, t, &r).unwrap();
            close("trace of Cee", cee.trace(), number(&target["trace_cee"]), 1e-6);
        }
    }
}

#[test]
fn compass_says_what_it_assumes() {
    let input = read(&file("ltao.py"), None, Mode::Strict).unwrap();
    let warnings: Vec<String> = input.warnings.iter().map(ToString::to_string).collect();
    for part in ["lgs_cst", "sodium_depth", "1 of 5 sensors are not read"] {
        assert!(warnings.iter().any(|w| w.contains(part)), "{part}: {warnings:?}");
    }
    assert_eq!(input.system.stars[1].kind, StarKind::Lgs);
    assert_eq!(input.system.stars[1].launcher, Some([1.5, -3.0]));
    assert_eq!(input.system.targets, [[3.0, -4.0]]);
    assert_eq!(input.system.mirror, MirrorModel::Gaussian { coupling: 0.3, actuators: None });
    close("wavelength", input.system.wavelength, 1.65e-6, 1e-12);
}

fn compass(find: &str, replacement: &str) -> Result<Input, Error> {
    let original = text("ltao.py");
    assert!(original.contains(find), "{find}");
    parse(Path::new("a.py"), &original.replacen(find, replacement, 1), None, Mode::Lenient)
}

#[test]
fn what_would_have_to_run_is_named_with_its_line() {
    for (find, replacement, parts) in [
        (
            "NX = 2 * 5",
            "for i in range(3):\n    NX = i",
            &["a.py:5:", "'for' is not supported", "executes nothing"][..],
        ),
        ("NX = 2 * 5", "NX = open('x')", &["a.py:5:", "open() is not supported"]),
        ("NX = 2 * 5", "NX = np.arange(3)", &["a.py:5:", "arange() is not supported"]),
        ("NX = 2 * 5", "__import__('os').system('true')", &["a.py:5:", "'__import__' was not set"]),
        ("NX = 2 * 5", "    NX = 3", &["a.py:5:", "indented"]),
        ("NX = 2 * 5", "NX = 1 / 0", &["a.py:5:", "not a finite number"]),
        ("NX = 2 * 5", "NX = unknown + 1", &["a.py:5:", "'unknown' was not set"]),
        ("NX = 2 * 5", "NX = [1, 2", &["a.py:5:", "never closed"]),
        ("NX = 2 * 5", "NX = 5 if True else 3", &["a.py:5:", "'if' after the statement"]),
        ("NX = 2 * 5", "NX = [0] * 1000000000", &["a.py:5:", "times 1000000000"]),
        ("NX = 2 * 5", "NX = 3; NX += 1", &["a.py:5:", "'+='"]),
        ("NX = 2 * 5", "NX = 'a", &["a.py:5:", "not closed on its line"]),
        ("NX = 2 * 5", "NX = p.x", &["a.py:5:", "'p' was not set"]),
        ("p_tel.set_diam(8.0)", "p_tel.set_diam('8')", &["telescope.diameter", "not a number"]),
        ("p_tel.set_diam(8.0)", "p_tel.set_diam(-8)", &["a.py:16:", "p_tel.diam", "-8.0 is not allowed"]),
        ("p_tel.set_diam(8.0)", "", &["a.py:15:", "p_tel.set_diam() is not set"]),
        ("p_wfs2.set_type(\"sh\")", "p_wfs2.set_type(\"pyrhr\")", &["'pyrhr'", "Shack-Hartmann"]),
        ("p_wfs3.set_pixsize(0.3)", "p_wfs3.set_pixsize(0.4)", &["pixsize is 0.4", "share"]),
        ("set_frac([0.6, 0.25, 0.15])", "set_frac([0.6, 0.4])", &["a.py", "3 values for 2 layers"]),
        ("set_frac([0.6, 0.25, 0.15])", "set_frac([0.6, 0.5, -0.1])", &["negative strength"]),
        ("set_nwfs([0, 1, 2, 3])", "set_nwfs([0, 7])", &["of 5 in p_wfss"]),
        ("p_wfs3.set_fracsub(0.7)", "p_wfs3.set_fracsub(0.5)", &["0.7 and 0.5", "one threshold"]),
    ] {
        refused(compass(find, replacement), parts);
    }
    // The limit on nesting applies before the stack overflows, and that on doubling before memory
    // is exhausted.
    let deep = format!("x = {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    refused(parse_compass(Path::new("a.py"), &deep), &["a.py:1:", "nested more than"]);
    refused(
        parse_compass(Path::new("a.py"), &format!("x = {}1", "-".repeat(100_000))),
        &["nested more than"],
    );
    let doubled = format!("x = [1]\n{}", "x = x + x\n".repeat(64));
    refused(parse_compass(Path::new("a.py"), &doubled), &["elements together"]);
    refused(read(&file("oblique.yaml"), Some(&file("ltao.py")), Mode::Lenient), &["ltao.py", "whole system"]);
    // A system without any noise is valid.
    let silent = text("ltao.py").replace("set_noise(3.)", "set_noise(-1)");
    let input = parse(Path::new("a.py"), &silent, None, Mode::Lenient).unwrap();
    assert_eq!(input.system.noise, NoiseModel::Uniform { variance: 0.0 });
}

fn yaml(name: &str, find: &str, replacement: &str) -> Result<Input, Error> {
    let original = text(name);
    assert!(original.contains(find), "{find}");
    parse(Path::new("a.yaml"), &original.replacen(find, replacement, 1), None, Mode::Lenient)
}

#[test]
fn refusals_of_yaml_name_key_and_line() {
    for (name, find, replacement, parts) in [
        ("oblique.yaml", "nssp: 8", "nssp: 8.5", &["a.yaml", "invalid type"][..]),
        ("oblique.yaml", "nssp: 8", "nsssp: 8", &["a.yaml", "nsssp"]),
        ("oblique.yaml", "nssp: 8", "nssp: 1000", &["a.yaml:4:", "sensors.nssp", "256"]),
        ("oblique.yaml", "nssp: 8", "nssp: 8\n  nssp: 9", &["a.yaml:5:", "given twice"]),
        ("oblique.yaml", "nssp: 8", "nssp: !!int 8", &["a.yaml:4:", "a tag"]),
        ("oblique.yaml", "nssp: 8", "nssp: *a", &["a.yaml"]),
        ("oblique.yaml", "nssp: 8", "nssp: '8'", &["a.yaml", "invalid type"]),
        ("circle.yaml", "iNoiseVar: 5e13", "alpha: -1", &["a.yaml:", "alpha is -1"]),
        ("circle.yaml", "iNoiseVar: 5e13", "iNoiseVar: 0", &["iNoiseVar is 0", "above 0"]),
        ("oblique.yaml", "nssp: 8", "nssp: [8", &["a.yaml"]),
        ("oblique.yaml", "zenith_angle: 40.0", "zenith_angle: 89", &["a.yaml:2:", "telescope.zenith_angle"]),
        ("oblique.yaml", "illumination: 0.55", "illumination: 1.55", &["a.yaml:6:", "sensors.illumination"]),
        ("oblique.yaml", "magnitude: 11.0", "magnitude: 99", &["a.yaml:9:", "guide_star[1].magnitude"]),
        ("oblique.yaml", "coupling: 0.3", "coupling: 1.3", &["a.yaml:26:", "mirror.coupling"]),
        ("oblique.yaml", "telescope:", "--- {}\n--- {}\ntelescope:", &["a.yaml"]),
        ("circle.yaml", "nLenslet: 6", "nLenslet: 7", &["a.yaml:3:", "7 sub-apertures across", "map of 6"]),
        ("circle.yaml", "[1, 1, 0, 0, 1, 1]", "[1, 2, 0, 0, 1, 1]", &["a.yaml:7:", "2 in a map"]),
        (
            "circle.yaml",
            "[1, 1, 0, 0, 1, 1]",
            "[1, 0, 0, 1, 1]",
            &["a.yaml:7:", "row 3 of the map has 5 cells"],
        ),
        ("circle.yaml", "dmPitch: [0.8333]", "dmPitch: [0.5]", &["mirror.pitch", "--influence"]),
        ("circle.yaml", "dmHeights: [0.0]", "dmHeights: [0.0, 6000]", &["mirror.altitude", "one mirror"]),
        ("circle.yaml", "nActuators: [7]", "nActuators: [8]", &["nActuators is [8.0]", "map has 7"]),
        ("circle.yaml", "nLayer: 2", "nLayer: 3", &["2 values, but nLayer is 3"]),
        ("circle.yaml", "iNoiseVar: 5e13", "iNoiseVar: none", &["iNoiseVar is missing, or not a number"]),
        ("circle.yaml", "fractionnalR0: [0.7, 0.3]", "fractionnalR0: [1.7, -0.7]", &["negative strength"]),
    ] {
        refused(yaml(name, find, replacement), parts);
    }
    let deep = "[".repeat(100_000);
    refused(parse_yaml(Path::new("a.yaml"), &deep), &["a.yaml"]);
    refused(parse_yaml(Path::new("a.yaml"), ""), &["a.yaml:1:", "the document is empty"]);
}

/// Compares with pyTomoAO 2.0.0 itself (`pytomoao.py` computed the numbers).
#[test]
fn agreement_with_pytomoao() {
    let theirs: Value = serde_json::from_str(&text("pytomoao.json")).unwrap();
    let list = |key: &str| -> Vec<f64> { theirs[key].as_array().unwrap().iter().map(number).collect() };
    let pairs = |key: &str| -> Vec<[f64; 2]> {
        theirs[key].as_array().unwrap().iter().map(|pair| [number(&pair[0]), number(&pair[1])]).collect()
    };
    let mut input = yaml("circle.yaml", "iNoiseVar: 5e13", "alpha: 10").unwrap();
    let system = &input.system;
    close("r0", input.atmosphere.r0(), number(&theirs["r0"]), 1e-12);
    for (layer, altitude) in input.atmosphere.layers.iter().zip(list("altitudes")) {
        close("altitude", layer.altitude, altitude, 1e-12);
    }
    close(
        "altitude of stars",
        1.0 / system.stars[0].inverse_altitude,
        number(&theirs["star_altitude"]),
        1e-12,
    );
    // pyTomoAO's directions are tangents: a difference of 2e-6 at 17 arcsec, with its own radian.
    let near = |what: &str, ours: [f64; 2], theirs: [f64; 2]| {
        assert!(ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 3e-5), "{what}: {ours:?} {theirs:?}");
    };
    pairs("stars").iter().zip(&system.stars).for_each(|(b, star)| near("star", star.direction, *b));
    pairs("targets").iter().zip(&system.targets).for_each(|(b, target)| near("target", *target, *b));
    let padded = number(&theirs["padded_diameter"]);
    close("offset", -system.stars[0].pupil_shift[0], 0.01 * padded, 1e-12);
    let NoiseModel::Uniform { variance } = system.noise else { panic!("uniform noise") };
    close("noise", variance, number(&theirs["noise"]), 1e-5);
    // pyTomoAO's radian is not 206265 arcsec, and its directions are tangents. Its Bessel function
    // has an error of 4e-8 of the variance of phases.
    input.system.noise = NoiseModel::Uniform { variance: 0.0 };
    let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
    let count = theirs["subapertures"].as_u64().unwrap() as usize;
    assert_eq!((cov.truth_slopes(), cov.measurements()), (2 * count, 2 * count * system_stars(&input)));
    assert_eq!(list("reconstructor")[1], cov.measurements() as f64);
    let cmm = cov.matrix(Kind::Cmm).unwrap();
    close("norm of Cmm", cmm.norm(), number(&theirs["norm_middles"]), 1e-5);
    close("trace of Cmm", cmm.trace(), number(&theirs["trace_middles"]), 1e-5);
    // pyTomoAO averages phases along an edge, which reduces the norm by 4 %.
    close("their slopes", number(&theirs["norm_averaged"]) / cmm.norm(), 0.962, 1e-3);
    let largest = cmm.max_abs();
    let entries = |key: &str, ours: &zellige_tor::Matrix| {
        for entry in theirs[key].as_array().unwrap() {
            let [i, j] = [0, 1].map(|k| entry[k].as_u64().unwrap() as usize);
            let difference = (ours[(i, j)] - number(&entry[2])).abs();
            assert!(difference < 1e-5 * largest, "{key} ({i}, {j}): {} {}", ours[(i, j)], entry[2]);
        }
    };
    entries("entries_middles", &cmm);
    for (target, norm) in list("norm_cross_middles").iter().enumerate() {
        close("norm of Ctm", cov.matrix(Kind::Ctm(target)).unwrap().norm(), *norm, 1e-5);
    }
    entries("cross_middles", &cov.matrix(Kind::Ctm(1)).unwrap());
}

fn system_stars(input: &Input) -> usize {
    input.system.stars.len()
}

/// Other spellings that PyYAML and pyTomoAO treat as equal.
#[test]
fn other_spellings_of_yaml() {
    let plain = read(&file("circle.yaml"), None, Mode::Strict).unwrap();
    let same = |input: Input| {
        assert_eq!(input.system, plain.system);
        assert_eq!(input.atmosphere, plain.atmosphere);
        input
    };
    for (find, replacement) in [
        ("iNoiseVar: 5e13", "iNoiseVar: '5e13'"),
        ("[1, 1, 0, 0, 1, 1]", "[true, true, false, False, TRUE, 1]"),
        ("altitude: [0.5, 9]", "altitude: ['0.5', 9.0]"),
        ("L0: 28", "L0: &outer 28\n  spare: *outer"),
        ("    - [1, 1, 0, 0, 1, 1]\n    - [1, 1, 0, 0, 1, 1]", "    - &row [1, 1, 0, 0, 1, 1]\n    - *row"),
        ("  windDirection: [10, 90]", "  <<: {L0: 77, windDirection: [10, 90]}"),
        ("lgs_asterism:\n  radiusAst", "lgs_asterism: &stars\n  radiusAst"),
    ] {
        same(yaml("circle.yaml", find, replacement).unwrap());
    }
    let level = |input: &Input| {
        let NoiseModel::Uniform { variance } = input.system.noise else { panic!("uniform noise") };
        variance
    };
    let said = |input: &Input, words: &str| {
        assert!(input.warnings.iter().any(|w| w.message.contains(words)), "{words}: {:?}", input.warnings);
    };
    said(&plain, "pyTomoAO never reads it, its noise is 10 times the mean variance of a slope, 2.7668e-1");
    said(&plain, "0.1 times in 1.0.1, 2.7668e-3");
    said(&plain, "1.0.1 multiplies them by 180 / pi");
    said(&plain, "padded diameter 8.3333 m");
    // Without a noise entry, pyTomoAO's default applies.
    let ten = level(&yaml("circle.yaml", "iNoiseVar: 5e13", "alpha: 10").unwrap());
    for replacement in
        ["", "noise_parameters:\n", "noise_parameters: null\n", "noise_parameters: {iNoiseVar: null}\n"]
    {
        let input = yaml("circle.yaml", "noise_parameters:\n  iNoiseVar: 5e13\n", replacement).unwrap();
        assert_eq!(level(&input), ten);
        said(&input, "not given: the noise of pyTomoAO 2.0.0, 10 times");
    }
    let older = yaml("circle.yaml", "iNoiseVar: 5e13", "iNoiseVar: 5e13\n  alpha: '0.1'").unwrap();
    close("a hundredth", level(&older), ten / 100.0, 1e-12);
    assert!(older.warnings.iter().all(|w| !w.message.contains("never reads")));
    let without = "  wfsLensletsRotation: [0, 0.05, 0]\n  wfsLensletsOffset:\n    - [0.01, 0, -0.02]\n    - [0.0, 0.015, 0.0]\n";
    let input = yaml("circle.yaml", without, "  wfsLensletsRotation: null\n  wfsLensletsOffset:\n").unwrap();
    assert!(input.system.stars.iter().all(|star| star.rotation == 0.0 && star.pupil_shift == [0.0; 2]));
    // The limit on values applies before nested aliases exhaust the memory.
    let mut bomb = String::from("a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1]\n");
    for k in 1..12 {
        let row = vec![format!("*a{}", k - 1); 8].join(", ");
        bomb.push_str(&format!("a{k}: &a{k} [{row}]\n"));
    }
    refused(parse_yaml(Path::new("a.yaml"), &bomb), &["a.yaml:", "more than 1048576 values"]);
    // A single outer scale applies to all layers of a text profile.
    let profile = "Nlayer\n2\nr0\n0.2146\ncn2\n9 4\nh in m\n100 7000\nL0\n25\n";
    let (atmosphere, _) = params::parse_atmosphere(Path::new("p.txt"), profile).unwrap();
    assert_eq!(atmosphere.layers[1].outer_scale, 25.0);
}

#[test]
fn systems_of_other_programs_are_named() {
    for (name, content, words) in [
        (
            "conf.yaml",
            "simName: sh\nloopTime: 0.002\nAtmosphere:\n  scrnNum: 1\n  scrnHeights: [0]\n  r0: 0.16\nTelescope:\n  telDiam: 8.\nWFS:\n  0:\n    GSPosition: [0, 0]\n    nxSubaps: 8\n",
            &["conf.yaml", "a configuration of soapy", "telDiam"][..],
        ),
        (
            "scao.yml",
            "main:\n  class: 'SimulParams'\n  pixel_pupil: 160\n  pixel_pitch: 0.05\natmo:\n  class: 'AtmoEvolution'\n  L0: 40\n",
            &["scao.yml", "a simulation of SPECULA", "pixel_pitch"],
        ),
        (
            "parameters.py",
            "def initializeParameterFile():\n    param = dict()\n    param['r0'] = 0.13\n    param['windSpeed'] = [10]\n    param['diameter'] = 8\n    param['nSubaperture'] = 20\n    return param\n",
            &["parameters.py", "parameters of OOPAO", "nSubaperture"],
        ),
        (
            "run.ini",
            "[telescope]\nTelescopeDiameter = 8.\nObscurationRatio = 0.14\n\n[atmosphere]\nSeeing = 0.6\n\n[sources_science]\nZenith = [0.0]\n",
            &["run.ini", "parameters of TIPTOP", "TelescopeDiameter"],
        ),
    ] {
        refused(parse(Path::new(name), content, None, Mode::Lenient), words);
        refused(
            parse(
                &file("oblique.yaml"),
                &text("oblique.yaml"),
                Some((Path::new(name), content)),
                Mode::Lenient,
            ),
            &words[..2],
        );
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, card, words) in
        [("aot.fits", "AOT-VERS= '2.0.0'", "an AOT file"), ("x.yaml", "BITPIX  = 8", "a FITS file")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{:<80}{card:<80}{:<80}", "SIMPLE  =                    T", "END"))
            .unwrap();
        refused(read(&path, None, Mode::Lenient), &[name, words, "tor eval"]);
    }
}

/// Sensors that rotate as a whole are equivalent to a telescope that is rotated with all of its
/// stars.
#[test]
fn slopes_turn_with_their_sensor() {
    let (mut system, atmosphere) = crate::common::laser_and_star();
    let straight = Covariance::new(&system, &atmosphere).unwrap().matrix(Kind::Cmm).unwrap();
    let (sin, cos) = 25f64.to_radians().sin_cos();
    for star in &mut system.stars {
        let [x, y] = star.direction;
        star.direction = [cos * x - sin * y, sin * x + cos * y];
        (star.rotation, star.slopes_turn) = (25.0, true);
    }
    let turned = Covariance::new(&system, &atmosphere).unwrap().matrix(Kind::Cmm).unwrap();
    let difference = |a: &zellige_tor::Matrix| {
        straight.data().iter().zip(a.data()).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    };
    assert!(difference(&turned) < 1e-10, "{:e}", difference(&turned));
    system.stars.iter_mut().for_each(|star| star.slopes_turn = false);
    let positions = Covariance::new(&system, &atmosphere).unwrap().matrix(Kind::Cmm).unwrap();
    assert!(difference(&positions) > 1e-3);
}

#[test]
fn zenith_angle_of_a_profile_beside_the_system() {
    let within = read(&file("oblique.yaml"), None, Mode::Strict).unwrap();
    let profile = "atmosphere: {cn2: [9.0, 4.0], altitude: [100.0, 7000.0], outer_scale: 25.0}\n";
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("p.yaml", profile.to_owned()),
        ("p.toml", "[atmosphere]\ncn2 = [9, 4]\naltitude = [100, 7000]\nouter_scale = 25\n".to_owned()),
        ("p.txt", "Nlayer\n2\nr0\n0.2146\ncn2\n9 4\nh in m\n100 7000\nL0\n25 25\n".to_owned()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let beside = read(&file("oblique.yaml"), Some(&path), Mode::Lenient).unwrap();
        assert_eq!(beside.atmosphere, within.atmosphere, "{name}");
    }
}

#[test]
fn maps_and_thresholds() {
    let demo = |more: &str| {
        let text = params::EXAMPLE.replace("[sensors]", &format!("[sensors]\n{more}"));
        parse(Path::new("a.toml"), &text, None, Mode::Strict)
    };
    let centre = demo("").unwrap();
    let count = |input: &Input| Covariance::new(&input.system, &input.atmosphere).unwrap().truth_slopes() / 2;
    // The same cells as a map, as text and as rows.
    let grid = Covariance::new(&centre.system, &centre.atmosphere).unwrap().geometry().truth().clone();
    let holds = |x: usize, y: usize| grid.cells.contains(&[x as u16, y as u16]);
    let row = |y: usize| (0..16).map(|x| if holds(x, y) { "1" } else { "0" }).collect::<Vec<_>>();
    let lines: Vec<String> = (0..16).map(|y| row(y).join(" ")).collect();
    let rows: Vec<String> = (0..16).map(|y| format!("[{}]", row(y).join(", "))).collect();
    let dense: Vec<String> = (0..16).map(|y| row(y).concat()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.txt");
    std::fs::write(&path, format!("# valid\n{}\n", dense.join("\n"))).unwrap();
    let from_file = params::read_map(&path).unwrap();
    // Masks of flags and of integers.
    let cells = || (0..256).map(|k| holds(k % 16, k / 16));
    let mask = folder.path().join("map.npy");
    let write = |values: &mut dyn Iterator<Item = i64>| {
        zellige_files::array::write(&mask, &[16, 16], values).unwrap()
    };
    zellige_files::array::write(&mask, &[16, 16], cells()).unwrap();
    assert_eq!(params::read_map(&mask).unwrap(), from_file);
    write(&mut cells().map(i64::from));
    assert_eq!(params::read_map(&mask).unwrap(), from_file);
    write(&mut cells().map(|cell| 255 * i64::from(cell)));
    assert_eq!(params::read_map(&mask).unwrap(), from_file);
    write(&mut cells().enumerate().map(|(k, cell)| i64::from(cell) + i64::from(k == 7)));
    refused(params::read_map(&mask), &["map.npy", "map of 0 and 1"]);
    for given in
        [format!("valid = \"\"\"\n{}\n\"\"\"", lines.join("\n")), format!("valid = [{}]", rows.join(","))]
    {
        let mapped = demo(&given).unwrap();
        assert_eq!(mapped.system.valid, Valid::Map(from_file.clone()));
        let geometry = Covariance::new(&mapped.system, &mapped.atmosphere).unwrap();
        assert_eq!(geometry.geometry().truth(), &grid);
    }
    let all = count(&demo("illumination = 1e-6").unwrap());
    let whole = count(&demo("illumination = 1.0").unwrap());
    assert!(all > count(&centre) && count(&centre) > whole && whole > 100, "{all} {whole}");
    refused(demo("illumination = 0.5\nvalid = [[1]]"), &["a.toml", "both"]);
    refused(demo("valid = \"0 1 x\""), &["sensors.valid", "'x' in line 1"]);
    refused(demo("valid = [[1, 1], [1, 1]]"), &["16 sub-apertures across, and a map of 2"]);
    assert!(CellMap::new(&[]).is_err() && CellMap::new(&[vec![false]]).is_err());
}

/// The influence functions of the Gaussian model, sampled finely, give the same evaluation by other
/// formulas.
#[test]
fn sampled_influence_functions_of_the_model() {
    let (mut system, atmosphere) = crate::common::laser_and_star();
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let cee = evaluate::cee(&cov, 0, &reference::reconstruct(&cov, 0).unwrap()).unwrap();
    let judged = |system: &zellige_tor::System| {
        let mirror = dm::DeformableMirror::new(system);
        let dx = dm::command_matrix(system, cov.geometry()).unwrap().dx;
        let cvv = evaluate::cvv(&dx, &cee).unwrap();
        let pupil = Arc::new(zellige_tor::image::Pupil::new(system, &mirror));
        let exact = zellige_tor::image::ExactStrehl::new(&pupil, &cvv).unwrap().run().unwrap();
        let residual = zellige_tor::image::residual(&pupil, &cvv).unwrap();
        (exact, residual, zellige_tor::image::psf(system, &mirror, &cvv).unwrap())
    };
    let (exact, residual, _) = judged(&system);
    let (model, across) = (dm::DeformableMirror::new(&system), 400);
    let at = |k: usize| (2.0 * k as f64 + 1.0) / across as f64 - 1.0;
    let mut values = Vec::new();
    for cell in &model.cells {
        let [ax, ay] = cell.map(|k| model.coordinate(k as usize));
        for y in 0..across {
            let along = dm::STROKE * model.profile(at(y) - ay);
            values.extend((0..across).map(|x| along * model.profile(at(x) - ax)));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("influence.fits");
    let scaled: Vec<f64> = values.iter().map(|v| v * 1e9).collect();
    let hdu = zellige_tor::files::fits::Hdu {
        name: "INFLUENCE".into(),
        pixels: zellige_tor::files::fits::Pixels::F64 {
            shape: vec![model.len(), across, across],
            values: &scaled,
        },
        axes: &[],
        cards: vec![zellige_tor::files::fits::Card::new("BUNIT", "nm/V", "")],
    };
    zellige_tor::files::fits::write(&path, &[hdu], &[]).unwrap();
    let functions = params::read_influence(&path).unwrap();
    assert_eq!(functions.actuators(), model.len());
    system.mirror = MirrorModel::Sampled(functions.into());
    let (exact_of_samples, of_samples, psf) = judged(&system);
    close("exact Strehl ratio", exact_of_samples, exact, 1e-3);
    close("rms", of_samples.wfe_nm, residual.wfe_nm, 1e-3);
    close("rms without piston", of_samples.wfe_nm_piston_removed, residual.wfe_nm_piston_removed, 1e-3);
    close("rms without tilt", of_samples.wfe_nm_ptt_removed, residual.wfe_nm_ptt_removed, 1e-3);
    // The structure function is averaged over the pupil before the exponential is taken. By
    // Jensen's inequality the image is not brighter than the exact one.
    assert!(psf.strehl <= exact * 1.001 && psf.strehl > 0.9 * exact, "{} {exact}", psf.strehl);
    assert_eq!(psf.contradiction, 0.0);
    close("peak", psf.image[psf.size / 2 * (psf.size + 1)], psf.strehl, 1e-9);
}

#[test]
fn influence_functions_that_are_none() {
    let functions = |n, across, values| InfluenceFunctions::new(n, across, values).unwrap_err();
    assert!(functions(0, 8, vec![]).contains("0 functions"));
    assert!(functions(1, 8, vec![0.0; 63]).contains("63 values"));
    assert!(functions(1, 4, vec![f64::NAN; 16]).contains("NaN of actuator 0"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    zellige_files::array::write(&path, &[2, 4, 5], (0..40).map(f64::from)).unwrap();
    refused(params::read_influence(&path), &["a.npy", "4 x 5 pixels"]);
}

/// Reads files of pyTomoAO itself.
#[test]
fn published_yaml_files() {
    for (name, n, m) in [
        ("tomography_config_kapa.yaml", 2432, 608),
        ("tomography_config_kapa_single_channel.yaml", 2432, 608),
    ] {
        let Some(path) = data(&format!("ao/pytomoao/{name}")) else { return };
        let input = read(&path, None, Mode::Strict).unwrap();
        // The number of measurements agrees with pyTomoAO's own timings.
        let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
        assert_eq!((cov.measurements(), cov.truth_slopes()), (n, m), "{name}");
        let MirrorModel::Gaussian { actuators: Some(map), .. } = &input.system.mirror else {
            panic!("a map")
        };
        assert_eq!(map.across(), 21);
    }
    let Some(path) = data("ao/tomoao/filtered_subap_mask.txt") else { return };
    assert_eq!(params::read_map(&path).unwrap().across(), 24);
}

proptest! {
    #![proptest_config(zellige_tests::cases(48))]

    /// Reading a file with any change ends without a panic.
    #[test]
    fn changed_files_are_read_or_refused(which in 0usize..3, at in 0.0f64..1.0, cut in 0usize..40, put in "[-+*/.,:()\\[\\]{}\"'#=&<!a0 \n]{0,8}") {
        let name = ["oblique.yaml", "circle.yaml", "ltao.py"][which];
        // The file also has anchors, aliases and merged tables.
        let original = text(name).replace("nActuators: [7]", "nActuators: &a [7]").replace("L0: 28", "<<: {L0: 28}\n  a: *a");
        let mut begin = (at * original.len() as f64) as usize;
        while !original.is_char_boundary(begin) { begin -= 1; }
        let mut end = (begin + cut).min(original.len());
        while !original.is_char_boundary(end) { end += 1; }
        let changed = format!("{}{put}{}", &original[..begin], &original[end..]);
        let _ = parse(Path::new(name), &changed, None, Mode::Lenient);
    }
}
