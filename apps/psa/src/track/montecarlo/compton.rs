//! Compton scattering by a free electron at rest.

use rand::{Rng, RngExt};

use crate::body::Vec3;
use crate::track::germanium::{ELECTRON, minus, norm, scattered};

/// Draws a scattering of a photon of an energy (keV) by the cross section of Klein and Nishina;
/// returns the cosine of the angle and the energy afterwards (keV).
///
/// The method is Kahn's, which is exact at all energies (Kahn, Applications of Monte Carlo, RAND
/// report AECU-3259 (1954); Lux & Koblinger, Monte Carlo Particle Transport Methods (1991), chapter
/// 3). It draws the ratio of the energies before and after from one of two densities and accepts it
/// with a certain probability.
pub fn scatter(energy: f64, random: &mut impl Rng) -> (f64, f64) {
    let alpha = energy / ELECTRON;
    let widest = 1.0 + 2.0 * alpha;
    loop {
        let [which, share, keep]: [f64; 3] = std::array::from_fn(|_| random.random());
        let (ratio, likely) = if which * (widest + 8.0) <= widest {
            let ratio = 1.0 + 2.0 * alpha * share;
            (ratio, 4.0 * (1.0 / ratio - 1.0 / (ratio * ratio)))
        } else {
            let ratio = widest / (1.0 + 2.0 * alpha * share);
            let cosine = 1.0 - (ratio - 1.0) / alpha;
            (ratio, 0.5 * (cosine * cosine + 1.0 / ratio))
        };
        if keep <= likely {
            let cosine = (1.0 - (ratio - 1.0) / alpha).clamp(-1.0, 1.0);
            return (cosine, scattered(energy, cosine));
        }
    }
}

/// Returns `direction` (of length 1) turned by an angle with this cosine, at a random azimuth.
pub(super) fn turned(direction: Vec3, cosine: f64, random: &mut impl Rng) -> Vec3 {
    let (s, c) = random.random_range(0.0..std::f64::consts::TAU).sin_cos();
    let sine = (1.0 - cosine * cosine).max(0.0).sqrt();
    // A vector that is not parallel to the direction: the axis of its smallest component.
    let smallest = (0..3).min_by(|&a, &b| direction[a].abs().total_cmp(&direction[b].abs())).unwrap_or(0);
    let along = direction[smallest];
    let axis: Vec3 = std::array::from_fn(|x| f64::from(x == smallest));
    let side = minus(axis, direction.map(|x| x * along));
    let length = norm(side);
    let side = side.map(|x| x / length);
    let other = cross(direction, side);
    let all: Vec3 = std::array::from_fn(|x| cosine * direction[x] + sine * (c * side[x] + s * other[x]));
    // Normalises, since rounding errors would add up over many turns.
    let length = norm(all);
    all.map(|x| x / length)
}

fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::germanium::dot;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn turns_have_their_angle_and_go_to_all_sides() {
        let mut random = ChaCha8Rng::seed_from_u64(4);
        let direction = [0.6, 0.0, 0.8];
        let mut sum = [0.0; 3];
        for _ in 0..20_000 {
            let new = turned(direction, 0.3, &mut random);
            assert!((dot(new, direction) - 0.3).abs() < 1e-12 && (norm(new) - 1.0).abs() < 1e-12);
            (0..3).for_each(|x| sum[x] += new[x] / 20_000.0);
        }
        // The mean is 0.3 along the direction; five standard errors of a component across.
        assert!((0..3).all(|x| (sum[x] - 0.3 * direction[x]).abs() < 0.03), "{sum:?}");
    }
}
