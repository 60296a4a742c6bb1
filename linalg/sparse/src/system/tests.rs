//! Systems from options to answers.

mod multiple_rhs;
mod operators;
mod refused;

use std::sync::Arc;

use zellige_runtime::{Emulated, Runtime};
use zellige_tests::every;

use super::*;
use crate::direct;
use crate::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, coordinates, elasticity, flow, stokes,
    transport,
};
use crate::precondition::{Amg, AmgSetup, NearNull};
use zellige_krylov::{History, Orthogonalisation, Solution, Stop};

fn matrices() -> Result<Vec<(&'static str, Csr)>, Error> {
    let cells = Flow { cells: [9, 8, 6], ..Flow::default() };
    let elements = Elements([4, 3, 3]);
    Ok(vec![
        ("flow", flow(&cells)?),
        ("transport", transport(&Transport { flow: cells, ..Transport::default() })?),
        ("elasticity", elasticity(&Elasticity { elements, ..Elasticity::default() })?),
        ("biot", biot(&Biot { elements, ..Biot::default() })?),
        ("stokes", stokes(&Stokes { elements, ..Stokes::default() })?),
    ])
}

/// Returns further matrices: other random fields, steps and spreads, rows of other units, and some
/// that no problem of physics has.
fn more_matrices() -> Result<Vec<(String, Csr)>, Error> {
    let mut all = Vec::new();
    for seed in [2, 3] {
        let cells = Flow { cells: [8, 7, 7], seed, spread: 0.8 };
        all.push((format!("flow {seed}"), flow(&cells)?));
        let stream = Transport { flow: cells, step: 1e4, ..Transport::default() };
        all.push((format!("transport {seed}"), transport(&stream)?));
        let elements = Elements([3, 4, 4]);
        all.push((
            format!("elasticity {seed}"),
            elasticity(&Elasticity { elements, seed, ..Elasticity::default() })?,
        ));
        all.push((format!("stokes {seed}"), stokes(&Stokes { elements, seed, ..Stokes::default() })?));
    }
    let units = |i: usize, j: u32, value: f64| Some(value * 4f64.powi((i % 7) as i32 - (j % 5) as i32));
    let units = all[0].1.clone().map_nonzeros(units);
    all.push(("other units".into(), units));
    let n = 300u32;
    let scattered = (0..n).flat_map(|i| {
        let others =
            (1..6u32).map(move |k| (i, (i * 7 + 31 * k * k) % n, f64::from((i * k) % 9) / 4.0 - 1.0));
        others.chain([(i, i, 6.0 + f64::from(i % 4))])
    });
    all.push((
        "scattered".into(),
        Csr::from_triplets(n as usize, n as usize, &scattered.collect::<Vec<_>>())?,
    ));
    // A saddle point: two blocks of a chain, coupled by the identity, and nothing in the last
    // block's diagonal but a little.
    let chain = (0..n / 2).flat_map(|i| {
        let next = (i + 1) % (n / 2);
        let (k, eps) = (i + n / 2, 1e-3);
        [(i, i, 2.5), (i, next, -1.0), (next, i, -1.0), (i, k, 1.0), (k, i, 1.0), (k, k, -eps)]
    });
    all.push((
        "saddle point".into(),
        Csr::from_triplets(n as usize, n as usize, &chain.collect::<Vec<_>>())?,
    ));
    Ok(all)
}

fn rhs(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect()
}

fn norm(v: impl Iterator<Item = f64>) -> f64 {
    v.map(|v| v * v).sum::<f64>().sqrt()
}

/// Checks the answers against a direct solver, which has its own errors: relative residuals of
/// `tol` mean relative errors of `cond tol`.
fn agrees_with_a_direct_solver(name: &str, a: &Csr, options: &Options) -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let (mut b, mut x) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
    a.multiply(&rhs(a.rows()), &mut b)?;
    let answer = solve(&rt, a, &b, &mut x, options, &mut ())?;
    assert!(answer.solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
    let (expected, condition) = (direct::solved(a, &b), direct::condition(a));
    let error = norm(x.iter().zip(&expected).map(|(x, y)| x - y)) / norm(expected.iter().copied());
    assert!(error <= 100.0 * condition * 1e-10, "{name}: {error:e}, condition {condition:e}");
    Ok(())
}

#[test]
fn answers_agree_with_those_of_a_direct_solver() -> Result<(), Error> {
    for (name, a) in matrices()? {
        agrees_with_a_direct_solver(name, &a, &Options::default())?;
    }
    Ok(())
}

#[test]
fn answers_to_more_matrices_agree_with_those_of_a_direct_solver() -> Result<(), Error> {
    let narrow = Options { inner: "ap7:cw:2^-24".parse()?, ..Options::default() };
    for (name, a) in more_matrices()? {
        agrees_with_a_direct_solver(&name, &a, &Options::default())?;
        agrees_with_a_direct_solver(&name, &a, &narrow)?;
    }
    Ok(())
}

/// Bitwise identical results on one, two and four workers, and two devices with separate memories,
/// for any preconditioner and scaling.
#[test]
fn preconditioned_and_scaled_systems_have_the_same_bits_everywhere() -> Result<(), Error> {
    let device = || Emulated::new(1 << 30);
    let workers = |count| Runtime::builder().workers(count).build();
    let devices = Runtime::builder().workers(1).device(device()).device(device()).build()?;
    let [one, others @ ..] = [workers(1)?, workers(2)?, workers(4)?, devices];
    let cells = Flow { cells: [30, 30, 26], ..Flow::default() };
    let (symmetric, streaming) =
        (flow(&cells)?, transport(&Transport { flow: cells, ..Transport::default() })?);
    let solid = elasticity(&Elasticity { elements: Elements([9, 9, 9]), ..Elasticity::default() })?;
    assert!(
        [&symmetric, &streaming, &solid]
            .iter()
            .all(|a| zellige_krylov::Space::new(a.rows(), a.bytes()).parts() > 1)
    );
    let ways = [
        (&symmetric, "cg", "ilu0", "none", "fp64"),
        (&symmetric, "cg", "ilu0", "both", "fp64"),
        (&symmetric, "cg", "amg", "both", "ap7:cw:2^-24"),
        (&symmetric, "fcg", "chebyshev:3", "none", "fp64"),
        (&symmetric, "minres", "jacobi", "both", "fp64"),
        (&solid, "cg", "ilu0", "both", "ap7:nw:2^-24"),
        (&solid, "cg", "amg", "none", "fp64"),
        (&solid, "gmres:20", "block:12", "rows", "fp32"),
        (&streaming, "gmres:20", "ilu0", "rows", "ap7re:cw:2^-30"),
        (&streaming, "bicgstabl:2", "ilu0", "both", "fp64"),
        (&streaming, "fgmres:20", "jacobi", "rows", "fp64"),
    ];
    for (n, (a, method, preconditioner, scaling, inner)) in ways.into_iter().enumerate() {
        let options = Options {
            method: method.parse()?,
            preconditioner: preconditioner.parse()?,
            scaling: scaling.parse()?,
            inner: inner.parse()?,
            stop: vec![Stop::Steps(12)],
            ..Options::default()
        };
        let b = [rhs(a.rows()), vec![1.0; a.rows()]];
        let solved = |rt: &Runtime| -> Result<Vec<Vec<f64>>, Error> {
            let mut x = vec![vec![0.0; a.rows()]; 2];
            System::new(rt, a, &options)?.solve_each(&b, &mut x, &mut [(); 2])?;
            Ok(x)
        };
        let expected = solved(&one)?;
        assert!(expected.iter().flatten().any(|x| *x != 0.0));
        let step = every(others.len());
        for (k, rt) in others.iter().enumerate().skip(n % step).step_by(step) {
            let bits = |x: Vec<Vec<f64>>| x.into_iter().flatten().map(f64::to_bits).collect::<Vec<_>>();
            assert!(
                bits(solved(rt)?) == bits(expected.clone()),
                "{method} {preconditioner} {scaling} {inner}, place {k}"
            );
        }
    }
    Ok(())
}

#[test]
fn orders_and_null_spaces_are_taken_care_of() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    // A ring: the graph Laplacian makes constants zero.
    let n = 500u32;
    let triplets = (0..n).flat_map(|i| [(i, i, 2.0), (i, (i + 1) % n, -1.0), ((i + 1) % n, i, -1.0)]);
    let ring = Csr::from_triplets(n as usize, n as usize, &triplets.collect::<Vec<_>>())?;
    let b = rhs(n as usize);
    let mut x = vec![0.0; n as usize];
    let options = Options { without_constant: true, reorder: true, ..Options::default() };
    let answer = solve(&rt, &ring, &b, &mut x, &options, &mut ())?;
    assert!(answer.solution.reason.is_converged(), "{:?}", answer.attempts);
    assert!(x.iter().sum::<f64>().abs() < 1e-8 * norm(x.iter().copied()));
    let mean = b.iter().sum::<f64>() / f64::from(n);
    let mut product = vec![0.0; n as usize];
    ring.multiply(&x, &mut product)?;
    let residual = norm(product.iter().zip(&b).map(|(product, b)| b - mean - product));
    assert!((answer.solution.true_residual - residual).abs() < 1e-12 * norm(b.iter().copied()), "{answer:?}");
    assert!(residual < 2e-10 * norm(b.iter().copied()), "{residual:e}");
    assert!((answer.removed - mean.abs() * f64::from(n).sqrt()).abs() < 1e-12, "{answer:?}");
    Ok(())
}

/// Rotations make levels for displacements better, whether coordinates give them or they are found
/// from the matrix. Given vectors are scaled and ordered with it.
#[test]
fn amg_uses_rotations() -> Result<(), Error> {
    let elements = Elements([12, 12, 10]);
    let a = elasticity(&Elasticity { elements, ..Elasticity::default() })?;
    let b = rhs(a.rows());
    let steps = |near_null, scaling, workers| -> Result<(usize, Vec<f64>), Error> {
        let rt = Runtime::builder().workers(workers).build()?;
        let (method, preconditioner) = (MethodChoice::Cg, PreconditionerChoice::Amg);
        let options = Options { method, preconditioner, near_null, scaling, ..Options::default() };
        let mut x = vec![0.0; a.rows()];
        let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{:?}", answer.attempts);
        Ok((answer.solution.steps, x))
    };
    let near = |near_null| Some(near_null);
    let (constants, _) = steps(near(NearNull::Constants), ScalingChoice::None, 2)?;
    let coordinates = || near(NearNull::Coordinates(coordinates(elements)));
    let (given, _) = steps(coordinates(), ScalingChoice::None, 2)?;
    let (scaled, _) = steps(coordinates(), ScalingChoice::Both, 2)?;
    let (found, x) = steps(None, ScalingChoice::None, 2)?;
    assert!(given <= 30 && scaled <= given + 3 && found <= 36, "{given} {scaled} {found}");
    assert!(2 * found < constants, "{found} with found vectors, {constants} with constants");
    let (alone, same) = steps(None, ScalingChoice::None, 1)?;
    assert!(alone == found && x == same, "one worker takes other steps, or has other bits");
    Ok(())
}

/// A set-up from a file gives the same bits as a new one, and serves for other values, but not for
/// other places of nonzeros.
#[test]
fn set_ups_are_kept_and_used_again() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("setup.npz");
    let made = |elements, ratio| {
        let made = Elasticity { elements: Elements(elements), ..Elasticity::default() };
        let a = elasticity(&made)?;
        Ok::<_, Error>(a.map_values(move |i, j, value| {
            let of = |row: usize| 1.0 + ratio * (row / 3 % 7) as f64;
            of(i) * value * of(j as usize)
        }))
    };
    let a = made([12, 12, 10], 0.0)?;
    let b = rhs(a.rows());
    let (method, preconditioner) = (MethodChoice::Cg, PreconditionerChoice::Amg);
    let plain = Options { method, preconditioner, scaling: ScalingChoice::None, ..Options::default() };
    let solved = |a: &Csr, options: &Options| -> Result<(usize, Vec<f64>), Error> {
        let mut x = vec![0.0; a.rows()];
        let answer = solve(&rt, a, &b, &mut x, options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{:?}", answer.attempts);
        Ok((answer.solution.steps, x))
    };
    let kept = KeptSetup::default();
    let new = solved(&a, &Options { kept_setup: Some(kept.clone()), ..plain.clone() })?;
    let setup = kept.get().expect("a set-up");
    assert!(new == solved(&a, &plain)? && setup.is_of(&a));
    setup.write(&path)?;
    let read = AmgSetup::read(&path)?;
    assert!(read == *setup, "other numbers are read than were written");
    let with = Options { setup: Some(Arc::new(read)), ..plain.clone() };
    assert!(solved(&a, &with)? == new, "a set-up from a file has other bits");
    // Levels of other values, with the transfers of the file.
    let changed = made([12, 12, 10], 0.02)?;
    let (steps, _) = solved(&changed, &with)?;
    let (own, _) = solved(&changed, &plain)?;
    assert!(steps <= own + own / 4, "{steps} steps with transfers of a file, {own} with its own");
    let refused = |options: &Options, a: &Csr| {
        let (b, mut x) = (vec![1.0; a.rows()], vec![0.0; a.rows()]);
        solve(&rt, a, &b, &mut x, options, &mut ()).expect_err("a set-up of another matrix").to_string()
    };
    assert!(refused(&with, &made([10, 12, 12], 0.0)?).contains("not "));
    assert!(refused(&Options { reorder: true, ..with.clone() }, &a).contains("order"));
    let other = Options { preconditioner: PreconditionerChoice::Ilu0, ..with };
    assert!(refused(&other, &a).contains("amg"));
    // A small matrix has no levels, and its set-up is a set-up nevertheless.
    let small = made([3, 3, 3], 0.0)?;
    let space = zellige_krylov::Space::new(small.rows(), small.bytes());
    let ones = vec![1.0; small.rows()];
    let (_, setup) = Amg::with_setup(&rt, &space, &small, 3, &ones, &NearNull::Search)?;
    setup.write(&path)?;
    assert!(AmgSetup::read(&path)? == setup);
    Ok(())
}

/// A search on a matrix that is not positive definite finds nothing, or something: it ends.
#[test]
fn amg_searches_in_indefinite_matrices() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = stokes(&Stokes { elements: Elements([7, 7, 6]), ..Stokes::default() })?;
    let options = Options {
        method: MethodChoice::Gmres { restart: 60, flexible: false },
        preconditioner: PreconditionerChoice::Amg,
        near_null: Some(NearNull::Search),
        ..Options::default()
    };
    let mut x = vec![0.0; a.rows()];
    let answer = solve(&rt, &a, &rhs(a.rows()), &mut x, &options, &mut ())?;
    assert!(x.iter().all(|x| x.is_finite()) && answer.solution.true_residual.is_finite());
    Ok(())
}

/// Scaling changes the near null space of AMG, which receives the scales: it takes as few steps as
/// without scaling.
#[test]
fn amg_bears_scaling() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = flow(&Flow { cells: [24, 24, 20], ..Flow::default() })?;
    let (mut b, x) = (vec![0.0; a.rows()], rhs(a.rows()));
    a.multiply(&x, &mut b)?;
    let steps = |scaling| -> Result<usize, Error> {
        let (method, preconditioner) = (MethodChoice::Cg, PreconditionerChoice::Amg);
        let options = Options { method, preconditioner, scaling, ..Options::default() };
        let answer = solve(&rt, &a, &b, &mut vec![0.0; a.rows()], &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{:?}", answer.attempts);
        Ok(answer.solution.steps)
    };
    let (with, without) = (steps(ScalingChoice::Both)?, steps(ScalingChoice::None)?);
    assert!(without <= 25 && with <= without + 3, "{with} steps with scales, {without} without");
    Ok(())
}
