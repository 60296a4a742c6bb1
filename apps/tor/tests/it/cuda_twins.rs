//! Covariances of the CUDA kernel, compiled by g++ for the host, compared bit by bit with the
//! generator.

use crate::common;
use std::ops::Range;
use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::cuda::Launch;
use zellige_tor::covariance::device::{DeviceModel, SOURCE};
use zellige_tor::{Atmosphere, Covariance, Kind, System};
use zellige_twins::Twins;

fn address<T>(x: &mut [T]) -> Address {
    Address(x.as_mut_ptr().expose_provenance() as u64)
}

fn run(twins: &Twins, launch: &Launch, seed: u64) {
    // SAFETY: the model and the part are alive during the call, have the lengths that the launch
    // states, and are not used elsewhere.
    unsafe { twins.run(launch.kernel, [launch.grid, launch.block], &launch.args, seed) }.unwrap();
}

/// The `rows` and `cols` of the matrix `kind`, and their first indices among all slopes.
struct Part {
    kind: Kind,
    rows: Range<usize>,
    cols: Range<usize>,
    first: [usize; 2],
}

fn moved(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

fn check(twins: &Twins, cov: &Covariance, model: &DeviceModel, words: Address, part: &Part, scale: f64) {
    let Part { kind, rows, cols, first } = part;
    let (m, n) = (rows.len(), cols.len());
    let ld = m + 3;
    let (mut want, mut want32) = (vec![0.0f64; ld * n], vec![0.0f32; ld * n]);
    cov.fill(*kind, rows.clone(), cols.clone(), &mut want, ld).unwrap();
    cov.fill(*kind, rows.clone(), cols.clone(), &mut want32, ld).unwrap();
    let (mut got, mut got32) = (vec![-7.0f64; ld * n], vec![-7.0f32; ld * n]);
    let (rows, cols) = (moved(rows, first[0]), moved(cols, first[1]));
    let out = Matrix { at: address(&mut got), ld: ld as u32, element: Element::F64 };
    run(twins, &model.fill(words, rows.clone(), cols.clone(), scale, out).unwrap(), 3);
    let out = Matrix { at: address(&mut got32), ld: ld as u32, element: Element::F32 };
    run(twins, &model.fill(words, rows, cols, scale, out).unwrap(), 4);
    for j in 0..n {
        for i in 0..m {
            let at = i + j * ld;
            let (want, want32) = (want[at] * scale, (f64::from(want32[at]) * scale) as f32);
            assert_eq!(got[at].to_bits(), want.to_bits(), "{kind:?} [{i}, {j}]: {:e} {want:e}", got[at]);
            assert_eq!(got32[at].to_bits(), want32.to_bits(), "{kind:?} [{i}, {j}] in f32");
        }
        assert!(got[j * ld + m..(j + 1) * ld].iter().all(|&x| x == -7.0), "a gap was written");
        assert!(got32[j * ld + m..(j + 1) * ld].iter().all(|&x| x == -7.0), "a gap was written");
    }
}

/// Compares every entry of every matrix, in parts of odd sizes.
fn whole((system, atmosphere): (System, Atmosphere), scale: f64) {
    let Some(twins) = Twins::build(SOURCE.name, SOURCE.text, SOURCE.kernels).unwrap() else { return };
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let model = DeviceModel::new(&cov);
    let mut words = model.words().to_vec();
    let words = address(&mut words);
    let (n, m) = (cov.measurements(), cov.truth_slopes());
    let mut kinds = vec![(Kind::Cmm, [0, 0]), (Kind::Ctt, [n, n])];
    kinds.extend((0..cov.targets()).map(|t| (Kind::Ctm(t), [n + t * m, 0])));
    for (kind, first) in kinds {
        let (height, width) = cov.shape(kind);
        for r in (0..height).step_by(131) {
            for c in (0..width).step_by(97) {
                let (rows, cols) = (r..(r + 131).min(height), c..(c + 97).min(width));
                check(&twins, &cov, &model, words, &Part { kind, rows, cols, first }, scale);
            }
        }
    }
}

#[test]
fn natural_stars() {
    whole(common::two_stars(), 1.0);
}

#[test]
fn lasers() {
    whole(common::laser_and_star(), 2.0f64.powi(11));
}

#[test]
fn awkward_sensors() {
    whole(common::awkward(), 0.25);
}

#[test]
fn sensors_after_a_lag() {
    let (system, atmosphere) = common::awkward();
    whole(common::moving(system, atmosphere, 0.03), 1.0);
}

#[test]
fn wrong_requests_are_errors() {
    let (system, atmosphere) = common::two_stars();
    let cov = Covariance::new(&system, &atmosphere).unwrap();
    let model = DeviceModel::new(&cov);
    let slopes = cov.measurements() + cov.truth_slopes() * cov.targets();
    let out = Matrix { at: Address(64), ld: 8, element: Element::F32 };
    let half = Matrix { element: Element::F16, ..out };
    let backwards = Range { start: 4, end: 3 };
    let fill = |rows, cols, out| model.fill(Address(8), rows, cols, 1.0, out);
    assert!(fill(0..8, slopes - 3..slopes, out).is_ok());
    assert!(fill(0..0, 0..0, out).is_ok());
    for (rows, cols, out) in
        [(0..9, 0..3, out), (0..8, slopes..slopes + 1, out), (0..8, 0..3, half), (backwards, 0..3, out)]
    {
        assert!(
            fill(rows.clone(), cols.clone(), out).unwrap_err().to_string().contains("GPU"),
            "{rows:?} {cols:?}"
        );
    }
}
