//! Systems and atmospheres, and their readers.
//!
//! Five kinds of file are supported: MOAO's `sys-params.txt` in its current layout (36 entries) and
//! its older one (22 entries, one noise variance instead of photometry), MOAO's `atm-params.txt`,
//! COMPASS's parameter files in Python (without executing them), the YAML files of pyTomoAO, and
//! zellige's own format with all parameters, in TOML or YAML. [`read`] recognises them. Every
//! repair or assumption is reported as a [`Warning`].

mod check;
mod compass;
mod entries;
mod foreign;
mod moao;
mod own;
mod tomoao;
mod yaml;

use crate::Error;
use std::path::{Path, PathBuf};

pub use compass::parse_compass;
pub use moao::{parse_atmosphere, parse_system};
pub use own::parse_toml;
pub use yaml::parse_yaml;

/// The system that `zellige tor example` prints: an 8 m telescope.
pub const EXAMPLE: &str = include_str!("../../systems/demo.toml");

/// The system with which MOAO checks itself, in zellige's format: 912 measurements, and precision
/// rules near the limit of positive definiteness.
pub const CHECK_SYSTEM: &str = include_str!("../../systems/check.toml");

/// The largest system of MOAO's timings, in zellige's format: 100 368 measurements.
pub const LARGE_SYSTEM: &str = include_str!("../../systems/nx50184.toml");

/// A profile of 60 layers, in zellige's format.
pub const NIGHT_PROFILE: &str = include_str!("../../systems/night60.toml");

/// Maximum number of sub-apertures across the pupil.
pub const MAX_NSSP: usize = 256;
/// Maximum number of guide stars.
pub const MAX_STARS: usize = 64;
/// Maximum number of turbulent layers.
pub const MAX_LAYERS: usize = 1024;
/// Maximum number of targets.
pub const MAX_TARGETS: usize = 4096;
/// Maximum size of a parameter file, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

/// Natural star (at infinity) or laser guide star (at the sodium layer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StarKind {
    /// Natural guide star.
    Ngs,
    /// Laser guide star: cone effect, elongated spot, no tip-tilt.
    Lgs,
}

/// A guide star and the wavefront sensor that looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct GuideStar {
    /// Natural or laser.
    pub kind: StarKind,
    /// Direction from the axis, `[x, y]` in arcsec.
    pub direction: [f64; 2],
    /// Inverse altitude in 1/m; 0 means infinity.
    pub inverse_altitude: f64,
    /// Number of sub-apertures across the pupil.
    pub nssp: usize,
    /// Shift of the pupil, `[x, y]` in m.
    pub pupil_shift: [f64; 2],
    /// Rotation of the pupil in degrees.
    pub rotation: f64,
    /// Magnification of the pupil.
    pub magnification: f64,
    /// Whether rotation and magnification apply to whole sub-apertures, whose slopes are then along
    /// rotated axes (pyTomoAO, COMPASS's simulation), or to the positions alone (MOAO).
    pub slopes_turn: bool,
    /// Magnitude of a natural star (needed for photometric noise).
    pub magnitude: Option<f64>,
    /// Position of the laser launcher, `[x, y]` in m. `None`: at the pupil edge in the direction of
    /// the star.
    pub launcher: Option<[f64; 2]>,
}

/// Detector, light and star parameters of the photometric noise model (see [`crate::noise`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Photometry {
    /// Exposure of one frame in s.
    pub frame_time: f64,
    /// Photons of a laser star in 1/(m^2 s).
    pub lgs_flux: f64,
    /// Pixel size of the natural-star sensors in arcsec.
    pub pixel_ngs: f64,
    /// Pixel size of the laser-star sensors in arcsec.
    pub pixel_lgs: f64,
    /// Wavelength of the natural-star sensors in m.
    pub wavelength_ngs: f64,
    /// Wavelength of the laser-star sensors in m.
    pub wavelength_lgs: f64,
    /// Bandwidth of the natural-star sensors in m.
    pub bandwidth: f64,
    /// Transmission to the natural-star sensors.
    pub throughput_ngs: f64,
    /// Transmission to the laser-star sensors, including the atmosphere.
    pub throughput_lgs: f64,
    /// Transmission of the atmosphere.
    pub throughput_atmosphere: f64,
    /// Read noise in electrons rms per pixel.
    pub read_noise: f64,
    /// Width of the laser spot on the sky in arcsec.
    pub spot_width: f64,
    /// Altitude of the sodium layer in m.
    pub sodium_altitude: f64,
    /// Thickness of the sodium layer in m.
    pub sodium_depth: f64,
}

/// Noise model of the slopes.
#[derive(Debug, Clone, PartialEq)]
pub enum NoiseModel {
    /// Noise from photons and detector.
    Photometric(Photometry),
    /// The same variance for every slope, in arcsec^2.
    Uniform {
        /// Variance in arcsec^2.
        variance: f64,
    },
}

/// Unit of the angles in a file, for callers that want results in it. Inside the crate all angles
/// are in arcsec.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AngleUnit {
    /// Arcseconds.
    #[default]
    Arcsec,
    /// Radians.
    Rad,
    /// Milliarcseconds.
    Mas,
}

impl AngleUnit {
    /// Returns the number of arcseconds in one unit.
    pub fn in_arcsec(self) -> f64 {
        match self {
            AngleUnit::Arcsec => 1.0,
            AngleUnit::Rad => crate::ARCSEC_PER_RADIAN,
            AngleUnit::Mas => 1e-3,
        }
    }

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            AngleUnit::Arcsec => "arcsec",
            AngleUnit::Rad => "rad",
            AngleUnit::Mas => "mas",
        }
    }
}

/// Selected cells of a square grid: sub-apertures or actuators.
#[derive(Debug, Clone, PartialEq)]
pub struct CellMap {
    across: usize,
    cells: Vec<bool>,
}

impl CellMap {
    /// Makes a map of `rows`, the lowest y first, with x ascending in each.
    ///
    /// # Errors
    /// A message: no row, rows of other lengths than their number, more than [`MAX_NSSP`] + 1 rows,
    /// no selected cell.
    pub fn new(rows: &[Vec<bool>]) -> Result<Self, String> {
        let across = rows.len();
        if across == 0 || across > MAX_NSSP + 1 {
            return Err(format!("a map of {across} rows: 1 to {} are possible", MAX_NSSP + 1));
        }
        if let Some(bad) = rows.iter().position(|row| row.len() != across) {
            return Err(format!(
                "row {} of the map has {} cells, but the map has {across} rows",
                bad + 1,
                rows[bad].len()
            ));
        }
        let cells = rows.concat();
        if !cells.contains(&true) {
            return Err("no cell of the map is 1".into());
        }
        Ok(CellMap { across, cells })
    }

    /// Makes a map as [`CellMap::new`], from numbers that are 0 or 1, or 0 or 255.
    ///
    /// # Errors
    /// The errors of [`CellMap::new`]; another number.
    pub fn from_numbers(rows: &[Vec<f64>]) -> Result<Self, String> {
        let is_of_bytes = rows.iter().flatten().all(|x| [0.0, 255.0].contains(x));
        let flag = |x: &f64| match x {
            0.0 => Ok(false),
            1.0 => Ok(true),
            255.0 if is_of_bytes => Ok(true),
            other => Err(format!("{other} in a map of 0 and 1")),
        };
        let rows: Result<Vec<Vec<bool>>, String> =
            rows.iter().map(|row| row.iter().map(flag).collect()).collect();
        CellMap::new(&rows?)
    }

    /// Returns the number of cells across.
    pub fn across(&self) -> usize {
        self.across
    }

    /// Returns whether the cell of column `x` and row `y` is selected; false outside the map.
    pub fn holds(&self, x: usize, y: usize) -> bool {
        x < self.across && y < self.across && self.cells[x + self.across * y]
    }
}

/// Rule for valid sub-apertures. A sensor's only sub-aperture is always valid.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Valid {
    /// Sub-apertures with their centre in the pupil.
    #[default]
    Centre,
    /// Sub-apertures with at least this fraction of their area illuminated, above 0 and at most 1.
    Illuminated(f64),
    /// Sub-apertures of a map, which all sensors with more than one sub-aperture share.
    Map(CellMap),
}

/// The deformable mirror.
#[derive(Debug, Clone, PartialEq)]
pub enum MirrorModel {
    /// Gaussian influence functions on a square grid with the pitch of the sub-apertures.
    Gaussian {
        /// Fraction of the peak at a neighbouring actuator.
        coupling: f64,
        /// Map of the actuators; by default those around the pupil ([`crate::dm`]).
        actuators: Option<CellMap>,
    },
    /// Influence functions that were measured or computed elsewhere.
    Sampled(std::sync::Arc<crate::dm::InfluenceFunctions>),
}

impl Default for MirrorModel {
    fn default() -> Self {
        MirrorModel::Gaussian { coupling: crate::dm::COUPLING, actuators: None }
    }
}

/// Telescope, guide stars and targets.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Diameter of the pupil in m.
    pub diameter: f64,
    /// Diameter of the central obstruction as a fraction of the pupil's.
    pub obstruction: f64,
    /// Angle of the telescope from the zenith in degrees. Altitudes and strengths of a system and
    /// its atmosphere are along the line of sight: readers have applied the angle.
    pub zenith_angle: f64,
    /// Rule for valid sub-apertures.
    pub valid: Valid,
    /// The deformable mirror.
    pub mirror: MirrorModel,
    /// Number of sub-apertures across the pupil of the truth sensor; the mirror has `nssp + 1`
    /// actuators across.
    pub nssp: usize,
    /// Measuring sensors in measurement order: laser stars first.
    pub stars: Vec<GuideStar>,
    /// Directions to reconstruct, `[x, y]` in arcsec.
    pub targets: Vec<[f64; 2]>,
    /// Assumed variance in arcsec^2 of the unknown tip and tilt of a laser star.
    pub lgs_cst: f64,
    /// Measurement noise.
    pub noise: NoiseModel,
    /// Wavelength of the image in m.
    pub wavelength: f64,
    /// Unit of the angles in the original file.
    pub units: AngleUnit,
}

/// One turbulent layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// Altitude above the pupil in m.
    pub altitude: f64,
    /// Strength `r0^(-5/3)` at 500 nm in m^(-5/3).
    pub cn2: f64,
    /// Outer scale in m.
    pub outer_scale: f64,
}

/// The turbulence profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Atmosphere {
    /// Layers, lowest first as in files.
    pub layers: Vec<Layer>,
}

impl Atmosphere {
    /// Returns the Fried parameter in m at 500 nm of all layers, `(sum cn2)^(-3/5)`.
    pub fn r0(&self) -> f64 {
        self.layers.iter().map(|l| l.cn2).sum::<f64>().powf(-0.6)
    }

    /// Returns the seeing (FWHM for an infinite outer scale, `0.976 lambda / r0`) at 500 nm in
    /// arcsec.
    pub fn seeing(&self) -> f64 {
        0.976 * 500e-9 / self.r0() * crate::ARCSEC_PER_RADIAN
    }
}

/// Returns the airmass `1 / cos z` at an angle from the zenith in degrees.
fn airmass(zenith_angle: f64) -> f64 {
    // It is exactly 1 at 0, so that values for the zenith keep their bits.
    if zenith_angle == 0.0 { 1.0 } else { 1.0 / zenith_angle.to_radians().cos() }
}

impl System {
    /// Converts altitudes of laser stars and sodium layer above the telescope to distances along
    /// the line of sight.
    fn slant(&mut self) {
        let airmass = airmass(self.zenith_angle);
        self.stars.iter_mut().for_each(|star| star.inverse_altitude /= airmass);
        if let NoiseModel::Photometric(light) = &mut self.noise {
            light.sodium_altitude *= airmass;
            light.sodium_depth *= airmass;
        }
    }
}

impl Atmosphere {
    /// Converts a profile above the telescope to one along a line of sight: distances and strengths
    /// of layers grow by the factor `1 / cos z`.
    fn slant(&mut self, zenith_angle: f64) {
        let airmass = airmass(zenith_angle);
        for layer in &mut self.layers {
            layer.altitude *= airmass;
            layer.cn2 *= airmass;
        }
    }
}

/// A repair or an anomaly that a reader reports.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Warning {
    /// File of the parameter.
    pub file: PathBuf,
    /// Line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// Name of the parameter.
    pub key: String,
    /// Description of the problem and of the repair.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: {}", self.key, self.message)
    }
}

/// A checked system with its atmosphere.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// Telescope, stars, targets.
    pub system: System,
    /// Turbulence.
    pub atmosphere: Atmosphere,
    /// Warnings of the reader.
    pub warnings: Vec<Warning>,
}

/// Treatment of small defects in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Repairs them and warns.
    #[default]
    Lenient,
    /// Refuses them.
    Strict,
}

/// Reads a system, and its atmosphere from a second file if the first does not contain it.
///
/// A name ending in `.toml`, `.yaml`, `.yml` or `.py` is read in that format (with its atmosphere,
/// unless a second file overrides it), any other as MOAO text. A second file is a profile above the
/// telescope; the system's zenith angle is applied to it.
///
/// # Errors
/// A file cannot be read, a parameter is missing, malformed, out of range or contradicts another;
/// no atmosphere is given.
pub fn read(system: &Path, atmosphere: Option<&Path>, mode: Mode) -> Result<Input, Error> {
    let text = read_text(system)?;
    let profile = atmosphere.map(|p| read_text(p).map(|t| (p, t))).transpose()?;
    parse(system, &text, profile.as_ref().map(|(p, t)| (*p, t.as_str())), mode)
}

/// Parses a system as [`read`] does, from text; the paths select the format and appear in messages.
///
/// # Errors
/// See [`read`].
pub fn parse(
    system_path: &Path,
    system_text: &str,
    profile: Option<(&Path, &str)>,
    mode: Mode,
) -> Result<Input, Error> {
    // A refused file may be one of another program, which the error then names.
    let known = |path, text| move |error| foreign::named(path, text).unwrap_or(error);
    let read = match Format::of(system_path) {
        Format::Toml => parse_toml(system_path, system_text),
        Format::Yaml => parse_yaml(system_path, system_text),
        Format::Compass => parse_compass(system_path, system_text),
        Format::Moao => {
            parse_system(system_path, system_text, mode).map(|(system, warnings)| (system, None, warnings))
        }
    };
    let (system, inside, mut warnings) = read.map_err(known(system_path, system_text))?;
    let atmosphere = match (profile, inside) {
        (Some((path, text)), _) => {
            let read = match Format::of(path) {
                Format::Toml => own::parse_toml_atmosphere(path, text),
                Format::Yaml => yaml::parse_yaml_atmosphere(path, text),
                Format::Moao => parse_atmosphere(path, text),
                Format::Compass => Err(compass::not_a_profile(path)),
            };
            let (mut atmosphere, more) = read.map_err(known(path, text))?;
            warnings.extend(more);
            atmosphere.slant(system.zenith_angle);
            atmosphere
        }
        (None, Some(atmosphere)) => atmosphere,
        (None, None) => {
            return Err(Error::Parameter {
                file: system_path.to_owned(),
                line: None,
                key: "atmosphere".into(),
                problem: "this file holds no turbulence profile".into(),
                remedy: "give an atmosphere file as well (atm-params.txt; --atm on the command line)".into(),
            });
        }
    };
    let place = check::Place::new(system_path, "");
    warnings.extend(check::together(&system, &atmosphere, &place));
    Ok(Input { system, atmosphere, warnings })
}

/// Returns the system of MOAO's timings, with `nssp` sub-apertures across the pupil of every sensor
/// (86 is [`LARGE_SYSTEM`]), with its ten layers or with [`NIGHT_PROFILE`].
///
/// # Errors
/// An invalid number of sub-apertures.
pub fn timed_system(nssp: usize, night: bool) -> Result<Input, Error> {
    let profile = night.then_some((Path::new("night60.toml"), NIGHT_PROFILE));
    let mut input = parse(Path::new("nx50184.toml"), LARGE_SYSTEM, profile, Mode::Strict)?;
    input.system.nssp = nssp;
    input.system.stars.iter_mut().for_each(|star| star.nssp = nssp);
    input.system.check()?;
    Ok(input)
}

impl System {
    /// Checks a system made in code like one from a file.
    ///
    /// # Errors
    /// A value is out of range or contradicts another.
    pub fn check(&self) -> Result<Vec<Warning>, Error> {
        check::system(self, &check::Place::new(Path::new("<memory>"), ""))
    }
}

impl Atmosphere {
    /// Checks an atmosphere made in code like one from a file.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn check(&self) -> Result<(), Error> {
        check::atmosphere(self, &check::Place::new(Path::new("<memory>"), ""))
    }
}

/// File format, by the ending of the name.
#[derive(Clone, Copy)]
enum Format {
    Toml,
    Yaml,
    Compass,
    Moao,
}

impl Format {
    fn of(path: &Path) -> Format {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match ending.as_str() {
            "toml" => Format::Toml,
            "yaml" | "yml" => Format::Yaml,
            "py" => Format::Compass,
            _ => Format::Moao,
        }
    }
}

fn read_text(path: &Path) -> Result<String, Error> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|e| Error::io(path, "cannot open the parameter file", e))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io(path, "cannot read the parameter file", e))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::content(
            path,
            format!("longer than {MAX_FILE} bytes: this is not a parameter file"),
        ));
    }
    if let Some(error) = foreign::named_bytes(path, &bytes) {
        return Err(error);
    }
    String::from_utf8(bytes).map_err(|_| Error::content(path, "not UTF-8 text: this is not a parameter file"))
}
