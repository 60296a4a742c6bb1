//! Points of interaction of gamma rays.

use super::Settings;
use super::germanium::{minus, norm};
use crate::body::Vec3;

/// A point with deposited energy.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// Position in the laboratory (mm).
    pub place: Vec3,
    /// Deposited energy (keV).
    pub energy: f64,
}

/// Merges points that lie nearer to each other than `packing` (mm) to one at their barycentre with
/// the sum of their energies. Then discards points with less than `threshold` (keV).
///
/// In order, each point absorbs later points one by one. Each time it takes the first one that is
/// near enough to its current barycentre.
pub fn pack(points: &[Point], packing: f64, threshold: f64) -> Vec<Point> {
    let mut points = points.to_vec();
    let mut at = 0;
    while at < points.len() {
        let one = points[at];
        let near = points[at + 1..].iter().position(|other| norm(minus(other.place, one.place)) < packing);
        match near {
            Some(ahead) => points[at] = merged(one, points.remove(at + 1 + ahead)),
            None => at += 1,
        }
    }
    points.retain(|point| point.energy >= threshold);
    points
}

fn merged(a: Point, b: Point) -> Point {
    let energy = a.energy + b.energy;
    let share = if energy > 0.0 { b.energy / energy } else { 0.5 };
    Point { place: std::array::from_fn(|x| a.place[x] + share * (b.place[x] - a.place[x])), energy }
}

/// A position with its variance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub place: Vec3,
    /// Variance along each axis (mm2).
    pub variance: f64,
}

impl Known {
    /// Returns the position of a point; its standard deviation scales with the inverse square root
    /// of the energy.
    pub fn of(point: &Point, settings: &Settings) -> Known {
        // Full width at half maximum in standard deviations.
        const WIDTH: f64 = 2.354_82;
        let variance = (settings.resolution / WIDTH).powi(2) * 100.0 / point.energy.max(1.0);
        Known { place: point.place, variance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_points_become_their_barycentre() {
        let point = |x: f64, energy: f64| Point { place: [x, 0.0, 0.0], energy };
        let points = [point(0.0, 100.0), point(20.0, 5.0), point(4.0, 300.0), point(40.0, 50.0)];
        let packed = pack(&points, 5.0, 10.0);
        assert_eq!(packed, [point(3.0, 400.0), point(40.0, 50.0)]);
        assert_eq!(pack(&points, 0.0, 0.0), points);
    }
}
