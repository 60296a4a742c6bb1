//! `cargo run --release --example cholesky_rate -- N TILE f32|f64 WORKERS [REPEATS] [SCHED] [LOOK_LEFT]`: one line of figures.

use zellige_kernels::StorageFormat;
use zellige_linalg::bench::{CholeskyBench, cholesky_rate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| arguments.get(i).cloned().unwrap_or(default.into());
    let bench = CholeskyBench {
        n: argument(0, "2048").parse()?,
        tile: argument(1, "256").parse()?,
        fuse_updates: argument(6, "1").parse()?,
        format: if argument(2, "f32") == "f64" { StorageFormat::F64 } else { StorageFormat::F32 },
        workers: argument(3, "2").parse()?,
        repeats: argument(4, "5").parse()?,
        sched: argument(5, "lws"),
    };
    let rate = cholesky_rate(&bench)?;
    println!("{bench:?}");
    println!("{rate:#?}");
    Ok(())
}
