//! Forward tracking: assigns the points of an event to gamma rays, and finds the order of the
//! interactions of each.
//!
//! References: Lopez-Martens, Hauschild, Korichi, Roccaz & Thibaud, NIM A 533 (2004) 454; Schmid et
//! al., NIM A 430 (1999) 69. Points that lie close together as seen from the source form clusters
//! ([`cluster`]). The best order of each cluster has a figure of merit ([`order`]). The best
//! clusters become gamma rays, and clusters that share a point with them are rejected ([`gammas`]).
//! Events are independent: blocks of them are tasks, and the results are identical, to the bit, for
//! any number of workers.

mod blocks;
pub mod cluster;
pub mod gammas;
pub mod germanium;
pub mod hits;
pub mod montecarlo;
mod motion;
pub mod order;
mod pair;
mod point;
mod spectrum;
pub mod survey;

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::Runtime;

use crate::Error;
use crate::body::Vec3;
use crate::observe::Observer;
use blocks::in_blocks;
pub use gammas::{Gamma, Kind, Tracked, track};
pub use motion::Motion;
pub use point::{Point, pack};
pub use spectrum::Spectrum;

/// Parameters of the reconstruction of gamma rays.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Position of the source (mm).
    pub source: Vec3,
    /// Motion of the source.
    pub motion: Motion,
    /// Inner radius of the germanium around the origin (mm).
    pub inner_radius: f64,
    /// Distance (mm) below which points are merged.
    pub packing: f64,
    /// Energy (keV) below which points are discarded, after packing.
    pub threshold: f64,
    /// Position resolution: full width at half maximum along an axis at 100 keV (mm). It scales
    /// with the inverse square root of the energy.
    pub resolution: f64,
    /// Standard deviation of the energy of a point (keV).
    pub energy_error: f64,
    /// Limit of the points of a cluster, up to [`order::MOST_POINTS`].
    pub most_points: usize,
    /// Lowest accepted likelihood of a vertex; a vertex below it rejects the order.
    pub cut: f64,
    /// Lowest accepted figure of merit of a cluster.
    pub accept: f64,
    /// Lowest accepted figure of merit of a single point.
    pub accept_single: f64,
    /// Minimum distance of a single point from all other points (mm).
    pub isolation: f64,
}

impl Default for Settings {
    /// A source at rest in the origin, germanium from 235 mm on, points packed within 5 mm and
    /// above 10 keV, 8 mm and 1 keV, up to 7 points, vertices above 0.005, clusters above 0.05,
    /// single points above 0.02 and 40 mm from others.
    fn default() -> Self {
        Settings {
            source: [0.0; 3],
            motion: Motion::default(),
            inner_radius: 235.0,
            packing: 5.0,
            threshold: 10.0,
            resolution: 8.0,
            energy_error: 1.0,
            most_points: 7,
            cut: 0.005,
            accept: 0.05,
            accept_single: 0.02,
            isolation: 40.0,
        }
    }
}

fn range(name: &'static str, value: f64, low: f64, high: f64, unit: &str) -> Result<(), Error> {
    // NaN fails the comparison.
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::Parameter { name, problem: format!("{value:?}: give a number from {low} to {high}{unit}") })
}

impl Settings {
    /// Refuses invalid settings.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid setting.
    pub fn check(&self) -> Result<(), Error> {
        self.motion.check()?;
        for at in self.source {
            range("source", at, -1e4, 1e4, " mm")?;
        }
        range("inner radius", self.inner_radius, 0.0, 1e4, " mm")?;
        range("packing", self.packing, 0.0, 1e3, " mm")?;
        range("threshold", self.threshold, 0.0, 1e6, " keV")?;
        range("resolution", self.resolution, 0.0, 1e3, " mm")?;
        range("energy error", self.energy_error, 1e-6, 1e3, " keV")?;
        range("points of a cluster", self.most_points as f64, 1.0, order::MOST_POINTS as f64, "")?;
        range("cut", self.cut, 0.0, 1.0, "")?;
        range("acceptance of clusters", self.accept, 0.0, 1.0, "")?;
        range("acceptance of single points", self.accept_single, 0.0, 1.0, "")?;
        range("isolation", self.isolation, 0.0, 1e6, " mm")
    }
}

/// Refuses invalid steps of a spectrum.
///
/// # Errors
/// [`Error::Parameter`] for steps out of range, or more than a million of them.
fn check_steps(step: f64, most: f64) -> Result<(), Error> {
    range("step of the spectra", step, 1e-3, 1e4, " keV")?;
    range("end of the spectra", most, step, 1e6 * step, " keV")
}

/// Limit of the points of an event.
pub const MOST_POINTS: usize = 1024;

/// Number of events of one task.
const BLOCK: usize = 64;

/// Reconstructs the gamma rays of many events; each task processes a block of them.
///
/// # Errors
/// [`Error::Parameter`] for invalid settings, [`Error::Shape`] for an event of more than
/// [`MOST_POINTS`] points; errors of tasks.
pub fn track_all(
    rt: &Runtime,
    events: &Arc<Vec<Vec<Point>>>,
    settings: &Settings,
    observer: &dyn Observer,
) -> Result<Vec<Tracked>, Error> {
    settings.check()?;
    if let Some(at) = events.iter().position(|points| points.len() > MOST_POINTS) {
        let problem = format!("number {at} has {} points: {MOST_POINTS} are possible", events[at].len());
        return Err(Error::shape("events", problem));
    }
    let (events, settings) = (Arc::clone(events), settings.clone());
    let (count, mut all) = (events.len(), Vec::with_capacity(events.len()));
    let block = move |range: Range<usize>| -> Vec<Tracked> {
        events[range].iter().map(|points| track(points, &settings)).collect()
    };
    in_blocks(rt, "tracking", [count, BLOCK], observer, block, |block| all.extend(block))?;
    Ok(all)
}
