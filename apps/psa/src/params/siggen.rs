//! Hexagonal crystals in the format of greta_siggen: a configuration, and the files of its segments
//! and of its drift speeds.
//!
//! The configuration has lines of a keyword and a value, lengths in mm, densities in 1e10 per cm3;
//! `#` begins a comment. The file of segments has the numbers of rings and sectors, the rings'
//! thickness from the front, and the corners of crystal types A and B at the front and at the back.
//! The file of drift speeds has lines of a field (V/cm) and the speeds e100 e110 e111 h100 h110
//! h111 (mm/ns). It may also have a line each for the temperature dependence of electrons (`e`) and
//! holes (`h`).
//!
//! Crystals here have sharp edges, and all of the germanium is active. Rounded edges, the taper of
//! the bore and the depth of the lithium contact are ignored.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::crystal::check;
use crate::Error;
use crate::channels::RINGS;
use crate::crystal::{Crystal, Front, Outline};
use crate::drift::{Table, Temperature};

/// Size limit of such files (bytes).
const MOST_BYTES: u64 = 1 << 20;

/// Keywords of detectors with a point contact, which have no segments.
const POINT_CONTACT: [&str; 8] = [
    "pc_length",
    "pc_radius",
    "bulletize_PC",
    "wrap_around_radius",
    "ditch_depth",
    "ditch_thickness",
    "hole_length",
    "outer_taper_length",
];

/// Keywords of effects that are not simulated; their values must be 0.
const NOT_SIMULATED: [&str; 8] = [
    "core_offset_x_top",
    "core_offset_y_top",
    "core_offset_x_bottom",
    "core_offset_y_bottom",
    "impurity_quadratic",
    "impurity_surface",
    "charge_cloud_size",
    "use_diffusion",
];

/// Returns whether a file's name is that of a configuration.
pub(crate) fn is_config(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("config"))
}

pub(crate) fn read(path: &Path) -> Result<Crystal, Error> {
    let content = text(path)?;
    let config = Config::parse(path, &content)?;
    let beside = |keyword| Ok::<_, Error>(path.with_file_name(config.word(keyword)?));
    let geometry: PathBuf = beside("geometry_name")?;
    let geometry = Geometry::parse(&geometry, &text(&geometry)?)?;
    let drift = match config.values.contains_key("drift_name") {
        true => {
            let file = beside("drift_name")?;
            Some(drift(&file, &text(&file)?)?)
        }
        false => None,
    };
    config.crystal(&geometry, drift)
}

fn text(path: &Path) -> Result<String, Error> {
    zellige_files::read_text(path, MOST_BYTES).map_err(|source| Error::system(path, "cannot read", source))
}

/// Returns the lines of a file without comments, with their numbers; blank ones are skipped.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let words: Vec<&str> = line.split('#').next()?.split_whitespace().collect();
        (!words.is_empty()).then_some((number, words))
    })
}

fn wrong(path: &Path, line: impl Into<Option<usize>>, problem: impl Into<String>) -> Error {
    Error::Text { path: path.to_owned(), line: line.into(), problem: problem.into() }
}

/// Parses the finite numbers of a line.
fn numbers<const N: usize>(path: &Path, line: usize, words: &[&str], what: &str) -> Result<[f64; N], Error> {
    let number = |word: &&str| word.parse::<f64>().ok().filter(|value| value.is_finite());
    let found: Option<Vec<f64>> = words.iter().map(number).collect();
    let found = found.and_then(|found| <[f64; N]>::try_from(found).ok());
    found.ok_or_else(|| wrong(path, line, format!("{:?} is not {what}", words.join(" "))))
}

/// Keywords with their line numbers and values.
struct Config<'t> {
    path: &'t Path,
    values: HashMap<&'t str, (usize, &'t str)>,
}

impl<'t> Config<'t> {
    fn parse(path: &'t Path, text: &'t str) -> Result<Self, Error> {
        let mut values = HashMap::new();
        for (line, words) in lines(text) {
            let [keyword, value, ..] = words[..] else {
                return Err(wrong(path, line, format!("{:?} has no value", words[0])));
            };
            if POINT_CONTACT.contains(&keyword) {
                let problem = "is a key of point-contact detectors: they have no segments, and only hexagonal crystals are simulated";
                return Err(wrong(path, line, format!("{keyword} {problem}")));
            }
            if values.insert(keyword, (line, value)).is_some() {
                return Err(wrong(path, line, format!("{keyword} is given twice")));
            }
        }
        Ok(Config { path, values })
    }

    fn word(&self, keyword: &str) -> Result<&'t str, Error> {
        let missing = || wrong(self.path, None, format!("{keyword} is missing"));
        self.values.get(keyword).map(|value| value.1).ok_or_else(missing)
    }

    fn number(&self, keyword: &str) -> Result<f64, Error> {
        let word = self.word(keyword)?;
        numbers::<1>(self.path, self.values[keyword].0, &[word], &format!("a number for {keyword}"))
            .map(|[n]| n)
    }

    /// Returns a number, or 0 if the keyword is missing.
    fn number_or_zero(&self, keyword: &str) -> Result<f64, Error> {
        if self.values.contains_key(keyword) { self.number(keyword) } else { Ok(0.0) }
    }

    fn crystal(&self, geometry: &Geometry, drift: Option<Table>) -> Result<Crystal, Error> {
        for keyword in NOT_SIMULATED {
            if self.number_or_zero(keyword)? != 0.0 {
                return Err(wrong(
                    self.path,
                    self.values[keyword].0,
                    format!("{keyword} is not simulated: give 0"),
                ));
            }
        }
        let kind = match self.word("xtal_type")? {
            "0" => 0,
            "1" => 1,
            other => {
                let problem = format!("xtal_type {other}: use 0 for type A, 1 for type B");
                return Err(wrong(self.path, self.values["xtal_type"].0, problem));
            }
        };
        let length = self.number("xtal_length")?;
        let bore_start = match self.values.contains_key("core_length_gap") {
            true => self.number("core_length_gap")?,
            false => length - self.number("core_length")?,
        };
        // The gradient is per cm of depth.
        let (front, slope) = (self.number("impurity_z0")?, self.number_or_zero("impurity_gradient")? / 10.0);
        let file = self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let crystal = Crystal {
            name: format!("GRETA type {} of {file}, with sharp edges", ["A", "B"][kind]),
            length,
            radius: self.number("xtal_radius")?,
            bore_radius: self.number("core_radius")?,
            bore_start,
            rings: geometry.rings,
            front: Front::Contact,
            corners: Some(geometry.corners[kind]),
            bias: self.number("xtal_HV")?,
            impurity: [front, front + slope * length],
            temperature: self.number("xtal_temp")?,
            axis_angle: self.number_or_zero("xtal_axis_rotation")?,
            drift,
        };
        check(&crystal).map(|()| crystal)
    }
}

/// Thickness of the rings, and the corners at the front and at the back of each type, anticlockwise
/// from the file's first one.
struct Geometry {
    rings: [f64; RINGS],
    corners: [[[[f64; 2]; 6]; 2]; 2],
}

impl Geometry {
    fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let mut lines = lines(text);
        let mut next = |what: &str| {
            lines.next().ok_or_else(|| wrong(path, None, format!("the file ends before {what}")))
        };
        let what = "the numbers of rings and of sectors, 6 6";
        let (line, words) = next(what)?;
        if numbers::<2>(path, line, &words, what)? != [6.0, 6.0] {
            return Err(wrong(
                path,
                line,
                format!("{:?}: crystals have six rings of six sectors", words.join(" ")),
            ));
        }
        let what = "the thickness of six rings (mm)";
        let (line, words) = next(what)?;
        let rings = numbers(path, line, &words, what)?;
        let mut corners = [[[[0.0; 2]; 6]; 2]; 2];
        for corner in corners.iter_mut().flatten().flatten() {
            let what = "a corner: x, y and z (mm)";
            let (line, words) = next(what)?;
            let [x, y, _] = numbers(path, line, &words, what)?;
            *corner = [x, y];
        }
        for faces in &mut corners {
            // The first corner stays first.
            if !Outline::between(&faces[0], &faces[1], 0.0).is_sound() {
                faces.iter_mut().for_each(|face| face[1..].reverse());
            }
        }
        Ok(Geometry { rings, corners })
    }
}

fn drift(path: &Path, text: &str) -> Result<Table, Error> {
    let mut table = Table {
        field: Vec::new(),
        electrons_100: Vec::new(),
        electrons_111: Vec::new(),
        holes_100: Vec::new(),
        holes_111: Vec::new(),
        electrons_temperature: None,
        holes_temperature: None,
    };
    for (line, words) in lines(text) {
        if let "e" | "h" = words[0] {
            let what = "mobility at 1 K (cm2/Vs), power, speed (cm/s) and theta (K)";
            let [mobility, power, speed, theta] = numbers(path, line, &words[1..], what)?;
            let of =
                if words[0] == "e" { &mut table.electrons_temperature } else { &mut table.holes_temperature };
            *of = Some(Temperature { mobility, power, speed, theta });
            continue;
        }
        let what = "a field (V/cm) and six speeds (mm/ns)";
        let [field, e100, _, e111, h100, _, h111] = numbers(path, line, &words, what)?;
        table.field.push(field);
        table.electrons_100.push(e100);
        table.electrons_111.push(e111);
        table.holes_100.push(h100);
        table.holes_111.push(h111);
    }
    table.check().map_err(|error| wrong(path, None, error.to_string()))?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::super::crystal::{parse_crystal, print_crystal};
    use super::*;

    const CONFIG: &str = "\
# a crystal of our own
verbosity_level 1
xtal_type 0 # A
xtal_length 80
xtal_radius 38
core_length_gap 10
core_radius 5
Li_thickness 1.0
impurity_z0 1.5
impurity_gradient -0.1 # per cm
xtal_HV 4000
xtal_temp 85
xtal_axis_rotation 30
geometry_name segments.dat
drift_name speeds.tab
";
    const SPEEDS: &str = "\
# E e100 e110 e111 h100 h110 h111
0 0 0 0 0 0 0
1000 0.10 0.095 0.08 0.09 0.08 0.07
e 5e7 -1.7 1.3e7 200
";

    /// Returns the file of segments with clockwise corners, those of type B 4 mm further out.
    fn segments() -> String {
        let mut text = String::from("# ours\n6 6 # rings, sectors\n10 10 10 15 15 20\n");
        for (radius, z) in [(30.0, 0), (45.0, 80), (34.0, 0), (49.0, 80)] {
            for corner in 0..6 {
                let (sin, cos) = (-60.0 * f64::from(corner) + 10.0f64).to_radians().sin_cos();
                text += &format!("{} {} {z}\n", radius * cos, radius * sin);
            }
        }
        text
    }

    /// Reads the crystal of these files after a replacement in their text.
    fn made(from: &str, to: &str) -> Result<Crystal, Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let files =
            [("a.config", CONFIG.to_owned()), ("segments.dat", segments()), ("speeds.tab", SPEEDS.into())];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text.replace(from, to)).expect("written");
        }
        read(&folder.path().join("a.config"))
    }

    #[test]
    fn a_crystal_is_made_of_three_files() {
        let crystal = made("", "").expect("a crystal");
        assert_eq!((crystal.length, crystal.radius), (80.0, 38.0));
        assert_eq!((crystal.bore_radius, crystal.bore_start), (5.0, 10.0));
        assert_eq!((crystal.rings, crystal.front), ([10.0, 10.0, 10.0, 15.0, 15.0, 20.0], Front::Contact));
        assert_eq!((crystal.bias, crystal.temperature, crystal.axis_angle), (4000.0, 85.0, 30.0));
        assert!((crystal.impurity[0] - 1.5).abs() < 1e-12 && (crystal.impurity[1] - 0.7).abs() < 1e-12);
        // Anticlockwise from the first corner, which is at 10 degrees.
        let [front, back] = crystal.corners.expect("a hexagon");
        for (k, angle) in [10.0f64, 70.0, 130.0, 190.0, 250.0, 310.0].into_iter().enumerate() {
            let (sin, cos) = angle.to_radians().sin_cos();
            assert!((front[k][0] - 30.0 * cos).abs() < 1e-9 && (back[k][1] - 45.0 * sin).abs() < 1e-9, "{k}");
        }
        let drift = crystal.drift.as_ref().expect("a table");
        assert_eq!((&drift.field[..], &drift.holes_111[..]), (&[0.0, 1000.0][..], &[0.0, 0.07][..]));
        assert!(drift.electrons_temperature.is_some() && drift.holes_temperature.is_none());
        assert_eq!(
            parse_crystal(Path::new("printed"), &print_crystal(&crystal)).expect("what was printed"),
            crystal
        );
        let b = made("xtal_type 0", "xtal_type 1").expect("type B");
        assert!((b.corners.expect("a hexagon")[0][0][0] - 34.0 * 10f64.to_radians().cos()).abs() < 1e-9);
        let by_length = made("core_length_gap 10", "core_length 68").expect("a crystal");
        assert_eq!(by_length.bore_start, 12.0);
        assert_eq!(made("drift_name", "# drift_name").expect("a crystal").drift, None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file_and_line() {
        for (from, to, says) in [
            ("xtal_HV 4000\n", "", "a.config: xtal_HV is missing"),
            ("xtal_HV 4000", "xtal_HV much", "a.config:11: \"much\" is not a number for xtal_HV"),
            (
                "Li_thickness 1.0",
                "pc_radius 2.5",
                "a.config:8: pc_radius is a key of point-contact detectors",
            ),
            ("Li_thickness 1.0", "core_offset_x_top 0.5", "a.config:8: core_offset_x_top is not simulated"),
            ("Li_thickness 1.0", "xtal_HV 1", "a.config:11: xtal_HV is given twice"),
            ("xtal_type 0", "xtal_type 2", "a.config:3: xtal_type 2"),
            ("geometry_name segments.dat", "geometry_name none.dat", "none.dat: cannot read"),
            ("6 6 #", "6 4 #", "segments.dat:2: \"6 4\""),
            ("10 10 10 15 15 20", "10 10 10 15 15", "segments.dat:3: \"10 10 10 15 15\" is not"),
            ("10 10 10 15 15 20", "10 10 10 15 15 25", "rings: 85 mm in all"),
            ("0.08 0.09", "0.09", "speeds.tab:3: "),
            ("1000 0.10", "1000 nan", "speeds.tab:3: "),
            ("e 5e7 -1.7", "e 5e7", "speeds.tab:4: "),
            ("1000 0.10", "1000 10", "speeds.tab: drift.electrons_100: "),
        ] {
            let error = made(from, to).expect_err(to).to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
