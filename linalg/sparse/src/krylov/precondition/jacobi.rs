//! The diagonal.

use zellige_runtime::Submit;

use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Preconditioner, Scalars, Steps};
use crate::space::{Space, Vector};

/// `M` is the diagonal of the matrix (Jacobi).
#[derive(Debug)]
pub struct Jacobi {
    inverse: Vector,
    bytes: u64,
}

impl Jacobi {
    /// Of a matrix.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a diagonal element that is zero, or whose inverse is no finite number, with its row.
    pub fn new(target: &impl Submit, space: &Space, a: &Csr) -> Result<Jacobi, Error> {
        Ok(Jacobi::of(target, space, inverse_diagonal(a)?))
    }

    /// The magnitudes of the diagonal: positive definite, as MINRES needs it, for indefinite matrices.
    ///
    /// # Errors
    /// As [`new`](Jacobi::new).
    pub fn absolute(target: &impl Submit, space: &Space, a: &Csr) -> Result<Jacobi, Error> {
        let inverse = inverse_diagonal(a)?.into_iter().map(f64::abs);
        Ok(Jacobi::of(target, space, inverse.collect()))
    }

    fn of(target: &impl Submit, space: &Space, inverse: Vec<f64>) -> Jacobi {
        Jacobi { bytes: 8 * inverse.len() as u64, inverse: space.vector(target, inverse) }
    }
}

/// `D^-1`.
///
/// # Errors
/// [`Error::Unsolvable`] for an element that is zero, or whose inverse is no finite number, with its row.
pub(super) fn inverse_diagonal(a: &Csr) -> Result<Vec<f64>, Error> {
    (0..a.rows()).map(|i| inverse(i, a.get(i, i))).collect()
}

fn inverse(row: usize, diagonal: f64) -> Result<f64, Error> {
    let inverse = 1.0 / diagonal;
    if inverse.is_finite() {
        return Ok(inverse);
    }
    let problem = format!("the diagonal element of row {} is {diagonal:e}: it is divided by", row + 1);
    Err(Error::unsolvable("preconditioner", problem))
}

impl Preconditioner for Jacobi {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, r: &Vector, z: &Vector) -> Result<(), Error> {
        steps.each(
            "jacobi",
            |i| (steps.scalars(), self.inverse.read(i), r.read(i), z.update(i)),
            |(s, inverse, r, z)| {
                if !Scalars::new(s).is_done() {
                    z.iter_mut().zip(inverse.iter().zip(&*r)).for_each(|(z, (inverse, r))| *z = inverse * r);
                }
            },
        )
    }
}
