//! A matrix by blocks: tasks write its tiles concurrently, then it is one matrix again; views show
//! an earlier version of it.
//!
//! `cargo run --release -p zellige-runtime --example split`

use std::time::Instant;

use zellige_runtime::split::{Block, split_evenly};
use zellige_runtime::{Bindings, Buffer, Error, Runtime, Submit, read, update};

/// Number of rows and columns of the matrix, and of its tiles.
const N: usize = 4096;
const TILE: usize = 1024;

fn main() -> Result<(), Error> {
    let rt = Runtime::new()?;
    // Element (i, j), at index i + j N, is i.
    let mut matrix = Buffer::<f64>::zeroed(N * N);
    matrix.chunks_mut(N).for_each(|column| column.iter_mut().enumerate().for_each(|(i, x)| *x = i as f64));
    let a = rt.register(matrix).named("A");

    // Read-only views of the first and the last rows: later tasks do not change them.
    let edges = rt.views(&a, [Block::new(0..2, 0..N, N), Block::new(N - 2..N, 0..N, N)])?;

    // Each tile is a handle of its own. Neither this call nor `join` waits.
    let tiles = rt.split(&a, Block::tiles((N, N), N, (TILE, TILE))?)?;
    for (tile, block) in tiles.handles().iter().zip(tiles.regions()) {
        // A tile holds its columns without padding: its leading dimension is its number of rows.
        let (rows, first) = (block.rows.len(), block.cols.start);
        rt.task("scale")
            .operands((update(tile),))
            .cpu(move |(tile,)| {
                for (j, column) in tile.chunks_mut(rows).enumerate() {
                    column.iter_mut().for_each(|x| *x *= (first + j) as f64);
                }
            })
            .submit()?;
    }
    // The matrix cannot be named while it is split.
    if let Err(error) = rt.read(&a) {
        println!("as expected: {error}");
    }
    // A part can be split again: the first tile by ranges of whole columns.
    let columns = rt.split(
        &tiles.handles()[0],
        split_evenly(TILE, 4).into_iter().map(|c| c.start * TILE..c.end * TILE),
    )?;
    for part in columns.handles() {
        rt.task("negate")
            .operands((update(part),))
            .cpu(|(part,)| part.iter_mut().for_each(|x| *x = -*x))
            .submit()?;
    }
    columns.join()?;
    tiles.join()?;

    let at = |i: usize, j: usize| Ok::<f64, Error>(rt.read(&a)?[i + j * N]);
    println!("A(3, 5) = {}, A({TILE}, 5) = {}", at(3, 5)?, at(TILE, 5)?);
    println!("the views still show {} and {}", rt.read(&edges[0])?[1], rt.read(&edges[1])?[1]);

    // The cost: every element is copied out and back.
    let copied = rt.register(Buffer::<f64>::zeroed(N * N));
    let copy =
        || rt.task("copy").operands((read(&a), update(&copied))).cpu(|(a, b)| b.copy_from_slice(a)).submit();
    let seconds = |work: &dyn Fn() -> Result<(), Error>| {
        let start = Instant::now();
        work()?;
        rt.wait_all()?;
        Ok::<f64, Error>(start.elapsed().as_secs_f64())
    };
    let best = |work: &dyn Fn() -> Result<(), Error>| {
        (0..5).try_fold(f64::INFINITY, |best, _| Ok::<f64, Error>(best.min(seconds(work)?)))
    };
    let plain = best(&|| copy().map(drop))?;
    let tiles = Block::tiles((N, N), N, (TILE, TILE))?;
    let there_and_back = best(&|| rt.split(&a, tiles.iter().cloned())?.join())?;
    // Replays reuse the tiles of the previous replay, and their memory.
    let graph = rt.record(|g| g.split(&a, tiles.iter().cloned())?.join())?;
    let replayed = best(&|| rt.replay(&Bindings::recorded(&graph)).map(drop))?;
    println!(
        "splitting and joining takes as long as {:.1} copies of the matrix by one core ({:.1} GB/s), replayed {:.1}",
        there_and_back / plain,
        16e-9 * (N * N) as f64 / plain,
        replayed / plain
    );
    Ok(())
}
