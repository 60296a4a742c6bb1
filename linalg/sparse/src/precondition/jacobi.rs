//! The diagonal.

use crate::csr::Csr;
use zellige_krylov::method::{Steps, times};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Scalar, Space};

/// `M` is the diagonal of the matrix (Jacobi).
#[derive(Debug)]
pub struct Jacobi<E: Scalar = f64> {
    inverse: MultiVector<E>,
}

impl<E: Scalar> Jacobi<E> {
    /// Creates the preconditioner of a matrix.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a diagonal entry that is zero, or has a non-finite inverse, with
    /// its row.
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Self, Error> {
        Ok(Jacobi::of(rt, space, &inverse_diagonal(a)?))
    }

    /// Creates the preconditioner of the magnitudes of the diagonal, which is positive definite for
    /// indefinite matrices, as MINRES requires.
    ///
    /// # Errors
    /// Those of [`new`](Jacobi::new).
    pub fn absolute(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Self, Error> {
        let inverse: Vec<f64> = inverse_diagonal(a)?.into_iter().map(f64::abs).collect();
        Ok(Jacobi::of(rt, space, &inverse))
    }

    /// The inverse is data: any approximation of the diagonal's is a preconditioner.
    fn of(rt: &dyn Executor, space: &Space, inverse: &[f64]) -> Self {
        let inverse: Vec<E> = inverse.iter().map(|&inverse| E::from_real(inverse)).collect();
        Jacobi { inverse: MultiVector::from_column(rt, space, &inverse) }
    }
}

/// Returns `D^-1`.
///
/// # Errors
/// [`Error::Unsolvable`] for a diagonal entry that is zero, or has a non-finite inverse, with its
/// row.
pub(super) fn inverse_diagonal(a: &Csr) -> Result<Vec<f64>, Error> {
    (0..a.rows()).map(|i| inverse(i, a.get(i, i))).collect()
}

fn inverse(row: usize, diagonal: f64) -> Result<f64, Error> {
    let inverse = 1.0 / diagonal;
    if inverse.is_finite() {
        return Ok(inverse);
    }
    let problem =
        format!("the diagonal entry of row {} is {diagonal:e}, which has no finite inverse", row + 1);
    Err(Error::unsolvable("preconditioner", problem))
}

impl<E: Scalar> Operator<E> for Jacobi<E> {
    fn domain(&self) -> &Space {
        self.inverse.space()
    }

    fn bytes(&self) -> u64 {
        self.domain().bytes(E::WORDS)
    }

    fn apply(&self, steps: &Steps<'_, E>, r: &MultiVector<E>, z: &MultiVector<E>) -> Result<(), Error> {
        steps.task("jacobi").assign(z, [times(1.0, r).scaled_by(&self.inverse)]).submit()
    }
}
