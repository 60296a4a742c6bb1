//! Positions of the crystals of an array, and the transformation from crystal frame to laboratory.
//!
//! The frame of a crystal has its front face at `z = 0` and the germanium above it
//! ([`crate::crystal`]). The laboratory frame has the target at its origin and the beam along `z`,
//! unless a file defines it otherwise. All lengths are in mm.

use std::collections::BTreeMap;

use crate::Error;
use crate::body::Vec3;

/// A rotation followed by a translation: `x -> R x + t`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Rows of `R`.
    pub rotation: [Vec3; 3],
    /// Translation `t` (mm).
    pub shift: Vec3,
}

impl Placement {
    /// Creates a placement from three angles (degrees), `R = Rz(phi) Ry(theta) Rz(psi)`, as in the
    /// files `aeuler` and `aclust` of AGATA's simulation. The rotation by `psi` is applied first;
    /// the axes stay fixed.
    pub fn euler([psi, theta, phi]: [f64; 3], shift: Vec3) -> Placement {
        let [(s1, c1), (s2, c2), (s3, c3)] = [psi, theta, phi].map(|angle| angle.to_radians().sin_cos());
        let rotation = [
            [c3 * c2 * c1 - s3 * s1, -c3 * c2 * s1 - s3 * c1, c3 * s2],
            [s3 * c2 * c1 + c3 * s1, -s3 * c2 * s1 + c3 * c1, s3 * s2],
            [-s2 * c1, s2 * s1, c2],
        ];
        Placement { rotation, shift }
    }

    /// Transforms a point from the crystal frame to the laboratory frame.
    pub fn apply(&self, point: Vec3) -> Vec3 {
        std::array::from_fn(|row| self.shift[row] + dot(self.rotation[row], point))
    }

    /// Transforms a point from the laboratory frame to the crystal frame: `R^T (x - t)`.
    pub fn back(&self, point: Vec3) -> Vec3 {
        let from: Vec3 = std::array::from_fn(|axis| point[axis] - self.shift[axis]);
        std::array::from_fn(|column| (0..3).map(|row| self.rotation[row][column] * from[row]).sum())
    }

    /// Composes two placements: `inner` is applied first, then this one.
    fn after(&self, inner: &Placement) -> Placement {
        let column = |c: usize| std::array::from_fn(|row| inner.rotation[row][c]);
        let rotation = std::array::from_fn(|row| std::array::from_fn(|c| dot(self.rotation[row], column(c))));
        Placement { rotation, shift: self.apply(inner.shift) }
    }
}

pub(crate) fn dot(a: Vec3, b: Vec3) -> f64 {
    (0..3).map(|axis| a[axis] * b[axis]).sum()
}

/// Placements of numbered crystals, or of clusters of crystals.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub(crate) places: BTreeMap<usize, Placement>,
}

impl Array {
    /// Creates an ideal array that needs no file. The front faces have their centres on a sphere
    /// around the target, and the crystals point at it. They are spread as a Fibonacci lattice: the
    /// `i`-th of `n` is at `cos(theta) = 1 - (2 i + 1) / n`, `phi = i` golden angles.
    ///
    /// # Errors
    /// [`Error::Parameter`] for no crystals, more than a million, or a radius (mm) that is not
    /// above 0.
    pub fn sphere(crystals: usize, radius: f64) -> Result<Array, Error> {
        if crystals == 0 || crystals > MOST {
            let problem = format!("{crystals}: give a number from 1 to {MOST}");
            return Err(Error::Parameter { name: "crystals", problem });
        }
        if !(radius > 0.0 && radius <= 1e6) {
            let problem = format!("{radius}: give a radius from 0 to 1e6 mm");
            return Err(Error::Parameter { name: "sphere", problem });
        }
        let golden = 180.0 * (3.0 - 5f64.sqrt());
        let place = |i: usize| {
            let z = 1.0 - (2 * i + 1) as f64 / crystals as f64;
            let angles = [0.0, z.acos().to_degrees(), (golden * i as f64).rem_euclid(360.0)];
            let turned = Placement::euler(angles, [0.0; 3]);
            (i, Placement { shift: turned.apply([0.0, 0.0, radius]), ..turned })
        };
        Ok(Array { places: (0..crystals).map(place).collect() })
    }

    /// Returns the crystals of the clusters that this array places. `cluster` holds the placements
    /// of crystals within a cluster. Crystal `k` of `m` in cluster `c` gets the number `m c + k`.
    pub fn of_clusters(&self, cluster: &Array) -> Array {
        let size = cluster.places.len();
        let crystals = self.places.iter().flat_map(|(number, outer)| {
            let inner = cluster.places.values().enumerate();
            inner.map(move |(k, inner)| (size * number + k, outer.after(inner)))
        });
        Array { places: crystals.collect() }
    }

    /// Transforms a point of a crystal (mm) to the laboratory (mm); `None` if the array has no such
    /// crystal.
    pub fn place(&self, crystal: usize, point: [f32; 3]) -> Option<Vec3> {
        self.places.get(&crystal).map(|placement| placement.apply(point.map(f64::from)))
    }

    /// Returns the crystals with their numbers, in ascending order.
    pub fn crystals(&self) -> impl Iterator<Item = (usize, &Placement)> {
        self.places.iter().map(|(number, placement)| (*number, placement))
    }

    /// Returns the distance of the nearest front face from the target (mm), measured at its centre.
    pub fn inner_radius(&self) -> f64 {
        self.places.values().map(|place| dot(place.shift, place.shift).sqrt()).fold(f64::INFINITY, f64::min)
    }
}

/// Limit of the number of crystals in an array, and of the numbers in files.
pub(crate) const MOST: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn euler_angles_turn_one_after_the_other() {
        // By hand: psi takes x to y, theta leaves y, phi takes y to -x.
        let turned = Placement::euler([90.0, 90.0, 90.0], [1.0, 2.0, 3.0]);
        let near = |a: Vec3, b: Vec3| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(turned.apply([1.0, 0.0, 0.0]), [0.0, 2.0, 3.0]));
        // z goes to x, and x to y.
        assert!(near(turned.apply([0.0, 0.0, 1.0]), [1.0, 3.0, 3.0]));
        let point = [0.3, -4.0, 5.0];
        assert!(near(turned.back(turned.apply(point)), point));
    }

    #[test]
    fn ideal_crystals_point_away_from_the_target() {
        let array = Array::sphere(180, 235.0).expect("an array");
        let mut sum = [0.0; 3];
        for (_, place) in array.crystals() {
            let (front, deep) = (place.apply([0.0; 3]), place.apply([0.0, 0.0, 47.0]));
            let length = |v: Vec3| dot(v, v).sqrt();
            assert!((length(front) - 235.0).abs() < 1e-9);
            assert!((0..3).all(|axis| (deep[axis] - 1.2 * front[axis]).abs() < 1e-9));
            (0..3).for_each(|axis| sum[axis] += front[axis] / (180.0 * 235.0));
        }
        assert!(sum.iter().all(|mean| mean.abs() < 0.01), "as many on each side: {sum:?}");
        assert!((array.inner_radius() - 235.0).abs() < 1e-9);
        assert!(Array::sphere(0, 1.0).is_err() && Array::sphere(5, f64::NAN).is_err());
    }
}
