//! Parameter readers: accepted, repaired and refused files, and the messages of refusals.

use proptest::prelude::*;
use std::path::Path;
use zellige_tor::Error;
use zellige_tor::params::{CHECK_SYSTEM, Input, Mode, parse, parse_atmosphere, parse_system, read};
use zellige_tor::pipeline::info;
use zellige_tor::system::{NoiseModel, StarKind};

const DEMO: &str = include_str!("../../systems/demo.toml");

/// Returns a small system in MOAO's current layout: (comment, value) pairs.
fn current() -> Vec<(&'static str, &'static str)> {
    vec![
        ("tel diam in meters", "8"),
        ("cent obs", "0.14"),
        ("Tframe s", "0.004"),
        ("N WFS", "4"),
        ("nlgs", "1"),
        ("nTarget", "2"),
        ("Nssp n subaps per wfs", "8"),
        ("GsAlt", "1e-05 0 0 0"),
        ("type", "2 1 1 1"),
        ("alphaX in arcsec", "15 -25 10 0"),
        ("alphaY in arcsec", "5 -12 30 0"),
        ("XPup", "0 0 0.1 0"),
        ("YPup", "0 0 0 0"),
        ("thetaML", "0 0 0 0"),
        ("thetaCam", "0 0 0 0"),
        ("sensibilite", "1 1 1 1"),
        ("tracking", "0 0 0"),
        ("pasDphi", "0.0001"),
        ("ncpu", "12"),
        ("magnitude of NGS", "13. 12.5 13."),
        ("Flux for LGS", "6e7"),
        ("pixel size for ngs", "0.3"),
        ("pixel size for lgs", "1"),
        ("wave length for NGS (meters)", "650e-9"),
        ("wave length for LGS (meters)", "589e-9"),
        ("bandwidth", "3300e-10"),
        ("transmission for NGS", "0.425"),
        ("transmission for LGS", "0.382"),
        ("atmosphere transmission", "0.84"),
        ("Read Out Noise (nb of e-)", "3"),
        ("lgs_cst", "0.1"),
        ("spot_width arcsec", "1"),
        ("lgs_alt (m)", "100000"),
        ("lgs_depth (m)", "5000"),
        ("targetX in arcsec", "0 5"),
        ("targetY in arcsec", "0 -5"),
    ]
}

/// Returns the same system in the older layout.
fn old() -> Vec<(&'static str, &'static str)> {
    let c = current();
    let pick = |k: usize| c[k];
    [0, 1, 3, 6, 7, 8, 4, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 30]
        .into_iter()
        .map(pick)
        .chain([("noise_var", "0.01"), c[31], c[32], c[33]])
        .collect()
}

fn text(entries: &[(&str, &str)]) -> String {
    entries.iter().map(|(a, b)| format!("{a}\n{b}\n")).collect()
}

fn with(entry: usize, value: &'static str) -> String {
    let mut e = current();
    e[entry].1 = value;
    text(&e)
}

const PROFILE: &str = "Nlayer\n2\nr0 @ wfs lambda\n0.128916\ncn2 ESO units\n28.5115 1.88506  \nh in meters\n30 12500  \nl0 in meters\n25 25 ";

fn sys(t: &str, mode: Mode) -> Result<Input, Error> {
    parse(Path::new("sys-params.txt"), t, Some((Path::new("atm-params.txt"), PROFILE)), mode)
}

fn toml(t: &str) -> Result<Input, Error> {
    parse(Path::new("demo.toml"), t, None, Mode::Lenient)
}

/// Checks that the message of a refusal contains all of `parts`.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "'{message}' does not say '{part}'");
    }
}

#[test]
fn both_text_layouts() {
    let a = sys(&text(&current()), Mode::Strict).unwrap();
    assert_eq!(a.system.stars.len(), 3);
    assert_eq!(a.system.stars[0].kind, StarKind::Lgs);
    assert_eq!(a.system.stars[1].magnitude, Some(13.0));
    assert_eq!(a.system.stars[2].magnitude, Some(12.5));
    assert_eq!(a.system.stars[2].pupil_shift, [0.1, 0.0]);
    assert_eq!(a.system.targets, [[0.0, 0.0], [5.0, -5.0]]);
    assert!(a.warnings.is_empty(), "{:?}", a.warnings);
    let b = sys(&text(&old()), Mode::Strict).unwrap();
    assert_eq!(b.system.noise, NoiseModel::Uniform { variance: 0.01 });
    assert_eq!(b.system.targets, [[0.0, 0.0]]);
    assert_eq!(b.system.stars[0].direction, a.system.stars[0].direction);
    // Carriage returns, a byte-order mark and blank lines at the end have no effect.
    let messy = format!("\u{feff}{}\n \n", text(&current()).replace('\n', "\r\n"));
    assert_eq!(sys(&messy, Mode::Strict).unwrap(), a);
}

#[test]
fn missing_truth_sensor_is_repaired_or_refused() {
    let mut e = old();
    e[4].1 = "1e-05 0 0";
    e[5].1 = "2 1 1";
    let lenient = sys(&text(&e), Mode::Lenient).unwrap();
    assert_eq!(lenient.warnings.len(), 2);
    assert_eq!(lenient.warnings[0].line, Some(10));
    assert!(lenient.warnings[0].to_string().contains("GsAlt"));
    assert_eq!(lenient.system, sys(&text(&old()), Mode::Strict).unwrap().system);
    refused(sys(&text(&e), Mode::Strict), &["sys-params.txt:10", "GsAlt", "3 values", "requires 4"]);
    // A vector with two missing values is refused.
    refused(sys(&with(7, "1e-05 0"), Mode::Lenient), &["sys-params.txt:16", "GsAlt", "2 values"]);
}

#[test]
fn text_traps() {
    refused(sys(&with(3, "5"), Mode::Strict), &["GsAlt", "requires 5", "N WFS"]);
    refused(
        sys(&with(9, "0 -25 10 0").replace("5 -12 30 0", "0 -12 30 0"), Mode::Strict),
        &["sys-params.txt:20", "alphaX", "launcher", "on the axis", "explicitly"],
    );
    refused(sys(&with(9, "15 x7 10 0"), Mode::Strict), &[":20:", "alphaX", "'x7' is not a number"]);
    refused(sys(&with(9, "15 nan 10 0"), Mode::Strict), &[":20:", "not finite"]);
    refused(sys(&with(20, "inf"), Mode::Strict), &[":42:", "LGS flux", "not finite"]);
    refused(sys(&with(20, ""), Mode::Strict), &[":42:", "no value"]);
    refused(sys(&with(0, "-8"), Mode::Strict), &[":2:", "diameter", "-8.0 is not allowed"]);
    refused(sys(&with(1, "1.2"), Mode::Strict), &[":4:", "obstruction"]);
    refused(sys(&with(6, "1000000"), Mode::Strict), &[":14:", "Nssp", "256"]);
    refused(sys(&with(6, "8.5"), Mode::Strict), &[":14:", "Nssp", "whole number"]);
    refused(sys(&with(6, "0"), Mode::Strict), &[":14:", "Nssp"]);
    refused(sys(&with(3, "1e300"), Mode::Strict), &[":8:", "N WFS"]);
    refused(sys(&with(5, "99999999"), Mode::Strict), &[":12:", "nTarget"]);
    refused(sys(&with(8, "1 2 1 1"), Mode::Strict), &[":18:", "type", "first 1 are laser"]);
    refused(sys(&with(7, "0 0 0 0"), Mode::Strict), &[":16:", "GsAlt", "1 km"]);
    refused(sys(&with(7, "1e-5 1e-5 0 0"), Mode::Strict), &[":16:", "natural star"]);
    refused(sys(&with(27, "1.5"), Mode::Strict), &["transmission LGS"]);
    // Wrong layouts.
    let mut e = current();
    e.truncate(20);
    refused(sys(&text(&e), Mode::Strict), &["20 entries", "36", "22", "truncated", "'LGS flux'"]);
    let mut e = current();
    e.swap(2, 3);
    refused(sys(&text(&e), Mode::Strict), &[":5:", "frame time", "N WFS"]);
    refused(sys("", Mode::Strict), &["0 entries"]);
    refused(
        parse(Path::new("s.txt"), &text(&current()), None, Mode::Lenient),
        &["no turbulence profile", "atm-params.txt"],
    );
}

#[test]
fn profile_traps() {
    let atm = |t: &str| parse_atmosphere(Path::new("atm.txt"), t);
    let (good, warnings) = atm(PROFILE).unwrap();
    assert_eq!(good.layers.len(), 2);
    assert!(warnings.is_empty(), "{warnings:?}");
    let (_, warnings) = atm(&PROFILE.replace("0.128916", "0.2")).unwrap();
    assert!(warnings[0].to_string().contains("r0") && warnings[0].line == Some(4), "{warnings:?}");
    refused(atm(&PROFILE.replace("1.88506", "-1.88506")), &["atm.txt:6", "cn2", "layer 2 of 2", "negative"]);
    refused(atm(&PROFILE.replace("Nlayer\n2", "Nlayer\n3")), &["2 values", "requires 3"]);
    refused(atm(&PROFILE.replace("28.5115 1.88506", "0 0")), &["all layers are empty"]);
    refused(atm(&PROFILE.replace("25 25", "25 0")), &[":10:", "L0"]);
    refused(atm(&PROFILE.replace("Nlayer\n2", "Nlayer\n20000000")), &["Nlayer"]);
    refused(atm("Nlayer\n2\n"), &["1 entries", "truncated"]);
    let high = PROFILE.replace("12500", "99999");
    let input = parse(
        Path::new("s.txt"),
        &text(&current()).replace("1e-05", "2e-05"),
        Some((Path::new("a.txt"), &high)),
        Mode::Strict,
    );
    assert!(input.unwrap().warnings.iter().any(|w| w.message.contains("at or above this laser star")));
}

#[test]
fn demo_system() {
    let input = toml(DEMO).unwrap();
    assert!(input.warnings.is_empty(), "{:?}", input.warnings);
    let i = info(&input.system, &input.atmosphere).unwrap();
    assert_eq!((i.measurements, i.truth_slopes, i.lgs, i.ngs, i.layers), (2856, 408, 4, 3, 10));
    assert!((i.r0 - 0.13).abs() < 1e-12);
    // Fractions without an r0, and kilometres, are permitted but give warnings.
    let said = |text: &str| {
        let warnings = toml(text).unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let without = DEMO.lines().filter(|line| !line.starts_with("r0 =")).collect::<Vec<_>>().join("\n");
    assert!(said(&without).contains("an r0 of 1.00 m"), "{}", said(&without));
    let kilometres = DEMO.lines().map(|line| match line.starts_with("altitude    = [") {
        true => "altitude = [0, 0.1, 0.3, 0.6, 1.1, 2.3, 4.5, 7.5, 9.0, 14.0]",
        false => line,
    });
    let kilometres = kilometres.collect::<Vec<_>>().join("\n");
    assert!(said(&kilometres).contains("at 14 m; altitudes are in m"), "{}", said(&kilometres));
    assert!(i.to_string().contains("n = 2856"));
    assert_eq!(i.blocks.len(), 14);
}

#[test]
fn toml_units_are_only_a_way_of_writing() {
    let a = toml(DEMO).unwrap();
    // Rewrites every angle in milliarcseconds.
    let mut mas = String::new();
    for line in DEMO.lines() {
        let key = line.split('=').next().unwrap().trim();
        let scale = match key {
            "x" | "y" | "pixel_ngs" | "pixel_lgs" | "spot_width" => 1e3,
            "lgs_cst" => 1e6,
            _ => 0.0,
        };
        if scale > 0.0 {
            let value: f64 =
                line.split('=').nth(1).unwrap().split('#').next().unwrap().trim().parse().unwrap();
            mas.push_str(&format!("{key} = {:?}\n", value * scale));
        } else {
            mas.push_str(&line.replace("units = \"arcsec\"", "units = \"mas\""));
            mas.push('\n');
        }
    }
    let b = toml(&mas).unwrap();
    assert_eq!(b.system.units.name(), "mas");
    for (p, q) in a.system.stars.iter().zip(&b.system.stars) {
        assert!(
            (p.direction[0] - q.direction[0]).abs() < 1e-12
                && (p.direction[1] - q.direction[1]).abs() < 1e-12
        );
    }
    assert!((a.system.lgs_cst - b.system.lgs_cst).abs() < 1e-15);
    refused(toml(&DEMO.replace("\"arcsec\"", "\"degrees\"")), &["demo.toml:3", "degrees", "arcsec"]);
}

#[test]
fn toml_traps() {
    refused(
        toml(&DEMO.replace("obstruction", "obstrution")),
        &["demo.toml:7", "obstrution", "unknown field", "obstruction"],
    );
    refused(toml(&DEMO.replace("nssp = 16", "nssp = -1")), &["demo.toml:10"]);
    refused(toml(&DEMO.replace("nssp = 16", "nssp = 4000000000")), &["demo.toml:10", "sensors.nssp", "256"]);
    refused(toml(&DEMO.replace("diameter = 8.0", "")), &["missing field", "diameter"]);
    refused(
        toml(&DEMO.replace("diameter = 8.0", "diameter = nan")),
        &["demo.toml:6", "telescope.diameter", "NaN"],
    );
    refused(
        toml(&DEMO.replace("x = 30.0", "x = 0.0")),
        &["demo.toml:13", "guide_star[0].launcher", "on the axis"],
    );
    assert!(toml(&DEMO.replace("x = 30.0", "launcher = [4.0, 0.0]\nx = 0.0")).is_ok());
    refused(
        toml(&DEMO.replace("magnitude = 13.0\n", "")),
        &["demo.toml:43", "guide_star[5].magnitude", "missing"],
    );
    refused(
        toml(&DEMO.replace("0.52, 0.13", "0.52, -0.13")),
        &["atmosphere.cn2", "layer 2 of 10", "negative"],
    );
    refused(toml(&DEMO.replace("0.52, 0.13,", "0.52,")), &["atmosphere.altitude", "10 values for 9 layers"]);
    refused(toml(&format!("{DEMO}\n[noise]\nvariance = 0.1\n")), &["both"]);
    let ngs_first = DEMO.replacen(
        "kind = \"lgs\"\nx = 30.0\ny = 0.0\naltitude = 90000.0",
        "kind = \"ngs\"\nx = 30.0\ny = 0.0\nmagnitude = 9.0",
        1,
    );
    refused(toml(&ngs_first), &["guide_star[1].kind", "laser stars first"]);
    refused(toml("not toml at all"), &["demo.toml:1"]);
}

#[test]
fn winds_of_layers() {
    let with = |lines: &str| toml(&DEMO.replace("[atmosphere]\n", &format!("[atmosphere]\n{lines}\n")));
    let winds = |lines: &str| with(lines).unwrap().atmosphere.winds();
    let near = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]) < 1e-12;
    assert!(winds("wind_speed = 12.0\nwind_direction = 90.0").iter().all(|w| near(*w, [0.0, 12.0])));
    let each = winds("wind_speed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\nwind_direction = 180.0");
    assert!(each.iter().enumerate().all(|(i, w)| near(*w, [-(i as f64) - 1.0, 0.0])));
    // Directions of layers without a wind differ.
    let absent = winds("");
    assert!(absent.iter().all(|w| (w[0].hypot(w[1]) - 10.0).abs() < 1e-12));
    assert!((0..10).all(|i| (0..i).all(|j| !near(absent[i], absent[j]))));
    refused(with("wind_speed = 3.0"), &["demo.toml:", "atmosphere.wind_speed", "wind_direction"]);
    refused(
        with("wind_speed = [1.0, 2.0]\nwind_direction = 0.0"),
        &["atmosphere.wind_speed", "2 values for 10 layers"],
    );
    refused(with("wind_speed = -1.0\nwind_direction = 0.0"), &["atmosphere.wind_speed", "-1"]);
    refused(with("wind_speed = nan\nwind_direction = 0.0"), &["atmosphere.wind_speed", "NaN"]);
}

proptest! {
    #![proptest_config(zellige_tests::cases(400))]

    #[test]
    fn arbitrary_text_never_panics(t in "\\PC*", lines in proptest::collection::vec("[-0-9eE. ]{0,20}|nan|inf|[a-z ]{0,8}", 0..80)) {
        for text in [t, lines.join("\n")] {
            let _ = parse_system(Path::new("f"), &text, Mode::Lenient);
            let _ = parse_atmosphere(Path::new("f"), &text);
            let _ = toml(&text);
        }
    }

    #[test]
    fn arbitrary_values_never_panic(
        layout in any::<bool>(),
        changes in proptest::collection::vec((0usize..36, "[-+]?[0-9]{0,3}(\\.[0-9]{1,3})?(e-?[0-9]{1,3})?|nan|-inf|1e400|99999999999999999999"), 1..4),
    ) {
        let entries = if layout { current() } else { old() };
        let mut entries: Vec<(&str, String)> = entries.into_iter().map(|(a, b)| (a, b.to_owned())).collect();
        let count = entries.len();
        for (k, v) in &changes {
            entries[k % count].1 = v.clone();
        }
        let t: String = entries.iter().map(|(a, b)| format!("{a}\n{b}\n")).collect();
        if let Ok(input) = sys(&t, Mode::Lenient) {
            // The geometry of an accepted system can be computed.
            let _ = info(&input.system, &input.atmosphere);
        }
    }

    #[test]
    fn damaged_files_never_panic(
        at in any::<prop::sample::Index>(),
        len in 0usize..40,
        insert in proptest::collection::vec(any::<u8>(), 0..8),
        which in 0usize..3,
    ) {
        let original = [text(&current()), text(&old()), DEMO.to_owned()][which].clone().into_bytes();
        let start = at.index(original.len());
        let end = (start + len).min(original.len());
        let mut damaged = original[..start].to_vec();
        damaged.extend(&insert);
        damaged.extend(&original[end..]);
        let t = String::from_utf8_lossy(&damaged).into_owned();
        let _ = sys(&t, Mode::Lenient);
        let _ = toml(&t);
        let _ = parse(Path::new("s.txt"), &text(&current()), Some((Path::new("a.txt"), &t)), Mode::Lenient);
    }
}

/// The check system in zellige's format equals the published one.
#[test]
fn the_check_system_is_the_published_one() {
    let ours = parse(Path::new("check.toml"), CHECK_SYSTEM, None, Mode::Strict).unwrap();
    let Some(folder) = zellige_tests::data("ao/moao/check/nx456_nLayers10_wfs6_Nssp10") else { return };
    let theirs =
        read(&folder.join("sys-params.txt"), Some(&folder.join("atm-params.txt")), Mode::Strict).unwrap();
    assert_eq!(format!("{:?}", ours.system), format!("{:?}", theirs.system));
    assert_eq!(format!("{:?}", ours.atmosphere), format!("{:?}", theirs.atmosphere));
}
