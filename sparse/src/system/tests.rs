use zellige_runtime::Runtime;

use super::*;
use crate::direct;
use crate::generate::{
    Biot, Elasticity, Elements, Flow, Stokes, Transport, biot, elasticity, flow, stokes, transport,
};
use crate::krylov::History;

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

fn rhs(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect()
}

fn norm(v: impl Iterator<Item = f64>) -> f64 {
    v.map(|v| v * v).sum::<f64>().sqrt()
}

/// Relative residuals of `tol` mean relative errors of `cond tol`; the answers of a direct solver, which has errors of its own.
#[test]
fn answers_agree_with_those_of_a_direct_solver() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    for (name, a) in matrices()? {
        let (mut b, mut x) = (vec![0.0; a.rows()], vec![0.0; a.rows()]);
        a.multiply(&rhs(a.rows()), &mut b)?;
        let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
        let (expected, condition) = (direct::solved(&a, &b), direct::condition(&a));
        let error = norm(x.iter().zip(&expected).map(|(x, y)| x - y)) / norm(expected.iter().copied());
        assert!(error <= 100.0 * condition * 1e-10, "{name}: {error:e}, condition {condition:e}");
    }
    Ok(())
}

#[test]
fn narrow_copies_give_answers_of_the_same_quality() -> Result<(), Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let a = elasticity(&Elasticity { elements: Elements([6, 6, 5]), ..Elasticity::default() })?;
    let b = rhs(a.rows());
    for (inner, method) in [
        ("fp32", "gmres:60"),
        ("ap7:cw:2^-24", "cg"),
        ("ap2:cw:2^-20", "gmres:60"),
        ("ap7re:cw:2^-37", "bicgstabl:2"),
    ] {
        let mut x = vec![0.0; a.rows()];
        let options = Options {
            inner: inner.parse()?,
            method: method.parse()?,
            preconditioner: PreconditionerChoice::Ilu0,
            ..Options::default()
        };
        let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{inner}: {:?}", answer.attempts);
        assert!(answer.bytes.inner < answer.bytes.matrix * 9 / 10, "{inner}: {:?}", answer.bytes);
        let residual = crate::exact::ExactProduct::of(&a, &x)?.errors(&b)?;
        assert!(norm(residual.into_iter()) <= 1.001e-10 * norm(b.iter().copied()), "{inner}");
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
    assert!(residual < 2e-10 * norm(b.iter().copied()), "{residual:e}");
    Ok(())
}

#[test]
fn what_cannot_be_solved_is_named() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let problem = |triplets: &[(u32, u32, f64)], size: (usize, usize), options: &Options| {
        let a = Csr::from_triplets(size.0, size.1, triplets).expect("a matrix");
        let b = vec![1.0; size.0];
        solve(&rt, &a, &b, &mut vec![0.0; size.1], options, &mut ()).expect_err("no answer").to_string()
    };
    let auto = Options::default();
    assert!(problem(&[(0, 0, 1.0)], (1, 2), &auto).contains("only square"));
    assert!(problem(&[(0, 0, 1.0), (0, 1, 1.0)], (2, 2), &auto).contains("row 2 is all zeros"));
    let jacobi =
        Options { preconditioner: PreconditionerChoice::Jacobi, method: MethodChoice::Cg, ..auto.clone() };
    assert!(problem(&[(0, 1, 1.0), (1, 0, 1.0)], (2, 2), &jacobi).contains("row 1"));
    let constant = Options { without_constant: true, ..auto };
    assert!(problem(&[(0, 0, 1.0), (1, 1, 1.0)], (2, 2), &constant).contains("not in the null space"));
    Ok(())
}

/// Some right-hand sides have answers so large that none in `f64` has a small residual: that is said.
#[test]
fn what_rounding_does_is_told() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = biot(&Biot { elements: Elements([4, 3, 3]), ..Biot::default() })?;
    let (b, mut x) = (vec![1.0; a.rows()], vec![0.0; a.rows()]);
    let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut ())?;
    assert!(!answer.solution.reason.is_converged());
    assert!(answer.attainable > 1e-10 * answer.solution.rhs);
    assert!(answer.solution.true_residual < 100.0 * answer.attainable, "{answer:?}");
    Ok(())
}

/// A singular system without an answer: nobody says that there is one.
#[test]
fn what_has_no_answer_gets_none() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0)])?;
    let mut x = vec![0.0; 2];
    let answer = solve(&rt, &a, &[1.0, -1.0], &mut x, &Options::default(), &mut ())?;
    assert!(!answer.solution.reason.is_converged(), "{:?}", answer.attempts);
    assert!(answer.solution.true_residual >= 0.99 * 2f64.sqrt());
    Ok(())
}

/// Whatever is solved beside it, an answer has the bits that it has alone; preconditioners with vectors of their own are shared, too.
#[test]
fn right_hand_sides_at_once_have_the_bits_of_one_at_a_time() -> Result<(), Error> {
    let a = flow(&Flow { cells: [24, 20, 18], ..Flow::default() })?;
    let rt = Runtime::builder().workers(3).build()?;
    let b: Vec<Vec<f64>> =
        (0..7).map(|k| (0..a.rows()).map(|i| ((i * (k + 3)) % 29) as f64 - 14.0).collect()).collect();
    for preconditioner in ["ilu0", "amg", "chebyshev:3"] {
        let options = Options { preconditioner: preconditioner.parse()?, ..Options::default() };
        let system = System::new(&rt, &a, &options)?;
        let (mut x, mut logs) = (vec![vec![0.0; a.rows()]; b.len()], vec![History::default(); b.len()]);
        let answers = system.solve_each(&b, &mut x, &mut logs)?;
        for (k, answer) in answers.iter().enumerate() {
            assert!(answer.solution.reason.is_converged(), "{answer:?}");
            let mut alone = vec![0.0; a.rows()];
            let expected = solve(&rt, &a, &b[k], &mut alone, &options, &mut ())?;
            assert!(
                x[k].iter().zip(&alone).all(|(x, alone)| x.to_bits() == alone.to_bits()),
                "{preconditioner} {k}"
            );
            assert_eq!(answer.solution, expected.solution);
            assert_eq!(logs[k].steps.len(), expected.solution.steps);
        }
    }
    let system = System::new(&rt, &a, &Options::default())?;
    assert!(system.solve_each(&b, &mut [], &mut [(); 7]).is_err());
    Ok(())
}

/// Rows of other units dominate the residual that the caller sees; a scaled method begins with the others, and narrow copies do so, too.
#[test]
fn rows_of_other_units_are_solved_with_narrow_copies() -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let cells = Flow { cells: [9, 8, 7], ..Flow::default() };
    let a = transport(&Transport { flow: cells, ..Transport::default() })?;
    // Some unknowns are given, as finite element codes write that.
    let is_given = |i: usize| i.is_multiple_of(20);
    let a = a.map_elements(|i, j, value| match is_given(i) || is_given(j as usize) {
        true => (i == j as usize).then_some(1.0),
        false => Some(1e9 * value),
    });
    let b = vec![1.0; a.rows()];
    for inner in ["fp64", "fp32", "ap7:cw:2^-20"] {
        let mut x = vec![0.0; a.rows()];
        let options = Options {
            method: "gmres:40".parse()?,
            preconditioner: PreconditionerChoice::None,
            inner: inner.parse()?,
            scaling: ScalingChoice::Rows,
            ..Options::default()
        };
        let answer = solve(&rt, &a, &b, &mut x, &options, &mut ())?;
        assert!(answer.solution.reason.is_converged(), "{inner}: {:?}", answer.attempts);
    }
    Ok(())
}
