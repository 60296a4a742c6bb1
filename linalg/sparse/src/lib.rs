//! Sparse matrices with nonzeros in adaptive precision, preconditioners and solvers.
//!
//! | module | contents |
//! |---|---|
//! | [`Csr`] | CSR matrices in FP64 |
//! | [`files`] | matrices and vectors in files of any format that is read; Matrix Market files |
//! | [`generate`] | matrices of flow, elasticity, consolidation, transport and Stokes problems |
//! | [`adaptive`] | storage format of each nonzero, the layout of the thesis, error bounds |
//! | [`describe()`] | statistics of a matrix |
//! | [`system`] | solvers of `A x = b`, the user interface |
//! | [`Stored`] | a matrix as an operator, each nonzero in the precision that it needs |
//! | [`precondition`] | preconditioners |
//! | [`krylov`] | Krylov methods, vectors and operators (the crate `zellige-krylov`) |
//! | [`exact`] | products in doubled precision, and backward errors from them |
//!
//! Solution of a system in one call, by the method that the matrix suggests:
//!
//! ```
//! use zellige_runtime::Runtime;
//! use zellige_sparse::{Csr, solve};
//!
//! // 2 on the diagonal, -1 beside it: row, column, value.
//! let n = 1000;
//! let beside = (1..n).flat_map(|i| [(i, i - 1, -1.0), (i - 1, i, -1.0)]);
//! let a = Csr::from_triplets(n as usize, n as usize, &(0..n).map(|i| (i, i, 2.0)).chain(beside).collect::<Vec<_>>())?;
//! let x = solve(&Runtime::new()?, &a, &vec![1.0; n as usize], 1e-10)?;
//! assert!((x[0] - 500.0).abs() < 1e-3);
//! # Ok::<(), zellige_sparse::Error>(())
//! ```
//!
//! Storing a matrix in adaptive precision:
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
mod concurrent;
mod csr;
mod describe;
#[cfg(test)]
mod direct;
pub mod exact;
pub mod files;
pub mod generate;
mod matching;
pub mod precondition;
mod reorder;
mod stored;
pub mod system;

pub use csr::Csr;
pub use describe::{Description, describe, describe_complex};
pub use stored::Stored;
pub use zellige_krylov as krylov;
pub use zellige_krylov::Error;

/// Solves `A x = b` by the method that the matrix suggests, until the norm of the recomputed
/// residual is at most `tolerance` times that of `b` in the 2-norm. [`system`] has options, several
/// right-hand sides, shifts, and details of the answer.
///
/// # Errors
/// Those of [`system::solve`]; [`Error::Unsolvable`] with the reason and the residual if the
/// tolerance is not reached.
pub fn solve(
    rt: &dyn zellige_krylov::Executor,
    a: &Csr,
    b: &[f64],
    tolerance: f64,
) -> Result<Vec<f64>, Error> {
    let stop = vec![krylov::Stop::RelativeToRhs(tolerance), krylov::Stop::Steps(10_000)];
    let mut x = vec![0.0; a.columns()];
    let answer = system::solve(rt, a, b, &mut x, &system::Options { stop, ..Default::default() }, &mut ())?;
    let solution = answer.solution;
    if solution.reason.is_converged() {
        return Ok(x);
    }
    let residual = solution.true_residual / solution.rhs;
    let problem = format!(
        "no method reached {tolerance:e}: the best relative residual is {residual:.1e} ({})",
        solution.reason.name()
    );
    Err(Error::unsolvable("system", problem))
}

#[cfg(test)]
mod tests;
