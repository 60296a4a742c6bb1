//! Linear equations of a potential: `div grad V = -rho / eps` in the germanium, given values on
//! contacts, no field through reflecting faces.
//!
//! The discretisation uses differences across a step, or the distance to the contact if one lies
//! nearer (Gibou, Fedkiw, Cheng and Kang, J. Comput. Phys. 176 (2002) 205). The matrix is symmetric
//! and positive definite. The error of potentials falls with the square of the step, also at curved
//! contacts.

use zellige_sparse::Csr;

use super::nodes::{Link, Nodes};
use crate::Error;

/// The matrix of all potentials, and the coefficients of their right-hand sides.
pub(super) struct Equations {
    pub matrix: Csr,
    /// Unknown, contact and coefficient of every link to a contact.
    pub contacts: Vec<(u32, usize, f64)>,
    /// Weight of each unknown's space charge in the right-hand side (mm2).
    pub volumes: Vec<f64>,
}

impl Equations {
    pub fn new(nodes: &Nodes<'_>) -> Result<Self, Error> {
        let squared = nodes.grid.step() * nodes.grid.step();
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        let (mut contacts, mut volumes) = (Vec::new(), Vec::new());
        for (unknown, &node) in nodes.inside.iter().enumerate() {
            let extent = nodes.extent(node);
            let mut row = Vec::with_capacity(7);
            let mut diagonal = 0.0;
            for axis in 0..3 {
                let face = extent[(axis + 1) % 3] * extent[(axis + 2) % 3];
                for forwards in [false, true] {
                    match nodes.link(node, axis, forwards) {
                        Link::Inside(other) => {
                            diagonal += face;
                            row.extend(nodes.unknown(other).map(|column| (column, -face)));
                        }
                        Link::Surface { share, parts } => {
                            diagonal += face / share;
                            let part = |(contact, part)| (unknown as u32, contact, part * face / share);
                            contacts.extend(parts.into_iter().map(part));
                        }
                        Link::Face => {}
                    }
                }
            }
            row.push((unknown as u32, diagonal));
            row.sort_unstable_by_key(|&(column, _)| column);
            columns.extend(row.iter().map(|&(column, _)| column));
            values.extend(row.iter().map(|&(_, value)| value));
            starts.push(columns.len());
            volumes.push(squared * extent.iter().product::<f64>());
        }
        let matrix = Csr::new(nodes.inside.len(), starts, columns, values)?;
        Ok(Equations { matrix, contacts, volumes })
    }

    /// Returns the right-hand side for contacts at `voltages` and the charge density over
    /// permittivity of each unknown.
    pub fn rhs(&self, voltages: impl Fn(usize) -> f64, charge: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut rhs: Vec<f64> =
            self.volumes.iter().enumerate().map(|(unknown, volume)| volume * charge(unknown)).collect();
        for &(unknown, contact, coefficient) in &self.contacts {
            rhs[unknown as usize] += coefficient * voltages(contact);
        }
        rhs
    }
}
