use super::noise::{add_noise, poisson};
use super::*;
use crate::ARCSEC_PER_RADIAN;
use crate::covariance::{Covariance, Kind};
use crate::end_to_end::random::CounterRandom;
use crate::end_to_end::turbulence::FrozenTurbulence;
use crate::geometry::{SubApertures, truth_star};
use crate::noise::SlopeNoise;
use crate::system::{
    Atmosphere, GuideStar, Layer, MirrorModel, NoiseModel, Photometry, StarKind, System, Valid,
};

fn cells() -> SubApertures {
    SubApertures::new(2.0, 0.0, 5).unwrap()
}

fn system(star: GuideStar) -> System {
    System {
        diameter: 2.0,
        obstruction: 0.0,
        zenith_angle: 0.0,
        valid: Valid::Centre,
        mirror: MirrorModel::Gaussian { coupling: 0.2, actuators: None },
        nssp: 4,
        stars: vec![star],
        targets: vec![[0.0, 0.0]],
        lgs_cst: 0.0,
        noise: NoiseModel::Uniform { variance: 1e-30 },
        wavelength: 1.65e-6,
        lag: 0.0,
        units: Default::default(),
        simulation: Default::default(),
    }
}

/// Half-wave sampling, as in a plain system of 0.4 m sub-apertures.
fn settings() -> ShackHartmannSettings {
    ShackHartmannSettings {
        wavelength: 700e-9,
        pupil_pixels: 8,
        pixels: 16,
        pixel: 700e-9 / 0.8 * ARCSEC_PER_RADIAN,
        samples: 1,
        photons: 100.0,
        photon_noise: false,
        read_noise: 0.0,
        threshold: 0.0,
        weights: f64::INFINITY,
        source: Vec::new(),
        seed: 1,
        star: 0,
    }
}

fn sensor(change: impl FnOnce(&mut ShackHartmannSettings)) -> ShackHartmann {
    let mut settings = settings();
    change(&mut settings);
    ShackHartmann::new(&cells(), 0.0, settings).unwrap()
}

fn wavefront(sensor: &dyn WavefrontSensor, w: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let grid = sensor.grid();
    grid.ys.iter().flat_map(|&y| grid.xs.iter().map(move |&x| (x, y))).map(|(x, y)| w(x, y)).collect()
}

fn measured(sensor: &dyn WavefrontSensor, wavefront: &[f64], frame: u64) -> Vec<f64> {
    let mut out = vec![f64::NAN; sensor.slopes()];
    sensor.measure(wavefront, frame, &mut out);
    out
}

#[test]
fn a_tilt_reads_its_angle() {
    let elongated = vec![[0.09, 0.04, 0.03]; cells().len()];
    let shack: Vec<Box<dyn WavefrontSensor>> = vec![
        Box::new(sensor(|_| ())),
        Box::new(sensor(|s| s.weights = 1.0)),
        Box::new(sensor(|s| s.source = elongated)),
        Box::new(sensor(|s| s.samples = 2)),
        Box::new(GeometricSensor::edge_middles(&cells())),
        Box::new(GeometricSensor::mean_gradients(&cells(), 4)),
    ];
    for (k, sensor) in shack.iter().enumerate() {
        let [a, b] = [0.1, -0.03];
        let w = wavefront(&**sensor, |x, y| (a * x + b * y) / ARCSEC_PER_RADIAN);
        let slopes = measured(&**sensor, &w, 0);
        let count = slopes.len() / 2;
        for i in 0..count {
            // A lenslet at the edge of the pupil has a spot that is long along a diagonal.
            let whole = cells().cells[i].iter().all(|k| (1..4).contains(k));
            let bound = if whole || k >= 4 { 0.001 } else { 0.006 };
            assert!((slopes[i] - a).abs() < bound, "{k} {i}: {}", slopes[i]);
            assert!((slopes[count + i] - b).abs() < bound, "{k} {i}: {}", slopes[count + i]);
        }
        assert!(measured(&**sensor, &wavefront(&**sensor, |_, _| 1e-7), 0).iter().all(|s| s.abs() < 1e-9));
    }
}

#[test]
fn an_extended_source_of_no_size_is_a_point_and_a_large_one_is_wide() {
    let point = sensor(|_| ());
    let w = wavefront(&point, |x, y| 3e-7 * x * y + 1e-7 * x * x);
    let small = sensor(|s| s.source = vec![[0.0; 3]; cells().len()]);
    let image = point.image(&w, 3);
    assert!(image.iter().zip(small.image(&w, 3)).all(|(a, b)| (a - b).abs() < 1e-9));
    // The whole light of a lit lenslet falls on the detector, but for the field stop.
    let centre = cells().cells.iter().position(|c| *c == [2, 2]).unwrap();
    let total: f64 = point.image(&w, centre).iter().sum();
    assert!(total > 99.9 && total < 100.0 + 1e-9, "{total}");
    let second = |image: &[f64], axis: usize| {
        let at = |k: usize| ([k % 16, k / 16][axis] as f64 - 7.5).powi(2);
        image.iter().enumerate().map(|(k, v)| v * at(k)).sum::<f64>() / image.iter().sum::<f64>()
    };
    let flat = vec![0.0; w.len()];
    let wide = sensor(|s| s.source = vec![[0.04, 0.0, 0.0]; cells().len()]).image(&flat, centre);
    let narrow = point.image(&flat, centre);
    assert!(second(&wide, 0) > second(&narrow, 0) + 0.5);
    assert!((second(&wide, 1) / second(&narrow, 1) - 1.0).abs() < 0.05);
}

#[test]
fn mean_gradients_are_those_of_an_analytic_wavefront() {
    let sensor = GeometricSensor::mean_gradients(&cells(), 16);
    let w = wavefront(&sensor, |x, y| 1e-6 * (x * x * y + 0.5 * y * y - 0.2 * x));
    let slopes = measured(&sensor, &w, 0);
    let pitch = cells().pitch;
    for i in 0..cells().len() {
        let [x, y] = cells().centre(i);
        let dx = 1e-6 * (2.0 * x * y - 0.2) * ARCSEC_PER_RADIAN;
        let dy = 1e-6 * (x * x + pitch * pitch / 12.0 + y) * ARCSEC_PER_RADIAN;
        assert!((slopes[i] - dx).abs() < 1e-4 && (slopes[cells().len() + i] - dy).abs() < 1e-4, "{i}");
    }
}

#[test]
fn edge_differences_in_turbulence_have_the_covariance_of_the_model() {
    let mut star = truth_star(4, [0.0, 0.0]);
    star.direction = [20.0, -10.0];
    let layer = |altitude, cn2, outer_scale| Layer { altitude, cn2, outer_scale, wind: Some([7.3, 11.9]) };
    let air = Atmosphere { layers: vec![layer(0.0, 20.0, 2.0), layer(8e3, 10.0, 3.0)] };
    let system = system(star.clone());
    let wanted = Covariance::<f64>::new(&system, &air).unwrap().matrix(Kind::Cmm).unwrap();
    let sensor = GeometricSensor::edge_middles(&SubApertures::of(&system, 4).unwrap());
    let turbulence = FrozenTurbulence::new(&air, 0.25, 11).unwrap();
    let n = sensor.slopes();
    let draws = 2000;
    let mut sums = vec![0.0; n * n];
    let mut wave = vec![0.0; sensor.grid().len()];
    for draw in 0..draws {
        // Pupils 3 m apart in a square, at five times.
        star.pupil_shift = [draw % 20, draw / 20 % 20].map(|k| 3.07 * f64::from(k));
        turbulence.wavefront(&star, 100.3 * f64::from(draw / 400), sensor.grid(), &mut wave);
        let slopes = measured(&sensor, &wave, 0);
        for (k, sum) in sums.iter_mut().enumerate() {
            *sum += slopes[k % n] * slopes[k / n] / f64::from(draws);
        }
    }
    let (mut difference, mut size, mut traces) = (0.0, 0.0, [0.0; 2]);
    for j in 0..n {
        for i in 0..n {
            difference += (sums[i + j * n] - wanted[(i, j)]).powi(2);
            size += wanted[(i, j)].powi(2);
        }
        traces[0] += sums[j + j * n];
        traces[1] += wanted[(j, j)];
    }
    // An entry's error of 2000 draws, neighbours of which are correlated, is 1/30 of the diagonal.
    assert!((traces[0] / traces[1] - 1.0).abs() < 0.03, "{traces:?}");
    assert!((difference / size).sqrt() < 0.12, "{}", (difference / size).sqrt());
}

#[test]
fn noise_of_slopes_has_its_covariance() {
    let noise = SlopeNoise { xx: 0.04, yy: 0.01, xy: 0.012 };
    let sensor = GeometricSensor::edge_middles(&cells()).with_noise(&vec![noise; cells().len()], 3, 1);
    let flat = vec![0.0; sensor.grid().len()];
    let (count, mut sums) = (cells().len(), [0.0; 3]);
    for frame in 0..2000 {
        let slopes = measured(&sensor, &flat, frame);
        for i in 0..count {
            let [x, y] = [slopes[i], slopes[count + i]];
            sums.iter_mut().zip([x * x, y * y, x * y]).for_each(|(sum, product)| *sum += product);
        }
    }
    let [xx, yy, xy] = sums.map(|sum| sum / (2000 * count) as f64);
    assert!((xx / 0.04 - 1.0).abs() < 0.03 && (yy / 0.01 - 1.0).abs() < 0.03, "{xx} {yy}");
    assert!((xy / 0.012 - 1.0).abs() < 0.06, "{xy}");
    assert_eq!(measured(&sensor, &flat, 5), measured(&sensor, &flat, 5));
    assert_ne!(measured(&sensor, &flat, 5), measured(&sensor, &flat, 6));
}

#[test]
fn poisson_numbers_have_their_mean_and_variance() {
    assert_eq!(
        [poisson(0.0, 2.0), poisson(0.1, 2.0), poisson(0.2, 2.0), poisson(0.5, 0.0)],
        [0.0, 0.0, 1.0, 0.0]
    );
    let sequence = CounterRandom::new(1, &[1]).sequence(0);
    for mean in [0.01, 1.0, 20.0, 63.0, 65.0, 1000.0] {
        let mut draws = vec![mean; 40_000];
        add_noise(sequence, 0, &mut draws, true, 0.0);
        let average = draws.iter().sum::<f64>() / 4e4;
        let variance = draws.iter().map(|d| (d - average).powi(2)).sum::<f64>() / 4e4;
        assert!((average - mean).abs() < 4.0 * (mean / 4e4).sqrt(), "{mean}: {average}");
        let error = ((2.0 * mean * mean + mean) / 4e4).sqrt();
        assert!((variance - mean).abs() < 4.0 * error + 0.1, "{mean}: {variance}");
    }
}

/// Returns the mean variance of the slopes of a lenslet that is lit whole, in a flat wave.
fn variance(sensor: &ShackHartmann) -> f64 {
    let centre = cells().cells.iter().position(|c| *c == [2, 2]).unwrap();
    let flat = vec![0.0; sensor.grid().len()];
    let frames = 1500;
    (0..frames).map(|frame| measured(sensor, &flat, frame)[centre].powi(2)).sum::<f64>() / frames as f64
}

#[test]
fn noise_of_photons_and_detector_follows_theory() {
    let quiet = sensor(|_| ());
    let flat = vec![0.0; quiet.grid().len()];
    let centre = cells().cells.iter().position(|c| *c == [2, 2]).unwrap();
    let image = quiet.image(&flat, centre);
    let total: f64 = image.iter().sum();
    let squares = |k: usize| ((k % 16) as f64 - 7.5).powi(2) * settings().pixel.powi(2);
    // Of a centre of gravity: sum of variance times distance^2 over total^2.
    let light = image.iter().enumerate().map(|(k, v)| v * squares(k)).sum::<f64>() / (total * total);
    let photons = variance(&sensor(|s| s.photon_noise = true));
    assert!((photons / light - 1.0).abs() < 0.15, "{photons} {light}");
    let brighter = variance(&sensor(|s| (s.photon_noise, s.photons) = (true, 1000.0)));
    assert!((brighter / light * 10.0 - 1.0).abs() < 0.15, "{brighter} {light}");
    let read = 0.04 * (0..256).map(squares).sum::<f64>() / (total * total);
    let noisy = variance(&sensor(|s| s.read_noise = 0.2));
    assert!((noisy / read - 1.0).abs() < 0.15, "{noisy} {read}");
    // Weights and thresholds keep read noise far from the spot out.
    let both = |weights, threshold| {
        variance(&sensor(|s| (s.read_noise, s.weights, s.threshold) = (0.2, weights, threshold)))
    };
    assert!(both(1.0, 0.0) < 0.5 * noisy && both(f64::INFINITY, 0.6) < 0.5 * noisy);
}

#[test]
fn parameters_without_meaning_are_named() {
    let message = |change: &dyn Fn(&mut ShackHartmannSettings)| {
        let mut settings = settings();
        change(&mut settings);
        ShackHartmann::new(&cells(), 0.0, settings).unwrap_err().to_string()
    };
    assert!(message(&|s| s.photons = f64::NAN).contains("photons"));
    assert!(message(&|s| s.read_noise = -1.0).contains("read_noise"));
    assert!(message(&|s| s.pupil_pixels = 7).contains("take more"));
    assert!(message(&|s| s.pixels = 1).contains("1 pixels"));
    assert!(message(&|s| s.source = vec![[0.0; 3]]).contains("1 sources"));
}

#[test]
fn light_and_detector_of_a_system_change_the_images() {
    let mut star = truth_star(4, [30.0, 0.0]);
    star.magnitude = Some(10.0);
    let mut light = Photometry {
        frame_time: 2e-3,
        lgs_flux: 7e6,
        pixel_ngs: 0.3,
        pixel_lgs: 0.5,
        wavelength_ngs: 650e-9,
        wavelength_lgs: 589e-9,
        bandwidth: 330e-9,
        throughput_ngs: 0.4,
        throughput_lgs: 0.38,
        throughput_atmosphere: 0.84,
        read_noise: 1.0,
        spot_width: 1.0,
        sodium_altitude: 9e4,
        sodium_depth: 8e3,
    };
    let settings = |star: &GuideStar, light: &Photometry| {
        let system = system(star.clone());
        let cells = SubApertures::of(&system, 4).unwrap();
        let settings = ShackHartmannSettings::photometric(&system, 0, light, &cells, 8, 1);
        (ShackHartmann::new(&cells, 0.0, settings.clone()).unwrap(), settings)
    };
    let (sensor, first) = settings(&star, &light);
    let image = sensor.image(&vec![0.0; sensor.grid().len()], 5);
    light.throughput_ngs *= 2.0;
    light.bandwidth *= 1.5;
    let (brighter, second) = settings(&star, &light);
    assert!((second.photons / first.photons - 3.0).abs() < 1e-12);
    let bright = brighter.image(&vec![0.0; sensor.grid().len()], 5);
    assert!(image.iter().zip(&bright).all(|(a, b)| (b - 3.0 * a).abs() < 1e-9 * b.abs()));
    // The launcher is at the edge of the pupil along x: spots are long along x.
    star.kind = StarKind::Lgs;
    let (_, laser) = settings(&star, &light);
    assert!((laser.photons - 7e6 * 2e-3 * 0.25 * 0.38 / 0.84).abs() < 1e-9);
    let [xx, yy, _] = laser.source[0];
    let fwhm = |variance: f64| (8.0 * 2f64.ln() * variance).sqrt();
    assert!(xx > yy && fwhm(yy) >= 1.0 && fwhm(yy) < 1.1, "{xx} {yy}");
}
