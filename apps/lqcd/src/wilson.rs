//! Operators of Wilson quarks.
//!
//! `M = 4 + m0 - H / 2` with the hopping term
//!
//! `(H x)(s) = sum_mu [ (1 - gamma_mu) U_mu(s) x(s + mu)
//!            + (1 + gamma_mu) U_mu(s - mu)^H x(s - mu) ]`
//!
//! and the gamma matrices [`GAMMA`](crate::dslash::GAMMA). `m0` is the bare mass, which may be
//! negative; the hopping parameter is `kappa = 1 / (2 m0 + 8)`, and `2 kappa M = 1 - kappa H`.
//!
//! `H` connects sites of different parity. With `A = 4 + m0`, the solution of `M x = b` for a
//! source on the sites of one parity is there that of `(A - H H / 4 A) x = b`, and `H x / 2 A` on
//! the others. This even-odd preconditioned operator is not hermitian. As
//! `gamma_5 H gamma_5 = H^H`, its adjoint has the same hops with the signs of `gamma_mu` exchanged.

use zellige_krylov::method::Steps;
use zellige_krylov::{MultiVector, Operator, Space, Storage};
use zellige_runtime::Submit;

use crate::dslash::{Boundary, Dslash};
use crate::gauge::Gauge;
use crate::geometry::Parity;
use crate::normal::{Between, EvenOdd};
use crate::precision::{Precision, Sites};
use crate::su3::C64;

/// The operator `A - H H / 4 A` with `A = 4 + m0`, on the sites of one parity.
#[derive(Debug)]
pub struct Wilson {
    mass: f64,
    hops: EvenOdd,
}

impl Wilson {
    /// Builds the operator for a bare mass, on the sites of a parity. `precision` defines the
    /// storage of the links and the arithmetic of the products.
    pub fn new(
        target: &impl Submit,
        u: &Gauge,
        mass: f64,
        parity: Parity,
        boundary: Boundary,
        precision: Precision,
    ) -> Wilson {
        let to = |parity| Dslash::wilson(target, u, parity, boundary, precision);
        Wilson { mass, hops: EvenOdd::new(parity, to) }
    }

    /// Returns the mass term, `A = 4 + m0`.
    pub fn mass_term(mass: f64) -> f64 {
        4.0 + mass
    }

    /// Returns the hopping parameter, `1 / (2 m0 + 8)`.
    pub fn kappa(mass: f64) -> f64 {
        0.5 / Wilson::mass_term(mass)
    }

    /// Returns an upper bound of the eigenvalues of [`WilsonNormal`]: `H` has the norm 8 at most.
    pub(crate) fn bound(mass: f64) -> f64 {
        let a = Wilson::mass_term(mass);
        (a + 16.0 / a).powi(2)
    }

    /// Returns the hopping term to the other parity.
    pub fn to_other_parity(&self) -> &Dslash {
        &self.hops.there
    }

    /// Records the product with the operator, or with its adjoint.
    fn record(
        &self,
        adjoint: bool,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
    ) -> Result<(), zellige_krylov::Error> {
        let a = Wilson::mass_term(self.mass);
        self.hops.apply(adjoint, steps, x, y, [-0.25 / a, a])
    }
}

impl Operator<C64> for Wilson {
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
        self.record(false, steps, x, y)
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
    ) -> Result<(), zellige_krylov::Error> {
        self.record(true, steps, x, y)
    }
}

/// The operator `W^H W` of a [`Wilson`] operator `W`: hermitian and positive, for conjugate
/// gradients.
#[derive(Debug)]
pub struct WilsonNormal {
    /// The operator `W`.
    pub of: Wilson,
    between: Between,
}

impl WilsonNormal {
    /// Makes the operator.
    pub fn new(of: Wilson) -> WilsonNormal {
        WilsonNormal { of, between: Between::default() }
    }
}

impl Operator<C64> for WilsonNormal {
    fn domain(&self) -> &Space {
        self.of.domain()
    }

    fn bytes(&self) -> u64 {
        2 * self.of.bytes()
    }

    fn memory(&self) -> u64 {
        // A complex number has two words.
        self.of.memory() + self.domain().bytes(2)
    }

    fn accuracy(&self) -> f64 {
        self.of.accuracy()
    }

    fn takes(&self, storage: &dyn Storage<C64>) -> bool {
        self.of.takes(storage)
    }

    fn apply(
        &self,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
    ) -> Result<(), zellige_krylov::Error> {
        let between = self.between.like(steps, self.domain(), x);
        self.of.record(false, steps, x, &between)?;
        self.of.record(true, steps, &between, y)
    }
}

#[cfg(test)]
mod tests;
