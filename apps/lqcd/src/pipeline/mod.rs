//! Pipelines from parameters and gauge fields to results.

pub mod dslash;
mod history;
pub mod invert;
pub mod multishift;
pub mod reproduce;
pub mod results;
pub mod solver;

pub use dslash::dslash;
pub(crate) use invert::System;
pub use invert::{Options, Source, invert};
pub use multishift::{Shift, multishift};
pub use reproduce::{Published, remarks, reproduce};
pub use solver::{Method, Mixed, Solver};
