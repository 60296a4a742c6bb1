//! Sub-apertures, the order of the measurements, and projections on turbulent layers.
//!
//! Measurements are ordered by sensor (laser stars first), in each sensor all x slopes, then all y
//! slopes. Sub-apertures are ordered row by row, y outer and ascending, x inner and ascending. The
//! truth sensor is not included.

use crate::system::{GuideStar, System, Valid};
use crate::{ARCSEC_PER_RADIAN, Error};
use zellige_kernels::RealNumber;

/// The valid sub-apertures of one sensor.
#[derive(Debug, Clone, PartialEq)]
pub struct SubApertures {
    /// Number of sub-apertures across the pupil.
    pub nssp: usize,
    /// Side of a sub-aperture in m.
    pub pitch: f64,
    /// Column (x) and row (y) of each valid one on the `nssp x nssp` grid, in measurement order.
    pub cells: Vec<[u16; 2]>,
    half: f64,
}

impl SubApertures {
    /// Returns the valid sub-apertures of a system's sensor with `nssp` across.
    ///
    /// # Errors
    /// No sub-aperture is valid, or the system's map has another size.
    pub fn of(system: &System, nssp: usize) -> Result<Self, Error> {
        if nssp == 1 || system.valid == Valid::Centre {
            return SubApertures::new(system.diameter, system.obstruction, nssp);
        }
        let half = system.diameter / 2.0;
        let mut out = SubApertures { nssp, pitch: system.diameter / nssp as f64, cells: Vec::new(), half };
        for iy in 0..nssp {
            for ix in 0..nssp {
                let valid = match &system.valid {
                    Valid::Map(map) => map.across() == nssp && map.holds(ix, iy),
                    Valid::Illuminated(least) => {
                        out.illuminated_fraction(ix, iy, system.obstruction) >= *least
                    }
                    Valid::Centre => false,
                };
                if valid {
                    out.cells.push([ix as u16, iy as u16]);
                }
            }
        }
        if out.cells.is_empty() {
            let problem = format!(
                "no sub-aperture of {nssp} x {nssp} is valid by the map or the illumination threshold"
            );
            return Err(Error::numeric("sub-apertures", problem));
        }
        Ok(out)
    }

    /// Returns the fraction of the area of a cell that lies in the annular pupil.
    fn illuminated_fraction(&self, ix: usize, iy: usize, obstruction: f64) -> f64 {
        let corners = [ix, ix + 1, iy, iy + 1].map(|k| self.coordinate(k as f64));
        let inside = |radius: f64| if radius > 0.0 { disc_in_rectangle(corners, radius) } else { 0.0 };
        // A cell inside the pupil counts as fully illuminated, despite rounding errors in its area.
        let fraction = (inside(self.half) - inside(obstruction * self.half)) / (self.pitch * self.pitch);
        if fraction > 1.0 - 1e-12 { 1.0 } else { fraction }
    }

    /// Returns the sub-apertures with their centre in the pupil: `(obstruction D / 2)^2 <= x^2 +
    /// y^2 < (D / 2)^2`.
    ///
    /// Two special cases follow MOAO: a single sub-aperture (tip-tilt sensor) is always valid, and
    /// `nssp = 7` with an obstruction in (0.285, 0.29) is treated as 0.285.
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

    /// Returns the number of valid sub-apertures.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether there is none (never, once built).
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the coordinate in m of grid position `k`: 0 is the pupil's edge, 0.5 the centre of
    /// the first cell.
    pub fn coordinate(&self, k: f64) -> f64 {
        -self.half + self.pitch * k
    }

    /// Returns the centre of sub-aperture `i`, `[x, y]` in m.
    ///
    /// # Panics
    /// `i` is not a sub-aperture.
    pub fn centre(&self, i: usize) -> [f64; 2] {
        self.cells[i].map(|k| self.coordinate(f64::from(k) + 0.5))
    }
}

/// Returns the area common to a disc around the origin and the rectangle `[x0, x1, y0, y1]`.
fn disc_in_rectangle([x0, x1, y0, y1]: [f64; 4], radius: f64) -> f64 {
    corner(x1, y1, radius) - corner(x0, y1, radius) - corner(x1, y0, radius) + corner(x0, y0, radius)
}

/// Returns the area common to the disc and the quadrant `u <= x`, `v <= y`, up to terms of one
/// coordinate alone, which cancel in a rectangle. It is that of the disc and the rectangle between
/// the origin and `(x, y)`, with the sign of `x y`.
fn corner(x: f64, y: f64, radius: f64) -> f64 {
    let (a, b) = (x.abs().min(radius), y.abs().min(radius));
    let area = if a * a + b * b <= radius * radius {
        a * b
    } else {
        // The area is that below the circle from 0 to a, cut at b; the circle crosses b at c.
        let c = (radius * radius - b * b).sqrt();
        let under = |t: f64| {
            0.5 * (t * (radius * radius - t * t).max(0.0).sqrt() + radius * radius * (t / radius).asin())
        };
        b * c + under(a) - under(c)
    };
    area * x.signum() * y.signum()
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
    /// Computes the geometry of a system.
    ///
    /// # Errors
    /// A sensor has no valid sub-aperture.
    pub fn new(system: &System) -> Result<Self, Error> {
        let make = |nssp| SubApertures::of(system, nssp);
        let sensors: Vec<SubApertures> =
            system.stars.iter().map(|s| make(s.nssp)).collect::<Result<_, _>>()?;
        let blocks = blocks_of(&sensors);
        Ok(Geometry { sensors, truth: make(system.nssp)?, blocks })
    }

    /// Returns the number of measurements `n`.
    pub fn measurements(&self) -> usize {
        self.sensors.iter().map(|s| 2 * s.len()).sum()
    }

    /// Returns the number of truth-sensor slopes `m`.
    pub fn truth_slopes(&self) -> usize {
        2 * self.truth.len()
    }

    /// Returns the sub-apertures of each measuring sensor.
    pub fn sensors(&self) -> &[SubApertures] {
        &self.sensors
    }

    /// Returns the sub-apertures of the truth sensor.
    pub fn truth(&self) -> &SubApertures {
        &self.truth
    }

    /// Returns the blocks of the measurements, in order: natural boundaries for tiles.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns the two blocks of the truth sensor (`wfs` is 0 for both).
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

/// Projection of a sensor's pupil on one turbulent layer: `u = scale x' + offset`, with `x'` the
/// pupil position rotated, magnified and shifted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Projection<R: RealNumber = f64> {
    /// Cone factor `1 - h / altitude`: 1 for a natural star, 0 or less above a laser star.
    pub scale: R,
    /// Offset of the centre in m: direction times altitude, plus the shifted pupil.
    pub offset: [R; 2],
    /// Rotation matrix times magnification, row by row.
    pub turn: [[R; 2]; 2],
}

impl<R: RealNumber> Projection<R> {
    /// Returns the projection of a star's sensor on a layer at `altitude` \[m\].
    ///
    /// Rotation and magnification act on points. For a star without `slopes_turn` they apply to
    /// centres only: the size of its projected sub-apertures is `pitch * scale`, and their edges
    /// stay parallel to the axes.
    pub fn new(star: &GuideStar, altitude: f64) -> Self {
        let altitude = R::from(altitude);
        let scale = R::from(1.0) - altitude * R::from(star.inverse_altitude);
        let angle = R::from(star.rotation.to_radians());
        let (sin, cos) = if star.rotation == 0.0 {
            (R::from(0.0), R::from(1.0))
        } else {
            (angle.apply(f64::sin), angle.apply(f64::cos))
        };
        let m = R::from(star.magnification);
        let offset = std::array::from_fn(|k| {
            R::from(star.pupil_shift[k]) * scale
                + R::from(star.direction[k]) / R::from(ARCSEC_PER_RADIAN) * altitude
        });
        Projection { scale, offset, turn: [[cos * m, -sin * m], [sin * m, cos * m]] }
    }

    /// Returns the projection on what a moving layer carries here: it lies `way` \[m\] upwind.
    pub(crate) fn upwind(self, way: [f64; 2]) -> Self {
        let offset = std::array::from_fn(|k| self.offset[k] - R::from(way[k]));
        Projection { offset, ..self }
    }

    /// Returns whether the light of the star crosses the layer.
    pub fn visible(&self) -> bool {
        self.scale.value() > 0.0
    }

    /// Returns the position in the layer \[m\] that corresponds to the pupil point `[x, y]` \[m\].
    pub fn point(&self, p: [f64; 2]) -> [R; 2] {
        let p = p.map(R::from);
        std::array::from_fn(|k| {
            (self.turn[k][0] * p[0] + self.turn[k][1] * p[1]) * self.scale + self.offset[k]
        })
    }
}

/// Returns the truth sensor as a star: natural, perfectly registered, in the direction of a target
/// [arcsec\].
pub fn truth_star(nssp: usize, target: [f64; 2]) -> GuideStar {
    GuideStar {
        kind: crate::system::StarKind::Ngs,
        direction: target,
        inverse_altitude: 0.0,
        nssp,
        pupil_shift: [0.0; 2],
        rotation: 0.0,
        magnification: 1.0,
        slopes_turn: false,
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
    fn areas_of_a_disc_in_cells() {
        let whole = disc_in_rectangle([-2.0, 2.0, -3.0, 3.0], 1.5);
        assert!((whole - std::f64::consts::PI * 2.25).abs() < 1e-14);
        assert!(
            (disc_in_rectangle([0.0, 1.0, 0.0, 2.0], 2.0) - (3f64.sqrt() / 2.0 + std::f64::consts::PI / 3.0))
                .abs()
                < 1e-14
        );
        // The reference counts the points of a fine grid.
        for cell in [[0.3, 0.8, -0.9, -0.4], [-0.2, 0.6, 0.5, 1.3], [0.9, 1.4, 0.9, 1.4]] {
            let n = 2000;
            let at = |a: f64, b: f64, k: usize| a + (b - a) * (k as f64 + 0.5) / n as f64;
            let count = (0..n * n)
                .filter(|k| at(cell[0], cell[1], k % n).hypot(at(cell[2], cell[3], k / n)) < 1.1)
                .count();
            let area = (cell[1] - cell[0]) * (cell[3] - cell[2]);
            let wanted = area * count as f64 / (n * n) as f64;
            assert!((disc_in_rectangle(cell, 1.1) - wanted).abs() < 1e-4, "{cell:?}");
        }
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
        let p: Projection = Projection::new(&star, 1e4);
        assert_eq!(p.point([1.0, 2.0]), [2.0, 2.0]);
        star.rotation = 90.0;
        star.magnification = 2.0;
        star.inverse_altitude = 1.0 / 2e4;
        let q = Projection::<f64>::new(&star, 1e4).point([1.0, 0.0]);
        assert!((q[0] - 1.0).abs() < 1e-12 && (q[1] - 1.0).abs() < 1e-12, "{q:?}");
        assert!(!Projection::<f64>::new(&star, 3e4).visible());
    }
}
