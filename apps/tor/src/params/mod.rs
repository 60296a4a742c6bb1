//! Readers and checks of systems and atmospheres.
//!
//! Five kinds of file are supported: MOAO's `sys-params.txt` in its current layout (36 entries) and
//! its older one (22 entries, one noise variance instead of photometry), MOAO's `atm-params.txt`,
//! COMPASS's parameter files in Python (without executing them), the YAML files of pyTomoAO, and
//! zellige's own format with all parameters, in TOML or YAML. [`read`] recognises them. Every
//! repair or assumption is reported as a [`Warning`].

mod arrays;
mod check;
mod compass;
mod entries;
mod foreign;
mod mirrors;
mod moao;
mod own;
mod tomoao;
mod yaml;

use crate::Error;
use crate::system::{Atmosphere, System};
use std::path::{Path, PathBuf};

pub use arrays::{read_influence, read_map};
pub use compass::parse_compass;
pub use moao::{parse_atmosphere, parse_system};
pub use own::parse_toml;

/// The system that `zellige tor example` prints: an 8 m telescope.
pub const EXAMPLE: &str = include_str!("../../systems/demo.toml");

/// The system with which MOAO checks itself, in zellige's format: 912 measurements, and precision
/// rules near the limit of positive definiteness.
pub const CHECK_SYSTEM: &str = include_str!("../../systems/check.toml");

/// The largest system of MOAO's timings, in zellige's format: 100 368 measurements.
pub const LARGE_SYSTEM: &str = include_str!("../../systems/nx50184.toml");

/// A profile of 60 layers, in zellige's format.
pub const NIGHT_PROFILE: &str = include_str!("../../systems/night60.toml");

/// Maximum size of a parameter file, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

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
                Format::Yaml => parse_yaml_atmosphere(path, text),
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
    warnings.extend(check::warnings_of_both(&system, &atmosphere, &place));
    Ok(Input { system, atmosphere, warnings })
}

/// Reads a YAML file: pyTomoAO's if it has `lgs_wfs_parameters`, otherwise one with the keys of
/// [`parse_toml`].
///
/// # Errors
/// The file is not YAML, or has tags; the errors of the two readers.
pub fn parse_yaml(file: &Path, text: &str) -> Result<(System, Option<Atmosphere>, Vec<Warning>), Error> {
    let root = yaml::tree(file, text)?;
    if root.get("lgs_wfs_parameters").is_some() {
        return tomoao::read(file, &root);
    }
    let (table, place) = yaml::table(file, root)?;
    own::from_table(table, file, &place)
}

/// Reads a YAML file with an `atmosphere` in zellige's keys.
fn parse_yaml_atmosphere(file: &Path, text: &str) -> Result<(Atmosphere, Vec<Warning>), Error> {
    let (table, place) = yaml::table(file, yaml::tree(file, text)?)?;
    Ok((own::atmosphere_from_table(table, file, &place)?, Vec::new()))
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
    let file =
        std::fs::File::open(path).map_err(|e| Error::system(path, "cannot open the parameter file", e))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::system(path, "cannot read the parameter file", e))?;
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
