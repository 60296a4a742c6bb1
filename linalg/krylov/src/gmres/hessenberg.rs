//! The small least-squares problem of GMRES, among the method's scalars: `min |g - H y|` by Givens
//! rotations, column by column (Saad 2003, section 6.5.3).

use std::ops::{Deref, DerefMut};

use zellige_kernels::RealNumber;

use crate::numbers::{Numbers, State};
use crate::scalar::Scalar;

/// Layout of a solution in a separate set of numbers: the tasks that read them run whatever the
/// state of the method is.
pub(super) struct Solved;

impl Solved {
    /// Number of entries of `y`.
    pub(super) const COLUMNS: usize = 0;
    pub(super) const Y: usize = 1;
}

/// Layout of a Hessenberg matrix of at most `most` columns in a solver's numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hessenberg {
    most: usize,
}

impl Hessenberg {
    /// `|A v_j|`, before anything is subtracted.
    pub(super) const PRODUCT: usize = 0;
    /// Divisor of the next vector: the entry below the diagonal.
    pub(super) const NEXT: usize = 1;
    /// Columns that are finished.
    const COLUMNS: usize = 2;
    /// The column that is being made: coefficients of `A v_j` along each vector.
    pub(super) const COLUMN: usize = 3;

    pub(super) fn new(most: usize) -> Self {
        Hessenberg { most }
    }

    /// Returns the amount of numbers in the layout.
    pub(super) fn numbers(self) -> usize {
        self.upper(0, self.most)
    }

    /// Returns the offset of the coefficients of the second orthogonalisation.
    pub(super) fn second(self) -> usize {
        Self::COLUMN + self.most
    }

    fn cosine(self, j: usize) -> usize {
        self.second() + self.most + j
    }

    fn sine(self, j: usize) -> usize {
        self.cosine(self.most) + j
    }

    /// Returns the offset of entry `j` of the right-hand side.
    fn right(self, j: usize) -> usize {
        self.sine(self.most) + j
    }

    /// Returns the offset of entry `(i, j)` of `R`, stored in column-major order.
    fn upper(self, i: usize, j: usize) -> usize {
        self.right(self.most + 1) + j * (j + 1) / 2 + i
    }

    /// Begins with the norm of a residual.
    pub(super) fn begin<E: Scalar, S: DerefMut<Target = [f64]>>(self, s: &mut Numbers<E, S>, norm: E::Real) {
        s.set_real(self.right(0), norm);
        s.set_real(Self::NEXT, norm);
        s.first_residual(norm.value());
    }

    /// Finishes column `j`, whose last entry is `next`, and counts a step.
    ///
    /// A last entry that consists of rounding errors counts as 0: the space then contains the
    /// solution ("happy breakdown"), unless the matrix is singular on it.
    pub(super) fn extend<E: Scalar, S: DerefMut<Target = [f64]>>(
        self,
        s: &mut Numbers<E, S>,
        j: usize,
        next: E::Real,
    ) {
        if !next.value().is_finite() {
            return s.end(State::NotANumber);
        }
        let negligible = E::Real::from((j + 2) as f64 * f64::EPSILON) * s.real(Self::PRODUCT);
        let next = if next <= negligible { 0.0.into() } else { next };
        for i in 0..j {
            let (cosine, sine) = (s[self.cosine(i)], s[self.sine(i)]);
            let (above, below) = (s[Self::COLUMN + i], s[Self::COLUMN + i + 1]);
            s[Self::COLUMN + i] = cosine.conj() * above + sine * below;
            s[Self::COLUMN + i + 1] = cosine * below - sine * above;
        }
        // The sine is real, and so is the new diagonal.
        let diagonal = s[Self::COLUMN + j].abs().hypot(next);
        if diagonal <= negligible {
            return s.end(State::BrokenDown);
        }
        (0..j).for_each(|i| s[self.upper(i, j)] = s[Self::COLUMN + i]);
        s.set_real(self.upper(j, j), diagonal);
        let (cosine, sine) = (s[Self::COLUMN + j] / E::from_real(diagonal), E::from_real(next / diagonal));
        s[self.cosine(j)] = cosine;
        s[self.sine(j)] = sine;
        let right = s[self.right(j)];
        s[self.right(j)] = cosine.conj() * right;
        s[self.right(j + 1)] = -sine * right;
        s.set_real(Self::NEXT, next);
        s.set_real(Self::COLUMNS, (j + 1) as f64);
        s.follow(Self::NEXT, "the subdiagonal of H");
        s.follow(self.right(j + 1), "the residual estimate");
        s.step((sine * right).abs().value());
    }

    /// Solves `R y = g` for the columns that are finished.
    pub(super) fn solve<E: Scalar, S: Deref<Target = [f64]>, T: DerefMut<Target = [f64]>>(
        self,
        s: &Numbers<E, S>,
        solved: &mut Numbers<E, T>,
    ) {
        let columns = s.value(Self::COLUMNS) as usize;
        solved[Solved::COLUMNS] = s[Self::COLUMNS];
        for i in (0..columns).rev() {
            let known: E = (i + 1..columns).map(|j| s[self.upper(i, j)] * solved[Solved::Y + j]).sum();
            solved[Solved::Y + i] = (s[self.right(i)] - known) / s[self.upper(i, i)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a 3 by 2 Hessenberg matrix with these columns; the right-hand side is `(5, 0, 0)`.
    fn extended(columns: [[f64; 3]; 2]) -> (Hessenberg, Numbers<f64, Vec<f64>>) {
        let small = Hessenberg::new(2);
        let mut s = Numbers::zeros(small.numbers());
        s.begin(0.0, 9);
        small.begin(&mut s, 5.0);
        for (j, column) in columns.into_iter().enumerate() {
            s[Hessenberg::PRODUCT] = column.iter().map(|h| h * h).sum::<f64>().sqrt();
            (0..=j).for_each(|i| s[Hessenberg::COLUMN + i] = column[i]);
            small.extend(&mut s, j, column[j + 1]);
        }
        (small, s)
    }

    fn solved(small: Hessenberg, s: &Numbers<f64, Vec<f64>>) -> [f64; 3] {
        let mut solved = Numbers::zeros(3);
        small.solve(s, &mut solved);
        std::array::from_fn(|i| solved[i])
    }

    #[test]
    fn the_residual_is_that_of_the_least_squares_problem() {
        let columns = [[3.0, 4.0, 0.0], [1.0, 2.0, 2.0]];
        let (small, s) = extended(columns);
        let [count, y @ ..] = solved(small, &s);
        assert_eq!(count, 2.0);
        let residual: [f64; 3] =
            std::array::from_fn(|i| [5.0, 0.0, 0.0][i] - columns[0][i] * y[0] - columns[1][i] * y[1]);
        // The residual is orthogonal to both columns, and has the norm that the solver reports.
        for column in columns {
            assert!(column.iter().zip(&residual).map(|(h, r)| h * r).sum::<f64>().abs() < 1e-14);
        }
        assert!((residual.iter().map(|r| r * r).sum::<f64>().sqrt() - s.residual()).abs() < 1e-14);
    }

    #[test]
    fn an_invariant_space_is_an_answer_unless_the_matrix_is_singular_on_it() {
        let (small, s) = extended([[3.0, 4.0, 0.0], [1.0, 2.0, 1e-17]]);
        assert_eq!((s.state(), s.residual()), (State::Reached, 0.0));
        assert_eq!(solved(small, &s)[Solved::COLUMNS], 2.0);
        let (small, s) = extended([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]]);
        assert_eq!(s.state(), State::BrokenDown);
        assert_eq!(solved(small, &s)[Solved::COLUMNS], 1.0);
        let (_, s) = extended([[3.0, f64::NAN, 0.0]; 2]);
        assert_eq!(s.state(), State::NotANumber);
    }
}
