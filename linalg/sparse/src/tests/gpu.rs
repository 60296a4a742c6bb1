//! Products on a GPU that is not there: the kernels' source on the host, and a driver that checks
//! the order of streams.

use std::sync::Arc;

use zellige_cuda::Gpu;
use zellige_kernels::cuda::{SELL_SOURCES, SPARSE_SOURCES};
use zellige_runtime::{DeviceGraphs, RuntimeBuilder};

use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet};
use crate::generate::{Elasticity, Elements, elasticity};

/// Runs `compute` with a GPU and this number of CPU workers, which leave all tasks that the GPU can
/// run to it; returns its result and checks that nothing is in disorder. `None` without g++.
fn on_gpu<T>(workers: usize, compute: impl FnOnce(&Runtime) -> Result<T, Error>) -> Result<Option<T>, Error> {
    on_gpu_of(Runtime::builder().workers(workers).gpu_only(true), compute)
}

/// Runs `compute` with a GPU added to a builder.
fn on_gpu_of<T>(
    builder: RuntimeBuilder,
    compute: impl FnOnce(&Runtime) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    on_gpu_with(1 << 28, builder, compute)
}

/// Runs `compute` with a GPU of this memory in bytes added to a builder.
fn on_gpu_with<T>(
    memory: u64,
    builder: RuntimeBuilder,
    compute: impl FnOnce(&Runtime) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let sources: Vec<_> = SELL_SOURCES.iter().chain(SPARSE_SOURCES).copied().collect();
    let Some(mock) = zellige_twins::mock(&sources) else { return Ok(None) };
    let mock = Arc::new(mock.seed(5).build());
    let found = compute(&builder.device(Gpu::new(mock.clone(), 0).memory(memory)).build()?)?;
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
    Ok(Some(found))
}

/// Returns `A x`, as solvers compute it.
fn product(rt: &Runtime, a: &Csr, block_size: usize, adaptation: &Adaptation<'_>) -> Result<Vec<f64>, Error> {
    let space = Space::new(a.rows(), 64 * a.bytes());
    assert!(space.parts() > 1, "windows of tiles are to be in several parts");
    let stored = Stored::new(rt, &space, a, block_size, adaptation)?;
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
        for (a, block_size) in [(&fluid, 1), (&fluid, 2), (&fluid, 4), (&solid, 3)] {
            if block_size > 1 && set.has_scales() {
                continue;
            }
            let adaptation = Adaptation::new(set, Criterion::Componentwise, "2^-37".parse()?);
            let expected = product(&host, a, block_size, &adaptation)?;
            // No CPU worker: who else would multiply?
            let Some(found) = on_gpu(0, |rt| product(rt, a, block_size, &adaptation))? else { return Ok(()) };
            assert_eq!(bits(&found), bits(&expected), "{set} block_size {block_size}");
        }
    }
    Ok(())
}

/// Method of a test: conjugate gradients, alone or with Jacobi, other methods, or several shifts.
#[derive(Clone, Copy, Debug)]
enum Way {
    Cg(Ask),
    Minres(Ask),
    BiCgStab(Ask),
    Shifted,
}

impl Way {
    /// Returns the answers and their steps after this number of steps.
    fn solve(self, rt: &Runtime, a: &Csr, b: &[f64], steps: usize) -> Result<(usize, Vec<Vec<f64>>), Error> {
        let alone = |method: &dyn Method, ask: Ask| {
            let (solution, x) = solved(rt, method, a, b, Ask { steps, ..ask }, &mut ())?;
            Ok((solution.steps, vec![x]))
        };
        match self {
            Way::Cg(ask) => alone(&Cg::default(), ask),
            Way::Minres(ask) => alone(&Minres, ask),
            Way::BiCgStab(ask) => alone(&BiCgStab { l: 2 }, ask),
            Way::Shifted => {
                let stop = [Stop::RelativeToRhs(1e-30), Stop::Steps(steps)];
                let found = multishift::all_in(rt, a, b, &[0.0, 0.5, 3.0], &stop)?;
                Ok((found.shared, found.each.into_iter().map(|(_, x)| x).collect()))
            }
        }
    }
}

/// Conjugate gradients, also for several shifts, keep scalars and partial sums on the GPU, too:
/// within a step nothing crosses the bus but the numbers that the host looks at now and then. Of
/// the other methods numbers and partial sums do.
#[test]
fn no_vector_crosses_the_bus_within_a_step() -> Result<(), Error> {
    let (a, b) = flowing()?;
    let vector = 8 * a.rows() as u64;
    let host = Runtime::builder().workers(2).build()?;
    for way in [Way::Cg(PLAIN), Way::Cg(JACOBI), Way::Minres(JACOBI), Way::BiCgStab(PLAIN), Way::Shifted] {
        let crossed = |steps: usize| {
            on_gpu(1, |rt| {
                let (made, answers) = way.solve(rt, &a, &b, steps)?;
                let nodes = rt.memory();
                let devices = nodes.iter().filter(|node| node.device.is_some());
                Ok((made, answers, devices.map(|node| node.bytes_in + node.bytes_out).sum::<u64>()))
            })
        };
        let (Some((few, _, first)), Some((many, there, last))) = (crossed(12)?, crossed(24)?) else {
            return Ok(());
        };
        let (made, here) = way.solve(&host, &a, &b, 24)?;
        assert_eq!(made, many, "{way:?}");
        for (there, here) in there.iter().zip(&here) {
            assert_eq!(bits(there), bits(here), "{way:?}");
        }
        let per_step = (last - first) / (many - few) as u64;
        println!("{way:?}: {per_step} bytes in a step, {vector} in a vector, {first} bytes for {few} steps");
        let most = match way {
            Way::Cg(_) | Way::Shifted => 1024,
            _ => vector / 4,
        };
        assert!(per_step < most, "{way:?}: {per_step} bytes in a step");
    }
    Ok(())
}

/// If a GPU may launch recorded graphs, all steps of conjugate gradients but the first 32 are such
/// launches: one for 32 steps.
#[test]
fn steps_of_conjugate_gradients_are_launched_as_graphs() -> Result<(), Error> {
    const STEPS: usize = 100;
    let (a, b) = flowing()?;
    let host = Runtime::builder().workers(2).build()?;
    for way in [Way::Cg(PLAIN), Way::Cg(JACOBI), Way::Shifted] {
        let builder = Runtime::builder().workers(1).gpu_only(true).device_graphs(DeviceGraphs::Always);
        let launched = on_gpu_of(builder, |rt| {
            let (steps, answers) = way.solve(rt, &a, &b, STEPS)?;
            Ok((steps, answers, rt.memory().iter().map(|node| node.graphs_launched).sum::<u64>()))
        })?;
        let Some((steps, there, graphs)) = launched else { return Ok(()) };
        let (_, here) = way.solve(&host, &a, &b, STEPS)?;
        assert_eq!(
            there.iter().map(|x| bits(x)).collect::<Vec<_>>(),
            here.iter().map(|x| bits(x)).collect::<Vec<_>>()
        );
        assert!(steps > 64, "{way:?} ended after {steps} steps");
        assert!(
            (steps / 32 - 1..=steps / 32 + 2).contains(&(graphs as usize)),
            "{way:?}: {graphs} launches for {steps} steps"
        );
    }
    Ok(())
}

/// Adds a row in the last part that reads all parts, and the column that keeps the matrix
/// symmetric.
fn with_long_row(a: &Csr) -> Csr {
    let n = a.rows();
    let of_row = |(i, (columns, values)): (usize, (&[u32], &[f64]))| {
        columns.iter().zip(values).map(|(&j, &value)| (i as u32, j, value)).collect::<Vec<_>>()
    };
    let long = (0..n - 1).step_by(37).map(|j| (n as u32 - 1, j as u32, -1e-3));
    let triplets: Vec<_> = a.iter().enumerate().flat_map(of_row).chain(long.clone()).collect();
    let more: Vec<_> = long.map(|(i, j, value)| (j, i, value)).collect();
    Csr::from_triplets(n, n, &[triplets, more].concat()).expect("a matrix")
}

/// More parts than a launch has arguments for, of one length and of several, multiplied in one
/// launch or, if memory is short, part by part: products and steps have the bits of the CPU, and
/// sums of all parts stay on the GPU.
#[test]
fn gpu_parts_may_be_more_than_a_launch_takes() -> Result<(), Error> {
    let a = with_long_row(&flow(&Flow { cells: [16, 16, 26], spread: 0.5, ..Flow::default() })?);
    let (rows, b) = (a.rows(), rhs(a.rows()));
    let starts = |more: usize| {
        let starts = (0..rows).step_by(96).map(move |start| start + start / 96 % 2 * more);
        starts.filter(move |start| *start < rows)
    };
    let made = |rt: &Runtime, space: &Space, steps: usize| {
        let stored = Stored::exact(rt, space, &a)?;
        let (mut x, stop) = (vec![0.0; rows], [Stop::RelativeToRhs(1e-30), Stop::Steps(steps)]);
        let product = multiply(rt, &stored, &b)?;
        solve(&Solve::new(rt, &stored), &Cg::default(), &b, &mut x, &stop[..], &mut ())?;
        let nodes = rt.memory();
        let devices = nodes.iter().filter(|node| node.device.is_some());
        let crossed = devices.map(|node| node.bytes_in + node.bytes_out).sum::<u64>();
        Ok(((bits(&product), bits(&x)), crossed))
    };
    for (more, memory) in [(0, 1 << 28), (0, 2 << 20), (48, 1 << 28)] {
        let space = Space::cut_at(&starts(more).collect::<Vec<_>>(), rows)?;
        assert!(space.parts() > 64);
        let on_gpu = |steps| {
            let builder = Runtime::builder().workers(1).gpu_only(true);
            on_gpu_with(memory, builder, |rt| made(rt, &space, steps))
        };
        let (Some((_, few)), Some((there, many))) = (on_gpu(4)?, on_gpu(12)?) else { return Ok(()) };
        let (here, _) = made(&Runtime::builder().workers(2).build()?, &space, 12)?;
        assert!(there == here, "parts of 96 and {more} rows more, {memory} bytes");
        let per_step = (many - few) / 8;
        println!("{per_step} bytes in a step: parts of 96 and {more} rows more, {memory} bytes");
        assert!(memory < 1 << 28 || per_step < 1024, "{per_step} bytes in a step");
    }
    Ok(())
}
