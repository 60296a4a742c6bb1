//! Reconstruction of pair production: a point with the cluster's energy minus two electron masses,
//! and two photons of 511 keV that begin there.

use super::Settings;
use super::germanium::{Attenuation, ELECTRON, norm, path};
use super::order::{self, Order};
use super::point::{Known, Point};

/// Returns the best interpretation of the points as a pair and its two photons with all their
/// energy, if there is one. The order is: the pair, the photon that contains the lowest index of
/// the other points, the other photon.
///
/// The product has one factor for the pair (its range) and those of each photon, `2 m - 3` factors
/// for `m` points.
pub(super) fn best_pair(points: &[Point], settings: &Settings) -> Option<Order> {
    let energy: f64 = points.iter().map(|point| point.energy).sum();
    let made = energy - 2.0 * ELECTRON;
    if points.len() < 3 || points.len() > order::MOST_POINTS || made <= 0.0 {
        return None;
    }
    let attenuation = Attenuation::at(energy);
    let mut best: Option<Order> = None;
    for (at, point) in points.iter().enumerate() {
        if (point.energy - made).abs() > window(points.len(), settings) {
            continue;
        }
        let way = path(settings.source, point.place, settings.inner_radius);
        let range = order::range(attenuation.pair, &attenuation, way);
        if let Some(photons) = photons(points, at, settings) {
            let product = range * photons.product;
            if best.as_ref().is_none_or(|best| product > best.product) {
                best = Some(Order { points: photons.points, product });
            }
        }
    }
    best
}

/// Returns the tolerance of the energy of `points` points (keV): three standard deviations.
fn window(points: usize, settings: &Settings) -> f64 {
    3.0 * settings.energy_error * (points as f64).sqrt()
}

/// Returns the best division of all points but `pair` between two photons.
fn photons(points: &[Point], pair: usize, settings: &Settings) -> Option<Order> {
    let others: Vec<usize> = (0..points.len()).filter(|&at| at != pair).collect();
    let origin = Known::of(&points[pair], settings);
    let mut best: Option<Order> = None;
    // The first of the others is always in the first part; the second part is not empty.
    for chosen in 0..(1usize << (others.len() - 1)) - 1 {
        let first = |k: usize| k == 0 || chosen & (1 << (k - 1)) != 0;
        let [one, two] = [true, false].map(|wanted| {
            let part = others.iter().enumerate().filter(|&(k, _)| first(k) == wanted);
            part.map(|(_, &at)| at).collect::<Vec<usize>>()
        });
        let (Some(a), Some(b)) =
            (photon(points, &one, origin, settings), photon(points, &two, origin, settings))
        else {
            continue;
        };
        let product = a.product * b.product;
        if best.as_ref().is_none_or(|best| product > best.product) {
            best = Some(Order { points: [vec![pair], a.points, b.points].concat(), product });
        }
    }
    best
}

/// Returns the best order of some points as those of a photon of 511 keV.
fn photon(points: &[Point], chosen: &[usize], origin: Known, settings: &Settings) -> Option<Order> {
    let part: Vec<Point> = chosen.iter().map(|&at| points[at]).collect();
    let energy: f64 = part.iter().map(|point| point.energy).sum();
    if (energy - ELECTRON).abs() > window(part.len(), settings) {
        return None;
    }
    let found = order::from(origin, &part, settings)?;
    Some(Order { points: found.points.into_iter().map(|k| chosen[k]).collect(), ..found })
}

/// Returns the figure of merit of a single point that absorbed all the energy.
pub(super) fn single(point: &Point, settings: &Settings) -> f64 {
    let attenuation = Attenuation::at(point.energy);
    order::range(attenuation.photo, &attenuation, path(settings.source, point.place, settings.inner_radius))
}

/// Returns whether no other point lies within [`Settings::isolation`] of one.
pub(super) fn is_alone(points: &[Point], at: usize, settings: &Settings) -> bool {
    let far =
        |other: &Point| norm(super::germanium::minus(other.place, points[at].place)) >= settings.isolation;
    points.iter().enumerate().all(|(k, other)| k == at || far(other))
}
