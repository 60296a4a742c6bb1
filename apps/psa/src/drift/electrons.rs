//! Drift velocity of electrons: four valleys, each along a body diagonal of the lattice.

use super::Speed;
use super::law::Law;
use crate::body::Vec3;

/// Electrons at one temperature.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Electrons {
    along_100: Speed,
    along_111: Speed,
}

/// Effective masses along and across a valley, relative to the mass of the free electron.
const MASSES: [f64; 2] = [1.64, 0.0819];

const DIAGONALS: [Vec3; 4] = [[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]];

/// Returns `sqrt(u gamma u)` of a direction with this squared cosine to the valley; `gamma` is the
/// inverse of the mass tensor.
fn inverse_root_mass(squared_cosine: f64) -> f64 {
    let [along, across] = MASSES;
    (1.0 / across + (1.0 / along - 1.0 / across) * squared_cosine).sqrt()
}

impl Electrons {
    pub fn at(temperature: f64) -> Self {
        const POWER: f64 = 1.68;
        let along_100 = Law { mobility: 38_609.0, field: 511.0, exponent: 0.805, loss: -171.0 };
        let along_111 = Law { mobility: 38_536.0, field: 538.0, exponent: 0.641, loss: 510.0 };
        Electrons::with([along_100, along_111].map(|law| Speed::Law(law.at(temperature, POWER))))
    }

    /// Creates electrons with these speeds along `<100>` and `<111>`.
    pub fn with([along_100, along_111]: [Speed; 2]) -> Self {
        Electrons { along_100, along_111 }
    }

    /// Returns the velocity (mm/ns) in a field of direction `u` and strength (V/cm) (Mihailescu et
    /// al. 2000): `v = -A sum_j n_j gamma_j u / sqrt(u gamma_j u)`. `n_j` is the population of
    /// valley `j`; `A` and the populations are such that both laws are met.
    pub fn velocity(&self, u: Vec3, strength: f64) -> Vec3 {
        let [along, across] = MASSES;
        let factor = self.along_100.at(strength) / inverse_root_mass(1.0 / 3.0);
        let cosines = DIAGONALS.map(|d| (d[0] * u[0] + d[1] * u[1] + d[2] * u[2]) / 3f64.sqrt());
        let shares = cosines.map(|cosine| 1.0 / inverse_root_mass(cosine * cosine));
        let (sum, spread) = (shares.iter().sum::<f64>(), self.spread(factor, strength));
        let mut velocity = [0.0; 3];
        for valley in 0..4 {
            let population = spread * (shares[valley] / sum - 0.25) + 0.25;
            let d = DIAGONALS[valley].map(|part| part / 3f64.sqrt());
            for axis in 0..3 {
                let gamma_u = u[axis] / across + (1.0 / along - 1.0 / across) * cosines[valley] * d[axis];
                velocity[axis] -= factor * population * shares[valley] * gamma_u;
            }
        }
        velocity
    }

    /// Returns the excess population of valleys with less mass along the field, from the speed
    /// along `<111>`. With one valley along the field and three across, the speed divided by `A` is
    /// linear in this excess.
    fn spread(&self, factor: f64, strength: f64) -> f64 {
        let (one, three) = (inverse_root_mass(1.0), inverse_root_mass(1.0 / 9.0));
        let even = 0.25 * one + 0.75 * three;
        let sum = 1.0 / one + 3.0 / three;
        let slope = (1.0 / one / sum - 0.25) * one + 3.0 * (1.0 / three / sum - 0.25) * three;
        (self.along_111.at(strength) / factor - even) / slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both laws are met on their axes, electrons drift against the field there, and the rounded
    /// numbers of the paper are reproduced.
    #[test]
    fn axes_have_their_laws() {
        let electrons = Electrons::at(78.0);
        for strength in [50.0, 500.0, 3000.0] {
            let along_100 = electrons.velocity([0.0, 1.0, 0.0], strength);
            assert!((along_100[1] / electrons.along_100.at(strength) + 1.0).abs() < 1e-12);
            let u = [3f64.sqrt().recip(); 3];
            let along_111 = electrons.velocity(u, strength);
            let expected = -electrons.along_111.at(strength) * u[0];
            assert!(along_111.iter().all(|part| (part / expected - 1.0).abs() < 1e-12), "{along_111:?}");
            let factor = electrons.along_100.at(strength) / 2.888;
            let published = -1.182 * electrons.along_111.at(strength) / factor + 3.161;
            assert!((electrons.spread(factor, strength) - published).abs() < 2e-3);
        }
    }
}
