//! Self-tests: kernels against float64, applications and GPUs against the CPU, random task graphs
//! against a sequential run.
//!
//! | module | what is checked |
//! |---|---|
//! | [`kernels`] | every kernel of factorisations and solves in every precision on random tiles |
//! | [`applications`] | kernels of sparse solvers, searches and covariances on a GPU |
//! | [`gpu`] | one GPU, and several at once |
//! | [`faulty_kernel`], [`too_much_memory`] | injected faults |
//!
//! [`Checks`] runs all of them, as `zellige selftest` does.

pub mod applications;
mod checks;
mod faults;
pub mod gpu;
pub mod kernels;
pub mod outcome;
mod probe;

pub use checks::{Checks, Report};
pub use faults::{faulty_kernel, too_much_memory};

/// Why one check failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}
