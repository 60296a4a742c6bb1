use super::*;
use crate::geometry::truth_star;
use crate::system::Layer;
use crate::turbulence::structure_function;
use std::collections::HashMap;

const R0: f64 = 0.15;

fn atmosphere(outer_scale: f64, wind: [f64; 2]) -> Atmosphere {
    let cn2 = f64::powf(R0, -5.0 / 3.0);
    Atmosphere { layers: vec![Layer { altitude: 0.0, cn2, outer_scale, wind: Some(wind) }] }
}

fn turbulence(outer_scale: f64, pixel: f64, seed: u64) -> FrozenTurbulence {
    FrozenTurbulence::new(&atmosphere(outer_scale, [10.0, 0.0]), pixel, seed).unwrap()
}

fn theory(r: f64, outer_scale: f64) -> f64 {
    structure_function(r, f64::powf(R0, -5.0 / 3.0), outer_scale) * METRES_PER_RADIAN.powi(2)
}

fn star() -> GuideStar {
    truth_star(8, [0.0, 0.0])
}

fn at(turbulence: &FrozenTurbulence, time: f64, grid: &PupilGrid) -> Vec<f64> {
    let mut out = vec![0.0; grid.len()];
    turbulence.wavefront(&star(), time, grid, &mut out);
    out
}

/// Returns the structure function between two points that follows from the kernels, without any
/// random number.
fn implied(turbulence: &FrozenTurbulence, covariances: &[Vec<f64>], a: [f64; 2], b: [f64; 2]) -> f64 {
    let mut sum = 0.0;
    for (level, covariance) in turbulence.layers[0].levels.iter().zip(covariances) {
        // Differences of the weights, before any product: weights of coarse levels nearly cancel.
        let mut weights: HashMap<[i64; 2], f64> = HashMap::new();
        for (point, sign) in [(a, 1.0), (b, -1.0)] {
            let [(x, across), (y, along)] = point.map(|x| taps(x / level.pixel));
            for k in 0..TAPS * TAPS {
                let pixel = [x + (k % TAPS) as i64, y + (k / TAPS) as i64];
                *weights.entry(pixel).or_default() += sign * across[k % TAPS] * along[k / TAPS];
            }
        }
        for (p, v) in &weights {
            for (q, w) in &weights {
                let [x, y] = [p[0] - q[0], p[1] - q[1]];
                let far = x.abs().max(y.abs()) >= SIDE as i64 / 2;
                let index = x.rem_euclid(SIDE as i64) + y.rem_euclid(SIDE as i64) * SIDE as i64;
                let value = if far { 0.0 } else { covariance[index as usize] };
                sum += level.amplitude.powi(2) * v * w * (value - covariance[0]);
            }
        }
    }
    sum
}

#[test]
fn kernels_have_the_structure_function_at_every_position() {
    for outer_scale in [25.0, 5.0, 1000.0, 1e9] {
        let pixel = 0.05;
        let screen = turbulence(outer_scale, pixel, 1);
        let covariances: Vec<_> =
            screen.layers[0].levels.iter().map(|level| level.kernel.covariance(&screen.fft)).collect();
        for r in [pixel, 2.0 * pixel, 0.23, 0.4, 1.0, 2.0, 4.0, 8.0] {
            let wanted = theory(r, outer_scale);
            let mut ratios = Vec::new();
            for k in 0..16 {
                // Positions between the pixels of all levels, directions in a half circle.
                let start = [0.37 * f64::from(k) + 0.0031 * f64::from(k * k), 0.0123 * f64::from(k)];
                let (sin, cos) = (std::f64::consts::PI * f64::from(k) / 16.0).sin_cos();
                let end = [start[0] + r * cos, start[1] + r * sin];
                ratios.push(implied(&screen, &covariances, start, end) / wanted);
            }
            let mean = ratios.iter().sum::<f64>() / 16.0;
            let worst = ratios.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
            assert!((mean - 1.0).abs() < 0.01, "L0 {outer_scale} r {r}: {mean}");
            // One pixel apart, positions on pixels and between them differ by a few per cent.
            let bound = [0.035, 0.02, 0.01][((r / pixel).round() as usize - 1).min(2)];
            assert!(worst < bound, "L0 {outer_scale} r {r}: {ratios:?}");
        }
    }
}

#[test]
fn drawn_screens_have_the_structure_function() {
    let (pixel, outer_scale) = (0.1, 2.0);
    let grid = PupilGrid::centres(8.0, 80);
    let lags = [1, 2, 4, 10, 40];
    let draws: Vec<Vec<f64>> = (0..24)
        .map(|seed| {
            let screen = FrozenTurbulence::new(&atmosphere(outer_scale, [10.0, 7.0]), pixel, seed).unwrap();
            let w = at(&screen, 3.7137 * seed as f64, &grid);
            let mean = |lag: usize| {
                let pairs = (0..80 * (80 - lag)).map(|k| (k / (80 - lag), k % (80 - lag)));
                let squares = pairs.map(|(i, j)| {
                    (w[i * 80 + j] - w[i * 80 + j + lag]).powi(2)
                        + (w[j * 80 + i] - w[(j + lag) * 80 + i]).powi(2)
                });
                squares.sum::<f64>() / (160 * (80 - lag)) as f64
            };
            lags.map(mean).to_vec()
        })
        .collect();
    for (k, lag) in lags.into_iter().enumerate() {
        let ratios: Vec<f64> =
            draws.iter().map(|draw| draw[k] / theory(lag as f64 * pixel, outer_scale)).collect();
        let mean = ratios.iter().sum::<f64>() / 24.0;
        let error = (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / 24.0 / 23.0).sqrt();
        assert!(
            (mean - 1.0).abs() < 3.0 * error + 0.01 && (mean - 1.0).abs() < 0.03,
            "{lag}: {mean} +- {error}"
        );
    }
}

#[test]
fn any_time_is_reached_directly_and_nothing_repeats() {
    let grid = PupilGrid::centres(2.0, 20);
    let screen = turbulence(2.0, 0.1, 7);
    let late = at(&screen, 1000.0, &grid);
    at(&screen, 0.0, &grid);
    assert_eq!(late, at(&screen, 1000.0, &grid));
    assert_eq!(late, at(&turbulence(2.0, 0.1, 7), 1000.0, &grid));
    assert_ne!(late, at(&turbulence(2.0, 0.1, 8), 1000.0, &grid));
    // 1.2 s of wind are one tile of 12 m.
    let frames: Vec<_> = (0..40).map(|k| at(&screen, 1.2 * f64::from(k), &grid)).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64;
    let power = frames.iter().map(|f| product(f, f)).sum::<f64>() / 40.0;
    for tiles in 1..5 {
        let correlation =
            frames.windows(tiles + 1).map(|w| product(&w[0], &w[tiles])).sum::<f64>() / 40.0 / power;
        assert!(correlation.abs() < 0.3, "{tiles}: {correlation}");
    }
}

#[test]
fn the_wind_moves_the_screen() {
    let screen = turbulence(25.0, 0.1, 3);
    let grid = PupilGrid::centres(2.0, 20);
    let (before, after) = (at(&screen, 5.0, &grid), at(&screen, 5.03, &grid));
    // 0.3 m along x: three pixels.
    for (a, b) in before.chunks_exact(20).zip(after.chunks_exact(20)) {
        assert!(a.iter().zip(&b[3..]).all(|(a, b)| (a - b).abs() < 1e-15));
    }
}

#[test]
fn turned_pupils_and_tile_borders_follow_the_same_plane() {
    let screen = turbulence(25.0, 0.1, 3);
    let mut turned = star();
    turned.rotation = 30.0;
    turned.pupil_shift = [11.7, -0.4];
    // Points in one column, across the border of a tile, are those that are computed alone.
    let grid = PupilGrid { xs: (0..9).map(|k| 0.11 * f64::from(k)).collect(), ys: vec![0.0, 0.3] };
    let mut all = vec![0.0; grid.len()];
    screen.wavefront(&turned, 0.0, &grid, &mut all);
    for (k, value) in all.iter().enumerate() {
        let p = Projection::<f64>::new(&turned, 0.0).point([grid.xs[k % 9], grid.ys[k / 9]]);
        let single = at(&screen, 0.0, &PupilGrid { xs: vec![p[0]], ys: vec![p[1]] });
        assert!((value - single[0]).abs() < 1e-15, "{value} {}", single[0]);
    }
    // Wavefronts are smooth: second differences across a border are like those elsewhere.
    let line = PupilGrid { xs: (0..480).map(|k| 0.05 * f64::from(k)).collect(), ys: vec![0.0] };
    let w = at(&screen, 0.0, &line);
    let second: Vec<f64> = w.windows(3).map(|w| (w[0] - 2.0 * w[1] + w[2]).powi(2)).collect();
    let mean = second.iter().sum::<f64>() / second.len() as f64;
    assert!(second[236..242].iter().all(|s| *s < 12.0 * mean));
}

#[test]
fn layers_above_a_laser_star_and_empty_ones_are_not_seen() {
    let mut air = atmosphere(25.0, [1.0, 2.0]);
    air.layers[0].altitude = 1e4;
    air.layers.push(Layer { cn2: 0.0, ..air.layers[0] });
    let screen = FrozenTurbulence::new(&air, 0.1, 1).unwrap();
    assert!(screen.layers[1].levels.is_empty() && screen.layers() == 2);
    let grid = PupilGrid::centres(1.0, 4);
    let mut laser = star();
    laser.inverse_altitude = 1.0 / 9e3;
    let mut out = vec![1.0; 16];
    screen.wavefront(&laser, 0.0, &grid, &mut out);
    assert_eq!(out, [0.0; 16]);
    // The cone: at half the altitude of the star, half of the pupil's size.
    laser.inverse_altitude = 1.0 / 2e4;
    screen.wavefront(&laser, 0.0, &grid, &mut out);
    let half = PupilGrid {
        xs: grid.xs.iter().map(|x| x / 2.0).collect(),
        ys: grid.ys.iter().map(|y| y / 2.0).collect(),
    };
    assert_eq!(out, at(&screen, 0.0, &half));
    air.layers[1].cn2 = -1.0;
    assert!(FrozenTurbulence::new(&air, 0.1, 1).unwrap_err().to_string().contains("layer 2"));
    assert!(FrozenTurbulence::new(&atmosphere(25.0, [0.0; 2]), 0.0, 1).is_err());
}

#[test]
fn threads_give_the_same_bits() {
    let mut air = atmosphere(25.0, [3.0, 2.0]);
    air.layers.push(Layer { altitude: 5e3, ..air.layers[0] });
    let grid = PupilGrid::corners(4.0, 16);
    let alone: Vec<_> = {
        let screen = FrozenTurbulence::new(&air, 0.25, 5).unwrap();
        (0..8).map(|k| at(&screen, 2.5 * f64::from(k), &grid)).collect()
    };
    let screen = FrozenTurbulence::new(&air, 0.25, 5).unwrap();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (screen, grid, alone) = (&screen, &grid, &alone);
            scope.spawn(move || {
                for k in (0..8).rev() {
                    let k = (k + first) % 8;
                    assert_eq!(at(screen, 2.5 * k as f64, grid), alone[k]);
                }
            });
        }
    });
    // Layers of equal parameters are independent: they cancel nowhere and are not equal.
    let mut each = [vec![0.0; grid.len()], vec![0.0; grid.len()]];
    for (i, out) in each.iter_mut().enumerate() {
        screen.add(i, &Projection::new(&star(), 0.0), 0.0, &grid, out);
    }
    assert_ne!(each[0], each[1]);
}
