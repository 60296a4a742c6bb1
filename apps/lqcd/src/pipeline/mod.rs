//! From parameters and gauge fields to results.

pub mod invert;
pub mod results;

pub use invert::{Options, Source, invert};
