//! Preconditioners.

mod amg;
mod chebyshev;
mod factor;
mod ilu;
mod jacobi;
mod rows;

pub use amg::Amg;
pub use chebyshev::Chebyshev;
pub use ilu::Ilu;
pub use jacobi::Jacobi;

#[cfg(test)]
mod tests;
