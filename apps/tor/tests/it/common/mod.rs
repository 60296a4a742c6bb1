//! Systems for several tests.

use zellige_tor::system::{
    AngleUnit, Atmosphere, GuideStar, Layer, LoopModel, MirrorModel, NoiseModel, Photometry, StarKind,
    System, Valid,
};

pub fn photometry() -> Photometry {
    Photometry {
        frame_time: 0.004,
        lgs_flux: 7e6,
        pixel_ngs: 0.3,
        pixel_lgs: 1.0,
        wavelength_ngs: 650e-9,
        wavelength_lgs: 589e-9,
        bandwidth: 330e-9,
        throughput_ngs: 0.425,
        throughput_lgs: 0.382,
        throughput_atmosphere: 0.84,
        read_noise: 3.0,
        spot_width: 1.0,
        sodium_altitude: 1e5,
        sodium_depth: 5e3,
    }
}

pub fn star(kind: StarKind, x: f64, y: f64, nssp: usize) -> GuideStar {
    GuideStar {
        kind,
        direction: [x, y],
        inverse_altitude: if kind == StarKind::Lgs { 1e-5 } else { 0.0 },
        nssp,
        pupil_shift: [0.0; 2],
        rotation: 0.0,
        magnification: 1.0,
        slopes_turn: false,
        magnitude: (kind == StarKind::Ngs).then_some(13.0),
        launcher: None,
    }
}

fn system(obstruction: f64, nssp: usize, stars: Vec<GuideStar>) -> System {
    System {
        diameter: 8.0,
        obstruction,
        zenith_angle: 0.0,
        valid: Valid::Centre,
        mirror: MirrorModel::default(),
        nssp,
        stars,
        targets: vec![[0.0, 0.0]],
        lgs_cst: 0.1,
        noise: NoiseModel::Photometric(photometry()),
        lag: 0.0,
        wavelength: 1.65e-6,
        units: AngleUnit::Arcsec,
        simulation: LoopModel::default(),
    }
}

pub fn layers(list: &[(f64, f64, f64)]) -> Atmosphere {
    Atmosphere {
        layers: list
            .iter()
            .map(|&(altitude, cn2, outer_scale)| Layer { altitude, cn2, outer_scale, wind: None })
            .collect(),
    }
}

/// Returns two natural stars and one layer at 10 km, r0 = 0.15 m.
pub fn two_stars() -> (System, Atmosphere) {
    let stars = vec![star(StarKind::Ngs, 20.0, 0.0, 6), star(StarKind::Ngs, -20.0, 10.0, 6)];
    (system(0.0, 6, stars), layers(&[(1e4, 0.15f64.powf(-5.0 / 3.0), 25.0)]))
}

/// Returns a laser and a natural star, and two layers, r0 = 0.15 m.
pub fn laser_and_star() -> (System, Atmosphere) {
    let stars = vec![star(StarKind::Lgs, 15.0, 5.0, 8), star(StarKind::Ngs, -25.0, -12.0, 8)];
    let total = 0.15f64.powf(-5.0 / 3.0);
    (system(0.14, 8, stars), layers(&[(0.0, 0.7 * total, 25.0), (8e3, 0.3 * total, 25.0)]))
}

/// Returns a system with all special cases: three altitudes, a different grid, a rotated, a
/// magnified and a shifted sensor, a layer above the lasers.
pub fn awkward() -> (System, Atmosphere) {
    let (mut system, _) = laser_and_star();
    let mut second = star(StarKind::Lgs, -20.0, 9.0, 8);
    second.pupil_shift = [0.2, -0.1];
    let mut low = star(StarKind::Lgs, 3.0, -14.0, 8);
    low.inverse_altitude = 1.0 / 18e3;
    let mut turned = star(StarKind::Ngs, 8.0, 30.0, 8);
    turned.rotation = 17.0;
    let mut large = star(StarKind::Ngs, 8.0, -30.0, 8);
    large.magnification = 1.03;
    let coarse = star(StarKind::Ngs, 1.0, 2.0, 5);
    let tip_tilt = star(StarKind::Ngs, -11.0, 2.0, 1);
    system.stars.splice(1..1, [second, low]);
    system.stars.extend([turned, large, coarse, tip_tilt]);
    system.targets = vec![[4.0, -3.0], [10.0, 10.0]];
    (system, layers(&[(0.0, 12.0, 25.0), (4e3, 6.0, 18.0), (9e3, 0.0, 25.0), (2e4, 2.0, 40.0)]))
}

/// Returns a system with that lag in s, and layers whose winds differ.
pub fn moving(mut system: System, mut atmosphere: Atmosphere, lag: f64) -> (System, Atmosphere) {
    system.lag = lag;
    for (i, layer) in atmosphere.layers.iter_mut().enumerate() {
        layer.wind = Some([9.0 + 4.0 * i as f64, -7.0 * i as f64]);
    }
    (system, atmosphere)
}

pub fn close(what: &str, got: f64, want: f64, relative: f64) {
    assert!(
        (got - want).abs() <= relative * want.abs(),
        "{what}: {got:.12e}, expected {want:.12e}, relative difference {:.2e}",
        (got - want).abs() / want.abs()
    );
}
