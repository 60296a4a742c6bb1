//! Monte Carlo simulation of gamma rays in germanium: events with known truth, for tests of the
//! tracking.
//!
//! The emission is isotropic in the frame of the source. Free paths follow
//! [`Attenuation`](super::germanium::Attenuation), angles of Compton scattering the formula of
//! Klein and Nishina for free electrons at rest. A pair deposits its energy at its origin and emits
//! two photons of 511 keV in opposite directions. Electrons deposit all their energy where they
//! receive it. Every event has random numbers of its own, from the seed and its number.

mod compton;
mod target;
mod transport;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::germanium::{MOST, dot};
use super::{Motion, Point, range};
use crate::Error;
use crate::body::Vec3;
use crate::events::Energies;
pub use compton::scatter;
pub use target::Target;
use transport::transport;

/// Specification of simulated events.
#[derive(Clone, Debug)]
pub struct EmissionSpec {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of gamma rays of an event.
    pub multiplicity: usize,
    /// Energies that the source emits, in its own frame.
    pub energies: Energies,
    /// Position of the source (mm).
    pub source: Vec3,
    /// Motion of the source.
    pub motion: Motion,
    /// Geometry of the germanium.
    pub target: Target,
    /// Full width at half maximum of the position error along each axis, for points of 100 keV
    /// (mm). It scales with the inverse square root of the energy.
    pub smearing: f64,
    /// Full width at half maximum of the error of the energy of a point (keV).
    pub energy_width: f64,
}

/// Limit of the gamma rays of an event.
pub const MOST_GAMMAS: usize = 200;

/// An interaction of a gamma ray.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interaction {
    /// True position (mm).
    pub place: Vec3,
    /// Deposited energy (keV).
    pub energy: f64,
    /// Index of the gamma ray in the event. Interactions of a gamma ray are in temporal order, and
    /// the photons of a pair follow one after the other.
    pub gamma: usize,
}

/// An emitted gamma ray.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emitted {
    /// Energy in the frame of the source (keV).
    pub energy: f64,
    /// Energy in the laboratory (keV).
    pub seen: f64,
    /// Direction in the laboratory, of length 1.
    pub direction: Vec3,
    /// Whether all of its energy stayed in the germanium.
    pub absorbed: bool,
}

/// A simulated event: the truth and the measured points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// Emitted gamma rays.
    pub gammas: Vec<Emitted>,
    /// Their interactions.
    pub interactions: Vec<Interaction>,
    /// Measured points: positions and energies with their errors, in the order of the interactions.
    pub points: Vec<Point>,
}

impl EmissionSpec {
    /// Refuses invalid specifications.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid parameter.
    pub fn check(&self) -> Result<(), Error> {
        self.energies.check()?;
        self.motion.check()?;
        let (Energies::LogUniform { to: most, .. }
        | Energies::Uniform { to: most, .. }
        | Energies::Line(most)) = self.energies;
        range("energy", most, 0.0, MOST, " keV")?;
        range("multiplicity", self.multiplicity as f64, 1.0, MOST_GAMMAS as f64, "")?;
        for at in self.source {
            range("source", at, -1e3, 1e3, " mm")?;
        }
        range("smearing", self.smearing, 0.0, 1e3, " mm")?;
        range("energy width", self.energy_width, 0.0, 1e3, " keV")
    }

    /// Simulates the event with a number.
    pub fn event(&self, number: u64) -> Simulated {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(number);
        let mut event = Simulated::default();
        for gamma in 0..self.multiplicity {
            let mut emitted = self.emit(&mut random);
            emitted.absorbed = transport(self, gamma, &emitted, &mut event.interactions, &mut random);
            event.gammas.push(emitted);
        }
        event.points = event.interactions.iter().map(|at| self.seen(at, &mut random)).collect();
        event
    }

    fn emit(&self, random: &mut impl Rng) -> Emitted {
        let energy = self.energies.draw(random);
        let (own, beta) = (isotropic(random), self.motion.beta);
        let axis = self.motion.unit();
        // Aberration: the emission direction `own` is tilted forward in the laboratory.
        let along = dot(own, axis);
        let gamma = 1.0 / (1.0 - beta * beta).sqrt();
        let direction = std::array::from_fn(|x| {
            (own[x] + ((gamma - 1.0) * along + gamma * beta) * axis[x]) / (gamma * (1.0 + beta * along))
        });
        Emitted { energy, seen: energy * gamma * (1.0 + beta * along), direction, absorbed: false }
    }

    fn seen(&self, at: &Interaction, random: &mut impl Rng) -> Point {
        // Full width at half maximum in standard deviations.
        const WIDTH: f64 = 2.354_82;
        let blur = self.smearing / WIDTH * (100.0 / at.energy.max(1.0)).sqrt();
        let mut normal = || random.sample::<f64, _>(StandardNormal);
        let place = at.place.map(|x| x + blur * normal());
        Point { place, energy: (at.energy + self.energy_width / WIDTH * normal()).max(0.0) }
    }
}

/// Draws an isotropic direction.
pub(crate) fn isotropic(random: &mut impl Rng) -> Vec3 {
    let z = random.random_range(-1.0..1.0f64);
    let (sine, cosine) = random.random_range(0.0..std::f64::consts::TAU).sin_cos();
    let r = (1.0 - z * z).sqrt();
    [r * cosine, r * sine, z]
}
