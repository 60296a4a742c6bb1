//! The polynomial that makes a residual small.

use zellige_kernels::RealNumber;

use crate::scalar::Scalar;

/// An inner product below this multiple of the norms of its vectors consists of rounding errors.
pub(super) const BREAKDOWN: f64 = 4.0 * f64::EPSILON;

/// Maximum degree: inner products in `f64` do not distinguish more powers.
pub(super) const MOST: usize = 8;

/// Returns the index of the product `conj(r_i) . r_j`, `i <= j`, among those of a reduction block.
pub(super) fn at(i: usize, j: usize) -> usize {
    j * (j + 1) / 2 + i
}

/// Returns all pairs `(i, j)`, `i <= j <= l`.
pub(super) fn pairs(l: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=l).flat_map(|j| (0..=j).map(move |i| (i, j)))
}

/// Thresholds for the cosine between the remainders of `r_0` and of `r_l`. If it is less than the
/// first, the least residual leaves too few digits of the next coefficients of bi-conjugate
/// gradients, and the second threshold replaces it. The authors replace every smaller cosine; that
/// costs more steps than it saves if no digits are lost (docs/explanation/sparse.md). A polynomial
/// of degree 1 has no other coefficients that would make up for a residual that is not the least.
const SMALL_COSINE: f64 = 0.1;
const LEAST_COSINE: f64 = 0.7;

/// Returns the coefficients of a small `r_0 - sum_i gamma_i r_i`, from inner products; `None` if
/// `r_1 .. r_l` are linearly dependent, or the last coefficient consists of rounding errors.
///
/// The remainders of `r_0` and `r_l` are orthogonal to `r_1 .. r_{l-1}`. The last coefficient is
/// the cosine between them, or one of magnitude [`LEAST_COSINE`] if that is small, times the ratio
/// of their norms (Sleijpen and van der Vorst 1995, section 3.1).
pub(super) fn polynomial<E: Scalar>(l: usize, products: &[E]) -> Option<[E; MOST]> {
    // conj(r_i) . r_j
    let product = |i: usize, j: usize| if i <= j { products[at(i, j)] } else { products[at(j, i)].conj() };
    let is_left =
        |rest: E::Real, j: usize| rest > E::Real::from(MOST as f64 * f64::EPSILON) * product(j, j).real();
    let (inner, zero) = (l - 1, E::default());
    // The products of r_1 .. r_{l-1} are L L^H.
    let mut factor = [[zero; MOST]; MOST];
    for j in 0..inner {
        for i in 0..=j {
            let known: E = (0..i).map(|k| factor[j][k] * factor[i][k].conj()).sum();
            let rest = product(j + 1, i + 1) - known;
            if i < j {
                factor[j][i] = rest / factor[i][i];
            } else if is_left(rest.real(), j + 1) {
                factor[j][j] = E::from_real(rest.real().sqrt());
            } else {
                return None;
            }
        }
    }
    // Along orthonormal vectors that span r_1 .. r_{l-1}.
    let along = |right: usize| {
        let mut along = [zero; MOST];
        for i in 0..inner {
            let known: E = (0..i).map(|k| factor[i][k] * along[k]).sum();
            along[i] = (product(i + 1, right) - known) / factor[i][i];
        }
        along
    };
    let (first, last) = (along(0), along(l));
    let left = |x: &[E; MOST], y: &[E; MOST], product: E| {
        product - x.iter().zip(y).map(|(x, y)| x.conj() * *y).sum::<E>()
    };
    let of_last = left(&last, &last, product(l, l)).real();
    if !is_left(of_last, l) {
        return None;
    }
    let of_first = left(&first, &first, product(0, 0)).real().max(0.0.into());
    let cosine = left(&last, &first, product(l, 0)) / E::from_real((of_first * of_last).sqrt());
    let is_small = l > 1 && cosine.abs().value() < SMALL_COSINE;
    let size = if is_small { LEAST_COSINE.into() } else { cosine.abs() };
    if size.value().is_nan() || size.value() <= BREAKDOWN {
        return None;
    }
    // In the direction of the cosine, which may be too short.
    let direction = if cosine == zero { E::from_real(1.0) } else { cosine / E::from_real(cosine.abs()) };
    let leading = E::from_real(size * (of_first / of_last).sqrt()) * direction;
    let mut gamma = [zero; MOST];
    gamma[inner] = leading;
    for i in (0..inner).rev() {
        let known: E = (i + 1..inner).map(|k| factor[k][i].conj() * gamma[k]).sum();
        gamma[i] = (first[i] - leading * last[i] - known) / factor[i][i];
    }
    (leading != zero && gamma.iter().all(|gamma| gamma.abs().value().is_finite())).then_some(gamma)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_leave_what_is_orthogonal_to_the_powers() {
        let r = [[1.0, 2.0, -1.0, 3.0], [2.0, 0.5, 1.0, 1.0], [0.0, 1.0, -2.0, 0.25]];
        let product = |x: &[f64; 4], y: &[f64; 4]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let products: Vec<f64> = pairs(2).map(|(i, j)| product(&r[i], &r[j])).collect();
        let gamma = polynomial(2, &products).expect("independent vectors");
        let rest = std::array::from_fn(|k| r[0][k] - gamma[0] * r[1][k] - gamma[1] * r[2][k]);
        assert!(product(&rest, &r[1]).abs() < 1e-14 && product(&rest, &r[2]).abs() < 1e-14);
        assert_eq!(polynomial(2, &[1.0, 0.5, 1.0, 0.5, 1.0, 1.0]), None);
        assert_eq!(polynomial(1, &[1.0, 0.0, 1.0]), None);
        assert_eq!(polynomial(1, &[1.0, f64::NAN, 1.0]), None);
    }

    #[test]
    fn last_coefficients_do_not_vanish() {
        // r_2 is orthogonal to the remainder of r_0 after r_1.
        let gamma = polynomial(2, &[2.0, 1.0, 1.0, 0.0, 0.0, 4.0]).expect("independent vectors");
        assert_eq!(gamma[..2], [1.0, 0.35]);
        assert_eq!(polynomial(1, &[4.0, 1.8, 1.0]).map(|gamma| gamma[0]), Some(1.8));
        assert_eq!(polynomial(1, &[1.0, 1e-17, 1.0]), None);
    }
}
