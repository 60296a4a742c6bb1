//! Tests of the public interface, in one binary that is linked once.

mod acceptance;
mod change;
mod common;
mod covariance;
mod cuda_compile;
mod cuda_twins;
mod evaluate;
mod few_bits;
mod field;
mod files;
mod formats;
mod gpu;
mod learn;
mod loops;
mod moao;
mod nodes;
mod own_systems;
mod params;
mod pipeline;
mod prediction;
mod published;
mod ranks;
mod reference;
mod simulate;
mod trust;
