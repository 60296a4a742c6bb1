//! The format of zellige: system, stars, noise, atmosphere and targets in one file, in TOML (an
//! example is `systems/demo.toml`) or, with the same keys, in YAML.

use super::Warning;
use super::arrays::Map;
use super::check::{self, Place};
use super::mirrors::{Field, Mirrors, field};
use crate::Error;
use crate::system::{
    AngleUnit, Atmosphere, GuideStar, Layer, LoopModel, NoiseModel, Photometry, StarKind, System, Valid,
};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    units: AngleUnit,
    telescope: Telescope,
    sensors: Sensors,
    guide_star: Vec<Star>,
    photometry: Option<Light>,
    noise: Option<Noise>,
    atmosphere: Option<Profile>,
    #[serde(default)]
    mirror: Mirrors,
    field: Option<Field>,
    #[serde(default)]
    imaging: Imaging,
    #[serde(default, rename = "loop")]
    simulation: LoopModel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Telescope {
    diameter: f64,
    #[serde(default)]
    obstruction: f64,
    #[serde(default)]
    zenith_angle: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sensors {
    nssp: usize,
    #[serde(default)]
    lgs_cst: f64,
    illumination: Option<f64>,
    valid: Option<Map>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Star {
    kind: StarKind,
    x: f64,
    y: f64,
    altitude: Option<f64>,
    nssp: Option<usize>,
    #[serde(default)]
    pupil_shift: [f64; 2],
    #[serde(default)]
    rotation: f64,
    #[serde(default = "one")]
    magnification: f64,
    #[serde(default)]
    slopes_turn: bool,
    magnitude: Option<f64>,
    launcher: Option<[f64; 2]>,
}

fn one() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Light {
    frame_time: f64,
    lgs_flux: f64,
    pixel_ngs: f64,
    pixel_lgs: f64,
    wavelength_ngs: f64,
    wavelength_lgs: f64,
    bandwidth: f64,
    throughput_ngs: f64,
    throughput_lgs: f64,
    throughput_atmosphere: f64,
    read_noise: f64,
    spot_width: f64,
    sodium_altitude: f64,
    sodium_depth: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Noise {
    variance: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    cn2: EachLayer,
    altitude: EachLayer,
    outer_scale: EachLayer,
    wind_speed: Option<EachLayer>,
    wind_direction: Option<EachLayer>,
    r0: Option<f64>,
}

/// A value for each layer, or one for all.
#[derive(Deserialize)]
#[serde(untagged)]
enum EachLayer {
    Same(f64),
    Each(Vec<f64>),
}

impl EachLayer {
    fn list(self, count: usize) -> Vec<f64> {
        match self {
            EachLayer::Same(value) => vec![value; count],
            EachLayer::Each(list) => list,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Imaging {
    wavelength: f64,
    targets: Option<Vec<[f64; 2]>>,
}

impl Default for Imaging {
    fn default() -> Self {
        Imaging { wavelength: 1.65e-6, targets: None }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    atmosphere: Profile,
}

/// Reads a TOML system; the atmosphere is `None` if the file has no `[atmosphere]` table.
///
/// With `[atmosphere] r0 = ...`, `cn2` holds fractions and is scaled so that the total has that
/// `r0`. Otherwise `cn2` is `r0^(-5/3)` of each layer in m^(-5/3).
///
/// `[telescope] zenith_angle` is applied: all other values in the file are those at the zenith.
///
/// # Errors
/// Not TOML, an unknown or missing key, a value out of range.
pub fn parse_toml(file: &Path, text: &str) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    understand(deserialize(file, text)?, &Place::new(file, text))
}

/// Reads a system from a table that was parsed from another language.
pub(super) fn from_table(
    table: toml::Table,
    file: &Path,
    place: &Place,
) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    understand(table.try_into().map_err(|e: toml::de::Error| not_understood(file, None, &e))?, place)
}

fn understand(raw: File, place: &Place) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    let unit = raw.units.in_arcsec();
    let noise = match (raw.photometry, raw.noise) {
        (Some(p), None) => NoiseModel::Photometric(Photometry {
            frame_time: p.frame_time,
            lgs_flux: p.lgs_flux,
            pixel_ngs: p.pixel_ngs * unit,
            pixel_lgs: p.pixel_lgs * unit,
            wavelength_ngs: p.wavelength_ngs,
            wavelength_lgs: p.wavelength_lgs,
            bandwidth: p.bandwidth,
            throughput_ngs: p.throughput_ngs,
            throughput_lgs: p.throughput_lgs,
            throughput_atmosphere: p.throughput_atmosphere,
            read_noise: p.read_noise,
            spot_width: p.spot_width * unit,
            sodium_altitude: p.sodium_altitude,
            sodium_depth: p.sodium_depth,
        }),
        (None, Some(n)) => NoiseModel::Uniform { variance: n.variance * unit * unit },
        (Some(_), Some(_)) => {
            return Err(place.error("noise", "both [photometry] and [noise] are given", "keep one of them"));
        }
        (None, None) => {
            return Err(place.error(
                "noise",
                "no noise model",
                "give a [photometry] table, or [noise] with a variance",
            ));
        }
    };
    let mut stars = Vec::with_capacity(raw.guide_star.len());
    for (i, s) in raw.guide_star.into_iter().enumerate() {
        let inverse_altitude = match (s.kind, s.altitude) {
            (StarKind::Lgs, Some(a)) => 1.0 / a,
            (StarKind::Lgs, None) => {
                return Err(place.error(
                    &format!("guide_star[{i}].altitude"),
                    "missing",
                    "give the altitude of the laser star in m",
                ));
            }
            (StarKind::Ngs, None) => 0.0,
            (StarKind::Ngs, Some(_)) => {
                return Err(place.error(
                    &format!("guide_star[{i}].altitude"),
                    "a natural star is at infinity",
                    "remove the key, or make the star kind = \"lgs\"",
                ));
            }
        };
        stars.push(GuideStar {
            kind: s.kind,
            direction: [s.x * unit, s.y * unit],
            inverse_altitude,
            nssp: s.nssp.unwrap_or(raw.sensors.nssp),
            pupil_shift: s.pupil_shift,
            rotation: s.rotation,
            magnification: s.magnification,
            slopes_turn: s.slopes_turn,
            magnitude: s.magnitude,
            launcher: s.launcher,
        });
    }
    let valid = match (raw.sensors.illumination, &raw.sensors.valid) {
        (None, None) => Valid::Centre,
        (Some(least), None) => Valid::Illuminated(least),
        (None, Some(map)) => Valid::Map(map.cells("sensors.valid", place)?),
        (Some(_), Some(_)) => {
            return Err(place.error(
                "sensors.valid",
                "both illumination and a map are given",
                "keep one of them",
            ));
        }
    };
    let (mirror, mirrors) = raw.mirror.models(place)?;
    let (targets, correction) = field(raw.field.as_ref(), mirrors, raw.imaging.targets, unit, place)?;
    let mut system = System {
        diameter: raw.telescope.diameter,
        obstruction: raw.telescope.obstruction,
        zenith_angle: raw.telescope.zenith_angle,
        valid,
        mirror,
        nssp: raw.sensors.nssp,
        stars,
        targets,
        lgs_cst: raw.sensors.lgs_cst * unit * unit,
        noise,
        lag: 0.0,
        wavelength: raw.imaging.wavelength,
        units: raw.units,
        simulation: LoopModel { field: correction, ..raw.simulation },
    };
    let warnings = check::system(&system, place)?;
    let mut atmosphere = raw.atmosphere.map(|p| profile(p, place)).transpose()?;
    if let Some(atmosphere) = &mut atmosphere {
        atmosphere.slant(system.zenith_angle);
    }
    system.slant();
    Ok((system, atmosphere, warnings))
}

/// Reads a TOML file that holds an `[atmosphere]` table only.
pub(super) fn parse_toml_atmosphere(file: &Path, text: &str) -> Result<(Atmosphere, Vec<Warning>), Error> {
    let raw: ProfileFile = deserialize(file, text)?;
    Ok((profile(raw.atmosphere, &Place::new(file, text))?, Vec::new()))
}

/// Reads an atmosphere from a table that was parsed from another language.
pub(super) fn atmosphere_from_table(
    table: toml::Table,
    file: &Path,
    place: &Place,
) -> Result<Atmosphere, Error> {
    let raw: ProfileFile = table.try_into().map_err(|e: toml::de::Error| not_understood(file, None, &e))?;
    profile(raw.atmosphere, place)
}

fn profile(p: Profile, place: &Place) -> Result<Atmosphere, Error> {
    // A list of strengths or altitudes defines the number of layers.
    let count = match (&p.cn2, &p.altitude) {
        (EachLayer::Each(list), _) | (_, EachLayer::Each(list)) => list.len(),
        _ => 1,
    };
    let [cn2, altitude, outer] = [p.cn2, p.altitude, p.outer_scale].map(|list| list.list(count));
    for (key, len) in [("altitude", altitude.len()), ("outer_scale", outer.len())] {
        if len != count {
            return Err(place.error(
                &format!("atmosphere.{key}"),
                format!("{len} values for {count} layers"),
                "give as many values as cn2 has",
            ));
        }
    }
    let winds = winds(p.wind_speed, p.wind_direction, count, place)?;
    let layer = |i: usize| Layer {
        altitude: altitude[i],
        cn2: cn2[i],
        outer_scale: outer[i],
        wind: winds.as_ref().map(|winds| winds[i]),
    };
    let layers = (0..count).map(layer).collect();
    let mut atmosphere = Atmosphere { layers };
    check::atmosphere(&atmosphere, place)?;
    if let Some(r0) = p.r0 {
        if !(1e-3..=100.0).contains(&r0) {
            return Err(place.error(
                "atmosphere.r0",
                format!("{r0:?} is not allowed"),
                "give a number from 0.001 to 100 m",
            ));
        }
        let sum: f64 = atmosphere.layers.iter().map(|l| l.cn2).sum();
        let scale = r0.powf(-5.0 / 3.0) / sum;
        for l in &mut atmosphere.layers {
            l.cn2 *= scale;
        }
        check::atmosphere(&atmosphere, place)?;
    }
    Ok(atmosphere)
}

/// Converts speeds \[m/s\] and directions of motion \[degrees from x to y\] to velocities.
fn winds(
    speed: Option<EachLayer>,
    direction: Option<EachLayer>,
    count: usize,
    place: &Place,
) -> Result<Option<Vec<[f64; 2]>>, Error> {
    let (speed, direction) = match (speed, direction) {
        (None, None) => return Ok(None),
        (Some(speed), Some(direction)) => (speed.list(count), direction.list(count)),
        (speed, _) => {
            let [given, missing] = match speed {
                Some(_) => ["wind_speed", "wind_direction"],
                None => ["wind_direction", "wind_speed"],
            };
            return Err(place.error(
                &format!("atmosphere.{given}"),
                format!("there is no atmosphere.{missing}"),
                "give both wind_speed (m/s) and wind_direction (degrees), or none",
            ));
        }
    };
    for (key, list) in [("wind_speed", &speed), ("wind_direction", &direction)] {
        if list.len() != count {
            return Err(place.error(
                &format!("atmosphere.{key}"),
                format!("{} values for {count} layers", list.len()),
                "give one value, or as many as cn2 has",
            ));
        }
    }
    for (&speed, &direction) in speed.iter().zip(&direction) {
        place.range("atmosphere.wind_speed", speed, 0.0, 200.0, "m/s")?;
        place.range("atmosphere.wind_direction", direction, -360.0, 360.0, "degrees")?;
    }
    let velocity = |(speed, direction): (f64, f64)| {
        let (sin, cos) = direction.to_radians().sin_cos();
        [speed * cos, speed * sin]
    };
    Ok(Some(speed.into_iter().zip(direction).map(velocity).collect()))
}

fn deserialize<T: serde::de::DeserializeOwned>(file: &Path, text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|e| {
        let line = e
            .span()
            .map(|s| text.as_bytes()[..s.start.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1);
        not_understood(file, line, &e)
    })
}

fn not_understood(file: &Path, line: Option<usize>, e: &toml::de::Error) -> Error {
    let problem = e.message().to_owned();
    // serde puts the wrong key between backquotes.
    let key = problem.split('`').nth(1).unwrap_or("file").to_owned();
    let remedy = "`zellige tor example` and the reference of parameter files name every key";
    Error::Parameter { file: file.to_owned(), line, key, problem, remedy: remedy.into() }
}
