//! Observables of gauge fields.

use crate::gauge::Gauge;
use crate::geometry::{DIRECTIONS, Neighbours, T};
use crate::su3::{C64, mul, real_trace_adjoint, trace};

/// Mean plaquettes, 1 for a field without any force.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Plaquettes {
    /// Mean over plaquettes between two space directions.
    pub ss: f64,
    /// Mean over plaquettes between a space direction and time.
    pub st: f64,
}

impl Plaquettes {
    /// Returns the mean of all plaquettes.
    pub fn mean(self) -> f64 {
        0.5 * (self.ss + self.st)
    }
}

/// Computes the plaquettes of a field.
pub fn plaquettes(u: &Gauge) -> Plaquettes {
    let (geometry, next) = (u.geometry(), Neighbours::new(u.geometry()));
    let (mut ss, mut st) = (0.0, 0.0);
    for nu in 1..DIRECTIONS {
        for mu in 0..nu {
            let of_site = |site| {
                let there = mul(u.link(site, mu), u.link(next.forward(site, mu), nu));
                let back = mul(u.link(site, nu), u.link(next.forward(site, nu), mu));
                real_trace_adjoint(&there, &back)
            };
            let sum: f64 = (0..geometry.sites() as u32).map(of_site).sum();
            *if nu == T { &mut st } else { &mut ss } += sum;
        }
    }
    // There are three planes of each kind, and three colours.
    let count = (9 * geometry.sites()) as f64;
    Plaquettes { ss: ss / count, st: st / count }
}

/// Returns the mean of `Re tr / 3` of all links. It is gauge-dependent, and distinguishes files.
pub fn link_trace(u: &Gauge) -> f64 {
    let sum: f64 = u.links().iter().map(|link| trace(link).re).sum();
    sum / (3 * u.links().len()) as f64
}

/// Returns the mean over space of `tr / 3` of the product of links around the lattice in time.
pub fn polyakov_loop(u: &Gauge) -> C64 {
    let [nx, ny, nz, nt] = u.geometry().extents();
    let mut sum = C64::default();
    for line in 0..nx * ny * nz {
        let at = |t| u.geometry().site([line % nx, line / nx % ny, line / (nx * ny), t]);
        let around = (1..nt).fold(*u.link(at(0), T), |product, t| mul(&product, u.link(at(t), T)));
        sum += trace(&around);
    }
    sum / (3 * nx * ny * nz) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::geometry::Geometry;
    use crate::su3::{ONE, scale};
    use crate::testing::{random_gauge, random_matrices};
    use proptest::prelude::*;
    use zellige_tests::cases;

    #[test]
    fn without_a_force_all_are_one() -> Result<(), Error> {
        let cold = Gauge::cold(Geometry::new([4, 4, 6, 8])?);
        assert_eq!(plaquettes(&cold), Plaquettes { ss: 1.0, st: 1.0 });
        assert_eq!((link_trace(&cold), polyakov_loop(&cold)), (1.0, C64::new(1.0, 0.0)));
        Ok(())
    }

    #[test]
    fn planes_of_time_are_told_from_those_of_space() -> Result<(), Error> {
        let geometry = Geometry::new([4, 4, 4, 6])?;
        let long = Gauge::from_fn(geometry, |_, mu| if mu == T { scale(2.0, &ONE) } else { ONE });
        assert_eq!(plaquettes(&long), Plaquettes { ss: 1.0, st: 4.0 });
        assert_eq!((link_trace(&long), polyakov_loop(&long).re), (1.25, 64.0));
        Ok(())
    }

    proptest! {
        #![proptest_config(cases(8))]

        #[test]
        fn a_change_of_gauge_leaves_them(seed in any::<u64>(), extent in prop_oneof![Just(4usize), Just(6)]) {
            let geometry = Geometry::new([4, extent, 4, 4]).expect("a lattice");
            let u = random_gauge(geometry, seed);
            let change = random_matrices(geometry.sites(), seed ^ 1);
            let other = u.transformed(&change);
            let (a, b) = (plaquettes(&u), plaquettes(&other));
            prop_assert!((a.ss - b.ss).abs() < 1e-13 && (a.st - b.st).abs() < 1e-13);
            prop_assert!((polyakov_loop(&u) - polyakov_loop(&other)).norm() < 1e-13);
            // Links alone do change: those of the cold field become random.
            prop_assert!(link_trace(&Gauge::cold(geometry).transformed(&change)) < 0.5);
        }
    }
}
