//! Drift velocity of holes: a warped band.

use super::Speed;
use super::law::Law;
use crate::body::Vec3;

/// Holes at one temperature.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Holes {
    along_100: Speed,
    along_111: Speed,
}

impl Holes {
    pub fn at(temperature: f64) -> Self {
        const POWER: f64 = 2.4;
        let along_100 = Law { mobility: 61_824.0, field: 185.0, exponent: 0.942, loss: 0.0 };
        let along_111 = Law { mobility: 61_215.0, field: 182.0, exponent: 0.662, loss: 0.0 };
        Holes::with([along_100, along_111].map(|law| Speed::Law(law.at(temperature, POWER))))
    }

    /// Creates holes with these speeds along `<100>` and `<111>`.
    pub fn with([along_100, along_111]: [Speed; 2]) -> Self {
        Holes { along_100, along_111 }
    }

    /// Returns the velocity (mm/ns) in a field of direction `u` and strength (V/cm) (Bruyneel et
    /// al. 2006), in terms of the angles to the lattice axes.
    pub fn velocity(&self, u: Vec3, strength: f64) -> Vec3 {
        let speed = self.along_100.at(strength);
        let lack = 1.0 - self.along_111.at(strength) / speed;
        let lambda = 0.75 * lack;
        let omega = lack * (-0.29711 + lack * (-1.12082 + lack * (3.83929 + lack * 4.80825)));
        let (cos, sin) = (u[2], u[0].hypot(u[1]));
        // Along z the azimuth is arbitrary: the terms with it vanish.
        let (cos_phi, sin_phi) = if sin > 0.0 { (u[0] / sin, u[1] / sin) } else { (1.0, 0.0) };
        let (sin_2phi, cos_2phi) = (2.0 * sin_phi * cos_phi, cos_phi * cos_phi - sin_phi * sin_phi);
        let (sin_2theta, cos_2theta) = (2.0 * sin * cos, cos * cos - sin * sin);
        let cubed = sin * sin * sin;
        let radial = speed * (1.0 - lambda * (cubed * sin * sin_2phi * sin_2phi + sin_2theta * sin_2theta));
        let polar = speed * 2.0 * omega * (cubed * cos * sin_2phi * sin_2phi + sin_2theta * cos_2theta);
        let azimuthal = speed * 2.0 * omega * cubed * sin_2phi * cos_2phi;
        [
            radial * u[0] + polar * cos * cos_phi - azimuthal * sin_phi,
            radial * u[1] + polar * cos * sin_phi + azimuthal * cos_phi,
            radial * u[2] - polar * sin,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both laws are met on their axes, and holes drift along the field there. All axes of the cube
    /// are equivalent.
    #[test]
    fn axes_have_their_laws() {
        let holes = Holes::at(78.0);
        for strength in [50.0, 500.0, 3000.0] {
            for axis in 0..3 {
                let u: Vec3 = std::array::from_fn(|other| f64::from(u8::from(other == axis)));
                let velocity = holes.velocity(u, strength);
                let expected = u.map(|part| part * holes.along_100.at(strength));
                assert!((0..3).all(|i| (velocity[i] - expected[i]).abs() < 1e-12), "{velocity:?}");
            }
            let u = [3f64.sqrt().recip(); 3];
            let expected = holes.along_111.at(strength) * u[0];
            let velocity = holes.velocity(u, strength);
            assert!(velocity.iter().all(|part| (part / expected - 1.0).abs() < 1e-9), "{velocity:?}");
        }
    }

    /// Exchanging x and y mirrors the velocity. The interpolation treats z differently, but the
    /// effect is small.
    #[test]
    fn the_cube_is_symmetric() {
        let holes = Holes::at(78.0);
        let u = [0.36, 0.48, 0.8];
        let (plain, mirrored) = (holes.velocity(u, 1000.0), holes.velocity([u[1], u[0], u[2]], 1000.0));
        assert!((plain[0] - mirrored[1]).abs() < 1e-12 && (plain[2] - mirrored[2]).abs() < 1e-12);
        let turned = holes.velocity([u[2], u[0], u[1]], 1000.0);
        let expected = [plain[2], plain[0], plain[1]];
        let difference = (0..3).map(|axis| (turned[axis] - expected[axis]).abs()).fold(0.0, f64::max);
        assert!(difference < 0.02 * holes.along_100.at(1000.0), "{turned:?} {expected:?}");
    }
}
