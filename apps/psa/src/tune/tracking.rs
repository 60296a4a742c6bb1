//! Quality of gamma-ray tracking with the position errors of a search.
//!
//! Events with one hit have no gamma rays to track, so simulated ones are. Each of their points is
//! displaced, in a random direction, by the distance between the answers of a trial and of the
//! reference for a hit of about the same energy.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Error;
use crate::events::Energies;
use crate::pipeline::compare::Outcome;
use crate::track::montecarlo::{EmissionSpec, Simulated, Target, isotropic};
use crate::track::survey::in_peak;
use crate::track::{Motion, Point, Settings, track};

/// Number of simulated events.
const EVENTS: usize = 2000;
/// Number of gamma rays of each.
const GAMMAS: usize = 10;
/// Half width of the peak (keV).
const WINDOW: f64 = 5.0;
/// Thickness of the germanium (mm).
const THICKNESS: f64 = 90.0;
/// Seed of the simulation and of the displacements.
const SEED: u64 = 1;

/// Number of parts of the events. Each has hits of its own, so that their differences show the
/// error of both samples.
const PARTS: usize = 10;
/// Least number of hits to draw a displacement from.
const NEAR: usize = 8;

/// Simulated events, and their tracking without displacements.
#[derive(Debug)]
pub(super) struct Tracking {
    settings: Settings,
    events: Vec<Simulated>,
    plain: Vec<GammaCounts>,
}

/// Numbers of gamma rays.
#[derive(Clone, Copy, Debug, Default)]
struct GammaCounts {
    emitted: usize,
    tracked: usize,
    peak: usize,
}

/// A share of a trial, with the standard error of its difference from that of the reference.
pub(super) type Share = (f64, f64);

impl Tracking {
    /// Simulates gamma rays of 1 MeV in a shell, and tracks them.
    pub fn new() -> Result<Tracking, Error> {
        let settings = Settings::default();
        let spec = EmissionSpec {
            seed: SEED,
            multiplicity: GAMMAS,
            energies: Energies::Line(1000.0),
            source: settings.source,
            motion: Motion::default(),
            target: Target::shell(settings.inner_radius, settings.inner_radius + THICKNESS)?,
            smearing: 5.0,
            energy_width: 2.0,
        };
        spec.check()?;
        let events: Vec<Simulated> = (0..EVENTS).map(|number| spec.event(number as u64)).collect();
        let plain = events.iter().map(|event| GammaCounts::of(event, &event.points, &settings)).collect();
        Ok(Tracking { settings, events, plain })
    }

    /// Returns the photopeak efficiency and the peak-to-total ratio with the deviations of these
    /// hits, of which there are some.
    pub fn measure(&self, hits: &[Outcome]) -> [Share; 2] {
        let parts = PARTS.min(hits.len());
        let counts = |part: usize| {
            let of_part = hits.iter().skip(part).step_by(parts);
            let mut hits: Vec<(f64, f64)> = of_part.map(|hit| (hit.energy, hit.from_reference)).collect();
            hits.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (mut moved, mut plain) = (GammaCounts::default(), GammaCounts::default());
            for at in (part..EVENTS).step_by(parts) {
                plain.add(self.plain[at]);
                moved.add(match displaced(&self.events[at].points, &hits, at as u64) {
                    Some(points) => GammaCounts::of(&self.events[at], &points, &self.settings),
                    None => self.plain[at],
                });
            }
            (moved, plain)
        };
        let counts: Vec<(GammaCounts, GammaCounts)> = (0..parts).map(counts).collect();
        [GammaCounts::efficiency, GammaCounts::peak_to_total].map(|share| {
            let mut all = GammaCounts::default();
            counts.iter().for_each(|&(moved, _)| all.add(moved));
            let apart: Vec<f64> = counts.iter().map(|(moved, plain)| share(moved) - share(plain)).collect();
            let (n, mean) = (parts as f64, apart.iter().sum::<f64>() / parts as f64);
            let squares: f64 = apart.iter().map(|apart| (apart - mean).powi(2)).sum();
            (share(&all), (squares / (n * (n - 1.0).max(1.0))).sqrt())
        })
    }
}

impl GammaCounts {
    fn of(event: &Simulated, points: &[Point], settings: &Settings) -> GammaCounts {
        let tracked = track(points, settings);
        let peak = in_peak(event, &tracked, WINDOW);
        GammaCounts { emitted: event.gammas.len(), tracked: tracked.gammas.len(), peak }
    }

    fn add(&mut self, other: GammaCounts) {
        self.emitted += other.emitted;
        self.tracked += other.tracked;
        self.peak += other.peak;
    }

    fn efficiency(&self) -> f64 {
        self.peak as f64 / self.emitted.max(1) as f64
    }

    fn peak_to_total(&self) -> f64 {
        self.peak as f64 / self.tracked.max(1) as f64
    }
}

/// Displaces points by distances of hits, which are energies with distances in the order of the
/// energies; none if no point moves.
fn displaced(points: &[Point], hits: &[(f64, f64)], number: u64) -> Option<Vec<Point>> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    random.set_stream(number);
    let mut any = false;
    let displace = |point: &Point| {
        let (_, distance) = hits[random.random_range(near(hits, point.energy))];
        let direction = isotropic(&mut random);
        any |= distance > 0.0;
        Point { place: std::array::from_fn(|x| point.place[x] + distance * direction[x]), ..*point }
    };
    let points = points.iter().map(displace).collect();
    any.then_some(points)
}

/// Hits whose energies are next to an energy.
fn near(hits: &[(f64, f64)], energy: f64) -> Range<usize> {
    let count = (hits.len() / 10).max(NEAR).min(hits.len());
    let place = hits.partition_point(|&(other, _)| other < energy);
    let start = place.saturating_sub(count / 2).min(hits.len() - count);
    start..start + count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(distance: impl Fn(usize) -> f64) -> Vec<Outcome> {
        let hit = |at: usize| Outcome {
            energy: 20.0 + 3.0 * at as f64,
            is_same: distance(at) == 0.0,
            from_reference: distance(at),
            from_truth: None,
        };
        (0..300).map(hit).collect()
    }

    #[test]
    fn deviations_cost_efficiency() {
        let tracking = Tracking::new().expect("events");
        let [(plain, error), (ratio, _)] = tracking.measure(&hits(|_| 0.0));
        assert!((0.2..0.8).contains(&plain) && ratio > plain && error == 0.0, "{plain} {ratio} {error}");
        let [(few, error), _] = tracking.measure(&hits(|at| if at % 17 == 0 { 10.0 } else { 0.0 }));
        assert!(few < plain && error > 0.0 && error < plain - few, "{few} +- {error} beside {plain}");
        let [(far, _), (of_far, _)] = tracking.measure(&hits(|_| 20.0));
        assert!(far < 0.6 * few && of_far < ratio, "{far} beside {few}");
        // The same deviations give the same figures; a single hit is enough.
        assert_eq!(tracking.measure(&hits(|_| 20.0))[0].0, far);
        assert!(tracking.measure(&hits(|_| 20.0)[..1])[0].0 < few);
    }

    #[test]
    fn displacements_are_those_of_hits_with_such_energies() {
        let hits: Vec<(f64, f64)> = (0..100).map(|at| (f64::from(at), f64::from(at) / 10.0)).collect();
        for (energy, range) in [(-5.0, 0..10), (3.0, 0..10), (50.0, 45..55), (97.0, 90..100), (1e9, 90..100)]
        {
            assert_eq!(near(&hits, energy), range, "{energy}");
        }
        assert_eq!(near(&hits[..3], 1.0), 0..3);
        let points = [Point { place: [1.0, 2.0, 3.0], energy: 50.0 }; 40];
        for point in displaced(&points, &hits, 7).expect("displaced") {
            let squares = point.place.iter().zip([1.0, 2.0, 3.0]).map(|(a, b)| (a - b).powi(2));
            assert!((4.5 - 1e-9..5.5).contains(&squares.sum::<f64>().sqrt()));
        }
        assert_eq!(displaced(&points, &[(1.0, 0.0)], 7), None);
    }
}
