//! Format of a basis in a folder: `positions.npy` (mm, points x 3), `segments.npy` (0 to 35,
//! points), `signals.npy` (points x 37 x samples), optionally `sensitivities.npy` (mm, points x 2),
//! and `basis.toml`. The last is written at the end: a folder without it is incomplete.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::arrays::{self, Quantity};
use super::{make_folder, segments, unseal, write_array, write_whole};
use crate::Error;
use crate::basis::{Basis, Sampling};
use crate::channels::CHANNELS;
use crate::crystal::Crystal;
use crate::electronics::Electronics;
use crate::params::{parse_crystal, print_crystal, read_toml};

/// Origin of a basis: the detector that was simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The crystal.
    pub crystal: Crystal,
    /// The electronics.
    pub electronics: Electronics,
    /// Distance of the nodes of its fields (mm).
    pub grid: f64,
}

/// Storage format of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Floating point, 4 bytes.
    #[default]
    Float32,
    /// Multiples of 1/16384 of the whole charge, 2 bytes.
    Int16,
}

/// Value of the whole charge in [`Values::Int16`].
const WHOLE: f32 = crate::basis::FIXED;

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct BasisFile {
    format: String,
    points: usize,
    samples: usize,
    /// Time between samples (ns).
    step: f64,
    before: usize,
    /// Value of the whole charge in `signals.npy`.
    whole: f64,
    /// Distance of the nodes of the fields (mm).
    grid: f64,
    /// Text of the crystal's file.
    crystal: String,
    electronics: Electronics,
    /// Whether the folder has trapping sensitivities.
    #[serde(default)]
    sensitivities: bool,
}

const FORMAT: &str = "zellige psa basis 1";

/// Writes a basis into a folder, which is created if necessary.
///
/// # Errors
/// [`Error::File`]; [`Error::Parameter`] for signals that do not fit 16 bits.
pub fn write(folder: &Path, basis: &Basis, origin: &Origin, values: Values) -> Result<(), Error> {
    make_folder(folder)?;
    let (seal, sampling) = (folder.join("basis.toml"), basis.sampling());
    let points = basis.positions().len();
    let sides = [points, CHANNELS, sampling.samples];
    if values == Values::Int16 {
        let largest = basis.values().iter().fold(0.0, |most: f32, value| most.max(value.abs()));
        if largest * WHOLE > f32::from(i16::MAX) {
            let problem = format!("a signal of {largest} of the whole charge does not fit 16 bits: take f32");
            return Err(Error::Parameter { name: "values", problem });
        }
    }
    unseal(&seal)?;
    write_array(&folder.join("positions.npy"), &[points, 3], basis.positions().iter().flatten().copied())?;
    let segments = basis.segments().iter().map(|segment| segment.index() as u8);
    write_array(&folder.join("segments.npy"), &[points], segments)?;
    let signals = folder.join("signals.npy");
    match values {
        Values::Float32 => write_array(&signals, &sides, basis.values().iter().copied())?,
        Values::Int16 => {
            write_array(&signals, &sides, basis.values().iter().map(|value| (value * WHOLE).round() as i16))?;
        }
    }
    if let Some(sensitivities) = basis.sensitivities() {
        let values = sensitivities.iter().flatten().copied();
        write_array(&folder.join("sensitivities.npy"), &[points, 2], values)?;
    }
    let file = BasisFile {
        format: FORMAT.into(),
        points,
        samples: sampling.samples,
        step: sampling.step,
        before: sampling.before,
        whole: if values == Values::Int16 { WHOLE.into() } else { 1.0 },
        grid: origin.grid,
        electronics: origin.electronics,
        crystal: print_crystal(&origin.crystal),
        sensitivities: basis.sensitivities().is_some(),
    };
    let text = toml::to_string(&file).expect("numbers and words are TOML");
    write_whole(&seal, |out| std::io::Write::write_all(out, text.as_bytes()))
}

/// Reads a basis and its origin from a folder.
///
/// # Errors
/// [`Error::Text`] for an incomplete folder or invalid parameters, [`Error::File`] with the byte
/// for arrays that do not match them.
pub fn read(folder: &Path) -> Result<(Basis, Origin), Error> {
    let (file, origin) = parameters(folder)?;
    let sampling = Sampling { samples: file.samples, step: file.step, before: file.before };
    let path = folder.join("positions.npy");
    let positions = arrays::finite(arrays::sized(&path, &[file.points, 3])?, Quantity::Length)?;
    let positions = positions.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect();
    let path = folder.join("segments.npy");
    let segments = segments(arrays::sized(&path, &[file.points])?)?;
    let path = folder.join("signals.npy");
    let array = arrays::sized(&path, &[file.points, CHANNELS, file.samples])?;
    let mut values = arrays::finite(array, Quantity::Number)?;
    if file.whole != 1.0 {
        values.iter_mut().for_each(|value| *value /= file.whole as f32);
    }
    let basis = Basis::new(sampling, positions, segments, values)?;
    if !file.sensitivities {
        return Ok((basis, origin));
    }
    let path = folder.join("sensitivities.npy");
    let sensitivities = arrays::finite(arrays::sized(&path, &[file.points, 2])?, Quantity::Length)?;
    let pairs = sensitivities.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    Ok((basis.with_sensitivities(pairs)?, origin))
}

/// Reads the sampling and the origin of a basis in a folder, without its signals.
///
/// # Errors
/// Those of [`read`].
pub fn origin(folder: &Path) -> Result<(Sampling, Origin), Error> {
    let (file, origin) = parameters(folder)?;
    Ok((Sampling { samples: file.samples, step: file.step, before: file.before }, origin))
}

fn parameters(folder: &Path) -> Result<(BasisFile, Origin), Error> {
    let path = folder.join("basis.toml");
    let missing = "no such file: the folder has no basis, or an incomplete one";
    let file: BasisFile = read_toml(&path, missing)?;
    let wrong = |problem: String| Error::Text { path: path.clone(), line: None, problem };
    if file.format != FORMAT {
        return Err(wrong(format!("format {:?} is not supported; {FORMAT:?} is", file.format)));
    }
    if !(file.step > 0.0 && file.step.is_finite() && file.whole > 0.0 && file.grid > 0.0) {
        return Err(wrong("step, whole and grid have to be above 0".into()));
    }
    let crystal = parse_crystal(Path::new("crystal"), &file.crystal).map_err(|e| wrong(e.to_string()))?;
    let origin = Origin { crystal, electronics: file.electronics, grid: file.grid };
    Ok((file, origin))
}
