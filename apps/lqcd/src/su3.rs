//! Matrices and vectors in colour space.

use num_complex::Complex;

use crate::geometry::COLOURS;

/// A complex number in float64.
pub type C64 = Complex<f64>;

/// A 3 x 3 colour matrix: `[row][column]`.
pub type Matrix = [[C64; COLOURS]; COLOURS];

/// A colour vector.
pub type Vector = [C64; COLOURS];

/// The zero matrix.
pub const ZERO: Matrix = [[C64::new(0.0, 0.0); COLOURS]; COLOURS];

/// The unit matrix.
pub const ONE: Matrix = {
    let mut one = ZERO;
    one[0][0].re = 1.0;
    one[1][1].re = 1.0;
    one[2][2].re = 1.0;
    one
};

/// Returns the matrix with these entries.
fn from_fn(element: impl Fn(usize, usize) -> C64) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| element(i, j)))
}

/// Computes `a b`.
pub fn mul(a: &Matrix, b: &Matrix) -> Matrix {
    from_fn(|i, j| a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j])
}

/// Computes `a b^H`.
pub fn mul_adjoint(a: &Matrix, b: &Matrix) -> Matrix {
    from_fn(|i, j| a[i][0] * b[j][0].conj() + a[i][1] * b[j][1].conj() + a[i][2] * b[j][2].conj())
}

/// Computes `a^H b`.
pub fn adjoint_mul(a: &Matrix, b: &Matrix) -> Matrix {
    from_fn(|i, j| a[0][i].conj() * b[0][j] + a[1][i].conj() * b[1][j] + a[2][i].conj() * b[2][j])
}

/// Computes `a^H`.
pub fn adjoint(a: &Matrix) -> Matrix {
    from_fn(|i, j| a[j][i].conj())
}

/// Computes `a + b`.
pub fn add(a: &Matrix, b: &Matrix) -> Matrix {
    from_fn(|i, j| a[i][j] + b[i][j])
}

/// Computes `factor a`.
pub fn scale(factor: f64, a: &Matrix) -> Matrix {
    from_fn(|i, j| a[i][j] * factor)
}

/// Computes `a v`.
pub fn apply(a: &Matrix, v: &Vector) -> Vector {
    std::array::from_fn(|i| a[i][0] * v[0] + a[i][1] * v[1] + a[i][2] * v[2])
}

/// Returns the trace.
pub fn trace(a: &Matrix) -> C64 {
    a[0][0] + a[1][1] + a[2][2]
}

/// Returns the real part of the trace of `a b^H`.
pub fn real_trace_adjoint(a: &Matrix, b: &Matrix) -> f64 {
    let row =
        |i: usize| -> f64 { (0..COLOURS).map(|j| a[i][j].re * b[i][j].re + a[i][j].im * b[i][j].im).sum() };
    row(0) + row(1) + row(2)
}

/// Returns the determinant.
pub fn determinant(a: &Matrix) -> C64 {
    let minor = |i: usize, j: usize| a[1][i] * a[2][j] - a[1][j] * a[2][i];
    a[0][0] * minor(1, 2) - a[0][1] * minor(0, 2) + a[0][2] * minor(0, 1)
}

/// Returns the sum of the squares of all entries.
pub fn norm_sqr(a: &Matrix) -> f64 {
    a.iter().flatten().map(C64::norm_sqr).sum()
}

/// Returns the inverse; entries are non-finite if there is none.
pub fn inverse(a: &Matrix) -> Matrix {
    let determinant = determinant(a);
    // Cyclic indices avoid the signs of cofactors.
    from_fn(|i, j| {
        let (r, s, c, d) = ((j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3);
        (a[r][c] * a[s][d] - a[r][d] * a[s][c]) / determinant
    })
}

/// Returns the third row of a matrix in SU(3) with these two rows.
pub fn third_row(a: &Vector, b: &Vector) -> Vector {
    std::array::from_fn(|i| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        (a[j] * b[k] - a[k] * b[j]).conj()
    })
}

/// Returns the matrix in SU(3) with the direction of the first row, and the plane of the first two
/// rows.
pub fn reunitarise(a: &Matrix) -> Matrix {
    let unit = |v: &Vector| {
        let norm = v.iter().map(C64::norm_sqr).sum::<f64>().sqrt();
        v.map(|x| x / norm)
    };
    let first = unit(&a[0]);
    let along: C64 = first.iter().zip(&a[1]).map(|(u, v)| u.conj() * v).sum();
    let second = unit(&std::array::from_fn(|i| a[1][i] - along * first[i]));
    [first, second, third_row(&first, &second)]
}

/// Returns the deviation from SU(3): the largest entry of `a a^H - 1`, and of `det a - 1`. It is
/// NaN if an entry is NaN.
pub fn deviation(a: &Matrix) -> f64 {
    let product = mul_adjoint(a, a);
    let mut worst = (determinant(a) - 1.0).norm();
    for i in 0..COLOURS {
        for j in 0..COLOURS {
            let off = (product[i][j] - ONE[i][j]).norm();
            // A NaN propagates.
            worst = if off <= worst { worst } else { off + worst * 0.0 };
        }
    }
    worst
}

/// Makes a matrix in SU(3) from 18 numbers that are not all zero.
pub fn from_numbers(mut next: impl FnMut() -> f64) -> Matrix {
    let mut a = ZERO;
    for element in a.iter_mut().flatten() {
        *element = C64::new(next(), next());
    }
    reunitarise(&a)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use zellige_tests::cases;

    /// Generates any matrix with entries in [-1, 1].
    pub(crate) fn any() -> impl Strategy<Value = Matrix> {
        proptest::collection::vec(-1.0..1.0, 18).prop_map(|numbers| {
            let mut numbers = numbers.into_iter();
            let mut next = move || numbers.next().unwrap_or(0.0);
            let mut a = ZERO;
            a.iter_mut().flatten().for_each(|element| *element = C64::new(next(), next()));
            a
        })
    }

    /// Returns the distance of two matrices.
    pub(crate) fn distance(a: &Matrix, b: &Matrix) -> f64 {
        norm_sqr(&add(a, &scale(-1.0, b))).sqrt()
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn products_agree(a in any(), b in any()) {
            prop_assert!(distance(&mul_adjoint(&a, &b), &mul(&a, &adjoint(&b))) < 1e-14);
            prop_assert!(distance(&adjoint_mul(&a, &b), &mul(&adjoint(&a), &b)) < 1e-14);
            prop_assert!((real_trace_adjoint(&a, &b) - trace(&mul_adjoint(&a, &b)).re).abs() < 1e-13);
            prop_assert!((determinant(&mul(&a, &b)) - determinant(&a) * determinant(&b)).norm() < 1e-12);
            let v = [a[0][1], b[1][0], a[2][2]];
            let once = apply(&mul(&a, &b), &v);
            let twice = apply(&a, &apply(&b, &v));
            prop_assert!(once.iter().zip(&twice).all(|(x, y)| (x - y).norm() < 1e-13));
        }

        #[test]
        fn inverses_and_special_unitary_matrices(a in any()) {
            prop_assume!(determinant(&a).norm() > 1e-3);
            prop_assert!(distance(&mul(&a, &inverse(&a)), &ONE) < 1e-9);
            let u = reunitarise(&a);
            prop_assert!(deviation(&u) < 1e-13);
            prop_assert!(distance(&reunitarise(&u), &u) < 1e-13);
            prop_assert!((deviation(&scale(1.01, &u)) - 0.030301).abs() < 1e-6);
        }
    }

    #[test]
    fn what_is_no_number_deviates() {
        for (i, j) in [(0, 0), (1, 2), (2, 2)] {
            let mut a = ONE;
            a[i][j].im = f64::NAN;
            assert!(deviation(&a).is_nan());
        }
    }
}
