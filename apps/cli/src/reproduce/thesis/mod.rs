//! Items of the thesis.

pub mod chapter1;
pub mod formats;
pub mod matrices;
pub mod products;
pub mod pulses;
pub mod solvers;
pub mod theory;

pub use pulses::SharedSearches;
