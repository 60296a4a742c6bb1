//! A Cholesky factorisation in one process or on all ranks that mpirun has started, by the same
//! function.
//!
//! `cholesky_ranks [n] [tile] [fp64|fp32] [workers] [times]`, with the feature `mpi`. Prints the
//! median rate, and what each rank has sent.

use std::time::Instant;

use zellige::dense::{
    Generator, Rule, SharedPolicy, SymmetricTiled, TileGrid, TileScalar, backward_error, cholesky, generator,
};
use zellige::mpi::{BlockCyclic, Cluster, Distribution, Mpi};
use zellige::runtime::{Runtime, Session};

/// Entry of the matrix: `1 / (1 + |i - j|)` off the diagonal, `1 + n` on it.
fn entry(n: usize, i: usize, j: usize) -> f64 {
    if i == j { 1.0 + n as f64 } else { 1.0 / (1.0 + i.abs_diff(j) as f64) }
}

/// Generator of the whole matrix.
fn matrix<T: TileScalar>(n: usize) -> Generator<T> {
    generator(move |rows, columns, out: &mut [T], ld: usize| {
        for (c, j) in columns.enumerate() {
            rows.clone().enumerate().for_each(|(r, i)| out[r + c * ld] = T::from_f64(entry(n, i, j)));
        }
    })
}

/// Program of every rank: generates the tiles, factorises them, and evaluates the factor. Returns
/// the seconds of each factorisation and the backward error.
fn factorise<T: TileScalar, S: Session>(
    s: &S,
    [n, tile, times]: [usize; 3],
    rule: &str,
) -> Result<(Vec<f64>, f64), Box<dyn std::error::Error>> {
    let policy: SharedPolicy = rule.parse::<Rule>()?.into();
    let a = SymmetricTiled::<T>::new(s, TileGrid::uniform(n, tile)?);
    let owners = BlockCyclic::of(s.ranks());
    for j in 0..a.tiles() {
        (j..a.tiles()).try_for_each(|i| s.set_owner(a.tile(i, j), owners.owner(i, j)))?;
    }
    let mut seconds = Vec::new();
    for _ in 0..times {
        a.fill(s, &matrix(n))?;
        s.wait_all()?;
        let begin = Instant::now();
        cholesky(s, &a, &policy)?;
        s.wait_all()?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    // Exact up to n = 8192, at the cost of a factorisation.
    let error = if n <= 2048 { backward_error(s, &a, &matrix(n))?.value } else { f64::NAN };
    Ok((seconds, error))
}

/// Runs in the element type of the rule.
fn run<S: Session>(
    s: &S,
    sizes: [usize; 3],
    rule: &str,
) -> Result<(Vec<f64>, f64), Box<dyn std::error::Error>> {
    match rule {
        "fp64" => factorise::<f64, S>(s, sizes, rule),
        "fp32" => factorise::<f32, S>(s, sizes, rule),
        other => Err(format!("{other}: fp64 or fp32").into()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| -> Result<usize, std::num::ParseIntError> {
        arguments.get(at).map_or(Ok(usual), |text| text.parse())
    };
    let rule = arguments.get(2).map_or("fp64", String::as_str);
    let (n, tile, workers, times) = (number(0, 1024)?, number(1, 128)?, number(3, 1)?, number(4, 3)?.max(1));
    let mpi = Mpi::initialize()?;
    // The cores are not one rank's alone.
    let runtime = Runtime::builder().workers(workers).bind(mpi.ranks() == 1).build()?;
    let ((mut seconds, error), sent) = if mpi.ranks() == 1 {
        (run(&runtime, [n, tile, times], rule)?, 0)
    } else {
        let cluster = Cluster::new(runtime, mpi.transport()?)?;
        let done = run(&cluster, [n, tile, times], rule)?;
        (done, cluster.traffic().sent_bytes)
    };
    seconds.sort_by(f64::total_cmp);
    let rate = (n as f64).powi(3) / 3.0 / seconds[seconds.len() / 2] / 1e9;
    println!(
        "zellige rank {} of {}: n {n}, tiles of {tile}, {rule}, {workers} worker(s): {rate:.1} Gflop/s, least time {:.3} s, \
         {sent} bytes sent, backward error {error:.1e}",
        mpi.rank(),
        mpi.ranks(),
        seconds[0]
    );
    Ok(())
}
