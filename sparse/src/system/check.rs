//! What a system has to be.

use crate::csr::Csr;
use crate::error::Error;

/// Refuses matrices with which no system can be solved, with what stands in the way.
///
/// # Errors
/// [`Error::Unsolvable`].
pub fn check_matrix(a: &Csr) -> Result<(), Error> {
    if a.rows() != a.columns() || a.rows() == 0 {
        let problem = format!("{} rows, {} columns: only square systems are solved", a.rows(), a.columns());
        return Err(Error::unsolvable("matrix", problem));
    }
    for (i, (_, value)) in a.iter().enumerate() {
        if let Some(value) = value.iter().find(|value| !value.is_finite()) {
            return Err(Error::unsolvable("matrix", format!("row {} has an element {value}", i + 1)));
        }
        if value.iter().all(|&value| value == 0.0) {
            let problem = format!("row {} is all zeros: the matrix is singular", i + 1);
            return Err(Error::unsolvable("matrix", problem));
        }
    }
    Ok(())
}

/// A constant is in the null space if every row adds up to zero, but for rounding.
pub fn check_constant(a: &Csr) -> Result<(), Error> {
    for (i, (_, value)) in a.iter().enumerate() {
        let (sum, size) = (value.iter().sum::<f64>(), crate::csr::abs_sum(value));
        if sum.abs() > 1e-10 * size {
            let problem = format!("row {} adds up to {sum:e}: a constant is not in the null space", i + 1);
            return Err(Error::unsolvable("matrix", problem));
        }
    }
    Ok(())
}
