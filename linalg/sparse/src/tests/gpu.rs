//! Products on a GPU that is not there: the kernels' source on the host, and a driver that checks the order of streams.

use std::sync::Arc;

use zellige_cuda::Gpu;
use zellige_kernels::cuda::SPARSE_SOURCES;
use zellige_runtime::RuntimeBuilder;

use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet};
use crate::generate::{Elasticity, Elements, elasticity};

/// A GPU beside so many CPU workers, which leave to it what it can run; what `compute` finds there, and nothing is in disorder. `None` without g++.
fn on_gpu<T>(workers: usize, compute: impl FnOnce(&Runtime) -> Result<T, Error>) -> Result<Option<T>, Error> {
    let Some(mock) = zellige_twins::mock(SPARSE_SOURCES) else { return Ok(None) };
    let mock = Arc::new(mock.seed(5).build());
    let builder: RuntimeBuilder = Runtime::builder().workers(workers).gpu_only(true);
    let found = compute(&builder.device(Gpu::new(mock.clone(), 0).memory(1 << 28)).build()?)?;
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
    Ok(Some(found))
}

/// `A x`, as solvers compute it.
fn product(rt: &Runtime, a: &Csr, edge: usize, adaptation: &Adaptation<'_>) -> Result<Vec<f64>, Error> {
    let space = Space::new(a.rows(), 64 * a.bytes());
    assert!(space.parts() > 1, "windows of tiles are to be in several stretches");
    let stored = Stored::new(rt, &space, a, edge, adaptation)?;
    multiply(rt, &stored, &rhs(a.rows()))
}

fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn products_on_a_gpu_have_the_bits_of_the_cpu() -> Result<(), Error> {
    let solid = elasticity(&Elasticity { elements: Elements([16, 16, 17]), ..Elasticity::default() })?;
    let fluid = flow(&Flow { cells: [24, 24, 24], ..Flow::default() })?;
    let host = Runtime::builder().workers(2).build()?;
    for set in [FormatSet::Fp64].into_iter().chain(FormatSet::ALL) {
        for (a, edge) in [(&fluid, 1), (&fluid, 2), (&fluid, 4), (&solid, 3)] {
            if edge > 1 && set.has_scales() {
                continue;
            }
            let adaptation = Adaptation::new(set, Criterion::Componentwise, "2^-37".parse()?);
            let expected = product(&host, a, edge, &adaptation)?;
            // No CPU worker: who else would multiply?
            let Some(found) = on_gpu(0, |rt| product(rt, a, edge, &adaptation))? else { return Ok(()) };
            assert_eq!(bits(&found), bits(&expected), "{set} edge {edge}");
        }
    }
    Ok(())
}

#[test]
fn conjugate_gradients_with_products_on_a_gpu_have_the_same_bits() -> Result<(), Error> {
    let (a, b) = flowing()?;
    let ask = Ask { steps: 12, ..JACOBI };
    let host = Runtime::builder().workers(2).build()?;
    let (expected, x) = solved(&host, &Cg::default(), &a, &b, ask, &mut ())?;
    let on_gpu = on_gpu(1, |rt| {
        let (solution, x) = solved(rt, &Cg::default(), &a, &b, ask, &mut ())?;
        let came_back: u64 =
            rt.memory().iter().filter(|node| node.device.is_some()).map(|node| node.bytes_out).sum();
        Ok((solution, x, came_back))
    })?;
    let Some((solution, there, came_back)) = on_gpu else { return Ok(()) };
    // The result of each product.
    assert!(came_back >= 12 * 8 * a.rows() as u64, "{came_back} bytes");
    assert_eq!(solution, expected);
    assert_eq!(bits(&there), bits(&x));
    Ok(())
}
