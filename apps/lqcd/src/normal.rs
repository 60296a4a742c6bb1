//! The even-odd preconditioned operator of a quark with a mass.

use std::sync::Arc;

use zellige_kernels::sites::SiteFormat;
use zellige_krylov::method::{Steps, Workspace};
use zellige_krylov::{MultiVector, Operator, Space, Storage};
use zellige_runtime::Submit;

use crate::dslash::{Boundary, Dslash};
use crate::geometry::Parity;
use crate::precision::{Compute, Precision, Sites};
use crate::smear::Smeared;
use crate::su3::C64;

/// The operator `4 m^2 - D D` on the sites of one parity: hermitian and positive definite, with no
/// eigenvalue below `4 m^2`. It is `M^H M` for `M = 2 m + D`, which does not mix parities.
#[derive(Debug)]
pub struct Normal {
    mass: f64,
    hops: EvenOdd,
}

/// Intermediate vectors of products, for each vector format.
#[derive(Debug, Default)]
pub(crate) struct Between([Workspace<MultiVector<C64>>; SiteFormat::ALL.len()]);

impl Between {
    /// Returns a vector of a space with the columns and the storage of `x`.
    pub fn like(&self, steps: &Steps<'_, C64>, space: &Space, x: &MultiVector<C64>) -> Arc<MultiVector<C64>> {
        let (columns, storage) = (steps.columns(), Arc::clone(x.storage()));
        let format = Sites::format_of(&*storage).unwrap_or(SiteFormat::Fp64);
        let at = SiteFormat::ALL.iter().position(|one| *one == format).unwrap_or_default();
        let zeros = || MultiVector::stored(steps.executor(), space, columns, storage);
        self.0[at].of(columns, zeros)
    }
}

/// Operators from the sites of a parity to the other parity, and back.
#[derive(Debug)]
pub(crate) struct EvenOdd {
    pub there: Dslash,
    pub back: Dslash,
    between: Between,
}

impl EvenOdd {
    /// Makes the two operators with a function of the parity of their results.
    pub fn new(parity: Parity, to: impl Fn(Parity) -> Dslash) -> EvenOdd {
        EvenOdd { there: to(parity.other()), back: to(parity), between: Between::default() }
    }

    /// Returns the bytes of the links.
    pub fn bytes(&self) -> u64 {
        self.there.bytes() + self.back.bytes()
    }

    /// Returns the bytes of the links and of a vector between the two.
    pub fn memory(&self) -> u64 {
        // A complex number has two words.
        self.bytes() + self.back.space().bytes(2)
    }

    /// Returns the relative accuracy of products.
    pub fn accuracy(&self) -> f64 {
        let Precision { gauge, compute, .. } = self.back.precision();
        let products = if compute == Compute::Single { f32::EPSILON.into() } else { f64::EPSILON };
        gauge.number.unit_roundoff().max(products / 2.0)
    }

    /// Records `y = factor D D x + diagonal x`; `conjugated` as in [`Dslash::apply_as`].
    pub fn apply(
        &self,
        conjugated: bool,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
        [factor, diagonal]: [f64; 2],
    ) -> Result<(), zellige_krylov::Error> {
        let between = self.between.like(steps, self.there.space(), x);
        self.there.apply_as(conjugated, steps, x, &between, 1.0, None)?;
        self.back.apply_as(conjugated, steps, &between, y, factor, Some((diagonal, x)))
    }
}

impl Normal {
    /// Builds the operator for a mass, on the sites of a parity. `precision` defines the storage of
    /// the links and the arithmetic of the products.
    pub fn new(
        target: &impl Submit,
        smeared: &Smeared,
        mass: f64,
        parity: Parity,
        boundary: Boundary,
        precision: Precision,
    ) -> Self {
        let to = |parity| Dslash::new(target, smeared, parity, boundary, precision);
        Normal { mass, hops: EvenOdd::new(parity, to) }
    }

    /// Returns the mass term, `4 m^2`.
    pub fn mass_term(mass: f64) -> f64 {
        4.0 * mass * mass
    }

    /// Returns the mass.
    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// Returns the operator to the other parity.
    pub fn to_other_parity(&self) -> &Dslash {
        &self.hops.there
    }

    /// Returns the operator back from the other parity.
    pub(crate) fn back_to_parity(&self) -> &Dslash {
        &self.hops.back
    }
}

impl Operator<C64> for Normal {
    fn domain(&self) -> &Space {
        self.hops.back.space()
    }

    fn bytes(&self) -> u64 {
        self.hops.bytes()
    }

    fn memory(&self) -> u64 {
        self.hops.memory()
    }

    fn accuracy(&self) -> f64 {
        self.hops.accuracy()
    }

    fn takes(&self, storage: &dyn Storage<C64>) -> bool {
        Sites::format_of(storage).is_some()
    }

    fn apply(
        &self,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
    ) -> Result<(), zellige_krylov::Error> {
        self.hops.apply(false, steps, x, y, [-1.0, Normal::mass_term(self.mass)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::geometry::{COLOURS, Geometry};
    use crate::smear::{Action, smear};
    use crate::su3::{Matrix, apply as times};
    use crate::testing::{random_gauge, random_matrices};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use zellige_krylov::method::NumbersHandle;
    use zellige_krylov::multiply;
    use zellige_runtime::{Bindings, Runtime};

    fn field(geometry: Geometry, seed: u64) -> Vec<C64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut next = || random.random_range(-1.0..1.0);
        (0..geometry.half() * COLOURS).map(|_| C64::new(next(), next())).collect()
    }

    fn dot(x: &[C64], y: &[C64]) -> C64 {
        x.iter().zip(y).map(|(x, y)| x.conj() * y).sum()
    }

    fn apply(rt: &Runtime, d: &Dslash, x: &[C64]) -> Result<Vec<C64>, Error> {
        let (x, y) = (MultiVector::from_column(rt, d.space(), x), MultiVector::zeros(rt, d.space(), 1));
        let numbers = NumbersHandle::new(rt, 1, 0);
        let graph =
            rt.record(|graph| d.apply(&Steps::new(rt, graph, d.space(), &numbers), &x, &y, 1.0, None))?;
        rt.replay(&Bindings::recorded(&graph))?;
        Ok(y.column(rt, 0)?)
    }

    /// Returns a lattice of several slabs, with a shorter last one.
    fn lattice() -> Geometry {
        Geometry::new([4, 6, 8, 14]).expect("a lattice")
    }

    #[test]
    fn d_is_antihermitian() -> Result<(), Error> {
        let rt = Runtime::builder().workers(2).build()?;
        for geometry in [lattice(), Geometry::new([4, 4, 4, 4])?] {
            let u = random_gauge(geometry, 1);
            let (x, y) = (field(geometry, 2), field(geometry, 3));
            for action in [Action::Naive, Action::HISQ] {
                for boundary in [Boundary::Periodic, Boundary::Antiperiodic] {
                    let smeared = smear(&rt, &u, action)?;
                    let [even, odd] =
                        Parity::BOTH.map(|to| Dslash::new(&rt, &smeared, to, boundary, Precision::DOUBLE));
                    let (a, b) = (dot(&x, &apply(&rt, &even, &y)?), dot(&apply(&rt, &odd, &x)?, &y));
                    assert!((a + b).norm() < 1e-10 * a.norm(), "{a} {b}");
                    assert!(a.norm() > 1e-3);
                }
            }
        }
        Ok(())
    }

    /// The reference is the formula evaluated site by site, without tables, slabs or folded links.
    #[test]
    fn d_is_what_the_formula_says() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(2).build()?, lattice());
        assert!(geometry.space().parts() > 1);
        let smeared = smear(&rt, &random_gauge(geometry, 1), Action::HISQ)?;
        let long = smeared.long.as_ref().expect("improved");
        let x = field(geometry, 2);
        for to in Parity::BOTH {
            let d =
                apply(&rt, &Dslash::new(&rt, &smeared, to, Boundary::Antiperiodic, Precision::DOUBLE), &x)?;
            for (s, site) in geometry.sites_of(to).enumerate() {
                let [a, b, c, t] = geometry.coordinates(site);
                let signs = [t, t + a, t + a + b, 0].map(|sum| if sum % 2 == 0 { 1.0 } else { -1.0 });
                let mut sum = [C64::default(); COLOURS];
                for mu in 0..4 {
                    for (field, hops) in [(&smeared.fat, 1isize), (long, 3)] {
                        for towards in [hops, -hops] {
                            let next = geometry.neighbour(site, mu, towards);
                            let there = (next as usize % geometry.half()) * COLOURS;
                            let v = [x[there], x[there + 1], x[there + 2]];
                            let part = match towards > 0 {
                                true => times(field.link(site, mu), &v),
                                false => times(&crate::su3::adjoint(field.link(next, mu)), &v).map(|z| -z),
                            };
                            let end = t as isize + towards;
                            let wraps = mu == 3 && !(0..geometry.extents()[3] as isize).contains(&end);
                            let sign = if wraps { -signs[mu] } else { signs[mu] };
                            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part * sign);
                        }
                    }
                }
                assert!((0..3).all(|k| (sum[k] - d[3 * s + k]).norm() < 1e-12), "[{a}, {b}, {c}, {t}]");
            }
        }
        Ok(())
    }

    #[test]
    fn a_change_of_gauge_turns_what_it_makes() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(2).build()?, lattice());
        let (u, g) = (random_gauge(geometry, 1), random_matrices(geometry.sites(), 4));
        let turned = |x: &[C64], g: &[Matrix]| -> Vec<C64> {
            let sites = x.chunks_exact(3).zip(g);
            sites.flat_map(|(x, g)| times(g, &[x[0], x[1], x[2]])).collect()
        };
        let x = field(geometry, 2);
        for parity in Parity::BOTH {
            let sites = geometry.sites_of(parity);
            let g_here = &g[sites.start as usize..sites.end as usize];
            let operator = |u| -> Result<Normal, Error> {
                let (smeared, double) = (smear(&rt, u, Action::HISQ)?, Precision::DOUBLE);
                Ok(Normal::new(&rt, &smeared, 0.05, parity, Boundary::Antiperiodic, double))
            };
            let first = turned(&multiply(&rt, &operator(&u)?, &x)?, g_here);
            let second = multiply(&rt, &operator(&u.transformed(&g))?, &turned(&x, g_here))?;
            let apart = first.iter().zip(&second).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
            assert!(apart < 1e-10, "{apart:e}");
        }
        Ok(())
    }

    #[test]
    fn the_operator_is_hermitian_and_positive_with_the_same_bits_for_each_column_and_worker()
    -> Result<(), Error> {
        let geometry = lattice();
        let (x, y) = (field(geometry, 2), field(geometry, 3));
        let mut results = Vec::new();
        for workers in [1, 2] {
            let rt = Runtime::builder().workers(workers).build()?;
            let smeared = smear(&rt, &random_gauge(geometry, 1), Action::HISQ)?;
            let a = Normal::new(&rt, &smeared, 0.3, Parity::Even, Boundary::Antiperiodic, Precision::DOUBLE);
            let (ax, ay) = (multiply(&rt, &a, &x)?, multiply(&rt, &a, &y)?);
            assert!((dot(&y, &ax) - dot(&ay, &x)).norm() < 1e-9 * dot(&y, &ax).norm());
            let energy = dot(&x, &ax);
            assert!(energy.re >= 0.36 * dot(&x, &x).re && energy.im.abs() < 1e-9 * energy.re);
            // Both columns in one block.
            let both = MultiVector::from_columns(&rt, a.domain(), &[&x, &y]);
            let made = MultiVector::zeros(&rt, a.domain(), 2);
            let numbers = NumbersHandle::new(&rt, 2, 0);
            let graph =
                rt.record(|graph| a.apply(&Steps::new(&rt, graph, a.domain(), &numbers), &both, &made))?;
            rt.replay(&Bindings::recorded(&graph))?;
            assert_eq!((made.column(&rt, 0)?, made.column(&rt, 1)?), (ax.clone(), ay));
            results.push(ax);
        }
        assert_eq!(results[0], results[1]);
        Ok(())
    }
}
