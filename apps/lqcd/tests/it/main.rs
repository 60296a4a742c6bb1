//! Tests of files, and of published values if their data are available.

mod eigen;
mod files;
mod gpu;
mod precision;
mod reference;
mod sources;
mod written;
