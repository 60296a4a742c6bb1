//! Order of the interactions of a gamma ray: Compton's formula and ranges along every order of a
//! cluster's points.
//!
//! The figure of merit of an order of `m` points is the product of `m` ranges and `m - 1` Compton
//! vertices (Lopez-Martens et al., NIM A 533 (2004) 454; Schmid et al., NIM A 430 (1999) 69). The
//! energy that arrives at a point is the sum of its own and of those after it.
//!
//! * *Range*: `mu_p / mu exp(-mu d)`, the probability that a gamma ray of that energy travels the
//!   distance `d` in germanium and then interacts as assumed. It scatters (`p` Compton) or, at the
//!   last point, is absorbed (`p` photo).
//! * *Vertex*: `exp(-k (E'_s - E'_a)^2 / (s_s^2 + s_a^2))`, with the sum of energies after the
//!   point `E'_s`, the energy that follows from the angle `E'_a`, and `k` equal to 2 at the first
//!   vertex and 1 at others. The errors are of first order in the energies and the three positions,
//!   and of second order in the angle. The second order matters for forward and backward
//!   scattering.

use super::Settings;
use super::germanium::{Attenuation, ELECTRON, dot, minus, norm, path, scattered};
use super::point::{Known, Point};

/// Best order of a cluster's points.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Indices of the points, in the order of the interactions.
    pub points: Vec<usize>,
    /// Product of all ranges and vertices.
    pub product: f64,
}

/// Limit of the points of a cluster.
pub const MOST_POINTS: usize = 12;

/// Returns the best order of `points`, at which a gamma ray from the source deposited all its
/// energy. Of equally good orders it returns the first in lexicographic order. `None` if no order
/// has all its vertices above [`Settings::cut`], or for no points or more than [`MOST_POINTS`].
pub fn best_order(points: &[Point], settings: &Settings) -> Option<Order> {
    from(Known { place: settings.source, variance: 0.0 }, points, settings)
}

/// Returns the best order for a gamma ray that began at `origin`.
pub(super) fn from(origin: Known, points: &[Point], settings: &Settings) -> Option<Order> {
    if points.is_empty() || points.len() > MOST_POINTS {
        return None;
    }
    let mut search = OrderSearch {
        points,
        places: points.iter().map(|point| Known::of(point, settings)).collect(),
        settings,
        attenuations: vec![None; 1 << points.len()],
        order: Vec::with_capacity(points.len()),
        best: Order { points: Vec::new(), product: 0.0 },
    };
    search.begin(origin, points.iter().map(|point| point.energy).sum());
    (search.best.product > 0.0).then_some(search.best)
}

struct OrderSearch<'a> {
    points: &'a [Point],
    places: Vec<Known>,
    settings: &'a Settings,
    /// Attenuations by the set of points whose energies arrive.
    attenuations: Vec<Option<Attenuation>>,
    order: Vec<usize>,
    best: Order,
}

impl OrderSearch<'_> {
    /// Tries every point as the first; `energy` arrives there from `origin`.
    fn begin(&mut self, origin: Known, energy: f64) {
        let all = (1 << self.points.len()) - 1;
        for first in 0..self.points.len() {
            let rest = all & !(1 << first);
            let product = self.range(origin, first, all, energy, rest == 0);
            self.visit(origin, first, rest, energy, product);
        }
    }

    /// Adds a point to the order; `rest` are the points after it, `product` is the figure of merit
    /// up to it.
    fn visit(&mut self, before: Known, at: usize, rest: usize, energy: f64, product: f64) {
        // Factors are at most 1: an order that is not better now never will be.
        if product <= self.best.product {
            return;
        }
        self.order.push(at);
        match rest {
            0 => self.best = Order { points: self.order.clone(), product },
            _ => self.scatter(before, at, rest, energy, product),
        }
        self.order.pop();
    }

    /// Continues from a point that scatters to each point that may follow.
    fn scatter(&mut self, before: Known, at: usize, rest: usize, energy: f64, product: f64) {
        let (first, after) = (self.order.len() == 1, energy - self.points[at].energy);
        for next in 0..self.points.len() {
            if rest & (1 << next) == 0 {
                continue;
            }
            let left = rest & !(1 << next);
            let places = [before, self.places[at], self.places[next]];
            let vertex = vertex(places, [energy, after], rest.count_ones(), first, self.settings);
            let range = self.range(self.places[at], next, rest, after, left == 0);
            if vertex >= self.settings.cut {
                self.visit(self.places[at], next, left, after, product * vertex * range);
            }
        }
    }

    fn range(&mut self, before: Known, at: usize, arriving: usize, energy: f64, last: bool) -> f64 {
        let attenuation = *self.attenuations[arriving].get_or_insert_with(|| Attenuation::at(energy));
        let way = path(before.place, self.places[at].place, self.settings.inner_radius);
        let does = if last { attenuation.photo } else { attenuation.compton };
        range(does, &attenuation, way)
    }
}

/// Returns the probability of a distance (mm) without interaction and of the interaction at its
/// end.
pub(super) fn range(does: f64, attenuation: &Attenuation, way: f64) -> f64 {
    does / attenuation.total() * (-attenuation.total() * way).exp()
}

/// Returns the likelihood of the energies and the angle of a Compton scattering. The arguments are
/// the positions before, at and after it, the energies (keV) before and after it, and the number of
/// points in the sum of the latter.
fn vertex(
    [before, at, after]: [Known; 3],
    [energy, left]: [f64; 2],
    later: u32,
    first: bool,
    settings: &Settings,
) -> f64 {
    let (came, goes) = (minus(at.place, before.place), minus(after.place, at.place));
    let (a, b) = (norm(came), norm(goes));
    if !(a > 0.0 && b > 0.0) {
        return 0.0;
    }
    let cosine = (dot(came, goes) / (a * b)).clamp(-1.0, 1.0);
    // Variance of the angle, by first derivatives with respect to the three positions. Its limit of
    // 1 stands for an unknown position.
    let bend = 1.0 / (a * a) + 1.0 / (b * b) + 2.0 * cosine / (a * b);
    let angle = (before.variance / (a * a) + after.variance / (b * b) + at.variance * bend).clamp(0.0, 1.0);
    let of_cosine = angle * (1.0 - cosine * cosine) + angle * angle / 2.0;
    let by_angle = scattered(energy, cosine);
    let by_place = (by_angle * by_angle / ELECTRON).powi(2) * of_cosine;
    // The energy error of each later point affects the energy after the scattering directly, and
    // the energy before it by Compton's formula.
    let passed = (by_angle / energy).powi(2);
    let by_energy = settings.energy_error.powi(2)
        * (f64::from(later) * (1.0 - passed) * (1.0 - passed) + passed * passed);
    let off = left - by_angle;
    let weight = if first { 2.0 } else { 1.0 };
    (-weight * off * off / (by_place + by_energy)).exp()
}
