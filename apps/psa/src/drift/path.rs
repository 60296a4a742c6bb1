//! Path of a charge to the contacts, and the charge that it induces on them.

use std::sync::Arc;

use super::{Carrier, Mobility, Trapping};
use crate::body::{Body, Vec3, between, crossing, distance};
use crate::fields::Fields;

/// Drift of charges in a body, with their velocities at the nodes of its fields.
#[derive(Clone, Debug)]
pub struct Drift {
    body: Arc<dyn Body>,
    fields: Arc<Fields>,
    /// Velocities of electrons and of holes (mm/ns).
    velocities: [Vec<[f32; 3]>; 2],
    /// Cells that lie entirely in the germanium, in which charges do not meet its surface.
    is_deep: Vec<bool>,
    trapping: Trapping,
}

/// Path of a carrier.
struct Track {
    /// Weighting potentials by step and contact.
    potentials: Vec<f32>,
    /// Path length at each step (mm).
    path_lengths: Vec<f64>,
    /// Whether the carrier reached a contact.
    is_collected: bool,
}

impl Track {
    /// Returns the charge that each contact has seen at each step, and the trapping sensitivities.
    /// A sensitivity is the charge that a contact loses at the end per 1/mm of trapping rate (mm).
    /// To first order it is the integral of the path length over the weighting potential.
    fn seen(self, contacts: usize, length: f64) -> (Vec<f32>, Vec<f64>) {
        let Track { mut potentials, path_lengths, .. } = self;
        let mut slopes = vec![0.0; contacts];
        // Charge that has been lost so far.
        let mut lost = vec![0.0; contacts];
        for at in 1..path_lengths.len() {
            let middle = 0.5 * (path_lengths[at - 1] + path_lengths[at]);
            let trapped = -(-middle / length).exp_m1();
            for contact in 0..contacts {
                let [from, to] = [at - 1, at].map(|at| at * contacts + contact);
                let step = f64::from(potentials[to]) - (f64::from(potentials[from]) + lost[contact]);
                slopes[contact] += middle * step;
                if trapped > 0.0 {
                    lost[contact] += trapped * step;
                    potentials[to] -= lost[contact] as f32;
                }
            }
        }
        (potentials, slopes)
    }
}

/// Charge that a unit pair of an electron and a hole induces on every contact, in equal time steps
/// from its creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulse {
    /// Time between two values (ns).
    pub step: f64,
    /// Number of contacts.
    pub contacts: usize,
    /// Charges by time and contact; those of holes count as positive.
    pub charges: Vec<f32>,
    /// *Trapping sensitivities* (Bruyneel et al., Eur. Phys. J. A 49 (2013) 61): loss of the charge
    /// that each contact collects per 1/mm of the trapping rate of electrons, and of holes (mm).
    /// The signs are those of the charges.
    pub sensitivities: Vec<[f32; 2]>,
    /// Whether both carriers reached a contact.
    pub is_collected: bool,
}

impl Pulse {
    /// Returns the number of times.
    pub fn times(&self) -> usize {
        self.charges.len() / self.contacts.max(1)
    }
}

/// Time step of a charge (ns); it moves about 0.1 mm.
pub const STEP: f64 = 1.0;

/// Time (ns) after which a charge that has not reached a contact counts as trapped.
const LONGEST: f64 = 3000.0;

/// Speed (mm/ns) below which a charge counts as trapped.
const SLOWEST: f64 = 1e-5;

impl Drift {
    /// Creates the drift of charges in a body with these fields; all speeds are multiplied by
    /// `speed`.
    pub fn new(body: Arc<dyn Body>, fields: Arc<Fields>, mobility: &Mobility, speed: f64) -> Self {
        let electric = fields.electric(&*body);
        let velocities = [Carrier::Electron, Carrier::Hole].map(|carrier| {
            let velocity = |field: &[f32; 3]| {
                mobility.velocity(carrier, field.map(f64::from)).map(|part| (speed * part) as f32)
            };
            electric.iter().map(velocity).collect()
        });
        let grid = fields.grid();
        let is_inside: Vec<bool> = (0..grid.len()).map(|node| body.contains(grid.position(node))).collect();
        let along = |corner: usize| (0..3).filter(move |axis| corner >> axis & 1 == 1);
        let corners: Vec<usize> =
            (0..8).map(|corner| along(corner).map(|axis| grid.stride(axis)).sum()).collect();
        let is_whole = |node: usize| corners.iter().all(|corner| is_inside.get(node + corner) == Some(&true));
        let is_deep = (0..grid.len()).map(is_whole).collect();
        Drift { body, fields, velocities, is_deep, trapping: Trapping::NONE }
    }

    /// Adds charge trapping.
    #[must_use]
    pub fn with_trapping(self, trapping: Trapping) -> Self {
        Drift { trapping, ..self }
    }

    /// Returns the charges that a unit pair created at a point of the germanium (mm) induces on the
    /// contacts: `Q_k = phi_k(x_h) - phi_k(x_e)` (Shockley and Ramo). With trapping, each step of
    /// `phi_k` is multiplied by the fraction of the charge that is left.
    pub fn pulse(&self, point: Vec3) -> Pulse {
        let contacts = self.fields.contacts();
        let [electron, hole] = [Carrier::Electron, Carrier::Hole].map(|carrier| self.follow(carrier, point));
        let is_collected = electron.is_collected && hole.is_collected;
        let (mut charges, of_holes) = hole.seen(contacts, self.trapping.length(Carrier::Hole));
        let (electron, of_electrons) = electron.seen(contacts, self.trapping.length(Carrier::Electron));
        let both = of_electrons.iter().zip(&of_holes);
        let sensitivities = both.map(|(&electrons, &holes)| [-electrons as f32, holes as f32]).collect();
        let times = charges.len().max(electron.len()) / contacts;
        // A carrier that has reached its contact stays there.
        for _ in charges.len() / contacts..times {
            charges.extend_from_within(charges.len() - contacts..);
        }
        let last = &electron[electron.len() - contacts..];
        let seen = electron.chunks(contacts).chain(std::iter::repeat(last));
        for (charges, seen) in charges.chunks_mut(contacts).zip(seen) {
            charges.iter_mut().zip(seen).for_each(|(charge, seen)| *charge -= seen);
        }
        Pulse { step: STEP, contacts, charges, sensitivities, is_collected }
    }

    /// Follows a carrier from its start to a contact.
    fn follow(&self, carrier: Carrier, start: Vec3) -> Track {
        let contacts = self.fields.contacts();
        let (mut track, mut place) = (Vec::with_capacity(contacts * 256), start);
        let (mut path_lengths, mut path_length) = (Vec::with_capacity(256), 0.0);
        let most = (LONGEST / STEP) as usize;
        for _ in 0..most {
            let begin = track.len();
            track.resize(begin + contacts, 0.0);
            self.fields.weighting_at(place, &mut track[begin..]);
            path_lengths.push(path_length);
            let next = self.next(carrier, place);
            if !self.is_inside(next) {
                let end = between(place, next, crossing(&*self.body, place, next));
                track.resize(begin + 2 * contacts, 0.0);
                track[begin + contacts + self.body.contact(end)] = 1.0;
                path_lengths.push(path_length + distance(place, end));
                return Track { potentials: track, path_lengths, is_collected: true };
            }
            let moved = distance(place, next);
            path_length += moved;
            if moved < SLOWEST * STEP {
                break;
            }
            place = next;
        }
        Track { potentials: track, path_lengths, is_collected: false }
    }

    /// Returns the position of a carrier after one step (midpoint rule), limited by reflecting
    /// faces.
    fn next(&self, carrier: Carrier, place: Vec3) -> Vec3 {
        let moved = |velocity: Vec3, time: f64| {
            self.in_front(std::array::from_fn(|axis| place[axis] + time * velocity[axis]))
        };
        let middle = moved(self.velocity(carrier, place), 0.5 * STEP);
        moved(self.velocity(carrier, middle), STEP)
    }

    fn in_front(&self, mut place: Vec3) -> Vec3 {
        let (bounds, reflects) = (self.body.bounds(), self.body.reflects());
        for axis in 0..3 {
            let ([low, high], [at_low, at_high]) = (bounds[axis], reflects[axis]);
            if at_low {
                place[axis] = place[axis].max(low);
            }
            if at_high {
                place[axis] = place[axis].min(high);
            }
        }
        place
    }

    fn velocity(&self, carrier: Carrier, place: Vec3) -> Vec3 {
        let velocities = &self.velocities[usize::from(carrier == Carrier::Hole)];
        let grid = self.fields.grid();
        let mut sum = [0.0f32; 3];
        for (node, weight) in grid.corners(&grid.cell(place)) {
            sum.iter_mut().zip(velocities[node]).for_each(|(sum, part)| *sum += weight * part);
        }
        sum.map(f64::from)
    }

    fn is_inside(&self, place: Vec3) -> bool {
        self.is_deep[self.fields.grid().cell(place).node] || self.body.contains(place)
    }
}
