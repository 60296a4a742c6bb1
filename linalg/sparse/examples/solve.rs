//! Solves a system with a matrix whose nonzeros are stored in adaptive precision, and prints the
//! recomputed residuals.
//!
//! `cargo run --release -p zellige-sparse --example solve`

use zellige_runtime::Runtime;
use zellige_sparse::Error;
use zellige_sparse::generate::{Elasticity, Elements, elasticity};
use zellige_sparse::krylov::History;
use zellige_sparse::system::{Inner, MethodChoice, Options, PreconditionerChoice, solve};

fn main() -> Result<(), Error> {
    let a = elasticity(&Elasticity { elements: Elements([12; 3]), ..Elasticity::default() })?;
    let b: Vec<f64> = (0..a.rows()).map(|i| (i % 7) as f64 - 3.0).collect();
    println!("{} unknowns, {} nonzeros, {} bytes as CSR in FP64", a.rows(), a.nonzeros(), a.bytes());

    let rt = Runtime::new()?;
    for inner in ["fp64", "ap7:cw:2^-37", "ap7:cw:2^-24"] {
        let options = Options {
            method: MethodChoice::Cg,
            preconditioner: PreconditionerChoice::Ilu0,
            inner: inner.parse::<Inner>()?,
            ..Options::default()
        };
        let (mut x, mut history) = (vec![0.0; a.rows()], History::default());
        let answer = solve(&rt, &a, &b, &mut x, &options, &mut history)?;
        let stored = if answer.bytes.inner > 0 { answer.bytes.inner } else { answer.bytes.matrix };
        println!("\n{inner}: {} steps with products that read {stored} bytes", answer.solution.steps);
        // The method updates its own residual between these checks; these are norms of b - A x.
        for (steps, residual) in &history.checks {
            println!("  after {steps:>4} steps the true residual is {:.1e}", residual / answer.solution.rhs);
        }
        assert!(answer.solution.reason.is_converged());
    }
    Ok(())
}
