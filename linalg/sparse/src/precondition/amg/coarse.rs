//! The coarsest level.

use faer::Mat;
use zellige_kernels::vectors::dot;
use zellige_runtime::{Handle, read, reads, scratch};

use crate::csr::Csr;
use zellige_krylov::method::{Steps, joined};
use zellige_krylov::{Error, Executor, MultiVector, Space};

/// Singular values below this multiple of the largest belong to the null space.
const RANK: f64 = 1e-12;
/// A pivot (of a matrix with a diagonal of ones) that is no smaller is not only rounding.
const DEFINITE: f64 = 1e-10;
/// Maximum number of rows of a dense inverse; for a larger matrix coarsening has failed.
const LARGEST: usize = 4000;

/// A dense (pseudo-)inverse, one row after the other.
#[derive(Debug)]
pub struct Coarse {
    inverse: Handle<Vec<f64>>,
    space: Space,
}

impl Coarse {
    /// Prepares the solver of a small matrix.
    ///
    /// # Errors
    /// [`Error::Unsolvable`] for a matrix that is not small.
    pub fn new(rt: &dyn Executor, space: &Space, a: &Csr) -> Result<Coarse, Error> {
        let n = a.rows();
        if n > LARGEST {
            let problem = format!("amg cannot coarsen a level of {n} rows: use ilu0 or jacobi");
            return Err(Error::unsolvable("preconditioner", problem));
        }
        // The matrix, its factor, the inverse, and its rows.
        Error::if_too_large(|| format!("amg's coarsest level of {n} rows"), 4 * 8 * (n as u64).pow(2))?;
        // With a diagonal of ones, directions that are small only because of their unit do not
        // count as null space.
        let unit = |i| match a.get(i, i) {
            0.0 => 1.0,
            diagonal => 1.0 / diagonal.abs().sqrt(),
        };
        let unit: Vec<f64> = (0..n).map(unit).collect();
        let mut dense = Mat::<f64>::zeros(n, n);
        for (i, (column, value)) in a.iter().enumerate() {
            for (&j, &value) in column.iter().zip(value) {
                dense[(i, j as usize)] = unit[i] * value * unit[j as usize];
            }
        }
        let inverse = inverse(&dense)?;
        let places = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let rows = places.map(|(i, j)| unit[i] * inverse[(i, j)] * unit[j]).collect::<Vec<f64>>();
        Ok(Coarse { inverse: rt.register_local(rows), space: space.clone() })
    }

    pub fn bytes(&self) -> u64 {
        8 * (self.space.len() as u64).pow(2)
    }

    /// Returns the bytes that are kept: the matrix, and the right-hand side and the solution of
    /// this level.
    pub fn memory(&self) -> u64 {
        self.bytes() + self.space.bytes(2)
    }

    /// Records `x = A^-1 b`.
    pub fn apply(&self, steps: &Steps<'_>, b: &MultiVector, x: &MultiVector) -> Result<(), Error> {
        let (n, columns) = (self.space.len(), steps.columns());
        let steps = steps.on(&self.space);
        steps.each(
            "amg.coarsest",
            |i| (read(&self.inverse), reads(b.parts()), x.update(i), scratch::<f64>(n).on_host()),
            move |(inverse, b, x, column)| {
                let b = joined(b);
                for c in 0..columns {
                    column
                        .iter_mut()
                        .zip(b.iter().skip(c).step_by(columns))
                        .for_each(|(to, from)| *to = *from);
                    let of_column = x.iter_mut().skip(c).step_by(columns);
                    of_column.zip(inverse.chunks_exact(n)).for_each(|(x, row)| *x = dot(row, column));
                }
            },
        )
    }
}

/// Returns the inverse of a matrix with a diagonal of ones; the pseudo-inverse of a singular or
/// indefinite one.
fn inverse(dense: &Mat<f64>) -> Result<Mat<f64>, Error> {
    let n = dense.nrows();
    if let Ok(factor) = zellige_faer::cholesky(dense.as_ref()) {
        let is_regular = (0..n).all(|i| factor.L()[(i, i)].powi(2) > DEFINITE);
        if is_regular {
            return Ok(zellige_faer::cholesky_inverse(&factor));
        }
    }
    let svd = zellige_faer::svd(dense.as_ref())
        .map_err(|_| Error::unsolvable("preconditioner", "amg's coarsest level has no singular values"))?;
    let singular = svd.S().column_vector();
    let largest = (0..n).map(|k| singular[k]).fold(0.0, f64::max);
    let scaled =
        Mat::from_fn(
            n,
            n,
            |i, k| {
                if singular[k] > RANK * largest { svd.V()[(i, k)] / singular[k] } else { 0.0 }
            },
        );
    let mut inverse = Mat::zeros(n, n);
    zellige_faer::gemm(inverse.as_mut(), false, scaled.as_ref(), svd.U().transpose(), 1.0);
    Ok(inverse)
}
