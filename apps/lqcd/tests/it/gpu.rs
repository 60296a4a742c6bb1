//! The operator on a mock GPU: the kernels' source runs on the host, with a driver that checks the
//! order of streams.

use std::sync::Arc;

use zellige_cuda::Gpu;
use zellige_kernels::cuda::{SITE_SOURCES, SPARSE_SOURCES};
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::method::{NumbersHandle, Steps};
use zellige_krylov::{Cg, MultiVector, Operator, Solve, Stop, multiply, solve};
use zellige_lqcd::dslash::Dslash;
use zellige_lqcd::normal::Normal;
use zellige_lqcd::pipeline::dslash::{dslash, random_links};
use zellige_lqcd::precision::{Precision, Sites};
use zellige_lqcd::su3::C64;
use zellige_lqcd::wilson::Wilson;
use zellige_lqcd::{Boundary, Error, Geometry, Parity};
use zellige_runtime::{Bindings, Runtime};

/// Runs `compute` with so many GPUs in addition to CPU workers, which leave them the tasks that
/// they can run. The mock must report no violation. Returns `None` without g++.
fn on_gpus<T>(
    gpus: u32,
    workers: usize,
    compute: impl FnOnce(&Runtime) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let Some(mock) = zellige_twins::mock([SITE_SOURCES, SPARSE_SOURCES].into_iter().flatten()) else {
        return Ok(None);
    };
    let mock = Arc::new(mock.gpus(gpus).seed(5).build());
    let mut builder = Runtime::builder().workers(workers).gpu_only(true);
    for number in 0..gpus {
        builder = builder.device(Gpu::new(mock.clone(), number).memory(1 << 28));
    }
    let found = compute(&builder.build()?)?;
    assert_eq!(mock.violations(), [] as [String; 0]);
    assert_eq!(mock.leaks(), [] as [String; 0]);
    Ok(Some(found))
}

fn field(geometry: Geometry, seed: usize) -> Vec<C64> {
    let number = |i: usize| ((i * 2_654_435_761 + seed * 40_503) % 10_007) as f64 / 5003.5 - 1.0;
    (0..geometry.half() * 3).map(|i| C64::new(number(2 * i), number(2 * i + 1))).collect()
}

fn bits(x: &[C64]) -> Vec<[u64; 2]> {
    x.iter().map(|z| [z.re.to_bits(), z.im.to_bits()]).collect()
}

/// Computes `-0.7 D x + 0.3 z` for each column.
fn product(
    rt: &Runtime,
    geometry: Geometry,
    improved: bool,
    to: Parity,
    precision: Precision,
    of_z: SiteFormat,
    columns: usize,
) -> Result<Vec<Vec<[u64; 2]>>, Error> {
    let links = random_links(geometry, improved, 1);
    let d = Dslash::new(rt, &links, to, Boundary::Antiperiodic, precision);
    let stored = |format| MultiVector::stored(rt, d.space(), columns, Arc::new(Sites::new(format, columns)));
    let (x, y, z) = (stored(precision.fermion), stored(precision.fermion), stored(of_z));
    for c in 0..columns {
        x.set_column(rt, c, &field(geometry, c))?;
        z.set_column(rt, c, &field(geometry, 7 + c))?;
    }
    let numbers = NumbersHandle::new(rt, columns, 0);
    let graph = rt.record(|graph| {
        d.apply(&Steps::new(rt, graph, d.space(), &numbers), &x, &y, -0.7, Some((0.3, &z)))
    })?;
    rt.replay(&Bindings::recorded(&graph))?;
    (0..columns).map(|c| Ok(bits(&y.column(rt, c)?))).collect()
}

#[test]
fn products_on_gpus_have_the_bits_of_the_cpu() -> Result<(), Error> {
    let host = Runtime::builder().workers(2).build()?;
    // The lattice has several slabs, with a shorter last one.
    let geometry = Geometry::new([4, 6, 8, 14])?;
    assert!(geometry.space().parts() > 1);
    let formats = ["double", "single", "half", "int20", "int30", "fixed24/single/fp32", "fp32/int20/fp64"];
    for (i, format) in formats.into_iter().enumerate() {
        let precision: Precision = format.parse().expect("a precision");
        let (improved, to) = (i % 3 != 2, Parity::BOTH[i % 2]);
        for (columns, of_z) in [(1, SiteFormat::WITH_KERNELS[(i + 1) % 5]), (3, precision.fermion)] {
            let made = |rt: &Runtime| product(rt, geometry, improved, to, precision, of_z, columns);
            let expected = made(&host)?;
            // Without CPU workers, the GPUs must run the products.
            for gpus in [1, 2] {
                let Some(found) = on_gpus(gpus, 0, made)? else { return Ok(()) };
                assert!(found == expected, "{format}, {columns} columns, {gpus} GPUs");
            }
        }
    }
    Ok(())
}

/// There is no kernel for compressed links, and none for Wilson quarks.
#[test]
fn what_gpus_cannot_multiply_cpu_workers_do() -> Result<(), Error> {
    let (host, geometry) = (Runtime::builder().workers(1).build()?, Geometry::new([4, 4, 4, 4])?);
    let precision: Precision = "fixed16-13/half/fp32".parse().expect("a precision");
    let made = |rt: &Runtime| product(rt, geometry, true, Parity::Even, precision, SiteFormat::Half, 1);
    let expected = made(&host)?;
    if let Some(found) = on_gpus(1, 1, made)? {
        assert!(found == expected);
    }
    let u = random_links(geometry, false, 1).fat;
    let spins: Vec<C64> = (0..4).flat_map(|seed| field(geometry, seed)).collect();
    let made = |rt: &Runtime| {
        let w = Wilson::new(rt, &u, 0.1, Parity::Even, Boundary::Antiperiodic, Precision::DOUBLE);
        Ok(bits(&multiply(rt, &w, &spins)?))
    };
    let expected = made(&host)?;
    if let Some(found) = on_gpus(1, 1, made)? {
        assert!(found == expected);
    }
    Ok(())
}

#[test]
fn the_normal_operator_on_a_gpu_has_the_bits_of_the_cpu() -> Result<(), Error> {
    let (host, geometry) = (Runtime::builder().workers(2).build()?, Geometry::new([6, 4, 4, 10])?);
    let links = random_links(geometry, true, 2);
    let made = |rt: &Runtime| {
        let (parity, boundary) = (Parity::Odd, Boundary::Periodic);
        let a = Normal::new(rt, &links, 0.1, parity, boundary, Precision::DOUBLE);
        assert_eq!(a.domain().len(), geometry.half() * 3);
        Ok(bits(&multiply(rt, &a, &field(geometry, 3))?))
    };
    let expected = made(&host)?;
    if let Some(found) = on_gpus(1, 0, made)? {
        assert!(found == expected);
    }
    Ok(())
}

/// Links and vectors stay on the GPU: only the first application transfers data.
#[test]
fn nothing_crosses_the_bus_between_applications() -> Result<(), Error> {
    let geometry = Geometry::new([4, 4, 4, 14])?;
    let links = random_links(geometry, true, 1);
    let crossed = on_gpus(1, 1, |rt| {
        let d = Dslash::new(rt, &links, Parity::Even, Boundary::Antiperiodic, Precision::SINGLE);
        let stored = || MultiVector::stored(rt, d.space(), 1, Arc::new(Sites::new(SiteFormat::Fp32, 1)));
        let (x, y) = (stored(), stored());
        x.set_column(rt, 0, &field(geometry, 1))?;
        let numbers = NumbersHandle::new(rt, 1, 0);
        let graph =
            rt.record(|graph| d.apply(&Steps::new(rt, graph, d.space(), &numbers), &x, &y, 1.0, None))?;
        let mut crossed = Vec::new();
        for _ in 0..3 {
            rt.replay(&Bindings::recorded(&graph))?;
            rt.wait_all()?;
            crossed.push(rt.memory().iter().map(|node| node.bytes_in + node.bytes_out).sum::<u64>());
        }
        Ok(crossed)
    })?;
    if let Some(crossed) = crossed {
        assert!(crossed[0] > 0 && crossed[1] == crossed[0] && crossed[2] == crossed[0], "{crossed:?}");
    }
    Ok(())
}

/// Both kinds of replay are possible here.
#[test]
fn the_measurement_names_the_gpu() -> Result<(), Error> {
    let links = random_links(Geometry::new([4, 4, 4, 4])?, true, 1);
    let found = on_gpus(1, 1, |rt| {
        let half: Precision = "half".parse().expect("a precision");
        let compressed: Precision = "fixed16-9/half/fp32".parse().expect("a precision");
        Ok([half, compressed].map(|precision| dslash(rt, &links, precision, 2, 2, Some(10.0))))
    })?;
    let Some([on_gpu, on_cpu]) = found else { return Ok(()) };
    let (on_gpu, on_cpu) = (on_gpu?, on_cpu?);
    assert!(on_gpu.device.contains("GPU 0") && on_gpu.nanoseconds > 0.0, "{on_gpu:?}");
    assert_eq!((on_gpu.bandwidth, &*on_cpu.device), (10.0, "cpu"));
    Ok(())
}

/// In float64, conjugate gradients with the normal operator have the bits of the CPU. No vector is
/// transferred within a step, only some hundred bytes of numbers that the host reads.
#[test]
fn conjugate_gradients_stay_on_the_gpu() -> Result<(), Error> {
    let (host, geometry) = (Runtime::builder().workers(2).build()?, Geometry::new([4, 4, 6, 14])?);
    assert!(geometry.space().parts() > 1);
    let links = random_links(geometry, true, 2);
    let solved = |rt: &Runtime, steps: usize| -> Result<_, Error> {
        let (parity, boundary) = (Parity::Even, Boundary::Antiperiodic);
        let a = Normal::new(rt, &links, 0.1, parity, boundary, Precision::DOUBLE);
        let (b, mut x) = (field(geometry, 3), vec![C64::default(); geometry.half() * 3]);
        let stop = [Stop::RelativeToRhs(1e-30), Stop::Steps(steps)];
        let found = solve(&Solve::new(rt, &a), &Cg::default(), &b, &mut x, &stop[..], &mut ())?;
        let nodes = rt.memory();
        let devices = nodes.iter().filter(|node| node.device.is_some());
        Ok((found.steps, bits(&x), devices.map(|node| node.bytes_in + node.bytes_out).sum::<u64>()))
    };
    let on_gpu = |steps| on_gpus(1, 1, |rt| solved(rt, steps));
    let (Some((few, _, first)), Some((many, there, last))) = (on_gpu(12)?, on_gpu(24)?) else {
        return Ok(());
    };
    let (made, here, _) = solved(&host, 24)?;
    assert!(many == made && there == here);
    let per_step = (last - first) / (many - few) as u64;
    println!("{per_step} bytes in a step, {} in a vector", geometry.half() * 48);
    assert!(per_step < 1024, "{per_step} bytes in a step");
    Ok(())
}
