//! YAML files of pyTomoAO: laser stars on a circle, one map of lenslets for all sensors, one
//! mirror.
//!
//! | here | there |
//! | --- | --- |
//! | telescope, sensors | `lgs_wfs_parameters`: `D`, `nLenslet`, `validLLMap`, `wfsLensletsRotation` (rad; slopes turn too), `wfsLensletsOffset` (of the diameter padded by two lenslets on each side, `D (nLenslet + 4) / nLenslet`) |
//! | stars | `lgs_asterism`: `nLGS` at `radiusAst` (arcsec) and equal angles from x on, `baseLGSHeight` (m) |
//! | mirror | `dm_parameters`: `validActuators`, `nActuators`, `dmCrossCoupling`; `dmPitch` has to be that of the lenslets, `dmHeights` 0 |
//! | turbulence | `atmosphere_parameters`: `altitude` (km), `fractionnalR0`, `r0` and `wavelength` (m), `L0` (m), `zenithAngleInDeg` |
//! | noise | `noise_parameters`: `alpha` times the mean variance of a slope, or 1 / `iNoiseVar` in rad^2 of angle |
//! | targets | `tomography_parameters`: a square of `nFitSrc` x `nFitSrc` directions, `fovOptimization` arcsec wide |
//!
//! The conventions are those of pyTomoAO 2.0.0. No version of it reads `iNoiseVar`: its noise is
//! [`ALPHA`] times the mean variance of a slope, unless the caller passes another factor. The key
//! `alpha`, an extension of zellige, stands for that factor. Version 1.0.1 multiplies the rotation
//! by 180 / pi.
//!
//! The zenith angle is applied as in pyTomoAO: distances grow with the airmass, `r0` shrinks with
//! its power 3/5. Pixels, field stop, wind and the wavelength of the laser do not affect the
//! covariances.

use super::Warning;
use super::check::{self, Place};
use super::yaml::Node;
use crate::system::{
    AngleUnit, Atmosphere, CellMap, GuideStar, Layer, LoopModel, MAX_STARS, MirrorModel, NoiseModel,
    StarKind, System, Valid,
};
use crate::turbulence::structure_function;
use crate::{ARCSEC_PER_RADIAN, Error};
use std::path::Path;

/// Default ratio of the noise to the mean variance of a slope in pyTomoAO 2.0.0.
const ALPHA: f64 = 10.0;

/// Default ratio of the noise to the mean variance of a slope in pyTomoAO 1.0.1.
const OLDER_ALPHA: f64 = 0.1;

/// Number of lenslets by which pyTomoAO pads a sensor, on both sides together.
const PADDING: usize = 4;

/// Reference wavelength of layer strengths, in m.
const REFERENCE: f64 = 500e-9;

struct TomoaoReader<'t> {
    root: &'t Node,
    place: Place,
}

/// Reads the system of a parsed file.
pub(super) fn read(file: &Path, root: &Node) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    let mut reader = TomoaoReader { root, place: Place::new(file, "") };
    let zenith_angle = reader.number("atmosphere_parameters.zenithAngleInDeg", "telescope.zenith_angle")?;
    let mut system = reader.system(zenith_angle)?;
    check::system(&system, &reader.place)?;
    let mut warnings = reader.registration(&system);
    if !system.stars.is_empty() {
        let message = "0: laser stars are assumed to measure tip and tilt, as in pyTomoAO";
        warnings.push(reader.place.warning("sensors.lgs_cst", message));
    }
    let mut atmosphere = reader.atmosphere()?;
    atmosphere.slant(zenith_angle);
    system.slant();
    let (variance, message) = reader.noise(slope_variance(&system, &atmosphere))?;
    system.noise = NoiseModel::Uniform { variance };
    warnings.extend(check::system(&system, &reader.place)?);
    warnings.extend(message.map(|message| reader.place.warning("noise.variance", message)));
    Ok((system, Some(atmosphere), warnings))
}

/// Returns the diameter in m of a sensor with pyTomoAO's padding, which is its unit of offsets.
fn padded(diameter: f64, nssp: usize) -> f64 {
    diameter * (nssp + PADDING) as f64 / nssp.max(1) as f64
}

/// Returns the variance in arcsec^2 of pyTomoAO's slopes from turbulence, the same for all slopes.
/// Phases at three points of an edge have the weights 1/4, 1/2, 1/4.
fn slope_variance(system: &System, atmosphere: &Atmosphere) -> f64 {
    let pitch = system.diameter / system.nssp.max(1) as f64;
    let inverse_altitude = system.stars.first().map_or(0.0, |star| star.inverse_altitude);
    let of_layer = |layer: &Layer| {
        let side = pitch * (1.0 - layer.altitude * inverse_altitude).max(0.0);
        let phase = |x: f64, y: f64| structure_function(x.hypot(y), layer.cn2, layer.outer_scale);
        // Pairs of points of two edges, by their distance along the edge, with their total weights.
        let pairs = [(0.0, 3.0 / 8.0), (0.5, 1.0 / 2.0), (1.0, 1.0 / 8.0)];
        let pair =
            |(along, weight): (f64, f64)| weight * (phase(side, along * side) - phase(0.0, along * side));
        pairs.map(pair).iter().sum::<f64>()
    };
    let to_slope = REFERENCE / (std::f64::consts::TAU * pitch) * ARCSEC_PER_RADIAN;
    to_slope * to_slope * atmosphere.layers.iter().map(of_layer).sum::<f64>()
}

impl<'t> TomoaoReader<'t> {
    /// Returns the node at `section.name`, and records its position as that of `key`.
    fn find(&mut self, path: &str, key: &str) -> Option<&'t Node> {
        let (section, name) = path.split_once('.')?;
        let table = self.root.get(section)?;
        let node = table.get(name);
        self.place.set(key, path, node.map_or(table.line, |node| node.line));
        node.filter(|node| !node.is_null())
    }

    /// Returns the number of an optional entry.
    fn optional(&mut self, path: &str, key: &str) -> Result<Option<f64>, Error> {
        match self.find(path, key) {
            None => Ok(None),
            Some(node) => Ok(Some(node.number().ok_or_else(|| self.wrong(path, key, "a number"))?)),
        }
    }

    /// Returns the variance of the noise in arcsec^2, and a note on it. `slopes` is the mean
    /// variance of pyTomoAO's slopes.
    fn noise(&mut self, slopes: f64) -> Result<(f64, Option<String>), Error> {
        let key = "noise.variance";
        if let Some(alpha) = self.optional("noise_parameters.alpha", key)? {
            let fits = alpha >= 0.0;
            let wrong = || self.place.error(key, format!("alpha is {alpha}"), "give a factor of 0 or more");
            return if fits { Ok((alpha * slopes, None)) } else { Err(wrong()) };
        }
        let inverse = self.optional("noise_parameters.iNoiseVar", key)?;
        let positive = |path: &str, given: f64| match given > 0.0 {
            true => Ok(given),
            false => Err(self.place.error(key, format!("{path} is {given}"), "give a number above 0")),
        };
        let levels = format!(
            "{ALPHA} times the mean variance of a slope, {:.4e} arcsec^2 ({OLDER_ALPHA} times in 1.0.1, {:.4e})",
            ALPHA * slopes,
            OLDER_ALPHA * slopes
        );
        let written = match inverse {
            Some(inverse) => {
                let inverse = positive("noise_parameters.iNoiseVar", inverse)?;
                Some(ARCSEC_PER_RADIAN * ARCSEC_PER_RADIAN / inverse)
            }
            None => None,
        };
        Ok(match written {
            Some(variance) => (
                variance,
                Some(format!(
                    "1 / iNoiseVar is used, {variance:.4e} arcsec^2; pyTomoAO never reads it, its noise is {levels}: for that noise give \
                     noise_parameters an alpha of {ALPHA} (or {OLDER_ALPHA})"
                )),
            ),
            None => (
                ALPHA * slopes,
                Some(format!(
                    "not given: the noise of pyTomoAO 2.0.0, {levels}; another factor is alpha in noise_parameters"
                )),
            ),
        })
    }

    /// Returns warnings on rotated and shifted sensors, whose units differ between versions and
    /// documentation.
    fn registration(&self, system: &System) -> Vec<Warning> {
        let mut said = Vec::new();
        let turned = system.stars.iter().map(|star| star.rotation).find(|turn| *turn != 0.0);
        if let Some(turn) = turned {
            let message = format!(
                "in radians as in pyTomoAO 2.0.0 (the first turned sensor by {turn:.4} degrees); 1.0.1 multiplies them by 180 / pi"
            );
            said.push(self.place.warning("guide_star.rotation", message));
        }
        let shifted = system.stars.iter().map(|star| star.pupil_shift).find(|shift| *shift != [0.0; 2]);
        if let Some([x, y]) = shifted {
            let message = format!(
                "in parts of the padded diameter {:.4} m as pyTomoAO 2.0.0 computes, not in sub-apertures as it prints (the first shifted sensor \
                 by {x:.4} m, {y:.4} m)",
                padded(system.diameter, system.nssp)
            );
            said.push(self.place.warning("guide_star.pupil_shift", message));
        }
        said
    }

    fn wrong(&self, path: &str, key: &str, wanted: &str) -> Error {
        self.place.error(key, format!("{path} is missing, or not {wanted}"), format!("give {wanted}"))
    }

    fn number(&mut self, path: &str, key: &str) -> Result<f64, Error> {
        let found = self.find(path, key).and_then(Node::number);
        found.ok_or_else(|| self.wrong(path, key, "a number"))
    }

    fn count(&mut self, path: &str, key: &str, most: usize) -> Result<usize, Error> {
        let value = self.number(path, key)?;
        let whole = value.fract() == 0.0 && value >= 0.0 && value <= most as f64;
        if whole {
            Ok(value as usize)
        } else {
            Err(self.wrong(path, key, &format!("a whole number up to {most}")))
        }
    }

    fn numbers(&mut self, path: &str, key: &str) -> Result<Vec<f64>, Error> {
        let found = self.find(path, key).and_then(Node::numbers);
        found.ok_or_else(|| self.wrong(path, key, "a list of numbers"))
    }

    fn map(&mut self, path: &str, key: &str) -> Result<CellMap, Error> {
        let rows = self.find(path, key).and_then(Node::rows);
        let rows = rows.ok_or_else(|| self.wrong(path, key, "a list of lists of 0 and 1"))?;
        CellMap::from_numbers(&rows)
            .map_err(|problem| self.place.error(key, problem, "give as many rows as columns"))
    }

    fn system(&mut self, zenith_angle: f64) -> Result<System, Error> {
        let diameter = self.number("lgs_wfs_parameters.D", "telescope.diameter")?;
        let nssp = self.count("lgs_wfs_parameters.nLenslet", "sensors.nssp", crate::system::MAX_NSSP)?;
        let valid = self.map("lgs_wfs_parameters.validLLMap", "sensors.valid")?;
        check::fits_map("sensors.nssp", nssp, valid.across(), &self.place)?;
        let count = self.count("lgs_asterism.nLGS", "guide_star", MAX_STARS)?;
        let turns = self.per_star("lgs_wfs_parameters.wfsLensletsRotation", "guide_star.rotation", count)?;
        let shifts = match self.find("lgs_wfs_parameters.wfsLensletsOffset", "guide_star.pupil_shift") {
            None => vec![vec![0.0; count]; 2],
            Some(node) => {
                let rows =
                    node.rows().filter(|rows| rows.len() == 2 && rows.iter().all(|row| row.len() == count));
                let wanted = format!("two lists of {count} numbers");
                rows.ok_or_else(|| {
                    self.wrong("lgs_wfs_parameters.wfsLensletsOffset", "guide_star.pupil_shift", &wanted)
                })?
            }
        };
        let radius = self.number("lgs_asterism.radiusAst", "guide_star.x")?;
        let height = self.number("lgs_asterism.baseLGSHeight", "guide_star.altitude")?;
        let unit = padded(diameter, nssp);
        let star = |i: usize| {
            let (sin, cos) = (std::f64::consts::TAU * i as f64 / count as f64).sin_cos();
            GuideStar {
                kind: StarKind::Lgs,
                direction: [radius * cos, radius * sin],
                inverse_altitude: 1.0 / height,
                nssp,
                // pyTomoAO subtracts the offset from the positions.
                pupil_shift: [-shifts[0][i] * unit, -shifts[1][i] * unit],
                rotation: turns[i].to_degrees(),
                magnification: 1.0,
                slopes_turn: true,
                magnitude: None,
                launcher: None,
            }
        };
        Ok(System {
            diameter,
            // pyTomoAO has no obstruction: the maps of lenslets and actuators define the
            // illuminated ones.
            obstruction: 0.0,
            zenith_angle,
            valid: Valid::Map(valid),
            mirror: self.mirror(diameter / nssp.max(1) as f64)?,
            nssp,
            stars: (0..count).map(star).collect(),
            targets: self.targets()?,
            lgs_cst: 0.0,
            // The noise is set once the turbulence is known.
            noise: NoiseModel::Uniform { variance: 0.0 },
            lag: 0.0,
            wavelength: 1.65e-6,
            units: AngleUnit::Arcsec,
            simulation: LoopModel::default(),
        })
    }

    fn per_star(&mut self, path: &str, key: &str, count: usize) -> Result<Vec<f64>, Error> {
        let Some(node) = self.find(path, key) else { return Ok(vec![0.0; count]) };
        let found = node.numbers().filter(|numbers| numbers.len() == count);
        found.ok_or_else(|| self.wrong(path, key, &format!("a list of {count} numbers")))
    }

    fn mirror(&mut self, pitch: f64) -> Result<MirrorModel, Error> {
        let heights = self.numbers("dm_parameters.dmHeights", "mirror.altitude")?;
        if heights != [0.0] {
            let problem = format!("mirrors at {heights:?} m");
            return Err(self.place.error(
                "mirror.altitude",
                problem,
                "one mirror at the pupil is modelled: give dmHeights: [0.0]",
            ));
        }
        let given = self.numbers("dm_parameters.dmPitch", "mirror.pitch")?;
        if given.len() != 1 || (given[0] / pitch - 1.0).abs() > 0.01 {
            let problem = format!("actuators every {given:?} m, but lenslets every {pitch:.4} m");
            let remedy = "actuators stand at the corners of lenslets here: give influence functions of another mirror (--influence)";
            return Err(self.place.error("mirror.pitch", problem, remedy));
        }
        let across = self.numbers("dm_parameters.nActuators", "mirror.actuators")?;
        let coupling = self.number("dm_parameters.dmCrossCoupling", "mirror.coupling")?;
        let actuators = self.map("dm_parameters.validActuators", "mirror.actuators")?;
        if across != [actuators.across() as f64] {
            let problem = format!("nActuators is {across:?}, but the map has {}", actuators.across());
            return Err(self.place.error("mirror.actuators", problem, "give the same"));
        }
        Ok(MirrorModel::Gaussian { coupling, actuators: Some(actuators) })
    }

    fn targets(&mut self) -> Result<Vec<[f64; 2]>, Error> {
        let across = self.count("tomography_parameters.nFitSrc", "imaging.targets", 64)?;
        let width = self.number("tomography_parameters.fovOptimization", "imaging.targets")?;
        let at = |k: usize| if across > 1 { width * (k as f64 / (across - 1) as f64 - 0.5) } else { 0.0 };
        // y is fastest, as in pyTomoAO.
        Ok((0..across * across).map(|k| [at(k / across), at(k % across)]).collect())
    }

    fn atmosphere(&mut self) -> Result<Atmosphere, Error> {
        let altitudes = self.numbers("atmosphere_parameters.altitude", "atmosphere.altitude")?;
        let fractions = self.numbers("atmosphere_parameters.fractionnalR0", "atmosphere.cn2")?;
        let outer = self.numbers("atmosphere_parameters.L0", "atmosphere.outer_scale")?;
        let wavelength = self.number("atmosphere_parameters.wavelength", "atmosphere.wavelength")?;
        let r0 = self.number("atmosphere_parameters.r0", "atmosphere.r0")?;
        let count =
            self.count("atmosphere_parameters.nLayer", "atmosphere.layers", crate::system::MAX_LAYERS)?;
        let outer = if outer.len() == 1 { vec![outer[0]; count] } else { outer };
        for (key, list) in [("altitude", &altitudes), ("cn2", &fractions), ("outer_scale", &outer)] {
            if list.len() != count {
                let problem = format!("{} values, but nLayer is {count}", list.len());
                return Err(self.place.error(
                    &format!("atmosphere.{key}"),
                    problem,
                    "give one for each layer",
                ));
            }
        }
        check::strengths(&fractions, &self.place)?;
        if !(1e-3..=100.0).contains(&r0) || !(1e-8..=1e-3).contains(&wavelength) {
            let problem = format!("r0 = {r0} m at {wavelength} m");
            return Err(self.place.error("atmosphere.r0", problem, "give 0.001 to 100 m, at 1e-8 to 1e-3 m"));
        }
        let sum: f64 = fractions.iter().sum();
        // r0 grows with the power 6/5 of the wavelength, and a strength is its power -5/3.
        let total = r0.powf(-5.0 / 3.0) * (wavelength / REFERENCE).powi(2);
        let layer = |i: usize| Layer {
            altitude: 1e3 * altitudes[i],
            cn2: if sum > 0.0 { fractions[i] / sum * total } else { 0.0 },
            outer_scale: outer[i],
            wind: None,
        };
        let atmosphere = Atmosphere { layers: (0..count).map(layer).collect() };
        check::atmosphere(&atmosphere, &self.place)?;
        Ok(atmosphere)
    }
}
