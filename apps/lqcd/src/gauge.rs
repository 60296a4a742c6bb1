//! The links of a lattice.

use crate::geometry::{DIRECTIONS, Geometry};
use crate::su3::{Matrix, ONE, mul, mul_adjoint, reunitarise};

/// A matrix for each site and direction: a gauge field, or one derived from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    geometry: Geometry,
    /// Links as `[direction][site]`: those of one direction, parity and time slice are contiguous.
    links: Vec<Matrix>,
}

impl Gauge {
    /// Returns a field with the same matrix everywhere.
    pub fn constant(geometry: Geometry, link: Matrix) -> Gauge {
        Gauge { geometry, links: vec![link; DIRECTIONS * geometry.sites()] }
    }

    /// Returns a field of unit matrices, which has no force.
    pub fn cold(geometry: Geometry) -> Gauge {
        Gauge::constant(geometry, ONE)
    }

    /// Returns a field with the values of a function of site and direction.
    pub fn from_fn(geometry: Geometry, mut link: impl FnMut(u32, usize) -> Matrix) -> Gauge {
        let mut links = Vec::with_capacity(DIRECTIONS * geometry.sites());
        for direction in 0..DIRECTIONS {
            links.extend((0..geometry.sites() as u32).map(|site| link(site, direction)));
        }
        Gauge { geometry, links }
    }

    /// Returns the lattice.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the link of a site and direction.
    pub fn link(&self, site: u32, direction: usize) -> &Matrix {
        &self.links[direction * self.geometry.sites() + site as usize]
    }

    /// Returns the link of a site and direction, mutable.
    pub fn link_mut(&mut self, site: u32, direction: usize) -> &mut Matrix {
        &mut self.links[direction * self.geometry.sites() + site as usize]
    }

    /// Returns all links of a direction, in the order of sites.
    pub fn of_direction(&self, direction: usize) -> &[Matrix] {
        let sites = self.geometry.sites();
        &self.links[direction * sites..(direction + 1) * sites]
    }

    /// Returns all links: `[direction][site]`.
    pub fn links(&self) -> &[Matrix] {
        &self.links
    }

    /// Projects links that are in SU(3) to the accuracy of a file exactly to SU(3).
    pub fn reunitarise(&mut self) {
        self.links.iter_mut().for_each(|link| *link = reunitarise(link));
    }

    /// Returns the gauge-transformed field: `g(x) U_mu(x) g(x + mu)^H` for a matrix in SU(3) at
    /// each site.
    ///
    /// # Panics
    /// The number of matrices differs from that of sites.
    #[must_use]
    pub fn transformed(&self, g: &[Matrix]) -> Gauge {
        assert_eq!(g.len(), self.geometry.sites(), "a matrix for each site");
        Gauge::from_fn(self.geometry, |site, direction| {
            let next = self.geometry.neighbour(site, direction, 1);
            mul_adjoint(&mul(&g[site as usize], self.link(site, direction)), &g[next as usize])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::su3::{adjoint, deviation};
    use crate::testing::{random_gauge, random_matrices};

    #[test]
    fn transformations_can_be_undone() -> Result<(), Error> {
        let geometry = Geometry::new([4, 4, 4, 6])?;
        let (u, g) = (random_gauge(geometry, 1), random_matrices(geometry.sites(), 2));
        let back: Vec<Matrix> = g.iter().map(adjoint).collect();
        let there = u.transformed(&g);
        assert!(there.links().iter().all(|link| deviation(link) < 1e-13));
        let same = there.transformed(&back);
        let apart = same.links().iter().zip(u.links()).map(|(a, b)| crate::su3::tests::distance(a, b));
        assert!(apart.fold(0.0, f64::max) < 1e-13);
        assert_eq!(u.of_direction(2)[7], *u.link(7, 2));
        Ok(())
    }
}
