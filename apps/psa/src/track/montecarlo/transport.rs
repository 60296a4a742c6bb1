//! A gamma ray's way through germanium and what is between.

use rand::{Rng, RngExt};

use super::compton::{scatter, turned};
use super::target::Target;
use super::{Emitted, Interaction, Spec, isotropic};
use crate::body::Vec3;
use crate::track::germanium::{Attenuation, ELECTRON, LEAST, dot};

/// A photon on its way.
struct Photon {
    place: Vec3,
    direction: Vec3,
    energy: f64,
}

/// Follows a gamma ray to its end and adds what it does; whether all its energy stayed.
pub(super) fn transport(
    spec: &Spec,
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

/// Goes to the next interaction; false where there is none.
///
/// Woodcock's method (Woodcock et al., ANL-7050 (1965) 557): steps as if there were germanium
/// everywhere, and an interaction only where there is. Only the hollow in the middle is passed at
/// once.
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

/// What the photon does where it is: the energy that stays. It has the rest; photons of a pair
/// wait.
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
