//! Lowest eigenvalues of Hermitian operators, and solvers that make use of them.

mod deflated;
mod filter;
mod lanczos;
mod subspace;
mod symmetric;

pub use deflated::Deflated;
pub use lanczos::{EigenPairs, Lanczos};
pub use subspace::Subspace;
