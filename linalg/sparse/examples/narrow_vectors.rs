//! Conjugate gradients whose residuals and directions are stored in few bits: what each part of the
//! stabilisation does, and what a buffer of directions saves.
//!
//! `cargo run --release -p zellige-sparse --example narrow_vectors [-- MATRIX.mtx]`
//! `cargo run --release -p zellige-sparse --example narrow_vectors -- --buffers CELLS`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use zellige_runtime::Runtime;
use zellige_sparse::files::read_real;
use zellige_sparse::generate::{Elasticity, Elements, Flow, elasticity, flow};
use zellige_sparse::krylov::{
    Cg, Error, Packed, ReliableUpdates, Solve, Space, Stabilisation, Stop, Trigger, Updates, solve,
};
use zellige_sparse::precondition::Ilu;
use zellige_sparse::{Csr, Stored, adaptive::Adaptation};

fn main() -> Result<(), Error> {
    let a = match std::env::args().nth(1) {
        Some(option) if option == "--buffers" => return buffers(),
        Some(path) => read_real(Path::new(&path))?,
        None => elasticity(&Elasticity { elements: Elements([12; 3]), ..Elasticity::default() })?,
    };
    let (rt, space) = (Runtime::new()?, Space::new(a.rows(), a.bytes()));
    let (exact, ilu) = (Stored::exact(&rt, &space, &a)?, Ilu::new(&rt, &space, &a)?);
    let problem = Solve { preconditioner: Some(&ilu), ..Solve::new(&rt, &exact) };
    let b: Vec<f64> = (0..a.rows()).map(|i| (i % 7) as f64 - 3.0).collect();
    let stop = [Stop::RelativeToRhs(1e-10), Stop::Steps(5000)];
    println!("{} unknowns, {} nonzeros, to 1e-10 of the right-hand side", a.rows(), Csr::nonzeros(&a));
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
        let updates = Updates { trigger: Trigger::Reduction(0.1), storage, stabilisation, buffer: 1 };
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

/// Steps in a run, and runs of each setting, in turns.
const STEPS: usize = 64;
const RUNS: usize = 7;

/// Prints the least time of a step of conjugate gradients without a preconditioner, with buffers of
/// several lengths.
fn buffers() -> Result<(), Error> {
    let cells = std::env::args().nth(2).and_then(|cells| cells.parse().ok()).unwrap_or(100);
    let a = flow(&Flow { cells: [cells; 3], spread: 0.5, ..Flow::default() })?;
    let (rt, space) = (Runtime::new()?, Space::new(a.rows(), a.bytes()));
    let exact = Stored::exact(&rt, &space, &a)?;
    let inner = Stored::new(&rt, &space, &a, 1, &Adaptation::single())?;
    let problem = Solve { inner: &inner, ..Solve::new(&rt, &exact) };
    let b: Vec<f64> = (0..a.rows()).map(|i| (i % 7) as f64 - 3.0).collect();
    let stop = [Stop::RelativeToRhs(1e-30), Stop::Steps(STEPS)];
    println!("{} unknowns, {} workers: ms for a step, least of {RUNS}", a.rows(), rt.workers());
    for format in ["fp64", "fp32", "rp24", "rp16"] {
        let mut least = [1, 2, 4, 8].map(|buffer| (buffer, f64::INFINITY));
        for _ in 0..RUNS {
            for (buffer, least) in &mut least {
                let updates = Updates { buffer: *buffer, ..Updates::new(1e-3, format.parse::<Packed>()?) };
                let method = ReliableUpdates { method: Cg { flexible: true }, exact: &exact, updates };
                let (mut x, begun) = (vec![0.0; a.rows()], Instant::now());
                let found = solve(&problem, &method, &b, &mut x, &stop[..], &mut ())?;
                *least = least.min(1e3 * begun.elapsed().as_secs_f64() / found.steps as f64);
            }
        }
        let least = least.map(|(buffer, time)| format!("{buffer}: {time:.3}")).join("  ");
        println!("{format:>8}  {least}");
    }
    Ok(())
}
