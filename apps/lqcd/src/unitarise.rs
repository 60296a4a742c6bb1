//! The unitary matrix nearest to a 3 x 3 matrix.

use crate::su3::{
    C64, Matrix, ONE, add, adjoint, determinant, inverse, mul_adjoint, norm_sqr, scale, third_row,
};

/// Threshold for singular values, relative to the determinant with equal singular values. Below it
/// they are too different for an iteration with inverses.
const SMALL: f64 = 1e-5;
/// Maximum number of steps of the iteration, which converges quadratically.
const MOST_STEPS: usize = 30;
/// Singular values below this fraction of the largest one count as zero.
const RANK: f64 = 1e-13;

/// Unitary factor of a polar decomposition.
#[derive(Clone, Copy, Debug)]
pub struct Unitary {
    /// Unitary factor `W = V (V^H V)^(-1/2)`.
    pub matrix: Matrix,
    /// Whether it was computed from singular values.
    pub by_svd: bool,
}

/// Returns the matrix in U(3) that is nearest to `v`; `None` if `v` has rank 1 or less, or
/// non-finite entries.
///
/// It uses Newton's iteration `W <- (W + W^-H) / 2`, and singular values for matrices that are
/// nearly singular.
pub fn unitarise(v: &Matrix) -> Option<Unitary> {
    let size = (norm_sqr(v) / 3.0).sqrt();
    if !size.is_finite() || size == 0.0 {
        return None;
    }
    let mut w = scale(1.0 / size, v);
    if determinant(&w).norm() > SMALL {
        for _ in 0..MOST_STEPS {
            let next = scale(0.5, &add(&w, &adjoint(&inverse(&w))));
            let change = norm_sqr(&add(&next, &scale(-1.0, &w))).sqrt();
            w = next;
            if change < 1e-15 {
                break;
            }
            // The error after a step is about half the square of that before it.
            if change < 1e-8 {
                w = scale(0.5, &add(&w, &adjoint(&inverse(&w))));
                break;
            }
        }
        return Some(Unitary { matrix: w, by_svd: false });
    }
    by_svd(v).map(|matrix| Unitary { matrix, by_svd: true })
}

/// Computes `P Q^H` of `V = P S Q^H`, by rotations that make columns orthogonal (one-sided Jacobi).
/// The method keeps small singular values accurate.
fn by_svd(v: &Matrix) -> Option<Matrix> {
    // Rows are easier to rotate; those of V^H are columns of V.
    let (mut a, mut q) = (adjoint(v), ONE);
    let dot = |x: &[C64; 3], y: &[C64; 3]| x.iter().zip(y).map(|(x, y)| x * y.conj()).sum::<C64>();
    for _ in 0..MOST_STEPS {
        let mut largest = 0.0f64;
        for (i, j) in [(0, 1), (0, 2), (1, 2)] {
            let (ii, jj, ij) = (dot(&a[i], &a[i]).re, dot(&a[j], &a[j]).re, dot(&a[i], &a[j]));
            let size = ij.norm();
            if size <= 1e-16 * (ii * jj).sqrt() || size == 0.0 {
                continue;
            }
            largest = largest.max(size / (ii * jj).sqrt());
            let (phase, zeta) = (ij / size, (jj - ii) / (2.0 * size));
            let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
            let c = 1.0 / (1.0 + t * t).sqrt();
            let s = c * t;
            for m in [&mut a, &mut q] {
                let (x, y) = (m[i], m[j].map(|y| y * phase));
                m[i] = std::array::from_fn(|k| x[k] * c - y[k] * s);
                m[j] = std::array::from_fn(|k| x[k] * s + y[k] * c);
            }
        }
        if largest < 1e-15 {
            break;
        }
    }
    // The rows of `a` are s_i p_i^H, and those of `q` are q_i^H: W = sum p_i q_i^H.
    let sizes = a.map(|row| dot(&row, &row).re.sqrt());
    let mut order = [0, 1, 2];
    order.sort_by(|&i, &j| sizes[j].total_cmp(&sizes[i]));
    let [first, second, last] = order;
    if sizes[second] <= RANK * sizes[first] {
        return None;
    }
    let mut p = a;
    for i in [first, second] {
        p[i] = a[i].map(|x| x / sizes[i]);
    }
    p[last] = match sizes[last] > RANK * sizes[first] {
        true => a[last].map(|x| x / sizes[last]),
        false => third_row(&p[first], &p[second]),
    };
    Some(mul_adjoint(&adjoint(&p), &adjoint(&q)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::su3::tests::{any, distance};
    use crate::su3::{ZERO, adjoint_mul, mul};
    use crate::testing::random_matrices;
    use proptest::prelude::*;
    use zellige_tests::cases;

    proptest! {
        #![proptest_config(cases(128))]

        #[test]
        fn both_ways_agree(v in any()) {
            prop_assume!(determinant(&v).norm() > 1e-3);
            let w = unitarise(&v).expect("a matrix of full rank").matrix;
            prop_assert!(distance(&mul_adjoint(&w, &w), &ONE) < 1e-13);
            // The product W^H V is hermitian and positive.
            let h = adjoint_mul(&w, &v);
            prop_assert!(distance(&h, &adjoint(&h)) < 1e-12);
            let other = by_svd(&v).expect("a matrix of full rank");
            prop_assert!(distance(&w, &other) < 1e-11, "{:e}", distance(&w, &other));
        }
    }

    #[test]
    fn nearly_singular_matrices_have_a_unitary_factor() {
        let [p, q] = [0, 1].map(|i| random_matrices(2, 3)[i]);
        for last in [1e-7, 1e-11, 0.0] {
            let mut s = scale(2.0, &ONE);
            s[1][1].re = 0.5;
            s[2][2].re = last;
            let v = mul(&mul(&p, &s), &q);
            let w = unitarise(&v).expect("rank 2 or 3");
            assert!(w.by_svd && distance(&mul_adjoint(&w.matrix, &w.matrix), &ONE) < 1e-13);
            let off = distance(&w.matrix, &mul(&p, &q));
            // Without a third singular value, all phases of the third vector are equally near.
            assert!(off < 1e-16 / last.max(1e-16) * 10.0 + 1e-13 || last == 0.0, "{last}: {off:e}");
        }
        let mut v = ZERO;
        v[1][2].re = 1.0;
        for none in [ZERO, v, scale(f64::NAN, &ONE)] {
            assert!(unitarise(&none).is_none());
        }
    }
}
