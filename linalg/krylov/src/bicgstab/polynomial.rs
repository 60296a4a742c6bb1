//! The polynomial that makes a residual least.

use crate::scalar::Scalar;

/// Inner products in `f64` tell no more powers apart.
pub(super) const MOST: usize = 8;

/// Where the product `conj(r_i) . r_j`, `i <= j`, is among those of a grain.
pub(super) fn at(i: usize, j: usize) -> usize {
    j * (j + 1) / 2 + i
}

/// All pairs `(i, j)`, `i <= j <= l`.
pub(super) fn pairs(l: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=l).flat_map(|j| (0..=j).map(move |i| (i, j)))
}

/// The coefficients with the least `|r_0 - sum_i gamma_i r_i|`, from inner products; none where `r_1 .. r_l` depend on each other, or the last
/// coefficient is 0.
pub(super) fn polynomial<E: Scalar>(l: usize, products: &[E]) -> Option<[E; MOST]> {
    let zero = E::default();
    // G = L L^H of the products of r_1 .. r_l, of which those with j <= i are conjugates of what is known.
    let mut factor = [[zero; MOST]; MOST];
    let mut gamma = [zero; MOST];
    for j in 0..l {
        for i in 0..=j {
            let known: E = (0..i).map(|k| factor[j][k] * factor[i][k].conj()).sum();
            let rest = products[at(i + 1, j + 1)].conj() - known;
            if i < j {
                factor[j][i] = rest / factor[i][i];
            } else if rest.real() > MOST as f64 * f64::EPSILON * products[at(j + 1, j + 1)].real() {
                factor[j][j] = E::from_real(rest.real().sqrt());
            } else {
                return None;
            }
        }
    }
    for i in 0..l {
        let known: E = (0..i).map(|k| factor[i][k] * gamma[k]).sum();
        gamma[i] = (products[at(0, i + 1)].conj() - known) / factor[i][i];
    }
    for i in (0..l).rev() {
        let known: E = (i + 1..l).map(|k| factor[k][i].conj() * gamma[k]).sum();
        gamma[i] = (gamma[i] - known) / factor[i][i];
    }
    (gamma[l - 1] != zero && gamma.iter().all(|gamma| gamma.abs().is_finite())).then_some(gamma)
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
}
