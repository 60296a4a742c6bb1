//! Small dense matrices and factors of sparse ones in float64, on one thread: the functions of faer
//! that `tor` and `sparse` use.
//!
//! faer is generic, so every caller compiles it. That takes minutes in every crate and once more
//! for its tests. Here that happens once, in functions that are not generic. Types are faer's own.
#![forbid(unsafe_code)]

pub mod sparse;

use faer::linalg::cholesky::llt::factor::LltError;
use faer::linalg::evd::EvdError;
use faer::linalg::solvers::{DenseSolveCore, Llt, SelfAdjointEigen, Solve, Svd};
use faer::linalg::svd::SvdError;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};

/// Computes `c = alpha a b` or, with `add`, `c += alpha a b`.
pub fn gemm(c: MatMut<'_, f64>, add: bool, a: MatRef<'_, f64>, b: MatRef<'_, f64>, alpha: f64) {
    let accum = if add { Accum::Add } else { Accum::Replace };
    faer::linalg::matmul::matmul(c, accum, a, b, alpha, Par::Seq);
}

/// Returns `L` with `L L^T = A`; only the lower triangle of `A` is read.
///
/// # Errors
/// A pivot is not positive.
pub fn cholesky(a: MatRef<'_, f64>) -> Result<Llt<f64>, LltError> {
    Llt::new(a, Side::Lower)
}

/// Computes `B = A^-1 B` with the factors of `A`.
pub fn cholesky_solve(factors: &Llt<f64>, b: MatMut<'_, f64>) {
    factors.solve_in_place(b);
}

/// Returns `A^-1`, computed with the factors of `A`.
pub fn cholesky_inverse(factors: &Llt<f64>) -> Mat<f64> {
    factors.inverse()
}

/// Returns `A^-1` by elimination with complete pivoting.
pub fn inverse(a: MatRef<'_, f64>) -> Mat<f64> {
    a.full_piv_lu().inverse()
}

/// Returns `A^-1 B` by elimination with complete pivoting.
pub fn solve(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    a.full_piv_lu().solve(b)
}

/// Returns the eigenvalues, ascending, of a symmetric matrix; only the lower triangle is read.
///
/// # Errors
/// The iteration does not converge.
pub fn eigenvalues(a: MatRef<'_, f64>) -> Result<Vec<f64>, EvdError> {
    a.self_adjoint_eigenvalues(Side::Lower)
}

/// Returns the eigenvalues and eigenvectors of a symmetric matrix; only the lower triangle is read.
///
/// # Errors
/// The iteration does not converge.
pub fn eigen(a: MatRef<'_, f64>) -> Result<SelfAdjointEigen<f64>, EvdError> {
    SelfAdjointEigen::new(a, Side::Lower)
}

/// Returns the singular values, descending.
///
/// # Errors
/// The iteration does not converge.
pub fn singular_values(a: MatRef<'_, f64>) -> Result<Vec<f64>, SvdError> {
    a.singular_values()
}

/// Returns the singular value decomposition.
///
/// # Errors
/// The iteration does not converge.
pub fn svd(a: MatRef<'_, f64>) -> Result<Svd<f64>, SvdError> {
    a.svd()
}
