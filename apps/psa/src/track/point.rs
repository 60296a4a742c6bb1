//! Points at which gamma rays gave energy.

use super::Settings;
use super::germanium::{minus, norm};
use crate::body::Vec3;

/// Where energy was given.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// In the laboratory (mm).
    pub place: Vec3,
    /// keV
    pub energy: f64,
}

/// Points that lie nearer to each other than `packing` (mm) become one, with the sum of their
/// energies at their barycentre; what then has less than `threshold` (keV) is left out.
///
/// In their order, each point takes in those after it one by one, the first that is near enough to
/// where its barycentre is then.
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

/// A place and how well it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub place: Vec3,
    /// Variance along each axis (mm2).
    pub variance: f64,
}

impl Known {
    /// Of a point: its error shrinks as the square root of its energy.
    pub fn of(point: &Point, settings: &Settings) -> Known {
        // Standard deviations in a full width at half maximum.
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
