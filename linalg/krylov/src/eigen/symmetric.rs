//! Eigenvalues of small real symmetric matrices.

/// Maximum number of sweeps: a few more than matrices of some hundred rows need.
const SWEEPS: usize = 60;

/// Computes the eigenvalues of a real symmetric matrix, in descending order, and for each its
/// eigenvector, by the cyclic Jacobi method (Golub and Van Loan 2013, section 8.5).
pub(super) fn eigen(mut a: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = a.len();
    let mut vectors: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| f64::from(i == j)).collect()).collect();
    for _ in 0..SWEEPS {
        let mut is_diagonal = true;
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q].abs() > f64::EPSILON * (a[p][p] * a[q][q]).abs().sqrt() * 0.1 {
                    is_diagonal = false;
                    rotate(&mut a, &mut vectors, [p, q]);
                }
            }
        }
        if is_diagonal {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j][j].total_cmp(&a[i][i]));
    let values = order.iter().map(|&i| a[i][i]).collect();
    (values, order.iter().map(|&i| std::mem::take(&mut vectors[i])).collect())
}

/// Makes entry `(p, q)` zero. Row `p` of `vectors` is eigenvector `p`.
fn rotate(a: &mut [Vec<f64>], vectors: &mut [Vec<f64>], [p, q]: [usize; 2]) {
    let tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    let t = f64::copysign(1.0, tau) / (tau.abs() + 1.0f64.hypot(tau));
    let c = 1.0 / 1.0f64.hypot(t);
    let s = t * c;
    for row in a.iter_mut() {
        (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
    }
    for matrix in [a, vectors] {
        let (above, below) = matrix.split_at_mut(q);
        for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
            (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second difference matrix has eigenvalues `2 - 2 cos(k pi / (n + 1))`.
    #[test]
    fn values_are_those_of_the_closed_form() {
        let n = 30;
        let entry = |i: usize, j: usize| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        };
        let a: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect();
        let (values, vectors) = eigen(a.clone());
        for (k, (value, v)) in values.iter().zip(&vectors).enumerate() {
            let exact = 2.0 - 2.0 * ((n - k) as f64 * std::f64::consts::PI / (n + 1) as f64).cos();
            assert!((value - exact).abs() < 1e-13, "{k}: {value} {exact}");
            for (row, x) in a.iter().zip(v) {
                let product: f64 = row.iter().zip(v).map(|(a, x)| a * x).sum();
                assert!((product - value * x).abs() < 1e-13);
            }
        }
        assert_eq!(eigen(vec![vec![0.0; 2]; 2]).0, [0.0, 0.0]);
    }
}
