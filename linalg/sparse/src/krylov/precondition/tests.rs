use zellige_runtime::{Bindings, Runtime, Submit};

use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Preconditioner, Scalars, Steps};
use crate::space::Space;

/// `M^-1 r`, on several small stretches.
pub fn applied<M: Preconditioner>(
    a: &Csr,
    make: impl FnOnce(&Runtime, &Space) -> Result<M, Error>,
    r: &[f64],
) -> Result<Vec<f64>, Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let space = Space::new(a.rows(), 1 << 40);
    let m = make(&rt, &space)?;
    let (r, z) = (space.vector(&rt, r.to_vec()), space.zeros(&rt));
    let scalars = rt.register(Scalars::zeros(0));
    let graph = rt.record(|graph| m.apply(&Steps::new(graph, &space, &scalars), &r, &z))?;
    rt.replay(&Bindings::recorded(&graph))?;
    let mut back = vec![0.0; a.rows()];
    z.copy_to(&rt, &mut back)?;
    Ok(back)
}
