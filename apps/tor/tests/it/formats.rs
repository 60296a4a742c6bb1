//! Parameter files of other programs: what is read from them against numbers that another program computed from the same files, and how
//! refusals read.

use crate::common::close;
use proptest::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use zellige_test_data::data;
use zellige_tor::params::{
    CellMap, Input, MirrorModel, Mode, NoiseModel, StarKind, Valid, parse, parse_compass, parse_yaml, read,
};
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

/// The message of a refusal must hold all of `parts`.
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
            &["a.py:5:", "'for' is not read", "executes nothing"][..],
        ),
        ("NX = 2 * 5", "NX = open('x')", &["a.py:5:", "open() is not read"]),
        ("NX = 2 * 5", "NX = np.arange(3)", &["a.py:5:", "arange() is not read"]),
        ("NX = 2 * 5", "__import__('os').system('true')", &["a.py:5:", "'__import__' was not set"]),
        ("NX = 2 * 5", "    NX = 3", &["a.py:5:", "indented"]),
        ("NX = 2 * 5", "NX = 1 / 0", &["a.py:5:", "not a finite number"]),
        ("NX = 2 * 5", "NX = unknown + 1", &["a.py:5:", "'unknown' was not set"]),
        ("NX = 2 * 5", "NX = [1, 2", &["a.py:5:", "never closed"]),
        ("NX = 2 * 5", "NX = 5 if True else 3", &["a.py:5:", "'if' behind the statement"]),
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
    // Nesting ends before the stack does, and doubling before memory does.
    let deep = format!("x = {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    refused(parse_compass(Path::new("a.py"), &deep), &["a.py:1:", "nested more than"]);
    refused(
        parse_compass(Path::new("a.py"), &format!("x = {}1", "-".repeat(100_000))),
        &["nested more than"],
    );
    let doubled = format!("x = [1]\n{}", "x = x + x\n".repeat(64));
    refused(parse_compass(Path::new("a.py"), &doubled), &["elements together"]);
    refused(read(&file("oblique.yaml"), Some(&file("ltao.py")), Mode::Lenient), &["ltao.py", "whole system"]);
    // No noise anywhere is a system without noise.
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
        ("oblique.yaml", "nssp: 8", "nssp: &a 8", &["a.yaml:4:", "an anchor"]),
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
        ("circle.yaml", "nLayer: 2", "nLayer: 3", &["2 values, nLayer is 3"]),
        ("circle.yaml", "iNoiseVar: 5e13", "iNoiseVar: none", &["iNoiseVar is missing, or not a number"]),
        ("circle.yaml", "fractionnalR0: [0.7, 0.3]", "fractionnalR0: [1.7, -0.7]", &["negative strength"]),
    ] {
        refused(yaml(name, find, replacement), parts);
    }
    let deep = "[".repeat(100_000);
    refused(parse_yaml(Path::new("a.yaml"), &deep), &["a.yaml"]);
    refused(parse_yaml(Path::new("a.yaml"), ""), &["a.yaml:1:", "nothing in it"]);
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
        let text = zellige_tor::params::EXAMPLE.replace("[sensors]", &format!("[sensors]\n{more}"));
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
    let from_file = zellige_tor::files::read_map(&path).unwrap();
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

/// Influence functions of the model's own mirror, sampled finely: the same judgement by other formulas.
#[test]
fn sampled_influence_functions_of_the_model() {
    let (mut system, atmosphere) = crate::common::laser_and_star();
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let cee = evaluate::cee(&cov, 0, &reference::reconstruct(&cov, 0).unwrap()).unwrap();
    let judged = |system: &zellige_tor::System| {
        let mirror = dm::Mirror::new(system);
        let dx = dm::command_matrix(system, cov.geometry()).unwrap().dx;
        let cvv = evaluate::cvv(&dx, &cee).unwrap();
        let exact = zellige_tor::image::ExactStrehl::new(system, &mirror, &cvv).unwrap().run().unwrap();
        let residual = zellige_tor::image::residual(system, &mirror, &cvv).unwrap();
        (exact, residual, zellige_tor::image::psf(system, &mirror, &cvv).unwrap())
    };
    let (exact, residual, _) = judged(&system);
    let (model, across) = (dm::Mirror::new(&system), 400);
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
    let functions = dm::InfluenceFunctions::read(&path).unwrap();
    assert_eq!(functions.actuators(), model.len());
    system.mirror = MirrorModel::Sampled(functions.into());
    let (exact_of_samples, of_samples, psf) = judged(&system);
    close("exact Strehl ratio", exact_of_samples, exact, 1e-3);
    close("rms", of_samples.wfe_nm, residual.wfe_nm, 1e-3);
    close("rms without piston", of_samples.wfe_nm_piston_removed, residual.wfe_nm_piston_removed, 1e-3);
    close("rms without tilt", of_samples.wfe_nm_ptt_removed, residual.wfe_nm_ptt_removed, 1e-3);
    // The structure function is averaged over the pupil before the exponential is taken: by Jensen the image is not brighter than the exact one.
    assert!(psf.strehl <= exact * 1.001 && psf.strehl > 0.9 * exact, "{} {exact}", psf.strehl);
    assert_eq!(psf.contradiction, 0.0);
    close("peak", psf.image[psf.size / 2 * (psf.size + 1)], psf.strehl, 1e-9);
}

#[test]
fn influence_functions_that_are_none() {
    let functions = |n, across, values| dm::InfluenceFunctions::new(n, across, values).unwrap_err();
    assert!(functions(0, 8, vec![]).contains("0 functions"));
    assert!(functions(1, 8, vec![0.0; 63]).contains("63 values"));
    assert!(functions(1, 4, vec![f64::NAN; 16]).contains("NaN of actuator 0"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    zellige_files::array::write(&path, &[2, 4, 5], (0..40).map(f64::from)).unwrap();
    refused(dm::InfluenceFunctions::read(&path), &["a.npy", "4 x 5 pixels"]);
}

/// Files of pyTomoAO itself.
#[test]
fn published_yaml_files() {
    for (name, n, m) in [
        ("tomography_config_kapa.yaml", 2432, 608),
        ("tomography_config_kapa_single_channel.yaml", 2432, 608),
    ] {
        let Some(path) = data(&format!("ao/pytomoao/{name}")) else { return };
        let input = read(&path, None, Mode::Strict).unwrap();
        // As many measurements as its own timings say.
        let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
        assert_eq!((cov.measurements(), cov.truth_slopes()), (n, m), "{name}");
        let MirrorModel::Gaussian { actuators: Some(map), .. } = &input.system.mirror else {
            panic!("a map")
        };
        assert_eq!(map.across(), 21);
    }
    let Some(path) = data("ao/tomoao/filtered_subap_mask.txt") else { return };
    assert_eq!(zellige_tor::files::read_map(&path).unwrap().across(), 24);
}

proptest! {
    #![proptest_config(zellige_test_scale::cases(48))]

    /// Whatever is changed in a file, reading it ends without a panic.
    #[test]
    fn changed_files_are_read_or_refused(which in 0usize..3, at in 0.0f64..1.0, cut in 0usize..40, put in "[-+*/.,:()\\[\\]{}\"'#=a0 \n]{0,8}") {
        let name = ["oblique.yaml", "circle.yaml", "ltao.py"][which];
        let original = text(name);
        let mut begin = (at * original.len() as f64) as usize;
        while !original.is_char_boundary(begin) { begin -= 1; }
        let mut end = (begin + cut).min(original.len());
        while !original.is_char_boundary(end) { end += 1; }
        let changed = format!("{}{put}{}", &original[..begin], &original[end..]);
        let _ = parse(Path::new(name), &changed, None, Mode::Lenient);
    }
}
