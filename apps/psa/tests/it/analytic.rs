//! Comparison of fields and signals with formulas: the coaxial crystal and the slab.

use std::f64::consts::PI;
use std::sync::Arc;

use crate::common::{coaxial, detector, fields, runtime};
use zellige_psa::body::{Body, Vec3};
use zellige_psa::crystal::Crystal;
use zellige_psa::drift::{Carrier, Drift, Mobility, Pulse, Trapping};
use zellige_psa::fields::{Fields, Problem};
use zellige_psa::grid::Grid;
use zellige_psa::observe::Silent;

const INNER: f64 = 5.0;
const OUTER: f64 = 14.0;

/// Returns potential and radial field of a coaxial crystal with uniform space charge: `phi = -rho
/// r^2 / 4 + a ln r + b`.
fn coaxial_potential(crystal: &Crystal, r: f64) -> [f64; 2] {
    let charge = crystal.space_charge(0.0);
    let a = (-crystal.bias - charge / 4.0 * (INNER * INNER - OUTER * OUTER)) / (OUTER / INNER).ln();
    let phi = |r: f64| -charge * r * r / 4.0 + a * r.ln();
    [phi(r) - phi(OUTER), charge * r / 2.0 - a / r]
}

/// Returns points between the contacts at angles off the axes of the grid.
fn places() -> impl Iterator<Item = (f64, f64)> {
    (0..40).flat_map(|i| (0..17).map(move |k| (INNER + 0.2 + 0.215 * f64::from(i), 0.37 * f64::from(k))))
}

fn at(r: f64, angle: f64) -> Vec3 {
    [r * angle.cos(), r * angle.sin(), 1.3]
}

/// Returns the largest errors of the potential relative to the bias, of the core's weighting
/// potential, and of a sector's.
fn coaxial_errors(step: f64) -> [f64; 3] {
    let crystal = coaxial(INNER, OUTER);
    let fields = fields(&crystal, step);
    let mut errors = [0.0f64; 3];
    for (r, angle) in places() {
        let mut seen = [0.0; 37];
        fields.weighting_at(at(r, angle), &mut seen);
        let [potential, _] = coaxial_potential(&crystal, r);
        errors[0] = errors[0].max((fields.potential_at(at(r, angle)) - potential).abs() / crystal.bias);
        let core = (OUTER / r).ln() / (OUTER / INNER).ln();
        errors[1] = errors[1].max((f64::from(seen[36]) - core).abs());
        // Sector 0 covers angles to 30 degrees on both sides of x; its potential jumps at its ends,
        // so that points near them are left out.
        if r < OUTER - 4.0 {
            let sector: f32 = seen[..6].iter().sum();
            errors[2] = errors[2].max((f64::from(sector) - sector_potential(r, angle)).abs());
        }
    }
    errors
}

/// Returns the Fourier series of Laplace's equation between two cylinders, 1 on a sixth of the
/// outer one.
fn sector_potential(r: f64, angle: f64) -> f64 {
    let shape = |n: f64| {
        let scaled = |r: f64| (r / OUTER).powf(n) - (INNER / OUTER).powf(n) * (INNER / r).powf(n);
        scaled(r) / scaled(OUTER)
    };
    let terms =
        (1..400).map(f64::from).map(|n| 2.0 / (n * PI) * (n * PI / 6.0).sin() * (n * angle).cos() * shape(n));
    (r / INNER).ln() / (OUTER / INNER).ln() / 6.0 + terms.sum::<f64>()
}

#[test]
fn a_coaxial_crystal_has_its_potentials_and_errors_fall_with_the_square_of_the_step() {
    let (coarse, fine) = (coaxial_errors(1.0), coaxial_errors(0.5));
    println!("errors of the potential / bias, core, sector: {coarse:?} at 1 mm, {fine:?} at 0.5 mm");
    assert!(coarse[0] < 0.006 && coarse[1] < 0.006 && coarse[2] < 0.02, "{coarse:?}");
    assert!((0..2).all(|k| fine[k] < coarse[k] / 2.5) && fine[2] < coarse[2] / 1.5, "{coarse:?} {fine:?}");
}

#[test]
fn a_coaxial_crystal_has_its_field() {
    let crystal = coaxial(INNER, OUTER);
    let fields = fields(&crystal, 1.0);
    let electric = fields.electric(&crystal);
    let grid = fields.grid();
    let mut worst = 0.0f64;
    for node in (0..grid.len()).filter(|&node| crystal.contains(grid.position(node))) {
        let [x, y, _] = grid.position(node);
        let r = x.hypot(y);
        let [_, field] = coaxial_potential(&crystal, r);
        let expected = [field * x / r, field * y / r, 0.0];
        let error = (0..3).map(|axis| (f64::from(electric[node][axis]) - expected[axis]).abs());
        worst = worst.max(error.fold(0.0, f64::max) / field);
    }
    println!("largest error of the field: {:.1} %", 100.0 * worst);
    assert!(worst < 0.02, "{worst}");
}

/// The voltage `V = rho / 2 ((r2^2 - r1^2) / 2 - r1^2 ln(r2 / r1))` just depletes a coaxial
/// crystal: the field at the core changes its sign there.
#[test]
fn the_field_at_the_core_vanishes_at_the_voltage_of_depletion() {
    let plain = coaxial(INNER, OUTER);
    let charge = plain.space_charge(0.0);
    let depletion =
        charge / 2.0 * ((OUTER * OUTER - INNER * INNER) / 2.0 - INNER * INNER * (OUTER / INNER).ln());
    for (factor, sign) in [(0.97, -1.0), (1.03, 1.0)] {
        let crystal = Crystal { bias: factor * depletion, ..plain.clone() };
        let fields = fields(&crystal, 0.5);
        let slope = fields.potential_at(at(INNER, 0.4)) - fields.potential_at(at(INNER + 0.3, 0.4));
        assert!(slope * sign > 0.0, "{factor}: {slope}");
    }
    // 1e10 per cm3 between 5 and 40 mm: 4.16 kV.
    let known = charge / 2.0 * ((1600.0 - 25.0) / 2.0 - 25.0 * 8f64.ln());
    assert!((known / 4160.0 - 1.0).abs() < 2e-3, "{known}");
}

/// Follows a charge along a line by the law of its axis and an analytic field, in small steps
/// (Runge-Kutta of fourth order). Returns its position at every nanosecond.
fn line(start: f64, [from, to]: [f64; 2], velocity: impl Fn(f64) -> f64) -> Vec<f64> {
    const STEPS: usize = 50;
    let (mut place, mut track, step) = (start, vec![start], 1.0 / STEPS as f64);
    while place > from && place < to {
        for _ in 0..STEPS {
            let k1 = velocity(place);
            let k2 = velocity(place + 0.5 * step * k1);
            let k3 = velocity(place + 0.5 * step * k2);
            let k4 = velocity(place + step * k3);
            place = (place + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)).clamp(from, to);
        }
        track.push(place);
    }
    track
}

/// Returns the largest difference between a contact's charge and `Q = w(x_h) - w(x_e)` of two
/// tracks.
fn difference(
    pulse: &Pulse,
    contact: usize,
    holes: &[f64],
    electrons: &[f64],
    weighting: impl Fn(f64) -> f64,
) -> f64 {
    let place = |track: &[f64], time: usize| track[time.min(track.len() - 1)];
    (0..pulse.times())
        .map(|time| {
            let expected = weighting(place(holes, time)) - weighting(place(electrons, time));
            (f64::from(pulse.charges[time * pulse.contacts + contact]) - expected).abs()
        })
        .fold(0.0, f64::max)
}

/// Returns the speed of a carrier along `<100>` (mm/ns) in a field (V/mm), with its sign.
fn along_100(mobility: &Mobility, carrier: Carrier) -> impl Fn(f64) -> f64 {
    move |field| mobility.velocity(carrier, [field, 0.0, 0.0])[0]
}

#[test]
fn the_core_of_a_coaxial_crystal_sees_the_signal_of_ramo() {
    let crystal = coaxial(INNER, OUTER);
    let detector = detector(&crystal, 0.5);
    let mobility = Mobility::new(crystal.temperature, crystal.axis_angle);
    for start in [6.5, 9.5, 12.5] {
        // The x axis is a <100> axis.
        let pulse = detector.pulse([start, 1e-6, 1.3]);
        let field = |r: f64| coaxial_potential(&crystal, r)[1];
        let track = |carrier| line(start, [INNER, OUTER], |r| along_100(&mobility, carrier)(field(r)));
        let core = |r: f64| (OUTER / r).ln() / (OUTER / INNER).ln();
        let error = difference(&pulse, 36, &track(Carrier::Hole), &track(Carrier::Electron), core);
        println!("from {start} mm: the core's charge differs by {error:.4} at most");
        assert!(pulse.is_collected && error < 0.004, "{start}: {error}");
    }
}

/// Germanium between two plates, bare at its sides.
#[derive(Debug)]
struct Slab;

const THICK: f64 = 10.0;

impl Body for Slab {
    fn bounds(&self) -> [[f64; 2]; 3] {
        [[-2.1, 2.4], [-2.0, 2.0], [0.0, THICK]]
    }
    fn reflects(&self) -> [[bool; 2]; 3] {
        [[true; 2], [true; 2], [false; 2]]
    }
    fn contains(&self, [x, y, z]: Vec3) -> bool {
        (-2.1..=2.4).contains(&x) && (-2.0..=2.0).contains(&y) && z > 0.0 && z < THICK
    }
    fn contacts(&self) -> usize {
        2
    }
    fn contact(&self, [_, _, z]: Vec3) -> usize {
        usize::from(z > 0.5 * THICK)
    }
}

/// Compares trapped charge and trapping sensitivities with Hecht's formula (Z. Phys. 77 (1932) 235)
/// for a uniform weighting field.
fn caught(drift: &Drift) {
    let trapping = Trapping { holes: 300.0, electrons: 700.0 };
    let caught = drift.clone().with_trapping(trapping);
    for start in [1.0, 4.4, 9.0] {
        let pulse = caught.pulse([1.1, 0.3, start]);
        // Holes go to the plate at 0 V, electrons to the other one.
        let collected = |length: f64, way: f64| -length / THICK * (-way / length).exp_m1();
        let expected = collected(trapping.holes, start) + collected(trapping.electrons, THICK - start);
        let [low, high] = [0, 1].map(|plate| f64::from(pulse.charges[(pulse.times() - 1) * 2 + plate]));
        assert!(
            (low - expected).abs() < 2e-5 && (high + expected).abs() < 2e-5,
            "{start}: {low} {high} {expected}"
        );
        let squares = [THICK - start, start].map(|way| way * way / (2.0 * THICK));
        for (found, expected) in pulse.sensitivities[0].into_iter().zip(squares) {
            assert!((f64::from(found) - expected).abs() < 1e-3, "{start}: {found} {expected}");
        }
    }
}

/// The grid is aligned neither with the plates nor with the sides.
#[test]
fn a_slab_has_its_potential_and_its_signals() {
    let (grid, bias, charge) = (Grid::around(&Slab, 0.7).expect("a grid"), 600.0, 8.0);
    let problem = Problem { body: &Slab, grid: &grid, voltages: &[0.0, bias], charge: &|_| charge };
    let fields = Fields::solve(&runtime(1), &problem, &Silent).expect("fields");
    assert!(fields.worst_sum(&Slab) < 1e-5);
    let potential = |z: f64| bias * z / THICK + charge / 2.0 * z * (THICK - z);
    let field = |z: f64| -bias / THICK - charge / 2.0 * (THICK - 2.0 * z);
    for point in [[0.0, 0.0, 0.2], [2.39, -1.99, 3.3], [-2.09, 1.9, 9.7], [1.0, 1.0, 5.0]] {
        let mut seen = [0.0; 2];
        fields.weighting_at(point, &mut seen);
        assert!((f64::from(seen[1]) - point[2] / THICK).abs() < 1e-5, "{point:?}: {seen:?}");
        // Linear interpolation between nodes is a chord of the parabola: its error is up to rho h^2
        // / 8.
        let error = (fields.potential_at(point) - potential(point[2])).abs();
        assert!(error < charge * 0.7 * 0.7 / 8.0 * 1.5, "{point:?}: {error}");
    }
    let mobility = Mobility::new(78.0, 0.0);
    let drift = Drift::new(Arc::new(Slab), Arc::new(fields), &mobility, 1.0);
    caught(&drift);
    for start in [1.0, 4.4, 9.0] {
        let pulse = drift.pulse([1.1, 0.3, start]);
        let track = |carrier| line(start, [0.0, THICK], |z| along_100(&mobility, carrier)(field(z)));
        let error = difference(&pulse, 1, &track(Carrier::Hole), &track(Carrier::Electron), |z| z / THICK);
        println!("slab, from {start} mm: the charge differs by {error:.4} at most");
        assert!(pulse.is_collected && error < 0.004, "{start}: {error}");
    }
}
