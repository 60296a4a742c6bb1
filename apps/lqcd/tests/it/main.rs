//! Tests of files, and of published values where their data are at hand.

mod files;
mod gpu;
mod precision;
mod reference;
mod written;
