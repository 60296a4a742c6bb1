//! Where the sub-apertures are, in which order they measure, and where they look through the turbulence.
//!
//! Order of the measurements: sensor by sensor (laser stars first), in each sensor all x slopes, then all y slopes; sub-apertures
//! row by row, y outer and ascending, x inner and ascending. The truth sensor is not among them.

use crate::params::{GuideStar, System};
use crate::{ARCSEC_PER_RADIAN, Error};

/// The valid sub-apertures of one sensor.
#[derive(Debug, Clone, PartialEq)]
pub struct SubApertures {
    /// Sub-apertures across the pupil.
    pub nssp: usize,
    /// Side of one in m.
    pub pitch: f64,
    /// Column (x) and row (y) of each valid one on the `nssp x nssp` grid, in measurement order.
    pub cells: Vec<[u16; 2]>,
    half: f64,
}

impl SubApertures {
    /// Those whose centre lies in the pupil: `(obstruction D / 2)^2 <= x^2 + y^2 < (D / 2)^2`.
    ///
    /// Two special cases are MOAO's: a single sub-aperture (tip-tilt sensor) is always valid, and `nssp = 7` with an obstruction
    /// in (0.285, 0.29) is treated as 0.285.
    ///
    /// # Errors
    /// No centre lies in the pupil.
    pub fn new(diameter: f64, obstruction: f64, nssp: usize) -> Result<Self, Error> {
        let obstruction =
            if nssp == 7 && obstruction > 0.285 && obstruction < 0.29 { 0.285 } else { obstruction };
        let half = diameter / 2.0;
        let pitch = diameter / nssp as f64;
        let mut out = SubApertures { nssp, pitch, cells: Vec::new(), half };
        if nssp == 1 {
            out.cells.push([0, 0]);
            return Ok(out);
        }
        let (inner, outer) = ((obstruction * half).powi(2), half * half);
        for iy in 0..nssp {
            for ix in 0..nssp {
                let (x, y) = (out.coordinate(ix as f64 + 0.5), out.coordinate(iy as f64 + 0.5));
                let r2 = x * x + y * y;
                if r2 >= inner && r2 < outer {
                    out.cells.push([ix as u16, iy as u16]);
                }
            }
        }
        if out.cells.is_empty() {
            return Err(Error::numeric(
                "sub-apertures",
                format!(
                    "none of {nssp} x {nssp} lies in the pupil with obstruction {obstruction}; use more of them or less obstruction"
                ),
            ));
        }
        Ok(out)
    }

    /// Number of valid sub-apertures.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is none (never, once built).
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Coordinate in m of grid position `k`: 0 is the pupil's edge, 0.5 the centre of the first cell.
    pub fn coordinate(&self, k: f64) -> f64 {
        -self.half + self.pitch * k
    }

    /// Centre of sub-aperture `i`, `[x, y]` in m.
    ///
    /// # Panics
    /// `i` is not a sub-aperture.
    pub fn centre(&self, i: usize) -> [f64; 2] {
        self.cells[i].map(|k| self.coordinate(f64::from(k) + 0.5))
    }
}

/// Direction of a slope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub enum Axis {
    /// Along x.
    X,
    /// Along y.
    Y,
}

/// The slopes of one sensor along one axis: a contiguous range of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Block {
    /// Sensor, in measurement order.
    pub wfs: usize,
    /// Axis.
    pub axis: Axis,
    /// First measurement.
    pub start: usize,
    /// Number of measurements.
    pub len: usize,
}

/// Sub-apertures of all sensors and the order of the measurements.
#[derive(Debug, Clone)]
pub struct Geometry {
    sensors: Vec<SubApertures>,
    truth: SubApertures,
    blocks: Vec<Block>,
}

impl Geometry {
    /// Lays out a system.
    ///
    /// # Errors
    /// A sensor has no valid sub-aperture.
    pub fn new(system: &System) -> Result<Self, Error> {
        let make = |nssp| SubApertures::new(system.diameter, system.obstruction, nssp);
        let sensors: Vec<SubApertures> =
            system.stars.iter().map(|s| make(s.nssp)).collect::<Result<_, _>>()?;
        let blocks = blocks_of(&sensors);
        Ok(Geometry { sensors, truth: make(system.nssp)?, blocks })
    }

    /// Number of measurements `n`.
    pub fn measurements(&self) -> usize {
        self.sensors.iter().map(|s| 2 * s.len()).sum()
    }

    /// Number of truth-sensor slopes `m`.
    pub fn truth_slopes(&self) -> usize {
        2 * self.truth.len()
    }

    /// Sub-apertures of each measuring sensor.
    pub fn sensors(&self) -> &[SubApertures] {
        &self.sensors
    }

    /// Sub-apertures of the truth sensor.
    pub fn truth(&self) -> &SubApertures {
        &self.truth
    }

    /// The blocks of the measurements, in order: natural edges for tiles.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The two blocks of the truth sensor (`wfs` is 0 for both).
    pub fn truth_blocks(&self) -> [Block; 2] {
        let len = self.truth.len();
        [Block { wfs: 0, axis: Axis::X, start: 0, len }, Block { wfs: 0, axis: Axis::Y, start: len, len }]
    }
}

fn blocks_of(sensors: &[SubApertures]) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(2 * sensors.len());
    let mut start = 0;
    for (wfs, s) in sensors.iter().enumerate() {
        for axis in [Axis::X, Axis::Y] {
            blocks.push(Block { wfs, axis, start, len: s.len() });
            start += s.len();
        }
    }
    blocks
}

/// How a sensor sees one turbulent layer: `u = scale x' + offset`, with `x'` the pupil position rotated, magnified and shifted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection {
    /// Cone factor `1 - h / altitude`: 1 for a natural star, 0 or less above a laser star.
    pub scale: f64,
    /// Offset of the centre in m: direction times altitude, plus the shifted pupil.
    pub offset: [f64; 2],
    /// Magnified rotation, row by row.
    pub turn: [[f64; 2]; 2],
}

impl Projection {
    /// Projection of a star's sensor on a layer at `altitude` \[m\].
    ///
    /// Rotation and magnification act on the positions only; the size of a projected sub-aperture is `pitch * scale`.
    pub fn new(star: &GuideStar, altitude: f64) -> Self {
        let scale = 1.0 - altitude * star.inverse_altitude;
        let (sin, cos) = if star.rotation == 0.0 { (0.0, 1.0) } else { star.rotation.to_radians().sin_cos() };
        let m = star.magnification;
        let offset = std::array::from_fn(|k| {
            star.pupil_shift[k] * scale + star.direction[k] / ARCSEC_PER_RADIAN * altitude
        });
        Projection { scale, offset, turn: [[cos * m, -sin * m], [sin * m, cos * m]] }
    }

    /// Whether the light of the star crosses the layer at all.
    pub fn visible(&self) -> bool {
        self.scale > 0.0
    }

    /// Where the pupil point `[x, y]` \[m\] looks through the layer \[m\].
    pub fn point(&self, p: [f64; 2]) -> [f64; 2] {
        std::array::from_fn(|k| {
            (self.turn[k][0] * p[0] + self.turn[k][1] * p[1]) * self.scale + self.offset[k]
        })
    }
}

/// The truth sensor as a star: natural, perfectly registered, in the direction of a target \[arcsec\].
pub fn truth_star(nssp: usize, target: [f64; 2]) -> GuideStar {
    GuideStar {
        kind: crate::params::StarKind::Ngs,
        direction: target,
        inverse_altitude: 0.0,
        nssp,
        pupil_shift: [0.0; 2],
        rotation: 0.0,
        magnification: 1.0,
        magnitude: None,
        launcher: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_published_systems() {
        // (diameter, obstruction, nssp) -> valid sub-apertures
        for (d, eps, nssp, want) in [
            (8.0, 0.0, 6, 32),
            (8.0, 0.14, 8, 52),
            (39.0, 0.2, 10, 76),
            (39.0, 0.2, 41, 1264),
            (39.0, 0.2, 67, 3384),
            (39.0, 0.2, 86, 5576),
            (8.0, 0.0, 1, 1),
        ] {
            assert_eq!(SubApertures::new(d, eps, nssp).unwrap().len(), want, "{d} m, {eps}, {nssp}");
        }
        assert!(SubApertures::new(8.0, 0.9, 2).is_err());
    }

    #[test]
    fn order_is_row_by_row() {
        let s = SubApertures::new(8.0, 0.0, 6).unwrap();
        let first = s.centre(0);
        assert!((first[0] + 2.0).abs() < 1e-12 && (first[1] + 10.0 / 3.0).abs() < 1e-12);
        assert!(s.cells.windows(2).all(|w| (w[0][1], w[0][0]) < (w[1][1], w[1][0])));
    }

    #[test]
    fn projection_turns_scales_and_shifts() {
        let mut star = truth_star(8, [206265.0 / 1e4, 0.0]);
        let p = Projection::new(&star, 1e4);
        assert_eq!(p.point([1.0, 2.0]), [2.0, 2.0]);
        star.rotation = 90.0;
        star.magnification = 2.0;
        star.inverse_altitude = 1.0 / 2e4;
        let q = Projection::new(&star, 1e4).point([1.0, 0.0]);
        assert!((q[0] - 1.0).abs() < 1e-12 && (q[1] - 1.0).abs() < 1e-12, "{q:?}");
        assert!(!Projection::new(&star, 3e4).visible());
    }
}
