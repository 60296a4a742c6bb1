//! Generalised minimal residuals.

mod arnoldi;
mod basis;
mod cycle;
mod hessenberg;
mod relaxed;

pub use arnoldi::Orthogonalisation;
pub use cycle::Gmres;
pub use relaxed::RelaxedGmres;
