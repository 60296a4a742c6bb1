//! Small dense matrices of a block method, one number of rows and columns for each right-hand side.

use std::ops::{Index, IndexMut};

use zellige_kernels::RealNumber;

use crate::scalar::Scalar;

/// Part of the square of a column's norm that is orthogonal to the columns before it, below which
/// the column counts as dependent on them.
const DEPENDENT: f64 = 1e-12;

/// A square matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Small<E> {
    order: usize,
    pub(super) entries: Vec<E>,
}

impl<E: Scalar> Small<E> {
    pub(super) fn zeros(order: usize) -> Self {
        Small { order, entries: vec![E::default(); order * order] }
    }

    pub(super) fn from_fn(order: usize, entry: impl Fn(usize, usize) -> E) -> Self {
        Small { order, entries: (0..order * order).map(|at| entry(at / order, at % order)).collect() }
    }

    /// Returns the lower factor `L` of `L L^H`, for the first `rank` rows and columns of a
    /// Hermitian matrix; `None` unless that part is positive definite.
    pub(super) fn cholesky(&self, rank: usize) -> Option<Self> {
        let mut l = Small::<E>::zeros(self.order);
        for j in 0..rank {
            for i in j..rank {
                let sum = (0..j).fold(self[(i, j)], |sum, k| sum - l[(i, k)] * l[(j, k)].conj());
                if i > j {
                    l[(i, j)] = sum / l[(j, j)];
                    continue;
                }
                let square = sum.real();
                if !(square.value() > 0.0 && square.value().is_finite()) {
                    return None;
                }
                l[(j, j)] = E::from_real(square.sqrt());
            }
        }
        Some(l)
    }

    /// Returns `(L L^H)^-1 B` for this lower factor `L` of `rank` rows; further rows are zero.
    pub(super) fn solve(&self, rank: usize, mut b: Small<E>) -> Small<E> {
        for c in 0..self.order {
            for i in 0..rank {
                let sum = (0..i).fold(b[(i, c)], |sum, k| sum - self[(i, k)] * b[(k, c)]);
                b[(i, c)] = sum / self[(i, i)];
            }
            for i in (0..rank).rev() {
                let sum = (i + 1..rank).fold(b[(i, c)], |sum, k| sum - self[(k, i)].conj() * b[(k, c)]);
                b[(i, c)] = sum / self[(i, i)];
            }
            (rank..self.order).for_each(|i| b[(i, c)] = E::default());
        }
        b
    }

    /// Returns coefficients of columns that are orthonormal and span what the columns of this Gram
    /// matrix span, and their number: Gram-Schmidt with pivoting, of normalised columns. Dependent
    /// and zero columns are left out.
    pub(super) fn orthonormal(&self) -> (Small<E>, usize) {
        let mut o = Small::<E>::zeros(self.order);
        let square = |k: usize| self[(k, k)].real().value();
        let mut left: Vec<f64> =
            (0..self.order).map(|k| f64::from(u8::from(square(k) > 0.0 && square(k).is_finite()))).collect();
        for rank in 0..self.order {
            let pivot = (0..self.order).max_by(|&i, &j| left[i].total_cmp(&left[j]).then(j.cmp(&i)));
            let pivot = pivot.expect("a column");
            if left[pivot] <= DEPENDENT {
                return (o, rank);
            }
            o[(pivot, rank)] = E::from_real(1.0 / square(pivot).sqrt());
            // Twice is enough.
            for _ in 0..2 {
                for j in 0..rank {
                    let product = self.product(&o, [j, rank]);
                    (0..self.order).for_each(|i| o[(i, rank)] = o[(i, rank)] - product * o[(i, j)]);
                }
            }
            let norm = self.product(&o, [rank, rank]).real();
            if norm.value() <= DEPENDENT || norm.value().is_nan() {
                (0..self.order).for_each(|i| o[(i, rank)] = E::default());
                return (o, rank);
            }
            let inverse = E::from_real(E::Real::from(1.0) / norm.sqrt());
            (0..self.order).for_each(|i| o[(i, rank)] = inverse * o[(i, rank)]);
            left[pivot] = 0.0;
            for (k, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0.0) {
                let product: E = (0..self.order).map(|i| o[(i, rank)].conj() * self[(i, k)]).sum();
                *left -= product.abs().value().powi(2) / square(k);
            }
        }
        (o, self.order)
    }

    /// Returns the product of two columns of coefficients.
    fn product(&self, o: &Small<E>, [a, b]: [usize; 2]) -> E {
        let row = |i: usize| (0..self.order).map(|k| self[(i, k)] * o[(k, b)]).sum::<E>();
        (0..self.order).map(|i| o[(i, a)].conj() * row(i)).sum()
    }
}

impl<E> Index<(usize, usize)> for Small<E> {
    type Output = E;

    fn index(&self, (i, j): (usize, usize)) -> &E {
        &self.entries[i * self.order + j]
    }
}

impl<E> IndexMut<(usize, usize)> for Small<E> {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut E {
        &mut self.entries[i * self.order + j]
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    type C = Complex<f64>;

    /// Columns of four numbers: the third is a combination of the others, the fourth is zero, the
    /// second is tiny.
    fn gram() -> Small<C> {
        let a = [C::new(1.0, 2.0), C::new(0.0, 1.0), C::new(-1.0, 0.5), C::new(3.0, 0.0)];
        let b = [C::new(0.5, 0.0), C::new(2.0, -1.0), C::new(0.0, 0.0), C::new(1.0, 1.0)].map(|z| z * 1e-9);
        let c: Vec<C> = a.iter().zip(&b).map(|(a, b)| a * C::new(0.0, 2.0) + b * 3e9).collect();
        let columns = [a.to_vec(), b.to_vec(), c, vec![C::default(); 4]];
        Small::from_fn(4, |i, j| columns[i].iter().zip(&columns[j]).map(|(x, y)| x.conj() * y).sum())
    }

    #[test]
    fn dependent_and_zero_columns_are_left_out() {
        let gram = gram();
        let (o, rank) = gram.orthonormal();
        assert_eq!(rank, 2);
        for a in 0..4 {
            for b in 0..4 {
                let exact = if a == b && a < rank { 1.0 } else { 0.0 };
                assert!((gram.product(&o, [a, b]) - exact).norm() < 1e-12, "{a} {b}");
            }
        }
        assert_eq!(Small::<f64>::zeros(3).orthonormal().1, 0);
    }

    #[test]
    fn systems_are_solved_for_the_leading_part() {
        let (a, rank) = (gram(), 2);
        let l = a.cholesky(rank).expect("positive definite");
        let b = Small::from_fn(4, |i, j| C::new(i as f64, j as f64 - 1.0));
        let x = l.solve(rank, b.clone());
        for c in 0..4 {
            for i in 0..rank {
                let row: C = (0..rank).map(|k| a[(i, k)] * x[(k, c)]).sum();
                assert!((row - b[(i, c)]).norm() < 1e-6 * (1.0 + b[(i, c)].norm()), "{i} {c}");
            }
            assert_eq!((x[(2, c)], x[(3, c)]), (C::default(), C::default()));
        }
        assert!(Small::from_fn(2, |i, j| if i == j { -1.0 } else { 0.0 }).cholesky(2).is_none());
    }
}
