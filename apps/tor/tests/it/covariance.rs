//! The covariance generator, compared with a plain evaluation of the definition. It is also checked
//! for symmetry, and for independence of the requested part.

use crate::common::{self, awkward, laser_and_star, two_stars};
use zellige_tor::geometry::{Projection, SubApertures, truth_star};
use zellige_tor::system::{GuideStar, StarKind};
use zellige_tor::turbulence::structure_function;
use zellige_tor::{ARCSEC_PER_RADIAN, Atmosphere, Covariance, Kind, Matrix, System};

/// Returns the centres of the two edges of slope `axis` of sub-aperture `i`, projected on a layer.
fn edges(star: &GuideStar, grid: &SubApertures, i: usize, axis: usize, h: f64) -> Option<[[f64; 2]; 2]> {
    let p: Projection = Projection::new(star, h);
    let c = p.point(grid.centre(i));
    let half = grid.pitch * p.scale / 2.0;
    let shifted = |s: f64| std::array::from_fn(|k| c[k] + if k == axis { s * half } else { 0.0 });
    p.visible().then(|| [shifted(-1.0), shifted(1.0)])
}

/// Computes one entry directly from the definition; `a` looks `lag` later than `b`.
fn plain(
    a: (&GuideStar, &SubApertures, usize, usize),
    b: (&GuideStar, &SubApertures, usize, usize),
    atm: &Atmosphere,
    lag: f64,
) -> f64 {
    let mut sum = 0.0;
    for l in &atm.layers {
        let (Some(p), Some(q)) =
            (edges(a.0, a.1, a.2, a.3, l.altitude), edges(b.0, b.1, b.2, b.3, l.altitude))
        else {
            continue;
        };
        for (s, pa) in p.iter().enumerate() {
            for (t, pb) in q.iter().enumerate() {
                let wind = l.wind.unwrap_or_default();
                let [u, v] = [0, 1].map(|k| pa[k] - wind[k] * lag - pb[k]);
                let d = structure_function(u.hypot(v), l.cn2, l.outer_scale);
                sum += if s == t { -d } else { d };
            }
        }
    }
    let k = (500e-9 / (2.0 * std::f64::consts::PI) * ARCSEC_PER_RADIAN).powi(2) / (a.1.pitch * b.1.pitch);
    0.5 * k * sum
}

fn against_the_definition(system: &System, atm: &Atmosphere) {
    let cov = Covariance::new(system, atm).unwrap();
    let geometry = cov.geometry();
    let truth = truth_star(system.nssp, system.targets[0]);
    let locate = |k: usize| {
        let b = geometry.blocks().iter().rev().find(|b| b.start <= k).unwrap();
        (&system.stars[b.wfs], &geometry.sensors()[b.wfs], k - b.start, b.axis as usize)
    };
    let locate_truth = |k: usize| {
        let n = geometry.truth().len();
        (&truth, geometry.truth(), k % n, k / n)
    };
    let (cmm, ctm, ctt) =
        (cov.matrix(Kind::Cmm).unwrap(), cov.matrix(Kind::Ctm(0)).unwrap(), cov.matrix(Kind::Ctt).unwrap());
    let scale = ctt.max_abs();
    let near = |got: f64, want: f64, what: &str, i: usize, j: usize| {
        assert!((got - want).abs() < 1e-11 * scale, "{what}[{i}, {j}]: {got:e} against {want:e}");
    };
    let n = cov.measurements();
    for i in (0..n).step_by(3) {
        for j in (0..n).step_by(5) {
            let (a, b) = (locate(i), locate(j));
            let mut want = plain(a, b, atm, 0.0);
            let (bi, bj) = (
                geometry.blocks().iter().rfind(|b| b.start <= i),
                geometry.blocks().iter().rfind(|b| b.start <= j),
            );
            let (bi, bj) = (bi.unwrap(), bj.unwrap());
            if bi.wfs == bj.wfs {
                if bi.axis == bj.axis && a.0.kind == StarKind::Lgs {
                    want += system.lgs_cst;
                }
                if a.2 == b.2 {
                    let noise = cov.noise(bi.wfs).unwrap()[a.2];
                    want += [noise.xx, noise.xy, noise.xy, noise.yy][2 * a.3 + b.3];
                }
            }
            near(cmm[(i, j)], want, "Cmm", i, j);
        }
    }
    let m = cov.truth_slopes();
    for i in (0..m).step_by(3) {
        for j in (0..n).step_by(7) {
            near(ctm[(i, j)], plain(locate_truth(i), locate(j), atm, system.lag), "Ctm", i, j);
        }
        for j in (0..m).step_by(5) {
            near(ctt[(i, j)], plain(locate_truth(i), locate_truth(j), atm, 0.0), "Ctt", i, j);
        }
    }
    for i in 0..n {
        for j in 0..i {
            assert_eq!(cmm[(i, j)].to_bits(), cmm[(j, i)].to_bits(), "Cmm[{i}, {j}] is not symmetric");
        }
    }
    for i in 0..m {
        for j in 0..i {
            assert_eq!(ctt[(i, j)].to_bits(), ctt[(j, i)].to_bits());
        }
    }
}

#[test]
fn natural_stars() {
    let (s, a) = two_stars();
    against_the_definition(&s, &a);
}

#[test]
fn lasers() {
    let (s, a) = laser_and_star();
    against_the_definition(&s, &a);
}

#[test]
fn awkward_sensors() {
    let (s, a) = awkward();
    against_the_definition(&s, &a);
}

#[test]
fn the_truth_sensor_after_a_lag() {
    for (s, a) in [laser_and_star(), awkward()] {
        let (s, a) = common::moving(s, a, 0.013);
        against_the_definition(&s, &a);
    }
}

#[test]
fn a_part_is_the_same_as_in_the_whole() {
    let (s, a) = common::moving(awkward().0, awkward().1, 0.02);
    let cov = Covariance::new(&s, &a).unwrap();
    for kind in [Kind::Cmm, Kind::Ctm(1), Kind::Ctt] {
        let whole: Matrix = cov.matrix(kind).unwrap();
        let (height, width) = cov.shape(kind);
        for (r0, c0, h, w) in
            [(0, 0, 1, 1), (3, 5, 17, 40), (height - 9, width / 2, 9, 33), (height / 3, width - 50, 60, 50)]
        {
            let (rows, cols) = (r0..(r0 + h).min(height), c0..(c0 + w).min(width));
            let ld = rows.len() + 3;
            let mut part = vec![f64::NAN; ld * cols.len()];
            let mut single = vec![f32::NAN; ld * cols.len()];
            cov.fill(kind, rows.clone(), cols.clone(), &mut part, ld).unwrap();
            cov.fill(kind, rows.clone(), cols.clone(), &mut single, ld).unwrap();
            for j in 0..cols.len() {
                for i in 0..rows.len() {
                    let want = whole[(r0 + i, c0 + j)];
                    assert_eq!(part[i + j * ld].to_bits(), want.to_bits(), "{kind:?} {i} {j}");
                    assert_eq!(single[i + j * ld].to_bits(), (want as f32).to_bits());
                }
                assert!(
                    part[j * ld + rows.len()..(j + 1) * ld].iter().all(|v| v.is_nan()),
                    "padding was touched"
                );
            }
        }
    }
}

#[test]
fn wrong_requests_are_errors() {
    let (s, a) = two_stars();
    let cov = Covariance::new(&s, &a).unwrap();
    let mut out = vec![0.0f64; 16];
    assert!(cov.fill(Kind::Cmm, 0..4, 0..4, &mut out, 4).is_ok());
    assert!(cov.fill(Kind::Cmm, 0..4, 0..5, &mut out, 4).is_err());
    assert!(cov.fill(Kind::Cmm, 0..4, 0..4, &mut out, 3).is_err());
    assert!(cov.fill(Kind::Cmm, 126..130, 0..4, &mut out, 4).is_err());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 4..2;
    assert!(cov.fill(Kind::Cmm, reversed, 0..4, &mut out, 4).is_err());
    assert!(cov.fill(Kind::Ctm(1), 0..4, 0..4, &mut out, 4).is_err());
    assert!(cov.fill(Kind::Ctm(0), 2..2, 0..4, &mut out[..0], 0).is_ok());
    assert!(cov.fill(Kind::Cmm, 0..4, 0..4, &mut out, usize::MAX).is_err());
}

#[test]
fn threads_share_one_generator() {
    let (s, a) = laser_and_star();
    let cov = Covariance::new(&s, &a).unwrap();
    let whole = cov.matrix(Kind::Cmm).unwrap();
    let n = cov.measurements();
    std::thread::scope(|scope| {
        for k in 0..4 {
            let (cov, whole) = (&cov, &whole);
            scope.spawn(move || {
                let cols = k * n / 4..(k + 1) * n / 4;
                let mut part = vec![0.0f64; n * cols.len()];
                cov.fill(Kind::Cmm, 0..n, cols.clone(), &mut part, n).unwrap();
                assert_eq!(part, whole.data()[n * cols.start..n * cols.end]);
            });
        }
    });
}
