//! Comparison with every number of the reference file, if it is available.

use crate::common;
use crate::common::{close, photometry};
use serde_json::Value;
use std::sync::Arc;
use zellige_tests::data;
use zellige_tor::system::{Atmosphere, Layer, NoiseModel, StarKind, System};
use zellige_tor::{Covariance, Kind, Matrix, dm, evaluate, image, reference};

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("not a number: {v}"))
}

fn list(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(number).collect()
}

fn build(p: &Value) -> (System, Atmosphere) {
    let (mut system, _) = common::two_stars();
    let n = &p["noise"];
    let nssp = p["nssp"].as_u64().unwrap() as usize;
    let lgs = p["nlgs"].as_u64().unwrap() as usize;
    let magnitudes = list(&n["ngs_mag"]);
    let mut light = photometry();
    light.frame_time = number(&n["tframe_s"]);
    light.lgs_flux = number(&n["lgs_flux_ph_m2_s"]);
    light.pixel_ngs = number(&n["pix_ngs_as"]);
    light.pixel_lgs = number(&n["pix_lgs_as"]);
    light.wavelength_ngs = number(&n["lambda_ngs_m"]);
    light.wavelength_lgs = number(&n["lambda_lgs_m"]);
    light.bandwidth = number(&n["bdw_m"]);
    light.throughput_ngs = number(&n["through_ngs"]);
    light.throughput_lgs = number(&n["through_lgs"]);
    light.throughput_atmosphere = number(&n["through_atm"]);
    light.read_noise = number(&n["ron_e"]);
    light.spot_width = number(&n["spot_width_as"]);
    light.sodium_altitude = number(&n["lgs_alt_m"]);
    light.sodium_depth = number(&n["lgs_depth_m"]);
    system.noise = NoiseModel::Photometric(light);
    system.diameter = number(&p["diam_m"]);
    system.obstruction = number(&p["obs"]);
    system.nssp = nssp;
    system.lgs_cst = number(&p["lgs_cst"]);
    system.targets = vec![[number(&p["target_x_as"]), number(&p["target_y_as"])]];
    let (x, y) = (list(&p["wfs_x_as"]), list(&p["wfs_y_as"]));
    system.stars = (0..x.len())
        .map(|i| {
            let kind = if i < lgs { StarKind::Lgs } else { StarKind::Ngs };
            let mut star = common::star(kind, x[i], y[i], nssp);
            star.magnitude = i.checked_sub(lgs).map(|k| magnitudes[k]);
            star
        })
        .collect();
    let (h, c, l) = (list(&p["h_m"]), list(&p["cn2"]), list(&p["L0_m"]));
    let layers =
        (0..h.len()).map(|i| Layer { altitude: h[i], cn2: c[i], outer_scale: l[i], wind: None }).collect();
    (system, Atmosphere { layers })
}

fn samples(what: &str, matrix: &Matrix, expected: &Value) {
    let scale = matrix.max_abs();
    for s in expected["samples"].as_array().unwrap() {
        let (i, j) = (s[0].as_u64().unwrap() as usize, s[1].as_u64().unwrap() as usize);
        let (got, want) = (matrix[(i, j)], number(&s[2]));
        assert!((got - want).abs() <= 1e-9 * scale, "{what}[{i}, {j}] = {got:e}, expected {want:e}");
    }
    close(&format!("norm of {what}"), matrix.norm(), number(&expected["fro"]), 1e-9);
}

#[test]
fn all_cases() {
    let Some(path) = data("ao/reference_small.json") else {
        return;
    };
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let (system, atmosphere) = build(&case["params"]);
        let e = &case["expected"];
        let cov = Covariance::new(&system, &atmosphere).unwrap();
        let first = cov.geometry().sensors()[0].centre(0);
        for (got, want) in first.iter().zip(list(&e["first_subap_xy_m"])) {
            assert!((got - want).abs() < 1e-12);
        }
        for (w, want) in
            e["noise_first_subap_xx_yy_xy_per_wfs_arcsec2"].as_array().unwrap().iter().enumerate()
        {
            let (want, got) = (list(want), cov.noise(w).unwrap()[0]);
            close("noise xx", got.xx, want[0], 1e-12);
            close("noise yy", got.yy, want[1], 1e-12);
            assert!((got.xy - want[2]).abs() <= 1e-12 * want[0], "noise xy {} {}", got.xy, want[2]);
        }
        samples("Cmm", &cov.matrix(Kind::Cmm).unwrap(), &e["Cmm"]);
        samples("Ctm", &cov.matrix(Kind::Ctm(0)).unwrap(), &e["Ctm"]);
        samples("Ctt", &cov.matrix(Kind::Ctt).unwrap(), &e["Ctt"]);
        let r = reference::reconstruct(&cov, 0).unwrap();
        close("norm of R", r.norm(), number(&e["R"]["fro"]), 1e-6);
        close("largest of R", r.max_abs(), number(&e["R"]["abs_max"]), 1e-6);
        let cee = evaluate::cee(&cov, 0, &r).unwrap();
        let scale = cee.max_abs();
        for s in e["Cee"]["samples"].as_array().unwrap() {
            let (i, j) = (s[0].as_u64().unwrap() as usize, s[1].as_u64().unwrap() as usize);
            assert!((cee[(i, j)] - number(&s[2])).abs() < 1e-7 * scale, "Cee[{i}, {j}]");
        }
        close("trace Cee", cee.trace(), number(&e["Cee"]["trace"]), 1e-6);
        let dx = dm::command_matrix(&system, cov.geometry()).unwrap();
        assert_eq!(dx.filtered as u64, e["n_filtered_modes"].as_u64().unwrap());
        close("singular value", dx.singular_values[0], number(&e["Dx"]["sv_max"]), 1e-9);
        // The smallest one comes from the normal matrix, and is accurate to the square root of
        // rounding only.
        let smallest = *dx.singular_values.last().unwrap();
        assert!((smallest - number(&e["Dx"]["sv_min"])).abs() < 1e-7, "{smallest:e}");
        let cvv = evaluate::cvv(&dx.dx, &cee).unwrap();
        close("norm of Cvv", cvv.norm(), number(&e["Cvv"]["fro"]), 1e-6);
        let mirror = dm::DeformableMirror::new(&system);
        close(
            "Strehl",
            image::psf(&system, &mirror, &cvv).unwrap().strehl,
            number(&e["psf"]["strehl"]),
            1e-6,
        );
        let pupil = Arc::new(image::Pupil::new(&system, &mirror));
        let exact = image::ExactStrehl::new(&pupil, &cvv).unwrap().run().unwrap();
        close("exact Strehl", exact, number(&e["psf"]["strehl_exact"]), 1e-6);
    }
}
