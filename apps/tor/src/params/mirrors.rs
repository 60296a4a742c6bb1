//! Mirrors and corrected field of zellige's own format.

use super::arrays::Map;
use super::check::Place;
use crate::Error;
use crate::system::{COUPLING, ConjugateMirror, FieldCorrection, MirrorModel};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt::{Formatter, Result as FmtResult};

/// Largest number of directions along a side of the field's grid.
const MAX_POINTS: usize = 64;
/// Largest angle of a direction along an axis in arcsec, that of all targets.
const MAX_ANGLE: f64 = 7200.0;

/// A table `[mirror]`, or one of several tables `[[mirror]]`.
#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Mirror {
    #[serde(default)]
    altitude: f64,
    pitch: Option<f64>,
    coupling: Option<f64>,
    actuators: Option<Map>,
}

impl Mirror {
    fn coupling(&self) -> f64 {
        self.coupling.unwrap_or(COUPLING)
    }

    /// Returns whether this is the usual mirror in the pupil, on the grid of the sub-apertures.
    fn is_usual(&self) -> bool {
        self.altitude == 0.0 && self.pitch.is_none()
    }
}

/// The mirrors of a file, and whether they are a list.
#[derive(Default)]
pub(super) struct Mirrors {
    list: Vec<Mirror>,
    is_list: bool,
}

impl<'de> Deserialize<'de> for Mirrors {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OneOrMany)
    }
}

struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Mirrors;

    fn expecting(&self, to: &mut Formatter<'_>) -> FmtResult {
        to.write_str("a table [mirror], or tables [[mirror]]")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Mirrors, A::Error> {
        let one = Mirror::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Mirrors { list: vec![one], is_list: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Mirrors, A::Error> {
        Ok(Mirrors { list: Vec::deserialize(SeqAccessDeserializer::new(list))?, is_list: true })
    }
}

impl Mirrors {
    /// Returns the key of an entry of mirror `i` in the file.
    fn key(&self, i: usize, name: &str) -> String {
        if self.is_list { format!("mirror[{i}].{name}") } else { format!("mirror.{name}") }
    }

    /// Returns the model of the mirror in the pupil, and all mirrors unless that is the only one.
    pub(super) fn models(&self, place: &Place) -> Result<(MirrorModel, Vec<ConjugateMirror>), Error> {
        let list = match self.list.as_slice() {
            [] => return Ok((MirrorModel::default(), Vec::new())),
            [one] if one.is_usual() => {
                let map = one.actuators.as_ref().map(|map| map.cells(&self.key(0, "actuators"), place));
                let model = MirrorModel::Gaussian { coupling: one.coupling(), actuators: map.transpose()? };
                return Ok((model, Vec::new()));
            }
            list => list,
        };
        if let Some(i) = list.iter().position(|mirror| mirror.actuators.is_some()) {
            return Err(place.error(
                &self.key(i, "actuators"),
                "only the one mirror of a system, in the pupil and with the pitch of the sub-apertures, can have a map",
                "remove it: actuators cover the footprints of all stars and targets",
            ));
        }
        let lowest = list.iter().min_by(|a, b| a.altitude.total_cmp(&b.altitude));
        let coupling = lowest.map_or(COUPLING, Mirror::coupling);
        let conjugate =
            |m: &Mirror| ConjugateMirror { altitude: m.altitude, pitch: m.pitch, coupling: m.coupling() };
        let mirrors = list.iter().map(conjugate).collect();
        Ok((MirrorModel::Gaussian { coupling, actuators: None }, mirrors))
    }
}

/// The table `[field]`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    directions: Option<Vec<[f64; 2]>>,
    half_width: Option<f64>,
    points: Option<usize>,
    #[serde(default = "regularisation")]
    regularisation: f64,
}

fn regularisation() -> f64 {
    1e-3
}

impl Field {
    /// Returns the directions in arcsec, `unit` being that of the file in arcsec.
    fn directions(&self, unit: f64, place: &Place) -> Result<Vec<[f64; 2]>, Error> {
        match (&self.directions, self.half_width, self.points) {
            (Some(list), None, None) if !list.is_empty() => {
                let list: Vec<[f64; 2]> = list.iter().map(|d| d.map(|x| x * unit)).collect();
                for angle in list.as_flattened() {
                    place.range("field.directions", *angle, -MAX_ANGLE, MAX_ANGLE, "arcsec")?;
                }
                Ok(list)
            }
            (None, Some(half_width), Some(points)) => {
                place.range(
                    "field.points",
                    points as f64,
                    1.0,
                    MAX_POINTS as f64,
                    "directions along a side",
                )?;
                place.range("field.half_width", half_width * unit, 0.0, MAX_ANGLE, "arcsec")?;
                Ok(square(half_width * unit, points))
            }
            (Some(_), None, None) | (None, None, None) => Err(place.error(
                "field",
                "it has no direction",
                "give directions = [[x, y], ...], or half_width and points of a square grid",
            )),
            (None, ..) => Err(place.error(
                "field",
                "half_width without points, or points without half_width",
                "give both for a square grid, or directions = [[x, y], ...]",
            )),
            (Some(_), ..) => Err(place.error(
                "field.directions",
                "both directions and a square grid are given",
                "keep directions, or half_width and points",
            )),
        }
    }
}

/// Returns a square grid of directions, row by row, `points` along a side from `-half_width` to
/// `half_width`.
fn square(half_width: f64, points: usize) -> Vec<[f64; 2]> {
    let step = 2.0 * half_width / (points - 1).max(1) as f64;
    let at = |k: usize| if points == 1 { 0.0 } else { k as f64 * step - half_width };
    (0..points * points).map(|k| [at(k % points), at(k / points)]).collect()
}

/// Returns the targets in arcsec, and the correction of the field if the mirrors are shared. `unit`
/// is that of the file in arcsec.
pub(super) fn field(
    field: Option<&Field>,
    mirrors: Vec<ConjugateMirror>,
    targets: Option<Vec<[f64; 2]>>,
    unit: f64,
    place: &Place,
) -> Result<(Vec<[f64; 2]>, Option<FieldCorrection>), Error> {
    let several = mirrors.len() > 1;
    let correction = |regularisation| Some(FieldCorrection { mirrors: mirrors.clone(), regularisation });
    match (field, targets) {
        (Some(_), Some(_)) => Err(place.error(
            "imaging.targets",
            "the directions of [field] are the targets",
            "remove imaging.targets, or [field]",
        )),
        (Some(field), None) => Ok((field.directions(unit, place)?, correction(field.regularisation))),
        (None, None) if several => Err(place.error(
            "field",
            "several mirrors, and no field that they correct",
            "give [field] with directions, or with half_width and points",
        )),
        (None, targets) => {
            let shared = if mirrors.is_empty() { None } else { correction(regularisation()) };
            let targets = targets.unwrap_or_else(|| vec![[0.0; 2]]);
            Ok((targets.iter().map(|t| [t[0] * unit, t[1] * unit]).collect(), shared))
        }
    }
}
