//! Extrapolation of values to nodes outside the germanium, so that every point of it is surrounded
//! by eight nodes with values.
//!
//! Every value is a linear combination of others with weights that add up to 1. Therefore
//! identities of sums of fields inside also hold outside.

use super::nodes::{Link, Nodes};

/// A node outside, and the linear combination that gives its value.
struct Ghost {
    node: usize,
    /// Nodes that have values already, with their weights.
    nodes: Vec<(usize, f64)>,
    /// Contacts, with their weights.
    contacts: Vec<(usize, f64)>,
}

/// Linear extrapolation of a field to the nodes outside.
pub(super) struct Extension(Vec<Ghost>);

/// Fraction of a step below which a contact is too near to its node to be used together with it.
const NEAR: f64 = 0.3;

impl Extension {
    /// Creates the extrapolation of potentials, by the parabola through the contact and two nodes.
    pub fn of_potentials(nodes: &Nodes<'_>) -> Self {
        Extension::new(nodes, true)
    }

    /// Creates the extrapolation of their slopes, by the line through two nodes.
    pub fn of_slopes(nodes: &Nodes<'_>) -> Self {
        Extension::new(nodes, false)
    }

    fn new(nodes: &Nodes<'_>, has_contacts: bool) -> Self {
        let mut ghosts = beside(nodes, has_contacts);
        let mut is_known: Vec<bool> =
            (0..nodes.grid.len()).map(|node| nodes.unknown(node).is_some()).collect();
        ghosts.iter().for_each(|ghost| is_known[ghost.node] = true);
        // Nodes across an edge of a cell, then across its space diagonal.
        for _ in 0..2 {
            let further = across(nodes, &is_known);
            further.iter().for_each(|ghost| is_known[ghost.node] = true);
            ghosts.extend(further);
        }
        Extension(ghosts)
    }

    /// Extrapolates a field from `at(contact)` on the contacts and `values` at the nodes inside.
    pub fn apply(&self, values: &mut [f64], at: impl Fn(usize) -> f64) {
        for ghost in &self.0 {
            let from_contacts: f64 =
                ghost.contacts.iter().map(|&(contact, weight)| weight * at(contact)).sum();
            let from_nodes: f64 = ghost.nodes.iter().map(|&(node, weight)| weight * values[node]).sum();
            values[ghost.node] = from_contacts + from_nodes;
        }
    }
}

/// Extrapolates to the neighbours of the germanium: the mean of the estimates from each neighbour
/// inside.
fn beside(nodes: &Nodes<'_>, has_contacts: bool) -> Vec<Ghost> {
    let mut estimates: Vec<(usize, Ghost)> = Vec::new();
    for &node in &nodes.inside {
        for (axis, forwards) in directions() {
            let link = nodes.link(node, axis, forwards);
            let Some(outside) = nodes.grid.neighbour(node, axis, forwards) else { continue };
            if matches!(link, Link::Inside(_)) {
                continue;
            }
            let step_back = |from: usize| {
                nodes.grid.neighbour(from, axis, !forwards).filter(|&back| nodes.unknown(back).is_some())
            };
            let (before, second) = (step_back(node), step_back(node).and_then(step_back));
            let ghost = match link {
                Link::Surface { share, parts } if has_contacts => {
                    parabola(outside, share, &parts, [Some(node), before, second])
                }
                Link::Face if has_contacts => mirrored(nodes, outside, node, axis, forwards),
                _ => line(outside, node, before),
            };
            estimates.push((outside, ghost));
        }
    }
    estimates.sort_by_key(|&(outside, _)| outside);
    estimates.chunk_by(|a, b| a.0 == b.0).map(|same| mean(same.iter().map(|(_, ghost)| ghost))).collect()
}

fn directions() -> impl Iterator<Item = (usize, bool)> {
    (0..3).flat_map(|axis| [(axis, false), (axis, true)])
}

/// Extrapolates to one step beyond node 0, by the polynomial through a contact at `share` and nodes
/// at 0, -1, -2. It uses the nodes that exist and are not too near to the contact.
fn parabola(outside: usize, share: f64, parts: &[(usize, f64)], nodes: [Option<usize>; 3]) -> Ghost {
    let is_near = share < NEAR && nodes[1].is_some();
    let supports: Vec<(f64, usize)> = nodes
        .into_iter()
        .enumerate()
        .skip(usize::from(is_near))
        .map_while(|(back, node)| node.map(|node| (-(back as f64), node)))
        .take(2)
        .collect();
    let places: Vec<f64> = supports.iter().map(|&(place, _)| place).chain([share]).collect();
    let weight = |at: usize| -> f64 {
        let others = places.iter().enumerate().filter(|&(other, _)| other != at);
        others.map(|(_, place)| (1.0 - place) / (places[at] - place)).product()
    };
    let nodes = supports.iter().enumerate().map(|(at, &(_, node))| (node, weight(at))).collect();
    let of_surface = weight(supports.len());
    let contacts = parts.iter().map(|&(contact, part)| (contact, part * of_surface)).collect();
    Ghost { node: outside, nodes, contacts }
}

/// Returns the value at the mirror image behind a reflecting face.
fn mirrored(nodes: &Nodes<'_>, outside: usize, node: usize, axis: usize, forwards: bool) -> Ghost {
    let (grid, bounds) = (nodes.grid, nodes.body.bounds()[axis]);
    let face = bounds[usize::from(forwards)];
    // Steps from the node to the image, away from the face. An image between node and ghost has the
    // value of both.
    let share = (2.0 * (face - grid.position(outside)[axis]).abs() / grid.step() - 1.0).max(0.0);
    match grid.neighbour(node, axis, !forwards).filter(|&before| nodes.unknown(before).is_some()) {
        Some(before) => {
            Ghost { node: outside, nodes: vec![(node, 1.0 - share), (before, share)], contacts: vec![] }
        }
        None => Ghost { node: outside, nodes: vec![(node, 1.0)], contacts: vec![] },
    }
}

fn line(outside: usize, node: usize, before: Option<usize>) -> Ghost {
    let nodes = match before {
        Some(before) => vec![(node, 2.0), (before, -1.0)],
        None => vec![(node, 1.0)],
    };
    Ghost { node: outside, nodes, contacts: vec![] }
}

/// Returns the mean of estimates of one node.
fn mean<'g>(ghosts: impl ExactSizeIterator<Item = &'g Ghost>) -> Ghost {
    let share = 1.0 / ghosts.len() as f64;
    let mut sum = Ghost { node: 0, nodes: Vec::new(), contacts: Vec::new() };
    for ghost in ghosts {
        sum.node = ghost.node;
        sum.nodes.extend(ghost.nodes.iter().map(|&(node, weight)| (node, share * weight)));
        sum.contacts.extend(ghost.contacts.iter().map(|&(contact, weight)| (contact, share * weight)));
    }
    sum
}

/// Extrapolates to nodes without a value in cells that have some: `a + b - ab` over pairs of
/// neighbours `a` and `b` and the node `ab` that is a neighbour of both.
fn across(nodes: &Nodes<'_>, is_known: &[bool]) -> Vec<Ghost> {
    let grid = nodes.grid;
    let known = |from: usize, (axis, forwards): (usize, bool)| {
        grid.neighbour(from, axis, forwards).filter(|&node| is_known[node])
    };
    let mut ghosts = Vec::new();
    for node in (0..grid.len()).filter(|&node| !is_known[node]) {
        let mut estimates = Vec::new();
        for one in directions() {
            let Some(a) = known(node, one) else { continue };
            for other in directions().filter(|other| other.0 > one.0) {
                if let (Some(b), Some(both)) = (known(node, other), known(a, other)) {
                    let nodes = vec![(a, 1.0), (b, 1.0), (both, -1.0)];
                    estimates.push(Ghost { node, nodes, contacts: vec![] });
                }
            }
        }
        if !estimates.is_empty() {
            ghosts.push(mean(estimates.iter()));
        }
    }
    ghosts
}
