//! Tests of the public interface, in one binary that is linked once.

mod bench_gpu;
mod bench_memory;
mod common;
mod contract;
mod devices;
mod exit_codes;
mod foreign;
mod gpu_checks;
mod hostile;
mod interrupts;
mod limits;
mod lqcd;
mod machine;
mod mutated;
mod outputs;
mod psa;
mod psa_simulate;
mod psa_track;
mod selftest;
mod simulate;
mod solve;
mod sparse;
mod terminal;
mod trust;
mod tune;
mod tutorials;
