//! Checks of systems and atmospheres, for every file format.

use super::Warning;
use crate::Error;
use crate::dm::{self, footprints};
use crate::system::{
    Atmosphere, ConjugateMirror, FieldCorrection, GuideStar, LoopMode, LoopModel, MAX_LAYERS, MAX_NSSP,
    MAX_STARS, MAX_TARGETS, MirrorModel, NoiseModel, StarKind, System, Valid,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

impl System {
    /// Checks a system made in code like one from a file.
    ///
    /// # Errors
    /// A value is out of range or contradicts another.
    pub fn check(&self) -> Result<Vec<Warning>, Error> {
        system(self, &Place::new(Path::new("<memory>"), ""))
    }
}

impl Atmosphere {
    /// Checks an atmosphere made in code like one from a file.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self) -> Result<(), Error> {
        atmosphere(self, &Place::new(Path::new("<memory>"), ""))
    }
}

/// Positions of parameters in a file, for messages.
pub(super) struct Place {
    file: PathBuf,
    lines: HashMap<String, usize>,
    /// Names of parameters in the file, if they differ from those of this crate.
    names: HashMap<String, String>,
}

impl Place {
    /// Finds `key = ` lines of a TOML text, with tables counted; empty text gives no lines.
    pub(super) fn new(file: &Path, text: &str) -> Place {
        let mut lines = HashMap::new();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        let mut prefix = String::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("[[").and_then(|l| l.split("]]").next()) {
                let count = counts.entry(name).or_default();
                lines.insert(format!("{name}[{count}]"), number + 1);
                prefix = format!("{name}[{count}].");
                *count += 1;
            } else if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
                lines.insert(name.to_owned(), number + 1);
                prefix = format!("{name}.");
            } else if let Some((key, _)) = line.split_once('=') {
                lines.entry(format!("{prefix}{}", key.trim())).or_insert(number + 1);
            }
        }
        Place { file: file.to_owned(), lines, names: HashMap::new() }
    }

    /// Records that the file calls `key` by the name `name`, on `line`.
    pub(super) fn set(&mut self, key: &str, name: &str, line: usize) {
        self.lines.insert(key.to_owned(), line);
        self.names.insert(key.to_owned(), name.to_owned());
    }

    /// Records the line of a `key` that has the same name in the file.
    pub(super) fn line(&mut self, key: &str, line: usize) {
        self.lines.insert(key.to_owned(), line);
    }

    /// Gives `key`, which has no position in this file, the position of `other`.
    pub(super) fn alias(&mut self, key: &str, other: &str) {
        if let (Some(line), Some(name)) = (self.lines.get(other).copied(), self.names.get(other).cloned()) {
            self.set(key, &name, line);
        }
    }

    fn find(&self, key: &str) -> (Option<usize>, String) {
        // Text files have one vector for all stars: guide_star[3].x is on the line of guide_star.x.
        let general = match (key.find('['), key.find(']')) {
            (Some(a), Some(b)) if a < b => format!("{}{}", &key[..a], &key[b + 1..]),
            _ => key.to_owned(),
        };
        // The line of a missing key is that of its table.
        let table = key.rsplit_once('.').map_or("", |(table, _)| table);
        let line = [key, &general, table].iter().find_map(|k| self.lines.get(*k)).copied();
        let name = self.names.get(key).or_else(|| self.names.get(&general));
        let name = name.map_or_else(|| key.to_owned(), |n| format!("{n} ({key})"));
        (line, name)
    }

    pub(super) fn error(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        let (line, key) = self.find(key);
        Error::Parameter {
            file: self.file.clone(),
            line,
            key,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    pub(super) fn warning(&self, key: &str, message: impl Into<String>) -> Warning {
        let (line, key) = self.find(key);
        Warning { file: self.file.clone(), line, key, message: message.into() }
    }

    pub(super) fn range(&self, key: &str, value: f64, low: f64, high: f64, unit: &str) -> Result<(), Error> {
        if value >= low && value <= high {
            Ok(())
        } else {
            Err(self.error(
                key,
                format!("{value:?} is not allowed"),
                format!("give a number from {low} to {high} {unit}"),
            ))
        }
    }
}

/// Maximum Fried parameter of a real site (m, 500 nm); larger values are mistakes.
const BEST_R0: f64 = 0.8;
/// Maximum number of actuators across a mirror that is conjugated to an altitude.
const MAX_MIRROR: usize = 512;
/// Minimum altitude of the highest layer (m); a lower profile is probably in kilometres.
const LOWEST_PROFILE: f64 = 50.0;

/// Checks all parameters of the system alone.
pub(super) fn system(s: &System, place: &Place) -> Result<Vec<Warning>, Error> {
    let mut warnings = Vec::new();
    place.range("telescope.diameter", s.diameter, 0.01, 1000.0, "m")?;
    place.range("telescope.obstruction", s.obstruction, 0.0, 0.99, "(fraction of the diameter)")?;
    place.range("telescope.zenith_angle", s.zenith_angle, 0.0, 80.0, "degrees")?;
    if let Valid::Illuminated(least) = s.valid {
        place.range("sensors.illumination", least, 1e-6, 1.0, "(fraction of a sub-aperture's area)")?;
    }
    mirror(s, place)?;
    nssp("sensors.nssp", s.nssp, place)?;
    if let Valid::Map(map) = &s.valid {
        fits_map("sensors.nssp", s.nssp, map.across(), place)?;
    }
    place.range("sensors.lgs_cst", s.lgs_cst, 0.0, 1e9, "arcsec^2")?;
    place.range("lag", s.lag, 0.0, 10.0, "s")?;
    place.range("imaging.wavelength", s.wavelength, 1e-7, 1e-3, "m")?;
    simulation(&s.simulation, place)?;
    if s.stars.is_empty() || s.stars.len() > MAX_STARS {
        return Err(place.error(
            "guide_star",
            format!("{} guide stars", s.stars.len()),
            format!("give 1 to {MAX_STARS} (the truth sensor does not count)"),
        ));
    }
    if s.targets.is_empty() || s.targets.len() > MAX_TARGETS {
        return Err(place.error(
            "imaging.targets",
            format!("{} targets", s.targets.len()),
            format!("give 1 to {MAX_TARGETS}"),
        ));
    }
    for (i, t) in s.targets.iter().enumerate() {
        for v in t {
            place.range(&format!("imaging.targets[{i}]"), *v, -7200.0, 7200.0, "arcsec")?;
        }
    }
    for (i, star) in s.stars.iter().enumerate() {
        star_alone(i, star, s, place)?;
    }
    if let Some(correction) = &s.simulation.field {
        field(s, correction, place)?;
    }
    if let Some(i) = s.stars.windows(2).position(|w| w[0].kind == StarKind::Ngs && w[1].kind == StarKind::Lgs)
    {
        return Err(place.error(
            &format!("guide_star[{}].kind", i + 1),
            "a laser star after a natural one",
            "list the laser stars first: the measurement order is fixed",
        ));
    }
    match &s.noise {
        NoiseModel::Uniform { variance } => {
            place.range("noise.variance", *variance, 0.0, 1e9, "arcsec^2")?;
            if *variance == 0.0 {
                warnings.push(place.warning("noise.variance", "no noise: Cmm will be close to singular"));
            }
        }
        NoiseModel::Photometric(p) => {
            for (key, value, low, high, unit) in [
                ("frame_time", p.frame_time, 1e-7, 1e4, "s"),
                ("lgs_flux", p.lgs_flux, 1e-6, 1e20, "photons/m^2/s"),
                ("pixel_ngs", p.pixel_ngs, 1e-6, 3600.0, "arcsec"),
                ("pixel_lgs", p.pixel_lgs, 1e-6, 3600.0, "arcsec"),
                ("wavelength_ngs", p.wavelength_ngs, 1e-8, 1e-3, "m"),
                ("wavelength_lgs", p.wavelength_lgs, 1e-8, 1e-3, "m"),
                ("bandwidth", p.bandwidth, 1e-13, 1e-3, "m"),
                ("throughput_ngs", p.throughput_ngs, 1e-9, 1.0, ""),
                ("throughput_lgs", p.throughput_lgs, 1e-9, 1.0, ""),
                ("throughput_atmosphere", p.throughput_atmosphere, 1e-9, 1.0, ""),
                ("read_noise", p.read_noise, 0.0, 1e6, "electrons"),
                ("spot_width", p.spot_width, 0.0, 3600.0, "arcsec"),
                ("sodium_altitude", p.sodium_altitude, 1e3, 1e7, "m"),
                ("sodium_depth", p.sodium_depth, 0.0, 1e6, "m"),
            ] {
                place.range(&format!("photometry.{key}"), value, low, high, unit)?;
            }
            for (i, star) in s.stars.iter().enumerate().filter(|(_, star)| star.kind == StarKind::Lgs) {
                let altitude = 1.0 / star.inverse_altitude;
                if (altitude / p.sodium_altitude - 1.0).abs() > 0.01 {
                    warnings.push(place.warning(
                        &format!("guide_star[{i}].altitude"),
                        format!(
                            "the star is at {altitude:.0} m but the noise model's sodium layer at {:.0} m; both are used as given",
                            p.sodium_altitude
                        ),
                    ));
                }
            }
        }
    }
    Ok(warnings)
}

/// Checks the limits of the Gaussian model. Sampled functions are checked when they are read.
fn mirror(s: &System, place: &Place) -> Result<(), Error> {
    let MirrorModel::Gaussian { coupling, actuators } = &s.mirror else {
        return Ok(());
    };
    place.range("mirror.coupling", *coupling, 0.01, 0.9, "(fraction of the peak at the neighbour)")?;
    match actuators.as_ref().map(|map| map.across()) {
        // The image of a much wider mirror would not fit its grid.
        Some(across) if across < 2 || 2 * (across - 1) > 3 * s.nssp + 2 => Err(place.error(
            "mirror.actuators",
            format!("{across} actuators across for {} sub-apertures", s.nssp),
            "actuators have the pitch of the sub-apertures: give a map with a border of at most a quarter of the pupil",
        )),
        _ => Ok(()),
    }
}

fn nssp(key: &str, value: usize, place: &Place) -> Result<(), Error> {
    if (1..=MAX_NSSP).contains(&value) {
        Ok(())
    } else {
        Err(place.error(key, format!("{value} sub-apertures across"), format!("give 1 to {MAX_NSSP}")))
    }
}

fn star_alone(i: usize, star: &GuideStar, s: &System, place: &Place) -> Result<(), Error> {
    let key = |name: &str| format!("guide_star[{i}].{name}");
    place.range(&key("x"), star.direction[0], -7200.0, 7200.0, "arcsec")?;
    place.range(&key("y"), star.direction[1], -7200.0, 7200.0, "arcsec")?;
    nssp(&key("nssp"), star.nssp, place)?;
    if let Valid::Map(map) = &s.valid {
        fits_map(&key("nssp"), star.nssp, map.across(), place)?;
    }
    for v in star.pupil_shift {
        place.range(&key("pupil_shift"), v, -s.diameter, s.diameter, "m")?;
    }
    place.range(&key("rotation"), star.rotation, -360.0, 360.0, "degrees")?;
    place.range(&key("magnification"), star.magnification, 0.1, 10.0, "")?;
    let photometric = matches!(s.noise, NoiseModel::Photometric(_));
    match star.kind {
        StarKind::Lgs => {
            place.range(
                &key("altitude"),
                star.inverse_altitude,
                1e-8,
                1e-3,
                "1/m (an altitude from 1 km to 100,000 km)",
            )?;
            if let Some(l) = star.launcher {
                for v in l {
                    place.range(&key("launcher"), v, -1e4, 1e4, "m")?;
                }
            } else if photometric && star.direction == [0.0, 0.0] {
                return Err(place.error(
                    &key("launcher"),
                    "a laser star on the axis has no direction to derive the launcher from",
                    "give its launcher = [x, y] in m explicitly (TOML file), or another direction",
                ));
            }
        }
        StarKind::Ngs => {
            if star.inverse_altitude != 0.0 {
                return Err(place.error(
                    &key("altitude"),
                    format!("a natural star with 1/altitude {}", star.inverse_altitude),
                    "a natural star is at infinity: give 0 (text) or leave the altitude out (TOML)",
                ));
            }
            match star.magnitude {
                Some(m) => place.range(&key("magnitude"), m, -30.0, 40.0, "")?,
                None if photometric => {
                    return Err(place.error(
                        &key("magnitude"),
                        "missing",
                        "the photometric noise needs the star's magnitude",
                    ));
                }
                None => {}
            }
        }
    }
    Ok(())
}

/// Refuses a map with a size other than the sensor's.
pub(super) fn fits_map(key: &str, nssp: usize, across: usize, place: &Place) -> Result<(), Error> {
    if nssp == 1 || nssp == across {
        return Ok(());
    }
    Err(place.error(
        key,
        format!("{nssp} sub-apertures across, and a map of {across}"),
        "give a map of that size, or an illumination threshold, which suits every sensor",
    ))
}

/// Refuses negative strengths.
pub(super) fn strengths(cn2: &[f64], place: &Place) -> Result<(), Error> {
    match cn2.iter().position(|c| *c < 0.0) {
        None => Ok(()),
        Some(i) => Err(place.error(
            "atmosphere.cn2",
            format!("layer {} of {} has the negative strength {}", i + 1, cn2.len(), cn2[i]),
            "turbulence cannot be negative: remove the layer or set it to 0",
        )),
    }
}

/// Checks the parameters of the end-to-end simulation.
fn simulation(model: &LoopModel, place: &Place) -> Result<(), Error> {
    place.range("loop.gain", model.gain.unwrap_or(1.0), 0.0, 2.0, "(no unit)")?;
    if model.mode == Some(LoopMode::Open) && model.gain.is_some() {
        return Err(place.error(
            "loop.gain",
            "an open loop has no gain",
            "remove it, or make the mode pseudo-open or closed",
        ));
    }
    place.range("loop.leak", model.leak, 0.0, 1.0, "(fraction of the commands)")?;
    place.range("loop.delay", model.delay as f64, 0.0, 1000.0, "frames")?;
    place.range("loop.stroke", model.stroke, 1e-9, 1.0, "m")?;
    place.range("loop.cutoff", model.cutoff, 1e-5, 1.0, "(fraction of the largest singular value)")?;
    place.range("loop.frame_time", model.frame_time.unwrap_or(1.0), 1e-6, 1e3, "s")?;
    place.range("loop.pixels", model.pixels as f64, 1.0, 256.0, "across a sub-aperture")?;
    place.range("loop.detector_pixels", model.detector_pixels as f64, 2.0, 256.0, "across an image")?;
    place.range("loop.threshold", model.threshold, 0.0, 1e9, "electrons")?;
    for (i, wavelength) in model.wavelengths.iter().enumerate() {
        place.range(&format!("loop.wavelengths[{i}]"), *wavelength, 1e-7, 1e-3, "m")?;
    }
    Ok(())
}

/// Checks the mirrors that all targets share.
fn field(s: &System, correction: &FieldCorrection, place: &Place) -> Result<(), Error> {
    place.range(
        "field.regularisation",
        correction.regularisation,
        1e-12,
        1.0,
        "(fraction of the mean diagonal entry)",
    )?;
    if s.simulation.mode == Some(LoopMode::Open) {
        return Err(place.error(
            "loop.mode",
            "in an open loop each target has a mirror of its own, but these mirrors correct all targets together",
            "make it pseudo-open or closed, or remove [field] and all mirrors but one in the pupil",
        ));
    }
    if correction.mirrors.is_empty() {
        return Ok(());
    }
    if matches!(s.mirror, MirrorModel::Sampled(_)) {
        return Err(place.error(
            "mirror",
            "influence functions of a file are those of one mirror in the pupil: the others have none",
            "leave the file out (--influence), or all mirrors but one in the pupil",
        ));
    }
    let moved =
        |star: &GuideStar| star.pupil_shift != [0.0; 2] || star.rotation != 0.0 || star.magnification != 1.0;
    if let Some(i) = s.stars.iter().position(moved) {
        return Err(place.error(
            &format!("guide_star[{i}]"),
            "a pupil that is shifted, turned or magnified, and a mirror that is conjugated to an altitude",
            "remove pupil_shift, rotation and magnification: such mirrors are not seen through them",
        ));
    }
    correction.mirrors.iter().enumerate().try_for_each(|(i, mirror)| conjugate(i, mirror, s, place))
}

fn conjugate(i: usize, mirror: &ConjugateMirror, s: &System, place: &Place) -> Result<(), Error> {
    let key = |name: &str| format!("mirror[{i}].{name}");
    place.range(&key("altitude"), mirror.altitude, 0.0, 1e5, "m")?;
    place.range(&key("coupling"), mirror.coupling, 0.01, 0.9, "(fraction of the peak at the neighbour)")?;
    if let Some(pitch) = mirror.pitch {
        place.range(&key("pitch"), pitch, s.diameter / MAX_NSSP as f64, s.diameter, "m")?;
    }
    if let Some(star) = s.stars.iter().find(|star| mirror.altitude * star.inverse_altitude >= 1.0) {
        let problem = format!(
            "{} m is at or above a laser star at {:.0} m, whose sensor does not see the mirror",
            mirror.altitude,
            1.0 / star.inverse_altitude
        );
        return Err(place.error(&key("altitude"), problem, "conjugate the mirror to a lower altitude"));
    }
    let across = dm::lines(mirror.pitches(s), &footprints(s, mirror.altitude));
    if across > MAX_MIRROR {
        let problem = format!("{across} actuators across cover the beams of all stars and targets");
        let remedy =
            format!("at most {MAX_MIRROR}: take a lower altitude, a smaller field or a larger pitch");
        return Err(place.error(&key("altitude"), problem, remedy));
    }
    Ok(())
}

/// Checks all parameters of the profile alone.
pub(super) fn atmosphere(a: &Atmosphere, place: &Place) -> Result<(), Error> {
    if a.layers.is_empty() || a.layers.len() > MAX_LAYERS {
        return Err(place.error(
            "atmosphere.cn2",
            format!("{} layers", a.layers.len()),
            format!("give 1 to {MAX_LAYERS}"),
        ));
    }
    let cn2: Vec<f64> = a.layers.iter().map(|l| l.cn2).collect();
    strengths(&cn2, place)?;
    for l in &a.layers {
        place.range("atmosphere.cn2", l.cn2, 0.0, 1e9, "m^(-5/3)")?;
        place.range("atmosphere.altitude", l.altitude, 0.0, 1e5, "m")?;
        place.range("atmosphere.outer_scale", l.outer_scale, 0.01, 1e9, "m")?;
    }
    let sum: f64 = a.layers.iter().map(|l| l.cn2).sum();
    if sum <= 1e-12 {
        return Err(place.error(
            "atmosphere.cn2",
            "all layers are empty",
            "give at least one layer with a positive strength",
        ));
    }
    Ok(())
}

/// Returns warnings about permitted values that may be in a wrong unit, and about layers at or
/// above a laser star.
pub(super) fn warnings_of_both(s: &System, a: &Atmosphere, place: &Place) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if a.r0() > BEST_R0 {
        warnings.push(place.warning(
            "atmosphere.cn2",
            format!(
                "these strengths are an r0 of {:.2} m at 500 nm, at good sites it is 0.1 to 0.3 m; without r0 they are not fractions, but r0^(-5/3) of each layer",
                a.r0()
            ),
        ));
    }
    let highest = a.layers.iter().map(|layer| layer.altitude).fold(0.0, f64::max);
    if highest > 0.0 && highest < LOWEST_PROFILE {
        warnings.push(place.warning(
            "atmosphere.altitude",
            format!("the highest layer is at {highest} m; altitudes are in m, not in km"),
        ));
    }
    for (i, star) in s.stars.iter().enumerate() {
        let above =
            a.layers.iter().filter(|l| l.cn2 > 0.0 && l.altitude * star.inverse_altitude >= 1.0).count();
        if above > 0 {
            warnings.push(place.warning(
                &format!("guide_star[{i}].altitude"),
                format!(
                    "{above} turbulent layer(s) lie at or above this laser star; its sensor does not see them"
                ),
            ));
        }
    }
    warnings
}
