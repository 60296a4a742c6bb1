//! A covariance matrix, factored with half-precision tile products: `cargo run --release --example
//! mixed_cholesky`.

use zellige_dense::{
    Error, Generator, RetryLadder, Rule, SymmetricTiled, TileGrid, backward_error, cholesky, generator,
};
use zellige_runtime::Runtime;

const N: usize = 1536;

/// Returns an exponential correlation along a line, with a common offset (which couples
/// everything), and a little noise.
fn covariance(i: usize, j: usize) -> f64 {
    let distance = i.abs_diff(j) as f64 / 40.0;
    (-distance).exp() + 2.0 + if i == j { 5e-3 } else { 0.0 }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 1. A runtime: workers that run tasks when their operands are ready.
    let rt = Runtime::new()?;

    // 2. A matrix is never stored as a whole: tasks generate tiles from a closure over rows and
    //    columns.
    let in_f32: Generator<f32> = generator(|rows, cols, out: &mut [f32], ld: usize| {
        for (c, j) in cols.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = covariance(i, j) as f32;
            }
        }
    });
    let in_f64: Generator<f64> = generator(|rows, cols, out: &mut [f64], ld: usize| {
        for (c, j) in cols.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = covariance(i, j);
            }
        }
    });
    let a = SymmetricTiled::new(&rt, TileGrid::uniform(N, 128)?);

    // 3. Rules say which tile products run in which precision. The last two look at norms of
    //    finished tiles.
    println!("{:<28} {:>7} {:>14}", "rule", "16 bit", "backward error");
    for text in ["fp32", "hp1:band=2", "hp1:operand=1e-3", "x3", "bf1"] {
        // 4. A low precision can lose positive definiteness; the ladder then proposes a rule with
        //    more of it.
        for rule in RetryLadder::new(text.parse::<Rule>()?) {
            a.fill(&rt, &in_f32)?;
            let factor = cholesky(&rt, &a, &rule.clone().into())?;
            match factor.wait(&rt) {
                Ok(()) => {
                    let share = 100.0 * factor.counts().low_share();
                    let error = backward_error(&rt, &a, &in_f64)?.value;
                    println!("{:<28} {share:>6.1}% {error:>14.1e}", rule.to_string());
                    break;
                }
                Err(Error::NotPositiveDefinite(lost)) => println!("{:<28} {lost}", rule.to_string()),
                Err(other) => return Err(other.into()),
            }
        }
    }
    Ok(())
}
