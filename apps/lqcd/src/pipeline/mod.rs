//! Pipelines from parameters and gauge fields to results.

pub mod dslash;
pub mod eigen;
mod history;
pub mod invert;
pub mod multishift;
mod options;
mod problem;
pub(crate) mod propagator;
pub mod reproduce;
pub mod results;
pub mod solver;
mod solving;
mod source;
mod wilson;

pub use dslash::dslash;
pub use eigen::{EigenOptions, eigen};
pub(crate) use invert::System;
pub use invert::{Propagator, invert, propagator};
pub use multishift::{Shift, multishift};
pub use options::Options;
pub use problem::{Deflation, LinkField, Problem};
pub use reproduce::{Published, reproduce};
pub use solver::{Method, Mixed, Solver};
pub use source::Source;
