use zellige_runtime::Runtime;

use crate::csr::Csr;
use zellige_krylov::{Error, Operator, Space, multiply};

/// Returns `M^-1 r`, on several small parts.
pub fn applied<M: Operator>(
    a: &Csr,
    make: impl FnOnce(&Runtime, &Space) -> Result<M, Error>,
    r: &[f64],
) -> Result<Vec<f64>, Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let space = Space::new(a.rows(), 1 << 40);
    let m = make(&rt, &space)?;
    multiply(&rt, &m, r)
}
