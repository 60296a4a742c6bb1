//! Small systems solved by elimination, for tests to compare with.

use faer::Mat;

use crate::csr::Csr;

fn dense(a: &Csr) -> Mat<f64> {
    Mat::from_fn(a.rows(), a.columns(), |i, j| a.get(i, j))
}

/// `A^-1 b` by LU factors.
pub fn solved(a: &Csr, b: &[f64]) -> Vec<f64> {
    let x = zellige_faer::solve(dense(a).as_ref(), Mat::from_fn(b.len(), 1, |i, _| b[i]).as_ref());
    (0..a.columns()).map(|i| x[(i, 0)]).collect()
}

/// The condition number: the largest singular value beside the smallest.
pub fn condition(a: &Csr) -> f64 {
    let singular = zellige_faer::singular_values(dense(a).as_ref()).expect("singular values");
    singular[0] / singular[a.rows() - 1]
}
