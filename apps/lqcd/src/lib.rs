//! Lattice QCD with staggered and Wilson quarks: gauge fields and measurements on them.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`geometry`] | sites in their order, neighbours, slabs of time slices |
//! | [`su3`] | matrices and vectors of colour |
//! | [`gauge`] | the links of a lattice; gauge transformations |
//! | [`observables`] | plaquettes, link trace, Polyakov loop |
//! | [`smear`], [`unitarise`] | links of improved actions, projection to U(3) |
//! | [`precision`] | how links and quark fields are stored |
//! | [`dslash`], [`normal`] | the staggered operator, and what is solved with it |
//! | [`wilson`] | the operator of Wilson quarks, and what is solved with it |
//! | [`modes`] | lowest eigenvectors of the operator |
//! | [`generate`] | gauge fields without quarks |
//! | [`files`] | gauge fields in files |
//! | [`pipeline`] | propagators, results |
//! | [`report`] | pages of results |
//! | [`trust`] | exact digits of results, by stochastic arithmetic |
//! | [`tune`] | formats of a solver, for a search of the cheapest ones |
//!
//! Directions are 0 to 3 for x, y, z and t. The link `U_mu(x)` leads from `x` to `x + mu`.
#![deny(unsafe_code)]

pub mod dslash;
pub mod error;
pub mod files;
pub mod gauge;
pub mod generate;
pub mod geometry;
pub mod modes;
pub mod normal;
pub mod observables;
pub mod pipeline;
pub mod precision;
pub mod report;
pub mod smear;
pub mod su3;
#[cfg(test)]
mod testing;
pub mod trust;
pub mod tune;
pub mod unitarise;
pub mod wilson;

pub use dslash::Boundary;
pub use error::Error;
pub use gauge::Gauge;
pub use geometry::{Geometry, Neighbours, Parity};
pub use precision::Precision;
pub use smear::Action;
