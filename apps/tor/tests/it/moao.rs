//! MOAO's own parameter files, if they are available: every one is read. Its check system is
//! evaluated up to the image.

use crate::common::close;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zellige_tests::data;
use zellige_tor::params::{self, Mode, read};
use zellige_tor::pipeline::info;
use zellige_tor::system::NoiseModel;
use zellige_tor::{Covariance, Error, Kind, dm, evaluate, image, reference};

fn folders(path: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
    list.sort();
    list
}

/// Returns the number of slopes by the name of a folder: `nx456_...` has 456 sub-apertures.
fn promised(folder: &Path) -> usize {
    let name = folder.file_name().unwrap().to_str().unwrap();
    2 * name.strip_prefix("nx").unwrap().split('_').next().unwrap().parse::<usize>().unwrap()
}

#[test]
fn current_layout() {
    let Some(root) = data("ao/moao/check") else {
        return;
    };
    let all = folders(&root);
    assert_eq!(all.len(), 6);
    for folder in all {
        let input =
            read(&folder.join("sys-params.txt"), Some(&folder.join("atm-params.txt")), Mode::Strict).unwrap();
        assert_eq!(info(&input.system, &input.atmosphere).unwrap().measurements, promised(&folder));
        assert!(matches!(input.system.noise, NoiseModel::Photometric(_)));
        // The r0 of the ten-layer files agrees with their cn2, and there are no other warnings.
        assert!(input.warnings.is_empty(), "{:?}", input.warnings);
    }
}

#[test]
fn older_layout_with_a_missing_truth_sensor() {
    let Some(root) = data("ao/moao/benchmark") else {
        return;
    };
    let Some(profile) = data("ao/moao/profiles60/prof0-atmos-night0.txt") else {
        return;
    };
    let all = folders(&root);
    assert_eq!(all.len(), 10);
    for folder in all {
        let file = folder.join("sys-params.txt");
        let input = read(&file, Some(&profile), Mode::Lenient).unwrap();
        assert_eq!(info(&input.system, &input.atmosphere).unwrap().measurements, promised(&folder));
        assert_eq!(input.system.noise, NoiseModel::Uniform { variance: 0.01 });
        let repaired = input.warnings.iter().filter(|w| w.message.contains("truth sensor")).count();
        let nine = folder.to_str().unwrap().contains("wfs9");
        assert_eq!(repaired > 0, nine, "{:?}", input.warnings);
        match read(&file, Some(&profile), Mode::Strict) {
            Ok(_) => assert!(!nine),
            Err(Error::Parameter { line, key, .. }) => {
                assert!(nine);
                assert_eq!(line, Some(10));
                assert!(key.contains("GsAlt"), "{key}");
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn profiles() {
    let Some(clean) = data("ao/moao/profiles60") else {
        return;
    };
    let Some(negative) = data("ao/moao/profiles61") else {
        return;
    };
    let parse = |p: &Path| params::parse_atmosphere(p, &std::fs::read_to_string(p).unwrap());
    for file in folders(&clean) {
        let (atmosphere, _) = parse(&file).unwrap();
        assert_eq!(atmosphere.layers.len(), 60);
        assert!((0.08..0.26).contains(&atmosphere.r0()), "{}", atmosphere.r0());
    }
    for file in folders(&negative) {
        let text = parse(&file).unwrap_err().to_string();
        assert!(
            text.contains(":6:")
                && text.contains("cn2")
                && text.contains("layer 61 of 61")
                && text.contains("negative"),
            "{text}"
        );
    }
}

#[test]
fn published_ten_layer_system() {
    let input = params::parse(Path::new("check.toml"), params::CHECK_SYSTEM, None, Mode::Strict).unwrap();
    let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
    assert_eq!((cov.measurements(), cov.truth_slopes()), (912, 152));
    let cmm = cov.matrix(Kind::Cmm).unwrap();
    // The power method computes the largest eigenvalue. The next ones are close (three laser
    // stars), and equal within the tolerance.
    let mut v = zellige_tor::Matrix::from_fn(912, 1, |i, _| 1.0 + (i % 7) as f64);
    let mut largest = 0.0;
    for _ in 0..200 {
        let w = cmm.times(&v).unwrap();
        let norm = w.norm();
        largest = norm / v.norm();
        v = zellige_tor::Matrix::from_fn(912, 1, |i, _| w[(i, 0)] / norm);
    }
    close("largest eigenvalue", largest, 76.02, 1e-3);
    let r = reference::reconstruct(&cov, 0).unwrap();
    close("norm of R", r.norm(), 10.570, 1e-4);
    let cee = evaluate::cee(&cov, 0, &r).unwrap();
    // MOAO's own value and that of an independent exact implementation differ in the eighth digit.
    close("trace Cee", cee.trace(), 0.031_696_558_2, 1e-6);
    close("relative error", evaluate::relative_error(&cov, &cee).unwrap(), 0.023_116, 1e-4);
    let dx = dm::command_matrix(&input.system, cov.geometry()).unwrap();
    let mirror = dm::DeformableMirror::new(&input.system);
    assert_eq!(mirror.len(), 100);
    let cvv = evaluate::cvv(&dx.dx, &cee).unwrap();
    close("Strehl", image::psf(&input.system, &mirror, &cvv).unwrap().strehl, 0.554_059, 2e-6);
    let pupil = Arc::new(image::Pupil::new(&input.system, &mirror));
    let exact = image::ExactStrehl::new(&pupil, &cvv).unwrap().run().unwrap();
    close("exact Strehl", exact, 0.650, 1e-3);
    close("Marechal", image::residual(&pupil, &cvv).unwrap().marechal_piston_removed, 0.643, 1e-3);
}
