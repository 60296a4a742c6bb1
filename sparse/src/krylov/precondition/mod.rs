//! Preconditioners.

mod jacobi;

pub use jacobi::Jacobi;
