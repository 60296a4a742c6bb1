//! faer: its own Cholesky factorisation. Usage: `peer_faer_llt n f32|f64 [workers]`.
//!
//! Prints `faer cholesky format n - workers gflops gflops_per_cpu_s - -`, with n^3 / 3 operations.
//! More than one worker needs the feature `faer-rayon` of this crate: faer's parallelism is off
//! elsewhere, so that results do not hang on a number of threads.

mod clock;

use clock::Stamp;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor;
use faer::traits::RealField;
use faer::{Mat, Par};
use std::process::ExitCode;

/// The test matrix of every Cholesky here: 1 / (1 + |i - j|) off the diagonal, 1 + n on it.
fn entry(n: usize, i: usize, j: usize) -> f64 {
    if i == j { 1.0 + n as f64 } else { 1.0 / (1.0 + i.abs_diff(j) as f64) }
}

fn par(workers: usize) -> Option<Par> {
    match workers {
        1 => Some(Par::Seq),
        #[cfg(feature = "faer-rayon")]
        2.. => Some(Par::rayon(workers)),
        _ => None,
    }
}

/// Time of the second of two factorisations. A factor off by more than `tolerance` of the largest
/// entry is an error.
fn measure<T: RealField + Copy>(
    n: usize,
    par: Par,
    tolerance: f64,
    of: impl Fn(f64) -> T,
    back: impl Fn(T) -> f64,
) -> Result<Stamp, String> {
    let mut spent = Stamp { cpu: 0.0, wall: 0.0 };
    let mut memory = MemBuffer::new(factor::cholesky_in_place_scratch::<T>(n, par, Default::default()));
    for _ in 0..2 {
        // The first round warms up.
        let mut a = Mat::from_fn(n, n, |i, j| of(entry(n, i, j)));
        let from = Stamp::now();
        factor::cholesky_in_place(
            a.as_mut(),
            Default::default(),
            par,
            MemStack::new(&mut memory),
            Default::default(),
        )
        .map_err(|e| format!("the factorisation failed: {e:?}"))?;
        spent = from.elapsed();
        // One row of L L^T, the longest sums there are.
        let i = n - 1;
        for j in (0..n).step_by(n.div_ceil(64)) {
            let sum: f64 = (0..=j).map(|k| back(a[(i, k)]) * back(a[(j, k)])).sum();
            let error = (sum - entry(n, i, j)).abs() / (1.0 + n as f64);
            if error.is_nan() || error > tolerance {
                return Err(format!(
                    "wrong factor: entry ({i}, {j}) of L L^T is off by {error:.1e} of the largest"
                ));
            }
        }
    }
    Ok(spent)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match words.as_slice() {
        [n, format] => n.parse().ok().map(|n: usize| (n, format.as_str(), 1)),
        [n, format, workers] => {
            n.parse().ok().zip(workers.parse().ok()).map(|(n, w)| (n, format.as_str(), w))
        }
        _ => None,
    };
    let Some((n @ 1.., format @ ("f32" | "f64"), workers @ 1..)) = parsed else {
        eprintln!("usage: peer_faer_llt n f32|f64 [workers], n and workers >= 1");
        return ExitCode::from(2);
    };
    let Some(par) = par(workers) else {
        eprintln!("faer runs with one worker only here; build with --features faer-rayon for more");
        return ExitCode::from(2);
    };
    let spent = match format {
        "f32" => measure(n, par, 1e-5, |x| x as f32, f64::from),
        _ => measure(n, par, 1e-14, |x| x, |x| x),
    };
    match spent {
        Ok(spent) => {
            let gflop = (n as f64).powi(3) / 3e9;
            println!(
                "faer cholesky {format} {n} - {workers} {:.2} {:.2} - -",
                gflop / spent.wall,
                gflop / spent.cpu
            );
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
