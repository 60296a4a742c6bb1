//! Gamma rays of an event: the best clusters, with each point in at most one of them.

use serde::{Deserialize, Serialize};

use super::Settings;
use super::cluster::clusters;
use super::order::best_order;
use super::pair::{best_pair, is_alone, single};
use super::point::{Point, pack};
use crate::body::Vec3;

/// First interaction of a gamma ray.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Compton scattering.
    Compton,
    /// Pair production.
    Pair,
    /// Photoelectric absorption of all its energy at one point.
    Photo,
}

/// A reconstructed gamma ray.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gamma {
    /// Energy: the sum over its points (keV).
    pub energy: f64,
    /// Energy in the frame of the moving source, corrected for the Doppler shift (keV).
    pub corrected: f64,
    /// Figure of merit of its points: the geometric mean of ranges and vertices.
    pub figure: f64,
    /// First interaction.
    pub kind: Kind,
    /// Position of the first interaction (mm).
    pub first: Vec3,
    /// Indices of its points in [`Tracked::points`], in the order of the interactions.
    pub points: Vec<usize>,
}

/// A reconstructed event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tracked {
    /// Points of the event after packing.
    pub points: Vec<Point>,
    /// Gamma rays: pairs, then others, each in descending order of the figure of merit, then single
    /// points.
    pub gammas: Vec<Gamma>,
}

/// Reconstructs the gamma rays of an event. It finds the clusters of all angles and the best order
/// of each, and accepts the best clusters first; a point belongs to at most one gamma ray. A
/// remaining point becomes a gamma ray by itself if it is isolated and may have absorbed all the
/// energy; otherwise it is discarded.
pub fn track(points: &[Point], settings: &Settings) -> Tracked {
    let points = pack(points, settings.packing, settings.threshold);
    let mut candidates: Vec<Gamma> = clusters(&points, settings.source, settings.most_points)
        .into_iter()
        .filter_map(|cluster| evaluate(&points, &cluster, settings))
        .filter(|gamma| gamma.figure >= settings.accept)
        .collect();
    // A pair matches three energies at once, which is rare by chance: pairs come first. The sort is
    // stable: among equally good clusters, those of smaller angles come first.
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

/// Evaluates a cluster as a pair if possible, otherwise as Compton scatterings.
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
