//! Sparse matrices whose elements have the precision that their magnitude deserves.
//!
//! | module | what it holds |
//! |---|---|
//! | [`csr`] | matrices by rows, in `f64` |
//! | [`market`] | Matrix Market files |
//! | [`generate`] | matrices of flow, elasticity, consolidation, transport and Stokes problems |
//! | [`adaptive`] | which element is stored in which format, the layout of the thesis, error bounds |
//! | [`describe()`] | what a matrix is like |
//! | [`system`] | solving `A x = b`: what users call |
//! | [`Stored`] | a matrix as an operator, each element in the precision that it needs |
//! | [`precondition`] | preconditioners |
//! | [`krylov`] | Krylov methods, vectors and operators (the crate `zellige-krylov`) |
//! | [`reorder`] | orders of unknowns |
//! | [`exact`] | products in doubled precision, and backward errors by them |
//!
//! ```
//! use zellige_sparse::adaptive::{Adaptation, Criterion, FormatSet, ThesisMatrix};
//! use zellige_sparse::exact::ExactProduct;
//! use zellige_sparse::generate::{Flow, flow};
//!
//! let a = flow(&Flow { cells: [12, 10, 8], ..Flow::default() })?;
//! let adaptation = Adaptation::new(FormatSet::Ap7, Criterion::Normwise, "2^-24".parse()?);
//! let narrow = ThesisMatrix::new(&a, &adaptation)?;
//!
//! let (x, mut y) = (vec![1.0; a.columns()], vec![0.0; a.rows()]);
//! narrow.multiply(&x, &mut y)?;
//! assert!(ExactProduct::of(&a, &x)?.backward_error(&y)?.normwise < 10.0 * 2f64.powi(-24));
//! assert!(narrow.bytes() < a.bytes());
//! # Ok::<(), zellige_sparse::Error>(())
//! ```
#![deny(unsafe_code)]
#![deny(missing_docs)]

pub mod adaptive;
pub mod csr;
mod describe;
#[cfg(test)]
mod direct;
pub mod exact;
pub mod generate;
pub mod market;
pub mod precondition;
pub mod reorder;
mod side_by_side;
mod stored;
pub mod system;

pub use csr::Csr;
pub use describe::{Description, describe};
pub use stored::{Stored, best_edge};
pub use zellige_krylov as krylov;
pub use zellige_krylov::Error;

#[cfg(test)]
mod tests;
