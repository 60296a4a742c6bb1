//! Nodes in the germanium, and their links to neighbours, contacts and reflecting faces.

use crate::body::{Body, Vec3, between, crossing};
use crate::grid::Grid;

/// The end of a node's link towards a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Link {
    /// A node of the germanium.
    Inside(usize),
    /// The surface, at this fraction of the step, with the parts of it around there that belong to
    /// contacts.
    Surface { share: f64, parts: Vec<(usize, f64)> },
    /// A reflecting face.
    Face,
}

/// Minimum distance of a contact from a node, as a fraction of a step. Nearer contacts are moved to
/// this distance, so that the matrix stays well conditioned.
const CLOSEST: f64 = 0.02;

/// Number of sample points along each side of a step at which contacts are determined. It is even,
/// so that none lies on a border that goes through a node.
const SAMPLES: usize = 4;

/// The nodes on which a potential is computed.
pub(super) struct Nodes<'b> {
    pub body: &'b dyn Body,
    pub grid: &'b Grid,
    /// Nodes in the germanium, by the number of their unknown.
    pub inside: Vec<usize>,
    /// Unknown of each node; `NONE` for those outside.
    unknowns: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl<'b> Nodes<'b> {
    pub fn new(body: &'b dyn Body, grid: &'b Grid) -> Self {
        let inside: Vec<usize> = (0..grid.len()).filter(|&node| body.contains(grid.position(node))).collect();
        let mut unknowns = vec![NONE; grid.len()];
        for (unknown, &node) in inside.iter().enumerate() {
            unknowns[node] = unknown as u32;
        }
        Nodes { body, grid, inside, unknowns }
    }

    /// Returns the unknown of a node; `None` outside.
    pub fn unknown(&self, node: usize) -> Option<u32> {
        Some(self.unknowns[node]).filter(|&unknown| unknown != NONE)
    }

    /// Returns the link of a node of the germanium towards its neighbour along an axis.
    pub fn link(&self, node: usize, axis: usize, forwards: bool) -> Link {
        // The grid extends one node beyond the body on each side.
        let Some(other) = self.grid.neighbour(node, axis, forwards) else { return Link::Face };
        if self.unknowns[other] != NONE {
            return Link::Inside(other);
        }
        let (from, to) = (self.grid.position(node), self.grid.position(other));
        let ([low, high], [low_reflects, high_reflects]) =
            (self.body.bounds()[axis], self.body.reflects()[axis]);
        if (low_reflects && to[axis] < low) || (high_reflects && to[axis] > high) {
            return Link::Face;
        }
        let share = crossing(self.body, from, to);
        let parts = self.parts(between(from, to, share), axis);
        Link::Surface { share: share.max(CLOSEST), parts }
    }

    /// Returns the parts of the surface within half a step across a link that belong to each
    /// contact. A border of two contacts between nodes thus affects the potentials.
    fn parts(&self, place: Vec3, axis: usize) -> Vec<(usize, f64)> {
        let offset = |sample: usize| self.grid.step() * ((sample as f64 + 0.5) / SAMPLES as f64 - 0.5);
        let mut parts: Vec<(usize, f64)> = Vec::new();
        for (one, other) in (0..SAMPLES).flat_map(|one| (0..SAMPLES).map(move |other| (one, other))) {
            let mut at = place;
            at[(axis + 1) % 3] += offset(one);
            at[(axis + 2) % 3] += offset(other);
            let contact = self.body.contact(at);
            let part = 1.0 / (SAMPLES * SAMPLES) as f64;
            match parts.iter_mut().find(|(known, _)| *known == contact) {
                Some((_, sum)) => *sum += part,
                None => parts.push((contact, part)),
            }
        }
        parts
    }

    /// Returns the part of a node's cell in front of reflecting faces, along each axis.
    pub fn extent(&self, node: usize) -> [f64; 3] {
        let (position, half) = (self.grid.position(node), 0.5 * self.grid.step());
        let (bounds, reflects) = (self.body.bounds(), self.body.reflects());
        std::array::from_fn(|axis| {
            let ([low, high], at) = (bounds[axis], position[axis]);
            let from = if reflects[axis][0] { low.max(at - half) } else { at - half };
            let to = if reflects[axis][1] { high.min(at + half) } else { at + half };
            (to - from) / (2.0 * half)
        })
    }
}
