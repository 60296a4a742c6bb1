//! Points on a lattice in cylindrical coordinates, as in bases of GRETINA.

use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_3;

use crate::Error;
use crate::body::{Body, Vec3};
use crate::channels::Segment;
use crate::crystal::Crystal;
use crate::files::gretina::LatticePosition;

/// Points of a crystal at odd multiples of half a step along r and z, and at equal angles. The
/// number of angles in 60 degrees is such that neighbours at half the crystal's radius are about a
/// step apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Cylindrical {
    points: Vec<Vec3>,
    /// Indices along r, around the axis, and along z.
    cells: Vec<[i64; 3]>,
    /// Number of angles around the axis.
    around: i64,
}

impl Cylindrical {
    /// Creates the points of a crystal, about a step (mm) apart, in the order of z, angle and r.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a step that is not positive, or makes more than ten million points.
    pub fn new(crystal: &Crystal, step: f64) -> Result<Cylindrical, Error> {
        let in_sector = (FRAC_PI_3 * crystal.radius / 2.0 / step).round().max(1.0);
        let (along_r, along_z) = ((crystal.radius / step).ceil(), (crystal.length / step).ceil());
        let count = along_r * along_z * 6.0 * in_sector;
        // NaN fails the comparison.
        if !(step > 0.0 && (1.0..=1e7).contains(&count)) {
            let problem =
                format!("{step} mm gives {count} points: take a distance that gives 1 to 10 million");
            return Err(Error::Parameter { name: "basis step", problem });
        }
        let around = 6 * in_sector as i64;
        let (mut points, mut cells) = (Vec::new(), Vec::new());
        for k in 0..along_z as i64 {
            for j in 0..around {
                for i in 0..along_r as i64 {
                    let [r, phi, z] = [i, j, k].map(|at| at as f64 + 0.5);
                    let (sin, cos) = (phi / in_sector * FRAC_PI_3).sin_cos();
                    let point = [r * step * cos, r * step * sin, z * step];
                    if crystal.contains(point) {
                        points.push(point);
                        cells.push([i, j, k]);
                    }
                }
            }
        }
        Ok(Cylindrical { points, cells, around })
    }

    /// Returns the positions of the points (mm).
    pub fn points(&self) -> &[Vec3] {
        &self.points
    }

    /// Returns the positions on the lattices of the segments that collect the charges: along r from
    /// the axis, around it from the first point of the sector, and along z from the first point of
    /// the ring.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one segment for each point; [`Error::Parameter`] for a
    /// lattice of more steps than a byte counts.
    pub fn places(&self, segments: &[Segment]) -> Result<Vec<LatticePosition>, Error> {
        if segments.len() != self.points.len() {
            let problem = format!("{} for {} points", segments.len(), self.points.len());
            return Err(Error::shape("segments of the points", problem));
        }
        // Angles relative to any point of the sector, within half a turn backwards and forwards.
        let mut origins = BTreeMap::new();
        let mut unwrapped = Vec::with_capacity(segments.len());
        for (&[i, j, k], segment) in self.cells.iter().zip(segments) {
            let origin = *origins.entry(segment.sector()).or_insert(j);
            let half = self.around / 2;
            unwrapped.push([i, (j - origin + half).rem_euclid(self.around) - half, k]);
        }
        let (mut first_around, mut first_along) = (BTreeMap::new(), BTreeMap::new());
        for (&[_, j, k], segment) in unwrapped.iter().zip(segments) {
            let least = |map: &mut BTreeMap<usize, i64>, key, value: i64| {
                map.entry(key).and_modify(|least| *least = value.min(*least)).or_insert(value);
            };
            least(&mut first_around, segment.sector(), j);
            least(&mut first_along, segment.ring(), k);
        }
        let place = |([i, j, k], segment): (&[i64; 3], &Segment)| {
            let place = [*i, j - first_around[&segment.sector()], k - first_along[&segment.ring()]];
            let bytes = place.map(u8::try_from);
            let problem =
                || format!("a position of {place:?} steps: 255 are possible; use a larger distance");
            match bytes {
                [Ok(i), Ok(j), Ok(k)] => Ok([i, j, k]),
                _ => Err(Error::Parameter { name: "basis step", problem: problem() }),
            }
        };
        unwrapped.iter().zip(segments).map(place).collect()
    }
}
