//! Rate of the covariance generator on one thread: `cargo run --release -p zellige-tor --example
//! covariance_rate [system.toml]`.
//!
//! It prints entries per second for the three kinds of block (same altitude: offset table; laser
//! with natural star: direct) and for the whole lower triangle, tile by tile.

use std::path::Path;
use std::time::Instant;
use zellige_tor::params::{Mode, read};
use zellige_tor::{Covariance, Kind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/systems/demo.toml").into());
    let profile = std::env::args().nth(2);
    let input = read(Path::new(&path), profile.as_deref().map(Path::new), Mode::Lenient)?;
    let start = Instant::now();
    let cov = Covariance::new(&input.system, &input.atmosphere)?;
    println!("preparation        {:8.3} s", start.elapsed().as_secs_f64());
    let (blocks, n) = (cov.geometry().blocks(), cov.measurements());
    let (first, last) = (blocks[0], blocks[blocks.len() - 1]);
    let tile = 1024.min(first.len).min(last.len);
    for (what, row, col) in [
        ("laser x, laser x", first.start, first.start),
        ("star y, star y", last.start, last.start),
        ("star y, laser x", last.start, first.start),
        ("star x, laser x", blocks[blocks.len() - 2].start, first.start),
        ("star y, laser y", last.start, blocks[1].start),
    ] {
        let mut out = vec![0f32; tile * tile];
        let start = Instant::now();
        let mut repeats = 0;
        while start.elapsed().as_secs_f64() < 0.3 {
            cov.fill(Kind::Cmm, row..row + tile, col..col + tile, &mut out, tile)?;
            repeats += 1;
        }
        println!(
            "{what:<18} {:8.1} million entries/s",
            (repeats * tile * tile) as f64 / start.elapsed().as_secs_f64() / 1e6
        );
    }
    if n <= 12_000 {
        let tile = 512;
        let mut out = vec![0f32; tile * tile];
        let (start, mut entries) = (Instant::now(), 0);
        for row in (0..n).step_by(tile) {
            for col in (0..=row).step_by(tile) {
                let (rows, cols) = (row..n.min(row + tile), col..n.min(col + tile));
                entries += rows.len() * cols.len();
                cov.fill(Kind::Cmm, rows, cols, &mut out, tile)?;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "lower triangle     {:8.1} million entries/s ({seconds:.3} s for n = {n})",
            entries as f64 / seconds / 1e6
        );
    }
    Ok(())
}
