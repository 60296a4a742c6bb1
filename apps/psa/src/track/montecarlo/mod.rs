//! Gamma rays in germanium by chance: events whose truth is known, to try tracking on.
//!
//! Gamma rays leave the source in all directions alike, as it sees them; free paths follow
//! [`Attenuation`](super::germanium::Attenuation), angles of Compton scattering the formula of
//! Klein and Nishina for free electrons at rest, pairs end where they begin and send out two
//! photons of 511 keV, one opposite to the other. All energy that electrons get stays where they
//! got it. Every event has random numbers of its own (the seed and its number).

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

/// What events are like.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Begins the random numbers.
    pub seed: u64,
    /// Gamma rays of an event.
    pub multiplicity: usize,
    /// What the source sends out, as it sees it.
    pub energies: Energies,
    /// Where it is (mm).
    pub source: Vec3,
    /// How it moves.
    pub motion: Motion,
    /// Where germanium is.
    pub target: Target,
    /// Full width at half maximum of the error of places along each axis, for points of 100 keV
    /// (mm); it shrinks as the square root of the energy.
    pub smearing: f64,
    /// The same of the energy of a point (keV).
    pub energy_width: f64,
}

/// No event has more gamma rays.
pub const MOST_GAMMAS: usize = 200;

/// Where a gamma ray did something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interaction {
    /// As it was (mm).
    pub place: Vec3,
    /// What stayed there (keV).
    pub energy: f64,
    /// Which gamma ray of the event: those of a gamma ray follow each other in time, and photons of
    /// a pair one after the other.
    pub gamma: usize,
}

/// A gamma ray that was sent out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emitted {
    /// As the source sees it (keV).
    pub energy: f64,
    /// As the laboratory sees it (keV).
    pub seen: f64,
    /// In the laboratory, of length 1.
    pub direction: Vec3,
    /// Whether all of its energy stayed in the germanium.
    pub absorbed: bool,
}

/// An event, as it was and as it is seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// What was sent out.
    pub gammas: Vec<Emitted>,
    /// What it did.
    pub interactions: Vec<Interaction>,
    /// What is seen of that: places and energies with their errors, in the order of the
    /// interactions.
    pub points: Vec<Point>,
}

impl Spec {
    /// # Errors
    /// [`Error::Parameter`] that names what has no meaning.
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

    /// One event, by its number.
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
        // Aberration: what the source sends out along `own` goes forward in the laboratory.
        let along = dot(own, axis);
        let gamma = 1.0 / (1.0 - beta * beta).sqrt();
        let direction = std::array::from_fn(|x| {
            (own[x] + ((gamma - 1.0) * along + gamma * beta) * axis[x]) / (gamma * (1.0 + beta * along))
        });
        Emitted { energy, seen: energy * gamma * (1.0 + beta * along), direction, absorbed: false }
    }

    fn seen(&self, at: &Interaction, random: &mut impl Rng) -> Point {
        // Standard deviations in a full width at half maximum.
        const WIDTH: f64 = 2.354_82;
        let blur = self.smearing / WIDTH * (100.0 / at.energy.max(1.0)).sqrt();
        let mut normal = || random.sample::<f64, _>(StandardNormal);
        let place = at.place.map(|x| x + blur * normal());
        Point { place, energy: (at.energy + self.energy_width / WIDTH * normal()).max(0.0) }
    }
}

/// All directions alike.
fn isotropic(random: &mut impl Rng) -> Vec3 {
    let z = random.random_range(-1.0..1.0f64);
    let (sine, cosine) = random.random_range(0.0..std::f64::consts::TAU).sin_cos();
    let r = (1.0 - z * z).sqrt();
    [r * cosine, r * sine, z]
}
