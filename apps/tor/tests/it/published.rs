//! Two small systems, from parameters to the Strehl ratio, compared with numbers of an independent
//! float64 implementation.

use crate::common;
use crate::common::close;
use std::sync::Arc;
use zellige_tor::dm::{DeformableMirror, command_matrix};
use zellige_tor::evaluate;
use zellige_tor::image::{ExactStrehl, Pupil, psf, residual, uncorrected};
use zellige_tor::pipeline::info;
use zellige_tor::{Atmosphere, Covariance, Kind, System, reference};

struct Facts {
    n: usize,
    m: usize,
    actuators: usize,
    trace_cmm: f64,
    norm_cmm: f64,
    sum_cmm: f64,
    norm_ctm: f64,
    trace_ctt: f64,
    log_det: f64,
    norm_r: f64,
    trace_cee: f64,
    trace_cvv: f64,
    norm_dx: f64,
    largest_singular_value: f64,
    filtered: usize,
    strehl: f64,
    strehl_exact: f64,
    strehl_uncorrected: f64,
    wfe_stationary: f64,
    wfe_piston: f64,
    wfe_ptt: f64,
    marechal_piston: f64,
    marechal_ptt: f64,
}

fn check(system: &System, atmosphere: &Atmosphere, f: &Facts) {
    let i = info(system, atmosphere).unwrap();
    assert_eq!((i.measurements, i.truth_slopes, i.actuators), (f.n, f.m, f.actuators));
    close("r0", i.r0, 0.15, 1e-12);

    let cov = Covariance::new(system, atmosphere).unwrap();
    let cmm = cov.matrix(Kind::Cmm).unwrap();
    close("trace Cmm", cmm.trace(), f.trace_cmm, 1e-10);
    close("norm Cmm", cmm.norm(), f.norm_cmm, 1e-10);
    close("sum Cmm", cmm.data().iter().sum(), f.sum_cmm, 1e-9);
    close("norm Ctm", cov.matrix(Kind::Ctm(0)).unwrap().norm(), f.norm_ctm, 1e-10);
    close("trace Ctt", cov.matrix(Kind::Ctt).unwrap().trace(), f.trace_ctt, 1e-10);

    let factor = reference::Factor::new(&cov).unwrap();
    let l = factor.lower();
    close("log det", 2.0 * (0..f.n).map(|k| l[(k, k)].ln()).sum::<f64>(), f.log_det, 1e-8);
    let r = factor.reconstruct(&cov, 0).unwrap();
    close("norm R", r.norm(), f.norm_r, 1e-6);

    let cee = evaluate::cee(&cov, 0, &r).unwrap();
    close("trace Cee", cee.trace(), f.trace_cee, 1e-6);
    close("relative error", evaluate::relative_error(&cov, &cee).unwrap(), f.trace_cee / f.trace_ctt, 1e-6);
    let dx = command_matrix(system, cov.geometry()).unwrap();
    assert_eq!(dx.filtered, f.filtered);
    close("largest singular value", dx.singular_values[0], f.largest_singular_value, 1e-10);
    close("norm Dx", dx.dx.norm(), f.norm_dx, 1e-9);
    let cvv = evaluate::cvv(&dx.dx, &cee).unwrap();
    close("trace Cvv", cvv.trace(), f.trace_cvv, 1e-6);

    let mirror = DeformableMirror::new(system);
    let image = psf(system, &mirror, &cvv).unwrap();
    close("Strehl", image.strehl, f.strehl, 1e-6);
    close("stationary wfe", image.wfe_nm, f.wfe_stationary, 1e-6);
    let centre = image.size / 2 * (image.size + 1);
    close("peak of the image", image.image[centre], f.strehl, 1e-6);
    assert!(image.image.iter().all(|v| *v <= image.image[centre]));
    // With R = 0, the whole turbulence that the mirror could correct remains.
    let ctt = cov.matrix(Kind::Ctt).unwrap();
    let nothing = zellige_tor::Matrix::zeros(f.m, f.n);
    assert_eq!(evaluate::cee(&cov, 0, &nothing).unwrap(), ctt);
    let open = psf(system, &mirror, &evaluate::cvv(&dx.dx, &ctt).unwrap()).unwrap();
    close("Strehl with R = 0", open.strehl, f.strehl_uncorrected, 1e-6);
    // The whole turbulence gives a slightly lower Strehl ratio.
    let seeing_limited = uncorrected(system, atmosphere);
    assert!(seeing_limited < open.strehl && seeing_limited > 0.5 * open.strehl, "{seeing_limited}");
    let pupil = Arc::new(Pupil::new(system, &mirror));
    let exact = ExactStrehl::new(&pupil, &cvv).unwrap();
    close("exact Strehl", exact.run().unwrap(), f.strehl_exact, 1e-6);
    assert!(exact.finish(&[]).is_err());
    let wfe = residual(&pupil, &cvv).unwrap();
    close("wfe, piston removed", wfe.wfe_nm_piston_removed, f.wfe_piston, 1e-6);
    close("wfe, piston, tip, tilt removed", wfe.wfe_nm_ptt_removed, f.wfe_ptt, 1e-6);
    close("Marechal, piston removed", wfe.marechal_piston_removed, f.marechal_piston, 1e-6);
    close("Marechal, piston, tip, tilt removed", wfe.marechal_ptt_removed, f.marechal_ptt, 1e-6);
}

#[test]
fn two_natural_stars() {
    let (system, atmosphere) = common::two_stars();
    let facts = Facts {
        n: 128,
        m: 64,
        actuators: 45,
        trace_cmm: 2.332_761_680_44,
        norm_cmm: 0.412_228_746_169,
        sum_cmm: 16.033_510_331,
        norm_ctm: 0.287_144_160_997,
        trace_ctt: 1.145_136_685_81,
        log_det: -663.511_745_794,
        norm_r: 6.029_528_719_62,
        trace_cee: 0.174_284_410_635,
        trace_cvv: 5.240_043_887_56,
        norm_dx: 40.823_387_210_1,
        largest_singular_value: 0.293_184_331_247,
        filtered: 4,
        strehl: 0.472_408_879_852,
        strehl_exact: 0.587_540_715_27,
        strehl_uncorrected: 0.014_990_091_963_7,
        wfe_stationary: 232.057_738_568,
        wfe_piston: 193.733_882_568,
        wfe_ptt: 180.268_711_059,
        marechal_piston: 0.580_273_501_003,
        marechal_ptt: 0.624_234_242_725,
    };
    check(&system, &atmosphere, &facts);
}

#[test]
fn a_laser_and_a_natural_star() {
    let (system, atmosphere) = common::laser_and_star();
    let facts = Facts {
        n: 208,
        m: 104,
        actuators: 68,
        trace_cmm: 14.932_092_425_4,
        norm_cmm: 7.549_868_635_88,
        sum_cmm: 588.087_221_55,
        norm_ctm: 0.505_439_486_572,
        trace_ctt: 2.265_262_647_35,
        log_det: -1_027.853_616_99,
        norm_r: 9.201_108_693_09,
        trace_cee: 0.217_056_336_336,
        trace_cvv: 4.322_507_679_84,
        norm_dx: 39.665_598_038_3,
        largest_singular_value: 0.396_516_147_827,
        filtered: 4,
        strehl: 0.609_396_282_464,
        strehl_exact: 0.674_241_885_457,
        strehl_uncorrected: 0.012_704_219_694_2,
        wfe_stationary: 196.897_631_313,
        wfe_piston: 169.241_602_32,
        wfe_ptt: 119.114_016_393,
        marechal_piston: 0.660_114_321_766,
        marechal_ptt: 0.814_045_143_711,
    };
    check(&system, &atmosphere, &facts);
}
