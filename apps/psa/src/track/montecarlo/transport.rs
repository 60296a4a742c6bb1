//! Transport of a gamma ray through germanium and the gaps between crystals.

use rand::{Rng, RngExt};

use super::compton::{scatter, turned};
use super::target::Target;
use super::{EmissionSpec, Emitted, Interaction, isotropic};
use crate::body::Vec3;
use crate::track::germanium::{Attenuation, ELECTRON, LEAST, dot};

/// A photon in flight.
struct Photon {
    place: Vec3,
    direction: Vec3,
    energy: f64,
}

/// Follows a gamma ray to its end and records its interactions; returns whether all its energy was
/// absorbed.
pub(super) fn transport(
    spec: &EmissionSpec,
    gamma: usize,
    emitted: &Emitted,
    interactions: &mut Vec<Interaction>,
    random: &mut impl Rng,
) -> bool {
    let mut absorbed = true;
    let begin = Photon { place: spec.source, direction: emitted.direction, energy: emitted.seen };
    let mut waiting = vec![begin];
    while let Some(mut photon) = waiting.pop() {
        loop {
            let attenuation = Attenuation::at(photon.energy);
            if !flies(&mut photon, attenuation.total(), &spec.target, random) {
                absorbed = false;
                break;
            }
            let stays = interact(&mut photon, &attenuation, &mut waiting, random);
            interactions.push(Interaction { place: photon.place, energy: stays, gamma });
            if photon.energy <= 0.0 {
                break;
            }
        }
    }
    absorbed
}

/// Moves the photon to its next interaction; returns `false` if there is none.
///
/// The method is Woodcock's (Woodcock et al., ANL-7050 (1965) 557): steps are drawn as if there
/// were germanium everywhere, and an interaction takes place only in germanium. Only the hollow in
/// the middle is crossed in one step.
fn flies(photon: &mut Photon, attenuation: f64, target: &Target, random: &mut impl Rng) -> bool {
    let [inner, outer] = target.radii();
    loop {
        let squared = dot(photon.place, photon.place);
        let along = dot(photon.place, photon.direction);
        if squared > outer * outer && along >= 0.0 {
            return false;
        }
        if squared < inner * inner {
            advance(photon, -along + (along * along + inner * inner - squared).sqrt());
        }
        let step: f64 = random.random();
        advance(photon, -(1.0 - step).ln() / attenuation);
        if target.contains(photon.place) {
            return true;
        }
    }
}

fn advance(photon: &mut Photon, by: f64) {
    photon.place = std::array::from_fn(|x| photon.place[x] + by * photon.direction[x]);
}

/// Draws the interaction at the photon's position and returns the deposited energy. The photon
/// keeps the rest; photons of a pair are queued in `waiting`.
fn interact(
    photon: &mut Photon,
    attenuation: &Attenuation,
    waiting: &mut Vec<Photon>,
    random: &mut impl Rng,
) -> f64 {
    let (energy, place) = (photon.energy, photon.place);
    let which = random.random::<f64>() * attenuation.total();
    if which < attenuation.compton && energy > LEAST {
        let (cosine, left) = scatter(energy, random);
        photon.direction = turned(photon.direction, cosine, random);
        photon.energy = left;
        return energy - left;
    }
    photon.energy = 0.0;
    if which < attenuation.compton + attenuation.photo || energy <= 2.0 * ELECTRON {
        return energy;
    }
    let direction = isotropic(random);
    for direction in [direction, direction.map(|x| -x)] {
        waiting.push(Photon { place, direction, energy: ELECTRON });
    }
    energy - 2.0 * ELECTRON
}
