//! Clusters of points that lie close together as seen from the source.
//!
//! Two points are linked if the angle between them is less than `alpha`; a cluster is a connected
//! component of these links (Lopez-Martens et al., NIM A 533 (2004) 454). The search does not use a
//! fixed set of values of `alpha`, but all of them. Clusters change only when `alpha` passes the
//! angle between two points. Therefore at most `n - 1` different clusters have two or more points:
//! the nodes of a tree.

use super::germanium::{dot, minus, norm};
use super::point::Point;
use crate::body::Vec3;

/// Returns the largest angle (radians) at which points are linked in an event of `n` points:
/// `acos(1 - 2 / ((n + 2) / 3)^0.9)`. It falls with `n`, so that points of different gamma rays are
/// seldom linked by chance.
pub fn most_angle(n: usize) -> f64 {
    (1.0 - 2.0 / ((n as f64 + 2.0) / 3.0).powf(0.9)).clamp(-1.0, 1.0).acos()
}

/// Returns all clusters of 2 to `most` points for all angles up to [`most_angle`], in order of the
/// angle. If an event has no more than `most` points, the cluster of all its points is included.
/// The points of each cluster are in ascending order.
pub fn clusters(points: &[Point], source: Vec3, most: usize) -> Vec<Vec<usize>> {
    let directions: Vec<Vec3> = points.iter().map(|point| direction(source, point.place)).collect();
    let least_cosine = most_angle(points.len()).cos();
    let mut links = Vec::new();
    for (i, one) in directions.iter().enumerate() {
        for (j, other) in directions.iter().enumerate().skip(i + 1) {
            let cosine = dot(*one, *other);
            if cosine > least_cosine {
                links.push((cosine, i, j));
            }
        }
    }
    links.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut owner: Vec<usize> = (0..points.len()).collect();
    let mut members: Vec<Vec<usize>> = (0..points.len()).map(|i| vec![i]).collect();
    let mut found = Vec::new();
    for (_, i, j) in links {
        let (into, from) = (owner[i].min(owner[j]), owner[i].max(owner[j]));
        if into == from {
            continue;
        }
        let moved = std::mem::take(&mut members[from]);
        moved.iter().for_each(|&point| owner[point] = into);
        members[into].extend(moved);
        if members[into].len() <= most {
            let mut cluster = members[into].clone();
            cluster.sort_unstable();
            found.push(cluster);
        }
    }
    // An event of few points may be one gamma ray at any angles: it may have crossed the hollow in
    // the middle.
    let all = points.len();
    if (2..=most).contains(&all) && found.last().is_none_or(|cluster| cluster.len() < all) {
        found.push((0..all).collect());
    }
    found
}

/// Returns the direction of a point from the source, 0 for a point at the source. Such a point has
/// no links, or links to all points if the largest angle exceeds 90 degrees.
fn direction(source: Vec3, place: Vec3) -> Vec3 {
    let way = minus(place, source);
    let length = norm(way);
    if length > 0.0 { way.map(|x| x / length) } else { [0.0; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_angle_shrinks_with_the_number_of_points() {
        assert!((most_angle(1) - std::f64::consts::PI).abs() < 1e-12);
        // (7 / 3)^0.9 = 2.143794..., acos(1 - 2 / 2.143794) = 86.15 degrees, by hand.
        assert!((most_angle(5).to_degrees() - 86.15).abs() < 0.02, "{}", most_angle(5).to_degrees());
        assert!(most_angle(100) < most_angle(50));
    }

    /// Points at 0, 10, 13 and 40 degrees, and their clusters by hand.
    #[test]
    fn clusters_of_all_angles_are_found() {
        let at = |degrees: f64| Point {
            place: [degrees.to_radians().cos() * 250.0, degrees.to_radians().sin() * 250.0, 0.0],
            energy: 100.0,
        };
        let points = [at(40.0), at(10.0), at(0.0), at(13.0)];
        let all = clusters(&points, [0.0; 3], 9);
        assert_eq!(all, [vec![1, 3], vec![1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(clusters(&points, [0.0; 3], 3), all[..2]);
        assert!(clusters(&points[..1], [0.0; 3], 9).is_empty());
        // Six points may be linked over 77 degrees; the second three are opposite to the first.
        let far = [at(0.0), at(3.0), at(5.0), at(180.0), at(184.0), at(185.0)];
        assert_eq!(clusters(&far, [0.0; 3], 9).last(), Some(&vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(clusters(&far, [0.0; 3], 5).last().map(Vec::len), Some(3));
    }
}
