use zellige_runtime::{Emulated, Runtime};

use super::precondition::Jacobi;
use super::*;
use crate::csr::Csr;
use crate::generate::{Flow, flow};

fn system() -> Result<(Csr, Vec<f64>), Error> {
    let a = flow(&Flow { cells: [30, 30, 30], spread: 0.5, ..Flow::default() })?;
    let b = (0..a.rows()).map(|i| ((i * 37 % 101) as f64 - 50.0) / 50.0).collect();
    Ok((a, b))
}

fn solved(rt: &Runtime, method: &dyn Method, a: &Csr, b: &[f64]) -> Result<(Solution, Vec<f64>), Error> {
    // Small panels, so that there are several.
    let space = Space::new(a.rows(), 64 * a.bytes());
    let exact = Stored::exact(rt, &space, a)?;
    let jacobi = Jacobi::new(rt, &space, a)?;
    let preconditioner: Option<&dyn Preconditioner> = Some(&jacobi);
    let problem = Solve { rt, space: &space, exact: &exact, inner: &exact, preconditioner, reduction: 0.0 };
    let mut x = vec![0.0; a.rows()];
    let stop = [Stop::RelativeToRhs(1e-10), Stop::Steps(2000)];
    let solution = solve(&problem, method, b, &mut x, &stop[..], &mut ())?;
    Ok((solution, x))
}

#[test]
fn answers_have_the_residual_that_was_asked_for() -> Result<(), Error> {
    let (a, b) = system()?;
    let rt = Runtime::builder().workers(2).build()?;
    for method in [Cg { flexible: false }, Cg { flexible: true }] {
        let (solution, x) = solved(&rt, &method, &a, &b)?;
        println!("{}: {solution:?}", method.name());
        assert!(solution.reason.is_converged());
        let residual = crate::exact::ExactProduct::of(&a, &x)?.errors(&b)?;
        let norm = residual.iter().map(|r| r * r).sum::<f64>().sqrt();
        assert!(norm <= 1.01e-10 * solution.rhs, "{norm:e} beside {:e}", solution.rhs);
    }
    Ok(())
}

#[test]
fn bits_do_not_depend_on_workers_or_devices() -> Result<(), Error> {
    let (a, b) = system()?;
    let one = Runtime::builder().workers(1).build()?;
    let (_, expected) = solved(&one, &Cg::default(), &a, &b)?;
    let four = Runtime::builder().workers(4).build()?;
    let devices = Runtime::builder()
        .workers(1)
        .device(Emulated::new(1 << 30))
        .device(Emulated::new(1 << 30))
        .build()?;
    for rt in [four, devices] {
        let (_, x) = solved(&rt, &Cg::default(), &a, &b)?;
        assert!(x.iter().zip(&expected).all(|(x, y)| x.to_bits() == y.to_bits()));
    }
    Ok(())
}
