//! Conjugate gradients whose residuals and directions are stored in few bits: what each part of the stabilisation does.
//!
//! `cargo run --release -p zellige-sparse --example narrow_vectors [-- MATRIX.mtx]`

use std::path::Path;
use std::sync::Arc;

use zellige_runtime::Runtime;
use zellige_sparse::generate::{Elasticity, Elements, elasticity};
use zellige_sparse::krylov::{
    Cg, Error, Packed, ReliableUpdates, Solve, Space, Stabilisation, Stop, Trigger, Updates, solve,
};
use zellige_sparse::market::read;
use zellige_sparse::precondition::Ilu;
use zellige_sparse::{Csr, Stored};

fn main() -> Result<(), Error> {
    let a = match std::env::args().nth(1) {
        Some(path) => read(Path::new(&path))?.matrix,
        None => elasticity(&Elasticity { elements: Elements([12; 3]), ..Elasticity::default() })?,
    };
    let (rt, space) = (Runtime::new()?, Space::new(a.rows(), a.bytes()));
    let (exact, ilu) = (Stored::exact(&rt, &space, &a)?, Ilu::new(&rt, &space, &a)?);
    let problem = Solve { preconditioner: Some(&ilu), ..Solve::new(&rt, &exact) };
    let b: Vec<f64> = (0..a.rows()).map(|i| (i % 7) as f64 - 3.0).collect();
    let stop = [Stop::RelativeToRhs(1e-10), Stop::Steps(5000)];
    println!("{} unknowns, {} nonzeros, to 1e-10 of the right-hand side", a.rows(), Csr::elements(&a));
    println!(
        "{:>8} {:>14} {:>14} {:>10} {:>6} {:>5}  end",
        "vectors", "Polak-Ribiere", "wide solution", "projection", "steps", "runs"
    );
    let mut settings = vec![("fp64", [false, true, false])];
    for format in ["fp32", "rp24", "rp16"] {
        for parts in [[true; 3], [false, true, true], [true, false, true], [true, true, false], [false; 3]] {
            settings.push((format, parts));
        }
    }
    for (format, [flexible, wide_solution, projection]) in settings {
        let storage = Arc::new(format.parse::<Packed>()?);
        let stabilisation = Stabilisation { wide_solution, projection, ..Stabilisation::default() };
        let updates = Updates { trigger: Trigger::Reduction(0.1), storage, stabilisation };
        let method = ReliableUpdates { method: Cg { flexible }, exact: &exact, updates };
        let mut x = vec![0.0; a.rows()];
        let found = solve(&problem, &method, &b, &mut x, &stop[..], &mut ())?;
        let mark = |is: bool| if is { "yes" } else { "-" };
        println!(
            "{format:>8} {:>14} {:>14} {:>10} {:>6} {:>5}  {} ({:.1e})",
            mark(flexible),
            mark(wide_solution),
            mark(projection),
            found.steps,
            found.runs,
            found.reason.name(),
            found.true_residual / found.rhs
        );
    }
    Ok(())
}
