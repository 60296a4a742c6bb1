//! Crystals in TOML files.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::parse_toml;
use crate::Error;
use crate::channels::RINGS;
use crate::crystal::{Crystal, Front, Outline};
use crate::drift::Table;

/// TOML file with comments of a crystal like AGATA's type A, as a template to copy and edit.
pub const EXAMPLE: &str = include_str!("../../crystals/agata-a.toml");

/// Size limit of files of crystals (bytes).
const MOST_BYTES: u64 = 1 << 20;

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct CrystalFile {
    name: String,
    length: f64,
    radius: f64,
    bore_radius: f64,
    bore_start: f64,
    rings: [f64; RINGS],
    front: Front,
    #[serde(skip_serializing_if = "Option::is_none")]
    corners_front: Option<[[f64; 2]; 6]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    corners_back: Option<[[f64; 2]; 6]>,
    bias: f64,
    impurity: [f64; 2],
    temperature: f64,
    axis_angle: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drift: Option<Table>,
}

pub(crate) fn read(path: &Path) -> Result<Crystal, Error> {
    let cannot = |source| Error::system(path, "cannot read the crystal", source);
    parse_crystal(path, &zellige_files::read_text(path, MOST_BYTES).map_err(cannot)?)
}

/// Parses the TOML text of a crystal; errors call it `name`.
///
/// # Errors
/// Those of [`read_crystal`](super::read_crystal).
pub fn parse_crystal(name: &Path, text: &str) -> Result<Crystal, Error> {
    let file: CrystalFile = parse_toml(name, text)?;
    let corners = match (file.corners_front, file.corners_back) {
        (Some(front), Some(back)) => Some([front, back]),
        (None, None) => None,
        _ => {
            return Err(wrong("corners_front, corners_back", "one without the other: give both, or neither"));
        }
    };
    let crystal = Crystal {
        name: file.name,
        length: file.length,
        radius: file.radius,
        bore_radius: file.bore_radius,
        bore_start: file.bore_start,
        rings: file.rings,
        front: file.front,
        corners,
        bias: file.bias,
        impurity: file.impurity,
        temperature: file.temperature,
        axis_angle: file.axis_angle,
        drift: file.drift,
    };
    check(&crystal).map(|()| crystal)
}

/// Returns the TOML text that describes a crystal.
pub fn print_crystal(crystal: &Crystal) -> String {
    let file = CrystalFile {
        name: crystal.name.clone(),
        length: crystal.length,
        radius: crystal.radius,
        bore_radius: crystal.bore_radius,
        bore_start: crystal.bore_start,
        rings: crystal.rings,
        front: crystal.front,
        corners_front: crystal.corners.map(|[front, _]| front),
        corners_back: crystal.corners.map(|[_, back]| back),
        bias: crystal.bias,
        impurity: crystal.impurity,
        temperature: crystal.temperature,
        axis_angle: crystal.axis_angle,
        drift: crystal.drift.clone(),
    };
    toml::to_string(&file).expect("numbers, words and arrays of them are TOML")
}

fn wrong(name: &'static str, problem: impl Into<String>) -> Error {
    Error::Parameter { name, problem: problem.into() }
}

fn range(name: &'static str, value: f64, low: f64, high: f64, unit: &str) -> Result<(), Error> {
    // NaN fails the comparison.
    if value >= low && value <= high {
        return Ok(());
    }
    Err(wrong(name, format!("{value:?}: give a number from {low} to {high} {unit}")))
}

/// Limit of a crystal's lengths (mm).
const MOST: f64 = 500.0;

/// Refuses impossible crystals.
pub(crate) fn check(crystal: &Crystal) -> Result<(), Error> {
    range("length", crystal.length, 1.0, MOST, "mm")?;
    range("radius", crystal.radius, 1.0, MOST, "mm")?;
    range(
        "bore_radius",
        crystal.bore_radius,
        0.1,
        0.9 * crystal.radius,
        "mm: the bore ends inside the crystal",
    )?;
    range(
        "bore_start",
        crystal.bore_start,
        0.0,
        0.95 * crystal.length,
        "mm: the bore begins inside the crystal",
    )?;
    for ring in crystal.rings {
        range("rings", ring, 0.01, MOST, "mm")?;
    }
    let sum: f64 = crystal.rings.iter().sum();
    if (sum - crystal.length).abs() > 1e-6 * crystal.length {
        return Err(wrong(
            "rings",
            format!("{sum} mm in all, but the crystal is {} mm long", crystal.length),
        ));
    }
    range("bias", crystal.bias, -20_000.0, 20_000.0, "V")?;
    if crystal.bias == 0.0 {
        return Err(wrong("bias", "0 V: no charge would drift; give a voltage, above 0 for n-type crystals"));
    }
    for end in crystal.impurity {
        range("impurity", end, -10.0, 10.0, "1e10 per cm3")?;
    }
    range("temperature", crystal.temperature, 20.0, 150.0, "K")?;
    range("axis_angle", crystal.axis_angle, -360.0, 360.0, "degrees")?;
    if crystal.bore_start == 0.0 && crystal.front == Front::Contact {
        return Err(wrong(
            "front",
            "a contact that touches the bore: begin the bore deeper, or let the face reflect",
        ));
    }
    if let Some(table) = &crystal.drift {
        table.check()?;
    }
    check_corners(crystal)
}

fn check_corners(crystal: &Crystal) -> Result<(), Error> {
    let Some([front, back]) = &crystal.corners else { return Ok(()) };
    for corner in front.iter().chain(back).flatten() {
        range("corners", *corner, -2.0 * MOST, 2.0 * MOST, "mm")?;
    }
    for (share, name) in [(0.0, "corners_front"), (1.0, "corners_back")] {
        let outline = Outline::between(front, back, share);
        if !outline.is_sound() {
            return Err(wrong(name, "not a convex hexagon around the axis: list six corners anticlockwise"));
        }
        let depth = outline.depth([0.0, 0.0]);
        if share * crystal.length >= crystal.bore_start && depth <= crystal.bore_radius {
            return Err(wrong(name, format!("a side {depth} mm from the axis cuts the bore")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Crystal, Error> {
        parse_crystal(Path::new("crystal.toml"), text)
    }

    #[test]
    fn the_example_is_read_and_comes_back() {
        let crystal = parsed(EXAMPLE).expect("the example");
        assert_eq!(parsed(&print_crystal(&crystal)).expect("what was printed"), crystal);
        let plain = Crystal { corners: None, ..crystal };
        assert_eq!(parsed(&print_crystal(&plain)).expect("what was printed"), plain);
    }

    #[test]
    fn mistakes_are_named() {
        let with = |from: &str, to: &str| parsed(&EXAMPLE.replace(from, to)).expect_err(to).to_string();
        assert!(with("length = 90.0", "length = 91.0").contains("90 mm in all"));
        assert!(with("bias = 5000.0", "bias = nan").contains("bias"));
        assert!(with("bias = 5000.0", "bais = 1").contains(":16: "), "{}", with("bias = 5000.0", "bais = 1"));
        assert!(with("bore_start = 13.0", "bore_start = 0").contains("touches the bore"));
        assert!(with("[33.906, 0.0], ", "[-33.906, 0.0], ").contains("anticlockwise"));
        assert!(with("corners_back", "#").contains("give both"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(at in 0usize..EXAMPLE.len(), byte: u8, cut: bool) {
            let mut bytes = EXAMPLE.as_bytes().to_vec();
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            let _ = parsed(&String::from_utf8_lossy(&bytes));
        }
    }
}
