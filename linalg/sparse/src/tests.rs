//! Methods on systems that are made here, against residuals in doubled precision and a direct
//! solver.

mod adjoint;
mod bicgstab;
mod columns;
mod gmres;
mod gpu;
mod hard;
mod minres;
mod multishift;
mod norms;
mod refined;
mod reliable;
mod stochastic;

use zellige_krylov::method::*;
use zellige_krylov::*;

use crate::csr::Csr;
use crate::exact::ExactProduct;
use crate::generate::{Flow, Transport, flow, transport};
use crate::precondition::Jacobi;
use crate::stored::Stored;
use zellige_runtime::{Emulated, Runtime};

/// Returns a symmetric positive definite matrix and a right-hand side.
fn flowing() -> Result<(Csr, Vec<f64>), Error> {
    let a = flow(&Flow { cells: [24, 24, 24], spread: 0.5, ..Flow::default() })?;
    let b = rhs(a.rows());
    Ok((a, b))
}

/// Returns a nonsymmetric matrix and a right-hand side.
fn streaming(cells: usize) -> Result<(Csr, Vec<f64>), Error> {
    let flow = Flow { cells: [cells; 3], spread: 0.5, ..Flow::default() };
    let a = transport(&Transport { flow, step: 10.0, ..Transport::default() })?;
    let b = rhs(a.rows());
    Ok((a, b))
}

fn rhs(rows: usize) -> Vec<f64> {
    (0..rows).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect()
}

fn small(rows: usize, triplets: &[(usize, usize, f64)]) -> Csr {
    let triplets: Vec<_> = triplets.iter().map(|&(i, j, a)| (i as u32, j as u32, a)).collect();
    Csr::from_triplets(rows, rows, &triplets).expect("a small matrix")
}

fn diagonal(elements: &[f64]) -> Csr {
    let triplets: Vec<_> = elements.iter().enumerate().map(|(i, &a)| (i, i, a)).collect();
    small(elements.len(), &triplets)
}

/// Request to a solver in these tests.
#[derive(Clone, Copy, Debug)]
struct Ask {
    jacobi: bool,
    tolerance: f64,
    steps: usize,
}

const JACOBI: Ask = Ask { jacobi: true, tolerance: 1e-10, steps: 2000 };
const PLAIN: Ask = Ask { jacobi: false, ..JACOBI };

fn solved(
    rt: &Runtime,
    method: &dyn Method,
    a: &Csr,
    b: &[f64],
    ask: Ask,
    log: &mut dyn Logger,
) -> Result<(Solution, Vec<f64>), Error> {
    // Small panels, so that there are several.
    let space = Space::new(a.rows(), 64 * a.bytes());
    let exact = Stored::exact(rt, &space, a)?;
    let jacobi = if ask.jacobi { Some(Jacobi::new(rt, &space, a)?) } else { None };
    let preconditioner = jacobi.as_ref().map(|jacobi| jacobi as &dyn Operator);
    let problem = Solve { rt, exact: &exact, inner: &exact, preconditioner, reduction: 0.0 };
    let mut x = vec![0.0; a.rows()];
    let stop = [Stop::RelativeToRhs(ask.tolerance), Stop::Steps(ask.steps)];
    let solution = solve(&problem, method, b, &mut x, &stop[..], log)?;
    Ok((solution, x))
}

/// Returns `|b - A x| / |b|`, in doubled precision.
fn residual(a: &Csr, b: &[f64], x: &[f64]) -> Result<f64, Error> {
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    Ok(norm(&ExactProduct::of(a, x)?.errors(b)?) / norm(b))
}

/// Solves, and checks the answer.
fn answers(method: &dyn Method, a: &Csr, b: &[f64], ask: Ask) -> Result<Solution, Error> {
    let rt = Runtime::builder().workers(2).build()?;
    let (solution, x) = solved(&rt, method, a, b, ask, &mut ())?;
    println!("{}: {solution:?}", method.name());
    assert!(solution.reason.is_converged(), "{}: {solution:?}", method.name());
    let residual = residual(a, b, &x)?;
    assert!(residual <= 1.01 * ask.tolerance, "{}: {residual:e}", method.name());
    Ok(solution)
}

/// Solves a system of a few unknowns, and compares with elimination.
fn agrees_with_elimination(method: &dyn Method, a: &Csr) -> Result<(), Error> {
    let (rt, b) = (Runtime::builder().workers(1).build()?, rhs(a.rows()));
    let (solution, x) = solved(&rt, method, a, &b, Ask { tolerance: 1e-13, ..PLAIN }, &mut ())?;
    assert!(solution.reason.is_converged(), "{}: {solution:?}", method.name());
    let expected = crate::direct::solved(a, &b);
    let scale = crate::exact::largest(expected.iter().copied());
    for (x, expected) in x.iter().zip(&expected) {
        assert!((x - expected).abs() <= 1e-9 * scale, "{}: {x} for {expected}", method.name());
    }
    Ok(())
}

/// Returns runtimes with one worker, four workers, and two devices with separate memories.
fn places() -> Result<[Runtime; 3], Error> {
    let devices = Runtime::builder().workers(1).device(Emulated::new(1 << 30)).device(Emulated::new(1 << 30));
    Ok([Runtime::builder().workers(1).build()?, Runtime::builder().workers(4).build()?, devices.build()?])
}

/// Runs a computation on every runtime, and compares the bits.
fn same_bits_everywhere(compute: impl Fn(&Runtime) -> Result<Vec<f64>, Error>) -> Result<(), Error> {
    let [one, others @ ..] = places()?;
    let expected = compute(&one)?;
    for rt in others {
        let x = compute(&rt)?;
        assert!(
            x.len() == expected.len() && x.iter().zip(&expected).all(|(x, y)| x.to_bits() == y.to_bits())
        );
    }
    Ok(())
}

fn has_the_same_bits_everywhere(method: &dyn Method, a: &Csr, b: &[f64], ask: Ask) -> Result<(), Error> {
    same_bits_everywhere(|rt| Ok(solved(rt, method, a, b, ask, &mut ())?.1))
}

/// Checks every method on systems that are trivial, or have no answer.
fn is_honest(method: &dyn Method) -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let ask = Ask { steps: 200, ..PLAIN };
    // The answer is known before the first step.
    let (solution, x) = solved(&rt, method, &diagonal(&[1.0, 2.0]), &[0.0; 2], ask, &mut ())?;
    assert_eq!((solution.reason, solution.steps, &x[..]), (Reason::Converged, 0, &[0.0; 2][..]));
    // The Krylov space has one dimension.
    let (solution, _) = solved(&rt, method, &diagonal(&[1.0; 3]), &[3.0, -4.0, 5.0], ask, &mut ())?;
    assert!(solution.reason.is_converged(), "{}: {solution:?}", method.name());
    // Singular, with answers and without.
    let singular = small(
        3,
        &[(0, 0, 1.0), (0, 1, -1.0), (1, 0, -1.0), (1, 1, 2.0), (1, 2, -1.0), (2, 1, -1.0), (2, 2, 1.0)],
    );
    for b in [[1.0, 0.0, -1.0], [1.0, 1.0, 1.0]] {
        let (solution, x) = solved(&rt, method, &singular, &b, ask, &mut ())?;
        let residual = residual(&singular, &b, &x)?;
        assert_eq!(solution.reason.is_converged(), residual <= 1e-10, "{}: {solution:?}", method.name());
        assert!(b[1] == 0.0 || !solution.reason.is_converged());
    }
    // Infinite on the way, or at once.
    for b in [[1.0, 1.0], [1e200, 1e200]] {
        let (solution, x) = solved(&rt, method, &diagonal(&[1e200, -1e300]), &b, ask, &mut ())?;
        assert!(!solution.reason.is_converged(), "{}: {solution:?}", method.name());
        assert!(x.iter().all(|x| x.is_finite()));
    }
    tells_what_is_no_number(&rt, method)
}

fn tells_what_is_no_number(rt: &Runtime, method: &dyn Method) -> Result<(), Error> {
    let (a, space) = (diagonal(&[1.0, 2.0, 3.0]), Space::new(3, 0));
    let exact = Stored::exact(rt, &space, &a)?;
    let spoilt = from_fn(&space, |_: &[f64], y: &mut [f64]| y.fill(f64::NAN));
    let problem = Solve { rt, exact: &exact, inner: &spoilt, preconditioner: None, reduction: 0.0 };
    let mut x = [0.5; 3];
    let solution = solve(&problem, method, &[1.0; 3], &mut x, &[Stop::RelativeToRhs(1e-9)][..], &mut ())?;
    assert_eq!((solution.reason, x), (Reason::NotANumber, [0.5; 3]), "{}", method.name());
    Ok(())
}

/// Solves a system of two unknowns on which the method breaks down at once.
fn breaks_down(method: &dyn Method, a: [[f64; 2]; 2], b: [f64; 2]) -> Result<(), Error> {
    let rt = Runtime::builder().workers(1).build()?;
    let a = small(2, &[(0, 0, a[0][0]), (0, 1, a[0][1]), (1, 0, a[1][0]), (1, 1, a[1][1])]);
    let (solution, x) = solved(&rt, method, &a, &b, PLAIN, &mut ())?;
    assert_eq!((solution.reason, &x[..]), (Reason::BrokenDown, &[0.0; 2][..]), "{}", method.name());
    Ok(())
}

/// Each has numbers that it divides by, and a matrix that makes one of them 0.
#[test]
fn breakdowns_are_told() -> Result<(), Error> {
    breaks_down(&Cg::default(), [[1.0, 0.0], [0.0, -1.0]], [1.0, 1.0])?;
    breaks_down(&Gmres::default(), [[0.0, 1.0], [0.0, 0.0]], [1.0, 0.0])?;
    breaks_down(&Minres, [[0.0, 0.0], [0.0, 1.0]], [1.0, 0.0])?;
    breaks_down(&BiCgStab { l: 1 }, [[0.0, 1.0], [-1.0, 0.0]], [1.0, 0.0])?;
    breaks_down(&BiCgStab { l: 2 }, [[0.0, 1.0], [-1.0, 0.0]], [1.0, 0.0])
}

#[test]
fn conjugate_gradients_answer() -> Result<(), Error> {
    let (a, b) = flowing()?;
    let few = flow(&Flow { cells: [4, 3, 2], spread: 0.5, ..Flow::default() })?;
    for method in [Cg { flexible: false }, Cg { flexible: true }] {
        answers(&method, &a, &b, Ask { tolerance: 1e-8, ..JACOBI })?;
        agrees_with_elimination(&method, &few)?;
        is_honest(&method)?;
    }
    has_the_same_bits_everywhere(&Cg::default(), &a, &b, Ask { steps: 60, ..JACOBI })
}
