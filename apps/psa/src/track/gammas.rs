//! The gamma rays of an event: the best clusters, each point in one of them.

use serde::{Deserialize, Serialize};

use super::Settings;
use super::cluster::clusters;
use super::order::best_order;
use super::pair::{best_pair, is_alone, single};
use super::point::{Point, pack};
use crate::body::Vec3;

/// What a gamma ray did first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It was scattered.
    Compton,
    /// It became an electron and a positron.
    Pair,
    /// It gave all its energy at one point.
    Photo,
}

/// A gamma ray that was put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gamma {
    /// The sum of its points (keV).
    pub energy: f64,
    /// The same as it was sent out by the moving source (keV).
    pub corrected: f64,
    /// How well its points fit: the geometric mean of ranges and vertices.
    pub figure: f64,
    /// What it did first.
    pub kind: Kind,
    /// Where (mm).
    pub first: Vec3,
    /// Its points, in the order in which it came to them: places in [`Tracked::points`].
    pub points: Vec<usize>,
}

/// An event, put together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tracked {
    /// Its points after packing.
    pub points: Vec<Point>,
    /// Its gamma rays: pairs, then others, the best first of each, and single points after those.
    pub gammas: Vec<Gamma>,
}

/// Puts the points of an event together: clusters of all angles, the best order of each, the best
/// clusters first; a point belongs to one gamma ray at most. What is left is a gamma ray by itself
/// where it is alone and may have given all its energy there, and else is of no use.
pub fn track(points: &[Point], settings: &Settings) -> Tracked {
    let points = pack(points, settings.packing, settings.threshold);
    let mut candidates: Vec<Gamma> = clusters(&points, settings.source, settings.most_points)
        .into_iter()
        .filter_map(|cluster| evaluate(&points, &cluster, settings))
        .filter(|gamma| gamma.figure >= settings.accept)
        .collect();
    // A pair has met three energies at once, which chance seldom does: pairs come first. The sort
    // is stable: of clusters that are equally good, those of smaller angles come first.
    let is_pair = |gamma: &Gamma| gamma.kind == Kind::Pair;
    candidates.sort_by(|a, b| is_pair(b).cmp(&is_pair(a)).then(b.figure.total_cmp(&a.figure)));
    let mut taken = vec![false; points.len()];
    let mut gammas = Vec::new();
    for gamma in candidates {
        if gamma.points.iter().all(|&at| !taken[at]) {
            gamma.points.iter().for_each(|&at| taken[at] = true);
            gammas.push(gamma);
        }
    }
    for at in (0..points.len()).filter(|&at| !taken[at]) {
        let figure = single(&points[at], settings);
        if figure >= settings.accept_single && is_alone(&points, at, settings) {
            gammas.push(gamma(&points, vec![at], figure, Kind::Photo, settings));
        }
    }
    Tracked { points, gammas }
}

/// A cluster as a pair, where it may be one, and else as scatterings.
fn evaluate(points: &[Point], cluster: &[usize], settings: &Settings) -> Option<Gamma> {
    let part: Vec<Point> = cluster.iter().map(|&at| points[at]).collect();
    let mean = |product: f64, factors: usize| product.powf(1.0 / factors as f64);
    let count = cluster.len();
    let seen = |order: super::order::Order, factors: usize, kind: Kind| {
        let named = order.points.iter().map(|&k| cluster[k]).collect();
        gamma(points, named, mean(order.product, factors), kind, settings)
    };
    let compton = best_order(&part, settings).map(|order| seen(order, 2 * count - 1, Kind::Compton));
    let pair = best_pair(&part, settings).map(|order| seen(order, 2 * count - 3, Kind::Pair));
    pair.filter(|pair| pair.figure >= settings.accept).or(compton)
}

fn gamma(points: &[Point], order: Vec<usize>, figure: f64, kind: Kind, settings: &Settings) -> Gamma {
    let energy = order.iter().map(|&at| points[at].energy).sum();
    let first = points[order[0]].place;
    let corrected = settings.motion.corrected(energy, settings.source, first);
    Gamma { energy, corrected, figure, kind, first, points: order }
}
