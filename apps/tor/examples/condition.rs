//! Condition number of `Cmm`, and whether float32 resolves it:
//! `cargo run --release -p zellige-tor --example condition -- [SYSTEM] [ATM] [STEPS]`
//!
//! It uses power iteration on `Cmm` for the largest eigenvalue, and inverse iteration with its
//! float64 Cholesky factor for the smallest. Both are Rayleigh quotients, so that the exact
//! condition number is at least the printed one. It is dense on one thread: `24 n^2` bytes, `n^3 /
//! 3` flops.

use std::path::Path;
use zellige_tor::params::{Mode, read};
use zellige_tor::reference::Factor;
use zellige_tor::{Covariance, Error, Kind, Matrix};

/// Returns `x^T f(x) / x^T x` after `steps` steps of `x <- f(x)`.
fn rayleigh(n: usize, steps: usize, f: impl Fn(&Matrix) -> Result<Matrix, Error>) -> Result<f64, Error> {
    // The vector has a component in every direction, and none is preferred.
    let mut x = Matrix::from_fn(n, 1, |i, _| ((i * 7919 + 17) % 101) as f64 - 49.5);
    let mut quotient = 0.0;
    for _ in 0..steps {
        let y = f(&x)?;
        let dot: f64 = x.data().iter().zip(y.data()).map(|(a, b)| a * b).sum();
        quotient = dot / x.norm().powi(2);
        let length = y.norm();
        x = Matrix::from_fn(n, 1, |i, _| y[(i, 0)] / length);
    }
    Ok(quotient)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/systems/demo.toml");
    let input = read(
        Path::new(args.first().map_or(default, String::as_str)),
        args.get(1).map(Path::new),
        Mode::Lenient,
    )?;
    let steps = args.get(2).map_or(Ok(60), |text| text.parse())?;
    let cov = Covariance::new(&input.system, &input.atmosphere)?;
    let n = cov.measurements();
    let factor = Factor::new(&cov)?;
    let smallest = 1.0 / rayleigh(n, steps, |x| factor.solve(x))?;
    drop(factor);
    let cmm = cov.matrix(Kind::Cmm)?;
    let largest = rayleigh(n, steps, |x| cmm.times(x))?;
    let noise = (0..n).map(|i| cmm[(i, i)]).fold(f64::INFINITY, f64::min);
    // Unit round-off: half of the distance from 1 to the next number.
    let limit = 2.0 / f64::from(f32::EPSILON);
    println!("n                       {n}");
    println!("largest eigenvalue      {largest:.4e} arcsec^2 or more");
    println!("smallest eigenvalue     {smallest:.4e} arcsec^2 or less (smallest diagonal entry {noise:.4e})");
    println!("condition number        {:.4e} or more", largest / smallest);
    println!("1 / u of float32        {limit:.4e}");
    println!(
        "float32                 {}",
        if largest / smallest > limit { "cannot resolve the smallest eigenvalues: fp64" } else { "may do" }
    );
    Ok(())
}
