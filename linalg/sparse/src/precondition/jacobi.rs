//! The diagonal.

use crate::csr::Csr;
use zellige_krylov::method::{Steps, times};
use zellige_krylov::{Error, Executor, MultiVector, Operator, Space};

/// `M` is the diagonal of the matrix (Jacobi).
#[derive(Debug)]
pub struct Jacobi {
    inverse: MultiVector,
}

impl Jacobi {
    /// Creates the preconditioner of a matrix.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a diagonal entry that is zero, or has a non-finite inverse, with
    /// its row.
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Jacobi, Error> {
        Ok(Jacobi::of(rt, space, inverse_diagonal(a)?))
    }

    /// Creates the preconditioner of the magnitudes of the diagonal, which is positive definite for
    /// indefinite matrices, as MINRES requires.
    ///
    /// # Errors
    /// Those of [`new`](Jacobi::new).
    pub fn absolute(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Jacobi, Error> {
        let inverse = inverse_diagonal(a)?.into_iter().map(f64::abs);
        Ok(Jacobi::of(rt, space, inverse.collect()))
    }

    fn of(rt: &dyn Executor, space: &Space, inverse: Vec<f64>) -> Jacobi {
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

impl Operator for Jacobi {
    fn domain(&self) -> &Space {
        self.inverse.space()
    }

    fn bytes(&self) -> u64 {
        self.domain().bytes(1)
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        steps.task("jacobi").assign(z, [times(1.0, r).scaled_by(&self.inverse)]).submit()
    }
}
