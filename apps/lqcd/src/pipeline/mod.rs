//! Pipelines from parameters and gauge fields to results.

pub mod dslash;
pub mod eigen;
mod history;
pub mod invert;
pub mod multishift;
pub mod reproduce;
pub mod results;
pub mod solver;

pub use dslash::dslash;
pub use eigen::{EigenOptions, eigen};
pub(crate) use invert::System;
pub use invert::{Deflation, Options, Source, invert, invert_with};
pub use multishift::{Shift, multishift};
pub use reproduce::{Published, reproduce};
pub use solver::{Method, Mixed, Solver};
