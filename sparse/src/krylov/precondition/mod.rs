//! Preconditioners.

mod factor;
mod ilu;
mod jacobi;

pub use ilu::Ilu;
pub use jacobi::Jacobi;

#[cfg(test)]
mod tests;
