//! Prints how far the spots of a system's first sensor move for a tilt, by their centres of gravity
//! on the detector.
//!
//! `spot_positions SYSTEM.toml [ARCSEC]` prints `{"pixels": ...}`: the mean over the fully lit
//! lenslets, for a tilt of 0.1 arcsec by default. Without a file: the example of a plain loop.

use std::path::Path;
use zellige_tor::ARCSEC_PER_RADIAN;
use zellige_tor::end_to_end::{ShackHartmann, ShackHartmannSettings, WavefrontSensor};
use zellige_tor::geometry::Geometry;
use zellige_tor::params::{Mode, read};
use zellige_tor::system::NoiseModel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/systems/scao.toml");
    let file = arguments.next().unwrap_or_else(|| example.to_owned());
    let tilt: f64 = arguments.next().map_or(Ok(0.1), |text| text.parse())?;
    let input = read(Path::new(&file), None, Mode::Lenient)?;
    let (system, geometry) = (&input.system, Geometry::new(&input.system)?);
    let NoiseModel::Photometric(light) = &system.noise else {
        return Err(format!("{file}: spots need light: give [photometry]").into());
    };
    let cells = &geometry.sensors()[0];
    let pixels = system.simulation.detector_pixels;
    let settings = ShackHartmannSettings::photometric(system, 0, light, cells, pixels, 1);
    let sensor = ShackHartmann::new(cells, system.obstruction, settings)?;
    let grid = sensor.grid();
    let wavefront = |tilt: f64| -> Vec<f64> {
        grid.ys.iter().flat_map(|_| grid.xs.iter().map(move |x| tilt / ARCSEC_PER_RADIAN * x)).collect()
    };
    let (flat, tilted) = (wavefront(0.0), wavefront(tilt));
    let images: Vec<[Vec<f64>; 2]> =
        (0..cells.len()).map(|i| [sensor.image(&flat, i), sensor.image(&tilted, i)]).collect();
    let light = |image: &[f64]| image.iter().sum::<f64>();
    let most = images.iter().map(|[flat, _]| light(flat)).fold(0.0, f64::max);
    let centre = |image: &[f64]| {
        image.iter().enumerate().map(|(p, v)| (p % pixels) as f64 * v).sum::<f64>() / light(image)
    };
    let moved: Vec<f64> = images
        .iter()
        .filter(|[flat, _]| light(flat) > 0.999 * most)
        .map(|[flat, tilted]| centre(tilted) - centre(flat))
        .collect();
    println!("{{\"pixels\": {}}}", moved.iter().sum::<f64>() / moved.len() as f64);
    Ok(())
}
