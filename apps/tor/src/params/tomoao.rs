//! YAML files of pyTomoAO: laser stars on a circle, one map of lenslets for all sensors, one mirror.
//!
//! | here | there |
//! | --- | --- |
//! | telescope, sensors | `lgs_wfs_parameters`: `D`, `nLenslet`, `validLLMap`, `wfsLensletsRotation` (rad), `wfsLensletsOffset` (of the diameter) |
//! | stars | `lgs_asterism`: `nLGS` at `radiusAst` (arcsec) and equal angles from x on, `baseLGSHeight` (m) |
//! | mirror | `dm_parameters`: `validActuators`, `nActuators`, `dmCrossCoupling`; `dmPitch` has to be that of the lenslets, `dmHeights` 0 |
//! | turbulence | `atmosphere_parameters`: `altitude` (km), `fractionnalR0`, `r0` and `wavelength` (m), `L0` (m), `zenithAngleInDeg` |
//! | noise | `noise_parameters`: 1 / `iNoiseVar` in rad^2 of angle |
//! | targets | `tomography_parameters`: a square of `nFitSrc` x `nFitSrc` directions, `fovOptimization` arcsec wide |
//!
//! The zenith angle is applied as there: distances grow with the airmass, `r0` shrinks with its power 3/5. Pixels, field stop, wind and the
//! wavelength of the laser have no part in the covariances.

use super::check::{self, Place};
use super::yaml::Node;
use super::{
    AngleUnit, Atmosphere, CellMap, GuideStar, Layer, MAX_STARS, MirrorModel, NoiseModel, StarKind, System,
    Valid, Warning,
};
use crate::{ARCSEC_PER_RADIAN, Error};
use std::path::Path;

/// Wavelength at which the strengths of layers are counted, in m.
const REFERENCE: f64 = 500e-9;

struct Reader<'t> {
    root: &'t Node,
    place: Place,
}

/// Reads a file that was parsed.
pub(super) fn read(file: &Path, root: &Node) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    let mut reader = Reader { root, place: Place::new(file, "") };
    let zenith_angle = reader.number("atmosphere_parameters.zenithAngleInDeg", "telescope.zenith_angle")?;
    let mut system = reader.system(zenith_angle)?;
    let mut warnings = check::system(&system, &reader.place)?;
    if !system.stars.is_empty() {
        let message = "0: laser stars are taken to measure tip and tilt, as pyTomoAO takes them";
        warnings.push(reader.place.warning("sensors.lgs_cst", message));
    }
    let mut atmosphere = reader.atmosphere()?;
    atmosphere.slant(zenith_angle);
    system.slant();
    Ok((system, Some(atmosphere), warnings))
}

impl<'t> Reader<'t> {
    /// The node at `section.name`, known to be our `key` from now on.
    fn find(&mut self, path: &str, key: &str) -> Option<&'t Node> {
        let (section, name) = path.split_once('.')?;
        let table = self.root.get(section)?;
        let node = table.get(name);
        self.place.set(key, path, node.map_or(table.line, |node| node.line));
        node
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
        let nssp = self.count("lgs_wfs_parameters.nLenslet", "sensors.nssp", super::MAX_NSSP)?;
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
        let star = |i: usize| {
            let (sin, cos) = (std::f64::consts::TAU * i as f64 / count as f64).sin_cos();
            GuideStar {
                kind: StarKind::Lgs,
                direction: [radius * cos, radius * sin],
                inverse_altitude: 1.0 / height,
                nssp,
                // There the offset is taken from the positions.
                pupil_shift: [-shifts[0][i] * diameter, -shifts[1][i] * diameter],
                rotation: turns[i].to_degrees(),
                magnification: 1.0,
                magnitude: None,
                launcher: None,
            }
        };
        let inverse_variance = self.number("noise_parameters.iNoiseVar", "noise.variance")?;
        let variance = ARCSEC_PER_RADIAN * ARCSEC_PER_RADIAN / inverse_variance;
        Ok(System {
            diameter,
            // Unknown there: the maps of lenslets and actuators say which of them see light.
            obstruction: 0.0,
            zenith_angle,
            valid: Valid::Map(valid),
            mirror: self.mirror(diameter / nssp.max(1) as f64)?,
            nssp,
            stars: (0..count).map(star).collect(),
            targets: self.targets()?,
            lgs_cst: 0.0,
            noise: NoiseModel::Uniform { variance },
            wavelength: 1.65e-6,
            units: AngleUnit::Arcsec,
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
            let problem = format!("actuators every {given:?} m, lenslets every {pitch:.4} m");
            let remedy = "actuators stand at the corners of lenslets here: give influence functions of another mirror (--influence)";
            return Err(self.place.error("mirror.pitch", problem, remedy));
        }
        let across = self.numbers("dm_parameters.nActuators", "mirror.actuators")?;
        let coupling = self.number("dm_parameters.dmCrossCoupling", "mirror.coupling")?;
        let actuators = self.map("dm_parameters.validActuators", "mirror.actuators")?;
        if across != [actuators.across() as f64] {
            let problem = format!("nActuators is {across:?}, the map has {}", actuators.across());
            return Err(self.place.error("mirror.actuators", problem, "give the same"));
        }
        Ok(MirrorModel::Gaussian { coupling, actuators: Some(actuators) })
    }

    fn targets(&mut self) -> Result<Vec<[f64; 2]>, Error> {
        let across = self.count("tomography_parameters.nFitSrc", "imaging.targets", 64)?;
        let width = self.number("tomography_parameters.fovOptimization", "imaging.targets")?;
        let at = |k: usize| if across > 1 { width * (k as f64 / (across - 1) as f64 - 0.5) } else { 0.0 };
        Ok((0..across * across).map(|k| [at(k % across), at(k / across)]).collect())
    }

    fn atmosphere(&mut self) -> Result<Atmosphere, Error> {
        let altitudes = self.numbers("atmosphere_parameters.altitude", "atmosphere.altitude")?;
        let fractions = self.numbers("atmosphere_parameters.fractionnalR0", "atmosphere.cn2")?;
        let outer = self.numbers("atmosphere_parameters.L0", "atmosphere.outer_scale")?;
        let wavelength = self.number("atmosphere_parameters.wavelength", "atmosphere.wavelength")?;
        let r0 = self.number("atmosphere_parameters.r0", "atmosphere.r0")?;
        let count = self.count("atmosphere_parameters.nLayer", "atmosphere.layers", super::MAX_LAYERS)?;
        let outer = if outer.len() == 1 { vec![outer[0]; count] } else { outer };
        for (key, list) in [("altitude", &altitudes), ("cn2", &fractions), ("outer_scale", &outer)] {
            if list.len() != count {
                let problem = format!("{} values, nLayer is {count}", list.len());
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
        // r0 grows with the power 6/5 of the wavelength, a strength is its power -5/3.
        let total = r0.powf(-5.0 / 3.0) * (wavelength / REFERENCE).powi(2);
        let layer = |i: usize| Layer {
            altitude: 1e3 * altitudes[i],
            cn2: if sum > 0.0 { fractions[i] / sum * total } else { 0.0 },
            outer_scale: outer[i],
        };
        let atmosphere = Atmosphere { layers: (0..count).map(layer).collect() };
        check::atmosphere(&atmosphere, &self.place)?;
        Ok(atmosphere)
    }
}
