//! Parameter files of COMPASS: Python modules that set up objects of parameters.
//!
//! | here | there |
//! | --- | --- |
//! | telescope | `p_tel`: `diam`, `cobs`; `p_geom`: `zenithangle` |
//! | sensors | those of `p_wfss` that the first of `p_controllers` reads (`nwfs`): `type` "sh", `nxsub`, `fracsub`, `xpos`, `ypos`, `gsalt`, `thetaML` (radians), `G` |
//! | light | `Lambda`, `pixsize`, `optthroughput`, `noise`, `gsmag`, `zerop`; `lgsreturnperwatt`, `laserpower`, `beamsize`, `lltx`, `llty`; `p_loop`: `ittime` |
//! | turbulence | `p_atmos`: `r0`, `frac`, `alt`, `L0` |
//! | truth sensor, mirror | `nact` - 1 sub-apertures and `coupling` of the "pzt" mirror at altitude 0 of `p_dms`; without one the finest sensor |
//! | targets | `p_targets` or `p_target`: `xpos`, `ypos`, `Lambda` |
//!
//! The conventions are those of COMPASS. `zenithangle` stretches the altitudes of the layers; `r0`
//! and `gsalt` are along the line of sight. A star without laser power has `zerop` photons / m^2 /
//! s at magnitude 0. `thetaML` and `G` rotate and magnify the phase that a sensor sees, so that its
//! slopes rotate as well (as in its raytracing). The `thetaML` of its covariance generator, in
//! degrees and for positions alone, is always 0 there. Missing parameters are assumed with a
//! warning.

mod python;

use super::Warning;
use super::check::{self, Place};
use crate::system::{
    AngleUnit, Atmosphere, COUPLING, GuideStar, Layer, LoopModel, MirrorModel, NoiseModel, Photometry,
    StarKind, System, Valid, airmass,
};
use crate::{Error, noise};
use python::{Program, PythonValue};
use std::collections::HashSet;
use std::path::Path;

/// Assumed depth of the sodium layer in m, since its profile is a file of COMPASS. The value is
/// that of COMPASS's export to MOAO.
const SODIUM_DEPTH: f64 = 5000.0;

/// Assumed variance in arcsec^2 of the unknown tip and tilt of a laser star.
const LGS_CST: f64 = 0.1;

/// Reads a parameter file of COMPASS without executing it.
///
/// # Errors
/// A statement that would have to be executed, or a parameter that is missing or meaningless here,
/// with its line; a value out of range.
pub fn parse_compass(file: &Path, text: &str) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    let program = python::read(text).map_err(|refusal| Error::Parameter {
        file: file.to_owned(),
        line: Some(refusal.line),
        key: "Python".into(),
        problem: refusal.problem,
        remedy: "write out what the file computes".into(),
    })?;
    CompassReader { program: &program, place: Place::new(file, ""), warnings: Vec::new() }.all()
}

/// Returns the error for a second file, which must be a profile; COMPASS files are whole systems.
pub(super) fn not_a_profile(file: &Path) -> Error {
    let problem = "a parameter file of COMPASS is a whole system: give it as the system, or the profile as TOML, YAML or atm-params.txt";
    Error::content(file, problem)
}

struct CompassReader<'p> {
    program: &'p Program,
    place: Place,
    warnings: Vec<Warning>,
}

/// An object and its name in messages.
#[derive(Clone)]
struct NamedObject {
    name: String,
    object: usize,
}

impl CompassReader<'_> {
    fn all(mut self) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
        let (tel, geom) = (self.part("p_tel", "tel")?, self.maybe_part("p_geom", "geom"));
        let diameter = self.number(&tel, "diam", "telescope.diameter")?;
        let obstruction = self.number_or(&tel, "cobs", "telescope.obstruction", 0.0)?;
        let zenith_angle = match &geom {
            Some(geom) => self.number_or(geom, "zenithangle", "telescope.zenith_angle", 0.0)?,
            None => 0.0,
        };
        let sensors = self.sensors()?;
        let (stars, noise) = self.stars(&sensors)?;
        let (nssp, mirror) = self.mirror(&stars)?;
        let (targets, wavelength) = self.targets()?;
        let fractions = sensors.iter().map(|s| self.number_or(s, "fracsub", "sensors.illumination", 0.0));
        let fractions = fractions.collect::<Result<Vec<_>, _>>()?;
        if let Some(other) = fractions.iter().position(|f| *f != fractions[0]) {
            let problem =
                format!("{} and {} (fracsub of {})", fractions[0], fractions[other], sensors[other].name);
            return Err(self.place.error(
                "sensors.illumination",
                problem,
                "all sensors share one threshold here: give the same",
            ));
        }
        let lasers = stars.iter().any(|star| star.kind == StarKind::Lgs);
        if lasers {
            self.warn("sensors.lgs_cst", format!("COMPASS has no such parameter: {LGS_CST} arcsec^2 stand for the unknown tip and tilt of laser stars"));
        }
        let mut system = System {
            diameter,
            obstruction,
            zenith_angle,
            valid: if fractions[0] > 0.0 { Valid::Illuminated(fractions[0]) } else { Valid::Centre },
            mirror,
            nssp,
            stars,
            targets,
            lgs_cst: if lasers { LGS_CST } else { 0.0 },
            noise,
            lag: 0.0,
            wavelength,
            units: AngleUnit::Arcsec,
            simulation: LoopModel::default(),
        };
        // Laser stars come first, because the order of the measurements is fixed.
        let before: Vec<StarKind> = system.stars.iter().map(|star| star.kind).collect();
        system.stars.sort_by_key(|star| star.kind == StarKind::Ngs);
        if system.stars.iter().map(|star| star.kind).ne(before) {
            self.warn(
                "guide_star.kind",
                "laser stars were put before natural ones; the order is otherwise that of the file".into(),
            );
        }
        let more = check::system(&system, &self.place)?;
        self.warnings.extend(more);
        let atmosphere = self.atmosphere(zenith_angle)?;
        Ok((system, atmosphere, self.warnings))
    }

    fn warn(&mut self, key: &str, message: String) {
        let warning = self.place.warning(key, message);
        self.warnings.push(warning);
    }

    fn missing(&self, key: &str, name: &str) -> Error {
        self.place.error(
            key,
            format!("{name} is not set in this file"),
            "set it, as the example files of COMPASS do",
        )
    }

    /// Returns the object with this name, or else the only one of a class.
    fn maybe_part(&self, name: &str, class: &str) -> Option<NamedObject> {
        if let Some(PythonValue::Object(object)) = self.program.name(name) {
            return Some(NamedObject { name: name.into(), object: *object });
        }
        let mut of_class =
            (0..self.program.objects.len()).filter(|&o| self.program.objects[o].class == class);
        let only = of_class.next().filter(|_| of_class.next().is_none())?;
        Some(NamedObject { name: name.into(), object: only })
    }

    fn part(&self, name: &str, class: &str) -> Result<NamedObject, Error> {
        self.maybe_part(name, class).ok_or_else(|| self.missing(name, name))
    }

    /// Returns the objects of a list with this name, or else all of a class.
    fn parts(&self, list: &str, class: &str) -> Vec<NamedObject> {
        let named = self.program.name(list).map(|value| self.program.elements(value));
        let object =
            |value: &PythonValue| if let PythonValue::Object(object) = value { Some(*object) } else { None };
        let of_class =
            || (0..self.program.objects.len()).filter(|&o| self.program.objects[o].class == class).collect();
        let objects: Vec<usize> =
            named.map_or_else(of_class, |values| values.iter().filter_map(object).collect());
        let part = |(k, object)| NamedObject { name: format!("{list}[{k}]"), object };
        objects.into_iter().enumerate().map(part).collect()
    }

    /// Returns the value of a field, and records its line as that of `key`.
    fn field(&mut self, part: &NamedObject, field: &str, key: &str) -> Option<PythonValue> {
        let object = &self.program.objects[part.object];
        let name = format!("{}.{field}", part.name);
        match object.fields.get(field) {
            Some((PythonValue::None, _)) | None => {
                self.place.set(key, &name, object.line);
                None
            }
            Some((value, line)) => {
                self.place.set(key, &name, *line);
                Some(value.clone())
            }
        }
    }

    fn maybe_numbers(
        &mut self,
        part: &NamedObject,
        field: &str,
        key: &str,
    ) -> Result<Option<Vec<f64>>, Error> {
        let Some(value) = self.field(part, field, key) else { return Ok(None) };
        let number = |value: &PythonValue| if let PythonValue::Number(x) = value { Some(*x) } else { None };
        let numbers: Option<Vec<f64>> = self.program.elements(&value).iter().map(number).collect();
        let wrong = || self.place.error(key, "not a number or a list of numbers", "give numbers");
        numbers.map(Some).ok_or_else(wrong)
    }

    fn maybe_number(&mut self, part: &NamedObject, field: &str, key: &str) -> Result<Option<f64>, Error> {
        match self.maybe_numbers(part, field, key)?.as_deref() {
            None => Ok(None),
            Some([one]) => Ok(Some(*one)),
            Some(several) => Err(self.place.error(key, format!("{} values", several.len()), "give one")),
        }
    }

    fn number_or(&mut self, part: &NamedObject, field: &str, key: &str, default: f64) -> Result<f64, Error> {
        Ok(self.maybe_number(part, field, key)?.unwrap_or(default))
    }

    fn number(&mut self, part: &NamedObject, field: &str, key: &str) -> Result<f64, Error> {
        let found = self.maybe_number(part, field, key)?;
        found.ok_or_else(|| self.missing(key, &format!("{}.set_{field}()", part.name)))
    }

    fn count(&mut self, part: &NamedObject, field: &str, key: &str) -> Result<usize, Error> {
        let value = self.number(part, field, key)?;
        let whole = value.fract() == 0.0 && (0.0..=4096.0).contains(&value);
        if whole {
            Ok(value as usize)
        } else {
            Err(self.place.error(key, format!("{value} is not a count"), "give a whole number"))
        }
    }

    fn text(&mut self, part: &NamedObject, field: &str, key: &str) -> Option<String> {
        match self.field(part, field, key) {
            Some(PythonValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the Shack-Hartmann sensors that the first controller reads.
    fn sensors(&mut self) -> Result<Vec<NamedObject>, Error> {
        let all = self.parts("p_wfss", "wfs");
        let read = match self.parts("p_controllers", "controller").first().cloned() {
            Some(controller) => self.maybe_numbers(&controller, "nwfs", "p_controllers")?,
            None => None,
        };
        let sensors: Vec<NamedObject> = match &read {
            None => all.clone(),
            Some(numbers) => {
                let sensor = |x: &f64| {
                    (x.fract() == 0.0 && *x >= 0.0).then(|| all.get(*x as usize).cloned()).flatten()
                };
                let found: Option<Vec<NamedObject>> = numbers.iter().map(sensor).collect();
                found.ok_or_else(|| {
                    let problem =
                        format!("the controller reads sensors {numbers:?}, of {} in p_wfss", all.len());
                    self.place.error("p_controllers", problem, "give numbers of existing sensors, from 0")
                })?
            }
        };
        let unread = all.len() - sensors.iter().map(|s| s.object).collect::<HashSet<_>>().len();
        if unread > 0 {
            self.warn(
                "p_controllers",
                format!(
                    "{unread} of {} sensors are not read by the first controller and were left out",
                    all.len()
                ),
            );
        }
        if sensors.is_empty() {
            return Err(self.missing("p_wfss", "p_wfss"));
        }
        for (i, sensor) in sensors.iter().enumerate() {
            let key = format!("guide_star[{i}].type");
            let kind = self.text(sensor, "type", &key).unwrap_or_default();
            if kind != "sh" {
                let problem = format!("a sensor of type '{kind}'");
                return Err(self.place.error(
                    &key,
                    problem,
                    "only Shack-Hartmann sensors (\"sh\") are modelled",
                ));
            }
            for field in ["dx", "dy"] {
                if self.number_or(sensor, field, &key, 0.0)? != 0.0 {
                    self.warn(&key, "is in pixels of COMPASS's pupil and was not applied: give pupil_shift in m in a TOML file".into());
                }
            }
        }
        Ok(sensors)
    }

    fn stars(&mut self, sensors: &[NamedObject]) -> Result<(Vec<GuideStar>, NoiseModel), Error> {
        let mut stars = Vec::new();
        let (mut natural, mut laser) = (StarLight::default(), StarLight::default());
        let mut noiseless = 0;
        for (i, sensor) in sensors.iter().enumerate() {
            let key = |name: &str| format!("guide_star[{i}].{name}");
            let altitude = self.number_or(sensor, "gsalt", &key("altitude"), 0.0)?;
            let kind = if altitude == 0.0 { StarKind::Ngs } else { StarKind::Lgs };
            let direction = [
                self.number_or(sensor, "xpos", &key("x"), 0.0)?,
                self.number_or(sensor, "ypos", &key("y"), 0.0)?,
            ];
            let mut star = GuideStar {
                kind,
                direction,
                inverse_altitude: if altitude == 0.0 { 0.0 } else { 1.0 / altitude },
                nssp: self.count(sensor, "nxsub", &key("nssp"))?,
                pupil_shift: [0.0; 2],
                rotation: self.number_or(sensor, "thetaML", &key("rotation"), 0.0)?.to_degrees(),
                magnification: self.number_or(sensor, "G", &key("magnification"), 1.0)?,
                slopes_turn: true,
                magnitude: None,
                launcher: None,
            };
            let throughput = self.number(sensor, "optthroughput", &key("throughput"))?;
            let read_noise = self.number_or(sensor, "noise", &key("read_noise"), 0.0)?;
            noiseless += usize::from(read_noise < 0.0);
            let light = if kind == StarKind::Ngs { &mut natural } else { &mut laser };
            let mut shared = vec![
                ("pixsize", self.number(sensor, "pixsize", &key("pixel"))?),
                ("Lambda", self.number(sensor, "Lambda", &key("wavelength"))?),
                ("noise", read_noise),
            ];
            if kind == StarKind::Ngs {
                let given = self.number_or(sensor, "zerop", &key("zerop"), 0.0)?;
                // COMPASS takes 0 as this value.
                let zero_point = if given == 0.0 { 1e11 } else { given };
                let magnitude = self.number(sensor, "gsmag", &key("magnitude"))?;
                let first = *light.reference.get_or_insert(zero_point * throughput);
                light.throughput.get_or_insert(throughput);
                // The model has one zero point for natural stars. Differences between stars go into
                // their magnitudes.
                star.magnitude = Some(magnitude - 2.5 * (zero_point * throughput / first).log10());
            } else {
                star.launcher = Some([
                    self.number_or(sensor, "lltx", &key("launcher"), 0.0)?,
                    self.number_or(sensor, "llty", &key("launcher"), 0.0)?,
                ]);
                let per_watt = self.number(sensor, "lgsreturnperwatt", &key("flux"))?;
                let power = self.number(sensor, "laserpower", &key("flux"))?;
                shared.push(("optthroughput", throughput));
                // The return is per cm^2.
                shared.push(("lgsreturnperwatt * laserpower", per_watt * power * 1e4));
                shared.push(("beamsize", self.number_or(sensor, "beamsize", &key("spot_width"), 0.0)?));
                shared.push(("gsalt", altitude));
            }
            if light.shared.is_empty() {
                light.shared = shared;
            } else if let Some((a, b)) = light.shared.iter().zip(&shared).find(|(a, b)| a.1 != b.1) {
                let problem =
                    format!("{} is {} of {} and {} of a sensor before it", b.0, b.1, sensor.name, a.1);
                let remedy = "sensors of natural stars share it here, and so do those of laser stars: give the same, or write a TOML file";
                return Err(self.place.error(&key("pixel"), problem, remedy));
            }
            stars.push(star);
        }
        if noiseless == sensors.len() {
            return Ok((stars, NoiseModel::Uniform { variance: 0.0 }));
        }
        if noiseless > 0 {
            let problem = format!(
                "{noiseless} of {} sensors without noise (below 0), the others with it",
                sensors.len()
            );
            return Err(self.place.error(
                "guide_star[0].read_noise",
                problem,
                "give the noise of all, or of none",
            ));
        }
        let photometry = self.photometry(&natural, &laser)?;
        Ok((stars, NoiseModel::Photometric(photometry)))
    }

    fn photometry(&mut self, natural: &StarLight, laser: &StarLight) -> Result<Photometry, Error> {
        let of = |light: &StarLight, name: &str| {
            light.shared.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
        };
        let either =
            |name: &str, a: &StarLight, b: &StarLight| of(a, name).or_else(|| of(b, name)).unwrap_or(1.0);
        let (noise_ngs, noise_lgs) = (either("noise", natural, laser), either("noise", laser, natural));
        if noise_ngs != noise_lgs {
            let problem = format!("{noise_ngs} electrons for natural stars, {noise_lgs} for laser stars");
            return Err(self.place.error(
                "guide_star[0].read_noise",
                problem,
                "all sensors share the read noise here: give the same",
            ));
        }
        let loop_ = self.part("p_loop", "loop")?;
        let throughput_ngs = natural.throughput.unwrap_or(1.0);
        let zero_point = natural.reference.map_or(1e11, |both| both / throughput_ngs);
        if !laser.shared.is_empty() {
            self.warn(
                "photometry.sodium_depth",
                format!("COMPASS takes the sodium profile from a file of its own: a layer of {SODIUM_DEPTH} m is assumed"),
            );
        }
        Ok(Photometry {
            frame_time: self.number(&loop_, "ittime", "photometry.frame_time")?,
            lgs_flux: of(laser, "lgsreturnperwatt * laserpower").unwrap_or(1.0),
            pixel_ngs: either("pixsize", natural, laser),
            pixel_lgs: either("pixsize", laser, natural),
            wavelength_ngs: either("Lambda", natural, laser) * 1e-6,
            wavelength_lgs: either("Lambda", laser, natural) * 1e-6,
            // Bandwidth for which the model's star of magnitude 0 gives that number of photons.
            bandwidth: zero_point / noise::PHOTONS_PER_METRE,
            throughput_ngs,
            throughput_lgs: of(laser, "optthroughput").unwrap_or(1.0),
            throughput_atmosphere: 1.0,
            read_noise: noise_ngs,
            spot_width: of(laser, "beamsize").unwrap_or(0.0),
            sodium_altitude: of(laser, "gsalt").unwrap_or(90e3),
            sodium_depth: SODIUM_DEPTH,
        })
    }

    /// Returns the number of sub-apertures across the truth sensor, and the mirror.
    fn mirror(&mut self, stars: &[GuideStar]) -> Result<(usize, MirrorModel), Error> {
        let finest = stars.iter().map(|star| star.nssp).max().unwrap_or(1);
        for dm in self.parts("p_dms", "dm") {
            let at_the_pupil = self.number_or(&dm, "alt", "mirror.altitude", 0.0)? == 0.0;
            if self.text(&dm, "type", "mirror.type").as_deref() != Some("pzt") || !at_the_pupil {
                continue;
            }
            let actuators = self.count(&dm, "nact", "sensors.nssp")?;
            let coupling = self.number_or(&dm, "coupling", "mirror.coupling", COUPLING)?;
            return Ok((actuators.saturating_sub(1), MirrorModel::Gaussian { coupling, actuators: None }));
        }
        Ok((finest, MirrorModel::default()))
    }

    fn targets(&mut self) -> Result<(Vec<[f64; 2]>, f64), Error> {
        let mut parts = self.parts("p_targets", "target");
        if parts.is_empty() {
            parts.extend(self.maybe_part("p_target", "target"));
        }
        let (mut targets, mut wavelengths) = (Vec::new(), Vec::new());
        for part in &parts {
            let x = self.maybe_numbers(part, "xpos", "imaging.targets")?.unwrap_or(vec![0.0]);
            let y = self.maybe_numbers(part, "ypos", "imaging.targets")?.unwrap_or(vec![0.0]);
            if x.len() != y.len() {
                let problem = format!("{} values of xpos, {} of ypos", x.len(), y.len());
                return Err(self.place.error("imaging.targets", problem, "give as many"));
            }
            for target in x.iter().zip(&y).map(|(x, y)| [*x, *y]) {
                if !targets.contains(&target) {
                    targets.push(target);
                }
            }
            wavelengths.extend(self.maybe_numbers(part, "Lambda", "imaging.wavelength")?.unwrap_or_default());
        }
        if targets.is_empty() {
            targets.push([0.0, 0.0]);
        }
        let first = wavelengths.first().copied().unwrap_or(1.65);
        if wavelengths.iter().any(|other| *other != first) {
            self.warn(
                "imaging.wavelength",
                format!("targets at several wavelengths: images are of the first, {first} um"),
            );
        }
        Ok((targets, first * 1e-6))
    }

    fn atmosphere(&mut self, zenith_angle: f64) -> Result<Option<Atmosphere>, Error> {
        let Some(part) = self.maybe_part("p_atmos", "atmos") else { return Ok(None) };
        let r0 = self.number(&part, "r0", "atmosphere.r0")?;
        if !(1e-3..=100.0).contains(&r0) {
            return Err(self.place.error(
                "atmosphere.r0",
                format!("{r0} is not allowed"),
                "give a number from 0.001 to 100 m",
            ));
        }
        let altitude = self.maybe_numbers(&part, "alt", "atmosphere.altitude")?;
        let altitude = altitude.ok_or_else(|| self.missing("atmosphere.altitude", "p_atmos.set_alt()"))?;
        let fraction = self.maybe_numbers(&part, "frac", "atmosphere.cn2")?;
        let fraction = fraction.ok_or_else(|| self.missing("atmosphere.cn2", "p_atmos.set_frac()"))?;
        let count = fraction.len();
        // COMPASS's default value.
        let outer = self.maybe_numbers(&part, "L0", "atmosphere.outer_scale")?.unwrap_or(vec![1e5]);
        let outer = if outer.len() == 1 { vec![outer[0]; count] } else { outer };
        for (key, len) in [("atmosphere.altitude", altitude.len()), ("atmosphere.outer_scale", outer.len())] {
            if len != count {
                let problem = format!("{len} values for {count} layers");
                return Err(self.place.error(key, problem, "give as many values as frac has"));
            }
        }
        check::strengths(&fraction, &self.place)?;
        let sum: f64 = fraction.iter().sum();
        let total = r0.powf(-5.0 / 3.0);
        let layer = |i: usize| Layer {
            altitude: altitude[i] * airmass(zenith_angle),
            cn2: if sum > 0.0 { fraction[i] / sum * total } else { 0.0 },
            outer_scale: outer[i],
            wind: None,
        };
        let atmosphere = Atmosphere { layers: (0..count).map(layer).collect() };
        check::atmosphere(&atmosphere, &self.place)?;
        Ok(Some(atmosphere))
    }
}

/// Light parameters that the sensors of one kind of star share.
#[derive(Default)]
struct StarLight {
    /// Name in the file and value.
    shared: Vec<(&'static str, f64)>,
    /// Product of zero point and throughput of the first natural star, and its throughput.
    reference: Option<f64>,
    throughput: Option<f64>,
}
