//! Preconditioners.

mod amg;
mod block;
mod block_jacobi;
mod chebyshev;
mod factor;
mod ilu;
mod jacobi;
mod lu;
mod sweep;
mod triangle;

pub use amg::{Amg, AmgSetup, NearNull};
pub use block_jacobi::BlockJacobi;
pub use chebyshev::Chebyshev;
pub use ilu::Ilu;
pub use jacobi::Jacobi;
pub use lu::Lu;

#[cfg(test)]
mod tests;
