//! Small systems solved by elimination, for tests to compare with.

use faer::Mat;

use crate::csr::Csr;

fn dense(a: &Csr) -> Mat<f64> {
    Mat::from_fn(a.rows(), a.columns(), |i, j| a.get(i, j))
}

/// Returns `A^-1 b` by elimination with partial pivoting.
pub fn solved(a: &Csr, b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut rows: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| a.get(i, j)).chain([b[i]]).collect()).collect();
    for k in 0..n {
        let pivot = (k..n).max_by(|i, j| rows[*i][k].abs().total_cmp(&rows[*j][k].abs())).expect("a row");
        rows.swap(k, pivot);
        let (above, below) = rows.split_at_mut(k + 1);
        for row in below.iter_mut().filter(|row| row[k] != 0.0) {
            let factor = row[k] / above[k][k];
            (k..=n).for_each(|j| row[j] -= factor * above[k][j]);
        }
    }
    let mut x = vec![0.0; n];
    for k in (0..n).rev() {
        let rest: f64 = (k + 1..n).map(|j| rows[k][j] * x[j]).sum();
        x[k] = (rows[k][n] - rest) / rows[k][k];
    }
    x
}

/// Returns the condition number: the largest singular value divided by the smallest.
pub fn condition(a: &Csr) -> f64 {
    let singular = zellige_faer::singular_values(dense(a).as_ref()).expect("singular values");
    singular[0] / singular[a.rows() - 1]
}
